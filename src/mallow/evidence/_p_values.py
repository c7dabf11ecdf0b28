"""p-values of several statistics at once, from exchanges: how they are drawn, and how statistics become one.

Each statistic is standardised by its own permutations; a soft maximum is taken in each family (moments, bins, kernels),
and one of all families; the p-value comes from the same permutations. Where few permutations reach the observed value,
more are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpstrf

from mallow.engine import cores, ordered_map
from mallow.evidence._blocks import at_once
from mallow.evidence._exchange import Exchange
from mallow.theory import Array

_FAMILIES = ("varianc", "means"), ("bins",), ("kernel",)  # words in the names of statistics
_WEIGHTS = np.array([0.7, 1.0, 1.0])  # chosen: of families; what is local shows in bins and kernels alike
_SHARPNESS = 2.0  # chosen: of soft maxima of standardised statistics
_TIE = 1e-9  # chosen: rounding must not make a permutation that equals the observed one smaller
_NOTHING = 1e-20  # chosen: of the largest that a statistic could be; less is rounding
_FEW_ATOMS = 48  # chosen: atoms that are exchanged where the p-value is small and many permutations are needed
_ENOUGH = 10  # permutations as large as the observed one, itself included, below which more are drawn
MORE = (4_999, 99_999)  # so many
_EFFORT = 1 << 33  # chosen: multiplications that these may take, a fraction of a second
_SIGNS = 1 << 17  # signs that are drawn at once; the random numbers depend on it
_RANK = 1e-10  # chosen: of the largest product of an atom with itself, up to which what is left counts as none


@dataclass(frozen=True)
class IdentityTest:
    """Whether model and reference are one distribution.

    Attributes
    ----------
    p_value : float
        Of all statistics together.
    permutations : int
        That it comes from. 0: there is no answer, and the p-value is 1, since units of different sizes on both sides
        have to be cut to a common size, and a side has fewer than five of them.
    exact : bool
        Whether all units could be exchanged as they are; if not, they were cut.
    tail : bool
        Whether no permutation reached the observed value, so that the p-value is an upper bound.
    statistics : dict
        The p-value of each statistic alone, without any correction: what shows the gap.
    within : float or None
        The p-value of the second test, which exchanges samples within units; `p_value` is then twice the smaller of
        the two. None where it was not made.
    """

    p_value: float
    permutations: int
    exact: bool
    tail: bool
    statistics: dict[str, float]
    within: float | None = None


def judge_statistics(
    products: Mapping[str, Array], exchange: Exchange, permutations: int, seed: int, *, more: Sequence[int] = MORE
) -> IdentityTest:
    """The test by several statistics, each a table of products of atoms (atoms + 1, atoms + 1).

    Where few permutations reach the observed values, `more` are drawn.
    """
    values = _statistics(products, exchange, permutations, np.random.default_rng([seed, 2]))
    alone = p_value_of_each(products, values)
    few, join = exchange.merge(_FEW_ATOMS, exchange.generator(3), least=_FEW_ATOMS // 3)

    def draw(count: int) -> Array:
        rng = np.random.default_rng([seed, 2, count])
        if len(few.observed) == len(exchange.observed):
            return _statistics(products, exchange, count, rng)
        return _statistics({name: join @ (join @ table).T for name, table in products.items()}, few, count, rng)

    p_value, permutations = draw_until_clear(list(products), values, draw, more)
    return IdentityTest(p_value, permutations, True, p_value * (permutations + 1) < 1.5, alone)


def p_value_of_each(names: Iterable[str], values: Array) -> dict[str, float]:
    """The p-value of each statistic alone, from (1 + permutations, statistics)."""
    return dict(zip(names, np.mean(values >= values[0] * (1.0 - _TIE), axis=0).tolist(), strict=True))


def _statistics(products: Mapping[str, Array], exchange: Exchange, most: int, rng: np.random.Generator) -> Array:
    """The statistics as observed and of permutations, (1 + permutations, statistics), at most so many of these."""
    roots = [_root(table) for table in products.values()]
    factor = np.concatenate(roots, axis=1)
    ends = np.cumsum([root.shape[1] for root in roots])
    # What all atoms leave of each other where nothing differs: samples that are all alike, or in one bin.
    rounding = _NOTHING * np.array([np.linalg.norm(root, axis=1).sum() ** 2 for root in roots])
    count = min(most, 2 ** int(np.log2(at_once(_EFFORT, factor.size))))  # a rank that rounding changed changes nothing
    step = at_once(_SIGNS, len(factor))
    parts = [min(step, count - low) for low in range(0, count, step)]

    def evaluate(signs: Array) -> Array:
        sums = np.split(signs @ factor, ends[:-1], axis=1)
        forms: Array = np.stack([np.einsum("ij,ij->i", part, part) for part in sums], axis=1)
        return np.where(forms > rounding, forms, 0.0)

    def task(part: tuple[int, np.random.Generator]) -> Array:
        return evaluate(exchange.draw(*part))

    drawn = ordered_map(task, zip(parts, rng.spawn(len(parts)), strict=True), cores())
    return np.concatenate([evaluate(exchange.as_observed()), *drawn])


def _root(products: Array) -> Array:
    """A table (atoms, rank) whose rows have these products."""
    largest = float(products.diagonal().max())
    if not largest > 0.0:
        return np.zeros((len(products), 1))
    lower, pivot, rank, _ = dpstrf(products / largest, tol=_RANK, lower=1)
    root = np.empty((len(products), max(int(rank), 1)))
    root[pivot - 1] = np.sqrt(largest) * np.tril(lower)[:, : root.shape[1]]
    return root


def fuse(names: Sequence[str], values: Array) -> Array:
    """One statistic, (rows, 1), of several (rows, statistics), by families."""
    # Cube roots of quadratic forms are nearly normal (Wilson and Hilferty), so that each counts in its tail alike.
    standard = standardise(np.cbrt(np.maximum(values, 0.0)))
    spaces = np.array([name.rpartition(": ")[0] for name in names])
    families, weights = [], []
    for space in dict.fromkeys(spaces.tolist()):
        for words, weight in zip(_FAMILIES, _WEIGHTS, strict=True):
            member = (spaces == space) & [any(word in name for word in words) for name in names]
            if member.any():
                families.append(_soft_maximum(standard[:, member]))
                weights.append(weight)
    weighted = standardise(np.stack(families, axis=1)) + np.log(weights) / _SHARPNESS
    return _soft_maximum(weighted)[:, None]


def _soft_maximum(values: Array) -> Array:
    largest = values.max(axis=1)
    total = np.exp(_SHARPNESS * (values - largest[:, None])).sum(axis=1)
    maximum: Array = _SHARPNESS * largest + np.log(total)
    return maximum


def standardise(values: Array) -> Array:
    """Statistics with mean 0 and standard deviation 1 over the rows, (rows, statistics)."""
    standard: Array = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-300)
    return standard


def share_as_large(statistics: Array) -> float:
    """The share of rows in which the clearest statistic, standardised by all rows, is as large as in the first row."""
    largest = standardise(statistics).max(axis=1)
    return float(np.mean(largest >= largest[0] - _TIE))


def draw_until_clear(
    names: Sequence[str], values: Array, draw: Callable[[int], Array], more: Sequence[int]
) -> tuple[float, int]:
    """The p-value of statistics, and of how many permutations; more are drawn where few reach the observed one."""
    p_value, drawn = share_as_large(fuse(names, values)), len(values) - 1
    for count in more:
        most = _ENOUGH / (drawn + 1)
        if p_value > most * (1.0 + _TIE):
            break
        values = draw(count)
        if len(values) > drawn + 1:
            # Without a gap no more than a share `most` come here, so that a p-value as large needs no further proof.
            p_value, drawn = min(share_as_large(fuse(names, values)), most), len(values) - 1
    return p_value, drawn
