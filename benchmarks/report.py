"""Write docs/benchmarks.md and its pictures from the results beside this file: python benchmarks/report.py

The page has what users ask for. Everything that was measured is in the JSON files.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
PAGE = DOCS / "benchmarks.md"
STYLE = (
    "text{font:14px system-ui,sans-serif;fill:#1f2328}.page{fill:#fff}.mallow{fill:#7c3aed}.other{fill:#8c959f}"
    "path{fill:none;stroke:#7c3aed;stroke-width:2}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}.mallow{fill:#a78bfa}.other{fill:#6e7681}"
    "path{stroke:#a78bfa}}"
)
SIZES = {"small": "(5,000 + 5,000) × 1,024", "large": "(50,000 + 50,000) × 2,048"}
PICTURE, GROWTH = "benchmark-decision.svg", "benchmark-growth.svg"


def results(name: str) -> Any:
    """What a benchmark has measured."""
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown whose columns after the first are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def against_mauve_text() -> list[tuple[str, float, float]]:
    """Call, seconds of mallow, seconds of mauve-text."""
    scores = results("scores")
    small, large = scores["small"], scores["large"]
    one, five = "mallow.score(x, y, repeats=1), all that it returns (s)", "mauve-text, five calls (s)"
    whole = small["mallow.score(x, y), five repeats, all that it returns (s)"]
    return [
        (f"{SIZES['small']}, one clustering", small[one], small["mauve-text, one call (s)"]),
        (f"{SIZES['small']}, five clusterings", whole, small[five]),
        (
            f"{SIZES['small']}, five clusterings, published score only",
            small["inner path, five repeats (s)"],
            small[five],
        ),
        (f"{SIZES['large']}, one clustering", large[one], large["mauve-text, one call (s)"]),
    ]


def embedding_rows() -> list[list[str]]:
    """Model and lengths; seconds of mallow; of mauve-text with its default and with its best batch."""
    measured = results("embedding")
    rows = []
    for model, shown in (("gpt2", "GPT-2 of 6 layers × 512"), ("smollm2", "SmolLM2-135M")):
        for lengths in ("8–64 tokens", "8–1024 tokens"):
            seconds = measured[model][lengths]
            ours, default = seconds["ours (s)"], seconds["mauve-text, batch 1 (s)"]
            best = ours * seconds["times faster than its best"]
            rows.append([f"{shown}, {seconds['texts']} texts of {lengths}", f"{ours:.1f} s", f"{default:.1f} s", f"{best:.1f} s"])  # fmt: skip
    return rows


def minilm_rows() -> list[list[str]]:
    """Tokens of a text; processor milliseconds of torch, of the default and of integer products; how many times faster these are."""
    measured = results("embedding")["minilm"]
    rows = []
    for lengths in ("32 tokens", "128 tokens", "256 tokens"):
        seconds = measured[lengths]
        ways = ("torch, float32", "published graph", "integer products")
        cells = [f"{1000 * seconds[f'{way} (processor s per text)']:.1f} ms" for way in ways]
        rows.append([lengths, *cells, f"{seconds['times faster than the published graph']:.1f}"])
    return rows


def growth() -> list[tuple[int, float, float]]:
    """n = m; processor seconds of the whole call and of the published score only."""
    measured = results("scores")["growth"]
    whole = measured["mallow.score(x, y, repeats=1), all that it returns (processor s)"]
    inner = measured["inner path, published score alone (processor s)"]
    return list(zip(measured["n = m"], whole, inner, strict=True))


def metric_rows() -> list[list[str]]:
    """Metric; processor seconds of mallow and of the other package; how many times as many these are."""
    measured, bleu = results("feature_metrics")["5000x512"], results("self_bleu")
    pairs = [
        ("Fréchet distance", "frechet_distance", "torch-fidelity", "torch-fidelity fid"),
        ("kernel distance", "kernel_distance", "torch-fidelity", "torch-fidelity kid"),
        ("kernel distance by subsets", "kernel_distances", "torch-fidelity", "torch-fidelity kid_subsets"),
        ("precision and recall", "precision_recall", "torch-fidelity", "torch-fidelity prc"),
        ("precision, recall, density, coverage", "precision_recall", "prdc", "prdc"),
    ]
    rows = []
    for metric, ours, package, theirs in pairs:
        seconds = [measured[name]["cpu_seconds"] for name in (ours, theirs)]
        times = measured[theirs]["times_the_cpu_of_mallow"]
        rows.append([metric, f"{seconds[0]:.2g} s", f"{seconds[1]:.2g} s ({package})", f"{times:.1f}"])
    nltk = f"{bleu['nltk_cpu_seconds_extrapolated'] / 3600:.1f} h (NLTK, extrapolated)"
    rows.append([f"self-BLEU of {bleu['texts']:,} texts", f"{bleu['cpu_seconds']:.2g} s", nltk, f"{bleu['times_less_cpu']:,.0f}"])  # fmt: skip
    return rows


def memory_rows() -> list[list[str]]:
    """Data; size; peak memory."""
    large = results("scores")["large"]["peak memory of the process / input (input included)"]
    size = 100_000 * 2048 * 4 / 1e9
    rows = [[f"{SIZES['large']}, in memory", f"{size:.1f} GB", f"{large * size:.1f} GB"]]
    for row in results("scale")["sizes"]:
        rows.append([f"{row['rows']:,} × {row['width']} in files, 4 GB allowed", f"{row['bytes'] / 1e9:.1f} GB", f"{row['peak_bytes'] / 1e9:.1f} GB"])  # fmt: skip
    return rows


def drawing(title: str, parts: list[str], height: int) -> str:
    """An SVG picture with a title."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" width="760" height="{height}" role="img">'  # fmt: skip
    frame = f'<rect class="page" width="760" height="{height}" rx="8"/>'
    return "\n".join(
        [
            head,
            f"<title>{title}</title>",
            f"<style>{STYLE}</style>",
            frame,
            f'<text x="20" y="28">{title}</text>',
            *parts,
            "</svg>",
            "",
        ]
    )


