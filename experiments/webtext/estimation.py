"""Every estimator in its published and its default form on texts of GPT-2 large, with up to 200 principal components (paper: fig:estimation).

    python experiments/webtext/estimation.py       about five minutes of processor time with the features cached

Human text and six decoders on one half of the prompts of ../shared/data/webtext-gpt2-large against human text on the other half, MiniLM. Errors come from random
halves of the texts on both sides (the delete-half jackknife). Writes estimation.json, estimation.md and estimation.png beside this file.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "embedders"))
from claims import FAILS, HOLDS, Claim, Measured, above, claims_table, evidence, grid, rank_agreement, verdict, write
from halves import split
from pictures import Panel, draw

import mallow
from mallow import (
    Classifier,
    Comparison,
    Gaussian,
    KernelDensity,
    Masses,
    Measure,
    Neighbors,
    Quantize,
    Reduce,
    Samples,
    area,
    frontier,
    integral,
)
from mallow.embed import embed_samples, minilm
from mallow.errors import InputError

HERE = Path(__file__).resolve().parent
COMPONENTS = (2, 5, 10, 50, 100, 200)
HALVES = 4
GRID = np.linspace(0.01, 0.99, 99)
DRAWS = 2000  # of each Gaussian
FORMS = {
    "k-NN": Neighbors(reduce=None),
    "k-NN, published": Neighbors(reduce=None, pooled=False),
    "kernel density": KernelDensity(reduce=None),
    "kernel density, published": KernelDensity(reduce=None, pooled=False),
    "Gaussian": Gaussian(reduce=None, samples=DRAWS),
    "Gaussian, no shrinkage": Gaussian(reduce=None, samples=DRAWS, shrinkage=0),
    "Gaussian, published": Gaussian(reduce=None, samples=DRAWS, shrinkage=0, pooled=False),
    "classifier": Classifier(reduce=None),
    "classifier, published": Classifier(reduce=None, pooled=False, squares=0, penalties=(1.0, 0.1, 0.01, 0.001)),
    "quantisation": Quantize(reduce=None),
}
Points = NDArray[np.float64]


def measured(estimator, x: Points, y: Points) -> tuple[float, float, bool]:
    """The area, the frontier integral, and whether the plain costs fall and rise with λ as they must; nan if the estimator refuses."""
    try:
        masses = estimator(x, y, rng=0)
    except InputError:
        return float("nan"), float("nan"), True
    return float(area(frontier(masses), scale=Measure(estimator).area_scale)), float(integral(masses)), falls(masses)


def falls(masses: Masses) -> bool:
    """Whether D(P‖R_λ) falls and D(Q‖R_λ) rises with λ, with t log t as generator; with t log t − t + 1, which the library has, they always do."""
    first, second = slice(None, masses.split), slice(masses.split, None)  # the atoms of each cost
    sides = (masses.p[first], masses.q[first]), (masses.q[second], masses.p[second])
    plain = []
    for (own, other), weights in zip(sides, (GRID, 1 - GRID), strict=True):
        mix = np.outer(weights, own) + np.outer(1 - weights, other)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            plain.append(np.where(own > 0, own * np.log(own / mix), 0.0).sum(axis=1))
    steps = [np.diff(cost) for cost in plain]
    return bool((steps[0] <= 1e-9).all() and (steps[1] >= -1e-9).all())


def halves(x: Points, y: Points) -> list[tuple[Points, Points]]:
    """Random halves of both sides."""
    rng = np.random.default_rng(0)
    return [tuple(side[rng.permutation(len(side))[: len(side) // 2]] for side in (x, y)) for _ in range(HALVES)]


def reduced(x: Points, y: Points) -> tuple[Points, Points]:
    """Both sides on the most principal components; the first few columns are what a smaller reduction gives."""
    first, second = Reduce(dimension=COMPONENTS[-1]).fit(x, y).split(len(x))
    return np.asarray(first), np.asarray(second)


def study(x: Points, systems: dict[str, Points]) -> dict[str, dict[str, dict]]:
    """Estimator and number of components → system → area, areas on halves, frontier integral, falling or not."""
    pairs = {name: [reduced(*pair) for pair in [(x, y), *halves(x, y)]] for name, y in systems.items()}
    found: dict[str, dict[str, dict]] = {}
    for form, estimator in FORMS.items():
        for m in COMPONENTS:
            found[f"{form}, m = {m}"] = {}
            for name, sides in pairs.items():
                (value, whole, in_order), *others = (
                    measured(estimator, *(side[:, :m] for side in pair)) for pair in sides
                )
                found[f"{form}, m = {m}"][name] = {
                    "area": value,
                    "halves": [each for each, _, _ in others],
                    "frontier integral": whole,
                    "falls": in_order,
                }
        print(form, file=sys.stderr)
    return found


def summarise(systems: dict[str, dict], default: dict[str, dict], certified: dict[str, tuple[float, float]]) -> dict:
    """Agreement of an estimator with the default and with held-out evidence, and what its values are like."""
    names = list(certified)
    values = np.array([systems[name]["area"] for name in names])
    parts = np.array([systems[name]["halves"] for name in names])  # (systems, halves)
    errors = parts.std(axis=1, ddof=1)
    both = {name: (float(value), float(error)) for name, value, error in zip(names, values, errors, strict=True)}
    default_parts = np.array([default[name]["halves"] for name in names])
    moved = [spearmanr(a, b).statistic for a, b in zip(parts.T, default_parts.T, strict=True)]
    rho, error = rank_agreement(both, certified)
    return {
        "areas": both,
        "with default": float(spearmanr(values, [default[name]["area"] for name in names]).statistic),
        "± (default)": float(np.std(moved, ddof=1)),
        "with held-out": rho,
        "± (held-out)": error,
        "least area": float(values.min()),
        "largest area": float(values.max()),
        "largest integral": float(max(systems[name]["frontier integral"] for name in names)),
        "not monotone": sum(not systems[name]["falls"] for name in names),
    }


def nearer(results: dict, better: str, worse: str) -> str:
    """Whether an estimator rates one system above another."""
    (a, a_error), (b, b_error) = (results["areas"][name] for name in (better, worse))
    return verdict(a - b, float(np.hypot(a_error, b_error)))


def judge(results: dict[str, dict], scores: Comparison) -> list[Claim]:
    label, claims = "fig:estimation", []

    def agreement(one: dict, least: float) -> dict[str, str]:
        return {
            "MAUVE*": verdict(one["with default"] - least, one["± (default)"]),
            "held-out": verdict(one["with held-out"] - least, one["± (held-out)"]),
        }

    def text(one: dict) -> str:
        return f"ρ = {one['with default']:.3f} ± {one['± (default)']:.3f} with MAUVE*, {one['with held-out']:.3f} ± {one['± (held-out)']:.3f} with held-out"

    for form in FORMS:
        by_m = {m: results[f"{form}, m = {m}"] for m in COMPONENTS}
        m, best = max(by_m.items(), key=lambda pair: np.nan_to_num(pair[1]["with default"], nan=-1))
        claims.append(
            Claim(
                label,
                f"agrees with the default (ρ ≥ 0.95) at the best m, {form}",
                agreement(best, 0.95),
                f"m = {m}: {text(best)}",
            )
        )
        said = {"measure": nearer(by_m[10], "nucleus", "greedy")} | above(scores, "nucleus", "greedy")
        shown = ", ".join(f"{by_m[10]['areas'][name][0]:.3f}" for name in ("nucleus", "greedy"))
        claims.append(Claim(label, f"nucleus sampling is above greedy decoding, {form}, m = 10", said, shown))
    for form in ("Gaussian", "Gaussian, no shrinkage", "Gaussian, published"):
        few, many = results[f"{form}, m = 10"], results[f"{form}, m = 100"]
        said = {
            kind: verdict(few[key] - many[key] - 0.1, float(np.hypot(few[error], many[error])))
            for kind, key, error in (
                ("MAUVE*", "with default", "± (default)"),
                ("held-out", "with held-out", "± (held-out)"),
            )
        }
        detail = f"m = 10: {text(few)}, areas {few['least area']:.3f} to {few['largest area']:.3f}; m = 100: {text(many)}, areas {many['least area']:.3f} to {many['largest area']:.3f}"
        claims.append(Claim(label, f"agreement drops steeply (by 0.1 or more) at m = 100, {form}", said, detail))
    for form in ("k-NN, published", "kernel density, published", "Gaussian, published"):
        counts = {m: results[f"{form}, m = {m}"]["not monotone"] for m in COMPONENTS}
        said = {"measure": HOLDS if max(counts[100], counts[200]) else FAILS}
        shown = ", ".join(f"{count} at m = {m}" for m, count in counts.items())
        text_ = f"D(P‖R_λ) may fail to fall with λ from m = 100 on (generator t log t), {form}"
        claims.append(Claim(label, text_, said, f"systems of 7: {shown}"))
    return claims


def main() -> None:
    warnings.simplefilter("ignore")
    reference, texts = split()
    embedder = minilm()
    x, *others = (
        np.asarray(embed_samples(Samples(texts=side), embedder).require_features())
        for side in (reference, *texts.values())
    )
    systems = dict(zip(texts, others, strict=True))
    scores = mallow.compare(x, {name: Samples(features=y).with_row_ids() for name, y in systems.items()})
    certified = dict(evidence(scores))
    found = study(x, systems)
    default = {
        name: {"area": scores.scores[name].mauve, "halves": [measured(Quantize(), *pair)[0] for pair in halves(x, y)]}
        for name, y in systems.items()
    }
    results = {name: summarise(one, default, certified) for name, one in found.items()}
    report(results, default, certified, scores, len(x), x.shape[1])


def report(results: dict, default: dict, certified: Measured, scores: Comparison, n: int, width: int) -> None:
    claims = judge(results, scores)
    page = f"GPT-2 large under six decoders and human text, n = {n} per side, MiniLM: `python experiments/webtext/estimation.py`. m: principal components of {width}. "
    page += "ρ is over these seven systems, with the default (vector quantisation of the features that keep 90% of the variance) and with the certified area in place of human judgements. *Published*: costs of P are "
    page += "averaged over the points (for Gaussians, draws) of Q alone; Gaussians without shrinkage; a classifier without squares. "
    page += "Frontier integrals above 1 are impossible for distributions: such a row ranks systems by values that mean nothing. *Not monotone*: systems for which D(P‖R_λ) does not fall, or D(Q‖R_λ) does not rise, with λ, if the generator of KL is t log t; with t log t − t + 1, which the library has, both always do.\n\n"
    keys = ("with default", "± (default)", "with held-out", "± (held-out)", "least area", "largest area")
    rows = [
        [name, *(one[key] for key in keys), f"{one['largest integral']:.3g}", one["not monotone"]]
        for name, one in results.items()
    ]
    head = [
        "estimator",
        "ρ with default",
        "±",
        "ρ with held-out",
        "±",
        "least area",
        "largest area",
        "largest frontier integral",
        "not monotone",
    ]
    page += grid(head, rows) + "\n" + claims_table(claims)
    write(
        __file__,
        "estimation",
        {"n": n, "certified": certified, "default": default, "estimators": results, "claims": claims},
        page,
    )
    panels = [
        Panel(
            title,
            "principal components m",
            {form: (COMPONENTS, [results[f"{form}, m = {m}"][key] for m in COMPONENTS]) for form in FORMS},
            log=True,
            logy=key == "largest integral",
        )
        for key, title in (
            ("with default", "Spearman's ρ with the default"),
            ("with held-out", "Spearman's ρ with held-out evidence"),
            ("largest integral", "largest frontier integral (at most 1)"),
        )
    ]
    draw(HERE / "estimation.png", panels, columns=3)


if __name__ == "__main__":
    main()
