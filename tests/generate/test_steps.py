"""Decoding token by token: sampling, greedy and adversarial decoding against their definitions."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from scipy.stats import chisquare

from mallow.generate import Adversarial, Beam, Greedy, Sampling, TopK, generate
from mallow.generate._search import _invert
from markov_models import END, Markov, every_text, log_prob, random_chain

# --- sampling and greedy


@pytest.mark.parametrize("chosen", [Sampling(), Sampling((TopK(2),))], ids=lambda chosen: chosen.name)
def test_frequencies_are_those_of_the_chain(chosen):
    model = random_chain(seed=1, size=3, concentration=2.0)
    table = model.table.copy()
    if chosen.rules:
        np.put_along_axis(table, table.argmin(axis=-1)[..., None], 0, axis=-1)
        table /= table.sum(axis=-1, keepdims=True)
    reshaped = Markov(table)
    new = generate(model, [[1]] * 4000, chosen, max_new=3, rng=0, batch=1000)
    texts = {text: math.exp(log_prob(reshaped, [1], text)) for text in every_text(model, 3)}
    texts = {text: probability for text, probability in texts.items() if probability > 0}
    assert sum(texts.values()) == approx(1)
    counts = Counter(tuple(tokens) if len(tokens) == 3 else (*tokens, END) for tokens in new)
    assert set(counts) <= set(texts)
    test = chisquare([counts[text] for text in texts], [4000 * probability for probability in texts.values()])
    assert test.pvalue > 0.01


def test_tokens_too_unlikely_for_a_number_are_not_invert():
    assert _invert(np.array([-1e5, 0.0, -1e5]), 0.0) == 1
    assert _invert(np.array([-1e5, 0.0, -1e5]), np.nextafter(1.0, 0.0)) == 1
    halves = np.log([0.5, 0.5])
    assert [_invert(halves, uniform) for uniform in (0.0, 0.49, 0.51, 0.99)] == [0, 0, 1, 1]


@given(seed=st.integers(0, 50))
def test_greedy_is_top_one_and_a_beam_of_one(seed):
    model = random_chain(seed)
    greedy = generate(model, [[1], [2]], Greedy(), max_new=6)
    assert generate(model, [[1], [2]], Sampling((TopK(1),)), max_new=6, rng=seed) == greedy
    assert generate(model, [[1], [2]], Beam(1, length_penalty=0.0), max_new=6) == greedy
    for prefix, new in zip([[1], [2]], greedy, strict=True):
        seen = [END, *prefix]
        for token in new:
            assert token == model.table[seen[-2], seen[-1]].argmax()
            seen.append(token)
        if len(new) < 6:
            assert model.table[seen[-2], seen[-1]].argmax() == END


# --- adversarial


def test_the_adversary_has_the_perplexity_of_people():
    model = random_chain(seed=2, size=30, concentration=1.0)
    for target in (20.0, 40.0):
        prefixes = [[1], [2], [3]]
        new = generate(model, prefixes, Adversarial(target), max_new=200, rng=0)
        for prefix, tokens in zip(prefixes, new, strict=True):
            assert len(tokens) == 200  # never ends before
            perplexity = math.exp(-log_prob(model, prefix, tokens) / 200)
            assert perplexity == approx(target, rel=0.02)


def test_the_adversary_is_uniform_first_and_then_nearest():
    model = random_chain(seed=2, size=6, concentration=1.0)
    options = Adversarial(4.0)
    new = generate(model, [[1]] * 1500, options, max_new=10, rng=3)
    uniform = 2  # ⌈0.15 · 10⌉
    counts = Counter(tuple(tokens[:uniform]) for tokens in new)
    assert len(counts) == 25
    assert chisquare([counts[pair] for pair in sorted(counts)]).pvalue > 0.01
    for tokens in new[:20]:
        for size in range(uniform, 10):
            tried = {
                token: abs(-log_prob(model, [1], [*tokens[:size], token]) / (size + 1) - math.log(4.0))
                for token in range(1, 6)
            }
            assert tried[tokens[size]] == approx(min(tried.values()))
