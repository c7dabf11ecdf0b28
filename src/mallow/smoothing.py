"""Smoothing of histograms: the public names of `mallow.theory.smoothing`."""

from mallow.theory.smoothing import *  # noqa: F403
from mallow.theory.smoothing import __all__ as __all__
