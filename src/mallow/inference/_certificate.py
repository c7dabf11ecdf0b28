"""From held-out scores to a certificate: costs that are at least so large, hence an area that is at most so large.

A divergence is a supremum over functions, so any function gives a lower bound, and one that was learned on other samples
an honest one. With t = p/r and s = q/r by the witness, for the mixtures R_λ = λP + (1−λ)Q,

    D_f(P‖R_λ) ≥ E_P[f′(t)] − E_R[t f′(t) − f(t)]          D_f(Q‖R_λ) ≥ E_Q[f′(s)] − E_R[s f′(s) − f(s)]

with equality where the witness is the true log-ratio. Each side is a mean over samples; its error is that of a mean over
units, whatever they share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mallow.inference._slopes import NAMES, summary_slopes
from mallow.inference._units import Units
from mallow.results import Estimate
from mallow.theory import KL, Array, Divergence, Frontier, Masses, area, compute_frontier, integral, midpoint

__all__ = [
    "ONE_SIDED",
    "Certificate",
    "certify",
    "cost_terms",
    "standard_errors",
    "summary_terms",
    "unit_influence",
]

ONE_SIDED = 1.6448536269514722  # standard errors that 95 % of a normal variable stay below
_STEP = 1e-6  # chosen: relative step of the derivative of f, whose error is then about 1e-10
_DISJOINT = Masses.from_histograms([1.0, 0.0], [0.0, 1.0])


@dataclass(frozen=True, eq=False)
class Certificate:
    """What held-out scores prove about a pair.

    Attributes
    ----------
    frontier : Frontier
        Costs that hold for the distributions, up to the noise of sampling: the true curve lies above.
    estimates : dict
        Summary → Estimate. The area is at most `high`, the others are at least `low`, each with 95 % confidence.
    influence : array (units, 3)
        What each unit adds to the error of the three summaries; their squares sum to the variance.
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


def certify(at_p: Array, at_q: Array, units: Units, divergence: Divergence = KL, scale: float = 5.0) -> Certificate:
    """The certificate of held-out scores h of the reference (n,) and of the model (m,), whose units are known."""
    range_ends = compute_frontier(_DISJOINT, divergence)
    lam, rest = range_ends.lam, range_ends.lam[::-1]
    terms = cost_terms(at_p, at_q, divergence, lam, rest)
    to_p, to_q = (np.clip(each, 0.0, None) for each in np.split(sum(side.mean(axis=0) for side in terms), 2))
    # A true cost falls in λ (or rises), so a bound at one λ is also one at every λ where the cost is larger.
    to_p = np.minimum(np.maximum.accumulate(to_p[::-1])[::-1], range_ends.p_to_mix)
    to_q = np.minimum(np.maximum.accumulate(to_q), range_ends.q_to_mix)
    curve = Frontier(lam, to_p, to_q, exact=True)
    influence = unit_influence([summary_terms(own, curve, scale) for own in terms], units)
    values = [float(area(curve, scale=scale)), float(integral(curve)), float(midpoint(curve))]
    errors = standard_errors(influence)
    # The area falls exponentially with the costs, so its error is one of its logarithm.
    high = min(1.0, values[0] * math.exp(min(ONE_SIDED * float(errors[0]) / values[0], 700.0)))
    ends = float(integral(range_ends)), float(midpoint(range_ends))
    estimates = {NAMES[0]: Estimate(values[0], 0.0, high)}
    for name, value, error, end in zip(NAMES[1:], values[1:], errors[1:], ends, strict=True):
        estimates[name] = Estimate(value, max(0.0, value - ONE_SIDED * float(error)), end)
    return Certificate(curve, estimates, influence, scale)


def cost_terms(at_p: Array, at_q: Array, divergence: Divergence, lam: Array, rest: Array) -> tuple[Array, Array]:
    """What each sample of P and of Q adds to the bounds of the costs, (n, 2·points) and (m, 2·points).

    The bounds of D_f(P‖R_λ) come first, then those of D_f(Q‖R_λ); each is the mean over P plus the mean over Q. `rest` is
    1 − λ.
    """

    def ratios(h: Array) -> tuple[Array, Array]:
        mix = np.logaddexp(h[:, None] + np.log(lam), np.log(rest))
        return h[:, None] - mix, -mix  # log t, log s

    (log_t, log_s), (log_t_q, log_s_q) = ratios(at_p), ratios(at_q)
    slope_t, conjugate_t = _slope_and_conjugate(divergence, log_t)
    _, conjugate_s = _slope_and_conjugate(divergence, log_s)
    slope_s_q, conjugate_s_q = _slope_and_conjugate(divergence, log_s_q)
    _, conjugate_t_q = _slope_and_conjugate(divergence, log_t_q)
    of_p = np.concatenate([slope_t - lam * conjugate_t, -lam * conjugate_s], axis=1)
    of_q = np.concatenate([-rest * conjugate_t_q, slope_s_q - rest * conjugate_s_q], axis=1)
    return of_p, of_q


def _slope_and_conjugate(divergence: Divergence, log_t: Array) -> tuple[Array, Array]:
    """f′(t) and t f′(t) − f(t), which is f*(f′(t)) for the convex conjugate f*."""
    t = np.exp(log_t)
    if divergence is KL:
        return log_t, np.expm1(log_t)
    slope = (divergence.f(t * (1.0 + _STEP)) - divergence.f(t * (1.0 - _STEP))) / (2.0 * _STEP * t)
    return slope, t * slope - divergence.f(t)


def summary_terms(terms: Array, curve: Frontier, scale: float) -> Array:
    """What each sample adds to the three summaries near a curve, (samples, 3), from what it adds to the costs."""
    slopes = np.concatenate(list(summary_slopes(curve, scale)))  # (2·points, 3)
    each: Array = terms @ np.where(np.isfinite(slopes), slopes, 0.0)
    return each


def unit_influence(each: Sequence[Array], units: Units) -> Array:
    """What each unit adds to the error of a sum of means, (units, ...), one mean for each set of samples."""
    total = np.zeros((units.count, *each[0].shape[1:]))
    for place, own in enumerate(each):
        total += units.totals(place, (own - own.mean(axis=0)) / len(own))
    return total


def standard_errors(influence: Array) -> Array:
    """The standard errors of sums over units, (...,), from what each unit adds, (units, ...)."""
    count = np.count_nonzero(np.abs(influence).reshape(len(influence), -1).sum(axis=1))
    errors: Array = np.sqrt((influence**2).sum(axis=0) * (count / max(count - 1, 1)))
    return errors
