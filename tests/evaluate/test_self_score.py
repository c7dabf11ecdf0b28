"""What the reference scores against itself: one number per reference and size."""

from dataclasses import replace

import numpy as np
import pytest
from pytest import approx

from mallow import MAUVE_STAR, Gaussian, InputError, Measure, Neighbors, Quantize, Samples
from mallow.evaluate import self_score

X = np.random.default_rng(0).normal(size=(300, 6))


def score_of(x, m=300, measure=MAUVE_STAR, *, repeats=3, seed=0, **options):
    return self_score(measure, Samples(features=x, **options), m, repeats=repeats, seed=seed)


def test_it_is_about_what_a_perfect_model_gets():
    other = np.random.default_rng(1).normal(size=(300, 6))
    estimator = MAUVE_STAR.estimator
    prepared = estimator.prepare(X, other)
    perfect = np.mean([MAUVE_STAR.summarise(estimator.masses(prepared, seed))["mauve"] for seed in range(5)])
    found = score_of(X, repeats=5)
    assert found["mauve"] == approx(perfect, abs=0.02)
    assert 0 < found["midpoint"] < found["frontier_integral"] < 0.1


@pytest.mark.parametrize("measure", [MAUVE_STAR, Measure(Neighbors()), Measure(Gaussian())])
def test_the_order_of_rows_changes_nothing(measure):
    order = np.random.default_rng(2).permutation(300)
    assert score_of(X[order], measure=measure) == score_of(X, measure=measure)


def test_the_order_of_rows_with_ids_changes_nothing():
    ids = [f"prompt {row % 60}" for row in range(300)]
    order = np.random.default_rng(3).permutation(300)
    assert score_of(X[order], ids=[ids[row] for row in order]) == score_of(X, ids=ids)


def test_another_seed_another_split():
    assert score_of(X, seed=1) != score_of(X, seed=2)
    assert score_of(X, seed=1)["mauve"] == approx(score_of(X, seed=2)["mauve"], abs=0.03)


def test_samples_of_one_id_stay_on_one_side():
    # Every id is a point far from all others, five times: split by rows both sides would have them all, and score 1.
    places = 100 * np.random.default_rng(4).normal(size=(60, 6))
    x = np.repeat(places, 5, axis=0) + 0.01 * X
    ids = [str(row // 5) for row in range(300)]
    measure = Measure(Quantize(bins=100, reduce=None))
    assert score_of(x, measure=measure)["mauve"] > 0.7
    assert score_of(x, measure=measure, ids=ids)["mauve"] < 0.1


def test_few_large_units_are_split_by_rows():
    assert score_of(X, ids=["a"] * 300)["mauve"] > 0.9
    assert score_of(X, ids=["a"] * 299 + ["b"])["mauve"] > 0.9


def test_it_depends_on_the_size_of_the_model_through_bins_per_sample():
    # 300 and 900 samples: 30 bins for 1200 rows, so 8 for the 300 of the reference, 75 of them against 225.
    seen = []

    class Spy(Quantize):
        def smooth(self, p_counts, q_counts):
            seen.append((len(p_counts), int(p_counts.sum()), int(q_counts.sum())))
            return super().smooth(p_counts, q_counts)

    score_of(X, 900, Measure(Spy()), repeats=2)
    assert seen == [(8, 75, 225)] * 2


def test_a_fixed_codebook_keeps_its_bins():
    frozen = replace(MAUVE_STAR, estimator=Quantize(codebook=Quantize(bins=30).fit(X, X, rng=0)))
    assert 0.8 < score_of(X, measure=frozen)["mauve"] < 1
    order = np.random.default_rng(5).permutation(300)
    assert score_of(X[order], measure=frozen) == score_of(X, measure=frozen)


def test_too_few_samples_cannot_be_split():
    with pytest.raises(
        InputError, match=r"^`reference` must hold at least 4 samples to be measured against itself; got 3\.$"
    ):
        score_of(X[:3], 3)


def test_copies_of_rows_change_nothing_with_the_order():
    x = np.repeat(X[:100], [3] * 50 + [1] * 50, axis=0)
    order = np.random.default_rng(6).permutation(len(x))
    assert score_of(x[order], len(x)) == score_of(x, len(x))


# --- the split
