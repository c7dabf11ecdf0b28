"""The n-gram model: its formula computed in the simplest way, lossless tokens, normalised rows, falling perplexity."""

import pickle
import pydoc_data.topics
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pytest import approx

from mallow.errors import InputError
from mallow.generate import NextToken, NGram, generate

corpora = st.lists(st.text("ab .", min_size=1, max_size=12), min_size=1, max_size=6)
orders = st.integers(1, 5)


def letters(text):
    return list(text)


def words(text):
    return text.split()


@pytest.fixture(scope="module")
def manual():
    """Human text that comes with Python."""
    return list(pydoc_data.topics.topics.values())


@pytest.fixture(scope="module")
def model(manual):
    return NGram.fit(manual[::2])


# --- the formula


class Plain:
    """Interpolated modified Kneser–Ney by its formula, with dictionaries and recursion."""

    def __init__(self, texts, order, vocabulary):
        self.vocabulary = vocabulary
        raw = [Counter() for _ in range(order + 1)]
        for text in texts:
            tokens = (0, *text, 0)
            for n in range(1, order + 1):
                for i in range(len(tokens) - n + 1):
                    if n > 1 or i > 0:  # the token that begins a text is not predicted
                        raw[n][tokens[i : i + n]] += 1
        self.counts = [Counter() for _ in range(order + 1)]
        for n in range(1, order + 1):
            for ngram, count in raw[n].items():
                opens = n > 1 and ngram[0] == 0
                before = sum(longer[1:] == ngram for longer in raw[n + 1]) if n < order else 0
                self.counts[n][ngram] = count if n == order or opens else before
        self.discounts = [self.discount(counts) for counts in self.counts]

    @staticmethod
    def discount(counts):
        frequency = Counter(counts.values())
        if not frequency[1] or not frequency[2]:
            return (0, 0.5, 0.5, 0.5)
        y = frequency[1] / (frequency[1] + 2 * frequency[2])
        if frequency[3] and frequency[4]:
            three = (
                1 - 2 * y * frequency[2] / frequency[1],
                2 - 3 * y * frequency[3] / frequency[2],
                3 - 4 * y * frequency[4] / frequency[3],
            )
            if min(three) > 0:
                return (0, *three)
        return (0, y, y, y)

    def probability(self, history, token):
        if history is None:
            return 1 / self.vocabulary
        n = len(history) + 1
        shorter = history[1:] if history else None
        after = {ngram: count for ngram, count in self.counts[n].items() if ngram[:-1] == history}
        total = sum(after.values())
        if total == 0:
            return self.probability(shorter, token)
        taken = {ngram: self.discounts[n][min(count, 3)] for ngram, count in after.items()}
        seen = (*history, token)
        return (after.get(seen, 0) - taken.get(seen, 0)) / total + sum(taken.values()) / total * self.probability(
            shorter, token
        )


def history(tokens, order):
    """What is remembered of a prefix: order − 1 tokens, and nothing before the end of a text."""
    last = max((i for i, token in enumerate(tokens) if token == 0), default=0)
    return tuple(tokens[max(last, len(tokens) - order + 1) :]) if order > 1 else ()


@given(texts=corpora, order=orders, prefix=st.text("abc", max_size=6), opens=st.booleans())
def test_rows_are_the_formula(texts, order, prefix, opens):
    model = NGram.fit(texts, order=order, min_count=1, tokenize=letters)
    plain = Plain([model.encode(text) for text in texts], order, model.vocabulary)
    tokens = [0] * (opens or not prefix) + model.encode(prefix)
    rows, _ = model.start([tokens])
    checked = [0, *model.encode("ab .c"), 200]
    expected = [plain.probability(history(tokens, order), token) for token in checked]
    assert np.exp(rows[0, checked]) == approx(np.array(expected), abs=1e-13)


