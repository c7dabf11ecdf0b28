"""Write docs/benchmarks.md from the results beside this file: python benchmarks/report.py"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
SCORES = {
    "small": "(5,000 + 5,000) × 1,024, 500 bins",
    "single": "(5,000 + 5,000) × 1,024, 500 bins, one thread each",
    "large": "(50,000 + 50,000) × 2,048, 1,000 bins",
    "ten": "Ten systems against one reference, 5,000 × 1,024 each",
    "growth": "Cost against n at 500 bins, width 128",
}
EMBEDDING = {"gpt2": "GPT-2 of 6 layers × 512, random weights", "smollm2": "SmolLM2-135M"}
OTHERS = {
    "mathematics": "Area, integral and mid-point of 1,000 pairs of 500 bins (n = m = 5,000)",
    "string_kernels": "Subsequence and 3-gram kernels of 2,000 texts of 256 tokens",
    "generation": "Decoding rules on 64 rows of 50,000 tokens, and SmolLM2-135M in batches",
    "self_bleu": "Self-BLEU of 5,000 texts of 256 tokens",
    "feature_metrics": "Fréchet, kernel distance, precision and recall, discriminator",
    "transport": "Optimal transport",
    "evidence": "Held-out evidence beside the published score",
    "ranking": "A ranking of 20 systems from 27,000 votes; worst-case Spearman",
    "annotation": "The annotation page under load: simulated annotators on loopback, SQLite, every answer on disk before it is acknowledged",
}


def results(name: str) -> dict[str, object]:
    path = HERE / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def flat(values: dict[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    """Nested results as one list of names and values."""
    for key, value in values.items():
        name = f"{before}{key}".replace("_", " ")
        if isinstance(value, dict):
            yield from flat(value, f"{name}: ")
        else:
            yield name, value


def shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def section(title: str, values: dict[str, object]) -> list[str]:
    rows = [f"| {key} | {shown(value)} |" for key, value in flat(values)]
    return [f"## {title}", "", "| | |", "|---|---|", *rows, ""] if rows else []


def versions() -> list[str]:
    """The public call by version, (5,000 + 5,000) × 1,024: what became faster or slower."""
    rows = json.loads((HERE / "versions.json").read_text())
    names = [name for name in rows[0] if name not in ("version", "state")]
    lines = ["## By version, (5,000 + 5,000) × 1,024, against mauve-text 0.4.0 in the same run", ""]
    lines += [f"| version | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    lines += [
        f"| {row['version']}, {row['state']} | {' | '.join(shown(row[name]) for name in names)} |" for row in rows
    ]
    return [*lines, ""]


def page() -> str:
    scores = results("scores")
    about = scores["about"]
    lines = [
        "# Benchmarks",
        "",
        "Written by `python benchmarks/report.py` from the results of the scripts beside it, each of which says how to run it. Ratios are of",
        "times taken in one run on one machine; absolute times depend on it.",
        "",
        f"mallow {about['mallow']}, NumPy {about['numpy']}, mauve-text 0.4.0 with faiss-cpu {about['faiss']}, {about['cores']} cores.",
        "",
    ]
    for name, title in SCORES.items():
        lines += section(title, scores.get(name, {}))
    lines += versions()
    profile = results("profile")
    for name, values in profile.items():
        lines += section(f"Where the time of mallow.score goes, {name}, one thread", values)
    for name, title in OTHERS.items():
        lines += section(title, results(name))
    embedding = results("embedding")
    for model, title in EMBEDDING.items():
        for part, values in embedding[model].items():
            lines += section(f"Embedding with {title}: {part}", values)
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
