"""A series of checkpoints: changes are where differences are significant, and nowhere else."""

import json
import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_results import made_comparison, made_difference
from mallow import EstimateWarning, InputError, track
from mallow.evaluate import Difference, Track, Trend
from mallow.evaluate._track import _cut_to_one_size, _find_trend, _order_by_step, find_changes
from mallow.samples import Samples


def differences(values, apart):
    names = [f"c{place}" for place in range(len(values))]
    pairs = [(i, j) for i in range(len(values)) for j in range(i + 1, len(values))]
    made = [
        Difference(
            names[i],
            names[j],
            {"mauve": values[i] - values[j]},
            {"mauve": (values[i] - values[j] - 0.1, values[i] - values[j] + 0.1)},
            {"mauve": 0.01 if abs(values[i] - values[j]) > apart else 0.5},
            {"mauve": 0.01 if abs(values[i] - values[j]) > apart else 0.5},
        )
        for i, j in pairs
    ]
    return names, made


@settings(max_examples=50)
@given(values=st.lists(st.floats(0, 1), min_size=2, max_size=8), apart=st.floats(0, 1))
def test_segments_hold_no_significant_difference_and_each_change_is_one(values, apart):
    names, made = differences(values, apart)
    changes = find_changes(names, made)
    starts = [0, *(names.index(one.at) for one in changes), len(names)]
    for low, high in pairwise(starts):
        inside = values[low:high]
        assert max(inside) - min(inside) <= apart
    for one, before in zip(changes, starts, strict=False):
        at, other = names.index(one.at), names.index(one.before)
        assert before <= other < at
        assert one.difference == pytest.approx(values[at] - values[other])
        assert one.low < one.difference < one.high
    if max(values) - min(values) <= apart:
        assert changes == ()


def test_steps_are_the_numbers_in_the_names():
    assert list(_order_by_step(["ckpt-900", "ckpt-1000", "ckpt-50"], None)) == ["ckpt-50", "ckpt-900", "ckpt-1000"]
    assert _order_by_step(["v2-step10", "v2-step5", "v2-step7"], None)["v2-step5"] == 5
    assert _order_by_step(["early", "late-1", "last-1"], None) == {"early": 1, "late-1": 2, "last-1": 3}
    assert list(_order_by_step(["a", "b", "c"], [3, 1, 2])) == ["b", "c", "a"]
    with pytest.raises(
        InputError, match=r"^`steps` must have one finite number for each of the 2 checkpoints, all diff"
    ):
        _order_by_step(["a", "b"], [1, 1])
    with pytest.raises(
        InputError, match=r"^`checkpoints` must map at least 3 names to samples; got 2\. To compare two"
    ):
        track([[0.0]], {"a": [[0.0]], "b": [[0.0]]})


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


def test_checkpoints_that_share_prompts_keep_the_same_ones():
    names = [f"p{i}" for i in range(200)]
    two = Samples(features=np.arange(400.0)[:, None], ids=[*names, *names])
    one = Samples(features=np.arange(200.0)[:, None], ids=names)
    few = Samples(features=np.arange(50.0)[:, None], ids=names[:50])
    cut, (caveat,) = _cut_to_one_size({name: (few, own) for name, own in (("a", one), ("b", two), ("c", few))}, 1)
    kept = {name: model for name, (_, model) in cut.items()}
    assert {len(model) for model in kept.values()} == {50}
    assert set(kept["a"].ids) == set(kept["b"].ids)  # and one sample of each
    assert sum(int(name[1:]) < 100 for name in kept["a"].ids) in range(13, 38)  # drawn from all
    assert caveat.values == {"least": 50, "most": 400}
    alike = {"a": (few, one.take(range(192))), "b": (few, one)}
    assert _cut_to_one_size(alike, 1) == (alike, [])


# --- the parts


def test_the_clearest_difference_is_named():
    def one(first, second, value, adjusted):
        return made_difference(first, second, value, adjusted / 2, adjusted)

    apart = [one("a", "b", 0.1, 0.5), one("a", "c", 0.2, 0.01), one("c", "b", -0.3, 0.01), one("c", "d", 0.4, 0.02)]
    apart += [one("a", "d", 0.6, 0.5), one("b", "d", 0.5, 0.5)]
    first, second = find_changes("abcd", apart)
    # Of equally clear ones the larger; it is always the new checkpoint minus the old one.
    assert (first.at, first.before, first.difference, first.p_value) == ("c", "b", -0.3, 0.01)
    assert (first.low, first.high) == apart[2].interval["mauve"]
    # From there on only what came since counts.
    assert (second.at, second.before, second.difference, second.p_value) == ("d", "c", -0.4, 0.02)
    assert (second.low, second.high) == apart[3].reverse().interval["mauve"]


def test_the_trend_is_the_rank_correlation_of_steps_and_certified_areas():
    comparison = made_comparison({"c": 0.9, "b": 0.8, "d": 0.7, "a": 0.6, "e": 0.5})
    rising = _find_trend({"e": 1.0, "a": 2.0, "d": 3.0, "b": 4.0, "c": 5.0}, comparison)
    assert (rising.tau, rising.p_value) == (pytest.approx(1.0), pytest.approx(2 / 120))  # one order of 120, both ways
    falling = _find_trend({"c": 1.0, "b": 2.0, "d": 3.0, "a": 4.0, "e": 50.0}, comparison)
    assert falling.tau == pytest.approx(-1.0)
    assert _find_trend({"e": 1.0, "d": 2.0, "a": 3.0, "b": 4.0, "c": 5.0}, comparison).tau == pytest.approx(0.8)
    level = made_comparison({"a": 0.9, "b": 0.9})
    assert _find_trend({"a": 1.0, "b": 2.0}, level) == Trend(0.0, 1.0)


@pytest.mark.parametrize("steps", [[1, 2], [1, 2, 2], [1, 2, float("nan")], [1, 2, float("inf")], [1, 2, 3, 4]])
def test_every_checkpoint_has_a_step_of_its_own(steps):
    with pytest.raises(
        InputError, match="`steps` must have one finite number for each of the 3 checkpoints, all differ"
    ):
        _order_by_step(["a", "b", "c"], steps)


def test_numbers_in_names_are_steps_only_where_all_names_have_one():
    assert _order_by_step(["a-1", "b-2", "c"], None) == {"a-1": 1, "b-2": 2, "c": 3}
    assert _order_by_step(["a-1.5", "b-0.5"], None) == {"b-0.5": 0.5, "a-1.5": 1.5}
    assert _order_by_step(["a", "b"], [-1, -2.5]) == {"b": -2.5, "a": -1.0}
    with pytest.raises(InputError, match="`checkpoints` must map at least 3 names to samples; got list"):
        track([[0.0]], [[[0.0]]] * 3)
