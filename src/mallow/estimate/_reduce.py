"""Reduction of both samples to their leading common principal components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.errors import InputError
from mallow.estimate._features import Features, checked_pair
from mallow.estimate._pca import Reduction, pca_joint
from mallow.estimate._row_order import canonical_order


@dataclass(frozen=True)
class Reduce:
    """Joint PCA of the reference and the model sample, optionally after scaling each row to length 1.

    The published pipeline is ``Reduce(variance=0.9, normalise=True)``.

    Parameters
    ----------
    variance : float or None
        Keep the fewest axes that explain this share of the variance, in (0, 1].
    dimension : int or None
        Keep this many axes instead (fewer if the data have fewer); `variance` is then ignored.
    normalise : bool
        Divide each row by its Euclidean norm first.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(2, 50, 8))
    >>> Reduce(dimension=3)(x, y)[0].shape
    (50, 3)
    """

    variance: float | None = 0.9
    dimension: int | None = None
    normalise: bool = True

    def __post_init__(self) -> None:
        if self.dimension is not None:
            whole("dimension", self.dimension, least=1)
        elif self.variance is None:
            raise InputError(
                "`variance` or `dimension` must be a number; both are None. Pass reduce=None to the estimator for no PCA."
            )
        if self.variance is not None and not 0 < self.variance <= 1:
            raise InputError(f"`variance` must be above 0 and at most 1; got {self.variance!r}.")

    def __repr__(self) -> str:
        kept = f"variance={self.variance:g}" if self.dimension is None else f"dimension={self.dimension}"
        return f"Reduce({kept}, normalise={self.normalise})"

    def __call__(self, x: Any, y: Any) -> tuple[Features, Features]:
        """Both samples on their leading common axes: (n, d′) and (m, d′)."""
        x, y = checked_pair(x, y)
        return self.fit(x, y).split(len(x))

    def fit(self, x: Features, y: Features) -> Reduction:
        """The reduction itself, with axes and mean; x and y as `checked_pair` returns them."""
        return pca_joint(
            x,
            y,
            variance=1.0 if self.variance is None else self.variance,
            dimension=self.dimension,
            normalize=self.normalise,
        )


@dataclass(frozen=True, eq=False)
class DistinctPoints:
    """The distinct rows of two samples, reduced, in an order that depends on the rows alone.

    Attributes
    ----------
    points : array (g, d′)
    group : int64 array (n + m,)
        The distinct row of each sample, those of x first.
    counts : int64 array (g,)
        How often each distinct row occurs.
    reduction : Reduction or None
        None where the features were not reduced.
    """

    points: Features
    group: NDArray[np.int64]
    counts: NDArray[np.int64]
    reduction: Reduction | None

    @property
    def precision(self) -> float:
        """How far the reduction may have moved a point, relative to the farthest one: rows were rounded to a grid."""
        if self.reduction is None:
            return 0.0
        farthest = float(np.sqrt(np.square(self.points.astype(np.float64)).sum(axis=1).max()))
        step = 2.0**self.reduction.projection.grid
        return float(np.sqrt(self.reduction.axes.shape[1])) * step / farthest if farthest > 0 else 0.0


def distinct_points(reduce: Reduce | None, x: Features, y: Features) -> DistinctPoints:
    """The distinct rows of x and y, after the reduction if there is one."""
    if reduce is None:
        pooled = canonical_order(x, y)
        points = np.concatenate([x, y])[pooled.distinct]
        return DistinctPoints(points, pooled.group, pooled.counts, None)
    reduction = reduce.fit(x, y)
    return DistinctPoints(reduction.points, reduction.pooled.group, reduction.pooled.counts, reduction)
