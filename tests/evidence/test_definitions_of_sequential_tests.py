"""The test that may be looked at after every batch: its clock, its moments, its views, compared with their definitions."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx
from scipy import special
from scipy.integrate import quad
from scipy.stats import chi2

from mallow.estimate import Quantize
from mallow.evidence import (
    fit_sequential_test,
)
from mallow.evidence._sequential import GRID, MeanTest, _total_variance, crossing_probability, fit_mean_test
from mallow.evidence._sequential_views import VIEWS, fit_views

WIDTH = 6


def draw(n: int, seed: int, width: int = WIDTH) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, width)) * np.exp(-np.arange(width) * 6 / width)


def highest_quadratic_forms(weights: np.ndarray, length: float, *, paths: int = 3000, steps: int = 300) -> np.ndarray:
    """The largest Σ w z² of Ornstein–Uhlenbeck processes z over a length of the clock log u, by simulation."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((paths, len(weights)), dtype=np.float32)
    kept = math.exp(-length / steps / 2)  # correlation √(u₁/u₂)
    highest = z**2 @ weights
    for _ in range(steps):
        z = kept * z + math.sqrt(1 - kept**2) * rng.standard_normal(z.shape, dtype=np.float32)
        highest = np.maximum(highest, z**2 @ weights)
    return highest


@pytest.mark.parametrize("weights", [np.ones(1), np.ones(4), np.ones(16), 1 / np.arange(1, 20)])
@pytest.mark.parametrize("length", [1.0, 5.0])
def test_a_level_is_exceeded_as_often_as_in_simulations(weights, length):
    # Unequal weights are like as many equal ones as give the same three cumulants.
    highest = highest_quadratic_forms(weights, length)
    second, third = 2 * (weights**2).sum(), 8 * (weights**3).sum()
    freedom = 8 * second**3 / third**2
    for tail in (0.02, 0.004):
        level = special.chdtri(freedom, tail)
        seen = (highest > weights.sum() + (level - freedom) * math.sqrt(second / (2 * freedom))).mean()
        expected = crossing_probability(level, freedom, length)
        error = 3 * math.sqrt(expected / len(highest))
        # Between steps the process may exceed the level unseen: the formula is for every moment.
        assert 0.95 * seen - error < expected < 1.25 * seen + error
        assert expected > 3 * tail


def test_a_short_look_is_twice_the_tail():
    for level, freedom in ((9.0, 1.0), (30.0, 4.0), (40.0, 16.5), (1300.0, 1000.0), (15.0, 0.6)):
        tail = special.chdtrc(freedom, level)
        assert crossing_probability(level, freedom, 0.0) == approx(2 * tail - tail**2, rel=1e-9)


@given(freedom=st.floats(0.5, 500), sigmas=st.floats(-0.9, 12), more=st.floats(0.01, 5), length=st.floats(0, 12))
def test_a_longer_look_is_likelier_to_exceed_a_level_and_a_higher_level_less_likely(freedom, sigmas, more, length):
    level = max(freedom + sigmas * math.sqrt(2 * freedom), 1e-3)
    p = crossing_probability(level, freedom, length)
    assert 0 <= special.chdtrc(freedom, level) * (1 - 1e-9) <= p <= 1
    assert crossing_probability(level, freedom, length + more) >= p
    assert crossing_probability(level + more, freedom, length) <= p * (1 + 1e-3)


def test_nothing_overflows_far_out():
    assert crossing_probability(1e5, 3.0, 6.0) == 0.0
    assert crossing_probability(-1.0, 3.0, 6.0) == crossing_probability(0.0, 3.0, 6.0) == 1.0
    assert 0 < crossing_probability(600.0, 3.0, 6.0) < 1e-100


def brute_moments(centred: np.ndarray) -> tuple[float, ...]:
    """The moments of `MeanTest` by their definitions, over all ordered pairs and triples of different rows."""
    rows, count = [list(row) for row in centred], len(centred)
    h = [[sum(a * b for a, b in zip(x, y, strict=True)) for y in rows] for x in rows]
    different = [(i, j) for i in range(count) for j in range(count) if i != j]
    triples = [(i, j, k) for i, j in different for k in range(count) if k not in (i, j)]
    return (
        sum(h[i][j] ** 2 for i, j in different) / len(different),
        sum(h[i][j] * h[j][k] * h[k][i] for i, j, k in triples) / len(triples),
        float(np.var([h[i][i] for i in range(count)])),
        sum(h[i][i] * h[i][j] ** 2 for i, j in different) / len(different),
        sum(h[i][j] ** 3 for i, j in different) / len(different),
    )


