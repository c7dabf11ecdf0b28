"""The rules of all views, learned from exact sums over some cells of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.engine import cores, ordered_map, single_threaded_blas
from mallow.evidence._blocks import at_once
from mallow.evidence._coarse import CellSums, Metrics
from mallow.evidence._units import Indices
from mallow.evidence._views import PRIOR_SHARE, discriminant, shrink_variances
from mallow.theory import Array

_ROOTS = 2**22  # chosen: numbers of the factors that are held at once, 32 MB


@dataclass(frozen=True, eq=False)
class Rules:
    """Every view is a sum: of the integers of a row, of their squares, of its squared length, of its bins, and a
    constant.

    Attributes
    ----------
    linear, quadratic : array (views, rules, d)
        The factors of the integers, and of their squares.
    length, constant : array (views, rules)
    bins : tuple of arrays (views, rules, bins)
        For each partition, what its bins add.
    """

    linear: Array
    quadratic: Array
    length: Array
    constant: Array
    bins: tuple[Array, ...]

    def mix(self, weights: Array) -> Rules:
        """One view for each row of `weights` (rows, views, rules): a weighted sum over all views and rules."""
        linear, quadratic = (np.einsum("rvp,vpd->rd", weights, own)[:, None] for own in (self.linear, self.quadratic))
        length, constant = (np.einsum("rvp,vp->r", weights, own)[:, None] for own in (self.length, self.constant))
        bins = tuple(np.einsum("rvp,vpb->rb", weights, own)[:, None] for own in self.bins)
        return Rules(linear, quadratic, length, constant, bins)

    def score(self, integers: NDArray[Any], lengths: Array, labels: Indices) -> Array:
        """The scores of rows (n, d), whose bins are ``labels`` (partitions, n): (views, rules, n)."""
        width = self.linear.shape[-1]
        shape = *self.constant.shape, len(integers)
        values = integers.astype(np.float64)
        scores: Array = (self.linear.reshape(-1, width) @ values.T).reshape(shape)
        some = np.flatnonzero(self.quadratic.any(axis=(1, 2)))
        if some.size:
            squares = np.square(values, out=values).T
            scores[some] += (self.quadratic[some].reshape(-1, width) @ squares).reshape(len(some), *shape[1:])
        scores += self.length[..., None] * lengths + self.constant[..., None]
        for table, own in zip(self.bins, labels, strict=True):
            views = np.flatnonzero(table.any(axis=(1, 2)))
            scores[views] += table[views][:, :, own]
        return scores


def learn_rules(
    sums: CellSums,
    metrics: Metrics,
    kept: Array,
    systems: Sequence[int],
    *,
    strengths: Sequence[float],
    variances: bool,
    bin_counts: Sequence[Sequence[Array]],
    length_sums: tuple[Array, Array],
) -> Rules:
    """Rules that are learned from some cells each.

    Parameters
    ----------
    sums, metrics : CellSums, Metrics
        Of the cells.
    kept : array (rules, cells)
        1 for the cells that a rule is learned from, 0 for the others.
    systems : sequence of int
        The sets that are the model, each with the same weight; set 0 is the reference.
    bin_counts : sequence of sequences of arrays (cells, sets, bins)
        For each view by bins, the counts of each of its partitions.
    length_sums : two arrays (cells, sets)
        The sums of the squared lengths of rows, and of their squares.
    """
    names = len(strengths) + 2 * variances + len(bin_counts)
    width, rules = sums.sums.shape[-1], len(kept)
    linear, quadratic = np.zeros((2, names, rules, width))
    length, constant = np.zeros((2, names, rules))
    partitions = [own for view in bin_counts for own in view]
    bins = tuple(np.zeros((names, rules, own.shape[-1])) for own in partitions)

    def learn(number: int) -> None:
        cells = np.flatnonzero(kept[number]).tolist()
        means = _Means(sums, cells, systems)
        view = 0
        for _ in strengths:
            constant[view, number] = -linear[view, number] @ sum(means.of(sums.sums)) / 2.0
            view += 1
        if variances:
            quadratic[view, number], linear[view, number], constant[view, number] = _variance_rule(sums, cells, means)
            slope, middle = discriminant(*means.of(length_sums[0]), *means.of(length_sums[1]))
            length[view + 1, number], constant[view + 1, number] = float(slope), float(-slope * middle)
            view += 2
        place = 0
        for own_partitions in bin_counts:
            for counts in own_partitions:
                bins[place][view, number] = _log_shares(counts, means) / len(own_partitions)
                place += 1
            view += 1

    apart = [_Means(sums, np.flatnonzero(own).tolist(), systems).of(sums.sums) for own in kept]
    targets = np.stack([of_p - of_q for of_p, of_q in apart], axis=1)
    with single_threaded_blas():
        step = at_once(_ROOTS, targets.shape[0] ** 2)
        for low in range(0, len(strengths), step):
            some = slice(low, min(low + step, len(strengths)))
            linear[some] = metrics.solve(targets, kept, strengths[some]).swapaxes(1, 2)
        for _ in ordered_map(learn, range(rules), cores()):
            pass
    return Rules(linear, quadratic, length, constant, bins)


class _Means:
    """Means over the rows of some cells, of the reference and of the model."""

    def __init__(self, sums: CellSums, kept: Sequence[int], systems: Sequence[int]) -> None:
        self._kept, self._systems = kept, list(systems)
        self._counts = sums.counts[kept].sum(axis=0)  # (sets,)
        units = sums.units[kept].sum(axis=0)
        self.units = float(units[0]), float(units[self._systems].sum())

    def of(self, totals: Array) -> tuple[Array, Array]:
        """From sums (cells, sets, ...) over rows."""
        kept = totals[self._kept].sum(axis=0)
        each = kept / self._counts.reshape(-1, *(1,) * (kept.ndim - 1))
        return each[0], each[self._systems].mean(axis=0)


def _variance_rule(sums: CellSums, kept: Sequence[int], means: _Means) -> tuple[Array, Array, float]:
    """Factors of squares and values, and a constant.

    The log-ratio of Gaussians with a common centre in every column.
    """
    size = float(sums.counts[kept].sum())
    centre = sums.sums[kept].sum(axis=(0, 1)) / size
    about = sums.squares - 2.0 * centre * sums.sums + centre**2 * sums.counts[..., None]
    total = about[kept].sum(axis=(0, 1)) / size
    scale = np.where(total > 0, total, 1.0)  # columns have variances around 1
    each = [own / scale for own in means.of(about)]
    n, m = (np.asarray(count) for count in means.units)
    of_p, of_q = shrink_variances(each[0], each[1], n, m)
    rule = (0.5 / of_q - 0.5 / of_p) / scale
    constant = float((0.5 * np.log(of_q / of_p) + rule * centre**2).sum())
    return rule, -2.0 * rule * centre, constant


def _log_shares(counts: Array, means: _Means) -> Array:
    """The log-ratio of the shares of each bin."""
    logs = []
    for share, units in zip(means.of(counts), means.units, strict=True):
        logs.append(np.log((share * units + PRIOR_SHARE) / (units + PRIOR_SHARE * counts.shape[-1])))
    ratio: Array = logs[0] - logs[1]
    return ratio
