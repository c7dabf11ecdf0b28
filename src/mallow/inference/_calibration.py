"""Bias-corrected scores with standard errors, from bins alone, calibrated on simulated data whose truth is known.

A score from samples is biased, by an amount that depends on how different P and Q are in the bins; resampling the data
only adds the bias once more. So the bins are taken as draws from an unknown population of bins, each with a total mass
and a share of it that belongs to P: a bin that holds a samples of P and b of Q has a | a + b ~ Binomial. Every summary is
a sum over bins of functions that are homogeneous in (p, q), so this population is all that matters.

1. Fit the population by maximum likelihood on a grid of totals and shares (EM). Its frontier is the raw estimate.
2. Simulate: draw masses (p, q) for every bin from its posterior. They look like the data and their true scores are known.
   Draw n and m samples from them and estimate again in the same way (a parametric bootstrap). The mean error is the bias,
   the standard deviation is the standard error.
3. The estimate is raw − bias; its error is multiplied by 1.1 + 0.4·bins/n, since simulated populations of sparse bins
   vary too little. The area works on the scale v with area = 1/cosh²v: near 1 that is a distance, near 0 a logarithm.
4. Two systems share the reference, and perhaps the prompts: their errors correlate as the influence functions of their
   add-1/2 scores do. The interval of a difference joins those of the two scores.

How it was tested: experiments/coverage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mallow.engine import single_threaded_blas
from mallow.theory import KL, Array, Divergence, Frontier, Masses, Partition, area, compute_frontier, integral, midpoint
from mallow.theory.smoothing import krichevsky_trofimov

__all__ = [
    "AREA",
    "NAMES",
    "BinPopulation",
    "Calibrated",
    "Influence",
    "calibrate",
    "correlate_errors",
    "find_influence",
    "fit_population",
]

NAMES = ("mauve", "frontier_integral", "midpoint")
AREA = NAMES.index("mauve")
_SIMULATIONS = 20  # chosen for speed; the factor √(1 + 1/20) below allows for so few
_STEPS = 150  # of EM; fixed, since it is part of the estimator
_SHARES = 33  # grid points for the share of P; chosen, part of the estimator


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Bias-corrected summaries of one pair and their standard errors, in the order of NAMES, on the working scale.

    The working scale is v with area = 1/cosh²v for the area, and the summary itself for the others.
    """

    value: Array
    error: Array

    @property
    def score(self) -> Array:
        """The summaries on their own scale, where they are at least 0 and the area at most 1."""
        return _to_score(self.value)

    def ends(self, z: Array | float, factor: Array | float = 1.0) -> tuple[Array, Array]:
        """The low and the high end of value ± z·factor·error, as summaries."""
        reach = z * factor * self.error
        ends = np.sort(np.stack([_to_score(self.value - reach), _to_score(self.value + reach)]), axis=0)
        return ends[0], ends[1]


def _to_score(value: Array) -> Array:
    """From the working scale, (3,)."""
    score = np.maximum(value, 0.0)
    score[0] = 1.0 / math.cosh(score[0]) ** 2
    return score


def calibrate(
    p_counts: Array,
    q_counts: Array,
    *,
    rng: np.random.Generator,
    divergence: Divergence = KL,
    scale: float = 5.0,
    simulations: int = _SIMULATIONS,
) -> Calibrated:
    """The bias-corrected summaries of one pair of histograms of counts, (bins,) each."""
    n, m = int(p_counts.sum()), int(q_counts.sum())

    def summaries(masses: Masses) -> Array:
        curve = compute_frontier(masses, divergence)
        distance = np.arctanh(np.sqrt(np.clip(1.0 - area(curve, scale=scale), 0.0, 1.0 - 1e-15)))
        return np.stack([distance, np.asarray(integral(curve)), np.asarray(midpoint(curve))], axis=-1)

    with single_threaded_blas():  # the products are small: more threads would only wait for each other
        fitted = fit_population(p_counts, q_counts)
        p, q = fitted.simulate(simulations, rng)
        again = [
            fit_population(rng.multinomial(n, x).astype(float), rng.multinomial(m, y).astype(float))
            for x, y in zip(p, q, strict=True)
        ]
        errors = np.array([summaries(other.masses()) for other in again]) - summaries(Masses(p, q))
        widen = (1.1 + 0.4 * min(1.0, len(p_counts) / min(n, m))) * math.sqrt(1.0 + 1.0 / simulations)
        deviation = widen * errors.std(axis=0, ddof=1)
        return Calibrated(summaries(fitted.masses()) - errors.mean(axis=0), deviation)


