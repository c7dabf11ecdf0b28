"""Write docs/benchmarks.md and its two pictures from the results beside this file: python benchmarks/report.py

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
METRICS = {  # ours: the other's, by name in feature_metrics.json
    "Fréchet distance": ("frechet_distance", "torch-fidelity fid", "torch-fidelity"),
    "kernel distance (KID)": ("kernel_distance", "torch-fidelity kid", "torch-fidelity"),
    "precision and recall": ("precision_recall", "torch-fidelity prc", "torch-fidelity"),
    "precision, recall, density, coverage": ("precision_recall", "prdc", "prdc"),
}


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


def metric_rows() -> list[list[str]]:
    """Metric; processor seconds of mallow and of the other package; peak memory of both."""
    measured = results("feature_metrics")["5000x512"]
    rows = []
    for shown, (ours, theirs, package) in METRICS.items():
        mine, other = measured[ours], measured[theirs]
        rows.append([shown, f"{mine['cpu_seconds']:.1f} s", f"{other['cpu_seconds']:.1f} s", f"{mine['peak_gb']:.2f} GB", f"{other['peak_gb']:.2f} GB", package])  # fmt: skip
    bleu = results("self_bleu")
    hours = f"{bleu['nltk_cpu_seconds_extrapolated'] / 3600:.1f} h, extrapolated"
    return [*rows, ["self-BLEU of 5,000 texts", f"{bleu['cpu_seconds']:.1f} s", hours, "", "", "NLTK"]]


def growth_rows() -> list[list[str]]:
    """n = m; processor seconds of the whole call and of the published score only."""
    growth = results("scores")["growth"]
    whole = growth["mallow.score(x, y, repeats=1), all that it returns (processor s)"]
    inner = growth["inner path, published score alone (processor s)"]
    return [[f"{n:,}", f"{a:.1f} s", f"{b:.1f} s"] for n, a, b in zip(growth["n = m"], whole, inner, strict=True)]


def memory_rows() -> list[list[str]]:
    """Data; size; peak memory."""
    large = results("scores")["large"]["peak memory of the process / input (input included)"]
    size = 100_000 * 2048 * 4 / 1e9
    rows = [[f"{SIZES['large']}, in memory", f"{size:.1f} GB", f"{large * size:.1f} GB"]]
    for row in results("scale")["sizes"]:
        rows.append([f"{row['rows']:,} × {row['width']} in files, 4 GB allowed", f"{row['bytes'] / 1e9:.1f} GB", f"{row['peak_bytes'] / 1e9:.1f} GB"])  # fmt: skip
    return rows


def speed_picture() -> str:
    """Two bars for each call: mallow and mauve-text."""
    rows = against_mauve_text()
    unit = 250 / max(max(ours, theirs) for _, ours, theirs in rows[:3])
    parts = []
    for place, (shown, ours, theirs) in enumerate(rows[:3]):
        y = 46 + 54 * place
        parts.append(f'<text x="338" y="{y + 22}" text-anchor="end">{shown.removeprefix(SIZES["small"] + ", ")}</text>')
        for down, kind, seconds, name in ((0, "mallow", ours, "mallow"), (20, "other", theirs, "mauve-text")):
            parts.append(
                f'<rect class="{kind}" x="350" y="{y + down}" width="{unit * seconds:.0f}" height="16" rx="3"/>'
            )
            parts.append(
                f'<text x="{356 + unit * seconds:.0f}" y="{y + down + 13}">{seconds:.1f} s&#160;&#160;{name}</text>'
            )
    return drawing(f"Seconds of one call with {SIZES['small']} features on two cores", parts, 210)


def growth_picture() -> str:
    """Processor time against n, both on logarithmic axes."""
    growth = results("scores")["growth"]
    sizes = growth["n = m"]
    seconds = growth["mallow.score(x, y, repeats=1), all that it returns (processor s)"]
    places = [(90 + 270 * math.log10(n / sizes[0]), 250 - 110 * math.log10(s)) for n, s in zip(sizes, seconds, strict=True)]  # fmt: skip
    parts = ['<path d="M' + " L".join(f"{x:.0f} {y:.0f}" for x, y in places) + '"/>']
    for (x, y), n, value in zip(places, sizes, seconds, strict=True):
        parts.append(f'<circle class="mallow" cx="{x:.0f}" cy="{y:.0f}" r="4"/>')
        parts.append(f'<text x="{x:.0f}" y="{y - 10:.0f}" text-anchor="middle">{value:.1f} s</text>')
        parts.append(f'<text x="{x:.0f}" y="284" text-anchor="middle">{n:,}</text>')
    return drawing("Processor seconds of mallow.score by samples per side, width 128, 500 bins", parts, 300)


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


def page() -> str:
    """The page of benchmarks."""
    scores = results("scores")
    about, ten = scores["about"], scores["ten"]
    speed = [[shown, f"{ours:.1f} s", f"{theirs:.1f} s", f"{theirs / ours:.1f}"] for shown, ours, theirs in against_mauve_text()]  # fmt: skip
    return f"""# Benchmarks

Measured with mallow {about["mallow"]}, NumPy {about["numpy"]}, mauve-text 0.4.0 with faiss-cpu {about["faiss"]}, on {about["cores"]} cores. Each ratio compares times of one run on
one machine. Absolute times depend on the machine. `python benchmarks/report.py` writes this page. The files `benchmarks/*.json` contain everything that was measured.

## Against mauve-text

    python benchmarks/scores.py

Features are given, and mallow returns everything: p-value, certified bound, intervals, telltale signs.

{table(["call", "mallow", "mauve-text", "times faster"], speed)}

![Seconds of one call]({picture_names()[0]})

A comparison of ten systems takes {ten["that, times one score"]:.1f} times as long as one score.

## Embedding

    python benchmarks/embedding.py

{table(["model and texts", "mallow", "mauve-text, default", "mauve-text, best batch"], embedding_rows())}

The default embedder of mallow, MiniLM with 8-bit weights, embeds about 30 texts of 200 tokens per second on two cores.

## Growth with the number of samples

    python benchmarks/scores.py

Processor time of `mallow.score(x, y, repeats=1)` at width 128 with 500 bins. It grows like n^{scores["growth"]["exponent"]:.2f}.

{table(["samples per side", "everything", "published score only"], growth_rows())}

![Processor time against the number of samples]({picture_names()[1]})

## Memory

    python benchmarks/scores.py && python benchmarks/scale.py

{table(["data", "size of the data", "peak memory"], memory_rows())}

## Other metrics

    python benchmarks/feature_metrics.py && python benchmarks/self_bleu.py

5,000 + 5,000 samples of width 512, in processor seconds.

{table(["metric", "mallow", "other", "memory, mallow", "memory, other", "other package"], metric_rows())}

## Also measured

String kernels, optimal transport, decoding rules, rankings by people and the annotation page have their own scripts in `benchmarks/`. Each script explains how to run it, and its results
are in the JSON file of the same name.
"""


def picture_names() -> tuple[str, str]:
    """The files of the two pictures, in docs/."""
    return "benchmark-speed.svg", "benchmark-growth.svg"


def files() -> dict[Path, str]:
    """Path → contents of everything that this script writes."""
    speed, growth = picture_names()
    return {PAGE: page(), DOCS / speed: speed_picture(), DOCS / growth: growth_picture()}


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
    else:
        for path, text in files().items():
            path.write_text(text, encoding="utf-8")