def test_moments_are_those_of_the_definition():
    features = np.random.default_rng(0).exponential(size=(12, 3)) * [1.0, 0.6, 0.3]
    mean, length = features.mean(axis=0), float((features**2).sum(axis=1).mean())
    test = fit_mean_test(features, mean, length, 12.0)
    square, cube, of_norms, norm_pairs, of_pairs = brute_moments(features - mean)
    total = float(np.trace(np.cov(features.T)))
    assert test.total == approx(total)
    assert test.square == approx(square)
    assert test.cube == approx(np.clip(cube, square**2 / total, square**1.5))
    assert test.of_norms == approx(of_norms)
    assert test.of_norm_pairs == approx(norm_pairs - total * square)
    assert test.of_pairs == approx(of_pairs)


def test_cumulants_hold_for_few_samples_of_a_skewed_distribution():
    # By simulation: a rare large value, so that at t = 8 the limits for many samples are far off.
    rng = np.random.default_rng(1)
    p, values = np.array([0.7, 0.2, 0.1]), np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 2.0]])
    mean = p @ values
    centred = values - mean
    h = centred @ centred.T
    norms = np.diag(h)
    covariance = centred.T @ (p[:, None] * centred)
    total = float(np.trace(covariance))
    t, n = 8, 40
    test = MeanTest(
        mean,
        float(n),
        total,
        float(np.trace(covariance @ covariance)),
        float(np.trace(covariance @ covariance @ covariance)),
        float(p @ norms**2 - total**2),
        float(p @ ((norms - total)[:, None] * h**2) @ p),
        float(p @ h**3 @ p),
    )
    runs = 200_000
    model, reference = rng.multinomial(t, p, runs) @ values / t, rng.multinomial(n, p, runs) @ values / n
    statistic = ((model - reference) ** 2).sum(axis=1) / (1 / t + 1 / n)
    off = statistic - statistic.mean()
    second, third = test.cumulants(t)
    assert statistic.mean() == approx(total, rel=0.01)
    assert second == approx((off**2).mean(), rel=0.03)
    assert third == approx((off**3).mean(), rel=0.12)  # up to terms of order 1/t²
    limit_second, limit_third = test.cumulants(math.inf)
    assert limit_second < 0.95 * second
    assert limit_third < 0.7 * third


def counted_tails(features, reference_size: int, t: int, runs: int, references: int) -> np.ndarray:
    tails = []
    for seed in range(references):
        rng = np.random.default_rng([t, seed])
        x, y = features(reference_size, rng), features(runs * t, rng)
        test = fit_mean_test(x, x.mean(axis=0), float((x**2).sum(axis=1).mean()), float(reference_size))
        means = y.reshape(runs, t, -1).mean(axis=1)
        lengths = (y**2).sum(axis=1).reshape(runs, t).mean(axis=1)
        tails += [test.tail(mean, float(length), float(t)) for mean, length in zip(means, lengths, strict=True)]
    return np.array(tails)


@pytest.mark.parametrize("t", [10, 100])
def test_tails_of_one_look_are_p_values(t):
    def bounded(size, rng):  # lengths of at most 1, heavy tails before
        rows = rng.standard_t(2, size=(size, 5))
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 4.0)

    def one_hot(size, rng):
        return np.eye(30)[rng.integers(30, size=size)]

    for features in (bounded, one_hot):
        tails = counted_tails(features, 200, t, runs=20, references=150)
        assert 0.035 < (tails < 0.05).mean() < 0.065
        assert (tails < 0.01).mean() < 0.016
        assert (tails < 0.5).mean() == approx(0.5, abs=0.05)


def test_a_small_reference_without_large_values_is_no_reason_for_an_alarm():
    # In 15 samples a low mean and a low variance go together; the variance of the model corrects that.
    def rare(size, rng):
        return (rng.random((size, 1)) < 0.1) * 1.0

    tails = counted_tails(rare, 15, 400, runs=2, references=300)
    assert (tails < 0.01).mean() < 0.02
    x = np.zeros((15, 1))
    x[0] = 1.0
    test = fit_mean_test(x, x.mean(axis=0), 1 / 15, 15.0)
    mean = np.array([0.4])
    assert test.tail(mean, 0.4, 1000.0) > 10 * test.tail(mean, 0.16, 1000.0)  # the same mean, no variance


