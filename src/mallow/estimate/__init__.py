"""From features to masses: every estimator of the paper, each a callable frozen dataclass.

    estimator(x, y, rng=0) -> Masses          x the reference, y the model, a row a sample

`estimator.scale` is the paper's constant c for it. Five repeats share what has no randomness in it:
``estimator.prepare(x, y)`` once, then ``estimator.masses(prepared, rng)`` for each.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np

from mallow.estimate._classifier import PENALTIES, Classifier
from mallow.estimate._gaussian import Gaussian
from mallow.estimate._neighbors import KernelDensity, Neighbors
from mallow.estimate._quantize import Codebook, Prepared, Quantize, split_size
from mallow.estimate._reduce import Features, Reduce, checked_features, checked_pair
from mallow.estimate._row_order import canonical_order
from mallow.theory import Masses

__all__ = [
    "PENALTIES",
    "Classifier",
    "Codebook",
    "Estimator",
    "Features",
    "Gaussian",
    "KernelDensity",
    "Neighbors",
    "Prepared",
    "Quantize",
    "Reduce",
    "canonical_order",
    "checked_features",
    "checked_pair",
    "split_size",
]


class Estimator(Protocol):
    """What turns two samples of features into masses."""

    scale: ClassVar[float]

    def prepare(self, x: Any, y: Any) -> Any:
        """Everything that has no randomness in it, done once for all repeats."""

    def masses(self, prepared: Any, rng: int | np.random.Generator) -> Masses:
        """The masses of one repeat."""

    def __call__(self, x: Any, y: Any, *, rng: int | np.random.Generator = 0) -> Masses:
        """Both in one."""
