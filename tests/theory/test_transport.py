"""Optimal transport: closed forms, limits, frontiers, and what is refused."""

import sys
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pytest import approx

from mallow.errors import EstimateWarning, InputError
from mallow.estimate._quantize import Quantize
from mallow.theory import transport
from mallow.theory._debias import debiased
from mallow.theory._frontier import Frontier, area
from mallow.theory._masses import Masses
from mallow.theory.smoothing import empirical
from mallow.theory.transport import (
    barycentric_frontier,
    entropic_cost,
    gaussian_cost,
    linear_frontier,
    point_masses,
    quantized_cost,
    transport_cost,
)

pytest.importorskip("ot", reason="needs the extra 'transport'")

coordinates = st.floats(-100, 100, allow_subnormal=False).map(lambda value: round(value, 3))


@st.composite
def clouds(draw, most=8, widths=(1, 2, 5)):
    """Two small samples of one width, of different sizes, with ties."""
    d = draw(st.sampled_from(widths))
    sizes = draw(st.integers(1, most)), draw(st.integers(1, most))
    return tuple(draw(hnp.arrays(np.float64, (n, d), elements=coordinates)) for n in sizes)


def uneven(size, seed=0):
    weights = np.random.default_rng(seed).random(size)
    return weights / weights.sum()


def normal(n, d, *, shift=0.0, spread=1.0, seed=0):
    return shift + spread * np.random.default_rng(seed).normal(size=(n, d))


