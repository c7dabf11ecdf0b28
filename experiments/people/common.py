"""What the experiments share: where data is, and how results are written."""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path
from typing import Any

from mallow import EstimateWarning

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SHARED = ROOT.parent / "shared" / "data"
PRINTED = ROOT / "tests" / "reference"  # the paper's tables
ANNOTATIONS = SHARED / "human-eval" / "human_vs_model_720.jsonl.gz"
QUESTIONS = ("human-like", "interesting", "sensible")

warnings.simplefilter("ignore", EstimateWarning)  # caveats are in the results


def published() -> dict[str, dict[str, float]]:
    """Question → system → the published score, from all 36 pairs."""
    data = json.loads((SHARED / "human-eval" / "bt_scores.json").read_text())["bt"]
    return {question: data[question.replace("-", "_")] for question in QUESTIONS}


def read_printed(name: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Column → system → (value, standard deviation) of a table of the paper; empty cells are left out."""
    columns: dict[str, dict[str, tuple[float, float]]] = {}
    with (PRINTED / name).open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            system = row.pop("system")
            for column, cell in row.items():
                if cell and not column.endswith(" std"):
                    columns.setdefault(column, {})[system] = (float(cell), float(row.get(f"{column} std") or 0))
    return columns


def save(name: str, results: Any, page: str) -> None:
    """Write NAME.json and NAME.md beside this file, and print the page."""
    (HERE / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (HERE / f"{name}.md").write_text(page.rstrip() + "\n", encoding="utf-8")
    print(page)


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)