def correlate_errors(first: Influence, second: Influence, *, paired: bool) -> tuple[Array, Array, Array]:
    """The correlation of two systems' errors, and the factors that pairing puts on each one's standard error.

    `paired`: sample i of the reference and of both systems belong to the same prompt; otherwise only the reference
    is shared.
    """
    alone = [(one.of_p**2).sum(axis=0) + (one.of_q**2).sum(axis=0) for one in (first, second)]
    variances, shared = alone, (first.of_p * second.of_p).sum(axis=0)
    if paired:
        joint = [one.of_p + one.of_q for one in (first, second)]
        variances, shared = [(one**2).sum(axis=0) for one in joint], (joint[0] * joint[1]).sum(axis=0)
    tiny = 1e-300
    correlation = np.clip(shared / np.sqrt(np.maximum(variances[0] * variances[1], tiny)), -1.0, 1.0)
    factors = [np.sqrt(v / np.maximum(a, tiny)) for v, a in zip(variances, alone, strict=True)]
    return correlation, factors[0], factors[1]


@dataclass(frozen=True, eq=False)
class Influence:
    """What each sample of P (n, 3) and of Q (m, 3) adds to the add-1/2 summaries, centred."""

    of_p: Array
    of_q: Array


def find_influence(partition: Partition, divergence: Divergence = KL, scale: float = 5.0) -> Influence:
    """The influence of every sample on the summaries of its partition."""
    a, b, bins = partition.p_counts, partition.q_counts, partition.bins
    n, m = a.sum() + bins / 2, b.sum() + bins / 2
    curve = compute_frontier(Masses.from_histograms(krichevsky_trofimov(a), krichevsky_trofimov(b)), divergence)
    outer, lam, rest = _slopes(curve, scale), curve.lam, curve.lam[::-1]

    def terms(p: Array, q: Array) -> Array:
        p, q = p[:, None], q[:, None]
        mix = lam * p + rest * q
        to_p = divergence.terms(p, mix, rest * (p - q)) @ outer[0]
        both: Array = to_p + divergence.terms(q, mix, lam * (q - p)) @ outer[1]
        return both

    p, q = (a + 0.5) / n, (b + 0.5) / m
    of_p = terms((a + 1.0) / n, q) - terms(a / n, q)
    of_q = terms(p, (b + 1.0) / m) - terms(p, b / m)
    of_p -= (a @ of_p) / a.sum()
    of_q -= (b @ of_q) / b.sum()
    return Influence(of_p[partition.p_labels], of_q[partition.q_labels])


def _slopes(curve: Frontier, scale: float) -> Array:
    """The derivatives of the three summaries by the costs at each λ, (2, λ, 3), by central differences."""
    points = len(curve.lam)
    step = 1e-4 * max(1e-3, float(curve.p_to_mix[np.isfinite(curve.p_to_mix)].max(initial=0.0)))
    nudge, still = np.concatenate([np.eye(points), -np.eye(points)]) * step, np.zeros((2 * points, points))
    x = curve.p_to_mix + np.concatenate([nudge, still])
    y = curve.q_to_mix + np.concatenate([still, nudge])
    moved = Frontier(curve.lam, x, y, exact=True)
    each = np.stack(
        [np.asarray(area(moved, scale=scale)), np.asarray(integral(moved)), np.asarray(midpoint(moved))], -1
    )
    value = each.reshape(2, 2, points, 3)
    slopes: Array = (value[:, 0] - value[:, 1]) / (2 * step)
    return slopes


