"""Evidence about small sets of every layout is what was recorded: numbers do not change silently.

The other tests say what is right; this one notices what they leave open, such as which samples are in which fold.
"""

import importlib
import json

import pytest
from pytest import approx

from recorded_evidence import CASES, PATH, run

RECORDED = json.loads(PATH.read_text(encoding="utf-8"))


def flat(value, path=""):
    """All numbers inside, by their place."""
    if isinstance(value, dict):
        return {key: one for name, own in value.items() for key, one in flat(own, f"{path}/{name}").items()}
    if isinstance(value, list):
        return {key: one for place, own in enumerate(value) for key, one in flat(own, f"{path}/{place}").items()}
    return {path: value}


BLOCKS = {  # sizes of blocks: they decide about time and memory, never about numbers
    "_blocks": {"ROWS": 5},
    "_certificate": {"_ROWS": 3},
    "_identity": {"ROWS": 3, "_PERMUTATIONS": 7, "_FEW_PERMUTATIONS": 4},
    "_leave_out": {"_NUMBERS": 1},
    "_many": {"ROWS": 6},
    "_many_rules": {"_ROOTS": 1},
    "_many_sums": {"ROWS": 6, "_PART": 2},
    "_many_test": {"_ATOMS": 5},
    "_partitions": {"ROWS": 6},
    "_rows": {"ROWS": 6},
    "_space": {"ROWS": 6, "_LARGE": 5},
    "_unit_views": {"_ROWS": 6},
    "_witness": {"_NUMBERS": 1},
}


def test_all_cases_are_recorded():
    assert list(RECORDED) == list(CASES)


def check(found, recorded):
    found, recorded = flat(found), flat(recorded)
    assert list(found) == list(recorded)
    for place, value in recorded.items():
        # Scores are whole numbers of steps, the same everywhere; other numbers may be rounded differently in the last digits.
        assert found[place] == (value if "scores" in place else approx(value, rel=1e-6, abs=1e-9)), place


@pytest.mark.parametrize("name", CASES)
def test_recorded_evidence_comes_back(name):
    check(run(name), RECORDED[name])


@pytest.mark.parametrize(
    "name", ["units_of_all_sizes", "more_columns_than_rows", "odd_columns", "many_pairs", "many_single_samples"]
)
def test_blocks_of_any_size_give_the_same_evidence(name, monkeypatch):
    for module, constants in BLOCKS.items():
        for constant, value in constants.items():
            monkeypatch.setattr(importlib.import_module(f"mallow.evidence.{module}"), constant, value)
    check(run(name), RECORDED[name])
