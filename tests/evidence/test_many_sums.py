"""Solving many systems by conjugate gradients, against direct solutions."""

import warnings

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from mallow.evidence._coarse import _conjugate_gradients


@given(seed=st.integers(0, 10_000), d=st.integers(1, 12), columns=st.integers(1, 4))
@settings(max_examples=50)
def test_conjugate_gradients_solve_every_column_that_has_a_target(seed, d, columns):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d, d))
    matrix = root @ root.T + np.eye(d)
    targets = rng.normal(size=(d, columns)) * 10.0 ** rng.integers(-6, 6, size=columns)
    targets[:, rng.random(columns) < 0.3] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = _conjugate_gradients(lambda x: matrix @ x, lambda x: x / np.diag(matrix)[:, None], targets)
    size = np.abs(targets).max(axis=0)
    expected = np.linalg.solve(matrix, targets)
    for own, other, scale in zip(solution.T, expected.T, size, strict=True):
        assert own == approx(other, abs=1e-3 * scale)
    assert (solution[:, size == 0] == 0).all()


def test_directions_without_curvature_end_the_work():
    matrix = np.diag([2.0, 0.0])
    solution = _conjugate_gradients(lambda x: matrix @ x, lambda x: x, np.array([[4.0, 0.0], [0.0, 3.0]]))
    assert solution == approx(np.array([[2.0, 0.0], [0.0, 0.0]]))
