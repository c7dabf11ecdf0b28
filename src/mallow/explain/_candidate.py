"""A candidate for a reason: a trait of every sample, how sure it is, and how it is put into words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mallow.evidence import holm
from mallow.explain._reason import Kind
from mallow.explain._unit_tests import UnitTests, two_sided
from mallow.theory import Array

_TAIL = 0.025  # chosen: share of the samples at either end whose trait is cut to that of the next

Phrase = Callable[[float, float], tuple[str, dict[str, float]]]
"""(mean of the trait over the model's samples, over the reference) → the words, and the numbers in them by name.

Without words, the difference is too small to be worth telling, however significant."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A trait that may be a reason.

    Attributes
    ----------
    kind : Kind
    trait : array (n + m,)
        One number per sample, those of the reference first; without tails once it is judged.
    phrase : Phrase
    means : tuple of float
        The means of the whole trait, of the model and of the reference, for the phrase.
    p_value, adjusted : float
        That the trait does not differ between the sides; adjusted for everything that was judged together.
    """

    kind: Kind
    trait: Array
    phrase: Phrase
    means: tuple[float, float] = (0.0, 0.0)
    p_value: float = 1.0
    adjusted: float = 1.0


def judge_traits(tests: UnitTests, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates with the p-values of their differences."""
    if not candidates:
        return []
    traits = np.stack([candidate.trait for candidate in candidates], axis=1)
    columns = np.stack([clip_tails(trait) for trait in traits.T], axis=1)
    means = tests.side_means(traits)
    delta, z = tests.difference(columns)
    p_values = two_sided(z)
    p_values[delta * (means[:, 0] - means[:, 1]) <= 0] = 1.0  # phrases show plain means
    adjusted = holm(p_values.tolist())
    return [
        replace(
            candidate,
            trait=columns[:, place],
            means=(float(means[place, 1]), float(means[place, 0])),
            p_value=float(p_values[place]),
            adjusted=adjusted[place],
        )
        for place, candidate in enumerate(candidates)
    ]


def clip_tails(trait: Array) -> Array:
    """The trait with its few largest and smallest values cut off, so that no sample decides alone.

    A trait that nearly all samples share, so that nothing would be left of it, stays as it is.
    """
    low, high = np.quantile(trait, [_TAIL, 1.0 - _TAIL])
    clipped: Array = np.clip(trait, low, high)
    return clipped if low < high else trait


def numbers_apart(model: float, reference: float) -> tuple[str, str]:
    """Two numbers with as few decimals as show their difference, and two digits of the larger.

    Examples
    --------
    >>> numbers_apart(4.331, 4.744), numbers_apart(151.2, 152.9), numbers_apart(0.484, -0.0004)
    (('4.3', '4.7'), ('151', '153'), ('0.48', '0.00'))
    """
    largest = max(abs(model), abs(reference))
    start = 0 if largest >= 10 else 1 if largest >= 1 else 2
    for decimals in range(start, 7):
        first, second = (round(value, decimals) + 0.0 for value in (model, reference))  # + 0.0: no minus sign before 0
        if abs(first - second) >= abs(model - reference) / 2.0:
            break
    return f"{first:.{decimals}f}", f"{second:.{decimals}f}"
