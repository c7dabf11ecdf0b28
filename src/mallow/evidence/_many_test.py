"""The test of identity for many samples: the statistics of `_identity.py` on small integers, in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mallow.engine import cores, ordered_map, single_threaded_blas
from mallow.evidence._blocks import Rows, Values, at_once
from mallow.evidence._coarse import CoarseGrid, Metric
from mallow.evidence._exchange import Exchange, draw_exchanges, exchangeable_rows
from mallow.evidence._identity import STRENGTHS, IdentityTest, bin_form, judge_statistics
from mallow.evidence._space import PARTITIONS_OF_MANY
from mallow.evidence._units import Indices
from mallow.theory import Array

_ATOMS = 512  # chosen: atoms per product at most; up to 4,096, sums of squares over 16 are exact in float32
_NUMBERS = 2**19  # chosen: numbers of the atoms of a product, since wide rows need memory
_SQUARES = 16.0  # squares are rounded to multiples of it
_FLOOR = 0.01  # regularisation of squares, in units of their mean variance; as in `_identity.py`


def run_test_of_many(
    sets: Sequence[Rows],
    rows: Sequence[Indices],
    units: Sequence[Indices],
    grid: CoarseGrid,
    metric: Metric,
    labels: NDArray[np.uint8],
    *,
    permutations: int,
    seed: int,
) -> IdentityTest:
    """The test for the rows of the reference and of one system.

    Parameters
    ----------
    sets, rows, units : two each
        The features, the rows that take part, and the unit of each of these.
    grid, metric :
        Of all rows.
    labels : array (partitions, rows)
        The bins of these rows, those of the reference first.
    """
    place = np.concatenate([np.full(len(own), side) for side, own in enumerate(rows)])
    row, unit = np.concatenate(list(rows)), np.concatenate(list(units))
    order = np.argsort(unit, kind="stable")
    kept = order[exchangeable_rows(_number(unit[order]), place[order] == 0)]
    place, row, number = place[kept], row[kept], _number(unit[kept])
    exchange = draw_exchanges(number, place == 0, permutations, np.random.default_rng([seed, 2]))

    def read(low: int, high: int) -> Values:
        values = np.empty((high - low, sets[0].width), np.float32)
        for side, source in enumerate(sets):
            own = place[low:high] == side
            values[own] = grid.integers(source.take(row[low:high][own]))
        return values

    with single_threaded_blas():
        forms = _forms(exchange, *_exchanged_means(exchange, read, sets[0].width), metric)
        if exchange.exact:
            for low in range(0, len(labels), PARTITIONS_OF_MANY):
                partitions = labels[low : low + PARTITIONS_OF_MANY, kept].astype(np.int64)
                bins = int(partitions.max()) + 1
                forms[f"{bins} bins"] = bin_form(partitions, bins, exchange)
    return judge_statistics(forms, exchange)


def _number(unit: Indices) -> Indices:
    """Units numbered from 0 in the order in which they appear; rows of one unit are neighbours."""
    return np.cumsum(np.diff(unit, prepend=-1) != 0) - 1


def _exchanged_means(exchange: Exchange, read: Callable[[int, int], Values], width: int) -> tuple[Array, Array]:
    """Δ of the values and of their squares, (1 + permutations, d) each, for every permutation."""
    atoms, signs = exchange.atoms, exchange.signs
    largest = float(np.abs(atoms.data).max())  # atoms of exchangeable units become −1, 0 and 1
    constant = exchange.constant / largest
    step = min(_ATOMS, at_once(_NUMBERS, width))

    def task(low: int) -> tuple[Values, Values, Array, Array]:
        some = atoms[low : low + step]
        first, last = int(some.indices.min()), int(some.indices.max()) + 1
        values = read(first, last)
        squares = np.square(values)
        squares /= np.float32(_SQUARES)
        np.rint(squares, out=squares)
        own = (some[:, first:last] / largest).astype(np.float32)
        block = signs[:, low : low + step].astype(np.float32)
        fixed = np.stack([constant[first:last] @ values, constant[first:last] @ squares])
        return block @ (own @ values), block @ (own @ squares), fixed, values.sum(axis=0, dtype=np.float64)

    totals = np.zeros((2, len(signs), width))
    fixed, sums = np.zeros((2, width)), np.zeros(width)
    for of_values, of_squares, own, some in ordered_map(task, range(0, atoms.shape[0], step), cores(), ahead=1):
        totals[0] += of_values
        totals[1] += of_squares
        fixed += own
        sums += some
    totals += fixed[:, None]
    if not exchange.exact:  # what changes sign is the deviation from the common mean
        mass = signs @ (np.asarray(atoms.sum(axis=1)).ravel() / largest) + constant.sum()
        totals[0] -= np.outer(mass, sums / atoms.shape[1])
    return totals[0], totals[1]


def _forms(exchange: Exchange, means: Array, squares: Array, metric: Metric) -> dict[str, Array]:
    """The statistics of means and squares. The metric comes from all rows together: no permutation changes them."""
    forms: dict[str, Array] = {}
    if exchange.exact:
        spread = squares.var(axis=0)  # over all permutations, the observed one among them
        floor = _FLOOR * float(spread.mean())
        forms["variances by column"] = squares**2 @ np.where(spread > 0, 1.0 / np.maximum(spread + floor, 1e-300), 0.0)
        forms["total variance"] = squares.sum(axis=1) ** 2
    for strength in STRENGTHS:
        root = metric.root(strength)
        white = scipy.linalg.solve_triangular(root, means.T, lower=True, check_finite=False)
        forms[f"means, strength {strength:g}"] = np.einsum("ij,ij->j", white, white)
    return forms
