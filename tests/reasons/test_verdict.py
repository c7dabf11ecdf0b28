"""Verdicts as sentences."""

import pytest

from mallow.reasons import Reason, list_reasons, verdict_text


@pytest.mark.parametrize(
    ("p_value", "most", "text"),
    [
        (1e-9, 0.4012, "The gap is real: with 95 % confidence MAUVE is at most 0.41 (p < 1e-6)."),
        (0.0312, 0.98765, "The gap is real: with 95 % confidence MAUVE is at most 0.99 (p = 0.031)."),
        (0.0312, 0.9951, "The gap is real: with 95 % confidence MAUVE is at most 0.996 (p = 0.031)."),
        (1e-9, 0.0321, "The gap is real: with 95 % confidence MAUVE is at most 0.033 (p < 1e-6)."),
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


def test_three_reasons_make_a_sentence():
    reasons = [Reason("trait", text, 0.01, 0.02, {"explained": 0.1}) for text in ("one", "two", "three", "four")]
    assert list_reasons(reasons) == "What gives it away: one; two; three."
    assert list_reasons(reasons[:1]) == "What gives it away: one."
    assert list_reasons([]) == ""
