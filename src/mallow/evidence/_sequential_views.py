"""The averages of a monitor: bounded functions of a row, fixed once on part of the reference.

A monitor only keeps sums, not samples. To detect a gap in any direction, even one of small variance, rows are put into
coordinates in which the reference has about the same variance everywhere, in the full width of the features:

- "mean" and "fine mean": the row in units of (S + l·tr(S)/d)^½, with S the covariance of the fitting rows. With l = 1
  directions of large variance count most, with l = 0.01 directions of small variance count as much. On decoders of
  GPT-2 (WebText, 384 wide) l = 0.3 to 1 detects with the fewest samples; in Gaussians with a shift along the 100th of
  384 directions l = 0.01 to 0.1 does.
- "spread": how far the row lies from the centre along each principal axis. A model that is too narrow or too wide
  changes these values and hardly the means.

A row longer than nine tenths of the fitting rows is shortened to their length. So no single sample weighs much, and
sums approach a normal distribution after few samples, even with heavy tails. Sums are sums of integers, so they are
exact in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from mallow.engine import single_threaded_blas
from mallow.estimate import Features
from mallow.theory import Array

VIEWS = ("mean", "fine mean", "spread")
GRID = 2.0**20  # steps per unit; values are at most 1, so sums of 2⁴³ rows still fit
_RIDGES = (1.0, 0.01)  # times the mean variance of a feature; chosen, see above
_TILE = 64  # chosen: rows per matrix product; always this many, since a different shape may round a row differently
_ROWS = 4096  # chosen: rows at once, a multiple of `_TILE`
_FITTING_ROWS = 2000  # chosen: the axes of this many rows take less than a second up to a width of 1,024
_RANK = 1e-10  # share of the largest variance; less is rounding error
_STRETCHES = np.exp([-3.0, 3.0])  # chosen: beyond, a row is as far away as can be
_SHORTENED = 0.9  # quantile of the lengths; chosen: 0.5 to 1 detected the same gaps as fast
_LARGEST = 1e100  # in units of the largest fitting value; rows beyond it are clipped, and its square is finite

Sums = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FeatureViews:
    """Bounded functions of a row, fixed by the rows that fitted them; `values` and `totals` apply them.

    Attributes
    ----------
    exponent : int
        Rows are divided by 2**exponent first.
    centre, axes : array (d,), (k, d)
        Mean and principal axes of the fitting rows.
    scales : tuple of arrays
        For each mean, the factors of the k coordinates and, if k < d, of the d entries of the rest.
    spread : array (2, s)
        Mean and standard deviation of the distance along each of the first s axes.
    lengths : array (3,)
        For each view, the length to which longer rows are shortened.
    """

    exponent: int
    centre: Array
    axes: Array
    scales: tuple[Array, ...]
    spread: Array
    lengths: Array

    def values(self, rows: Features) -> list[Array]:
        """The views of each row, (n, ·) each. No row is longer than 1."""
        return [np.concatenate(blocks) / GRID for blocks in zip(*self._blocks(rows), strict=True)]

    def stretches(self, rows: Features) -> Array:
        """How much longer each row is than those that are kept as they are, as a logarithm from −3 to 3, (n, views)."""
        longest = np.where(self.lengths > 0, self.lengths, 1.0)
        lengths = np.stack([np.linalg.norm(values, axis=1) for values in self._raw(rows)], axis=1)
        return np.log(np.clip(lengths / longest, *_STRETCHES))

    def totals(self, rows: Features) -> tuple[list[Sums], list[int]]:
        """The sums of the views over the rows, in units of 1/GRID, and of their squared lengths, in units of 1/GRID².

        The totals of parts add up exactly to the totals of the whole.
        """
        sums = [np.zeros(len(scale), np.int64) for scale in (*self.scales, self.spread[0])]
        squares = [0] * len(VIEWS)
        for views in self._blocks(rows):
            sums = [old + view.sum(axis=0) for old, view in zip(sums, views, strict=True)]
            squares = [old + int((view**2).sum()) for old, view in zip(squares, views, strict=True)]
        return sums, squares

    def _blocks(self, rows: Features) -> Iterator[list[Sums]]:
        """The views of a few thousand rows at a time, in units of 1/GRID."""
        for start in range(0, len(rows), _ROWS):
            views = []
            for values, longest in zip(self._raw(rows[start : start + _ROWS]), self.lengths, strict=True):
                length = np.maximum(np.linalg.norm(values, axis=1, keepdims=True), longest)
                views.append(np.rint(values / np.where(length > 0, length, 1.0) * GRID).astype(np.int64))
            yield views

    def _raw(self, rows: Features) -> tuple[Array, ...]:
        """The views before rows are shortened."""
        with np.errstate(over="ignore"):  # an infinite entry is clipped at once
            scaled = np.ldexp(rows.astype(np.float64), -self.exponent)
        scaled = np.clip(scaled, -_LARGEST, _LARGEST) - self.centre
        count, width = scaled.shape
        tiles = np.zeros((-(-count // _TILE), _TILE, width))
        tiles.reshape(-1, width)[:count] = scaled
        with single_threaded_blas():
            coordinates = np.matmul(tiles, self.axes.T)
            rest = tiles - np.matmul(coordinates, self.axes) if len(self.axes) < width else tiles[..., :0]
        every = np.concatenate([coordinates, rest], axis=-1).reshape(-1, len(self.axes) + rest.shape[-1])[:count]
        mean, deviation = self.spread
        distance = (np.abs(every[:, : len(mean)]) - mean) / deviation
        # An equal change of all widths has as much weight as all other changes together: its variance is √s·√s of 2s.
        distance += (len(mean) ** 0.25 - 1.0) * distance.mean(axis=1, keepdims=True)
        return (*(every * scale for scale in self.scales), distance)


@dataclass(frozen=True, eq=False)
class ViewsOfSpaces:
    """The views of several spaces, whose columns follow one another in a row, with the features first.

    Attributes
    ----------
    widths : dict
        The number of columns of each space, by name. The features are called "".
    parts : tuple of FeatureViews
        The views of each space.
    """

    widths: Mapping[str, int]
    parts: tuple[FeatureViews, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The lengths of all views."""
        return tuple(f"{space}: {view}" if space else view for space in self.widths for view in VIEWS)

    def features(self, rows: Features) -> Features:
        """The columns that fall into bins."""
        return rows[:, : self.widths[""]]

    def values(self, rows: Features) -> list[Array]:
        """See `FeatureViews.values`."""
        return [values for part, part_rows in self._split(rows) for values in part.values(part_rows)]

    def stretches(self, rows: Features) -> Array:
        """See `FeatureViews.stretches`."""
        return np.concatenate([part.stretches(part_rows) for part, part_rows in self._split(rows)], axis=1)

    def totals(self, rows: Features) -> tuple[list[Sums], list[int]]:
        """See `FeatureViews.totals`."""
        sums, squares = zip(*(part.totals(part_rows) for part, part_rows in self._split(rows)), strict=True)
        return list(chain(*sums)), list(chain(*squares))

    def _split(self, rows: Features) -> Iterator[tuple[FeatureViews, Features]]:
        ends = np.cumsum(list(self.widths.values()))[:-1]
        return zip(self.parts, np.split(rows, ends, axis=1), strict=True)


