"""The witness: nothing is judged by what it was learned on; it sees what it should; bad input has a right answer."""

import warnings

import numpy as np
import pytest
from pytest import approx

from mallow import KL, InputError, Measure, Samples, Witness, integral, score
from mallow.inference import Learner, certify, find_units, gather_evidence
from mallow.inference._folds import deal_folds

pytestmark = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")  # few samples

QUICK = Witness(assignments=2)


def learn(x, y, witness=QUICK, ids=(None, None), seed=0):
    x, y = np.asarray(x), np.asarray(y)
    units = find_units(*(Samples(features=rows, ids=own) for rows, own in zip((x, y), ids, strict=True)))
    return Learner(witness, [x, y], units, seed).scores(1), units


def certified(x, y, witness=QUICK, ids=(None, None), seed=0):
    (at_x, at_y), units = learn(x, y, witness, ids, seed)
    return certify(at_x, at_y, units)


# --- it sees what it should


@pytest.mark.parametrize(
    "change",
    [
        lambda y, rng: y + 0.5,
        lambda y, rng: 0.7 * y,
        lambda y, rng: np.where(np.arange(y.shape[1]) == 7, 0.01 * y + 0.02, y),
        lambda y, rng: y * np.array([1, -1] * 4) + 3 * np.sign(rng.normal(size=(300, 1))) * np.array([1, -1] * 4),
    ],
    ids=["shift", "spread", "one column of little variance", "clusters"],
)
def test_gaps_of_every_kind_are_certified(change):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 300, 8))
    if change(np.zeros((300, 8)), rng).any() and abs(change(np.zeros((300, 8)), rng)).max() == 3:
        x = x + 3 * np.sign(rng.normal(size=(300, 1)))
    x[:, 7] *= 0.01 if change(np.ones((300, 8)), rng)[0, 7] == approx(0.03) else 1.0
    assert certified(x, change(y, rng)).estimates["mauve"].high < 0.9


def test_a_gap_in_a_direction_of_little_variance_is_seen_beside_large_ones():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 500, 40)) * np.geomspace(10.0, 0.01, 40)
    y[:, -1] += 0.01
    assert certified(x, y).estimates["mauve"].high < 0.9
    assert score(x, y, repeats=1).mauve > 0.9  # what the bins see of it


def test_a_column_may_have_any_unit():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(300, 5)), rng.normal(0.4, 1.0, size=(300, 5))
    units = np.array([1e-30, 1e30, 1.0, 1e-3, 7.0])
    assert certified(x * units, y * units).estimates["mauve"].value == approx(
        certified(x, y).estimates["mauve"].value,
        abs=0.02,  # other contents, other folds
    )


# --- honest


def test_a_view_that_remembers_its_training_samples_learns_nothing():
    def remember(reference, model, others):
        known = {row.tobytes(): 1.0 for row in reference} | {row.tobytes(): -1.0 for row in model}
        return [known.get(row.tobytes(), 0.0) for row in others]

    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 120, 3))
    (at_x, at_y), _ = learn(x, y, Witness((), variances=False, bins=False, views=(remember,), assignments=2))
    assert not at_x.any()
    assert not at_y.any()


def test_folds_never_cut_a_unit_and_hold_both_sides():
    rng = np.random.default_rng(4)
    unit = np.sort(rng.integers(40, size=200))
    unit = np.unique(unit, return_inverse=True)[1]
    keys = rng.integers(2**63, size=unit.max() + 1).astype(np.uint64)
    is_reference = rng.random(200) < 0.5
    folds = deal_folds(unit, keys, is_reference, folds=5, assignments=3, seed=0)
    for own in folds.of_row:
        assert all(len(set(own[unit == one])) == 1 for one in range(unit.max() + 1))
        for side in (is_reference, ~is_reference):
            assert set(own[side]) == set(range(5))
    assert not np.array_equal(folds.of_row[0], folds.of_row[1])


@pytest.mark.parametrize(("n", "width"), [(150, 5), (60, 200)])
def test_noise_is_certified_as_no_gap(n, width):
    claims = 0
    for seed in range(20):
        rng = np.random.default_rng([5, seed])
        claims += certified(*rng.normal(size=(2, n, width)), seed=seed).estimates["mauve"].high < 1.0
    assert claims <= 3


def test_certificates_of_correlated_pairs_are_true():
    # Two samples of a pair resemble each other: a metric that had seen both would make them look easier to tell apart.
    rng = np.random.default_rng(6)
    topic = rng.normal(size=(300, 100))
    x, y = 0.99 * topic + 0.14 * rng.normal(size=(2, 300, 100))
    y[:, 0] += 0.5
    truth = integral_of_shift(0.5)
    assert certified(x, y).estimates["frontier_integral"].low <= truth


def integral_of_shift(shift):
    from mallow import Masses

    normal = shift * np.random.default_rng(0).normal(size=20_000)
    return integral(Masses.from_log_ratio(shift**2 / 2 + normal, -(shift**2) / 2 + normal, pooled=True))