def quantized(d=2, n=300, shift=0.5):
    return Quantize(bins=30, smoothing=empirical, reduce=None)(normal(n, d), normal(n, d, shift=shift, seed=1))


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

    x, y = normal(n, d), normal(n, d, shift=0.3, spread=2.0, seed=1)
    x[: n // 3] = x[0]  # duplicates
    pairwise = cdist(x, y, "sqeuclidean")
    rows, columns = linear_sum_assignment(pairwise)
    assert transport_cost(x, y) == approx(pairwise[rows, columns].mean(), rel=1e-12)


def test_weights_and_sizes_that_differ_are_a_linear_programme():
    from scipy.optimize import linprog
    from scipy.spatial.distance import cdist

    x, y, p, q = normal(7, 3), normal(9, 3, seed=1), uneven(7), uneven(9, 1)
    p[2] = 0.0
    p /= p.sum()
    sums = np.concatenate([np.kron(np.eye(7), np.ones(9)), np.kron(np.ones(7), np.eye(9))])
    best = linprog(cdist(x, y, "sqeuclidean").ravel(), A_eq=sums, b_eq=np.concatenate([p, q]), method="highs")
    assert transport_cost(x, y, p=p, q=q) == approx(best.fun, rel=1e-9)


@given(clouds(widths=(1,)), st.integers(0, 10))
@settings(max_examples=50)
def test_on_a_line_sorting_is_the_solver(pair, seed):
    x, y = pair
    p, q = uneven(len(x), seed), uneven(len(y), seed + 1)
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
    x, y = normal(15, 3), normal(12, 3, seed=1)
    assert transport_cost(size * x, size * y) / size**2 == approx(transport_cost(x, y), rel=1e-9)
    assert transport_cost(size * x, size * x[::-1]) == 0.0


def test_far_from_the_origin_digits_are_kept():
    x, y = normal(15, 3), normal(15, 3, seed=1)
    assert transport_cost(x + 2.0**20, y + 2.0**20) == approx(transport_cost(x, y), rel=1e-8)


def test_one_point_each_and_one_against_many():
    assert transport_cost([[1, 2]], [[4, 6]]) == 25.0
    y = normal(20, 4)
    assert transport_cost(np.ones((1, 4)), y) == approx(((y - 1) ** 2).sum(axis=1).mean(), rel=1e-12)


def test_half_precision_is_read_as_it_is():
    x, y = normal(10, 3).astype(np.float16), normal(10, 3, seed=1).astype(np.float16)
    assert transport_cost(x, y) == transport_cost(x.astype(float), y.astype(float))


def test_the_cost_of_big_gaussian_samples_nears_that_of_the_gaussians():
    x, y = normal(1500, 2), normal(1500, 2, shift=1.0, spread=2.0, seed=1)
    truth = gaussian_cost(np.zeros(2), np.eye(2), np.ones(2), 4 * np.eye(2))
    assert truth == approx(2 + 2, rel=1e-12)
    assert transport_cost(x, y) == approx(truth, rel=0.05)


def test_a_long_search_is_resumed_and_says_how_far_it_is(monkeypatch):
    said = []

    @contextmanager
    def recorded(verb, total, *, wanted=None):
        yield lambda done, text: said.append((verb, done / total, text))

    x, y = normal(120, 6), normal(120, 6, seed=1)
    at_once = transport_cost(x, y)
    monkeypatch.setattr(transport, "bar", recorded)
    monkeypatch.setattr(transport, "_PIVOTS", 100)
    assert transport_cost(x, y) == approx(at_once, rel=1e-12)
    assert 3 < len(said) < 9  # 5; it would be 12 if each search began anew
    assert {verb for verb, _, _ in said} == {"transport"}
    assert said[0][1] < 0.9 < said[-1][1] <= 1.0
    assert said[-1][2] == "100.0% of the cost proven"


def test_a_plan_that_is_not_the_best_is_reported(monkeypatch):
    import ot

    def careless(p, q, cost, **options):
        plan, log = ot.lp.emd(p, q, cost, log=True)
        plan = np.outer(p, q)
        return plan, log | {"cost": float((plan * cost).sum())}

    x, y = normal(20, 3), normal(20, 3, seed=1)
    monkeypatch.setattr(ot, "emd", careless)
    with pytest.warns(EstimateWarning, match=r"may not be the best: its cost is proven to be within \d+\.\d% of"):
        transport_cost(x, y)


# --- quantised


def test_the_quantised_cost_is_that_of_the_centres():
    masses = quantized()
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
    x, y, p, q = normal(20, 3), normal(15, 3, shift=0.5, seed=1), uneven(20), uneven(15, 1)
    exact = transport_cost(x, y, p=p, q=q)
    product = p @ ((x[:, None] - y) ** 2).sum(axis=2) @ q
    values = [entropic_cost(x, y, p=p, q=q, regulariser=each) for each in (0.02, 0.2, 2.0, 20.0, 1e9)]
    assert np.all(np.diff(values) > 0)
    assert exact < values[0] == approx(exact, rel=2e-3)
    assert values[-1] == approx(product, rel=1e-6)


def test_the_entropic_plan_is_that_of_the_library():
    import ot

    x, y, p, q = normal(20, 3), normal(15, 3, shift=0.5, seed=1), uneven(20), uneven(15, 1)
    pairwise = ((x[:, None] - y) ** 2).sum(axis=2)
    for regulariser in (0.3, 3.0):
        plan = ot.bregman.sinkhorn_log(p, q, pairwise, regulariser, stopThr=1e-12, numItermax=10_000)
        assert entropic_cost(x, y, p=p, q=q, regulariser=regulariser) == approx((plan * pairwise).sum(), rel=1e-6)
    assert entropic_cost(x, y) == entropic_cost(x, y, regulariser=float(np.median(pairwise)))


def test_two_points_have_a_closed_form():
    # Plan (s, t; t, s)/2 with t/s = e^(−1/ε): the cost is t.
    x = np.array([[0.0], [1.0]])
    for regulariser in (0.05, 0.5, 5.0):
        odds = np.exp(-1 / regulariser)
        assert entropic_cost(x, x, regulariser=regulariser) == approx(odds / (1 + odds), rel=1e-7)


def test_costs_of_a_million_with_a_tiny_regulariser_are_stable():
    x, y = np.array([[0.0], [1000.0]]), np.array([[1.0], [1001.0]])
    assert entropic_cost(x, y, regulariser=0.01) == approx(1.0, rel=1e-9)  # e^(−10⁸) is no number
    scattered = 1e3 * normal(12, 2)
    moved = scattered + 1e-2 * normal(12, 2, seed=1)
    assert entropic_cost(scattered, moved, regulariser=1.0) == approx(transport_cost(scattered, moved), rel=1e-6)


def test_an_entropic_plan_that_has_not_settled_is_reported(monkeypatch):
    x, y = normal(20, 3), normal(21, 3, seed=1)
    settled = entropic_cost(x, y, regulariser=0.3)
    monkeypatch.setattr(transport, "_MOST_ROUNDS", 2)
    with pytest.warns(EstimateWarning, match=r"has not settled: its masses are off by .* larger `regulariser`"):
        found = entropic_cost(x, y, regulariser=0.3)
    assert found == approx(settled, rel=1e-3)
    with pytest.raises(InputError, match=r"`regulariser` is too small: after 200 steps .* take transport_cost"):
        entropic_cost(x, y, regulariser=1e-6)


def test_scalings_beyond_any_number_are_carried_over_as_logarithms():
    # Almost all mass must take the dear way from 0 to 11, whose kernel is e^(−2/ε) = 1e-869 of the others'.
    x, y = np.array([[0.0], [1.0]]), np.array([[10.0], [11.0]])
    p, q = [1 - 1e-6, 1e-6], [1e-6, 1 - 1e-6]
    found = entropic_cost(x, y, p=p, q=q, regulariser=1e-3)
    assert found == approx(transport_cost(x, y, p=p, q=q), rel=1e-9)


def test_masses_that_sum_to_one_but_for_rounding_are_divided_by_their_sum():
    x, y, p = normal(6, 2), normal(5, 2, seed=1), uneven(6)
    for cost in (transport_cost, entropic_cost):
        assert cost(x, y, p=p * (1 + 9e-7)) == approx(cost(x, y, p=p), rel=1e-9)


def test_the_entropic_cost_of_one_place_is_nothing():
    assert entropic_cost(np.ones((3, 2)), np.ones((4, 2))) == 0.0


def test_points_without_mass_do_not_count():
    x, y = normal(6, 2), normal(5, 2, seed=1)
    p, seen = np.array([0.5, 0, 0.25, 0, 0.25, 0]), [0, 2, 4]
    for cost in (transport_cost, entropic_cost):
        assert cost(x, y, p=p) == approx(cost(x[seen], y, p=p[seen]), rel=1e-12)


# --- frontiers

both = pytest.mark.parametrize("made", [linear_frontier, barycentric_frontier])


@both
@pytest.mark.parametrize("d", [1, 2, 8])
def test_frontiers_are_monotone_and_their_ends_are_known(made, d):
    masses = quantized(d)
    curve, whole = made(masses), quantized_cost(masses)
    assert (curve.lam[0], curve.lam[-1]) == (0.0, 1.0)
    assert (curve.p_to_mix[0], curve.q_to_mix[0]) == approx((whole, 0.0))
    assert (curve.p_to_mix[-1], curve.q_to_mix[-1]) == approx((0.0, whole))
    assert (np.diff(curve.p_to_mix) < 0).all()
    assert (np.diff(curve.q_to_mix) > 0).all()


@both
@given(pair=clouds(most=4, widths=(1, 2)))
@settings(max_examples=20)
def test_the_area_is_symmetric_and_one_only_if_equal(made, pair):
    x, y = (points / 100 for points in pair)
    found = float(area(made(point_masses(x, y)), scale=5))
    assert 0.0 <= found <= 1.0
    assert found == approx(float(area(made(point_masses(y, x)), scale=5)), abs=1e-9)
    assert (found > 1 - 1e-12) == (transport_cost(x, y) < 1e-6)
    assert area(made(point_masses(x, x)), scale=5) == 1.0


def test_the_linear_frontier_is_the_cost_to_the_mixture():
    x, y = normal(12, 2), normal(9, 2, shift=0.7, seed=1)
    curve, pool = linear_frontier(point_masses(x, y), tolerance=1e-5), np.concatenate([x, y])
    for place in (100, 300, 700, 1000):
        lam = curve.lam[place]
        mix = np.concatenate([np.full(12, lam / 12), np.full(9, (1 - lam) / 9)])
        assert curve.p_to_mix[place] == approx(transport_cost(x, pool, q=mix), rel=1e-3)
        assert curve.q_to_mix[place] == approx(transport_cost(y, pool, q=mix), rel=1e-3)


def test_linear_costs_lie_between_those_of_barycentres_and_of_moving_the_rest():
    # Cost(P, R) + … : leaving λP in place costs (1−λ)W; no R is nearer both than the barycentre.
    for d in (1, 2, 8):
        masses = quantized(d)
        curve, whole = linear_frontier(masses), quantized_cost(masses)
        lam = curve.lam
        assert (curve.p_to_mix <= (1 - lam) * whole + 1e-12).all()
        assert (curve.q_to_mix <= lam * whole + 1e-12).all()
        assert (lam * curve.p_to_mix + (1 - lam) * curve.q_to_mix >= lam * (1 - lam) * whole - 1e-12).all()


def test_a_chain_of_short_moves_is_cheaper_than_a_long_one():
    # P on 0, 1, …, 9 and Q on 1, …, 10: the mixture is reached by steps of 1, whose squares are small.
    x = np.arange(10.0)[:, None]
    curve = linear_frontier(point_masses(x, x + 1.0))
    assert curve.p_to_mix[512] == approx(0.5 * 1.0)  # each half mass moves 1 either way
    far = linear_frontier(point_masses(x, x[::-1] + 9.0))
    assert far.p_to_mix[512] < 0.5 * far.p_to_mix[0] * 0.9


def test_the_linear_frontier_of_two_points_is_straight():
    curve = linear_frontier(point_masses([[0.0, 0.0]], [[3.0, 4.0]]))
    assert curve.p_to_mix == approx(25 * (1 - curve.lam))
    assert curve.q_to_mix == approx(25 * curve.lam)
    small = linear_frontier(point_masses([[0.0]], [[0.5]]))
    assert area(small, scale=5) == approx(np.exp(-1.25) * 2.25, abs=1e-6)


def test_a_finer_tolerance_changes_the_curve_by_less_than_the_coarse_one():
    masses = quantized(2)
    whole = quantized_cost(masses)
    coarse, fine = linear_frontier(masses, tolerance=0.01), linear_frontier(masses, tolerance=1e-5)
    assert 0 < np.abs(coarse.p_to_mix - fine.p_to_mix).max() <= 0.02 * whole
    assert (coarse.p_to_mix >= fine.p_to_mix - 1e-12).all()  # chords lie above a convex curve


def test_the_barycentre_of_two_point_masses():
    x, y = np.array([[1.0, 2.0]]), np.array([[4.0, 6.0]])
    curve = barycentric_frontier(point_masses(x, y))
    for place in (0, 256, 512, 1000):
        middle = curve.lam[place] * x + (1 - curve.lam[place]) * y
        assert curve.p_to_mix[place] == approx(((x - middle) ** 2).sum())
        assert curve.q_to_mix[place] == approx(((y - middle) ** 2).sum())


def test_barycentres_cost_what_the_frontier_says_and_no_point_set_does_better():
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    x, y, rng = normal(12, 3), normal(12, 3, shift=0.5, seed=1), np.random.default_rng(2)
    curve = barycentric_frontier(point_masses(x, y))
    partner = y[linear_sum_assignment(cdist(x, y, "sqeuclidean"))[1]]
    for place in (200, 512, 900):
        lam = curve.lam[place]
        middle = lam * x + (1 - lam) * partner
        assert curve.p_to_mix[place] == approx(transport_cost(x, middle), rel=1e-9)
        assert curve.q_to_mix[place] == approx(transport_cost(y, middle), rel=1e-9)
        least = lam * curve.p_to_mix[place] + (1 - lam) * curve.q_to_mix[place]
        for size in (0.01, 0.3):
            other = middle + size * rng.normal(size=middle.shape)
            assert lam * transport_cost(x, other) + (1 - lam) * transport_cost(y, other) > least


def test_the_areas_printed_in_the_paper_are_those_of_its_quantised_costs():
    # paper: table:ot-full, columns "Quantized" and "OT + linear interpolation", rounded to 0.001; W ± 0.0005 there.
    cost = np.array([0.158, 0.083, 0.208, 0.077, 0.104, 0.062, 0.090, 0.061])
    printed = np.array([0.814, 0.935, 0.725, 0.942, 0.905, 0.961, 0.924, 0.962])
    # Two far points at the distance that costs W have a straight frontier.
    found = [float(area(linear_frontier(point_masses([[0.0]], [[w**0.5]])), scale=5)) for w in cost]
    assert np.abs(np.array(found) - printed).max() < 0.0045
    assert np.exp(-5 * cost) * (1 + 5 * cost) == approx(found, abs=1e-6)


def test_frontiers_do_not_share_their_arrays():
    first, second = (barycentric_frontier(point_masses([[0.0]], [[1.0]])) for _ in range(2))
    assert isinstance(first, Frontier)
    assert not np.shares_memory(first.lam, second.lam)


def test_the_linear_frontier_says_how_far_it_is(monkeypatch):
    said = []

    @contextmanager
    def recorded(verb, total, *, wanted=None):
        yield lambda done, text: said.append((verb, done / total, text, wanted))

    monkeypatch.setattr(transport, "bar", recorded)
    linear_frontier(quantized(2), tolerance=0.01)
    outer = [share for verb, share, _, _ in said if verb == "frontier"]
    assert len(outer) > 3
    assert outer == sorted(outer)
    assert outer[-1] == 1.0
    inner = [wanted for verb, _, _, wanted in said if verb == "transport"]
    assert inner[0] is None  # one bar at a time
    assert set(inner[1:]) == {False}


# --- what is refused

X = np.zeros((3, 2))


@pytest.mark.parametrize("cost", [transport_cost, entropic_cost])
@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        (X, np.zeros((3, 4)), {}, r"`x` and `y` must be points of one space.* got 2 and 4"),
        (np.zeros(3), X, {}, r"`x` must have two axes.*\(3,\)\. Numbers on a line are x\[:, None\]"),
        (X, np.empty((0, 2)), {}, r"`y` must not be empty"),
        ([[0.0, np.nan]], X, {}, r"`x` must be finite; got nan at index \(0, 1\)"),
        (X, [[0.0, -np.inf]], {}, r"`y` must be finite; got -inf"),
        ([["a"]], X, {}, r"`x` must be an array of real numbers"),
        (X, [[0.0, 1e200]], {}, r"`y` must stay below 1e\+150.*Rescale"),
        (X, X, {"p": [0.5, 0.5]}, r"`p` must hold one mass for each of the 3 points of `x`; got \(2,\)"),
        (X, X, {"q": [0.5, 0.4, 0.2]}, r"`q` must sum to 1 within 1e-06; got 1\.1\. Divide"),
        (X, X, {"q": [1.5, -0.5, 0.0]}, r"`q` must not be negative; got -0\.5 at index 1"),
        (X, X, {"p": [np.nan, 0.5, 0.5]}, r"`p` must be finite"),
    ],
)
def test_bad_points_and_masses_are_refused(cost, x, y, options, message):
    with pytest.raises(InputError, match=message):
        cost(x, y, **options)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "median"])
