"""Masses whose frontier is bias-corrected; experiments/debiasing explains the choice of the correction and its errors.

With 500 bins and 5,000 samples per side, equal distributions score 0.96 (empirical) or 0.974 (add-1/2) instead of 1.
The bias falls like bins/n, so it shows in the difference between the sample and its halves and can be removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mallow._checks import same_shape
from mallow.theory._divergence import KL_INTEGRAL
from mallow.theory._masses import Array, Masses, checked_counts

_CONSTANT = 0.5  # Krichevsky–Trofimov, the paper's default (tab:add_const)
# Chosen by the errors in experiments/debiasing:
_THRESHOLD = 4.0  # only a bias beyond two standard errors is corrected
_GAIN = 3.0  # factor by which a step that lowers the costs is lengthened, per unit of bins/n


def extrapolated(p_counts: Any, q_counts: Any) -> Masses:
    """Masses whose costs are extrapolated from half-samples, F + w·(F − H), which removes most of the bias.

    F is the add-1/2 estimate from all samples, and H is the average estimate from a random half of the samples. H is
    computed without random numbers: a half keeps Binomial(count, ½) samples of each bin, which a three-point rule
    integrates. Plain extrapolation has the step w = 1. Here the step is shorter where the change F − H is
    within its noise and where bins/n exceeds ½, and a little longer otherwise. With as many bins as
    samples it is 0, which gives the add-1/2 estimate itself. The frontier of these masses is clipped and made
    monotone before its area is taken; extrapolating the area itself would overshoot.

    Over the paper's simulation grid and mixtures near identity, with bins/n from 0.01 to 1, the root-mean-square error
    is on average 0.27 times the error of the add-1/2 estimate for the area and 0.38 times for the integral, and never
    above 1.02 times. The gain is largest near identity, and small with fewer than 50 bins or with bins/n above 1/2.

    Parameters
    ----------
    p_counts : array-like (..., bins)
        The number of reference samples in each bin.
    q_counts : array-like (..., bins)
        The number of model samples in each bin.

    Examples
    --------
    >>> from mallow import area, smoothing
    >>> rng = np.random.default_rng(0)
    >>> p, q = rng.multinomial(5000, np.full(500, 1 / 500), size=2)  # equal distributions
    >>> float(area(extrapolated(p, q), scale=5).round(3))
    1.0
    >>> plain = Masses.from_histograms(smoothing.krichevsky_trofimov(p), smoothing.krichevsky_trofimov(q))
    >>> float(area(plain, scale=5).round(3))
    0.971
    """
    a, b = checked_counts("p_counts", p_counts), checked_counts("q_counts", q_counts)
    same_shape("p_counts", a, "q_counts", b)
    return _extrapolate(a, b, _step)


def _extrapolate(a: Array, b: Array, step_rule: Callable[[Array, Array, Array], Array]) -> Masses:
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
    masses: Array = (counts + _CONSTANT) / (size + counts.shape[-1] * _CONSTANT)
    return masses


def _halves(counts: Array) -> tuple[Array, Array]:
    """Three points and their weights, each (3, ..., bins), that integrate Binomial(counts, ½) up to the fifth moment.

    For counts of 0, 1 and 2 they are the distribution itself.
    """
    kurtosis = 3.0 - 2.0 / np.maximum(counts, 1.0)
    reach = np.sqrt(kurtosis * counts)
    outer = 0.5 / kurtosis
    points = np.stack([counts - reach, counts, counts + reach]) / 2.0
    return points, np.stack([outer, 1.0 - 2.0 * outer, outer])


def _step(change: Array, n: Array, m: Array) -> Array:
    """The step w, shape (..., 1), from the change of the integral in each bin."""
    bins = change.shape[-1]
    total = change.sum(axis=-1, keepdims=True)
    noise = (change**2).sum(axis=-1, keepdims=True)
    trust = np.maximum(1.0 - _THRESHOLD * noise / np.maximum(total**2, 1e-300), 0.0)
    sparsity = bins / np.minimum(n, m)
    down = (1.0 + _GAIN * bins * (1.0 / n + 1.0 / m) / 2.0) * np.clip(2.0 - 2.0 * sparsity, 0.0, 1.0)
    up = np.clip(2.0 - 4.0 * sparsity, 0.0, 1.0)
    step: Array = trust * np.where(total < 0, down, up)
    return step