def decisions() -> dict[str, dict[str, tuple[int, float] | None]]:
    """Alternative → way → samples per side and processor seconds of a decision; None: more samples than were tried.

    Alternatives of which some way is still to be measured are left out.
    """
    rows = results("decision")["rows"]
    most = max(map(len, rows.values()))
    return {
        row: {
            way: (one["samples per side"], one["call (s)"] + one["embedding (s)"]) if "call (s)" in one else None
            for way, one in ways.items()
        }
        for row, ways in rows.items()
        if len(ways) == most
    }


def shown_decision(one: tuple[int, float] | None) -> str:
    """A cell of the table of decisions."""
    return "not reached" if one is None else f"{one[0]} · {one[1]:.2g} s"


def decision_picture() -> str:
    """Samples and processor seconds of each way and alternative, both on logarithmic axes."""
    found = decisions()
    ways = list(next(iter(found.values())))
    ours = [way for way in ways if way.startswith("mallow")]
    parts = []
    for seconds in (0.1, 1, 10, 100):
        x = 130 + 170 * math.log10(seconds / 0.1)
        parts.append(f'<text x="{x:.0f}" y="312" text-anchor="middle">{seconds:g} s</text>')
    for n in (25, 50, 100, 200):
        parts.append(f'<text x="60" y="{275 - 62 * math.log2(n / 25):.0f}" text-anchor="end">{n}</text>')
    for way_number, way in enumerate(ways):
        kind = "mallow" if way in ours else "other"
        for row in found.values():
            if (one := row.get(way)) is not None:
                x = 130 + 170 * math.log10(max(one[1], 0.03) / 0.1)
                y = 266 - 62 * math.log2(one[0] / 25) + 5 * way_number
                parts.append(f'<circle class="{kind}" cx="{x:.0f}" cy="{y:.0f}" r="5"><title>{way}</title></circle>')
    parts.append('<text x="560" y="60" class="key">violet: mallow</text><text x="560" y="80">grey: others</text>')
    return drawing("Samples per side against processor seconds of a right decision", parts, 330)


def growth_picture() -> str:
    """Processor seconds against samples per side, both on logarithmic axes: the whole call, and only the published score."""
    measured = growth()

    def at(n: float, seconds: float) -> tuple[float, float]:
        return 110 + 235 * math.log10(n / measured[0][0]), 270 - 70 * math.log10(seconds / 0.1)

    parts = []
    for n, *_ in measured:
        parts.append(f'<text x="{at(n, 1)[0]:.0f}" y="312" text-anchor="middle">{n:,}</text>')
    for seconds in (0.1, 1, 10, 100):
        parts.append(f'<text x="70" y="{at(measured[0][0], seconds)[1] + 5:.0f}" text-anchor="end">{seconds:g} s</text>')  # fmt: skip
    for column, dashes, name in (
        (1, "", "all that it returns"),
        (2, ' stroke-dasharray="6 4"', "published score only"),
    ):
        places = [at(row[0], row[column]) for row in measured]
        line = " L ".join(f"{x:.0f} {y:.0f}" for x, y in places)
        parts.append(f'<path d="M {line}"{dashes}/>')
        parts += [f'<circle class="mallow" cx="{x:.0f}" cy="{y:.0f}" r="4"/>' for x, y in places]
        parts.append(f'<text x="{places[-1][0] + 10:.0f}" y="{places[-1][1] + 5:.0f}">{name}</text>')
    return drawing("Processor time of a score against samples per side", parts, 330)


