"""Errors of summaries of bins, compared with loops over units that follow the definitions."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from mallow import CHI2, HELLINGER2, KL, LE_CAM, TV, Divergence, Frontier, Masses, area, integral, midpoint, smoothing
from mallow.estimate import Quantize
from mallow.evidence import Units
from mallow.evidence._certificate import NAMES, summary_slopes
from mallow.evidence._jackknife import (
    CountMasses,
    UnitBins,
    _find_kind_pairs,
    add_to_counts,
    bin_terms,
    exact_nodes,
    find_bin_errors,
    find_unit_bins,
    has_corner,
    masses_by_count,
    order_units,
)
from mallow.theory import Partition, extrapolated, frontier
from strategies import SMOOTH, scales, simplex_pairs


@st.composite
def unit_partitions(draw, repeats=2):
    """A few partitions of a few samples, in units of any sizes; no unit has all samples of a side."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    n, m, bins = draw(st.integers(4, 14)), draw(st.integers(4, 14)), draw(st.integers(1, 4))
    count = draw(st.integers(3, 12))
    sets = tuple(np.concatenate([[0, 1], rng.integers(count, size=size - 2)]) for size in (n, m))
    partitions = [
        Partition(rng.integers(bins, size=n), rng.integers(bins, size=m), np.zeros((bins, 1))) for _ in range(repeats)
    ]
    return partitions, Units(sets, rng.integers(2**60, size=count).astype(np.uint64))


SLOPES = np.random.default_rng(0).random((2 * len(exact_nodes()), 3)) / len(exact_nodes())


NEAR = frontier.quiet(Masses(np.array([0.5, 0.5]), np.array([0.4, 0.6])))
OF_SUMMARIES = np.concatenate(summary_slopes(NEAR, 5.0))


def total(masses, p, q, slopes=SLOPES):
    """Σ over bins of slopes times terms, (3,)."""
    return (bin_terms(KL, *masses(p, q)) @ slopes).sum(axis=0)


def counts_of_units(partition, units):
    """The samples of each unit in each bin, (units, bins), of both sides."""
    tables = []
    for labels, of_row in zip((partition.p_labels, partition.q_labels), units.sets, strict=True):
        table = np.zeros((units.count, partition.bins), np.int64)
        np.add.at(table, (of_row, labels), 1)
        tables.append(table)
    return tables


def jackknife_by_loops(partition, units, masses):
    """D and D + ½D₂, with the change of totals."""
    of_p, of_q = counts_of_units(partition, units)
    p, q = of_p.sum(axis=0), of_q.sum(axis=0)
    whole = total(masses, p, q)
    first = np.zeros(3)
    for u in range(units.count):
        first += whole - total(masses, p - of_p[u], q - of_q[u])
        left = 1 - of_p[u].sum() / p.sum(), 1 - of_q[u].sum() / q.sum()
        first += bin_terms(KL, *(np.array([share]) for share in left))[0] @ SLOPES
    second = np.zeros(3)
    for u, v in itertools.permutations(range(units.count), 2):
        second += whole - total(masses, p - of_p[u], q - of_q[u]) - total(masses, p - of_p[v], q - of_q[v])
        second += total(masses, p - of_p[u] - of_p[v], q - of_q[u] - of_q[v])
    return first, first + second / 2


def errors_by_loops(partition, units, masses):
    """What each unit adds, centred, (units, 3); and the kernel K of pairs of units, (units, units, 3)."""
    of_p, of_q = counts_of_units(partition, units)
    p, q = of_p.sum(axis=0), of_q.sum(axis=0)
    unit = np.eye(len(p), dtype=np.int64)
    influence = np.zeros((units.count, 3))
    mean_p = sum(p[i] * (total(masses, p + unit[i], q) - total(masses, p - unit[i], q)) for i in np.flatnonzero(p)) / 2
    mean_q = sum(q[i] * (total(masses, p, q + unit[i]) - total(masses, p, q - unit[i])) for i in np.flatnonzero(q)) / 2
    bias = np.zeros((len(p), 3))
    for u in range(units.count):
        change = total(masses, p + of_p[u], q + of_q[u]) - total(masses, p - of_p[u], q - of_q[u])
        influence[u] = change / 2 - of_p[u].sum() * mean_p / p.sum() - of_q[u].sum() * mean_q / q.sum()
        for i in range(len(p)):
            more, now, less = (
                bin_terms(KL, *masses(p[[i]] + sign * of_p[u, [i]], q[[i]] + sign * of_q[u, [i]]))[0] @ SLOPES
                for sign in (1, 0, -1)
            )
            bias[i] += (more - 2 * now + less) / 2
    move = of_p / (p + 0.5) - of_q / (q + 0.5)
    square = (move**2).sum(axis=0)
    height = np.where(square[:, None] < 1e-12, 0.0, 2 * bias / np.maximum(square, 1e-12)[:, None])
    return influence - influence.mean(axis=0), np.einsum("ui,vi,is->uvs", move, move, height)