def fit_views_of_spaces(rows: Features, widths: Mapping[str, int]) -> ViewsOfSpaces:
    """The views of several spaces, fixed by a part of the reference."""
    ends = np.cumsum(list(widths.values()))[:-1]
    return ViewsOfSpaces(dict(widths), tuple(map(fit_views, np.split(rows, ends, axis=1))))


def fit_views(rows: Features) -> FeatureViews:
    """The views fixed by a part of the reference (n, d), in random order."""
    rows = rows[:_FITTING_ROWS]
    exponent = int(np.frexp(np.abs(rows).max())[1])
    scaled = np.ldexp(rows.astype(np.float64), -exponent)
    centre = scaled.mean(axis=0)
    with single_threaded_blas():
        variances, axes = _principal_axes(scaled - centre)
    width = rows.shape[1]
    average = float(variances.sum()) / width or 1.0  # 1: all rows are equal
    rest = np.zeros(width if len(axes) < width else 0)
    scales = tuple((np.concatenate([variances, rest]) + ridge * average) ** -0.5 for ridge in _RIDGES)
    # Only a few axes: along the last of many, the rows that fitted them are much nearer to the centre than other rows.
    distance = np.abs((scaled - centre) @ axes[: max(1, len(rows) // 10)].T)
    deviation = distance.std(axis=0)
    spread = np.stack([distance.mean(axis=0), np.where(deviation > 0, deviation, 1.0)])
    views = FeatureViews(exponent, centre, axes, scales, spread, np.zeros(len(VIEWS)))
    lengths = [np.quantile(np.linalg.norm(values, axis=1), _SHORTENED) for values in views._raw(rows)]
    return replace(views, lengths=np.array(lengths))


def _principal_axes(centred: Array) -> tuple[Array, Array]:
    """Variances along the principal axes of rows (n, d) and the axes (k, d), largest first."""
    count, width = centred.shape
    if width <= count:
        variances, vectors = np.linalg.eigh(centred.T @ centred / max(count - 1, 1))
        axes = vectors.T
    else:
        variances, vectors = np.linalg.eigh(centred @ centred.T / max(count - 1, 1))
        axes = vectors.T @ centred
        axes /= np.maximum(np.linalg.norm(axes, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    kept = np.flatnonzero(variances >= _RANK * variances[-1])[::-1]
    return variances[kept], axes[kept]
