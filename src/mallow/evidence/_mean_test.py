"""The test of one mean of features, however often it is looked at.

Let x̄ be the mean of some features over n units of the reference, and ȳ that over the first t units of a model. If
both come from one distribution with covariance Σ, ȳ − x̄ is for large samples a Brownian motion with covariance uΣ at
the time u = 1/t + 1/n, which runs backwards and never passes 1/n: what all looks share, the noise of the reference,
is the end of the clock. So T = |ȳ − x̄|²/u is a stationary process of log u, and looking from t₀ on, as often as one
likes and for ever, is to watch it over the length log(1 + n/t₀). Two steps make this a p-value:

1. At one look, T is a quadratic form: its distribution is approximated by a gamma distribution (shifted χ²) with the
   same first three cumulants. Features are bounded, but at small t the limits tr Σ, 2 tr Σ², 8 tr Σ³ are too small;
   with centred features ψ, h = ψ₁·ψ₂ for independent samples, and q = (1/t³ + 1/n³)/u² (about 1/t),
       second cumulant  2 tr Σ² + (Var|ψ|² − 2 tr Σ²) q
       third cumulant   8 tr Σ³ + 12 E[(|ψ₁|² − tr Σ) h²] q + 4 E[h³] (1/t − 1/n)²/u
   up to terms of order 1/t² (negative corrections are left out). All moments are estimated on the reference alone.
2. The largest T over all looks. A quadratic form of an Ornstein–Uhlenbeck process is approximated by the
   Cox–Ingersoll–Ross process with the same χ² distribution with r degrees of freedom, dX = (r − X) ds + 2√X dW on the
   clock s = log u. It exceeds c within the length L with probability 1 − F(c)² exp(−L/m), where F is the χ²
   distribution function, f its density, and m = ∫₀ᶜ F(y)²/(2 y f(y)) dy is the mean time until c from the stationary
   distribution, the time being nearly exponential for large c. The square instead of F(c) is for starts close below
   c: by simulation (1, 4 and 16 degrees of freedom, L = 0.3, 1 and 5, tails of 2 % to 0.05 %) F(c) gives as little as
   0.7 times the true probability, its square 0.97 to 1.13 times, up to the error of the simulation.

How it was tested: experiments/honesty/monitor.md. A tail of one look is 0.8 to 1.1 times what it says at 5 %, 0.6 to
1.4 times at 1 % and at most 2.5 times at 0.1 % (four distributions, 10, 30 and 100 samples against 750).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from mallow.engine import single_threaded_blas
from mallow.theory import Array

START = 10  # units of the model at the first look; chosen: the tails hold from 5 on
MOMENT_ROWS = 400  # chosen: pairs and triples of so many reference samples give the moments, in milliseconds
_POINTS = 200  # of the integral; chosen: exact to four digits
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class MeanTest:
    """Whether the mean of features is that of the reference, for one look or for all.

    Attributes
    ----------
    mean : array (k,)
        Of the reference.
    units : float
        How many independent samples `mean` is worth.
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
        """Whether the features do not vary in the reference, so that nothing can be said."""
        return self.square <= 0

    @property
    def freedom(self) -> float:
        """The degrees of freedom r for infinitely many samples of the model."""
        second, third = self.cumulants(math.inf)
        return 8 * second**3 / third**2

    def cumulants(self, units: float) -> tuple[float, float]:
        """The second and the third cumulant of T when the model has so many units."""
        t, n = 1 / units, 1 / self.units
        u = t + n
        q = (t**3 + n**3) / u**2
        second = 2 * self.square + max(self.of_norms - 2 * self.square, 0.0) * q
        third = 8 * self.cube + 12 * max(self.of_norm_pairs, 0.0) * q + 4 * max(self.of_pairs, 0.0) * (t - n) ** 2 / u
        return second, third

    def tail(self, mean: Array, square_length: float, units: float) -> float:
        """The p-value of one look, at the means of the features and of their squared lengths over `units` units."""
        if self.silent:
            return 1.0
        second, third = self.cumulants(units)
        freedom = 8 * second**3 / third**2
        total = _total_variance(mean, square_length, units)
        # In a small reference a low mean and a low variance go together: allow for the variance that the model shows.
        excess = max((total - self.total) * units / ((units + self.units) * self.total), 0.0)
        statistic = float(((mean - self.mean) ** 2).sum()) / ((1 / units + 1 / self.units) * (1 + excess))
        chi = freedom + math.sqrt(2 * freedom / second) * (statistic - self.total)
        return float(special.chdtrc(freedom, max(chi, 0.0)))

    def p_value(self, tail: float) -> float:
        """The p-value of any number of looks, at ten units or more, if the least tail of them is this."""
        if self.silent or tail >= 1:
            return 1.0
        level = float(special.chdtri(self.freedom, max(tail, _TINY)))
        return crossing_probability(level, self.freedom, math.log1p(self.units / START))


def crossing_probability(level: float, freedom: float, length: float) -> float:
    """The probability that a stationary process of χ² values, dX = (r − X) ds + 2√X dW, exceeds `level` within
    `length`.

    For lengths from 0.3 on; towards 0 it approaches twice the probability at a single moment.

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
    # It grows like eʸᐟ²: exact where its logarithm is linear between two points, and in logarithms it cannot overflow.
    rise = np.diff(log_integrand)
    rises = np.abs(rise) > 1e-6
    safe = np.where(rises, rise, 1.0)
    parts = log_integrand[:-1] + np.log(np.where(rises, np.expm1(safe) / safe, 1.0))
    largest = float(parts.max())
    log_time = largest + math.log(float(np.exp(parts - largest).sum()) * (y[1] - y[0]))
    once = float(special.chdtrc(freedom, level))
    return -math.expm1(2 * math.log1p(-once) - length * math.exp(-log_time)) if once < 1 else 1.0


def fit_mean_test(features: Array, mean: Array, square_length: float, units: float) -> MeanTest:
    """The test against a reference whose features have this mean, over `units` units.

    Parameters
    ----------
    features : array (m, k)
        Of some samples of the reference, all of different units, in random order; the first 400 are used.
    square_length : float
        The mean of |features|² over the whole reference.
    """
    centred = features[:MOMENT_ROWS] - mean
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
