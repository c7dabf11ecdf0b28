"""What another draw would give, and the value behind the samples: ends, ranges, coverage."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from mallow import CHI2, HELLINGER2, KL, TV, Masses, area, conjugate, integral, midpoint, smoothing
from mallow.estimate import Quantize
from mallow.evidence import Units, debiased_estimate, published_interval
from mallow.evidence._certificate import summary_slopes
from mallow.evidence._jackknife import add_to_counts, find_bin_errors, find_unit_bins, order_units
from mallow.evidence._published import _build_family, _ratio, exact_nodes
from mallow.theory import Frontier, Partition, extrapolated, frontier

NAMES = ("mauve", "frontier_integral", "midpoint")
ADD_HALF = Quantize().smooth


def units_of(first, second):
    return Units((first, second), np.arange(max(first.max(), second.max()) + 1, dtype=np.uint64))


def rows(n, m):
    return units_of(np.arange(n), n + np.arange(m))


def summaries(masses, divergence=KL):
    curve = frontier.quiet(masses, divergence)
    return {
        "mauve": float(area(curve, scale=5.0)),
        "frontier_integral": float(integral(masses, divergence)),
        "midpoint": float(midpoint(curve)),
    }


def printed(partitions, smooth=ADD_HALF, divergence=KL):
    each = [summaries(smooth(one.p_counts, one.q_counts), divergence) for one in partitions]
    return {name: tuple(one[name] for one in each) for name in NAMES}


def both(partitions, units, smooth=ADD_HALF, divergence=KL):
    values = printed(partitions, smooth, divergence)
    interval = published_interval(partitions, units, values, smooth=smooth, divergence=divergence, scale=5.0)
    return values, interval, debiased_estimate(partitions, units, divergence=divergence, scale=5.0)


@st.composite
def cases(draw):
    """Partitions of few or many samples, in units of all kinds: equal sides, disjoint sides, single units."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    n, m, bins = draw(st.integers(1, 40)), draw(st.integers(1, 40)), draw(st.integers(1, 12))
    kind = draw(st.sampled_from(["free", "disjoint", "one bin each"]))
    low = {"free": 0, "disjoint": bins, "one bin each": bins}[kind]
    width = 1 if kind == "one bin each" else bins
    partitions = [
        Partition(rng.integers(width, size=n), low + rng.integers(width, size=m), np.zeros((low + bins, 1)))
        for _ in range(draw(st.integers(1, 3)))
    ]
    count = draw(st.integers(1, n + m))
    sets = rng.integers(count, size=n), rng.integers(count, size=m)
    return partitions, Units(sets, np.arange(count, dtype=np.uint64))


MEASURES = [
    (ADD_HALF, KL),
    (Quantize(smoothing=smoothing.empirical).smooth, KL),
    (Quantize(smoothing=smoothing.good_turing).smooth, KL),
    (Quantize(smoothing=extrapolated).smooth, KL),
    (ADD_HALF, CHI2),
    (ADD_HALF, TV),
    (ADD_HALF, HELLINGER2),
    (ADD_HALF, conjugate(KL)),
]


@settings(max_examples=40)
@given(cases(), st.sampled_from(MEASURES))
def test_every_value_lies_in_its_interval_and_every_interval_in_the_range(case, measure):
    values, interval, estimate = both(*case, *measure)
    apart = summaries(Masses.from_histograms([1.0, 0.0], [0.0, 1.0]), measure[1])
    for name in NAMES:
        least, most = (apart[name], 1.0) if name == "mauve" else (0.0, apart[name])
        tiny = 1e-7
        low, high = interval[name]
        mean = float(np.mean(values[name]))
        assert low <= mean <= high
        assert min(least, mean) - tiny <= low
        assert high <= max(most, mean) + tiny
        one = estimate[name]
        assert least - tiny <= one.low <= one.value <= one.high <= most + tiny


def tilted(bins, strength, seed=1):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(bins))
    q = p * np.exp(strength * rng.normal(size=bins))
    return p, q / q.sum()