@settings(max_examples=15)
@given(unit_partitions(), st.sampled_from([0.0, 0.5]))
def test_the_errors_are_those_of_the_definitions(case, constant):
    partitions, units = case
    bins = [find_unit_bins(partition, units) for partition in partitions]
    masses = [add_to_counts(one, constant) for one in bins]
    found = find_bin_errors(bins, masses, KL, SLOPES)

    orders = np.mean(
        [jackknife_by_loops(each, units, how) for each, how in zip(partitions, masses, strict=True)], axis=0
    )
    assert found.first == approx(orders[0], rel=1e-9, abs=1e-12)
    assert found.second == approx(orders[1], rel=1e-9, abs=1e-12)

    loops = [errors_by_loops(each, units, how) for each, how in zip(partitions, masses, strict=True)]
    spread = units.count / (units.count - 1)

    def variances(influence, kernel):
        linear = spread * (influence**2).sum(axis=0)
        pairs = (kernel**2).sum(axis=(0, 1)) / 2
        return linear, np.maximum(linear - pairs, pairs)

    linear, variance = variances(np.mean([one[0] for one in loops], axis=0), np.mean([one[1] for one in loops], axis=0))
    assert found.linear == approx(linear, rel=1e-9, abs=1e-15)
    assert found.variance == approx(variance, rel=1e-9, abs=1e-15)
    assert found.each_variance == approx(np.array([variances(*one)[1] for one in loops]), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("kinds", [39, 40, 41])
def test_pairs_of_kinds_are_those_of_different_units_in_bins_of_up_to_forty_kinds(kinds):
    # Bin 0 has so many kinds of one unit each, bin 1 a kind of three units and one of a single unit.
    of_kind = np.concatenate([np.arange(1, kinds + 1), [1, 2]])
    in_bin = np.array([0] * kinds + [1, 1])
    units = np.array([1] * kinds + [3, 1])
    cells = np.repeat(np.arange(kinds + 2), units)
    empty = np.zeros_like(cells)
    bins = UnitBins(
        np.bincount(in_bin, units * of_kind).astype(np.int64),
        np.array([0, 0]),
        of_kind[cells],
        empty,
        np.arange(len(cells)),
        cells,
        in_bin,
        of_kind,
        np.zeros_like(of_kind),
        units,
    )
    one, other, times = _find_kind_pairs(bins)
    found = dict(zip(zip(one.tolist(), other.tolist(), strict=True), times.tolist(), strict=True))
    expected = {(kinds, kinds): 6.0, (kinds, kinds + 1): 3.0, (kinds + 1, kinds): 3.0}
    if kinds <= 40:
        expected |= dict.fromkeys(itertools.permutations(range(kinds), 2), 1.0)
    assert found == expected


def noncentral(rng, bins, tilt):
    p = rng.dirichlet(np.full(bins, 5.0))
    q = p * np.exp(tilt * rng.normal(size=bins))
    return p, q / q.sum()


@pytest.mark.parametrize(("tilt", "shares"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.6), (0.3, 0.6)])
def test_the_variance_is_that_of_many_draws(tilt, shares):
    # Near identity Σ ψ² alone would be twice too large; with shared prompts, rows as units would be too large.
    rng = np.random.default_rng(3)
    n = 400
    p, q = noncentral(np.random.default_rng(5), 40, tilt)
    units = Units((np.arange(n), np.arange(n)), np.arange(n, dtype=np.uint64))
    values, estimates = [], []
    for _ in range(100):
        own = rng.random((2, n))
        own[1] = np.where(rng.random(n) < shares, own[0], own[1])
        labels = [np.minimum(np.searchsorted(np.cumsum(d), x), 39) for d, x in zip((p, q), own, strict=True)]
        bins = find_unit_bins(Partition(*labels, np.zeros((40, 1))), units)
        masses = add_to_counts(bins, 0.5)
        values.append(total(masses, bins.p, bins.q, OF_SUMMARIES))
        estimates.append(find_bin_errors([bins], [masses], KL, OF_SUMMARIES).variance)
    ratio = np.mean(estimates, axis=0) / np.var(values, axis=0, ddof=1)
    assert (ratio > 0.7).all()
    assert (ratio < 1.9).all()


