"""All text statistics at once, gaps, and greedy text against human text."""

import functools
from dataclasses import replace

import pytest

from mallow.baselines import (
    distinct,
    diversity,
    gap,
    repetition,
    self_bleu,
    text_statistics,
    zipf_coefficient,
)
from mallow.errors import EstimateWarning, InputError
from mallow.generate import NGram, generate


def test_all_statistics_at_once_equal_those_of_the_functions(manual_pieces):
    some = [*manual_pieces[:40], manual_pieces[40] + " very very"]
    for texts, tokenize in ((some, "whitespace"), (some, "regex"), (some[20:], list)):
        statistics = text_statistics(texts, tokenize=tokenize)
        functions = (zipf_coefficient, repetition, distinct, diversity, self_bleu)
        assert statistics.values == {function.__name__: function(texts, tokenize=tokenize) for function in functions}
        assert (statistics.texts, statistics.caveats) == (len(texts), ())
        assert statistics.repetition > 0
    assert statistics.tokens == sum(len(text) for text in texts)
    assert statistics.tokenize == "builtins.list"
    assert (
        text_statistics(manual_pieces[:9], tokenize=functools.partial(str.split, sep=" ")).tokenize
        == "functools.partial"
    )


def test_a_gap_is_the_absolute_difference(manual_pieces):
    reference, model = manual_pieces[:50], [text[:300] + " and so on" * 30 for text in manual_pieces[50:100]]
    p, q = text_statistics(reference), text_statistics(model)
    gaps = q.gap(p)
    assert gaps == p.gap(q)
    assert gaps == {name: abs(q.values[name] - p.values[name]) for name in p.values}
    assert p.gap(p) == dict.fromkeys(p.values, 0.0)
    assert gap(diversity, reference, model) == gap(diversity, model, reference) == gaps["diversity"]
    assert gaps["repetition"] == 1.0 == gap(repetition, reference, model)


def test_other_tokens_are_refused_and_other_sizes_have_a_warning(manual_pieces):
    p = text_statistics(manual_pieces[:10])
    with pytest.raises(
        InputError, match="`reference` must be tokenised like the model's texts, by 'regex'; got 'whitespace'"
    ):
        text_statistics(manual_pieces[10:20], tokenize="regex").gap(p)
    with pytest.warns(EstimateWarning, match="the reference has 10 texts and the model 11"):
        replace(p, texts=11).gap(p)
    with pytest.warns(EstimateWarning, match="the reference has 1 texts and the model 2"):
        assert gap(distinct, ["a b c d"], ["a b c d"] * 2) == 0.5


def test_greedy_text_repeats_itself_and_human_text_does_not(manual_pieces):  # paper: tab:mauve:expt:webtext-full
    model = NGram.fit(manual_pieces, order=3)
    texts = [model.encode(text)[:160] for text in manual_pieces[:40]]
    greedy = generate(model, [text[:10] for text in texts], "greedy", max_new=150, min_new=150)
    human = text_statistics([text[10:] for text in texts])
    machine = text_statistics(greedy)
    assert human.tokenize == machine.tokenize == "tokens"
    assert machine.repetition > 0.5 > 0.1 > human.repetition
    assert machine.distinct < 0.5 * human.distinct
    assert machine.diversity < 0.5 * human.diversity
    assert machine.self_bleu > human.self_bleu
