"""The noise of a measure: that of a mean is the textbook's, and nothing inside of it is marked."""

import math

import numpy as np
import pytest

from mallow.baselines import Row, Table, table
from mallow.baselines._groups import GROUPS, _half, accuracy_noise, main_measures, sampling_noise
from mallow.errors import InputError
from mallow.samples import Samples


def test_leaving_out_groups_gives_the_error_of_a_mean():
    values = np.random.default_rng(0).normal(size=GROUPS * 50)
    groups = values.reshape(GROUPS, -1)
    replicates = [np.delete(groups, place, axis=0).mean() for place in range(GROUPS)]
    error = groups.mean(axis=1).std(ddof=1) / math.sqrt(GROUPS)
    assert _half(replicates) == pytest.approx(2.3646 * error)


def test_noise_falls_with_the_number_of_samples():
    rng = np.random.default_rng(0)
    half = []
    for size in (80, 1280):
        x, y = (Samples(features=rng.normal(size=(size, 2))) for _ in range(2))
        half.append(sampling_noise(x, y, ["Fréchet distance"], {"Fréchet distance": 0.0}, "whitespace", 0))
    assert half[1]["Fréchet distance"][0] < half[0]["Fréchet distance"][0] / 2


def test_the_noise_of_an_accuracy_is_that_of_its_tests():
    x, y = (
        Samples(features=np.random.default_rng(seed).normal(size=(400, 2)), ids=[f"{seed}-{i}" for i in range(400)])
        for seed in (1, 2)
    )
    assert accuracy_noise(x, y, 0.5)[0] == pytest.approx(1.96 * math.sqrt(0.25 / 200), rel=1e-6)
    assert 0 < accuracy_noise(x, y, 1.0)[0] < 0.03


def test_a_lead_inside_the_noise_is_not_marked():
    values = {"a": {"m": 0.10}, "b": {"m": 0.15}, "c": {"m": 0.9}}
    one = Table((Row("m", "features", 0.0),), values, {"": 9}, "e")
    assert (one.leader("m"), one.closest("m")) == (("a",), ("a",))
    near = Table(one.rows, values, one.n, "e", noise={name: {"m": (0.2, 0.04)} for name in values})
    assert (near.leader("m"), near.closest("m")) == ((), ("a",))
    clear = Table(one.rows, values, one.n, "e", noise={name: {"m": (0.2, 0.03)} for name in values})
    assert clear.leader("m") == ("a",)
    assert "0.1 ±0.2*" in str(clear)
    assert "* closest to the reference, by more than that noise" in str(clear)
    assert clear._records()[0]["half_width"] == 0.2
    assert Table.from_json(clear.to_json()) == clear
    unknown = Table(one.rows, values, one.n, "e", noise={"a": {}, "b": {}, "c": {}})
    assert unknown.leader("m") == ()


def test_eight_rows(monkeypatch):
    rng = np.random.default_rng(0)
    human, near, far = (rng.normal(shift, 1, size=(120, 3)) for shift in (0, 0, 2))
    made = table(human, {"near": near, "far": far}, repeats=1, rows="main")
    assert [row.name for row in made.rows] == list(main_measures("features"))
    assert len(made.rows) == len(main_measures("text")) == 8
    assert all(set(own) == {row.name for row in made.rows} for own in made.noise.values())
    assert made.leader("Fréchet distance") == ("near",)
    with pytest.raises(InputError, match=r"^`rows` must be 'all', 'main' or 'all with noise'; got 'few'\.$"):
        table(human, {"near": near}, rows="few")
