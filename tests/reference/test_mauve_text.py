"""Published numbers: outputs of mauve-text 0.4.0 for known histograms, and high-precision values.

Source: ../shared/conformance (see its README: version 0.4.0, with only the clustering replaced by the histograms).
"""

import numpy as np
import pytest
from pytest import approx

from mallow import Masses, area, frontier, integral, smoothing

# Identical P and Q: mauve-text gives 0.75 (an unstable sort of ties), the right value is 1.
WRONG_THERE = {"h01_identical_uniform_k2", "h20_single_bin_k1"}


@pytest.fixture(scope="module")
def cases(shared):
    files = sorted((shared / "conformance").glob("h*.npz"))
    assert len(files) >= 18
    return {path.stem: dict(np.load(path)) for path in files}


def histograms(case):
    yield case["p_hist"], case["q_hist"], ""
    if "p_counts" in case:
        smoothed = [smoothing.krichevsky_trofimov(case[side]) for side in ("p_counts", "q_counts")]
        assert smoothed[0] == approx(case["p_hist_smoothed"], rel=1e-14)
        yield *smoothed, "_star"


def test_the_exact_area_and_integral_agree_with_high_precision(cases):
    for name, case in cases.items():
        for p, q, star in histograms(case):
            masses = Masses.from_histograms(p, q)
            curve = frontier(masses)
            areas = [area(curve, scale=scale) for scale in case["grid_c"]]
            assert areas == approx(case[f"ref_exact_mauve{star}_by_c"], abs=1e-10), name
            exact = float(case[f"ref_exact_frontier_integral{star}"])
            assert integral(masses) == approx(exact, rel=1e-10), name


def test_the_grid_of_mauve_text_reproduces_its_numbers(cases):
    for name, case in cases.items():
        for p, q, star in histograms(case):
            value = area(Masses.from_histograms(p, q), scale=5, grid="mauve-text")
            expected = 1.0 if name in WRONG_THERE else float(case[f"mauve{star}"])
            assert value == approx(expected, abs=1e-12), name


def test_other_sizes_of_that_grid_reproduce_its_numbers(cases):
    for name, case in cases.items():
        if name in WRONG_THERE:
            continue
        masses = Masses.from_histograms(case["p_hist"], case["q_hist"])
        for row, size in zip(case["mauve_by_N_c"], case["grid_N"], strict=True):
            if size > 1000:
                continue
            curve = frontier(masses, grid=np.linspace(1e-6, 1 - 1e-6, size))
            areas = [area(curve, scale=scale) for scale in case["grid_c"]]
            assert areas == approx(row, abs=1e-12), (name, size)


def test_the_curve_is_theirs_with_coordinates_exchanged(cases):
    for name, case in cases.items():
        curve = frontier(Masses.from_histograms(case["p_hist"], case["q_hist"]), grid="mauve-text")
        theirs = case["divergence_curve"][1:-1]
        assert np.exp(-5 * curve.q_to_mix) == approx(theirs[:, 0], abs=1e-12), name
        assert np.exp(-5 * curve.p_to_mix) == approx(theirs[:, 1], abs=1e-12), name
