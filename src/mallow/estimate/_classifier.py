"""Likelihood ratios from a classifier that tells the samples apart (paper: sec:mauve:classifier)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mallow._checks import open_unit, positive, whole
from mallow.engine import single_threaded_blas
from mallow.errors import EstimateWarning, InputError
from mallow.estimate._reduce import Features, Reduce, checked_pair
from mallow.estimate._row_order import canonical_order
from mallow.theory import Array, Masses

__all__ = ["Classifier", "Oriented", "oriented"]

# From strong to weak, in units of 1/(training samples). The last four are the paper's range, 1/n to 10⁻³/n.
PENALTIES = (1e4, 3e3, 1e3, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.1, 0.01, 0.001)

_PATIENCE = 2  # weaker penalties tried after the held-out loss began to rise
_SEPARATED = 0.99
_MOST_STEPS = 1000

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Oriented:
    """Two samples with rows in an order of their own, and called first and second by their values alone.

    Whatever is computed from these is the same to the last bit when x and y are swapped or their rows shuffled.

    Attributes
    ----------
    points : float64 array (g, d)
        The distinct rows of both samples.
    first, second : int array
        The row of `points` that each sample is, rising.
    places : pair of int arrays
        Where these samples stood in x and y.
    flipped : bool
        Whether `first` is y, the model.
    """

    points: Array
    first: Indices
    second: Indices
    places: tuple[Indices, Indices]
    flipped: bool


def oriented(x: Features, y: Features) -> Oriented:
    """The samples x (n, d) and y (m, d), in an order and orientation of their own."""
    pooled = canonical_order(x, y)
    points = np.concatenate([x, y])[pooled.distinct].astype(np.float64)
    sides = pooled.group[: len(x)], pooled.group[len(x) :]
    places = tuple(np.argsort(side, kind="stable") for side in sides)
    times = [np.bincount(side, minlength=len(points)) for side in sides]
    differ = np.flatnonzero(times[0] != times[1])  # none: the samples are the same, and so is either orientation
    flipped = bool(len(differ)) and bool(times[0][differ[0]] < times[1][differ[0]])
    a, b = (1, 0) if flipped else (0, 1)
    return Oriented(points, sides[a][places[a]], sides[b][places[b]], (places[a], places[b]), flipped)


@dataclass(frozen=True)
class Classifier:
    """Estimate masses from the odds of a logistic regression between the samples (paper: sec:mauve:classifier).

    A classifier trained on n points of P and m of Q, with probability η of P, gives the likelihood ratio
    r = m η/(n (1 − η)) at points that it was not trained on. The log-odds are those of the linear model itself: they
    never pass through probabilities, which saturate. Each feature is scaled to standard deviation 1 first.

    The weight of the L2 penalty is the one of the path with the least loss on held-out points, the same that are then
    evaluated: one number chosen on thousands of points. The paper takes weights of 1/n to 10⁻³/n. They are the end of
    the default path: with many features they overfit (two Gaussians in 1,024 dimensions, 5,000 samples, true frontier
    integral 0.47: 68 at weight 1/n and 126 at 10⁻³/n; 0.47 at the weight chosen, 100/n).

    The result is exactly symmetric in the samples and blind to the order of their rows, for the same `rng`.
    P identical to Q gives r = 1.

    Parameters
    ----------
    train_fraction : float
        The share of each sample to train on; ratios are evaluated on the rest. Not used with `folds`.
    folds : int or None
        None: one split into training and evaluation, as in the paper. An integer of at least 2: cross-fitting, where
        every point gets a ratio from a classifier trained on the other folds. Less noise, more time.
    penalties : tuple of float
        The weights of ½‖w‖² to choose from, in units of 1/(training samples), tried from strong to weak until the
        held-out loss rises.
    reduce : Reduce or None
        Reduction first. None, as in the paper: a linear model on the embeddings as they are.
    pooled : bool
        False, as published: a cost of P is averaged over the points of Q alone. True: over all points
        (`Masses.from_log_ratio`), which sees what the model misses.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(500, 2)), rng.normal(1.0, 1.0, size=(500, 2))
    >>> Classifier()(x, y).p.shape, Classifier(folds=5)(x, y).p.shape
    ((500,), (1000,))
    """

    train_fraction: float = 0.5
    folds: int | None = None
    penalties: tuple[float, ...] = PENALTIES
    reduce: Reduce | None = None
    pooled: bool = False

    scale: ClassVar[float] = 2.5

    def __post_init__(self) -> None:
        open_unit("train_fraction", self.train_fraction, why=" It is the share of the samples to train on.")
        if self.folds is not None:
            whole("folds", self.folds, least=2)
        if not (isinstance(self.penalties, tuple) and self.penalties):
            raise InputError(f"`penalties` must be a tuple of at least one number above 0; got {self.penalties!r}.")
        for each in self.penalties:
            positive("penalties", each, why=" A penalty of 0 has no finite answer when the samples separate.")

    def __repr__(self) -> str:
        parts = [f"train_fraction={self.train_fraction:g}"] if self.folds is None else [f"folds={self.folds}"]
        if self.penalties != PENALTIES:
            parts.append(f"penalties={self.penalties}")
        if self.pooled:
            parts.append("pooled=True")
        return f"Classifier({', '.join(parts)}, reduce={self.reduce})"

    def __call__(self, x: Any, y: Any, *, rng: int | np.random.Generator = 0) -> Masses:
        """Masses at the points that the classifier was not trained on."""
        return self.masses(self.prepare(x, y), rng)

    def prepare(self, x: Any, y: Any) -> Oriented:
        """Validate, reduce, order and scale both samples: all that has no randomness in it."""
        x, y = checked_pair(x, y) if self.reduce is None else self.reduce(x, y)
        if self.folds is not None and self.folds > min(len(x), len(y)):
            raise InputError(
                f"`folds` must be at most the size of the smaller sample, {min(len(x), len(y))}; got {self.folds}."
            )
        found = oriented(x, y)
        return Oriented(_scaled(found), found.first, found.second, found.places, found.flipped)

    def masses(self, prepared: Oriented, rng: int | np.random.Generator) -> Masses:
        """Split, train and evaluate once."""
        rng = np.random.default_rng(rng)
        n, m = len(prepared.first), len(prepared.second)
        # One seed for both sides: samples that are the same are split alike, and then no classifier can tell them apart.
        seed = int(rng.integers(2**63))
        parts = [self._parts(size, np.random.default_rng(seed)) for size in (n, m)]
        with single_threaded_blas():  # the same bits on any number of processors
            at_first, at_second = _held_out(prepared, list(zip(*parts, strict=True)), self.penalties)
        accuracy = (float((at_first > 0).mean()) + float((at_second < 0).mean())) / 2
        if accuracy > _SEPARATED:
            warnings.warn(
                f"the classifier tells {accuracy:.1%} of held-out points apart: where the samples separate, the size of a "
                "likelihood ratio means little. Compare with Quantize.",
                EstimateWarning,
                stacklevel=2,
            )
        found = Masses.from_log_ratio(at_first, at_second, pooled=self.pooled)
        return found.swap() if prepared.flipped else found

    def _parts(self, size: int, rng: np.random.Generator) -> list[Indices]:
        """The points of one sample to evaluate, for each classifier to train."""
        order = rng.permutation(size)
        if self.folds is not None:
            return [np.sort(part) for part in np.array_split(order, self.folds)]
        trained = min(max(round(self.train_fraction * size), 1), size - 1)
        return [np.sort(order[trained:])]


def _scaled(samples: Oriented) -> Array:
    """The distinct points, with each feature at mean 0 and standard deviation 1 over both samples."""
    points = samples.points
    times = np.bincount(np.concatenate([samples.first, samples.second]), minlength=len(points)).astype(np.float64)
    times /= times.sum()
    largest = np.abs(points).max(axis=0)
    points = points / np.where(largest > 0, largest, 1.0)  # no overflow in the squares
    points -= times @ points
    spread = np.sqrt(times @ points**2)
    # A constant feature is 0 but for rounding, which must not be blown up.
    return np.where(spread > 1e-12, points / np.where(spread > 1e-12, spread, 1.0), 0.0)


def _held_out(
    samples: Oriented, parts: list[tuple[Indices, Indices]], penalties: tuple[float, ...]
) -> tuple[Array, Array]:
    """log r at the held-out points of either sample, by the penalty with the least held-out loss."""
    from sklearn.exceptions import ConvergenceWarning

    folds = [_Fold(samples, *part) for part in parts]
    best: list[tuple[Array, Array]] = []
    best_loss, since = np.inf, 0
    with warnings.catch_warnings():
        # A fit that has not converged is an early-stopped one; its held-out loss decides like any other's.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for penalty in sorted(penalties, reverse=True):
            found = [fold.log_odds(penalty) for fold in folds]
            loss = sum(fold.loss(*odds) for fold, odds in zip(folds, found, strict=True))
            if not best or loss < best_loss:
                best, best_loss, since = found, loss, 0
            else:
                since += 1
            if since == _PATIENCE:
                break
    log_ratios = []
    for side, size in enumerate((len(samples.first), len(samples.second))):
        at = np.full(size, np.nan)
        for fold, odds in zip(folds, best, strict=True):
            at[samples.places[side][fold.held_out[side]]] = odds[side] - fold.prior
        log_ratios.append(at[~np.isnan(at)])
    return log_ratios[0], log_ratios[1]


class _Fold:
    """One classifier, refitted along the path of penalties from where it was, and the points held out from it."""

    def __init__(self, samples: Oriented, first: Indices, second: Indices) -> None:
        from sklearn.linear_model import LogisticRegression

        self.held_out = first, second
        train = np.delete(samples.first, first), np.delete(samples.second, second)
        self.prior = float(np.log(len(train[0])) - np.log(len(train[1])))
        self.train = samples.points[np.concatenate(train)]
        self.label = np.repeat([1, 0], [len(train[0]), len(train[1])])
        self.test = samples.points[samples.first[first]], samples.points[samples.second[second]]
        self.model = LogisticRegression(solver="lbfgs", tol=1e-6, max_iter=_MOST_STEPS, warm_start=True)

    def log_odds(self, penalty: float) -> tuple[Array, Array]:
        """At the held-out points of either sample, with this penalty."""
        self.model.set_params(C=1.0 / penalty).fit(self.train, self.label)
        return self.model.decision_function(self.test[0]), self.model.decision_function(self.test[1])

    def loss(self, at_first: Array, at_second: Array) -> float:
        """The logistic loss at held-out points, summed."""
        return float(np.logaddexp(0.0, -at_first).sum() + np.logaddexp(0.0, at_second).sum())
