"""Statistics counted by hand: p-values with ties, corrections, errors of few units. `tests/mutate.py` shows that they hold."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx
from scipy.spatial.distance import cdist
from scipy.stats import norm

from held_out import learn, samples
from mallow import HELLINGER2, KL, Masses, area
from mallow.errors import InputError
from mallow.evidence import NORMAL as _NORMAL
from mallow.evidence import (
    Certificate,
    Draws,
    Units,
    Witness,
    certify,
    difference_between,
    find_space,
    find_units,
    holm,
    is_undecided,
    run_identity_test,
    subtract_certificates,
)
from mallow.evidence._atoms import merge_atoms
from mallow.evidence._certificate import cost_terms, standard_errors, summary_slopes
from mallow.evidence._evidence import _in_doubt
from mallow.evidence._exchange import common_size, exchangeable_rows, find_exchange
from mallow.evidence._identity import _root, share_as_large
from mallow.evidence._pass_learner import PassLearner
from mallow.evidence._space import regularised_inverse
from mallow.evidence._witness import MemoryLearner
from mallow.results import Estimate
from mallow.theory import Frontier

pytestmark = pytest.mark.all_permutations

# --- Holm


@settings(max_examples=50)
@given(st.lists(st.sampled_from([0.0, 0.01, 0.02, 0.04, 0.3, 0.5, 1.0]), max_size=7))
def test_holm_by_hand(p_values):
    count, places = len(p_values), sorted(range(len(p_values)), key=p_values.__getitem__)
    steps = [(count - rank) * p_values[place] for rank, place in enumerate(places)]
    adjusted = holm(p_values)
    for rank, place in enumerate(places):
        assert adjusted[place] == min(1.0, max(steps[: rank + 1]))


def test_holm_never_falls_where_p_values_rise():
    assert holm([0.04, 0.01, 0.03]) == approx([0.06, 0.03, 0.06])  # alone the largest would be 1 · 0.04
    assert holm([0.02, 0.02]) == approx([0.04, 0.04])
    assert holm([0.7, 0.9]) == [1.0, 1.0]


@pytest.mark.parametrize("wrong", [-0.001, 1.001, math.nan])
def test_holm_refuses_what_is_no_probability_among_those_that_are(wrong):
    with pytest.raises(InputError, match="`p_values` must lie between 0 and 1"):
        holm([0.5, wrong])


# --- the test of identity


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=9))
def test_a_p_value_is_the_share_of_all_rows_that_are_as_large_ties_and_the_observed_one_included(rows):
    columns = [
        [(value - np.mean(column)) / np.std(column) if np.std(column) else 0.0 for value in column]
        for column in zip(*rows, strict=True)
    ]
    largest = [max(row) for row in zip(*columns, strict=True)]
    as_large = sum(value >= largest[0] - 1e-9 for value in largest[1:])
    assert share_as_large(np.array(rows, float)) == approx((1 + as_large) / (len(rows) - 1 + 1), abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_the_p_value_of_each_statistic_counts_ties_and_the_observed_one(seed):
    # Pairs whose differences are 1 or −1: many of the 40 swaps give the same |Σ ± difference| as the observed one.
    differences, y = np.array([1, 1, 1, -1, 1, -1, 1, 1]), np.array([0, 30, 70, 10, 90, 40, 20, 60])
    sides = [(y + differences)[:, None].astype(float), y[:, None].astype(float)]
    units = find_units(*(samples(side, range(8)) for side in sides))
    space = find_space(sides, units)
    test = run_identity_test({"": space}, units, 1, Draws(40, seed))
    layout = np.repeat(np.arange(8), 2), space.places[0][np.argsort(space.places[0])].repeat(2) == np.arange(16)
    merged, join = merge_atoms(find_exchange(*layout))
    drawn = merged.draw(40, np.random.default_rng([seed, 2]).spawn(1)[0])
    signs = np.concatenate([merged.as_observed(), drawn])[:, join[:-1, :-1].toarray().argmax(axis=0)]
    sums = np.abs(signs @ differences[np.argsort(space.places[0])])
    ties = int((sums[1:] == sums[0]).sum())
    assert ties > 2
    expected = (1 + ties + int((sums[1:] > sums[0]).sum())) / (40 + 1)
    means = [p for name, p in test.statistics.items() if name.startswith("means")]
    assert means == approx([expected] * 4, abs=1e-12)


@pytest.mark.parametrize("rank", [1, 3, 8])
def test_a_root_has_the_products_it_was_made_from(rank):
    table = np.random.default_rng(rank).normal(size=(8, rank))
    root = _root(table @ table.T)
    assert root.shape == (8, rank)
    assert root @ root.T == approx(table @ table.T)
    assert _root(np.zeros((4, 4))).tolist() == [[0.0]] * 4


def forms_by_hand(space, rows, weights):
    """Every statistic of every permutation from what each row counts in Δ, for pairs or for single rows."""
    unit = space.unit[rows]
    paired = np.unique(unit, return_counts=True)[1][0] == 2

    def parts(values):
        if paired:  # (x − y)/n of every pair
            n = len(rows) / 2
            side = np.sign(weights[0])
            each = np.array([(side[:, None] * values)[unit == one].sum(axis=0) / n for one in np.unique(unit)])
        else:
            n, m = (weights[0] > 0).sum(), (weights[0] < 0).sum()
            each = (values - values.mean(axis=0)) * (1 / n + 1 / m) / 2
        return weights @ values, (each**2).sum(axis=0)

    forms = {}
    means, variances = parts(space.points[rows])
    for strength in (0.001, 0.01, 0.1, 1.0):
        forms[f"means, strength {strength:g}"] = (means**2 / (variances + strength * variances.mean())).sum(axis=1)
    means, variances = parts(space.columns[rows] ** 2)
    forms["variances by column"] = (means**2 / (variances + 0.01 * variances.mean())).sum(axis=1)
    forms["total variance"] = means.sum(axis=1) ** 2
    for partitions in space.bins:
        bins = partitions.max() + 1
        forms[f"{bins} bins"] = sum(
            (weights[:, labels == one].sum(axis=1)) ** 2 / max((labels == one).sum(), 1)
            for labels in partitions[:, rows]
            for one in range(bins)
        )
    distances = cdist(space.columns[rows], space.columns[rows])
    small, large = np.quantile(distances[np.triu_indices(len(rows), 1)], [0.05, 0.95])
    narrow = np.geomspace(small / 3, max(0.6 * small, large / 24), 3)
    for place, width in enumerate([*narrow, large / 2], 1):
        kernel = np.exp(-((distances / width) ** 2) / 2)
        forms[f"kernel, width {place} of 4"] = np.einsum("ij,ij->i", weights @ kernel, weights)
    return forms


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("shift", [0.0, 0.4])
def test_the_test_of_identity_by_hand(paired, shift):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(40, 3)), rng.normal(size=(40 if paired else 25, 3)) + shift
    units = find_units(samples(x), samples(y))
    space = find_space([x, y], units)
    test = run_identity_test({"": space}, units, 1, Draws(150, seed=3))
    is_reference = np.isin(np.arange(len(space.points)), space.places[0])
    exchange, _ = merge_atoms(find_exchange(space.unit, is_reference))
    signs = [exchange.as_observed(), exchange.draw(150, np.random.default_rng([3, 2]).spawn(1)[0])]
    forms = forms_by_hand(space, np.arange(len(space.points)), np.concatenate(signs) @ exchange.atoms.toarray())
    assert set(test.statistics) == set(forms)
    for name, own in forms.items():
        assert test.statistics[name] == approx((1 + (own[1:] >= own[0] * (1 - 1e-6)).sum()) / 151, abs=1e-12), name
    families = {"moments": [], "bins": [], "kernel": []}
    for name, own in forms.items():
        root = np.cbrt(own)
        family = next((word for word in families if word in name), "moments")
        families[family].append((root - root.mean()) / root.std())
    soft = {family: np.log(np.exp(2 * np.array(each)).sum(axis=0)) for family, each in families.items()}
    weights = {"moments": 0.7, "bins": 1.0, "kernel": 1.0}
    largest = np.log(sum(weights[family] * np.exp(2 * (one - one.mean()) / one.std()) for family, one in soft.items()))
    share = (1 + (largest[1:] >= largest[0] - 1e-6).sum()) / 151
    if share * 151 > 10.5:
        assert (test.p_value, test.exact, test.permutations, test.tail) == (approx(share), True, 150, False)
    else:  # more are drawn
        assert test.permutations in (4_999, 99_999)
        assert test.p_value <= 10 / 151
        assert test.tail == (test.p_value * (test.permutations + 1) < 1.5)


def test_a_statistic_of_nothing_ties_with_all_permutations():
    x = np.random.default_rng(0).normal(size=(20, 3))
    units = find_units(samples(x), samples(x))
    test = run_identity_test({"": find_space([x, x], units)}, units, 1, Draws(30))
    assert set(test.statistics.values()) == {1.0}
    assert (test.p_value, test.tail) == (1.0, False)


@pytest.mark.parametrize(("pairs", "least"), [(12, 0.5**11), (200, 1e-5)])
def test_no_p_value_is_below_one_over_the_number_of_exchanges_nor_below_what_permutations_can_show(pairs, least):
    x = np.random.default_rng(0).normal(size=(pairs, 2))
    units = find_units(samples(x, range(pairs)), samples(x + 50.0, range(pairs)))
    test = run_identity_test({"": find_space([x, x + 50.0], units)}, units, 1, Draws(999))
    assert test.p_value == approx(least, rel=0.3)
    assert test.tail == (pairs == 200)


def test_directions_without_variance_count_nothing():
    assert regularised_inverse(np.array([0.0, 1.0, 3.0]), 0.5) == approx([0.0, 1 / (1 + 2 / 3), 1 / (3 + 2 / 3)])
    assert regularised_inverse(np.zeros(2), 1.0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("side", [True, False], ids=["reference", "model"])
def test_up_to_a_tenth_of_a_side_is_left_out_for_want_of_a_counterpart(side):
    for pairs, left_out in ((28, 3), (27, 3), (26, 2)):  # a unit of three rows of one side: 9.7%, 10%, 10.3%
        unit = np.concatenate([np.repeat(np.arange(pairs), 2), np.full(3, pairs), [pairs + 1]])
        is_reference = np.concatenate([np.tile([True, False], pairs), np.full(3, side), [not side]])
        size = common_size(unit, is_reference)
        assert (~exchangeable_rows(unit, is_reference, size, np.random.default_rng(0))[:-1]).sum() == left_out
        assert size == (None if left_out == 3 else 1)


# --- certificates


def test_mixed_precisions_agree_about_what_is_constant():
    x, y = np.random.default_rng(0).normal(size=(2, 30, 40))
    constants = np.random.default_rng(1).uniform(0.1, 9.0, 39)
    x[:, 1:], y[:, 1:] = constants, constants
    sets = [x.astype(np.float32), y]  # 0.1 is not the same number in both
    columns = find_space(sets, find_units(*map(samples, sets))).columns
    assert (columns[:, 1:] == 0.0).all()
    assert columns[:, 0].std() == approx(1.0)
    assert (find_space([x, y], find_units(samples(x), samples(y))).columns[:, 1:] == 0.0).all()


@pytest.mark.parametrize("kind", [MemoryLearner, PassLearner])
def test_samples_that_are_all_alike_teach_nothing(kind):
    for width, ids, others in (
        (1, range(30), range(30)),
        (4, range(30), np.arange(60) // 2),
        (3, np.arange(30) // 5, range(9, 69)),
    ):
        sets = [samples(np.full((len(names), width), 0.1), names) for names in (ids, others)]
        learner = kind(Witness(), [one.features for one in sets], find_units(*sets))
        assert all((own == 0.0).all() for own in learner.scores(1))
        test = learner.test(1, Draws(20))
        assert (test.p_value, set(test.statistics.values())) == (1.0, {1.0})


def test_errors_count_the_units_that_add_something_though_it_cancels():
    influence = np.array([[1.0, -1.0], [1.0, 1.0], [-2.0, 0.0], [0.0, 0.0]])
    assert standard_errors(influence) == approx(np.sqrt([6.0 * 3 / 2, 2.0 * 3 / 2]))
    assert standard_errors(np.array([[0.5], [0.0]])) == approx([0.5])  # a single unit: no correction
    assert standard_errors(np.zeros((3, 1))).tolist() == [0.0]


def test_scores_too_large_for_an_exponential_are_as_good_as_certain():
    units = Units((np.arange(20), np.arange(20)), np.arange(20, dtype=np.uint64))
    for divergence in (KL, HELLINGER2):
        sure, limit = (certify(np.full(20, h), np.full(20, -h), units, divergence) for h in (5000.0, 700.0))
        assert sure.estimates == limit.estimates
        apart = area(Masses.from_histograms([1.0, 0.0], [0.0, 1.0]), scale=5.0, divergence=divergence)
        assert sure.estimates["mauve"].value == approx(apart, abs=1e-6)


# --- differences of certificates


def certificate_of(values, influence, highs=(1.0, 0.9, 0.7)):
    curve = Frontier(np.array([0.5]), np.array([0.1]), np.array([0.1]), exact=True)
    names = ("mauve", "frontier_integral", "midpoint")
    estimates = {name: Estimate(value, 0.0, high) for name, value, high in zip(names, values, highs, strict=True)}
    return Certificate(curve, estimates, np.asarray(influence, float), 5.0)


INFLUENCE = np.array([[0.01, 0.02, 0.00], [0.03, -0.01, 0.01], [-0.04, -0.01, -0.01], [0.0, 0.0, 0.0]])
ERRORS = np.sqrt((INFLUENCE**2).sum(axis=0) * 3 / 2)  # ddof = 1 over the three units that add something
NORMAL = norm.ppf(0.975)


@pytest.mark.parametrize(
    ("z", "wider", "open_"),
    [(1.9, 1.0, False), (2.0, math.sqrt(2), True), (4.9, math.sqrt(2), True), (5.0, 1.0, False)],
)
def test_a_difference_by_hand(z, wider, open_):
    """Without a common witness, p-values allow for errors √2 times as large; intervals do where it is undecided."""
    values = 0.5 + z * ERRORS[0], 0.10, 0.05
    first, second = certificate_of(values, 2 * INFLUENCE), certificate_of((0.5, 0.10, 0.05), INFLUENCE)
    found = subtract_certificates(first, second)
    assert list(found.value.values()) == approx([z * ERRORS[0], 0.0, 0.0])
    assert list(found.p_value.values()) == approx([2 * norm.sf(z / math.sqrt(2)), 1.0, 1.0], rel=1e-5)
    reach = NORMAL * ERRORS * np.array([wider, 1.0, 1.0])
    ends = np.array(list(found.interval.values()))
    expected = np.stack([found.value["mauve"] * np.array([1, 0, 0]) + sign * reach for sign in (-1, 1)], axis=1)
    assert ends == approx(np.clip(expected, [[-1], [-0.9], [-0.7]], [[1], [0.9], [0.7]]))
    assert is_undecided(first, second) is open_
    assert is_undecided(second, first) is open_
    # Interval and p-value never disagree about 0 at the 5% level.
    assert (ends[0, 0] > 0) == (found.p_value["mauve"] < 0.05)


def test_doubt_begins_where_an_interval_would_touch_zero_and_ends_where_a_wider_one_is_far_from_it():
    clear = math.sqrt(2.0) * 3.5
    doubts = [
        _in_doubt(z) for z in (0.0, math.nextafter(_NORMAL, 0), _NORMAL, 3.0, math.nextafter(clear, 0), clear, math.inf)
    ]
    assert doubts == [False, False, True, True, True, False, False]


@pytest.mark.parametrize("turned", [1.0, -1.0])
def test_a_difference_counts_only_as_far_as_a_common_witness_agrees(turned):
    values = ((0.9, 0.10, 0.05), (0.8, 0.12, 0.03))
    pair = [certificate_of(one, times * INFLUENCE) for one, times in zip(values, (2, 1), strict=True)]
    pair = pair if turned > 0 else pair[::-1]
    differences = turned * np.array([0.1, -0.02, 0.02])
    alone = np.abs(differences) / ERRORS
    common = turned * np.array([1.3, 3.0, 50.0])  # less than alone; of the other sign; more than alone
    found = subtract_certificates(*pair, common=common)
    assert alone[0] > 1.3
    z = np.array([1.3, 0.0, alone[2]])
    assert list(found.p_value.values()) == approx(2 * norm.sf(z))
    reach = np.maximum(NORMAL * ERRORS, NORMAL * np.abs(differences) / np.maximum(z, 1.0))
    ends = np.array(list(found.interval.values()))
    assert ends == approx(np.clip(np.stack([differences - reach, differences + reach], axis=1), -1.0, 1.0))


def test_a_difference_stays_in_the_range_of_its_summary():
    wide = 100 * INFLUENCE
    found = subtract_certificates(certificate_of((0.9, 0.1, 0.05), 2 * wide), certificate_of((0.8, 0.1, 0.0), wide))
    assert list(found.interval.values()) == [(-1.0, 1.0), (-0.9, 0.9), (-0.7, 0.7)]


def test_differences_without_errors():
    nothing = np.zeros((4, 3))
    same = subtract_certificates(certificate_of((0.9, 0.1, 0.1), nothing), certificate_of((0.9, 0.1, 0.1), nothing))
    assert list(same.p_value.values()) == [1.0] * 3
    assert list(same.interval.values()) == [(-1.0, 1.0), (-0.9, 0.9), (-0.7, 0.7)]  # anything is possible
    other = subtract_certificates(certificate_of((0.9, 0.1, 0.1), nothing), certificate_of((0.5, 0.2, 0.0), nothing))
    assert list(other.p_value.values()) == [0.0] * 3
    assert list(other.interval.values()) == [(approx(d), approx(d)) for d in (0.4, -0.1, 0.1)]
    # Both have errors, though their difference has none: equal for certain.
    equal = subtract_certificates(
        certificate_of((0.9, 0.1, 0.1), INFLUENCE), certificate_of((0.9, 0.1, 0.1), INFLUENCE)
    )
    assert list(equal.p_value.values()) == [1.0] * 3
    assert list(equal.interval.values()) == [(0.0, 0.0)] * 3
    tiny = subtract_certificates(
        certificate_of((0.9 + 5e-13, 0.1, 0.1), nothing), certificate_of((0.9, 0.1, 0.1), nothing)
    )
    assert (tiny.value["mauve"], tiny.p_value["mauve"]) == (0.0, 1.0)  # a difference of rounding is none


def test_a_common_witness_by_hand():
    rng = np.random.default_rng(0)
    x, a, b = rng.normal(size=(80, 3)), rng.normal(size=(80, 3)) + 0.5, rng.normal(size=(80, 3)) + 0.9
    learner = learn(*((own, range(80)) for own in (x, a, b)), witness=Witness(assignments=1))
    pair = tuple(certify(*learner.scores(one), learner.units.pair(one)) for one in (1, 2))
    found = difference_between(learner, (1, 2), pair, KL)
    # Row i of all three sets is a unit: the third witness is judged by differences of rows, ddof = 1.
    at_x, at_a, at_b = learner.scores(1, 2)
    rows = np.arange(80)
    pooled = Units((rows, np.concatenate([rows, rows])), np.arange(80, dtype=np.uint64))
    curve = certify(at_x, np.concatenate([at_a, at_b]), pooled).frontier
    slopes = np.concatenate(summary_slopes(curve, 5.0))
    slopes = np.where(np.isfinite(slopes), slopes, 0.0)
    terms = [cost_terms(at_x[:0], own, KL, curve.lam, curve.lam[::-1])[1] @ slopes for own in (at_a, at_b)]
    each = terms[0] - terms[1]
    common = each.mean(axis=0) / (each.std(axis=0, ddof=1) / np.sqrt(80))
    expected = subtract_certificates(*pair, common=common)
    alone = np.abs(list(found.value.values())) / standard_errors(pair[0].influence - pair[1].influence)
    assert abs(common[0]) < alone[0]  # it is what limits the p-value of the area
    for field in ("value", "p_value", "interval"):
        for name, value in getattr(expected, field).items():
            assert getattr(found, field)[name] == approx(value, rel=1e-6, abs=1e-15)


# --- units


def test_wide_samples_that_differ_in_a_late_column_are_no_copies():
    few = np.random.default_rng(0).normal(size=(25, 16))
    x = np.concatenate([few, few])
    late = np.arange(50.0)[:, None]
    other = samples(np.arange(30.0)[:, None])
    assert find_units(samples(x), other).count == 25 + 30
    assert find_units(samples(np.concatenate([x, late], axis=1)), other).count == 50 + 30
