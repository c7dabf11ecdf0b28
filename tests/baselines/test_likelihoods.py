"""Probabilities of texts in one result: each number is that of its own function, and what has no answer is refused."""

import math
import re

import pytest
from pytest import approx

from mallow import EstimateWarning, InputError, area, integral
from mallow.baselines import language_modelling, likelihoods, perplexity, text_statistics
from mallow.estimate import direct_frontier, log_likelihoods
from mallow.generate import NGram, Nucleus
from mallow.models import TokenFile

HUMAN = ["to be or not to be that is the question", "to be is to do", "to do is to be", "do be do be do"] * 3
MACHINE = ["to be or to be", "the question is to be", "is to do", "to do be do"] * 3
MODEL = NGram.fit(MACHINE, order=2, min_count=1)
OTHER = NGram.fit(HUMAN, order=3, min_count=1)


@pytest.mark.filterwarnings("ignore:the estimated divergence:mallow.EstimateWarning")
def test_every_number_is_that_of_its_own_function():
    found = likelihoods(MODEL, HUMAN, MACHINE, surrogate=OTHER)
    assert found.human == language_modelling(MODEL, HUMAN)
    assert (found.model, found.surrogate) == (MODEL.name, OTHER.name)
    assert found.generation_perplexity == approx(
        {"human": perplexity(OTHER, HUMAN), "generated": perplexity(OTHER, MACHINE)}
    )
    curve = direct_frontier(*log_likelihoods(OTHER, MODEL, HUMAN, MACHINE))
    assert found.summaries["mauve"] == approx(float(area(curve, scale=5)))
    assert found.summaries["frontier_integral"] == approx(float(integral(curve)))
    text = str(found)
    assert text.startswith("12 human and 12 generated texts under NGram(order=2")
    for title in ("sparsemax score SP", "Gen. PPL of human texts", "direct MAUVE", "ε-perplexity, ε = 1e-05"):
        assert title in text


def test_without_a_surrogate_only_the_model_is_asked():
    found = likelihoods(MODEL, HUMAN, MACHINE, epsilon=1e-3)
    assert found.generation_perplexity == found.summaries == {}
    assert (found.frontier, found.surrogate) == (None, "")
    assert found.human.epsilon == 1e-3
    with pytest.raises(InputError, match=r"There is no frontier without a surrogate"):
        found.plot()


def test_what_a_decoder_cannot_write_is_said():
    with pytest.warns(EstimateWarning, match=r"% of the tokens of human text are impossible under this decoder"):
        found = likelihoods(MODEL, HUMAN, MACHINE, decoder="greedy")
    assert found.decoder == "top-k:1"
    assert math.isinf(found.human.perplexity)
    assert math.isfinite(found.human.epsilon_perplexity)
    assert likelihoods(MODEL, HUMAN, MACHINE, decoder="nucleus:1.0").human == language_modelling(
        MODEL, HUMAN, (Nucleus(1.0),)
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoder": "beam:4"}, r"`decoder` must be greedy or made of rules, .*; got 'beam:4'\."),
        ({"reference": []}, r"`reference` must hold at least one text; got none\."),
        ({"generated": []}, r"`generated` must hold at least one text; got none\."),
    ],
)
def test_bad_arguments_are_refused(options, message):
    call = {"reference": HUMAN, "generated": MACHINE} | options
    with pytest.raises(InputError, match=message):
        likelihoods(MODEL, call.pop("reference"), call.pop("generated"), **call)


def test_statistics_on_the_published_tokens(shared):
    tokenize = TokenFile(str(shared / "data" / "gpt2-bpe"))
    assert tokenize(" hello world") == [23748, 995]  # GPT-2's own ids
    texts = ["the cat sat on the mat, again", "the dog sat on the rug, again"]
    found, words = text_statistics(texts, tokenize=tokenize), text_statistics(texts)
    assert found.tokenize == tokenize.name
    assert re.fullmatch(r"tokens of gpt2-bpe@[0-9a-f]{12}\+[0-9a-f]{12}", tokenize.name)
    assert found.tokens == sum(len(tokenize(text)) for text in texts) > words.tokens
    with pytest.raises(
        InputError, match=r"`reference` must be tokenised like the model's texts, by 'tokens of gpt2-bpe@"
    ):
        found.gap(words)
    with pytest.raises(InputError, match=r"GPT-2's vocab.json and merges.txt, but there is none at '/nowhere'"):
        TokenFile("/nowhere")("a")
