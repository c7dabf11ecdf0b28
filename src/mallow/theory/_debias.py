"""Masses whose frontier is freed of most of the plug-in bias.

The frontier of two histograms of samples is further out than that of the distributions behind them: with 500
bins and 5,000 samples a side, equal distributions score 0.96 (empirical) or 0.974 (add-1/2) instead of 1.
The bias falls like bins/n, so it shows in the difference between the sample and its halves, and can be
taken away. How this way was chosen, and its errors: experiments/debiasing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mallow._checks import same_shape
from mallow.theory._divergence import KL_INTEGRAL
from mallow.theory._masses import Array, Masses
from mallow.theory.smoothing import checked_counts

__all__ = ["debiased"]

_CONSTANT = 0.5  # Krichevsky–Trofimov
_THRESHOLD = 4.0  # only a bias beyond two standard errors is corrected
_GAIN = 3.0  # by how much a step that lowers the costs is lengthened, times bins/n


def debiased(p_counts: Any, q_counts: Any) -> Masses:
    """Masses whose costs are extrapolated from half-samples: F + w·(F − H), freed of most of the bias.

    F is the add-1/2 estimate from all samples and H what a random half of the samples gives on average,
    exactly and without random numbers: a half keeps a Binomial(count, ½) of each bin, which a three-point
    rule integrates. The step w would be 1 in plain extrapolation. Here it is shortened where the change F − H
    is within its noise and where bins/n exceeds ½, and a little longer otherwise; with as many bins as
    samples it is 0, the add-1/2 estimate itself. The frontier of these masses is clipped and made
    monotone before its area is taken: extrapolating the area itself overshoots.

    Over the paper's simulation grid and mixtures near identity, bins/n from 0.01 to 1, the root-mean-square error of
    the area is on average 0.27 times and that of the integral 0.38 times the add-1/2 one's, and nowhere above 1.02
    times it. Most is gained near identity; with fewer than 50 bins or more than bins/n = 1/2, little.

    Parameters
    ----------
    p_counts, q_counts : array-like (..., bins)
        How many samples of each side fell into each bin.

    Examples
    --------
    >>> from mallow import area, smoothing
    >>> rng = np.random.default_rng(0)
    >>> p, q = rng.multinomial(5000, np.full(500, 1 / 500), size=2)  # equal distributions
    >>> float(area(debiased(p, q), scale=5).round(3))
    1.0
    >>> plain = Masses.from_histograms(smoothing.krichevsky_trofimov(p), smoothing.krichevsky_trofimov(q))
    >>> float(area(plain, scale=5).round(3))
    0.971
    """
    a, b = checked_counts("p_counts", p_counts), checked_counts("q_counts", q_counts)
    same_shape("p_counts", a, "q_counts", b)
    return _extrapolated(a, b, _step)


def _extrapolated(a: Array, b: Array, step_rule: Callable[[Array, Array, Array], Array]) -> Masses:
    n, m = a.sum(axis=-1, keepdims=True), b.sum(axis=-1, keepdims=True)
    whole_p, whole_q = _add_half(a, n), _add_half(b, m)
    (at_p, share_p), (at_q, share_q) = _halves(a), _halves(b)
    i, j = np.divmod(np.arange(9), 3)
    half_p, half_q = _add_half(at_p[i], n / 2), _add_half(at_q[j], m / 2)  # (9, ..., bins)
    share = share_p[i] * share_q[j]
    change = KL_INTEGRAL.terms(whole_p, whole_q) - (share * KL_INTEGRAL.terms(half_p, half_q)).sum(axis=0)
    step = step_rule(change, n, m)
    if not step.any():
        return Masses(whole_p, whole_q)
    return Masses(
        np.concatenate([whole_p, *half_p], axis=-1),
        np.concatenate([whole_q, *half_q], axis=-1),
        weight=np.concatenate([np.broadcast_to(1.0 + step, a.shape), *(-step * share)], axis=-1),
    )


def _add_half(counts: Array, size: Array) -> Array:
    found: Array = (counts + _CONSTANT) / (size + counts.shape[-1] * _CONSTANT)
    return found


def _halves(counts: Array) -> tuple[Array, Array]:
    """Three points and weights that integrate Binomial(counts, ½) up to the fifth moment: two (3, ..., bins).

    For counts of 0, 1 and 2 they are the distribution itself.
    """
    kurtosis = 3.0 - 2.0 / np.maximum(counts, 1.0)
    reach = np.sqrt(kurtosis * counts)
    outer = 0.5 / kurtosis
    points = np.stack([counts - reach, counts, counts + reach]) / 2.0
    return points, np.stack([outer, 1.0 - 2.0 * outer, outer])


def _step(change: Array, n: Array, m: Array) -> Array:
    """How far to extrapolate, from the change of the integral bin by bin: shape (..., 1)."""
    bins = change.shape[-1]
    total = change.sum(axis=-1, keepdims=True)
    noise = (change**2).sum(axis=-1, keepdims=True)
    trust = np.maximum(1.0 - _THRESHOLD * noise / np.maximum(total**2, 1e-300), 0.0)
    sparsity = bins / np.minimum(n, m)
    down = (1.0 + _GAIN * bins * (1.0 / n + 1.0 / m) / 2.0) * np.clip(2.0 - 2.0 * sparsity, 0.0, 1.0)
    up = np.clip(2.0 - 4.0 * sparsity, 0.0, 1.0)
    found: Array = trust * np.where(total < 0, down, up)
    return found