@dataclass(frozen=True, eq=False)
class BinPopulation:
    """The fitted population of bins: cells of the grid, their weights, and each bin's place among the distinct rows."""

    weight: Array  # (totals, shares), sums to 1
    total: Array  # (totals, shares): mean total of the bins in a cell
    share: Array  # (totals, shares): their share of P's samples
    by_total: Array  # (rows, totals), likelihoods
    by_share: Array  # (rows, shares)
    row: NDArray[np.intp]

    def masses(self) -> Masses:
        """The masses of the population: one atom per cell of the grid, weighted by how many bins it stands for."""
        bins = len(self.row)
        keep = self.weight > 1e-7 / bins
        t, w, g = self.total[keep], self.share[keep], bins * self.weight[keep]
        p, q = t * w, t * (1 - w)
        return Masses(p / (g @ p), q / (g @ q), weight=g)

    def simulate(self, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Masses (count, bins) of P and of Q, drawn for each bin from its posterior."""
        rows = (self.by_total[:, :, None] * self.weight * self.by_share[:, None, :]).reshape(len(self.by_total), -1)
        upto = np.cumsum(rows, axis=1)
        upto /= upto[:, -1:]
        u = rng.random((len(self.row), count))
        cell = np.stack([np.searchsorted(upto[r], x) for r, x in zip(self.row, u, strict=True)], axis=1)
        t, w = self.total.ravel()[cell], self.share.ravel()[cell]
        p, q = t * w, t * (1 - w)
        return p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)


def fit_population(a: Array, b: Array) -> BinPopulation:
    """The population of bins that two histograms come from, by maximum likelihood; its `simulate` draws from it."""
    pairs, row, times = np.unique(np.stack([a, b], axis=1), axis=0, return_inverse=True, return_counts=True)
    x, y = pairs.T
    t = x + y
    level = np.arange(math.sqrt(0.5), math.sqrt(t.max()) + 1.0, 1.0) ** 2
    # Shares: even in the arcsine scale, which makes the noise even, and denser around that of equal distributions.
    equal = math.asin(math.sqrt(a.sum() / (a.sum() + b.sum())))
    place = np.linspace(-1, 1, _SHARES)
    place = np.sign(place) * np.abs(place) ** 1.5
    angle = np.where(place < 0, equal * (1 + place), equal + (math.pi / 2 - equal) * place)
    grid = np.sin(angle) ** 2
    grid[0], grid[-1] = 0.0, 1.0
    by_total = _likelihood(t[:, None] * np.log(level) - level)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_p = np.where(x[:, None] > 0, x[:, None] * np.log(grid), 0.0)
        log_q = np.where(y[:, None] > 0, y[:, None] * np.log1p(-grid), 0.0)
    by_share = _likelihood(log_p + log_q)
    weight = np.full((len(level), len(grid)), 1.0 / (len(level) * len(grid)))
    part = times / len(a)
    for _ in range(_STEPS):
        seen = ((by_total @ weight) * by_share).sum(axis=1)
        weight = weight * ((by_total * (part / np.maximum(seen, 1e-300))[:, None]).T @ by_share)
    seen = ((by_total @ weight) * by_share).sum(axis=1)
    scaled = by_total * (part / np.maximum(seen, 1e-300))[:, None]
    of_all, of_p = ((weight * ((scaled * c[:, None]).T @ by_share)) for c in (t, x))
    new = weight * (scaled.T @ by_share)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.where(new > 0, of_all / new, 0.0)
        share = np.where(of_all > 0, of_p / of_all, 0.0)
    return BinPopulation(new / new.sum(), total, np.clip(share, 0, 1), by_total, by_share, row.ravel())


def _likelihood(log: Array) -> Array:
    likelihood: Array = np.exp(log - log.max(axis=1, keepdims=True))
    return likelihood
