"""Typical terms: the definition, and what is counted."""

import math
import sys

from pytest import approx

from mallow.explain import terms_of_groups


def marking_terms(inside, outside):
    """What is typical of some texts in contrast to others."""
    return terms_of_groups([inside], [*inside, *outside])[0]


def test_terms_count_texts_and_not_words():
    inside = ["the stone is red"] * 20 + [" ".join(["noise"] * 500)]
    outside = ["the sky is blue"] * 200
    assert marking_terms(inside, outside) == ("red", "stone")
    assert marking_terms(outside[:20], outside) == ()
    assert marking_terms(inside, []) == ()
    assert marking_terms(["x"] * 2 + ["y"] * 15, ["x"] + ["y"] * 582) == ()  # clear, but in two texts only
    pairs = ["we saw new york"] * 20
    assert marking_terms(pairs, ["we saw old york", "we saw new people"] * 50)[0] == "new york"


def test_terms_follow_the_definition(monkeypatch):
    """Log odds ratio over its standard error, with ten texts at the common rate added to both sides; above 3, clearest first."""
    monkeypatch.setattr(sys.modules["mallow.explain._words"], "_MOST_TERMS", 10_000)
    n, others = 20, 100
    texts_with = {f"w{a}x{b}": (a, b) for a in range(n + 1) for b in range(61)}  # a texts inside and b outside
    inside = [". ".join(word for word, (a, _) in texts_with.items() if i < a) or "." for i in range(n)]
    outside = [". ".join(word for word, (_, b) in texts_with.items() if i < b) or "." for i in range(others)]

    def log_odds(yes, total, rate):
        yes, no = yes + 10 * rate, total - yes + 10 * (1 - rate)
        return math.log(yes / no), 1 / yes + 1 / no

    z = {}
    for word, (a, b) in texts_with.items():
        rate = (a + b + 0.5) / (n + others + 1)
        (here, error), (there, other_error) = log_odds(a, n, rate), log_odds(b, others, rate)
        z[word] = (here - there) / math.sqrt(error + other_error)
    clear = [word for word, (a, _) in texts_with.items() if z[word] > 3 and a >= 3]
    terms = marking_terms(inside, outside)
    assert set(terms) == set(clear)
    assert len(terms) > 300
    assert [z[word] for word in terms] == approx(sorted((z[word] for word in clear), reverse=True))


def test_terms_leave_out_punctuation_and_do_not_cross_it():
    assert set(marking_terms(["Red, stone !!!"] * 30, ["blue sky"] * 60)) == {"red", "stone"}
