"""What transport refuses, and the messages."""

import numpy as np
import pytest

from mallow import InputError, Masses, Quantize
from mallow.theory import extrapolated
from mallow.theory.transport import (
    barycentric_frontier,
    entropic_cost,
    gaussian_cost,
    linear_frontier,
    quantized_cost,
    transport_cost,
)
from point_clouds import gaussian_points

X = np.zeros((3, 2))


@pytest.mark.parametrize("cost", [transport_cost, entropic_cost])
@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        (
            X,
            np.zeros((3, 4)),
            {},
            r"`x` and `y` must have the same number of columns, as points of one space; got 2 and 4",
        ),
        (np.zeros(3), X, {}, r"`x` must have two axes.*\(3,\)\. Pass numbers on a line as x\[:, None\]"),
        (X, np.empty((0, 2)), {}, r"`y` must not be empty"),
        ([[0.0, np.nan]], X, {}, r"`x` must be finite; got nan at index \(0, 1\)"),
        (X, [[0.0, -np.inf]], {}, r"`y` must be finite; got -inf"),
        ([["a"]], X, {}, r"`x` must be an array of real numbers"),
        (X, [[0.0, 1e200]], {}, r"`y` must stay below 1e\+150.*; got 1e\+200\. Rescale both samples"),
        (X, X, {"p": [0.5, 0.5]}, r"`p` must hold one mass for each of the 3 points of `x`; got shape \(2,\)"),
        (X, X, {"q": [0.5, 0.4, 0.2]}, r"`q` must sum to 1 within 1e-06; got 1\.1\. Divide"),
        (X, X, {"q": [1.5, -0.5, 0.0]}, r"`q` must not be negative; got -0\.5 at index 1"),
        (X, X, {"p": [np.nan, 0.5, 0.5]}, r"`p` must be finite"),
    ],
)
def test_bad_points_and_masses_are_refused(cost, x, y, options, message):
    with pytest.raises(InputError, match=message):
        cost(x, y, **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ([0, 0], np.eye(2), [0], np.eye(1)),
            r"`mean_x` and `mean_y` must be two vectors of the same length; got shapes \(2,\) and \(1,\)",
        ),
        (
            ([0, 0], np.eye(3), [0, 0], np.eye(2)),
            r"`cov_x` must be a matrix of 2 by 2, the length of the means; got shape \(3, 3\)",
        ),
        (([0, 0], np.eye(2), [0, 0], [[1, 1], [0, 1]]), r"`cov_y` must be symmetric, but it differs .* up to 1"),
        (
            ([0, 0], -np.eye(2), [0, 0], np.eye(2)),
            r"`cov_x` must be a covariance, without negative eigenvalues; got -1",
        ),
        (([0, np.nan], np.eye(2), [0, 0], np.eye(2)), r"`mean_x` must be finite"),
        (([0, 0], np.eye(2), [0, 0], np.full((2, 2), np.inf)), r"`cov_y` must be finite"),
    ],
)
def test_bad_gaussians_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        gaussian_cost(*arguments)


@pytest.mark.parametrize("function", [quantized_cost, linear_frontier, barycentric_frontier])
def test_masses_without_centres_are_refused(function):
    with pytest.raises(InputError, match=r"`masses` must be Masses.* got ndarray"):
        function(X)
    with pytest.raises(
        InputError,
        match=r"`masses` must be one pair of histograms whose bins have centres\. Take them from mallow\.Quan",
    ):
        function(Masses.from_histograms([0.5, 0.5], [0.5, 0.5]))
    masses = Quantize(bins=10, smoothing=extrapolated, reduce=None)(
        gaussian_points(200, 2), gaussian_points(200, 2, seed=1)
    )
    with pytest.raises(
        InputError,
        match=r"must be two plain histograms; got an extrapolation from half-samples, with negative weights\. Pass",
    ):
        function(masses)


def test_what_is_nearly_symmetric_or_nearly_positive_passes():
    tilted = np.array([[1.0, 5e-9], [0.0, 1.0]])
    assert gaussian_cost([0, 0], tilted, [0, 0], np.eye(2)) == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(InputError, match="`cov_x` must be symmetric, but it differs from its transpose by up to 2e-08"):
        gaussian_cost([0, 0], [[1.0, 2e-8], [0.0, 1.0]], [0, 0], np.eye(2))
    assert gaussian_cost([0, 0], np.diag([4.0, -3e-8]), [0, 0], np.zeros((2, 2))) == pytest.approx(4.0)
    with pytest.raises(InputError, match="`cov_x` must be a covariance, without negative eigenvalues; got -5e-08"):
        gaussian_cost([0, 0], np.diag([4.0, -5e-8]), [0, 0], np.eye(2))
    with pytest.raises(InputError, match="`cov_y` must be symmetric"):
        gaussian_cost([0, 0], np.eye(2), [0, 0], [[1.0, -0.5], [0.5, 1.0]])


def test_each_side_is_checked_by_its_name():
    with pytest.raises(InputError, match="`mean_y` must be finite"):
        gaussian_cost([0, 0], np.eye(2), [0, np.inf], np.eye(2))
    with pytest.raises(InputError, match="`mean_x` and `mean_y` must be two vectors of the same length"):
        gaussian_cost([[0, 0]], np.eye(2), [[0, 0]], np.eye(2))
    with pytest.raises(InputError, match="`cov_x` must be finite"):
        gaussian_cost([0, 0], np.full((2, 2), np.nan), [0, 0], np.eye(2))
    for value, fine in ((1e150, True), (1.1e150, False), (-1.1e150, False)):
        if fine:
            assert transport_cost([[value]], [[value]]) == 0.0
        else:
            with pytest.raises(InputError, match=r"`x` must stay below 1e\+150"):
                transport_cost([[value]], [[0.0]])


@pytest.mark.parametrize(("total", "fine"), [(1 + 9e-7, True), (1 - 9e-7, True), (1 + 2e-6, False), (1 - 2e-6, False)])
def test_masses_may_miss_one_by_a_millionth(total, fine):
    x, y = [[0.0], [1.0]], [[0.0]]
    if fine:
        assert transport_cost(x, y, p=[total - 0.5, 0.5]) == pytest.approx(0.5, rel=1e-5)
    else:
        with pytest.raises(InputError, match="`p` must sum to 1 within 1e-06; got"):
            transport_cost(x, y, p=[total - 0.5, 0.5])


def test_points_without_mass_are_dropped_with_it():
    x, y = np.array([[0.0], [1e3], [2.0]]), np.array([[-1e3], [1.5]])
    for cost in (transport_cost, entropic_cost):
        assert cost(x, y, p=[0.5, 0.0, 0.5], q=[0.0, 1.0]) == cost(x[[0, 2]], y[[1]])