@pytest.mark.parametrize(("bins", "most"), [(20, 0.1), (100, 0.15)])
def test_the_truth_lies_between_both_orders_of_the_jackknife(bins, most):
    rng = np.random.default_rng(4)
    n = 200
    p, q = noncentral(np.random.default_rng(6), bins, 0.4)
    truth = (bin_terms(KL, p, q) @ OF_SUMMARIES).sum(axis=0)
    units = Units((np.arange(n), n + np.arange(n)), np.arange(2 * n, dtype=np.uint64))
    found = []
    for _ in range(80):
        one = find_unit_bins(Partition(rng.choice(bins, n, p=p), rng.choice(bins, n, p=q), np.zeros((bins, 1))), units)
        masses = add_to_counts(one, 0.0)
        errors = find_bin_errors([one], [masses], KL, OF_SUMMARIES)
        found.append([total(masses, one.p, one.q, OF_SUMMARIES), errors.first, errors.second])
    plain, first, second = np.mean(found, axis=0) - truth
    assert (np.abs(first + second) / 2 < most * np.abs(plain)).all()


def test_pairing_independent_rows_costs_nothing():
    rng = np.random.default_rng(7)
    n, bins = 500, 30
    p, q = noncentral(rng, bins, 0.4)
    partition = Partition(rng.choice(bins, n, p=p), rng.choice(bins, n, p=q), np.zeros((bins, 1)))
    rows = np.arange(n)
    each = []
    for sets in ((rows, n + rows), (rows, rows)):
        one = find_unit_bins(partition, Units(sets, np.arange(sets[1].max() + 1, dtype=np.uint64)))
        each.append(find_bin_errors([one], [add_to_counts(one, 0.0)], KL, OF_SUMMARIES))
    assert each[0].variance == approx(each[1].variance, rel=0.15)
    assert each[0].first == approx(each[1].first, rel=0.15)


@pytest.mark.parametrize("divergence", [KL, CHI2, HELLINGER2, LE_CAM])
def test_smooth_divergences_have_no_corner(divergence):
    assert not has_corner(divergence)


@pytest.mark.parametrize("divergence", [TV, Divergence("corner", lambda t: np.abs(t - 1.0) + (t - 1.0) ** 2)])
def test_a_corner_is_seen(divergence):
    assert has_corner(divergence)
    units = Units((np.arange(6), np.arange(6)), np.arange(6, dtype=np.uint64))
    one = find_unit_bins(Partition(np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 1, 2, 2, 0]), np.zeros((3, 1))), units)
    found = find_bin_errors([one], [add_to_counts(one, 0.5)], divergence, SLOPES)
    assert found.variance == approx(found.linear)  # no quadratic form


def test_cells_and_kinds_hold_every_sample():
    partition = Partition(np.array([0, 0, 1, 2]), np.array([0, 2, 2]), np.zeros((4, 1)))
    found = find_unit_bins(partition, Units((np.array([0, 1, 0, 2]), np.array([1, 2, 2])), np.zeros(3, np.uint64)))
    assert found.p.tolist() == [2, 1, 1, 0]
    assert found.q.tolist() == [1, 0, 2, 0]
    assert (found.p_size.tolist(), found.q_size.tolist()) == ([2, 1, 1], [0, 1, 2])
    kinds = np.stack([found.kind_bin, found.kind_p, found.kind_q, found.kind_units])[:, found.kind]
    cells = sorted(zip(found.unit.tolist(), *kinds.tolist(), strict=True))
    assert cells == [(0, 0, 1, 0, 1), (0, 1, 1, 0, 1), (1, 0, 1, 1, 1), (2, 2, 1, 2, 1)]


