"""What has a definition of its own, and no public call that shows it: compared with that definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pytest import approx

import mallow
from caveats.made_samples import embedded, gaussian, of_features, texts_of
from mallow import Measure, Neighbors, Quantize, Reduce, Samples, read
from mallow.caveats import _estimates as _estimate_checks
from mallow.caveats import _samples as _sample_checks
from mallow.caveats._counts import count_independent, quantiles_differ, shares_differ
from mallow.caveats._samples import _unmatched_caveats
from mallow.errors import Caveat
from mallow.evidence import MAUVE_STAR
from mallow.models import words

# --- no answer


def test_a_row_of_zeros_has_no_direction():
    from mallow.caveats._estimates import _one_direction

    line = np.outer([1.0, 2.0, 5.0], [1.0, 2.0])
    assert _one_direction([line])
    assert not _one_direction([line, np.zeros((1, 2))])
    assert not _one_direction([np.concatenate([line, np.zeros((1, 2))])])


@pytest.mark.parametrize(("turn", "told"), [(1e-7, True), (5e-6, False), (-1e-7, True), (-5e-6, False)])
def test_directions_that_differ_by_rounding_are_one(turn, told):
    from mallow.caveats._estimates import _one_direction

    assert _one_direction([np.array([[1.0, 0.0], [2.0, 2 * turn]])]) == told
    assert _one_direction([np.array([[1.0, 0.0]]), np.array([[2.0, 2 * turn]])]) == told
    assert not _one_direction([np.array([[1.0, 0.0]]), np.array([[-1.0, 0.0]])])


def test_what_scales_rows_to_length_one():
    from mallow.caveats._estimates import ignores_lengths

    x = np.random.default_rng(0).normal(size=(40, 3))
    assert ignores_lengths(mallow.MAUVE_STAR)
    for estimator in (Neighbors(), Quantize(reduce=None), Quantize(reduce=Reduce(normalise=False))):
        assert not ignores_lengths(Measure(estimator))
    for reduce, expected in ((Reduce(), True), (Reduce(normalise=False), False), (None, False)):
        book = Quantize(bins=3, reduce=reduce).fit(x)
        assert ignores_lengths(Measure(Quantize(codebook=book))) == expected  # whatever the estimator's own reduction
        assert ignores_lengths(Measure(Quantize(codebook=book, reduce=None))) == expected


# --- statistics


SHARES = st.floats(0, 1)


SIZES = st.integers(1, 2000)


@given(a=SHARES, b=SHARES, n=SIZES, m=SIZES)
def test_shares_differ_in_either_order_or_in_neither(a, b, n, m):
    assert shares_differ(a, b, n, m) == shares_differ(b, a, m, n)
    assert not shares_differ(a, a, n, m)
    if abs(a - b) <= 0.1:
        assert not shares_differ(a, b, n, m)


def test_a_difference_of_shares_must_be_four_standard_errors():
    # 0.5 ± 0.1 has a standard error of 0.5 √(2/n): four of them are 0.2 at n = 200.
    assert not shares_differ(0.4, 0.6, 199, 199)
    assert shares_differ(0.4, 0.6, 201, 201)
    assert not shares_differ(0.0, 0.5, 4, 4)


def test_quantiles_must_differ_in_ratio_and_beyond_noise():
    numbers = np.sort(np.random.default_rng(0).lognormal(3, 0.5, size=4000))
    assert not quantiles_differ(numbers, 1.05 * numbers, 4000, 4000)
    assert quantiles_differ(numbers, 1.2 * numbers, 4000, 4000)
    assert quantiles_differ(1.2 * numbers, numbers, 4000, 4000)
    assert not quantiles_differ(numbers, 1.2 * numbers, 10, 10)  # so few independent samples prove nothing
    assert not quantiles_differ(numbers, 1.2 * numbers, 4000, 4000, ratio=1.5)


def test_identical_distributions_are_hardly_ever_told_apart():
    rng = np.random.default_rng(1)
    alarms = sum(quantiles_differ(*np.sort(rng.exponential(size=(2, 300)), axis=1), 300, 300) for _ in range(500))
    assert alarms <= 2


@pytest.mark.parametrize("name", ["ids", "prompts"])
def test_samples_of_one_id_or_prompt_count_as_one(name):
    assert count_independent(Samples(texts=["a", "b", "c"], **{name: ["1", "1", "2"]})) == 2
    assert count_independent(Samples(texts=["a", "b", "c"])) == 3


# --- checks of an estimate


def test_samples_of_one_prompt_do_not_count_as_many():
    """20 prompts, each with its own length, and 30 samples of each: the lengths of the two sides differ by chance."""
    ids = [str(i // 30) for i in range(600)]
    with_ids = without = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x, y = (
            np.repeat(np.exp(rng.normal(size=20)), 30)[:, None] * gaussian(600, 3, 0.2, 1.0, seed) for _ in range(2)
        )
        grouped, alone = ([Samples(features=side, ids=labels) for side in (x, y)] for labels in (ids, None))
        with_ids += len(list(_estimate_checks._normalisation_caveats(MAUVE_STAR, *grouped, 1.0)))
        without += len(list(_estimate_checks._normalisation_caveats(MAUVE_STAR, *alone, 1.0)))
    assert with_ids <= 1
    assert without >= 20


@pytest.mark.parametrize("n", [1, 1024, 1025, 2500])
def test_lengths_of_rows_however_many(n):
    rows = gaussian(n, 3, scale=2.0)
    rows[-1] = [0.0, 0.0, -7.0]  # the largest entry may be negative
    assert _estimate_checks._row_lengths(rows) == approx(np.linalg.norm(rows, axis=1))
    assert _estimate_checks._row_lengths(np.zeros((2, 3))).tolist() == [0.0, 0.0]
    for scale in (1e-300, 1e300):
        found = _estimate_checks._row_lengths(scale * np.array([[3.0, -4.0], [0.0, 0.0]]))
        assert found == approx([5.0 * scale, 0.0])
    for largest in (1e200, -1e200):  # of either sign, beside one that is as small
        assert _estimate_checks._row_lengths(np.array([[largest, 1e-200]])) == approx([1e200])
        assert _estimate_checks._row_lengths(np.array([[largest, -1e-200]])) == approx([1e200])
    assert _estimate_checks._row_lengths(np.array([[-3, -4]], np.float16)).tolist() == [5.0]


@pytest.mark.parametrize(
    ("independent", "bins"), [(1, 3), (199, 3), (200, 5), (999, 19), (1000, 21), (1099, 21), (100_000, 21)]
)
def test_more_independent_samples_have_more_bins_of_lengths(independent, bins):
    x, y = np.exp(gaussian(400, 1)[:, 0]), np.exp(gaussian(300, 1, seed=1)[:, 0])
    p, q = _estimate_checks._count_lengths(x, y, independent=independent)
    assert len(p) == len(q) == bins
    assert (p.sum(), q.sum()) == (400, 300)
    assert (p > 0).all()  # 90% of the lengths lie between the bins at the ends, which hold all others
    assert p[bins // 2] > p[0]


def test_bins_of_lengths_are_around_the_median_and_equal_lengths_are_in_one():
    p, q = _estimate_checks._count_lengths(np.full(50, 2.0), np.full(50, 2.04), independent=100)
    assert (p.tolist(), q.tolist()) == ([0, 50, 0], [0, 50, 0])  # 2% are counted as equal
    p, q = _estimate_checks._count_lengths(np.full(50, 1.0), np.full(50, 100.0), independent=100)
    assert (p.tolist(), q.tolist()) == ([50, 0, 0], [0, 0, 50])
    # Rows of zeros are far below all others, and the middle is that of all lengths.
    lengths = np.r_[np.zeros(30), np.ones(40), np.full(30, 1e5)]
    p, _ = _estimate_checks._count_lengths(lengths, lengths, independent=100)
    assert p.tolist() == [30, 40, 30]
    nothing = np.zeros(10)
    assert _estimate_checks._count_lengths(nothing, nothing, independent=1)[0].tolist() == [0, 10, 0]
    tiny = np.array([5e-324, 5e-324, 1.0, 1.0])
    assert _estimate_checks._count_lengths(tiny, tiny, independent=1)[0].tolist() == [2, 0, 2]


@given(seed=st.integers(0, 1000), bins=st.integers(1, 8), size=st.floats(0.3, 4.0), shift=st.floats(0, 1))
def test_histograms_differ_where_chi_squared_is_four_deviations_above_its_mean(seed, bins, size, shift):
    from scipy.stats import chi2_contingency

    rng = np.random.default_rng(seed)
    p, q = rng.multinomial(200, rng.dirichlet(np.ones(bins))), rng.multinomial(int(200 * size), np.full(bins, 1 / bins))
    q = np.round((1 - shift) * p * size + shift * q)
    q[p.argmax()] += 1
    table = np.array([p, q])[:, p + q > 0].astype(float)
    freedom = table.shape[1] - 1
    statistic = chi2_contingency(table, correction=False).statistic if freedom else 0.0
    limit = freedom + 4 * np.sqrt(2 * freedom)
    if abs(statistic - limit) > 1e-6:
        assert _estimate_checks._counts_differ(p.astype(float), q) == (statistic > limit)


def test_lengths_that_agree_are_not_told_however_low_their_score():
    x, y = gaussian(400, 3), gaussian(400, 3, scale=1.02, seed=1)
    caveats = _estimate_checks._normalisation_caveats(MAUVE_STAR, Samples(features=x), Samples(features=y), 1.0)
    assert list(caveats) == []


def test_a_direction_needs_four_fifths_of_the_variance():
    def told(variances, width=16, explained=1.0):
        from types import SimpleNamespace

        reduction = SimpleNamespace(
            axes=np.zeros((len(variances), width)), variances=np.array(variances), explained=explained
        )
        return [dict(one.values) for one in _estimate_checks._direction_caveats(reduction)]

    assert told([8.0, 1.0, 1.0]) == [{"directions": 1, "share": 0.8, "width": 16}]
    assert told([7.0, 1.0, 2.0]) == [{"directions": 2, "share": 0.8, "width": 16}]
    assert told([7.0, 0.5, 2.5]) == []
    assert told([3.0, 3.0, 3.0, 1.0]) == []  # three hold 90%
    assert told([8.0, 1.0, 1.0], width=15) == []
    assert told([8.0], explained=0.5) == []  # the rest of the variance counts too
    assert told([0.0, 0.0]) == []
    assert list(_estimate_checks._direction_caveats(None)) == []


# --- checks of samples


def test_the_median_does_not_depend_on_the_order_of_the_texts():
    texts = [text for length in range(10, 110) for text in texts_of(2, length, length)]
    expected = _sample_checks._median_words(tuple(texts))
    assert expected == approx(np.median([len(words(text)) for text in texts]), abs=2)
    for seed in range(5):
        assert _sample_checks._median_words(tuple(np.random.default_rng(seed).permutation(texts))) == expected
    assert _sample_checks._median_words(("One two.",)) == 3


def test_the_median_of_real_texts(shared):
    for name, field in (("webtext-gpt2-large/human", "gen"), ("reuters/reuters_c50", None)):
        texts = read(shared / "data" / f"{name}.jsonl.gz", field=field, limit=150).texts
        exact = float(np.median([len(words(text)) for text in texts]))
        assert _sample_checks._median_words(texts) == approx(exact, rel=0.03)


matrices = arrays(np.float64, st.tuples(st.integers(1, 6), st.just(3)), elements=st.floats(-1e3, 1e3))


@given(x=matrices, y=matrices, exponent=st.sampled_from([0, 200, -200]))
def test_the_spread_is_that_around_the_mean(x, y, exponent):
    rows = np.concatenate([x, y])
    length = np.sqrt((rows**2).sum(axis=1).mean())
    around = np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())
    expected = around / length if length else 0.0
    scale = 10.0**exponent
    if np.abs(rows).max() > 1e-3 or not rows.any():
        assert _sample_checks._relative_spread(scale * x, scale * y) == approx(expected, abs=1e-7)


def test_file_names_are_not_prompts():
    images = [[f"{i:04}.png" for i in range(start, start + 50)] for start in (0, 25)]
    sides = [Samples(images=names, ids=names, features=of_features(50).features) for names in images]
    assert list(_unmatched_caveats(*sides, "model")) == []


def test_the_spread_of_many_rows_is_that_of_all():
    rows = np.random.default_rng(0).normal(3.0, 1.0, size=(9000, 2))
    for cut in (1, 4096, 4097, 8999):
        assert _sample_checks._relative_spread(rows[:cut], rows[cut:]) == approx(1 / np.sqrt(10), rel=0.03)
    one = _sample_checks._relative_spread(rows[:4500], rows[4500:])
    assert one == approx(_sample_checks._relative_spread(rows[:1], rows[1:]), rel=1e-12)
    assert _sample_checks._relative_spread(-rows[:5], -rows[5:]) == approx(one, rel=1e-12)
    assert _sample_checks._relative_spread(np.zeros((2, 2)), np.zeros((3, 2))) == 0.0
    below = -np.array([[1.0, 2.0], [2.0, 1.0]])  # no entry is above 0, and squares would overflow or vanish
    expected = _sample_checks._relative_spread(below, below)
    assert _sample_checks._relative_spread(1e250 * below, 1e250 * below) == approx(expected)
    assert _sample_checks._relative_spread(1e-250 * below, 1e-250 * below) == approx(expected)


@pytest.mark.parametrize(("count", "low"), [(1, 0), (31, 0), (32, 0), (33, 1), (101, 35)])
def test_thirty_one_texts_around_the_middle_are_counted(count, low):
    """The text at place i has i + 1 words, and more characters than the one before."""
    texts = tuple(" ".join(["word"] * (place + 1)) for place in range(count))
    assert _sample_checks._median_words(texts[::-1]) == np.median(np.arange(low, min(low + 31, count)) + 1)


def test_texts_of_one_length_are_counted_in_the_order_of_the_alphabet():
    texts = tuple("a b c" if place % 2 else "abcde" for place in range(100))
    assert _sample_checks._median_words(texts) == _sample_checks._median_words(texts[::-1]) == 3.0


def test_several_samples_for_each_prompt_are_no_unequal_sizes():
    ids = [str(i // 2) for i in range(2000)]
    reference, twice, half = of_features(1000, ids=ids[::2]), of_features(2000, ids=ids), of_features(500)
    assert _sample_checks._size_caveats(reference, twice) == []
    assert [one.kind for one in _sample_checks._size_caveats(reference, half)] == ["few samples", "unequal sizes"]
    assert [one.kind for one in _sample_checks._size_caveats(of_features(1000), of_features(2000))] == ["unequal sizes"]
    assert count_independent(twice) == 1000
    assert count_independent(half) == 500


def test_duplicates_that_are_known_do_not_count_as_merged():
    texts = texts_of(100, 20)
    features = np.eye(100)
    features[90:] = features[0]  # 91 different rows
    side = embedded(texts, features)
    known = [
        Caveat("duplicates", "Twice.", "model", {"repeats": 9}),
        Caveat("duplicates", "Twice.", "other", {"repeats": 50}),
    ]
    found = list(_sample_checks._feature_caveats(embedded(texts, np.eye(100)), side, "model", []))
    assert [(one.system, dict(one.values)) for one in found] == [("model", {"distinct": 90, "items": 100, "n": 100})]
    assert list(_sample_checks._feature_caveats(embedded(texts, np.eye(100)), side, "model", known)) == []


def test_the_spread_is_not_told_where_features_are_merged():
    constant = embedded(texts_of(50, 20), np.ones((50, 3)))
    assert len(list(_sample_checks._feature_caveats(constant, constant, "model", []))) == 2
