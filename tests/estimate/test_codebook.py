"""Codebooks: the labels of k-means again, and counts that do not depend on the batch."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimate_truths import eight_clusters
from mallow import InputError, area
from mallow.estimate import Quantize, Reduce

X, Y = eight_clusters(600), eight_clusters(600, shift=0.3, seed=1)
CODEBOOK = Quantize(bins=25).fit(X, rng=0)


def test_a_codebook_fitted_once_gives_the_same_labels_and_takes_new_samples():
    estimator = Quantize(bins=25)
    codebook = estimator.fit(X, Y, rng=0)
    frozen = Quantize(codebook=codebook)
    assert np.array_equal(frozen(X, Y).partition.p_labels, estimator(X, Y, rng=0).partition.p_labels)
    assert np.array_equal(frozen(X, Y, rng=1).p, frozen(X, Y, rng=2).p)
    fresh = frozen(eight_clusters(300, seed=8), eight_clusters(200, seed=9))
    assert fresh.partition.p_counts.sum() == 300
    assert area(frozen(X, X), scale=5) == 1.0
    assert repr(codebook) == "Codebook(bins=25)"
    plain = Quantize(bins=25, reduce=None).fit(X, rng=0)
    assert plain.projection is None
    assert len(plain.labels(Y)) == 600
    with pytest.raises(InputError, match=r"`features` must be 6 wide, like those the codebook was fitted on; got 5"):
        codebook.labels(X[:, :5])


@pytest.mark.parametrize("reduce", [None, Reduce(), Reduce(dimension=3, normalise=False)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_counts_are_those_of_the_labels(reduce, dtype):
    codebook = Quantize(bins=25, reduce=reduce).fit(X.astype(dtype), rng=0)
    counts = codebook.count(Y.astype(dtype))
    assert counts.sum() == 600
    assert np.array_equal(counts, np.bincount(codebook.labels(Y.astype(dtype)), minlength=25))


def halfway_points(codebook):
    """Points half-way between two neighbouring centres, up to rounding: the last bit decides on their bin."""
    centres = codebook.centres
    points = []
    for a in range(len(centres)):
        for b in range(a):
            middle = (centres[a] + centres[b]) / 2
            if set(((centres - middle) ** 2).sum(axis=1).argsort()[:2]) == {a, b}:  # no third centre is nearer
                points.append(middle)
    return np.array(points)


@settings(max_examples=25)
@given(cuts=st.lists(st.integers(1, 300), max_size=8))
def test_the_counts_of_a_sample_are_the_sum_of_the_counts_of_its_parts(cuts):
    codebook = Quantize(bins=30, reduce=None).fit(np.random.default_rng(0).normal(size=(400, 40)), rng=0)
    points = halfway_points(codebook)
    assert len(points) > 20
    points = np.concatenate([points, Y[:100, :1] + np.zeros((100, 40))])
    parts = [part for part in np.split(points, sorted({cut for cut in cuts if cut < len(points)})) if len(part)]
    assert np.array_equal(codebook.count(points), sum(codebook.count(part) for part in parts))


@settings(max_examples=8)
@given(places=st.permutations(range(6)), cuts=st.lists(st.integers(1, 5), max_size=3))
def test_counts_from_anywhere_added_in_any_order_are_the_masses_of_all_samples(places, cuts):
    codebook = pickle.loads(pickle.dumps(CODEBOOK))  # as another machine has it
    parts = [np.array_split(Y, 6)[place] for place in places]
    workers = [sum(map(codebook.count, part)) for part in split_at(parts, cuts)]
    frozen = Quantize(codebook=CODEBOOK)
    merged = frozen.smooth(CODEBOOK.count(X), sum(reversed(workers)))
    whole = frozen(X, Y)
    assert (merged.p.tobytes(), merged.q.tobytes()) == (whole.p.tobytes(), whole.q.tobytes())


def split_at(parts, cuts):
    ends = [0, *sorted(set(cuts)), len(parts)]
    return [parts[low:high] for low, high in itertools.pairwise(ends)]


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_extreme_values_are_counted_like_ordinary_ones(unit):
    ordinary = Quantize(bins=10, reduce=None).fit(X, rng=0)
    extreme = Quantize(bins=10, reduce=None).fit(X * unit, rng=0)
    assert np.count_nonzero(extreme.count(Y * unit)) > 5
    assert ordinary.count(Y).sum() == extreme.count(Y * unit).sum()


def test_one_row_has_a_bin_and_no_row_is_refused():
    codebook = Quantize(bins=10).fit(X)
    assert codebook.count(X[:1]).sum() == 1
    assert codebook.labels(X[:1]).shape == (1,)
    with pytest.raises(InputError, match=r"`features` must hold at least 1 sample; got 0"):
        codebook.count(X[:0])
    with pytest.raises(InputError, match=r"`features` must be finite"):
        codebook.labels(np.full((3, 6), np.nan))


def test_a_pair_of_another_width_than_the_codebook_is_refused():
    frozen = Quantize(codebook=Quantize(bins=10).fit(X))
    with pytest.raises(InputError, match=r"`features` must be 6 wide, like those the codebook was fitted on; got 5"):
        frozen(X[:, :5], Y[:, :5])
