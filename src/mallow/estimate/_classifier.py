"""Likelihood ratios from a classifier that tells the samples apart (paper: sec:mauve:classifier).

The classifier is a logistic regression whose penalty is chosen on held-out points. Scores are calibrated to log-ratios.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from mallow._checks import open_unit, positive, whole
from mallow.engine import single_threaded_blas
from mallow.errors import Caveat, InputError
from mallow.estimate._features import Features, estimate_masses
from mallow.estimate._reduce import Reduce
from mallow.estimate._row_order import Indices, Oriented, orient
from mallow.theory import Array, Masses, range_caveats

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression


# From strong to weak, in units of 1/(training samples). The last four are the paper's range, 1/n to 10⁻³/n.
PENALTIES = (1e4, 3e3, 1e3, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.1, 0.01, 0.001)

_PATIENCE = 2  # chosen: weaker penalties still tried once the held-out loss has stopped falling
_MOST_STEPS = 1000  # chosen: far more than a converging fit needs (100 is scikit-learn's default)

Outcome = TypeVar("Outcome")
_ROUNDS = 100  # chosen: far more than Newton's method takes
_PIVOTS = 3  # chosen: exchanges of all wrong signs that may fail before they are exchanged one at a time
_UPHILL = 1e-12  # chosen: of the largest slope; less is rounding
_CONVERGED = 1e-14  # chosen: decrease of the loss, which is of order 1, by one more step
_HALVINGS = 40  # chosen: far more than it takes
_ENOUGH = 1e-4  # share of the expected descent that a step must reach (Armijo)
_SEPARATED = 0.99  # chosen: held-out accuracy above which the size of a ratio means little
_CONSTANT = 1e-12  # chosen: standard deviation of a feature, in units of its largest value, below which it is rounding


@dataclass(frozen=True)
class Classifier:
    """Estimate masses from the odds of a logistic regression between the samples (paper: sec:mauve:classifier).

    A classifier trained on n points of P and m of Q, with probability η of P, gives the likelihood ratio
    r = m η/(n (1 − η)) at points that it was not trained on. The log-odds come directly from the linear model, not from
    probabilities, which saturate. Each feature is scaled to standard deviation 1 first.

    A linear model detects where the samples lie, not how wide they are. On web text with GloVe features, beam search is
    narrower than human text around the same mean, and scores 0.96. Therefore the squares of the leading principal
    components are features too, and beam search scores 0.47. `squares=0` gives the classifier of the paper.

    The weight of the L2 penalty is the one on the path with the smallest loss on held-out points, the same points that
    are then evaluated: one number, chosen on thousands of points. The paper uses weights of 1/n to 10⁻³/n. They are the
    end of the default path, and overfit with many features (two Gaussians in 1,024 dimensions, 5,000 samples, true
    frontier integral 0.47: 68 at weight 1/n and 126 at 10⁻³/n; 0.47 at the weight chosen here, 100/n).

    For the same `rng`, the result is exactly symmetric in the samples and does not depend on the order of their rows.
    P identical to Q gives r = 1.

    Parameters
    ----------
    train_fraction : float
        The share of each sample to train on; ratios are evaluated on the rest. Ignored with `folds`.
    folds : int or None
        None: one split into training and evaluation, as in the paper. An integer of at least 2: cross-fitting, where
        every point gets a ratio from a classifier trained on the other folds. Less noise, more time.
    penalties : tuple of float
        The weights of ½‖w‖² to choose from, in units of 1/(training samples), tried from strong to weak until the
        held-out loss rises.
    reduce : Reduce or None
        Reduction first. None, as in the paper: a linear model on the unchanged embeddings.
    squares : int
        The number of principal components whose squares are features as well; 0 as published.
    pooled : bool
        True: both costs are averaged over all points, each with masses proportional to (r, 1)/(n r + m). These are two
        distributions, so that every cost and summary stays in its range. False, as published: a cost of P is averaged
        only over the points of Q. A few large ratios then push the sum out of its range (a frontier integral of 60,
        although the maximum is 1), and regions that the model misses entirely do not count.

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
            # Rows with their principal components: these follow from the row, so the canonical order is the same.
            components = Reduce(dimension=self.squares, normalise=False).fit(x, y).split(len(x))
            x, y = (np.concatenate(parts, axis=1) for parts in zip((x, y), components, strict=True))
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
        """The points of one sample to evaluate, for each classifier."""
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


def logistic_regression(*, tolerance: float, balanced: bool = False) -> LogisticRegression:
    """An unfitted model, which starts each new fit from the weights of the last one.

    Set the weight λ of the penalty ½λ‖w‖² with ``model.set_params(C=1 / λ)`` before each fit.

    Parameters
    ----------
    tolerance : float
        The largest gradient component at which the optimiser stops.
    balanced : bool
        Whether each class has half of the total weight in training, whatever its size.
    """
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(
        solver="lbfgs",
        tol=tolerance,
        max_iter=_MOST_STEPS,
        warm_start=True,
        class_weight="balanced" if balanced else None,
    )