def test_features_that_do_not_vary_say_nothing():
    test = fit_mean_test(np.ones((50, 3)), np.ones(3), 3.0, 50.0)
    assert test.silent
    assert test.tail(np.zeros(3), 0.0, 1000.0) == 1.0
    assert test.p_value(0.0) == 1.0
    assert mean_test(4.0, 0.3, 0.2).p_value(0.0) < 1e-100


def test_all_looks_need_more_than_one():
    x = draw(500, 0)
    test = fit_mean_test(x, x.mean(axis=0), float((x**2).sum(axis=1).mean()), 500.0)
    for tail in (0.5, 0.01, 1e-3, 1e-6, 1e-200, 0.0):
        assert test.p_value(tail) > tail
    assert test.p_value(1.0) == 1.0
    # A larger reference has a longer clock: more can be found, and more looks are different ones.
    assert replace(test, units=5000.0).p_value(1e-3) > test.p_value(1e-3)
    assert 5 < test.p_value(1e-3) / 1e-3 < 50


@pytest.fixture(scope="module")
def views():
    return fit_views(draw(200, 0))


def test_no_sample_weighs_much(views):
    rows = draw(300, 1) * np.logspace(-3, 8, 300)[:, None]
    for values in views.values(rows):
        assert np.linalg.norm(values, axis=1).max() <= 1 + 1e-5
    assert np.allclose(views.values(draw(1, 1) * 1e307)[0], views.values(draw(1, 1) * 1e200)[0])


@settings(max_examples=20)
@given(cuts=st.lists(st.integers(1, 299), max_size=6), seed=st.integers(0, 5))
def test_totals_of_parts_add_up_exactly_in_any_order(views, cuts, seed):
    rows = draw(300, 2)
    sums, squares = views.totals(rows)
    shuffled = rows[np.random.default_rng(seed).permutation(300)]
    parts = [views.totals(part) for part in np.split(shuffled, sorted(set(cuts)))]
    for place in range(len(VIEWS)):
        assert np.array_equal(sum(part[0][place] for part in parts), sums[place])
        assert sum(part[1][place] for part in parts) == squares[place]


def test_totals_are_those_of_the_values(views):
    rows = draw(300, 2)
    for values, total, square in zip(views.values(rows), *views.totals(rows), strict=True):
        assert np.allclose(values.sum(axis=0), total / GRID)
        assert (values**2).sum() == approx(square / GRID**2)


def test_means_are_whitened_in_full_width():
    # The second strength gives all directions about the same weight, the first mostly those of large variance.
    fitting, rows = draw(2000, 0, 20), draw(4000, 1, 20)
    mean, fine, _ = (np.var(one, axis=0) for one in fit_views(fitting).values(rows))
    assert mean.shape == fine.shape == (20,)
    assert fine[-5] > 0.1 * fine[0]
    assert mean[-5] < 0.05 * mean[0]


def test_more_features_than_rows_lose_no_direction():
    fitting = draw(30, 0, 80)
    views = fit_views(fitting)
    row = draw(1, 1, 80)
    outside = row - (row - fitting.mean(axis=0)) @ views.axes.T @ views.axes  # orthogonal to all that was seen
    moved = views.values(np.concatenate([fitting.mean(axis=0)[None], outside]))
    assert np.linalg.norm(moved[0][1] - moved[0][0]) > 0.1
    assert np.linalg.norm(moved[1][1] - moved[1][0]) > 0.1


@pytest.mark.parametrize(("count", "kept"), [(60, 6), (19, 1), (5, 1)])
def test_distances_are_taken_along_a_tenth_as_many_axes_as_there_are_rows(count, kept):
    """Along the last of many axes, the rows that fitted them are much nearer to the centre than any others."""
    views = fit_views(draw(count, 0, 8))
    assert views.spread.shape == (2, kept)
    assert views.values(draw(3, 1, 8))[2].shape == (3, kept)


@pytest.mark.parametrize("factor", [2.0**-600, 0.5, 2.0**600])
def test_units_of_measurement_do_not_matter(factor):
    fitting, rows = draw(100, 0), draw(50, 1)
    for one, other in zip(
        fit_views(fitting).values(rows), fit_views(fitting * factor).values(rows * factor), strict=True
    ):
        assert np.array_equal(one, other)


