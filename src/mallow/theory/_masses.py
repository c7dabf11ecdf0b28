"""The waist of the library: the masses that P and Q give to common atoms.

Whatever yields `Masses` gets every divergence, the frontier and all summaries; whatever needs a
frontier never hears of k-means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import first_place, real_array, same_shape
from mallow.errors import Caveat, InputError

__all__ = ["Masses", "Partition"]

Array = NDArray[np.float64]

_SUM_TOLERANCE = 1e-6
_BLOCK = 1 << 17  # values held at once: a few arrays of one megabyte stay in the second-level cache
_MOST_CELLS = 4_000_000  # distinct p times distinct q, up to which equal pairs are looked for
_MOST_TIMES = 50_000_000  # entries of the table that says how often each pair stands in each row


@dataclass(frozen=True, eq=False)
class Partition:
    """Which bin every sample fell into: sufficient for resampling, without embedding or clustering again.

    Attributes
    ----------
    p_labels, q_labels : int array (n,), (m,)
        The bin of each reference and of each model sample, from 0 to bins − 1.
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
        """How many reference samples fell into each bin."""
        return np.bincount(self.p_labels, minlength=self.bins).astype(np.float64)

    @property
    def q_counts(self) -> Array:
        """How many model samples fell into each bin."""
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
    p, q : array (..., atoms)
        The mass of each atom under P (the reference) and under Q (the model).
    split : int or None
        None for histograms: every cost is a sum over all atoms. With an integer, a cost of P,
        D_f(P‖·), is summed over ``atoms[:split]``, the points drawn from Q, and a cost of Q,
        D_f(Q‖·), over ``atoms[split:]``, the points drawn from P (paper: eq:divf:discretized:knn).
    weight : array (..., atoms) or None
        How much each atom counts in a sum; None: once. Negative weights make an extrapolation, as in
        `mallow.debiased`: costs are then clipped to their range and made monotone in λ.
    partition : Partition or None
        For masses of quantised samples: the bin of every sample. Resampling, transport and diagnosis use it.
    caveats : tuple of Caveat
        What the estimator found doubtful. They travel with the masses to the result.
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
            Probabilities: non-negative, each row summing to 1 within 1e-6. Counts are refused;
            pass them through `mallow.smoothing` first.

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

        A point drawn from Q gets (r/m, 1/m), a point drawn from P gets (1/n, 1/(n r)); with these, the
        plain sum of a divergence over atoms *is* the sample mean of the generator
        (paper: eq:knn:fdiv-from-LR, eq:divf:discretized:knn).

        Parameters
        ----------
        at_p : array-like (..., n)
            log r at the points drawn from P. Infinities are legal: r = ∞ means that Q was not seen there.
        at_q : array-like (..., m)
            log r at the points drawn from Q; r = 0 is legal, r = ∞ makes D_f(P‖·) infinite if f*(0) > 0.
        pooled : bool
            False, as in the paper: a cost of P is averaged over the points of Q alone, where what the model misses
            altogether cannot be seen; disjoint samples then have an integral of 2/3 instead of 1. True: every point of
            both samples is an atom with masses proportional to (r, 1)/(n r + m), for both costs; it sees what is
            missed and has no outliers.

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
            return cls(*(side / np.maximum(side.sum(axis=-1, keepdims=True), 1e-300) for side in (p, q)))
        with np.errstate(over="ignore", under="ignore"):
            p = np.concatenate([np.exp(ratio_q) / m, np.full_like(ratio_p, 1 / n)], axis=-1)
            q = np.concatenate([np.full_like(ratio_q, 1 / m), np.exp(-ratio_p) / n], axis=-1)
        return cls(p, q, split=m)

    def swap(self) -> Masses:
        """The same atoms with the roles of P and Q exchanged."""
        if self.split is None:
            partition = None if self.partition is None else self.partition.swap()
            return Masses(self.q, self.p, weight=self.weight, partition=partition, caveats=self.caveats)
        turn = self.p.shape[-1] - self.split
        weight = None if self.weight is None else np.roll(self.weight, turn, axis=-1)
        p, q = np.roll(self.q, turn, axis=-1), np.roll(self.p, turn, axis=-1)
        return Masses(p, q, split=turn, weight=weight)

    @property
    def plain(self) -> bool:
        """Whether these are the masses of histograms: shared by both costs, and counted once."""
        return self.split is None and self.weight is None

    def cost_of_p(self, values: Callable[[Array, Array], Array]) -> Array:
        """The sum of `values` over the atoms at which costs of P are evaluated, shape (..., v).

        `values` maps the masses (a,), (a,) of some atoms to an array (a, v); it may be infinite.
        """
        return self._tables[0].sums(values)

    def cost_of_q(self, values: Callable[[Array, Array], Array]) -> Array:
        """The same over the atoms at which costs of Q are evaluated."""
        return self._tables[-1].sums(values)

    @cached_property
    def _tables(self) -> list[_Table]:
        halves = [slice(None)] if self.split is None else [slice(self.split), slice(self.split, None)]
        weight = np.ones_like(self.p) if self.weight is None else self.weight
        return [_table(self.p[..., half], self.q[..., half], weight[..., half]) for half in halves]


