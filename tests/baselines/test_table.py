"""The table of all measures: its values equal those of the functions, and the closest to the reference are marked."""

import pydoc_data.topics
import re
import warnings

import numpy as np
import pytest
from pytest import approx

import mallow
from mallow import HELLINGER2, TV, baselines
from mallow.baselines import Row, Table, table
from mallow.baselines._groups import IDEALS
from mallow.errors import EstimateWarning, InputError
from mallow.generate import NGram
from mallow.theory.transport import entropic_cost, sliced_cost, transport_cost

WORDS = " ".join(pydoc_data.topics.topics.values()).split()
PIECES = [" ".join(WORDS[start : start + 30]) for start in range(0, 30 * 240, 30)]


def by_letters(texts):
    """An embedder that needs no model: counts of letters."""
    return np.array([[text.count(letter) for letter in "etaoinshr_`*"] for text in texts], float)


@pytest.fixture(scope="module")
def texts():
    loops = [" ".join(text.split()[:10] * 3) for text in PIECES[160:240]]
    return PIECES[:80], {"human": PIECES[80:160], "loops": loops}


@pytest.fixture(scope="module")
def result(texts):
    scorer = NGram.fit(PIECES[::3], order=3)
    return table(*texts, embedder=by_letters, scorer=scorer, repeats=2)


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(0)
    return rng.normal(size=(300, 5)), {"near": rng.normal(size=(300, 5)), "far": rng.normal(1.5, 1, size=(300, 5))}


def test_plain_divergences_are_those_of_the_histograms(points):  # paper: table:fdiv, the columns TV and H²
    x, systems = points
    with warnings.catch_warnings(action="ignore"):
        made, masses = table(x, systems, repeats=1), mallow.score(x, systems["near"], repeats=1).masses
    values = made.values["near"]
    assert values["TV*"] == approx(float(TV(masses)), rel=1e-8)
    assert values["TV*"] == approx(2 * values["Mid TV"], rel=1e-8)
    assert values["Hellinger²*"] == approx(float(HELLINGER2(masses)), rel=1e-8)
    assert {row.name: row.ideal for row in made.rows[-2:]} == {"TV*": 0.0, "Hellinger²*": 0.0}


def test_values_equal_those_of_the_functions(result, texts):
    reference, systems = texts
    own, values = systems["loops"], result.values["loops"]
    with warnings.catch_warnings(action="ignore"):
        score = mallow.score(reference, own, embedder=by_letters, repeats=2)
        chi2 = mallow.score(
            reference, own, embedder=by_letters, repeats=2, measure=mallow.Measure(divergence=mallow.CHI2)
        )
        x, y = by_letters(reference), by_letters(own)
        assert values["MAUVE* KL"] == score.mauve
        assert values["FI KL"] == score.frontier_integral
        assert values["Mid KL"] == score.midpoint
        assert values["MAUVE* χ²"] == chi2.mauve
        assert values["Fréchet distance"] == approx(baselines.frechet_distance(x, y), rel=1e-9)
        assert values["discriminator"] == approx(baselines.discriminator_accuracy(x, y), rel=1e-9)
        assert values["density"] == approx(baselines.precision_recall(x, y).density, rel=1e-9)
        assert values["clipped density"] == approx(baselines.clipped_shares(x, y).density, rel=1e-9)
    assert values["self-BLEU(4)"] == approx(baselines.self_bleu(own), rel=1e-9)
    assert values["perplexity"] == approx(baselines.perplexity(NGram.fit(PIECES[::3], order=3), own), rel=1e-9)


def test_the_reference_has_its_own_statistics_and_the_limits_of_distances(result, texts):
    ideal = {row.name: row.ideal for row in result.rows}
    assert ideal["repetition"] == baselines.repetition(texts[0])
    perfect = {"5-gram MAUVE", "precision", "recall", "density", "coverage", "MAUVE_OT", "MAUVE_OT bary"}
    perfect |= {"clipped density", "clipped coverage"}
    perfect |= {f"MAUVE* {name}" for name in ("KL", "χ²", "TV", "Hellinger²", "JS", "Le Cam")}
    of_reference = {row.name for row in result.rows if row.group == "text"} | {"Vendi score", "entropic transport"}
    limits = {name: value for name, value in ideal.items() if name in perfect or name not in of_reference}
    assert limits == {name: 0.5 if name == "discriminator" else float(name in perfect) for name in limits}
    assert perfect <= set(limits)
    assert set(ideal) == set(result.values["human"]) == set(result.values["loops"])


def test_text_statistics_distinguish_human_text_from_loops(result):
    correct = {row.name for row in result.rows if result.closest(row.name) == ("human",)}
    assert correct >= {row.name for row in result.rows if row.group == "text"} - {"Zipf coefficient"}