@pytest.mark.parametrize(
    "fitting",
    [
        np.zeros((20, 3)),
        np.ones((20, 3)),
        np.ones((3, 20)),
        np.column_stack([np.arange(20.0), np.ones(20)]),
        np.repeat(np.eye(4), 5, axis=0),
        np.arange(20.0)[:, None],
    ],
    ids=["zeros", "equal", "equal and wide", "a constant column", "one-hot", "one column"],
)
def test_degenerate_rows_have_views(fitting):
    views = fit_views(fitting)
    for values in views.values(np.concatenate([fitting, fitting + 1.0])):
        assert np.isfinite(values).all()
        assert np.linalg.norm(values, axis=1).max() <= 1 + 1e-5


def test_float32_rows_are_taken_as_they_are():
    rows = draw(100, 0).astype(np.float32)
    views = fit_views(rows)
    for one, other in zip(views.values(rows), views.values(rows.astype(np.float64)), strict=True):
        assert np.array_equal(one, other)


# --- by hand


def mean_test(*moments, units=50.0):
    return MeanTest(np.array([1.0, 0.0]), units, 2.0, 1.5, 1.2, *moments)


@pytest.mark.parametrize("moments", [(4.0, 0.3, 0.2), (2.9, -0.3, -0.2)], ids=["corrected", "nothing below the limits"])
def test_cumulants_by_hand(moments):
    of_norms, of_norm_pairs, of_pairs = moments if moments[0] > 3 else (3.0, 0.0, 0.0)
    test = mean_test(*moments)
    for units in (20.0, math.inf):
        t, n = 1 / units, 1 / 50
        q = (t**3 + n**3) / (t + n) ** 2
        second, third = test.cumulants(units)
        assert second == approx(2 * 1.5 + (of_norms - 3.0) * q, rel=1e-12)
        assert third == approx(8 * 1.2 + 12 * of_norm_pairs * q + 4 * of_pairs * (t - n) ** 2 / (t + n), rel=1e-12)
    assert test.freedom == approx(8 * second**3 / third**2)
    assert not test.silent


@pytest.mark.parametrize(("square_length", "mean"), [(9.0, (1.5, -0.4)), (3.0, (1.5, -0.4)), (2.5, (1.01, 0.0))])
def test_the_tail_of_one_look_by_hand(square_length, mean):
    test, units = mean_test(4.0, 0.3, 0.2), 20.0
    second, third = test.cumulants(units)
    freedom = 8 * second**3 / third**2
    total = (square_length - (mean[0] ** 2 + mean[1] ** 2)) * 20 / 19
    excess = max(0.0, (total - 2.0) * 20 / (70 * 2.0))
    statistic = ((mean[0] - 1) ** 2 + mean[1] ** 2) / ((1 / 20 + 1 / 50) * (1 + excess))
    standard = (statistic - 2.0) / math.sqrt(second)  # to mean r and variance 2r
    expected = chi2.sf(freedom + standard * math.sqrt(2 * freedom), freedom)
    assert test.tail(np.array(mean), square_length, units) == approx(expected, rel=1e-9)
    assert (excess > 0) == (square_length == 9.0)


@pytest.mark.parametrize(
    ("level", "freedom", "length"), [(9.0, 1.0, 1.0), (14.0, 4.0, 3.0), (40.0, 20.0, 5.0), (3.0, 4.0, 0.5)]
)
def test_how_often_a_level_is_exceeded_by_quadrature(level, freedom, length):
    time = quad(lambda y: chi2.cdf(y, freedom) ** 2 / (2 * y * chi2.pdf(y, freedom)), 0, level, limit=200)[0]
    expected = 1 - chi2.cdf(level, freedom) ** 2 * math.exp(-length / time)
    assert crossing_probability(level, freedom, length) == approx(expected, rel=1e-3)


@pytest.mark.parametrize("level", [1e-9, 0.0, -3.0])
def test_a_level_that_is_always_exceeded(level):
    assert crossing_probability(level, 4.0, 1.0) == 1.0


@pytest.mark.parametrize(("units", "factor"), [(0.5, 0.5), (1.0, 1.0), (1.5, 1.5), (3.0, 1.5), (10.0, 10 / 9)])
def test_the_total_variance_of_few_units(units, factor):
    assert _total_variance(np.array([1.0, 2.0]), 7.0, units) == approx(2.0 * factor)
    assert _total_variance(np.array([1.0, 2.0]), 5.0 - 1e-15, units) == 0.0


