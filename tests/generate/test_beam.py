"""Beam search against enumeration and against the paper's sentence."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mallow.generate import Beam, generate
from markov_models import END, Markov, every_text, log_prob, random_chain


@given(
    seed=st.integers(0, 200),
    size=st.integers(2, 4),
    length=st.integers(1, 4),
    penalty=st.sampled_from([0.0, 0.5, 1.0, 2.0, -1.0]),
)
def test_a_beam_wide_enough_finds_the_best_text_of_all(seed, size, length, penalty):
    model = random_chain(seed, size)
    best = max(every_text(model, length), key=lambda text: log_prob(model, [1], text) / len(text) ** penalty)
    [new] = generate(model, [[1]], Beam(size**length, length_penalty=penalty), max_new=length)
    assert tuple(new) == tuple(token for token in best if token != END)


def test_a_wider_beam_is_not_worse_on_average():
    def mean(width):
        scores = []
        for seed in range(30):
            model = random_chain(seed, end=False)
            [new] = generate(model, [[1]], Beam(width), max_new=8)
            scores.append(log_prob(model, [1], new))
        return np.mean(scores)

    assert mean(1) < mean(4) <= mean(64)


def plain_beam(model, prefix, width, length):
    """The paper's sentence, word for word, for models that never end."""
    beam = [((), 0.0)]
    for _ in range(length):
        longer = [(*tokens, token) for tokens, _ in beam for token in range(1, model.vocabulary)]
        beam = sorted(((t, log_prob(model, prefix, t)) for t in longer), key=lambda pair: -pair[1])[:width]
    return list(beam[0][0])


@given(seed=st.integers(0, 200), width=st.integers(1, 5))
def test_a_beam_retains_the_best_continuations(seed, width):  # paper: setup, beam search
    model = random_chain(seed, end=False)
    assert generate(model, [[2]], Beam(width), max_new=6) == [plain_beam(model, [2], width, 6)]


@given(seed=st.integers(0, 100), size=st.integers(1, 4))
def test_no_n_gram_is_repeated_and_the_prefix_counts(seed, size):
    model = random_chain(seed, size=5, end=False)
    prefix = [1, 2, 3, 1, 2]
    [new] = generate(model, [prefix], Beam(3, no_repeat=size), max_new=10)
    text = prefix + new
    ngrams = [tuple(text[i : i + size]) for i in range(len(text) - size + 1)]
    old = len(prefix) - size + 1
    assert all(ngram not in ngrams[: old + i] for i, ngram in enumerate(ngrams[old:]))
    # It goes on for as long as it may: with 4 tokens, 1-grams are used up after one more.
    assert len(new) == (1 if size == 1 else 10) or size == 2


def test_a_text_that_cannot_go_on_stays_as_it_is_and_ends_are_not_repeats():
    model = random_chain(end=False, size=3)
    assert generate(model, [[1, 2]], Beam(2, no_repeat=1), max_new=5) == [[]]
    # After 1 comes 2, after 2 most likely the end, although an end has opened the text.
    table = np.zeros((4, 4, 4))
    table[:, 1, 2] = table[:, END, 1] = table[:, 3, END] = 1
    table[:, 2] = [0.9, 0, 0, 0.1]
    assert generate(Markov(table), [[END, 1]], Beam(2, no_repeat=1), max_new=5) == [[2]]


def test_the_length_penalty_prefers_longer_texts():
    # The end at once has probability 0.5; going on has 0.45 and then certainty for ever.
    table = np.zeros((3, 3, 3))
    table[END, 1] = [0.5, 0.45, 0.05]
    table[1, 1] = [0.0, 1.0, 0.0]
    table[1, 2] = table[2, 1] = table[2, 2] = [1.0, 0.0, 0.0]
    model = Markov(table)
    assert generate(model, [[1]], Beam(2, length_penalty=0.0), max_new=4) == [[]]
    assert generate(model, [[1]], Beam(2, length_penalty=1.0), max_new=4) == [[1, 1, 1, 1]]
