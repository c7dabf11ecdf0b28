"""What `mallow check` writes for continuous integration."""

import os
import re
import resource
import warnings
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from mallow.cli._results import append_summary, find_summary_file, github_markdown, junit_xml
from mallow.errors import Caveat, EstimateWarning, InputError
from mallow.evaluate import check_regression, score


@pytest.fixture(scope="module")
def check():
    """A regression."""
    rng = np.random.default_rng(0)
    x, before, now = (rng.normal(shift, 1.0, size=(150, 2)) for shift in (0.0, 0.2, 2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        return check_regression(x, now, score(x, before, repeats=1))


def parse(check, name="a.jsonl", *, strict=False):
    text = junit_xml(check, name, strict=strict)
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites ')
    suites = ElementTree.fromstring(text.encode())
    (suite,) = suites
    (case,) = suite.findall("testcase")
    assert (suites.tag, suite.tag, suite.get("name")) == ("testsuites", "testsuite", "mallow check")
    assert {key: suites.get(key) for key in ("tests", "errors")} == {"tests": "1", "errors": "0"}
    assert (suites.get("failures"), suites.get("skipped")) == (suite.get("failures"), suite.get("skipped"))
    return suite, case


@pytest.mark.parametrize(
    ("outcome", "strict", "failures", "skipped"),
    [
        ("passed", False, "0", "0"),
        ("passed", True, "0", "0"),
        ("regression", False, "1", "0"),
        ("regression", True, "1", "0"),
        ("cannot tell", False, "0", "1"),
        ("cannot tell", True, "1", "0"),
    ],
)
def test_junit_counts_what_the_exit_code_says(check, outcome, strict, failures, skipped):
    check = replace(check, outcome=outcome)
    suite, case = parse(check, strict=strict)
    assert (suite.get("failures"), suite.get("skipped")) == (failures, skipped)
    assert (len(case.findall("failure")), len(case.findall("skipped"))) == (int(failures), int(skipped))
    for element in (*case.findall("failure"), *case.findall("skipped")):
        assert element.get("message") == check.message
    assert [one.get("type") for one in case.findall("failure")] == [outcome] * int(failures)


def test_junit_has_the_numbers(check):
    _, case = parse(check, "new.jsonl against human.jsonl")
    assert (case.get("classname"), case.get("name")) == ("mallow.check", "new.jsonl against human.jsonl")
    values = {one.get("name"): one.get("value") for one in case.find("properties")}
    assert list(values) == ["outcome", "drop", "low", "high", "max_drop", "before", "now"]
    assert values["outcome"] == "regression"
    assert float(values["drop"]) == pytest.approx(check.drop, rel=1e-5)
    assert (float(values["low"]), float(values["high"])) == pytest.approx(check.interval, rel=1e-5)
    assert case.find("system-out").text == str(check)


def test_names_and_caveats_cannot_break_the_files(check):
    bad = replace(check, caveats=(Caveat("x", 'a <b> & "c" \x00\x1b ]]> | *d*\nnext'),))
    _, case = parse(bad, "<&>\x07\"'.jsonl")
    assert case.get("name") == "<&>\\x07\"'.jsonl"
    assert 'caveat: a <b> & "c" \\x00\\x1b ]]> | *d* next' in case.find("system-out").text
    markdown = github_markdown(bad, "<img>|*x*")
    assert r"&lt;img&gt;\|\*x*" in markdown
    assert markdown.rstrip().splitlines()[-1].startswith(r'- a &lt;b&gt; & "c" \\x00\\x1b \]\]&gt; ')
    assert r"\| \*d* next" in markdown


def test_a_summary_has_the_verdict_a_table_and_the_caveats(check):
    lines = github_markdown(check, "new.jsonl").rstrip().splitlines()
    assert lines[0] == "### mallow check: ❌ regression"
    assert lines[2] == "new.jsonl"
    assert lines[4] == check.message
    assert any(re.match(r"\| outcome +\| regression +\|", line) for line in lines)
    assert lines[-1] == f"- {check.caveat_lines()[-1]}"
    assert lines[-2 - len(check.caveat_lines())] == "Caveats:"
    titles = [
        github_markdown(replace(check, outcome=one), "x")[:40].splitlines()[0] for one in ("passed", "cannot tell")
    ]
    assert titles == ["### mallow check: ✅ passed", "### mallow check: ⚠️ cannot tell"]


def test_the_summary_is_appended(tmp_path, monkeypatch):
    file = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    for part in ("first\n", "zweitens äöü\n"):
        append_summary(find_summary_file(), part)
    assert file.read_text(encoding="utf-8") == "first\nzweitens äöü\n"


def test_a_full_disk_leaves_the_summary_as_it_was(tmp_path):
    file, markdown = tmp_path / "summary.md", "x" * 10_000
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        with pytest.raises(InputError, match=r"summary\.md: cannot be written: File too large\."):
            append_summary(file, markdown)
        assert not file.exists()
        file.write_text("first")
        with pytest.raises(InputError, match="cannot be written"):
            append_summary(file, markdown)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_text() == "first"
    os.mkfifo(tmp_path / "pipe.md")
    with pytest.raises(InputError, match="is a device or a pipe"):
        append_summary(tmp_path / "pipe.md", "x")


def test_the_outcome_is_printed_before_the_summary_is_written(mallow, home, monkeypatch):
    def fail(*_):
        raise InputError("summary.md: cannot be written: No space left on device.")

    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(home / "summary.md"))
    monkeypatch.setattr("mallow.cli._results.append_summary", fail)
    assert mallow("score points.npy points.npy --repeats 1 -o base.json -q")[0] == 0
    code, out, err = mallow("check points.npy points.npy --baseline base.json --github-summary -q")
    assert (code, out.startswith("Passed: ")) == (1, True)
    assert err == "mallow: summary.md: cannot be written: No space left on device.\n"


def test_without_the_variable_there_is_no_summary(tmp_path, monkeypatch):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    with pytest.raises(InputError) as error:
        find_summary_file()
    assert str(error.value) == (
        "--github-summary needs the environment variable GITHUB_STEP_SUMMARY, which GitHub Actions sets, but it is not set. Leave "
        "the option out elsewhere, or set the variable to the file that the summary is to be appended to."
    )
    for path in (tmp_path, tmp_path / "no" / "file.md"):
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
        with pytest.raises(InputError) as error:
            find_summary_file()
        assert str(error.value) == (
            f"GITHUB_STEP_SUMMARY must name a file in a folder that exists, but it is {str(path)!r}."
        )
    with pytest.raises(InputError, match=rf"^{re.escape(str(tmp_path))}: cannot be written: Is a directory\.$"):
        append_summary(tmp_path, "x")
