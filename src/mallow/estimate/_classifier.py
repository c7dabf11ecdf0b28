"""Likelihood ratios from a classifier that tells the samples apart (paper: sec:mauve:classifier)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mallow._checks import open_unit, positive, whole
from mallow.engine import single_threaded_blas
from mallow.errors import Caveat, InputError
from mallow.estimate._estimator import estimate_masses
from mallow.estimate._features import Features
from mallow.estimate._logistic import PENALTIES, choose_penalty, logistic_regression
from mallow.estimate._orientation import Indices, Oriented, orient
from mallow.estimate._reduce import Reduce
from mallow.theory import Array, Masses, range_caveats

_SEPARATED = 0.99  # chosen: held-out accuracy above which the size of a ratio means little
_CONSTANT = 1e-12  # chosen: standard deviation of a feature, in units of its largest value, up to which it is rounding


@dataclass(frozen=True)
class Classifier:
    """Estimate masses from the odds of a logistic regression between the samples (paper: sec:mauve:classifier).

    A classifier trained on n points of P and m of Q, with probability η of P, gives the likelihood ratio
    r = m η/(n (1 − η)) at points that it was not trained on. The log-odds are those of the linear model itself and never
    pass through probabilities, which saturate. Each feature is scaled to standard deviation 1 first.

    A linear model sees where the samples lie, not how wide they are: of web text with GloVe features, beam search is narrower
    than human text around the same mean, and scores 0.96. Therefore the squares of the leading principal components are features
    too, and it scores 0.47; `squares=0` is the classifier of the paper.

    The weight of the L2 penalty is the one on the path with the smallest loss on held-out points, the same points that are
    then evaluated: one number, chosen on thousands of points. The paper uses weights of 1/n to 10⁻³/n. They are the end
    of the default path: with many features they overfit (two Gaussians in 1,024 dimensions, 5,000 samples, true frontier
    integral 0.47: 68 at weight 1/n and 126 at 10⁻³/n; 0.47 at the weight chosen here, 100/n).

    For the same `rng`, the result is exactly symmetric in the samples and does not depend on the order of their rows.
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
    squares : int
        The number of principal components whose squares are features as well. 0, as published: none.
    pooled : bool
        True: both costs are averaged over all points, each with masses proportional to (r, 1)/(n r + m). These are two
        distributions, so that every cost and summary stays in its range. False, as published: a cost of P is averaged
        over the points of Q alone, where a few large ratios carry the sum out of its range (a frontier integral of 60,
        where 1 is the most), and what the model misses entirely is not seen.

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
    squares: int = 50
    pooled: bool = True

    scale: ClassVar[float] = 2.5

    def __post_init__(self) -> None:
        open_unit("train_fraction", self.train_fraction, why=" It is the share of the samples to train on.")
        if self.folds is not None:
            whole("folds", self.folds, least=2)
        whole("squares", self.squares, least=0)
        if not (isinstance(self.penalties, tuple) and self.penalties):
            raise InputError(f"`penalties` must be a tuple of at least one number above 0; got {self.penalties!r}.")
        for penalty in self.penalties:
            positive(
                "penalties", penalty, why=" Without a penalty there is no finite answer when the samples separate."
            )

    def __repr__(self) -> str:
        parts = [f"train_fraction={self.train_fraction:g}"] if self.folds is None else [f"folds={self.folds}"]
        if self.penalties != PENALTIES:
            parts.append(f"penalties={self.penalties}")
        parts += [f"reduce={self.reduce}", f"squares={self.squares}"]
        if not self.pooled:
            parts.append("pooled=False")
        return f"Classifier({', '.join(parts)})"

    def __call__(self, x: Any, y: Any, *, rng: int | np.random.Generator | None = 0) -> Masses:
        """Masses at the points that the classifier was not trained on."""
        return estimate_masses(self, x, y, rng)

    def prepare(self, x: Features, y: Features) -> Oriented:
        """Reduce, order and scale both samples: everything that needs no randomness."""
        if self.folds is not None and self.folds > min(len(x), len(y)):
            raise InputError(
                f"`folds` must be at most the size of the smaller sample, {min(len(x), len(y))}; got {self.folds}."
            )
        if self.reduce is not None:
            x, y = self.reduce.fit(x, y).split(len(x))
        width = x.shape[1]
        if self.squares:
            # Rows with their principal components: those follow from the row, so that the canonical order is the same.
            components = Reduce(dimension=self.squares, normalise=False).fit(x, y).split(len(x))
            x, y = (np.concatenate([side, own], axis=1) for side, own in zip((x, y), components, strict=True))
        samples = orient(x, y)
        scaled = replace(samples, points=_scale_points(samples))
        if self.squares:
            squared = np.concatenate([scaled.points[:, :width], scaled.points[:, width:] ** 2], axis=1)
            scaled = replace(scaled, points=_scale_points(replace(scaled, points=squared)))
        return scaled

    def masses(self, prepared: Oriented, rng: int | np.random.Generator | None) -> Masses:
        """Split, train and evaluate once."""
        rng = np.random.default_rng(rng)
        n, m = len(prepared.first), len(prepared.second)
        # The same seed for both sides: equal samples are split alike, and then no classifier can tell them apart.
        seed = int(rng.integers(2**63))
        parts = [self._parts(size, np.random.default_rng(seed)) for size in (n, m)]
        with single_threaded_blas():  # the same bits on any number of processors
            at_first, at_second = _held_out_ratios(prepared, list(zip(*parts, strict=True)), self.penalties)
        accuracy = (float((at_first > 0).mean()) + float((at_second < 0).mean())) / 2
        ratios = (-at_second, -at_first) if prepared.flipped else (at_first, at_second)
        masses = Masses.from_log_ratio(*ratios, pooled=self.pooled)
        return replace(masses, caveats=_separable(accuracy) + range_caveats(masses, "Use pooled=True."))

    def _parts(self, size: int, rng: np.random.Generator) -> list[Indices]:
        """The points of one sample to evaluate, for each classifier to train."""
        order = rng.permutation(size)
        if self.folds is not None:
            return [np.sort(part) for part in np.array_split(order, self.folds)]
        trained = min(max(round(self.train_fraction * size), 1), size - 1)
        return [np.sort(order[trained:])]


