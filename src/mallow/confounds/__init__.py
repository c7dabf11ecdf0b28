"""Differences between two sets of samples that are unrelated to the model."""

from mallow.confounds._find import Finding, find_confounds

__all__ = ["Finding", "find_confounds"]
