"""Metrics against people: the paper's tables, intervals that cover, and bad input."""

import csv
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pytest import approx
from scipy import stats

import mallow
from human_votes import simulate
from made_results import made_comparison, made_score
from mallow import InputError
from mallow.human import Vote, Votes, correlate, rank, rank_all

pytestmark = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
REFERENCE = Path(__file__).resolve().parent.parent / "reference"
METRICS, PEOPLE = REFERENCE / "webtext_metrics.csv", REFERENCE / "webtext_human_scores.csv"

# Entries of tab:mauve:expt:gold-correlation-main that do not follow from the printed tables, and what does.
OTHERWISE = {
    ("REP", "Human-like"): -0.434,
    ("REP", "Interesting"): -0.485,
    ("REP", "Sensible"): -0.370,
    ("Self-BLEU", "Human-like"): 0.515,
}
NUMBERS = st.integers(3, 8).flatmap(
    lambda n: st.tuples(*(hnp.arrays(np.float64, n, elements=st.integers(0, 6).map(float)) for _ in range(2)))
)


@pytest.fixture(scope="module")
def paper():
    with pytest.warns(mallow.EstimateWarning):
        return correlate(METRICS, PEOPLE, reference="human", draws=200)


def test_the_table_of_correlations(paper):
    """paper: tab:mauve:expt:gold-correlation-main, rows BT, from tab:mauve:expt:webtext-full and …-human-eval-all."""
    with (REFERENCE / "webtext_correlations.csv").open() as stream:
        printed = {row.pop("criterion"): row for row in csv.DictReader(stream)}
    for criterion, row in printed.items():
        for metric, value in row.items():
            expected = OTHERWISE.get((metric, criterion), float(value))
            assert paper.of(metric, criterion).worst_case == approx(expected, abs=5e-4), (metric, criterion)
            if (metric, criterion) in OTHERWISE:
                assert abs(expected - float(value)) > 0.01


def test_correlations_between_the_questions():
    """paper: caption of tab:mauve:expt:webtext-human-eval-all; two of the three are exchanged there (erratum 7)."""
    questions = correlate(PEOPLE, PEOPLE, draws=100)
    assert questions.of("Human-like", "Interesting").spearman.value == approx(0.917, abs=5e-4)
    assert questions.of("Human-like", "Sensible").spearman.value == approx(0.967, abs=5e-4)
    assert questions.of("Interesting", "Sensible").spearman.value == approx(0.917, abs=5e-4)


def test_probabilities_of_the_paper():
    """paper: sec:a:human-eval:results: text loses to people with probability 0.578 (xl nucleus) and 0.679 (small sampling)."""
    with PEOPLE.open() as stream:
        scores = {row["system"]: float(row["Human-like"]) for row in csv.DictReader(stream)}
    lost = {name: 1 / (1 + np.exp((value - scores["human"]) / 100)) for name, value in scores.items()}
    assert lost["xl nucleus"] == approx(0.578, abs=5e-4)
    assert lost["small sampling"] == approx(
        0.679, abs=5e-4
    )  # the text says "small with nucleus sampling", which is 0.653
    assert lost["small nucleus"] == approx(0.653, abs=5e-4)


@given(NUMBERS)
def test_scipy_agrees(pair):
    x, y = pair
    first, second = ({name: dict(zip("abcdefgh", column, strict=False))} for name, column in (("x", x), ("y", y)))
    if np.ptp(x) and np.ptp(y):
        found = correlate(first, second, draws=100).of("x", "y")
        assert found.spearman.value == approx(stats.spearmanr(x, y)[0])
        assert found.kendall.value == approx(stats.kendalltau(x, y)[0])
        assert found.pearson.value == approx(stats.pearsonr(x, y)[0])
    else:
        with pytest.raises(InputError, match="must share at least 3 systems whose values differ"):
            correlate(first, second, draws=100)


@pytest.mark.parametrize(("r", "n"), [(0.0, 8), (0.9, 8), (0.95, 14)])
def test_intervals_cover_the_correlation_of_the_true_values(r, n):
    """Drawing both sides anew around the measurements would cover 50% or less for strong correlations."""
    rng = np.random.default_rng(1)
    inside = {"spearman": [], "kendall": [], "pearson": []}
    for _ in range(40):
        metric = rng.normal(size=n)
        people = r * metric + np.sqrt(1 - r * r) * rng.normal(size=n)
        seen = metric + 0.2 * rng.normal(size=n), people + 0.5 * rng.normal(size=n)
        own = {"m": {str(i): (v, 0.2) for i, v in enumerate(seen[0])}}
        theirs = {"q": {str(i): (v, 0.5) for i, v in enumerate(seen[1])}}
        one = correlate(own, theirs, draws=300, rng=rng).of("m", "q")
        for kind, function in zip(inside, (stats.spearmanr, stats.kendalltau, stats.pearsonr), strict=True):
            estimate = getattr(one, kind)
            assert estimate.low <= estimate.value <= estimate.high
            inside[kind].append(estimate.low <= function(metric, people)[0] <= estimate.high)
    assert {kind: np.mean(hits) > 0.86 for kind, hits in inside.items()} == dict.fromkeys(inside, True)


