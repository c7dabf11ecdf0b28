"""A test of identity: is there any gap? Permutations of units, with several statistics at once.

All statistics are quadratic in Δ, the mean of the reference minus that of the model, of some features of the samples:
a table of products of atoms (`_exchange.py`) is all that permutations need. There are three families: moments
(regularised means in the full width, and variances), counts of bins, and Gaussian kernels of several widths, most of
them narrow. Each statistic is standardised by its own permutations. A soft maximum is taken in each family, and one of
all families. Its p-value comes from the same permutations. Whatever the data, this is exact where units are
exchangeable. Where they are not, since their sizes differ, larger units are cut at random to a common size, several
times, and the p-value is twice the median of those of the cuts, which holds whatever they share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg.lapack import dpstrf
from scipy.spatial.distance import pdist

from mallow._checks import seed_from, whole
from mallow.embed import AnyEmbedder, embed_all
from mallow.engine import cores, ordered_map, single_threaded_blas
from mallow.evidence._blocks import ROWS, Values, at_once, each_block, sum_blocks
from mallow.evidence._exchange import Exchange, Flags, common_size, exchangeable_rows, find_exchange, generator_of_sides
from mallow.evidence._space import Space, find_spaces, membership, regularised_inverse
from mallow.evidence._systems import pair_spaces
from mallow.evidence._units import Indices, Units, find_units
from mallow.evidence._within import Within
from mallow.samples import Samples
from mallow.theory import Array

_ENTRIES = 1 << 22  # chosen: signs that are drawn at once


def permutation_test(
    reference: Any,
    model: Any,
    *,
    embedder: AnyEmbedder | str | None = None,
    paired: bool = False,
    prompts: str = "joint",
    independent_samples: bool = True,
    permutations: int = 999,
    rng: int | np.random.Generator | None = 0,
) -> float:
    """The p-value of the hypothesis that model and reference are one distribution, by exchanging units between them.

    Small means that the gap is real, however close to 1 the score is. It is the test behind `Score.p_value`: several
    statistics of the features at once, exact where units are exchangeable. Samples that share an id (or a
    prompt, without ids) are one unit, and so is row i of both sides with `paired`: shared prompts and several samples
    per prompt are no problem. Where few permutations reach the observed gap, up to 100,000 are drawn; none gives
    a smaller p-value than 0.00001.

    Where five units or more have several samples of both sides, a second test exchanges samples within units: it sees
    changes that are different for each prompt. The p-value is then twice the smaller of the two. That needs samples
    that are independent given their prompt; if they are not, pass ``independent_samples=False``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> permutation_test(rng.normal(size=(200, 3)), rng.normal(0.5, 1.0, size=(200, 3)))
    1e-05
    """
    return run_permutations(
        reference,
        model,
        embedder=embedder,
        paired=paired,
        prompts=prompts,
        independent_samples=independent_samples,
        permutations=permutations,
        rng=rng,
    ).p_value


def run_permutations(
    reference: Any,
    model: Any,
    *,
    embedder: AnyEmbedder | str | None = None,
    paired: bool = False,
    prompts: str = "joint",
    independent_samples: bool = True,
    permutations: int = 999,
    rng: int | np.random.Generator | None = 0,
) -> IdentityTest:
    """The whole test: its p-value, whether it is exact, and what each statistic says."""
    seed = seed_from(rng)
    whole("permutations", permutations, least=1)
    sides = embed_all({"reference": reference, "model": model}, embedder, paired=paired, prompts=prompts)
    *points, widths = pair_spaces(sides["reference"], sides["model"])
    units = find_units(sides["reference"], sides["model"])
    space, *others = find_spaces(points, units, 0, list(widths.values()))
    named = dict(zip(list(widths)[1:], others, strict=True))
    test = run_identity_test(space, units, 1, permutations=permutations, seed=seed, others=named)
    if not independent_samples:
        return test
    return add_within(test, find_within({"": space, **named}, units, 1), permutations=permutations, seed=seed)


STRENGTHS = (0.001, 0.01, 0.1, 1.0)  # of the regularisation of means, in units of the mean variance
FLOOR = 0.01  # the same for squares; chosen
_FAMILIES = ("varianc", "means"), ("bins",), ("kernel",)  # words in the names of statistics
_WEIGHTS = np.array([0.7, 1.0, 1.0])  # chosen: of families; what is local shows in bins and kernels alike
_SHARPNESS = 2.0  # chosen: of soft maxima of standardised statistics
_NARROW = 3  # chosen: kernels that are narrower than most distances; a wide one is beside them
_DISTANCES = 256  # chosen: samples whose distances decide about widths
_FREQUENCIES = 128  # chosen: of random features, which stand for kernels of many samples
_KERNEL_EFFORT = 1 << 33  # chosen: multiplications that exact kernels may take
_TIE = 1e-9  # chosen: rounding must not make a permutation that equals the observed one smaller
_NOTHING = 1e-20  # chosen: of the largest that a statistic could be; less is rounding
_ATOMS = 512  # chosen: atoms that are exchanged at first
_FEW_ATOMS = 48  # chosen: atoms that are exchanged where the p-value is small and many permutations are needed
_ENOUGH = 10  # permutations as large as the observed one, itself included, below which more are drawn
_MORE = (4_999, 99_999)  # so many
_EFFORT = 1 << 33  # chosen: multiplications that these may take, a fraction of a second
_SIGNS = 1 << 17  # signs that are drawn at once; the random numbers depend on it
_RANK = 1e-10  # chosen: of the largest product of an atom with itself, up to which what is left counts as none
_DRAWS = 9  # chosen: how often units are cut to a common size
_FEWEST = 5  # units of a side that are cut; with fewer there is no answer


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


def run_identity_test(
    space: Space, units: Units, system: int, *, permutations: int, seed: int, others: Mapping[str, Space] | None = None
) -> IdentityTest:
    """The test for the reference and one system of a space; `units` are those of the two alone.

    `others` are further spaces of the same rows, by name. Each of their families of statistics counts like one of the
    first space.
    """
    whole("permutations", permutations, least=1)
    spaces = {"": space, **(others or {})}
    rows, unit, is_reference = _rows_of_pair(space, units, system)

    def test(kept: Flags, cut: bool) -> IdentityTest:
        sides = number_units(unit[kept]), is_reference[kept]
        if cut:  # axes and bins know nothing of rows that take no part
            values = {name: space.columns[rows[kept]] for name, space in spaces.items()}
            return _judge_columns(values, *sides, permutations, seed)
        return _judge_spaces(spaces, rows[kept], *sides, permutations, seed)

    return judge_draws(unit, is_reference, test)


def find_within(spaces: Mapping[str, Space], units: Units, system: int) -> Within:
    """The samples of the reference and one system that can be exchanged within units."""
    return Within(spaces, *_rows_of_pair(next(iter(spaces.values())), units, system))


def add_within(test: IdentityTest, within: Within, *, permutations: int, seed: int) -> IdentityTest:
    """The test together with one that exchanges samples within units, where enough units have several of both sides."""
    if not within.enough:
        return test
    p_value, drawn, alone = judge_within(within, permutations, seed)
    deciding, count = (test.p_value, test.permutations) if test.p_value < p_value else (p_value, drawn)
    tail = test.tail if test.p_value < p_value else p_value * (drawn + 1) < 1.5
    return IdentityTest(min(1.0, 2.0 * deciding), count, test.exact, tail, {**test.statistics, **alone}, p_value)


def judge_within(within: Within, permutations: int, seed: int) -> tuple[float, int, dict[str, float]]:
    """The p-value of exchanges within units, of how many, and that of each statistic alone."""
    values = within.statistics(permutations, np.random.default_rng([seed, 7]))
    alone = np.mean(values >= values[0] * (1.0 - _TIE), axis=0)

    def draw(count: int) -> Array:
        return within.statistics(count, np.random.default_rng([seed, 7, count]))

    p_value, drawn = _draw_until_clear(within.names, values, draw, _MORE)
    return p_value, drawn, dict(zip(within.names, alone.tolist(), strict=True))


def _draw_until_clear(
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


@dataclass(frozen=True)
class PromptTest:
    """The test of two sets of answers to the same prompts.

    Attributes
    ----------
    p_value : float
    by_prompt : dict
        The p-value of each prompt with several samples of both sides.
    """

    p_value: float
    by_prompt: dict[str, float]


def judge_prompts(reference: Samples, model: Samples, *, permutations: int, seed: int) -> PromptTest:
    """The test of two sets of samples with features and prompts, and that of each prompt."""
    prompts = tuple(reference.prompts or ())
    reference, model = reference.without_ids(), model.without_ids()
    *points, widths = pair_spaces(reference, model)
    units = find_units(reference, model)
    names = list(widths)
    spaces = dict(zip(names, find_spaces(points, units, 0, list(widths.values())), strict=True))
    first, others = spaces[names[0]], {name: spaces[name] for name in names[1:]}
    test = run_identity_test(first, units, 1, permutations=permutations, seed=seed, others=others)
    within = find_within(spaces, units, 1)
    whole_test = add_within(test, within, permutations=permutations, seed=seed)
    if whole_test.within is None:
        return PromptTest(whole_test.p_value, {})
    rows, unit, is_reference = _rows_of_pair(first, units, 1)
    place = np.empty(len(first.columns), np.int64)
    place[first.places[0]] = np.arange(len(first.places[0]))
    of_unit = {
        int(number): prompts[place[row]] for row, number in zip(rows[is_reference], unit[is_reference], strict=True)
    }
    each = within.by_unit(permutations, np.random.default_rng([seed, 8]))
    by_prompt = {
        of_unit[number]: share_as_large(_standardise(np.cbrt(values)) @ np.ones((values.shape[1], 1)))
        for number, values in each.items()
    }
    return PromptTest(whole_test.p_value, by_prompt)


def judge_rows(values: Values, unit: Indices, is_reference: Flags, permutations: int, seed: int) -> IdentityTest:
    """The test of some rows in a space of their own."""
    return _judge_columns({"": values}, unit, is_reference, permutations, seed)


def _judge_columns(
    columns: Mapping[str, Values], unit: Indices, is_reference: Flags, permutations: int, seed: int
) -> IdentityTest:
    sides = is_reference, ~is_reference
    units = Units((unit[sides[0]], unit[sides[1]]), np.arange(int(unit.max()) + 1, dtype=np.uint64))
    values = np.concatenate(list(columns.values()), axis=1)
    widths = [own.shape[1] for own in columns.values()]
    spaces = find_spaces([values[side] for side in sides], units, seed, widths)
    rows = _rows_of_pair(spaces[0], units, 1)
    return _judge_spaces(dict(zip(columns, spaces, strict=True)), *rows, permutations, seed, more=_MORE[:1])


def _judge_spaces(
    spaces: Mapping[str, Space],
    rows: Indices,
    unit: Indices,
    is_reference: Flags,
    permutations: int,
    seed: int,
    *,
    more: Sequence[int] = _MORE,
) -> IdentityTest:
    exchange = find_exchange(unit, is_reference)
    with single_threaded_blas():
        merged, join = merge_atoms(exchange)
        products = {
            f"{name}: {statistic}" if name else statistic: table
            for name, space in spaces.items()
            for statistic, table in _products(space, rows, exchange, merged, join).items()
        }
        return judge_statistics(products, merged, permutations, seed, more=more)


def merge_atoms(exchange: Exchange) -> tuple[Exchange, sparse.csr_array]:
    """As many atoms as are exchanged at first, whatever the seed; see `Exchange.merge`."""
    return exchange.merge(_ATOMS, exchange.generator(2))


def judge_draws(unit: Indices, is_reference: Flags, test: Callable[[Flags, bool], IdentityTest]) -> IdentityTest:
    """The test of rows that can be exchanged, or of several draws of them; ``test(kept, cut)`` does one."""
    draws, cut = draw_rows(unit, is_reference)
    if not draws:
        return IdentityTest(1.0, 0, False, False, {})
    tests = [test(kept, cut) for kept in draws]
    if not cut:
        return tests[0]
    p_values = [one.p_value for one in tests]
    middle = tests[int(np.argsort(p_values, kind="stable")[len(tests) // 2])]
    alone = {name: float(np.median([one.statistics.get(name, 1.0) for one in tests])) for name in middle.statistics}
    return IdentityTest(combine_draws(p_values), middle.permutations, False, middle.tail, alone)


def draw_rows(unit: Indices, is_reference: Flags) -> tuple[list[Flags], bool]:
    """Which rows take part in the test, and whether units were cut: then several draws, none if units are too few."""
    most, rng = common_size(unit, is_reference), generator_of_sides(is_reference, 1)
    if most is None:
        return [exchangeable_rows(unit, is_reference, None, rng)], False
    if min(len(np.unique(unit[side])) for side in (is_reference, ~is_reference)) < _FEWEST:
        return [], True
    return [exchangeable_rows(unit, is_reference, most, rng) for _ in range(_DRAWS)], True


def combine_draws(p_values: Sequence[float]) -> float:
    """Twice the median of p-values: it holds whatever they share."""
    return min(1.0, 2.0 * float(np.median(p_values))) if len(p_values) > 1 else p_values[0]


def judge_statistics(
    products: dict[str, Array], exchange: Exchange, permutations: int, seed: int, *, more: Sequence[int] = _MORE
) -> IdentityTest:
    """The test by several statistics, each a table of products of atoms (atoms + 1, atoms + 1).

    Where few permutations reach the observed values, `more` are drawn.
    """
    values = _statistics(products, exchange, permutations, np.random.default_rng([seed, 2]))
    alone = {name: float(np.mean(own >= own[0] * (1.0 - _TIE))) for name, own in zip(products, values.T, strict=True)}
    few, join = exchange.merge(_FEW_ATOMS, exchange.generator(3), least=_FEW_ATOMS // 3)

    def draw(count: int) -> Array:
        rng = np.random.default_rng([seed, 2, count])
        if len(few.observed) == len(exchange.observed):
            return _statistics(products, exchange, count, rng)
        return _statistics({name: join @ (join @ own).T for name, own in products.items()}, few, count, rng)

    p_value, permutations = _draw_until_clear(list(products), values, draw, more)
    return IdentityTest(p_value, permutations, True, p_value * (permutations + 1) < 1.5, alone)


def _statistics(products: dict[str, Array], exchange: Exchange, most: int, rng: np.random.Generator) -> Array:
    """The statistics as observed and of permutations, (1 + permutations, statistics), at most so many of these."""
    roots = [_root(own) for own in products.values()]
    factor = np.concatenate(roots, axis=1)
    ends = np.cumsum([own.shape[1] for own in roots])
    # What all atoms leave of each other where nothing differs: samples that are all alike, or in one bin.
    rounding = _NOTHING * np.array([np.linalg.norm(own, axis=1).sum() ** 2 for own in roots])
    count = min(most, 2 ** int(np.log2(at_once(_EFFORT, factor.size))))  # a rank that rounding changed changes nothing
    step = at_once(_SIGNS, len(factor))
    parts = [min(step, count - low) for low in range(0, count, step)]

    def evaluate(signs: Array) -> Array:
        each = np.split(signs @ factor, ends[:-1], axis=1)
        forms: Array = np.stack([np.einsum("ij,ij->i", own, own) for own in each], axis=1)
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
    standard = _standardise(np.cbrt(np.maximum(values, 0.0)))
    spaces = np.array([name.rpartition(": ")[0] for name in names])
    families, weights = [], []
    for space in dict.fromkeys(spaces.tolist()):
        for words, weight in zip(_FAMILIES, _WEIGHTS, strict=True):
            member = (spaces == space) & [any(word in name for word in words) for name in names]
            if member.any():
                families.append(_soft_maximum(standard[:, member]))
                weights.append(weight)
    weighted = _standardise(np.stack(families, axis=1)) + np.log(weights) / _SHARPNESS
    return _soft_maximum(weighted)[:, None]


def _soft_maximum(values: Array) -> Array:
    largest = values.max(axis=1)
    total = np.exp(_SHARPNESS * (values - largest[:, None])).sum(axis=1)
    maximum: Array = _SHARPNESS * largest + np.log(total)
    return maximum


def _standardise(values: Array) -> Array:
    standard: Array = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-300)
    return standard


def share_as_large(statistics: Array) -> float:
    """The share of rows in which the clearest statistic, standardised by all rows, is as large as in the first row."""
    largest = _standardise(statistics).max(axis=1)
    return float(np.mean(largest >= largest[0] - _TIE))


def _rows_of_pair(space: Space, units: Units, system: int) -> tuple[Indices, Indices, Flags]:
    """The rows of the space that take part, their units from 0 on, and whether they are of the reference."""
    sides = space.places[0], space.places[system]
    rows = np.concatenate(sides)
    order = np.argsort(rows)
    return rows[order], number_units(np.concatenate(units.sets)[order]), order < len(sides[0])


def number_units(unit: Indices) -> Indices:
    """Units numbered from 0 in the order in which they appear; rows of one unit are neighbours."""
    return np.cumsum(np.diff(unit, prepend=-1) != 0) - 1


def _products(
    space: Space, rows: Indices, exchange: Exchange, merged: Exchange, join: sparse.csr_array
) -> dict[str, Array]:
    """The products of merged atoms, (atoms + 1, atoms + 1), in the metric of each statistic."""
    products: dict[str, Array] = {}
    each, variances = _atoms(space.columns, rows, exchange, join, squares=True)
    products["variances by column"] = (each * regularised_inverse(variances, FLOOR)) @ each.T
    total = each.sum(axis=1)
    products["total variance"] = np.outer(total, total)
    each, variances = _atoms(space.points, rows, exchange, join)
    for strength in STRENGTHS:
        products[f"means, strength {strength:g}"] = (each * regularised_inverse(variances, strength)) @ each.T
    for partitions in space.bins:
        bins = int(partitions.max()) + 1
        products[f"{bins} bins"] = bin_products(partitions[:, rows], bins, merged)
    columns = space.columns if len(rows) == len(space.columns) else space.columns[rows]
    exact = len(rows) ** 2 * (columns.shape[1] + 100) <= _KERNEL_EFFORT
    if exact:
        return products | kernel_products(columns, merged)
    return products | random_kernel_products(lambda places: columns[places], len(rows), merged)


def _kernel_widths(read: Callable[[Indices], Values], size: int) -> Array:
    """Widths of Gaussian kernels for so many rows: none if those that are looked at are equal."""
    distances = pdist(read(np.sort(np.random.default_rng(4).permutation(size)[:_DISTANCES])).astype(np.float64))
    distances = distances[distances > 0]
    if not distances.size:
        return np.empty(0)
    small, large = np.quantile(distances, [0.05, 0.95])
    return np.append(np.geomspace(small / 3.0, max(0.6 * small, large / 24.0), _NARROW), large / 2.0)  # chosen


def kernel_products(values: Values, exchange: Exchange) -> dict[str, Array]:
    """Products of atoms for the squared mean discrepancies of Gaussian kernels of several widths."""
    widths = _kernel_widths(lambda places: values[places], len(values))
    lengths = np.einsum("ij,ij->i", values, values)
    atoms = exchange.atoms.tocsc().astype(values.dtype)

    def task(low: int) -> Array:  # kernels are symmetric: each pair of rows is looked at once
        block, other = values[low : low + ROWS], values[low:]
        squares = lengths[low:, None] + lengths[low : low + ROWS]
        squares -= 2.0 * (other @ block.T)
        np.maximum(squares, 0.0, out=squares)
        of_block, of_later = atoms[:, low : low + ROWS], atoms[:, low + ROWS :]
        products = np.empty(shape, values.dtype)
        for place, width in enumerate(widths):
            kernel = squares * values.dtype.type(-0.5 / width**2)
            np.exp(kernel, out=kernel)
            later = of_block @ (of_later @ kernel[len(block) :]).T
            products[place] = of_block @ (of_block @ kernel[: len(block)]).T + later + later.T
        return products

    shape = len(widths), atoms.shape[0], atoms.shape[0]
    total = sum_blocks(task, shape, len(values), ROWS) if len(widths) else np.zeros(shape)
    return _name_kernels(total)


def random_kernel_products(read: Callable[[Indices], Values], size: int, exchange: Exchange) -> dict[str, Array]:
    """The same by random Fourier features, for many rows, some of which are read at a time."""
    widths = _kernel_widths(read, size)
    if not len(widths):
        return {}
    wide = read(np.arange(1)).shape[1]
    frequencies = np.random.default_rng(5).normal(size=(wide, _FREQUENCIES)).astype(np.float32)
    atoms = exchange.atoms.tocsc().astype(np.float32)

    def task(low: int) -> Array:
        some = np.arange(low, min(low + ROWS, size))
        angles = read(some).astype(np.float32) @ frequencies
        waves = [wave(angles / np.float32(width)) for width in widths for wave in (np.cos, np.sin)]
        part: Array = atoms[:, low : low + ROWS] @ np.concatenate(waves, axis=1)
        return part

    total = sum_blocks(task, (atoms.shape[0], 2 * _FREQUENCIES * len(widths)), size, ROWS)
    each = np.split(total, len(widths), axis=1)
    return _name_kernels(np.stack([own @ own.T for own in each]) / _FREQUENCIES)


def _name_kernels(products: Array) -> dict[str, Array]:
    return {f"kernel, width {place} of {len(products)}": own for place, own in enumerate(products, 1)}


def _atoms(
    source: Values, rows: Indices, exchange: Exchange, join: sparse.csr_array, *, squares: bool = False
) -> tuple[Array, Array]:
    """What each merged atom adds to Δ, (atoms + 1, columns), and the variance of Δ, but for a factor, (columns,)."""
    values = source if len(rows) == len(source) else source[rows]
    each = _sum_atoms(exchange.atoms.astype(source.dtype), values, squares=squares)
    # What copies in a unit leave of each other is rounding.
    least = 64.0 * np.finfo(source.dtype).eps * float(np.abs(exchange.atoms.data).max() * np.abs(values).max())
    each[np.abs(each) < least] = 0.0
    merged = (join @ each).astype(np.float64)
    return merged, spread_of_atoms(each, exchange)


def spread_of_atoms(each: Values, exchange: Exchange) -> Array:
    """The sum of squares of atoms (atoms + 1, columns), less the mean of those whose signs change places."""
    spread: Array = np.einsum("ij,ij->j", each[:-1], each[:-1], dtype=np.float64)
    for members in exchange.permuted:
        all_of_them = members.shape == (1, len(each) - 1)
        means = each[:-1].mean(axis=0)[None] if all_of_them else each[members].mean(axis=1)
        spread -= members.shape[1] * np.einsum("ij,ij->j", means, means, dtype=np.float64)
    return np.maximum(spread, 0.0)


def _sum_atoms(atoms: sparse.csr_array, values: Values, *, squares: bool) -> Values:
    """``atoms @ values``, or atoms @ their squares, (atoms + 1, columns), without a copy of all squares."""
    each = np.zeros((atoms.shape[0], values.shape[1]), values.dtype)
    last = atoms[[-1]]

    def task(low: int) -> None:
        some = atoms[low : min(low + ROWS, len(each) - 1)]
        first, end = int(some.indices.min()), int(some.indices.max()) + 1  # atoms are in the order of the rows
        block = values[first:end]
        each[low : low + some.shape[0]] = some[:, first:end] @ (np.square(block) if squares else block)

    each_block(task, len(each) - 1, ROWS)
    if np.any(last.data):
        for low in range(0, len(values), ROWS):
            block = values[low : low + ROWS]
            each[-1] += (last[:, low : low + ROWS] @ (np.square(block) if squares else block))[0]
    return each


def bin_products(partitions: Indices, bins: int, exchange: Exchange) -> Array:
    """Products of atoms for Σ (difference of the shares of a bin)²/(its size), over all bins of (partitions, rows)."""
    member = membership(partitions, bins)
    shares = (exchange.atoms @ member).toarray()
    products: Array = (shares / np.maximum(member.sum(axis=0), 1.0)) @ shares.T
    return products


def compare_means(
    first: Array, second: Array, units: Units, *, permutations: int, rng: np.random.Generator
) -> tuple[float, bool]:
    """The p-value of "the means of the first side are not larger", and whether it is exact.

    Each column of `first` (n, statistics) and `second` (m, statistics) is one statistic, the difference of the means.
    It is standardised by its own permutations, and the largest is taken, so that the p-value needs no further
    correction. Exact where units of the two sides can be exchanged as they are; see `IdentityTest` for others.
    """
    values = np.concatenate([first, second])
    rank = np.empty(units.count, np.int64)
    rank[np.argsort(units.keys, kind="stable")] = np.arange(units.count)  # whatever the order of the samples
    unit = rank[np.concatenate(units.sets)]
    order = np.argsort(unit, kind="stable")
    unit, is_first, values = number_units(unit[order]), order < len(first), values[order] - values.mean(axis=0)
    draws, cut = draw_rows(unit, is_first)
    if not draws:
        return 1.0, False
    p_values = []
    for kept in draws:
        exchange = find_exchange(number_units(unit[kept]), is_first[kept])
        each = exchange.atoms @ values[kept]
        step = at_once(_ENTRIES, len(each))
        parts = [exchange.draw(min(step, permutations - low), rng) @ each for low in range(0, permutations, step)]
        p_values.append(share_as_large(np.concatenate([exchange.as_observed() @ each, *parts])))
    return combine_draws(p_values), not cut
