"""Every estimator on the same systems: trends, and agreement with vector quantisation (paper: fig:estimation).

    python experiments/family/estimators.py       minutes, after systems.py

Stories. Each estimator is run with its default and with 2 to 50 principal components (vector quantisation also with 5 to 100 bins); the
published forms of the ratio estimators (costs of P averaged over the points of Q alone) stand beside the default ones. Agreement is Spearman's ρ over
all systems with the default, and with the certified area in place of the human judgements, which do not exist for these texts.
Writes estimators.json, estimators.md and estimators.png beside this file.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import FAILS, HOLDS, Claim, claims_table, grid, write
from measured import EMBEDDER, comparison, features, kept, written
from pictures import Panel, draw
from settings import available
from systems import MIDDLE, System, generations, human

from mallow import Classifier, Gaussian, KernelDensity, Measure, Neighbors, Quantize, Reduce, area, frontier
from mallow.errors import InputError

HERE = Path(__file__).resolve().parent
DIMENSIONS = (2, 5, 10, 50)  # the features have 64
DECODERS = ("ancestral", "nucleus:0.95", "greedy", "adversarial", "top-k:50", "nucleus:0.8", "nucleus:0.99")
BINS = (5, 10, 20, 50, 100)
FAMILIES = {
    "k-NN": lambda m: Neighbors(reduce=Reduce(dimension=m)),
    "k-NN, published": lambda m: Neighbors(reduce=Reduce(dimension=m), pooled=False),
    "kernel density": lambda m: KernelDensity(reduce=Reduce(dimension=m)),
    "kernel density, published": lambda m: KernelDensity(reduce=Reduce(dimension=m), pooled=False),
    "Gaussian": lambda m: Gaussian(reduce=Reduce(dimension=m), samples=2000),
    "classifier": lambda m: Classifier(reduce=Reduce(dimension=m)),
    "quantisation, PCA": lambda m: Quantize(reduce=Reduce(dimension=m)),
}
DEFAULTS = {"k-NN": 10, "kernel density": 10, "Gaussian": 10, "classifier": 50, "quantisation, PCA": 50}


def value(estimator, x: np.ndarray, y: np.ndarray) -> float:
    """The area; nan if the estimator refuses, which the table shows."""
    try:
        return float(area(frontier(estimator(x, y, rng=0)), scale=Measure(estimator).area_scale))
    except InputError:
        return float("nan")


def agreement(values: dict[str, float], other: dict[str, float]) -> float:
    names = [name for name in values if np.isfinite(values[name])]
    return (
        float(spearmanr([values[name] for name in names], [other[name] for name in names]).statistic)
        if len(names) > 2
        else float("nan")
    )


def trends(domain, values: dict[str, float]) -> dict[str, bool]:
    middle = MIDDLE[domain.name]
    sizes = [values[f"{size} ancestral"] for size in domain.sizes if f"{size} ancestral" in values]
    greedy, ancestral, nucleus = (
        values.get(f"{middle} {name}", np.nan) for name in ("greedy", "ancestral", "nucleus:0.95")
    )
    return {
        "size (ends)": sizes[-1] > sizes[0],
        "greedy ≺ ancestral": greedy < ancestral,
        "ancestral ≺ nucleus 0.95": ancestral < nucleus,
        "half ≈ half (≥ 0.9)": values["human"] >= 0.9,
    }


def main() -> None:
    warnings.simplefilter("ignore")
    domain = available("books")
    systems = [system for system in written(domain) if system.decoder in DECODERS]
    x = features(domain, human(domain))
    points = {"human": features(domain, human(domain, other=True))} | {
        system.name: features(domain, generations(domain, system)) for system in systems
    }
    grids = {f"{name}, m = {m}": make(m) for name, make in FAMILIES.items() for m in DIMENSIONS}
    grids |= {f"quantisation, k = {k}": Quantize(bins=k) for k in BINS}
    found = {}
    for name, estimator in grids.items():
        key = repr(estimator), list(points)
        found[name] = kept(
            domain,
            "estimator",
            key,
            lambda estimator=estimator: {each: value(estimator, x, y) for each, y in points.items()},
        )
        print(name, file=sys.stderr)
    scores = comparison(domain, written(domain))
    default = {name: scores.scores[name].mauve for name in points}
    certified = {name: scores.scores[name].certified["mauve"].value for name in points}
    rows, results = [], {}
    for name, values in found.items():
        seen = trends(domain, values)
        results[name] = {
            "values": values,
            "with default": agreement(values, default),
            "with held-out": agreement(values, certified),
            "trends": {key: bool(one) for key, one in seen.items()},
        }
        rows.append(
            [
                name,
                results[name]["with default"],
                results[name]["with held-out"],
                *("yes" if one else "no" for one in seen.values()),
                sum(not np.isfinite(each) for each in values.values()),
            ]
        )
    claims = judge(results)
    page = f"Stories, {EMBEDDER}, n = {len(x)} per side, {len(points)} systems: `python experiments/family/estimators.py`. m: principal components; trends by sign.\n\n"
    page += (
        grid(["estimator", "ρ with default", "ρ with held-out", *seen, "refused"], rows) + "\n" + claims_table(claims)
    )
    write(
        __file__,
        "estimators",
        {"default": default, "certified": certified, "estimators": results, "claims": claims},
        page,
    )
    picture(domain, results, default)


def judge(results: dict) -> list[Claim]:
    claims = []
    families = {name: [results[f"{name}, m = {m}"] for m in DIMENSIONS] for name in FAMILIES}
    for name, own in families.items():
        best = max(
            (one["with default"], m) for one, m in zip(own, DIMENSIONS, strict=True) if np.isfinite(one["with default"])
        )
        said = {"measure": HOLDS if best[0] >= 0.95 else FAILS}
        claims.append(
            Claim(
                "fig:estimation",
                f"ρ ≥ 0.95 with the default at the best setting, {name}",
                said,
                f"ρ = {best[0]:.3f} at m = {best[1]}",
            )
        )
    at = dict(zip(DIMENSIONS, [one["with default"] for one in families["Gaussian"]], strict=True))
    said = {"measure": HOLDS if at[50] < at[10] - 0.1 else FAILS}
    claims.append(
        Claim(
            "fig:estimation",
            "the Gaussian approximation drops steeply with many components (the paper: 100; here 50 of 64)",
            said,
            f"ρ = {at[10]:.3f} at m = 10, {at[50]:.3f} at m = 50",
        )
    )
    spread = [results[f"quantisation, k = {k}"]["with default"] for k in BINS]
    said = {"measure": HOLDS if min(spread) >= 0.9 else FAILS}
    claims.append(
        Claim(
            "fig:estimation",
            "quantisation is robust to its number of bins",
            said,
            ", ".join(f"k = {k}: {rho:.2f}" for k, rho in zip(BINS, spread, strict=True)),
        )
    )
    for name, m in DEFAULTS.items():
        seen = results[f"{name}, m = {m}"]["trends"]
        missed = [key for key, one in seen.items() if not one]
        claims.append(
            Claim(
                "fig:estimation",
                f"finds the trends, {name}, m = {m}",
                {"by sign": HOLDS if not missed else FAILS},
                f"missed: {', '.join(missed)}" if missed else "",
            )
        )
    return claims


def picture(domain, results: dict, default: dict[str, float]) -> None:
    middle = MIDDLE[domain.name]
    picked = {"default": default} | {
        f"{name}, m = {m}": results[f"{name}, m = {m}"]["values"] for name, m in DEFAULTS.items()
    }
    sizes = [size for size in domain.sizes if f"{size} ancestral" in default]
    by_size = {
        name: (range(len(sizes)), [each[f"{size} ancestral"] for size in sizes]) for name, each in picked.items()
    }
    decoders = [
        name
        for name in (
            "greedy",
            "adversarial",
            "top-k:5",
            "nucleus:0.5",
            "nucleus:0.8",
            "nucleus:0.9",
            "nucleus:0.95",
            "nucleus:0.99",
            "ancestral",
        )
        if System(middle, name).name in default
    ]
    by_decoder = {
        name: (range(len(decoders)), [each[f"{middle} {one}"] for one in decoders]) for name, each in picked.items()
    }
    panels = [
        Panel("ancestral sampling, by size", "", by_size, ticks=sizes),
        Panel(f"{middle}, by decoder", "", by_decoder, ticks=decoders),
    ]
    for kind in ("with default", "with held-out"):
        lines = {name: (DIMENSIONS, [results[f"{name}, m = {m}"][kind] for m in DIMENSIONS]) for name in FAMILIES}
        panels.append(Panel(f"Spearman's ρ {kind}", "principal components m", lines, log=True))
    draw(HERE / "estimators.png", panels, columns=2, width=5.2, height=3.8)


if __name__ == "__main__":
    main()