def table(values, std):
    return {str(i): (float(v), std) for i, v in enumerate(values)}


def test_the_best_is_marked_only_outside_the_noise():
    order = np.arange(12)
    people = {"q": table(10.0 * order, 0.5)}
    good, bad = table(order, 0.05), table(np.random.default_rng(0).permutation(12), 0.05)
    clear = correlate({"good": good, "bad": bad}, people)
    assert clear.best == {"q": "good"}
    assert clear._table().marked == {(0, 1)}
    assert "above all others outside the noise" in str(clear)
    near = table([0, 1, 3, 2, *range(4, 12)], 0.6)
    noisy = correlate({"good": table(order, 0.6), "near": near}, people)
    assert noisy.of("near", "q").spearman.value < noisy.of("good", "q").spearman.value == 1
    assert noisy.best == {"q": None}
    assert "but not above all others outside the noise" in str(noisy)
    assert correlate({"good": good, "same": good}, people).best == {"q": None}


def test_more_noise_widens_the_interval():
    values = np.arange(12)
    widths = []
    for std in (1.0, 30.0):
        one = correlate({"m": table(values, 0.1)}, {"q": table(10.0 * values, std)}).of("m", "q")
        widths.append(one.spearman.high - one.spearman.low)
    assert widths[0] < widths[1] / 3


def test_exact_values_have_no_interval(paper):
    one = correlate({"m": table([1, 2, 4, 3], 0.0)}, {"q": table([1, 2, 3, 4], 0.0)}).of("m", "q")
    assert one.spearman.low == one.spearman.value == one.spearman.high == approx(0.8)
    assert one.p_value == approx(8 / 24)  # of 24 orders 4 have a correlation of at least 0.8, and 4 of at most −0.8
    kinds = {caveat.kind for caveat in paper.caveats}
    assert kinds == {"no errors", "few systems"}


@pytest.mark.parametrize("order", [range(12), [0, 1, 3, 2, *range(4, 12)], [3, 11, 2, 0, 9, 6, 1, 10, 5, 8, 4, 7]])
def test_the_order_that_was_observed_counts_among_the_permutations(order):
    """Of many systems 9,999 orders are drawn: a p-value is a whole number of 10,000, and never 0."""
    one = correlate({"m": table(list(order), 0.0)}, {"q": table(range(12), 0.0)}).of("m", "q")
    share = 10_000 * one.p_value
    assert share == approx(round(share), abs=1e-7)
    if abs(one.spearman.value) > 0.99:
        assert one.p_value == approx(1 / 10_000)  # 12! orders: no drawn one comes as near
    else:
        assert one.p_value > 0.3


def test_rankings_bring_their_errors(tmp_path):
    truth = {"s1": 30.0, "s2": 20.0, "s3": 0.0, "s4": -10.0, "s5": -40.0}
    first, second = (simulate(truth, 700, seed, question=question) for seed, question in ((0, "like"), (1, "sense")))
    votes = mallow.human.Votes((*first, *second))
    metric = {"m": {name: (value, 5.0) for name, value in truth.items()} | {"extra": (1.0, 1.0)}}
    rankings = rank_all(votes)
    (tmp_path / "rankings.json").write_text(rankings.to_json())
    (tmp_path / "metric.json").write_text(json.dumps(metric))
    found = correlate(metric, rankings)
    assert set(found.people) == {"like", "sense"}
    assert found.of("m", "like").spearman.low < 0.9
    again = correlate(tmp_path / "metric.json", tmp_path / "rankings.json")
    assert again.to_json() == found.to_json()
    assert "only one side knows extra: they take no part." in str(found)
    single = correlate(metric, rank(votes, question="like"))
    assert single.of("m", "like").spearman.value == found.of("m", "like").spearman.value


def test_comparisons_and_baselines_are_metrics(tmp_path):
    rng = np.random.default_rng(0)
    human = rng.normal(size=(150, 3))
    systems = {f"s{i}": rng.normal(0.3 * i, 1, size=(150, 3)) for i in range(1, 5)}
    comparison = mallow.compare(human, systems, repeats=2)
    people = {"q": {name: (-10.0 * i, 3.0) for i, name in enumerate(systems)}}
    found = correlate(comparison, people)
    assert set(found.metrics) == {"published MAUVE", "certified MAUVE"}
    assert found.of("certified MAUVE", "q").spearman.value > 0.7
    assert all(std > 0 for _, std in found.metrics["published MAUVE"].values())
    baselines = mallow.baselines.table(human, systems, repeats=1)
    (tmp_path / "baselines.json").write_text(baselines.to_json())
    values = correlate(tmp_path / "baselines.json", people).metrics
    assert len(values) > 3
    assert all(value <= 0 for own in values.values() for value, _ in own.values())