def _separable(accuracy: float) -> tuple[Caveat, ...]:
    if accuracy <= _SEPARATED:
        return ()
    message = (
        f"the classifier tells {accuracy:.1%} of held-out points apart: where the samples separate, the size of a "
        "likelihood ratio means little. Compare with Quantize."
    )
    return (Caveat("separable samples", message, values={"accuracy": accuracy}),)


def _scale_points(samples: Oriented) -> Array:
    """The distinct points, with each feature at mean 0 and standard deviation 1 over both samples."""
    points = samples.points
    times = np.bincount(np.concatenate([samples.first, samples.second]), minlength=len(points)).astype(np.float64)
    times /= times.sum()
    largest = np.abs(points).max(axis=0)
    points = points / np.where(largest > 0, largest, 1.0)  # no overflow in the squares
    points -= times @ points
    spread = np.sqrt(times @ points**2)
    # A constant feature is 0 apart from rounding, which must not be amplified.
    return np.where(spread > _CONSTANT, points / np.where(spread > _CONSTANT, spread, 1.0), 0.0)


def _held_out_ratios(
    samples: Oriented, parts: list[tuple[Indices, Indices]], penalties: tuple[float, ...]
) -> tuple[Array, Array]:
    """log r at the held-out points of either sample, with the penalty that has the smallest held-out loss."""
    folds = [_Fold(samples, *part) for part in parts]

    def held_out(penalty: float) -> tuple[float, list[tuple[Array, Array]]]:
        odds = [fold.log_odds(penalty) for fold in folds]
        return sum(fold.loss(*pair) for fold, pair in zip(folds, odds, strict=True)), odds

    _, best = choose_penalty(held_out, penalties)
    log_ratios = []
    for side, size in enumerate((len(samples.first), len(samples.second))):
        at = np.full(size, np.nan)
        for fold, odds in zip(folds, best, strict=True):
            at[samples.places[side][fold.held_out[side]]] = odds[side] - fold.prior
        log_ratios.append(at[~np.isnan(at)])
    return log_ratios[0], log_ratios[1]


class _Fold:
    """A classifier, refitted along the path of penalties, and the points held out from it."""

    def __init__(self, samples: Oriented, first: Indices, second: Indices) -> None:
        self.held_out = first, second
        train = np.delete(samples.first, first), np.delete(samples.second, second)
        self.prior = float(np.log(len(train[0])) - np.log(len(train[1])))
        self.train = samples.points[np.concatenate(train)]
        self.label = np.repeat([1, 0], [len(train[0]), len(train[1])])
        self.test = samples.points[samples.first[first]], samples.points[samples.second[second]]
        self.model = logistic_regression(tolerance=1e-6)

    def log_odds(self, penalty: float) -> tuple[Array, Array]:
        """The log-odds at the held-out points of either sample, with this penalty."""
        self.model.set_params(C=1.0 / penalty).fit(self.train, self.label)
        return self.model.decision_function(self.test[0]), self.model.decision_function(self.test[1])

    def loss(self, at_first: Array, at_second: Array) -> float:
        """The sum of the logistic loss over held-out points."""
        return float(np.logaddexp(0.0, -at_first).sum() + np.logaddexp(0.0, at_second).sum())
