"""Systems compared by their scores on the same items."""

import csv
import gzip
import json
import math
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx
from scipy import stats

from mallow import EstimateWarning, InputError
from mallow.evaluate import ItemComparison, compare_items

pytestmark = pytest.mark.filterwarnings("ignore::mallow.errors.EstimateWarning")

ROOT = Path(__file__).resolve().parents[2]
SCHOOL = ROOT.parent / "shared" / "data" / "grade-school-math"
MILLER = ROOT / "experiments" / "honesty" / "miller.json"


def right(seed, count=200, *gains):
    """True and false answers of systems that differ by their gains."""
    rng = np.random.default_rng(seed)
    easy = rng.random(count)
    return {f"s{i}": (rng.random(count) < easy + gain).tolist() for i, gain in enumerate(gains or (0.0, 0.0))}


def miller_error(scores, clusters=None):
    """Equations 1 and 4 of "Adding Error Bars to Evals"."""
    scores = np.asarray(scores, float)
    off = scores - scores.mean()
    variance = (off**2).sum() / (len(off) - 1) / len(off)
    if clusters is not None:
        for cluster in np.unique(clusters):
            inside = off[clusters == cluster]
            variance += (np.outer(inside, inside).sum() - (inside**2).sum()) / len(off) ** 2
    return math.sqrt(variance)


# --- the numbers


def test_the_paired_t_test_of_independent_items():
    systems = right(0, 200, 0.0, 0.15)
    [pair] = compare_items(systems).differences
    known = stats.ttest_rel(*(np.array(systems[name], float) for name in (pair.first, pair.second)))
    assert pair.p_value == approx(known.pvalue, rel=1e-9)
    assert pair.interval == approx(tuple(known.confidence_interval()), rel=1e-9)
    difference = np.subtract(systems[pair.first], systems[pair.second], dtype=float)
    assert pair.error == approx(miller_error(difference), rel=1e-9)


@pytest.mark.parametrize("size", [2, 5, 10])
def test_clustered_errors_are_those_of_miller(size):
    rng = np.random.default_rng(size)
    count, groups = 200, 200 // size
    clusters = np.arange(count) // size
    a, b = rng.normal(size=(2, count)) + rng.normal(size=(2, groups))[:, clusters]
    [pair] = compare_items({"a": a, "b": b}, clusters=dict(enumerate(clusters))).differences
    squared = pair.error**2 * (groups - 1) / groups  # theirs is divided by the number of clusters, ours by one less
    off = (a - b) - (a - b).mean()
    own = (off**2).sum() / count**2  # what theirs divides by n − 1 instead of n
    assert squared == approx(miller_error(a - b, clusters) ** 2 - own / (count - 1), rel=1e-9)


@pytest.mark.parametrize(("name", "sizes"), [("300 independent items", [1] * 300), ("60 clusters of 5", [5] * 60)])
def test_errors_are_those_of_statsmodels(name, sizes):
    # statsmodels 0.15.0 on the same scores: experiments/honesty/miller.py
    known = json.loads(MILLER.read_text())[name]
    rng = np.random.default_rng(2024)
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    shared, items = rng.normal(size=(2, len(sizes))), rng.normal(size=len(clusters))
    a, b = np.round(items + shared[:, clusters] + rng.normal(size=(2, len(clusters))), 6)
    [pair] = compare_items({"a": a, "b": b}, clusters=dict(enumerate(clusters))).differences
    assert pair.error == approx(known.get("statsmodels, clustered", known["statsmodels"]), rel=1e-4)
    assert pair.error == approx(miller_error(a - b, clusters), rel=0.01)


def test_the_smallest_p_value_is_that_of_exchanging_systems():
    """Five items differ, all in one direction: McNemar's exact test."""
    a, b = [1] * 5 + [0, 1] * 40, [0] * 5 + [0, 1] * 40
    [pair] = compare_items({"a": a, "b": b}).differences
    assert pair.p_value == stats.binomtest(0, 5).pvalue == 0.0625
    assert pair.interval[0] <= 0
    [pair] = compare_items(
        {"a": [2.0] * 9, "b": [1.0] * 9}
    ).differences  # by the same amount: no error can be estimated
    assert (pair.p_value, pair.error) == (2 ** (1 - 9), 0.0)


