"""Oriented samples: which is called first depends on the values alone."""

import numpy as np

from estimate_truths import SHIFTED
from mallow.estimate._row_order import orient


def test_orientation_depends_on_the_values_alone():
    x, y = SHIFTED.draw(20, 30, np.random.default_rng(5))
    forth, back = orient(x, y), orient(y[::-1], x)
    assert forth.flipped != back.flipped
    assert np.array_equal(forth.points, back.points)
    assert np.array_equal(forth.first, back.first)
    assert np.array_equal(forth.points[forth.first], (y if forth.flipped else x)[forth.places[0]])


def test_equal_samples_are_not_flipped():
    x = np.random.default_rng(0).normal(size=(10, 2))
    assert not orient(x, x[::-1]).flipped
