"""Features as integers small enough that sums of their products are exact in float32, in any order.

Learning from many samples needs few bits of each sample. With steps of a twentieth of a standard deviation, rounding
adds two ten-thousandths to the variance of a column. Sums are then the same on every machine, in any order and for any
division of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.linalg
from scipy.linalg.blas import ssyrk

from mallow.engine import single_threaded_blas
from mallow.estimate import Features
from mallow.evidence._blocks import Rows, Values
from mallow.evidence._units import Indices, Numbers
from mallow.theory import Array

LEVELS = 127  # the largest integer
ROWS = 1024  # rows whose products sum exactly in float32: 1024 · 127² < 2^24
_REACH = 6.0  # chosen: range of the integers, in standard deviations from the centre; values farther away are clipped
_TAIL = 0.002  # chosen: share of the values on either side that do not count for the standard deviation
_BITS = 8  # bits of a step: processors that differ in the last digit of a standard deviation give the same step
_LEAST = 1.0 / np.finfo(np.float64).max  # a smaller step has no inverse
_ORDINARY = 60  # powers of two within which float32 suffices


@dataclass(frozen=True, eq=False)
class CoarseGrid:
    """The grid of the integers: column j is ``centre[j]`` plus integers times a step.

    Attributes
    ----------
    centre : array (d,)
    one_over_step : array (d,)
        0 for columns that are constant, up to differences below 1e-306.
    """

    centre: Array
    one_over_step: Array

    def integers(self, rows: Features) -> Values:
        """The rows as integers between −127 and 127, in float32."""
        largest = np.abs(np.frexp(self.one_over_step)[1]).max(initial=0)
        dtype = np.float64 if largest > _ORDINARY else np.result_type(np.float32, rows.dtype)
        with np.errstate(over="ignore"):
            values = np.subtract(rows, self.centre.astype(dtype), dtype=dtype)
            values *= self.one_over_step.astype(dtype)
        np.rint(values, out=values)
        np.clip(values, -LEVELS, LEVELS, out=values)
        integers: Values = values.astype(np.float32, copy=False)
        return integers


def find_coarse_grid(sets: Sequence[Rows], sample: Sequence[Indices]) -> CoarseGrid:
    """The grid for all rows of these sets, from a sample of the rows of each."""
    values = np.concatenate([rows.take(chosen) for rows, chosen in zip(sets, sample, strict=True)]).astype(np.float64)
    values.sort(axis=0)
    tail = int(_TAIL * len(values))
    np.clip(values, values[tail], values[len(values) - 1 - tail], out=values)
    exponent = np.frexp(np.maximum(values[-1], -values[0]))[1]
    ordinary = np.ldexp(values, -exponent)  # squares neither overflow nor vanish
    mean, reach = (np.ldexp(scaled, exponent) for scaled in (ordinary.mean(axis=0), _REACH * ordinary.std(axis=0)))
    unseen = np.flatnonzero(values[0] == values[-1])
    if unseen.size:  # constant except in a few rows, so all rows count
        ends = [of_chunk for rows in sets for _, of_chunk in rows.scan(partial(_ends, unseen))]
        low, high = (
            np.min([of_chunk[0] for of_chunk in ends], axis=0),
            np.max([of_chunk[1] for of_chunk in ends], axis=0),
        )
        mean[unseen] = values[0, unseen]
        reach[unseen] = np.maximum(high - mean[unseen], mean[unseen] - low)
    fraction, power = np.frexp(reach / LEVELS)
    step = np.ldexp(np.rint(np.ldexp(fraction, _BITS)), power - _BITS)
    varies = step > _LEAST
    whole_steps = np.rint(np.divide(mean, step, out=np.zeros_like(mean), where=varies))
    one_over_step = np.divide(1.0, step, out=np.zeros_like(step), where=varies)
    return CoarseGrid(np.where(varies, whole_steps * step, mean), one_over_step)


def _ends(columns: Indices, rows: Features) -> Array:
    """The smallest and the largest value of some columns."""
    values = rows[:, columns].astype(np.float64)
    return np.stack([values.min(axis=0), values.max(axis=0)])


class Metric:
    """(C + ridge)⁻¹ of a covariance C, for any ridge."""

    def __init__(self, covariance: Array) -> None:
        self.covariance = covariance
        self._floor = max(float(np.trace(covariance)) / max(len(covariance), 1), np.finfo(float).tiny)

    def root(self, strength: float) -> Array:
        """L with L Lᵀ = C + strength · mean variance, a lower triangle."""
        table = np.asfortranarray(self.covariance.T).copy(order="F")
        table[np.diag_indices(len(table))] += strength * self._floor
        with single_threaded_blas():
            root: Array = scipy.linalg.cho_factor(table, lower=True, overwrite_a=True, check_finite=False)[0]
        return root

    def solve(self, vectors: Array, strength: float) -> Array:
        """The rows of `vectors` (rows, width) times (C + strength · mean variance)⁻¹."""
        if not vectors.size:
            return vectors
        with single_threaded_blas():
            solved: Array = scipy.linalg.cho_solve((self.root(strength), True), vectors.T, check_finite=False).T
        return solved


def add_moments(integers: Values, cell: Numbers, tables: Array, totals: Array) -> None:
    """Add to `tables` (2, d, d) and `totals` (2, d) the products and the sums of rows in even and in odd cells.

    The sums are exact, in any order of the rows, of which there are at most `ROWS`. The upper triangles of the tables
    count.
    """
    even = cell % 2 == 0
    for half, rows in enumerate((integers[even], integers[~even])):
        if rows.size:  # in float32, which takes half the time of float64
            tables[half].T[...] += ssyrk(1.0, rows.T, lower=1)
        totals[half] += rows.sum(axis=0, dtype=np.float64)


class HalfMetrics:
    """The metrics of all rows, of those in even cells, and of those in odd cells.

    A rule that judges a cell uses the metric of the other half, without the cell. With its own unit in the metric,
    similar samples of a pair would look easier to distinguish than they are.
    """

    def __init__(self, tables: Array, totals: Array, cells: Sequence[Numbers]) -> None:
        for table in tables:
            _mirror(table)
        odd = sum(int(np.count_nonzero(cell % 2)) for cell in cells)
        sizes = sum(map(len, cells)) - odd, odd
        self.whole = Metric(_covariance(tables.sum(axis=0), totals.sum(axis=0), sum(sizes)))
        self._halves = [Metric(_covariance(*moments)) for moments in zip(tables, totals, sizes, strict=True)]

    def of(self, half: int | None) -> Metric:
        """The metric of the rows in even cells (0), in odd cells (1), or of all rows (None)."""
        return self.whole if half is None else self._halves[half]

    def solve(self, vectors: Array, strength: float, kept: Array) -> Array:
        """See `Solve`."""
        left_out = len(kept[0]) - kept.sum(axis=1)
        if (left_out != 1).any():  # these rules judge several cells, and only weights are fitted on them
            return self.whole.solve(vectors, strength)
        parity = kept.argmin(axis=1) % 2
        solved = np.empty_like(vectors)
        for half, metric in enumerate(self._halves):
            solved[parity != half] = metric.solve(vectors[parity != half], strength)
        return solved


def _mirror(table: Array) -> None:
    """Copy the upper triangle to the lower one, in parts: no second table."""
    for low in range(0, len(table), ROWS):
        at = slice(low, low + ROWS)
        table[at, :low] = table[:low, at].T
        table[at, at] = np.triu(table[at, at]) + np.triu(table[at, at], 1).T


def _covariance(table: Array, total: Array, size: int) -> Array:
    """The covariance of rows, from their products and their sum."""
    mean, covariance = total / size, table / size
    for low in range(0, len(covariance), ROWS):  # in parts, to avoid a second table
        covariance[low : low + ROWS] -= np.outer(mean[low : low + ROWS], mean)
    return covariance