def test_equal_models_have_no_winner():
    """At most 5% of trials find any of 190 pairs to differ (experiments/honesty/items.py has more)."""
    wins = 0
    for trial in range(40):
        rng = np.random.default_rng([5, trial])
        clusters = np.arange(60) // 3
        odds = rng.normal(size=60) + rng.normal(size=(20, 20))[:, clusters]
        scores = rng.random((20, 60)) < 1 / (1 + np.exp(-odds))
        systems = {f"m{i}": row.tolist() for i, row in enumerate(scores)}
        result = compare_items(systems, clusters=dict(enumerate(clusters.tolist())))
        wins += any(pair.significant for pair in result.differences)
    assert wins <= 4  # more with probability 0.05 if the share were 5%


def test_the_detectable_difference_is_detected_in_four_of_five_trials():
    found = 0
    for trial in range(200):
        rng = np.random.default_rng([7, trial])
        items, noise = rng.normal(size=100), rng.normal(size=(2, 100))
        found += compare_items({"a": items + noise[0] + 0.4, "b": items + noise[1]}).winner == "a"
    [pair] = compare_items({"a": items + noise[0], "b": items + noise[1]}).differences
    power = 1 - stats.nct.cdf(stats.t.isf(0.025, 99), 99, 0.4 / math.sqrt(2 / 100))
    assert found / 200 == approx(power, abs=0.08)
    assert pair.detectable == approx((stats.t.isf(0.025, 99) + stats.t.isf(0.2, 99)) * pair.error, rel=1e-9)


def test_items_needed_grow_with_the_square():
    result = compare_items(right(0, 200, 0.0, 0.1, 0.2), detect=0.01)
    ten, twenty = result.items_needed(0.01), result.items_needed(0.02)
    assert all(ten[pair] == approx(4 * twenty[pair], abs=4) for pair in ten)
    assert f"{ten['s2', 's1']:,}" in str(result)
    with pytest.raises(InputError, match="`difference` must be"):
        result.items_needed(0)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.permutations(range(12)))
def test_the_order_of_items_and_systems_does_not_matter(seed, order):
    systems = {name: dict(enumerate(values)) for name, values in right(seed, 12, 0.0, 0.2, 0.4).items()}
    turned = {name: {item: systems[name][item] for item in order} for name in reversed(systems)}
    one, other = compare_items(systems), compare_items(turned)
    assert {name: score.value for name, score in one.scores.items()} == {
        name: approx(score.value) for name, score in other.scores.items()
    }
    found = {pair.systems: pair.p_value for pair in other.differences}
    assert {pair.systems: approx(pair.p_value) for pair in one.differences} == found


def test_repeated_samples_count_as_one_item():
    once = right(1, 50, 0.0, 0.2)
    thrice = {name: {i: [value] * 3 for i, value in enumerate(values)} for name, values in once.items()}
    assert compare_items(thrice).to_dict() == compare_items(once).to_dict()
    assert means({"a": {"x": [1, 0, 0, 0], "y": 1}, "b": {"x": 1, "y": (True, False)}}) == {"b": 0.75, "a": 0.625}


# --- what is said


def test_verdicts_are_those_of_comparisons():
    assert compare_items(right(0, 400, 0.0, 0.3)).verdict == (
        "Highest mean score: s1. Every other system has a lower one (5% level, corrected for all pairs). 400 items."
    )
    alike = compare_items(right(0, 100, 0.0, 0.0))
    assert alike.winner is None
    assert alike.verdict.startswith("There is no clear winner: no difference was shown between the mean scores of s")
    three = compare_items(right(0, 400, 0.0, 0.4, 0.4))
    assert three.verdict.endswith("Lowest mean score: s0. 400 items.")
    assert three.groups == (tuple(list(three.scores)[:2]), ("s0",))
    assert [row[-1] for row in three._table().rows] == ["a", "a", "b"]


