"""Two tests over units: does a trait differ between the sides, and does it go with the held-out score?

A trait is one number for each sample. What is independent is a unit: all sums are over units, so that shared prompts,
several samples per prompt and unequal sizes are all the same case.

- It *differs* if the mean over the reference minus the mean over the model, a sum of what each unit adds, is larger than
  chance. Where both sides are one distribution, the sides of a unit can be exchanged, and the sum of squares of what units
  add is the variance of the difference over all exchanges.
- It *goes with the score* if, among samples of the same side, those with more of it have a larger (or smaller) held-out
  score. Between the sides nothing is compared here: any trait that differs would go with any score that does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtr

from mallow.inference import Evidence
from mallow.theory import Array

__all__ = ["UnitTests", "two_sided"]

# Sums of fixed numbers with random signs exceed z standard deviations at most so many times as often as a normal variable
# (Bentkus and Dzindzalieva, Bernoulli 21, 2015: 1/(4 P(Z ≥ √2))). With pairs the p-values therefore hold for any sample.
_RANDOM_SIGNS = 3.178
_LEAST = 1e-16  # the smallest p-value that is claimed
_TINY = np.finfo(np.float64).tiny

Columns = Any  # (samples, traits): a dense array or a sparse matrix, the samples of the reference first


def two_sided(z: Array) -> Array:
    """Two-sided p-values of sums over units that are z standard errors from 0."""
    p_values: Array = np.clip(2.0 * _RANDOM_SIGNS * ndtr(-np.abs(z)), _LEAST, 1.0)
    return p_values


@dataclass(frozen=True, eq=False)
class UnitTests:
    """The units and the held-out scores of two sides; `of` makes it from evidence.

    Attributes
    ----------
    n, m : int
        Samples of the reference and of the model.
    scores : array (n + m,)
        Held-out scores, those of the reference first.
    sums : two sparse matrices (units, n + m)
        A product with columns sums them over the samples of the reference, and of the model, in each unit. The order of
        units and samples depends on their keys and scores alone, so that no sum depends on the order of the samples.
    """

    n: int
    m: int
    scores: Array
    sums: tuple[Any, Any]

    @classmethod
    def of(cls, evidence: Evidence) -> UnitTests:
        """The tests for the samples of some evidence."""
        n, m = len(evidence.reference_scores), len(evidence.model_scores)
        unit = np.concatenate([evidence.reference_units, evidence.model_units])
        scores = np.concatenate([evidence.reference_scores, evidence.model_scores])
        present = np.unique(unit)
        number = np.zeros(len(evidence.keys), np.int64)
        number[present[np.argsort(evidence.keys[present], kind="stable")]] = np.arange(len(present))
        order = np.lexsort((scores, number[unit]))
        sums = []
        for side in (order[order < n], order[order >= n]):
            ends = np.searchsorted(number[unit[side]], np.arange(len(present) + 1))
            sums.append(sparse.csr_array((np.ones(len(side)), side, ends), shape=(len(present), n + m)))
        return cls(n, m, scores, (sums[0], sums[1]))

    @property
    def gap(self) -> float:
        """The mean held-out score of the reference minus that of the model."""
        return float(self.side_means(self.scores[:, None]) @ [1.0, -1.0])

    def side_means(self, columns: Columns) -> Array:
        """The mean of each trait over the reference and over the model, (traits, 2)."""
        return self._means([own @ columns for own in self.sums])

    def _means(self, totals: Sequence[Columns]) -> Array:
        every = [np.asarray(own.sum(axis=0)).ravel() for own in totals]
        return np.stack([every[0] / self.n, every[1] / self.m], axis=1)

    def difference(self, columns: Columns, covariate: Array | None = None) -> tuple[Array, Array]:
        """The mean of each trait over the reference minus that over the model, (traits,), and its z.

        With a covariate (n + m,), both are those at equal values of it: its slope within the sides is taken off.

        The variance is that of exchanges of sides: the sum of squares of what each unit adds, with traits around their
        common mean. A unit of one side only might have been of the other, where it would have had another weight if the
        sides have different sizes; the larger of both variances counts, since for a rare trait the observed one is too
        small if all samples that have it are of the larger side.
        """
        n, m = self.n, self.m
        others = [np.ones(n + m)] if covariate is None else [np.ones(n + m), covariate]
        constant = np.stack(others, axis=1)  # (samples, covariates)
        of_p, of_q = (own @ columns for own in self.sums)
        fixed_p, fixed_q = (own @ constant for own in self.sums)
        means = self._means([of_p, of_q])
        slopes = [(n * means[:, 0] + m * means[:, 1]) / (n + m)]
        if covariate is not None:
            centred = self.centre(constant[:, 1:])[:, 0]
            slope = (columns.T @ centred) / max(float(centred @ centred), _TINY)
            middle = float(fixed_p[:, 1].sum() + fixed_q[:, 1].sum()) / (n + m)
            slopes = [slopes[0] - slope * middle, slope]
        slope_of = np.stack(slopes)  # (covariates, traits)
        added, fixed = of_p / n - of_q / m, fixed_p / n - fixed_q / m
        delta = means[:, 0] - means[:, 1] - fixed.sum(axis=0) @ slope_of
        variance = _residual_squares(added, fixed, slope_of)
        alone = np.flatnonzero((fixed_p[:, 0] == 0) | (fixed_q[:, 0] == 0))
        if len(alone):
            total, fixed_total = (of_p + of_q)[alone], (fixed_p + fixed_q)[alone]
            exchanged = variance - _residual_squares(added[alone], fixed[alone], slope_of)
            exchanged += _residual_squares(total, fixed_total, slope_of) / (n * m)
            variance = np.maximum(variance, exchanged)
        return delta, _divided(delta, variance)

    def association(self, columns: Array) -> tuple[Array, Array]:
        """How each trait goes with the held-out score among samples of the same side: its slope, (traits,), and its z."""
        scores, centred = self.centre(self.scores[:, None]), self.centre(columns)
        weight = np.repeat([0.5 / self.n, 0.5 / self.m], [self.n, self.m])[:, None]
        products = centred * scores * weight
        added = self.sums[0] @ products + self.sums[1] @ products
        total = added.sum(axis=0)
        # Where nothing goes together, the variance of a product is that of its factors multiplied.
        shuffled = sum(
            (centred[side] ** 2).mean(axis=0) * ((scores * weight)[side] ** 2).sum()
            for side in (slice(None, self.n), slice(self.n, None))
        )
        z = _divided(total, np.maximum((added**2).sum(axis=0), shuffled))
        slope: Array = total / np.maximum((centred**2 * weight).sum(axis=0), _TINY)
        return slope, z

    def centre(self, columns: Array) -> Array:
        """The traits (samples, traits) minus their mean over the own side."""
        means = self.side_means(columns)
        centred: Array = columns - np.repeat(means.T, [self.n, self.m], axis=0)
        return centred


def _residual_squares(added: Columns, fixed: Array, slopes: Array) -> Array:
    """The sums of squares over units of ``added − fixed @ slopes``, (traits,), without building it."""
    if sparse.issparse(added):
        squares = np.asarray(added.power(2).sum(axis=0)).ravel()
    else:
        squares = np.einsum("ij,ij->j", added, added)
    crossed = (added.T @ fixed).T  # (covariates, traits)
    total: Array = squares - 2.0 * (slopes * crossed).sum(axis=0) + (slopes * (fixed.T @ fixed @ slopes)).sum(axis=0)
    return np.maximum(total, 0.0)


def _divided(total: Array, variance: Array) -> Array:
    z: Array = np.where(variance > 0, total / np.sqrt(np.maximum(variance, _TINY)), 0.0)
    return z