def test_units_are_ordered_by_their_bins_and_those_without_samples_are_left_out():
    rng = np.random.default_rng(8)
    partitions = [Partition(rng.integers(5, size=20), rng.integers(5, size=20), np.zeros((5, 1))) for _ in range(2)]
    units = Units((rng.integers(15, size=20), rng.integers(15, size=20)), np.arange(25, dtype=np.uint64))
    ordered = order_units(partitions, units)
    assert ordered.count == len(np.union1d(*units.sets))
    renamed = rng.permutation(25)
    p_rows, q_rows = rng.permutation(20), rng.permutation(20)
    shuffled = [Partition(one.p_labels[p_rows], one.q_labels[q_rows], one.centres) for one in partitions]
    sets = renamed[units.sets[0]][p_rows], renamed[units.sets[1]][q_rows]
    again = order_units(shuffled, Units(sets, np.arange(25, dtype=np.uint64)))
    tables = [counts_of_units(one, ordered) for one in partitions]
    others = [counts_of_units(one, again) for one in shuffled]
    for table, other in zip(np.array(tables), np.array(others), strict=True):
        assert (table == other).all()


COUNTS = np.random.default_rng(9).integers(0, 12, size=40)
OTHERS = np.random.default_rng(10).integers(0, 12, size=40)


def bins_of(p, q):
    sets = np.arange(p.sum()), p.sum() + np.arange(q.sum())
    labels = np.repeat(np.arange(len(p)), p), np.repeat(np.arange(len(q)), q)
    return find_unit_bins(
        Partition(*labels, np.zeros((len(p), 1))), Units(sets, np.arange(p.sum() + q.sum(), dtype=np.uint64))
    )


@pytest.mark.parametrize(
    ("smoothing_of", "constant"),
    [(smoothing.empirical, 0.0), (smoothing.krichevsky_trofimov, 0.5), (smoothing.laplace, 1.0)],
)
def test_the_line_through_masses_is_exact_where_a_constant_is_added(smoothing_of, constant):
    bins = bins_of(COUNTS, OTHERS)
    found = masses_by_count(bins, Quantize(smoothing=smoothing_of).smooth(COUNTS, OTHERS))
    assert found == add_to_counts(bins, constant)
    p, q = found(COUNTS, OTHERS)
    assert p == approx(smoothing_of(COUNTS), rel=1e-12)
    assert q == approx(smoothing_of(OTHERS), rel=1e-12)


def test_the_line_through_other_masses_is_near():
    bins = bins_of(COUNTS, OTHERS)
    p, q = masses_by_count(bins, Quantize(smoothing=smoothing.braess_sauer).smooth(COUNTS, OTHERS))(COUNTS, OTHERS)
    assert p == approx(smoothing.braess_sauer(COUNTS), abs=0.3 / COUNTS.sum())
    assert q == approx(smoothing.braess_sauer(OTHERS), abs=0.3 / OTHERS.sum())


@pytest.mark.parametrize("masses", [extrapolated(COUNTS, OTHERS), Masses(np.full(3, 1 / 3), np.full(3, 1 / 3))])
def test_masses_of_other_atoms_are_taken_as_add_half(masses):
    bins = bins_of(COUNTS, OTHERS)
    assert masses_by_count(bins, masses) == add_to_counts(bins, 0.5)


def test_equal_counts_and_odd_masses_have_a_line():
    bins = bins_of(np.full(4, 3), np.array([1, 2, 3, 4]))
    found = masses_by_count(bins, Masses(np.full(4, 0.25), np.array([0.4, 0.3, 0.2, 0.1])))  # falls with the count
    assert found == add_to_counts(bins, 0.5)


def test_masses_are_never_negative():
    p, q = CountMasses(-2.0, 0.1, 0.5, 0.1)(np.array([0, 5]), np.array([0, 1]))
    assert p.tolist() == [0.0, approx(0.3)]
    assert q == approx([0.05, 0.15])
    _, q = CountMasses(0.5, 0.1, -2.0, 0.1)(np.array([0, 5]), np.array([0, 5]))
    assert q.tolist() == [0.0, approx(0.3)]


