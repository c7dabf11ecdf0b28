"""One table of all measures: its numbers are those of the functions, and what is nearest to the reference is marked."""

import json
import pydoc_data.topics
import warnings

import numpy as np
import pytest
from pytest import approx

import mallow
from mallow import baselines
from mallow.baselines import Table, table
from mallow.baselines import _table as side_by_side
from mallow.errors import InputError
from mallow.generate import NGram

WORDS = " ".join(pydoc_data.topics.topics.values()).split()
PIECES = [" ".join(WORDS[start : start + 30]) for start in range(0, 30 * 240, 30)]


def by_letters(texts):
    """An embedder that needs no model: how often each letter occurs."""
    return np.array([[text.count(letter) for letter in "etaoinshr_`*"] for text in texts], float)


@pytest.fixture(scope="module")
def texts():
    greedy = [" ".join(text.split()[:10] * 3) for text in PIECES[160:240]]  # in loops
    return PIECES[:80], {"human": PIECES[80:160], "loops": greedy}


@pytest.fixture(scope="module")
def found(texts):
    scorer = NGram.fit(PIECES[::3], order=3)
    return table(*texts, embedder=by_letters, scorer=scorer, repeats=2)


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(0)
    return rng.normal(size=(300, 5)), {"near": rng.normal(size=(300, 5)), "far": rng.normal(1.5, 1, size=(300, 5))}


def test_numbers_are_those_of_the_functions(found, texts):
    reference, systems = texts
    own, human = systems["loops"], found.values["loops"]
    with warnings.catch_warnings(action="ignore"):
        score = mallow.score(reference, own, embedder=by_letters, repeats=2)
        chi2 = mallow.score(
            reference, own, embedder=by_letters, repeats=2, measure=mallow.Measure(divergence=mallow.CHI2)
        )
        x, y = by_letters(reference), by_letters(own)
        assert human["MAUVE* KL"] == score.mauve
        assert human["FI KL"] == score.frontier_integral
        assert human["Mid KL"] == score.midpoint
        assert human["MAUVE* χ²"] == chi2.mauve
        assert human["Fréchet distance"] == baselines.frechet_distance(x, y)
        assert human["discriminator"] == baselines.discriminator_accuracy(x, y)
        assert human["density"] == baselines.precision_recall(x, y).density
    assert human["self-BLEU(4)"] == baselines.self_bleu(own)
    assert human["perplexity"] == baselines.perplexity(NGram.fit(PIECES[::3], order=3), own)


def test_the_reference_has_its_own_statistics_and_the_limits_of_distances(found, texts):
    ideal = {column.name: column.ideal for column in found.columns}
    assert ideal["repetition"] == baselines.repetition(texts[0])
    assert ideal["discriminator"] == 0.5
    assert ideal["MAUVE* TV"] == 1
    assert ideal["FI TV"] == ideal["Fréchet distance"] == 0
    assert set(ideal) == set(found.values["human"]) == set(found.values["loops"])


def test_statistics_of_texts_tell_human_text_from_loops(found):
    told = {column.name for column in found.columns if found.closest(column.name) == ("human",)}
    assert told >= {column.name for column in found.columns if column.group == "text"} - {"Zipf coefficient"}


def test_features_have_no_text_statistics(points):
    pytest.importorskip("ot", reason="needs POT: pip install 'mallow[transport]'")
    with warnings.catch_warnings(action="ignore"):
        found = table(*points, repeats=1)
    assert {column.group for column in found.columns} == {"features", "transport", "frontier"}
    assert all(found.closest(column.name) == ("near",) for column in found.columns)
    assert found.n == {"": 300, "near": 300, "far": 300}


def test_transport_is_left_out_with_a_note_where_pot_is_missing(points, monkeypatch):
    monkeypatch.setattr(side_by_side, "find_spec", lambda name: None)
    found = table(*points, repeats=1)
    assert "transport" not in {column.group for column in found.columns}
    assert found.notes[0] == "transport is left out: it needs POT. Run: pip install 'mallow[transport]'"