def choose_penalty(
    held_out: Callable[[float], tuple[float, Outcome]], penalties: Iterable[float] = PENALTIES
) -> tuple[float, Outcome]:
    """The penalty with the smallest held-out loss, with its fit.

    Penalties are tried from strong to weak until two in a row do not lower the loss.

    Parameters
    ----------
    held_out : callable
        Fits with a penalty and returns the loss on held-out points and anything else to keep from that fit.
    penalties : iterable of float
        At least one; see `PENALTIES`.

    Examples
    --------
    >>> choose_penalty(lambda penalty: (abs(penalty - 3.0), f"fitted with {penalty:g}"))
    (3.0, 'fitted with 3')
    """
    from sklearn.exceptions import ConvergenceWarning

    strongest, *weaker = sorted(penalties, reverse=True)
    with warnings.catch_warnings():
        # A fit that has not converged was stopped early. Its held-out loss is compared like any other.
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = strongest
        least, outcome = held_out(strongest)
        misses = 0
        for penalty in weaker:
            loss, candidate = held_out(penalty)
            if loss < least:
                best, least, outcome, misses = penalty, loss, candidate, 0
            else:
                misses += 1
            if misses == _PATIENCE:
                break
    return best, outcome


def calibrate_scores(scores: Array, is_reference: NDArray[np.bool_], weight: Array, *, ridge: float) -> Array:
    """The weights w ≥ 0, (scores,), for which w @ scores comes nearest to log p/q on these samples.

    They minimise the logistic loss Σ weight·log(1 + exp(∓w @ scores)) + ½ ridge |w|². At λ = ½ the held-out bound of
    the mid-point is log 2 minus this loss, so these weights have the largest bound. The problem is convex and has one
    answer; Newton's method finds it, with weights that would become negative held at 0.

    Parameters
    ----------
    scores : array (scores, rows)
        Large for samples of the reference.
    is_reference : bool array (rows,)
    weight : array (rows,)
        Weight of each row. They sum to 1, half of it on each side.
    ridge : float
        Above 0, because scores that separate the sides would have unbounded weights otherwise.

    Examples
    --------
    >>> calibrate_scores(np.array([[3.0, 1.0, 2.0, -1.0]]), np.array([True, True, False, False]), np.full(4, 0.25),
    ...                  ridge=1e-3).round(2)
    array([0.44])
    """
    signed = np.where(is_reference, scores, -scores)
    weights, margin = np.zeros(len(scores)), np.zeros(scores.shape[1])
    value, missing = _logistic(margin, weight)
    for _ in range(_ROUNDS):
        slope = ridge * weights - signed @ (weight * missing)
        curvature = (signed * (weight * missing * (1.0 - missing))) @ signed.T + ridge * np.eye(len(scores))
        step = _best_of_model(curvature, slope, weights) - weights
        descent = float(slope @ step)
        if descent > -_CONVERGED:
            break
        along = step @ signed
        size = 1.0
        for _ in range(_HALVINGS):
            moved = weights + size * step
            reached, missing = _logistic(margin + size * along, weight)
            reached += ridge / 2.0 * float(moved @ moved)
            if reached <= value + _ENOUGH * size * descent:
                break
            size /= 2.0
        weights, margin, value = moved, margin + size * along, reached
    return weights


def _logistic(margin: Array, weight: Array) -> tuple[float, Array]:
    """The mean of log(1 + exp(−margin)), and 1/(1 + exp(margin)) of each row."""
    small = np.exp(-np.abs(margin))
    loss = float(weight @ (np.log1p(small) - np.minimum(margin, 0.0)))
    return loss, np.where(margin >= 0, small, 1.0) / (1.0 + small)


def _best_of_model(curvature: Array, slope: Array, weights: Array) -> Array:
    """The minimum of the quadratic model around `weights` among nonnegative weights."""
    target = curvature @ weights - slope
    free = weights > 0.0 if weights.any() else np.ones(len(weights), np.bool_)
    fewest, patience = len(weights) + 1, _PIVOTS
    while True:  # principal pivoting (Júdice and Pires, 1994); `scipy.optimize.nnls` takes 0.15 s to import
        best = np.zeros(len(weights))
        best[free] = np.linalg.solve(curvature[np.ix_(free, free)], target[free])
        uphill = curvature @ best - target
        wrong = np.where(free, best < 0.0, uphill < -_UPHILL * np.abs(target).max())
        count = int(np.count_nonzero(wrong))
        if not count:
            return best
        fewest, patience = (count, _PIVOTS) if count < fewest else (fewest, patience - 1)
        if patience < 0:  # one at a time, the last one first, which cannot go in circles (Murty)
            wrong[: np.flatnonzero(wrong)[-1]] = False
        free ^= wrong
