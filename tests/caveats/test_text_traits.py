"""Traits of texts, planted in half of the texts of one side."""

import re
import unicodedata

import pytest

from caveats.real_texts import caveats_of_kind, halves
from mallow.caveats import find_confounds


@pytest.mark.parametrize(
    ("kind", "change", "phrase"),
    [
        ("space", lambda text: " " + text, "begin with white space"),
        ("space", lambda text: text + "\n", "end with white space"),
        ("case", str.lower, "contain no capital letters"),
        ("case", str.upper, "are written in capital letters only"),
        ("leftovers", lambda text: text + "<|endoftext|>", "contain tokenizer markers such as <|endoftext|>"),
        (
            "leftovers",
            lambda text: re.sub(r"([.,]) ", r" \1 ", text + " Well, yes."),
            "contain a space before a full stop or comma",
        ),
    ],
)
def test_traits(kind, change, phrase):
    one, other = halves()
    changed = [change(text) if i % 2 else text for i, text in enumerate(other)]
    (caveat,) = [caveat for caveat in caveats_of_kind(one, changed, kind) if phrase in caveat.message]
    share, share_reference = caveat.values["share"], caveat.values["share_reference"]
    assert share - share_reference == pytest.approx(0.5, abs=0.06)
    assert caveat.message.startswith(
        f"{100 * share:.1f}% of the texts {phrase} (reference: {100 * share_reference:.1f}%). "
    )
    assert find_confounds([change(text) for text in one], {"model": [change(text) for text in other]}) == ()


def test_decomposed_accents():
    one, other = ([text.replace("e ", "é ") for text in half] for half in halves())
    decomposed = [unicodedata.normalize("NFD", text) for text in other]
    messages = [caveat.message for caveat in caveats_of_kind(one, decomposed, "characters")]
    assert any("are not normalised to composed Unicode (NFC)" in message for message in messages)
    assert any("COMBINING ACUTE ACCENT" in message for message in messages)
