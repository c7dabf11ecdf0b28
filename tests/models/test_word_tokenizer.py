"""The word tokenizer: scripts of many kinds, and nothing visible is lost."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mallow.models import TokenFile, _tokens, words


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Don’t STOP, it's 3.14 a_b!", ["don’t", "stop", ",", "it's", "3", ".", "14", "a_b", "!"]),
        ("'quoted' -- x", ["'", "quoted", "'", "-", "-", "x"]),
        ("", []),
        (" \t\n\u2003", []),
        ("👩‍💻👍🏽 ❤️ 🇬🇧🇫🇷 1️⃣", ["👩‍💻", "👍🏽", "❤️", "🇬🇧", "🇫🇷", "1️⃣"]),
        ("السلام عليكم، كيف حالك؟", ["السلام", "عليكم", "،", "كيف", "حالك", "؟"]),
        ("שָׁלוֹם עֲלֵיכֶם!", ["שָׁלוֹם", "עֲלֵיכֶם", "!"]),
        ("\u200fשלום\u200e abc", ["שלום", "abc"]),
        ("می‌خواهم", ["می‌خواهم"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("我喜欢Python。です", ["我", "喜", "欢", "python", "。", "で", "す"]),
        ("Cafe\u0301", ["caf\u00e9"]),
        ("ÀÉ Ω", ["àé", "ω"]),
        ("a\ud800b", ["a", "\ud800", "b"]),
    ],
    ids=lambda value: ascii(value)[:24] if isinstance(value, str) else "",
)
def test_words_of_many_scripts(text, tokens):
    assert words(text) == [unicodedata.normalize("NFC", token) for token in tokens]


@given(text=st.text())
def test_words_lose_nothing_that_can_be_seen(text):
    joined = "".join(words(text))
    assert not any(character.isspace() for character in joined)
    kept = unicodedata.normalize("NFC", text.lower())
    visible = [c for c in kept if not c.isspace() and unicodedata.category(c)[0] not in "CM"]
    assert [c for c in joined if unicodedata.category(c)[0] not in "CM"] == visible


PLAIN = [chr(code) for code in (*range(0x300), *range(0x2000, 0x20C0))]


@given(text=st.text(alphabet=st.one_of(st.sampled_from(PLAIN), st.sampled_from("aZ9_ '’-.\u0301é"))))
def test_plain_texts_have_the_same_words_by_the_short_pattern(text):
    """The full pattern is right for all texts; the short one, which is faster, must agree wherever it is used."""
    assert words(text) == _tokens._pattern().findall(unicodedata.normalize("NFC", text.lower()))


def test_all_plain_characters_are_treated_alike_by_both_patterns():
    for character in PLAIN:
        for text in (character, f"a{character}b", f"a'{character}", f"{character}’a"):
            assert words(text) == _tokens._pattern().findall(unicodedata.normalize("NFC", text.lower()))


def test_a_token_file_is_named_by_its_content_and_read_again_once_it_has_changed(tmp_path, monkeypatch):
    tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers: pip install 'mallow[human]'")

    def write(folder, *vocabulary):
        folder.mkdir(exist_ok=True)
        model = tokenizers.models.WordLevel({word: number for number, word in enumerate(vocabulary)}, unk_token="?")
        tokenizer = tokenizers.Tokenizer(model)
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        tokenizer.save(str(folder / "tokenizer.json"))
        return TokenFile(str(folder / "tokenizer.json"))

    first, second = write(tmp_path / "a", "?", "good", "day"), write(tmp_path / "b", "?", "day", "good")
    assert first.name.startswith("tokens of tokenizer.json@")
    assert first.name != second.name  # although the files have the same name
    assert (first("good day"), second("good day")) == ([1, 2], [2, 1])
    write(tmp_path / "a", "?", "day", "good")
    assert (first.name, first("good day")) == (second.name, [2, 1])
    write(tmp_path / "b", "?", "sun")
    for folder, ids in (("a", [2, 1]), ("b", [0, 0])):  # the same path from another folder
        monkeypatch.chdir(tmp_path / folder)
        assert TokenFile("tokenizer.json")("good day") == ids
