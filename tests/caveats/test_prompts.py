"""Prompts that are missing, empty, the same for all, without a partner, or part of the texts; texts without letters."""

import re

import numpy as np
import pytest

import mallow
from mallow import InputError, Samples

pytestmark = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")

LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))
COUNT = 60
NUMBERS = [f"{row * 7919} 123 456" for row in range(COUNT)]


def words(rng, count):
    return ["".join(rng.choice(LETTERS, size=rng.integers(3, 9))) for _ in range(count)]


@pytest.fixture(scope="module")
def prompts():
    return [" ".join(words(np.random.default_rng([0, row]), 6)) for row in range(COUNT)]


@pytest.fixture(scope="module")
def texts(prompts):
    """Texts that take up the words of their prompt."""
    rng = np.random.default_rng(1)
    return [" ".join([*rng.permutation(prompt.split()), *words(rng, 6)]) for prompt in prompts]


@pytest.fixture(scope="module")
def dealt(texts):
    return [*texts[1:], texts[0]]


def lengths(texts):
    return np.array([[len(text), sum(map(str.isdigit, text))] for text in texts], dtype=float)


def score(reference, model, embedder="style"):
    return mallow.score(reference, model, embedder=embedder, repeats=1)


def messages(result, kind):
    return [(caveat.system, caveat.message) for caveat in result.caveats if caveat.kind == kind]


@pytest.mark.parametrize("side", ["the reference has", "these texts have"])
def test_prompts_on_one_side(side, prompts, texts, dealt):
    has_prompts = side == "the reference has"
    reference = Samples(texts=texts, prompts=prompts if has_prompts else None)
    model = Samples(texts=dealt, prompts=None if has_prompts else prompts)
    result = score(reference, model)
    expected = (
        f"only {side} prompts: evidence looks at the texts without them. Give both sides their prompts, and it also "
        "looks at how well each text answers its own."
    )
    assert messages(result, "prompts on one side") == [("model", expected)]
    assert result.signature.spaces == ""
    assert result.p_value > 0.9


def test_nothing_is_said_of_prompts_that_both_sides_have_or_neither(prompts, texts, dealt):
    for own in (prompts, None, ["Write."] * COUNT):
        result = score(Samples(texts=texts, prompts=own), Samples(texts=dealt, prompts=own))
        assert {caveat.kind for caveat in result.caveats} <= {"few samples", "short texts", "shared"}


def test_texts_that_begin_with_their_prompts_need_them_only_once(prompts, texts):
    whole = [f"{prompt} {text}" for prompt, text in zip(prompts, texts, strict=True)]
    result = score(Samples(texts=whole), Samples(texts=whole[::-1], prompts=prompts[::-1]))
    assert messages(result, "prompts on one side") == []


def test_some_prompts_are_empty(prompts, texts, dealt):
    own = [*[""] * 10, *prompts[10:]]
    result = score(Samples(texts=texts, prompts=own), Samples(texts=dealt, prompts=own))
    expected = (
        "10 of the 60 prompts are empty: all samples with an empty prompt count as answers to one prompt. Give each "
        "sample its prompt, or an id."
    )
    assert messages(result, "empty prompts") == [("reference", expected), ("model", expected)]
    assert result.p_value < 1e-3  # the other prompts show it
    ids = [str(row) for row in range(COUNT)]
    named = score(Samples(texts=texts, prompts=own, ids=ids), Samples(texts=dealt, prompts=own, ids=ids))
    assert messages(named, "empty prompts") == []
    assert named.certified["mauve"].high < 1.0


@pytest.mark.parametrize("only", ["", "Write a story."])
def test_one_prompt_for_all_is_no_prompt(only, texts, dealt):
    result = score(Samples(texts=texts, prompts=[only] * COUNT), Samples(texts=dealt, prompts=[only] * COUNT))
    assert result.signature.spaces == ""
    assert result.signature.units == "60 independent texts, all of them on both sides"
    assert result.p_value > 0.9


def test_prompts_that_are_part_of_the_texts(prompts, texts, dealt):
    sides = [[f"{prompt} {text}" for prompt, text in zip(prompts, own, strict=True)] for own in (texts, dealt)]
    result = score(*(Samples(texts=own, prompts=prompts) for own in sides))
    expected = (
        "the texts of both sides begin with their prompts, so that how near a text is to its prompt says less than it "
        "could. Remove the prompts from the texts of both sides."
    )
    assert messages(result, "prompt in text") == [("model", expected)]
    assert result.p_value < 1e-3
    one = score(Samples(texts=texts, prompts=prompts), Samples(texts=sides[0], prompts=prompts))
    assert messages(one, "prompt in text") == []
    [(_, message)] = messages(one, "prompt")
    assert re.match(r"100\.0 ?% of the texts begin with their prompt \(reference: 0\.0 ?%\)\.", message)


def test_prompts_that_one_side_lacks(prompts, texts, dealt):
    """A few do no harm; with more, evidence leaves all prompts out, and the caveat says how many have no partner."""
    few = score(Samples(texts=texts, prompts=prompts), Samples(texts=dealt[:58], prompts=prompts[:58]))
    assert few.signature.spaces == "prompts"
    assert "60 prompts, 58 of them on both sides, with 60 and 58 texts" in few.signature.units
    assert messages(few, "unmatched prompts") == []
    other = [*prompts[:40], *(f"other {row}" for row in range(20))]
    many = score(Samples(texts=texts, prompts=prompts), Samples(texts=dealt, prompts=other))
    expected = (
        "20 of the 60 prompts (ids) are not in the reference, and 20 of the 60 in the reference are missing here, so "
        "that the two may differ in topic. Evidence looks at the texts without their prompts. Keep the same prompts on "
        "both sides. A limit (limit, --limit) does so only if both list them in one order."
    )
    assert messages(many, "unmatched prompts") == [("model", expected)]
    assert many.signature.spaces == ""
    assert many.p_value > 0.5


class TestWithoutLetters:
    def test_style_alone_has_no_answer(self, prompts):
        message = (
            "all 120 rows of features are the same, so that nothing can be said about the samples: any score would be "
            "1, whatever they contain. Use a different embedder, or check how the features were made."
        )
        with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
            score(Samples(texts=NUMBERS, prompts=prompts), Samples(texts=NUMBERS[::-1], prompts=prompts))

    def test_another_embedder_goes_on_without_style(self, prompts):
        model = [text.replace("123", "1230000") for text in NUMBERS]
        result = score(Samples(texts=NUMBERS), Samples(texts=model), lengths)
        assert result.signature.spaces == ""
        assert result.p_value < 1e-3

    def test_on_one_side_a_caveat_says_that_style_does_not_tell_them_apart(self, prompts, texts):
        result = score(Samples(texts=texts, prompts=prompts), Samples(texts=NUMBERS, prompts=prompts))
        [(system, message)] = messages(result, "same features")
        assert system == "model"
        assert message.startswith("60 different texts have only 1 different rows of features")
        assert result.p_value < 1e-3

    def test_prompts_without_letters_agree_with_nothing(self, texts, dealt):
        result = score(Samples(texts=texts, prompts=NUMBERS), Samples(texts=dealt, prompts=NUMBERS))
        assert result.signature.spaces == ""
        assert result.p_value > 0.9
