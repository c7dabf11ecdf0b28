"""Figures in the documentation agree with committed results: each sentence of tests/figures.py is written again from its file."""

import importlib.util
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mallow
from figures import CLAIMS, ROOT


def words(text: str) -> str:
    """The text with single spaces, wherever its lines end."""
    return re.sub(r"\s+", " ", text)


def written(sentence: str, file: str, numbers: Callable[[Any], Any]) -> str:
    return sentence.format(*numbers(json.loads((ROOT / file).read_text(encoding="utf-8"))))


@pytest.mark.parametrize(
    ("page", "sentence", "file", "numbers"), CLAIMS, ids=[f"{claim[0]}: {claim[1][:60]}" for claim in CLAIMS]
)
def test_a_figure_is_that_of_its_result(page, sentence, file, numbers):
    assert words(written(sentence, file, numbers)) in words((ROOT / page).read_text(encoding="utf-8"))


def test_a_wrong_figure_is_noticed():
    page, sentence, file, numbers = next(claim for claim in CLAIMS if claim[0] == "docs/results.md")
    wrong = written(sentence, file, lambda data: [value + 0.02 for value in numbers(data)])
    assert words(wrong) not in words((ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "table", ["experiments/embedders/embedders.md", "experiments/image_embedders/image_embedders.md"]
)
def test_the_tables_of_embedders_are_those_of_the_experiments(table):
    """The page divides wide tables into narrow ones; every cell of the experiment is in one of them."""
    [measured] = cells_of((ROOT / table).read_text(encoding="utf-8"))
    shown = {}
    for cells in cells_of((ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")):
        shown |= cells
    assert len(measured) > 50
    assert {cell: value for cell, value in measured.items() if value and shown.get(cell) != value} == {}


def cells_of(text: str) -> list[dict[tuple[str, str], str]]:
    """The tables of a page whose first column is the embedder: (embedder, column) → cell."""
    tables = []
    for block in re.findall(r"^\| embedder \|.*\n(?:\|.*\n?)+", text, re.MULTILINE):
        head, _, *rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in block.splitlines()]
        tables.append({(row[0], column): cell for row in rows for column, cell in zip(head, row, strict=True)})
    return tables


def test_the_page_of_benchmarks_is_written_from_the_results():
    spec = importlib.util.spec_from_file_location("benchmark_report", ROOT / "benchmarks" / "report.py")
    report = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(report)
    for path, text in report.files().items():
        assert path.read_text(encoding="utf-8") == text, "run `python benchmarks/report.py`"


def test_the_picture_of_the_readme_is_drawn_from_the_results():
    spec = importlib.util.spec_from_file_location("readme_picture", ROOT / "experiments" / "readme" / "picture.py")
    drawing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawing)
    assert drawing.PICTURE.read_text(encoding="utf-8") == drawing.picture(), (
        "run `python experiments/readme/picture.py`"
    )


def indented(page: str, first: str) -> str:
    """The block of output on a page that begins with these words."""
    text = (ROOT / page).read_text(encoding="utf-8")
    start = text.index(f"    {first}")
    lines = text[start:].split("\n")
    count = next(place for place, line in enumerate(lines) if line and not line.startswith("    "))
    return "\n".join(line.removeprefix("    ") for line in lines[:count]).rstrip()


def test_the_output_in_the_readme_is_that_of_the_command():
    """experiments/readme/run.py runs the command and keeps what it prints."""
    kept = (ROOT / "experiments" / "readme" / "score.txt").read_text(encoding="utf-8")
    *printed, signature = (words(part) for part in kept.strip().split("\n\n"))
    *shown, last = (words(part) for part in indented("README.md", "The gap is real").split("\n\n"))
    assert shown == printed
    parts = [re.escape(part) for part in last.split("...")]
    assert re.fullmatch(".*".join(parts), signature)


def test_the_score_on_the_page_of_results_is_that_of_the_readme():
    rng = np.random.default_rng(0)
    human, machine, _ = (rng.normal(shift, 1.0, size=(1000, 16)) for shift in (0.0, 0.2, 0.5))
    printed = str(mallow.score(human, machine)).split("\n\n")
    verdict, table, units = indented("docs/results.md", "The gap is real").split("\n\n")
    assert words(table) == words(printed[1])
    assert words(units) == words(printed[2])
    assert words(printed[0]).startswith(words(verdict).removesuffix(" …"))
