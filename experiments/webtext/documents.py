"""Whole documents of GPT-2 small cut at several lengths (paper: fig:expt:length:main, fig:a:expt:length:all).

    python experiments/webtext/documents.py       about ten minutes of processor time, a minute with the features cached

WebText and unconditional samples of GPT-2 small (../shared/data/webtext-gpt2-small). The documents on both sides that have at least 400 words are cut to 25 to
400 words, so that every length has the same documents. MiniLM reads at most 256 tokens and so stops at 100 words; GloVe reads everything.
Writes documents.json, documents.md and documents.png beside this file.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "embedders"))
from claims import Claim, claims_table, evidence, fold_error, grid, monotone, published, write
from pictures import Panel, draw
from webtext import FOLDER, cut

import mallow
from mallow import Gaussian, Quantize, Samples, area, frontier, smoothing
from mallow.baselines import discriminator_accuracy, frechet_distance, precision_recall
from mallow.embed import embed_samples, glove, minilm
from mallow.theory import transport

HERE = Path(__file__).resolve().parent
SMALL = FOLDER.parent / "webtext-gpt2-small"
WORDS = (25, 50, 100, 200, 400)
EMBEDDERS = {"GloVe": (glove, WORDS), "MiniLM": (minilm, WORDS[:3])}
PLAIN = Quantize(smoothing=smoothing.empirical)  # transport is of histograms without smoothing, as published
MEASURES = {  # 1: larger is worse
    "MAUVE*": -1,
    "certified": -1,
    "MAUVE, Gaussian": -1,
    "quantised transport": 1,
    "MAUVE_OT": -1,
    "Fréchet distance": 1,
    "transport": 1,
    "precision": -1,
    "recall": -1,
    "discriminator": 1,
}
PAPER = {  # measure → where the paper speaks of it, and whether text gets worse with length by it
    "MAUVE, Gaussian": ("fig:estimation", True),
    "quantised transport": ("fig:ot-v-mauve", True),
    "MAUVE_OT": ("fig:bary-mauve", True),
    "Fréchet distance": ("fig:expt:length:main", False),
    "transport": ("fig:ot-v-mauve", False),
    "precision": ("fig:kynka-pr-nlp", False),
}


def documents() -> tuple[list[str], list[str]]:
    """Documents of people and of GPT-2 small with at least as many words as the longest cut, as many of both."""
    if not SMALL.is_dir():
        sys.exit(f"This study needs the texts in {SMALL}, which are not part of the repository.")
    sides = [
        [
            text
            for text in mallow.samples.read(SMALL / f"webtext.{name}.jsonl.gz").texts
            if len(text.split()) >= WORDS[-1]
        ]
        for name in ("human", "gpt2-small-unconditional")
    ]
    count = min(map(len, sides))
    return sides[0][:count], sides[1][:count]


def gaussian(x: np.ndarray, y: np.ndarray) -> float:
    estimator = Gaussian(samples=2000)
    return float(area(frontier(estimator(x, y, rng=0)), scale=estimator.scale))


def quantised(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean([transport.quantized_cost(PLAIN(x, y, rng=seed)) for seed in range(3)]))


def transport_area(x: np.ndarray, y: np.ndarray) -> float:
    """MAUVE_OT, with the published c = 5."""
    return float(np.mean([area(transport.linear_frontier(PLAIN(x, y, rng=seed)), scale=5) for seed in range(3)]))


def measured(x: np.ndarray, y: np.ndarray) -> dict[str, tuple[float, float]]:
    """Value and standard error of every measure."""
    functions = {
        "MAUVE, Gaussian": gaussian,
        "quantised transport": quantised,
        "MAUVE_OT": transport_area,
        "Fréchet distance": frechet_distance,
        "transport": transport.transport_cost,
    }
    scores = mallow.compare(Samples(features=x).with_row_ids(), {"GPT-2": Samples(features=y)})
    manifolds = precision_recall(x, y)
    shares = {"precision": manifolds.precision, "recall": manifolds.recall}
    accuracy = discriminator_accuracy(x, y, rng=0)
    return {
        "MAUVE*": published(scores)["GPT-2"],
        "certified": evidence(scores)["GPT-2"],
        **{name: (float(measure(x, y)), fold_error(measure, x, y)) for name, measure in functions.items()},
        **{name: (value, float(np.sqrt(value * (1 - value) / len(x)))) for name, value in shares.items()},
        "discriminator": (accuracy, float(np.sqrt(accuracy * (1 - accuracy) / (len(x) / 2)))),  # a quarter is held out
    }


def judge(values: dict[str, dict[int, dict[str, tuple[float, float]]]]) -> list[Claim]:
    """Every claim at each step, and between the shortest and the longest cut."""
    claims = []
    for embedder, by_length in values.items():
        lengths = list(by_length)
        for cuts, steps in (
            (lengths, "at every step"),
            ([lengths[0], lengths[-1]], f"{lengths[0]} to {lengths[-1]} words"),
        ):

            def line(name: str, sign: int, cuts: list[int] = cuts, by_length: dict = by_length) -> str:
                pairs = [by_length[words][name] for words in cuts]
                return monotone([sign * value for value, _ in pairs], [error for _, error in pairs])

            def shown(name: str, cuts: list[int] = cuts, by_length: dict = by_length) -> str:
                return ", ".join(f"{by_length[words][name][0]:.3g}" for words in cuts)

            both = {"MAUVE*": line("MAUVE*", -1), "held-out": line("certified", -1)}
            detail = f"{shown('MAUVE*')}; certified {shown('certified')}"
            text = f"quality falls with length, {steps} ({embedder})"
            claims.append(Claim("fig:expt:length:main", text, both, detail))
            for name, (label, falls) in PAPER.items():
                text = f"quality {'falls' if falls else 'rises'} with length by {name}, {steps} ({embedder})"
                said = {"measure": line(name, MEASURES[name] if falls else -MEASURES[name])}
                claims.append(Claim(label, text, said | both, shown(name)))
    return claims


def main() -> None:
    warnings.simplefilter("ignore")
    sides = documents()
    values: dict[str, dict[int, dict]] = {}
    for name, (make, lengths) in EMBEDDERS.items():
        embedder, values[name] = make(), {}
        for words in lengths:
            points = (embed_samples(Samples(texts=cut(side, words)), embedder).require_features() for side in sides)
            values[name][words] = measured(*points)
            print(
                name, words, {key: round(value, 3) for key, (value, _) in values[name][words].items()}, file=sys.stderr
            )
    report(len(sides[0]), values)


def report(n: int, values: dict[str, dict[int, dict[str, tuple[float, float]]]]) -> None:
    claims = judge(values)
    page = f"{n} documents of WebText and as many of GPT-2 small without a prompt, all of at least {WORDS[-1]} words, cut to the same number of words: `python experiments/webtext/documents.py`. "
    page += "MiniLM reads 256 tokens, so that longer cuts would be the same to it. The paper says that quality falls with length, that MAUVE, also with Gaussians, quantised transport and MAUVE_OT show it, and that "
    page += "Fréchet distance, plug-in transport and precision show the opposite. Perplexity and the sparsemax score need the probabilities of GPT-2, which cannot be had here. "
    page += "Errors: of MAUVE* over redrawn texts and clusterings, of precision, recall and the discriminator binomial, of the others over four parts. Columns MAUVE* and held-out say whether quality falls by these.\n\n"
    rows = [
        [f"{name}, {words} words", *(f"{one[key][0]:.3f} ± {one[key][1]:.2g}" for key in MEASURES)]
        for name, by_length in values.items()
        for words, one in by_length.items()
    ]
    page += grid(["embedder, length", *MEASURES], rows) + "\n" + claims_table(claims)
    write(__file__, "documents", {"n": n, "values": values, "claims": claims}, page)
    panels = []
    for key, sign in MEASURES.items():
        lines = {
            name: (list(by_length), *zip(*(one[key] for one in by_length.values()), strict=True))
            for name, by_length in values.items()
        }
        panels.append(Panel(f"{key} ({'higher' if sign == 1 else 'lower'} is worse)", "words", lines, log=True))
    draw(HERE / "documents.png", panels, columns=4)


if __name__ == "__main__":
    main()
