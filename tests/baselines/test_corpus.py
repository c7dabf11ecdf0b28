"""How texts become tokens, and what all text statistics refuse."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.token_texts import quietly, token_texts
from mallow.baselines import (
    distinct,
    diversity,
    repetition,
    self_bleu,
    text_repetitions,
    text_self_bleus,
    text_statistics,
    zipf_coefficient,
)
from mallow.errors import InputError
from mallow.generate import NGram

ALL = [zipf_coefficient, repetition, text_repetitions, distinct, diversity, self_bleu, text_self_bleus, text_statistics]


def test_how_texts_become_tokens():
    texts = ["The cat sat. The", "the cat sat, the"]
    assert distinct(texts, n=1) == 5 / 8  # The, the, cat, "sat." and "sat,"
    assert distinct(texts, n=1, tokenize="regex") == 5 / 10
    assert distinct(texts, n=1, tokenize=list) == len(set("".join(texts))) / 32
    model = NGram.fit(texts, min_count=1)
    assert distinct(texts, n=2, tokenize=model.encode) == distinct([model.encode(text) for text in texts], n=2)
    assert distinct(["a b", ("a", "b")], n=2) == 0.5


def test_arrays_and_tensors_are_lists_of_numbers():
    ids = [[1, 2, 1, 2, 3], [1, 2, 3, 4, 5]]
    expected = text_statistics(ids)
    assert text_statistics(np.array(ids)) == expected
    assert text_statistics([np.array(row, np.int32) for row in ids]) == expected
    torch = pytest.importorskip("torch", reason="the entries of a tensor are never equal as objects")
    assert text_statistics([torch.tensor(row) for row in ids]) == expected
    statistics = text_statistics(
        ["1 2 1 2 3", "1 2 3 4 5"], tokenize=lambda text: torch.tensor([*map(int, text.split())])
    )
    assert statistics.values == expected.values


@given(texts=token_texts, data=st.data())
def test_order_of_texts_and_names_of_tokens_have_no_effect(texts, data):
    shuffled = data.draw(st.permutations(texts))
    renamed = [["WXYZ"[token] for token in text] for text in texts]
    for statistic in (self_bleu, repetition):
        value = quietly(statistic, texts)
        assert quietly(statistic, shuffled) == value
        assert quietly(statistic, renamed) == value


@pytest.mark.parametrize("statistic", ALL)
def test_anything_but_a_list_of_texts_is_refused(statistic):
    for texts, message in [
        ("a b c d e", r"`texts` must be a list of texts; got a single str. Pass \[text\]."),
        ([], "`texts` must hold at least .: .*; got 0."),
        ([1, 2], "`texts` must hold str or lists of tokens; got int at index 0."),
        (["a b c d", b"a b"], "`texts` must hold str or lists of tokens; got bytes at index 1."),
        ([["a"], [["b"]]], "`texts` must have hashable tokens, such as str or int; in text 1: unhashable type: 'list'"),
        (["", " ", []], "`texts` must have tokens, but all 3 texts are empty."),
    ]:
        with pytest.raises(InputError, match=message):
            statistic(texts)
    for tokenize, message in [
        ("words", "`tokenize` must be 'whitespace', 'regex' or a function from a text to its tokens; got 'words'."),
        (None, "`tokenize` must be 'whitespace', 'regex' or a function from a text to its tokens; got None."),
        (str.lower, "`tokenize` must return a list of tokens; got str for text 0."),
        (lambda text: {"input_ids": [1]}, "`tokenize` must return a list of tokens; got dict for text 0."),
    ]:
        with pytest.raises(InputError, match=message):
            statistic(["a b c d", "b"], tokenize=tokenize)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda texts: zipf_coefficient(texts, ranks=1), "`ranks` must be an integer of at least 2; got 1."),
        (lambda texts: repetition(texts, copies=1), "`copies` must be an integer of at least 2; got 1."),
        (lambda texts: repetition(texts, shortest=0), "`shortest` must be an integer of at least 1; got 0."),
        (lambda texts: distinct(texts, 0), "`n` must be an integer of at least 1; got 0."),
        (lambda texts: self_bleu(texts, order=0), "`order` must be an integer of at least 1; got 0."),
        (
            lambda texts: self_bleu(texts, smoothing=1.0),
            "`smoothing` must lie strictly between 0 and 1; got 1.0. Pass 0 for no smoothing.",
        ),
        (lambda texts: self_bleu(texts, smoothing=-0.1), "`smoothing` must lie strictly between 0 and 1; got -0.1."),
        (lambda texts: self_bleu(texts, smoothing=math.nan), "`smoothing` must lie strictly between 0 and 1; got nan."),
    ],
)
def test_bad_options_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call(["a b c d", "a b c e"])
