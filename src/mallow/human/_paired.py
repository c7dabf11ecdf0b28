"""Maximum likelihood for paired comparisons: Bradley–Terry, ties after Davidson, robust errors, goodness of fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import chdtrc, expit, fdtrc, ndtr, stdtr, stdtrit

from mallow.evidence import NORMAL, holm
from mallow.human._rankings import PairCheck

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SCALE = 100.0  # log-odds of 1 in points; paper: sec:a:human-eval:bt, "the scaling factor 100 is arbitrary"
_CLOSE = 1e-12  # step in log-odds at which both methods stop; their scores then agree to 1e-8 on the scale of 100
_STEPS = 100
_TERMS = 300  # largest number of terms of a series
_ROUNDS = 1_000_000  # of Zermelo's algorithm, which converges slowly if few votes connect two groups


@dataclass(frozen=True)
class Rows:
    """Comparisons, one per row; equal rows may be merged with a weight."""

    design: Any  # sparse (m, p): +1 for the left system, −1 for the right one, then the covariates
    points: Floats  # (m,), of the left side: 1, 0, or 1/2 for a tie
    weight: Floats  # (m,)
    systems: int  # the first columns; their coefficients are determined up to a shift and have mean 0
    davidson: bool = False  # whether a parameter for ties is fitted, the last one of all

    @classmethod
    def of_wins(cls, wins: Floats) -> Rows:
        """Rows for the wins of each system against each other system."""
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
    """wins[i, j]: the number of wins of i against j; a tie is half a win for both."""
    wins = np.zeros((systems, systems))
    np.add.at(wins, (left, right), points)
    np.add.at(wins, (right, left), 1.0 - points)
    return wins


def _parts(rows: Rows, coefficients: Floats) -> tuple[float, Floats, Floats, Floats, Floats, Floats]:
    """The log-likelihood, and per row the derivatives by η and the tie parameter τ, first and second (ηη, ητ, ττ)."""
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
    """The maximum of the likelihood minus ridge/2 · Σθ²; None if it does not exist or cannot be reached."""
    n, k = rows.systems, rows.design.shape[1] + rows.davidson
    coefficients = np.zeros(k)
    shift = np.zeros((k, k))
    shift[:n, :n] = rows.weight.sum() / n**2  # makes it invertible, and a step never moves along it

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


@dataclass(frozen=True)
class Errors:
    """The errors of coefficients.

    Attributes
    ----------
    covariance : array (p, p)
        The covariance of the coefficients, allowing for the dependence of votes on one item or by one person.
    least : array (p, p)
        The covariance if votes were independent. With few clusters `covariance` may be near 0 by chance. An interval is
        never shorter than for independent votes.
    freedom : array (p,)
        Degrees of freedom of each coefficient, for Student's quantiles.
    """

    covariance: Floats
    least: Floats
    freedom: Floats

    @classmethod
    def independent(cls, fit: PairedFit) -> Errors:
        """The errors under the model, without clusters."""
        inverse = fit.invert()
        return cls(inverse, inverse, np.full(len(inverse), np.inf))

    def reach(self, contrast: Floats) -> float:
        """Half the length of the 95% interval of a contrast."""
        clustered, single, freedom = self._of(contrast)
        return max(clustered * float(stdtrit(freedom, 0.975)), single * NORMAL)

    def p_value(self, contrast: Floats, value: float) -> float:
        """The two-sided p-value for a contrast of 0."""
        clustered, single, freedom = self._of(contrast)
        tails = [stdtr(freedom, -abs(value) / clustered)] if clustered > 0.0 else []
        tails += [ndtr(-abs(value) / single)] if single > 0.0 else []
        return 2 * float(max(tails)) if tails else float(value == 0.0)

    def _of(self, contrast: Floats) -> tuple[float, float, float]:
        """Both standard errors, and the smallest degrees of freedom of the coefficients in the contrast."""
        errors = (
            max(float(contrast @ covariance @ contrast), 0.0) ** 0.5 for covariance in (self.covariance, self.least)
        )
        size = np.abs(contrast)
        return *errors, float(self.freedom[size > size.max() * 0.999].min())

    def joint(self) -> Floats:
        """A covariance that is at least as large as both in every direction."""
        return self.least + _positive(self.covariance - self.least)


def _positive(matrix: Floats) -> Floats:
    """The positive semi-definite part."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    part: Floats = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return part


