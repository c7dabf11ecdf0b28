"""Results that only the command line has, and what `mallow check` writes for continuous integration."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from xml.etree import ElementTree

from mallow._files import refuse_special
from mallow.errors import Caveat, InputError, each_once, one_line, visible
from mallow.evaluate import GroupScores, MatchedScore, Score
from mallow.explain import Memorisation
from mallow.results import Axes, Result, TableData, escape_markdown, merge_caveats

if TYPE_CHECKING:
    from mallow.evaluate import Check

_VARIABLE = "GITHUB_STEP_SUMMARY"
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, production 2
_TITLES = {"passed": "✅ passed", "regression": "❌ regression", "cannot tell": "⚠️ cannot tell"}


@dataclass(frozen=True)
class Confounds(Result):
    """The result of `mallow.find_confounds` for some systems."""

    KIND: ClassVar[str] = "confounds"

    systems: tuple[str, ...]
    findings: tuple[Caveat, ...]

    def __str__(self) -> str:
        if not self.findings:
            return "No differences unrelated to the model were found."
        return "\n".join(merge_caveats(self.findings, self.systems))

    def _table(self) -> TableData:
        rows = [[finding.system or "reference", finding.kind, finding.message] for finding in self.findings]
        return TableData(["samples", "kind", "finding"], rows)

    def _records(self) -> list[dict[str, Any]]:
        return [{"system": caveat.system, "kind": caveat.kind, "message": caveat.message} for caveat in self.findings]


@dataclass(frozen=True, eq=False)
class ScoreParts(Result):
    """A score, and the other results that were asked for."""

    KIND: ClassVar[str] = "score with more"

    score: Score
    memorisation: Memorisation | None = None
    matched: MatchedScore | None = None
    groups: GroupScores | None = None

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.parts))

    @property
    def parts(self) -> tuple[Result, ...]:
        """The score and the other results."""
        values = (getattr(self, field.name) for field in fields(self))
        return tuple(value for value in values if value is not None)

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """The caveats of all parts."""
        return each_once(caveat for part in self.parts for caveat in getattr(part, "caveats", ()))

    def format(self, form: str = "text", *, width: int | None = None, digits: int | None = None) -> str:
        """All parts, one after the other; in JSON, one object."""
        if form != "text":
            return super().format(form, digits=digits)
        return "\n\n".join(part.format(form, width=width) for part in self.parts)

    def table(self, form: str = "text", *, width: int | None = None, digits: int | None = None) -> str:
        """The tables of all parts."""
        return "\n\n".join(part.table(form, width=width, digits=digits) for part in self.parts)

    def brief(self) -> dict[str, Any]:
        """The main numbers of the score, and of the other parts by their names."""
        more = {part.KIND: part.brief() for part in self.parts[1:]}
        return {**self.score.brief(), **more, **self._doubts()}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the frontier; returns the axes."""
        return self.score.plot(ax)


def junit_xml(check: Check, name: str, *, strict: bool) -> str:
    """The check as a JUnit file with one test.

    A regression is a failure. An undecided check is a skipped test, or a failure with `strict`.
    """
    low, high = check.interval
    failed = check.outcome == "regression" or (strict and check.outcome == "cannot tell")
    skipped = check.outcome == "cannot tell" and not failed
    counts = {"tests": "1", "failures": str(int(failed)), "errors": "0", "skipped": str(int(skipped))}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "mallow check", **counts})
    case = ElementTree.SubElement(suite, "testcase", {"classname": "mallow.check", "name": _clean(name)})
    properties = ElementTree.SubElement(case, "properties")
    values = {"outcome": check.outcome, "drop": check.drop, "low": low, "high": high, "max_drop": check.max_drop}
    for key, value in (values | {"before": check.before, "now": check.now}).items():
        text = f"{value:.6g}" if isinstance(value, float) else str(value)
        ElementTree.SubElement(properties, "property", {"name": key, "value": text})
    if failed or skipped:
        verdict = {"message": _clean(check.message)} | ({"type": check.outcome} if failed else {})
        ElementTree.SubElement(case, "failure" if failed else "skipped", verdict)
    ElementTree.SubElement(case, "system-out").text = _clean(str(check))
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _clean(text: str) -> str:
    """The text without characters that XML does not allow."""
    return _NOT_IN_XML.sub("\ufffd", visible(text))


def github_markdown(check: Check, name: str) -> str:
    """The check as Markdown: the verdict, a table, the caveats."""
    lines = [
        f"### mallow check: {_TITLES[check.outcome]}",
        "",
        _markdown_line(name),
        "",
        _markdown_line(check.message),
        "",
    ]
    lines += [check.table("markdown"), ""]
    caveats = [f"- {_markdown_line(line)}" for line in check.caveat_lines()]
    return "\n".join([*lines, "Caveats:", "", *caveats, ""] if caveats else lines) + "\n"


def _markdown_line(text: str) -> str:
    return escape_markdown(one_line(text))


def find_summary_file() -> Path:
    """The file that GitHub Actions shows on the page of the job; checked before the work begins."""
    path = os.environ.get(_VARIABLE, "")
    if not path:
        raise InputError(
            f"--github-summary needs the environment variable {_VARIABLE}, which GitHub Actions sets, but it is not "
            "set. Leave the option out elsewhere, or set the variable to the file that the summary is to be "
            "appended to."
        )
    file = Path(path)
    if file.is_dir() or not file.parent.is_dir():
        raise InputError(f"{_VARIABLE} must name a file in a folder that exists, but it is {path!r}.")
    return file


def append_summary(file: Path, markdown: str) -> None:
    """Append to the summary, which may have text of earlier steps. Either everything is written or nothing."""
    refuse_special(file)
    before = file.stat().st_size if file.exists() else None
    try:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(markdown)
    except OSError as error:
        with suppress(OSError):
            if before is None:
                file.unlink()
            else:
                os.truncate(file, before)
        raise InputError(f"{file}: cannot be written: {error.strerror or error}.") from error
