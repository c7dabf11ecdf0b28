"""The classifier: near known truths, held out throughout, exactly symmetric, robust to many features."""

import re
from dataclasses import replace

import numpy as np
import pytest
from pytest import approx

from estimate_truths import SAME, SHIFTED, TILTED, Pair, errors, normal
from mallow import CHI2, HELLINGER2, JS, KL, LE_CAM, TV, EstimateWarning, InputError, Masses, area, integral
from mallow.estimate import Classifier, Gaussian, Reduce

BOTH = [Classifier(), Classifier(folds=4)]
NAMES = ["split", "folds"]
PRINTED = Classifier(pooled=False)  # the plug-in of the paper's formula


def assert_equal(first, second):
    assert first.split == second.split
    assert np.array_equal(first.p, second.p)
    assert np.array_equal(first.q, second.q)


# --- near the truth


@pytest.mark.parametrize("estimator", BOTH, ids=NAMES)
@pytest.mark.parametrize("pair", [SHIFTED, TILTED], ids=["shifted", "tilted"])  # their log-ratios are linear
def test_it_comes_near_the_truth(estimator, pair):
    few, many = errors(estimator, pair, 150, seeds=6), errors(estimator, pair, 4000, seeds=3)
    assert (many < few * 0.7).all()
    assert (many < 0.02).all()


@pytest.mark.parametrize("estimator", BOTH, ids=NAMES)
def test_uneven_samples_are_no_gap(estimator):
    assert errors(estimator, SHIFTED, 3000, m=800)[1] < 0.04
    assert errors(estimator, SAME, 2000, m=200)[1] < 0.01


def test_many_features_do_not_mislead_it():
    pair = Pair(normal(0.0), normal(1.0), extra=200)
    assert errors(Classifier(), pair, 1000)[1] < 0.1
    paper = Classifier(penalties=(1.0, 0.1, 0.01, 0.001), squares=0, pooled=False)  # the paper's range overfits here
    with pytest.warns(
        EstimateWarning, match=r"the frontier integral 1\.\d+ where it is at most 1: .* Use pooled=True\."
    ):
        assert errors(paper, pair, 1000, seeds=1)[1] > 0.3
    assert errors(Classifier(), Pair(normal(0.0), normal(0.0), extra=300), 400)[1] < 0.01


def test_squares_see_a_difference_of_width_which_the_published_classifier_does_not():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(600, 3)), 2.0 * rng.normal(size=(600, 3))
    assert integral(Classifier(squares=0)(x, y)) < 0.01
    assert integral(Classifier()(x, y)) == approx(integral(Gaussian(reduce=None)(x, y)), abs=0.05)


def test_cross_fitting_has_less_spread():
    def spread(estimator):
        rng = np.random.default_rng(0)
        return np.std([integral(estimator(*SHIFTED.draw(300, 300, rng), rng=seed)) for seed in range(12)])

    assert spread(Classifier(folds=4, squares=0)) < spread(Classifier(squares=0))


