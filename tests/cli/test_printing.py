"""What a result looks like on standard output."""

import re

import pytest

from mallow.cli._printing import result_text
from mallow.evaluate import Score

SCORE = "score human.jsonl far.jsonl -e letters:letters --repeats 2"


def test_a_score_is_a_table_and_a_signature(mallow):
    code, out, _ = mallow(SCORE)
    assert code == 0
    head, *rows, blank, signature = out.splitlines()
    assert re.split(r"  +", head.strip()) == ["score", "std", "bias-corrected", "95 % interval of it", "noise floor"]
    assert [re.split(r"  +", row)[0] for row in rows] == ["MAUVE", "integral", "mid-point"]
    assert (blank, "letters, width=26" in signature, "repeats=2" in signature) == ("", True, True)
    assert max(map(len, [head, *rows])) < 80


def test_a_comparison_is_a_table_a_verdict_and_a_signature(mallow):
    code, out, _ = mallow("compare human.jsonl a=near.jsonl far.jsonl -e letters:letters --repeats 2")
    assert code == 0
    head, first, second, blank, verdict, signature = out.splitlines()
    columns = ["MAUVE", "std", "bias-corrected", "95 % interval of it", "noise floor", "rank"]
    assert re.split(r"  +", head.strip()) == columns
    assert (first.split()[0], first.split()[-1]) == ("a", "1")
    assert (second.split()[0], second.split()[-1]) == ("far", "2")  # named after its file
    assert blank == ""
    assert verdict == "a is closest to the reference: it beats every other system (5 % level, corrected for all pairs)."
    assert "repeats=2" in signature


def test_an_estimator_without_bins_has_no_interval(mallow):
    out = mallow(f"{SCORE} --estimator neighbors -q")[1]
    assert out.count("not available without bins") == 3
    assert "close to the reference" not in out


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_a_result_is_printed_without_its_caveats(mallow, form):
    printed = mallow(f"{SCORE} -q --format {form}")[1]
    score = Score.from_json(mallow(f"{SCORE} -q --format json")[1])
    assert result_text(score, form) + "\n" == printed
    assert score.caveats
    assert "only 400 samples" not in printed
