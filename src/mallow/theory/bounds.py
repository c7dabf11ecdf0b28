"""Error bounds of the paper, as numbers: the largest distance of an estimate from the truth.

The bounds hold for a divergence whose generator satisfies the paper's assumption (asmp:fdiv), that is, whose six
constants are finite. `constants` computes the smallest ones numerically; `paper_constants` gives those of the
paper's table. All bounds are on the expected absolute error E|D_f(P̂‖Q̂) − D_f(P‖Q)|.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.errors import InputError
from mallow.theory._divergence import CHI2, JS, KL, KL_INTEGRAL, LE_CAM, Divergence, conjugate, interpolated, skew_js
from mallow.theory._masses import Array, Masses

__all__ = [
    "Constants",
    "alpha",
    "beta",
    "constants",
    "gamma",
    "oracle_bound",
    "oracle_partition",
    "paper_constants",
    "quantization_error",
    "statistical_bound",
    "suggested_bins",
    "suggested_neighbors",
    "total_error",
    "uniform_bound",
    "uniform_statistical_bound",
]

# Derivatives are computed in s = log t, by central differences of order eight: t f′ = df/ds.
# The steps and ranges below are chosen: the constants of the named divergences come out right to about 1e-5.
_STENCIL = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0.0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
_REACH = np.arange(-4, 5)
_SLACK = 1.0 + 1e-5  # rounds up: the error of the differences must not lower an upper bound


@dataclass(frozen=True)
class Constants:
    """The six constants of the paper's assumption on a generator f and its conjugate f* (asmp:fdiv).

    Attributes
    ----------
    at_zero : float
        C₀ = f(0).
    conjugate_at_zero : float
        C₀* = f*(0).
    first : float
        C₁ with |f′(t)| ≤ C₁ max(1, log 1/t) on (0, 1).
    conjugate_first : float
        C₁*, the same for f*.
    second : float
        C₂ with t f″(t)/2 ≤ C₂ on (0, ∞).
    conjugate_second : float
        C₂*, the same for f*.
    """

    at_zero: float
    conjugate_at_zero: float
    first: float
    conjugate_first: float
    second: float
    conjugate_second: float

    @property
    def finite(self) -> bool:
        """Whether all six constants are finite, so that the bounds hold."""
        return all(math.isfinite(value) for value in astuple(self))

    def swap(self) -> Constants:
        """The constants of the conjugate divergence."""
        at_zero, conjugate_at_zero, first, conjugate_first, second, conjugate_second = astuple(self)
        return Constants(conjugate_at_zero, at_zero, conjugate_first, first, conjugate_second, second)


@lru_cache(maxsize=256)
def constants(divergence: Divergence) -> Constants:
    """The smallest valid constants of a divergence, computed numerically (to about 1e-5, rounded up).

    They are infinite where the assumption fails: for KL and χ² (f*(0) = ∞), squared Hellinger (f′ grows faster than
    a logarithm), and total variation and other generators with kinks (f″ does not exist).

    Examples
    --------
    >>> round(constants(KL_INTEGRAL).first, 3), round(paper_constants(KL_INTEGRAL).first, 3)
    (1.0, 4.0)
    """
    swapped = conjugate(divergence)
    return Constants(
        divergence.at_zero,
        divergence.conjugate_at_zero,
        _first_constant(divergence),
        _first_constant(swapped),
        _second_constant(divergence),
        _second_constant(swapped),
    )


def paper_constants(divergence: Divergence) -> Constants:
    """The constants of the paper's table (tab:fdiv:asmp-examples): valid, and looser than `constants`.

    For the interpolated χ², the paper's table holds for a generator that lacks the factor (1−λ)². The factor is
    restored here (docs/paper.md, erratum 1).
    """
    if divergence == JS:
        return Constants(math.log(2) / 2, math.log(2) / 2, 0.5, 0.5, 0.25, 0.25)
    if divergence == KL_INTEGRAL:
        return Constants(0.5, 0.5, 4.0, 4.0, 0.5, 0.5)
    if divergence == LE_CAM:
        return Constants(0.5, 0.5, 2.0, 2.0, 8 / 27, 8 / 27)
    lam = getattr(divergence.term, "lam", None)
    if lam is not None:
        rest = 1.0 - lam
        if divergence == skew_js(lam):
            return Constants(-rest * math.log(rest), -lam * math.log(lam), lam, rest, lam / 2, rest / 2)
        if divergence == interpolated(KL, lam):
            return Constants(rest, -math.log(lam) - rest, 1.0, rest**2 / lam, 0.5, rest / (8 * lam))
        if divergence == interpolated(CHI2, lam):
            return Constants(rest, rest**2 / lam, 2.0, 2 * rest**2 / lam**2, 4 / (27 * lam), 4 * rest / (27 * lam**2))
    raise InputError(
        f"The paper's table has no finite constants for {divergence}. "
        "It has them for JS, LE_CAM, KL_INTEGRAL, skew_js, interpolated(KL, ·) and interpolated(CHI2, ·). "
        "Use `constants`, which computes them numerically."
    )


def _slope(divergence: Divergence, s: Array, step: float) -> Array:
    """f′(t) at t = e^s."""
    t = np.exp(s[:, None] + step * _REACH)
    values = divergence.terms(t, np.ones_like(t), np.expm1(s[:, None] + step * _REACH))
    slope: Array = (values @ _STENCIL) / step * np.exp(-s)
    return slope


def _first_constant(divergence: Divergence) -> float:
    """sup |f′(t)| / max(1, log 1/t) over (0, 1)."""
    s = np.linspace(-18.0, 0.0, 4501)  # includes t = 1/e, where the ratio may have a cusp
    slope = np.abs(_slope(divergence, s, 0.05))
    # The coefficient of log(1/t) in f′ as t → 0, from two stretches, which must agree.
    late, early = ((slope[i] - slope[j]) / (s[j] - s[i]) for i, j in ((0, 400), (400, 800)))
    largest = float((slope / np.maximum(1.0, -s)).max())
    if abs(late - early) > 1e-2 * max(1.0, largest):
        return math.inf
    return max(largest, float(late)) * _SLACK


def _second_constant(divergence: Divergence) -> float:
    """sup t f″(t)/2 over (0, ∞); t f″ = df′/ds."""

    def largest(step: float) -> tuple[float, float]:
        reach = s[:, None] + step * _REACH
        slopes = _slope(divergence, reach.ravel(), step).reshape(reach.shape)
        curvature = (slopes @ _STENCIL) / step / 2
        return float(curvature[np.abs(s) <= 14.0].max()), float(curvature.max())

    s = np.linspace(-18.0, 18.0, 3601)
    (_, coarse), (inner, fine) = largest(0.1), largest(0.05)
    # With a kink, the difference quotient grows as the step shrinks; with a pole, it grows towards an end.
    grows = fine > 1.05 * min(coarse, inner) + 1e-6
    return math.inf if grows else max(coarse, fine) * _SLACK


def alpha(p: Any, n: int) -> float | Array:
    """α_n(P) = Σ √(P_l / n), a bound on the expected L1 distance of the empirical P̂ from P; at most √(k/n)."""
    total: float | Array = np.sqrt(_rows(p) / whole("n", n, least=1)).sum(axis=-1)
    return total


def beta(p: Any, n: int) -> float | Array:
    """β_n(P) = Σ (1−P_l)^n P_l max(1, log 1/P_l), the expected missing mass weighted by its logarithm.

    At most (k log n)/n for n ≥ 3 (paper: lem:fdiv:expected-missing-mass).
    """
    masses = _rows(p)
    size = np.where(masses > 0, masses, 1.0)
    missing = (1.0 - masses) ** whole("n", n, least=1) * masses
    total: float | Array = (missing * np.maximum(1.0, -np.log(size))).sum(axis=-1)
    return total


def gamma(p: Any, n: int, constant: float = 0.5) -> float | Array:
    """γ_{n,k}(P) = bk/(n + bk) Σ |P_l − 1/k|: how far add-b smoothing (b = constant) pulls P towards uniform."""
    masses = _rows(p)
    bins, constant = masses.shape[-1], _smoothing_constant(constant)
    pull = constant * bins / (whole("n", n, least=1) + constant * bins)
    total: float | Array = pull * np.abs(masses - 1.0 / bins).sum(axis=-1)
    return total


def statistical_bound(
    bins: int,
    n: int,
    *,
    divergence: Divergence = KL_INTEGRAL,
    constant: float = 0.0,
    using: Constants | None = None,
) -> float:
    """The distribution-free bound on the statistical error with `bins` bins and n samples per side.

    (c₁ log n + c₂)(√(k/n) + k/n) for the empirical estimate (paper: eq:fdiv:stat_error), and
    (c₁ log(n/b + k) + c₂)(√(kn) + 2b(k−1))/(n + kb) for add-b smoothing (eq:addb:fdiv:stat_error).

    Parameters
    ----------
    bins : int
        The number of bins k.
    n : int
        Samples per side.
    divergence : Divergence
        Must have finite constants. The KL frontier integral by default. A point of the KL frontier is
        ``interpolated(KL, lam)``.
    constant : float
        The b of add-b smoothing; 0 for the empirical estimate.
    using : Constants or None
        None means the smallest ones, `constants(divergence)`.

    Examples
    --------
    >>> round(statistical_bound(bins=500, n=5000), 2)
    7.5
    """
    bins, n, constant = whole("bins", bins, least=1), whole("n", n, least=3), _smoothing_constant(constant)
    c = _finite_constants(divergence, using)
    slope = c.first + c.conjugate_first
    offset = max(c.second, c.conjugate_at_zero) + max(c.conjugate_second, c.at_zero)
    if constant == 0.0:
        return (slope * math.log(n) + offset) * (math.sqrt(bins / n) + bins / n)
    spread = (math.sqrt(bins * n) + 2 * constant * (bins - 1)) / (n + bins * constant)
    return (slope * math.log(n / constant + bins) + offset) * spread


def oracle_bound(
    p: Any,
    q: Any,
    n: int,
    m: int | None = None,
    *,
    divergence: Divergence = KL_INTEGRAL,
    constant: float = 0.0,
    using: Constants | None = None,
) -> float:
    """The distribution-dependent bound on the statistical error, for known P and Q.

    For n samples of P and m (by default n) of Q. The empirical estimate: paper, eq:fdiv:stat_error_oracle. Add-b
    smoothing (`constant` = b > 0): eq:addb:fdiv:stat_error_oracle, whose second line is printed with γ(P). Its proof
    has γ(Q), which is used here (docs/paper.md, erratum 11).
    """
    masses = Masses.from_histograms(p, q)
    n = whole("n", n, least=3)
    m = n if m is None else whole("m", m, least=3)
    constant = _smoothing_constant(constant)
    c = _finite_constants(divergence, using)
    total = 0.0
    for masses_side, size, side in ((masses.p, n, c), (masses.q, m, c.swap())):
        offset = max(side.conjugate_at_zero, side.second)
        if constant == 0.0:
            total += (side.first * math.log(size) + offset) * float(alpha(masses_side, size))
            total += (side.first + offset) * float(beta(masses_side, size))
        else:
            bins = masses_side.shape[-1]
            spread = size / (size + bins * constant) * float(alpha(masses_side, size))
            spread += float(gamma(masses_side, size, constant))
            total += spread * (side.first * math.log(size / constant + bins) + offset)
    return total


def uniform_bound(
    p: Any, q: Any, n: int, m: int | None = None, *, least_lam: float = 0.1, divergence: Divergence = KL
) -> float:
    """A bound on the largest error of the frontier over λ in [λ₀, 1−λ₀], for known P and Q (paper: prop:consis_df).

    It bounds the expectation of the supremum over these λ of |D(P̂‖R̂_λ) − D(P‖R_λ)| + |D(Q̂‖R̂_λ) − D(Q‖R_λ)|, where
    R̂_λ = λP̂ + (1−λ)Q̂ and D is KL or χ². The proof bounds the error at each λ by sums that do not depend on λ, times
    the constants of the interpolated divergence. All of these are largest at λ₀, so with their values there the bound
    holds for all λ at once. It grows like 1/λ₀ for KL and like 1/λ₀² for χ² (docs/paper.md, erratum 21). Some
    truncation is needed, since KL(P‖Q) itself may be infinite.

    Parameters
    ----------
    p : array-like (bins,)
        The histogram of P.
    q : array-like (bins,)
        The histogram of Q.
    n : int
        Samples of P.
    m : int or None
        Samples of Q; None means n.
    least_lam : float
        λ₀, above 0 and below ½.
    divergence : Divergence
        KL or CHI2.

    Examples
    --------
    >>> round(uniform_bound([0.5, 0.5], [0.25, 0.75], 10_000, least_lam=0.25), 3)
    0.871
    """
    worst = _worst_constants(divergence, least_lam)
    m = n if m is None else m
    return oracle_bound(p, q, n, m, using=worst) + oracle_bound(q, p, m, n, using=worst)


def uniform_statistical_bound(bins: int, n: int, *, least_lam: float = 0.1, divergence: Divergence = KL) -> float:
    """The form of `uniform_bound` that holds for all P and Q with so many bins and n samples of each.

    Twice eq:fdiv:stat_error with the constants of the interpolated divergence at λ₀ (paper: prop:consis_df), once for
    each coordinate of the frontier.

    Parameters
    ----------
    bins : int
        The number of bins k.
    n : int
        Samples per side.
    least_lam : float
        λ₀, above 0 and below ½.
    divergence : Divergence
        KL or CHI2.

    Examples
    --------
    >>> round(uniform_statistical_bound(bins=2, n=10_000, least_lam=0.25), 3)
    0.898
    """
    return 2 * statistical_bound(bins, n, using=_worst_constants(divergence, least_lam))


def _worst_constants(divergence: Divergence, least_lam: float) -> Constants:
    """The constants that hold for every interpolation with λ in [λ₀, 1−λ₀]: all six fall with λ."""
    if not 0 < least_lam < 0.5:
        raise InputError(f"`least_lam` must be above 0 and below 0.5; got {least_lam!r}.")
    if divergence not in (KL, CHI2):
        raise InputError(f"`divergence` must be KL or CHI2, whose interpolations have constants; got {divergence}.")
    return paper_constants(interpolated(divergence, least_lam))


def suggested_neighbors(n: int, dimension: int, *, smoothness: float = 1.0) -> int:
    """The number of neighbours k = n^{γ/(d+γ)} that balances the two terms of the error, (k/n)^{γ/d} and 1/k.

    For n samples of each side in d dimensions whose densities are Hölder continuous with exponent γ (paper:
    thm:mauve:knn). At least 2. The error is then of order n^{−γ/(d+γ)}; the paper prints its square (docs/paper.md,
    erratum 17). The theorem has unknown constants: with `mallow.Neighbors`, √n neighbours are less noisy.

    Parameters
    ----------
    n : int
        Samples per side.
    dimension : int
        d, after the reduction.
    smoothness : float
        γ, above 0 and at most 1.

    Examples
    --------
    >>> [suggested_neighbors(5000, dimension) for dimension in (1, 5, 10)]
    [71, 5, 3]
    """
    n, dimension = whole("n", n, least=1), whole("dimension", dimension, least=1)
    if not 0 < smoothness <= 1:
        raise InputError(f"`smoothness` must be above 0 and at most 1; got {smoothness!r}.")
    balanced: float = float(n) ** (smoothness / (dimension + smoothness))
    return max(2, math.ceil(balanced))


def quantization_error(bins: int, divergence: Divergence = KL_INTEGRAL) -> float:
    """A bound on the error of the best partition into `bins` cells: (f(0) + f*(0))/(bins/2).

    Paper: thm:quant_error_fdiv, with 2k cells for the k of its right-hand side.
    """
    return (divergence.at_zero + divergence.conjugate_at_zero) / (whole("bins", bins, least=2) // 2)


def total_error(bins: int, n: int, *, divergence: Divergence = KL_INTEGRAL, using: Constants | None = None) -> float:
    """Statistical plus quantisation error of the empirical estimate on the best partition.

    Paper: thm:est_error_ray, with its constant made explicit.
    """
    statistical = statistical_bound(bins, n, divergence=divergence, using=using)
    return statistical + quantization_error(bins, divergence)


def suggested_bins(n: int, *, divergence: Divergence = KL_INTEGRAL, using: Constants | None = None) -> int:
    """The number of bins at which `total_error` is least, of order n^(1/3) (paper: thm:est_error_ray).

    The bounds are for the worst case; in practice n/10 bins work well, since real data have short tails.
    """
    n = whole("n", n, least=3)
    # Only even numbers, since an odd cell adds statistical error and lowers no bound. `total_error` has one minimum in
    # k.
    most = 2 * math.ceil(4 * n ** (1 / 3)) + 4
    return min(range(2, most, 2), key=lambda k: total_error(k, n, divergence=divergence, using=using))


def oracle_partition(masses: Masses, bins: int, divergence: Divergence = KL_INTEGRAL) -> NDArray[np.intp]:
    """A label from 0 to bins − 1 for each atom: level sets of f(p/q) if p ≤ q and of f*(q/p) if p > q.

    This is the partition in the proof of thm:quant_error_fdiv (fig:quant:proof). Merging the atoms of each cell
    changes D_f by at most `quantization_error`.
    """
    if not masses.plain or masses.p.ndim != 1:
        raise InputError(
            "`masses` must come from one pair of histograms; got a batch, a likelihood ratio or an extrapolation."
        )
    if not math.isfinite(divergence.at_zero + divergence.conjugate_at_zero):
        raise InputError(
            f"`divergence` must have a finite f(0) + f*(0), or no partition has an error bound; got {divergence}. "
            "Use KL_INTEGRAL, JS or LE_CAM."
        )
    half = whole("bins", bins, least=2) // 2
    p, q = masses.p, masses.q
    value = divergence.terms(p, q)
    below = p <= q
    with np.errstate(divide="ignore", invalid="ignore"):
        level = np.where(below, value / q / divergence.at_zero, value / p / divergence.conjugate_at_zero)
    level = np.nan_to_num(level, nan=0.0, posinf=1.0)
    cell = np.minimum((level * half).astype(np.intp), half - 1)
    return np.where(below, cell, half + cell)


def _rows(p: Any) -> Array:
    return Masses.from_histograms(p, p).p


def _smoothing_constant(value: float) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"`constant` must be 0 (no smoothing) or a positive number; got {value!r}.")
    return float(value)


def _finite_constants(divergence: Divergence, using: Constants | None) -> Constants:
    chosen = constants(divergence) if using is None else using
    if not chosen.finite:
        raise InputError(
            f"`divergence` must have finite constants (asmp:fdiv), or no bound holds; got {divergence} with {chosen}. "
            "Use KL_INTEGRAL, JS, LE_CAM or interpolated(KL, 0.5), for example."
        )
    return chosen