@given(texts=corpora, order=orders, prefixes=st.lists(st.text("abc .", min_size=1, max_size=9), min_size=1, max_size=4))
def test_every_row_sums_to_one(texts, order, prefixes):
    model = NGram.fit(texts, order=order, min_count=2)
    rows, state = model.start([model.encode(prefix) for prefix in prefixes])
    for token in (0, 98, 1):
        assert np.exp(rows).sum(axis=1) == approx(1, abs=1e-12)
        assert np.isfinite(rows).all()
        rows, state = model.step(state, np.full(len(prefixes), token))


def test_rows_of_real_text_sum_to_one(model, manual):
    rows, _ = model.start([model.encode(text)[:20] for text in manual])
    assert np.exp(rows).sum(axis=1) == approx(1, abs=1e-12)


@given(texts=corpora, order=orders, tokens=st.lists(st.sampled_from([0, 98, 99, 33, 47, 7]), max_size=12))
@example(texts=["a"], order=5, tokens=[0, 0, 0, 0])  # n-grams longer than any text
def test_log_prob_equals_start_and_step(texts, order, tokens):
    model = NGram.fit(texts, order=order, min_count=1, tokenize=letters)
    rows, state = model.start([[0]])
    one_by_one = []
    for i, token in enumerate(tokens):
        one_by_one.append(rows[0, token])
        again, _ = model.start([[0, *tokens[: i + 1]]])
        rows, state = model.step(state, np.array([token]))
        assert np.array_equal(rows, again)
    assert model.log_prob(tokens) == approx(np.array(one_by_one), abs=1e-12)


def test_select_takes_rows_in_any_order_and_repeatedly(model, manual):
    prefixes = [model.encode(text)[60:70] for text in manual[:8:2]]
    _, state = model.start([prefix[:-1] for prefix in prefixes])
    chosen = np.array([3, 0, 0, 2])
    rows, _ = model.step(model.select(state, chosen), np.array([prefixes[i][-1] for i in chosen]))
    expected, _ = model.start(prefixes)
    assert np.array_equal(rows, expected[chosen])


def test_texts_shorter_than_the_order():
    model = NGram.fit(["a"], order=9)
    assert np.exp(model.start([model.encode("a"), [0, 98], [98] * 9])[0]).sum(axis=1) == approx(1, abs=1e-12)
    assert model.log_prob([]).shape == (0,)


# --- tokens


@given(text=st.text(max_size=40))
def test_tokens_lose_nothing(text):
    model = NGram.fit(["some words, some text\n\nsome words"], order=2)
    assert model.decode(model.encode(text)) == text


def test_real_text_is_decoded_as_it_was(model, manual):
    assert all(model.decode(model.encode(text)) == text for text in manual)


def test_rare_words_are_spelt_and_frequent_ones_are_tokens():
    model = NGram.fit(["the cat, the café", "the cat"], min_count=2)
    assert model.words == (" cat", "the")
    assert model.encode("the") == [258]
    assert model.encode(" é,") == [1 + 32, 1 + 0xC3, 1 + 0xA9, 1 + 44]
    assert model.decode([1 + 0xC3, 258, 0]) == "�the"
    assert NGram.fit(["the cat, the café", "the cat"], min_count=4).words == ()


def test_another_tokenizer():
    model = NGram.fit(["ab", "abc"], min_count=1, tokenize=letters)
    assert model.words == ()
    assert "tokenize=letters" in model.name
    with pytest.raises(
        InputError,
        match=r"^`tokenize` must cut a text without changing it, but the pieces of `texts\[0\]` do not join to the same text\.$",
    ):
        NGram.fit(["a b"], tokenize=words)


# --- what all models offer


def test_it_is_a_model_that_pickles(model, manual):
    assert isinstance(model, NextToken)
    model.encode("fills the cached properties, which are not pickled")
    model.start([[0]])
    again = pickle.loads(pickle.dumps(model))
    assert again.name == model.name
    assert np.array_equal(again.start([[0, 300]])[0], model.start([[0, 300]])[0])
    assert again.encode(manual[0]) == model.encode(manual[0])
    assert model.context is None
    assert model.end == {0}
    assert repr(model) == model.name


