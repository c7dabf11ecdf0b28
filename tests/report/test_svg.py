"""The geometry of the drawings: what is drawn is what was measured."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow.evaluate import Comparison
from mallow.report import _svg as svg


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
        assert curve.says == f"published MAUVE {score.mauve:.3f}; 95 % of other draws from {low:.3f} to {high:.3f}"
    for curve in sure.curves:
        one = compared.scores[curve.name].certified["mauve"]
        assert curve.says.startswith(f"certified MAUVE {one.value:.3f}; with 95 % confidence at most ")
    bare = {name: replace(score, interval={}) for name, score in compared.scores.items()}
    for curve in svg.pictures(bare)[1].curves:
        assert curve.says == f"published MAUVE {bare[curve.name].mauve:.3f}"


def test_of_one_system_both_curves_are_in_one_picture(compared):
    score = compared.scores["far <b>"]
    [picture] = svg.pictures({"far": score})
    assert {curve.name for curve in picture.curves} == {"certified", "published"}
    [bare] = svg.pictures({"far": replace(score, certified_frontier=None)})
    assert [curve.name for curve in bare.curves] == ["published"]