def draw(p, q, n, rng, shared=0.0, times=1):
    """Labels of `times` rows for each of n prompts on each side, in the bin of one common quantile with a probability."""
    common = rng.random(n)
    labels = []
    for masses in (p, q):
        quantile = np.where(rng.random((n, times)) < shared, common[:, None], rng.random((n, times)))
        labels.append(np.minimum(np.searchsorted(np.cumsum(masses), quantile.ravel()), len(p) - 1))
    return Partition(*labels, np.zeros((len(p), 1)))


@cache
def trials(strength, shared, times):
    """Draws of 40 bins with their scores, intervals and estimates, in units of prompts."""
    rng = np.random.default_rng(2)
    p, q = tilted(40, strength)
    n = 400 // times
    of_row = np.repeat(np.arange(n), times)
    found = []
    for _ in range(40):
        partition = draw(p, q, n, rng, shared, times)
        found.append(both([partition], units_of(of_row, of_row)))
    score = np.array([[one[0][name][0] for name in NAMES] for one in found])
    ends = np.array([[one[1][name] for name in NAMES] for one in found])
    estimate = np.array(
        [[(one[2][name].low, one[2][name].value, one[2][name].high) for name in NAMES] for one in found]
    )
    return score, ends, estimate, np.array([*summaries(Masses.from_histograms(p, q)).values()])


SITUATIONS = pytest.mark.parametrize(
    ("strength", "shared", "times"),
    [(0.0, 0.0, 1), (0.5, 0.0, 1), (0.5, 0.6, 1), (0.5, 0.6, 4), (1.5, 0.0, 1)],
    ids=["identical", "independent", "pairs", "groups of four", "far"],
)


@SITUATIONS
def test_another_draw_falls_into_the_interval(strength, shared, times):
    score, ends, _, _ = trials(strength, shared, times)
    inside = (ends[:, None, :, 0] <= score) & (score <= ends[:, None, :, 1])  # each interval, all draws
    others = inside[~np.eye(len(score), dtype=bool)].mean(axis=0)
    assert (others > 0.88).all()
    width, right = (ends[..., 1] - ends[..., 0]).mean(axis=0), 2 * 1.96 * np.sqrt(2) * score.std(axis=0, ddof=1)
    assert (width < 1.6 * right).all()


@SITUATIONS
def test_the_value_behind_the_samples_falls_into_its_interval(strength, shared, times):
    score, _, estimate, truth = trials(strength, shared, times)
    low, value, high = np.moveaxis(estimate, 2, 0)
    assert ((low <= truth + 1e-12) & (truth - 1e-12 <= high)).mean() > 0.9
    error, raw = (np.sqrt(((each - truth) ** 2).mean(axis=0)) for each in (value, score))
    assert (error < 1.2 * raw).all()
    if strength < 1:
        assert (error < 0.7 * raw).all()


def test_a_model_that_may_be_perfect_reaches_the_end_of_the_range():
    _, _, estimate, _ = trials(0.0, 0.0, 1)
    low, value, high = np.moveaxis(estimate, 2, 0)
    assert (high[:, 0] == 1.0).mean() > 0.9
    assert (low[:, 1:] == 0.0).mean() > 0.9
    assert (low[:, 0] < 1.0).all()  # never certain
    assert (value[:, 0] == 1.0).mean() > 0.2  # clipped


def test_a_real_gap_excludes_the_end_of_the_range():
    _, _, estimate, _ = trials(1.5, 0.0, 1)
    assert (estimate[:, 0, 2] < 0.98).all()
    assert (estimate[:, 1:, 0] > 0.01).all()


P, Q = tilted(30, 0.5)
RNG = np.random.default_rng(3)
N = 300
PARTITIONS = [draw(P, Q, N, RNG, 0.5) for _ in range(3)]
PAIRS = units_of(np.arange(N), np.arange(N))