def test_the_order_of_rows_does_not_matter():
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(150, 6)), rng.normal(0.4, 1.0, size=(150, 6))
    order = rng.permutation(150)
    once, again = certified(x, y), certified(x[order], y[order])
    for name, estimate in once.estimates.items():
        assert again.estimates[name].value == approx(estimate.value, abs=1e-9)
        assert again.estimates[name].high == approx(estimate.high, abs=1e-9)


def test_seeds_matter_little():
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(300, 10)), rng.normal(0.25, 1.0, size=(300, 10))
    z = [
        (one := certified(x, y, Witness(), seed=seed)).estimates["midpoint"].value / one.errors[2] for seed in range(6)
    ]
    assert np.std(z, ddof=1) < 0.3
    assert np.mean(z) > 3


# --- a user's view


def test_a_user_adds_what_they_know():
    rng = np.random.default_rng(9)
    x, y = rng.uniform(-1, 1, size=(2, 400, 2))
    y = y[(np.floor(y[:, 0] * 8) + np.floor(y[:, 1] * 8)) % 2 == 0][:150]  # a fine chequerboard

    def chequers(reference, model, others):
        return -(((np.floor(others[:, 0] * 8) + np.floor(others[:, 1] * 8)) % 2 == 0).astype(float))

    assert certified(x, y, Witness(views=(chequers,), assignments=2)).estimates["mauve"].high < 0.93
    assert certified(x, y).estimates["mauve"].high > 0.99


def test_views_that_do_not_fit_are_refused():
    x, y = np.random.default_rng(10).normal(size=(2, 50, 2))

    def short(reference, model, others):
        return others[1:, 0]

    with pytest.raises(InputError, match=r"`views` must return one finite number for each of \d+ samples; short"):
        learn(x, y, Witness(views=(short,)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Witness(strengths=[1.0]), "`strengths` must be a tuple; got [1.0]."),
        (lambda: Witness(strengths=(0.0,)), "`strengths` must be a finite number above 0; got 0.0."),
        (lambda: Witness(views=(3,)), "`views` must be functions (reference, model, others) -> scores; got 3."),
        (lambda: Witness(folds=2), "`folds` must be an integer of at least 3; got 2."),
        (lambda: Witness(assignments=0), "`assignments` must be an integer of at least 1; got 0."),
        (
            lambda: Witness((), variances=False, bins=False),
            "`Witness` needs at least one view; strengths, variances, bins and views are all empty.",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert message in str(caught.value)


# --- bad input


EDGES = {
    "fewer units than folds": (np.arange(4.0)[:, None], np.arange(4.0)[:, None] + 9),
    "all rows equal": (np.ones((30, 3)), np.ones((30, 3))),
    "constant columns": (np.ones((30, 3)) * [1, 2, 1e9], np.ones((40, 3)) * [1, 2, 1e9]),
}


@pytest.mark.parametrize("name", EDGES)
def test_where_nothing_can_be_learned_the_certificate_is_exactly_one(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        certificate = certified(*EDGES[name])
    assert certificate.estimates["mauve"].value == certificate.estimates["mauve"].high == 1.0


def test_one_unit():
    x, y = np.random.default_rng(11).normal(size=(2, 40, 3))
    certificate = certified(x, y + 5, ids=(["a"] * 40, ["a"] * 40))
    assert certificate.estimates["mauve"].high == 1.0


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 3, 500])
def test_separable_sets_are_certified_near_zero_without_overflow(dtype, width):
    rng = np.random.default_rng(12)
    x, y = rng.normal(size=(2, 60, width))
    x, y = x.astype(dtype), (y + 40).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        units = find_units(Samples(features=x), Samples(features=y))
        evidence = gather_evidence(Learner(QUICK, [x, y], units, 0), 1, permutations=99, seed=0)
        certificate = evidence.certify(KL, 5.0)
    assert certificate.estimates["mauve"].high < 0.05
    assert evidence.test.p_value < 1e-6


def test_uneven_groups_that_span_both_sides():
    rng = np.random.default_rng(13)
    names = [f"{i}" for i in range(40)]
    x, y = rng.normal(size=(40, 4)), rng.normal(1.0, 1.0, size=(100, 4))
    certificate = certified(x, y, ids=(names, [names[i] for i in rng.integers(40, size=100)]))
    assert certificate.estimates["mauve"].high < 0.8


def test_a_unit_of_thousands_of_rows_needs_no_large_matrix():
    rng = np.random.default_rng(14)
    x, y = rng.normal(size=(4000, 3)), rng.normal(0.5, 1.0, size=(4000, 3))
    ids = ["one"] * 3000 + [f"{i}" for i in range(1000)]
    assert certified(x, y, ids=(ids, ids)).estimates["mauve"].value < 1.0


# --- as an estimator


def test_it_is_an_estimator_of_masses():
    rng = np.random.default_rng(15)
    x, y = rng.normal(size=(300, 3)), rng.normal(1.0, 1.0, size=(300, 3))
    masses = QUICK(x, y)
    assert masses.plain
    assert masses.p.sum() == approx(1.0)
    assert integral(masses) == approx(integral_of_shift(np.sqrt(3.0)), abs=0.05)
    result = score(x, y, measure=Measure(QUICK), repeats=1)
    assert 0.0 < result.mauve < 0.5
    assert result.interval == {}
