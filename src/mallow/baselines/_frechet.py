"""The Fréchet distance of two samples of features (FID, if the features come from an Inception network)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mallow._checks import whole
from mallow.baselines._points import ROWS, Doubles, check_chunk, check_sample, thread_count
from mallow.engine import ordered_map, single_threaded_blas
from mallow.errors import Caveat, InputError, WithCaveats, warns
from mallow.estimate import Features


@dataclass(frozen=True, eq=False)
class Moments:
    """Size, mean and scatter of a sample: all that the Fréchet distance needs. The moments of parts can be merged.

    Attributes
    ----------
    n : int
        The number of samples.
    mean : float64 array (d,)
    scatter : float64 array (d, d)
        Σ (x − mean)(x − mean)ᵀ over the sample.
    embedder : str or None
        What made the features, if it is known: distances between features of two embedders are refused.

    Examples
    --------
    >>> points = np.arange(12.0).reshape(6, 2) ** 2
    >>> streamed = Moments.of(points[:4]).merge(Moments.of(points[4:]))
    >>> bool(np.allclose(streamed.covariance, np.cov(points.T)))
    True
    """

    n: int
    mean: Doubles
    scatter: Doubles
    embedder: str | None = None

    def __post_init__(self) -> None:
        whole("n", self.n, least=1)
        if self.mean.ndim != 1 or self.scatter.shape != (len(self.mean), len(self.mean)):
            raise InputError(
                f"`mean` and `scatter` must have shapes (d,) and (d, d); got {self.mean.shape} and {self.scatter.shape}."
            )
        if not (np.isfinite(self.mean).all() and np.isfinite(self.scatter).all()):
            raise InputError("`mean` and `scatter` must be finite; got NaN or infinite entries.")

    @classmethod
    def of(cls, points: Any) -> Moments:
        """The moments of points (n, d); a single row is allowed, since it may be the last part of a stream."""
        return _moments(check_chunk(points))

    def merge(self, other: Moments) -> Moments:
        """The moments of the two samples taken together."""
        if len(self.mean) != len(other.mean):
            raise InputError(
                f"`other` must have features of the same width, {len(self.mean)}; got {len(other.mean)}. "
                "Were they embedded by the same model?"
            )
        n, shift = self.n + other.n, other.mean - self.mean
        scatter = self.scatter + other.scatter + (self.n * other.n / n) * np.outer(shift, shift)
        embedder = self.embedder if self.embedder == other.embedder else None
        return Moments(n, self.mean + (other.n / n) * shift, scatter, embedder)

    @property
    def covariance(self) -> Doubles:
        """The unbiased covariance (d, d), divided by n − 1."""
        if self.n < 2:
            raise InputError(f"A covariance needs at least 2 samples; got {self.n}.")
        return self.scatter / (self.n - 1)


@warns
def frechet_distance(reference: Any, model: Any) -> WithCaveats[float]:
    """The Fréchet distance ‖μ − μ′‖² + tr(Σ + Σ′ − 2(ΣΣ′)^½) of the Gaussians with the moments of both samples.

    This is the *square* of their 2-Wasserstein distance, as usual (paper: optimal transport, Fréchet; Heusel et al.
    2017), with the unbiased covariances. 0 = the same mean and covariance; there is no upper limit, and the distance
    grows with the square of the unit of the features.

    tr (ΣΣ′)^½ is computed as the sum of the singular values of A A′ᵀ, where Σ = AᵀA. It is therefore a real number for
    every sample, whereas the matrix root of the product may be complex or may fail; and with fewer samples than features
    the root A is the centred sample itself, so that no d × d matrix is needed. Where all columns vary, the result equals
    that of ``scipy.linalg.sqrtm`` (real part) up to rounding. Features without variance enter through the means only: two
    constant samples have the distance ‖μ − μ′‖².

    Known failure: the distance of two samples is larger than that of their distributions, and the more so the fewer
    samples there are. With no more samples than features, an `EstimateWarning` says so. Only compare distances of samples
    of the same size.

    Parameters
    ----------
    reference, model : array (n, d) or Moments
        At least 2 samples each.

    Examples
    --------
    >>> x, y = np.array([[0.0], [2.0], [4.0]]), np.array([[1.0], [2.0], [3.0]])  # means 2 and 2, deviations 2 and 1
    >>> frechet_distance(x, y)
    1.0
    """
    x, y = _sample_or_moments("reference", reference), _sample_or_moments("model", model)
    caveats = _check_sizes(x, y)
    with single_threaded_blas():  # the same bits on any number of processors
        mean_x, root_x = _mean_and_root(x)
        mean_y, root_y = _mean_and_root(y)
        shared = np.linalg.svd(root_x @ root_y.T, compute_uv=False)
    spread = float((root_x**2).sum()) + float((root_y**2).sum())
    distance = float(((mean_x - mean_y) ** 2).sum()) + spread - 2.0 * float(shared.sum())
    return WithCaveats(max(distance, 0.0), caveats)


def _sample_or_moments(name: str, sample: Any) -> Moments | Features:
    return sample if isinstance(sample, Moments) else check_sample(name, sample)


def _check_sizes(x: Moments | Features, y: Moments | Features) -> tuple[Caveat, ...]:
    """Refuse samples that are too small or of different widths; a caveat if they are few for their width."""
    sizes = [side.n if isinstance(side, Moments) else len(side) for side in (x, y)]
    widths = [len(side.mean) if isinstance(side, Moments) else side.shape[1] for side in (x, y)]
    for name, size in zip(("reference", "model"), sizes, strict=True):
        if size < 2:
            raise InputError(f"`{name}` must hold at least 2 samples; got {size}. Aim for 1,000 or more.")
    if widths[0] != widths[1]:
        raise InputError(
            f"`reference` and `model` must have features of the same width; got {widths[0]} and {widths[1]}. "
            "Were they embedded by the same model?"
        )
    if min(sizes) > widths[0]:
        return ()
    text = (
        f"{min(sizes)} samples of {widths[0]} features have a singular covariance: the Fréchet distance is much larger than "
        "that of the distributions. Only compare samples of the same size, or use more samples."
    )
    return (Caveat("singular covariance", text, values={"samples": min(sizes), "width": widths[0]}),)


def _mean_and_root(sample: Moments | Features) -> tuple[Doubles, Doubles]:
    """The mean (d,) and a root A (r, d) of the covariance AᵀA, with r = min(n, d)."""
    if not isinstance(sample, Moments):
        if len(sample) < sample.shape[1]:
            mean = sample.mean(axis=0, dtype=np.float64)
            centred = sample - mean
            return mean, centred / math.sqrt(len(sample) - 1)
        sample = _moments(sample)
    values, vectors = np.linalg.eigh(sample.covariance)
    values[: max(0, len(values) - sample.n + 1)] = 0.0  # n points span n − 1 axes; the rest is rounding
    return sample.mean, np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T


def _moments(points: Features) -> Moments:
    """In float64 for features of any type: a root doubles the digits that an inexact covariance loses."""
    mean = points.mean(axis=0, dtype=np.float64)

    def block_sums(start: int) -> tuple[Doubles, Doubles]:
        centred = points[start : start + ROWS] - mean
        return centred.sum(axis=0), centred.T @ centred

    rest, scatter = np.zeros_like(mean), np.zeros((len(mean), len(mean)))
    with single_threaded_blas():
        for total, product in ordered_map(block_sums, range(0, len(points), ROWS), thread_count(), ahead=1):
            rest += total
            scatter += product
    scatter -= np.outer(rest, rest) / len(points)  # corrects for the rounding of the mean
    return Moments(len(points), mean + rest / len(points), scatter)