@pytest.mark.parametrize("units", [PAIRS, rows(N, N)], ids=["pairs", "rows"])
def test_the_order_of_rows_and_the_numbers_of_units_change_not_one_bit(units):
    values, interval, estimate = both(PARTITIONS, units)
    rng = np.random.default_rng(4)
    p_rows, q_rows, names = rng.permutation(N), rng.permutation(N), rng.permutation(units.count + 5)
    shuffled = [Partition(one.p_labels[p_rows], one.q_labels[q_rows], one.centres) for one in PARTITIONS]
    sets = names[units.sets[0]][p_rows], names[units.sets[1]][q_rows]
    again = both(shuffled, Units(sets, np.zeros(units.count + 5, np.uint64)))
    assert again == (values, interval, estimate)


def test_both_sides_count_alike():
    _, interval, estimate = both(PARTITIONS, PAIRS)
    turned = both([one.swap() for one in PARTITIONS], Units(PAIRS.sets[::-1], PAIRS.keys))
    for name in NAMES:
        assert turned[1][name] == approx(interval[name], rel=1e-9)
        for field in ("value", "low", "high"):
            assert getattr(turned[2][name], field) == approx(getattr(estimate[name], field), rel=1e-9)


def test_shared_prompts_narrow_the_intervals():
    pairs, alone = both(PARTITIONS, PAIRS), both(PARTITIONS, rows(N, N))
    for name in NAMES:
        assert np.ptp(pairs[1][name]) < 0.95 * np.ptp(alone[1][name])
        assert pairs[2][name].high - pairs[2][name].low < 0.95 * (alone[2][name].high - alone[2][name].low)


def test_copies_of_every_sample_add_nothing():
    twice = [Partition(np.tile(one.p_labels, 2), np.tile(one.q_labels, 2), one.centres) for one in PARTITIONS]
    units = units_of(np.tile(np.arange(N), 2), np.tile(np.arange(N), 2))
    once = debiased_estimate(PARTITIONS, PAIRS, divergence=KL, scale=5.0)
    again = debiased_estimate(twice, units, divergence=KL, scale=5.0)
    for name in NAMES:
        assert again[name].value == approx(once[name].value, rel=1e-9)
        assert again[name].low == approx(once[name].low, rel=0.02)
        assert again[name].high == approx(once[name].high, rel=0.02)


def test_a_perfect_copy_is_certain_where_it_is_paired_and_not_where_it_is_not():
    copies = [Partition(one.p_labels, one.p_labels.copy(), one.centres) for one in PARTITIONS]
    values, interval, estimate = both(copies, PAIRS)
    assert interval["mauve"] == (1.0, 1.0)
    assert estimate["mauve"].low == 1.0
    values, interval, estimate = both(copies, rows(N, N))
    assert interval["mauve"][0] < values["mauve"][0] == interval["mauve"][1] == 1.0
    assert estimate["mauve"].low < estimate["mauve"].value == estimate["mauve"].high == 1.0


def test_samples_that_do_not_overlap_may_come_from_distributions_that_do():
    # None of n = 100 units in a bin of the other side: up to 3.7% of them may be there (1 − 0.037)^100 = 2.3%.
    apart = [Partition(np.repeat([0, 1], 50), np.repeat([2, 3], 50), np.zeros((4, 1)))]
    _, interval, estimate = both(apart, rows(100, 100))
    blended = np.array([0.963, 0.037]) / 2
    p, q = np.concatenate([blended[[0, 0]], blended[[1, 1]]]), np.concatenate([blended[[1, 1]], blended[[0, 0]]])
    truth = summaries(Masses.from_histograms(p, q))
    assert estimate["frontier_integral"].low == approx(truth["frontier_integral"], rel=0.01)
    assert estimate["frontier_integral"].high == approx(1.0, abs=1e-9)
    assert interval["frontier_integral"][0] < 0.9 * interval["frontier_integral"][1]


@pytest.mark.parametrize("sets", [(np.zeros(N, int), np.zeros(N, int)), (np.zeros(N, int), np.arange(N))])
def test_a_single_unit_on_a_side_tells_nothing(sets):
    _, interval, estimate = both(PARTITIONS, units_of(*sets))
    apart = summaries(Masses.from_histograms([1.0, 0.0], [0.0, 1.0]))
    for name in NAMES:
        ends = (apart[name], 1.0) if name == "mauve" else (0.0, apart[name])
        assert interval[name] == approx(ends, abs=1e-9)
        assert (estimate[name].low, estimate[name].high) == approx(ends, abs=1e-9)


