"""The test of identity for many samples: the statistics of `_atoms.py` on small integers, in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy import sparse

from mallow.engine import cores, ordered_map, single_threaded_blas
from mallow.evidence._atoms import FLOOR, STRENGTHS, bin_products, merge_atoms, random_kernel_products
from mallow.evidence._blocks import Rows, Values, at_once
from mallow.evidence._coarse import CoarseGrid, Metric
from mallow.evidence._exchange import Exchange, Flags, find_exchange
from mallow.evidence._identity import Draws, IdentityTest, judge_draws, judge_rows, judge_statistics, number_units
from mallow.evidence._space import PARTITIONS_OF_MANY
from mallow.evidence._units import Indices
from mallow.theory import Array

_ATOMS = 512  # chosen: atoms per product at most; up to 4,096, sums of squares over 16 are exact in float32
_NUMBERS = 2**19  # chosen: numbers of the atoms of a product, since wide rows need memory
_SQUARES = 16.0  # squares are rounded to multiples of this
_CUT_UNITS = 2**12  # chosen: units that take part if they must be cut, since these need separate axes


def run_test_of_many(
    sets: Sequence[Rows],
    rows: Sequence[Indices],
    units: Sequence[Indices],
    grid: CoarseGrid,
    metric: Metric,
    labels: NDArray[np.uint8],
    draws: Draws,
) -> IdentityTest:
    """The test for the rows of the reference and of one system.

    Parameters
    ----------
    sets, rows, units : two each
        The features, the rows that take part, and the unit of each of these rows.
    grid, metric :
        The grid and the metric of all rows.
    labels : array (partitions, rows)
        The bins of these rows, the reference first.
    """
    side_of_row = np.concatenate([np.full(len(of_side), side) for side, of_side in enumerate(rows)])
    row, unit = np.concatenate(list(rows)), np.concatenate(list(units))
    order = np.argsort(unit, kind="stable")
    side_of_row, row, number = side_of_row[order], row[order], number_units(unit[order])

    def read(places: Indices) -> Values:
        values = np.empty((len(places), sets[0].width), np.float32)
        for side, source in enumerate(sets):
            of_side = side_of_row[places] == side
            values[of_side] = grid.integers(source.take(row[places[of_side]]))
        return values

    def test(kept: Flags, cut: bool) -> IdentityTest:
        at, kept_unit = np.flatnonzero(kept), number_units(number[kept])
        if cut:  # axes, bins and metric do not depend on rows that take no part
            at = at[kept_unit < _CUT_UNITS]
            sides = number_units(number[at]), side_of_row[at] == 0
            return judge_rows({"": read(at)}, *sides, draws)
        exchange = find_exchange(kept_unit, side_of_row[at] == 0)
        with single_threaded_blas():
            merged, join = merge_atoms(exchange)
            products = _products(_sum_atoms(exchange, join, lambda low, high: read(at[low:high])), metric)
            for low in range(0, len(labels), PARTITIONS_OF_MANY):
                partitions = labels[low : low + PARTITIONS_OF_MANY, order[at]].astype(np.int64)
                bins = int(partitions.max()) + 1
                products[f"{bins} bins"] = bin_products(partitions, bins, merged)
            products |= random_kernel_products(lambda places: read(at[places]), len(at), merged)
            return judge_statistics(products, merged, draws)

    return judge_draws(number, side_of_row == 0, test)


def _sum_atoms(
    exchange: Exchange, join: sparse.csr_array, read: Callable[[int, int], Values]
) -> tuple[Array, Array, Array]:
    """The part of each merged atom in Δ of values and of squares, (atoms + 1, d), and the spread of the squares."""
    largest = float(np.abs(exchange.atoms.data).max())  # atoms become −1, 0 and 1
    atoms = exchange.atoms[:-1] / largest
    constant = np.asarray(exchange.atoms[[-1]].todense()).ravel() / largest
    joined = join[:, :-1]
    width = read(0, 1).shape[1]
    step = min(_ATOMS, at_once(_NUMBERS, width))

    def task(low: int) -> tuple[Array, Array, Array, Array]:
        some = atoms[low : low + step]
        first, last = int(some.indices.min()), int(some.indices.max()) + 1
        values = read(first, last)
        squares = np.rint(np.square(values) / np.float32(_SQUARES))
        signs = some[:, first:last].astype(np.float32)
        sums, square_sums = signs @ values, signs @ squares
        to = joined[:, low : low + step].astype(np.float32)
        fixed = np.stack([constant[first:last] @ values, constant[first:last] @ squares])
        moments = np.stack(
            [square_sums.sum(axis=0, dtype=np.float64), np.square(square_sums, dtype=np.float64).sum(axis=0)]
        )
        return to @ sums, to @ square_sums, fixed, moments

    totals, moments = np.zeros((2, join.shape[0], width)), np.zeros((2, width))
    for of_values, of_squares, fixed, moments_of_part in ordered_map(
        task, range(0, atoms.shape[0], step), cores(), ahead=1
    ):
        totals[0] += of_values
        totals[1] += of_squares
        totals[:, -1] += fixed
        moments += moments_of_part
    return totals[0], totals[1], moments[1] - moments[0] ** 2 / atoms.shape[0]


def _products(sums: tuple[Array, Array, Array], metric: Metric) -> dict[str, Array]:
    """The products of atoms for means and squares. Metrics come from all rows, so no permutation changes them."""
    means, squares, spread = sums
    products: dict[str, Array] = {}
    floor = FLOOR * float(spread.mean())
    weight = np.where(spread > 0, 1.0 / np.maximum(spread + floor, 1e-300), 0.0)
    products["variances by column"] = (squares * weight) @ squares.T
    total = squares.sum(axis=1)
    products["total variance"] = np.outer(total, total)
    for strength in STRENGTHS:
        white = scipy.linalg.solve_triangular(metric.root(strength), means.T, lower=True, check_finite=False)
        products[f"means, strength {strength:g}"] = white.T @ white
    return products
