"""The fifteen sanity checks of measures of fidelity and diversity (Räisä, van Breugel and van der Schaar, ICML 2025).

    pip install prdc==0.2      the peer, as in the extra `benchmarks`
    python experiments/sanity/run.py [--repeats 2] [CHECK ...]      seven minutes on one core

The distributions, the criteria and their thresholds are those of the authors' repository
(DPBayes/position-fidelity-diversity-metrics-flawed), on grids with fewer points. The measures are called as a user calls
them: the authors standardise the columns first, take 3 neighbours for precision and recall, and count a point at exactly the
radius, as this library does and prdc 0.2 does not. A check may have several criteria in several dimensions. A measure passes a desideratum of a check if it meets all of
its criteria, in the mean over the repeats.
Writes run.json and run.md beside this file; checks that are in run.json already are not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from prdc import compute_prdc

import mallow
from mallow import Measure, Quantize, Reduce
from mallow.baselines import clipped_shares, precision_recall
from mallow.engine import single_threaded_blas

HERE = Path(__file__).resolve().parent
N, K, SEED = 1000, 5, 2025
DIMENSIONS = (1, 8, 64)
SIZES = (100, 316, 1000, 3162, 10000)
MEASURE = Measure(Quantize(bins=20, reduce=Reduce(normalise=False)))  # its bins do not matter here
FIDELITY = ("precision", "prdc precision", "density", "prdc density", "clipped density", "1 - unlike", "MAUVE at most")
DIVERSITY = ("recall", "prdc recall", "coverage", "prdc coverage", "clipped coverage", "1 - unlike", "MAUVE at most")
Curve = list[tuple[float, dict[str, float]]]
Pair = tuple[np.ndarray, np.ndarray]


def measure(x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """All measures of a pair, by name."""
    shares, clipped = precision_recall(x, y, neighbors=K), clipped_shares(x, y, neighbors=K)
    values = {name: getattr(shares, name) for name in ("precision", "recall", "density", "coverage")}
    values |= {"clipped density": clipped.density, "clipped coverage": clipped.coverage}
    with contextlib.redirect_stdout(io.StringIO()):
        values |= {f"prdc {name}": float(value) for name, value in compute_prdc(x, y, K).items()}
    score = mallow.score(x, y, measure=MEASURE, repeats=1)
    return values | {"1 - unlike": 1.0 - score.shares["unlike"].low, "MAUVE at most": score.certified["mauve"].high}


# Distributions: each check yields the name of a setting and, for each point of a grid, a pair


def normal(rng: np.random.Generator, d: int, mean: float = 0.0, std: float = 1.0, n: int = N) -> np.ndarray:
    return rng.normal(mean, std, size=(n, d))


def means(d: int) -> np.ndarray:
    return np.linspace(-1, 1, 9) * {1: 6.0, 8: 3.0, 64: 1.0}[d]


Settings = Iterator[tuple[str, Iterator[tuple[float, Pair]]]]


def mean_difference(rng: np.random.Generator) -> Settings:
    for d in DIMENSIONS:
        x = normal(rng, d)
        yield f"{d}", ((mean, (x, normal(rng, d, mean))) for mean in means(d))


def mean_difference_outlier(rng: np.random.Generator) -> Settings:
    for d in DIMENSIONS:
        x, far = normal(rng, d), np.full((1, d), means(d).max())
        yield f"{d}, of the data", ((mean, (np.append(x, far, axis=0), normal(rng, d, mean))) for mean in means(d))
        yield f"{d}, of the model", ((mean, (x, np.append(normal(rng, d, mean), far, axis=0))) for mean in means(d))


def mean_difference_pareto(rng: np.random.Generator) -> Settings:
    def draw(mean: float) -> np.ndarray:
        return np.stack([rng.normal(mean, size=N), 1.0 + rng.pareto(1.01, size=N)], axis=1)

    x = draw(0.0)
    yield "", ((mean, (x, draw(mean))) for mean in means(1))


def std_difference(rng: np.random.Generator) -> Settings:
    for d in DIMENSIONS:
        x = normal(rng, d)
        powers = np.linspace(-1, 1, 9) * {1: 3.0, 8: 1.0, 64: 0.5}[d]
        yield f"{d}", ((10.0**power, (x, normal(rng, d, std=10.0**power))) for power in powers)


def scaling(rng: np.random.Generator) -> Settings:
    def pair(scale: float) -> Pair:
        both = rng.normal(size=(2, N, 2)) * [1.0, scale]
        both[1, :, 0] += 6.0
        return both[0], both[1]

    yield "", ((scale, pair(scale)) for scale in np.logspace(-3, 3, 7))


def disjoint(rng: np.random.Generator) -> Settings:
    def pair(extra: int) -> Pair:
        both = rng.normal(size=(2, N, extra + 1))
        both[1, :, 0] += 6.0
        return both[0], both[1]

    yield "", ((extra, pair(extra)) for extra in (1, 10, 100, 1000))


def discrete(rng: np.random.Generator) -> Settings:
    scales = np.logspace(0, 3, 7)
    yield "discrete data", ((s, (np.round(s * normal(rng, 1)), s * normal(rng, 1))) for s in scales)
    yield "continuous data", ((s, (s * normal(rng, 1), np.round(s * normal(rng, 1)))) for s in scales)


def cube(rng: np.random.Generator, vary_data: bool) -> Settings:
    for d in DIMENSIONS:
        start = 1.0 - 0.2 ** (1.0 / d)
        x = rng.random(size=(N, d))
        yield (
            f"{d}",
            ((n, (rng.random(size=(n, d)) if vary_data else x, start + rng.random(size=(n, d)))) for n in SIZES),
        )


def sphere_surface(rng: np.random.Generator) -> Settings:
    def draw(d: int, radius: float) -> np.ndarray:
        rows = rng.normal(size=(N, d))
        return radius * rows / np.linalg.norm(rows, axis=1, keepdims=True)

    for d in (2, 16, 128):
        x = draw(d, 1.0)
        yield f"{d}", ((radius, (x, draw(d, radius))) for radius in np.linspace(0.1, 1.9, 9))


def torus(rng: np.random.Generator) -> Settings:
    def ball(n: int, d: int, radius: float) -> np.ndarray:
        rows = rng.normal(size=(n, d))
        return radius * rows / np.linalg.norm(rows, axis=1, keepdims=True) * rng.random(size=(n, 1)) ** (1.0 / d)

    def ring(n: int) -> np.ndarray:
        angle, circle = rng.uniform(0, 2 * np.pi, size=n), np.array([1.0, 0.0]) + ball(n, 2, 0.1)
        return np.stack([circle[:, 0] * np.cos(angle), circle[:, 0] * np.sin(angle), circle[:, 1]], axis=1)

    x = ball(N, 3, 0.8)
    yield "sphere as data", ((n, (x, ring(n))) for n in SIZES)
    z = ring(N)
    yield "torus as data", ((n, (z, ball(n, 3, 0.8))) for n in SIZES)


def mixture(rng: np.random.Generator, centres: np.ndarray, std: float, shares: np.ndarray) -> np.ndarray:
    return centres[rng.choice(len(centres), size=N, p=shares / shares.sum())] + rng.normal(
        0.0, std, (N, centres.shape[1])
    )


def dropping(rng: np.random.Generator, at_once: bool) -> Settings:
    for d in DIMENSIONS:
        draw = partial(mixture, rng, np.tile(np.linspace(0, 10, 10)[:, None], (1, d)), {1: 1 / 6, 8: 1 / 3, 64: 1.0}[d])
        x = draw(np.ones(10))
        if at_once:
            grid = [(share, np.append(1.0, np.full(9, 1.0 - share))) for share in (0, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0)]
        else:
            grid = [(dropped, np.append(np.ones(10 - dropped), np.zeros(dropped))) for dropped in range(10)]
        yield f"{d}", ((place, (x, draw(shares))) for place, shares in grid)


def invention(rng: np.random.Generator) -> Settings:
    # fmt: off
    centres = np.array([[5.47, -4.08], [4.87, -13.65], [-16.39, 9.10], [-2.15, 12.46], [11.56, -4.96],
                        [-24.61, 14.18], [16.84, -3.19], [-5.48, -6.77], [9.47, 1.06], [-5.40, -17.29]])
    # fmt: on
    x = mixture(rng, centres[:5], 0.25, np.ones(5))
    yield "", ((count, (x, mixture(rng, centres[:count], 0.25, np.ones(count)))) for count in range(1, 11))


def collapse(rng: np.random.Generator) -> Settings:
    def pair(d: int, gap: float) -> Pair:
        return mixture(rng, np.array([[-gap / 2] * d, [gap / 2] * d]), 1.0, np.ones(2)), normal(
            rng, d, std=np.sqrt(1 + gap**2)
        )

    for d in DIMENSIONS:
        yield f"{d}", ((gap, pair(d, gap)) for gap in np.linspace(0, 5, 6))


# Criteria, as in the authors' repository: "low" and "high" measures of diversity may both pass, but not be mixed

Verdict = bool | str
Criterion = Callable[[np.ndarray, np.ndarray], Verdict]


def near(target: float, place: float | str) -> Criterion:
    def check(grid: np.ndarray, values: np.ndarray) -> bool:
        at = {"min": grid.argmin(), "max": grid.argmax()}.get(place)
        return bool(abs(values[np.abs(grid - place).argmin() if at is None else at] - target) <= 0.05)

    return check


def wide(place: str) -> Criterion:
    def check(grid: np.ndarray, values: np.ndarray) -> Verdict:
        return "high" if near(1, place)(grid, values) else "low" if near(0, place)(grid, values) else False

    return check


def bell(middle: float) -> Criterion:
    def check(grid: np.ndarray, values: np.ndarray) -> bool:
        left, right, mid = values[grid.argmin()], values[grid.argmax()], values[np.abs(grid - middle).argmin()]
        at_ends = min(left, right) - values.min() <= 0.1
        return bool(mid - left >= 0.2 and mid - right >= 0.2 and values.max() - mid <= 0.1 and at_ends)

    return check


def falls(middle: float | None = None) -> Criterion:
    def check(grid: np.ndarray, values: np.ndarray) -> bool:
        left, right = values[grid.argmin()], values[grid.argmax()]
        drops = middle is None or left - values[np.abs(grid - middle).argmin()] >= 0.1
        return bool(left - right >= 0.2 and values.max() - left <= 0.1 and right - values.min() <= 0.1 and drops)

    return check


def rises(grid: np.ndarray, values: np.ndarray) -> bool:
    return falls()(-grid, values)


def flat(grid: np.ndarray, values: np.ndarray) -> bool:
    return bool(np.ptp(values) <= 0.05)


def settles(grid: np.ndarray, values: np.ndarray) -> bool:
    return flat(grid, values[grid >= np.quantile(grid, 0.5)])


def either(low: Criterion, high: Criterion) -> Criterion:
    def check(grid: np.ndarray, values: np.ndarray) -> Verdict:
        return "low" if low(grid, values) else "high" if high(grid, values) else False

    return check


BOUNDS, PURPOSE = "bounds", "purpose"
_GAP = {BOUNDS: [near(1, 0.0), near(0, "min"), near(0, "max")], PURPOSE: [bell(0.0)]}
_ZERO = {BOUNDS: [near(0, "min"), near(0, "max")]}
# name: (distributions, criteria of fidelity, criteria of diversity), each {desideratum: criteria}
CHECKS: dict[str, tuple[Callable[[np.random.Generator], Settings], dict, dict]] = {
    "Discrete Num. vs. Continuous Num.": (discrete, {}, {}),  # its criteria depend on the setting: see `criteria`
    "Gaussian Mean Difference": (mean_difference, _GAP, _GAP),
    "Gaussian Mean Difference + Outlier": (mean_difference_outlier, _GAP, _GAP),
    "Gaussian Mean Difference + Pareto": (mean_difference_pareto, _GAP, _GAP),
    "Gaussian Std. Deviation Difference": (
        std_difference,
        {BOUNDS: [near(1, 1.0), near(1, "min"), near(0, "max")], PURPOSE: [falls()]},
        {BOUNDS: [near(1, 1.0), near(0, "min"), wide("max")], PURPOSE: [either(bell(1.0), rises)]},
    ),
    "Hypercube, Varying Sample Size": (
        partial(cube, vary_data=True),
        *[{"data": [settles], PURPOSE: [near(0.2, "max")]}] * 2,
    ),
    "Hypercube, Varying Syn. Size": (
        partial(cube, vary_data=False),
        *[{"hyperparameters": [settles], PURPOSE: [near(0.2, "max")]}] * 2,
    ),
    "Hypersphere Surface": (
        sphere_surface,
        *[{BOUNDS: [near(1, 1.0), near(0, "min"), near(0, "max")], PURPOSE: [bell(1.0)]}] * 2,
    ),
    "Mode Collapse": (
        collapse,
        {BOUNDS: [near(1, "min")], PURPOSE: [falls()]},
        {BOUNDS: [near(1, "min")], PURPOSE: [either(falls(), flat)]},
    ),
    "Mode Dropping + Invention": (
        invention,
        {BOUNDS: [near(1, 5), near(1, "min")], PURPOSE: [falls()]},
        {BOUNDS: [near(1, 5), near(1, "max")], PURPOSE: [rises]},
    ),
    "One Disjoint Dim. + Many Identical Dim.": (disjoint, *[_ZERO | {PURPOSE: [flat]}] * 2),
    "Scaling One Dimension": (scaling, *[_ZERO | {"invariance": [flat]}] * 2),
    "Sequential Mode Dropping": (
        partial(dropping, at_once=False),
        {BOUNDS: [near(1, "min"), near(1, "max")], PURPOSE: [flat]},
        {BOUNDS: [near(1, "min")], PURPOSE: [falls(4)]},
    ),
    "Simultaneous Mode Dropping": (
        partial(dropping, at_once=True),
        {BOUNDS: [near(1, "min"), near(1, "max")], PURPOSE: [flat]},
        {BOUNDS: [near(1, "min")], PURPOSE: [falls(0.95)]},
    ),
    "Sphere vs. Torus": (torus, *[{BOUNDS: [near(0, "max")], PURPOSE: [settles]}] * 2),
}


def criteria(check: str, setting: str, fidelity: bool) -> dict[str, list[Criterion]]:
    if check != "Discrete Num. vs. Continuous Num.":
        return CHECKS[check][1 if fidelity else 2]
    if setting == "discrete data":
        ends = [near(0, "min"), near(0, "max")] if fidelity else [wide("min"), wide("max")]
    else:
        ends = [near(1, "min"), near(1, "max")] if fidelity else [near(0, "min"), near(0, "max")]
    return {BOUNDS: ends, PURPOSE: [flat]}


def run(check: str, repeats: int) -> dict[str, Curve]:
    """The means over the repeats of all measures, by setting and point of its grid."""
    sums: dict[str, dict[float, list[dict[str, float]]]] = {}
    for repeat in range(repeats):
        rng = np.random.default_rng([SEED, list(CHECKS).index(check), repeat])
        for setting, pairs in CHECKS[check][0](rng):
            for place, (x, y) in pairs:
                sums.setdefault(setting, {}).setdefault(float(place), []).append(measure(x, y))
    return {
        setting: [
            (place, {name: round(float(np.mean([row[name] for row in rows])), 4) for name in rows[0]})
            for place, rows in of_place.items()
        ]
        for setting, of_place in sums.items()
    }


def judge(check: str, settings: dict[str, Curve], name: str, fidelity: bool) -> dict[str, bool]:
    """Whether a measure passes each desideratum of a check."""
    verdicts: dict[str, list[Verdict]] = {}
    for setting, curve in settings.items():
        grid, values = np.array([place for place, _ in curve]), np.array([row[name] for _, row in curve])
        for desideratum, tests in criteria(check, setting, fidelity).items():
            verdicts.setdefault(desideratum, []).extend(test(grid, values) for test in tests)
    return {
        name: all(found) and not {"low", "high"} <= {one for one in found if isinstance(one, str)}
        for name, found in verdicts.items()
    }


def report(results: dict) -> str:
    lines = [
        "# Fifteen sanity checks of fidelity and diversity",
        "",
        "Written by `python experiments/sanity/run.py`. The checks and criteria of Räisä, van Breugel and van der Schaar (*Position: All Current Generative "
        "Fidelity and Diversity Metrics are Flawed*, ICML 2025), on grids with fewer points, with 5 neighbours and 1,000 samples where the check says nothing else. "
        "Columns are not standardised first, unlike in the authors' code, which also takes 3 neighbours for precision and recall. *yes*: all criteria of "
        "a desideratum are met in all settings of the check. *prdc*: the package prdc 0.2. *1 - unlike*: one minus the certified lower bound on the share of "
        "samples that are not like the reference. *MAUVE at most*: the 95% limit. The last two are one number each, so they cannot tell poor fidelity from poor "
        "diversity; they stand in both tables to show which checks one number can pass.",
    ]
    for title, names, fidelity in (("Fidelity", FIDELITY, True), ("Diversity", DIVERSITY, False)):
        lines += [
            "",
            f"## {title}",
            "",
            f"| check | desideratum | {' | '.join(names)} |",
            "|---" * (len(names) + 2) + "|",
        ]
        passed, rows = dict.fromkeys(names, 0), 0
        for check in CHECKS:
            if check not in results["checks"]:
                continue
            found = {name: judge(check, results["checks"][check]["settings"], name, fidelity) for name in names}
            for desideratum in found[names[0]]:
                rows += 1
                for name in names:
                    passed[name] += found[name][desideratum]
                cells = " | ".join("yes" if found[name][desideratum] else "–" for name in names)
                lines.append(f"| {check} | {desideratum} | {cells} |")
        lines.append(f"| **passed** | of {rows} | {' | '.join(str(passed[name]) for name in names)} |")
    once = [check for check in CHECKS if results["checks"].get(check, {}).get("repeats") == 1]
    lines += [
        "",
        (
            f"{len(once)} of {len(results['checks'])} checks were run once, the others are means"
            if once
            else "All are means"
        )
        + " of two runs. Passes near a threshold may differ in another run. All values are in run.json.",
    ]
    if len(results["checks"]) == len(CHECKS):
        lines += ["", *conclusions(results["checks"])]
    return "\n".join(lines) + "\n"


def conclusions(checks: dict) -> list[str]:
    """What the tables show, in sentences whose numbers come from the results."""

    def values(check: str, setting: str, place: float) -> dict[str, float]:
        return next(row for at, row in checks[check]["settings"][setting] if at == place)

    rows = [row for check in checks.values() for curve in check["settings"].values() for _, row in curve]
    names = ("precision", "recall", "density", "coverage")
    same = sum(all(row[name] == row[f"prdc {name}"] for name in names) for row in rows)
    equal, extra = values("Gaussian Mean Difference", "64", 0.0), "One Disjoint Dim. + Many Identical Dim."
    disjoint = values(extra, "", 1000.0)
    wide = values("Scaling One Dimension", "", 1000.0)
    dropped = values("Mode Dropping + Invention", "", 1.0)
    judged = [
        (check, [any(judge(check, checks[check]["settings"], name, side).values()) for name in each])
        for check in CHECKS
        for each, side in ((FIDELITY, True), (DIVERSITY, False))
    ]
    nobody = [check for check in CHECKS if not any(any(passes) for other, passes in judged if other == check)]
    return [
        f"- No measure passes any part of: {'; '.join(nobody)}.",
        f"- The four measures that prdc has too agree with prdc to four digits in {same} of {len(rows)} pairs of samples.",
        f"- Precision and recall fail the bounds of Gaussian Mean Difference because two equal Gaussians in 64 dimensions get {equal['precision']:.2f} and {equal['recall']:.2f}; density and coverage get "
        f"{equal['density']:.2f} and {equal['coverage']:.2f}, clipped density and coverage {equal['clipped density']:.2f} and {equal['clipped coverage']:.2f}.",
        f"- Neighbours miss that one dimension of 1,001 is disjoint: precision is {disjoint['precision']:.2f}, coverage {disjoint['coverage']:.2f}, clipped density "
        f"{disjoint['clipped density']:.2f}, where all should be 0. MAUVE is at most {disjoint['MAUVE at most']:.2f}. If the other dimension is 1,000 times as wide, precision is {wide['precision']:.2f} and MAUVE at most "
        f"{wide['MAUVE at most']:.3f}: neighbours need columns of one scale.",
        f"- One number cannot say which side is at fault: with one of five modes, precision is {dropped['precision']:.2f} and recall {dropped['recall']:.2f}, while MAUVE is at most {dropped['MAUVE at most']:.2f}. "
        "So it fails the checks of fidelity where only diversity is lost.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checks", nargs="*", metavar="CHECK", help="names of checks to run")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    file = HERE / "run.json"
    results = json.loads(file.read_text()) if file.exists() else {"checks": {}}
    with warnings.catch_warnings(), single_threaded_blas():
        warnings.simplefilter("ignore")
        for check in options.checks or CHECKS:
            if check in results["checks"]:
                continue
            start = time.process_time()
            settings = run(check, options.repeats)
            results["checks"][check] = {
                "repeats": options.repeats,
                "seconds": round(time.process_time() - start, 1),
                "settings": settings,
            }
            print(check, results["checks"][check]["seconds"], flush=True)
            file.write_text(json.dumps(results) + "\n")
            (HERE / "run.md").write_text(report(results))
    (HERE / "run.md").write_text(report(results))


if __name__ == "__main__":
    main()
