"""Evidence about small sets of every layout is what was recorded: numbers do not change silently.

The other tests say what is right; this one notices what they leave open, such as which samples are in which fold.
"""

import importlib
import json

import pytest

from recorded_evidence import CASES, PATH, run
from records import check_unchanged

pytestmark = pytest.mark.all_permutations

RECORDED = json.loads(PATH.read_text(encoding="utf-8"))


BLOCKS = {  # sizes of blocks: they decide about time and memory, never about numbers
    "_blocks": {"ROWS": 5},
    "_certificate": {"_ROWS": 3},
    "_atoms": {"ROWS": 3},
    "_pass_learner": {"ROWS": 6},
    "_rules": {"ROWS": 6},
    "_many_test": {"_ATOMS": 5},
    "_space": {"ROWS": 6, "_LARGE": 5, "_NUMBERS": 1},
}


def test_all_cases_are_recorded():
    assert list(RECORDED) == list(CASES)


def check(found, recorded):
    # Scores are whole numbers of steps, the same everywhere; other numbers may be rounded differently in the last digits.
    check_unchanged(found, recorded, relative=1e-6, absolute=1e-9, exact="/scores")


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
