"""A one-sided test of several linear statistics at once, by exchanging units between two sides."""

from __future__ import annotations

import numpy as np

from mallow.evidence._blocks import at_once
from mallow.evidence._exchange import draw_exchanges, exchangeable_rows
from mallow.evidence._identity import share_as_large
from mallow.evidence._units import Units
from mallow.theory import Array

_ENTRIES = 1 << 24  # chosen: signs that are drawn at once


def compare_means(
    first: Array, second: Array, units: Units, *, permutations: int, rng: np.random.Generator
) -> tuple[float, bool]:
    """The p-value of "the means of the first side are not larger", and whether it is exact.

    Each column of `first` (n, statistics) and `second` (m, statistics) is one statistic, the difference of the means. It is
    standardised by its own permutations, and the largest is taken, so that the p-value needs no further correction. Exact
    where units of the two sides can be exchanged.
    """
    values = np.concatenate([first, second])
    rank = np.empty(units.count, np.int64)
    rank[np.argsort(units.keys, kind="stable")] = np.arange(units.count)  # whatever the order of the samples
    unit = rank[np.concatenate(units.sets)]
    order = np.argsort(unit, kind="stable")
    unit, is_first = unit[order], order < len(first)
    kept = exchangeable_rows(np.cumsum(np.diff(unit, prepend=-1) != 0) - 1, is_first)
    unit, is_first, values = unit[kept], is_first[kept], values[order][kept] - values.mean(axis=0)
    unit = np.cumsum(np.diff(unit, prepend=-1) != 0) - 1
    step = at_once(_ENTRIES, len(unit))
    parts, exact = [], True
    for low in range(0, permutations, step):
        exchange = draw_exchanges(unit, is_first, min(step, permutations - low), rng)
        exact = exchange.exact
        means = exchange.signs.astype(np.float64) @ (exchange.atoms @ values) + exchange.constant @ values
        parts.append(means if low == 0 else means[1:])
    return share_as_large(np.concatenate(parts)), exact
