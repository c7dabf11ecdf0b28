"""A grid of decoders: what is generated is kept, scores are those of compare, and no winner is named inside the noise."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

from mallow.errors import EstimateWarning, InputError
from mallow.evaluate import Comparison, Difference, Score, Sweep, compare, grid, sweep
from mallow.generate import GenerationPlan, NGram
from mallow.samples import Samples, read

WORDS = ["apple", "bear", "cat", "dune", "east", "fig", "gate", "hill", "ink", "jazz"]
DECODERS = ("nucleus:0.3", "nucleus:0.9", "nucleus:1.0", "greedy")
PLAN = GenerationPlan(n=2, max_new=12, rng=1)


def letters(texts):
    return np.array([[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], float)


@pytest.fixture(scope="module")
def human():
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS, p=np.arange(1, 11) / 55, size=20)) for _ in range(150)]


@pytest.fixture(scope="module")
def model(human):
    return NGram.fit(human, order=2)


@pytest.fixture(scope="module")
def swept(human, model, tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)  # few samples
        folder = tmp_path_factory.mktemp("sweep") / "made"
        patterns = ["nucleus:0.3,0.9,1", "greedy"]
        return sweep(human, model, patterns, folder, PLAN, tokens=4, embedder=letters, repeats=2)


def test_a_grid_is_every_combination():
    assert grid(["beam:2,4:no-repeat=3,4"]) == (
        "beam:2:length-penalty=1.0:no-repeat=3",
        "beam:2:length-penalty=1.0:no-repeat=4",
        "beam:4:length-penalty=1.0:no-repeat=3",
        "beam:4:length-penalty=1.0:no-repeat=4",
    )
    assert grid("greedy,ancestral") == ("greedy", "ancestral")
    assert grid(["top-k:5", "top-k:5,6"]) == ("top-k:5", "top-k:6")
    with pytest.raises(InputError, match=r"^`decoder` must have a number in nucleus:P; got '' in 'nucleus:'\.$"):
        grid(["nucleus:0.9,"])
    with pytest.raises(InputError, match=r"^`decoders` must name at least one decoder, such as .* got none\.$"):
        grid([])


def test_scores_are_those_of_compare_on_whole_texts_of_one_length(human, model, swept):
    assert swept.decoders == DECODERS
    assert swept.model == model.name
    cut = [model.decode(model.encode(text)[: 4 + 12]) for text in human]
    x = Samples(texts=tuple(cut), ids=tuple(str(i) for i in range(1, 151)))
    systems = {name: read(path) for name, path in swept.files.items()}
    assert [each.generations for each in systems.values()] == [2, 2, 2, 1]
    for each in systems.values():
        assert all(text.startswith(prompt) for text, prompt in zip(each.texts, each.prompts, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        expected = compare(x, systems, embedder=letters, repeats=2, rng=1)
    assert swept.comparison.to_dict() == expected.to_dict()
    scores = swept.comparison.scores
    assert scores["nucleus:0.3"].mauve < scores["nucleus:0.9"].mauve < scores["nucleus:1.0"].mauve + 0.2
    assert scores["nucleus:1.0"].signature.generations == 2


def test_wrong_repeats_are_refused_before_anything_is_generated(human, model, tmp_path):
    with pytest.raises(InputError, match="`repeats` must be an integer of at least 1; got 0"):
        sweep(human, model, ["greedy"], tmp_path / "made", PLAN, tokens=4, embedder=letters, repeats=0)
    assert not (tmp_path / "made").exists()


def test_what_was_generated_is_not_generated_again(human, model, swept):
    folder = swept.files["greedy"].parent
    stamps = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        more = sweep(human, model, ["greedy", "top-k:2"], folder, PLAN, tokens=4, embedder=letters, repeats=1)
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert more.files["top-k:2"].name == "top-k-2.jsonl"
    assert len(read(more.files["top-k:2"])) == 300
    with pytest.raises(InputError, match=r"was started with max_new = 12, not 13\."):
        sweep(human, model, ["greedy"], folder, GenerationPlan(max_new=13, rng=1), tokens=4, embedder=letters)


def test_short_texts(human, model, tmp_path):
    given = ["apple", *human[:140]]
    with pytest.raises(InputError, match=r"^`samples` must have at least 4 tokens each; 1 of 141"):
        sweep(given, model, ["greedy"], tmp_path, PLAN, tokens=4, embedder=letters)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", EstimateWarning)
        found = sweep(given, model, ["greedy"], tmp_path, PLAN, tokens=4, embedder=letters, repeats=1, skip_short=True)
    assert "1 of 141 texts are shorter than 4 tokens and were left out" in str(told[0].message)
    assert found.comparison.scores["greedy"].n == (140, 140)
    assert read(found.files["greedy"]).ids[0] == "2"
    own = found.comparison.scores["greedy"].verdict
    assert (found.winner, found.verdict) == (None, f"greedy was compared with the reference only. {own}")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file: the folder cannot be created: File exists\.$"):
        sweep(human, model, ["greedy"], tmp_path / "file", PLAN, tokens=4, embedder=letters)


# --- who is best


def fake(swept, scores, apart):
    """A sweep of these certified values in which these pairs are apart."""
    plain = next(iter(swept.comparison.scores.values())).to_dict()
    differences = [
        Difference(a, b, {"mauve": scores[a] - scores[b]}, {"mauve": (-1, 1)}, {"mauve": p_value}, {"mauve": p_value})
        for i, a in enumerate(scores)
        for b in list(scores)[i + 1 :]
        for p_value in [0.01 if {a, b} in apart else 0.5]
    ]
    made = {
        name: Score.from_dict(
            plain | {"certified": plain["certified"] | {"mauve": {"value": value, "low": 0, "high": 1}}}
        )
        for name, value in scores.items()
    }
    first = next(iter(scores))
    ranks = {first: (1, 1 + sum({first, other} not in apart for other in scores if other != first))}
    comparison = Comparison(made, tuple(differences), ranks, (), {}, None, swept.comparison.signature, ())
    return Sweep(tuple(scores), comparison, "model", {})


def test_no_winner_inside_the_noise(swept):
    scores = {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6}
    near = fake(swept, scores, [{"a", "c"}, {"a", "d"}, {"b", "d"}])
    assert (near.best, near.winner) == (("a", "b"), None)
    assert near.verdict == (
        "There is no clear winner: no difference was shown between the proven gaps of a and b (5% level, corrected for all pairs). "
        "Largest proven gaps: c and d, which were not shown to differ."
    )
    clear = fake(swept, scores, [{"a", other} for other in "bcd"])
    assert (clear.best, clear.winner) == (("a",), "a")
    assert clear.verdict.startswith("Smallest proven gap: a.")
    assert str(clear).startswith(clear.verdict)


def test_best_of_the_real_sweep(swept):
    assert "nucleus:0.3" not in swept.best
    assert "greedy" not in swept.best
    assert swept.best[0] == next(iter(swept.comparison.scores))
    data = json.loads(json.dumps(swept.to_dict()))
    assert (data["kind"], tuple(data["best"]), data["winner"]) == ("mallow sweep", swept.best, swept.winner)
    assert data["verdict"] == swept.verdict


# --- the picture


def test_families(swept):
    numbers = ((0.3, "nucleus:0.3"), (0.9, "nucleus:0.9"), (1.0, "nucleus:1.0"))
    assert swept.families == {"nucleus:…": numbers}
    crossed = Sweep(
        grid(["temperature:0.5,1+top-k:5,10", "greedy", "eta:0.0001,1e-05", "typical:0.9"]), swept.comparison, "m", {}
    )
    assert {family: [value for value, _ in each] for family, each in crossed.families.items()} == {
        "temperature:…+top-k:5": [0.5, 1.0],
        "temperature:…+top-k:10": [0.5, 1.0],
        "temperature:0.5+top-k:…": [5, 10],
        "temperature:1.0+top-k:…": [5, 10],
        "eta:…": [1e-05, 0.0001],
    }


def test_the_curve_is_drawn_with_its_band(swept):
    figure = pytest.importorskip("matplotlib.figure", reason="needs matplotlib: pip install 'mallow[plot]'").Figure()
    ax = swept.plot(figure.subplots())
    scores = swept.comparison.scores
    curve = ax.lines[0]
    assert curve.get_xdata().tolist() == [0.3, 0.9, 1.0]
    assert curve.get_ydata().tolist() == [scores[name].mauve for name in DECODERS[:3]]
    [band] = [each for each in ax.collections if each.get_label() == "95% of repeat samples"]
    inside = np.concatenate([path.vertices for path in band.get_paths()])
    for x, name in zip((0.3, 0.9, 1.0), DECODERS[:3], strict=True):
        low, high = scores[name].interval["mauve"]
        assert low <= scores[name].mauve <= high
        assert inside[np.isclose(inside[:, 0], x), 1].min() == pytest.approx(low)
        assert inside[np.isclose(inside[:, 0], x), 1].max() == pytest.approx(high)
    [certified] = ax.containers
    assert certified.lines[0].get_ydata().tolist() == [scores[name].certified["mauve"].value for name in DECODERS[:3]]
    reach = certified.lines[2][0].get_segments()
    assert [segment[1, 1] for segment in reach] == pytest.approx(
        [scores[name].certified["mauve"].high for name in DECODERS[:3]]
    )
    shown = {each.get_text() for each in ax.get_legend().get_texts()} - {"smallest proven gap"}
    inside = ax.get_ylim()[0] <= scores["greedy"].mauve <= ax.get_ylim()[1]
    greedy = "greedy, published" + ("" if inside else f": {scores['greedy'].mauve:.2f}, not in this part")
    assert ("smallest proven gap" in ax.get_legend_handles_labels()[1]) == (swept.winner in DECODERS[:3])
    assert shown == {
        "95% of repeat samples",
        greedy,
        "self-score",
        "nucleus:…, published",
        "certified, with its 95% confidence limit",
    }
    title = "MAUVE\n(1 = indistinguishable from the reference)"
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale()) == ("p of nucleus", title, "linear")
    low, high = ax.get_ylim()  # the curve, not the other decoders
    shown = [end for name in DECODERS[:3] for end in scores[name].interval["mauve"]]
    shown += [scores[name].certified["mauve"].value for name in DECODERS[:3]]
    assert low <= min(shown) <= low + 0.1 * (high - low)
    with pytest.raises(
        InputError, match=r"^`family` must be one of the families of decoders \(nucleus:…\); got 'beam'\.$"
    ):
        swept.plot(family="beam")


def test_what_is_missing_is_not_drawn(swept):
    figure = pytest.importorskip("matplotlib.figure", reason="needs matplotlib: pip install 'mallow[plot]'").Figure()
    scores = {name: replace(one, interval={}, certified={}) for name, one in swept.comparison.scores.items()}
    ax = replace(swept, comparison=replace(swept.comparison, scores=scores)).plot(figure.subplots())
    assert not ax.collections
    assert not ax.containers
    shown = {each.get_text() for each in ax.get_legend().get_texts()} - {"smallest proven gap"}
    greedy = next(text for text in shown if text.startswith("greedy, published"))
    assert shown == {greedy, "self-score", "nucleus:…, published"}


def test_several_families_are_drawn_one_below_the_other(swept):
    figure = pytest.importorskip("matplotlib.figure", reason="needs matplotlib: pip install 'mallow[plot]'").Figure()
    scores = {"nucleus:0.5": 0.9, "nucleus:0.6": 0.8, "top-k:1": 0.7, "top-k:500": 0.6}
    made = fake(swept, scores, [])
    ax = made.plot(figure.subplots())
    assert [each.get_text() for each in ax.get_yticklabels()] == list(scores)[::-1]
    ax = made.plot(figure.subplots(), family="top-k:…")
    assert ax.get_xscale() == "log"
