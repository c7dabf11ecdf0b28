"""Transport costs: closed forms and limits."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from mallow import InputError
from mallow.errors import WithCaveats
from mallow.theory.transport import (
    entropic_cost,
    gaussian_cost,
    point_masses,
    quantized_cost,
    transport_cost,
)
from point_clouds import clouds, gaussian_points, quantized_points, uneven_masses

pytest.importorskip("ot", reason="needs the extra 'transport'")

X = np.zeros((3, 2))

# --- the exact cost


@given(clouds())
@settings(max_examples=50)
def test_a_sample_and_itself_cost_nothing_and_the_cost_is_symmetric(pair):
    x, y = pair
    assert transport_cost(x, x[::-1]) == 0.0
    assert transport_cost(x, y) == approx(transport_cost(y, x), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("n", "d"), [(40, 2), (30, 10), (12, 50)])  # the last one: d > n
def test_equal_sizes_are_an_assignment_problem(n, d):
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    x, y = gaussian_points(n, d), gaussian_points(n, d, shift=0.3, spread=2.0, seed=1)
    x[: n // 3] = x[0]  # duplicates
    pairwise = cdist(x, y, "sqeuclidean")
    rows, columns = linear_sum_assignment(pairwise)
    assert transport_cost(x, y) == approx(pairwise[rows, columns].mean(), rel=1e-12)


def test_weights_and_sizes_that_differ_are_a_linear_programme():
    from scipy.optimize import linprog
    from scipy.spatial.distance import cdist

    x, y, p, q = gaussian_points(7, 3), gaussian_points(9, 3, seed=1), uneven_masses(7), uneven_masses(9, 1)
    p[2] = 0.0
    p /= p.sum()
    sums = np.concatenate([np.kron(np.eye(7), np.ones(9)), np.kron(np.ones(7), np.eye(9))])
    best = linprog(cdist(x, y, "sqeuclidean").ravel(), A_eq=sums, b_eq=np.concatenate([p, q]), method="highs")
    assert transport_cost(x, y, p=p, q=q) == approx(best.fun, rel=1e-9)


@given(clouds(widths=(1,)), st.integers(0, 10))
@settings(max_examples=50)
def test_on_a_line_sorting_is_the_solver(pair, seed):
    x, y = pair
    p, q = uneven_masses(len(x), seed), uneven_masses(len(y), seed + 1)
    # The same numbers in a plane, where the network simplex solves it.
    flat_x, flat_y = (np.pad(points, ((0, 0), (0, 1))) for points in (x, y))
    for masses in ({}, {"p": p, "q": q}):
        assert transport_cost(x, y, **masses) == approx(transport_cost(flat_x, flat_y, **masses), rel=1e-9, abs=1e-9)
    if len(x) == len(y):
        assert transport_cost(x, y) == approx(((np.sort(x, 0) - np.sort(y, 0)) ** 2).mean(), rel=1e-12)


@given(clouds(widths=(1, 3)), st.floats(-1e3, 1e3))
@settings(max_examples=50)
def test_a_translation_costs_its_squared_length(pair, shift):
    x, _ = pair
    assert transport_cost(x, x + shift) == approx(x.shape[1] * shift**2, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("size", [1e-60, 1e-9, 1e9, 1e60])
def test_the_unit_of_length_does_not_matter(size):
    x, y = gaussian_points(15, 3), gaussian_points(12, 3, seed=1)
    assert transport_cost(size * x, size * y) / size**2 == approx(transport_cost(x, y), rel=1e-9)
    assert transport_cost(size * x, size * x[::-1]) == 0.0


def test_no_digits_are_lost_far_from_the_origin():
    x, y = gaussian_points(15, 3), gaussian_points(15, 3, seed=1)
    assert transport_cost(x + 2.0**20, y + 2.0**20) == approx(transport_cost(x, y), rel=1e-8)


def test_one_point_against_one_and_against_many():
    assert transport_cost([[1, 2]], [[4, 6]]) == 25.0
    y = gaussian_points(20, 4)
    assert transport_cost(np.ones((1, 4)), y) == approx(((y - 1) ** 2).sum(axis=1).mean(), rel=1e-12)


def test_half_precision_is_read_exactly():
    x, y = gaussian_points(10, 3).astype(np.float16), gaussian_points(10, 3, seed=1).astype(np.float16)
    assert transport_cost(x, y) == transport_cost(x.astype(float), y.astype(float))


def test_the_cost_of_large_gaussian_samples_approaches_that_of_the_gaussians():
    x, y = gaussian_points(1500, 2), gaussian_points(1500, 2, shift=1.0, spread=2.0, seed=1)
    truth = gaussian_cost(np.zeros(2), np.eye(2), np.ones(2), 4 * np.eye(2))
    assert truth == approx(2 + 2, rel=1e-12)
    assert transport_cost(x, y) == approx(truth, rel=0.05)


# --- quantised


def test_the_quantised_cost_is_that_of_the_centres():
    masses = quantized_points()
    centres = masses.partition.centres
    assert quantized_cost(masses) == transport_cost(centres, centres, p=masses.p, q=masses.q)
    assert quantized_cost(masses.swap()) == approx(quantized_cost(masses), rel=1e-9)
    assert quantized_cost(replace(masses, q=masses.p)) == 0.0


@given(clouds())
@settings(max_examples=30)
def test_points_that_are_their_own_bins_have_the_plug_in_cost(pair):
    assert quantized_cost(point_masses(*pair)) == approx(transport_cost(*pair), rel=1e-9, abs=1e-9)


# --- Gaussians


@pytest.mark.parametrize("d", [1, 3, 20])
def test_the_gaussian_cost_is_the_textbook_formula(d):
    from scipy.linalg import sqrtm

    rng = np.random.default_rng(d)
    a, b = (np.cov(rng.normal(size=(d, d + 5)) * rng.uniform(0.1, 3)).reshape(d, d) for _ in range(2))
    mean, other = rng.normal(size=(2, d))
    textbook = ((mean - other) ** 2).sum() + np.trace(a + b - 2 * sqrtm(a @ b).real)
    assert gaussian_cost(mean, a, other, b) == approx(textbook, rel=1e-9)
    assert gaussian_cost(other, b, mean, a) == approx(textbook, rel=1e-9)


def test_singular_and_nearly_equal_covariances():
    rng = np.random.default_rng(0)
    thin = rng.normal(size=(30, 4))
    low_rank = thin @ thin.T  # rank 4 of 30
    zero = np.zeros(30)
    assert 0 <= gaussian_cost(zero, low_rank, zero, low_rank) < 1e-12
    assert gaussian_cost(zero, low_rank, zero, np.zeros((30, 30))) == approx(np.trace(low_rank), rel=1e-12)
    # Σ (√(1 + h) − 1)² with h = 1e-9: traces alone would lose all its digits.
    assert gaussian_cost(zero, np.eye(30), zero, (1 + 1e-9) * np.eye(30)) == approx(7.5e-18, rel=1e-3, abs=0)


def test_commuting_covariances_cost_the_difference_of_standard_deviations():
    assert gaussian_cost([0, 0], np.diag([1, 9]), [3, 4], np.diag([4, 1])) == approx(25 + 1 + 4, rel=1e-12)


# --- entropic


def test_the_entropic_cost_lies_between_its_limits():
    x, y, p, q = (
        gaussian_points(20, 3),
        gaussian_points(15, 3, shift=0.5, seed=1),
        uneven_masses(20),
        uneven_masses(15, 1),
    )
    exact = transport_cost(x, y, p=p, q=q)
    product = p @ ((x[:, None] - y) ** 2).sum(axis=2) @ q
    values = [entropic_cost(x, y, p=p, q=q, regulariser=regulariser) for regulariser in (0.02, 0.2, 2.0, 20.0, 1e9)]
    assert np.all(np.diff(values) > 0)
    assert exact < values[0] == approx(exact, rel=2e-3)
    assert values[-1] == approx(product, rel=1e-6)


def test_the_entropic_plan_is_that_of_pot():
    import ot

    x, y, p, q = (
        gaussian_points(20, 3),
        gaussian_points(15, 3, shift=0.5, seed=1),
        uneven_masses(20),
        uneven_masses(15, 1),
    )
    pairwise = ((x[:, None] - y) ** 2).sum(axis=2)
    for regulariser in (0.3, 3.0):
        plan = ot.bregman.sinkhorn_log(p, q, pairwise, regulariser, stopThr=1e-12, numItermax=10_000)
        assert entropic_cost(x, y, p=p, q=q, regulariser=regulariser) == approx((plan * pairwise).sum(), rel=1e-6)
    # A few units in the last place: our pairwise costs come from a product, which rounds differently on other processors.
    few_units = 16 * np.finfo(float).eps
    by_median = entropic_cost(x, y, regulariser=float(np.median(pairwise)))
    assert entropic_cost(x, y) == approx(by_median, rel=few_units, abs=0)


def test_masses_that_sum_to_one_up_to_rounding_are_divided_by_their_sum():
    x, y, p = gaussian_points(6, 2), gaussian_points(5, 2, seed=1), uneven_masses(6)
    for cost in (transport_cost, entropic_cost):
        assert cost(x, y, p=p * (1 + 9e-7)) == approx(cost(x, y, p=p), rel=1e-9)


def test_the_entropic_cost_of_coinciding_points_is_zero():
    assert entropic_cost(np.ones((3, 2)), np.ones((4, 2))) == 0.0


def test_points_without_mass_do_not_count():
    x, y = gaussian_points(6, 2), gaussian_points(5, 2, seed=1)
    p, seen = np.array([0.5, 0, 0.25, 0, 0.25, 0]), [0, 2, 4]
    for cost in (transport_cost, entropic_cost):
        assert cost(x, y, p=p) == approx(cost(x[seen], y, p=p[seen]), rel=1e-12)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "median"])
def test_bad_regularisers_are_refused(value):
    with pytest.raises(InputError, match=r"`regulariser` must be a finite number above 0"):
        entropic_cost(X, X, regulariser=value)


def test_a_regulariser_below_rounding_is_refused():
    with pytest.raises(
        InputError, match=r"`regulariser` must be at least 1e-09 of the largest cost, 2; got 1e-12, .*Use"
    ):
        entropic_cost(X, X + 1.0, regulariser=1e-12)


def test_a_median_of_zero_is_refused():
    y = np.concatenate([X, [[3.0, 1.0]]])
    with pytest.raises(InputError, match=r"median of the pairwise costs, which is 0.* tenth of the mean cost, 0\.25"):
        entropic_cost(X, y)
    assert entropic_cost(X, y, regulariser=0.25) == approx(2.5)


# --- without warnings


def test_solving_returns_the_value_with_its_caveats():
    x, y = gaussian_points(12, 3), gaussian_points(10, 3, seed=1)
    assert transport_cost.quiet(x, y) == WithCaveats(transport_cost(x, y), ())
    assert entropic_cost.quiet(x, y, regulariser=1.0) == WithCaveats(entropic_cost(x, y, regulariser=1.0), ())
    assert entropic_cost.quiet(X, X) == WithCaveats(0.0)
    masses = point_masses(x, y)
    assert quantized_cost.quiet(masses) == WithCaveats(quantized_cost(masses), ())
