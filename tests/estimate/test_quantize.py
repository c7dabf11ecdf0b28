"""Quantize: symmetry, order of rows, known truth, and what is refused."""

import numpy as np
import pytest
from pytest import approx

from estimate_truths import eight_clusters
from mallow import EstimateWarning, InputError, Masses, Measure, Threads, area, integral, score, smoothing
from mallow.estimate import Codebook, Quantize, Reduce, split_size
from mallow.theory import extrapolated

X, Y = eight_clusters(600), eight_clusters(600, shift=0.3, seed=1)


@pytest.mark.parametrize("smooth", [smoothing.krichevsky_trofimov, smoothing.empirical, extrapolated])
@pytest.mark.parametrize("reduce", [None, Reduce(), Reduce(dimension=3, normalise=False)])
def test_the_score_is_exactly_symmetric_and_free_of_the_order_of_rows(smooth, reduce):
    estimator = Quantize(bins=40, smoothing=smooth, reduce=reduce)
    rng = np.random.default_rng(5)
    forth = estimator(X, Y, rng=3)
    back = estimator(Y, X, rng=3)
    mixed = estimator(X[rng.permutation(600)], Y[rng.permutation(600)], rng=3)
    assert np.array_equal(forth.partition.p_counts, back.partition.q_counts)
    assert np.array_equal(forth.p, mixed.p)
    assert np.array_equal(forth.q, mixed.q)
    assert area(forth, scale=5) == area(mixed, scale=5)
    assert area(forth, scale=5) == approx(area(back, scale=5), abs=1e-13)


def test_the_same_rng_gives_the_same_masses_and_another_one_others():
    first, again, other = (Quantize()(X, Y, rng=rng) for rng in (1, 1, 2))
    assert np.array_equal(first.p, again.p)
    assert not np.array_equal(first.p, other.p)
    assert not np.array_equal(*(Quantize()(X, Y, rng=None).p for _ in range(2)))  # None: a fresh seed each time


def test_the_partition_is_kept_and_is_what_was_counted():
    masses = Quantize(bins=30)(X, Y, rng=0)
    partition = masses.partition
    assert partition.bins == 30
    assert len(partition.p_labels) == len(partition.q_labels) == 600
    assert masses.p == approx((partition.p_counts + 0.5) / (600 + 15))
    assert masses.swap().partition.p_counts.tolist() == partition.q_counts.tolist()
    for labels, rows in ((partition.p_labels, X), (partition.q_labels, Y)):
        reduced = Quantize(bins=30).fit(X, Y, rng=0).reduce(rows)
        gaps = ((reduced[:, None] - partition.centres) ** 2).sum(axis=2)
        assert (gaps[np.arange(600), labels] <= gaps.min(axis=1) + 1e-9).all()


def test_identical_samples_score_exactly_one():
    for estimator in (Quantize(), Quantize(smoothing=smoothing.empirical), Quantize(smoothing=extrapolated)):
        masses = estimator(X, X.copy(), rng=0)
        assert area(masses, scale=5) == 1.0
        assert integral(masses) == 0.0


def test_bins_are_a_tenth_of_the_smaller_sample():
    assert Quantize().bins_for(5000, 5000) == 500
    assert Quantize().bins_for(5000, 900) == 90
    assert Quantize().bins_for(15, 15) == 2


def test_automatic_bins_grow_with_the_cube_root_beyond_5000_samples_and_not_beyond_40000():
    sizes = [5000, 5001, 8000, 20_000, 40_000, 200_000, 10**9]
    bins = [Quantize().bins_for(size, 2 * size) for size in sizes]
    assert bins == [500, 500, 585, 794, 1000, 1000, 1000]
    assert Quantize(bins=20_000).bins_for(200_000, 200_000) == 20_000


def test_beyond_5000_samples_automatic_bins_cluster_a_part_of_the_rows():
    assert Quantize().sample_for(5000, 10**9) == 1_000_000  # as published
    assert Quantize().sample_for(200_000, 200_000) == 40_000
    assert Quantize(sample=30_000).sample_for(200_000, 200_000) == 30_000
    assert Quantize(bins=1000).sample_for(200_000, 200_000) == 1_000_000


