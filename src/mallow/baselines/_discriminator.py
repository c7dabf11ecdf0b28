"""How well a classifier tells two samples of features apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mallow.baselines._points import (
    ROWS,
    Flags,
    Indices,
    as_generator,
    check_pair,
    rescale,
    row_blocks,
    thread_count,
)
from mallow.engine import ordered_map, single_threaded_blas
from mallow.errors import InputError
from mallow.estimate import Features, canonical_order, choose_penalty, logistic_regression

_FOLDS = 5  # chosen: scikit-learn's default
_TEST_EVERY = 4  # one sample in four is for the test; chosen: scikit-learn's default share
_LEAST_SAMPLES = 8  # per side: 2 for the test and 6 for the 5 folds
_TOLERANCE = 1e-4  # of the optimiser: scikit-learn's default


def discriminator_accuracy(reference: Any, model: Any, *, rng: int | np.random.Generator | None = 0) -> float:
    """The held-out accuracy of a logistic regression that tells the two samples apart (paper: baseline metrics).

    1 = fully separable, 0.5 = indistinguishable: the smaller, the better. A quarter of the points is held out for the
    test. On the others, the weight of the L2 penalty is chosen by the logistic loss in 5-fold cross-validation, between
    10⁴ and 10⁻³ divided by the number of points, and the classifier is then fitted to all of them. Features are scaled to
    standard deviation 1.

    The accuracy is the mean of the accuracies on the two sides, each of which has half of the total weight in training:
    for n = m this is the usual accuracy, and for n ≠ m guessing still gives 0.5. If a sample of one side is a duplicate of
    a sample of the other side, both go to the same part: otherwise a model that repeats the reference would score *below*
    0.5, because the classifier would have seen the duplicates with the other label.

    The standard error over t test points is √(a(1 − a)/t) for the accuracy a, 0.01 with 5,000 samples per side. Constant
    features give 0.5.

    Parameters
    ----------
    reference, model : array (n, d)
        At least 8 samples each.
    rng : int, numpy.random.Generator or None
        For the split; None gives a different split each time.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(200, 2)), rng.normal(9.0, 1.0, size=(200, 2))
    >>> discriminator_accuracy(x, y), discriminator_accuracy(x, x)
    (1.0, 0.5)
    """
    x, y = rescale(*check_pair(reference, model))
    for name, side in (("reference", x), ("model", y)):
        if len(side) < _LEAST_SAMPLES:
            raise InputError(
                f"`{name}` must hold at least {_LEAST_SAMPLES} samples, to be split into a test and {_FOLDS} folds; got "
                f"{len(side)}."
            )
    parts = _split_parts(x, y, as_generator(rng))
    label = np.repeat([True, False], [len(x), len(y)])
    train, test = parts >= 0, parts < 0
    with single_threaded_blas():
        scaled = _standardise(x, y, train)
        points, truth = scaled[train], label[train]
        held_out, answer = scaled[test], label[test]
        del scaled
        penalty = _best_penalty(points, truth, parts[train])
        classifier = logistic_regression(tolerance=_TOLERANCE, balanced=True).set_params(C=1.0 / penalty)
        log_odds = classifier.fit(points, truth).decision_function(held_out)
    correct = (log_odds > 0) == answer
    return float((correct[answer].mean() + correct[~answer].mean()) / 2)


def _split_parts(x: Features, y: Features, rng: np.random.Generator) -> Indices:
    """For every pooled sample −1 for the test, or the fold from 0 to 4 in which it is held out."""
    group = canonical_order(x, y).group
    side = np.repeat([0, 1], [len(x), len(y)])
    order = np.lexsort((side, group))
    # The first copy of a row in x is paired with the first one in y, the second with the second …
    run = np.append(True, (np.diff(group[order]) != 0) | (np.diff(side[order]) != 0))
    copy = np.empty(len(group), np.int64)
    copy[order] = np.arange(len(group)) - np.flatnonzero(run)[np.cumsum(run) - 1]
    _, unit = np.unique(group * len(group) + copy, return_inverse=True)
    kind = np.bincount(unit, weights=side + 1).astype(np.int64)  # 1: in x, 2: in y, 3: in both
    units = rng.permutation(len(kind))
    units = units[np.argsort(kind[units], kind="stable")]  # assigned kind by kind, so that every part has its share
    part = np.full(len(kind), -1, np.int64)
    rest = np.delete(units, np.s_[::_TEST_EVERY])
    part[rest] = np.arange(len(rest)) % _FOLDS
    return part[unit]


def _standardise(x: Features, y: Features, train: Flags) -> Features:
    """The pooled samples, each feature with mean 0 and standard deviation 1 over the training samples."""
    points = np.concatenate([x, y])
    size = int(train.sum())
    mean = np.zeros(points.shape[1])
    for block in row_blocks(len(points), ROWS):
        mean += points[block][train[block]].sum(axis=0, dtype=np.float64) / size
    variance = np.zeros_like(mean)
    for block in row_blocks(len(points), ROWS):
        variance += ((points[block][train[block]] - mean) ** 2).sum(axis=0) / size
    spread = np.sqrt(variance)
    # A constant feature varies by rounding only, which must not be scaled up.
    varies = spread > 8 * np.finfo(points.dtype).eps * np.abs(mean)
    for block in row_blocks(len(points), ROWS):
        points[block] = np.where(varies, (points[block] - mean) / np.where(varies, spread, 1.0), 0.0)
    return points


def _best_penalty(points: Features, label: Flags, fold: Indices) -> float:
    """The penalty with the least held-out loss, summed over the folds."""
    models = [logistic_regression(tolerance=_TOLERANCE, balanced=True) for _ in range(_FOLDS)]  # each keeps its weights

    def fold_loss(task: tuple[int, float]) -> float:
        k, penalty = task
        model, held_out = models[k], fold == k
        model.set_params(C=1.0 / penalty).fit(points[~held_out], label[~held_out])
        signed = np.where(label[held_out], 1.0, -1.0) * model.decision_function(points[held_out])
        weight = np.where(label[held_out], 1.0 / label.sum(), 1.0 / (~label).sum())
        return float(weight @ np.logaddexp(0.0, -signed))

    def total_loss(penalty: float) -> tuple[float, None]:
        return math.fsum(ordered_map(fold_loss, [(k, penalty) for k in range(_FOLDS)], thread_count())), None

    return choose_penalty(total_loss)[0]
