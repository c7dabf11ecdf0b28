"""From held-out scores to a certificate: lower bounds of the costs, hence an upper bound of the area.

A divergence is a supremum over functions, so any function gives a lower bound, and a function that was learned on other
samples gives an unbiased one. With t = p/r and s = q/r by the witness, for the mixtures R_λ = λP + (1−λ)Q,

    D_f(P‖R_λ) ≥ E_P[f′(t)] − E_R[t f′(t) − f(t)]          D_f(Q‖R_λ) ≥ E_Q[f′(s)] − E_R[s f′(s) − f(s)]

with equality if the witness is the true log-ratio. Each side is a mean over samples, and its error is the error of a
mean over units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_expit, ndtr, stdtrit

from mallow.engine import cores, ordered_map, settle
from mallow.evidence._units import Units
from mallow.results import Estimate
from mallow.theory import KL, Array, Divergence, Frontier, Masses, area, frontier, integral, midpoint

NAMES = ("mauve", "frontier_integral", "midpoint")
_LEVEL, _SHIFT = 0.5, 0.25  # chosen: far from 0 and 1, where `area` clips. No step is too large for a linear function


def summary_slopes(curve: Frontier, scale: float) -> Array:
    """The derivatives of area, integral and mid-point by D_f(P‖R_λ) and by D_f(Q‖R_λ) at each λ, (2, points, 3).

    Integral and mid-point are linear in the costs. The area is 1 − B(x, y), linear in x = 1 − exp(−c D_f(P‖R_λ)) and in
    y = 1 − exp(−c D_f(Q‖R_λ)), so a difference is an exact derivative, however near P and Q are.

    Parameters
    ----------
    curve : Frontier
        One exact frontier (`grid=None`).
    scale : float
        The constant c of the area.

    Examples
    --------
    >>> from mallow.theory import Masses, frontier
    >>> curve = frontier.quiet(Masses.from_histograms([0.5, 0.5], [0.25, 0.75]))
    >>> to_p, to_q = summary_slopes(curve, 5.0)[..., 1]  # of the integral, which is linear
    >>> float((to_p @ curve.p_to_mix + to_q @ curve.q_to_mix).round(6)), float(integral(curve).round(6))
    (0.045229, 0.045229)
    """
    points = len(curve.lam)
    unit, nothing = np.eye(points), np.zeros((points, points))
    slopes = np.empty((2, points, 3))
    for side, costs in enumerate(((unit, nothing), (nothing, unit))):
        moved = Frontier(curve.lam, costs[0], costs[1], exact=True)
        slopes[side, :, 1], slopes[side, :, 2] = integral(moved), midpoint(moved)
    lost = np.concatenate([np.full((1, points), _LEVEL), _LEVEL + _SHIFT * unit])
    moved_cost = -np.log1p(-lost) / scale
    for side, (cost, other) in enumerate(((curve.p_to_mix, curve.q_to_mix), (curve.q_to_mix, curve.p_to_mix))):
        fixed = np.broadcast_to(other, moved_cost.shape)
        x, y = (moved_cost, fixed) if side == 0 else (fixed, moved_cost)
        total = np.asarray(area(Frontier(curve.lam, x, y, exact=True), scale=scale))
        slopes[side, :, 0] = (total[1:] - total[0]) / _SHIFT * scale * np.exp(-scale * cost)
    return slopes


ONE_SIDED = 1.6448536269514722  # the 95% quantile of a normal variable, in standard errors
_CONFIDENCE = 0.95  # of one-sided limits
_STEP = 1e-6  # chosen: relative step of the derivative of f, whose error is then about 1e-10
_LARGEST = 700.0  # larger scores make no difference, and their exponentials would overflow
_ROWS = 512  # chosen: samples at once, which stay in the cache
_DISJOINT = Masses.from_histograms([1.0, 0.0], [0.0, 1.0])


@dataclass(frozen=True, eq=False)
class Certificate:
    """The bounds that held-out scores prove about a pair.

    Attributes
    ----------
    frontier : Frontier
        Lower bounds of the costs for the distributions, up to the noise of sampling. The true curve lies above.
    estimates : dict
        Summary → Estimate. The area is at most `high`, and the others are at least `low`, each with 95% confidence.
    influence : array (units, 3)
        The part of each unit in the errors of the three summaries. The squares sum to the variance.
    scale : float
        The constant c of the area.
    """

    frontier: Frontier
    estimates: dict[str, Estimate]
    influence: Array
    scale: float

    @property
    def errors(self) -> Array:
        """The standard errors of the three summaries."""
        return standard_errors(self.influence)

    def without_limits(self) -> Certificate:
        """The same certificate if no gap was shown: every limit is the end of its range, and the values stay."""
        ends = {
            name: Estimate(estimate.value, 0.0, 1.0 if name == NAMES[0] else estimate.high)
            for name, estimate in self.estimates.items()
        }
        return replace(self, estimates=ends)


def certify(at_p: Array, at_q: Array, units: Units, divergence: Divergence = KL, scale: float = 5.0) -> Certificate:
    """The certificate of held-out scores h of the reference (n,) and of the model (m,), whose units are known."""
    range_ends = frontier.quiet(_DISJOINT, divergence)
    lam, rest = range_ends.lam, range_ends.lam[::-1]
    # There are few different scores, multiples of one step, so the part of a sample is looked up by its score.
    distinct = [np.unique(scores, return_inverse=True, return_counts=True) for scores in (at_p, at_q)]
    terms = cost_terms(distinct[0][0], distinct[1][0], divergence, lam, rest)
    means = sum((counts / counts.sum()) @ of_side for (_, _, counts), of_side in zip(distinct, terms, strict=True))
    to_p, to_q = (np.clip(mean, 0.0, None) for mean in np.split(np.asarray(means), 2))
    # A true cost falls in λ (or rises), so a bound at one λ is also a bound at every λ with a larger cost.
    to_p = np.minimum(np.maximum.accumulate(to_p[::-1])[::-1], range_ends.p_to_mix)
    to_q = np.minimum(np.maximum.accumulate(to_q), range_ends.q_to_mix)
    curve = Frontier(lam, to_p, to_q, exact=True)
    ends = _extremes(at_p, at_q)
    of_sides = [
        summary_terms(of_side, curve, scale)[inverse] for (_, inverse, _), of_side in zip(distinct, terms, strict=True)
    ]
    influence = unit_influence(of_sides, units)
    values = [float(area(curve, scale=scale)), float(integral(curve)), float(midpoint(curve))]
    high, lows = 1.0, [0.0, 0.0]
    if _proves_a_gap(at_p, at_q, units):
        at_ends = [summary_terms(of_end, curve, scale) for of_end in cost_terms(ends, ends, divergence, lam, rest)]
        worst = _worst_influence(of_sides, at_ends, np.array([-1.0, 1.0, 1.0]))
        # The area falls exponentially with the costs, so its error applies to its logarithm.
        loss = -lower_quantile(-influence[:, 0], -worst[:, 0]) / values[0]
        high = min(1.0, values[0] * math.exp(min(loss, 700.0)))
        lows = [
            max(0.0, value + lower_quantile(influence[:, place], worst[:, place]))
            for place, value in enumerate(values[1:], start=1)
        ]
    most = float(integral(range_ends)), float(midpoint(range_ends))
    estimates = {NAMES[0]: Estimate(values[0], 0.0, high)}
    for name, value, low, end in zip(NAMES[1:], values[1:], lows, most, strict=True):
        estimates[name] = Estimate(value, low, end)
    return Certificate(curve.settle(), settle(estimates), influence, scale)


def _extremes(at_p: Array, at_q: Array) -> Array:
    """The smallest and the largest score of all samples."""
    return np.array([min(at_p.min(), at_q.min()), max(at_p.max(), at_q.max())])


def _worst_influence(of_sides: Sequence[Array], at_ends: Sequence[Array], sign: Array) -> Array:
    """The part in the summaries of one unseen sample of each side with the worst possible score, (sides, 3).

    `sign` is 1 for summaries with a lower limit, −1 for the others. `at_ends` has the parts of samples at both ends of
    the scores.
    """
    worst = []
    for of_side, ends in zip(of_sides, at_ends, strict=True):
        least = sign * np.min(sign * np.concatenate([of_side, ends]), axis=0)
        worst.append((least - of_side.mean(axis=0)) / len(of_side))
    return np.array(worst)


def _proves_a_gap(at_p: Array, at_q: Array, units: Units) -> bool:
    """Whether scores prove a gap: whether the lower limit of the mid-point for KL is above 0.

    It is log 2 minus the logistic loss, and is negative for scores that have learned only noise. Bounds of other
    divergences may lack this penalty (for total variation the bound is the accuracy of a classifier). By themselves
    they would claim a gap too often, because units help to judge each other.
    """
    if len(np.unique(np.concatenate(units.sets))) < 2:
        return False
    ends = _extremes(at_p, at_q)
    terms, at_ends = (
        [np.log(2.0) + log_expit(p)[:, None], np.log(2.0) + log_expit(-q)[:, None]]
        for p, q in ((at_p, at_q), (ends, ends))
    )
    worst = _worst_influence(terms, at_ends, np.ones(1))[:, 0]
    gain = float(terms[0].mean() + terms[1].mean())
    return gain + lower_quantile(unit_influence(terms, units)[:, 0], worst) > 0


def lower_quantile(influence: Array, worst: Array) -> float:
    """The 5% quantile of the error of a sum of means, from the part of each unit in it, (units,).

    It is the smaller of two quantiles. The first is the quantile of Σ (E − 1) · influence with independent exponential
    variables E of mean 1, the Bayesian bootstrap. With many units it is the normal quantile, and with few skewed units
    it is farther away. (It is computed by the saddlepoint approximation of Lugannani and Rice, which agrees with
    100,000 draws to 1%, and with few units it widens as Student's quantile does.) The second is about samples too rare
    to be in the sample: with 95% confidence their share is below 3/n, and each adds at most `worst` (sides,), the part
    of one sample with the worst score.

    Examples
    --------
    >>> round(lower_quantile(np.zeros(100), np.array([-0.01, 0.0])), 4)  # log(0.05)/100
    -0.03
    """
    unseen = math.log(1.0 - _CONFIDENCE) * -float(worst.min())
    every = influence[influence != 0.0]
    count = len(every)
    least = float(every.min(initial=0.0))
    if least >= 0.0:
        return min(unseen, 0.0)
    shift = float(influence.sum())

    def tail(s: float) -> tuple[float, float]:
        """The probability of being below K′(s), and K′(s)."""
        factor = 1.0 - s * every
        cumulant = -s * shift - float(np.log(factor).sum())
        slope = -shift + float((every / factor).sum())
        curvature = float(((every / factor) ** 2).sum())
        root = -math.sqrt(max(2.0 * (s * slope - cumulant), 1e-300))
        other = s * math.sqrt(curvature)
        density = math.exp(-(root**2) / 2.0) / math.sqrt(2.0 * math.pi)
        return float(ndtr(root)) + density * (1.0 / root - 1.0 / other), slope

    low, high = (1.0 - 1e-12) / least, 1e-6 / least
    for _ in range(80):
        middle = -math.sqrt(low * high)
        if tail(middle)[0] < 1.0 - _CONFIDENCE:
            low = middle
        else:
            high = middle
    few = float(stdtrit(count - 1, _CONFIDENCE)) / ONE_SIDED * math.sqrt(count / (count - 1)) if count > 1 else 1.0
    return min(few * tail(high)[1], unseen, 0.0)


def cost_terms(at_p: Array, at_q: Array, divergence: Divergence, lam: Array, rest: Array) -> tuple[Array, Array]:
    """The part of each sample of P and of Q in the bounds of the costs, (n, 2·points) and (m, 2·points).

    The bounds of D_f(P‖R_λ) come first, then the bounds of D_f(Q‖R_λ). Each is the mean over P plus the mean over Q.
    `rest` is 1 − λ.
    """
    sides = []
    for h, of_model in ((at_p, False), (at_q, True)):
        terms = np.empty((len(h), 2 * len(lam)))

        def fill(low: int, h: Array = h, terms: Array = terms, of_model: bool = of_model) -> None:
            terms[low : low + _ROWS] = _terms(h[low : low + _ROWS], divergence, lam, rest, of_model=of_model)

        for _ in ordered_map(fill, range(0, len(h), _ROWS), cores()):
            pass
        sides.append(terms)
    return sides[0], sides[1]


def _terms(h: Array, divergence: Divergence, lam: Array, rest: Array, *, of_model: bool) -> Array:
    """The terms of samples of P or of Q, (samples, 2·points)."""
    ratio = np.exp(np.clip(h, -_LARGEST, _LARGEST))[:, None]
    s = np.where(ratio == 1.0, 1.0, 1.0 / (lam * ratio + rest))  # exactly 1 if nothing was learned
    t = ratio * s
    if of_model:
        slope, conjugate = _slope_and_conjugate(divergence, s)
        return np.concatenate([-rest * _conjugate(divergence, t), slope - rest * conjugate], axis=1)
    slope, conjugate = _slope_and_conjugate(divergence, t)
    return np.concatenate([slope - lam * conjugate, -lam * _conjugate(divergence, s)], axis=1)


def _slope_and_conjugate(divergence: Divergence, t: Array) -> tuple[Array, Array]:
    """f′(t) and t f′(t) − f(t), which is f*(f′(t)) for the convex conjugate f*."""
    if divergence is KL:
        return np.log(t), t - 1.0
    slope = (divergence.f(t * (1.0 + _STEP)) - divergence.f(t * (1.0 - _STEP))) / (2.0 * _STEP * t)
    return slope, t * slope - divergence.f(t)


def _conjugate(divergence: Divergence, t: Array) -> Array:
    return t - 1.0 if divergence is KL else _slope_and_conjugate(divergence, t)[1]


def summary_terms(terms: Array, curve: Frontier, scale: float) -> Array:
    """The part of each sample in the three summaries near a curve, (samples, 3), from its part in the costs."""
    slopes = np.concatenate(list(summary_slopes(curve, scale)))  # (2·points, 3)
    total: Array = terms @ np.where(np.isfinite(slopes), slopes, 0.0)
    return total


def unit_influence(of_sides: Sequence[Array], units: Units) -> Array:
    """The part of each unit in the error of a sum of means, (units, ...), with one mean for each set of samples."""
    total = np.zeros((units.count, *of_sides[0].shape[1:]))
    for number, influence in enumerate(of_sides):
        total += units.totals(number, (influence - influence.mean(axis=0)) / len(influence))
    return total


def standard_errors(influence: Array) -> Array:
    """The standard errors of sums over units, (...,), from the part of each unit, (units, ...)."""
    count = int(np.count_nonzero(np.abs(influence).reshape(len(influence), -1).sum(axis=1)))
    errors: Array = np.sqrt((influence**2).sum(axis=0) * (count / max(count - 1, 1)))
    return errors
