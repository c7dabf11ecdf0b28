"""Maximum likelihood for paired comparisons: Bradley–Terry, ties after Davidson, robust errors, goodness of fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import chdtrc, expit, ndtr

from mallow.evidence import holm
from mallow.human._rankings import PairCheck

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SCALE = 100.0  # log-odds of 1 in points; paper: sec:a:human-eval:bt, "the scaling factor 100 is arbitrary"
_CLOSE = 1e-12  # of a step in log-odds, at which both methods stop; their scores then agree to 1e-8 on the scale of 100
_STEPS = 100
_ROUNDS = 1_000_000  # of Zermelo's algorithm, which converges slowly where few votes connect two groups


@dataclass(frozen=True)
class Rows:
    """Comparisons, one per row; equal ones may be merged with a weight.

    Attributes
    ----------
    design : sparse matrix (m, p)
        +1 for the left system, −1 for the right one, then the covariates.
    points : array (m,)
        What the left side got: 1, 0, or 1/2 for a tie.
    weight : array (m,)
    systems : int
        The first columns; their coefficients are determined up to a shift and have mean 0.
    davidson : bool
        Whether a parameter for ties is fitted, the last one of all.
    """

    design: Any
    points: Floats
    weight: Floats
    systems: int
    davidson: bool = False

    @classmethod
    def of_wins(cls, wins: Floats) -> Rows:
        """One row for all wins of a system against another one."""
        left, right = np.nonzero(wins)
        return cls(make_design(left, right, len(wins)), np.ones(len(left)), wins[left, right], len(wins))


@dataclass(frozen=True)
class PairedFit:
    """Coefficients in log-odds and the information matrix, made invertible along the shift of all systems."""

    coefficients: Floats
    information: Floats
    penalised: bool

    def invert(self) -> Floats:
        """The inverse of the information, without the direction of the shift."""
        return np.linalg.inv(self.information).astype(np.float64)


def make_design(left: Ints, right: Ints, systems: int) -> Any:
    """The design matrix of comparisons between systems with these numbers."""
    m = len(left)
    entries, places = np.repeat([1.0, -1.0], m), np.tile(np.arange(m), 2)
    return sparse.csr_matrix((entries, (places, np.concatenate([left, right]))), shape=(m, systems))


def count_wins(left: Ints, right: Ints, points: Floats, systems: int) -> Floats:
    """wins[i, j]: how often i beat j, a tie being half a win for both."""
    wins = np.zeros((systems, systems))
    np.add.at(wins, (left, right), points)
    np.add.at(wins, (right, left), 1.0 - points)
    return wins


def _parts(rows: Rows, coefficients: Floats) -> tuple[float, Floats, Floats, Floats, Floats, Floats]:
    """Log-likelihood; per row the derivatives by η and by the tie parameter τ, and the second ones (ηη, ητ, ττ)."""
    y, w = rows.points, rows.weight
    if not rows.davidson:
        eta = rows.design @ coefficients
        p = expit(eta)
        value = float((w * (y * eta - np.logaddexp(0.0, eta))).sum())
        nothing = np.zeros(len(y))
        return value, w * (y - p), nothing, w * p * (1.0 - p), nothing, nothing
    eta, tau = rows.design @ coefficients[:-1], coefficients[-1]
    # Davidson (1970): left, right and tie in the proportions e^{η/2}, e^{−η/2} and e^τ.
    norm = np.logaddexp(np.logaddexp(eta / 2, -eta / 2), tau)
    left, right, tie = np.exp(eta / 2 - norm), np.exp(-eta / 2 - norm), np.exp(tau - norm)
    tied = y == 0.5
    value = float((w * ((y - 0.5) * eta + tied * tau - norm)).sum())
    mean = (left - right) / 2
    second = (left + right) / 4 - mean**2
    return value, w * (y - 0.5 - mean), w * (tied - tie), w * second, -w * mean * tie, w * tie * (1.0 - tie)


def fit_newton(rows: Rows, *, ridge: float = 0.0) -> PairedFit | None:
    """The maximum of the likelihood, minus ridge/2 · Σθ²; None where it does not exist or cannot be reached."""
    n, k = rows.systems, rows.design.shape[1] + rows.davidson
    coefficients = np.zeros(k)
    shift = np.zeros((k, k))
    shift[:n, :n] = rows.weight.sum() / n**2  # makes it invertible; a step never moves along it

    def objective(point: Floats) -> float:
        return _parts(rows, point)[0] - float((ridge * point**2).sum()) / 2

    value = objective(coefficients)
    for _ in range(_STEPS):
        _, by_eta, by_tau, *second = _parts(rows, coefficients)
        gradient = rows.design.T @ by_eta
        information = (rows.design.T @ sparse.diags(second[0]) @ rows.design).toarray()
        if rows.davidson:
            cross = rows.design.T @ second[1]
            information = np.block([[information, cross[:, None]], [cross[None, :], np.array([[second[2].sum()]])]])
            gradient = np.append(gradient, by_tau.sum())
        gradient = gradient - ridge * coefficients
        information = information + shift + ridge * np.eye(k)  # covariates and ties may be separated as well
        if np.linalg.cond(information) > 1e12:
            return None
        step = np.linalg.solve(information, gradient)
        size = 1.0
        while size > 1e-6 and (new := objective(coefficients + size * step)) < value - 1e-12 * abs(value):
            size /= 2
        coefficients = coefficients + size * step
        coefficients[:n] -= coefficients[:n].mean()
        value = new
        if np.abs(step).max() < _CLOSE * max(1.0, float(np.abs(coefficients).max())):
            return PairedFit(coefficients, information, bool(ridge))
        if np.abs(coefficients).max() > 30:  # odds of 10^13: it runs away
            return None
    return PairedFit(coefficients, information, bool(ridge)) if np.abs(step).max() < 1e-8 else None


def residuals(rows: Rows, fit: PairedFit) -> tuple[Floats, Floats]:
    """Per row, what the left side got beyond its expectation, and its variance under the model; both weighted."""
    _, by_eta, _, second, *_ = _parts(rows, fit.coefficients)
    return by_eta, second


def row_scores(rows: Rows, fit: PairedFit, groups: Ints, count: int) -> Floats:
    """The derivative of the likelihood by each coefficient, summed over the rows of each group: (count, p)."""
    _, by_eta, by_tau, *_ = _parts(rows, fit.coefficients)
    gather = sparse.csr_matrix((np.ones(len(groups)), (groups, np.arange(len(groups)))), shape=(count, len(groups)))
    sums: Floats = (gather @ sparse.diags(by_eta) @ rows.design).toarray()
    return np.column_stack([sums, gather @ by_tau]) if rows.davidson else sums


def fit_zermelo(wins: Floats) -> Floats:
    """Log-odds by Zermelo's algorithm (paper: sec:a:human-eval:bt), from wins[i, j] = how often i beat j.

    The maximum must exist. The printed likelihood has the wrong sign: docs/paper.md, erratum 7.
    """
    w = np.zeros(len(wins))
    own = np.log(wins.sum(axis=1))
    played = wins + wins.T
    before = np.inf
    for _ in range(_ROUNDS):
        strength = np.exp(w)
        new = own - np.log((played / (strength[:, None] + strength[None, :])).sum(axis=1))
        new -= new.mean()
        change = float(np.abs(new - w).max())
        w = new
        rate = min(change / before, 0.999999) if before > 0 else 0.0
        if change <= _CLOSE * (1.0 - rate) or change == 0.0:
            break  # what is still to come is a geometric series
        before = change
    return w


def components(wins: Floats, *, strong: bool) -> list[list[int]]:
    """Groups of systems that are connected by comparisons; `strong`: by wins in both directions (Ford's condition)."""
    from scipy.sparse.csgraph import connected_components

    kind = "strong" if strong else "weak"
    count, labels = connected_components(sparse.csr_matrix(wins > 0), directed=True, connection=kind)
    return [[int(i) for i in np.flatnonzero(labels == label)] for label in range(count)]


def check_pairs(rows: Rows, fit: PairedFit, names: Sequence[str]) -> tuple[tuple[PairCheck, ...], float | None]:
    """Each pair's votes beside what the model predicts, the largest deviation first, and the p-value of the whole.

    The error of a deviation takes into account that the scores were fitted to the same votes. A tie that counts as half
    a win for both varies less than a vote: the variance of the model is multiplied by the ratio of the squared
    residuals to it, where that is below 1. Nothing can be checked where there are no more pairs than scores.
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