def test_a_score_lies_in_its_interval_whatever_the_measure_prints():
    partition = Partition(np.array([0, 1, 1, 0]), np.array([0, 0, 1, 1]), np.zeros((2, 1)))
    for units in (units_of(np.zeros(4, int), np.arange(4)), rows(4, 4)):
        for odd in (-1.0, 50.0):
            values = dict.fromkeys(NAMES, (odd,))
            interval = published_interval([partition], units, values, smooth=ADD_HALF, divergence=KL, scale=5.0)
            for low, high in interval.values():
                assert low <= odd <= high
                assert odd in (low, high)


def test_two_units_on_a_side_tell_a_little():
    halves = np.arange(N) % 2
    _, interval, _ = both(PARTITIONS, units_of(halves, 2 + halves))
    assert interval["mauve"][1] < 1.0  # a little: nearly the whole range


@given(seed=st.integers(0, 10_000), zeros=st.integers(0, 5), scale=st.floats(0.5, 10))
@settings(max_examples=40)
def test_a_family_of_curves_starts_at_identity_and_passes_through_its_own(seed, zeros, scale):
    rng, lam = np.random.default_rng(seed), exact_nodes()
    curve = rng.uniform(0.01, 2.0) * np.concatenate([lam[::-1] ** 2, lam**2])
    curve[rng.permutation(len(curve))[:zeros]] = 0.0  # costs that are too small for a number
    family = _build_family(curve, scale)
    assert family.seen == 1.0
    assert family.curve.tolist() == curve.tolist()
    assert family.theta(family.slopes.T @ curve) == approx(np.ones(3))
    assert family.theta(0.5 * family.slopes.T @ curve) == approx(np.full(3, 0.5))
    assert family.summaries(np.array([0.0, -1.0, -2.0])) == approx([1.0, 0.0, 0.0], abs=1e-12)
    own = Frontier(lam, *np.split(curve, 2), exact=True)
    assert family.summaries(np.ones(3)) == approx(np.array([area(own, scale=scale), integral(own), midpoint(own)]))
    assert family.per_theta == approx(np.abs(family.slopes.T @ curve))


def test_the_family_of_equal_histograms_has_the_shape_of_frontiers_near_identity():
    family = _build_family(np.zeros(2 * len(exact_nodes())), 5.0)
    assert family.seen == 0.0
    lam = exact_nodes()
    assert family.curve / family.curve.max() == approx(np.concatenate([lam[::-1] ** 2, lam**2]) / lam.max() ** 2)
    assert (family.per_theta > 0).all()


def test_the_noise_of_clusterings_widens_the_interval_for_another_draw():
    options = {"smooth": ADD_HALF, "divergence": KL, "scale": 5.0}
    same = [PARTITIONS[0]] * 4
    values = printed(same)
    still = published_interval(same, PAIRS, values, **options)
    apart = {name: tuple(np.array(each) + np.array([-1.0, 1.0, 1.0, -1.0]) * 0.01) for name, each in values.items()}
    moved = published_interval(same, PAIRS, apart, **options)
    one = published_interval(same[:1], PAIRS, printed(same[:1]), **options)
    for name in NAMES:
        assert still[name] == approx(one[name], rel=1e-9)  # four times the same clustering is one
        # Var/4 = 4/3·0.01²/4 of the mean, twice, at 1.96 and the factor of `_published`
        noise = 2 * 1.96 * (1.06 + 0.2 * 30 / N) * np.sqrt(2 * 0.01**2 / 3)
        assert np.ptp(moved[name]) == approx(np.hypot(np.ptp(still[name]), noise), rel=0.03)


def test_several_partitions_of_the_same_samples_are_less_noisy_than_one():
    each = [np.ptp(both([one], PAIRS)[1]["frontier_integral"]) for one in PARTITIONS]
    assert np.ptp(both(PARTITIONS, PAIRS)[1]["frontier_integral"]) < 0.8 * np.mean(each)


