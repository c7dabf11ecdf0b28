"""Each defect of texts, planted in real text: reported with the right numbers, and only where it is."""

import re

import numpy as np
import pytest

from caveats.real_texts import caveats_of_kind, halves, only_caveat
from mallow import Samples
from mallow.caveats import find_confounds

# --- length


def test_length():
    one, other = halves()
    (caveat,) = caveats_of_kind(one, [" ".join(text.split()[:12]) + "." for text in other], "length")
    low, middle, high = np.quantile([len(text.split()) for text in one], (0.1, 0.5, 0.9))
    assert caveat.values["words_50"] == 12
    assert caveat.values["words_50_reference"] == middle
    assert caveat.message == (
        f"the median text is 12 words long (reference: {middle:.0f}), and 80% of the texts are 12 to 12 words long "
        f"(reference: {low:.0f} to {high:.0f}). Cut both sides to the same length; otherwise the score measures length too."
    )


def test_length_without_spaces_is_compared_in_characters():
    one, other = (["".join(text.split()) for text in half] for half in halves())
    (caveat,) = caveats_of_kind(one, [text[: len(text) // 2] + "." for text in other], "length")
    assert caveat.values["characters_50"] < 0.6 * caveat.values["characters_50_reference"]


def test_longer_tails_are_differences_of_length_too():
    one, other = halves()
    mixed = [f"{a} {b} {b} {b}" if i % 6 == 0 else a for i, (a, b) in enumerate(zip(other, one[::-1], strict=True))]
    values = only_caveat(one, mixed, "length").values
    assert values["words_50"] < 1.1 * values["words_50_reference"]
    assert values["words_90"] > 1.1 * values["words_90_reference"]


def test_a_small_difference_of_length_is_not_reported():
    one, other = halves()
    longer = [f"{text} Yes." for text in other]  # one word in 30
    assert find_confounds(one, {"model": longer}) == ()


# --- truncation


def test_ends_without_punctuation():
    one, other = halves()
    cut = [re.sub(r"\W+\w+\W*$", "", text) if i % 2 else text for i, text in enumerate(other)]
    caveat = only_caveat(one, cut, "truncation")
    assert caveat.values["share"] - caveat.values["share_reference"] == pytest.approx(0.5, abs=0.1)
    assert "of the texts end without a punctuation mark that closes a sentence (reference: " in caveat.message
    assert "This usually means that one side was cut off." in caveat.message
    closed = [f'"{text}"' for text in one]  # quotation marks and brackets after the end do not matter
    assert caveats_of_kind(one, closed, "truncation") == []


@pytest.mark.parametrize("unit", ["words", "characters"])
def test_a_common_maximum_length(unit):
    one, other = halves()
    limit = 22 if unit == "words" else 130

    def cut(text):
        return " ".join(text.split()[:limit]) if unit == "words" else text[:limit]

    reached = np.mean([(len(text.split()) if unit == "words" else len(text)) >= limit for text in other])
    sides = {"share": "these texts", "share_reference": "the reference texts"}
    for reference, model in ((one, [cut(text) for text in other]), ([cut(text) for text in other], one)):
        (caveat,) = [each for each in caveats_of_kind(reference, model, "truncation") if unit in each.values]
        side, other_side = list(sides) if model is not one else list(sides)[::-1]
        assert caveat.values[side] == pytest.approx(reached)
        assert caveat.values[unit] == limit
        assert caveat.message == (
            f"{100 * reached:.1f}% of {sides[side]} are exactly {limit} {unit} long, the maximum, but only "
            f"{100 * caveat.values[other_side]:.1f}% of {sides[other_side]}. This usually means that they were cut off. "
            "Cut both sides to this length, or raise the limit."
        )
    both = [cut(text) for text in one], [cut(text) for text in other]
    assert find_confounds(both[0], {"model": both[1]}) == ()  # both sides are cut in the same way, as they should be


# --- prompts


def with_prompts(texts: list[str], *, kept: bool, known: bool = True) -> Samples:
    parts = [text.split(" ", 3) for text in texts]
    prompts = [" ".join(words[:3]) for words in parts]
    shown = [text if kept else words[3] for text, words in zip(texts, parts, strict=True)]
    return Samples(texts=shown, prompts=prompts if known else None)


@pytest.mark.parametrize("known", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("kept", [(True, False), (False, True)])
def test_prompts_on_one_side_only(kept, known):
    one, other = halves()
    if not all(known):
        other = list(one)  # continuations of the same prompts; that they are copies is reported too
    sides = [
        with_prompts(half, kept=has_prompt, known=has_list)
        for half, has_prompt, has_list in zip((one, other), kept, known, strict=True)
    ]
    (caveat,) = caveats_of_kind(*sides, "prompt")
    shares = caveat.values["share"], caveat.values["share_reference"]
    assert shares == pytest.approx((1.0, 0.0) if kept[1] else (0.0, 1.0), abs=0.03)
    assert caveat.message == (
        f"{100 * shares[0]:.1f}% of the texts begin with their prompt (reference: {100 * shares[1]:.1f}%). Remove the "
        "prompts on both sides, or keep them on both."
    )


def test_prompts_on_both_sides_or_on_neither_are_fine():
    one, other = halves()
    for kept in (True, False):
        sides = [with_prompts(half, kept=kept) for half in (one, other)]
        assert caveats_of_kind(*sides, "prompt") == []


# --- characters


def test_characters_that_one_side_lacks():
    one, other = halves()
    curly = [text.replace("'", "’").replace('"', "”") for text in one]
    caveat, straight = caveats_of_kind(other, curly, "characters")
    assert straight.message.startswith(
        'the character " occurs in 64.2% of the reference texts, but only in 0.0% of these texts. Treat line breaks,'
    )
    assert straight.values["share"] == 0.0
    share = np.mean(["’" in text or "”" in text for text in curly])
    assert share / 2 < caveat.values["share"] <= share
    assert caveat.values["share_reference"] == np.mean(["”" in text for text in other]) < 0.05
    assert caveat.message.startswith("the character ” occurs in ")
    assert "% of these texts, but only in 4.8% of the reference texts." in caveat.message
    flat = [" ".join(text.split()) for text in other]
    (caveat,) = caveats_of_kind(one, flat, "characters")
    assert caveat.message.startswith("the character line feed occurs in")


def test_several_characters_that_one_side_lacks():
    one, other = halves()
    accented = [text.replace("e ", "é ").replace("a ", "á ") for text in other]
    (caveat,) = caveats_of_kind(one, accented, "characters")
    share = caveat.values["share"]
    assert caveat.values == {
        "share": np.mean(["é" in text for text in accented]),
        "share_reference": 0,
        "characters": 2,
    }
    assert caveat.message.startswith(
        f"2 characters are common on one side only: é á. The first of them occurs in {100 * share:.1f}% of these texts, "
        "but only in 0.0% of the reference texts."
    )


def test_characters_that_are_merely_rarer_on_one_side_are_not_reported():
    one, other = halves()
    assert np.mean(['"' in text for text in one]) > 0.6
    rarer = [text.replace('"', "") if i % 2 else text for i, text in enumerate(other)]
    assert caveats_of_kind(one, rarer, "characters") == []


def test_marks_that_a_model_simply_does_not_write_are_not_reported():
    one, other = ([text.replace(";", ",") for text in half] for half in halves())
    some = [text.replace(",", ";", 1) if i % 5 == 0 else text for i, text in enumerate(one)]
    assert 0.1 < np.mean([";" in text for text in some]) < 0.5
    assert caveats_of_kind(some, other, "characters") == []
    most = [text.replace(" ", ";", 1) if i % 5 else text for i, text in enumerate(one)]
    (caveat,) = caveats_of_kind(most, other, "characters")
    assert caveat.message.startswith("the character ; occurs in")


def test_lone_surrogates_do_no_harm():
    one, other = halves(size=20)
    assert find_confounds(one, {"model": Samples(texts=[*other[:-1], "\ud800"])}) == ()
