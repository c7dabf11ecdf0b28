"""Frontiers: grids that are refused, kinks, and caveats that are raised exactly once."""

import warnings

import numpy as np
import pytest
from pytest import approx

from mallow import CHI2, KL, Divergence, EstimateWarning, InputError, Masses, area, frontier, integral
from mallow.theory import midpoint

PAIR = Masses.from_histograms([0.2, 0.3, 0.5], [0.5, 0.25, 0.25])


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (1, r"`grid` must be an integer of at least 2; got 1"),
        (2.5, r"`grid` must be an integer of at least 2; got 2.5"),
        ("fine", r"`grid` must be None, an integer, 'mauve-text' or an array of λ; got 'fine'"),
        (
            [0.0, 0.5],
            r"`grid` must be one axis of rising λ, strictly between 0 and 1; got shape \(2,\), from 0 to 0\.5",
        ),
        ([0.5, 0.4], r"`grid` must be one axis of rising λ, strictly between 0 and 1"),
        ([[0.4, 0.5]], r"`grid` must be one axis of rising λ, strictly between 0 and 1; got shape \(1, 2\)"),
    ],
)
def test_a_bad_grid_is_refused(grid, message):
    with pytest.raises(InputError, match=message):
        frontier(PAIR, grid=grid)


def kinked(t):
    return np.maximum(np.abs(t - 1) - 0.3, 0)


def test_a_generator_with_kinks_is_integrated_by_refining():
    own = Divergence("kinked", kinked)
    curve = frontier(PAIR, own)
    assert len(curve.lam) > len(frontier(PAIR).lam)
    lam = np.unique(1 / (1 + np.exp(-np.linspace(-26, 26, 200_001))))
    assert area(curve, scale=5) == approx(area(frontier(PAIR, own, grid=lam), scale=5), abs=1e-7)


KNOTS = np.logspace(-6, 6, 601)  # (t − 1)² drawn with 600 straight lines
POLYGON = Divergence("polygon", lambda t: np.interp(t, KNOTS, (KNOTS - 1) ** 2), 1.0, np.inf)
ROUGH = (
    r"^the frontier of polygon is not smooth: the error of its area is about \de-\d\d\. Pass a generator with fewer "
)


def test_a_frontier_that_cannot_be_resolved_carries_a_caveat_and_warns_once():
    with pytest.warns(EstimateWarning, match=ROUGH) as raised:
        curve = frontier(PAIR, POLYGON)
    assert len(raised) == 1
    assert raised[0].filename == __file__  # the line of the caller, not one of the library
    assert [caveat.kind for caveat in curve.caveats] == ["rough frontier"]
    assert str(curve.caveats[0]) == str(raised[0].message)
    assert 0 < curve.caveats[0].values["error"] < 1e-2
    assert frontier(PAIR, KL).caveats == ()


def test_without_warnings_the_frontier_is_the_same():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        curve = frontier.quiet(PAIR, POLYGON)
        # The curve carries its caveats; the summaries of a curve do not repeat them.
        summaries = area(curve, scale=5), integral(curve), midpoint(curve)
    with pytest.warns(EstimateWarning, match=ROUGH):
        warned = frontier(PAIR, POLYGON)
    assert (curve.p_to_mix == warned.p_to_mix).all()
    assert curve.caveats == warned.caveats != ()
    assert summaries == (area(warned, scale=5), integral(warned), midpoint(warned))


@pytest.mark.parametrize("summary", [lambda: area(PAIR, scale=5, divergence=POLYGON), lambda: integral(PAIR, POLYGON)])
def test_a_summary_that_builds_the_frontier_warns_once(summary):
    with pytest.warns(EstimateWarning, match=ROUGH) as raised:
        summary()
    assert len(raised) == 1
    assert raised[0].filename == __file__


@pytest.mark.parametrize("grid", [None, 5, [0.1, 0.3]])
@pytest.mark.parametrize("divergence", [KL, CHI2, Divergence("kinked", kinked)])
def test_the_curve_of_exchanged_masses_is_the_exchanged_curve(divergence, grid):
    other = None if grid is None else 5 if grid == 5 else [0.7, 0.9]
    found, expected = (
        frontier.quiet(PAIR, divergence, grid=grid).swap(),
        frontier.quiet(PAIR.swap(), divergence, grid=other),
    )
    for name in ("lam", "p_to_mix", "q_to_mix"):
        assert getattr(found, name) == approx(getattr(expected, name), rel=1e-12, abs=1e-15)
    assert found.exact == expected.exact


def test_the_area_of_a_rough_frontier_is_nearly_right():
    assert area(frontier.quiet(PAIR, POLYGON), scale=5) == approx(area(PAIR, scale=5, divergence=CHI2), abs=5e-3)


def test_grids_are_those_of_the_paper_of_mauve_text_and_of_the_user():
    assert frontier(PAIR, grid=2).lam.tolist() == [0.5]
    assert frontier(PAIR, grid=5).lam == approx([0.2, 0.4, 0.6, 0.8])
    lam = frontier(PAIR, grid="mauve-text").lam
    assert (len(lam), lam[0], lam[-1]) == (25, 1e-6, 1 - 1e-6)
    assert np.diff(lam) == approx((1 - 2e-6) / 24)
    for own in ([0.1, 0.7], (0.1, 0.7), np.array([0.1, 0.7])):
        assert frontier(PAIR, grid=own).lam.tolist() == [0.1, 0.7]
    for wrong in ([0.1, 1.0], [0.1, 0.1], [0.2, 0.1, 0.3], [-0.1, 0.5]):
        with pytest.raises(InputError, match=r"`grid` must be one axis of rising λ, strictly between 0 and 1"):
            frontier(PAIR, grid=wrong)
    assert not frontier(PAIR, grid=5).exact
    assert frontier(PAIR).exact


def test_a_settled_curve_has_lost_its_last_digits_alone():
    curve = frontier(PAIR, grid=7)
    settled = curve.settle()
    assert settled.p_to_mix == approx(curve.p_to_mix, rel=1e-9)
    assert settled.q_to_mix == approx(curve.q_to_mix, rel=1e-9)
    assert (settled.lam == curve.lam).all()