def test_a_mean_that_is_nearer_than_chance_has_the_tail_one():
    test = mean_test(4.0, 0.3, 0.2)
    for square_length in (3.0, 30.0):
        assert test.tail(test.mean, square_length, 20.0) == approx(1.0, abs=1e-3)
    narrow = MeanTest(
        np.zeros(1), 1e6, 2.0, 4.0, 8.0, 0.0, 0.0, 0.0
    )  # one degree of freedom, and a small third cumulant
    assert MeanTest(np.zeros(1), 50.0, 9.0, 1.0, 0.9, 0.0, 0.0, 0.0).tail(np.zeros(1), 2.0, 20.0) == 1.0
    assert narrow.tail(np.zeros(1), 2.0, 20.0) == 1.0


@pytest.mark.parametrize("seed", range(8))
def test_the_third_moment_is_one_that_a_covariance_can_have(seed):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(int(rng.integers(3, 9)), 1 + seed % 3)) ** (1 + seed % 2)
    mean, length = features.mean(axis=0), float((features**2).sum(axis=1).mean())
    test = fit_mean_test(features, mean, length, float(len(features)))
    centred, count = features - mean, len(features)
    h = centred @ centred.T
    places = range(count)
    triples = [(i, j, k) for i in places for j in places for k in places if len({i, j, k}) == 3]
    cube = np.mean([h[i, j] * h[j, k] * h[k, i] for i, j, k in triples])
    square = np.mean([h[i, j] ** 2 for i in places for j in places if i != j])
    assert test.square == approx(square)
    least = square**2 / test.total
    assert test.cube == approx(min(max(cube, least), max(square**1.5, least)))


def test_the_p_value_of_all_looks_by_hand():
    test = mean_test(4.0, 0.3, 0.2)
    for tail in (0.3, 1e-3):
        level = chi2.isf(tail, test.freedom)
        expected = crossing_probability(level, test.freedom, math.log(1 + 50 / 10))
        assert test.p_value(tail) == approx(expected, rel=1e-9)
    assert test.p_value(1.0) == 1.0


def test_two_samples_tell_nothing_about_moments_and_three_do():
    rows = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 5.0]])
    for count in (2, 3):
        own = rows[:count]
        test = fit_mean_test(own, own.mean(axis=0), float((own**2).sum(axis=1).mean()), float(count))
        assert test.silent == (count == 2)
        assert test.total == approx(own.var(axis=0, ddof=1).sum())


def test_the_numbers_of_units_do_not_matter_where_only_some_of_them_give_the_moments(monkeypatch):
    monkeypatch.setattr("mallow.evidence._sequential._MOMENT_ROWS", 15)
    rng = np.random.default_rng(0)
    fitting, counted = rng.normal(size=(40, 2)), rng.normal(size=(60, 2))
    codebook, units = Quantize(bins=4).fit(fitting, rng=0), np.arange(60) // 2
    numbers = rng.permutation(30)
    tests = [fit_sequential_test(codebook, fitting, counted, own).tests for own in (units, numbers[units])]
    for one, other in zip(*tests, strict=True):
        assert (one.units, one.square, one.cube, one.of_pairs) == (
            other.units,
            other.square,
            other.cube,
            other.of_pairs,
        )
    # The first row of each of the first 15 units, whatever follows.
    moved = counted.copy()
    moved[30:], moved[1:30:2] = counted[30:][::-1], counted[1:30:2][::-1]
    again = fit_sequential_test(codebook, fitting, moved, units).tests
    assert [one.of_norms for one in again] == approx([one.of_norms for one in tests[0]], rel=1e-9)


def test_rare_bins_count_more_by_hand():
    rng = np.random.default_rng(0)
    fitting, counted = rng.normal(size=(80, 2)), rng.normal(size=(120, 2))
    codebook = Quantize(bins=6).fit(fitting, rng=0)
    units = np.repeat(np.arange(100), np.where(np.arange(100) < 20, 2, 1))
    test = fit_sequential_test(codebook, fitting, counted, units)
    share = codebook.count(fitting) / 80
    assert test.weights == approx(1 / np.sqrt(len(share) * share + 1))
    of_bins = test.tests[-1]
    counts = codebook.count(counted)
    assert of_bins.mean == approx(test.weights * counts / 120)
    assert of_bins.units == approx(120**2 / (20 * 4 + 80))
    length = float(test.weights**2 @ counts) / 120
    worth = of_bins.units
    assert of_bins.total == approx((length - (of_bins.mean**2).sum()) * worth / (worth - 1))
    looks = test.start()
    looks.tails = [1.0, 1e-3, 1e-12, 0.2]
    each = [4 * one.p_value(tail) for one, tail in zip(test.tests, looks.tails, strict=True)]
    assert list(test.p_values(looks).values()) == approx([1.0, min(each[1], 1.0), 1e-4, min(each[3], 1.0)])
