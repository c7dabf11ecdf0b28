"""Quantisers beside k-means: bins within bounds, whatever the order; oracles lose least; products and residuals by hand."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from estimate_truths import SHIFTED_WIDER
from mallow import InputError, Masses, Measure, integral, score
from mallow.estimate import Codebook, Lattice, LevelSets, Product, Quantize, RandomCentres, Residual
from mallow.theory import KL_INTEGRAL
from mallow.theory.smoothing import empirical

METHODS = [RandomCentres(), Product(), Product(groups=3), Residual(), Residual(levels=2), Lattice(steps=20)]
ORACLE = LevelSets(lambda points: points[:, 0])
every = pytest.mark.parametrize("method", METHODS, ids=repr)
X, Y = SHIFTED_WIDER.draw(150, 120, np.random.default_rng(0))


@every
def test_bins_are_within_bounds_and_do_not_depend_on_order_or_sides(method):
    estimator, rng = Quantize(bins=30, method=method), np.random.default_rng(1)
    masses = estimator(X, Y, rng=5)
    assert 2 <= len(masses.p) <= 32
    assert masses.partition.p_counts.sum() == 150
    assert ((masses.partition.p_counts + masses.partition.q_counts) > 0).all()
    assert masses.partition.centres.shape[0] == len(masses.p)
    assert integral(estimator(Y, X, rng=5)) == approx(integral(masses), abs=1e-12)
    assert integral(estimator(rng.permutation(X), rng.permutation(Y), rng=5)) == approx(integral(masses), abs=1e-12)
    assert integral(estimator(X, X.copy(), rng=5)) == 0.0
    assert 0 < integral(masses) < integral(estimator(X, Y + 30, rng=5)) <= 1
    assert repr(method) in repr(estimator)


@pytest.mark.parametrize("method", [*METHODS, ORACLE], ids=[*map(repr, METHODS), "LevelSets"])
@given(bins=st.integers(2, 30))
@settings(max_examples=12)
def test_never_more_bins_than_asked_for(method, bins):
    labels = method.fit(X, np.ones(len(X), np.int64), bins, np.random.default_rng(0))
    assert len(np.unique(labels)) <= bins


@every
@pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
def test_a_score_holds_out_bins_of_any_method(method):
    found = score(X, Y, measure=Measure(Quantize(bins=12, method=method)), repeats=1)
    assert 0 < found.mauve < 1
    assert found.interval["mauve"][0] <= found.mauve <= found.interval["mauve"][1]


def test_a_few_points_repeated_and_constant_columns():
    few = np.repeat(np.array([[0.0, 1.0], [2.0, 1.0], [5.0, 1.0]]), 10, axis=0)
    for method in METHODS:
        with pytest.warns(match="only 3 distinct points for 9 bins"):
            masses = Quantize(bins=9, reduce=None, method=method)(few, few[:20])
        assert len(masses.p) <= 3


def test_level_sets_of_the_true_ratio_lose_least():  # paper: thm:quant_error_fdiv
    x, y = SHIFTED_WIDER.draw(4000, 4000, np.random.default_rng(2))

    def log_ratio(points):
        return np.log(SHIFTED_WIDER.p.density(points) / SHIFTED_WIDER.q.density(points))

    plain = Quantize(bins=12, reduce=None, smoothing=empirical)
    gaps = {
        name: float(integral(replace(plain, method=method)(x, y)))
        for name, method in (("oracle", LevelSets(log_ratio)), ("k-means", None), ("random", RandomCentres()))
    }
    truth = float(integral(SHIFTED_WIDER.truth))
    assert max(gaps["random"], gaps["k-means"]) < gaps["oracle"]
    assert gaps["oracle"] == approx(truth, abs=0.02)


def coarse(p, q, labels):
    """The frontier integral of the bins."""
    return float(integral(Masses.from_histograms(np.bincount(labels, p), np.bincount(labels, q))))


@given(data=st.data(), bins=st.integers(2, 4))
@settings(max_examples=40)
def test_no_partition_of_atoms_loses_less_than_the_level_sets(data, bins):  # paper: thm:quant_error_fdiv
    """Every partition of a few atoms, in any order of the ratio, against the cuts."""
    counts = st.lists(st.integers(0, 9), min_size=5, max_size=5)
    p, q = (np.array(data.draw(counts)) / 1.0 for _ in range(2))
    keep = p + q > 0
    p, q = p[keep], q[keep]
    if not (p.sum() and q.sum()):
        return
    p, q = p / p.sum(), q / q.sum()
    with np.errstate(divide="ignore"):
        ratio = np.log(p) - np.log(q)
    method = LevelSets(lambda points: ratio[points[:, 0].astype(int)])
    times = np.rint((p + q) * 2520 * 9).astype(np.int64)  # in proportion to the masses
    labels = method.fit(np.arange(len(p))[:, None] / 1.0, times, bins, np.random.default_rng(0))
    best = max(coarse(p, q, np.array(each)) for each in itertools.product(range(bins), repeat=len(p)))
    assert coarse(p, q, labels) == approx(best, abs=2e-3)


def test_level_sets_cut_where_the_difference_is():
    """A rare region that the model misses: bins of equal mass do not see it."""
    rng = np.random.default_rng(6)
    x, y = rng.random((4000, 1)), rng.uniform(0.03, 1.0, (4000, 1))
    ratio = LevelSets(lambda points: np.where(points[:, 0] < 0.03, 9.0, np.log(0.97) + 1e-9 * points[:, 0]))
    truth = 0.03 * KL_INTEGRAL.conjugate_at_zero + float(KL_INTEGRAL.terms(np.array(0.97), np.array(1.0)))
    found = integral(Quantize(bins=2, reduce=None, smoothing=empirical, method=ratio)(x, y))
    assert found == approx(truth, abs=0.004)


def test_level_sets_approach_the_frontier_integral_with_more_bins():
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(5000, 1)), rng.normal(1.0, 1.0, size=(5000, 1))
    method = LevelSets(lambda points: 0.5 - points[:, 0])
    plain = Quantize(bins=2, reduce=None, smoothing=empirical, method=method)
    found = [float(integral(replace(plain, bins=bins)(x, y))) for bins in (2, 4, 8)]
    share = np.sort(np.concatenate([x, y]), axis=0)[:, 0]
    every_cut = max(coarse(*counts_below(x, y, cut)) for cut in share[50:-50:5])
    assert found[0] == approx(every_cut, abs=2e-3)
    assert (np.diff(found) > 0).all()
    truth = 0.151418  # by quadrature of the densities
    off = truth - np.array(found)
    assert (off < (0.05, 0.015, 0.005)).all()
    assert (off > -0.005).all()


def counts_below(x, y, cut):
    """Masses of two bins, with their labels."""
    p, q = np.mean(x < cut), np.mean(y < cut)
    return np.array([p, 1 - p]), np.array([q, 1 - q]), np.arange(2)


def test_spreading_fills_more_bins_than_a_random_network():
    x = np.random.default_rng(4).normal(size=(600, 10)) * 0.9 ** np.arange(10)
    used = [len(Quantize(bins=96, method=Lattice(steps=steps))(x[:300], x[300:], rng=1).p) for steps in (0, 120)]
    assert used[1] > used[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Product(groups=0), r"`groups` must be an integer of at least 1; got 0\."),
        (lambda: Residual(levels=0), r"`levels` must be an integer of at least 1; got 0\."),
        (lambda: Lattice(dimension=9), r"`dimension` must be at most 8; got 9\. Usual is 4\."),
        (lambda: Lattice(spread=0.0), r"`spread` must be a finite number above 0; got 0\.0"),
        (lambda: Lattice(steps=-1), r"`steps` must be an integer of at least 0; got -1\."),
        (lambda: Lattice(hidden=0), r"`hidden` must be an integer of at least 1; got 0\."),
        (
            lambda: Quantize(method="lattice"),
            r"`method` must be None or a quantiser such as Product\(\); got 'lattice'\.",
        ),
        (
            lambda: Quantize(method=Product(), codebook=Codebook(np.zeros((2, 2)))),
            r"`codebook` needs the centres of k-means: leave out `method`, or pass no codebook\.",
        ),
        (
            lambda: Quantize(bins=4, method=Product()).fit(X),
            r"A codebook needs the centres of k-means; `method` is Product",
        ),
        (
            lambda: Quantize(bins=4, method=LevelSets(lambda points: points))(X, Y),
            r"`log_ratio` must return a number for each of 270 points; got shape \(270, 2\)\.",
        ),
    ],
)
def test_bad_options_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
