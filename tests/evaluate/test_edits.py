"""Edits of texts do what their names say, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from mallow.evaluate import edit_texts

WORDS = st.lists(st.text("abcXYZ.", min_size=1, max_size=5), min_size=1, max_size=60)


@given(words=WORDS)
def test_edits_do_what_they_say_and_nothing_else(words):
    def after(edit):
        (text,) = edit_texts([" ".join(words)], edit)
        return text.split()

    assert sorted(after("words shuffled")) == sorted(words)
    assert after("first half") == words[: max(1, len(words) // 2)]
    assert after("first quarter") == words[: max(1, len(words) // 4)]
    looped = after("looping")
    assert looped[:20] == words[:20]
    assert all(looped[i] == looped[i - 20] for i in range(20, len(looped)))
    assert len(looped) == len(words)
    assert after("lower case") == [word.lower() for word in words]


def test_an_edit_depends_on_the_place_and_the_seed_only():
    texts = [f"one two three four five six {i}" for i in range(5)]
    assert edit_texts(texts, "words shuffled")[:3] == edit_texts(texts[:3], "words shuffled")
    assert edit_texts(texts, "words shuffled", seed=1) != edit_texts(texts, "words shuffled")
    assert edit_texts(["  \n"], "first half") == ["  \n"]  # there is no word to keep, but a text is never empty
