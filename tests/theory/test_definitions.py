"""What has a definition of its own, and no public call that shows it: compared with that definition."""

import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow import CHI2, KL, InputError, Masses, area
from mallow.theory import _divergence as _terms
from mallow.theory import _masses as _tables
from mallow.theory._divergence import checked_generator, limit_towards
from mallow.theory._extrapolate import _halves, _step
from mallow.theory._frontier import (
    EDGES,
    _falling,
    costs_to_mixtures,
    panel_errors,
    panel_integrals,
    panel_nodes,
)

# --- extrapolate


@given(st.integers(0, 60))
def test_three_points_integrate_the_half_sample_of_a_bin(count):
    points, shares = _halves(np.array([float(count)]))
    halves = np.arange(count + 1)
    chance = np.array([np.prod([(count - i) / (i + 1) for i in range(h)]) for h in halves]) / 2.0**count
    for power in range(6):
        exact = (chance * (halves - count / 2.0) ** power).sum()
        assert (shares * (points - count / 2.0) ** power).sum() == approx(exact, rel=1e-9, abs=1e-9 * (1 + count) ** 3)
    if count <= 2:  # the distribution itself
        assert set(np.round(points[shares > 1e-12], 9)) <= set(halves)
    assert (points >= 0).all()


def test_the_step_is_that_of_its_definition():
    """Lengthened by 3·bins/n where the costs fall, and shortened beyond bins/n = 1/2 (1/4 where they rise)."""
    fall, rise = np.full(60, -1.0), np.full(60, 1.0)
    trust = 1.0 - 4.0 / 60  # four times the noise, 60, over the square of the total, 3600
    for samples in (600, 150, 120, 90, 60):
        n, m = np.array([float(samples)]), np.array([2.0 * samples])
        sparsity = 60 / samples
        longer = 1.0 + 3.0 * 60 * (1.0 / samples + 0.5 / samples) / 2.0
        assert _step(fall, n, m) == approx(trust * longer * min(1.0, 2.0 - 2.0 * sparsity))
        assert _step(rise, n, m) == approx(trust * max(0.0, min(1.0, 2.0 - 4.0 * sparsity)))
    noise = np.tile([1.0, -1.0], 30) + 0.01  # a change within its noise
    assert _step(noise, np.array([600.0]), np.array([600.0])) == 0.0
    n, m = np.array([600.0]), np.array([600.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _step(np.tile([1.0, -1.0], 30), n, m) == 0.0  # none in sum
        assert np.isfinite(_step(np.zeros(60), n, m))  # no change at all, of which any share is none


# --- frontier


@pytest.mark.parametrize(
    ("values", "nearest"),
    [([3.0, 2.0, 1.0], [3.0, 2.0, 1.0]), ([1.0, 3.0], [2.0, 2.0]), ([4.0, 1.0, 3.0, 0.0], [4.0, 2.0, 2.0, 0.0])],
)
def test_the_nearest_curve_that_does_not_rise(values, nearest):
    assert _falling(np.array(values)).tolist() == nearest
    assert _falling(np.array([values, values[::-1]])).tolist()[0] == nearest


def test_an_extrapolation_stays_between_zero_and_the_cost_of_disjoint_supports():
    lam = np.array([0.2, 0.5, 0.8])
    p, q = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    for weight in (3.0, -1.0):
        masses = Masses(p, q, weight=np.full(2, weight))
        to_p, to_q = costs_to_mixtures(masses, KL, lam, 1 - lam)
        assert to_p == approx(-np.log(lam) if weight > 0 else 0.0)
        assert to_q == approx(-np.log(1 - lam) if weight > 0 else 0.0)
    assert costs_to_mixtures(Masses(p, q), CHI2, lam, 1 - lam)[0] == approx(1 / lam - 1)
    clipped = costs_to_mixtures(Masses(p, q, weight=np.full(2, 3.0)), CHI2, lam, 1 - lam)
    assert clipped[0] == approx(1 / lam - 1)
    assert clipped[1] == approx(1 / (1 - lam) - 1)


# --- panels


SOME = np.array([-3.0, -1.0, 1.0, 3.0])


def test_nodes_rise_are_symmetric_and_contain_the_edges():
    for edges in (EDGES, SOME):
        nodes = panel_nodes(edges)
        assert len(nodes) == 12 * (len(edges) - 1) + 1
        assert (np.diff(nodes) > 0).all()
        assert (nodes == -nodes[::-1]).all()
        assert (nodes[::12] == edges).all()
        inside = (nodes[:13] - (nodes[0] + nodes[12]) / 2) / ((nodes[12] - nodes[0]) / 2)
        assert inside == approx(-np.cos(np.pi * np.arange(13) / 12))


@pytest.mark.parametrize(("a", "b"), [(0, 1), (3, 2), (12, 1), (5, 12), (12, 12)])
def test_polynomials_of_degree_twelve_are_integrated_exactly(a, b):
    """∫ y dx with y = u^a and x = u^b is b/(a + b)·u^(a + b)."""
    u = panel_nodes(SOME)
    found = panel_integrals(u**a, u**b)
    expected = np.diff(SOME ** float(a + b)) * b / (a + b)
    assert found == approx(expected, rel=1e-10, abs=1e-8 * 3.0 ** (a + b))


def test_panels_keep_leading_axes():
    u = panel_nodes(SOME)
    y = np.stack([np.ones_like(u), u, np.sin(u)])
    found = panel_integrals(y, np.broadcast_to(u, y.shape))
    assert found.shape == (3, 3)
    assert found[0] == approx(np.diff(SOME))
    assert found[1] == approx(np.diff(SOME**2) / 2)
    assert found[2] == approx(-np.diff(np.cos(SOME)))


def test_errors_are_small_for_smooth_curves_and_large_at_kinks():
    u = panel_nodes(SOME)
    smooth, kink = np.exp(u), np.abs(u - 2.0)
    assert (panel_errors(smooth, smooth) < 1e-7).all()
    assert (panel_errors(u, kink)[:2] < 1e-12).all()
    assert panel_errors(u, kink)[2] > 1e-3
    assert panel_errors(kink, u)[2] == approx(panel_errors(u, kink)[2])
    batch = np.stack([u, kink])
    assert panel_errors(batch, np.stack([u, u])) == approx(panel_errors(kink, u))  # the largest of the batch
    # Twice as far along x, twice the error.
    assert panel_errors(2 * u, kink) == approx(2 * panel_errors(u, kink))


def test_the_last_two_coefficients_are_the_error():
    """Of a Chebyshev polynomial of degree 12 or 11 on one panel, with amplitude 1, against a line of length 2."""
    u = panel_nodes(SOME)
    middle = u[12:25]  # from −1 to 1
    for degree, size in ((12, 1.0), (11, 1.0), (10, 0.0)):
        y = np.zeros_like(u)
        y[12:25] = np.cos(degree * np.arccos(np.clip(middle, -1, 1)))
        assert panel_errors(u, y)[1] == approx(2.0 * size, abs=1e-12)


# --- generator


def test_a_slope_that_falls_but_stays_above_the_first_is_not_convex():
    def bent(t):
        return np.where(t <= 2, (t - 1) ** 2, t - 1.0)  # its slope falls from 2 to 1 at t = 2

    with pytest.raises(InputError, match=r"`f` of 'bent' must be convex, but its slope falls near t = "):
        checked_generator("bent", bent)


def test_a_generator_that_is_not_negative_stays_as_it_is_and_others_are_tilted():
    def square(t):
        return (t - 1) ** 2

    assert checked_generator("square", square) is square
    for slope in (-3.0, 0.5):
        tilted = checked_generator("tilted", lambda t, slope=slope: (t - 1) ** 2 + slope * (t - 1))
        t = np.array([0.1, 0.5, 1.0, 2.0, 30.0])
        assert tilted(t) == approx(square(t), abs=1e-9)
        assert tilted.slope == approx(slope, abs=1e-9)
    # Nearly straight: the slope at 1 is known to many digits, whatever the higher derivatives are.
    steep = checked_generator("steep", lambda t: t**4 - 1.0)
    assert steep.slope == approx(4.0, rel=1e-9)
    assert checked_generator("log", lambda t: -np.log(t)).slope == approx(-1.0, rel=1e-9)


@pytest.mark.parametrize(("at_one", "fine"), [(9e-10, True), (-9e-10, True), (2e-9, False), (-2e-9, False)])
def test_the_value_at_one_may_be_rounded(at_one, fine):
    def f(t):
        return np.abs(t - 1) ** 1.5 + at_one

    if fine:
        checked_generator("f", f)
    else:
        with pytest.raises(InputError, match=r"`f` of 'f' must have f\(1\) = 0; got f\(1\) = -?2e-09\. Subtract"):
            checked_generator("f", f)


@pytest.mark.parametrize("place", [-4.0, 0.3, 4.0])
def test_a_value_that_is_missing_anywhere_on_the_axis_is_named(place):
    at = 10.0**place

    def f(t):
        return np.where(np.isclose(t, at, rtol=0.02), np.nan, (t - 1) ** 2)

    with pytest.raises(InputError, match=r"`f` of 'f' must be finite on \(0, ∞\), but it is not at t = ") as raised:
        checked_generator("f", f)
    assert float(str(raised.value).split("t = ")[1].rstrip(".")) == approx(at, rel=0.05)


@pytest.mark.parametrize("place", [1e-3, 2.0, 1e3])
def test_a_dent_is_named_where_it_is(place):
    def f(t):
        return np.where(t < place, 0.0, -0.01 * (t - place))

    def dented(t):
        return f(t) - f(np.array([1.0]))[0]

    with pytest.raises(InputError, match=r"`f` of 'dented' must be convex, but its slope falls near t = ") as raised:
        checked_generator("dented", dented)
    assert float(str(raised.value).split("t = ")[1].rstrip(".")) == approx(place, rel=0.06)


def test_straight_lines_are_convex_up_to_rounding():
    checked_generator("abs", lambda t: np.abs(t - 1) / 2)
    checked_generator("line", lambda t: 3.0 * (t - 1.0))
    with pytest.raises(InputError, match=r"it returned shape \(321,\) and dtype int64"):
        checked_generator("whole", lambda t: np.zeros(t.shape, int))


@pytest.mark.parametrize(
    ("function", "limit"),
    [
        (lambda t: t + 2.0, 2.0),  # known at the end itself
        (lambda t: np.where(t == 0, np.nan, 2.0 + t), 2.0),  # the same on both sides of a hole
        (lambda t: -np.log(t), np.inf),
        (lambda t: 1.0 / t, np.inf),
        (lambda t: np.where(t == 0, np.nan, 3e9 + 1e-3 * (t > 1e-70)), 3e9),  # relative to a large value
        (lambda t: np.where(t == 0, np.nan, 1.0 + 1e-8 * (t > 1e-70)), np.inf),
        (lambda t: np.where(t == 0, np.nan, 1e-4 + 5e-10 * (t > 1e-70)), 1e-4),  # and absolute for a small one
    ],
)
def test_limits_are_those_of_values_that_have_settled(function, limit):
    assert limit_towards(0.0, function, 1e-60, 1e-75) == approx(limit)


@pytest.mark.parametrize("slope", [1e9, -1e9])
def test_the_rounding_of_steep_slopes_is_no_dent(slope):
    straight = checked_generator("steep", lambda t: slope * t - slope)
    assert straight(np.array([0.5, 1.0, 3.0])) == approx([0.0] * 3, abs=1e-9 * abs(slope))  # a line is no divergence


# --- terms of divergences


TEXTBOOK = {
    "kl_term": lambda p, q: p * mpmath.log(p / q) - p + q,
    "kl_integral_term": lambda p, q: (p + q) / 2 - p * q / (p - q) * mpmath.log(p / q),
    "chi2_integral_term": lambda p, q: (p + q) - 2 * p * q / (p - q) * mpmath.log(p / q),
    "chi2_term": lambda p, q: (p - q) ** 2 / q,
    "tv_term": lambda p, q: abs(p - q) / 2,
    "hellinger2_term": lambda p, q: (mpmath.sqrt(p) - mpmath.sqrt(q)) ** 2,
    "le_cam_term": lambda p, q: (p - q) ** 2 / (2 * (p + q)),
}

NEAR = [1e-12, 1e-6, 9.9e-4, 1.01e-3, 0.02, 0.21, 0.223, 0.2237, 0.3, 0.9, 0.999999]


@pytest.mark.parametrize("name", TEXTBOOK)
@pytest.mark.parametrize("z", [sign * value for value in NEAR for sign in (1, -1)])
@pytest.mark.parametrize("total", [2.0, 1e-8])
def test_all_digits_are_right(name, z, total):
    """With z = (p − q)/(p + q), at which the formulas change."""
    q = total * (1 - z) / 2
    difference = total * z
    with mpmath.workdps(40):
        exact_q, exact_difference = mpmath.mpf(q), mpmath.mpf(difference)
        expected = float(TEXTBOOK[name](exact_q + exact_difference, exact_q))
    arrays = (np.array([value]) for value in (q + difference, q, difference))
    assert getattr(_terms, name)(*arrays)[0] == approx(expected, rel=2e-13 if abs(z) > 1e-9 else 1e-12)


def test_masses_of_nothing_and_ratios_beyond_all_numbers():
    p, q = np.array([0.0, 1e-300, 1.0, 5e-324]), np.array([1.0, 1.0, 1e-300, 1.0])
    with np.errstate(all="ignore"):
        kl = _terms.kl_term(p, q, p - q)
        integral = _terms.kl_integral_term(p, q, p - q)
    assert kl == approx([1.0, 1.0, 300 * np.log(10) - 1, 1.0])
    assert integral == approx([0.5, 0.5, 0.5, 0.5])


def test_polynomials_are_evaluated_from_the_last_coefficient():
    x = np.array([0.0, 1.0, 2.0])
    assert _terms._horner(x, [3.0, 5.0, 7.0]).tolist() == [3.0, 15.0, 41.0]
    assert _terms._horner(x, [4.0]).tolist() == [4.0, 4.0, 4.0]


# --- merged atoms


@given(st.integers(0, 2**32))
def test_merged_and_unmerged_atoms_give_the_same_sums(seed):
    rng = np.random.default_rng(seed)
    p, q = rng.multinomial(50, np.ones(20) / 20, size=(2, 6)) / 50
    merged = Masses.from_histograms(p, q)
    (table,) = merged._tables
    assert table.column is not None
    assert len(table.p) < p.size
    nudged = Masses.from_histograms(p, q * (1 + 1e-15 * rng.integers(0, 3, size=q.shape)))
    assert area(merged, scale=5) == approx(area(nudged, scale=5), abs=1e-12)


def test_sums_in_blocks_of_rows_are_the_same(monkeypatch):
    p, q = np.random.default_rng(0).multinomial(50, np.ones(20) / 20, size=(2, 6)) / 50
    at_once = area(Masses.from_histograms(p, q), scale=5)
    monkeypatch.setattr(_tables, "_MOST_ENTRIES", 1)
    for block in (1000, 1):  # 1: a row has more entries than a block
        monkeypatch.setattr(_tables, "_BLOCK", block)
        assert area(Masses.from_histograms(p, q), scale=5) == approx(at_once, abs=1e-13)


def test_a_row_may_have_more_entries_than_a_block(monkeypatch):
    p, q, weights = np.random.default_rng(0).random((3, 7))
    monkeypatch.setattr(_tables, "_BLOCK", 1)
    sums = _tables._weighted_sums(p, q, weights[None], lambda a, b: np.stack([a * b, a - b, a], axis=-1))
    assert sums[0] == approx([weights @ (p * q), weights @ (p - q), weights @ p])


def plain_sums(p, q, weight, values):
    return np.array([sum(w * values(np.array([a]), np.array([b]))[0] for a, b, w in zip(*row, strict=True) if a + b > 0)
                     for row in zip(p, q, weight, strict=True)])  # fmt: skip


def values_of(p, q):
    return np.stack([p * q + p, np.sqrt(p + q), q - p], axis=-1)


@pytest.mark.parametrize("cells", [0, 4_000_000])
@pytest.mark.parametrize("cost", [0, 30])
@pytest.mark.parametrize("entries", [1, 7, 50_000_000])
def test_sums_are_those_of_a_loop_over_the_atoms(cells, cost, entries, monkeypatch):
    monkeypatch.setattr(_tables, "_MOST_CELLS", cells)
    monkeypatch.setattr(_tables, "_EVALUATION_COST", cost)
    monkeypatch.setattr(_tables, "_MOST_ENTRIES", entries)
    rng = np.random.default_rng(0)
    p, q = rng.integers(0, 3, size=(2, 4, 5)) / 10
    weight = rng.normal(size=(4, 5))
    table = _tables.build_table(p, q, weight)
    assert (table.column is None) == (cells == 0 or cost == 0)
    assert table.sums(values_of) == approx(plain_sums(p, q, weight, values_of))
    shaped = _tables.build_table(*(array.reshape(2, 2, 5) for array in (p, q, weight)))
    assert shaped.sums(values_of).shape == (2, 2, 3)
    assert shaped.sums(values_of).reshape(4, 3) == approx(table.sums(values_of))


def test_equal_atoms_are_merged_once_and_those_without_mass_are_left_out():
    p = np.array([[0.5, 0.0, 0.5, 0.0], [0.25, 0.0, 0.75, 0.0]])
    q = np.array([[0.5, 0.0, 0.25, 0.25], [0.25, -0.0, 0.5, 0.25]])
    table = _tables.build_table(p, q, np.ones((2, 4)))
    pairs = sorted(zip(table.p.tolist(), table.q.tolist(), strict=True))
    assert pairs == [(0.0, 0.25), (0.25, 0.25), (0.5, 0.25), (0.5, 0.5), (0.75, 0.5)]
    assert (table.column[:, 1] == 5).all()
    assert table.sums(lambda a, b: np.ones((len(a), 1)))[:, 0].tolist() == [3.0, 3.0]


@pytest.mark.parametrize("count", [1, 50, 70_000])
def test_every_value_is_found_among_the_distinct_ones(count):
    values = np.random.default_rng(0).integers(0, count, size=(3, count)) / count - 0.25
    distinct, place = _tables._distinct(values)
    assert distinct.tolist() == np.unique(values).tolist()
    assert (distinct[place] == values).all()
    zeros, at = _tables._distinct(np.array([[0.0, -0.0, 1.0]]))
    assert zeros.tolist() == [0.0, 1.0]
    assert at.tolist() == [[0, 0, 1]]


def test_infinite_costs_count_only_where_they_have_a_weight(monkeypatch):
    p, q = np.array([1.0, 2.0, 3.0]), np.zeros(3)
    weights = np.array([[1.0, 0.0, 1.0], [1.0, -1.0, 0.0], [0.0, 0.0, 2.0]])

    def values(a, b):
        return np.stack([np.where(a == 2.0, np.inf, a), a], axis=-1)

    for block in (1, 1 << 17):
        monkeypatch.setattr(_tables, "_BLOCK", block)
        found = _tables._weighted_sums(p, q, weights, values)
        assert found.tolist() == [[4.0, 4.0], [np.inf, -1.0], [6.0, 6.0]]
        with pytest.raises(InputError, match="The generator `f` of the divergence must not return NaN"):
            _tables._weighted_sums(p, q, weights, lambda a, b: np.where(a == 2.0, np.nan, a)[:, None])
