"""docs/paper.md is complete and true: every label of the paper, and only functions, tests and files that exist."""

import pkgutil
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
CELL = re.compile(r"(?<!\\)\|")  # a bar that does not separate cells is escaped
CODE = re.compile(r"`([^`]+)`")


def tables(page: str) -> list[list[str]]:
    """The tables of a page: runs of lines that begin with a bar."""
    runs = re.findall(r"(?:^\|.*\n)+", page, flags=re.MULTILINE)
    return [run.splitlines() for run in runs]


def broken_tables(page: str) -> list[str]:
    """The first line of every run that is not a whole table: its second line must be a rule, all rows equally long."""
    return [
        lines[0]
        for lines in tables(page)
        if len(lines) < 3
        or not re.fullmatch(r"[|\s:-]+", lines[1])
        or len({len(CELL.split(line)) for line in lines}) != 1
    ]


def column(name: str) -> list[str]:
    """The cells of the column with this heading, from every table that has one."""
    cells = []
    for header, _, *rows in tables(PAGE):
        names = [cell.strip() for cell in CELL.split(header)]
        if name in names:
            cells += [CELL.split(row)[names.index(name)].strip() for row in rows]
    return cells


def missing_labels(source: str, page: str) -> list[str]:
    """Labels of a LaTeX source that no table of a page has in its first column."""
    listed = {code for table in tables(page) for row in table for code in CODE.findall(CELL.split(row)[1])}
    return [label for label in re.findall(r"\\label\{([^}]*)\}", source) if label not in listed]


def exists(reference: str) -> bool:
    """Whether a path from the root of the repository exists; after `::`, whether that file defines the test."""
    name, _, test = reference.partition("::")
    path = ROOT / name
    return path.exists() and (not test or f"\ndef {test}(" in path.read_text(encoding="utf-8"))


def test_every_label_of_the_paper_is_on_the_page(shared):
    source = (shared / "paper" / "mauve-jmlr-2023.tex").read_text(encoding="utf-8")
    assert source.count(r"\label{") > 150, "no labels found: the check would pass on nothing"
    assert missing_labels(source, PAGE) == []


def test_every_label_on_the_page_is_one_of_the_paper(shared):
    source = (shared / "paper" / "mauve-jmlr-2023.tex").read_text(encoding="utf-8")
    labels = [code for cell in column("label") for code in CODE.findall(cell)]
    assert [label for label in labels if f"\\label{{{label}}}" not in source] == []


RESULTS = ("same numbers", "same conclusion", "other conclusion", "undecided", "not possible here", "drawing")


def test_the_counts_at_the_top_are_those_of_the_results():
    words = [next(word for word in RESULTS if cell.startswith(word)) for cell in column("result")]
    counts = ", ".join(f"{words.count(word)} {word}" for word in RESULTS)
    assert f"Of {len(words)} figures and tables: {counts}s." in PAGE
    reasoned = ("other conclusion", "undecided", "not possible here")
    assert [cell for cell in column("result") if cell.startswith(reasoned) and not cell.endswith(")")] == []


def test_no_table_is_interrupted():
    assert len(tables(PAGE)) == 4
    assert broken_tables(PAGE) == []


def resolve(name: str) -> object:
    """The public object with this name, relative to `mallow`."""
    return pkgutil.resolve_name(f"mallow.{name}")


FUNCTIONS = sorted({code for cell in column("function") for code in CODE.findall(cell) if "=" not in code})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_functions_exist(name):
    assert resolve(name) is not None


def test_every_row_names_a_function_and_a_test():
    for name in ("function", "test"):
        assert [cell for cell in column(name) if not CODE.search(cell)] == []


TESTS = {f"tests/{code}" for cell in column("test") for code in CODE.findall(cell)}
PLACES = {code for cell in column("here") for code in CODE.findall(cell) if "/" in code}


@pytest.mark.parametrize("reference", sorted(TESTS | PLACES))
def test_the_tests_and_files_exist(reference):
    assert exists(reference)


def test_a_figure_is_reproduced_or_a_reason_is_given():
    for cell in column("here"):
        assert re.search(
            r"`(tests|experiments|src)/|^not (reproduced|implemented): |^nothing to implement$|above$", cell
        ), cell


def test_the_checks_can_fail():
    assert broken_tables("| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |\n| 5 | 6 |\n") == ["| 3 | 4 |"]
    assert broken_tables("| a | b |\n|---|---|\n| 1 | 2 | 3 |\n") == ["| a | b |"]
    assert missing_labels(r"\label{eq:one} \label{eq:two}", "| `eq:one` | x |\n|---|---|\n") == ["eq:two"]
    assert not exists("tests/paper/test_absent.py")
    assert exists("tests/paper/test_map.py::test_the_checks_can_fail")
    assert not exists("tests/paper/test_map.py::test_absent")
    with pytest.raises(AttributeError):
        resolve("smoothing.absent")
