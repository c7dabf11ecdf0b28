"""Features in, features out: validation at the door, then joint principal components of both samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.errors import InputError
from mallow.estimate._pca import Reduction, pca_joint

__all__ = ["Reduce", "checked_features", "checked_pair"]

Features = NDArray[np.floating[Any]]

_ROWS = 4096  # looked at together, so that checking needs little memory


@dataclass(frozen=True)
class Reduce:
    """Joint PCA of the reference and the model sample, optionally after scaling each row to length 1.

    The published pipeline is ``Reduce(variance=0.9, normalise=True)``.

    Parameters
    ----------
    variance : float or None
        Keep the fewest axes that explain this share of the variance, in (0, 1].
    dimension : int or None
        Keep this many axes instead (fewer if the data have fewer); `variance` is then not used.
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
            raise InputError("`variance` or `dimension` must be given; got None for both. Use reduce=None for no PCA.")
        if self.variance is not None and not 0 < self.variance <= 1:
            raise InputError(f"`variance` must be above 0 and at most 1; got {self.variance!r}.")

    def __repr__(self) -> str:
        kept = f"variance={self.variance:g}" if self.dimension is None else f"dimension={self.dimension}"
        return f"Reduce({kept}, normalise={self.normalise})"

    def __call__(self, x: Any, y: Any) -> tuple[Features, Features]:
        """Both samples on their leading common axes: (n, d′) and (m, d′)."""
        x, y = checked_pair(x, y)
        found = self.fit(x, y)
        labels = found.pooled.group
        return found.points[labels[: len(x)]], found.points[labels[len(x) :]]

    def fit(self, x: Features, y: Features) -> Reduction:
        """The reduction itself, with axes and mean; x and y as `checked_pair` returns them."""
        return pca_joint(
            x,
            y,
            variance=1.0 if self.variance is None else self.variance,
            dimension=self.dimension,
            normalize=self.normalise,
        )


def checked_pair(x: Any, y: Any) -> tuple[Features, Features]:
    """Two samples of features of the same width, finite, in float32 or float64."""
    x, y = checked_features("reference", x), checked_features("model", y)
    if x.shape[1] != y.shape[1]:
        raise InputError(
            f"`reference` and `model` must have features of the same width; got {x.shape[1]} and {y.shape[1]}. "
            "Were they embedded by the same model?"
        )
    return x, y


def checked_features(name: str, values: Any) -> Features:
    """Features (n, d) of at least two samples; one axis is read as n samples of one feature each."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"`{name}` must be an array of numbers, a row a sample; got dtype {array.dtype}. Texts need an embedder."
        )
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"`{name}` must have two axes, samples and features; got shape {array.shape}.")
    if len(array) < 2:
        raise InputError(f"`{name}` must hold at least 2 samples; got {len(array)}. Aim for 1,000 or more.")
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    elif array.dtype.itemsize < 4:
        array = array.astype(np.float32)
    elif array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    _refuse_gaps(name, array)
    return array


def _refuse_gaps(name: str, array: Features) -> None:
    bad: list[int] = []
    entries = 0
    for start in range(0, len(array), _ROWS):
        finite = np.isfinite(array[start : start + _ROWS])
        if not finite.all():
            entries += int((~finite).sum())
            bad += (start + np.flatnonzero(~finite.all(axis=1))).tolist()
    if bad:
        rows = ", ".join(map(str, bad[:5])) + (", …" if len(bad) > 5 else "")
        raise InputError(
            f"`{name}` must be finite; got {entries} NaN or infinite entries in {len(bad)} of {len(array)} rows "
            f"(rows {rows})."
        )