def test_bad_regularisers_are_refused(value):
    with pytest.raises(InputError, match=r"`regulariser` must be a finite number above 0"):
        entropic_cost(X, X, regulariser=value)


def test_a_regulariser_that_rounding_would_drown_is_refused():
    with pytest.raises(InputError, match=r"`regulariser` must be at least 1e-09 of the largest cost, 2; got 1e-12"):
        entropic_cost(X, X + 1.0, regulariser=1e-12)


def test_a_median_of_zero_is_refused():
    y = np.concatenate([X, [[3.0, 1.0]]])
    with pytest.raises(InputError, match=r"median of the pairwise costs, which is 0.* tenth of the mean cost, 0\.25"):
        entropic_cost(X, y)
    assert entropic_cost(X, y, regulariser=0.25) == approx(2.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 0], np.eye(2), [0], np.eye(1)), r"`mean_x` and `mean_y` must be two vectors of one length"),
        (([0, 0], np.eye(3), [0, 0], np.eye(2)), r"`cov_x` must be a matrix of 2 by 2.* got \(3, 3\)"),
        (([0, 0], np.eye(2), [0, 0], [[1, 1], [0, 1]]), r"`cov_y` must be symmetric; it differs .* up to 1"),
        (([0, 0], -np.eye(2), [0, 0], np.eye(2)), r"`cov_x` must not have negative eigenvalues.* least is -1"),
        (([0, np.nan], np.eye(2), [0, 0], np.eye(2)), r"`mean_x` must be finite"),
        (([0, 0], np.eye(2), [0, 0], np.full((2, 2), np.inf)), r"`cov_y` must be finite"),
    ],
)
def test_bad_gaussians_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        gaussian_cost(*arguments)