def cluster_errors(rows: Rows, fit: PairedFit, clusterings: Sequence[Ints], scores: Any = None) -> Errors:
    """Errors of coefficients with rows that depend on each other within clusters, such as items and people.

    For two kinds the variance is the sum of the variances by each kind minus the variance by their intersections
    (Cameron, Gelbach and Miller, 2011), made positive semi-definite. Each of the first two is a jackknife that leaves
    out one cluster at a time, by one Newton step (CR3, which has no downward bias with few clusters). The degrees of
    freedom are one less than the effective number of clusters, 1/Σw², with w the share of a cluster in the information
    about a coefficient. The smaller of both kinds counts.

    `scores` are the derivatives of the likelihood by row and coefficient, by default from the fit.
    """
    inverse = fit.invert()
    scores = row_scores(rows, fit) if scores is None else scores
    factors, owners = _factors(rows, fit)
    votes = np.arange(scores.shape[0])
    kinds, common = _number_clusters(clusterings) if clusterings else ([], votes)
    step = _sum_by(common, scores) @ inverse
    least = step.T @ step * len(step) / max(len(step) - 1, 1)
    steps = [_leave_out(groups, scores, factors, groups[owners], inverse) for groups in kinds]
    covariance = _positive(sum((own.T @ own for own in steps), np.zeros_like(inverse)) - (len(steps) - 1) * least)
    if fit.penalised or not scores.count_nonzero():
        least = inverse  # votes without residuals do not show their noise
    contrasts = np.eye(len(inverse))
    contrasts[: rows.systems, : rows.systems] -= 1.0 / rows.systems
    information = np.asarray((factors @ (inverse @ contrasts)) ** 2)
    freedom = [_effective(_sum_by(groups[owners], information)) for groups in kinds or [votes]]
    return Errors(covariance, least, np.maximum(np.min(freedom, axis=0) - 1.0, 1.0))


def _number_clusters(clusterings: Sequence[Ints]) -> tuple[list[Ints], Ints]:
    """Each clustering with the numbers 0, 1, …, and the clustering by their intersections."""
    kinds = [np.unique(groups, return_inverse=True)[1].ravel() for groups in clusterings]
    return kinds, np.unique(np.column_stack(kinds), axis=0, return_inverse=True)[1].ravel()


def _gatherer(groups: Ints) -> Any:
    """The sparse matrix whose product with rows has their sum for each group."""
    shape = int(groups.max()) + 1, len(groups)
    return sparse.csr_matrix((np.ones(len(groups)), (groups, np.arange(len(groups)))), shape=shape)


def _sum_by(groups: Ints, values: Any) -> Floats:
    """The sums of the rows of each group."""
    sums = _gatherer(groups) @ values
    made: Floats = sums.toarray() if sparse.issparse(sums) else np.asarray(sums)
    return made


def _effective(parts: Floats) -> Floats:
    number: Floats = parts.sum(axis=0) ** 2 / np.maximum((parts**2).sum(axis=0), 1e-300)
    return number


def _leave_out(groups: Ints, scores: Any, factors: Any, owners: Ints, inverse: Floats) -> Floats:
    """The change of the coefficients when a cluster is left out, (I − I_g)⁻¹ s_g, scaled as a jackknife.

    The series Σ (I⁻¹ I_g)ᵏ I⁻¹ s_g converges since no cluster has all information.
    """
    first = _sum_by(groups, scores) @ inverse
    steps = first
    for _ in range(_TERMS):
        along = np.asarray(factors.multiply(steps[owners]).sum(axis=1)).ravel()
        before, steps = steps, first + _sum_by(owners, factors.multiply(along[:, None]).tocsr()) @ inverse
        if np.abs(steps - before).max() <= 1e-9 * np.abs(steps).max():
            break
    scaled: Floats = steps * np.sqrt((len(steps) - 1) / len(steps))
    return scaled


