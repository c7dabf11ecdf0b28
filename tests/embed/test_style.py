"""The style of texts: encodings and line breaks change nothing, words do, and a text's features are its own."""

import hashlib
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mallow.embed import Embedder, embed_samples, find_embedder, style
from mallow.embed import _style as module
from mallow.errors import InputError

SENTENCE = "She said: “Don’t go – it’s 5 o’clock…” and left. Naïve cafés aren't (always) open. Straße"
texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=60)


def same(first, second):
    one, other = style([first, second])
    return bool((one == other).all())


def test_it_is_an_embedder_that_every_name_finds():
    assert isinstance(style, Embedder)
    assert style.name == "style-1(width=1024)"
    assert find_embedder("style", kind="text") == style
    assert find_embedder("style", kind="text", options={"width": 64})(["abc"]).shape == (1, 64)
    with pytest.raises(InputError, match="`width` must be an integer of at least 1; got 0"):
        find_embedder("style", kind="text", options={"width": 0})
    with pytest.raises(InputError, match="must embed image samples; style embeds text"):
        find_embedder("style", kind="image")


@pytest.mark.parametrize(
    "other",
    [
        SENTENCE.upper(),
        SENTENCE.replace(" ", "\r\n"),
        "\ufeff\t" + SENTENCE.replace(" ", " \u00a0 ") + "\n\n",
        SENTENCE.replace("“", '"').replace("”", '"').replace("’", "'").replace("–", "--").replace("…", "..."),
        unicodedata.normalize("NFD", SENTENCE),
        SENTENCE.replace("always", "al\u00adways"),
        "".join(chr(ord(letter) + 0xFEE0) if "a" <= letter <= "z" else letter for letter in SENTENCE),
    ],
    ids=["case", "line breaks", "spaces", "quotes", "decomposed", "soft hyphen", "full width"],
)
def test_encodings_and_line_breaks_change_nothing(other):
    assert same(SENTENCE, other)


def test_words_change_it():
    for other in ("left", "always", "Naïve"):
        assert not same(SENTENCE, SENTENCE.replace(other, "right"))
    assert not same("an ice man", "a nice man")


@given(st.lists(texts, min_size=1, max_size=8))
@example(["", "a", "", "\u00ad", "b c", " "])
def test_the_features_of_a_text_do_not_depend_on_the_others(samples):
    together = style(samples)
    assert together.dtype == np.float32
    assert (together == np.concatenate([style([text]) for text in samples])).all()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CHUNK", 30)
        assert (together == style(samples)).all()


@given(texts)
def test_rows_have_length_1_unless_there_is_no_letter(text):
    (row,) = style([text])
    has_letters = any(unicodedata.category(char)[0] in "LM" for char in unicodedata.normalize("NFKC", text).casefold())
    if not has_letters:
        assert not row.any()
    elif row.any():  # two runs that cancel each other leave nothing
        assert abs(float(row.astype(np.float64) @ row) - 1) < 1e-6


@pytest.mark.parametrize("text", ["", " ", "12:30", "!?", "\ufeff", "🙂"])
def test_a_text_without_letters_is_a_row_of_zeros(text):
    assert not style([text, "word"])[0].any()


@pytest.mark.parametrize("text", ["我们今天去看电影", "ฉันรักภาษาไทย", "私は学生です", "हिन्दी में लिखना", "a"])
def test_languages_without_spaces_and_single_letters_have_features(text):
    assert style([text])[0].any()
    assert not same(text, text[::-1] + "b")


def test_the_bits_are_those_that_were_recorded():
    rows = style([SENTENCE, "我们今天去看电影。", "The quick brown fox jumps over the lazy dog."])
    assert hashlib.sha256(rows.tobytes()).hexdigest()[:16] == "004f7a7d587877e7"


def test_nothing_is_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("MALLOW_CACHE", str(tmp_path / "cache"))
    embedded = embed_samples(["one two", "three", "one two"], "style")
    assert embedded.embedder == style.name
    assert (embedded.features == style(["one two", "three", "one two"])).all()
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("wrong", ["one text", [1], []])
def test_what_is_not_a_list_of_texts_is_refused(wrong):
    with pytest.raises(InputError, match="`samples` must"):
        style(wrong)
