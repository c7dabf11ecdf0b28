"""Perplexity: uniform models, weights of tokens and texts, limits, real text."""

import math

import numpy as np
import pytest
from pytest import approx

from mallow.baselines import language_modelling, perplexity, perplexity_gap, text_perplexities
from mallow.generate import NGram, token_log_probs
from table_models import TableModel


@pytest.mark.parametrize("size", [2, 7, 300])
def test_a_uniform_model_has_the_perplexity_of_its_vocabulary(size):
    model = TableModel(np.full((size, size), 1 / size))
    assert perplexity(model, [[1, 0, 1], [0]]) == approx(size)
    assert language_modelling(model, [[1, 0, 1], [0]]).perplexity == approx(size)


def test_tokens_or_texts_have_equal_weights():
    model = TableModel([[0.5, 0.25, 0.25]] * 3)
    texts = [[0], [1, 1, 1]]
    assert perplexity(model, texts) == approx(2 ** (7 / 4))
    assert text_perplexities(model, texts) == approx([2, 4])
    assert perplexity_gap(model, [[0]], texts) == approx(2 ** (7 / 4) - 2)
    assert perplexity_gap(model, texts, [[0]]) == approx(2 ** (7 / 4) - 2)


def test_an_impossible_token_has_infinite_perplexity():
    model = TableModel([[0.5, 0.5, 0.0]] * 3)
    assert perplexity(model, [[0, 2]]) == math.inf
    assert text_perplexities(model, [[0], [2]]).tolist() == [approx(2), math.inf]


def test_perplexity_beyond_the_largest_number_is_infinite():
    model = TableModel([[0.5, 0.5]] * 2)
    model.table = np.array([[0.0, -1e4]] * 2)
    assert perplexity(model, [[1]]) == math.inf


def test_perplexity_of_real_text_falls_with_the_order(manual):
    train, test = manual[::2], manual[1::2]
    # All orders spell the same words in bytes, so that the tokens are the same and the values comparable.
    values = [perplexity(NGram.fit(train, order=order), test) for order in (1, 2, 3)]
    assert values[0] > 2 * values[1] > 2 * values[2]


def test_shuffled_words_are_further_from_human_text_than_human_text(manual):
    scorer = NGram.fit(manual[::2], order=3)
    reference, held_out = manual[1:40:4], manual[3:40:4]
    rng = np.random.default_rng(0)
    shuffled = [" ".join(rng.permutation(text.split())) for text in held_out]
    assert perplexity_gap(scorer, reference, shuffled) > 3 * perplexity_gap(scorer, reference, held_out)


def test_continuations_are_scored_after_their_prompts(manual):
    model = NGram.fit(manual[:10], order=3)
    texts, prompts = [text[:60] for text in manual[10:14]], [model.encode(text[60:90]) for text in manual[10:14]]
    scores = token_log_probs(model, texts, prefixes=prompts)
    assert perplexity(model, texts, prefixes=prompts) == approx(np.exp(-np.concatenate(scores).mean()))
    assert text_perplexities(model, texts, prefixes=prompts) == approx([np.exp(-own.mean()) for own in scores])


def test_rounding_errors_above_zero_do_not_lower_it_below_1():
    model = TableModel(np.full((2, 2), 0.5))
    model.table = np.array([[-np.inf, 1e-7], [-np.inf, 1e-7]])
    assert perplexity(model, [[1, 1]]) == 1.0
