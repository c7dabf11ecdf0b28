"""Verdicts as sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mallow.explain import Reason, verdict_text
from mallow.results import at_least, at_most


@pytest.mark.parametrize(
    ("p_value", "most", "text"),
    [
        (1e-9, 0.4012, "The gap is real: with 95% confidence MAUVE is at most 0.4012 (p < 1e-5)."),
        (0.0312, 0.98765, "The gap is real: with 95% confidence MAUVE is at most 0.9877 (p = 0.031)."),
        (0.0312, 0.9951, "The gap is real: with 95% confidence MAUVE is at most 0.9951 (p = 0.031)."),
        (1e-9, 0.0321, "The gap is real: with 95% confidence MAUVE is at most 0.0321 (p < 1e-5)."),
        (0.0312, 1.0, "The gap is real (p = 0.031), but too small to be measured with this few samples."),
        (1e-9, 0.13001, "The gap is real: with 95% confidence MAUVE is at most 0.1301 (p < 1e-5)."),
        (0.0312, 0.99991, "The gap is real (p = 0.031), but too small to be measured with this few samples."),
        (0.05, 1.0, "No gap was shown with this embedder and this many samples (1,000 and 500; p = 0.05)."),
    ],
)
def test_a_verdict_says_what_is_certain(p_value, most, text):
    assert verdict_text(p_value, most, (1000, 500)) == text


@given(st.floats(1e-12, 1.0))
def test_limits_stay_true_when_rounded(value):
    assert 0 <= float(at_most(value)) - value <= 1e-4
    assert 0 <= value - float(at_least(value)) <= 1e-4


def test_three_reasons_follow_a_gap_that_is_real():
    reasons = [Reason("trait", text, 0.01, 0.02, {"explained": 0.1}) for text in ("one", "two", "three", "four")]
    for most in (0.41, 1.0):
        alone = verdict_text(0.01, most, (1000, 500))
        assert verdict_text(0.01, most, (1000, 500), reasons) == f"{alone} Telltale signs: one; two; three."
        assert verdict_text(0.01, most, (1000, 500), reasons[:1]) == f"{alone} Telltale signs: one."
        assert verdict_text(0.06, most, (1000, 500), reasons) == verdict_text(0.06, most, (1000, 500))