def test_no_point_is_evaluated_by_a_classifier_that_saw_it():
    # Features so many that every training point is classified rightly; held out, it is a coin toss.
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 100, 400))
    weak = (1e-3,)
    for estimator in (Classifier(penalties=weak), Classifier(folds=4, penalties=weak)):
        masses = estimator(x, y)
        right = (masses.q[: len(masses.q) // 2] < masses.p[: len(masses.q) // 2]).mean()
        assert right == approx(0.5, abs=0.2)


# --- exactly symmetric and order-free


@pytest.mark.parametrize("estimator", [*BOTH, Classifier(reduce=Reduce(dimension=2))], ids=[*NAMES, "reduced"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_swapping_and_shuffling_change_nothing(estimator, seed):
    rng = np.random.default_rng(seed)
    x, y = Pair(normal(0.0), normal(0.5), extra=4).draw(120, 70, rng)
    y[:5] = x[:5]
    masses = estimator(x, y, rng=seed)
    swapped = estimator(y, x, rng=seed).swap()
    assert np.array_equal(np.sort(swapped.p), np.sort(masses.p))
    assert np.array_equal(np.sort(swapped.q), np.sort(masses.q))
    printed = replace(estimator, pooled=False)
    assert_equal(printed(y, x, rng=seed), printed(x, y, rng=seed).swap())
    order = rng.permutation(120)
    shuffled = estimator(x[order], y[::-1], rng=seed)
    assert np.array_equal(np.sort(shuffled.p), np.sort(masses.p))
    assert np.array_equal(np.sort(shuffled.q), np.sort(masses.q))


def test_cross_fitted_ratios_stand_in_the_order_of_the_rows():
    x, y = SHIFTED.draw(300, 200, np.random.default_rng(2))
    for a, b in ((x, y), (y, x)):
        masses = Classifier(folds=3)(a, b)
        assert len(masses.p) == 500
        ratio = np.log(masses.p / masses.q)
        points = np.concatenate([a, b])[:, 0]
        assert abs(np.corrcoef(ratio, points)[0, 1]) > 0.98


def test_a_seed_is_a_split():
    x, y = SHIFTED.draw(100, 100, np.random.default_rng(3))
    estimator = Classifier()
    prepared = estimator.prepare(x, y)
    assert_equal(estimator.masses(prepared, 5), estimator(x, y, rng=5))
    assert_equal(estimator.masses(prepared, 5), estimator.masses(prepared, np.random.default_rng(5)))
    assert not np.array_equal(estimator.masses(prepared, 5).p, estimator.masses(prepared, 6).p)


@pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")  # one point is separated from one other
def test_sizes_of_the_parts():
    x, y = SHIFTED.draw(100, 60, np.random.default_rng(4))
    assert Classifier(train_fraction=0.8, pooled=False)(x, y).split == 12
    assert Classifier(train_fraction=0.8)(x, y).split is None
    assert len(Classifier(train_fraction=0.8)(x, y).p) == 12 + 20
    assert len(Classifier(folds=7)(x, y).p) == 160
    assert len(Classifier(train_fraction=0.999)(x, y).p) == 2  # one of each side is left to evaluate
    assert len(Classifier(train_fraction=0.001)(x, y).p) == 99 + 59  # and one to learn from


# --- edges


@pytest.mark.parametrize("estimator", BOTH, ids=NAMES)
def test_a_sample_cannot_be_told_from_itself(estimator):
    x = np.random.default_rng(6).normal(size=(200, 20))
    assert area(estimator(x, x), scale=2.5) == approx(1.0, abs=1e-12)
    assert area(estimator(x, x[::-1]), scale=2.5) == approx(1.0, abs=1e-12)
    assert area(estimator(np.ones((10, 3)), np.ones((12, 3))), scale=2.5) == approx(1.0, abs=1e-12)


@pytest.mark.parametrize("unit", [1e-30, 1e30, 1e200])
def test_units_do_not_matter(unit):
    x, y = SHIFTED.draw(200, 200, np.random.default_rng(7))
    x, y = (np.concatenate([side, np.full((200, 1), 3.0)], axis=1) for side in (x, y))  # and a constant feature
    assert integral(Classifier()(x * unit, y * unit)) == approx(integral(SHIFTED.truth), abs=0.06)


def test_samples_that_separate_are_reported():
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(200, 3)), rng.normal(8.0, 1.0, size=(200, 3))
    for estimator in BOTH:
        with pytest.warns(EstimateWarning, match=r"tells 100.0% of held-out points apart.*Compare with Quantize"):
            masses = estimator(x, y)
        assert not np.isnan(masses.p).any()
        assert integral(masses) > 0.6


def test_two_samples_a_side_are_enough_to_answer():
    x, y = np.array([[0.0], [1.0]]), np.array([[0.5], [0.8]])
    masses = Classifier()(x, y)
    assert masses.p.shape == (2,)


def test_its_repr_is_its_signature():
    assert repr(Classifier()) == "Classifier(train_fraction=0.5, reduce=None, squares=50)"
    longer = Classifier(folds=5, penalties=(1.0,))
    assert repr(longer) == "Classifier(folds=5, penalties=(1.0,), reduce=None, squares=50)"
    assert Classifier.scale == 2.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Classifier(train_fraction=1.0), "`train_fraction` must lie strictly between 0 and 1; got 1.0."),
        (lambda: Classifier(folds=1), "`folds` must be an integer of at least 2; got 1."),
        (lambda: Classifier(squares=-1), "`squares` must be an integer of at least 0; got -1."),
        (lambda: Classifier(penalties=()), "`penalties` must be a tuple of at least one number above 0; got ()."),
        (lambda: Classifier(penalties=[1.0]), "`penalties` must be a tuple"),
        (
            lambda: Classifier(penalties=(1.0, 0.0)),
            "`penalties` must be a finite number above 0; got 0.0. Without a penalty",
        ),
        (
            lambda: Classifier(folds=5)(np.zeros((4, 1)), np.ones((9, 1))),
            "at most the size of the smaller sample, 4; got 5.",
        ),
        (lambda: Classifier()(np.zeros((4, 1)), np.ones((9, 2))), "features of the same width; got 1 and 2."),
        (lambda: Classifier()(np.zeros((4, 1)), np.full((9, 1), np.inf)), "`model` must be finite"),
        (lambda: Classifier()(np.zeros((1, 1)), np.ones((9, 1))), "`reference` must hold at least 2 samples; got 1."),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(InputError, match=re.escape(message)):
        make()


def test_pooled_masses_are_a_histogram_of_all_held_out_points():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 2)), rng.normal(0.5, 1.0, size=(300, 2))
    masses = Classifier()(x, y, rng=0)
    assert masses.plain
    assert masses.p.sum() == pytest.approx(1)
    assert "pooled=False" in repr(PRINTED)


@pytest.mark.parametrize("shift", [0.0, 0.5, 3.0, 30.0])
@pytest.mark.parametrize("width", [2, 400])
@pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
def test_every_summary_stays_in_its_range(shift, width):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(150, width)), rng.normal(shift, 1.0, size=(150, width))
    for penalties in ((1e-3,), Classifier().penalties):
        masses = Classifier(penalties=penalties)(x, y)
        for divergence in (KL, CHI2, TV, HELLINGER2, JS, LE_CAM):
            most = integral(Masses.from_histograms([1.0, 0.0], [0.0, 1.0]), divergence)
            assert 0.0 <= integral(masses, divergence) <= most * (1 + 1e-9)
            assert 0.0 <= area(masses, scale=2.5, divergence=divergence) <= 1.0


def test_the_printed_formula_leaves_its_range():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(150, 400)), rng.normal(0.2, 1.0, size=(150, 400))
    with pytest.warns(
        EstimateWarning, match=r"where it should be 1, and the frontier integral .* where it is at most 1"
    ):
        assert integral(Classifier(penalties=(1e-3,), squares=0, pooled=False)(x, y)) > 2.0