def page() -> str:
    """The page of benchmarks."""
    scores = results("scores")
    about, ten = scores["about"], scores["ten"]
    smallest, *_, largest = growth()
    speed = [[shown, f"{ours:.1f} s", f"{theirs:.1f} s", f"{theirs / ours:.1f}"] for shown, ours, theirs in against_mauve_text()]  # fmt: skip
    found = decisions()
    ways = list(next(iter(found.values())))
    trials, most = (results("decision")["about"][name] for name in ("trials", "most"))
    decided = [[row, *(shown_decision(own.get(way)) for way in ways)] for row, own in found.items()]
    speed += [[f"embedding: {row[0]}", row[1], row[3], f"{float(row[3][:-2]) / float(row[1][:-2]):.1f}"] for row in embedding_rows()]  # fmt: skip
    return f"""# Benchmarks

Measured with mallow {about["mallow"]}, NumPy {about["numpy"]}, mauve-text 0.4.0 with faiss-cpu {about["faiss"]}, on {about["cores"]} cores. Ratios compare times of one run. Absolute times depend on the machine.
`python benchmarks/report.py` writes this page. The files `benchmarks/*.json` contain all measurements, including other parts of mallow.

## What does a right decision cost?

Samples per side with which a gap is found in 80% of {trials} trials or more at level 5%, and the processor seconds of one decision from texts to a verdict (`python benchmarks/decision.py`). The numbers of samples are doubled
from 25 to {most}, and a cell has the first of these numbers that is enough. The machine was busy with other work, so that the seconds are upper bounds. mauve-text counts as finding a gap if its score is below all of 19 scores of the reference with itself. Each score then compares halves of the samples. Up to {most} samples
per side, it finds none of the three gaps in 80% of the trials. TF-IDF with logistic regression takes the fewest seconds for greedy and contrastive text, but does not find top-k. In all three rows `mallow score --fast` needed
no more samples than any other way, and the default, which embeds the texts, needed twice as many for top-k. Ten trials are few, and other alternatives have not been measured.

{table(["alternative", *ways], decided)}

![Samples against seconds of a decision]({PICTURE})

## How fast is a score?

Features are given (`python benchmarks/scores.py`), and mallow returns everything: p-value, certified bound, intervals, telltale signs. Embedding compares with the best batch of mauve-text (`python benchmarks/embedding.py`).
A comparison of ten systems takes {ten["that, times one score"]:.1f} times as long as one score.

{table(["call", "mallow", "mauve-text", "times faster"], speed)}

The default embedder for texts, `minilm`, on one core with the model loaded, per text in processor time: torch with the same network in float32, the default, and `-E products=int8`
(onnxruntime {results("embedding")["minilm"]["onnxruntime"]}, a processor with 8-bit dot products).

{table(["length", "torch", "minilm", "minilm, products=int8", "times faster than the default"], minilm_rows())}

## How does it grow, and how much memory does it need?

Processor time grows like n^{scores["growth"]["exponent"]:.2f}, from {smallest[1]:.1f} s for {smallest[0]:,} samples per side to {largest[1]:.1f} s for {largest[0]:,} (width 128, 500 bins, `python benchmarks/scores.py`).

![Processor time against samples]({GROWTH})

Memory was measured by `python benchmarks/scores.py` and `python benchmarks/scale.py`.

{table(["data", "size of the data", "peak memory"], memory_rows())}

## How fast are the other metrics?

Processor time of the same metric with the same features, (5,000 + 5,000) × 512 (`python benchmarks/feature_metrics.py`), and of self-BLEU (`python benchmarks/self_bleu.py`).

{table(["metric", "mallow", "other package", "times faster"], metric_rows())}
"""


def files() -> dict[Path, str]:
    """Path → contents of everything that this script writes."""
    return {PAGE: page(), DOCS / PICTURE: decision_picture(), DOCS / GROWTH: growth_picture()}


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
    else:
        for path, text in files().items():
            path.write_text(text, encoding="utf-8")