def test_total_variation_is_not_corrected_and_its_interval_reaches_identity():
    _, _, estimate = both(PARTITIONS, PAIRS, ADD_HALF, TV)
    plain = printed(PARTITIONS, Quantize(smoothing=smoothing.empirical).smooth, TV)
    assert estimate["frontier_integral"].value == approx(np.mean(plain["frontier_integral"]), rel=1e-3)
    assert estimate["frontier_integral"].low == 0.0
    assert estimate["mauve"].high == 1.0


def test_the_smoothing_of_the_measure_changes_its_interval_but_not_the_value_behind_the_samples():
    _, add_half, estimate = both(PARTITIONS, PAIRS)
    _, empirical, again = both(PARTITIONS, PAIRS, Quantize(smoothing=smoothing.empirical).smooth)
    assert add_half != empirical
    assert estimate == again


# --- by hand: the formulas of both, from errors that test_definitions_of_errors.py compares with loops over units


def curve_by_hand(masses, divergence):
    """The mean over partitions of the costs at all λ."""
    curves = [frontier.quiet(one, divergence) for one in masses]
    return np.mean([np.concatenate([one.p_to_mix, one.q_to_mix]) for one in curves], axis=0)


def at_theta(curve, theta):
    """Each of the three summaries of the curve, made smaller or larger by its own factor."""
    lam = frontier.quiet(Masses.from_histograms([1.0], [1.0])).lam
    values = []
    for place, factor in enumerate(np.maximum(theta, 0.0)):
        at = Frontier(lam, *np.split(factor * curve, 2), exact=True)
        values.append([float(area(at, scale=5.0)), float(integral(at)), float(midpoint(at))][place])
    return np.array(values)


def slopes_by_hand(curve):
    lam = frontier.quiet(Masses.from_histograms([1.0], [1.0])).lam
    return np.concatenate(summary_slopes(Frontier(lam, *np.split(curve, 2), exact=True), 5.0))


def blended(pairs, units):
    """Each side with 3.7 of n units of the other, at most half."""
    shares = [min(0.5, -np.log(0.025) / len(np.unique(own))) for own in units.sets]
    a, b = shares
    return [Masses((1 - a) * p + a * q, (1 - b) * q + b * p) for p, q in pairs]


def by_hand(case):
    """The partitions and units of a case."""
    n, bins, strength, repeats, paired = case
    rng = np.random.default_rng(12)
    p, q = tilted(bins, strength)
    partitions = [draw(p, q, n, rng, 0.5 if paired else 0.0) for _ in range(repeats)]
    return partitions, units_of(np.arange(n), np.arange(n)) if paired else rows(n, n)


HAND = pytest.mark.parametrize(
    "case",
    [
        (300, 20, 0.6, 3, True),
        (300, 20, 0.1, 2, False),
        (40, 30, 0.8, 1, False),
        (200, 5, 2.5, 2, True),
        (5, 4, 1.0, 2, True),
        (200, 150, 1.5, 2, False),
    ],
    ids=["pairs", "near", "sparse", "far", "few", "sparse and far"],
)


def errors_by_hand(partitions, units, constant, divergence, slopes):
    bins = [find_unit_bins(one, order_units(partitions, units)) for one in partitions]
    return find_bin_errors(bins, [add_to_counts(one, constant) for one in bins], divergence, slopes)


