"""Pictures of curves, ranges and power: each mark is where its number is, and the axis shows what it should."""

from types import SimpleNamespace

import numpy as np
import pytest
from pytest import approx

from mallow.results import Estimate
from mallow.results import _draw as draw

figure_module = pytest.importorskip("matplotlib.figure", reason="needs matplotlib: pip install 'mallow[plot]'")


def axes():
    return figure_module.Figure().subplots()


def drawable(mauve, interval=None, certified=None, self_score=0.97):
    return SimpleNamespace(
        mauve=mauve,
        interval={} if interval is None else {"mauve": interval},
        certified={} if certified is None else {"mauve": Estimate(*certified)},
        self_score={"mauve": self_score},
    )


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize(("values", "scale"), [((1.0, 20.0), "linear"), ((1.0, 20.1), "log"), ((0.0, 99.0), "linear")])
def test_a_curve_has_its_points_its_band_its_limits_and_the_others_as_lines(values, scale):
    inside = [drawable(0.9, (0.85, 0.93), (0.95, 0.9, 0.98)), drawable(0.7, (0.6, 0.75), (0.8, 0.7, 0.88))]
    outside = {"near": drawable(0.65), "far $x$": drawable(0.2)}
    ax = axes()
    draw.curve(ax, "top-k:…", values, inside, outside)
    assert ax.get_xscale() == scale
    published, *others = ax.lines
    assert published.get_xydata().tolist() == [[values[0], 0.9], [values[1], 0.7]]
    [bars] = ax.containers
    diamonds, _, [reach] = bars.lines
    assert diamonds.get_xydata().tolist() == [[values[0], 0.95], [values[1], 0.8]]
    ends = [sorted(segment[:, 1].tolist()) for segment in reach.get_segments()]
    assert ends == [approx([0.95, 0.98]), approx([0.8, 0.88])]  # from the value up to its bound
    [band] = ax.collections[:1]
    edges = {tuple(point) for point in band.get_paths()[0].vertices.tolist()}
    assert {(values[0], 0.85), (values[0], 0.93), (values[1], 0.6), (values[1], 0.75)} <= edges
    levels = [line.get_ydata()[0] for line in others if list(line.get_xdata()) == [0, 1]]
    assert levels == [0.65, 0.2, 0.97]  # the others, and the self-score
    low, high = ax.get_ylim()
    assert (low, high) == (approx(0.6 - 0.08 * 0.38), approx(0.98 + 0.08 * 0.38))
    assert labels(ax) == [
        "95% of repeat samples",
        "top-k:…, published",
        "near, published",
        r"far \$x\$, published: 0.20, not in this part",
        "self-score",
        "certified, with its 95% confidence limit",
    ]
    assert ax.get_xlabel() == "K of top-k"
    assert ax.get_ylabel().startswith("MAUVE")


def test_the_part_of_the_axis_that_a_curve_shows():
    for inside, expected in (
        ([drawable(0.95, self_score=0.96)], (0.95 - 0.004, 0.96 + 0.004)),  # at least a twentieth of the axis counts
        ([drawable(0.01, self_score=0.9)], (0.0, 0.9 + 0.08 * 0.89)),  # never below 0
        ([drawable(0.5, self_score=1.0)], (0.46, 1.02)),  # nor far above 1
        ([drawable(0.5, (0.4, 0.7)), drawable(0.6, (0.5, 0.99))], (0.4 - 0.08 * 0.59, 1.02)),
        ([drawable(0.5, certified=(0.3, 0.2, 0.9), self_score=0.6)], (0.3 - 0.048, 0.9 + 0.048)),
    ):
        ax = axes()
        draw.curve(ax, "x", range(1, 1 + len(inside)), inside, {})
        assert ax.get_ylim() == approx(expected)


def test_a_band_has_a_gap_where_it_is_not_known():
    one, none = drawable(0.5, (0.4, 0.6)), drawable(0.5)
    for inside, count in (([one, one, none, one, one], 2), ([none, none], 0), ([one, one], 1)):
        ax = axes()
        draw.curve(ax, "x", range(1, 1 + len(inside)), inside, {})
        paths = [path for collection in ax.collections for path in collection.get_paths()]
        assert len(paths) == count
        assert ("95% of repeat samples" in labels(ax)) == bool(count)
        assert not ax.containers  # nothing is certified


