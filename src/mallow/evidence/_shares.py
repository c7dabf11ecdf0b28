"""How many samples are not like the other side, at least: bounds from how often held-out scores pass a threshold.

For any set A that was chosen on other samples, P(A) and Q(A) are means over samples, and

- Q(A) − P(A) is at most the total variation distance: so large a share of the model's samples would have to be replaced
  to match the reference;
- where the model's samples are the reference with a share π of something else mixed in, Q ≥ (1 − π) P, so that
  π ≥ 1 − Q(B)/P(B) for any B. No smaller share explains them. With sides exchanged this is a bound on the share of the
  reference that a model misses which adds nothing of its own.

The sets are those where the score passes a threshold. The threshold for one half of the units is chosen on the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mallow.engine import settle
from mallow.evidence._certificate import ONE_SIDED, lower_quantile, unit_influence
from mallow.evidence._units import Units
from mallow.results import Estimate
from mallow.theory import Array

_THRESHOLDS = 64  # chosen: quantiles of the scores that are tried
_LUCK = math.sqrt(2.0)  # near identity, what one sample teaches about others doubles the variance of such means
_STEPS = 12  # of the bisection: shares to 1/4096
_FEW = 10.0  # chosen: units of the reference that a set must have before its ratio is looked at
_CAUTION = 6.0  # chosen: standard errors by which ratios are judged, since the best of many thresholds is lucky

Bound = Callable[[Array, Array, int, int], Array]
"""(P(A), Q(A) for each threshold, units of P, of Q) → the lower limit, about, by which a threshold is chosen."""


def bound_shares(at_p: Array, at_q: Array, units: Units) -> dict[str, Estimate]:
    """Shares of the samples with held-out scores h of the reference (n,) and the model (m,), at least `low` each.

    "unlike": of the model's samples, how many would have to be replaced to match the reference. "new": how many are
    something else, if the model's samples are the reference with something mixed in. "missed": of the reference, how
    many are something else, if it is the model's samples with something mixed in.
    """
    shares = {}
    exchanged = Units(units.sets[::-1], units.keys)
    for name, p, q, known, bound in (
        ("unlike", -at_p, -at_q, units, _excess),
        ("new", at_p, at_q, units, _mixture),
        ("missed", -at_q, -at_p, exchanged, _mixture),
    ):
        sides = _choose_set(p, q, known, bound)
        of_p, of_q = (float(side.mean()) for side in sides)
        influence = [
            unit_influence([side], Units((numbers,), known.keys))
            for side, numbers in zip(sides, known.sets, strict=True)
        ]

        def low(
            factors: tuple[float, float],
            shares_inside: tuple[float, float] = (of_p, of_q),
            influence: list[Array] = influence,
            sizes: tuple[int, int] = (len(p), len(q)),
        ) -> float:
            """The lower limit of the first factor times P(A) plus the second times Q(A)."""
            terms = [factor * share for factor, share in zip(factors, shares_inside, strict=True)]
            unseen = [min(factor, 0.0) - term for factor, term in zip(factors, terms, strict=True)]
            worst = np.array(unseen) / sizes
            both: Array = factors[0] * influence[0] + factors[1] * influence[1]
            return sum(terms) + _LUCK * lower_quantile(both, worst)

        if bound is _excess:
            value, least = of_q - of_p, max(0.0, low((-1.0, 1.0)))
        else:
            value = 1.0 - of_q / of_p if of_p > 0 else 0.0
            least = _largest_share(low)
        shares[name] = Estimate(max(value, least, 0.0), least, 1.0)
    return settle(shares)


def _largest_share(low: Callable[[tuple[float, float]], float]) -> float:
    """The largest share s for which (1 − s) P(B) − Q(B) is above 0 with confidence."""
    if low((1.0, -1.0)) <= 0:
        return 0.0
    least, most = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (least + most) / 2.0
        least, most = (middle, most) if low((1.0 - middle, -1.0)) > 0 else (least, middle)
    return least


def _choose_set(p: Array, q: Array, units: Units, bound: Bound) -> tuple[Array, Array]:
    """Which samples of either side lie in the set where scores are large, (n,) and (m,), 1 or 0."""
    present = np.unique(np.concatenate(units.sets))  # in a comparison, units of other systems have numbers too
    half = np.empty(units.count, np.int64)
    half[present[np.argsort(units.keys[present], kind="stable")]] = np.arange(len(present)) % 2
    halves = of_p, of_q = [half[numbers] for numbers in units.sets]
    flags = [np.zeros(len(p)), np.zeros(len(q))]
    for side in (0, 1):
        there_p, there_q = np.sort(p[of_p != side]), np.sort(q[of_q != side])
        if not len(there_p) or not len(there_q):
            continue
        pooled = np.concatenate([there_p, there_q])
        thresholds = np.unique(np.quantile(pooled, np.linspace(0.0, 1.0, _THRESHOLDS), method="inverted_cdf"))
        shares = [1.0 - np.searchsorted(scores, thresholds) / len(scores) for scores in (there_p, there_q)]
        counts = (len(np.unique(numbers[of_side != side])) for numbers, of_side in zip(units.sets, halves, strict=True))
        best = thresholds[np.argmax(bound(shares[0], shares[1], *counts))]
        for scores, of_side, inside in zip((p, q), (of_p, of_q), flags, strict=True):
            inside[of_side == side] = scores[of_side == side] >= best
    return flags[0], flags[1]


def _excess(p: Array, q: Array, n: int, m: int) -> Array:
    limit: Array = q - p - ONE_SIDED * np.sqrt((p * (1.0 - p) + 1.0 / n) / n + (q * (1.0 - q) + 1.0 / m) / m)
    return limit


def _mixture(p: Array, q: Array, n: int, m: int) -> Array:
    few = p * n < _FEW
    p = np.where(few, 1.0, p)
    ratio = (q + 1.0 / m) / p
    limit: Array = 1.0 - ratio * (1.0 + _CAUTION * np.sqrt((1.0 - p) / (p * n) + 1.0 / (q * m + 1.0)))
    return np.where(few, -np.inf, limit)
