"""Masses from a Gaussian fitted to each sample (paper: sec:a:parametric)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from mallow._checks import whole
from mallow.engine import single_threaded_blas
from mallow.errors import InputError
from mallow.estimate._features import Features, estimate_masses
from mallow.estimate._reduce import Reduce
from mallow.estimate._row_order import orient
from mallow.theory import Array, Masses, range_caveats

_FLOOR = 1e-10  # chosen: the variance given to a sample without any, in units of the variance within the samples
_SINGULAR = 1e-12  # chosen: smallest eigenvalue of a regular covariance, in units of the mean eigenvalue
_POINT = 1e-6  # chosen: the spread of two samples that are each one repeated point; any small value separates them


@dataclass(frozen=True, eq=False)
class Fit:
    """Two Gaussians, in coordinates where the covariance shared by both samples is the identity.

    Attributes
    ----------
    means : pair of arrays (d,)
    roots : pair of arrays (d, d)
        Lower triangular Cholesky factors of the covariances.
    flipped : bool
        Whether the first Gaussian belongs to Q, the model.
    """

    means: tuple[Array, Array]
    roots: tuple[Array, Array]
    flipped: bool


@dataclass(frozen=True)
class Gaussian:
    """Estimate masses from a Gaussian fitted to each sample, by Monte Carlo (paper: sec:a:parametric).

    The atoms are draws from both Gaussians, in equal numbers: at a draw with likelihood ratio r, P has mass r/(1 + r)
    and Q has 1/(1 + r), divided by their sums. This estimates the paper's integral (eq:parametric_est_fdiv) from draws
    of (P + Q)/2. The paper draws only from Q for D(P‖·) (eq:parametric_est_fdiv:monte-carlo), which is
    ``pooled=False`` here and misses the few draws that carry the mass of P: N(0, I) against N(1 e₁, 4I) in 50
    dimensions has an area of 0.50; 10,000 draws of Q give 0.73, while draws of both give 0.5007 ± 0.0001.

    Gaussians only describe means and covariances: other differences do not count, and the value is wrong for data that
    are not Gaussian (paper: the example of sec:a:parametric).

    For the same `rng`, the result is exactly symmetric in the samples and does not depend on the order of their rows.

    Parameters
    ----------
    samples : int
        Draws from each Gaussian; half of them are mirror images of the others.
    shrinkage : float or None
        How far, in [0, 1], each covariance is moved towards the one shared by both samples (multiplied by a factor that
        keeps the trace, in coordinates where the shared one is the identity). None: by the formula of Ledoit and Wolf,
        which goes to 0 as the samples grow, unless the covariances agree. The shared covariance itself is moved by the
        same formula towards a multiple of the identity, so that d > n works. 0: the covariances are used unchanged, as
        in the paper. The distance between two fits to the *same* Gaussian then grows like d²/n (frontier integral 0.57
        for n = 500, d = 50; 0.03 with None).
    reduce : Reduce or None
        Reduction first. The paper finds that 5 or 10 axes work best and that 100 are much worse. None: no reduction.
    pooled : bool
        True: both costs are averaged over the draws from both Gaussians. False, as published: D(P‖·) is averaged over
        the draws from the Gaussian of Q alone, and D(Q‖·) over those of P, so that a few draws with a large ratio can
        carry a cost out of its range. The published form also has ``shrinkage=0``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(500, 2)), rng.normal(1.0, 1.0, size=(500, 2))
    >>> float(Gaussian(reduce=None)(x, y).p.sum().round(9))
    1.0
    """

    samples: int = 10_000
    shrinkage: float | None = None
    reduce: Reduce | None = field(default_factory=lambda: Reduce(dimension=10))
    pooled: bool = True

    scale: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        whole("samples", self.samples, least=2)
        number = isinstance(self.shrinkage, (int, float, np.integer, np.floating))
        if self.shrinkage is not None and not (number and 0 <= self.shrinkage <= 1):
            raise InputError(
                f"`shrinkage` must be None or a number from 0 (none) to 1 (full); got {self.shrinkage!r}. "
                "None chooses it from the samples."
            )

    def __repr__(self) -> str:
        parts = [f"samples={self.samples}", f"shrinkage={self.shrinkage}", f"reduce={self.reduce}"]
        return f"Gaussian({', '.join(parts if self.pooled else [*parts, 'pooled=False'])})"

    def __call__(self, x: Any, y: Any, *, rng: int | np.random.Generator | None = 0) -> Masses:
        """Masses at draws from both fitted Gaussians."""
        return estimate_masses(self, x, y, rng)

    def prepare(self, x: Features, y: Features) -> Fit:
        """Reduce and fit: everything that needs no randomness."""
        # Without reduction, only a rotation that drops directions without variance. The fit is the same in any
        # rotation.
        lossless = Reduce(variance=1.0, normalise=False)
        samples = orient(*(self.reduce or lossless).fit(x, y).split(len(x)))
        with single_threaded_blas():  # the same bits on any number of processors
            means, roots = self._fit(samples.points[samples.first], samples.points[samples.second])
        return Fit(means, roots, samples.flipped)

    def masses(self, prepared: Fit, rng: int | np.random.Generator | None) -> Masses:
        """Draw once from both Gaussians."""
        from scipy.special import expit

        rng = np.random.default_rng(rng)
        half = rng.standard_normal((-(-self.samples // 2), len(prepared.means[0])))
        draws = np.concatenate([half, -half])[: self.samples]
        with single_threaded_blas():
            log_ratio = _log_ratio_at_draws(prepared, draws)
        if self.pooled:
            first, second = expit(log_ratio), expit(-log_ratio)
            masses = Masses.from_histograms(first / first.sum(), second / second.sum())
        else:
            masses = Masses.from_log_ratio(log_ratio[: self.samples], log_ratio[self.samples :])
            masses = replace(masses, caveats=range_caveats(masses, "Use pooled=True or fewer dimensions."))
        return masses.swap() if prepared.flipped else masses

    def _fit(self, x: Array, y: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        from scipy.linalg import solve_triangular

        means = x.mean(axis=0), y.mean(axis=0)
        rest = x - means[0], y - means[1]
        shared = _shared_root(*rest, automatic=self.shrinkage is None)
        white = [solve_triangular(shared, part.T, lower=True).T for part in rest]  # (n, d), shared covariance I
        roots = self._root(white[0]), self._root(white[1])
        moved = [solve_triangular(shared, mean - means[0], lower=True) for mean in means]
        return (moved[0], moved[1]), roots

    def _root(self, centred: Array) -> Array:
        """The Cholesky factor of the shrunk covariance of a centred sample."""
        n, d = centred.shape
        covariance = centred.T @ centred / (n - 1)
        share = _ledoit_wolf(centred) if self.shrinkage is None else float(self.shrinkage)
        target = float(np.trace(covariance)) / d
        covariance = (1.0 - share) * covariance + share * target * np.eye(d)
        if self.shrinkage is None:
            covariance += _FLOOR * np.eye(d)
        elif np.linalg.eigvalsh(covariance)[0] <= _SINGULAR * max(target, _SINGULAR):
            raise InputError(
                f"The covariance of a sample of {n} points in {d} dimensions is singular with "
                f"shrinkage={self.shrinkage}. "
                "Pass shrinkage=None, fewer dimensions (reduce=Reduce(dimension=…)), or more samples."
            )
        return np.linalg.cholesky(covariance)


def _shared_root(x: Array, y: Array, *, automatic: bool) -> Array:
    """The Cholesky factor of the covariance within both samples, made regular where it is singular."""
    rest = np.concatenate([x, y])
    d = rest.shape[1]
    covariance = rest.T @ rest / max(1, len(rest) - 2)
    size = float(np.trace(covariance)) / d
    if size == 0:  # each sample is one point, repeated
        return _POINT * np.eye(d)
    share = max(_ledoit_wolf(rest) if automatic else 0.0, _FLOOR)
    return np.linalg.cholesky((1.0 - share) * covariance + share * size * np.eye(d))


def _ledoit_wolf(centred: Array) -> float:
    from sklearn.covariance import ledoit_wolf_shrinkage

    return float(ledoit_wolf_shrinkage(centred, assume_centered=True))


def _log_ratio_at_draws(fit: Fit, draws: Array) -> Array:
    """log of the first density over the second, at draws from the first and then at draws from the second."""
    from scipy.linalg import solve_triangular

    half_squares = (draws**2).sum(axis=1) / 2
    volumes = [float(np.log(np.diagonal(root)).sum()) for root in fit.roots]
    log_ratios = []
    for a, b, sign in ((0, 1, 1.0), (1, 0, -1.0)):
        points = fit.means[a] + draws @ fit.roots[a].T
        other = solve_triangular(fit.roots[b], (points - fit.means[b]).T, lower=True)
        # The draw's own density follows from the draw itself.
        log_ratios.append(sign * ((other**2).sum(axis=0) / 2 + volumes[b] - half_squares - volumes[a]))
    return np.concatenate(log_ratios)
