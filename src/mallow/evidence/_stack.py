"""How views become one log-ratio, nested: what a row is judged by has seen nothing of its unit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from mallow.estimate import calibrate_scores
from mallow.evidence._blocks import Values
from mallow.evidence._folds import Folds
from mallow.evidence._units import Indices
from mallow.theory import Array

STEP = 2.0**-10  # of held-out scores; chosen: far above what processors round differently, far below what matters
_GATE = 0.5  # chosen: standard errors of the inner gain below which nothing counts as learned; one more, and all does
_RIDGE = 1.0  # chosen: in units of one unit of samples
_SAME = 1e-9  # chosen: spread of a view, relative to its values, up to which it says the same of all samples


def stack_weights(
    views: Values,
    k: int,
    fold: Indices,
    folds: Folds,
    *,
    is_reference: NDArray[np.bool_],
    weight: Array,
    unit: Indices,
) -> Array:
    """The weights of the views for fold k, (views,), fitted on the rows of the other folds.

    0 where nothing was learned.

    Parameters
    ----------
    views : array (views, pairs, rows)
        What rules say that were learned without both folds of a pair.
    fold : int64 array (rows,)
    """
    rows = {other: np.flatnonzero(fold == other) for other in range(folds.count) if other != k}
    train = np.concatenate(list(rows.values()))
    parts = [views[:, folds.pair_without[other, k], own] for other, own in rows.items()]
    inner = np.concatenate(parts, axis=1).astype(np.float64)
    spread = inner.std(axis=1)
    spread[spread <= _SAME * np.abs(inner).max(axis=1)] = np.inf
    inner /= spread[:, None]
    share = _half_on_each_side(weight[train], is_reference[train])
    units = np.count_nonzero(np.bincount(unit[train]))
    weights = calibrate_scores(inner, is_reference[train], share, ridge=_RIDGE / units)
    gain = stack_gain(weights @ inner, is_reference[train], share, unit[train])
    trust = min(1.0, max(0.0, gain - _GATE))  # no jump, at which seeds would differ
    factor: Array = trust * weights / spread
    return factor


def _half_on_each_side(weight: Array, is_reference: NDArray[np.bool_]) -> Array:
    halved: Array = weight / (2.0 * np.where(is_reference, weight[is_reference].sum(), weight[~is_reference].sum()))
    return halved


def round_scores(h: Array, units: int) -> Array:
    """Scores as multiples of 2⁻¹⁰, none beyond the logarithm of the number of units."""
    limit = np.log(units)
    rounded: Array = np.rint(np.clip(h, -limit, limit) / STEP) * STEP
    return rounded


def stack_gain(h: Array, is_reference: NDArray[np.bool_], weight: Array, unit: Indices) -> float:
    """How many standard errors, over units, the mid-point bound of h is above 0."""
    terms = weight * (np.log(2.0) + log_expit(np.where(is_reference, h, -h)))
    totals = np.bincount(unit, terms)[np.bincount(unit) > 0]
    error = float(np.sqrt(np.sum((totals - totals.mean()) ** 2)))
    gain = float(totals.sum())
    return gain / error if error > 0 else 0.0 if gain <= 0 else np.inf
