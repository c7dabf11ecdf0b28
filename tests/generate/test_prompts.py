"""Prompts: the first tokens of each text, with unique ids; short texts are refused or left out."""

import pytest

from mallow.errors import EstimateWarning, InputError
from mallow.generate import prompts_of
from mallow.samples import Samples


def test_prompts_are_the_first_tokens(texts, model):
    prompts = prompts_of(texts, model, tokens=6)
    assert [prompt.id for prompt in prompts] == [str(i) for i in range(1, 41)]
    for text, prompt in zip(texts, prompts, strict=True):
        assert list(prompt.tokens) == model.encode(text)[:6]
        assert text.startswith(prompt.text)
        assert model.decode(prompt.tokens) == prompt.text
    named = prompts_of(Samples(texts=("one two", "three four"), ids=("a", "b")), model, tokens=None)
    assert [(prompt.id, prompt.text) for prompt in named] == [("a", "one two"), ("b", "three four")]
    assert all(model.decode(prompt.tokens) == prompt.text for prompt in named)


def test_short_texts_are_refused_or_left_out_with_a_warning(texts, model):
    samples = Samples(texts=(texts[0], "if", texts[1]), ids=("a", "b", "c"), source="human.jsonl")
    message = (
        r"^`samples` must have at least 6 tokens each; 1 of 3 in human\.jsonl are shorter, such as 'b' with 1\. "
        r"Ask for fewer tokens, or leave them out with `skip_short=True`\.$"
    )
    with pytest.raises(InputError, match=message):
        prompts_of(samples, model, tokens=6)
    with pytest.warns(
        EstimateWarning, match=r"^human\.jsonl: 1 of 3 texts are shorter than 6 tokens and were left out\.$"
    ):
        prompts = prompts_of(samples, model, tokens=6, skip_short=True)
    assert [prompt.id for prompt in prompts] == ["a", "c"]
    with pytest.raises(InputError, match=r"^list: no text has 35 tokens\. Ask for fewer\.$"):
        prompts_of(["if"], model, skip_short=True)


def test_bad_prompts(model):
    with pytest.raises(
        InputError, match=r"^h: texts to be continued must have unique ids; 'a' occurs twice\. Pass the reference"
    ):
        prompts_of(Samples(texts=("x y", "y z"), ids=("a", "a"), source="h"), model, tokens=1)
    with pytest.raises(InputError, match=r"^`tokens` must be an integer of at least 1; got 0\.$"):
        prompts_of(["a"], model, tokens=0)
    with pytest.raises(InputError, match=r"empty text"):
        prompts_of(["a", ""], model, tokens=1)
