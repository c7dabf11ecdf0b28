"""The witness: a function that tells model from reference, learned on other samples than those it is judged on.

h(x) estimates log p(x)/q(x). It stacks cheap views of the samples, each learned in closed form from sums: linear
discriminants in the full width at several strengths of regularisation, differences of variances, bins, and whatever a user
adds. Folds never cut a unit. A view that scores fold i for the stack of fold j was learned without both, so that neither
the views nor their weights have seen what they are judged on. Several assignments of folds are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mallow._checks import positive, seed_from, whole
from mallow.engine import single_threaded_blas
from mallow.errors import InputError
from mallow.estimate import Features, checked_pair
from mallow.inference._space import LeaveUnitOut, Space, find_space
from mallow.inference._stack import fit_stack, stack_gain
from mallow.inference._units import Units, find_units
from mallow.samples import Samples
from mallow.theory import Array, Masses

__all__ = ["Learner", "View", "Witness", "pooled_masses"]

Pair = tuple[int, int]

View = Callable[[Features, Features, Features], Any]
"""(reference samples, model samples, other samples) → one number for each of the others, larger for those that look more
like the reference; learned from the first two alone."""

_STRENGTHS = (0.001, 0.01, 0.1, 1.0)  # EVIDENCE: of the mean variance; one eigendecomposition serves all
_GATE = 0.5  # chosen: standard errors of the inner gain below which nothing counts as learned; one more, and all does
_RADIUS = 0.1  # chosen: strength of the metric in which distances from the centre are compared
_NUMBERS = 2**25  # chosen: numbers held at once, 256 MB
_PRIOR_ROWS = 20.0  # chosen: samples that the common variance counts as


@dataclass(frozen=True)
class Witness:
    """How held-out evidence is learned: the views, and the folds.

    Called on two samples like an estimator, it returns the masses of its likelihood ratio.

    Parameters
    ----------
    strengths : tuple of float
        Of the regularisation of the linear discriminants, in units of the mean variance along an axis.
    variances : bool
        Whether to look at variances: by axis, and of the distance from the centre.
    bins : bool
        Whether to look at bins, two partitions by k-means.
    views : tuple of functions
        More views: ``view(reference, model, others) -> scores of the others``, larger for samples that look more like
        the reference. It is called for each pair of folds and each assignment, with rows of features.
    folds : int
        At least 3.
    assignments : int
        Assignments of units to folds that are averaged.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(300, 5)), rng.normal(0.8, 1.0, size=(300, 5))
    >>> Witness()(x, y).p.shape
    (600,)
    """

    strengths: tuple[float, ...] = _STRENGTHS
    variances: bool = True
    bins: bool = True
    views: tuple[View, ...] = ()
    folds: int = 5
    assignments: int = 8

    scale: ClassVar[float] = 5.0

    def __post_init__(self) -> None:
        if not isinstance(self.strengths, tuple) or not isinstance(self.views, tuple):
            raise InputError("`strengths` and `views` must be tuples.")
        for strength in self.strengths:
            positive("strengths", strength, why=" It keeps directions of little variance from deciding alone.")
        for view in self.views:
            if not callable(view):
                raise InputError(f"`views` must be functions (reference, model, others) -> scores; got {view!r}.")
        if not (self.strengths or self.variances or self.bins or self.views):
            raise InputError("`Witness` needs at least one view; strengths, variances, bins and views are all empty.")
        whole("folds", self.folds, least=3)
        whole("assignments", self.assignments, least=1)

    def __call__(self, x: Any, y: Any, *, rng: int | np.random.Generator | None = 0) -> Masses:
        """The masses of both samples by the likelihood ratio that was learned without each of them."""
        return self.masses(self.prepare(*checked_pair(x, y)), rng)

    def prepare(self, x: Features, y: Features) -> tuple[Features, Features]:
        """Nothing needs to be prepared for repeats."""
        return x, y

    def masses(self, prepared: tuple[Features, Features], rng: int | np.random.Generator | None) -> Masses:
        """Learn once, with row i of equally long samples as one unit."""
        x, y = prepared
        units = find_units(Samples.trusted(features=x), Samples.trusted(features=y))
        at_x, at_y = Learner(self, [x, y], units, seed_from(rng)).scores(1)
        return pooled_masses(at_x, at_y)


def pooled_masses(at_p: Array, at_q: Array) -> Masses:
    """The masses that log-ratios give to all samples, as two distributions: every cost stays in its range."""
    log_ratio = np.concatenate([at_p, at_q])
    share = len(at_p) / len(log_ratio)
    mix = np.logaddexp(math.log(share) + log_ratio, math.log(1.0 - share))
    p, q = np.exp(log_ratio - mix), np.exp(-mix)
    return Masses.from_histograms(p / p.sum(), q / q.sum())


class Learner:
    """The reference and its systems, ready for witnesses of any pair: coordinates, bins and folds are shared."""

    def __init__(self, witness: Witness, sets: Sequence[Features], units: Units, seed: int) -> None:
        self.witness, self.sets, self.units = witness, sets, units
        self.space: Space = find_space(sets, seed)
        self.unit_of_row = np.concatenate(units.sets)
        self._seed = seed
        self._leave_out: LeaveUnitOut | None = None

    def scores(self, *systems: int) -> tuple[Array, ...]:
        """h of every sample of the reference and of the systems, one array each; several systems count as one model.

        All are 0 where nothing was learned, or where there are too few units to hold any out.
        """
        places = (0, *systems)
        rows = np.concatenate([np.arange(len(self.unit_of_row))[self.space.rows(place)] for place in places])
        weight = np.concatenate([np.full(self.space.sizes[i], 0.5 / self.space.sizes[i]) for i in places])
        is_reference = np.arange(len(rows)) < self.space.sizes[0]
        weight[~is_reference] /= len(systems)
        task = _Task(self, rows, is_reference, weight)
        with single_threaded_blas():
            total = task.learn(min(self.witness.folds, *task.units_of_sides))
        limit = math.log(len(rows))  # no sample is worth more than all others together
        cuts = np.cumsum([self.space.sizes[place] for place in places])[:-1]
        return tuple(np.split(np.clip(total, -limit, limit), cuts))

    @property
    def leave_out(self) -> LeaveUnitOut:
        """Corrections for the own unit, made once for all pairs."""
        if self._leave_out is None:
            self._leave_out = LeaveUnitOut(self.space, self.unit_of_row, (*self.witness.strengths, _RADIUS))
        return self._leave_out

    def assign_folds(self, task: _Task, folds: int, assignment: int) -> NDArray[np.int64]:
        """A fold for every row: units in an order that depends on their keys alone, dealt out by which sides they have."""
        count = self.units.count
        sides = [np.bincount(task.unit[side], minlength=count) > 0 for side in (task.is_reference, ~task.is_reference)]
        kind = sides[0] + 2 * sides[1]
        shuffled = _mix(self.units.keys ^ _mix(np.uint64([self._seed % 2**63 + 1]))[0], assignment)
        fold = np.zeros(count, np.int64)
        dealt = 0  # goes on from kind to kind, so that small kinds do not all fall into the first folds
        for number in (1, 2, 3):
            units = np.flatnonzero(kind == number)
            fold[units[np.argsort(shuffled[units], kind="stable")]] = (dealt + np.arange(len(units))) % folds
            dealt += len(units)
        return fold[task.unit]


def _mix(keys: NDArray[np.uint64], step: int = 0) -> NDArray[np.uint64]:
    """Keys scattered over all 64-bit numbers (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        z = keys + np.uint64((step + 1) * 0x9E3779B97F4A7C15 % 2**64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


class _Task:
    """One model, of one system or several, against the reference."""

    def __init__(
        self, learner: Learner, rows: NDArray[np.int64], is_reference: NDArray[np.bool_], weight: Array
    ) -> None:
        self.learner, self.rows, self.is_reference, self.weight = learner, rows, is_reference, weight
        self.space, self.witness = learner.space, learner.witness
        self.unit = learner.unit_of_row[rows]
        self.units_of_sides = [len(np.unique(self.unit[side])) for side in (is_reference, ~is_reference)]

    def learn(self, folds: int) -> Array:
        """h of every row: the mean over assignments; 0 with too few units to hold any out."""
        total, count = np.zeros(len(self.rows)), self.witness.assignments
        if folds < 3:
            return total
        pairs = list(combinations(range(folds), 2))
        fold = np.stack([self.learner.assign_folds(self, folds, number) for number in range(count)])
        at_once = max(1, _NUMBERS // (len(self.rows) * len(pairs) * 8))
        start: Array | None = None
        for low in range(0, count, at_once):
            some = fold[low : low + at_once]
            views = np.stack(list(_Views(self, some, folds, pairs)), axis=-1)  # (rows, assignments, pairs, views)
            for place, own in enumerate(some):
                scores, start = self._stack(views[:, place], own, folds, pairs, start)
                total += scores / count
        return total

    def _stack(
        self, views: Array, fold: NDArray[np.int64], folds: int, pairs: list[Pair], start: Array | None
    ) -> tuple[Array, Array | None]:
        """h of every row in one assignment, and the last weights of the stack, from which the next may start."""
        scores = np.zeros(len(fold))
        for k in range(folds):
            train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            # For rows of fold j: the rules that were learned without j and k.
            without = np.array([pairs.index((min(k, j), max(k, j))) if j != k else -1 for j in range(folds)])
            inner = views[train, without[fold[train]]]
            scale = inner.std(axis=0)
            scale[scale <= 1e-9 * np.abs(inner).max(axis=0)] = np.inf  # a view that says the same of all
            weight = self.weight[train] / self.weight[train].sum()
            start = fit_stack(inner / scale, self.is_reference[train], weight, start)
            gain = stack_gain((inner / scale) @ start, self.is_reference[train], weight, self.unit[train])
            trust = min(1.0, max(0.0, gain - _GATE))  # no jump, at which seeds would differ
            if trust > 0.0:
                others = without[without >= 0]
                scores[test] = trust * ((views[test][:, others].mean(axis=1) / scale) @ start)
        return scores, start


class _Views:
    """The scores of each view, (rows, assignments, pairs): by rules that were learned without the two folds of a pair."""

    def __init__(self, task: _Task, fold: NDArray[np.int64], folds: int, pairs: list[Pair]) -> None:
        self.task, self.fold, self.pairs = task, fold, pairs
        self.shape = len(fold), len(pairs)
        self.keep = np.array([[number not in pair for number in range(folds)] for pair in pairs], dtype=float)
        self.folds = folds
        # The weight of every row in its assignment, fold and side.
        self.parts = np.zeros((len(fold), folds, 2, fold.shape[1]))
        for place, own in enumerate(fold):
            self.parts[place, own, (~task.is_reference).astype(int), np.arange(len(own))] = task.weight

    def __iter__(self) -> Iterator[Array]:
        task, witness = self.task, self.task.witness
        if witness.strengths:
            yield from self._linear(*self._means(self._sums()))
        if witness.variances:
            yield self._variance(*self._means(self._sums(squares=True)))
            yield self._radius()
        if witness.bins:
            for labels in task.space.bins:
                yield self._bins(labels[task.rows])
        for view in witness.views:
            yield self._function(view)

    def _sums(self, *, squares: bool = False) -> Array:
        flat = self.parts.reshape(-1, len(self.task.rows))
        every = np.zeros((len(flat), len(self.task.space.points)), self.task.space.points.dtype)
        every[:, self.task.rows] = flat
        return self.task.space.sums(every, squares=squares).reshape(*self.parts.shape[:3], -1)

    def _means(self, sums: Array) -> tuple[Array, Array]:
        """Means over the training folds, (assignments, pairs, ...), of the reference and of the model."""
        mass = np.einsum("pf,afs->aps", self.keep, self.parts.sum(axis=-1))
        kept = np.einsum("pf,afsd->apsd", self.keep, sums) / mass[..., None]
        return kept[:, :, 0], kept[:, :, 1]

    def _columns(self, scores: Array) -> Array:
        return scores.reshape(len(scores), *self.shape)

    def _linear(self, of_p: Array, of_q: Array) -> Iterator[Array]:
        """Shrinkage discriminants: w = (C + ridge)⁻¹(mean of P − mean of Q), at several ridges."""
        task = self.task
        metrics = [task.space.metric(strength) for strength in task.witness.strengths]
        rules = np.stack([(of_p - of_q) * metric for metric in metrics])  # (strengths, assignments, pairs, width)
        middle = (rules * ((of_p + of_q) / 2.0)).sum(axis=-1)
        products = task.space.multiply(rules.reshape(-1, rules.shape[-1]).T)
        for place, own in enumerate(np.split(products, len(metrics), axis=1)):
            yield self._columns(task.learner.leave_out.correct(own, place)[task.rows]) - middle[place]

    def _variance(self, of_p: Array, of_q: Array) -> Array:
        """The log-ratio of Gaussians with a common centre, from the mean squares of each side in every column."""
        space, counts = self.task.space, []
        for side in (self.task.is_reference, ~self.task.is_reference):
            each = np.stack([np.bincount(own[side], minlength=self.folds) for own in self.fold])
            counts.append(np.maximum(each @ self.keep.T, 1.0)[..., None])
        n, m = counts
        common = (n * of_p + m * of_q) / (n + m) + 1e-9  # columns have variances around 1
        of_p, of_q = ((k * v + _PRIOR_ROWS * common) / (k + _PRIOR_ROWS) for k, v in ((n, of_p), (m, of_q)))
        rules = (0.5 / of_q - 0.5 / of_p).reshape(-1, of_p.shape[-1])
        products = space.multiply(rules.T, squares=True)[self.task.rows]
        return self._columns(products) + 0.5 * np.log(of_q / of_p).sum(axis=-1)

    def _radius(self) -> Array:
        """A linear discriminant in the distance from the common centre."""
        values = self.task.learner.leave_out.radius(len(self.task.witness.strengths))[self.task.rows]
        of_p, of_q = self._means((self.parts @ values)[..., None])
        square_p, square_q = self._means((self.parts @ values**2)[..., None])
        variance = np.maximum((square_p - of_p**2 + square_q - of_q**2) / 2.0, 0.0)
        slope = np.where(variance > 0, (of_p - of_q) / np.maximum(variance, 1e-300), 0.0)[..., 0]
        return (values[:, None, None] - ((of_p + of_q) / 2.0)[..., 0]) * slope

    def _bins(self, labels: NDArray[np.int64]) -> Array:
        """The log-ratio of the shares of a sample's bin, with half a sample added to each bin."""
        bins, logs = int(labels.max()) + 1, []
        for side in (self.task.is_reference, ~self.task.is_reference):
            weight = self.task.weight[side] * (np.count_nonzero(side) / self.task.weight[side].sum())
            counts = np.stack(
                [np.bincount(own[side] * bins + labels[side], weight, self.folds * bins) for own in self.fold]
            ).reshape(len(self.fold), self.folds, bins)
            kept = self.keep @ counts + 0.5
            logs.append(np.log(kept / kept.sum(axis=-1, keepdims=True)))
        ratios: Array = np.moveaxis((logs[0] - logs[1])[..., labels], -1, 0)
        return ratios

    def _function(self, view: View) -> Array:
        """What a user's function says of the samples of both held-out folds."""
        task = self.task
        features = np.concatenate([np.asarray(rows) for rows in task.learner.sets])[task.rows]
        scores = np.zeros((len(task.rows), *self.shape))
        for place, own in enumerate(self.fold):
            for number, pair in enumerate(self.pairs):
                others = np.isin(own, pair)
                sides = (features[~others & side] for side in (task.is_reference, ~task.is_reference))
                values = np.asarray(view(*sides, features[others]), dtype=np.float64)
                if values.shape != (int(others.sum()),) or not np.isfinite(values).all():
                    raise InputError(
                        f"`views` must return one finite number for each of {int(others.sum())} samples; "
                        f"{getattr(view, '__name__', repr(view))} returned an array of shape {values.shape}."
                    )
                scores[others, place, number] = values
        return scores
