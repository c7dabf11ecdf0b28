"""Pictures: what is drawn is what was measured, and it can be read in grey."""

import io
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
from pytest import approx

from made_results import made_track
from mallow.errors import EstimateWarning, InputError
from mallow.estimate import Quantize
from mallow.evaluate import Comparison, Score, run_repeats, score
from mallow.evidence import Measure
from mallow.report import frontier_figure, rank_figure, score_figure
from mallow.results import draw
from mallow.theory import frontier

figure_module = pytest.importorskip("matplotlib.figure", reason="needs matplotlib: pip install 'mallow[plot]'")
FIGURES = [frontier_figure, score_figure, rank_figure]


def texts(figure):
    figure.savefig(io.BytesIO())  # text is laid out, and formulas are read, only when drawn
    found = [each.get_text() for legend in figure.legends for each in legend.get_texts()]
    for ax in figure.axes:
        found += [ax.get_title(), ax.get_xlabel(), ax.get_ylabel()]
        found += [each.get_text() for each in (*ax.get_xticklabels(), *ax.get_yticklabels())]
        found += [each.get_text() for each in (ax.get_legend().get_texts() if ax.get_legend() else ())]
    return found


@pytest.mark.parametrize("make", FIGURES)
@pytest.mark.parametrize(("form", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_every_figure_is_written_in_every_form(compared, make, form, start, tmp_path):
    path = tmp_path / f"figure.{form}"
    make(compared).savefig(path)
    assert path.read_bytes().startswith(start)
    assert path.stat().st_size > 3000


@pytest.mark.parametrize("make", FIGURES)
def test_every_system_and_axis_is_named(compared, make):
    shown = texts(make(compared))
    for name in compared.scores:
        assert any(name in each for each in shown)
    assert any("misses" in each or "indistinguishable" in each or "proven gap" in each for each in shown)


def test_frontiers_are_drawn_in_both_coordinates(compared):
    raw, exponentiated, certified = frontier_figure(compared).axes
    for line, curve, one in zip(raw.lines, exponentiated.lines, compared.scores.values(), strict=True):
        lam = one.frontier.lam
        inner = (lam >= 0.01) & (lam <= 0.99)
        assert line.get_xdata().tolist() == one.frontier.p_to_mix[inner].tolist()
        assert line.get_ydata().tolist() == one.frontier.q_to_mix[inner].tolist()
        x, y = curve.get_data()
        assert np.trapezoid(y, x) == approx(one.mauve, abs=0.01)
        assert (x[0], y[0], x[-1], y[-1]) == (0, 1, 1, 0)
    for line, one in zip(certified.lines, compared.scores.values(), strict=True):
        assert np.trapezoid(line.get_ydata(), line.get_xdata()) == approx(one.certified["mauve"].value, abs=0.01)
    for ax in (raw, exponentiated, certified):
        (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
        assert left == bottom == 0
        for line in ax.lines:
            assert line.get_xdata().max() <= right
            assert line.get_ydata().max() <= top


def test_the_legend_has_published_and_certified_values(compared):
    [legend] = frontier_figure(compared).legends
    assert [each.get_text() for each in legend.get_texts()] == [
        f"{name}: published {one.mauve:.3f}, certified {one.certified['mauve'].value:.3f}"
        for name, one in compared.scores.items()
    ]


@pytest.mark.parametrize("make", FIGURES)
def test_every_figure_fits_a_page_and_nothing_is_cut(compared, make):
    figure = make(compared)
    width, height = figure.get_size_inches()
    assert width <= 7.0
    assert height <= 9.0
    figure.savefig(io.BytesIO())
    box = figure.get_tightbbox()  # of all that is drawn, in inches
    assert box.x0 >= -0.01
    assert box.x1 <= width + 0.01
    assert box.y0 >= -0.01
    assert box.y1 <= height + 0.01


def test_plots_of_results_fit_their_figure(compared, diagnosed):
    from matplotlib import pyplot

    long = {f"a rather long name of system {name}": one for name, one in compared.scores.items()}
    for result in (compared, compared.scores["near"], diagnosed["far <b>"], replace(compared, scores=long)):
        figure = result.plot().figure
        figure.savefig(io.BytesIO())
        box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
        assert (width, height) == draw.SIZE
        assert -0.01 <= box.x0 < box.x1 <= width + 0.01
        assert -0.01 <= box.y0 < box.y1 <= height + 0.01
        pyplot.close(figure)


def test_without_certificates_there_is_no_panel_for_them(compared):
    bare = replace(compared.scores["near"], certified={}, certified_frontier=None)
    assert len(frontier_figure({"near": bare, "far": compared.scores["far <b>"]}).axes) == 2


def test_systems_differ_without_colour():
    looks = [draw.line_style(place) for place in range(30)]
    assert len({(look["linestyle"], look["marker"]) for look in looks}) == 30
    assert len({(look["linestyle"], look["color"]) for look in looks}) == 30
    assert len({look["linestyle"] for look in looks[:5]}) == 5


def test_names_are_shown_as_they_are(compared):
    strange = ["$x^{$", "_hidden", "two\nlines"]
    given = replace(
        compared,
        scores=dict(zip(strange, compared.scores.values(), strict=True)),
        ranks=dict(zip(strange, compared.ranks.values(), strict=True)),
    )
    for make in FIGURES:
        shown = [each.replace(r"\$", "$") for each in texts(make(given))]
        for name in ("$x^{$", "_hidden", "two lines"):
            assert any(name in each for each in shown), (make, name)
    assert len(frontier_figure(given).legends[0].get_texts()) == 3


def test_many_systems_have_their_legend_outside(compared):
    many = {f"system {i}": compared.scores["near"] for i in range(9)}
    figure = frontier_figure(many)
    figure.savefig(io.BytesIO())  # text is laid out, and formulas are read, only when drawn
    assert figure.legends[0].get_window_extent().y1 <= min(ax.get_window_extent().y0 for ax in figure.axes)


def test_rank_ranges(compared):
    ax = rank_figure(compared).axes[0]
    drawn = [tuple(line.get_xdata()) for line in ax.lines]
    assert drawn[::-1] == list(compared.ranks.values())
    assert [each.get_text() for each in ax.get_yticklabels()][::-1] == list(compared.ranks)
    with pytest.raises(
        InputError,
        match=r"^`comparison` must have ranks, but it has none\. Compare all pairs: mallow\.compare with baseline=None\.$",
    ):
        rank_figure(compared.scores["near"])


def test_scores_with_their_own_intervals_and_what_is_certified(compared):
    ax = score_figure(compared).axes[0]
    for place, one in enumerate(list(compared.scores.values())[::-1]):
        above, below = (
            [tuple(line.get_xdata()) for line in ax.lines if set(line.get_ydata()) == {place + side}]
            for side in (0.17, -0.17)
        )
        assert (one.mauve,) in below
        assert (one.self_score["mauve"],) in below
        assert tuple(one.interval["mauve"]) in below  # around the score that is drawn
        assert above == [
            (0.0, one.certified["mauve"].high),
            (one.certified["mauve"].value,),
        ]  # apart from what is published
    shown = [each.get_text() for each in ax.get_legend().get_texts()]
    assert sorted(shown) == [
        "95% of repeat samples of this size",
        "certified value",
        "published score",
        "self-score",
        "where the true value may be (95% confidence)",
    ]


def test_what_is_missing_is_not_drawn(compared):
    ax = score_figure({"bare": replace(compared.scores["near"], interval={}, certified={})}).axes[0]
    assert len(ax.lines) == 2  # the score and the self-score
    assert not ax.containers
    assert sorted(each.get_text() for each in ax.get_legend().get_texts()) == ["published score", "self-score"]


def test_without_matplotlib_the_message_says_what_to_install(compared, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"^matplotlib is needed .* pip install '.*\[plot\]'$"):
        score_figure(compared)


# --- the band over repeats


@pytest.fixture(scope="module")
def banded():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 4)), rng.normal(0.4, 1.0, size=(400, 4))
    measure = Measure(Quantize(bins=15))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        made = score(x, y, measure=measure, repeats=4)
    prepared = measure.estimator.prepare(x, y)
    return made, [frontier(masses) for masses in run_repeats(measure, prepared, 4, 0)]


def test_the_curves_of_all_repeats_lie_in_the_band(banded):
    made, curves = banded
    low, high = made.band
    for axis in ("p_to_mix", "q_to_mix"):
        each = np.array([getattr(curve, axis) for curve in curves])
        # ten digits are kept
        np.testing.assert_allclose(getattr(low, axis), each.min(axis=0), rtol=1e-9)
        np.testing.assert_allclose(getattr(high, axis), each.max(axis=0), rtol=1e-9)
        np.testing.assert_allclose(getattr(made.frontier, axis), each.mean(axis=0), rtol=1e-9)
    assert (high.p_to_mix > low.p_to_mix).any()


def test_the_band_is_drawn(banded):
    from matplotlib.path import Path

    made, curves = banded
    ax = figure_module.Figure().subplots()
    draw.exponentiated(ax, made, label="x")
    [patch] = ax.patches
    outline = Path(patch.get_xy())
    for curve in curves:
        x, y = draw.exponentiated_points(curve, made.scale)
        inner = (x < 0.98) & (y < 0.98)  # at the ends the band has no width
        inside = [outline.contains_points(np.column_stack([x, y])[inner], radius=r) for r in (-1e-6, 1e-6)]
        assert inner.sum() > 5
        assert np.any(inside, axis=0).all()  # which sign widens depends on the direction of the outline
    draw.costs(ax, made, label="x")
    assert len(ax.patches) == 2


def test_the_band_is_stored_and_may_be_missing(banded):
    made, _ = banded
    again = Score.from_json(made.to_json())
    for ours, theirs in zip(made.band, again.band, strict=True):
        assert np.array_equal(ours.p_to_mix, theirs.p_to_mix)
        assert np.array_equal(ours.q_to_mix, theirs.q_to_mix)
    old = made.to_dict()
    del old["band"]
    assert Score.from_dict(old).band is None
    alone = replace(made, band=None)
    assert Score.from_dict(alone.to_dict()).band is None
    assert len(frontier_figure(alone).axes[1].patches) == 0
    assert len(frontier_figure(made).axes[1].patches) == 1


def test_one_repeat_has_no_band():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 3)), rng.normal(size=(300, 3))
    with pytest.warns(EstimateWarning):
        assert score(x, y, measure=Measure(Quantize(bins=10)), repeats=1).band is None


def test_ranks_can_be_read_on_their_colours():
    """Numbers are light on dark cells and dark on light ones, for every rank of up to nine systems."""
    for count in range(2, 10):
        systems = [f"s{number}" for number in range(count)]
        ax = figure_module.Figure().subplots()
        draw.rank_map(ax, systems, {"x": {name: rank for rank, name in enumerate(systems, start=1)}})
        (image,) = ax.images
        for column, text in enumerate(ax.texts):
            cell = float(np.mean(image.to_rgba(image.get_array())[0, column, :3]))
            ink = {"white": 1.0, "black": 0.0}[text.get_color()]
            assert abs(ink - cell) > 0.35, (count, text.get_text())


def test_the_axis_of_a_curve_ends_just_above_one():
    ax = made_track(1.0, 0.3, (0.3, 0.8, 1.0), ()).plot(figure_module.Figure().subplots())
    assert 1.0 < ax.get_ylim()[1] <= 1.02


def test_a_stored_comparison_draws_the_same(compared):
    again = Comparison.from_json(compared.to_json())
    ours, theirs = (rank_figure(each).axes[0] for each in (compared, again))
    assert [line.get_xydata().tolist() for line in ours.lines] == [line.get_xydata().tolist() for line in theirs.lines]
