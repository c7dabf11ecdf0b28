"""Styles: the numbers, and the words for them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from explain.made import make_texts
from mallow.explain import numbers_apart
from mallow.explain._candidates import clip_tails
from mallow.explain._words import split_texts, style_candidates
from mallow.models import words


def styles_of(human, machine):
    """What would be said of each style, by its first words → (text, numbers, trait)."""
    texts = [*human, *machine]
    candidates = list(style_candidates(texts, split_texts(texts), len(human)))
    styles = []
    for one in candidates:
        means = one.trait[len(human) :].mean(), one.trait[: len(human)].mean()
        styles.append((*one.phrase(*means), one.trait))
    return styles


def said(human, machine):
    return [text for text, _, _ in styles_of(human, machine)]


@given(texts=st.lists(st.text(alphabet="ab ,.", max_size=30), min_size=2, max_size=6))
def test_repetition_is_the_share_of_phrases_that_occurred_before(texts):
    trait = next(trait for text, _, trait in styles_of(texts, texts) if "repeated phrases" in text)
    for text, own in zip(texts, trait, strict=False):
        tokens = [token for token in words(text) if token.isalnum()]
        phrases = [tuple(tokens[i : i + 4]) for i in range(len(tokens) - 3)]
        assert own == approx(1 - len(set(phrases)) / len(phrases) if phrases else 0)


HUMAN = [
    'He said: "No, (never)!" Then 4 Cats\nran away, and it rained on and on for a very long time in the old town.'
] * 3
MACHINE = ["it is what it is what it is what it is what it is."] * 3


def test_styles_are_put_into_words():
    phrases = said(HUMAN, MACHINE)
    assert phrases[0] == "shorter texts (median 14 words, reference 24)"
    assert phrases[2:14] == [
        "fewer different words (21% of the first 20 words, reference 90%)",
        "more repeated phrases (73% of all phrases of 4 words, reference 0%)",
        "fewer punctuation marks (7 per 100 words, reference 38)",
        "fewer commas (0.0 per 100 words, reference 8.3)",
        "fewer quotation marks (0.0 per 100 words, reference 8.3)",
        "fewer brackets (0.0 per 100 words, reference 8.3)",
        "fewer question and exclamation marks (0.0 per 100 words, reference 4.2)",
        "fewer numbers (0.0 per 100 words, reference 4.2)",
        "fewer words that begin with a capital (0 per 100 words, reference 17)",
        "fewer line breaks (0.0 per 100 words, reference 4.2)",
        "shorter words (2.6 letters on average, reference 3.1)",
        "longer sentences (14 words on average, reference 12)",
    ]
    assert "100% of the texts contain no capital letters (reference 0%)" in phrases
    assert "only 0% of the texts contain no capital letters (reference 100%)" in said(MACHINE, HUMAN)


@pytest.mark.parametrize(
    ("human", "machine", "text"),
    [
        ((100, 101), (120, 121), "longer texts (median 120 words, reference 100)"),
        ((100, 101), (60, 61), "shorter texts (median 60 words, reference 100)"),
    ],
)
def test_medians_tell_lengths(human, machine, text):
    assert said(make_texts(50, 1, human), make_texts(50, 2, machine))[0] == text


def of_lengths(*lengths):
    return [" ".join(["word"] * length) for length in lengths]


def test_where_medians_agree_the_ends_are_told():
    usual = of_lengths(*[100] * 80)
    assert said(usual + of_lengths(*[99] * 20), usual + of_lengths(*[40] * 20))[0] == (
        "more short texts (a tenth have at most 40 words, reference 99)"
    )
    assert said(usual + of_lengths(*[40] * 20), usual + of_lengths(*[99] * 20))[0] == (
        "fewer short texts (a tenth have at most 99 words, reference 40)"
    )
    assert said(usual + of_lengths(*[101] * 20), usual + of_lengths(*[160] * 20))[0] == (
        "more long texts (a tenth have at least 160 words, reference 101)"
    )
    assert said(usual + of_lengths(*[160] * 20), usual + of_lengths(*[101] * 20))[0] == (
        "fewer long texts (a tenth have at least 101 words, reference 160)"
    )


def test_lengths_that_hardly_differ_are_not_worth_telling():
    text, values, _ = styles_of(of_lengths(*[100] * 99), of_lengths(*[102] * 99))[0]
    assert text == ""
    assert values["words_50"], values["words_50_reference"] == (102, 100)


def test_spread_of_lengths():
    narrow, wide = of_lengths(*range(90, 111)), of_lengths(*range(50, 151, 5))
    assert said(narrow, wide)[1] == "texts whose length varies more (80% have 60 to 140 words, reference 92 to 108)"
    assert said(wide, narrow)[1] == "texts whose length varies less (80% have 92 to 108 words, reference 60 to 140)"
    assert said(narrow, narrow)[1] == ""


def test_texts_without_sentences_say_nothing_about_their_length():
    human, machine = ["one two three. four."] * 3, ["a " * 50] * 3
    trait = styles_of(human, machine)[13][2]
    assert trait.tolist() == [2.0] * 6
    assert styles_of(machine, machine)[13][2].tolist() == [0.0] * 6


def test_vocabulary_is_compared_over_equally_many_words():
    short, long = make_texts(200, 1, (30, 31)), make_texts(200, 2, (300, 301))
    trait = styles_of(short, long)[2][2]
    assert trait[:200].mean() == approx(trait[200:].mean(), abs=0.03)


def test_numbers_are_shown_apart():
    assert numbers_apart(0.123456, 0.123457) == ("0.123456", "0.123457")
    assert numbers_apart(99.6, 100.4) == ("99.6", "100.4")
    assert numbers_apart(3.0, 3.0) == ("3.0", "3.0")
    assert numbers_apart(-0.001, 12.0) == ("0", "12")


def test_tails_are_cut_but_rare_traits_stay():
    trait = np.concatenate([np.arange(100.0), [1e9]])
    assert clip_tails(trait).max() == approx(97.5, abs=0.1)
    assert clip_tails(trait).min() == approx(2.5, abs=0.1)
    rare = (np.arange(100) == 3).astype(float)
    np.testing.assert_array_equal(clip_tails(rare), rare)
