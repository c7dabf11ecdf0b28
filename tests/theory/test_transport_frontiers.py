"""Transport frontiers: ends, monotonicity, barycentres, and the areas that the paper prints."""

from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from pytest import approx

from mallow import Frontier, InputError, area
from mallow.theory.transport import (
    barycentric_frontier,
    free_barycentric_frontier,
    linear_frontier,
    point_masses,
    quantized_cost,
    transport_cost,
)
from point_clouds import clouds, gaussian_points, quantized_points

pytest.importorskip("ot", reason="needs the extra 'transport'")

every = pytest.mark.parametrize("build", [linear_frontier, barycentric_frontier, free_barycentric_frontier])


@every
@pytest.mark.parametrize("d", [1, 2, 8])
def test_frontiers_are_monotone_and_their_ends_are_known(build, d):
    masses = quantized_points(d)
    curve, whole = build(masses), quantized_cost(masses)
    assert (curve.lam[0], curve.lam[-1]) == (0.0, 1.0)
    assert (curve.p_to_mix[0], curve.q_to_mix[0]) == approx((whole, 0.0))
    assert (curve.p_to_mix[-1], curve.q_to_mix[-1]) == approx((0.0, whole))
    assert (np.diff(curve.lam) >= 0).all()
    assert (np.diff(curve.p_to_mix) <= 0).all()
    assert (np.diff(curve.q_to_mix) >= 0).all()


@every
@given(pair=clouds(most=4, widths=(1, 2)))
@settings(max_examples=20)
def test_the_area_is_symmetric_and_one_only_if_equal(build, pair):
    x, y = (points / 100 for points in pair)
    value = float(area(build(point_masses(x, y)), scale=5))
    assert 0.0 <= value <= 1.0
    # Where several barycentres are equally good, the simplex may find another one, and miss others near the curve.
    rounding = 1e-4 if build is barycentric_frontier else 1e-9
    assert value == approx(float(area(build(point_masses(y, x)), scale=5)), abs=rounding)
    assert (value > 1 - 1e-12) == (transport_cost(x, y) < 1e-6)
    assert area(build(point_masses(x, x)), scale=5) == 1.0


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([2.89, 1.25, 1.65, 0.61], [1.13, -0.41, 0.88]),
        ([0.36], [1.02, 0.58, 1.3, 2.15]),
        ([-1.01], [-2.11, -1.88, -1.09]),
        ([-0.79], [0.9, -0.64]),
    ],
)
def test_a_barycentre_that_was_found_near_the_line_is_kept(x, y):
    # It was dropped, and which one was found depended on the side from which one looked: areas differed by 1e-4.
    both = [np.array(side)[:, None] for side in (x, y)]
    areas = [float(area(barycentric_frontier(point_masses(*pair)), scale=5)) for pair in (both, both[::-1])]
    exact = float(area(barycentric_frontier(point_masses(*both), tolerance=1e-9), scale=5))
    assert areas == approx([exact, exact], abs=1e-9)


def test_the_linear_frontier_is_the_cost_to_the_mixture():
    x, y = gaussian_points(12, 2), gaussian_points(9, 2, shift=0.7, seed=1)
    curve, pool = linear_frontier(point_masses(x, y), tolerance=1e-5), np.concatenate([x, y])
    for place in (100, 300, 700, 1000):
        lam = curve.lam[place]
        mix = np.concatenate([np.full(12, lam / 12), np.full(9, (1 - lam) / 9)])
        assert curve.p_to_mix[place] == approx(transport_cost(x, pool, q=mix), rel=1e-3)
        assert curve.q_to_mix[place] == approx(transport_cost(y, pool, q=mix), rel=1e-3)


def test_linear_costs_lie_between_those_of_barycentres_and_of_moving_the_rest():
    # Cost(P, R) + … : leaving λP in place costs (1−λ)W; no R is nearer both than the barycentre.
    for d in (1, 2, 8):
        masses = quantized_points(d)
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
    masses = quantized_points(2)
    whole = quantized_cost(masses)
    coarse, fine = linear_frontier(masses, tolerance=0.01), linear_frontier(masses, tolerance=1e-5)
    assert 0 < np.abs(coarse.p_to_mix - fine.p_to_mix).max() <= 0.02 * whole
    assert (coarse.p_to_mix >= fine.p_to_mix - 1e-12).all()  # chords lie above a convex curve


