"""A test of identity: is there any gap? Permutations of units, with several statistics at once.

All statistics are quadratic in Δ, the mean of the reference minus that of the model, of some features of the samples,
so that a permutation costs one row of a matrix product. Each statistic is standardised by its own permutations and
the largest is taken; its p-value comes from the same permutations. Whatever the data, this is exact where units are
exchangeable. Where some can only change sign, the test is approximate, and looks at means alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import log_ndtr

from mallow._checks import seed_from, whole
from mallow.embed import AnyEmbedder, embed_all
from mallow.engine import cores, ordered_map, settle, single_threaded_blas
from mallow.evidence._blocks import ROWS, Values, add_up, at_once, each_block
from mallow.evidence._exchange import Exchange, draw_exchanges, exchangeable_rows
from mallow.evidence._space import Space, find_space, membership
from mallow.evidence._systems import pair_points
from mallow.evidence._units import Indices, Units, find_units
from mallow.theory import Array

_ENTRIES = 1 << 24  # chosen: signs that are drawn at once


def permutation_test(
    reference: Any,
    model: Any,
    *,
    embedder: AnyEmbedder | str | None = None,
    paired: bool = False,
    permutations: int = 999,
    rng: int | np.random.Generator | None = 0,
) -> float:
    """The p-value of the hypothesis that model and reference are one distribution, by exchanging units between them.

    Small means that the gap is real, however close to 1 the score is. It is the test behind `Score.p_value`: several
    statistics of the features at once, exact where units are exchangeable. Samples that share an id (or a
    prompt, without ids) are one unit, and so is row i of both sides with `paired`: shared prompts and several samples
    per prompt are no problem. Below 1/(permutations + 1) the p-value is that of a normal tail, an approximation.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> permutation_test(rng.normal(size=(200, 3)), rng.normal(0.5, 1.0, size=(200, 3))) < 0.001
    True
    """
    return run_permutations(
        reference, model, embedder=embedder, paired=paired, permutations=permutations, rng=rng
    ).p_value


def run_permutations(
    reference: Any,
    model: Any,
    *,
    embedder: AnyEmbedder | str | None = None,
    paired: bool = False,
    permutations: int = 999,
    rng: int | np.random.Generator | None = 0,
) -> IdentityTest:
    """The whole test: its p-value, whether it is exact, and what each statistic says."""
    seed = seed_from(rng)
    whole("permutations", permutations, least=1)
    sides = embed_all({"reference": reference, "model": model}, embedder, paired=paired)
    points = pair_points(sides["reference"], sides["model"])
    units = find_units(sides["reference"], sides["model"])
    return run_identity_test(find_space(points, units, seed), units, 1, permutations=permutations, seed=seed)


STRENGTHS = (0.001, 0.01, 0.1, 1.0)  # of the regularisation of means, in units of the mean variance
_FLOOR = 0.01  # the same for squares; chosen
_TIE = 1e-9  # chosen: rounding must not make a permutation that equals the observed one smaller
_LEAST = 1e-16  # the smallest p-value that the tail approximation gives
_DIGITS = 4  # of a p-value by the tail, an approximation
_PERMUTATIONS = 128  # chosen: per task
_FEW_PERMUTATIONS = 32  # chosen: per task with sparse arrays, which are as fast with few and need less memory


@dataclass(frozen=True)
class IdentityTest:
    """Whether model and reference are one distribution.

    Attributes
    ----------
    p_value : float
        Of all statistics together.
    permutations : int
    exact : bool
        Whether all units could be exchanged; if not, some only changed sign.
    tail : bool
        Whether no permutation reached the observed value, so that the p-value is that of a normal tail: an
        approximation, below 1/(permutations + 1).
    statistics : dict
        The p-value of each statistic alone, without any correction: what shows the gap.
    """

    p_value: float
    permutations: int
    exact: bool
    tail: bool
    statistics: dict[str, float]


def run_identity_test(space: Space, units: Units, system: int, *, permutations: int, seed: int) -> IdentityTest:
    """The test for the reference and one system of a space; `units` are those of the two alone."""
    whole("permutations", permutations, least=1)
    rows, unit, is_reference = _rows_of_pair(space, units, system)
    exchange = draw_exchanges(unit, is_reference, permutations, np.random.default_rng([seed, 2]))
    with single_threaded_blas():
        groups = _quadratic_forms(space, rows, exchange)
    return judge_statistics(groups, exchange)


def judge_statistics(groups: dict[str, Array], exchange: Exchange) -> IdentityTest:
    """The test by several statistics, each (1 + permutations,) with the observed value first."""
    permutations = len(exchange.signs) - 1
    # Cube roots of quadratic forms are nearly normal (Wilson and Hilferty), so that each counts in its tail alike.
    roots = np.cbrt(np.stack(list(groups.values()), axis=1))  # (1 + permutations, statistics); the observed first
    p_value = share_as_large(roots)
    tail = p_value * (permutations + 1) < 1.5
    if tail:
        least = math.exp(-exchange.log_count)
        p_value = min(p_value, settle(max(_tail_probability(roots), least, _LEAST), _DIGITS))
    alone = {name: float(np.mean(own >= own[0] * (1.0 - _TIE))) for name, own in groups.items()}
    return IdentityTest(p_value, permutations, exchange.exact, tail, alone)


def share_as_large(statistics: Array) -> float:
    """The share of rows in which the clearest statistic, standardised by all rows, is as large as in the first row."""
    standard = (statistics - statistics.mean(axis=0)) / np.maximum(statistics.std(axis=0), 1e-300)
    largest = standard.max(axis=1)
    return float(np.mean(largest >= largest[0] - _TIE))


def _rows_of_pair(space: Space, units: Units, system: int) -> tuple[Indices, Indices, NDArray[np.bool_]]:
    """The rows of the space that take part, their units from 0 on, and whether they are of the reference."""
    sides = space.places[0], space.places[system]
    rows = np.concatenate(sides)
    order = np.argsort(rows)
    unit = _number(np.concatenate(units.sets)[order])
    is_reference = order < len(sides[0])
    kept = exchangeable_rows(unit, is_reference)
    return rows[order][kept], _number(unit[kept]), is_reference[kept]


def _number(unit: Indices) -> Indices:
    """Units numbered from 0 in the order in which they appear; rows of one unit are neighbours."""
    return np.cumsum(np.diff(unit, prepend=-1) != 0) - 1


def _tail_probability(roots: Array) -> float:
    """The normal tail beyond the observed value of the clearest statistic, times the number of statistics."""
    others = roots[1:]
    deviation = others.std(axis=0, ddof=1) if len(others) > 1 else np.zeros(roots.shape[1])
    z = np.where(deviation > 0, (roots[0] - others.mean(axis=0)) / np.maximum(deviation, 1e-300), 0.0)
    return min(1.0, int(roots.shape[1]) * math.exp(float(log_ndtr(-z.max()))))


def _quadratic_forms(space: Space, rows: Indices, exchange: Exchange) -> dict[str, Array]:
    """Every statistic of every permutation."""
    forms: dict[str, Array] = {}
    if exchange.exact:  # otherwise axes, columns and bins follow the side with fewer units: only means are safe
        means, variances = _differences(space.columns, rows, exchange, squares=True)
        forms["variances by column"] = means**2 @ _inverse(variances, _FLOOR)
        forms["total variance"] = means.sum(axis=1) ** 2
    means, variances = _differences(space.points, rows, exchange)
    for strength in STRENGTHS:
        forms[f"means, strength {strength:g}"] = means**2 @ _inverse(variances, strength)
    if exchange.exact:
        for partitions in space.bins:
            bins = int(partitions.max()) + 1
            forms[f"{bins} bins"] = bin_form(partitions[:, rows], bins, exchange)
    return forms


def _differences(source: Values, rows: Indices, exchange: Exchange, *, squares: bool = False) -> tuple[Array, Array]:
    """Δ of every permutation, (1 + permutations, columns), and its variance, (columns,), common to all permutations."""
    values = source if len(rows) == len(source) else source[rows]
    each = _sum_atoms(exchange.atoms.astype(source.dtype), values, squares=squares)
    # What copies in a unit leave of each other is rounding.
    least = 64.0 * np.finfo(source.dtype).eps * float(np.abs(exchange.atoms.data).max() * np.abs(values).max())
    each[np.abs(each) < least] = 0.0
    means = np.empty((len(exchange.signs), source.shape[1]))
    constant = np.zeros(source.shape[1])
    if exchange.constant.any():
        constant = add_up(values, exchange.constant[None], squares=squares)[0]
    mass = exchange.atoms.sum(axis=1)
    if np.abs(mass).max() > _TIE * np.abs(exchange.atoms.data).max():  # less the mean of all rows; in pairs it cancels
        centre = add_up(values, np.full((1, len(rows)), 1.0 / len(rows)), squares=squares)[0].astype(source.dtype)
        each -= mass.astype(source.dtype)[:, None] * centre
        constant = constant - exchange.constant.sum() * centre

    def task(low: int) -> None:
        some = exchange.signs[low : low + _PERMUTATIONS].astype(source.dtype)
        means[low : low + _PERMUTATIONS] = some @ each + constant

    for _ in ordered_map(task, range(0, len(means), _PERMUTATIONS), cores()):
        pass
    if exchange.within.shape[0]:
        middle = exchange.within.astype(source.dtype) @ each
        each -= (exchange.within != 0).T.astype(source.dtype) @ middle
    return means, np.einsum("ij,ij->j", each, each).astype(np.float64)


def _sum_atoms(atoms: sparse.csr_array, values: Values, *, squares: bool) -> Values:
    """``atoms @ values``, or atoms @ their squares, (atoms, columns), without a copy of all squares."""
    each = np.empty((atoms.shape[0], values.shape[1]), values.dtype)

    def task(low: int) -> None:
        some = atoms[low : low + ROWS]
        first, last = int(some.indices.min()), int(some.indices.max()) + 1  # atoms are in the order of the rows
        block = values[first:last]
        each[low : low + ROWS] = some[:, first:last] @ (np.square(block) if squares else block)

    each_block(task, len(each), ROWS)
    return each


def bin_form(partitions: Indices, bins: int, exchange: Exchange) -> Array:
    """Σ (difference of the shares of a bin)²/(its size), over the bins of all partitions (partitions, rows)."""
    member = membership(partitions, bins)
    each = (exchange.atoms @ member).T.tocsr()
    least = _TIE * np.abs(exchange.atoms.data).max()  # less is rounding: where all samples share a bin, nothing differs
    constant, one_over_size = exchange.constant @ member, 1.0 / np.maximum(member.sum(axis=0), 1.0)

    def task(low: int) -> Array:
        shares = (each @ exchange.signs[low : low + _FEW_PERMUTATIONS].T.astype(np.float64)).T + constant
        shares[np.abs(shares) < least] = 0.0
        form: Array = shares**2 @ one_over_size
        return form

    return np.concatenate(list(ordered_map(task, range(0, len(exchange.signs), _FEW_PERMUTATIONS), cores())))


def _inverse(variances: Array, strength: float) -> Array:
    floor = strength * float(variances.mean())
    return np.where(variances > 0, 1.0 / np.maximum(variances + floor, 1e-300), 0.0)


def compare_means(
    first: Array, second: Array, units: Units, *, permutations: int, rng: np.random.Generator
) -> tuple[float, bool]:
    """The p-value of "the means of the first side are not larger", and whether it is exact.

    Each column of `first` (n, statistics) and `second` (m, statistics) is one statistic, the difference of the means.
    It is standardised by its own permutations, and the largest is taken, so that the p-value needs no further
    correction. Exact where units of the two sides can be exchanged.
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
