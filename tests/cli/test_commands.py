"""What every command has: --quiet, --format and --plot, and caveats that are shown once."""

import json
import re
import sys
import warnings

import pytest

from mallow.errors import EstimateWarning

COMPARE = "compare human.jsonl near.jsonl far.jsonl -e letters:letters --repeats 2"
SCORE = "score human.jsonl far.jsonl -e letters:letters --repeats 2"


def test_caveats_come_once_at_the_end_on_standard_error(mallow):
    code, out, err = mallow(COMPARE)
    assert code == 0
    assert "caveat" not in out
    note, *lines = err.splitlines()
    assert note == "mallow: note: letters:letters runs code of the working folder: letters.py"
    assert all(line.startswith("mallow: caveat: ") for line in lines)
    few = "only 200 samples: with fewer than 1000 per side, scores are biased and noisy."
    assert f"mallow: caveat: near and far: {few}" in lines
    assert err.count("only 200 samples") == 1
    assert len(set(lines)) == len(lines)


def test_caveats_of_all_systems_are_one_line(mallow, home):
    (home / "third.jsonl").write_text((home / "far.jsonl").read_text())
    _, _, err = mallow(f"{COMPARE} third.jsonl")
    assert "mallow: caveat: all three systems: only 200 samples:" in err


def test_warnings_that_are_no_caveats_are_shown_too(mallow, home):
    (home / "doubtful.py").write_text(
        "import warnings\nfrom letters import letters\nfrom mallow import EstimateWarning\n\n\n"
        "def doubtful(texts):\n    warnings.warn('the disk is nearly full.', EstimateWarning)\n    return letters(texts)\n"
    )
    command = "score human.jsonl far.jsonl -e doubtful:doubtful --repeats 1"
    _, _, err = mallow(command)
    assert err.count("mallow: warning: the disk is nearly full.") == 1
    assert "mallow: warning: the disk is nearly full. (2 times)" in err  # once per side
    assert "mallow: caveat: only 200 samples" in err
    assert "mallow: warning: only 200" not in err
    assert mallow(f"{command} -q")[2] == ""
    (home / "doubtful.py").write_text((home / "doubtful.py").read_text().replace("return letters(texts)", "return 1"))
    sys.modules.pop("doubtful")
    code, _, err = mallow(command)  # a failure does not hide them
    assert (code, err.count("mallow: warning: the disk is nearly full.")) == (1, 1)


def test_a_damaged_cache_is_told(mallow, home, tmp_path):
    command = "score human.jsonl far.jsonl -e letters:Lengths --repeats 1"
    mallow(command)
    for file in (tmp_path / "cache").rglob("*.rows"):
        file.write_bytes(b"damaged")
    _, _, err = mallow(command)
    assert re.search(r"mallow: warning: (The cache file .* was damaged|\d+ cache files were damaged)", err)


def test_quiet_is_quiet(mallow, home):
    code, out, err = mallow(f"{COMPARE} --quiet")
    assert (code, err) == (0, "")
    assert "Smallest proven gap: near. Every other system has a larger one" in out
    (home / "hushed.py").write_text(  # standard error is not a terminal here, so that there would be no bar anyway
        "from letters import letters\nfrom mallow.engine import _progress as progress\n\n\n"
        "def hushed(texts):\n    print('quiet' if progress._QUIET.get() else 'loud')\n    return letters(texts)\n"
    )
    for option, state in (("", "loud"), ("-q", "quiet")):
        out = mallow(f"score human.jsonl far.jsonl -e hushed:hushed --repeats 1 {option}")[1]
        assert out.splitlines()[0] == state


@pytest.mark.parametrize("command", [SCORE, COMPARE])
@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_pictures_are_drawn(mallow, home, command, suffix, start):
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'mallow[plot]'")
    code, _, err = mallow(f"{command} --plot made.{suffix}")
    assert code == 0
    assert f"made.{suffix}: written" in err
    assert (home / f"made.{suffix}").read_bytes().startswith(start)


def test_results_in_other_forms(mallow):
    command = "compare human.jsonl a_b=near.jsonl far.jsonl -e letters:letters --repeats 2 -q --format"
    assert mallow(f"{command} markdown")[1].startswith(
        "|  | certified MAUVE | 95% upper bound | p-value (no gap) | published MAUVE |"
    )
    assert re.search(r"\\textbf\{a\\_b\} & \\textbf\{\d\.\d{4}\} & ", mallow(f"{command} latex")[1])
    assert json.loads(mallow(f"{command} json")[1])["kind"] == "mallow comparison"


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (f"{COMPARE} --format html", 2, "'html' is not one of"),
        (f"{COMPARE} --plot x.bmp", 1, "x.bmp: must end in one of .avif"),
        (f"{COMPARE} --plot no/x.png", 1, "no/x.png: the folder no does not exist. Create it first."),
    ],
)
def test_mistakes_are_told_before_the_work(refused, command, code, message):
    refused(command, code, message)


def test_the_filters_of_the_caller_stay_as_they_are(mallow):
    before = list(warnings.filters)
    mallow(f"{SCORE} -q")
    assert warnings.filters == before
    with pytest.warns(EstimateWarning):
        warnings.warn("still shown", EstimateWarning, stacklevel=1)
