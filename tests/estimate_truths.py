"""Pairs of distributions whose frontiers are known by quadrature, samples from them, and points in clusters."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from pytest import approx

from mallow import Masses, area, integral

Component = tuple[float, tuple[float, ...], float]  # weight, mean, standard deviation


@dataclass(frozen=True)
class Mixture:
    """A mixture of round Gaussians."""

    components: tuple[Component, ...]

    @property
    def dimension(self) -> int:
        return len(self.components[0][1])

    def density(self, points):  # (..., d) -> (...)
        total = 0.0
        for weight, mean, spread in self.components:
            squared = ((points - np.array(mean)) ** 2).sum(axis=-1) / spread**2
            total = total + weight * np.exp(-squared / 2) / (2 * np.pi * spread**2) ** (len(mean) / 2)
        return total

    def draw(self, n, rng):
        weights, means, spreads = (np.array(column) for column in zip(*self.components, strict=True))
        which = rng.choice(len(weights), size=n, p=weights)
        return means[which] + spreads[which, None] * rng.normal(size=(n, self.dimension))


@dataclass(frozen=True)
class Pair:
    """P, Q, and their frontier on a fine grid; `extra` features of pure noise only make it harder to estimate."""

    p: Mixture
    q: Mixture
    extra: int = 0

    @cached_property
    def truth(self) -> Masses:
        d = self.p.dimension
        side = np.linspace(-11, 11, {1: 4001, 2: 201}[d])
        grid = np.stack(np.meshgrid(*[side] * d, indexing="ij"), axis=-1)
        p, q = (side.density(grid).ravel() for side in (self.p, self.q))
        return Masses.from_histograms(p / p.sum(), q / q.sum())

    def draw(self, n, m, rng):
        samples = [side.draw(size, rng) for side, size in ((self.p, n), (self.q, m))]
        return [np.concatenate([rows, rng.normal(size=(len(rows), self.extra))], axis=1) for rows in samples]


def normal(*mean: float, spread: float = 1.0) -> Mixture:
    return Mixture(((1.0, mean, spread),))


def tilted(mixture: Mixture, *slope: float) -> Mixture:
    """The mixture times exp(slope · x), normalised: the log-ratio is linear, but the distributions are not Gaussian."""
    slope = np.array(slope)
    parts = []
    for weight, mean, spread in mixture.components:
        mean = np.array(mean)
        grown = weight * np.exp(slope @ mean + spread**2 * (slope @ slope) / 2)
        parts.append((grown, tuple(mean + spread**2 * slope), spread))
    total = sum(weight for weight, _, _ in parts)
    return Mixture(tuple((float(weight / total), mean, spread) for weight, mean, spread in parts))


TWO_HUMPS = Mixture(((0.5, (-1.5,), 0.6), (0.5, (1.5,), 0.8)))
FOUR_HUMPS = Mixture(tuple((0.25, (x, y), 0.7) for x in (-1.5, 1.5) for y in (-1.0, 1.0)))

SHIFTED = Pair(normal(0.0), normal(1.0))
SHIFTED_WIDER = Pair(normal(0.0, 0.0), normal(0.7, 0.0, spread=1.3))
HUMPS = Pair(TWO_HUMPS, Mixture(((0.3, (-1.0,), 0.8), (0.7, (1.2,), 1.0))))
HUMPS_2D = Pair(FOUR_HUMPS, Mixture(((0.6, (0.0, 0.0), 1.2), (0.4, (1.5, 1.0), 0.9))))
TILTED = Pair(tilted(TWO_HUMPS, 0.8), TWO_HUMPS)
SAME = Pair(normal(0.0, 0.0), normal(0.0, 0.0))


def errors(estimator, pair, n, seeds=3, m=None):
    """Mean absolute errors of area and integral over `seeds` samples of size n."""
    truth = pair.truth
    gaps = []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, n])
        masses = estimator(*pair.draw(n, m or n, rng), rng=seed)
        gaps.append(
            [
                abs(area(masses, scale=estimator.scale) - area(truth, scale=estimator.scale)),
                abs(integral(masses) - integral(truth)),
            ]
        )
    return np.mean(gaps, axis=0)


def gaussian_kl(mean_p, covariance_p, mean_q, covariance_q) -> float:
    """KL(P‖Q) of two Gaussians, in closed form."""
    gap = np.asarray(mean_q) - np.asarray(mean_p)
    inner = np.linalg.solve(covariance_q, covariance_p)
    maha = gap @ np.linalg.solve(covariance_q, gap)
    return float((np.trace(inner) + maha - len(gap) - np.linalg.slogdet(inner)[1]) / 2)


def clustered_points(size: int, width: int, seed: int = 0, dtype: type = np.float32):
    """Points (size, width) around 12 centres, with falling variance."""
    rng = np.random.default_rng(seed)
    std = np.arange(1, width + 1) ** -0.6
    middle = rng.standard_normal((12, width)) * std * 1.5
    return (middle[rng.integers(12, size=size)] + rng.standard_normal((size, width)) * std + 0.7).astype(dtype)


def log_ratios(masses):
    """log r at the points of P, then at those of Q."""
    m = masses.split
    with np.errstate(divide="ignore"):
        return np.concatenate([np.log(masses.p[m:] / masses.q[m:]), np.log(masses.p[:m] / masses.q[:m])])


def assert_same(first, second, tolerance=1e-12):
    """The masses are equal up to rounding."""
    assert first.split == second.split
    assert first.p == approx(second.p, rel=tolerance, abs=1e-300)
    assert first.q == approx(second.q, rel=tolerance, abs=1e-300)


def eight_clusters(n, width=6, shift=0.0, seed=0, dtype=np.float64):
    """A sample (n, width) of a mixture of eight round Gaussians, the same for every seed."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(8, width))
    return (centres[rng.integers(8, size=n)] + 0.7 * rng.normal(size=(n, width)) + shift).astype(dtype)