def test_the_free_barycentre_of_two_point_masses():
    x, y = np.array([[1.0, 2.0]]), np.array([[4.0, 6.0]])
    curve = free_barycentric_frontier(point_masses(x, y))
    for place in (0, 256, 512, 1000):
        middle = curve.lam[place] * x + (1 - curve.lam[place]) * y
        assert curve.p_to_mix[place] == approx(((x - middle) ** 2).sum())
        assert curve.q_to_mix[place] == approx(((y - middle) ** 2).sum())


def test_free_barycentres_cost_what_the_frontier_says_and_no_point_set_does_better():
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    x, y, rng = gaussian_points(12, 3), gaussian_points(12, 3, shift=0.5, seed=1), np.random.default_rng(2)
    curve = free_barycentric_frontier(point_masses(x, y))
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
    areas = [float(area(linear_frontier(point_masses([[0.0]], [[w**0.5]])), scale=5)) for w in cost]
    assert np.abs(np.array(areas) - printed).max() < 0.0045
    assert np.exp(-5 * cost) * (1 + 5 * cost) == approx(areas, abs=1e-6)


def test_frontiers_do_not_share_their_arrays():
    first, second = (free_barycentric_frontier(point_masses([[0.0]], [[1.0]])) for _ in range(2))
    assert isinstance(first, Frontier)
    assert not np.shares_memory(first.lam, second.lam)


def test_the_linear_frontier_shows_its_progress(monkeypatch):
    updates = []

    @contextmanager
    def recorded(verb, total, *, wanted=None):
        yield lambda done, text: updates.append((verb, done / total, text, wanted))

    for module in ("_transport_frontiers", "_transport_plans"):
        monkeypatch.setattr(f"mallow.theory.{module}.bar", recorded)
    linear_frontier(quantized_points(2), tolerance=0.01)
    outer = [share for verb, share, _, _ in updates if verb == "frontier"]
    assert len(outer) > 3
    assert outer == sorted(outer)
    assert outer[-1] == 1.0
    inner = [wanted for verb, _, _, wanted in updates if verb == "transport"]
    assert inner[0] is None  # one bar at a time
    assert set(inner[1:]) == {False}


@pytest.mark.parametrize("tolerance", [0.0, 1.0, -1e-3, np.nan])
def test_bad_tolerances_are_refused(tolerance):
    with pytest.raises(InputError, match=r"`tolerance` must lie strictly between 0 and 1"):
        linear_frontier(point_masses(np.zeros((3, 2)), np.zeros((3, 2))), tolerance=tolerance)


def test_an_interval_is_halved_ten_times_at_most(monkeypatch):
    """With a cost that is nowhere straight, every λ that is a multiple of 1/1024 is computed, and no other."""
    seen = []

    def cost(x, y, p, q, *, show_bar=None):
        share = float(q[0])  # the mixture's mass in the first bin is λ
        seen.append(share)
        return ((1.0 - share) ** 2 if p[0] == 1.0 else share**2), ()

    monkeypatch.setattr("mallow.theory._transport_frontiers.exact_cost", cost)
    curve = linear_frontier(point_masses([[0.0, 0.0]], [[1.0, 0.0]]), tolerance=1e-12)
    inner = sorted(set(seen) - {0.0, 1.0})
    assert inner == [place / 1024 for place in range(1, 1024)]
    assert curve.p_to_mix == approx((1 - curve.lam) ** 2)
    assert curve.q_to_mix == approx(curve.lam**2)
    seen.clear()
    coarse = linear_frontier(point_masses([[0.0, 0.0]], [[1.0, 0.0]]), tolerance=0.1)
    # The middle of [0, 1] lies 1/4 below the line, that of a half 1/16.
    assert sorted(set(seen) - {0.0, 1.0}) == [0.25, 0.5, 0.75]
    assert coarse.lam.tolist() == (np.arange(1025) / 1024).tolist()
    assert np.interp(0.375, coarse.lam, coarse.p_to_mix) == approx((0.75**2 + 0.5**2) / 2)
