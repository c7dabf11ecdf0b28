"""The geometry of the drawings: what is drawn is what was measured."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow.evaluate import Comparison
from mallow.report import _svg as svg
from mallow.theory import Frontier


@given(st.lists(st.floats(0, 20), min_size=1, max_size=8), st.integers(4, 8), st.booleans())
def test_axes_hold_their_values_on_few_round_ticks(values, most, from_zero):
    axis = svg.Scale.around(values, most_ticks=most, low=0.0 if from_zero else None)
    assert axis.low <= min(values) + 1e-9
    assert max(values) <= axis.high + 1e-9
    assert 2 <= len(axis.ticks) <= most + 1
    assert (axis.ticks[0], axis.ticks[-1]) == (axis.low, axis.high)
    assert axis(axis.low) == 0
    assert axis(axis.high) == 100
    shown = [float(axis.label(tick)) for tick in axis.ticks]
    assert shown == approx(axis.ticks, abs=1e-9)


@pytest.mark.parametrize(
    ("values", "options", "ticks", "labels"),
    [
        ([0.62, 0.97], {}, (0.6, 0.7, 0.8, 0.9, 1.0), ["0.6", "0.7", "0.8", "0.9", "1.0"]),
        ([0.0, 1.0], {}, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ([0.0, 0.5], {"most_ticks": 6}, (0.0, 0.1, 0.2, 0.3, 0.4, 0.5), ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5"]),
        ([0.3], {"low": 0.0, "most_ticks": 4}, (0.0, 0.1, 0.2, 0.3), ["0.0", "0.1", "0.2", "0.3"]),
        ([3.0], {"low": 0.0, "most_ticks": 4}, (0.0, 1.0, 2.0, 3.0), ["0", "1", "2", "3"]),
        ([47.0], {"low": 0.0, "most_ticks": 4}, (0.0, 20.0, 40.0, 60.0), ["0", "20", "40", "60"]),
        ([0.012, 0.0131], {}, (0.012, 0.0125, 0.013, 0.0135), ["0.0120", "0.0125", "0.0130", "0.0135"]),
        ([-1.0, 2.0], {"most_ticks": 4}, (-1.0, 0.0, 1.0, 2.0), ["-1", "0", "1", "2"]),
        ([float("inf"), 2.0, float("nan"), 4.0], {"most_ticks": 5}, (2.0, 2.5, 3.0, 3.5, 4.0), None),
        ([], {"low": 0.0, "most_ticks": 4}, (0.0, 0.5, 1.0), ["0.0", "0.5", "1.0"]),
    ],
)
def test_axes_by_hand(values, options, ticks, labels):
    axis = svg.Scale.around(values, **options)
    assert (axis.low, axis.high, axis.ticks) == (ticks[0], ticks[-1], ticks)
    if labels:
        assert [axis.label(tick) for tick in ticks] == labels


def test_a_single_value_has_an_axis_of_two_ticks():
    axis = svg.Scale.around([0.5])
    assert axis.low <= 0.5 <= axis.high
    assert 2 <= len(axis.ticks) <= 3
    assert axis.high - axis.low < 1e-5


def test_points_and_paths_by_hand():
    axis = svg.Scale(0.0, 2.0, (0.0, 1.0, 2.0))
    assert [svg._point(axis, x, y) for x, y in ((0, 0), (2, 2), (1, 0.5), (0.3333, 0))] == [
        (0.0, 200.0),
        (200.0, 0.0),
        (100.0, 150.0),
        (33.3, 200.0),
    ]
    x, y = np.array([0.0, 0.0, 1.0, np.inf, 1.5, 2.0]), np.array([0.0, 0.0, 0.5, 1.0, np.nan, 2.0])
    assert svg._path(axis, x, y) == "M0 200L100 150L200 0"
    assert svg._path(axis, x, y, closed=True) == "M0 200L100 150L200 0Z"


def test_half_way_is_the_even_mixture():
    curve = Frontier(np.array([0.1, 0.45, 0.52, 0.9]), np.array([4.0, 3.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.5, 4.0]))
    assert svg._halfway(curve) == (2.0, 3.5)


@pytest.mark.parametrize(
    ("wanted", "heights"),
    [
        ([], []),
        ([-3.0], [4.0]),
        ([300.0], [200.0]),
        ([50.0, 55.0, 120.04], [50.0, 65.0, 120.0]),
        ([50.26], [50.3]),
        ([180.0, 190.0, 199.0], [170.0, 185.0, 200.0]),
        ([0.0] * 15, [4.0 + 14 * i for i in range(15)]),  # 196/14 is all the room there is
    ],
)
def test_heights_of_names_by_hand(wanted, heights):
    assert svg.spread_labels(wanted) == heights


def test_all_that_is_known_of_one_system_is_in_its_pictures(compared):
    score = compared.scores["near"]
    [both] = svg.pictures({"near": score})
    assert (both.id, both.short) == ("frontier", "Both")
    assert both.caption == "Certified: the true curve lies below, up to the noise of sampling. Published: as in papers."
    assert {curve.name: curve.number for curve in both.curves} == {"published": 0, "certified": 1}
    [bare] = svg.pictures({"near": replace(score, certified_frontier=None)})
    assert bare.caption == "Published, as in papers"
    for picture in svg.pictures(compared.scores):
        assert {curve.name: curve.number for curve in picture.curves} == {
            name: place for place, name in enumerate(compared.scores)
        }
        order = [curve.middle[1] - curve.middle[0] for curve in picture.curves]
        assert order == sorted(order)
        assert [curve.label for curve in picture.curves] == svg.spread_labels(
            [curve.middle[1] for curve in picture.curves]
        )
    square = svg.exponentiated_square(score)
    [curve] = [curve for curve in svg.pictures(compared.scores)[1].curves if curve.name == "near"]
    assert curve.middle == square.middle
    costs = svg._halfway(score.frontier)
    assert square.middle == svg._point(square.axis, *np.exp(-score.scale * np.array(costs)))
    assert (square.axis.ticks, svg.cost_square(score).area) == ((0.0, 0.5, 1.0), "")
    assert points(square.area)[-1].tolist() == [0.0, 200.0]  # the corner that closes the area
    assert np.array_equal(points(square.area)[: len(points(square.line))], points(square.line))


def test_axes_of_costs_hold_all_curves(compared):
    for score in compared.scores.values():
        square = svg.cost_square(score)
        assert square.axis.low == 0.0
        assert len(square.axis.ticks) <= 5
        for path in filter(None, (square.line, square.band, square.certified)):
            x, y = points(path).T
            assert ((x >= 0) & (x <= 200) & (y >= 0) & (y <= 200)).all()
        wide = replace(score, certified_frontier=replace(score.frontier, p_to_mix=7.3 * score.frontier.p_to_mix))
        assert svg.cost_square(wide).axis.high >= 7.3 * score.frontier.p_to_mix.max() * (1 - 1e-9)


def points(path):
    return np.array([[float(number) for number in pair.split()] for pair in path.strip("MZ").split("L")])


def test_the_shaded_area_is_the_score(compared):
    for score in compared.scores.values():
        x, y = points(svg.exponentiated_square(score).area).T
        covered = abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2 / 200**2
        assert covered == approx(score.mauve, abs=0.01)


def test_costs_are_drawn_from_the_origin_up(compared):
    score = compared.scores["far <b>"]
    square = svg.cost_square(score)
    x, y = points(square.line).T
    assert (np.diff(x) <= 0).all()
    assert (np.diff(y) <= 0).all()  # towards the top, where y is 0
    assert ((x >= 0) & (x <= 200) & (y >= 0) & (y <= 200)).all()
    half = np.argmin(np.abs(score.frontier.lam - 0.5))
    assert square.middle[0] == approx(200 * score.frontier.p_to_mix[half] / square.axis.high, abs=0.1)
    assert square.middle[1] == approx(200 - 200 * score.frontier.q_to_mix[half] / square.axis.high, abs=0.1)


def test_strips_lie_in_the_chart(compared):
    axis, strips = svg.score_strips(compared.scores)
    for strip, score in zip(strips, compared.scores.values(), strict=True):
        low, high = score.interval["mauve"]
        certified = score.certified["mauve"]
        for place, value in (
            (strip.score, score.mauve),
            (strip.itself, score.self_score["mauve"]),
            (strip.interval[0], low),
            (strip.interval[1], high),
            (strip.certified[0], certified.value),
            (strip.certified[1], certified.high),
        ):
            assert 0 <= place <= 100
            assert axis.low + place / 100 * (axis.high - axis.low) == approx(value, abs=1e-3)
        assert strip.interval[0] <= strip.score <= strip.interval[1]


def test_what_is_missing_is_not_drawn(compared):
    bare = replace(compared.scores["near"], interval={}, certified={}, certified_frontier=None)
    _, [strip] = svg.score_strips({"bare": bare})
    assert (strip.interval, strip.certified) == (None, None)
    assert svg.exponentiated_square(bare).certified == svg.cost_square(bare).certified == ""


def test_the_certified_curve_bounds_the_certified_area(compared):
    for score in compared.scores.values():
        x, y = points(svg.exponentiated_square(score).certified).T
        assert np.trapezoid(200 - y, x) / 200**2 == approx(score.certified["mauve"].value, abs=0.01)


def test_a_stored_comparison_draws_the_same(compared):
    again = Comparison.from_json(compared.to_json())
    assert svg.score_strips(again.scores) == svg.score_strips(compared.scores)
    for name, score in compared.scores.items():
        assert svg.exponentiated_square(again.scores[name]) == svg.exponentiated_square(score)


@given(st.lists(st.floats(-10, 210), min_size=1, max_size=30))
def test_names_beside_the_curves_keep_their_order_and_their_distance(wanted):
    heights = svg.spread_labels(sorted(wanted))
    assert len(heights) == len(wanted)
    assert heights[0] >= 3.9
    assert heights[-1] <= 200
    least = min(15.0, 196.0 / max(len(wanted) - 1, 1))
    assert all(np.diff(heights) >= least - 0.2)


def test_the_picture_of_all_systems_has_every_curve(compared):
    sure, published = svg.pictures(compared.scores)
    assert (sure.id, published.id) == ("certified-curves", "published-curves")
    for certified, picture in ((True, sure), (False, published)):
        assert {curve.name for curve in picture.curves} == set(compared.scores)
        for curve in picture.curves:
            score = compared.scores[curve.name]
            square = svg.exponentiated_square(score)
            assert curve.line == (square.certified if certified else square.line)
            assert curve.value == (score.certified["mauve"].value if certified else score.mauve)
    bare = {name: replace(score, certified_frontier=None) for name, score in compared.scores.items()}
    [only] = svg.pictures(bare)
    assert only.id == "published-curves"
    assert len(only.curves) == 3


def test_areas_are_closed_and_lines_are_open(compared):
    for score in compared.scores.values():
        square = svg.exponentiated_square(score)
        for path in (square.line, square.certified, svg.cost_square(score).line):
            assert path.startswith("M")
            assert not path.endswith("Z")
        for path in filter(None, (square.area, square.band)):
            assert path.startswith("M")
            assert path.endswith("Z")


def test_every_curve_says_what_is_known_of_its_area(compared):
    sure, published = svg.pictures(compared.scores)
    for curve in published.curves:
        score = compared.scores[curve.name]
        low, high = score.interval["mauve"]
        assert curve.says == f"published MAUVE {score.mauve:.3f}, 95% of repeat samples from {low:.3f} to {high:.3f}"
    for curve in sure.curves:
        one = compared.scores[curve.name].certified["mauve"]
        assert curve.says.startswith(f"certified MAUVE {one.value:.4f}, with 95% confidence at most ")
    bare = {name: replace(score, interval={}) for name, score in compared.scores.items()}
    for curve in svg.pictures(bare)[1].curves:
        assert curve.says == f"published MAUVE {bare[curve.name].mauve:.3f}"


def test_of_one_system_both_curves_are_in_one_picture(compared):
    score = compared.scores["far <b>"]
    [picture] = svg.pictures({"far": score})
    assert {curve.name for curve in picture.curves} == {"certified", "published"}
    [bare] = svg.pictures({"far": replace(score, certified_frontier=None)})
    assert [curve.name for curve in bare.curves] == ["published"]
