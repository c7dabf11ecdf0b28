"""The waist of the library: the masses that P and Q give to common atoms, and fast sums over the atoms.

Atoms with equal masses are evaluated once: resampled histograms of counts hold few distinct pairs (p, q), so a batch of
thousands of histograms needs few evaluations of a divergence. The sums equal a plain loop over the atoms, up to
rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import first_place, real_array, same_shape
from mallow.errors import Caveat, InputError

Array = NDArray[np.float64]

SUM_TOLERANCE = 1e-6  # chosen: probabilities rounded to float32 pass; counts, percentages and missing bins do not


def require_finite(name: str, array: Array) -> None:
    """Raise an InputError that names the first entry that is NaN or infinite."""
    infinite = ~np.isfinite(array)
    if infinite.any():
        index = first_place(infinite)
        raise InputError(f"`{name}` must be finite; got {array[index]:g} at index {index}.")


def require_weights(name: str, array: Array) -> None:
    """Raise an InputError that names the first entry that is not finite, or is negative."""
    require_finite(name, array)
    negative = array < 0
    if negative.any():
        index = first_place(negative)
        raise InputError(f"`{name}` must not be negative; got {array[index]:g} at index {index}.")


def checked_counts(name: str, counts: Any) -> Array:
    """`counts` (..., bins) as floats, if they are whole numbers and every row holds at least one sample."""
    array = real_array(name, counts)
    require_weights(name, array)
    if (array != np.round(array)).any():
        index = first_place(array != np.round(array))
        raise InputError(f"`{name}` must be whole numbers; got {array[index]:g} at index {index}.")
    empty = array.sum(axis=-1) == 0
    if empty.any():
        where = f" in row {first_place(empty)}" if empty.ndim else ""
        raise InputError(f"`{name}` must hold at least one sample, but all bins are empty{where}.")
    return array


_BLOCK = 1 << 17  # chosen: values held at once. A few arrays of one megabyte fit in the second-level cache
_MOST_CELLS = 4_000_000  # chosen: equal pairs are merged up to this product of distinct p and distinct q
_MOST_ENTRIES = 50_000_000  # chosen: entries of the matrix (rows, distinct pairs) that are held at once, 400 MB
_EVALUATION_COST = 30  # measured: evaluating a pair takes about as long as 30 entries of the matrix product


@dataclass(frozen=True, eq=False)
class Partition:
    """The bin of every sample. Resampling needs nothing else, so nothing is embedded or clustered again.

    Attributes
    ----------
    p_labels : int array (n,)
        The bin of each reference sample, from 0 to bins − 1.
    q_labels : int array (m,)
        The bin of each model sample, from 0 to bins − 1.
    centres : array (bins, d′)
        The centre of each bin, in the space that was clustered.
    """

    p_labels: NDArray[np.int64]
    q_labels: NDArray[np.int64]
    centres: NDArray[np.floating[Any]]

    @property
    def bins(self) -> int:
        """The number of bins."""
        return len(self.centres)

    @property
    def p_counts(self) -> Array:
        """The number of reference samples in each bin."""
        return np.bincount(self.p_labels, minlength=self.bins).astype(np.float64)

    @property
    def q_counts(self) -> Array:
        """The number of model samples in each bin."""
        return np.bincount(self.q_labels, minlength=self.bins).astype(np.float64)

    def swap(self) -> Partition:
        """The same bins with the two samples exchanged."""
        return Partition(self.q_labels, self.p_labels, self.centres)


@dataclass(frozen=True, eq=False)
class Masses:
    """Masses that P and Q give to the same atoms, with any leading (batch) axes.

    Build them with `Masses.from_histograms` or `Masses.from_log_ratio`.

    Attributes
    ----------
    p : array (..., atoms)
        The mass of each atom under P (the reference).
    q : array (..., atoms)
        The mass of each atom under Q (the model).
    split : int or None
        None for histograms: every cost is a sum over all atoms. With an integer, a cost of P,
        D_f(P‖·), is summed over ``atoms[:split]``, the points drawn from Q, and a cost of Q,
        D_f(Q‖·), over ``atoms[split:]``, the points drawn from P (paper: eq:divf:discretized:knn).
    weight : array (..., atoms) or None
        The weight of each atom in a sum; None means 1 for all. Negative weights make an extrapolation, as in
        `mallow.theory.extrapolated`: costs are then clipped to their range and made monotone in λ.
    partition : Partition or None
        The bin of every sample, for masses of quantised samples. Resampling, transport and diagnosis use it.
    caveats : tuple of Caveat
        Caveats of the estimator about these masses. They are passed on to the result.
    """

    p: Array
    q: Array
    split: int | None = None
    weight: Array | None = None
    partition: Partition | None = None
    caveats: tuple[Caveat, ...] = ()

    @classmethod
    def from_histograms(cls, p: Any, q: Any) -> Masses:
        """The masses of two histograms over the same bins.

        Parameters
        ----------
        p, q : array-like (..., bins)
            Probabilities: non-negative, each row summing to 1 within 1e-6. Counts are refused; turn them into
            probabilities with `mallow.smoothing` first.

        Examples
        --------
        >>> Masses.from_histograms([0.5, 0.5, 0.0], [0.25, 0.25, 0.5]).p
        array([0.5, 0.5, 0. ])
        """
        checked_p, checked_q = _probabilities("p", p), _probabilities("q", q)
        same_shape("p", checked_p, "q", checked_q)
        return cls(checked_p, checked_q)

    @classmethod
    def from_log_ratio(cls, at_p: Any, at_q: Any, *, pooled: bool = False) -> Masses:
        """The masses that an estimated likelihood ratio r = P/Q gives to the sample points.

        A point drawn from Q gets the masses (r/m, 1/m), a point drawn from P gets (1/n, 1/(n r)). With these, the
        plain sum of a divergence over the atoms *is* the sample mean of the generator
        (paper: eq:knn:fdiv-from-LR, eq:divf:discretized:knn).

        Parameters
        ----------
        at_p : array-like (..., n)
            log r at the points drawn from P. Infinities are legal: r = ∞ means that Q has no mass there.
        at_q : array-like (..., m)
            log r at the points drawn from Q. r = 0 is legal; r = ∞ makes D_f(P‖·) infinite if f*(0) > 0.
        pooled : bool
            False, as in the paper: a cost of P is averaged over the points of Q only, which do not show regions that
            the model misses entirely, so disjoint samples have an integral of 2/3 instead of 1. True: every point of
            both samples is an atom with masses proportional to (r, 1)/(n r + m), for both costs. This shows missed
            regions and has no outliers.

        Examples
        --------
        >>> Masses.from_log_ratio(at_p=[0.0, 0.0], at_q=[0.0, -np.inf]).p
        array([0.5, 0. , 0.5, 0.5])
        """
        ratio_p, ratio_q = real_array("at_p", at_p), real_array("at_q", at_q)
        for name, ratio in (("at_p", ratio_p), ("at_q", ratio_q)):
            if np.isnan(ratio).any():
                raise InputError(f"`{name}` must hold log-ratios; got NaN at index {first_place(np.isnan(ratio))}.")
        if ratio_p.shape[:-1] != ratio_q.shape[:-1]:
            raise InputError(
                f"`at_p` and `at_q` must have the same leading axes; got shapes {ratio_p.shape} and {ratio_q.shape}."
            )
        n, m = ratio_p.shape[-1], ratio_q.shape[-1]
        if pooled:
            ratio = np.concatenate([ratio_p, ratio_q], axis=-1)
            with np.errstate(over="ignore", under="ignore"):
                p, q = 1.0 / (n + m * np.exp(-ratio)), 1.0 / (m + n * np.exp(ratio))
            # Sums of sorted masses are bit-equal for any order of the points.
            totals = (np.sort(side, axis=-1).sum(axis=-1, keepdims=True) for side in (p, q))
            return cls(*(side / np.maximum(total, 1e-300) for side, total in zip((p, q), totals, strict=True)))
        with np.errstate(over="ignore", under="ignore"):
            p = np.concatenate([np.exp(ratio_q) / m, np.full_like(ratio_p, 1 / n)], axis=-1)
            q = np.concatenate([np.full_like(ratio_q, 1 / m), np.exp(-ratio_p) / n], axis=-1)
        return cls(p, q, split=m)

    def swap(self) -> Masses:
        """The same atoms with the roles of P and Q exchanged."""
        partition = None if self.partition is None else self.partition.swap()
        if self.split is None:
            return replace(self, p=self.q, q=self.p, partition=partition)
        turn = self.p.shape[-1] - self.split
        weight = None if self.weight is None else np.roll(self.weight, turn, axis=-1)
        p, q = np.roll(self.q, turn, axis=-1), np.roll(self.p, turn, axis=-1)
        return replace(self, p=p, q=q, split=turn, weight=weight, partition=partition)

    @property
    def plain(self) -> bool:
        """Whether these are masses of histograms: the same atoms for both costs, each with weight 1."""
        return self.split is None and self.weight is None

    def cost_of_p(self, values: Callable[[Array, Array], Array]) -> Array:
        """The sum of `values` over the atoms for costs of P, shape (..., v).

        `values` maps masses p (a,) and q (a,) of some atoms to an array (a, v), which may be infinite.
        """
        return self._tables[0].sums(values)

    def cost_of_q(self, values: Callable[[Array, Array], Array]) -> Array:
        """The sum of `values` over the atoms for costs of Q; see `cost_of_p`."""
        return self._tables[-1].sums(values)

    @cached_property
    def _tables(self) -> list[AtomTable]:
        halves = [slice(None)] if self.split is None else [slice(self.split), slice(self.split, None)]
        weight = np.ones_like(self.p) if self.weight is None else self.weight
        return [build_table(self.p[..., half], self.q[..., half], weight[..., half]) for half in halves]


def _probabilities(name: str, values: Any) -> Array:
    array = real_array(name, values)
    require_weights(name, array)
    off = np.abs(array.sum(axis=-1) - 1.0)
    if (off > SUM_TOLERANCE).any():
        row = np.unravel_index(int(np.argmax(off)), off.shape)
        total = float(array.sum(axis=-1)[row])
        counts = np.array_equal(array, np.round(array))
        way_out = " Turn counts into probabilities with mallow.smoothing first." if counts else ""
        where = f" in row {tuple(int(i) for i in row)}" if row else ""
        raise InputError(f"`{name}` must sum to 1 within {SUM_TOLERANCE:g}; got {total:.9g}{where}.{way_out}")
    return array


@dataclass(frozen=True, eq=False)
class AtomTable:
    """Atoms of a batch of histograms, with equal pairs of masses merged."""

    batch: tuple[int, ...]  # the leading axes of the masses; flattened, they are the rows below
    p: Array  # (pairs,): the distinct pairs of masses; (rows, atoms) if nothing is merged
    q: Array
    weight: Array  # (rows, atoms)
    column: NDArray[np.intp] | None  # the pair of each atom, `pairs` for one without mass; None if nothing is merged

    def sums(self, values: Callable[[Array, Array], Array]) -> Array:
        """Σ weight · values(p, q) for each row, shape (*batch, v)."""
        if self.column is None:
            rows = zip(self.p, self.q, self.weight, strict=True)
            parts = [_weighted_sums(p, q, weight[None], values) for p, q, weight in rows]
        else:
            parts = [_weighted_sums(self.p, self.q, weights, values) for weights in self._pair_weights]
        return np.concatenate(parts).reshape(*self.batch, -1)

    @property
    def _pair_weights(self) -> Iterator[Array]:
        """The weight of each pair in each row, in blocks of rows, since all at once may be too large."""
        if len(self.p) * len(self.weight) <= _MOST_ENTRIES:
            yield self._all_pair_weights
            return
        step = max(1, _MOST_ENTRIES // len(self.p))
        for start in range(0, len(self.weight), step):
            yield self._pair_weights_of(slice(start, start + step))

    @cached_property
    def _all_pair_weights(self) -> Array:
        return self._pair_weights_of(slice(None))

    def _pair_weights_of(self, rows: slice) -> Array:
        weight, pairs = self.weight[rows], len(self.p)
        column = np.zeros_like(weight, dtype=np.intp) if self.column is None else self.column[rows]
        cell = column + (pairs + 1) * np.arange(len(weight))[:, None]  # the last column collects atoms without mass
        totals = np.bincount(cell.ravel(), weight.ravel(), minlength=(pairs + 1) * len(weight))
        return totals.reshape(len(weight), -1)[:, :pairs].astype(np.float64, copy=False)


def build_table(p: Array, q: Array, weight: Array) -> AtomTable:
    """The table of masses (..., atoms); equal pairs are merged if that saves time."""
    batch, atoms = p.shape[:-1], p.shape[-1]
    p, q, weight = (array.reshape(-1, atoms) for array in (p, q, weight))
    values_p, place_p = _distinct(p)
    values_q, place_q = _distinct(q)
    cells = len(values_p) * len(values_q)
    if cells > _MOST_CELLS:
        return AtomTable(batch, p, q, weight, None)
    code = place_p * len(values_q) + place_q
    used = np.bincount(code.ravel(), minlength=cells) > 0
    used[(values_p[:, None] + values_q == 0).ravel()] = False  # atoms without mass
    pairs = int(used.sum())
    if pairs > _EVALUATION_COST * atoms:
        return AtomTable(batch, p, q, weight, None)
    column = np.where(used, np.cumsum(used) - 1, pairs)[code]
    at_p, at_q = np.divmod(np.flatnonzero(used), len(values_q))
    return AtomTable(batch, values_p[at_p], values_q[at_q], weight, column)


def _distinct(values: Array) -> tuple[Array, NDArray[np.intp]]:
    """The distinct values in rising order, and the place of each entry among them."""
    ordered = np.sort(values, axis=None)
    distinct = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] + 0.0  # turns -0.0 into 0.0
    # A hashed look-up comes first, since a binary search for every entry would take most of the time.
    slots = np.zeros(1 << 16, dtype=np.intp)
    slots[_slot(distinct)] = np.arange(len(distinct))
    index = slots[_slot(values)]
    missed = distinct[index] != values
    index[missed] = np.searchsorted(distinct, values[missed])
    return distinct, index


def _slot(values: Array) -> NDArray[np.uint64]:
    """A hash of 16 bits: Fibonacci hashing of the bits of the number."""
    mixed = (values + 0.0).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ divided by the golden ratio
    return mixed >> np.uint64(48)


def _weighted_sums(p: Array, q: Array, weights: Array, values: Callable[[Array, Array], Array]) -> Array:
    """weights @ values(p, q) in blocks of atoms, with 0·∞ = 0.

    A row that contains an infinite cost is ∞, even if the weight of this cost is negative.
    """
    width = values(p[:1], q[:1]).shape[-1]
    step = max(1, _BLOCK // width)
    total = np.zeros((len(weights), width))
    for start in range(0, len(p), step):
        block = slice(start, start + step)
        costs, weight = values(p[block], q[block]), weights[:, block]
        finite = np.isfinite(costs)
        if not finite.all():
            if np.isnan(costs).any():
                raise InputError(
                    "The generator `f` of the divergence must not return NaN, but it did for legal masses."
                )
            total[(weight != 0).astype(np.float64) @ ~finite > 0] = np.inf
            costs = np.where(finite, costs, 0.0)
        total += weight @ costs
    return total