@HAND
@pytest.mark.parametrize("divergence", [KL, TV], ids=str)
def test_the_value_behind_the_samples_by_hand(case, divergence):
    partitions, units = by_hand(case)
    found = debiased_estimate(partitions, units, divergence=divergence, scale=5.0)
    pairs = [(one.p_counts / one.p_counts.sum(), one.q_counts / one.q_counts.sum()) for one in partitions]
    curve = curve_by_hand([Masses(*pair) for pair in pairs], divergence)
    slopes = slopes_by_hand(curve)
    sums = slopes.T @ curve
    errors = errors_by_hand(partitions, units, 0.0, divergence, slopes)
    first, second = errors.first / sums, errors.second / sums
    theta, rest = (first + second) / 2, np.abs(first - second)
    fewest = min(len(np.unique(own)) for own in units.sets)
    factor = 1.1 + 0.8 * min(2.0, partitions[0].bins / fewest)
    variance = factor**2 * errors.variance / sums**2
    below = np.where(first > second, 1.3, 0.6) * rest
    low = theta - 1.959964 * np.sqrt(variance + below**2)
    low = np.minimum(low, slopes.T @ curve_by_hand(blended(pairs, units), divergence) / sums)
    if divergence is TV:
        theta, low = np.ones(3), np.zeros(3)
    growth = factor**2 * errors.linear / sums**2
    variance = variance + (0.6 * rest) ** 2
    # The θ at which |θ − θ̂| = 1.96 √(variance + growth·(θ − θ̂)): a quadratic equation.
    b, c = 1.959964**2 * growth, 1.959964**2 * variance
    high = np.maximum(theta + (b + np.sqrt(b**2 + 4 * c)) / 2, np.sqrt(variance))
    apart = summaries(Masses.from_histograms([1.0, 0.0], [0.0, 1.0]), divergence)
    least, most = np.array([apart["mauve"], 0.0, 0.0]), np.array([1.0, apart["frontier_integral"], apart["midpoint"]])
    ends = np.clip(np.sort([at_theta(curve, low), at_theta(curve, high)], axis=0), least, most)
    value = np.clip(at_theta(curve, theta), *ends)
    for place, name in enumerate(NAMES):
        one = found[name]
        assert (one.low, one.value, one.high) == approx((ends[0, place], value[place], ends[1, place]), abs=2e-6), name


@HAND
def test_the_interval_for_another_draw_by_hand(case):
    partitions, units = by_hand(case)
    values = printed(partitions)
    rng = np.random.default_rng(0)
    values = {name: tuple(np.array(own) + 0.02 * rng.normal(size=len(own))) for name, own in values.items()}
    found = published_interval(partitions, units, values, smooth=ADD_HALF, divergence=KL, scale=5.0)
    smooth = [ADD_HALF(one.p_counts, one.q_counts) for one in partitions]
    curve = curve_by_hand(smooth, KL)
    slopes = slopes_by_hand(curve)
    sums = slopes.T @ curve
    errors = errors_by_hand(partitions, units, 0.5, KL, slopes)
    repeats, variance = len(partitions), errors.variance
    if repeats > 1:
        noise = (errors.each_variance.mean(axis=0) - errors.variance) / (repeats - 1)
        each = np.array([np.var(values[name], ddof=1) for name in NAMES]) / repeats
        variance = variance + np.maximum(each - noise, 0.0)
    fewest = min(len(np.unique(own)) for own in units.sets)
    factor = 1.06 + 0.2 * min(2.0, partitions[0].bins / fewest)
    reach = 1.959964 * factor * np.sqrt(2 * variance) / np.abs(sums)
    shift = 1.959964**2 * factor**2 * errors.linear / sums**2 / 2
    other = slopes.T @ curve_by_hand(blended([(one.p, one.q) for one in smooth], units), KL) / sums
    low, high = np.minimum(1 + shift - reach, other), 1 + shift + reach
    mean = np.array([np.mean(values[name]) for name in NAMES])
    ends = np.array([at_theta(curve, low), at_theta(curve, high)]) + mean - at_theta(curve, np.ones(3))
    apart = summaries(Masses.from_histograms([1.0, 0.0], [0.0, 1.0]))
    least, most = np.array([apart["mauve"], 0.0, 0.0]), np.array([1.0, apart["frontier_integral"], apart["midpoint"]])
    ends = np.clip(np.sort(ends, axis=0), least, most)
    for place, name in enumerate(NAMES):
        expected = min(ends[0, place], mean[place]), max(ends[1, place], mean[place])
        assert found[name] == approx(expected, abs=2e-6), name


def test_nothing_over_nothing_is_nothing():
    assert _ratio(np.array([0.0, 2.0, 0.0]), np.array([0.0, 4.0, 4.0])).tolist() == [0.0, 0.5, 0.0]
