"""Whether the scores explain what people said of each pair."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.special import chdtrc, ndtr

from mallow.evidence import holm
from mallow.human._paired import PairedFit, Rows, residuals
from mallow.human._ranking import PairCheck


def check_pairs(rows: Rows, fit: PairedFit, names: Sequence[str]) -> tuple[tuple[PairCheck, ...], float | None]:
    """Each pair's votes beside what the model predicts, the largest deviation first, and the p-value of the whole.

    The error of a deviation takes into account that the scores were fitted to the same votes. A tie that counts as half a win
    for both varies less than a vote: the variance of the model is multiplied by the ratio of the squared residuals to it,
    where that is below 1. Nothing can be checked where there are no more pairs than scores.
    """
    n = rows.systems
    systems = rows.design[:, :n].tocsc()
    left, right = (np.asarray(np.abs(part).argmax(axis=1)).ravel() for part in (systems.maximum(0), systems.minimum(0)))
    sign = np.where(left < right, 1.0, -1.0)
    low, high = np.minimum(left, right), np.maximum(left, right)
    codes, place = np.unique(low * n + high, return_inverse=True)
    freedom = len(codes) - (n - 1) - (rows.design.shape[1] - n)
    if freedom <= 0 or fit.penalised:
        return (), None
    residual, variance = residuals(rows, fit)
    gather = sparse.csr_matrix((np.ones(len(place)), (place, np.arange(len(place)))), shape=(len(codes), len(place)))
    tied = (rows.points == 0.5).any() and not rows.davidson
    dispersion = min(1.0, float((residual**2).sum() / variance.sum())) if tied else 1.0
    gaps, spread, votes = gather @ (sign * residual), dispersion * (gather @ variance), gather @ rows.weight
    got = gather @ (rows.weight * np.where(sign > 0, rows.points, 1.0 - rows.points))
    moved = (gather @ sparse.diags(sign * variance) @ rows.design).toarray()
    spent = np.einsum("ij,jk,ik->i", moved, fit.invert()[: moved.shape[1], : moved.shape[1]], moved)
    left_over = spread - dispersion * spent
    free = left_over > 1e-9 * spread
    z = np.where(free, gaps / np.sqrt(np.where(free, left_over, 1.0)), 0.0)
    adjusted = holm([float(p) for p in 2 * ndtr(-np.abs(z))])
    checks = [
        PairCheck(names[code // n], names[code % n], float(v), float(g / v), float((g - gap) / v), float(one), p)
        for code, v, g, gap, one, p in zip(codes, votes, got, gaps, z, adjusted, strict=True)
    ]
    checks.sort(key=lambda one: -abs(one.z))
    return tuple(checks), float(chdtrc(freedom, float((gaps**2 / spread).sum())))
