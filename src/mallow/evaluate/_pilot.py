"""The simulation behind a plan: samples drawn from populations that look like the pilot, tested as `compare` does.

The pilot's bins are all that is used. Populations that look like it (`mallow.inference.fit_population`) are moved until
their true scores differ by what is to be detected; samples are drawn from them and estimated as `compare` does. Its test
finds the difference where D > z·E, with D the estimated difference and E its standard error. Both are simulated at one
size n₁; n samples find it with

    power(n) = Φ((detect · √(n / n₁) − z · mean(E)) / std(D − z·E))

The mean of D is known, it is `detect`; so a few dozen simulations determine n to within a few per cent, where counting how
often the test finds something would take thousands. The pilot knows the scores only up to a standard error, and near 1
the noise depends strongly on the score: half of the simulations lie one error above, half one below, and the promised
power is the mean of the two (a Gauss–Hermite rule with two points). How it was tested: experiments/power.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from mallow.errors import Caveat, InputError
from mallow.estimate import Codebook, Quantize
from mallow.evaluate._comparison import Comparison
from mallow.evaluate._measure import Measure
from mallow.evaluate._run import generator_for
from mallow.inference import AREA, NORMAL, calibrate, correlate_errors, find_influence, fit_population, join_arms
from mallow.theory import Array, Masses

__all__ = ["FEWEST", "Pilot", "simulate_plan"]

FEWEST = 100  # samples of a pilot; chosen: with fewer, the bins say next to nothing
_TRIALS = 24  # at either end; chosen: n is known to a few per cent
_LARGEST = 2000  # samples per side that are simulated at most, unless the pilot has more: beyond, the law of √n serves
_CLOSE = 1.3  # sizes within this factor need no second simulation
_ALLOWANCE = (
    1.1  # simulated populations are a little smoother than data: without it n was 6 to 14 % too low (experiments/power)
)
_SEEDS = 0.1  # share of the variance that clustering may have
_FAR = 30  # times the pilot, beyond which a plan is doubtful
_IDENTICAL = 1 - 1e-9  # chosen: errors that correlate more than this come from the same samples, up to rounding
_STEEPEST = 40.0  # the largest exponent tried when Q is moved away from P; scores are then near 0


@dataclass(frozen=True, eq=False)
class Pilot:
    """What the plan is made from, of the better system and the worse one: bins, scores, and the noise of seeds."""

    measure: Measure
    counts: tuple[tuple[Array, Array], tuple[Array, Array]]  # of the first repeat
    scores: tuple[float, float]
    seed_errors: tuple[float, float]  # of a single repeat
    correlation: float
    factors: tuple[float, float]  # what pairing does to each standard error
    difference: float  # A − B
    interval: tuple[float, float]
    repeats: int

    @classmethod
    def from_comparison(cls, comparison: Comparison, measure: Measure) -> Pilot:
        """What a comparison of the systems A and B showed."""
        one = comparison.differences[0]
        scores = sorted((comparison.scores[name] for name in "AB"), key=lambda score: -score.debiased["mauve"])
        parts = [score.masses.partition for score in scores if score.masses.partition is not None]
        paired = len({size for score in scores for size in score.n}) == 1
        influences = [find_influence(part, measure.divergence, measure.area_scale) for part in parts]
        shared, *factors = correlate_errors(influences[0], influences[1], paired=paired)
        return cls(
            measure,
            ((parts[0].p_counts, parts[0].q_counts), (parts[1].p_counts, parts[1].q_counts)),
            (scores[0].debiased["mauve"], scores[1].debiased["mauve"]),
            (scores[0].std["mauve"], scores[1].std["mauve"]),
            float(shared[AREA]),
            (float(factors[0][AREA]), float(factors[1][AREA])),
            one.difference["mauve"],
            one.interval["mauve"],
            len(scores[0].values["mauve"]),
        )

    @property
    def n(self) -> int:
        """Samples of the smallest side."""
        return int(min(side.sum() for system in self.counts for side in system))

    @property
    def bins(self) -> int:
        """Of the system that has more."""
        return max(len(p) for p, _ in self.counts)

    @property
    def error(self) -> float:
        """The standard error of the difference."""
        return (self.interval[1] - self.interval[0]) / (2 * NORMAL)

    @property
    def centres(self) -> tuple[float, float]:
        """The mean of the two scores, one standard error below and above; both scores are assumed equally uncertain."""
        shared = min(max(self.correlation, -0.9), 0.9)
        error = self.error / 2 * math.sqrt((1 + shared) / (1 - shared))
        return sum(self.scores) / 2 - error, sum(self.scores) / 2 + error


def simulate_plan(
    pilot: Pilot, detect: float, power: float, level: float, seed: int
) -> tuple[dict[str, Any], list[Caveat]]:
    """The numbers of a plan, by name, and what is doubtful about them."""
    if pilot.error == 0 or pilot.correlation > _IDENTICAL:
        raise InputError(
            "`model_a` and `model_b` must be different systems; these hold the same samples, so that the pilot does not show "
            "the noise of a difference. Pass samples of two systems."
        )
    z_level, z_power = -NormalDist().inv_cdf(level / 2), NormalDist().inv_cdf(power)
    repeats = _repeats(pilot)
    largest = max(pilot.n, _LARGEST)
    needed = pilot.n * (pilot.error * (z_level + z_power) / detect) ** 2
    for _ in range(2):
        size = round(min(max(needed, pilot.n), largest))
        draws = generator_for(seed, "plan")
        trials = [_simulate(pilot, _targets(centre, detect), size, repeats, z_level, draws) for centre in pilot.centres]
        reach = _reach(trials, z_level, power)
        needed = size * (reach / detect) ** 2
        if 1 / _CLOSE < min(max(needed, pilot.n), largest) / size < _CLOSE:
            break
    n = max(math.ceil(_ALLOWANCE * needed), FEWEST)
    value, error = (np.concatenate(each) for each in zip(*trials, strict=True))
    observed, n_observed = abs(pilot.difference), None
    if observed > pilot.error:
        n_observed = max(math.ceil(_ALLOWANCE * size * (reach / observed) ** 2), FEWEST)
    numbers = {
        "n": n,
        "n_observed": n_observed,
        "repeats": repeats,
        "pilot": {
            "difference": pilot.difference,
            "low": pilot.interval[0],
            "high": pilot.interval[1],
            "standard error": pilot.error,
            "n": pilot.n,
            "bins": pilot.bins,
        },
        "simulated": {
            "n": size,
            "trials": len(value),
            "standard error": float(error.mean()),
            "deviation": float(value.std(ddof=1)),
        },
    }
    return numbers, _find_caveats(pilot, n, detect)


def _find_caveats(pilot: Pilot, n: int, detect: float) -> list[Caveat]:
    caveats = []
    if n > _FAR * pilot.n:
        text = f"the plan is for {n / pilot.n:.0f} times the samples of the pilot: a larger pilot would make it more certain."
        caveats.append(Caveat("small pilot", text, values={"n": n, "pilot": pilot.n}))
    if _targets(sum(pilot.scores) / 2, detect)[0] == 1.0:
        text = "the systems are so close to the reference that the better one was assumed to match it."
        caveats.append(Caveat("near identity", text))
    return caveats


def _reach(trials: Sequence[tuple[Array, Array]], z: float, power: float) -> float:
    """The difference that the simulated size finds with this power, which is the mean over the simulations."""
    normal = NormalDist()
    errors = [float(error.mean()) for _, error in trials]
    # Each has few trials: the spread of D − z·E relative to the mean error is assumed to be the same in all.
    spread = math.sqrt(
        float(
            np.mean(
                [
                    np.var(value - z * error, ddof=1) / mean**2
                    for (value, error), mean in zip(trials, errors, strict=True)
                ]
            )
        )
    )
    low, high = 0.0, 100.0 * max(errors)
    for _ in range(60):
        middle = (low + high) / 2
        reached = np.mean([normal.cdf((middle / error - z) / spread) for error in errors])
        low, high = (low, middle) if reached > power else (middle, high)
    return high


def _repeats(pilot: Pilot) -> int:
    """How many clusterings leave at most a tenth of the difference's variance to the seeds; at least 2, to measure it.

    Both variances fall with n; their ratio is assumed to stay as it was in the pilot.
    """
    seeds = sum(error**2 for error in pilot.seed_errors)
    # The reported error includes that of the seeds. At least a tenth of it is assumed to be sampling: few seeds are noisy.
    sampling = max(pilot.error**2 - seeds / pilot.repeats, pilot.error**2 / 10)
    return max(2, math.ceil((1 - _SEEDS) / _SEEDS * seeds / sampling)) if seeds > 0 else 2


def _targets(centre: float, detect: float) -> tuple[float, float]:
    """True scores that are `detect` apart, around the centre where that is possible."""
    worse = min(max(centre - detect / 2, 0.0), 1.0 - detect)
    return (worse + detect if worse < 1.0 - detect else 1.0), worse


def _simulate(
    pilot: Pilot, targets: tuple[float, float], n: int, repeats: int, z: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """For every simulated comparison with n samples per side: the difference, and the standard error it is tested with.

    The two systems are drawn independently. The correlation of their errors, through the reference and the prompts that
    they share, is added afterwards as it was in the pilot: to the errors as `pair_difference` does, and to the standard
    deviation of the differences.
    """
    seeds = [error * math.sqrt(pilot.n / (n * repeats)) for error in pilot.seed_errors]
    better, worse = (
        _simulate_system(pilot.measure, *counts, target, n, seed, z, factor, rng)
        for counts, target, seed, factor in zip(pilot.counts, targets, seeds, pilot.factors, strict=True)
    )
    # The arms that point towards 0, at z standard errors: a difference is found where they do not reach it.
    down, up = better[:, 0] - better[:, 1], worse[:, 2] - worse[:, 0]
    reach = join_arms(down, up, pilot.correlation)
    spread = [factor * side[:, 0].std(ddof=1) for factor, side in zip(pilot.factors, (better, worse), strict=True)]
    joint = spread[0] ** 2 + spread[1] ** 2 - 2.0 * pilot.correlation * spread[0] * spread[1]
    value = better[:, 0] - worse[:, 0]
    centred = (value - value.mean()) * math.sqrt(max(joint, 0.0)) / max(float(value.std(ddof=1)), 1e-12)
    return targets[0] - targets[1] + centred, reach / z


def _simulate_system(
    measure: Measure,
    p_counts: Array,
    q_counts: Array,
    target: float,
    n: int,
    seed: float,
    z: float,
    factor: float,
    rng: np.random.Generator,
) -> Array:
    """Estimated score and both ends of its interval, at z standard errors, in every trial: (trials, 3)."""
    trials = np.empty((_TRIALS, 3))
    for trial, masses in enumerate(zip(*_populations(measure, p_counts, q_counts, target, rng), strict=True)):
        p, q = (rng.multinomial(n, side).astype(float) for side in _split(masses, _bins_for(measure, n), rng))
        one = calibrate(p, q, rng=rng, divergence=measure.divergence, scale=measure.area_scale)
        centre = one.score[AREA]
        low, high = (end[AREA] for end in one.ends(z, factor))
        shift = seed * rng.standard_normal()
        trials[trial] = (
            centre + shift + np.array([0.0, -np.hypot(centre - low, z * seed), np.hypot(high - centre, z * seed)])
        )
    return trials


def _populations(
    measure: Measure, p_counts: Array, q_counts: Array, target: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Masses (trials, bins) of P and Q that look like the pilot's, with Q moved until the true score is `target`.

    The score rises by mixing P into Q; it falls by increasing what is already too much and decreasing what is too little,
    with a little randomness.
    """
    p, q = fit_population(p_counts, q_counts).simulate(_TRIALS, rng)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.nan_to_num(np.clip(np.log(q) - np.log(p), -2.0, 2.0))
    gap += 0.1 * rng.standard_normal(gap.shape)

    def moved(step: Array) -> Array:
        tilted = q * np.exp(np.maximum(step, 0.0) * gap)
        mixed = q + np.maximum(-step, 0.0) * (p - q)
        return np.where(step > 0, tilted / tilted.sum(axis=1, keepdims=True), mixed)

    low, high = np.full((len(q), 1), -1.0), np.full((len(q), 1), _STEEPEST)
    for _ in range(30):
        middle = (low + high) / 2
        above = np.asarray(measure.summarise(Masses(p, moved(middle)))["mauve"])[:, None] > target
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return p, moved(low)


def _bins_for(measure: Measure, n: int) -> int:
    """How many bins n samples per side have; 0 where the number is fixed."""
    estimator = measure.estimator
    follows = (
        isinstance(estimator, Quantize) and estimator.bins == "auto" and not isinstance(estimator.codebook, Codebook)
    )
    return n // 10 if follows else 0


def _split(masses: tuple[Array, Array], bins: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """The masses on more bins, each bin cut into equal pieces: the scores stay as they are."""
    old = len(masses[0])
    if bins <= old:
        return masses
    pieces = np.full(old, bins // old)
    pieces[rng.permutation(old)[: bins % old]] += 1
    p, q = (np.repeat(side / pieces, pieces) for side in masses)
    return p, q