def test_features_have_no_text_statistics(points):
    pytest.importorskip("ot", reason="needs POT: pip install 'mallow[transport]'")
    with warnings.catch_warnings(action="ignore"):
        result = table(*points, repeats=1)
    assert {row.group for row in result.rows} == {"features", "transport", "frontier"}
    assert all(result.closest(row.name) == ("near",) for row in result.rows)
    assert result.n == {"": 300, "near": 300, "far": 300}


def test_every_measure_of_features_has_a_row_and_a_value_for_every_system(points):
    pytest.importorskip("ot", reason="needs POT: pip install 'mallow[transport]'")
    x, systems = points
    with warnings.catch_warnings(action="ignore"):
        result = table(x, systems, repeats=1)
        plugin, entropic = transport_cost(x, systems["far"]), entropic_cost(x, systems["far"])
        sliced, vendi = sliced_cost(x, systems["far"], rng=0), baselines.vendi_score(systems["far"])
    names = {row.name for row in result.rows}
    assert names == {*IDEALS, "Vendi score", "entropic transport"} - {"5-gram MAUVE"}
    assert all(set(values) == names for values in result.values.values())
    far = result.values["far"]
    assert far["transport"] == approx(plugin, rel=1e-6)
    assert far["entropic transport"] == approx(entropic, rel=1e-6)
    assert far["sliced transport"] == approx(sliced, rel=1e-6)
    assert far["Vendi score"] == approx(vendi, rel=1e-6)
    assert far["Gaussian kernel distance"] == approx(baselines.gaussian_kernel_distance(x, systems["far"]), rel=1e-6)
    assert far["kernel distance"] == approx(baselines.kernel_distance(x, systems["far"]), rel=1e-6)


def test_without_pot_transport_is_left_out_with_a_caveat(points, monkeypatch):
    monkeypatch.setattr("mallow.baselines._table.find_spec", lambda name: None)
    words = r"transport is left out, because it needs POT: .*pip install '.*\[transport\]'"
    with pytest.warns(EstimateWarning, match=words):
        result = table(*points, repeats=1)
    assert "transport" not in {row.group for row in result.rows}
    (caveat,) = result.caveats
    assert (caveat.kind, caveat.values) == ("left out", {})
    assert re.fullmatch(words, caveat.message)


def test_text_and_tables(result):
    text = str(result)
    assert text.startswith(
        f"{len(result.rows)} measures of 2 systems against a reference of 80 samples (by_letters, width=12)\n"
    )
    assert "\n* closest to the reference" in text
    lines = {line[:14].strip(): line for line in text.splitlines()}
    assert lines["repetition"].split() == ["repetition", "0", "0*", "1"]
    assert "| repetition | 0 | **0** | 1 |" in result.table("markdown").splitlines()
    assert r"repetition & 0 & \textbf{0} & 1 \\" in result.table("latex").splitlines()
    assert r"MAUVE* $\chi^2$" in result.table("latex")


def test_json(result):
    assert Table.from_json(result.to_json()) == result
    assert result.to_dict()["closest"]["repetition"] == ["human"]
    with pytest.raises(InputError, match=r"`data` must be what Table.to_dict wrote, but its kind is 'mallow score'"):
        Table.from_dict({"kind": "mallow score"})


def test_data_frame(result):
    pytest.importorskip("pandas", reason="needs pandas: pip install 'mallow[frames]'")
    frame = result.to_frame()
    assert len(frame) == sum(map(len, result.values.values()))
    [own] = frame[(frame.measure == "repetition") & (frame.system == "loops")].to_dict("records")
    assert own == {"measure": "repetition", "group": "text", "system": "loops", "value": 1.0, "reference": 0.0}


def test_the_picture_shows_every_rank(result):
    plt = pytest.importorskip("matplotlib.pyplot", reason="needs matplotlib: pip install 'mallow[plot]'")
    ax = result.plot()
    assert [label.get_text() for label in ax.get_xticklabels()] == ["human", "loops"]
    assert [label.get_text() for label in ax.get_yticklabels()] == [row.name for row in result.rows]
    shown = [text.get_text() for text in ax.texts]
    assert shown == [str(result.ranks(row.name)[system]) for row in result.rows for system in ("human", "loops")]
    plt.close(ax.figure)