def test_restarts_never_raise_the_objective():
    def objective(restarts):
        partition = Quantize(bins=30, reduce=None, restarts=restarts)(X, Y, rng=0).partition
        labels = np.concatenate([partition.p_labels, partition.q_labels])
        return ((np.concatenate([X, Y]) - partition.centres[labels]) ** 2).sum()

    assert objective(8) <= objective(1)


def test_the_estimate_approaches_the_truth_as_the_sample_grows():
    # Two unit Gaussians a distance apart: the ratio depends on one coordinate, so the frontier is one-dimensional.
    gap = 1.0
    t = np.linspace(-12, 13, 20_001)
    p, q = np.exp(-(t**2) / 2), np.exp(-((t - gap) ** 2) / 2)
    truth = Masses.from_histograms(p / p.sum(), q / q.sum())

    def error(n):
        estimates = []
        for seed in range(6):
            rng = np.random.default_rng([n, seed])
            x, y = rng.normal(size=(n, 1)), rng.normal(gap, 1.0, size=(n, 1))
            masses = Quantize(bins=max(4, round(2 * n ** (1 / 3))), reduce=None)(x, y, rng=seed)
            estimates.append([area(masses, scale=5), integral(masses)])
        return np.abs(np.array(estimates) - [area(truth, scale=5), integral(truth)]).mean(axis=0)

    small, large = error(150), error(6000)
    assert (large < 0.5 * small).all()
    assert large[0] < 0.02


def test_few_distinct_points_use_fewer_bins_with_a_warning():
    x, y = np.repeat([[0.0], [1.0]], 50, axis=0), np.repeat([[1.0], [2.0]], 50, axis=0)
    with pytest.warns(
        EstimateWarning, match=r"there are only 3 distinct points for 10 bins, so that 3 bins are used\."
    ):
        masses = Quantize(bins=10, smoothing=smoothing.empirical, reduce=None)(x, y, rng=0)
    assert sorted(zip(masses.p, masses.q, strict=True)) == [(0.0, 0.5), (0.5, 0.0), (0.5, 0.5)]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
@pytest.mark.parametrize("layout", ["C", "F", "memmap"])
def test_types_and_layouts_give_the_same_masses(dtype, layout, tmp_path):
    x, y = (np.round(4 * rows).astype(dtype) for rows in (X, Y))
    expected = Quantize(bins=20)(x.astype(np.float64), y.astype(np.float64), rng=0)
    if layout == "F":
        x, y = np.asfortranarray(x), np.asfortranarray(y)
    elif layout == "memmap":
        np.save(tmp_path / "x.npy", x)
        x = np.load(tmp_path / "x.npy", mmap_mode="r")
    # Another precision is another canonical order, hence other seeds: equal up to the noise of clustering.
    assert area(Quantize(bins=20)(x, y, rng=0), scale=5) == approx(area(expected, scale=5), abs=0.05)


@pytest.mark.parametrize("factor", [1e30, 1e-30])
@pytest.mark.parametrize("reduce", [None, Reduce(), Reduce(normalise=False)])
def test_huge_and_tiny_values_score_the_same(factor, reduce):
    def mean(x, y):
        return np.mean([area(Quantize(bins=20, reduce=reduce)(x, y, rng=rng), scale=5) for rng in range(6)])

    for dtype in (np.float32, np.float64):
        assert mean((X * factor).astype(dtype), (Y * factor).astype(dtype)) == approx(mean(X, Y), abs=0.05)


def test_one_dimensional_features_are_samples_of_one_number():
    assert Quantize(bins=8)(X[:, 0], Y[:, 0], rng=0).p.shape == (8,)


def test_features_without_variance_are_equal():
    x = np.full((50, 3), 2.5)
    with pytest.warns(EstimateWarning, match="only 1 distinct points"):
        assert area(Quantize()(x, x, rng=0), scale=5) == 1.0


@pytest.mark.parametrize(("n", "m", "size"), [(100, 100, 50), (100, 300, 25), (300, 100, 225), (4, 1000, 2)])
def test_the_reference_is_split_like_the_samples(n, m, size):
    assert split_size(n, m) == size