def test_results_come_back_from_json_and_draw_themselves():
    result = compare_items(right(0, 60, 0.0, 0.3, 0.3), detect=0.02)
    again = ItemComparison.from_json(result.to_json())
    assert again.to_dict() == result.to_dict()
    assert str(again) == str(result)
    assert list(result.to_frame()["system"]) == list(result.scores)
    assert len(result.plot().get_yticklabels()) == 3
    assert repr(result).startswith("ItemComparison(s")
    same = compare_items({"a": [1, 0, 1], "b": [1, 0, 1]})  # no difference at all: NaN becomes null
    assert math.isnan(ItemComparison.from_json(same.to_json()).differences[0].detectable)
    assert same.differences[0].p_value == 1


def test_items_of_some_systems_only_are_left_out_and_counted():
    with pytest.warns(EstimateWarning, match="3 of 30 items have no score of some system and were left out"):
        result = compare_items({"a": {i: i % 2 for i in range(30)}, "b": dict.fromkeys(range(2, 29), 1) | {29: None}})
    assert result.items == 27
    kinds = {caveat.kind: caveat.system for caveat in result.caveats}
    assert kinds == {"unmatched items": None, "constant scores": "b"}


def test_few_clusters_are_a_caveat():
    labels = {i: i % 4 for i in range(200)}
    with pytest.warns(EstimateWarning, match="only 4 clusters: with fewer than 20, intervals are long"):
        result = compare_items(right(0, 200, 0.0, 0.3), clusters=labels)
    assert result.verdict.endswith("200 items in 4 clusters.")
    assert result.differences[0].interval[1] - result.differences[0].interval[0] > 0


@pytest.mark.parametrize(
    ("systems", "options", "message"),
    [
        ({"a": [1, 0]}, {}, "`systems` must map two names or more to scores; got 1"),
        ([1, 0], {}, "`systems` must map two names or more to scores; got list"),
        ({"a": {"x": 1}, "b": {"x": 0}}, {}, "at least two items in common, but they share 1 of 1"),
        ({"a": {"x": 1}, "b": {"y": 0}}, {}, "they share 0 of 2. Items are the same if their ids are, such as 'x'"),
        ({"a": [1, 0], "b": ["yes", "no"]}, {}, "b: no field holds scores"),
        ({"a": [1, 0], "b": [math.inf, 0]}, {}, "b: no field holds scores"),
        ({"a": [1, 0], "b": 3}, {}, "`systems` must hold paths, mappings item → score, or tables; got int"),
        ({"a": [1, 0], "b": []}, {}, "b: no field holds scores"),
        ({"a": [1, 0], "b": [0, 1]}, {"clusters": {0: "p", 1: "p"}}, "must have at least two; all items are in 'p'"),
        (
            {"a": [1, 0], "b": [0, 1]},
            {"clusters": {0: "p"}},
            "name the cluster of every item; 1 have none, such as '1'",
        ),
        ({"a": [1, 0], "b": [0, 1]}, {"detect": 0}, "`detect` must be"),
        ({"a": [1, 0], "b": [0, 1]}, {"clusters": "page"}, r"a\[0\]: no field 'page', which `clusters` names"),
        ({"a": [{"score": 1}], "b": [0, 1]}, {}, r"a\[0\]: no item; one of the fields 'doc_id'"),
        ({"a": [{"id": 1, "acc": 1, "f1": 0.5}], "b": [0]}, {}, "a: has several scores: 'acc', 'f1'. Choose one with"),
        ({"a": [{"id": 1, "acc": 1}], "b": [0]}, {"metric": "f1"}, "a: no score 'f1', which `metric` names; there are"),
        ({"a": [{"id": 1, "x": 1}, {"id": 2, "x": "?"}], "b": [0]}, {"metric": "x"}, "the score 'x' must be a number"),
        ({"a": [{"id": math.nan, "score": 1}], "b": [0]}, {}, r"a\[0\]: no item; one of the fields 'doc_id'"),
        ({"a": [{"id": True, "score": 1}], "b": [0]}, {}, r"a\[0\]: the item must be a text or a number; got True"),
        ({"a": {math.nan: 1, 1: 0}, "b": [0]}, {}, r"a\[0\]: no item; one of the fields 'doc_id'"),
        ({s: [{"id": 1, "score": 1, "page": math.nan}] for s in "ab"}, {"clusters": "page"}, "no field 'page', which"),
        ({"a": "gone.jsonl", "b": [0]}, {}, "gone.jsonl: no such file"),
        (
            {"a": [{"id": 1, "score": 1, "cluster": "p"}, {"id": 1, "score": 0, "cluster": "q"}], "b": [0]},
            {},
            "item '1' is in the clusters 'p' and 'q'",
        ),
        (
            {s: [{"id": i, "score": 1, "cluster": s + str(i)} for i in (1, 2)] for s in "ab"},
            {},
            "item '1' must be in the same cluster for all systems; got 'a1' and 'b1'",
        ),
    ],
)
def test_what_cannot_be_compared(systems, options, message):
    with pytest.raises(InputError, match=message.replace("?", "[?]")):
        compare_items(systems, **options)


