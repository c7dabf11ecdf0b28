"""Small sets of samples of every layout, and the evidence about them, as plain numbers: recorded in evidence/recorded.json.

    python tests/recorded_evidence.py        writes the file again; do that only when a change of numbers is meant

Held-out scores are multiples of 2⁻¹⁰ and the same on every machine (docs/reproducibility.md), so that all of them are recorded.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from held_out import learn, paired, samples, shifted
from mallow import HELLINGER2, KL, TV, area, conjugate, integral, midpoint, smoothing
from mallow.estimate import Quantize
from mallow.evidence import (
    Units,
    Witness,
    certify,
    compare_means,
    debiased_estimate,
    difference_between,
    find_units,
    fit_sequential_test,
    gather_evidence,
    published_interval,
)
from mallow.evidence._pass_learner import PassLearner
from mallow.evidence._sequential_views import fit_views
from mallow.theory import frontier

PATH = Path(__file__).resolve().parent / "evidence" / "recorded.json"
CASES: dict[str, Callable[[], Any]] = {}
FEW = Witness(assignments=2)


def case(function: Callable[[], Any]) -> Callable[[], Any]:
    CASES[function.__name__] = function
    return function


def of_evidence(learner: Any, system: int = 1, seed: int = 0) -> dict[str, Any]:
    evidence = gather_evidence(learner, system, permutations=150, seed=seed)
    certificates = {one.name: evidence.certify(one, scale) for one, scale in ((KL, 5.0), (HELLINGER2, 2.0))}
    return {
        "scores": [(own * 1024).tolist() for own in (evidence.reference_scores, evidence.model_scores)],
        "test": [evidence.test.p_value, evidence.test.exact, evidence.test.tail, evidence.test.statistics],
        "certified": {
            name: [[one.value, one.low, one.high] for one in found.estimates.values()]
            for name, found in certificates.items()
        },
        "errors": certificates[KL.name].errors.tolist(),
        "tolerance": evidence.tolerance,
    }


def of_difference(learner: Any, systems: tuple[int, int] = (1, 2)) -> list[Any]:
    pair = [certify(*learner.scores(one), learner.units.pair(one), KL, 5.0) for one in systems]
    found = difference_between(learner, systems, (pair[0], pair[1]), KL)
    return [found.value, found.interval, found.p_value]


def learn_many(*sets: Any, **options: Any) -> PassLearner:
    every = [samples(*one) if isinstance(one, tuple) else samples(one) for one in sets]
    return PassLearner(Witness(**options), [one.features for one in every], find_units(*every))


def by_row(*sets: Any) -> list[tuple[Any, Any]]:
    """Row i of all sets is one unit."""
    return [(own, range(len(own))) for own in sets]


def uneven(seed: int, sizes: Sequence[tuple[int, int]], width: int, shift: float) -> list[tuple[Any, list[int]]]:
    """Both sides with ids: units that have these numbers of samples of either side."""
    rng = np.random.default_rng(seed)
    sides = []
    for side in (0, 1):
        ids = [unit for unit, size in enumerate(sizes) for _ in range(size[side])]
        order = rng.permutation(len(ids))
        common = np.random.default_rng([seed, 1]).normal(size=(len(sizes), width))
        rows = 0.7 * common[ids] + rng.normal(size=(len(ids), width)) + side * shift
        sides.append((rows[order], [ids[place] for place in order]))
    return sides


# --- few samples


@case
def pairs() -> Any:
    return [of_evidence(learn(*by_row(*shifted(36, 3, shift, 1)), witness=FEW), seed=3) for shift in (0.8, 0.3)]


@case
def single_samples() -> Any:
    return of_evidence(learn(*shifted(40, 4, 0.4, 2, m=27), witness=FEW))


@case
def no_gap() -> Any:
    return of_evidence(learn(*shifted(30, 3, 0.0, 3, m=25), witness=FEW))


@case
def several_generations() -> Any:
    return of_evidence(learn(*paired(20, 3, 0.2, 4, gens=3), witness=FEW))


@case
def units_of_all_sizes() -> Any:
    sizes = [(1, 1)] * 9 + [(2, 1)] * 6 + [(1, 3)] * 4 + [(2, 2)] * 3 + [(1, 0)] * 5 + [(0, 1)] * 6 + [(6, 0), (0, 6)]
    return of_evidence(learn(*uneven(5, sizes, 3, 0.4), witness=FEW))


@case
def a_unit_without_counterpart() -> Any:
    return of_evidence(learn(*uneven(6, [(1, 1)] * 30 + [(0, 2), (3, 0)], 2, 0.3), witness=FEW))


@case
def groups_against_single_samples() -> Any:
    return of_evidence(learn(*uneven(7, [(1, 0)] * 24 + [(0, 3)] * 10, 3, 0.5), witness=FEW))


@case
def more_columns_than_rows() -> Any:
    x, y = shifted(22, 50, 0.15, 8, m=18)
    return of_evidence(learn(x.astype(np.float32), y.astype(np.float32), witness=FEW))


@case
def odd_columns() -> Any:
    x, y = shifted(30, 5, 0.9, 9, m=24)
    for own in (x, y):
        own[:, 1] = 7.25
        own[:, 2] *= 2.0**40
        own[:, 3] *= 2.0**-40
        own[:, 4] = own[:, 0]
    return of_evidence(learn(x, y, witness=FEW))


@case
def another_spread() -> Any:
    x, y = shifted(40, 4, 0.0, 10)
    return of_evidence(learn(x, 1.4 * y, witness=FEW))


@case
def some_views() -> Any:
    x, y = shifted(30, 3, 0.9, 11, m=26)
    y *= 2.0

    def first_column(reference: Any, model: Any, others: Any) -> Any:
        return (others[:, 0] - model[:, 0].mean()) * (reference[:, 0].mean() - model[:, 0].mean())

    witnesses = [
        Witness(strengths=(0.1,), variances=False, bins=False, folds=3, assignments=3),
        Witness(strengths=(), variances=True, bins=False, assignments=1),
        Witness(strengths=(), variances=False, bins=True, folds=4, assignments=1),
        Witness(strengths=(), variances=False, bins=False, views=(first_column,), assignments=2),
        Witness(strengths=(0.01, 1.0), variances=True, bins=False, views=(first_column,), assignments=1),
    ]
    return [of_evidence(learn(x, y, witness=one))["scores"] for one in witnesses]


@case
def two_systems() -> Any:
    x, a = shifted(40, 3, 0.6, 12)
    b = shifted(40, 3, 1.2, 13, m=32)[1]
    learner = learn(*by_row(x, a), b, witness=FEW)
    return [of_evidence(learner, 2), of_difference(learner), of_difference(learner, (2, 1))]


# --- many samples, here a few


@case
def many_pairs() -> Any:
    return [of_evidence(learn_many(*by_row(*shifted(60, 4, shift, 14)))) for shift in (0.7, 0.2)]


@case
def many_single_samples() -> Any:
    x, y = shifted(70, 5, 0.3, 15, m=45)
    x[:, 1], y[:, 1] = 3.0, 3.0
    y[:, 2] *= 1.3
    return of_evidence(learn_many(x, y, folds=3))


@case
def many_groups() -> Any:
    return of_evidence(learn_many(*paired(45, 3, 0.15, 16, gens=2)))


@case
def many_groups_against_single_samples() -> Any:
    return of_evidence(learn_many(*uneven(17, [(1, 0)] * 50 + [(0, 2)] * 24, 3, 0.4)))


@case
def many_of_two_systems() -> Any:
    x, a = shifted(60, 3, 0.5, 18)
    b = shifted(60, 3, 1.0, 19, m=50)[1]
    learner = learn_many(*by_row(x, a), b)
    return [of_evidence(learner, 2), of_difference(learner)]


@case
def many_with_some_views() -> Any:
    x, y = shifted(60, 3, 1.0, 20, m=55)
    options: list[dict[str, Any]] = [
        {"bins": False},
        {"variances": False, "strengths": (0.1,)},
        {"strengths": ()},
        {"folds": 20},
    ]
    return [of_evidence(learn_many(x, y, **one))["scores"] for one in options]


@case
def several_blocks() -> Any:
    """More rows than are multiplied at once; of so many scores only sums are recorded."""
    x, y = shifted(1150, 2, 0.1, 23, m=1100)
    found = []
    for learner in (learn(x, y, witness=Witness(assignments=1)), learn_many(x, y)):
        own = of_evidence(learner)
        scores = np.concatenate([np.asarray(side) for side in own.pop("scores")])
        found.append(own | {"scores": [float(scores.sum()), float((scores**2).sum()), float(scores @ np.arange(2250))]})
    return found


# --- the published score


@case
def published() -> Any:
    layouts = {
        "pairs": (np.arange(40), np.arange(40)),
        "samples": (np.arange(40), np.arange(40, 70)),
        "groups": (np.arange(40) // 2, np.arange(60) // 3),
        "two units": (np.arange(6) // 3, np.arange(8)),
    }
    found: dict[str, Any] = {}
    for number, (name, sets) in enumerate(layouts.items()):
        rng = np.random.default_rng([22, number])
        x, y = (rng.normal(0.5 * side, 1.0, size=(len(own), 2)) for side, own in enumerate(sets))
        units = Units(sets, np.arange(70, dtype=np.uint64))
        for divergence, smooth, repeats in (
            (KL, Quantize().smooth, 2),
            (HELLINGER2, Quantize(smoothing=smoothing.good_turing).smooth, 1),
            (TV, Quantize(smoothing=smoothing.laplace).smooth, 3),
            (conjugate(KL), Quantize().smooth, 1),
        ):
            masses = [Quantize(bins=7, reduce=None)(x, y, rng=seed) for seed in range(repeats)]
            partitions = [one.partition for one in masses if one.partition is not None]
            curves = [frontier.quiet(smooth(one.p_counts, one.q_counts), divergence) for one in partitions]
            values = {
                "mauve": [float(area(one, scale=3.0)) for one in curves],
                "frontier_integral": [float(integral(one)) for one in curves],
                "midpoint": [float(midpoint(one)) for one in curves],
            }
            found[f"{name}, {divergence.name}"] = [
                published_interval(partitions, units, values, smooth=smooth, divergence=divergence, scale=3.0),
                {
                    key: [one.value, one.low, one.high]
                    for key, one in debiased_estimate(partitions, units, divergence=divergence, scale=3.0).items()
                },
            ]
    return found


# --- other tests


@case
def means_of_several_statistics() -> Any:
    found = []
    for seed, sizes in enumerate(
        ([(1, 1)] * 12, [(1, 0)] * 9 + [(0, 1)] * 11, [(2, 1)] * 8, [(1, 0)] * 9 + [(0, 2)] * 5)
    ):
        (x, ids), (y, others) = uneven(20 + seed, sizes, 2, -0.6)
        units = find_units(samples(x, ids), samples(y, others))
        found.append(compare_means(x, y, units, permutations=150, rng=np.random.default_rng(seed)))
    return found


@case
def looks_after_every_batch() -> Any:
    rng = np.random.default_rng(21)
    found = []
    for width, fitting, shift in ((3, 60, 0.5), (40, 30, 0.3), (2, 80, 0.0)):
        rows, counted = rng.normal(size=(fitting, width)), rng.normal(size=(90, width))
        units = np.repeat(np.arange(60), np.where(np.arange(60) < 30, 2, 1))
        test = fit_sequential_test(Quantize(bins=5).fit(rows, rng=0), rows, counted, units, ["a0", "a1"])
        looks, other = test.start(), test.start()
        for step in range(4):
            batch = rng.normal(size=(12, width)) * (1.0 + shift) + step * shift
            names = [f"a{place // (1 + step % 2)}" for place in range(12)] if step else None
            test.update(looks, batch, test.codebook.count(batch), names)
            found.append([test.p_values(looks), list(looks.tails), looks.units, looks.left_out])
        batch = rng.normal(size=(15, width))
        test.update(other, batch, test.codebook.count(batch), [f"b{place // 3}" for place in range(15)])
        test.merge(looks, other)
        found.append([test.p_values(looks), list(looks.tails), looks.units, looks.rows])
        found.append([[one.total, one.square, one.cube, one.of_norms, one.of_pairs] for one in test.tests])
    return found


@case
def views_of_features() -> Any:
    rng = np.random.default_rng(24)
    spread = np.arange(1, 6) ** -0.7
    found = []
    for fitting in (
        rng.normal(size=(50, 5)) * spread,
        (rng.normal(size=(9, 30)) + 3.0).astype(np.float32),
        rng.normal(size=(40, 3)) * np.array([1e30, 1.0, 0.0]),
        np.full((4, 2), 7.0),
        rng.normal(size=(1, 3)),
        rng.normal(size=(25, 1)),
    ):
        views = fit_views(fitting)
        others = np.concatenate([fitting[:3], 2.0 * fitting[::-1][:3], np.full((1, fitting.shape[1]), 1e300)])
        lengths = [np.linalg.norm(own, axis=1).tolist() for own in views.values(others)]
        sums, squares = views.totals(others)
        found.append([views.exponent, views.lengths.tolist(), lengths, squares])
        if fitting.shape in ((50, 5), (25, 1)):  # elsewhere axes may be any; signs may be anywhere
            found[-1] += [np.abs(own).tolist() for own in sums]
    return found


def run(name: str) -> Any:
    """As JSON gives it back."""
    return json.loads(json.dumps(CASES[name](), default=float))


if __name__ == "__main__":
    recorded = {name: run(name) for name in CASES}
    PATH.write_text(json.dumps(recorded, separators=(",", ":")).replace('},"', '},\n"') + "\n", encoding="utf-8")
    sys.stderr.write(f"{PATH}: {len(recorded)} cases\n")
