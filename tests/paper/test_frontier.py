"""Propositions on the frontier and its summaries (paper: sec:mauve, sec:a:properties)."""

from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pytest import approx
from scipy.special import beta

from mallow import CHI2, JS, KL, LE_CAM, TV, Masses, area, conjugate, frontier, integral, interpolated, midpoint
from mallow.theory import CHI2_INTEGRAL, KL_INTEGRAL, linear_cost
from strategies import NAMED, divergences, masses, mixing, scales, simplex, simplex_pairs, strictly_convex


@given(divergences, masses(), mixing)
def test_a_frontier_point_is_an_interpolated_divergence(divergence, pair, lam):
    # paper: property:frontier-as-f-div
    curve = frontier(pair, divergence, grid=[lam])
    assert curve.p_to_mix[0] == approx(interpolated(divergence, lam)(pair), rel=1e-9, abs=1e-15)
    swapped = interpolated(divergence, 1 - lam)(pair.swap())
    assert curve.q_to_mix[0] == approx(swapped, rel=1e-6, abs=1e-14)


@given(simplex_pairs(), mixing, st.data())
def test_the_pareto_identity(pair, lam, data):  # paper: prop:div-pareto-opt
    p, q = pair
    other = data.draw(simplex(len(p), least=1e-6))
    mix = lam * p + (1 - lam) * q

    def kl(a, b):
        return KL(Masses.from_histograms(a, b))

    cost = lam * kl(p, other) + (1 - lam) * kl(q, other)
    assert cost == approx(lam * kl(p, mix) + (1 - lam) * kl(q, mix) + kl(mix, other), rel=1e-9, abs=1e-12)


@given(divergences, masses())
def test_along_the_frontier_one_cost_falls_and_the_other_rises(divergence, pair):
    curve = frontier(pair, divergence)
    slack = 1e-12 * (1 + curve.p_to_mix[0] + curve.q_to_mix[-1])
    assert (np.diff(curve.p_to_mix) <= slack).all()
    assert (np.diff(curve.q_to_mix) >= -slack).all()


@given(divergences, masses(), scales)
def test_the_area_lies_in_the_unit_interval_and_is_symmetric(divergence, pair, scale):
    # paper: prop:mauve-properties (a)
    value = area(pair, scale=scale, divergence=divergence)
    assert 0 <= value <= 1
    assert area(pair.swap(), scale=scale, divergence=divergence) == approx(value, abs=1e-9)


@given(divergences, simplex_pairs(), scales)
def test_equal_distributions_have_area_exactly_one(divergence, pair, scale):
    # paper: prop:mauve-properties (b)
    same = Masses.from_histograms(pair[0], pair[0])
    assert area(same, scale=scale, divergence=divergence) == 1.0
    assert integral(same, divergence) == 0.0
    assert midpoint(same, divergence) == 0.0


@given(strictly_convex, masses())
def test_different_distributions_have_area_below_one(divergence, pair):  # paper: prop:mauve-properties (c)
    assume(np.abs(pair.p - pair.q).max() > 1e-3)
    assert area(pair, scale=5, divergence=divergence) < 1
    assert integral(pair, divergence) > 0  # paper: prop:fi-properties (d)
    assert midpoint(pair, divergence) > 0  # paper: prop:mid-properties (d)


@given(masses(), st.randoms())
def test_the_order_and_splitting_of_atoms_change_nothing(pair, random):
    order = np.array(random.sample(range(len(pair.p)), len(pair.p)))
    other = Masses.from_histograms(np.repeat(pair.p[order] / 2, 2), np.repeat(pair.q[order] / 2, 2))
    assert area(other, scale=5) == approx(area(pair, scale=5), abs=1e-12)
    assert integral(other) == approx(integral(pair), rel=1e-12)
    assert midpoint(other) == approx(midpoint(pair), rel=1e-12)


@given(divergences, masses())
def test_merging_atoms_never_lowers_the_area(divergence, pair):
    merged = [np.append(side[:-2], side[-2:].sum()) for side in (pair.p, pair.q)]
    coarse = Masses.from_histograms(*merged)
    assert area(coarse, scale=5, divergence=divergence) >= area(pair, scale=5, divergence=divergence) - 1e-9
    assert integral(coarse, divergence) <= integral(pair, divergence) * (1 + 1e-9) + 1e-15


@given(divergences, masses(), mixing)
def test_the_linear_cost_is_bounded_by_that_of_disjoint_supports(divergence, pair, lam):
    # paper: prop:lerror-max
    at = np.array([lam, 1 - lam])
    most = (at * conjugate(divergence).f(at)).sum() + 2 * lam * (1 - lam) * divergence.at_zero
    assert linear_cost(pair, lam, divergence) <= most * (1 + 1e-9)


@given(divergences, masses())
def test_the_integral_is_bounded_and_symmetric(divergence, pair):  # paper: prop:fi-properties (b), (c)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    at, weight = (nodes + 1) / 2, weights / 2
    most = 4 * (weight * at * conjugate(divergence).f(at)).sum() + 2 / 3 * divergence.at_zero
    value = integral(pair, divergence)
    assert 0 <= value <= most * (1 + 1e-5)
    assert integral(pair.swap(), divergence) == approx(value, rel=1e-9, abs=1e-15)


