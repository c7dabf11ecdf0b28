"""Ranks and rank correlations (`scipy.stats` takes half a second to load), and the exact worst case of Spearman's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import real_array
from mallow.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_EQUAL = 1e-12  # ends this close, relative to the largest, are equal, since decimals are not exact in binary
_DEEP = 12.0  # chosen: with more than 2^12 states at one place, both ends of one interval are tried


def average_ranks(values: Floats) -> Floats:
    """The rank of each value along the last axis, 1 for the lowest; equal values share the mean of their ranks.

    Examples
    --------
    >>> average_ranks(np.array([3.0, 1.0, 3.0]))
    array([2.5, 1. , 2.5])
    """
    lower = (values[..., None, :] < values[..., :, None]).sum(axis=-1)
    equal = (values[..., None, :] == values[..., :, None]).sum(axis=-1)
    ranks: Floats = lower + (equal + 1) / 2
    return ranks


def pearson(x: Floats, y: Floats) -> Floats:
    """The correlation along the last axis; nan if one side is constant."""
    return _cosine(x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True))


def _cosine(x: Floats, y: Floats) -> Floats:
    """The cosine along the last axis; nan if one side is 0."""
    norm = np.sqrt((x**2).sum(axis=-1) * (y**2).sum(axis=-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine: Floats = np.clip(np.where(norm > 0, (x * y).sum(axis=-1) / norm, np.nan), -1.0, 1.0)
    return cosine


def spearman(x: Floats, y: Floats) -> Floats:
    """The rank correlation along the last axis; nan if one side is constant.

    Examples
    --------
    >>> float(spearman(np.array([1.0, 2.0, 4.0]), np.array([1.0, 9.0, 10.0])))
    1.0
    """
    return pearson(average_ranks(x), average_ranks(y))


def kendall(x: Floats, y: Floats) -> Floats:
    """Kendall's τ-b along the last axis: agreement of the order of pairs; nan if one side is constant."""
    one, two = np.triu_indices(x.shape[-1], 1)
    return _cosine(np.sign(x[..., one] - x[..., two]), np.sign(y[..., one] - y[..., two]))


def worst_case_spearman(mean: Any, std: Any, target: Any) -> float:
    """The smallest Spearman correlation of a metric with `target` if each value moves by one standard deviation.

    The minimum of ρ((aᵢ + σᵢ sᵢ), h) over all signs σᵢ ∈ {−1, 1} (paper: eq:worse-case-spearman), with average ranks
    for equal values. It is at most the correlation for any choice of signs, and often below the correlation of the
    means.

    The minimum is exact. Only systems whose intervals [aᵢ − sᵢ, aᵢ + sᵢ] overlap interact. A sign that is optimal for
    any other signs is fixed first. For the rest, a dynamic program goes through the ends of the intervals from low to
    high and remembers which open intervals wait for their high end. The work grows with 2^w, where w is the largest
    number of undecided and different intervals that overlap at one place, and not with 2^n. If w is large, both ends of
    one interval are tried, and both parts are solved in the same way.

    Parameters
    ----------
    mean : sequence of n numbers
        The metric of each system; higher is better.
    std : sequence of n numbers
        Its standard deviation.
    target : sequence of n numbers
        The target values, such as Bradley–Terry scores.

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
        raise InputError("`mean` must hold at least 2 systems, since a single one has no rank correlation.")
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
    """The ranks 0, 1, … of both ends of each interval among all ends; equal ends share a rank."""
    ends = np.concatenate([low, high])
    order = np.argsort(ends, kind="stable")
    gaps = np.diff(ends[order], prepend=ends[order[0]])
    steps = np.cumsum(gaps > _EQUAL * float(np.abs(ends).max()))
    places = np.empty(len(ends), dtype=np.int64)
    places[order] = steps
    return places[: len(low)], places[len(low) :]


def _minimise(low: Ints, high: Ints, weights: Ints, norm: float) -> float:
    """The smallest correlation; `low == high` marks systems with a fixed sign."""
    low, high = _fix_clear_signs(low, high, weights, norm)
    places, depth = np.unique(low[low < high]), 0.0
    for place in places:
        # For k equal intervals only the number at the low end matters: k + 1 choices instead of 2^k.
        open_here = np.flatnonzero((low <= place) & (place < high))
        _, sizes = np.unique(low[open_here] * (high.max() + 1) + high[open_here], return_counts=True)
        if (size := float(np.log2(sizes + 1).sum())) > depth:
            depth, deepest = size, open_here
    if depth <= _DEEP:
        return _sweep(low, high, weights, norm)
    chosen = deepest[np.argmax(high[deepest] - low[deepest])]
    branches = []
    for place in (low[chosen], high[chosen]):
        ends = low.copy(), high.copy()
        for end in ends:
            end[chosen] = place
        branches.append(_minimise(*ends, weights, norm))
    return min(branches)


def _fix_clear_signs(low: Ints, high: Ints, weights: Ints, norm: float) -> tuple[Ints, Ints]:
    """The intervals, reduced to one end if its sign is optimal for any other signs.

    The numerator of ρ is Σ_{i<j} (hᵢ − hⱼ) sgn(xᵢ − xⱼ) / 2 in centred ranks h. Moving xᵢ from its low to its high end
    changes it by Σⱼ (hᵢ − hⱼ) (sgn(uᵢ − xⱼ) − sgn(lᵢ − xⱼ)) / 2, which is bounded term by term. The denominator depends
    on the signs only through ties. A move changes the sum of squared ranks by at most `slack`, so ρ's numerator must
    change by more than slack · ‖h‖ / ‖least ranks‖ for the sign to be clear.
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
    """The decrease of the sum of squares by a group of this many equal values."""
    return (count**3 - count) / 12


