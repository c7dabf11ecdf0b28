"""Generators of users: what is not convex is refused, wherever it is."""

import numpy as np
import pytest

from mallow import InputError
from mallow.theory._generator import checked_generator


def test_a_slope_that_falls_but_stays_above_the_first_is_not_convex():
    def bent(t):
        return np.where(t <= 2, (t - 1) ** 2, t - 1.0)  # its slope falls from 2 to 1 at t = 2

    with pytest.raises(InputError, match=r"`f` of 'bent' must be convex; its slope falls near t = "):
        checked_generator("bent", bent)