def test_a_limit_that_is_cut_off_does_not_look_exact():
    """A certificate of 1 with the limit 1 has an unknown error, not none: that of the others takes its place."""
    limits = {"a": (1.0, 1.0), "b": (0.5, 0.6645), "c": (0.5, 1.0), "d": (0.4, 0.729)}
    comparison = made_comparison({name: value for name, (value, _) in limits.items()})
    scores = {name: made_score(area=value, high=high) for name, (value, high) in limits.items()}
    people = {"q": dict(zip(limits, (3.0, 2.0, 1.0, 0.0), strict=True))}
    metrics = correlate(replace(comparison, scores=scores), people, draws=100).metrics
    assert metrics["certified MAUVE"] == {
        "a": (1.0, approx(0.15)),
        "b": (0.5, approx(0.1)),
        "c": (0.5, approx(0.5 / 1.645)),
        "d": (0.4, approx(0.2)),
    }


def test_all_three_correlations_are_printed(paper):
    one = paper.of("MAUVE*", "Sensible")
    line = next(line for line in str(paper).splitlines() if line.startswith("MAUVE*") and "Sensible" in line)
    assert f"{one.kendall.value:.3f}" in line
    assert f"{one.pearson.value:.3f}" in line
    assert paper.other_table("markdown").startswith("|  |  | Kendall | 95% | Pearson |")


def test_the_picture_of_all(paper):
    figure = paper.figure()
    assert len(figure.axes) == 18
    assert figure.axes[15].get_title().startswith("Spearman 0.952")