def test_the_reference_against_itself_keeps_the_bins_for_each_sample():
    estimator = Quantize(bins=60)
    order = np.random.default_rng(0).permutation(600)
    splits, rngs = [(order[:300], order[300:]), (order[::2], order[1::2])], np.random.default_rng(0).spawn(2)
    for masses in estimator.against_itself(X, splits, 600, rngs):
        assert masses.partition.bins == 30
        assert masses.partition.p_counts.sum() == masses.partition.q_counts.sum() == 300
    frozen = Quantize(codebook=estimator.fit(X, Y, rng=0))
    for masses in frozen.against_itself(X, splits, 600, rngs):
        assert masses.p.shape == (60,)
        assert 0.8 < area(masses, scale=5) <= 1


def test_each_row_of_the_reference_is_counted_on_the_side_of_its_split():
    # Two far clouds, so that every bin holds rows of one of them: the first ten rows are on one side, all from one cloud.
    x = np.concatenate([np.zeros((20, 1)), np.ones((20, 1))]) + np.random.default_rng(1).normal(
        scale=1e-3, size=(40, 1)
    )
    split = np.arange(10), np.arange(10, 40)
    (masses,) = Quantize(bins=4, reduce=None).against_itself(x, [split], 40, np.random.default_rng(0).spawn(1))
    assert masses.partition.bins == 2
    assert sorted(masses.partition.p_counts) == [0, 10]
    assert sorted(masses.partition.q_counts) == [10, 20]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Quantize(bins=0), r"`bins` must be an integer of at least 1; got 0"),
        (lambda: Quantize(bins="many"), r"`bins` must be a number or 'auto'; got 'many'"),
        (lambda: Quantize(bins=2000)(X, Y), r"`bins` must be at most n \+ m = 1200 points; got 2000. Leave out `bins`"),
        (lambda: Quantize(restarts=0), r"`restarts` must be an integer of at least 1; got 0"),
        (lambda: Quantize(max_iter=0), r"`max_iter` must be an integer of at least 1; got 0"),
        (lambda: Quantize(smoothing="kt"), r"`smoothing` must be a function, as in mallow.theory.smoothing; got 'kt'"),
        (lambda: Quantize(codebook="mine"), r"`codebook` must be None, 'shared' or a Codebook; got 'mine'"),
        (lambda: split_size(3, 3), r"`reference` must hold at least 4 samples to be measured against itself; got 3"),
    ],
)
def test_bad_options_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_reprs_are_signatures():
    assert repr(Quantize()) == (
        "Quantize(bins=auto, smoothing=krichevsky_trofimov, reduce=Reduce(variance=0.9, normalise=True))"
    )
    other = Quantize(
        bins=7, smoothing=extrapolated, reduce=Reduce(dimension=5, normalise=False), restarts=3, max_iter=9
    )
    assert repr(other) == (
        "Quantize(bins=7, smoothing=extrapolated, reduce=Reduce(dimension=5, normalise=False), restarts=3, max_iter=9)"
    )


def test_fit_checks_its_samples_and_warns():
    assert isinstance(Quantize().fit(X), Codebook)
    with pytest.raises(InputError, match=r"`x` must hold at least 2 samples; got 1"):
        Quantize().fit(X[:1])
    with pytest.raises(InputError, match=r"`others` must be finite; got 1 NaN or infinite entries in 1 of 600 rows"):
        Quantize().fit(X, np.where(np.arange(3600).reshape(600, 6) == 7, np.nan, Y))
    with pytest.raises(InputError, match=r"`x` and `others` must have features of the same width; got 6 and 4"):
        Quantize().fit(X, Y, Y[:, :4])
    with pytest.warns(EstimateWarning, match=r"only 5 distinct points for 8 bins") as caught:
        assert len(Quantize(bins=8).fit(X[:5]).centres) == 5
    assert caught[0].filename == __file__


@pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
def test_rows_in_chunks_are_clustered_with_the_same_options():
    x, y = (np.random.default_rng(seed).normal(size=(150, 4)) for seed in (0, 1))
    scores = []
    for options in ({"max_iter": 1}, {"restarts": 2}):
        measure = Measure(Quantize(bins=20, **options))
        whole, cut = (score(x, y, measure=measure, repeats=1, engine=engine).mauve for engine in (None, Threads(1)))
        assert cut == whole
        scores.append(cut)
    assert scores[0] != scores[1]
