"""Write docs/benchmarks.md and its pictures from the results beside this file: python benchmarks/report.py

The page has what users ask for. Everything that was measured is in the JSON files.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
PAGE = DOCS / "benchmarks.md"
STYLE = (
    "text{font:14px system-ui,sans-serif;fill:#1f2328}.page{fill:#fff}.mallow{fill:#7c3aed}.other{fill:#8c959f}"
    "path{fill:none;stroke:#7c3aed;stroke-width:2}.ink{fill:#fff}.rule{stroke:#8c959f;stroke-opacity:.4}.hollow{fill-opacity:.15}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}.mallow{fill:#a78bfa}.other{fill:#8b949e}"
    ".ink{fill:#0d1117}path{stroke:#a78bfa}}"
)
WEIGHTS = "fraction of the product peak, weights only"
SIZES = {"small": "(5,000 + 5,000) × 1,024", "large": "(50,000 + 50,000) × 2,048"}
PICTURE, GROWTH = "benchmark-decision.svg", "benchmark-growth.svg"
LETTERS = {
    "mallow score --fast": "F",
    "mallow score": "S",
    "MMD": "D",
    "energy distance": "E",
    "mauve-text": "M",
    "TF-IDF and logistic regression": "L",
}  # of the ways in the picture


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
    """Tokens of a text; processor milliseconds of torch, of the published graph and of the default; how many times faster this is."""
    measured = results("embedding")["minilm"]
    rows = []
    for lengths in ("32 tokens", "128 tokens", "256 tokens"):
        seconds = measured[lengths]
        ways = ("torch, float32", "published graph", "integer products")
        cells = [f"{1000 * seconds[f'{way} (processor s per text)']:.1f} ms" for way in ways]
        rows.append([lengths, *cells, f"{seconds['times faster than the published graph']:.1f}"])
    return rows


def peak_shares() -> str:
    """How much of the speed of products language models reach, by the length of the texts."""
    measured = results("embedding")["peak"]
    models = (("gpt2", "GPT-2"), ("smollm2", "SmolLM2"))
    by_length = [
        f"{length} tokens " + " and ".join(f"{measured[f'{key}, {length} tokens'][WEIGHTS]:.2f} ({shown})" for key, shown in models)
        for length in (32, 256, 1024)
    ]  # fmt: skip
    return (
        f"With products by oneDNN on an AMD processor, which the four rows about embedding do not have yet, language models "
        f"reach this share of the product peak of oneDNN (weights only, processor time): {'; '.join(by_length)}. The rest "
        f"is mostly attention, whose products torch computes more slowly with MKL, and activations."
    )


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


class Cost(NamedTuple):
    """A way to decide: samples per side, processor seconds (NaN: not measured), and whether they find the gap in 80% of the trials."""

    samples: int
    seconds: float
    reached: bool

    def __str__(self) -> str:
        seconds = "" if math.isnan(self.seconds) else f" · {self.seconds:.2g} s"
        return f"{'' if self.reached else '> '}{self.samples}{seconds}"


def decisions() -> dict[str, dict[str, Cost]]:
    """Alternative → way → its cost, with the largest number of samples that was tried where that is not enough."""
    return {
        row: {
            way: Cost(
                one.get("samples per side", one.get("more than")),
                one.get("call (s)", math.nan) + one.get("embedding (s)", 0.0),
                "samples per side" in one,
            )
            for way, one in ways.items()
        }
        for row, ways in results("decision")["rows"].items()
    }


def smollm2_seconds() -> float:
    """Processor seconds of a text of 180 tokens, which is about 130 words, on both threads."""
    measured = results("embedding")["smollm2"]["8–1024 tokens"]
    return 2 * 180 / measured["tokens per second, ours"]


def cheapest(ways: dict[str, Cost]) -> Cost | None:
    """The cheaper command of mallow that reaches a decision."""
    ours = [one for way, one in ways.items() if way.startswith("mallow") and one.reached]
    return min(ours, key=lambda one: one.seconds, default=None)


def compare_costs() -> str:
    """In how many rows mallow is first, and how much more mauve-text takes, in words."""
    rows = {row: ways for row, ways in decisions().items() if cheapest(ways) is not None}
    count, undecided = len(decisions()), [row for row in decisions() if row not in rows]
    fewest, fastest, cheaper, known, bounds = 0, 0, {}, [], []
    for row, ways in rows.items():
        others = {way: one for way, one in ways.items() if not way.startswith("mallow") and one.reached}
        ours, best = [one for way, one in ways.items() if way.startswith("mallow") and one.reached], cheapest(ways)
        fewest += min(one.samples for one in ours) <= min((one.samples for one in others.values()), default=math.inf)
        faster = [way for way, one in others.items() if one.seconds < best.seconds]
        fastest += not faster
        for way in faster:
            cheaper.setdefault(way, []).append(row)
        (known if ways["mauve-text"].reached else bounds).append(ways["mauve-text"].seconds / best.seconds)
    sentences = [
        f"One of the two commands of mallow needs the fewest samples, or as few as the best other way, in {fewest} of {count} rows, "
        f"and takes the fewest seconds in {fastest}."
    ]
    sentences += [f"{way} takes fewer seconds for {', '.join(quoted(names))}." for way, names in cheaper.items()]
    if undecided:
        sentences.append(f"No command of mallow reaches 80% for {' and '.join(quoted(undecided))}.")
    if known:
        sentences.append(
            f"mauve-text reaches 80% in {len(known)} of these rows, with {span(known)} times the seconds of the cheaper command of mallow."
        )
    measured = [ratio for ratio in bounds if not math.isnan(ratio)]
    if measured:
        sentences.append(
            f"In the other {len(bounds)} rows it does not reach 80%, and its decision with the most samples that were tried takes {span(measured)} times as long as the command of mallow that does."
        )
    return " ".join(sentences)


def quoted(rows: Sequence[str]) -> list[str]:
    """Names of rows, some of which contain a comma."""
    return [f"“{row}”" for row in rows]


def span(values: Sequence[float]) -> str:
    """The least and the greatest of some ratios."""
    least, most = (f"{value:,.2g}" if value < 10 else f"{value:,.0f}" for value in (min(values), max(values)))
    return least if least == most else f"{least} to {most}"


def decision_picture() -> str:
    """Processor seconds of each way, one line for each alternative; hollow where the gap was not found in 80% of the trials."""
    found = decisions()
    ways = list(dict.fromkeys(way for row in found.values() for way in row))
    left, bottom = 230, 60 + 30 * len(found)

    def across(seconds: float) -> float:
        return left + 130 * math.log10(min(max(seconds, 0.03), 300) / 0.03)

    parts = []
    for seconds in (0.1, 1, 10, 100):
        x = across(seconds)
        parts.append(f'<line class="rule" x1="{x:.0f}" y1="42" x2="{x:.0f}" y2="{bottom - 12}"/>')
        parts.append(f'<text x="{x:.0f}" y="{bottom + 6}" text-anchor="middle">{seconds:g} s</text>')
    for number, (row, costs) in enumerate(found.items()):
        y = 62 + 30 * number
        parts.append(f'<text x="{left - 14}" y="{y + 5}" text-anchor="end">{row}</text>')
        for way, one in sorted(costs.items(), key=lambda pair: pair[0].startswith("mallow")):  # ours on top
            if math.isnan(one.seconds):
                continue
            kind = ("mallow" if way.startswith("mallow") else "other") + ("" if one.reached else " hollow")
            x = across(one.seconds)
            parts.append(f'<circle class="{kind}" cx="{x:.0f}" cy="{y}" r="10"><title>{way}: {one}</title></circle>')
            ink = "ink" if one.reached else "key"
            parts.append(f'<text class="{ink}" x="{x:.0f}" y="{y + 5}" text-anchor="middle">{LETTERS[way]}</text>')
    keys = [f"{LETTERS[way]}: {way}" for way in ways]
    for number, line in enumerate((keys[:4], [*keys[4:], "hollow: not found in 80% of the trials"])):
        parts.append(f'<text class="key" x="20" y="{bottom + 32 + 20 * number}">{", ".join(line)}</text>')
    return drawing("Processor seconds of a right decision", parts, bottom + 68)


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
    found, most = decisions(), results("decision")["about"]
    ways = list(dict.fromkeys(way for row in found.values() for way in row))
    decided = [[row, *(str(own.get(way, "–")) for way in ways)] for row, own in found.items()]
    speed += [[f"embedding: {row[0]}", row[1], row[3], f"{float(row[3][:-2]) / float(row[1][:-2]):.1f}"] for row in embedding_rows()]  # fmt: skip
    return f"""# Benchmarks

