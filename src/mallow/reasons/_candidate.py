"""A candidate for a reason: a trait of every sample, how sure it is, and how it is put into words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mallow.inference import holm
from mallow.reasons._reason import Kind
from mallow.reasons._unit_tests import UnitTests, two_sided
from mallow.theory import Array

__all__ = ["Candidate", "Family", "numbers_apart", "test_traits"]

Phrase = Callable[[bool, Array], tuple[str, dict[str, float]]]
"""(whether the model has more of the trait, its means over the reference and the model) → the words and their numbers."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A trait that may be a reason.

    Attributes
    ----------
    kind : Kind
    trait : array (n + m,)
        One number per sample, those of the reference first.
    phrase : Phrase
    p_value, adjusted : float
        That it differs between the sides and goes with the score; adjusted for all tests of the family.
    """

    kind: Kind
    trait: Array
    phrase: Phrase
    p_value: float = 1.0
    adjusted: float = 1.0


@dataclass(frozen=True, eq=False)
class Family:
    """Candidates that were corrected together: the correction over several families is to multiply by their number.

    `tests` is the number of families that the candidates stand for: word groups are tested twice.
    """

    candidates: tuple[Candidate, ...]
    tests: int = 1


def test_traits(tests: UnitTests, candidates: Sequence[Candidate]) -> Family:
    """The candidates with p-values: each differs between the sides *and* goes with the score in the same direction."""
    if not candidates:
        return Family((), 0)
    columns = np.stack([candidate.trait for candidate in candidates], axis=1)
    _, z_difference = tests.difference(columns)
    _, z_association = tests.association(columns)
    p_values = np.maximum(two_sided(z_difference), two_sided(z_association))
    p_values[z_difference * z_association <= 0] = 1.0
    adjusted = holm(p_values.tolist())
    return Family(
        tuple(
            replace(candidate, p_value=float(p), adjusted=each)
            for candidate, p, each in zip(candidates, p_values, adjusted, strict=True)
        )
    )


def numbers_apart(model: float, reference: float) -> tuple[str, str]:
    """Two different numbers with as few decimals as show the difference.

    Examples
    --------
    >>> numbers_apart(4.331, 4.744), numbers_apart(151.2, 152.9), numbers_apart(0.011, 0.592)
    (('4.3', '4.7'), ('151', '153'), ('0.0', '0.6'))
    """
    largest = max(abs(model), abs(reference))
    for decimals in range(0 if largest >= 10 else 1, 6):
        shown = f"{model:.{decimals}f}", f"{reference:.{decimals}f}"
        if abs(float(shown[0]) - float(shown[1])) >= abs(model - reference) / 2.0:
            break
    return shown
