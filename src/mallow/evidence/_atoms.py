"""Products of atoms for each statistic of the test of identity, from rows in memory.

Statistics are quadratic in Δ, the difference of the means (reference minus model) of some features of the samples.
There are three families: moments (regularised means in the full width, and variances), counts of bins, and Gaussian
kernels of several widths, most of them narrow.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from mallow.evidence._blocks import ROWS, Values, each_block, sum_blocks
from mallow.evidence._exchange import Exchange
from mallow.evidence._space import Space, membership, regularised_inverse
from mallow.evidence._units import Indices
from mallow.theory import Array

STRENGTHS = (0.001, 0.01, 0.1, 1.0)  # strengths of the regularisation of means, in units of the mean variance
FLOOR = 0.01  # the same for squares; chosen
_NARROW = 3  # chosen: kernels that are narrower than most distances. One more is wide
_DISTANCES = 256  # chosen: samples whose distances determine the widths
_EQUAL = 1e-12  # chosen: of their squared lengths, up to which the squared distance of two samples is rounding
_FREQUENCIES = 128  # chosen: random features, which approximate kernels of many samples
_KERNEL_EFFORT = 1 << 33  # chosen: multiplications that exact kernels may take
_ATOMS = 512  # chosen: atoms that are exchanged at first


def merge_atoms(exchange: Exchange) -> tuple[Exchange, sparse.csr_array]:
    """The atoms that are exchanged at first, whatever the seed; see `Exchange.merge`."""
    return exchange.merge(_ATOMS, exchange.generator(2))


def atom_products(
    space: Space, rows: Indices, exchange: Exchange, merged: Exchange, join: sparse.csr_array
) -> dict[str, Array]:
    """The products of merged atoms, (atoms + 1, atoms + 1), in the metric of each statistic."""
    products: dict[str, Array] = {}
    squares, variances = _sums(space.columns, rows, exchange, join, squares=True)
    products["variances by column"] = (squares * regularised_inverse(variances, FLOOR)) @ squares.T
    total = squares.sum(axis=1)
    products["total variance"] = np.outer(total, total)
    means, variances = _sums(space.points, rows, exchange, join)
    for strength in STRENGTHS:
        products[f"means, strength {strength:g}"] = (means * regularised_inverse(variances, strength)) @ means.T
    for partitions in space.bins:
        bins = int(partitions.max()) + 1
        products[f"{bins} bins"] = bin_products(partitions[:, rows], bins, merged)
    columns = space.columns if len(rows) == len(space.columns) else space.columns[rows]
    exact = len(rows) ** 2 * (columns.shape[1] + 100) <= _KERNEL_EFFORT
    if exact:
        return products | kernel_products(columns, merged)
    return products | random_kernel_products(lambda places: columns[places], len(rows), merged)


def _kernel_widths(read: Callable[[Indices], Values], size: int) -> Array:
    """Widths of Gaussian kernels for this many rows; none if the rows that determine them are equal."""
    rows = read(np.sort(np.random.default_rng(4).permutation(size)[:_DISTANCES])).astype(np.float64)
    products = rows @ rows.T
    first, second = np.triu_indices(len(rows), 1)
    lengths = products.diagonal()[first] + products.diagonal()[second]
    squares = lengths - 2.0 * products[first, second]
    squares = squares[squares > _EQUAL * lengths]
    if not squares.size:
        return np.empty(0)
    small, large = np.quantile(np.sqrt(squares), [0.05, 0.95])
    return np.append(np.geomspace(small / 3.0, max(0.6 * small, large / 24.0), _NARROW), large / 2.0)  # chosen


def kernel_products(values: Values, exchange: Exchange) -> dict[str, Array]:
    """Products of atoms for the squared mean discrepancies of Gaussian kernels of several widths."""
    widths = _kernel_widths(lambda places: values[places], len(values))
    lengths = np.einsum("ij,ij->i", values, values)
    atoms = exchange.atoms.tocsc().astype(values.dtype)

    def task(low: int) -> Array:  # kernels are symmetric, so each pair of rows is used once
        block, other = values[low : low + ROWS], values[low:]
        squares, kernel = lengths[low:, None] + lengths[low : low + ROWS], other @ block.T
        squares -= np.multiply(kernel, 2.0, out=kernel)
        np.maximum(squares, 0.0, out=squares)
        of_block, of_later = atoms[:, low : low + ROWS], atoms[:, low + ROWS :]
        products = np.empty(shape, values.dtype)
        for number, width in enumerate(widths):
            np.multiply(squares, values.dtype.type(-0.5 / width**2), out=kernel)
            np.exp(kernel, out=kernel)
            later = of_block @ (of_later @ kernel[len(block) :]).T
            products[number] = of_block @ (of_block @ kernel[: len(block)]).T + later + later.T
        return products

    shape = len(widths), atoms.shape[0], atoms.shape[0]
    total = sum_blocks(task, shape, len(values), ROWS) if len(widths) else np.zeros(shape)
    return _name_kernels(total)


def random_kernel_products(read: Callable[[Indices], Values], size: int, exchange: Exchange) -> dict[str, Array]:
    """The same by random Fourier features, for many rows, which are read in chunks."""
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
    sums = np.split(total, len(widths), axis=1)
    return _name_kernels(np.stack([part @ part.T for part in sums]) / _FREQUENCIES)


def _name_kernels(products: Array) -> dict[str, Array]:
    return {f"kernel, width {number} of {len(products)}": table for number, table in enumerate(products, 1)}


def _sums(
    source: Values, rows: Indices, exchange: Exchange, join: sparse.csr_array, *, squares: bool = False
) -> tuple[Array, Array]:
    """The part of each merged atom in Δ, (atoms + 1, columns), and the variance of Δ up to a factor, (columns,)."""
    values = source if len(rows) == len(source) else source[rows]
    of_atoms = _sum_atoms(exchange.atoms.astype(source.dtype), values, squares=squares)
    # The difference between copies in a unit is rounding.
    least = 64.0 * np.finfo(source.dtype).eps * float(np.abs(exchange.atoms.data).max() * np.abs(values).max())
    of_atoms[np.abs(of_atoms) < least] = 0.0
    merged = (join @ of_atoms).astype(np.float64)
    return merged, _spread(of_atoms, exchange)


def _spread(of_atoms: Values, exchange: Exchange) -> Array:
    """The sum of squares of atoms (atoms + 1, columns), without the mean of atoms whose signs are permuted."""
    spread: Array = np.einsum("ij,ij->j", of_atoms[:-1], of_atoms[:-1], dtype=np.float64)
    for members in exchange.permuted:
        all_of_them = members.shape == (1, len(of_atoms) - 1)
        means = of_atoms[:-1].mean(axis=0)[None] if all_of_them else of_atoms[members].mean(axis=1)
        spread -= members.shape[1] * np.einsum("ij,ij->j", means, means, dtype=np.float64)
    return np.maximum(spread, 0.0)


def _sum_atoms(atoms: sparse.csr_array, values: Values, *, squares: bool) -> Values:
    """``atoms @ values``, or atoms @ their squares, (atoms + 1, columns), without a copy of all squares."""
    of_atoms = np.zeros((atoms.shape[0], values.shape[1]), values.dtype)
    last = atoms[[-1]]

    def task(low: int) -> None:
        some = atoms[low : min(low + ROWS, len(of_atoms) - 1)]
        first, end = int(some.indices.min()), int(some.indices.max()) + 1  # atoms are in the order of the rows
        block = values[first:end]
        of_atoms[low : low + some.shape[0]] = some[:, first:end] @ (np.square(block) if squares else block)

    each_block(task, len(of_atoms) - 1, ROWS)
    if np.any(last.data):
        for low in range(0, len(values), ROWS):
            block = values[low : low + ROWS]
            of_atoms[-1] += (last[:, low : low + ROWS] @ (np.square(block) if squares else block))[0]
    return of_atoms


def bin_products(partitions: Indices, bins: int, exchange: Exchange) -> Array:
    """Products of atoms for Σ (difference of the shares of a bin)²/(its size), over all bins of (partitions, rows)."""
    member = membership(partitions, bins)
    shares = (exchange.atoms @ member).toarray()
    products: Array = (shares / np.maximum(member.sum(axis=0), 1.0)) @ shares.T
    return products
