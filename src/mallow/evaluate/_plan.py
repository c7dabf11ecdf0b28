"""How many samples tell two systems apart: from a pilot, by simulating the test itself, and from the paper's bounds.

The pilot's bins are all that is used. Lookalike populations of them (`mallow.inference._calibration`) are moved until the true scores
differ by what is to be detected; samples are drawn from them and estimated as `compare` does. Its test finds the difference
where D > z·E, D the estimated difference and E its standard error. Both are simulated at one size n₁; n samples find it with

    power(n) = Φ((detect · √(n / n₁) − z · mean(E)) / std(D − z·E))

The mean of D is known, it is `detect`; so some dozens of simulations give n to within a few per cent, where
counting how often the test finds something would take thousands. The pilot knows where the scores lie only to a standard
error, and near 1 the noise depends on that much: half of the simulations lie one error above, half one below, and the power
promised is the mean of the two (a Gauss–Hermite rule of two points). How it was tested: experiments/power.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from mallow._checks import open_unit, whole
from mallow.embed import AnyEmbedder
from mallow.errors import EstimateWarning, InputError
from mallow.estimate import Codebook, Quantize
from mallow.evaluate._compare import Comparison, compare
from mallow.evaluate._score import MAUVE_STAR, Measure, collected_doubts, generator
from mallow.inference import NORMAL, lookalikes
from mallow.results import rendered
from mallow.theory import KL, Array, Masses
from mallow.theory.bounds import statistical_bound
from mallow.theory.smoothing import empirical, krichevsky_trofimov, laplace

__all__ = ["SamplePlan", "plan_samples"]

_FEWEST = 100
_TRIALS = 24  # at either end
_LARGEST = 2000  # samples a side that are simulated at most, unless the pilot has more: beyond, the law of √n serves
_CLOSE = 1.3  # sizes within this factor need no second simulation
_ALLOWANCE = 1.1  # lookalikes are a little smoother than data: without it n fell short by 6 to 14 % (experiments/power)
_SEEDS = 0.1  # share of the variance that clustering may have
_FAR = 30  # times the pilot, beyond which a plan is doubtful
_STEEPEST = 40.0
_ADDED: dict[Callable[..., Any], float] = {empirical: 0.0, krichevsky_trofimov: 0.5, laplace: 1.0}


@dataclass(frozen=True)
class SamplePlan:
    """How many samples and repeats are needed to tell two systems apart.

    Attributes
    ----------
    n : int
        Samples a side with which a true difference of `detect` is found significant with probability `power`.
    n_observed : int or None
        The same for the difference seen in the pilot; None where that is smaller than its standard error, since it may then
        be any size. A difference that was noticed because it is large tends to be overestimated, and this number to be low.
    repeats : int
        Clusterings whose mean leaves at most a tenth of the variance to the seed.
    detect, power, level : float
        As they were asked for; `detect` is in MAUVE.
    pilot : dict
        What the pilot said: "difference" (A minus B, freed of bias), "low" and "high" (its 95 % interval), "standard error",
        "n" and "bins".
    simulated : dict
        "n" and "trials" of the simulation, the "standard error" that the test reported in it and the "deviation" of the
        differences.
    bound : int or None
        Samples a side with which the paper guarantees, for any distributions on the pilot's bins, an expected error of at
        most detect/2 in each frontier integral: a worst case, thousands of times more than is needed. None where the
        paper's bounds do not cover the measure.
    warnings : tuple of str
    """

    n: int
    n_observed: int | None
    repeats: int
    detect: float
    power: float
    level: float
    pilot: dict[str, float]
    simulated: dict[str, float]
    bound: int | None
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain numbers, strings, lists and dicts."""
        return {"kind": "mallow plan", **asdict(self), "warnings": list(self.warnings)}

    def table(self, form: str = "text") -> str:
        """The numbers of the plan, a row each, as "text", "markdown" or "latex"."""
        rows = {
            "samples a side": f"{self.n:,}",
            "repeats": f"{self.repeats}",
            "difference to detect": f"{self.detect:g}",
            "power": f"{self.power:g}",
            "level": f"{self.level:g}",
            "difference in the pilot": f"{self.pilot['difference']:+.4f}",
            "95 % interval of it": f"{self.pilot['low']:+.4f} to {self.pilot['high']:+.4f}",
            "samples for that difference": "–" if self.n_observed is None else f"{self.n_observed:,}",
        }
        return rendered(form, ["", "value"], list(rows.items()))

    def to_text(self) -> str:
        """The plan in plain sentences."""
        pilot = self.pilot
        lines = [
            f"Take {self.n:,} samples of the reference and of each system, and {self.repeats} repeats: a true difference of "
            f"{self.detect:g} in MAUVE is then found at the {self.level:.3g} level with probability {self.power:.3g}.",
            f"The pilot of {pilot['n']:,} samples saw a difference of {pilot['difference']:+.4f}, between {pilot['low']:+.4f} "
            f"and {pilot['high']:+.4f} with 95 % confidence.",
        ]
        if self.n_observed is None:
            lines.append("That is less than its standard error: how many samples would show it cannot be said.")
        else:
            lines.append(f"If the true difference is that large, {self.n_observed:,} samples are enough.")
        if self.bound is not None:
            lines.append(
                f"The paper's bound asks for {self.bound:.1e} samples, and then guarantees an error of {self.detect / 2:g} in each "
                f"frontier integral for the worst distributions on {pilot['bins']} bins."
            )
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])


