"""Terms: which texts contain which, and what is said of those that differ."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from explain.made import evidence_of, make_texts
from mallow.explain import UnitTests
from mallow.explain._words import distinct, split_texts, tabulate_terms, word_candidates
from mallow.models import words

TEXTS = st.lists(st.text(alphabet="ab ,.é", max_size=15), min_size=1, max_size=12)


@given(texts=TEXTS, fewest=st.integers(1, 3))
def test_a_table_has_the_words_and_pairs_of_every_text(texts, fewest):
    table = tabulate_terms(split_texts(texts), fewest)
    contents = []
    for text in texts:
        tokens = [token if token.isalnum() else "" for token in words(text)]
        pairs = {f"{one} {two}" for one, two in pairwise(tokens) if one and two}
        contents.append(set(filter(None, tokens)) | pairs)
    counts = {term: sum(term in own for own in contents) for own in contents for term in own}
    expected = {term for term, count in counts.items() if fewest <= count <= len(texts) - fewest}
    assert set(table.names) == expected
    assert len(table.names) == len(expected)
    for place, own in enumerate(contents):
        assert {table.names[i] for i in np.flatnonzero(table.present[[place]].toarray()[0])} == own & expected


@given(keys=st.lists(st.integers(0, 9)))
def test_distinct_keys_are_sorted(keys):
    assert distinct(np.array(keys, np.int64)).tolist() == sorted(set(keys))


def test_tokens_are_counted_text_by_text():
    tokens = split_texts(["Yes, yes: no.", "", "No no no yes"])
    assert tokens.per_text().tolist() == [6, 0, 4]
    assert tokens.only_words.per_text().tolist() == [3, 0, 4]
    assert tokens.only_words.different(2).tolist() == [1, 0, 1]
    assert tokens.only_words.different(99).tolist() == [2, 0, 2]
    assert tokens.per_text(tokens.which("yes".__eq__)).tolist() == [2, 0, 1]


def candidates_of(human, machine, level=0.05):
    scores = np.zeros(len(human)), np.zeros(len(machine))
    return word_candidates(split_texts([*human, *machine]), UnitTests.of(evidence_of(*scores)), level)


def test_terms_of_both_directions_are_named_with_their_shares():
    human = [text + (" Indeed so" if i % 4 else "") for i, text in enumerate(make_texts(200, 1))]
    machine = [text + (" as if not" if i % 2 else "") for i, text in enumerate(make_texts(200, 2))]
    more, less = candidates_of(human, machine)
    text, values = more.phrase(*more.means)
    assert text == "“as”, “if” and “not” more often (“as” in 50% of the texts, reference 0%)"
    assert values["“if”"] == 0.5
    assert values["“if”, reference"] == 0.0
    text, values = less.phrase(*less.means)
    assert text == "“indeed” and “so” less often (“indeed” in 0% of the texts, reference 75%)"
    assert more.kind == "words"
    assert more.adjusted >= more.p_value
    assert more.means[0] > more.means[1] == 0.0


def test_a_single_term_is_named_once():
    human, machine = (
        make_texts(100, 1),
        [text + (" Indeed" if i % 2 else "") for i, text in enumerate(make_texts(100, 2))],
    )
    (one,) = candidates_of(human, machine)
    assert one.phrase(*one.means)[0] == "“indeed” more often (in 50% of the texts, reference 0%)"


def test_terms_that_show_go_with_the_score_if_any_do():
    """All are equally clear; those come first that go with the score themselves."""
    rng = np.random.default_rng(0)
    terms = [f"x{i}" for i in range(6)]
    with_term = rng.random((300, 6)) < 0.5
    machine = [
        ". ".join([text, *np.array(terms)[own]]) for text, own in zip(make_texts(300, 2), with_term, strict=True)
    ]
    scores = rng.normal(size=300), -4.0 * with_term[:, 4] - 4.0 * with_term[:, 1] + rng.normal(size=300)
    tests = UnitTests.of(evidence_of(*scores))
    (one,) = word_candidates(split_texts([*make_texts(300, 1), *machine]), tests, 0.05)
    first = one.phrase(*one.means)[0].split(" more often")[0].split(", ")[:2]
    assert set(first) == {"“x1”", "“x4”"}


def test_longer_texts_contain_more_of_all_words_and_that_is_no_news():
    human, machine = make_texts(300, 1, (8, 12)), make_texts(300, 2, (20, 30))
    tokens, tests = split_texts([*human, *machine]), UnitTests.of(evidence_of(np.zeros(300), np.zeros(300)))
    _, z = tests.difference(tabulate_terms(tokens, 20).present)
    assert np.median(np.abs(z)) > 5  # without regard to length, nearly all words are more frequent
    assert candidates_of(human, machine) == []


def test_texts_that_are_drawn_alike_have_no_terms():
    for seed in range(20):
        assert candidates_of(make_texts(150, seed), make_texts(150, 100 + seed)) == []


def test_few_texts_have_no_terms_to_try():
    assert candidates_of(["a b c"] * 5, ["d e f"] * 5) == []
    assert candidates_of([""] * 5, [" "] * 5) == []


def test_a_level_is_kept():
    human, machine = (
        make_texts(100, 1),
        [text + (" Indeed" if i % 4 == 0 else "") for i, text in enumerate(make_texts(100, 2))],
    )
    (one,) = candidates_of(human, machine)
    assert candidates_of(human, machine, level=one.adjusted * 1.001)
    assert candidates_of(human, machine, level=one.adjusted) == []
