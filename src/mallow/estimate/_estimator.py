"""What an estimator is, and what happens when a user calls one."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from mallow.errors import warn_about
from mallow.estimate._features import Features, checked_pair
from mallow.theory import Masses

Prepared = TypeVar("Prepared")


class Estimator(Protocol):
    """Turns two samples of features into masses.

    `scale` is the paper's constant c for this estimator. An estimator without randomness may also have an attribute
    ``deterministic = True``: one repeat is then enough.
    """

    scale: ClassVar[float]

    def prepare(self, x: Any, y: Any) -> Any:
        """Everything that needs no randomness, done once for all repeats.

        x (n, d) is the reference and y (m, d) the model. Both are finite float32 or float64 arrays of the same width
        with at least two rows each (see `checked_pair`): an implementation need not check them again, and a caller must
        have done so.
        """

    def masses(self, prepared: Any, rng: int | np.random.Generator) -> Masses:
        """The masses of one repeat; doubts about them are in their `caveats`, and no warnings are raised."""

    def __call__(self, x: Any, y: Any, *, rng: int | np.random.Generator = 0) -> Masses:
        """Check the samples, prepare them and estimate once; caveats are raised as warnings."""


class _TwoSteps(Protocol[Prepared]):
    def prepare(self, x: Features, y: Features) -> Prepared: ...

    def masses(self, prepared: Prepared, rng: int | np.random.Generator | None) -> Masses: ...


def estimate_masses(estimator: _TwoSteps[Prepared], x: Any, y: Any, rng: int | np.random.Generator | None) -> Masses:
    """What calling an estimator does: check, prepare, estimate once, and warn about the caveats."""
    masses = estimator.masses(estimator.prepare(*checked_pair(x, y)), rng)
    warn_about(masses.caveats, stacklevel=3)
    return masses
