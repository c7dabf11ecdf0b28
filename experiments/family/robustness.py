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
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "embedders"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import FAILS, HOLDS, Claim, claims_table, grid, verdict, write
from pictures import Panel, draw
from webtext import DECODERS, by_prompt

from mallow import Quantize, Reduce, area, frontier
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
    claims += judge(studies, default)
    head = f"GPT-2 large, GloVe, {SEEDS} seeds (mean ± standard deviation; for n also of subsets): `python experiments/family/robustness.py`.\n\n"
    write(
        __file__,
        "robustness",
        {"studies": studies, "default": default, "claims": claims},
        head + page + claims_table(claims),
    )
    draw(HERE / "robustness.png", panels, columns=2, width=5)


def judge(studies: dict, default: dict[str, float]) -> list[Claim]:
    claims = []

    def ordered(study: dict, low: tuple[str, ...] = ("greedy", "beam")) -> bool:
        means = {name: np.mean(each) for name, each in study.items() if name != "human"}
        return max(means[name] for name in low) < min(value for name, value in means.items() if name not in low)

    for title, label, text in (
        ("bins k", "fig:estimation", "the clear order (greedy and beam below the rest) does not depend on k"),
        ("components m", "fig:estimation", "nor on the number of principal components"),
        ("scale c", "fig:estimation", "nor on c (the paper: c does not change rankings; erratum 4)"),
        ("samples n", "sec:best-practices", "nor on n"),
    ):
        wrong = [f"{at:g}" for at, study in studies[title].items() if not ordered(study)]
        claims.append(
            Claim(label, text, {"measure": FAILS if wrong else HOLDS}, f"broken at {', '.join(wrong)}" if wrong else "")
        )
    n = studies["samples n"]
    for name in ("greedy", "nucleus"):
        first, last = n[SIZES[0]][name], n[SIZES[-1]][name]
        error = float(np.sqrt((np.var(first, ddof=1) + np.var(last, ddof=1)) / SEEDS))
        said = verdict(float(np.mean(first) - np.mean(last)), error)
        claims.append(
            Claim(
                "sec:best-practices",
                f"the score goes down as n grows, {name}",
                {"MAUVE*": said},
                f"{np.mean(first):.3f} at {SIZES[0]}, {np.mean(last):.3f} at {SIZES[-1]}",
            )
        )
        spread = np.std(first, ddof=1) > np.std(last, ddof=1)
        claims.append(
            Claim(
                "sec:best-practices",
                f"and its standard deviation is larger with few samples, {name}",
                {"by sign": HOLDS if spread else FAILS},
                f"{np.std(first, ddof=1):.3f} and {np.std(last, ddof=1):.3f}",
            )
        )
    return claims


if __name__ == "__main__":
    main()
