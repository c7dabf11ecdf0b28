"""Worst-case Spearman correlation: exact, without trying all signs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import real_array
from mallow.errors import InputError
from mallow.human._ranks import average_ranks

__all__ = ["worst_case_spearman"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_EQUAL = 1e-12  # ends this close, as a share of the largest one, are one value: decimals are not exact in binary
_DEEP = 14  # chosen: with more open choices than this at one place, one of them is tried both ways


def worst_case_spearman(mean: Any, std: Any, target: Any) -> float:
    """The smallest Spearman correlation of a metric with `target` if each of its values moves by one standard deviation.

    The minimum of ρ((aᵢ + σᵢ sᵢ), h) over all signs σᵢ ∈ {−1, 1} (paper: eq:worse-case-spearman), with average ranks where
    values are equal. It is at most the correlation of the best signs, and often below that of the means.

    The minimum is exact. Only systems whose intervals [aᵢ − sᵢ, aᵢ + sᵢ] overlap interact. A sign that is best whatever the
    others are is fixed first. For the rest, a dynamic program goes through the ends of the intervals from low to high and
    remembers which open intervals have been passed at their low end: the work grows with 2^w, where w is the largest number
    of undecided intervals that overlap at one place, and not with 2^n. Where w is large, one interval is tried both ways and
    both parts are solved in the same manner.

    Parameters
    ----------
    mean, std : sequences of n numbers
        The metric of each system, higher is better, and its standard deviation.
    target : sequence of n numbers
        What it should agree with, such as Bradley–Terry scores.

    Returns
    -------
    float
        Between −1 and 1. Signs for which all values of the metric are equal have no correlation and are left out.

    Examples
    --------
    >>> worst_case_spearman([1.0, 2.0, 3.0], [0.1, 0.1, 0.1], [10, 20, 30])
    1.0
    >>> worst_case_spearman([1.0, 2.0, 3.0], [0.1, 0.6, 0.6], [10, 20, 30])
    0.5
    """
    a, s, h = (_row(name, values) for name, values in (("mean", mean), ("std", std), ("target", target)))
    if not len(a) == len(s) == len(h):
        raise InputError(
            f"`mean`, `std` and `target` must have one entry per system; got {len(a)}, {len(s)} and {len(h)}."
        )
    if len(a) < 2:
        raise InputError("`mean` must hold at least 2 systems: one alone has no rank correlation.")
    if (s < 0).any():
        raise InputError(f"`std` must hold standard deviations of at least 0; got {s.min():g}.")
    if (h == h[0]).all():
        raise InputError("`target` must not be the same for all systems: there is no order to agree with.")
    weights = np.round(2 * average_ranks(h)).astype(np.int64)  # twice the rank is a whole number, also with ties
    weights = len(h) * weights - weights.sum()  # centred, still whole
    low, high = _places(a - s, a + s)
    best = _minimise(low, high, weights, math.sqrt(float((weights**2).sum())))
    if not math.isfinite(best):
        raise InputError(
            "`mean` and `std` give every system the same value: there is no order to compare with `target`."
        )
    return min(1.0, max(-1.0, best))


def _row(name: str, values: Any) -> Floats:
    array = real_array(name, values)
    if array.ndim != 1:
        raise InputError(f"`{name}` must be a sequence with one number per system; got shape {array.shape}.")
    if not np.isfinite(array).all():
        raise InputError(f"`{name}` must hold finite numbers; got {array[~np.isfinite(array)][0]}.")
    return array


def _places(low: Floats, high: Floats) -> tuple[Ints, Ints]:
    """Both ends of each interval as places 0, 1, … in the order of all ends; equal ends share a place."""
    ends = np.concatenate([low, high])
    order = np.argsort(ends, kind="stable")
    gaps = np.diff(ends[order], prepend=ends[order[0]])
    steps = np.cumsum(gaps > _EQUAL * float(np.abs(ends).max()))
    places = np.empty(len(ends), dtype=np.int64)
    places[order] = steps
    return places[: len(low)], places[len(low) :]


def _minimise(low: Ints, high: Ints, weights: Ints, norm: float) -> float:
    """The least correlation; `low == high` marks systems whose sign is fixed."""
    low, high = _fix_clear_signs(low, high, weights, norm)
    free = np.flatnonzero(low < high)
    if free.size:
        covered = [((low[free] <= place) & (place < high[free])) for place in np.unique(low[free])]
        deepest = max(covered, key=np.count_nonzero)
        if np.count_nonzero(deepest) > _DEEP:
            inside = free[deepest]
            chosen = inside[np.argmax(high[inside] - low[inside])]
            branches = []
            for place in (low[chosen], high[chosen]):
                ends = low.copy(), high.copy()
                for end in ends:
                    end[chosen] = place
                branches.append(_minimise(*ends, weights, norm))
            return min(branches)
    return _sweep(low, high, weights, norm)


def _fix_clear_signs(low: Ints, high: Ints, weights: Ints, norm: float) -> tuple[Ints, Ints]:
    """The intervals, with those closed to one end whose sign is best whatever the other signs are.

    The numerator of ρ is Σ_{i<j} (hᵢ − hⱼ) sgn(xᵢ − xⱼ) / 2 in centred ranks h. Moving xᵢ from its low to its high end changes it
    by Σⱼ (hᵢ − hⱼ) (sgn(uᵢ − xⱼ) − sgn(lᵢ − xⱼ)) / 2, which is bounded term by term. The denominator depends on the signs through
    ties alone: a move changes the sum of squared ranks by at most `slack`, hence ρ's numerator must change by more than
    slack · ‖h‖ / ‖least ranks‖ for the sign to be clear.
    """
    low, high = low.copy(), high.copy()
    n = len(low)
    difference = weights[:, None] - weights[None, :]
    while True:
        members = np.bincount(np.concatenate([low, high[low < high]]), minlength=int(high.max()) + 1)
        least = _spread(n) - float(_tied(members).sum())
        changed = False
        for i in np.flatnonzero(low < high):
            at_low = np.sign(high[i] - low) - np.sign(low[i] - low)
            at_high = np.sign(high[i] - high) - np.sign(low[i] - high)
            effects = np.stack([difference[i] * at_low, difference[i] * at_high]) / 2
            effects[:, i] = 0.0
            lowest, highest = effects.min(axis=0).sum(), effects.max(axis=0).sum()
            slack = max(math.comb(int(members[end]), 2) for end in (low[i], high[i])) / 2
            if slack and least <= 0:
                continue
            needed = slack * norm / math.sqrt(least) if slack else 0.0
            if lowest >= needed:
                high[i] = low[i]
            elif highest <= -needed:
                low[i] = high[i]
            else:
                continue
            changed = True
        if not changed:
            return low, high


def _spread(n: int) -> float:
    """The sum of squares of centred ranks without ties."""
    return (n**3 - n) / 12


def _tied(count: Ints) -> Floats:
    """What a group of so many equal values takes from the sum of squares."""
    return (count**3 - count) / 12


def _sweep(low: Ints, high: Ints, weights: Ints, norm: float) -> float:
    """The least correlation, by a dynamic program over the ends from low to high.

    A state is the set of open intervals that wait for their high end (bits of a mask) and what ties took so far, in twelfths;
    its value is the least numerator. How many values lie below a place follows from the mask.
    """
    n = len(low)
    states: dict[int, Floats] = {0: np.zeros(1)}  # ties so far, in twelfths → the least numerator by mask
    waiting: list[int] = []  # the systems of the mask's bits
    started = 0
    for place in range(int(high.max()) + 1):
        fixed = np.flatnonzero((low == place) & (high == place))
        opening = [int(i) for i in np.flatnonzero((low == place) & (high > place))]
        closing = [i for i in waiting if high[i] == place]
        bits = np.arange(1 << len(waiting))
        pending = _count_bits(bits)
        taken = np.full(len(bits), len(fixed))  # how many values are here, and the sum of their weights
        weight = np.full(len(bits), float(weights[fixed].sum()))
        for i in closing:
            own = (bits >> waiting.index(i)) & 1
            taken += own
            weight += own * float(weights[i])
            pending -= own
        below = started - pending - taken + len(fixed)  # of those that started, neither waiting nor here
        kept = [i for i in waiting if i not in closing]
        group = _project(bits, [waiting.index(i) for i in kept])
        following: dict[int, Floats] = {}
        for choice in range(1 << len(opening)):  # bit 1: wait for the high end
            here = [i for place_of, i in enumerate(opening) if not (choice >> place_of) & 1]
            count = taken + len(here)
            cost = (weight + float(weights[here].sum())) * (below + (count + 1) / 2)
            lost = count**3 - count
            mask = group | (choice << len(kept))
            for ties, value in states.items():
                for more in np.unique(lost):
                    rows = lost == more
                    new = following.setdefault(ties + int(more), np.full(1 << (len(kept) + len(opening)), np.inf))
                    np.minimum.at(new, mask[rows], value[rows] + cost[rows])
        states = {ties: value for ties, value in following.items() if np.isfinite(value).any()}
        waiting = kept + opening
        started += len(fixed) + len(opening)
    least = math.inf
    for ties, value in states.items():
        spread = _spread(n) - ties / 12
        if spread > 0:
            least = min(least, float(value[0]) / (math.sqrt(spread) * norm))
    return least


def _count_bits(bits: Ints) -> Ints:
    return np.bitwise_count(bits).astype(np.int64)


def _project(bits: Ints, positions: list[int]) -> Ints:
    """The masks with only the bits at these positions, moved together."""
    out = np.zeros_like(bits)
    for new, old in enumerate(positions):
        out |= ((bits >> old) & 1) << new
    return out
