"""What a result looks like on standard output."""

import ast
import json
import re
from pathlib import Path

import pytest

from mallow import cli
from mallow.evaluate import Comparison, Score

SCORE = "score human.jsonl far.jsonl -e letters:letters --repeats 2"


def test_a_score_starts_with_the_verdict(mallow):
    code, out, err = mallow(SCORE)
    assert code == 0
    verdict, table, shares, signature = (part.strip() for part in out.split("\n\n"))
    head, *rows = table.splitlines()
    assert verdict.startswith("The gap is real: with 95% confidence MAUVE is at most 0.")
    assert head.split() == ["MAUVE", "95%", "range", "meaning"]
    assert [re.split(r"  +", row)[0] for row in rows] == ["certified", "published", "bias-corrected", "self-score"]
    assert [re.split(r"  +", row)[-1] for row in rows] == [
        "95% upper bound on the true value",
        "95% of repeat samples of this size",
        "with unlimited samples, same bins",
        "about what a perfect model gets",
    ]
    assert re.fullmatch(r"With 95% confidence at least \d+% of the samples are not like the reference\.", shares)
    assert ("letters, width=26" in signature, "repeats=2" in signature) == (True, True)
    assert max(map(len, [head, *rows])) <= 80
    assert "caveat: " in err


@pytest.mark.parametrize("columns", [60, 80])
def test_everything_but_the_signature_fits_the_terminal(mallow, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    for command in (SCORE, "compare human.jsonl a=near.jsonl far.jsonl -e letters:letters --repeats 1"):
        *lines, _ = mallow(command)[1].splitlines()
        assert max(map(len, lines)) <= columns


def test_a_comparison_starts_with_the_verdict(mallow):
    code, out, _ = mallow("compare human.jsonl a=near.jsonl far.jsonl -e letters:letters --repeats 2")
    assert code == 0
    parts = [part.splitlines() for part in out.split("\n\n")]
    assert parts[0] == [
        "Smallest proven gap: a. Every other system has a larger one (5% level, corrected for all pairs)."
    ]
    head, units, first, second = parts[1]
    assert re.split(r"  +", head.strip()) == ["certified", "95% upper", "p-value", "published", "95% of"]
    assert re.split(r"  +", units.strip()) == ["MAUVE", "bound", "(no gap)", "MAUVE", "repeat samples", "rank"]
    assert (first.split()[0], first.split()[-1]) == ("a", "1")
    assert (second.split()[0], second.split()[-1]) == ("far", "2")  # named after its file
    assert parts[2][0].split()[0] == "self-score"
    head, units, difference = parts[3]
    assert re.split(r"  +", head.strip()) == ["certified", "95% interval", "p, corrected"]
    assert re.split(r"  +", units.strip()) == ["difference", "MAUVE", "of the difference", "for all pairs"]
    name, value, interval, p = re.split(r"  +", difference)
    assert (name, p) == ("a − far", "< 1e-5")
    certified = [float(line.split()[1]) for line in (first, second)]
    assert float(value) == pytest.approx(certified[0] - certified[1], abs=1.01e-4)
    low, high = map(float, interval.split(" to "))
    assert low <= float(value) <= high
    assert "repeats=2" in parts[4][0]


def test_with_a_baseline_differences_are_from_it(mallow):
    command = "compare human.jsonl a=near.jsonl far.jsonl -e letters:letters --repeats 1 --baseline a -q"
    verdict, *_, differences, _ = mallow(command)[1].split("\n\n")
    assert verdict == "Compared with the proven gap of a: the gap of far is larger."
    assert re.search(r"^far − a  +-0\.\d{4}  -[01]\.\d{4} to -0\.\d{4}", differences, re.MULTILINE)


def test_a_summary_is_short_and_the_whole_goes_to_a_file(mallow, home):
    out = mallow(f"{SCORE} --summary --out score.json -q")[1]
    assert len(out.splitlines()) <= 20
    brief, whole = json.loads(out), Score.from_json((home / "score.json").read_text())
    assert brief["verdict"] == whole.verdict
    assert brief["mauve"]["published"] == pytest.approx(whole.mauve, abs=5e-5)
    assert brief["mauve"]["at_most"] >= whole.certified["mauve"].high
    assert "frontier" not in brief
    out = mallow("compare human.jsonl near.jsonl far.jsonl -e letters:letters --repeats 1 --summary -q")[1]
    assert list(json.loads(out)["systems"]) == ["near", "far"]
    assert len(out.splitlines()) <= 20
    code, _, err = mallow(f"{SCORE} --summary --format latex")
    assert (code, "--summary prints JSON, so it cannot be combined with --format latex." in err) == (2, True)


def test_an_estimator_without_bins_has_no_interval(mallow):
    out = mallow(f"{SCORE} --estimator neighbors -q")[1]
    assert out.count("no interval without bins") == 1
    assert "bias-corrected" not in out
    assert "certified" in out


def test_a_result_is_printed_without_its_caveats(mallow):
    score = Score.from_json(mallow(f"{SCORE} -q --format json")[1])
    assert score.caveats
    for form in ("text", "markdown", "latex"):
        printed = mallow(f"{SCORE} -q --format {form}")[1]
        assert score.format(form) + "\n" == printed
        assert "only 200 samples" not in printed


def test_everything_is_printed_by_two_functions():
    """`print_output` and `print_message` make control characters visible; nothing in the command line prints past them."""
    folder = Path(cli.__file__).parent
    printing = {
        path.name
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("print", "click.echo", "click.secho", "sys.stdout.write")
    }
    assert printing == {"_printing.py"}


def test_every_result_formats_itself_as_a_command_prints_it(mallow):
    command = "compare human.jsonl a=near.jsonl far.jsonl -e letters:letters --repeats 1 -q --format"
    printed = {form: mallow(f"{command} {form}")[1] for form in ("text", "json", "markdown", "latex")}
    comparison = Comparison.from_json(printed["json"])
    assert comparison.caveats
    for form, text in printed.items():
        assert comparison.format(form) + "\n" == text
        assert form == "json" or not any(caveat.message in text for caveat in comparison.caveats)