@pytest.mark.parametrize(
    ("family", "title"),
    [
        ("nucleus:…", "p of nucleus"),
        ("top-k:…", "K of top-k"),
        ("temperature:…", "value of temperature"),
        ("typical:…", "mass of typical"),
        ("eta:…", "ε of eta"),
        ("min-p:…", "share of min-p"),
        ("own:…", "value of own"),
        ("a:…:b", "value of … in a:…:b"),
        ("step", "step"),
        ("step:5", "step:5"),
    ],
)
def test_the_axis_is_named_after_the_number_that_differs(family, title):
    ax = axes()
    draw.curve(ax, family, (1.0, 2.0), [drawable(0.5)] * 2, {})
    assert ax.get_xlabel() == title


@pytest.mark.parametrize("count", [1, 12, 13, 24, 25])
def test_ranges_of_ranks_have_a_row_each_and_at_most_a_dozen_numbers(count):
    ranges = {f"s{i}": (max(1, i), min(count, i + 2)) for i in range(count)}
    ax = axes()
    draw.ranks(ax, ranges)
    assert [line.get_xydata().tolist() for line in ax.lines] == [
        [[best, row], [worst, row]] for row, (best, worst) in enumerate(list(ranges.values())[::-1])
    ]
    step = -(-count // 12)
    assert ax.get_xticks().tolist() == list(range(1, count + 1, step))
    assert len(ax.get_xticks()) <= 12
    assert ax.get_xlim() == (0.5, count + 0.5)
    assert [text.get_text() for text in ax.get_yticklabels()] == list(ranges)[::-1]


def test_intervals_and_their_values_are_in_the_given_order():
    rows = {"first": (0.1, -0.2, 0.3), "second": (0.5, 0.4, 0.6)}
    ax = axes()
    draw.intervals(ax, rows, "a difference")
    drawn = [line.get_xydata().tolist() for line in ax.lines[:-1]]
    assert drawn == [[[0.4, 0], [0.6, 0]], [[0.5, 0]], [[-0.2, 1], [0.3, 1]], [[0.1, 1]]]
    assert ax.lines[-1].get_xdata() == [0.0, 0.0]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["second", "first"]
    assert ax.get_xlabel() == "a difference"


def test_power_against_samples_and_the_plan():
    ax = axes()
    draw.power(ax, [10, 100, 1000], [0.1, 0.5, 0.9], (1500, 0.8), 0.25)
    assert ax.lines[0].get_xydata().tolist() == [[10, 0.1], [100, 0.5], [1000, 0.9]]
    assert ax.lines[1].get_xydata().tolist() == [[1500, 0.8]]
    assert labels(ax) == ["plan: 1,500 samples, power 0.8"]
    assert (ax.get_xscale(), ax.get_ylim()) == ("log", (0.0, 1.02))
    assert ax.get_ylabel() == "power against a difference of 0.25"


def test_a_map_of_ranks_leaves_missing_ones_white():
    ax = axes()
    draw.rank_map(ax, ["a", "b", "c"], {"mauve": {"a": 1, "b": 2, "c": 3}, "fid": {"a": 2, "c": 1}})
    [image] = ax.images
    assert np.array_equal(image.get_array().filled(np.nan), [[1, 2, 3], [2, np.nan, 1]], equal_nan=True)
    assert (image.norm.vmin, image.norm.vmax) == (1, 4)
    texts = {text.get_position(): text.get_text() for text in ax.texts}
    assert texts == {(0, 0): "1", (1, 0): "2", (2, 0): "3", (0, 1): "2", (2, 1): "1"}
    assert [text.get_text() for text in ax.get_xticklabels()] == ["a", "b", "c"]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["mauve", "fid"]


@pytest.mark.parametrize("count", [6, 7])
def test_a_legend_has_each_label_once_and_is_beside_the_axes_if_there_are_many(count):
    ax = axes()
    for number in range(count):
        for _ in range(2):
            ax.plot([0, 1], [0, 1], label=f"line {number}")
    draw.legend(ax)
    assert labels(ax) == [f"line {number}" for number in range(count)]
    ax.figure.canvas.draw()
    box = ax.get_legend().get_window_extent()
    assert (box.x0 >= ax.get_window_extent().x1) == (count > 6)
    draw.legend(ax, above=True)
    ax.figure.canvas.draw()
    assert ax.get_legend().get_window_extent().y0 >= ax.get_window_extent().y1


def test_marked_positions_are_upright_lines():
    ax = axes()
    draw.marks(ax, [3.0, 5.0], "alarm")
    assert [line.get_xdata() for line in ax.lines] == [[3.0, 3.0], [5.0, 5.0]]
    assert labels(ax) == ["alarm"]