@given(divergences, masses())
def test_the_midpoint_is_bounded_and_symmetric(divergence, pair):  # paper: prop:mid-properties (b), (c)
    most = (divergence.at_zero + divergence.f(np.array([2.0]))[0]) / 2
    value = midpoint(pair, divergence)
    assert 0 <= value <= most * (1 + 1e-9)
    assert midpoint(pair.swap(), divergence) == approx(value, rel=1e-9, abs=1e-15)


@given(masses())
def test_midpoints_are_the_named_divergences(pair):  # paper: eq:mid_point
    assert midpoint(pair, KL) == approx(JS(pair), rel=1e-12)
    assert midpoint(pair, CHI2) == approx(LE_CAM(pair), rel=1e-12)
    assert midpoint(pair, TV) == approx(TV(pair) / 2, rel=1e-12)


@given(divergences, masses())
def test_the_exponentiated_midpoint_is_a_rectangle_under_the_curve(divergence, pair):
    # paper: fig:mauve-v-midp
    assert np.exp(-2 * midpoint(pair, divergence)) <= area(pair, scale=1, divergence=divergence) + 1e-9


@settings(max_examples=30)
@given(masses())
def test_the_closed_integrals_equal_quadrature(pair):  # paper: prop:fi-properties
    nodes, weights = np.polynomial.legendre.leggauss(30)
    for divergence, closed in ((KL, KL_INTEGRAL), (CHI2, CHI2_INTEGRAL)):
        total = 0.0
        edges = np.concatenate([[0], np.logspace(-14, -1, 53), [0.5], 1 - np.logspace(-1, -14, 53), [1]])
        for low, high in pairwise(edges):
            lam = np.clip((low + high) / 2 + (high - low) / 2 * nodes, 1e-300, 1 - 1e-16)
            lam = np.unique(lam)
            if len(lam) < 30:
                continue
            curve = frontier(pair, divergence, grid=lam)
            cost = lam * curve.p_to_mix + (1 - lam) * curve.q_to_mix
            total += (high - low) * (weights * cost).sum()
        assert closed(pair) == approx(total, rel=1e-7, abs=1e-12)
        assert integral(pair, divergence) == closed(pair)


@given(masses())
def test_the_integral_of_total_variation_is_two_thirds_of_it(pair):
    assert integral(pair, TV) == approx(2 / 3 * TV(pair), rel=1e-9, abs=1e-15)


# --- exactness


def exact_area(p, q, scale, divergence=KL, digits=30):
    """The area by tanh–sinh quadrature in 30 digits, from the definition and its derivative."""
    with mpmath.workdps(digits):
        p, q = [mpmath.mpf(float(v)) for v in p], [mpmath.mpf(float(v)) for v in q]
        zero = mpmath.mpf(0)

        def cost_and_slope(a, b, lam, rest):  # D(A‖lam A + rest B) and its derivative in lam
            cost, slope = zero, zero
            for x, y in zip(a, b, strict=True):
                mix = lam * x + rest * y
                if divergence is KL and x > 0:
                    cost += x * mpmath.log(x / mix)
                    slope -= x * (x - y) / mix
                elif divergence is CHI2 and mix > 0:
                    cost += (x - mix) ** 2 / mix
                    slope -= (x**2 - mix**2) / mix**2 * (x - y)
            return cost, slope

        def integrand(u):  # u = logit λ
            lam, rest = 1 / (1 + mpmath.exp(-u)), 1 / (1 + mpmath.exp(u))
            x, slope = cost_and_slope(p, q, lam, rest)
            y, _ = cost_and_slope(q, p, rest, lam)
            return mpmath.exp(-scale * (x + y)) * scale * -slope * lam * rest

        far = 45
        x, _ = cost_and_slope(p, q, 1 / (1 + mpmath.exp(far)), 1 / (1 + mpmath.exp(-far)))
        points = [-far, -30, -20, -14, -10, -7, -4, -2, 0, 2, 4, 7, 10, 14, 20, 30, far]
        return float(mpmath.exp(-scale * x) + mpmath.quad(integrand, points))


HARD = {
    "missing mass 1e-6": ([0.5, 0.5, 0.0], [0.5 - 5e-7, 0.5 - 5e-7, 1e-6]),
    "missing mass 1e-6 and far apart": ([1 - 1e-6, 1e-6, 0.0], [0.0, 0.3, 0.7]),
    "missing on both sides": ([0.9, 0.1 - 1e-6, 1e-6, 0.0], [0.4, 0.6 - 1e-4, 0.0, 1e-4]),
    "ratio 1e-300": ([0.5, 0.5 - 1e-300, 1e-300], [0.25, 0.25, 0.5]),
    "scales from 1e-9 to 1": ([1e-9, 1e-6, 1e-3, 1 - 1e-3 - 1e-6 - 1e-9], [0.7, 0.29, 1e-5, 0.01 - 1e-5]),
    "near": ([0.5, 0.5], [0.5 - 1e-7, 0.5 + 1e-7]),
    "plain": ([0.2, 0.3, 0.5], [0.5, 0.25, 0.25]),
}