@pytest.mark.parametrize(
    ("metrics", "people", "message"),
    [
        (
            {"m": {"a": 1.0, "b": 2.0}},
            {"q": {"a": 1.0, "b": 2.0}},
            "must share at least 3 systems whose values differ; metrics has a, b",
        ),
        (
            {},
            {"q": {"a": 1.0}},
            "`metrics` must be a result, a file, or a mapping of names to values by system; got dict",
        ),
        ({"m": [1, 2]}, {"q": {"a": 1.0}}, "`metrics` must map 'm' to values by system; got list"),
        (
            {"m": {"a": "x"}},
            {"q": {"a": 1.0}},
            r"`metrics\['m'\]\['a'\]` must be a number, or a number and its standard",
        ),
        ({"m": {"a": (1.0, -1.0)}}, {"q": {"a": 1.0}}, "must be a number, or a number and its standard deviation"),
        ({"m": {"a": 1.0}}, 5, "`people` must be a result, a file, or a mapping"),
        ({"m": {"a": 1, "b": 1, "c": 1}}, {"q": {"a": 1, "b": 2, "c": 3}}, "systems whose values differ"),
    ],
)
def test_mistakes_are_told(metrics, people, message):
    with pytest.raises(InputError, match=message):
        correlate(metrics, people)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "system,m\na\n", "x.csv:2: has 1 cells, and the heading has 2"),
        ("x.csv", "system\na\n", "must have a heading, and columns for the system and at least one value"),
        ("x.csv", "system,m\na,?\n", "x.csv:2: m` must be a number"),
        ("x.csv", "system,m,m\na,1,2\n", "x.csv:1: two columns have one name. Rename one of them: system, m, m"),
        ("x.csv", "system,m\na,1\na ,2\n", "x.csv:3: the system 'a' occurs twice. Keep one row for each system"),
        ("x.csv", "system,m\na,1_5\n", "x.csv:2: m` must be a number"),
        ("x.json", '{"m": {"a": true}}', "must be a number, or a number and its standard deviation; got True"),
        ("x.json", '{"m": {"a": [1, false]}}', r"must be a number, or a number and its standard deviation; got \[1, False\]"),
        ("x.json", "{", "x.json: is not JSON"),
        ("x.json", '{"kind": "mallow score"}', "must hold a ranking, a comparison, a table of baselines or values; got 'mallow score'"),
        ("x.txt", "", "x.txt: must end in .csv or .json; got 'x.txt'"),
    ],
)  # fmt: skip
def test_damaged_files_are_told(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        correlate(tmp_path / name, {"q": {"a": 1.0}})


def test_files_that_cannot_be_read_are_told(tmp_path, paper):
    with pytest.raises(InputError, match="cannot be read: No such file or directory"):
        correlate(tmp_path / "none.csv", PEOPLE)
    with pytest.raises(InputError, match="`draws` must be an integer of at least 100; got 5"):
        correlate(METRICS, PEOPLE, draws=5)
    with pytest.raises(InputError, match=r"`metric` and `criterion` must be among Gen. PPL, .* got 'x' and 'Sensible'"):
        paper.of("x", "Sensible")


def test_39_votes_say_little_and_the_interval_holds():
    """Four systems, three people, 13 prompts; systems differ from person to person and from prompt to prompt."""
    rng = np.random.default_rng(0)
    names, pairs = "abcd", list(itertools.combinations(range(4), 2))
    held, widths = [], []
    for _ in range(60):
        quality = rng.normal(size=4)
        metric = 0.6 * quality + 0.8 * rng.normal(size=4)
        person, prompt = rng.normal(0, 30, (3, 4)), rng.normal(0, 40, (13, 4))
        votes = []
        for number in range(39):
            who, about = number % 3, int(rng.integers(13))
            left, right = rng.permutation(pairs[number % 6])
            value = 50 * quality + person[who] + prompt[about]
            wins = rng.random() < 1 / (1 + np.exp((value[right] - value[left]) / 100))
            answer = -1 if wins else 1
            votes.append(Vote(names[left], names[right], answer, "q", f"person {who}", f"prompt {about}", 40.0))
        metrics = {"m": dict(zip(names, metric.tolist(), strict=True))}
        (found,) = correlate(metrics, rank(Votes(tuple(votes))), draws=400).correlations
        truth = float(stats.spearmanr(metric, quality).statistic)
        held.append(found.spearman.low - 1e-9 <= truth <= found.spearman.high + 1e-9)
        widths.append(found.spearman.high - found.spearman.low)
    assert np.mean(held) >= 0.9
    assert np.mean(widths) > 1.2  # of 2


def axes():
    return pytest.importorskip("matplotlib.figure").Figure().subplots()


@pytest.mark.parametrize("count", [12, 13])
def test_the_picture_has_a_point_with_both_errors_for_each_system(count):
    """Named in a legend for at most twelve systems."""
    names = [f"s{i}" if i else "a$b" for i in range(count)]
    values = {name: (float(i), 0.25 + i) for i, name in enumerate(names)}
    people = {name: (10.0 - i, 2.0) for i, name in enumerate(names)}
    found = correlate({"m$": values}, {"good": people}, draws=100)
    ax = found.plot(axes())
    for i, bars in enumerate(ax.containers):
        point, _, (across, up) = bars.lines
        assert point.get_xydata().tolist() == [[float(i), 10.0 - i]]
        assert across.get_segments()[0][:, 0].tolist() == [-0.25, 2 * i + 0.25]
        assert up.get_segments()[0][:, 1].tolist() == [8.0 - i, 12.0 - i]
    assert len(ax.containers) == count
    shown = [text.get_text() for text in ax.get_legend().get_texts()] if ax.get_legend() else []
    assert shown == ([name.replace("$", r"\$") for name in names] if count <= 12 else [])
    assert ax.get_xlabel() == r"m\$ (± 1 standard deviation)"
    assert ax.get_ylabel() == "good: people (± 1 standard error)"
    assert ax.get_title().startswith("Spearman −1.00") or ax.get_title().startswith("Spearman -1.00")


def test_the_picture_is_of_the_metric_that_agrees_best_and_the_grid_of_all():
    names = "abcdef"
    metrics = {
        "worse": {name: (float(i % 3), 0.0) for i, name in enumerate(names)},
        "best": {name: (float(i), 0.0) for i, name in enumerate(names)},
        "short": {"a": (1.0, 0.0), "z": (2.0, 0.0)},
    }
    people = {question: {name: (float(i), 1.0) for i, name in enumerate(names)} for question in ("good", "true")}
    found = correlate(metrics, people, draws=100)
    assert found.plot(axes()).get_xlabel().startswith("best ")
    assert found.plot(axes()).get_ylabel().startswith("good: ")
    other = found.plot(axes(), metric="worse", criterion="true")
    assert (other.get_xlabel()[:6], other.get_ylabel()[:5]) == ("worse ", "true:")
    grid = np.reshape(found.figure().axes, (len(found.metrics), 2))
    for row, metric in zip(grid, found.metrics, strict=True):
        for ax, question in zip(row, people, strict=True):
            if metric == "short":
                assert not ax.axison  # nothing to compare
                continue
            assert ax.get_xlabel().startswith(metric)
            assert ax.get_ylabel().startswith(question)
            assert (ax.get_legend() is not None) == (ax is grid[0, 0])  # one legend is enough