def test_the_name_tells_models_apart(manual):
    base = NGram.fit(manual[:5])
    assert base.name == NGram.fit(iter(manual[:5])).name
    others = [NGram.fit(manual[:4]), NGram.fit(manual[:5], order=4), NGram.fit(manual[:5], min_count=3)]
    assert len({base.name, *(other.name for other in others)}) == 4
    # The same tokens in other texts.
    assert NGram.fit(["aa", "b"], tokenize=letters).name != NGram.fit(["a", "ab"], tokenize=letters).name


def perplexity(model, texts):
    return np.exp(-np.concatenate([model.log_prob(model.encode(text)) for text in texts]).mean())


def test_perplexity_of_held_out_text_falls_with_the_order(manual):
    perplexities = [perplexity(NGram.fit(manual[::2], order=order), manual[1::2]) for order in (1, 2, 3)]
    assert perplexities[0] > 2 * perplexities[1] > 2.2 * perplexities[2]


def test_samples_are_likelier_than_shuffled_ones(model):
    new = generate(model, [[0]] * 8, "ancestral", max_new=150, rng=0)
    assert 20 < np.mean([len(tokens) for tokens in new]) <= 150
    shuffled = [np.random.default_rng(0).permutation(tokens) for tokens in new]
    surprise = [-np.concatenate([model.log_prob(tokens) for tokens in texts]).mean() for texts in (new, shuffled)]
    assert surprise[0] < 0.7 * surprise[1]
    assert len({tuple(tokens) for tokens in new}) == 8


def test_greedy_completes_what_it_has_read(manual):
    model = NGram.fit(manual)
    [new] = generate(model, [model.encode("The following identifiers are used as")], "greedy", max_new=3)
    assert model.decode(new) == " reserved words,"


# --- what is refused


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NGram.fit([]), "`texts` must hold at least one text; got none"),
        (lambda: NGram.fit("a text"), r"`texts` must be a sequence of texts; got one str. Pass \[text\]"),
        (lambda: NGram.fit(["a", ""]), r"`texts\[1\]` must be a non-empty text; got ''"),
        (lambda: NGram.fit(["a", None]), r"`texts\[1\]` must be a non-empty text; got None"),
        (lambda: NGram.fit(["a"], order=0), "`order` must be an integer of at least 1; got 0"),
        (lambda: NGram.fit(["a"], min_count=0), "`min_count` must be an integer of at least 1; got 0"),
        (lambda: NGram.fit(["a"]).start([[98], []]), r"at least one token each; got an empty one. \[0\] begins a text"),
        (lambda: NGram.fit(["a"]).start([[257]]), r"`prefixes` must hold tokens from 0 to 256; got \[257\]"),
        (lambda: NGram.fit(["a"]).log_prob([3, -1]), "`tokens` must be from 0 to 256; got -1 to 3"),
        (lambda: NGram.fit(["a"]).log_prob([3], []), "`prefix` must have at least one token; got none. Pass None"),
        (lambda: NGram.fit(["a"]).decode([3, 257]), "`tokens` must be from 0 to 256; got 3 to 257"),
        (lambda: NGram.fit(["a"]).decode([3, -1]), "`tokens` must be from 0 to 256; got -1 to 3"),
        (lambda: NGram.fit(["a"]).start([[3, -1]]), r"`prefixes` must hold tokens from 0 to 256; got \[3, -1\]"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_words_keep_the_space_before_them_and_clitics_are_words():
    model = NGram.fit(["It's 3 o'clock,  he said."], min_count=1)
    assert model.words == (" 3", " he", " o", " said", "'s", "It", "clock")  # the rest are single bytes
