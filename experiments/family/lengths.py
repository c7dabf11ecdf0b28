"""Quality against the length of the text, by MAUVE* and by other measures (paper: fig:expt:length:main, fig:a:expt:length:all).

    python experiments/family/lengths.py       about ten minutes, after systems.py

Stories; human and generated continuations are cut to the same number of tokens. The generations are those of systems.py: no text ends early, so a
length says nothing about who wrote it. Writes lengths.json, lengths.md and lengths.png beside this file.
"""

from __future__ import annotations

import functools
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import Claim, claims_table, error_of_mean, evidence, fold_error, grid, published, trend, write
from measured import EMBEDDER, SCORED, comparison, features, generation_perplexity, kept, written
from pictures import Panel, draw
from settings import Domain, available
from systems import COUNT, MIDDLE, System, generations, human, human_tokens, model, prompts, tokens_of

from mallow import Comparison, Gaussian, Quantize, area, frontier, smoothing
from mallow.baselines import frechet_distance, language_modelling, precision_recall
from mallow.theory import transport

HERE = Path(__file__).resolve().parent
LENGTHS = (32, 64, 128, 256)
LM_TEXTS, LM_PARTS = 50, 5  # human texts for the sparsemax score, and the parts that its error is taken from
PLAIN = Quantize(smoothing=smoothing.empirical)  # transport is of histograms without smoothing, as published
MAIN, ALL = "fig:expt:length:main", "fig:a:expt:length:all"
PAPER = {  # measure → where the paper speaks of it, and how quality changes with length by it
    "Fréchet": (MAIN, "rises"),
    "perplexity gap": (MAIN, "not monotone"),
    "sparsemax": (MAIN, "stays"),
    "transport": ("fig:ot-v-mauve", "rises"),
    "quantised transport": ("fig:ot-v-mauve", "falls"),
    "MAUVE_OT": ("fig:bary-mauve", "falls"),
    "MAUVE, Gaussian": ("fig:estimation", "falls"),
}
SAYS = {
    "falls": "quality falls with length",
    "rises": "quality rises with length",
    "not monotone": "quality is not monotone with length",
    "stays": "quality stays the same with length",
}
WORSE = {  # 1: larger is worse
    "MAUVE*": -1,
    "certified": -1,
    "Fréchet": 1,
    "transport": 1,
    "quantised transport": 1,
    "MAUVE_OT": -1,
    "MAUVE, Gaussian": -1,
    "perplexity gap": 1,
    "sparsemax": -1,
    "precision": -1,
    "recall": -1,
}


def chosen(domain: Domain) -> list[System]:
    middle, sizes = MIDDLE[domain.name], (domain.sizes[1], MIDDLE[domain.name], domain.sizes[-1])
    wanted = [*(System(size, "nucleus:0.95") for size in sizes), System(middle, "ancestral"), System(middle, "greedy")]
    have = set(written(domain))
    return [system for system in dict.fromkeys(wanted) if system in have]


def quantised(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean([transport.quantized_cost(PLAIN(x, y, rng=seed)) for seed in range(3)]))


@functools.cache
def of_people(domain: Domain, length: int) -> tuple[float, float]:
    return generation_perplexity(domain, human_tokens(domain), new=length)


def gaussian(x: np.ndarray, y: np.ndarray) -> float:
    estimator = Gaussian(samples=2000)
    return float(area(frontier(estimator(x, y, rng=0)), scale=estimator.scale))


def transport_area(x: np.ndarray, y: np.ndarray) -> float:
    """MAUVE_OT of one clustering, with the published c = 5."""
    return float(area(transport.linear_frontier(PLAIN(x, y, rng=0)), scale=5))


def sparsemax(domain: Domain, system: System, length: int) -> list[float]:
    """Of human text under the model, and its standard error: it does not look at generated text."""

    def work() -> object:
        own = model(domain, system.size)
        texts = human_tokens(domain, count=LM_TEXTS)[:, :length].tolist()
        before = [prompt.tokens for prompt in prompts(domain, LM_TEXTS)]
        parts = [
            language_modelling(own, texts[part::LM_PARTS], (), prefixes=before[part::LM_PARTS]).sparsemax
            for part in range(LM_PARTS)
        ]
        return [float(np.mean(parts)), error_of_mean(parts)]

    return kept(domain, "sparsemax", (system.size, length, LM_TEXTS, LM_PARTS), work)