def plan_samples(
    reference: Any,
    model_a: Any,
    model_b: Any,
    *,
    detect: float = 0.01,
    power: float = 0.8,
    level: float = 0.05,
    measure: Measure = MAUVE_STAR,
    embedder: AnyEmbedder | str | None = None,
    repeats: int = 5,
    rng: int = 0,
) -> SamplePlan:
    """How many samples are needed to find a difference between two systems, from a pilot of at least 100 samples.

    The systems planned for score `detect` apart, around the mean of the pilot's two scores: the noise of a score depends
    on how far it is from 1. Their errors correlate as in the pilot, where they share the reference and perhaps the prompts.
    Where the number of bins follows n it does so here, and the new bins are taken to show no more of a gap than the old.

    Parameters
    ----------
    reference, model_a, model_b : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The pilot. 1,000 samples take about half a minute, and the time grows with them. Of several generations of a prompt
        the first are planned for.
    detect : float
        The true difference in MAUVE to be found, between 0 and 1.
    power : float
        With what probability.
    level : float
        At what level of significance, two-sided.
    measure : Measure
        Its estimator must be `Quantize`.
    embedder, rng :
        As in `mallow.score`.
    repeats : int
        Clusterings of the pilot, at least 2: their spread says how many are needed.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> human, a, b = (rng.normal(shift, 1, size=(200, 4)) for shift in (0, 0.3, 0.5))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", EstimateWarning)  # 200 samples are few
    ...     found = plan_samples(human, a, b, detect=0.3, repeats=2)
    >>> 100 <= found.n < 1000 < found.bound
    True
    """
    open_unit("detect", detect, why=" It is a difference in MAUVE, such as 0.01.")
    open_unit("power", power, why=" It is a probability, such as 0.8.")
    open_unit("level", level, why=" It is a probability, such as 0.05.")
    if power <= level:
        raise InputError(
            f"`power` must be above `level`, the power of a test without samples; got {power} and {level}."
        )
    whole("repeats", repeats, least=2)
    if not isinstance(measure.estimator, Quantize):
        raise InputError(f"`measure` must quantise to be planned for; its estimator is {measure.estimator!r}.")
    with collected_doubts() as doubts:
        found = compare(
            reference, {"A": model_a, "B": model_b}, measure=measure, embedder=embedder, repeats=repeats, rng=rng
        )
        pilot = _Pilot.of(found, measure)
        if pilot.n < _FEWEST:
            raise InputError(
                f"a pilot must hold at least {_FEWEST} samples on each side; the smallest holds {pilot.n}."
            )
        result = _planned(pilot, detect, power, level, rng)
    for text in doubts:
        warnings.warn(text, EstimateWarning, stacklevel=2)
    return SamplePlan(**result, detect=detect, power=power, level=level, warnings=tuple(doubts))