def test_ranks_with_ties_missing_and_infinite_values():
    values = {"a": {"x": 0.5}, "b": {"x": 1.5}, "c": {"x": 3.0}, "d": {}, "e": {"x": float("inf")}}
    result = Table((Row("x", "text", 1.0),), values, {"": 9}, "features, width=1")
    assert result.ranks("x") == {"a": 1, "b": 1, "c": 3, "e": 4}
    assert result.closest("x") == ("a", "b")
    unbounded = Table((Row("x", "text", float("inf")),), values, {"": 9}, "features, width=1")
    assert unbounded.closest("x") == ("e",)


def test_names_are_escaped(points):
    odd = {r"a|b\c_d%": points[1]["near"]}
    result = table(points[0], odd, repeats=1)
    assert r"| a\|b\\c_d% |" in result.table("markdown").splitlines()[0]
    assert r" & reference & a\textbar{}b\textbackslash{}c\_d\% \\" in result.table("latex").splitlines()


def test_equal_systems_are_both_marked(points):
    result = table(points[0], {"a": points[1]["near"], "b": points[1]["near"]}, repeats=1)
    assert result.closest("precision") == ("a", "b")
    with pytest.raises(
        InputError, match=r"`name` must be a measure of the table, one of Fréchet distance, .*; got 'fid'"
    ):
        result.closest("fid")


def test_a_reference_against_itself_is_perfect(points):
    x = points[0]
    values = table(x, {"same": x.copy()}, repeats=1).values["same"]
    assert values["MAUVE* KL"] == values["precision"] == values["recall"] == values["coverage"] == 1
    assert values["Fréchet distance"] == approx(0, abs=1e-9)


def test_bad_input(points, texts):
    x, y = points[0], points[1]["near"]
    with pytest.raises(
        InputError, match=r"`systems` must name at least one system; got none\. Pass {'name': samples}\."
    ):
        table(x, {})
    with pytest.raises(InputError, match=r"`systems` must have names; one name is empty\."):
        table(x, {"": y})
    with pytest.raises(InputError, match="All samples must be of one kind; got reference: text, m: features"):
        table(texts[0], {"m": y}, embedder=by_letters)
    with pytest.raises(
        InputError, match=r"^m: `texts` must hold at least 2: self-BLEU compares each text with the others; got 1"
    ):
        table(texts[0], {"m": ["one text only"]}, embedder=by_letters)
    with pytest.raises(
        InputError, match=r"^m: `reference` and `model` must have features of the same width; got 5 and 3"
    ):
        table(x, {"m": y[:, :3]})
    with pytest.raises(InputError, match=r"^m: .*features must be finite; got nan in column 0\."):
        table(x, {"m": np.full_like(y, np.nan)})


def test_equal_texts_and_constant_features_have_their_limits(texts):
    with pytest.warns(
        EstimateWarning, match="^same: 5-gram MAUVE is left out: `model` must hold enough different texts"
    ):
        result = table(texts[0], {"same": ["the same text again and again"] * 80}, embedder=by_letters, repeats=1)
    values = result.values["same"]
    assert values["self-BLEU(4)"] == approx(1)
    assert "5-gram MAUVE" not in values  # no model can be fitted to one half of them and score the other
    assert [(caveat.kind, caveat.system) for caveat in result.caveats] == [("left out", "same")]
    assert values["recall"] == 0
    assert values["discriminator"] > 0.9
    assert values["MAUVE* KL"] < 0.2


def test_a_measure_that_is_missing_for_one_system(texts):
    systems = {"human": texts[1]["human"], "same": ["the same text again and again"] * 80}
    with pytest.warns(EstimateWarning, match="^same: 5-gram MAUVE is left out"):
        result = table(texts[0], systems, embedder=by_letters, repeats=1)
    assert result.closest("5-gram MAUVE") == ("human",)
    [line] = [line for line in result.table().splitlines() if line.startswith("5-gram")]
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
        result = table(
            tmp_path / "real", {name: tmp_path / name for name in ("good", "dark")}, embedder=by_rows, repeats=1
        )
    assert "text" not in {row.group for row in result.rows}
    for name in ("Fréchet distance", "kernel distance", "precision", "recall", "MAUVE* KL"):
        assert result.closest(name) == ("good",)


def test_an_unbiased_distance_below_0_is_not_far_from_0():
    rows = (Row("kernel distance", "features", 0.0), Row("accuracy", "features", 0.5))
    values = {"a": {"kernel distance": -2e-5, "accuracy": 0.4}, "b": {"kernel distance": 2e-6, "accuracy": 0.55}}
    noise = {name: dict.fromkeys(one, (1e-9, 1e-9)) for name, one in values.items()}
    made = Table(rows, values, {"": 9}, "features", noise=noise)
    assert made.ranks("kernel distance") == {"a": 1, "b": 2}
    assert made.leader("kernel distance") == ("a",)
    assert made.ranks("accuracy") == {"a": 2, "b": 1}