@pytest.mark.parametrize(("least", "constant"), [(-np.inf, 0.0), (0.0, 0.0), (0.5, 0.5), (2.0, 2.0)])
def test_the_constant_is_as_large_as_the_divergence_needs(least, constant):
    bins = bins_of(COUNTS, OTHERS)
    masses = Quantize(smoothing=smoothing.empirical).smooth(COUNTS, OTHERS)
    assert masses_by_count(bins, masses, least) == add_to_counts(bins, constant)


def test_terms_of_bins_add_up_to_the_frontier():
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.1, 0.3, 0.0, 0.6])
    curve = frontier.quiet(Masses(p, q))
    assert exact_nodes().tolist() == curve.lam.tolist()
    assert bin_terms(KL, p, q).sum(axis=0) == approx(np.concatenate([curve.p_to_mix, curve.q_to_mix]), rel=1e-12)


# --- slopes of the summaries by the costs


def summaries(curve, scale):
    return np.array([area(curve, scale=scale), integral(curve), midpoint(curve)])


def test_the_order_is_that_of_the_names():
    assert NAMES == ("mauve", "frontier_integral", "midpoint")


@settings(max_examples=30)
@given(simplex_pairs(least=1e-3), st.sampled_from(SMOOTH), scales)
def test_slopes_are_differences(pair, divergence, scale):
    curve = frontier.quiet(Masses.from_histograms(*pair), divergence)
    slopes = summary_slopes(curve, scale)
    assert slopes.shape == (2, len(curve.lam), 3)
    costs = np.stack([curve.p_to_mix, curve.q_to_mix])
    towards = np.random.default_rng(0).normal(size=costs.shape)
    step = 1e-4 * np.minimum(np.maximum(costs, 1e-3), 1.0)  # relative where costs are large
    ends = [Frontier(curve.lam, *(costs + sign * step * towards), exact=True) for sign in (1.0, -1.0)]
    change = (summaries(ends[0], scale) - summaries(ends[1], scale)) / 2.0
    assert (slopes * (step * towards)[..., None]).sum(axis=(0, 1)) == approx(change, rel=1e-4, abs=1e-9)


def test_integral_and_midpoint_are_linear_in_the_costs():
    curve = frontier.quiet(Masses.from_histograms([0.9, 0.1, 0.0], [0.1, 0.3, 0.6]))
    slopes = summary_slopes(curve, 5.0)
    total = slopes[0].T @ curve.p_to_mix + slopes[1].T @ curve.q_to_mix
    assert total[1:] == approx([float(integral(curve)), float(midpoint(curve))], rel=1e-12)


def test_equal_distributions_have_no_slope_of_the_area():
    curve = frontier.quiet(Masses.from_histograms([0.5, 0.5], [0.5, 0.5]))
    assert summary_slopes(curve, 5.0)[..., 0] == approx(np.zeros((2, len(curve.lam))), abs=1e-14)


@pytest.mark.parametrize("gap", [1e-2, 1e-4])
def test_slopes_of_the_area_stay_exact_near_identity(gap):
    # Near identity costs are gap²·(1−λ)² and gap²·λ², so the area loses a multiple of gap⁴ and its slopes of gap²:
    # by Euler's theorem, slopes·costs is twice the loss.
    curve = frontier.quiet(Masses.from_histograms([0.5 + gap, 0.5 - gap], [0.5, 0.5]))
    slopes = summary_slopes(curve, 5.0)[..., 0]
    loss = 1.0 - area(curve, scale=5.0)
    assert slopes[0] @ curve.p_to_mix + slopes[1] @ curve.q_to_mix == approx(-2.0 * loss, rel=0.05, abs=1e-15)


def test_infinite_costs_have_no_slope():
    curve = frontier.quiet(Masses.from_histograms([0.5, 0.5], [0.25, 0.75]), KL)
    costs = curve.p_to_mix.copy()
    costs[:5] = np.inf
    slopes = summary_slopes(Frontier(curve.lam, costs, curve.q_to_mix, exact=True), 5.0)
    assert np.isfinite(slopes).all()
    assert (slopes[0, :5, 0] == 0).all()