# --- logs


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def harness(values, **more):
    """As lm-evaluation-harness writes samples, here of a task with choices."""
    rest = {"doc": {"passage": "p"}, "target": "1", "arguments": [["Q", " a"]], "resps": [[["-1.5", "False"]]]}
    return [{"doc_id": i, **rest, "acc": value, "acc_norm": 1 - value, **more} for i, value in enumerate(values)]


A, B = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0, 0.0, 1.0]


def means(systems, **options):
    return {name: score.value for name, score in compare_items(systems, **options).scores.items()}


EXPECTED = {"a": approx(4 / 6), "b": approx(2 / 6)}


def test_logs_of_the_harness(tmp_path):
    logs = {name: write_lines(tmp_path / f"{name}.jsonl", harness(v)) for name, v in (("a", A), ("b", B))}
    assert means(logs, metric="acc") == EXPECTED
    with pytest.raises(InputError, match="a: has several scores: 'acc,none', 'acc_norm,none'"):
        compare_items(logs)
    with pytest.raises(InputError, match="all items are in 'p'"):
        compare_items(logs, metric="acc", clusters="doc.passage")
    filtered = [row for name in ("strict", "loose") for row in harness(A, filter=name, metrics=["acc"])]
    logs["a"] = write_lines(tmp_path / "filtered.jsonl", filtered)
    assert means({"a": logs["a"], "b": B}, metric="acc,loose") == EXPECTED
    with pytest.raises(InputError, match="'acc,strict', 'acc,loose'"):
        compare_items(logs, metric="acc")


def test_logs_of_inspect(tmp_path):
    def sample(item, epoch, grade):
        scores = {"match": {"value": grade, "answer": "x"}}
        return {"id": item, "epoch": epoch, "input": "Q", "output": {"completion": "x"}, "scores": scores}

    with zipfile.ZipFile(tmp_path / "a.eval", "w") as archive:
        for item, value in enumerate(A):
            for epoch in (1, 2):
                text = json.dumps(sample(item, epoch, "C" if value else "I"))
                archive.writestr(f"samples/{item}_epoch_{epoch}.json", text)
    log = {"eval": {}, "samples": [sample(item, 1, bool(value)) for item, value in enumerate(B)]}
    (tmp_path / "b.json").write_text(json.dumps(log))
    assert means({"a": tmp_path / "a.eval", "b": tmp_path / "b.json"}) == EXPECTED
    partly = [
        {"id": 0, "scores": {"m": "P"}},
        {"id": 1, "scores": {"m": None}},
        {"id": 2, "scores": {"m": {"value": "N"}}},
    ]
    assert means({"a": partly, "b": B})["a"] == 0.25


