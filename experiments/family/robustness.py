"""What k, n, the reduction, c and the seed do to the score, on real text (paper: sec:best-practices, fig:estimation).

    python experiments/family/robustness.py       minutes

GPT-2 large on web text under six decoders (../shared/data/webtext-gpt2-large), GloVe, up to 1,000 texts per side. Writes robustness.json, .md and .png.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import f, spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "embedders"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import FAILS, HOLDS, NOISE, Claim, above, claims_table, grid, verdict, write
from claims import evidence as certified_areas
from pictures import Panel, draw
from webtext import DECODERS, by_prompt

from mallow import Comparison, Measure, Quantize, Reduce, Samples, area, compare, frontier
from mallow.embed import glove

HERE = Path(__file__).resolve().parent
SEEDS = 5
BINS = (5, 10, 20, 50, 100, 200, 500)
SIZES = (50, 100, 200, 400, 700, 950)
DIMENSIONS = (2, 5, 10, 20, 50)
SCALES = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)


def values(
    estimator: Quantize, x: np.ndarray, y: np.ndarray, *, scale: float = 5.0, draws: int | None = None
) -> list[float]:
    """The area for every seed; with `draws`, of other subsets of the texts too."""
    found = []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        some = [each if draws is None else each[rng.permutation(len(each))[:draws]] for each in (x, y)]
        found.append(float(area(frontier(estimator(*some, rng=seed)), scale=scale)))
    return found


def held_out(texts: dict[str, dict[int, str]], points: dict[str, np.ndarray]) -> dict[str, dict[float, Comparison]]:
    """Comparisons of all decoders for every n and c, on prompts that all of them have continued."""
    common = sorted(set.intersection(*map(set, texts.values())))
    order = np.random.default_rng(0).permutation(len(common))
    ids = np.array([str(number) for number in common])
    rows = {
        name: each[np.isin(list(texts[name]), common)]  # texts are in the order of their numbers
        for name, each in points.items()
    }

    def compared(places: np.ndarray, **options) -> Comparison:
        sets = {name: Samples(features=each[places], ids=tuple(ids[places])) for name, each in rows.items()}
        return compare(sets.pop("human"), sets, **options)

    return {
        "samples n": {n: compared(order[:n]) for n in SIZES},
        "scale c": {c: compared(order, measure=Measure(Quantize(), scale=c)) for c in SCALES},
    }


def main() -> None:
    warnings.simplefilter("ignore")
    everything, embed = by_prompt(), glove()
    points = {name: np.asarray(embed(list(each.values()))) for name, each in everything.items()}
    order = np.random.default_rng(0).permutation(len(points["human"]))
    x, systems = points.pop("human"), points
    halves = x[order[:500]], x[order[500:]]
    base = Quantize()
    studies = {
        "bins k": {k: {name: values(replace(base, bins=k), x, y) for name, y in systems.items()} for k in BINS},
        "samples n": {n: {name: values(base, x, y, draws=n) for name, y in systems.items()} for n in SIZES},
        "components m": {
            m: {name: values(replace(base, reduce=Reduce(dimension=m)), x, y) for name, y in systems.items()}
            for m in DIMENSIONS
        },
        "scale c": {c: {name: values(base, x, y, scale=c) for name, y in systems.items()} for c in SCALES},
    }
    for n in SIZES[:4]:
        studies["samples n"][n]["human"] = values(base, *halves, draws=n)
    default = {name: float(np.mean(values(base, x, y))) for name, y in systems.items()}
    page, panels, claims = "", [], []
    for title, study in studies.items():
        names = [*DECODERS, *(["human"] if title == "samples n" else [])]
        rows = []
        for at, each in study.items():
            rho = float(
                spearmanr([np.mean(each[name]) for name in DECODERS], [default[name] for name in DECODERS]).statistic
            )
            cells = [
                f"{np.mean(each[name]):.3f} ± {np.std(each[name], ddof=1):.3f}" if name in each else ""
                for name in names
            ]
            rows.append([f"{at:g}", *cells, rho])
        page += grid([title, *names, "ρ with default"], rows) + "\n"
        lines = {
            name: (
                [at for at in study if name in study[at]],
                [np.mean(study[at][name]) for at in study if name in study[at]],
                [np.std(study[at][name]) for at in study if name in study[at]],
            )
            for name in names
        }
        panels.append(Panel(f"MAUVE* by {title}; bars: standard deviation", title, lines, log=True))
    claims += judge(studies, held_out(everything, {"human": x, **systems}))
    head = f"GPT-2 large, GloVe, {SEEDS} seeds (mean ± standard deviation; for n also of subsets): `python experiments/family/robustness.py`. Held-out evidence does not depend on k and m, which are "
    head += "settings of the estimator; at each n it is that of one subset of the prompts.\n\n"
    write(
        __file__,
        "robustness",
        {"studies": studies, "default": default, "claims": claims},
        head + page + claims_table(claims),
    )
    draw(HERE / "robustness.png", panels, columns=2, width=5)


LOW = ("greedy", "beam")
PAIRS = tuple((better, worse) for better in DECODERS if better not in LOW for worse in LOW)


def together(said: list[str]) -> str:
    """One verdict on an order of which every pair has one."""
    return FAILS if FAILS in said else NOISE if NOISE in said else HOLDS


def by_seeds(study: dict) -> str:
    """Whether greedy and beam search are below the rest, by MAUVE* with the spread over seeds (and subsets)."""

    def pair(better: str, worse: str) -> str:
        a, b = study[better], study[worse]
        return verdict(float(np.mean(a) - np.mean(b)), float(np.sqrt((np.var(a, ddof=1) + np.var(b, ddof=1)) / SEEDS)))

    return together([pair(*names) for names in PAIRS])


def by_evidence(found: Comparison) -> str:
    return together([above(found, *names)["held-out"] for names in PAIRS])


def judge(studies: dict, evidence: dict[str, dict[float, Comparison]]) -> list[Claim]:
    claims = []
    whole = by_evidence(evidence["scale c"][5.0])
    for title, label, text in (
        ("bins k", "fig:estimation", "greedy and beam are below the rest, whatever k"),
        (
            "components m",
            "fig:estimation",
            "beyond the paper: greedy and beam are below the rest, whatever the number of principal components",
        ),
        (
            "scale c",
            "fig:estimation",
            "greedy and beam are below the rest, whatever c (the paper: c does not change rankings; erratum 4)",
        ),
        ("samples n", "sec:best-practices", "beyond the paper: greedy and beam are below the rest, whatever n"),
    ):
        seeds = {at: by_seeds(study) for at, study in studies[title].items()}
        proven = {at: by_evidence(found) for at, found in evidence.get(title, {}).items()} or {"all": whole}
        shown = []
        for kind, each in (("MAUVE*", seeds), ("held-out", proven)):
            for said in (FAILS, NOISE):
                places = [f"{at}" for at, one in each.items() if one == said]
                if places:
                    shown.append(f"{kind} {said} at {title.split()[-1]} = {', '.join(places)}")
        said = {"MAUVE*": together(list(seeds.values())), "held-out": together(list(proven.values()))}
        claims.append(Claim(label, text, said, "; ".join(shown)))
    n, proven = studies["samples n"], evidence["samples n"]
    for name in ("greedy", "nucleus"):
        first, last = n[SIZES[0]][name], n[SIZES[-1]][name]
        error = float(np.sqrt((np.var(first, ddof=1) + np.var(last, ddof=1)) / SEEDS))
        limits = [proven[size].scores[name].certified["mauve"].high for size in (SIZES[0], SIZES[-1])]
        areas = [certified_areas(proven[size])[name] for size in (SIZES[0], SIZES[-1])]
        said = {
            "MAUVE*": verdict(float(np.mean(first) - np.mean(last)), error),
            "held-out": verdict(areas[0][0] - areas[1][0], float(np.hypot(areas[0][1], areas[1][1]))),
        }
        detail = f"{np.mean(first):.3f} at {SIZES[0]}, {np.mean(last):.3f} at {SIZES[-1]}; certified, at most {limits[0]:.3f} and {limits[1]:.3f}"
        claims.append(Claim("sec:best-practices", f"the score goes down as n grows, {name}", said, detail))
        # F test of two variances of so many seeds each
        ratio = np.var(first, ddof=1) / np.var(last, ddof=1)
        low, high = f.ppf([0.025, 0.975], SEEDS - 1, SEEDS - 1)
        said = {"MAUVE*": HOLDS if ratio > high else FAILS if ratio < low else NOISE}
        detail = f"{np.std(first, ddof=1):.3f} and {np.std(last, ddof=1):.3f}"
        claims.append(
            Claim("sec:best-practices", f"and its standard deviation is larger with few samples, {name}", said, detail)
        )
    return claims


if __name__ == "__main__":
    main()
