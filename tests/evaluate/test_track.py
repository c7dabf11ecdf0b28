"""A series of checkpoints: changes are where differences are significant, and nowhere else."""

import json
import warnings

import numpy as np
import pytest

from mallow import EstimateWarning, track
from mallow.evaluate import Track


@pytest.fixture(scope="module")
def tracked():
    rng = np.random.default_rng(0)
    series = {f"c-{step}": rng.normal(gap, 1, size=(200, 3)) for step, gap in ((30, 0.0), (10, 1.5), (20, 1.5))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        return track(rng.normal(size=(200, 3)), series, repeats=1)


def test_a_series_that_comes_closer(tracked):
    assert list(tracked.steps.items()) == [("c-10", 10), ("c-20", 20), ("c-30", 30)]
    assert [one.at for one in tracked.changes] == ["c-30"]
    assert tracked.verdict.startswith("No trend from c-10 to c-30 is shown (Kendall's tau +")  # three cannot show one
    assert "It changed: closer from c-30 on." in tracked.verdict
    assert "c-30 − c-" in tracked.change_table()
    assert str(tracked).startswith(tracked.verdict)
    assert [row["segment"] for row in tracked._records()] == [1, 1, 2]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in tracked.table("markdown").splitlines()[2:]
    ]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("c-10", "10", ""),
        ("c-20", "20", ""),
        ("c-30", "30", "closer"),
    ]
    assert [row[4] for row in rows] == [f"{tracked.comparison.scores[name].mauve:.3f}" for name in tracked.steps]
    again = Track.from_json(tracked.to_json())
    assert again.to_dict() == tracked.to_dict()
    brief = json.loads(json.dumps(tracked.brief()))
    assert (list(brief["checkpoints"]), brief["changes"][0]["at"]) == (["c-10", "c-20", "c-30"], "c-30")


def test_changes_are_drawn(tracked):
    figure = pytest.importorskip("matplotlib.figure", reason="needs matplotlib: pip install 'mallow[plot]'").Figure()
    ax = tracked.plot(figure.subplots())
    lines = {line.get_label(): line.get_xdata() for line in ax.lines}
    assert list(lines["change, 5% level, corrected for all pairs"]) == [30, 30]
    assert ax.get_xlabel() == "step"


def test_checkpoints_are_compared_at_one_size():
    """More samples show more of the same gap: a model that never changes would move away from the reference."""
    rng = np.random.default_rng(3)
    human = rng.normal(size=(300, 10))
    series = {f"c-{m}": rng.normal(0.35, 1.0, size=(m, 10)) for m in (60, 150, 300, 620)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)  # with so few samples there are more
        result = track(human, series, repeats=1)
    assert {score.n[1] for score in result.comparison.scores.values()} == {60}
    assert result.caveats[0].kind == "checkpoint sizes"
    assert "from 60 (c-60) to 620 samples" in result.caveats[0].message
    assert result.changes == ()


# --- the parts
