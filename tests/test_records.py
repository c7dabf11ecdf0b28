"""How recorded results are compared."""

import pytest

from records import changes, check_unchanged


def test_changes_are_one_line_per_field():
    old = {"scores": [0.5, 0.25], "verdict": "a gap", "n": 3}
    assert changes(old, old) == []
    assert changes({"scores": [0.5 + 1e-9, 0.25], "verdict": "a gap", "n": 3}, old, absolute=1e-8) == []
    assert changes({"scores": [0.5, 0.5], "verdict": "none", "m": 3}, old) == [
        "/m: new",
        "/n: gone",
        "/scores: 0.25 → 0.5 (by 0.25)",
        "/verdict: 'a gap' → 'none'",
    ]


def test_a_difference_fails_with_a_line_for_each_field():
    old = {"scores": [0.5, 0.25], "verdict": "a gap"}
    check_unchanged({**old, "scores": [0.5 + 1e-9, 0.25]}, old, absolute=1e-8)
    with pytest.raises(AssertionError) as told:
        check_unchanged({"scores": [0.8, 0.5], "verdict": "none"}, old)
    assert str(told.value).splitlines()[1:] == [
        "/scores: 0.5 → 0.8 (by 0.3, the largest of 2 changes)",
        "/verdict: 'a gap' → 'none'",
    ]
    with pytest.raises(AssertionError, match=r"/scores: 0\.5 → 0\.500000001"):
        check_unchanged({**old, "scores": [0.5 + 1e-9, 0.25]}, old, absolute=1e-8, exact="/scores")