@pytest.mark.parametrize("scale", [1, 5, 10])
@pytest.mark.parametrize("name", HARD)
def test_the_area_is_exact(name, scale):
    p, q = HARD[name]
    for divergence in (KL, CHI2):
        value = area(Masses.from_histograms(p, q), scale=scale, divergence=divergence)
        assert value == approx(exact_area(p, q, scale, divergence), abs=1e-8)


@pytest.mark.parametrize("scale", [0.5, 1, 2.5, 5, 20])
def test_the_area_of_disjoint_supports_is_a_beta_function(scale):
    masses = Masses.from_histograms([0.5, 0.5, 0.0], [0.0, 0.0, 1.0])
    assert area(masses, scale=scale) == approx(scale * beta(scale, scale + 1), abs=1e-10)


def test_the_area_of_many_bins_is_exact():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(4), size=2)
    # Each cell is cut into 25,000 parts, in the same way for P and Q: the ratios stay, all masses differ.
    parts = rng.dirichlet(np.ones(25_000), size=4)
    order = rng.permutation(100_000)
    many = Masses.from_histograms(*((side[:, None] * parts).ravel()[order] for side in (p, q)))
    few = Masses.from_histograms(p, q)
    assert area(many, scale=5) == approx(area(few, scale=5), abs=1e-11)
    assert integral(many) == approx(integral(few), rel=1e-11)


@given(st.floats(-15, -1), st.sampled_from(NAMED))
def test_summaries_keep_their_digits_however_near_p_and_q_are(exponent, divergence):
    step = 10.0**exponent
    p = np.array([0.3, 0.3, 0.4])
    near = np.array([0.3 + step, 0.3 - step, 0.4])
    kl = integral(Masses.from_histograms(p, near))
    with mpmath.workdps(60):
        total = mpmath.mpf(0)
        for a, b in zip(p[:2], near[:2], strict=True):
            a, b = mpmath.mpf(float(a)), mpmath.mpf(float(b))
            if a != b:
                total += (a + b) / 2 - a * b / (a - b) * mpmath.log(a / b)
    assert kl == approx(float(total), rel=1e-10)
    # Every smooth cost is quadratic there: the integral is 4/3 of the mid-point, in the limit.
    if exponent < -4 and divergence is not TV:
        masses = Masses.from_histograms(p, near)
        assert integral(masses, divergence) == approx(4 / 3 * midpoint(masses, divergence), rel=1e-3)


# --- grids


@given(masses(), st.integers(2, 60), scales)
def test_the_uniform_grid_is_the_papers(pair, size, scale):  # paper: eq:divf:discretized
    curve = frontier(pair, grid=size)
    assert curve.lam == approx(np.arange(1, size) / size)
    x = np.concatenate([[0], np.exp(-scale * curve.p_to_mix), [1]])
    y = np.concatenate([[1], np.exp(-scale * curve.q_to_mix), [0]])
    expected = np.sum((y[1:] + y[:-1]) / 2 * np.diff(x))
    assert area(curve, scale=scale) == approx(expected, abs=1e-12)


def test_a_fine_grid_approaches_the_exact_area():
    rng = np.random.default_rng(1)
    masses = Masses.from_histograms(*rng.dirichlet(np.ones(50), size=2))
    errors = [abs(area(masses, scale=5, grid=n) - area(masses, scale=5)) for n in (25, 100, 400)]
    assert errors[0] > 4 * errors[1] > 16 * errors[2]


# --- batches


@given(st.integers(0, 2**32), divergences)
def test_a_batch_gives_what_its_members_give(seed, divergence):
    rng = np.random.default_rng(seed)
    p, q = rng.multinomial(30, np.ones(6) / 6, size=(2, 3, 4)) / 30
    batch = Masses.from_histograms(p, q)
    single = [[Masses.from_histograms(p[i, j], q[i, j]) for j in range(4)] for i in range(3)]
    summaries = (
        lambda m: area(m, scale=5, divergence=divergence),
        lambda m: integral(m, divergence),
        lambda m: midpoint(m, divergence),
        divergence,
    )
    for summary in summaries:
        values = summary(batch)
        assert values.shape == (3, 4)
        assert values == approx(np.array([[summary(m) for m in row] for row in single]), rel=1e-12, abs=1e-15)


def test_a_batch_without_equal_pairs_gives_what_its_members_give():
    rng = np.random.default_rng(2)
    p, q = rng.dirichlet(np.ones(7), size=(2, 5))
    together = area(Masses.from_histograms(p, q), scale=5)
    singles = [area(Masses.from_histograms(a, b), scale=5) for a, b in zip(p, q, strict=True)]
    assert together == approx(np.array(singles), abs=1e-13)