@dataclass(frozen=True, eq=False)
class _Pilot:
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
    def of(cls, found: Comparison, measure: Measure) -> _Pilot:
        one = found.differences[0]
        scores = sorted((found.scores[name] for name in "AB"), key=lambda score: -score.debiased["mauve"])
        parts = [score.masses.partition for score in scores if score.masses.partition is not None]
        paired = len({size for score in scores for size in score.n}) == 1
        influences = [lookalikes.influence(part, measure.divergence, measure.c) for part in parts]
        shared, *factors = lookalikes.correlation(influences[0], influences[1], paired)
        return cls(
            measure,
            ((parts[0].p_counts, parts[0].q_counts), (parts[1].p_counts, parts[1].q_counts)),
            (scores[0].debiased["mauve"], scores[1].debiased["mauve"]),
            (scores[0].std["mauve"], scores[1].std["mauve"]),
            float(shared[lookalikes.AREA]),
            (float(factors[0][lookalikes.AREA]), float(factors[1][lookalikes.AREA])),
            one.difference["mauve"],
            one.interval["mauve"],
            len(scores[0].values["mauve"]),
        )

    @property
    def n(self) -> int:
        return int(min(side.sum() for system in self.counts for side in system))

    @property
    def bins(self) -> int:
        return max(len(p) for p, _ in self.counts)

    @property
    def error(self) -> float:
        """The standard error of the difference."""
        return (self.interval[1] - self.interval[0]) / (2 * NORMAL)

    @property
    def centres(self) -> tuple[float, float]:
        """The mean of the two scores, one standard error down and up; both scores are taken to be as uncertain."""
        shared = min(max(self.correlation, -0.9), 0.9)
        error = self.error / 2 * math.sqrt((1 + shared) / (1 - shared))
        return sum(self.scores) / 2 - error, sum(self.scores) / 2 + error


def _planned(pilot: _Pilot, detect: float, power: float, level: float, rng: int) -> dict[str, Any]:
    z_level, z_power = -NormalDist().inv_cdf(level / 2), NormalDist().inv_cdf(power)
    repeats = _repeats(pilot)
    largest = max(pilot.n, _LARGEST)
    needed = pilot.n * (pilot.error * (z_level + z_power) / detect) ** 2
    for _ in range(2):
        size = round(min(max(needed, pilot.n), largest))
        draws = generator(rng, "plan")
        found = [_simulated(pilot, _targets(centre, detect), size, repeats, z_level, draws) for centre in pilot.centres]
        reach = _reach(found, z_level, power)
        needed = size * (reach / detect) ** 2
        if 1 / _CLOSE < min(max(needed, pilot.n), largest) / size < _CLOSE:
            break
    n = max(math.ceil(_ALLOWANCE * needed), _FEWEST)
    if n > _FAR * pilot.n:
        _doubt(f"the plan is for {n / pilot.n:.0f} times the samples of the pilot: a larger pilot would make it surer.")
    value, error = (np.concatenate(each) for each in zip(*found, strict=True))
    if _targets(sum(pilot.scores) / 2, detect)[0] == 1.0:
        _doubt("the systems are so near the reference that the better one was taken to match it.")
    seen = abs(pilot.difference)
    return {
        "n": n,
        "n_observed": max(math.ceil(_ALLOWANCE * size * (reach / seen) ** 2), _FEWEST) if seen > pilot.error else None,
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
        "bound": _bound(pilot.measure, pilot.bins, detect / 2),
    }


