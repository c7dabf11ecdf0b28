"""Repetition: the definition by brute force, examples."""

from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow.baselines import repetition, text_repetitions


def repeats(tokens, copies, shortest):
    """Whether the tokens end in copies of a phrase, by the definition."""
    lengths = range(shortest, len(tokens) // copies + 1)
    return any(tokens[len(tokens) - copies * n :] == tokens[len(tokens) - n :] * copies for n in lengths)


@given(
    texts=st.lists(st.lists(st.integers(0, 1), max_size=16), min_size=1, max_size=9).filter(any),
    copies=st.integers(2, 4),
    shortest=st.integers(1, 4),
)
def test_repetition_equals_its_definition(texts, copies, shortest):
    flags = text_repetitions(texts, copies=copies, shortest=shortest)
    assert flags.tolist() == [repeats(text, copies, shortest) for text in texts]
    assert repetition(texts, copies=copies, shortest=shortest) == approx(flags.mean())


def test_what_counts_as_a_repetition():
    texts = ["x y z y z", "y z y z x", "no no", "no", "a b c a b c", "", "a b c d"]
    assert text_repetitions(texts).tolist() == [True, False, True, False, True, False, False]
    assert text_repetitions(texts, shortest=2).tolist() == [True, False, False, False, True, False, False]
    assert text_repetitions(texts, shortest=3).tolist() == [False, False, False, False, True, False, False]
    assert text_repetitions(["a a a", "a a", "b c b c b c"], copies=3).tolist() == [True, False, True]
    long = list(range(500))  # a phrase of any length
    assert text_repetitions([long * 2, [*long, -1, *long]]).tolist() == [True, False]
