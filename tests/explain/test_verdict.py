"""Verdicts as sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mallow.explain import Reason, verdict_text
from mallow.explain._reason import _limit_text


@pytest.mark.parametrize(
    ("p_value", "most", "text"),
    [
        (1e-9, 0.4012, "The gap is real: with 95 % confidence MAUVE is at most 0.41 (p < 1e-5)."),
        (0.0312, 0.98765, "The gap is real: with 95 % confidence MAUVE is at most 0.99 (p = 0.031)."),
        (0.0312, 0.9951, "The gap is real: with 95 % confidence MAUVE is at most 0.996 (p = 0.031)."),
        (1e-9, 0.0321, "The gap is real: with 95 % confidence MAUVE is at most 0.033 (p < 1e-5)."),
        (0.0312, 1.0, "The gap is real (p = 0.031), but too small to be measured with so few samples."),
        (0.05, 1.0, "No gap was found (p = 0.05): these 1,000 and 500 samples cannot be told apart."),
        (
            0.08,
            0.91,
            "The evidence is mixed: the test finds no gap (p = 0.08), but held-out samples put MAUVE at 0.91 at most, with "
            "95 % confidence. More samples would decide.",
        ),
    ],
)
def test_a_verdict_says_what_is_certain(p_value, most, text):
    assert verdict_text(p_value, most, (1000, 500)) == text


@given(st.floats(1e-12, 1.0))
def test_at_most_stays_true_when_rounded(high):
    text = _limit_text(high)
    if text is None:
        assert high > 0.9999
    else:
        assert high <= float(text) < 1
        assert float(text) - high <= max(0.1 * high, 1e-4) or high > 0.99


def test_three_reasons_follow_a_gap_that_is_real():
    reasons = [Reason("trait", text, 0.01, 0.02, {"explained": 0.1}) for text in ("one", "two", "three", "four")]
    for most in (0.41, 1.0):
        alone = verdict_text(0.01, most, (1000, 500))
        assert verdict_text(0.01, most, (1000, 500), reasons) == f"{alone} What gives it away: one; two; three."
        assert verdict_text(0.01, most, (1000, 500), reasons[:1]) == f"{alone} What gives it away: one."
        assert verdict_text(0.06, most, (1000, 500), reasons) == verdict_text(0.06, most, (1000, 500))