Measured with mallow {about["mallow"]}, NumPy {about["numpy"]}, mauve-text 0.4.0 with faiss-cpu {about["faiss"]}, on {about["cores"]} cores. Ratios compare times of one run. Absolute times depend on the machine.
`python benchmarks/report.py` writes this page. The files `benchmarks/*.json` contain all measurements, including other parts of mallow.

## What does a right decision cost?

Samples per side with which a gap is found in 80% of {most["trials"]} trials at level 5%, and the processor seconds of one decision from samples to a verdict (`python benchmarks/decision.py`). The numbers of samples are doubled
from 25 to {most["most"]}{", but decoders to 400, because there are 1,000 prompts" if most["most"] > 400 else ""}, so that a cell is the first of them that is enough. A cell with > is not: it has the largest number that was tried. The machine was busy with other work, so that the seconds are upper bounds.
MMD, the energy distance and mauve-text get the features of the default embedder. mauve-text counts as finding a gap if its score is below all of {most["splits"]} scores of the reference with itself, each between halves of the samples.
Texts are embedded by MiniLM{" with `products=float32`" if most["embedder"].startswith("OnnxText") else ""}, and these {len(found)} alternatives were measured. Features of SmolLM2 were not tried in these rows: one text of 130 words takes about {smollm2_seconds():.1g} s of processor time.

{compare_costs()}

{table(["alternative", *ways], decided)}

![Processor seconds of a right decision]({PICTURE})

## How fast is a score?

Features are given (`python benchmarks/scores.py`), and mallow returns everything: p-value, certified bound, intervals, telltale signs. Embedding compares with the best batch of mauve-text (`python benchmarks/embedding.py`).
A comparison of ten systems takes {ten["that, times one score"]:.1f} times as long as one score.

{table(["call", "mallow", "mauve-text", "times faster"], speed)}

{peak_shares()}

The default embedder for texts, `minilm`, on one core with the model loaded, per text in processor time, compared with torch and the same network in float32, and with `-E products=float32`, which was the default before
(onnxruntime {results("embedding")["minilm"]["onnxruntime"]}, a processor with 8-bit dot products).

{table(["length", "torch", "minilm, products=float32", "minilm", "times faster than before"], minilm_rows())}

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
