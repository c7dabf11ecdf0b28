"""Differences between two sets of samples that are unrelated to the model."""

from mallow.confounds._find import find_confounds

__all__ = ["find_confounds"]