@pytest.mark.parametrize("function", [quantized_cost, linear_frontier, barycentric_frontier])
def test_masses_without_places_are_refused(function):
    with pytest.raises(InputError, match=r"`masses` must be Masses.* got ndarray"):
        function(X)
    with pytest.raises(InputError, match=r"whose bins have centres"):
        function(Masses.from_histograms([0.5, 0.5], [0.5, 0.5]))
    extrapolated = Quantize(bins=10, smoothing=debiased, reduce=None)(normal(200, 2), normal(200, 2, seed=1))
    with pytest.raises(InputError, match=r"must be two plain histograms.*negative weights"):
        function(extrapolated)


@pytest.mark.parametrize("tolerance", [0.0, 1.0, -1e-3, np.nan])
def test_bad_tolerances_are_refused(tolerance):
    with pytest.raises(InputError, match=r"`tolerance` must lie strictly between 0 and 1"):
        linear_frontier(point_masses(X, X), tolerance=tolerance)


def test_without_the_solver_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(InputError, match=r"ot is needed .* pip install 'mallow\[transport\]'$"):
        transport_cost(X, X + 1.0)
    # On a line, for Gaussians and with an entropy it is not needed.
    assert transport_cost([[0.0]], [[2.0]]) == 4.0
    assert entropic_cost(X, X + 1.0) == approx(2.0)
