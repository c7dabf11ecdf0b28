"""Which tokens of a row of log-probabilities the truncating rules keep: pure functions, row by row.

Rules that keep the smallest set of tokens with some property break ties in favour of the lowest token id, so that the set is
unique and the same on every machine.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.errors import InputError
from mallow.generate._protocol import LogProbs

Places = NDArray[np.intp]

SUM_TOLERANCE = 0.01
"""How far the probabilities of a row may be from summing to 1: half-precision logits that were normalised in float32 are well
within it, plain logits are not."""


def largest(row: LogProbs, count: int) -> Places:
    """Places of the `count` largest values above −∞, in ascending order; the lowest places among equal values."""
    if count >= len(row):
        return _possible(row)
    cut = np.partition(row, len(row) - count)[len(row) - count]
    return _possible(row) if cut == -np.inf else _at_least(row, cut, count)


def nucleus(row: LogProbs, mass: float) -> Places:
    """The fewest tokens whose total probability is at least `mass`."""
    if mass == 1:
        return _possible(row)
    total = _total(row)
    # Values are sorted, not places, which is several times faster; the places follow from the value at the cut.
    ranked = np.sort(row[_worth_sorting(row, mass, total)])[::-1]
    reached = np.cumsum(np.exp(ranked), dtype=np.float64)
    count = min(int(np.searchsorted(reached, mass * total)) + 1, len(ranked))
    return _at_least(row, ranked[count - 1], count)


def typical_set(row: LogProbs, mass: float) -> Places:
    """The tokens whose surprisal is nearest to the entropy, until they have probability `mass`."""
    if mass == 1:
        return _possible(row)
    total, entropy = _total(row), _entropy(row)
    candidates = _worth_sorting(row, mass, total)
    places, cut = _nearest_to_entropy(row, candidates, entropy, mass * total)
    # Tokens that were not sorted are further away than this; if the cut is too, they may belong to the set.
    nearest_unsorted = -_least_worth(len(row), mass, total) - entropy
    if cut >= nearest_unsorted and len(candidates) < len(row):
        places, _ = _nearest_to_entropy(row, _possible(row), entropy, mass * total)
    return places


def typical_sum(row: LogProbs, mass: float) -> Places:
    """Tokens with probability `mass` and the least sum of distances |log P + H|: a knapsack, solved up to one token.

    Taking tokens by distance per probability is the best where the last token may be split. The cheapest token that completes
    the mass takes its place, and what is then no longer needed is dropped.
    """
    if mass == 1:
        return _possible(row)
    need = mass * _total(row)
    places = _possible(row)
    distance, weight = np.abs(row[places] + _entropy(row)).astype(np.float64), np.exp(row[places], dtype=np.float64)
    order = np.lexsort((places, distance / weight))
    reached = np.cumsum(weight[order])
    count = min(int(np.searchsorted(reached, need)), len(order) - 1)  # tokens before the one that would be split
    before = float(reached[count - 1]) if count else 0.0
    rest = order[count:]
    enough = rest[before + weight[rest] >= need]
    last = enough[int(distance[enough].argmin())] if len(enough) else order[count]
    kept = _without_spare(np.append(order[:count], last), distance, weight, need)
    nearest = np.searchsorted(places, typical_set(row, mass))
    best = min(kept, nearest, key=lambda chosen: float(distance[chosen].sum()))
    return places[np.sort(best)]


def above_eta(row: LogProbs, epsilon: float) -> Places:
    """The tokens with probability above η = min(ε, √ε·exp(−H))."""
    _total(row)
    log_epsilon = math.log(epsilon)
    places = np.flatnonzero(row > min(log_epsilon, log_epsilon / 2 - _entropy(row)))
    return places if len(places) else largest(row, 1)  # none by rounding, for epsilon next to 1


def near_mode(row: LogProbs, share: float) -> Places:
    """The tokens with at least `share` of the most likely token's probability."""
    return np.flatnonzero(row >= row.max() + math.log(share))


def _without_spare(kept: Places, distance: Any, weight: Any, need: float) -> Places:
    """The tokens without those that the others do not need to reach the mass, the farthest first."""
    spare = float(weight[kept].sum()) - need
    chosen = []
    for place in kept[np.argsort(-distance[kept], kind="stable")]:
        if distance[place] > 0 and weight[place] <= spare:
            spare -= float(weight[place])
        else:
            chosen.append(place)
    return np.array(chosen, np.intp)


def _at_least(row: LogProbs, cut: Any, count: int) -> Places:
    """Places of all values above the cut and of the first values equal to it, `count` in total."""
    places = np.flatnonzero(row >= cut)
    surplus = len(places) - count
    if surplus:
        tied = np.flatnonzero(row[places] == cut)
        places = np.delete(places, tied[len(tied) - surplus :])
    return places


def _nearest_to_entropy(row: LogProbs, candidates: Places, entropy: float, need: float) -> tuple[Places, float]:
    """The candidates nearest to the entropy that have probability `need` together; and the distance of the last one."""
    values = row[candidates]
    distance = np.abs(values + entropy)
    weights = np.exp(values)
    order = np.argsort(distance)
    count = int(np.searchsorted(np.cumsum(weights[order], dtype=np.float64), need)) + 1
    cut = distance[order[min(count, len(order)) - 1]]
    inside, tied = np.flatnonzero(distance < cut), np.flatnonzero(distance == cut)
    # The sort orders ties arbitrarily, and a token above the entropy can tie with one below: take them by their ids.
    reached = weights[inside].sum(dtype=np.float64) + np.cumsum(weights[tied], dtype=np.float64)
    tied = tied[: int(np.searchsorted(reached, need)) + 1]
    return candidates[np.sort(np.concatenate([inside, tied]))], float(cut)


def _worth_sorting(row: LogProbs, mass: float, total: float) -> Places:
    """Places such that all other tokens together have less than 1 − mass: a few thousand in the rows of real models."""
    return np.flatnonzero(row >= _least_worth(len(row), mass, total))


def _least_worth(size: int, mass: float, total: float) -> float:
    # `size` tokens below (1 − mass)/size each cannot sum to 1 − mass.
    return math.log((1 - mass) * total / size)


def _possible(row: LogProbs) -> Places:
    return np.flatnonzero(row > -np.inf)


def _entropy(row: LogProbs) -> float:
    # 0·log 0 = 0: below −1e4 the probability is 0 in every precision, and the product must not be nan.
    return -float(np.sum(np.exp(row) * np.maximum(row, -1e4), dtype=np.float64))


def _total(row: LogProbs) -> float:
    """The sum of the probabilities; refused if it is not 1 up to rounding."""
    total = float(np.sum(np.exp(row), dtype=np.float64))
    if abs(total - 1) > SUM_TOLERANCE:
        raise InputError(
            f"`log_probs` must be rows of log-probabilities, which sum to 1 after exp; got a row that sums to {total:.4g}. "
            "Subtract scipy.special.logsumexp of each row from logits."
        )
    return total
