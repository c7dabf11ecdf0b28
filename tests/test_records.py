"""How recorded results are compared."""

from records import changes


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