def measured(domain: Domain, system: System, length: int, scores: Comparison) -> dict[str, dict[str, float]]:
    """Value and standard error of every measure."""

    def work() -> object:
        reference, own = human(domain, new=length), generations(domain, system, new=length)
        x, y = features(domain, reference), features(domain, own)
        ours, our_error = generation_perplexity(domain, tokens_of(domain, system), new=length)
        theirs, their_error = of_people(domain, length)
        manifolds = precision_recall(x, y)
        plain = {name: getattr(manifolds, name) for name in ("precision", "recall")}
        return {
            "Fréchet": [frechet_distance(x, y), fold_error(frechet_distance, x, y)],
            "transport": [float(transport.transport_cost(x, y)), fold_error(transport.transport_cost, x, y)],
            "quantised transport": [quantised(x, y), fold_error(quantised, x, y)],
            "MAUVE_OT": [transport_area(x, y), fold_error(transport_area, x, y)],
            "MAUVE, Gaussian": [gaussian(x, y), fold_error(gaussian, x, y)],
            **{name: [value, float(np.sqrt(value * (1 - value) / len(x)))] for name, value in plain.items()},
            "perplexity gap": [abs(ours - theirs), float(np.hypot(our_error, their_error))],
            "sparsemax": sparsemax(domain, system, length),
        }

    own = {"MAUVE*": list(published(scores)[system.name]), "certified": list(evidence(scores)[system.name])}
    return own | kept(domain, "lengths", (system, length, SCORED, LM_TEXTS), work)


def main() -> None:
    warnings.simplefilter("ignore")
    domain = available("books")
    systems = chosen(domain)
    values: dict[str, dict[int, dict]] = {system.name: {} for system in systems}
    floor = {}
    for length in LENGTHS:
        scores = comparison(domain, systems, new=length)
        floor[length] = scores.scores["human"].mauve
        for system in systems:
            values[system.name][length] = measured(domain, system, length, scores)
        print(length, file=sys.stderr)
    claims = [claim for system, each in values.items() for claim in judge(system, list(each.values()))]
    write(__file__, "lengths", {"values": values, "human": floor, "claims": claims}, page(values, claims))
    picture(values)


def judge(system: str, lines: list[dict[str, list[float]]]) -> list[Claim]:
    """What the paper says of a system's measures by length, the shortest first."""

    def said(name: str, kind: str) -> str:
        quality = [-WORSE[name] * line[name][0] for line in lines]
        return trend(kind, quality, [line[name][1] for line in lines])

    def shown(name: str) -> str:
        return ", ".join(f"{line[name][0]:.3g}" for line in lines)

    both = {"MAUVE*": said("MAUVE*", "falls"), "held-out": said("certified", "falls")}
    detail = f"{shown('MAUVE*')}; certified {shown('certified')}"
    own = MAIN if "nucleus" in system else ALL
    claims = [Claim(own, f"{SAYS['falls']}, {system}", both, detail)]
    for name, (label, kind) in PAPER.items():
        text = f"{SAYS[kind]} by {name}, {system}"
        claims.append(Claim(own if label == MAIN else label, text, {"measure": said(name, kind)} | both, shown(name)))
    return claims


def page(values: dict[str, dict], claims: list[Claim]) -> str:
    names = list(WORSE)
    rows = [
        [f"{system}, {length} tokens", *(line[name][0] for name in names)]
        for system, each in values.items()
        for length, line in each.items()
    ]
    text = f"Stories, {EMBEDDER}, n = {COUNT} per side: `python experiments/family/lengths.py`. "
    text += "The paper says that quality falls with length, that MAUVE, also with Gaussians, quantised transport and MAUVE_OT show it, that Fréchet distance and plug-in transport show the opposite, "
    text += "that perplexity is not monotone, and that the sparsemax score stays the same. Columns MAUVE* and held-out say whether quality falls by these. What the paper says about precision is on another page: precision_recall.md. "
    text += f"Perplexity is of {SCORED} texts, the sparsemax score of {LM_TEXTS} by people. Errors: of perplexity over texts, of the sparsemax score over {LM_PARTS} parts, "
    text += "of transport and Fréchet distance over four parts, of precision and recall binomial.\n\n"
    return text + grid(["system", *names], rows) + "\n" + claims_table(claims)


def picture(values: dict[str, dict]) -> None:
    panels = []
    for name in WORSE:
        lines = {}
        for system, each in values.items():
            line = [each[length][name] for length in LENGTHS]
            lines[system] = range(len(LENGTHS)), [value for value, _ in line], [error for _, error in line]
        title = f"{name} ({'higher' if WORSE[name] == 1 else 'lower'} is worse)"
        spread = name in ("Fréchet", "transport", "quantised transport", "perplexity gap")
        panels.append(Panel(title, "tokens", lines, logy=spread, ticks=[str(length) for length in LENGTHS]))
    draw(HERE / "lengths.png", panels, columns=3)


if __name__ == "__main__":
    main()