def _factors(rows: Rows, fit: PairedFit) -> tuple[Any, Ints]:
    """A matrix F with FᵀF the information without the shift, and the row that each line of it belongs to."""
    _, _, _, second, cross, ties = _parts(rows, fit.coefficients)
    root = np.sqrt(np.maximum(second, 1e-300))
    factors, m = (sparse.diags(root) @ rows.design).tocsr(), len(root)
    if not rows.davidson:
        return factors, np.arange(m)
    rest = np.sqrt(np.maximum(ties - (cross / root) ** 2, 0.0))
    upper = sparse.hstack([factors, sparse.csr_matrix((cross / root)[:, None])])
    lower = sparse.hstack([sparse.csr_matrix(rows.design.shape), sparse.csr_matrix(rest[:, None])])
    return sparse.vstack([upper, lower], format="csr"), np.tile(np.arange(m), 2)


def row_scores(rows: Rows, fit: PairedFit) -> Any:
    """The derivative of the likelihood by each coefficient, for each row: sparse (m, p)."""
    _, by_eta, by_tau, *_ = _parts(rows, fit.coefficients)
    scores = (sparse.diags(by_eta) @ rows.design).tocsr()
    return sparse.hstack([scores, sparse.csr_matrix(by_tau[:, None])], format="csr") if rows.davidson else scores


def fit_zermelo(wins: Floats) -> Floats:
    """Log-odds by Zermelo's algorithm (paper: sec:a:human-eval:bt), from wins[i, j] = how often i beat j.

    The maximum must exist. The printed likelihood has the wrong sign: docs/paper.md, erratum 7.
    """
    w = np.zeros(len(wins))
    totals = np.log(wins.sum(axis=1))
    played = wins + wins.T
    before = np.inf
    for _ in range(_ROUNDS):
        strength = np.exp(w)
        new = totals - np.log((played / (strength[:, None] + strength[None, :])).sum(axis=1))
        new -= new.mean()
        change = float(np.abs(new - w).max())
        w = new
        rate = min(change / before, 0.999999) if before > 0 else 0.0
        if change <= _CLOSE * (1.0 - rate) or change == 0.0:
            break  # the remaining steps are a geometric series
        before = change
    return w


def components(wins: Floats, *, strong: bool) -> list[list[int]]:
    """Groups of systems connected by comparisons; `strong`: by wins in both directions (Ford's condition)."""
    from scipy.sparse.csgraph import connected_components

    kind = "strong" if strong else "weak"
    count, labels = connected_components(sparse.csr_matrix(wins > 0), directed=True, connection=kind)
    return [[int(i) for i in np.flatnonzero(labels == label)] for label in range(count)]