def test_forms(found):
    assert Table.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    with pytest.raises(InputError, match=r"`data` must be what Table.to_dict wrote; its kind is 'mallow score'"):
        Table.from_dict({"kind": "mallow score"})
    text = found.to_text()
    assert "\n* closest to the reference\n" in text
    lines = {line[:14].strip(): line for line in text.splitlines()}
    assert lines["repetition"].split() == ["repetition", "0", "0*", "1"]
    assert "| repetition | 0 | **0** | 1 |" in found.to_markdown().splitlines()
    assert r"repetition & 0 & \textbf{0} & 1 \\" in found.to_latex().splitlines()
    assert r"MAUVE* $\chi^2$" in found.to_latex()


def test_names_are_escaped(points):
    odd = {r"a|b\c_d%": points[1]["near"]}
    found = table(points[0], odd, repeats=1)
    assert r"| a\|b\c_d% |" in found.to_markdown().splitlines()[0]
    assert r" & reference & a|b\textbackslash{}c\_d\% \\" in found.to_latex().splitlines()


def test_equal_systems_are_both_marked(points):
    found = table(points[0], {"a": points[1]["near"], "b": points[1]["near"]}, repeats=1)
    assert found.closest("precision") == ("a", "b")
    with pytest.raises(
        InputError, match=r"`name` must be a measure of the table, one of Fréchet distance, .*; got 'fid'"
    ):
        found.closest("fid")


def test_a_reference_against_itself_is_perfect(points):
    x = points[0]
    values = table(x, {"same": x.copy()}, repeats=1).values["same"]
    assert values["MAUVE* KL"] == values["precision"] == values["recall"] == values["coverage"] == 1
    assert values["Fréchet distance"] == approx(0, abs=1e-9)


def test_bad_input(points, texts):
    x, y = points[0], points[1]["near"]
    with pytest.raises(InputError, match="`systems` must name at least one; got none"):
        table(x, {})
    with pytest.raises(InputError, match="`systems` must have names; one is empty"):
        table(x, {"": y})
    with pytest.raises(InputError, match="All samples must be of one kind; got reference: text, m: features"):
        table(texts[0], {"m": y}, embedder=by_letters)
    with pytest.raises(InputError, match=r"^m: `texts` must hold at least 2"):
        table(texts[0], {"m": ["one text only"]}, embedder=by_letters)
    with pytest.raises(InputError, match=r"^m: "):
        table(x, {"m": y[:, :3]})
    with pytest.raises(InputError, match=r"^m: `model` must be finite; got 1500 NaN"):
        table(x, {"m": np.full_like(y, np.nan)})


def test_equal_texts_and_constant_features_have_their_limits(texts):
    found = table(texts[0], {"one": ["the same text again and again"] * 80}, embedder=by_letters, repeats=1)
    one = found.values["one"]
    assert one["self-BLEU(4)"] == approx(1)
    assert "5-gram MAUVE" not in one  # no model can be fitted to one half of them and judge the other
    assert any(note.startswith("one: 5-gram MAUVE is left out: `model` must hold enough diff") for note in found.notes)
    assert one["recall"] == 0
    assert one["discriminator"] > 0.9
    assert one["MAUVE* KL"] < 0.2


def test_a_measure_that_one_system_lacks(texts):
    systems = {"human": texts[1]["human"], "one": ["the same text again and again"] * 80}
    found = table(texts[0], systems, embedder=by_letters, repeats=1)
    assert found.closest("5-gram MAUVE") == ("human",)
    [line] = [line for line in found.to_text().splitlines() if line.startswith("5-gram")]
    assert line.split()[-1] == "–"


def test_two_folders_of_images(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")
    rng = np.random.default_rng(0)
    for name, brightness in (("real", 128), ("good", 128), ("dark", 60)):
        (tmp_path / name).mkdir()
        for number in range(60):
            pixels = rng.normal(brightness, 20, size=(8, 8, 3)).clip(0, 255).astype(np.uint8)
            image.fromarray(pixels).save(tmp_path / name / f"{number}.png")

    def by_rows(paths):
        return np.stack([np.asarray(image.open(path), float).mean(axis=(1, 2)) for path in paths])

    with warnings.catch_warnings(action="ignore"):
        found = table(
            tmp_path / "real", {name: tmp_path / name for name in ("good", "dark")}, embedder=by_rows, repeats=1
        )
    assert "text" not in {column.group for column in found.columns}
    for name in ("Fréchet distance", "kernel distance", "precision", "recall", "MAUVE* KL"):
        assert found.closest(name) == ("good",)
