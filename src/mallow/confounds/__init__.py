"""Differences between two sets of samples that are unrelated to the model."""

from mallow.confounds._find import find_confounds
from mallow.confounds._text_traits import TRAITS, Trait

__all__ = ["TRAITS", "Trait", "find_confounds"]
