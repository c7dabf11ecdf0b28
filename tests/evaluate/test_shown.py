"""What results say and draw, word by word, in every state: as recorded in the folder shown, by `make records`."""

import pytest

from made_results import CASES, DRAWN, describe, describe_axes, describe_plot, made_comparison, recorded

RECORDED = recorded()


def test_all_results_are_recorded():
    assert sorted(RECORDED) == sorted([*CASES, *(f"picture_of_{name}" for name in DRAWN)])


@pytest.mark.parametrize("name", CASES)
def test_a_result_says_what_is_recorded(name):
    assert describe(CASES[name]()) == RECORDED[name]


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_shows_what_is_recorded(name):
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'mallow[plot]'")
    assert describe_plot(CASES[name]()) == RECORDED[f"picture_of_{name}"]


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_gets_axes_of_its_own_where_there_are_none(name):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="needs matplotlib: pip install 'mallow[plot]'")
    pyplot.switch_backend("Agg")
    ax = CASES[name]().plot()
    assert describe_axes(ax) == RECORDED[f"picture_of_{name}"]
    pyplot.close(ax.figure)


@pytest.mark.parametrize(
    "name", [name for name in CASES if not name.startswith(("passport_check_that", "comparison_without"))]
)
def test_a_result_comes_back_from_json(name):
    result = CASES[name]()
    assert describe(type(result).from_json(result.to_json())) == RECORDED[name]


def test_a_curve_of_a_family_can_be_asked_for():
    figure = pytest.importorskip("matplotlib.figure", reason="needs matplotlib: pip install 'mallow[plot]'").Figure()
    sweep = CASES["sweep_of_two_families"]()
    ax = sweep.plot(figure.subplots(), "top-k:…")
    assert [line.get_label() for line in ax.lines if not line.get_label().startswith("_")] == [
        *("top-k:…, published", "nucleus:0.5, published", "nucleus:0.9, published", "self-score")
    ]  # the decoders that cannot be told apart from the best are two of this family: none is marked
    assert sweep.families == {
        "nucleus:…": ((0.5, "nucleus:0.5"), (0.9, "nucleus:0.9")),
        "top-k:…": ((5.0, "top-k:5"), (50.0, "top-k:50")),
    }


def test_a_width_makes_paragraphs_of_every_table():
    for table in (CASES["score_with_everything"]().mauve_table, CASES["track_that_turns"]().change_table):
        assert max(map(len, table(width=40).splitlines())) <= 52 < max(map(len, table().splitlines()))
    assert made_comparison({"a": 0.9}).difference_table() == ""


def test_a_score_is_a_number_in_a_format_and_a_text_without_one():
    score = CASES["score_with_everything"]()
    assert f"{score:.1f}" == "0.9"
    assert f"{score}" == str(score)