def test_logs_of_helm(tmp_path):
    def entry(item, value):
        stats = [{"name": {"name": "exact_match", "split": "test"}, "count": 1, "mean": value}]
        stats.append({"name": {"name": "exact_match", "perturbation": {"name": "typos"}}, "count": 1, "mean": 0.0})
        return {"instance_id": f"id{item}", "train_trial_index": 0, "stats": stats}

    logs = {}
    for name, values in (("a", A), ("b", B)):
        logs[name] = tmp_path / f"{name}.json"
        logs[name].write_text(json.dumps([entry(item, value) for item, value in enumerate(values)]))
    assert means(logs) == EXPECTED


def test_plain_columns(tmp_path):
    pandas = pytest.importorskip("pandas")
    for name, words in (("a", ["TRUE", "false"]), ("b", ["1", "0.0"])):
        with gzip.open(tmp_path / f"{name}.csv.gz", "wt", newline="") as file:
            table = csv.writer(file)
            table.writerow(["item", "score", "length", "cluster"])
            values = A if name == "a" else B
            table.writerows([i, words[0] if v else words[1], 7, f"c{i // 2}"] for i, v in enumerate(values))
    logs = {name: tmp_path / f"{name}.csv.gz" for name in "ab"}
    assert means(logs) == EXPECTED
    assert compare_items(logs).clusters == 3
    frame = pandas.DataFrame({"id": range(6), "correct": np.array(A, bool)})
    assert means({"a": frame, "b": B}) == EXPECTED
    (tmp_path / "short.csv").write_text("item,score\n1\n")
    with pytest.raises(InputError, match=r"short\.csv\[2\]: the number of columns differs"):
        compare_items({"a": tmp_path / "short.csv", "b": B})
    (tmp_path / "open.csv").write_text('item,score\n"1,1\n')
    with pytest.raises(InputError, match="invalid CSV"):
        compare_items({"a": tmp_path / "open.csv", "b": B})
    (tmp_path / "odd.csv").write_text("item,score\n1,0_1\n")
    with pytest.raises(InputError, match=r"a: no field holds scores"):
        compare_items({"a": tmp_path / "odd.csv", "b": B})
    (tmp_path / "twice.csv").write_text("item,score,score\n1,0,1\n")
    with pytest.raises(InputError, match=r"twice\.csv: two columns are named `score`. Rename one of them"):
        compare_items({"a": tmp_path / "twice.csv", "b": B})
    with pytest.raises(InputError, match=r"the table: two columns are named `id`. Rename one of them"):
        compare_items({"a": pandas.DataFrame([[1, 2, 1]], columns=["id", "id", "score"]), "b": B})
    (tmp_path / "c.jsonl").write_text('{"id": 0, "score": 1}\n{\n')
    with pytest.raises(InputError, match=r"a\[2\]: invalid JSON"):
        compare_items({"a": tmp_path / "c.jsonl", "b": B})
    (tmp_path / "c.txt").write_text("1\n")
    with pytest.raises(InputError, match=r"scores are read from \.jsonl, \.json, \.csv and \.eval files; got \.txt"):
        compare_items({"a": tmp_path / "c.txt", "b": B})


@pytest.mark.skipif(not SCHOOL.exists(), reason="needs ../shared/data")
def test_four_systems_on_grade_school_math():
    names = ["6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification"]
    result = compare_items({name: SCHOOL / f"{name}.jsonl.gz" for name in names})
    assert list(result.scores) == ["175b_verification", "6b_verification", "175b_finetuning", "6b_finetuning"]
    assert result.items == 1319
    assert {name: round(score.value * 1319) for name, score in result.scores.items()} == {
        "175b_verification": 742, "6b_verification": 515, "175b_finetuning": 458, "6b_finetuning": 286,
    }  # fmt: skip
    assert list(result.ranks.values()) == [(1, 1), (2, 2), (3, 3), (4, 4)]
