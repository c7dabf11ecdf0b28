"""Two tests over units: does a trait differ between the sides, and does it correlate with the held-out score?

A trait is one number for each sample. Units are independent, and all sums are over units, so shared prompts, several
samples per prompt and unequal sizes need no special treatment.

- It *differs* if the mean over the reference minus the mean over the model, a sum of what each unit adds, is larger
than
  chance. Where both sides are one distribution, the sides of a unit can be exchanged, and the sum of squares of what
  units add is the variance of the difference over all exchanges.
- It *correlates with the score* if, among samples of the same side, those with more of it have a larger (or smaller)
held-out
  score. Samples of different sides are not compared, since any two differences between the sides would correlate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtr

from mallow.evidence import Evidence
from mallow.theory import Array

# Sums of fixed numbers with random signs exceed z standard deviations at most this many times as often as a normal
# variable (Bentkus and Dzindzalieva, Bernoulli 21, 2015: 1/(4 P(Z ≥ √2))). With pairs the p-values therefore hold for
# any sample.
_RANDOM_SIGNS = 3.178
_LEAST = 1e-16  # the smallest p-value that is reported
_ROUNDING = 1e-9  # share of the largest sum of squares; smaller values may be only rounding
_TINY = np.finfo(np.float64).tiny

Columns = Any  # (samples, traits): a dense array or a sparse matrix, the samples of the reference first


def two_sided(z: Array) -> Array:
    """Two-sided p-values of sums over units that are z standard errors from 0."""
    p_values: Array = np.clip(2.0 * _RANDOM_SIGNS * ndtr(-np.abs(z)), _LEAST, 1.0)
    return p_values


def one_sided(z: Array) -> Array:
    """One-sided p-values of means over many units that are z standard errors above 0."""
    p_values: Array = np.maximum(ndtr(-z), _LEAST)
    return p_values


@dataclass(frozen=True, eq=False)
class UnitTests:
    """The units and the held-out scores of two sides; `of` builds it from evidence.

    A product of `sums` with columns sums them over the samples of the reference, and of the model, in each unit. The
    order of units and samples depends only on their keys and scores, so no sum depends on the order of the samples.
    """

    n: int  # reference samples
    m: int  # model samples
    scores: Array  # (n + m,), held out, the reference first
    sums: tuple[Any, Any]  # two sparse matrices (units, n + m)

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
        """The difference of the mean held-out scores, reference minus model."""
        of_reference, of_model = self.side_means(self.scores[:, None])[0]
        return float(of_reference - of_model)

    def without(self, part: Array) -> UnitTests:
        """The same tests with a part of the scores (n + m,) subtracted."""
        return replace(self, scores=self.scores - part)

    def side_means(self, columns: Columns) -> Array:
        """The mean of each trait over the reference and over the model, (traits, 2)."""
        totals = [np.asarray((unit_sums @ columns).sum(axis=0)).ravel() for unit_sums in self.sums]
        return np.stack([totals[0] / self.n, totals[1] / self.m], axis=1)

    def difference(self, columns: Columns, strata: NDArray[np.int64] | None = None) -> tuple[Array, Array]:
        """The difference of the means of each trait, reference minus model, (traits,), and its z.

        With strata (n + m,), numbers from 0, samples are compared within their stratum only, as by Cochran, Mantel and
        Haenszel: their traits are centred on the mean of the stratum, and weighted by the number of samples of the
        other side in it.

        The variance is the sum of squares of the parts of units, with traits centred on their common mean, which is the
        variance over all exchanges of sides within units. For a rare trait of samples of one side, in units with one
        side, this would be too small. Then it is at least the variance without a difference between the sides.
        """
        n, m = self.n, self.m
        if strata is None:
            strata, inside = np.zeros(n + m, np.int64), np.ones((n + m, 1))
            means = (self.side_means(columns) @ [n, m] / (n + m))[None]  # (strata, traits)
        else:
            inside = np.eye(int(strata.max()) + 1)[strata]  # (samples, strata)
            means = (columns.T @ inside).T / np.maximum(inside.sum(axis=0), 1.0)[:, None]
        of_p, of_q = inside[:n].sum(axis=0), inside[n:].sum(axis=0)
        factor = (1.0 / n + 1.0 / m) / np.maximum(of_p + of_q, 1.0)
        weight = np.concatenate([(factor * of_q)[strata[:n]], -(factor * of_p)[strata[n:]]])
        added, fixed = (self._per_unit(_scaled(traits, weight)) for traits in (columns, inside))
        delta = np.asarray(added.sum(axis=0)).ravel() - fixed.sum(axis=0) @ means
        variance = _residual_squares(added, fixed, means)
        alone = np.logical_xor(*(np.diff(side.indptr) > 0 for side in self.sums))
        if alone.any():
            together = _residual_squares(added[~alone], fixed[~alone], means)
            variance = np.maximum(variance, together + self._least_variance(columns, inside, means, weight, alone))
        return delta, _divided(delta, variance)

    def _least_variance(
        self, columns: Columns, inside: Array, means: Array, weight: Array, alone: NDArray[np.bool_]
    ) -> Array:
        """The variance from units with one side if both sides have the same variance in each stratum, (traits,).

        Samples of a unit are similar, which increases the variance, by the mean over all traits for each side.
        """
        squares = columns.power(2) if sparse.issparse(columns) else columns**2
        spread = np.maximum((squares.T @ inside).T / np.maximum(inside.sum(axis=0), 1.0)[:, None] - means**2, 0.0)
        total = np.zeros(means.shape[1])
        for unit_sums in self.sums:
            some = unit_sums[np.flatnonzero(alone)]
            rows = some.indices
            if len(rows) == 0:
                continue
            units = _residual_squares(some @ columns, some @ inside, means)
            samples = _residual_squares(columns[rows], inside[rows], means)
            varying = samples > _ROUNDING * samples.max()
            alike = float(np.mean(units[varying] / samples[varying])) if varying.any() else 1.0
            total += max(alike, 1.0) * ((weight[rows] ** 2) @ inside[rows]) @ spread
        return total

    def _per_unit(self, columns: Columns) -> Columns:
        """The sum over the samples of each unit, of both sides, (units, traits)."""
        return self.sums[0] @ columns + self.sums[1] @ columns

    def association(self, columns: Array) -> tuple[Array, Array]:
        """The correlation of each trait with the held-out score among samples of the same side.

        Returns its slope, (traits,), and its z.
        """
        scores, centred = self.centre(self.scores[:, None]), self.centre(columns)
        weight = np.repeat([0.5 / self.n, 0.5 / self.m], [self.n, self.m])[:, None]
        products = centred * scores * weight
        added = self.sums[0] @ products + self.sums[1] @ products
        total = added.sum(axis=0)
        # Without correlation, the variance of a product is the product of the variances of its factors.
        of_trait, of_score = self.side_means(centred**2), self.side_means((scores * weight) ** 2)[0]
        shuffled = of_trait @ (of_score * [self.n, self.m])
        z = _divided(total, np.maximum((added**2).sum(axis=0), shuffled))
        return total / np.maximum(of_trait.mean(axis=1), _TINY), z

    def centre(self, columns: Array) -> Array:
        """The traits (samples, traits) minus their mean over the same side."""
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


def _scaled(columns: Columns, factor: Array) -> Columns:
    """Each row times a number."""
    return sparse.diags_array(factor) @ columns if sparse.issparse(columns) else columns * factor[:, None]


def _divided(total: Array, variance: Array) -> Array:
    z: Array = np.where(variance > 0, total / np.sqrt(np.maximum(variance, _TINY)), 0.0)
    return z