def check_pairs(
    rows: Rows, fit: PairedFit, names: Sequence[str], clusterings: Sequence[Ints] = ()
) -> tuple[tuple[PairCheck, ...], float | None]:
    """Each pair's votes and their prediction by the model, the largest deviation first, and the overall p-value.

    The error of a deviation allows for the fit of the scores to the same votes, and for the dependence of votes within
    clusters, such as items and people. It is never smaller than for independent votes. A tie that counts as half a win
    for both varies less than a vote, so the variance of the model is multiplied by the ratio of the squared residuals
    to it, if that is below 1. No check is possible unless there are more pairs than scores.
    """
    n = rows.systems
    systems = rows.design[:, :n].tocsc()
    left, right = (np.asarray(np.abs(part).argmax(axis=1)).ravel() for part in (systems.maximum(0), systems.minimum(0)))
    sign = np.where(left < right, 1.0, -1.0)
    low, high = np.minimum(left, right), np.maximum(left, right)
    codes, pair_of_row = np.unique(low * n + high, return_inverse=True)
    freedom = len(codes) - (n - 1) - (rows.design.shape[1] - n)
    if freedom <= 0 or fit.penalised:
        return (), None
    _, residual, _, variance, *_ = _parts(rows, fit.coefficients)  # weighted
    count, gather = len(pair_of_row), _gatherer(pair_of_row)
    tied = (rows.points == 0.5).any() and not rows.davidson
    dispersion = min(1.0, float((residual**2).sum() / variance.sum())) if tied else 1.0
    gaps, spread, votes = gather @ (sign * residual), dispersion * (gather @ variance), gather @ rows.weight
    got = gather @ (rows.weight * np.where(sign > 0, rows.points, 1.0 - rows.points))
    moved = (gather @ sparse.diags(sign * variance) @ rows.design).toarray()
    inverse = fit.invert()[:, : moved.shape[1]]
    single = np.diag(spread) - dispersion * moved @ inverse[: moved.shape[1]] @ moved.T
    free = np.diag(single) > 1e-9 * spread
    errors = np.sqrt(np.where(free, np.diag(single), 1.0))
    z = np.where(free, gaps / errors, 0.0)
    p_values, whole = 2 * ndtr(-np.abs(z)), float(chdtrc(freedom, float((gaps**2 / spread).sum())))
    if clusterings:
        places = np.arange(count), pair_of_row
        shares = variance / (gather @ variance)[pair_of_row]  # deviations of rows are centred on their pair
        around = sparse.csr_matrix((sign * residual - shares * gaps[pair_of_row], places), shape=(count, len(codes)))
        clustered = _clustered_gaps(around, row_scores(rows, fit), inverse @ moved.T, clusterings)
        information = sparse.csr_matrix((variance, places), shape=(count, len(codes)))
        sizes = [_effective(_sum_by(groups, information)) for groups in clusterings]
        fewest = np.maximum(np.min(sizes, axis=0) - 1.0, 1.0)
        wider = np.sqrt(np.maximum(np.where(free, np.diag(clustered), 0.0), errors**2))
        z = np.where(free, gaps / wider, 0.0)
        p_values = np.maximum(p_values, 2 * stdtr(fewest, -np.abs(z)))
        clusters = min(len(np.unique(groups)) for groups in clusterings)
        whole = max(
            whole, _misfit_in_clusters(gaps / np.sqrt(spread), clustered / np.sqrt(np.outer(spread, spread)), clusters)
        )
    adjusted = holm([float(p) for p in p_values])
    checks = [
        PairCheck(names[code // n], names[code % n], float(v), float(g / v), float((g - gap) / v), float(one), p)
        for code, v, g, gap, one, p in zip(codes, votes, got, gaps, z, adjusted, strict=True)
    ]
    checks.sort(key=lambda one: -abs(one.z))
    return tuple(checks), whole


def _clustered_gaps(deviations: Any, scores: Any, along: Floats, clusterings: Sequence[Ints]) -> Floats:
    """The covariance of the deviations of pairs, from sums over clusters of one or two kinds, as in `cluster_errors`.

    `deviations` (m, pairs) and `scores` (m, p) belong to rows. `along` (p, pairs) is the change of the deviations with
    the fitted scores.
    """
    kinds, common = _number_clusters(clusterings)
    total = np.zeros((deviations.shape[1],) * 2)
    for groups, factor in [*((groups, 1.0) for groups in kinds), (common, 1.0 - len(kinds))]:
        number, gather = int(groups.max()) + 1, _gatherer(groups)
        gathered, fitted = gather @ deviations, gather @ scores
        cross = (gathered.T @ fitted).toarray() @ along
        gram = (gathered.T @ gathered).toarray() - cross - cross.T + along.T @ (fitted.T @ fitted).toarray() @ along
        total += factor * gram * number / max(number - 1, 1)
    return total


def _misfit_in_clusters(deviations: Floats, covariance: Floats, clusters: int) -> float:
    """The p-value of the sum of squares of deviations with this covariance, estimated from this many clusters.

    A sum of squares with unequal variances λ is nearly a sum of (Σλ)²/Σλ² squares with equal variances (Satterthwaite).
    The noise of the estimate adds (Σλ)²/(clusters − 1) to Σλ², which is subtracted, and turns χ² into F.
    """
    values = np.linalg.eigvalsh((covariance + covariance.T) / 2)
    total, noise = float(values.sum()), max(clusters - 1, 1)
    if total <= 0.0:
        return 0.0  # clusters show less noise than single votes, so single votes decide
    squares = max(
        float((values**2).sum()) - total**2 / noise, total**2 / np.count_nonzero(values > 1e-9 * values.max())
    )
    effective = total**2 / squares
    return float(fdtrc(effective, effective * noise, float((deviations**2).sum()) / total))
