"""A test that may be checked after every batch: do the model's samples have the reference's means?

Let x̄ be the mean of some features over n units of the reference, and ȳ the mean over the first t units of a model. If
both come from one distribution with covariance Σ, ȳ − x̄ is for large samples a Brownian motion with covariance uΣ at
the time u = 1/t + 1/n, which runs backwards and never passes 1/n, because all checks share the noise of the reference.
So T = |ȳ − x̄|²/u is a stationary process of log u. Checking from t₀ on, any number of times and forever, means
watching it over the length log(1 + n/t₀). Two steps make this a p-value:

1. At one check, T is a quadratic form. Its distribution is approximated by a gamma distribution (shifted χ²) with the
   same first three cumulants. Features are bounded, but at small t the limits tr Σ, 2 tr Σ², 8 tr Σ³ are too small;
   with centred features ψ, h = ψ₁·ψ₂ for independent samples, and q = (1/t³ + 1/n³)/u² (about 1/t),
       second cumulant  2 tr Σ² + (Var|ψ|² − 2 tr Σ²) q
       third cumulant   8 tr Σ³ + 12 E[(|ψ₁|² − tr Σ) h²] q + 4 E[h³] (1/t − 1/n)²/u
   up to terms of order 1/t² (negative corrections are left out). All moments are estimated only on the reference.
2. The largest T over all checks matters. A quadratic form of an Ornstein–Uhlenbeck process is approximated by the
   Cox–Ingersoll–Ross process with the same χ² distribution with r degrees of freedom, dX = (r − X) ds + 2√X dW on the
   clock s = log u. It exceeds c within the length L with probability 1 − F(c)² exp(−L/m), where F is the χ²
   distribution function, f its density, and m = ∫₀ᶜ F(y)²/(2 y f(y)) dy is the mean time until c from the stationary
   distribution, the time being nearly exponential for large c. The square instead of F(c) is for starts close below
   c: by simulation (1, 4 and 16 degrees of freedom, L = 0.3, 1 and 5, tails of 2% to 0.05%) F(c) gives as little as
   0.7 times the true probability, its square 0.97 to 1.13 times, up to the error of the simulation.

How it was tested: experiments/honesty/monitor.md. The true tail of one check is 0.8 to 1.1 times the nominal 5%, 0.6 to
1.4 times 1% and at most 2.5 times 0.1% (four distributions, 10, 30 and 100 samples against 750).
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from mallow.engine import single_threaded_blas
from mallow.estimate import Codebook, Features
from mallow.evidence._sequential_views import GRID, Sums, ViewsOfSpaces, fit_views_of_spaces
from mallow.theory import Array

LEAST = 1e-4  # the smallest reported p-value. The tails were not checked further out
START = 10  # units of the model at the first check; chosen: the tails hold from 5 on
_MOMENT_ROWS = 400  # chosen: pairs and triples of this many reference samples give the moments, in milliseconds
_POINTS = 200  # of the integral; chosen: exact to four digits
_TINY = 1e-300

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MeanTest:
    """A test of whether the mean of features equals the mean of the reference, for one check or for all.

    Attributes
    ----------
    mean : array (k,)
        The mean of the reference.
    units : float
        The number of independent samples with the same error as `mean`.
    total, square, cube : float
        tr Σ, tr Σ² and tr Σ³.
    of_norms, of_norm_pairs, of_pairs : float
        Var|ψ|², E[(|ψ₁|² − tr Σ) h²] and E[h³].
    """

    mean: Array
    units: float
    total: float
    square: float
    cube: float
    of_norms: float
    of_norm_pairs: float
    of_pairs: float

    @property
    def silent(self) -> bool:
        """Whether the features do not vary in the reference, so that no test is possible."""
        return self.square <= 0

    @property
    def freedom(self) -> float:
        """The degrees of freedom r for infinitely many samples of the model."""
        second, third = self.cumulants(math.inf)
        return 8 * second**3 / third**2

    def cumulants(self, units: float) -> tuple[float, float]:
        """The second and the third cumulant of T when the model has this many units."""
        t, n = 1 / units, 1 / self.units
        u = t + n
        q = (t**3 + n**3) / u**2
        second = 2 * self.square + max(self.of_norms - 2 * self.square, 0.0) * q
        third = 8 * self.cube + 12 * max(self.of_norm_pairs, 0.0) * q + 4 * max(self.of_pairs, 0.0) * (t - n) ** 2 / u
        return second, third

    def tail(self, mean: Array, square_length: float, units: float) -> float:
        """The p-value of one check, from the means of the features and of their squared lengths over `units` units."""
        if self.silent:
            return 1.0
        second, third = self.cumulants(units)
        freedom = 8 * second**3 / third**2
        total = _total_variance(mean, square_length, units)
        # In a small reference a low mean and a low variance go together, so allow for the variance of the model.
        excess = max((total - self.total) * units / ((units + self.units) * self.total), 0.0)
        statistic = float(((mean - self.mean) ** 2).sum()) / ((1 / units + 1 / self.units) * (1 + excess))
        chi = freedom + math.sqrt(2 * freedom / second) * (statistic - self.total)
        return float(special.chdtrc(freedom, max(chi, 0.0)))

    def p_value(self, tail: float) -> float:
        """The p-value of any number of checks, at ten units or more, if this is their smallest tail."""
        if self.silent or tail >= 1:
            return 1.0
        level = float(special.chdtri(self.freedom, max(tail, _TINY)))
        return crossing_probability(level, self.freedom, math.log1p(self.units / START))


def crossing_probability(level: float, freedom: float, length: float) -> float:
    """The probability that the stationary process dX = (r − X) ds + 2√X dW exceeds `level` within `length`.

    Its values have a χ² distribution. This is valid for lengths from 0.3 on; towards 0 it approaches twice the
    probability at a single moment.

    Examples
    --------
    >>> crossing_probability(9.0, 1.0, 1.0), crossing_probability(9.0, 1.0, 5.0)  # three standard deviations
    (0.0173, 0.0636)
    """
    if level <= 0:
        return 1.0
    low = min(float(special.chdtri(freedom, 1 - 1e-9)), level / 2)  # the integrand is at most of the order of F
    y = np.linspace(low, level, _POINTS + 1)
    half = freedom / 2
    log_density = (half - 1) * np.log(y) - y / 2 - half * math.log(2) - special.gammaln(half)
    log_integrand = 2 * np.log(special.chdtr(freedom, y)) - np.log(2 * y) - log_density
    # It grows like eʸᐟ², so its logarithm is nearly linear between two points, and logarithms cannot overflow.
    rise = np.diff(log_integrand)
    rises = np.abs(rise) > 1e-6
    safe = np.where(rises, rise, 1.0)
    parts = log_integrand[:-1] + np.log(np.where(rises, np.expm1(safe) / safe, 1.0))
    largest = float(parts.max())
    log_time = largest + math.log(float(np.exp(parts - largest).sum()) * (y[1] - y[0]))
    once = float(special.chdtrc(freedom, level))
    return -math.expm1(2 * math.log1p(-once) - length * math.exp(-log_time)) if once < 1 else 1.0


def fit_mean_test(features: Array, mean: Array, square_length: float, units: float) -> MeanTest:
    """The test against a reference with this mean of the features, over `units` units.

    Parameters
    ----------
    features : array (m, k)
        Features of some samples of the reference, all from different units, in random order. The first 400 are used.
    square_length : float
        The mean of |features|² over the whole reference.
    """
    centred = features[:_MOMENT_ROWS] - mean
    count = len(centred)
    total = _total_variance(mean, square_length, units)
    if count < 3 or total <= 1e-12:
        return MeanTest(mean, units, total, *[0.0] * 5)
    with single_threaded_blas():
        products = centred @ centred.T
        triples = products - np.diag(products.diagonal())
        triples = (triples @ triples) * triples
    norms = products.diagonal().copy()
    np.fill_diagonal(products, 0.0)
    pairs = count * (count - 1)
    squares = products**2
    square = float(squares.sum()) / pairs
    cube = float(triples.sum()) / (pairs * (count - 2))
    # For any covariance (tr Σ²)² ≤ tr Σ tr Σ³ and tr Σ³ ≤ (tr Σ²)^1.5.
    return MeanTest(
        mean,
        units,
        total,
        square,
        float(np.clip(cube, square**2 / total, max(square**1.5, square**2 / total))),
        float(norms.var()),
        float(norms @ squares.sum(axis=1)) / pairs - total * square,
        float((squares * products).sum()) / pairs,
    )


def _total_variance(mean: Array, square_length: float, units: float) -> float:
    """tr Σ, unbiased."""
    return max(square_length - float(mean @ mean), 0.0) * units / max(units - 1, 1.0)


@dataclass(eq=False)
class Looks:
    """The sums over the samples of a model, and the results of the checks.

    Attributes
    ----------
    sums : list of int64 arrays
        The sums of each view, and the counts of the bins.
    squares : list of int
        The sums of the squared lengths of each view.
    rows, left_out : int
        The number of samples in the sums, and of samples left out because their units fitted the views.
    missing : frozenset of str
        Spaces that some of the samples in the sums lack. Their views then have no result.
    size_squares : int
        The sum of the squared sizes of units.
    sizes : dict
        The number of samples of each named unit.
    tails : list of float
        The smallest p-value of a single check, for each view.
    """

    sums: list[Sums]
    squares: list[int]
    rows: int
    left_out: int
    size_squares: int
    sizes: dict[int, int]
    tails: list[float]
    missing: frozenset[str] = frozenset()

    @property
    def units(self) -> float:
        """The equivalent number of independent samples if all samples of a unit were the same."""
        return self.rows**2 / self.size_squares if self.rows else 0.0

    def copy(self) -> Looks:
        """An independent copy."""
        return replace(self, sizes=dict(self.sizes), tails=list(self.tails))


@dataclass(frozen=True, eq=False)
class SequentialTest:
    """A test of whether a model's samples come from the distribution of the reference, valid over all checks together.

    It tests the three views of `FeatureViews` in each space, and the bins of a codebook, so there are four views with
    one space. P-values are multiplied by the number of views.

    Samples of the same unit count as if they were equal, the largest possible correlation: with sizes g of the units, t
    samples are worth t²/Σg². A unit may come back in later batches. Units that are also in the reference make the test
    conservative. Units that fitted the views are left out.
    """

    views: ViewsOfSpaces
    codebook: Codebook
    weights: Array  # (bins,): each sample counts this much in its bin
    tests: tuple[MeanTest, ...]
    fitted: frozenset[int]

    def start(self) -> Looks:
        """No samples yet."""
        sums = [np.zeros(len(test.mean), np.int64) for test in self.tests]
        return Looks(sums, [0] * len(self.views.names), 0, 0, 0, {}, [1.0] * len(self.tests))

    def update(
        self,
        looks: Looks,
        rows: Features,
        counts: Sums,
        names: Sequence[str] | None = None,
        *,
        missing: Iterable[str] = (),
    ) -> None:
        """Add samples and their `counts` in the bins, and check. `names` are the names of units; None: each is one.

        The samples lack the `missing` spaces, whose views have no result from now on.
        """
        if names is not None:
            keys = [_name_key(name) for name in names]
            kept = [number for number, key in enumerate(keys) if key not in self.fitted]
            if len(kept) < len(keys):
                looks.left_out += len(keys) - len(kept)
                rows, keys = rows[kept], [keys[number] for number in kept]
                counts = self.codebook.count(self.views.features(rows)) if kept else counts
            if not kept:
                return
        sums, squares = self.views.totals(rows)
        _add(looks, [*sums, counts], squares, len(rows))
        looks.missing |= set(missing)
        if names is None:
            looks.size_squares += len(rows)
        else:
            _add_sizes(looks, Counter(keys))
        self._look(looks)

    def merge(self, looks: Looks, other: Looks) -> None:
        """Add the samples of other looks, without a check and without the results of the other checks."""
        _add(looks, other.sums, other.squares, other.rows)
        looks.left_out += other.left_out
        looks.missing |= other.missing
        looks.size_squares += other.size_squares - sum(size**2 for size in other.sizes.values())
        _add_sizes(looks, other.sizes)

    def p_values(self, looks: Looks) -> dict[str, float]:
        """Check, and return for each view the p-value of all checks so far, multiplied by the number of views."""
        self._look(looks)
        corrected = [len(self.tests) * test.p_value(tail) for test, tail in zip(self.tests, looks.tails, strict=True)]
        return {name: float(np.clip(value, LEAST, 1.0)) for name, value in zip(self.names, corrected, strict=True)}

    @property
    def names(self) -> tuple[str, ...]:
        """The tests of the views and the bins."""
        return (*self.views.names, "bins")

    def _look(self, looks: Looks) -> None:
        if looks.units < START:
            return
        means = self._means(looks.sums, looks.squares, looks.rows)
        for number, (name, test, (mean, square)) in enumerate(zip(self.names, self.tests, means, strict=True)):
            if name.rpartition(": ")[0] in looks.missing:
                continue
            looks.tails[number] = min(looks.tails[number], test.tail(mean, square, looks.units))

    def _means(self, sums: Sequence[Sums], squares: Sequence[int], rows: int) -> list[tuple[Array, float]]:
        """The means of the features of each view and of their squared lengths."""
        *of_views, counts = sums
        means = [
            (mean / (GRID * rows), square / (GRID**2 * rows)) for mean, square in zip(of_views, squares, strict=True)
        ]
        return [*means, (self.weights * counts / rows, float(self.weights**2 @ counts) / rows)]


def fit_sequential_test(
    codebook: Codebook,
    fitting: Features,
    counted: Features,
    units: Indices,
    fitted: Iterable[str] = (),
    *,
    widths: Mapping[str, int] | None = None,
) -> SequentialTest:
    """The test with views fixed by the `fitting` rows of the reference, and means over the `counted` rows.

    Parameters
    ----------
    codebook : Codebook
        The bins, fitted on `fitting` or on other data, never on `counted`.
    fitting, counted : arrays (·, d)
        Rows in random order that share no unit.
    units : int array
        The unit of each counted row.
    fitted : names
        Names of the units of `fitting`.
    widths : mapping or None
        The number of columns of each space, by name. The features, called "", come first. None: all are features.
    """
    views = fit_views_of_spaces(fitting, widths or {"": fitting.shape[1]})
    bins, size = len(codebook.centres), len(counted)
    # Rare bins count more, as in Pearson's statistic, but at most twice as much as a bin of average mass.
    weights = (bins * codebook.count(views.features(fitting)) / len(fitting) + 1.0) ** -0.5
    worth = size**2 / float((np.bincount(units) ** 2).sum())
    some = counted[np.sort(np.unique(units, return_index=True)[1])[:_MOMENT_ROWS]]  # one row from each of several units
    labels, counts = codebook.labels(views.features(some)), codebook.count(views.features(counted))
    features = [*views.values(some), weights[labels, None] * (labels[:, None] == np.arange(bins))]
    sums, squares = views.totals(counted)
    empty = SequentialTest(views, codebook, weights, (), frozenset(map(_name_key, fitted)))
    means = empty._means([*sums, counts], squares, size)
    tests = [fit_mean_test(values, *mean, worth) for values, mean in zip(features, means, strict=True)]
    return replace(empty, tests=tuple(tests))


def _add(looks: Looks, sums: Sequence[Sums], squares: Sequence[int], rows: int) -> None:
    looks.sums = [old + more for old, more in zip(looks.sums, sums, strict=True)]
    looks.squares = [old + more for old, more in zip(looks.squares, squares, strict=True)]
    looks.rows += rows


def _name_key(name: str) -> int:
    """A short number for the name of a unit. There may be many of them."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def _add_sizes(looks: Looks, sizes: Mapping[int, int]) -> None:
    for key, more in sizes.items():
        before = looks.sizes.get(key, 0)
        looks.sizes[key] = before + more
        looks.size_squares += (before + more) ** 2 - before**2
