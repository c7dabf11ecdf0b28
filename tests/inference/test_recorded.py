"""Evidence about small sets of every layout is what was recorded: numbers do not change silently.

The other tests say what is right; this one notices what they leave open, such as which samples are in which fold.
"""

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


def test_all_cases_are_recorded():
    assert list(RECORDED) == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_recorded_evidence_comes_back(name):
    found, recorded = flat(run(name)), flat(RECORDED[name])
    assert list(found) == list(recorded)
    for place, value in recorded.items():
        # Scores are whole numbers of steps, the same everywhere; other numbers may be rounded differently in the last digits.
        assert found[place] == (value if "scores" in place else approx(value, rel=1e-6, abs=1e-9)), place
