"""Kernel densities: near known truths, those of the definition, isolated points reported."""

import re

import numpy as np
import pytest
from pytest import approx
from scipy.spatial.distance import cdist, pdist

from estimate_truths import HUMPS_2D, SAME, SHIFTED, SHIFTED_WIDER, TILTED, errors, log_ratios
from mallow import EstimateWarning, InputError, area
from mallow.estimate import KernelDensity

PLAIN = KernelDensity(reduce=None)


@pytest.mark.parametrize("pair", [SHIFTED, SHIFTED_WIDER, TILTED, SAME], ids=["shifted", "wider", "tilted", "same"])
def test_kernels_come_near_the_truth(pair):
    few, many = errors(PLAIN, pair, 250, seeds=4), errors(PLAIN, pair, 3000, seeds=1)
    assert (many < few * 0.8).all()
    assert many[1] < 0.03


def test_kernels_are_those_of_the_definition():
    x, y = HUMPS_2D.draw(40, 30, np.random.default_rng(3))
    h = 0.8
    kernel = np.exp(-cdist(np.concatenate([x, y]), np.concatenate([x, y]), "sqeuclidean") / (2 * h * h))
    np.fill_diagonal(kernel, 0.0)
    of_p = np.arange(70) < 40
    expected = np.log(kernel[:, :40].sum(axis=1) / np.where(of_p, 39, 40))
    expected -= np.log(kernel[:, 40:].sum(axis=1) / np.where(of_p, 30, 29))
    assert log_ratios(KernelDensity(h, reduce=None, pooled=False)(x, y)) == approx(expected, abs=1e-9)
    big = KernelDensity(h * 1e200, reduce=None, pooled=False)(x * 1e200, y * 1e200)
    assert log_ratios(big) == approx(expected, abs=1e-9)


@pytest.mark.parametrize(("n", "m", "width"), [(40, 25, 2), (12, 30, 40), (4, 5, 60), (3, 2, 1)])
@pytest.mark.parametrize("unit", [1.0, 1e-9])
@pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")  # few points, some of them alone
def test_the_bandwidth_is_that_of_the_definition(n, m, width, unit):
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(n, width)) * 0.9 ** np.arange(width), rng.normal(0.4, 1.3, size=(m, width))
    squared = [pdist(side, "sqeuclidean") for side in (x, y)]
    mean, square = (np.mean([(each**power).mean() for each in squared]) for power in (1, 2))
    d = min(2 * mean**2 / (square - mean**2), min(n, m) - 1) if square > mean**2 else min(n, m) - 1
    h = 1.4 * np.sqrt(mean / (2 * d)) * min(n, m) ** (-1 / (d + 4))
    found = log_ratios(KernelDensity(reduce=None, pooled=False)(x * unit, y * unit))
    assert found == approx(log_ratios(KernelDensity(h, reduce=None, pooled=False)(x, y)), rel=1e-6, abs=1e-9)


def test_all_points_equally_far_have_a_bandwidth():
    distances = 1.0 - np.eye(12)
    assert area(KernelDensity().from_distances(distances, 6), scale=10) == approx(1.0)


def test_a_copy_in_the_other_sample_is_left_out_like_the_point_itself():
    x = np.random.default_rng(9).normal(size=(50, 2))
    y = np.concatenate([x[:25], np.random.default_rng(10).normal(size=(25, 2))])
    without = np.random.default_rng(9).normal(size=(50, 2))[1:]
    at_copy = log_ratios(KernelDensity(0.8, reduce=None, pooled=False)(x, y))[50]
    squared_x, squared_y = (((side - x[0]) ** 2).sum(axis=1) for side in (without, y[1:]))
    kernels = [np.exp(-squared / (2 * 0.8**2)).mean() for squared in (squared_x, squared_y)]
    assert at_copy == approx(np.log(kernels[0] / kernels[1]))


def test_a_narrow_kernel_knows_only_the_nearest():
    x, y = np.array([0.0, 1.0, 2.0]), np.array([0.1, 1.1, 2.1])
    with pytest.warns(EstimateWarning, match="mean likelihood ratio is inf"):
        masses = KernelDensity(1e-200, reduce=None, pooled=False)(x, y)
    assert not np.isnan(masses.p).any()
    assert not np.isnan(masses.q).any()


def test_isolated_points_are_reported():
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(200, 2)), np.concatenate([rng.normal(size=(199, 2)), [[5.0, 5.0]]])
    x[0] = [5.3, 5.0]
    with pytest.warns(
        EstimateWarning,
        match=r"mean likelihood ratio is .* where it should be 1.*dominate the estimate\. Use pooled=True, a wider `bandwidth` than 0\.3, ",
    ):
        KernelDensity(0.3, reduce=None, pooled=False)(x, y)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KernelDensity(0), "`bandwidth` must be a finite number above 0; got 0. Pass bandwidth=None"),
        (lambda: KernelDensity(-1.0), "`bandwidth` must be a finite number above 0; got -1.0."),
        (
            lambda: KernelDensity()(np.zeros((1, 2)), np.ones((10, 2))),
            "`reference` must hold at least 2 samples; got 1.",
        ),
        (lambda: KernelDensity(reduce=None)(np.zeros((9, 2)), np.full((9, 2), np.nan)), "`model` must be finite"),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(InputError, match=re.escape(message)):
        make()