@dataclass(frozen=True, eq=False)
class _Table:
    """Atoms with equal masses merged: resampled histograms of counts hold few distinct pairs (p, q).

    `p`, `q` are the distinct pairs, and `column[r, a]` says which of them atom a of row r is. None where
    nothing is merged: p and q are then (rows, atoms).
    """

    batch: tuple[int, ...]
    p: Array
    q: Array
    weight: Array
    column: NDArray[np.intp] | None

    def sums(self, values: Callable[[Array, Array], Array]) -> Array:
        """Σ weight · values(p, q) for each row, shape (*batch, v)."""
        if self.column is None:
            each = zip(self.p, self.q, self.weight, strict=True)
            parts = [_weighted_sums(p, q, weight[None], values) for p, q, weight in each]
        else:
            parts = [_weighted_sums(self.p, self.q, times, values) for times in self._times]
        return np.concatenate(parts).reshape(*self.batch, -1)

    @property
    def _times(self) -> Iterator[Array]:
        """How much each pair counts in each row, some rows at a time: together they may be too large."""
        if len(self.p) * len(self.weight) <= _MOST_TIMES:
            yield self._all_times
            return
        step = max(1, _MOST_TIMES // len(self.p))
        for start in range(0, len(self.weight), step):
            yield self._some_times(slice(start, start + step))

    @cached_property
    def _all_times(self) -> Array:
        return self._some_times(slice(None))

    def _some_times(self, rows: slice) -> Array:
        weight, distinct = self.weight[rows], len(self.p)
        column = np.zeros_like(weight, dtype=np.intp) if self.column is None else self.column[rows]
        place = column + (distinct + 1) * np.arange(len(weight))[:, None]  # the last column is for no mass
        times = np.bincount(place.ravel(), weight.ravel(), minlength=(distinct + 1) * len(weight))
        return times.reshape(len(weight), -1)[:, :distinct].astype(np.float64, copy=False)


def _table(p: Array, q: Array, weight: Array) -> _Table:
    batch, atoms = p.shape[:-1], p.shape[-1]
    p, q, weight = (values.reshape(-1, atoms) for values in (p, q, weight))
    values_p, place_p = _distinct(p)
    values_q, place_q = _distinct(q)
    cells = len(values_p) * len(values_q)
    if cells > _MOST_CELLS:
        return _Table(batch, p, q, weight, None)
    code = place_p * len(values_q) + place_q
    used = np.bincount(code.ravel(), minlength=cells) > 0
    used[(values_p[:, None] + values_q == 0).ravel()] = False  # atoms without mass
    distinct = int(used.sum())
    if distinct > 30 * atoms:  # a product with a table entry costs about 1/30 of an evaluation
        return _Table(batch, p, q, weight, None)
    column = np.where(used, np.cumsum(used) - 1, distinct)[code]
    at_p, at_q = np.divmod(np.flatnonzero(used), len(values_q))
    return _Table(batch, values_p[at_p], values_q[at_q], weight, column)


def _distinct(values: Array) -> tuple[Array, NDArray[np.intp]]:
    """The distinct values, rising, and the place of each entry among them."""
    ordered = np.sort(values, axis=None)
    found = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] + 0.0  # -0.0 is 0.0
    # A hashed look-up first, since a binary search of every entry would take most of the time.
    slots = np.zeros(1 << 16, dtype=np.intp)
    slots[_slot(found)] = np.arange(len(found))
    place = slots[_slot(values)]
    missed = found[place] != values
    place[missed] = np.searchsorted(found, values[missed])
    return found, place


def _slot(values: Array) -> NDArray[np.uint64]:
    mixed = (values + 0.0).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return mixed >> np.uint64(48)


def _weighted_sums(p: Array, q: Array, times: Array, values: Callable[[Array, Array], Array]) -> Array:
    """times @ values(p, q) in blocks of atoms, with 0·∞ = 0. Infinite costs are not extrapolated: ∞."""
    width = values(p[:1], q[:1]).shape[-1]
    step = max(1, _BLOCK // width)
    total = np.zeros((len(times), width))
    for start in range(0, len(p), step):
        block = slice(start, start + step)
        found, weight = values(p[block], q[block]), times[:, block]
        finite = np.isfinite(found)
        if not finite.all():
            if np.isnan(found).any():
                raise InputError("The divergence's generator `f` returned NaN for masses that are legal.")
            total[(weight != 0).astype(np.float64) @ ~finite > 0] = np.inf
            found = np.where(finite, found, 0.0)
        total += weight @ found
    return total


def _probabilities(name: str, values: Any) -> Array:
    array = real_array(name, values)
    way_out = " Turn counts into probabilities with mallow.theory.smoothing first."
    if not np.isfinite(array).all():
        place = first_place(~np.isfinite(array))
        raise InputError(f"`{name}` must be finite; got {array[place]} at index {place}.")
    if (array < 0).any():
        place = first_place(array < 0)
        raise InputError(f"`{name}` must not be negative; got {array[place]} at index {place}.")
    off = np.abs(array.sum(axis=-1) - 1.0)
    if (off > _SUM_TOLERANCE).any():
        row = np.unravel_index(int(np.argmax(off)), off.shape)
        total = float(array.sum(axis=-1)[row])
        counts = way_out if np.array_equal(array, np.round(array)) else ""
        where = f" in row {tuple(int(i) for i in row)}" if row else ""
        raise InputError(f"`{name}` must sum to 1 within {_SUM_TOLERANCE:g}; got {total:.9g}{where}.{counts}")
    return array