def _sweep(low: Ints, high: Ints, weights: Ints, norm: float) -> float:
    """The smallest correlation, by a dynamic program over the ends from low to high.

    A state is the set of open intervals that wait for their high end (bits of a mask) and the decrease by ties so far,
    in twelfths. Its value is the smallest numerator. The number of values below a place follows from the mask.
    """
    n, started = len(low), 0
    states = {(0, 0): 0.0}
    for place in range(int(high.max()) + 1):
        fixed = np.flatnonzero((low == place) & (high == place))
        closing = [int(i) for i in np.flatnonzero((low < place) & (high == place))]
        own, mask_here = float(weights[fixed].sum()), sum(1 << i for i in closing)
        choices = _choices(np.flatnonzero((low == place) & (high > place)), high, weights)
        following: dict[tuple[int, int], float] = {}
        for (mask, ties), value in states.items():
            ending = mask & mask_here
            below = started - mask.bit_count()  # all started intervals that do not wait
            count = len(fixed) + ending.bit_count()
            weight = own + sum(float(weights[i]) for i in closing if ending >> i & 1)
            rest = mask ^ ending
            for waiting, taken, gained in choices:
                here = count + taken
                cost = value + (weight + gained) * (below + (here + 1) / 2)
                state = rest | waiting, ties + here**3 - here
                if cost < following.get(state, math.inf):
                    following[state] = cost
        states = following
        started += len(fixed) + int(((low == place) & (high > place)).sum())
    least = math.inf
    for (_, ties), value in states.items():
        spread = _spread(n) - ties / 12
        if spread > 0:
            least = min(least, value / (math.sqrt(spread) * norm))
    return least


def _choices(opening: Ints, high: Ints, weights: Ints) -> list[tuple[int, int, float]]:
    """The choices for intervals that open at a place: the mask of waiting ones, the number of others, and their weight.

    Among intervals with the same ends, those with the highest target take the low end, since exchanging two of them
    only changes the numerator.
    """
    made = [(0, 0, 0.0)]
    for end in np.unique(high[opening]):
        group = [int(i) for i in sorted(opening[high[opening] == end], key=lambda i: -weights[i])]
        options = [
            (sum(1 << i for i in group[taken:]), taken, float(sum(weights[i] for i in group[:taken])))
            for taken in range(len(group) + 1)
        ]
        made = [(w + waiting, t + taken, g + gained) for w, t, g in made for waiting, taken, gained in options]
    return made
