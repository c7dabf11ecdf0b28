"""Differences between two sets of samples that are unrelated to the model."""

from mallow.caveats._find import find_confounds
from mallow.caveats._no_answer import ignores_lengths, refuse_without_answer
from mallow.caveats._text_traits import TRAITS, Trait

__all__ = [
    "TRAITS",
    "Trait",
    "find_confounds",
    "ignores_lengths",
    "refuse_without_answer",
]
