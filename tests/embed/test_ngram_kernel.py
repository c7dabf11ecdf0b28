"""The N-gram kernel is the Jaccard similarity of the sets of N-grams, for any kind of token."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow.embed import NGramKernel
from mallow.embed import _string_kernels as module
from mallow.errors import InputError

letters = st.text("abc", max_size=9)
pools = st.lists(letters, min_size=1, max_size=6)
sizes = st.integers(1, 4)
short_is_fine = pytest.mark.filterwarnings("ignore:.* texts have fewer than n = :mallow.errors.EstimateWarning")


def ngrams(text, n):
    return {tuple(text[i : i + n]) for i in range(len(text) - n + 1)}


def jaccard(a, b):
    return len(a & b) / len(a | b) if a | b else 1.0


@short_is_fine
@given(texts=pools, n=sizes)
def test_ngram_kernel_is_the_jaccard_similarity_of_the_sets(texts, n):
    expected = [[jaccard(ngrams(a, n), ngrams(b, n)) for b in texts] for a in texts]
    assert NGramKernel(n, list).gram(texts).tolist() == expected


def test_blocks_of_rows_do_not_change_a_bit(monkeypatch):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdef"), 20)) for _ in range(30)]
    whole = NGramKernel(2, list).gram(texts)
    monkeypatch.setattr(module, "_BLOCK", 7 * 30)
    assert (NGramKernel(2, list).gram(texts) == whole).all()


def test_a_few_short_texts_give_no_warning():
    assert NGramKernel(1).gram([f"word{i}" for i in range(20)] + [""]).sum() == 21


def test_tokens_may_be_numbers_tuples_or_an_array():
    expected = NGramKernel(2, list).gram(["abc", "bcd"])
    for tokenize in (
        lambda text: [ord(c) for c in text],
        lambda text: tuple((c, 1) for c in text),
        lambda text: np.array([ord(c) for c in text]),
        str.upper,
    ):
        assert (NGramKernel(2, tokenize).gram(["abc", "bcd"]) == expected).all()


def test_word_pieces_of_a_model(shared):
    tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers, of the extra `text`")
    folder = shared / "data" / "gpt2-bpe"
    model = tokenizers.models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    pieces = tokenizers.Tokenizer(model)
    pieces.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    kernel = NGramKernel(2, lambda text: pieces.encode(text).ids)
    assert kernel.gram(["The cat sat", "The cat ran"])[0, 1] == approx(1 / 3)
    with pytest.raises(InputError, match="`tokenize` must return a list of tokens, or another sequence; got Encoding"):
        NGramKernel(2, pieces.encode).gram(["The cat sat"])


def test_numba_is_not_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    assert NGramKernel(1).gram(["a", "b"]).tolist() == [[1, 0], [0, 1]]