def _reach(found: Sequence[tuple[Array, Array]], z: float, power: float) -> float:
    """The difference that the simulated size finds with this power, which is the mean over the simulations."""
    normal = NormalDist()
    errors = [float(error.mean()) for _, error in found]
    # Each has few trials: how far D − z·E is spread, against the mean error, is taken to be the same in all.
    spread = math.sqrt(
        float(
            np.mean(
                [
                    np.var(value - z * error, ddof=1) / mean**2
                    for (value, error), mean in zip(found, errors, strict=True)
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


def _repeats(pilot: _Pilot) -> int:
    """How many clusterings leave at most a tenth of the difference's variance to the seeds; at least 2, to see it.

    Both variances fall with n; their ratio is taken to stay as it was in the pilot.
    """
    seeds = sum(error**2 for error in pilot.seed_errors)
    # The error that is reported holds that of the seeds. At least a tenth of it is sampling, whatever a few seeds say.
    sampling = max(pilot.error**2 - seeds / pilot.repeats, pilot.error**2 / 10)
    return max(2, math.ceil((1 - _SEEDS) / _SEEDS * seeds / sampling)) if seeds > 0 else 2


def _targets(centre: float, detect: float) -> tuple[float, float]:
    """True scores that are `detect` apart, around the centre where that is possible."""
    worse = min(max(centre - detect / 2, 0.0), 1.0 - detect)
    return (worse + detect if worse < 1.0 - detect else 1.0), worse


def _simulated(
    pilot: _Pilot, targets: tuple[float, float], n: int, repeats: int, z: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Of every simulated comparison with n samples a side: the difference, and the standard error it is tested by.

    The two systems are drawn apart. That their errors correlate, by the reference and the prompts that they share, is put in
    afterwards as it was in the pilot: into the errors as `pair_difference` does, and into the differences' deviation.
    """
    seeds = [error * math.sqrt(pilot.n / (n * repeats)) for error in pilot.seed_errors]
    better, worse = (
        _simulated_system(pilot.measure, *counts, target, n, seed, z, factor, rng)
        for counts, target, seed, factor in zip(pilot.counts, targets, seeds, pilot.factors, strict=True)
    )
    # Arms that point to 0, at z standard errors: a difference is found where they do not reach there.
    down, up = better[:, 0] - better[:, 1], worse[:, 2] - worse[:, 0]
    reach = np.sqrt(np.maximum(down**2 + up**2 - 2.0 * pilot.correlation * down * up, 0.0))
    spread = [factor * side[:, 0].std(ddof=1) for factor, side in zip(pilot.factors, (better, worse), strict=True)]
    joint = spread[0] ** 2 + spread[1] ** 2 - 2.0 * pilot.correlation * spread[0] * spread[1]
    value = better[:, 0] - worse[:, 0]
    centred = (value - value.mean()) * math.sqrt(max(joint, 0.0)) / max(float(value.std(ddof=1)), 1e-12)
    return targets[0] - targets[1] + centred, reach / z


def _simulated_system(
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
    found = np.empty((_TRIALS, 3))
    for trial, masses in enumerate(zip(*_populations(measure, p_counts, q_counts, target, rng), strict=True)):
        p, q = (rng.multinomial(n, side).astype(float) for side in _split(masses, _bins_for(measure, n), rng))
        one = lookalikes.estimate(p, q, rng=rng, divergence=measure.divergence, scale=measure.c)
        centre = one.score[lookalikes.AREA]
        low, high = (end[lookalikes.AREA] for end in one.ends(z, factor))
        shift = seed * rng.standard_normal()
        found[trial] = (
            centre + shift + np.array([0.0, -np.hypot(centre - low, z * seed), np.hypot(high - centre, z * seed)])
        )
    return found


def _populations(
    measure: Measure, p_counts: Array, q_counts: Array, target: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Masses (trials, bins) of P and Q that look like the pilot's, with Q moved until the true score is `target`.

    Up, by mixing P into Q; down, by making what is too much more and what is too little less, and a bit at random.
    """
    p, q = lookalikes.fit(p_counts, q_counts).lookalikes(_TRIALS, rng)
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
        above = np.asarray(measure.summaries(Masses(p, moved(middle)))["mauve"])[:, None] > target
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return p, moved(low)


def _bins_for(measure: Measure, n: int) -> int:
    """How many bins n samples a side have; 0 where their number is fixed."""
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


def _bound(measure: Measure, bins: int, error: float) -> int | None:
    """The least n for which the paper bounds the expected error of the frontier integral (eq:addb:fdiv:stat_error)."""
    constant = _ADDED.get(measure.estimator.smoothing) if isinstance(measure.estimator, Quantize) else None
    if measure.divergence != KL or constant is None:
        return None
    low, high = 3, 6
    while statistical_bound(bins, high, constant=constant) > error:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if statistical_bound(bins, middle, constant=constant) > error else (low, middle)
    return high


def _doubt(text: str) -> None:
    warnings.warn(text, EstimateWarning, stacklevel=3)
