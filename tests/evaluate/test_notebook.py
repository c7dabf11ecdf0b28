"""What a notebook shows: all tables, caveats once, curves as pictures, and a p-value that explains itself."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import mallow
from mallow.theory import Masses, frontier

pytestmark = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
RNG = np.random.default_rng(0)
HUMAN = RNG.normal(size=(200, 4))
SYSTEMS = {name: RNG.normal(shift, 1.0, size=(200, 4)) for name, shift in (("near", 0.05), ("mid", 0.7), ("far", 2.0))}


@pytest.fixture(scope="module")
def comparison():
    return mallow.compare(HUMAN, SYSTEMS, repeats=1)


def test_a_comparison_shows_its_differences_and_folds_its_caveats(comparison):
    page = comparison._repr_html_()
    assert page.count("<table>") == 2
    assert "<td>near − far</td>" in page
    before, _, folded = page.partition(f"<details><summary>{len(comparison.caveat_lines())} caveats</summary>")
    assert "only 200 samples" not in before
    assert folded.count("only 200 samples") == 1


def test_the_winner_is_bold_only_where_there_is_one(comparison):
    assert comparison.winner == "near"
    assert comparison.table("latex").count(r"\textbf{") == 2
    without = mallow.compare(HUMAN, {"a": SYSTEMS["near"], "b": SYSTEMS["near"][::-1]}, repeats=1)
    assert without.winner is None
    assert r"\textbf{" not in without.table("latex")


def test_scores_on_the_same_axes_differ(comparison):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = None
    for name in comparison.scores:
        ax = comparison[name].plot(ax, label=name)
    solid = [line for line in ax.lines if line.get_marker() != "None"]
    assert len({(line.get_color(), line.get_linestyle(), line.get_marker()) for line in solid}) == 3
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert [label.partition(",")[0] for label in labels] == ["near", "near", "mid", "mid", "far", "far"]


def test_ranks_as_a_picture(comparison):
    pytest.importorskip("matplotlib").use("Agg")
    ax = comparison.plot_ranks()
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list(comparison.scores)[::-1]
    without = mallow.compare(HUMAN, {name: SYSTEMS[name] for name in ("near", "far")}, repeats=1, baseline="near")
    with pytest.raises(mallow.InputError, match="a comparison with a baseline has no ranks"):
        without.plot_ranks()


def test_a_frontier_is_a_picture():
    curve = frontier(Masses.from_histograms([0.5, 0.5], [0.1, 0.9]))
    (line,) = ElementTree.fromstring(curve._repr_svg_()).findall("{*}polyline")
    points = np.array([point.split(",") for point in line.get("points").split()], float)
    assert (np.diff(points[:, 0]) <= 0).all()  # λ rises: one cost falls
    assert (np.diff(points[:, 1]) <= 0).all()  # and the other rises: upwards on the screen
    several = Masses.from_histograms(np.full((3, 2), 0.5), np.full((3, 2), 0.5))
    assert frontier(several)._repr_svg_() is None


def test_a_p_value_explains_itself():
    p = mallow.permutation_test(HUMAN, SYSTEMS["far"])
    assert isinstance(p, float)
    assert p == p.p_value == p.test.p_value == 1 / 5000
    assert "from one distribution, by" in str(p.test)
    assert "<td>permutations</td>" in p._repr_html_()
    assert (f"{p:.0e}", repr(p)) == ("2e-04", "0.0002")


def test_a_report_from_samples_has_all_sections(tmp_path: Path):
    from mallow import report

    report.write(tmp_path / "bare.html", mallow.compare(HUMAN, SYSTEMS))
    report.write(tmp_path / "whole.html", HUMAN, SYSTEMS)
    comparison, diagnoses = report.compare_and_diagnose(HUMAN, SYSTEMS)
    page = (tmp_path / "whole.html").read_text(encoding="utf-8")
    assert page == report.html(comparison, diagnoses=diagnoses)
    assert len(page) > len((tmp_path / "bare.html").read_text(encoding="utf-8"))
