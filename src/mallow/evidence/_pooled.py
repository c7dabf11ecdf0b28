"""The rows of one model, of one system or several, and of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mallow.estimate import Features
from mallow.evidence._leave_out import LeaveUnitOut
from mallow.evidence._space import Space
from mallow.evidence._units import Indices
from mallow.theory import Array

Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Pooled:
    """The rows of one model, of one system or several, and of the reference.

    Attributes
    ----------
    space : Space
    rows : int64 array (rows,)
        Which rows of the space take part, rising.
    is_reference : bool array (rows,)
    weight : array (rows,)
        Half of it on each side; it sums to 1.
    corrections : Future of LeaveUnitOut
        For the strengths of the linear discriminants, then for the radius; `leave_out` waits for them.
    sets : sequence of arrays
        The features as they came, for views that a user adds.
    """

    space: Space
    rows: Indices
    is_reference: NDArray[np.bool_]
    weight: Array
    corrections: Future[LeaveUnitOut]
    sets: Sequence[Features]

    @property
    def leave_out(self) -> LeaveUnitOut:
        """Products without the own unit."""
        return self.corrections.result()

    @cached_property
    def unit(self) -> Indices:
        """The unit of each row."""
        return self.space.unit[self.rows]

    @cached_property
    def sides(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """The rows of the reference, and those of the model."""
        return self.is_reference, ~self.is_reference

    @cached_property
    def units_of_sides(self) -> tuple[int, int]:
        """How many units have samples of the reference, and of the model."""
        return len(np.unique(self.unit[self.is_reference])), len(np.unique(self.unit[~self.is_reference]))

    def take(self, values: NDArray[Number]) -> NDArray[Number]:
        """The rows of `values` (rows of the space, ...) that take part."""
        return values if len(self.rows) == len(values) else values[self.rows]

    @cached_property
    def features(self) -> Features:
        """The features of the rows, as they came."""
        every = np.concatenate(list(self.sets))
        ordered = np.empty_like(every)
        ordered[np.concatenate(self.space.places)] = every
        return self.take(ordered)
