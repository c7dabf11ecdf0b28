"""A limit of MAUVE that holds however often it is read, and an alarm when MAUVE falls below a tolerance.

Let x be a sample of the reference and y one of the model, both not seen before, and h any function that was learned
from earlier samples. With σ the logistic function,

    g = log 2 + ½ log σ(h(x)) + ½ log σ(−h(y)),        E[g | the past] ≤ JS(P, Q),

the mid-point summary, with equality for h = log p/q. So where JS(P, Q) ≤ j the product of the factors 1 + b (g − j),
with bets b ≥ 0 that the past decides and no factor negative, is a nonnegative supermartingale: by Ville's inequality it
ever reaches 20 with a probability of at most 5%. This holds for any number of samples, and P and Q may change from
pair to pair: what is tested is that JS(P, Q) ≤ j for *every* pair.

MAUVE and JS. With E₁ and E₂ exponential of rate c, MAUVE is the probability that (E₁, E₂) lies above the frontier of
the costs, which is above the line D(P‖R) + D(Q‖R) = 2 JS(P, Q), since no R has a smaller sum. Hence for KL

    MAUVE ≤ P(E₁ + E₂ ≥ 2 JS) = (1 + s) exp(−s),        s = 2 c JS(P, Q).

The integral is at least JS, too: λ D(P‖R_λ) + (1−λ) D(Q‖R_λ) is concave in λ, and 0 at both ends.

Where nothing is to be won, no bet is made and no sample of the reference is spent, so that a calm stream may be long.
A change may come late: half of the capital is kept for bets that start later (a mixture over all starts).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import lambertw, log_expit

from mallow.engine import settle
from mallow.estimate import Features, calibrate_scores
from mallow.evidence._certificate import NAMES
from mallow.evidence._sequential_views import ViewsOfSpaces
from mallow.evidence._systems import generator_for
from mallow.results import Estimate
from mallow.theory import Array

WON = 20.0  # one over 5%
_LIMITS = (0.995, 0.99, 0.98, 0.97, *(round(0.95 - 0.05 * step, 2) for step in range(19)), 0.03, 0.02, 0.01)
_CLIPS = np.array([1.0, 2.0, 4.0])  # chosen: of h. A small one allows larger bets, a large one wins more per bet
_SHARES = np.array([0.05, 0.1, 0.2, 0.4, 0.8])  # chosen: of the largest bet that cannot lose everything
_FEWEST = 20  # chosen: units of the model that a function is learned from
_LEARNED = 0.25  # chosen: of the reference, the share that the first functions are learned from
_LEARN_AGAIN = 0.25  # chosen: more units, relative to those before
_RECENT = 400  # chosen: units of either side that functions are learned from; more would forget a change more slowly
_BLOCK = 25  # chosen: pairs between two bets
_DELAY = 100.0  # chosen: pairs after which half of the capital for later starts has been placed
_DOUBT = 0.5  # chosen: standard errors by which a bet must seem to win
_WORST = math.log(2.0) + log_expit(-_CLIPS)  # the least payoff for each clip
_SAME = 1e-12  # spread of scores that tell nothing apart
_MOST = 1e250  # capital beyond proves no more


def mauve_limit(midpoint: float, scale: float) -> float:
    """What MAUVE is at most if the mid-point summary for KL is this.

    Examples
    --------
    >>> mauve_limit(0.0, 5.0), round(mauve_limit(0.0532, 5.0), 3)
    (1.0, 0.9)
    """
    s = 2.0 * scale * midpoint
    return (1.0 + s) * math.exp(-s)


def midpoint_limit(mauve: float, scale: float) -> float:
    """What the mid-point summary for KL is at most if MAUVE is this: the inverse of `mauve_limit`."""
    return max(0.0, float(-1.0 - lambertw(-mauve / math.e, -1).real) / (2.0 * scale))


@dataclass(frozen=True, eq=False)
class Bets:
    """What bets have won, and what the next ones are learned from.

    Attributes
    ----------
    capital : array (levels,)
        Of bets that are placed, in units of the capital at the start.
    most : array (levels,)
        The largest whole capital so far.
    pairs : int
        Pairs of samples that were bet on.
    paid : float
        The sum of their payoffs g.
    pool : int64 array
        The rows of the reference that are left.
    rows, names : array (n, d), tuple or None
        The reference: `pool` has places in it.
    learned_reference, learned_model : array (·, columns)
        Views of earlier samples.
    since : int
        Units of the model since a function was learned.
    seen : frozenset
        Units that were used: their samples no longer count.
    looks : int
        Calls of `update`.
    """

    capital: Array
    most: Array
    pairs: int
    paid: float
    pool: NDArray[np.int64]
    rows: Features
    names: tuple[str, ...] | None
    learned_reference: Array
    learned_model: Array
    since: int
    seen: frozenset[str]
    looks: int
    rule: Rule | None = None


@dataclass(frozen=True, eq=False)
class Rule:
    """A function h of the views, and how much to bet with it at each level.

    Attributes
    ----------
    factors : array (columns,)
    constant : float
    clip : int array (levels,)
        Which of the clips is applied to h.
    bet : array (levels,)
        0 where nothing seems to be won.
    """

    factors: Array
    constant: float
    clip: NDArray[np.int64]
    bet: Array

    def score(self, views: Array) -> Array:
        """h of each row."""
        return views @ self.factors + self.constant


@dataclass(frozen=True, eq=False)
class Betting:
    """Bets that the mid-point summary of a model exceeds each of some levels.

    Parameters
    ----------
    views : ViewsOfSpaces
    limits : tuple of float
        Values of MAUVE, in falling order; the levels are `midpoint_limit` of these.
    tolerance : float or None
        The one of the limits that an alarm is about: samples of the reference are spent on its bets alone.
    scale : float
        The constant c.
    window : int or None
        How many recent samples are the reference; half of the model's samples join them. None: the reference stays.
    seed : int
    columns : tuple of int
        How many each view has.
    """

    views: ViewsOfSpaces
    limits: tuple[float, ...]
    tolerance: float | None
    scale: float
    window: int | None
    seed: int
    columns: tuple[int, ...]

    @property
    def levels(self) -> Array:
        """Of the mid-point summary, rising."""
        return np.array([midpoint_limit(limit, self.scale) for limit in self.limits])

    @property
    def _recent(self) -> int:
        """How many units of either side functions are learned from: few, so that they are faster than the window."""
        return _RECENT if self.window is None else min(_RECENT, max(2 * _FEWEST, self.window // 4))

    @property
    def _deciding(self) -> slice:
        """The levels whose bets decide whether there are any."""
        if self.tolerance is None:
            return slice(None)
        place = self.limits.index(self.tolerance)
        return slice(place, place + 1)

    def start(self, counted: Features, names: Sequence[str] | None, fitted: frozenset[str]) -> Bets:
        """No bets yet. The `counted` rows, with the `names` of their units, are bet on; some are learned from before.

        The rows that fixed the views, whose units are `fitted`, are no use for this: in wide views they are unlike all
        later rows, so that bets on this difference would spend the reference in a calm stream.
        """
        order = generator_for(self.seed, "learned").permutation(len(counted))
        learned, pool = np.split(order, [min(self._recent, int(_LEARNED * len(order)))])
        nothing, values = np.zeros(len(self.limits)), self._values(counted[learned])
        kept = None if names is None else tuple(names)
        seen = fitted if kept is None else fitted | {kept[place] for place in learned}
        bets = Bets(nothing + 0.5, nothing + 1.0, 0, 0.0, np.sort(pool), counted, kept, values, values[:0], 0, seen, 0)
        return bets if self.window is None else self._forget(bets)

    def update(self, bets: Bets, rows: Features, names: Sequence[str] | None) -> Bets:
        """Bet on more samples of the model, whose units have these names; None: each is one."""
        rng = generator_for(self.seed, f"bets {bets.looks}")
        groups, keys = _group(rows, names, bets.seen)
        order = rng.permutation(len(groups))  # sorted samples are as good as others
        to_pool = order[:0]
        if self.window is not None:
            joins = rng.random(len(order)) < 0.5
            to_pool, order = order[joins], order[~joins]
        views = self._values(rows)
        bets = replace(bets, looks=bets.looks + 1)
        for block in (order[low : low + _BLOCK] for low in range(0, len(order), _BLOCK)):
            bets = self._bet(bets, [views[groups[unit]] for unit in block], [keys[unit] for unit in block], rng)
        if len(to_pool):
            added = rows[np.array([groups[unit][0] for unit in to_pool])]
            pool = np.append(bets.pool, len(bets.rows) + np.arange(len(added)))
            kept = (
                None
                if bets.names is None
                else bets.names + tuple(keys[unit] or f"sample {bets.looks}/{unit}" for unit in to_pool)
            )
            bets = self._forget(replace(bets, rows=np.concatenate([bets.rows, added]), pool=pool, names=kept))
        return bets

    def limit(self, bets: Bets) -> tuple[float, float]:
        """The least value that MAUVE has been proven to be at most, and the level of the mid-point summary.

        Every larger limit must have been proven, too: then all of them hold together with 95% confidence.
        """
        lost = np.flatnonzero(bets.most < WON)
        count = int(lost[0]) if len(lost) else len(self.limits)
        return (self.limits[count - 1], float(self.levels[count - 1])) if count else (1.0, 0.0)

    def p_value(self, bets: Bets) -> float:
        """The p-value of the hypothesis that MAUVE has never been below the tolerance, however often it is read."""
        return 1.0 / float(bets.most[self._deciding].max())

    def certify(self, bets: Bets) -> dict[str, Estimate]:
        """What is proven of the summaries for KL, as in `Certificate.estimates`."""
        limit, level = self.limit(bets)
        mean = min(max(bets.paid / max(bets.pairs, 1), level), math.log(2.0))
        value = min(limit, mauve_limit(mean, self.scale))
        of_costs = Estimate(mean, level, math.log(2.0))
        estimates = Estimate(value, 0.0, limit), replace(of_costs, high=1.0), of_costs
        return settle(dict(zip(NAMES, estimates, strict=True)))

    def _values(self, rows: Features) -> Array:
        return np.concatenate(_views(self.views, rows), axis=1, dtype=np.float32)

    def _forget(self, bets: Bets) -> Bets:
        """Only the most recent samples of the reference stay; functions may be learned from the others."""
        window = self.window or 0
        old, pool = bets.pool[:-window], bets.pool[-window:]
        learned = bets.learned_reference
        if len(old):
            learned = np.concatenate([learned, self._values(bets.rows[old])])[-self._recent :]
        names = None if bets.names is None else tuple(bets.names[place] for place in pool)
        return replace(bets, pool=np.arange(len(pool)), rows=bets.rows[pool], names=names, learned_reference=learned)

    def _bet(self, bets: Bets, units: list[Array], keys: list[str | None], rng: np.random.Generator) -> Bets:
        """Bet on one block of units, then learn from it."""
        rule, seen = bets.rule, {key for key in keys if key is not None}
        if rule is not None and rule.bet[self._deciding].any():
            partners = self._draw(bets, keys, rng)
            count = len(partners)
            x = self._values(bets.rows[partners]) if count else bets.learned_reference[:0]
            if count:
                payoffs = _payoffs(
                    rule.score(x), rule.score(np.concatenate(units[:count])), [len(unit) for unit in units[:count]]
                )
                payoff = payoffs[rule.clip]  # (levels, pairs)
                later = _later(bets.pairs) - _later(bets.pairs + count)
                gain = np.prod(1.0 + rule.bet[:, None] * (payoff - self.levels[:, None]), axis=1)
                capital = np.minimum((bets.capital + later) * gain, _MOST)
                most = np.maximum(bets.most, capital + _later(bets.pairs + count))
                paid = bets.paid + float(payoffs[-1].sum())
                bets = replace(bets, capital=capital, most=most, pairs=bets.pairs + count, paid=paid)
            if bets.names is not None:
                seen |= {bets.names[place] for place in partners}
            learned = np.concatenate([bets.learned_reference, x])[-self._recent :]
            bets = replace(bets, pool=np.setdiff1d(bets.pool, partners), learned_reference=learned)
        model = np.concatenate([bets.learned_model, *(unit[:1] for unit in units)])[-self._recent :]
        bets = replace(bets, learned_model=model, since=bets.since + len(units), seen=bets.seen | seen)
        if len(model) < _FEWEST or bets.since < max(_FEWEST, _LEARN_AGAIN * len(model)) / 2:
            return bets
        return replace(bets, since=0, rule=self._learn(bets.learned_reference, model))

    def _draw(self, bets: Bets, keys: list[str | None], rng: np.random.Generator) -> NDArray[np.int64]:
        """A row of the reference for each unit of the model, while there are some: of the same unit if it has one."""
        pool = rng.permutation(bets.pool) if self.window is None else bets.pool  # of a window the oldest first
        if bets.names is None:
            return pool[: len(keys)]
        free: dict[str, int] = {}
        for place in pool.tolist():
            if bets.names[place] not in bets.seen:
                free.setdefault(bets.names[place], place)
        same = [None if key is None else free.pop(key, None) for key in keys]
        others = iter(free.values())
        drawn = [next(others, None) if place is None else place for place in same]
        end = drawn.index(None) if None in drawn else len(drawn)
        return np.array(drawn[:end], dtype=np.int64)

    def _learn(self, x: Array, y: Array) -> Rule:
        """A function and its bets, from two halves: each half is judged by what was learned from the other."""
        ends = np.cumsum([0, *self.columns])
        parts = [slice(low, high) for low, high in pairwise(ends)]
        means = [[side[half::2].mean(axis=0, dtype=np.float64) for side in (x, y)] for half in (0, 1)]
        factors = np.array([of_x - of_y for of_x, of_y in means])
        constants = np.array(
            [[-float((of_x - of_y)[part] @ (of_x + of_y)[part]) / 2.0 for part in parts] for of_x, of_y in means]
        )
        at_x, at_y = (
            np.concatenate(
                [
                    np.stack([side[1 - half :: 2, part] @ factors[half, part] for part in parts])
                    + constants[half][:, None]
                    for half in (0, 1)
                ],
                axis=1,
            )
            for side in (x, y)
        )
        scores, count = np.concatenate([at_x, at_y], axis=1), min(len(x), len(y))
        spread = scores.std(axis=1)
        spread[spread <= _SAME] = np.inf
        is_reference = np.arange(scores.shape[1]) < len(x)
        weight = np.where(is_reference, 0.5 / len(x), 0.5 / len(y))
        constant = np.ones((1, scores.shape[1]))  # weights are not negative: one for either sign
        views = np.concatenate([scores / spread[:, None], constant, -constant])
        *weights, up, down = calibrate_scores(views, is_reference, weight, ridge=1.0 / count)
        weights = np.array(weights) / spread
        pairs = [np.linspace(0, len(side) - 1, count).astype(np.int64) for side in (x, y)]
        h = [(weights @ at + up - down)[rows] for at, rows in zip((at_x, at_y), pairs, strict=True)]
        clip, bet = self._choose(_payoffs(h[0], h[1], [1] * count))
        whole = np.concatenate([w * factors[:, part].mean(axis=0) for w, part in zip(weights, parts, strict=True)])
        return Rule(whole, float(weights @ constants.mean(axis=0) + up - down), clip, bet)

    def _choose(self, payoff: Array) -> tuple[NDArray[np.int64], Array]:
        """For each level the clip and the bet that would have won the most, given payoffs (clips, pairs).

        A bet is 0 where none would have won clearly.
        """
        levels = self.levels
        largest = 1.0 / (levels[:, None] - _WORST)  # (levels, clips)
        bets = largest[:, :, None] * _SHARES
        growth = np.log1p(bets[..., None] * (payoff[None, :, None, :] - levels[:, None, None, None]))
        clear = growth.mean(axis=-1) - _DOUBT * growth.std(axis=-1) / math.sqrt(payoff.shape[1])
        best = clear.reshape(len(levels), -1).argmax(axis=1)
        clip, share = np.divmod(best, len(_SHARES))
        wins = clear.reshape(len(levels), -1).max(axis=1) > 0
        return clip, np.where(wins, bets[np.arange(len(levels)), clip, share], 0.0)


def fit_betting(
    views: ViewsOfSpaces,
    row: Features,
    tolerance: float | None,
    *,
    scale: float,
    window: int | None,
    seed: int,
) -> Betting:
    """Bets on usual values of MAUVE and on the tolerance; `row` is any row of features (1, d)."""
    limits = sorted({*_LIMITS, *([] if tolerance is None else [tolerance])}, reverse=True)
    return Betting(
        views, tuple(limits), tolerance, scale, window, seed, tuple(view.shape[1] for view in _views(views, row))
    )


def _views(views: ViewsOfSpaces, rows: Features) -> list[Array]:
    """The views of each row, and how long it is in each of them, which shows a few rows that are far away."""
    return [*views.values(rows), *views.stretches(rows).T[:, :, None]]


def _payoffs(at_x: Array, at_y: Array, sizes: Sequence[int]) -> Array:
    """The payoffs g of pairs for each clip, (clips, pairs); units of the model have `sizes` samples each."""
    of_reference, of_rows = (log_expit(np.clip(h, -_CLIPS[:, None], _CLIPS[:, None])) for h in (at_x, -at_y))
    starts = np.cumsum([0, *sizes[:-1]])
    payoffs: Array = math.log(2.0) + (of_reference + np.add.reduceat(of_rows, starts, axis=1) / sizes) / 2.0
    return payoffs


def _later(pairs: int) -> float:
    """The capital that is kept, after so many pairs, for bets that start later."""
    return 0.5 * _DELAY / (_DELAY + pairs)


def _group(
    rows: Features, names: Sequence[str] | None, seen: frozenset[str]
) -> tuple[list[NDArray[np.int64]], list[str | None]]:
    """The rows of each unit that was not seen before, and its name."""
    if names is None:
        return list(np.arange(len(rows))[:, None]), [None] * len(rows)
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        if name not in seen:
            places.setdefault(name, []).append(place)
    return [np.array(of_unit) for of_unit in places.values()], list(places)
