"""Shards and engines on the command line: the same score, however it is computed."""

import json

import numpy as np
import pytest

from shard_files import write_shards

COMMAND = "score x y --bins 20 --repeats 1 -q --format json"


@pytest.fixture
def shards(home):
    rng = np.random.default_rng(0)
    for name, shift in (("x", 0.0), ("y", 0.3)):
        write_shards(home / name, rng.normal(shift, 1.0, size=(1100, 4)), [300, 700])
    return home


def test_an_engine_changes_nothing(mallow, shards):
    code, alone, _ = mallow(COMMAND)
    assert code == 0
    assert mallow(f"{COMMAND} --engine threads --checkpoint kept")[:2] == (0, alone)
    assert not list((shards / "kept").iterdir())


def test_some_rows_are_clustered(mallow, shards):
    code, out, _ = mallow(f"{COMMAND} --sample 500")
    assert code == 0
    assert "sample=500" in json.loads(out)["signature"]["measure"]


def test_what_cannot_be_used(refused, shards):
    refused("score x y --engine spark", 1, "`engine` must be None, 'ray', the address of a cluster")
    refused("score x y --engine ray://127.0.0.1:9", 1, "no Ray cluster answers at ray://127.0.0.1:9")
    refused("score x z/*.npy", 1, "z/*.npy: matches no file.")
    refused("compare x y --sample 100 --estimator neighbors", 2, "--sample is for estimators that quantise")
