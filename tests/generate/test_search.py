"""What holds for every decoder: batches, ends, lengths, random numbers, and calls that are refused."""

import numpy as np
import pytest

from mallow.errors import InputError
from mallow.generate import (
    Greedy,
    HiddenStates,
    NextToken,
    Nucleus,
    Sampling,
    generate,
)
from markov_models import END, Markov, MarkovWithHidden, random_chain, random_chain_with_hidden


def test_the_models_of_these_tests_are_models():
    assert isinstance(random_chain(), NextToken)
    assert not isinstance(random_chain(), HiddenStates)
    assert isinstance(random_chain_with_hidden(), HiddenStates)


@pytest.mark.parametrize("batch", [1, 2, 3, 64])
def test_a_prefix_has_the_same_continuation_in_any_batch(chosen, batch):
    model = random_chain_with_hidden()
    prefixes = [[1], [2, 3], [1, 2, 3], [3], [1], [2]]
    together = generate(model, prefixes, chosen, max_new=12, rng=5)
    assert generate(model, prefixes, chosen, max_new=12, rng=5, batch=batch) == together
    keys = [4, 0, 2]
    some = generate(model, [prefixes[key] for key in keys], chosen, max_new=12, rng=5, keys=keys)
    assert some == [together[key] for key in keys]


def test_texts_stop_at_their_end_and_at_the_limit(chosen):
    model = random_chain_with_hidden(seed=3)
    prefixes = [[1 + i % 3] for i in range(40)]
    new = generate(model, prefixes, chosen, max_new=7, rng=1)
    lengths = {len(tokens) for tokens in new}
    assert max(lengths) <= 7
    assert all(END not in tokens for tokens in new)
    if isinstance(chosen, Sampling):
        assert {0, 7} < lengths
    long = generate(model, prefixes, chosen, max_new=7, min_new=5, rng=1)
    assert min(map(len, long)) >= 5
    assert max(map(len, long)) <= 7


def test_models_without_an_end_go_on_to_the_limit(chosen):
    model = random_chain_with_hidden()
    endless = MarkovWithHidden(model.table, frozenset(), vectors=model.vectors)
    assert {len(new) for new in generate(endless, [[1], [2], [3]], chosen, max_new=9)} == {9}


def test_no_prefixes_have_no_continuations(chosen):
    assert generate(random_chain_with_hidden(), [], chosen, max_new=3) == []


def test_impossible_tokens_are_never_chosen(chosen):
    table = np.random.default_rng(0).dirichlet(np.ones(5), size=(5, 5))
    table[..., [2, 4]] = 0
    table /= table.sum(axis=-1, keepdims=True)
    model = MarkovWithHidden(table, vectors=np.random.default_rng(1).normal(size=(5, 5, 2)))
    new = generate(model, [[1], [3]] * 20, chosen, max_new=20, rng=2)
    assert {token for tokens in new for token in tokens} <= {1, 3}


def test_the_same_rng_gives_the_same_tokens():
    model, prefixes = random_chain(), [[1], [2], [1]]
    first = generate(model, prefixes, Sampling(), max_new=20, rng=7)
    assert generate(model, prefixes, Sampling(), max_new=20, rng=7) == first
    assert generate(model, prefixes, Sampling(), max_new=20, rng=8) != first
    assert first[0] != first[2]  # equal prefixes at other places
    rng = np.random.default_rng(7)
    going_on = [generate(model, prefixes, Sampling(), max_new=20, rng=rng) for _ in range(2)]
    assert going_on[0] != going_on[1]
    assert generate(model, prefixes, Sampling(), max_new=20, rng=np.random.default_rng(7)) == going_on[0]
    fresh = [generate(model, prefixes, Sampling(), max_new=20, rng=None) for _ in range(2)]
    assert fresh[0] != fresh[1]


def test_generate_takes_a_name():
    model = random_chain()
    assert generate(model, [[1]], "top-k:1", max_new=5) == generate(model, [[1]], Greedy(), max_new=5)


# --- what is refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"prefixes": [[1], []]},
            r"at least one token each; prefix 1 is empty. For a text from its beginning .* end of text \[0\]",
        ),
        ({"prefixes": [[1], [2, 4]]}, "`prefixes` must hold tokens from 0 to 3; prefix 1 has 2 to 4"),
        ({"prefixes": [[-1]]}, "`prefixes` must hold tokens from 0 to 3; prefix 0 has -1 to -1"),
        ({"prefixes": [[1] * 8]}, "shorter than the model's context of 8 tokens; prefix 0 has 8. Cut it"),
        ({"prefixes": [[1] * 5]}, r"context of 8 tokens; got 5 \+ 5 for prefix 0. Use `max_new=3` or cut"),
        ({"max_new": 0}, "`max_new` must be an integer of at least 1; got 0"),
        ({"min_new": -1}, "`min_new` must be an integer of at least 0; got -1"),
        ({"min_new": 6}, "`min_new` must be at most max_new = 5; got 6"),
        ({"batch": 0}, "`batch` must be an integer of at least 1; got 0"),
        ({"keys": [1, 2]}, "`keys` must hold one number for each of 1 prefixes; got 2"),
        ({"keys": [-1]}, "`keys` must be an integer of at least 0; got -1"),
        ({"rng": 0.5}, "`rng` must be an integer of at least 0, a numpy Generator or None; got 0.5"),
        ({"decoder": None}, "`decoder` must be a decoder such as Sampling.* got None"),
        ({"decoder": Nucleus(0.9)}, "`decoder` must be a decoder such as Sampling.* got Nucleus"),
        (
            {"decoder": "contrastive:3:0.5"},
            "model without hidden states, such as markov. Add a method `hidden` to the model",
        ),
    ],
)
def test_calls_that_cannot_work_are_refused(arguments, message):
    model = Markov(random_chain().table, context=8)
    with pytest.raises(InputError, match=message):
        generate(model, **({"prefixes": [[1]], "decoder": "ancestral", "max_new": 5} | arguments))


def test_a_continuation_may_fill_the_context_to_its_last_token():
    endless = Markov(random_chain().table, frozenset(), context=8)
    for length in range(1, 8):
        [new] = generate(endless, [[1] * length], "greedy", max_new=8 - length, min_new=8 - length)
        assert len(new) == 8 - length
        with pytest.raises(InputError, match=rf"got {length} \+ {9 - length} for prefix 0"):
            generate(endless, [[1] * length], "greedy", max_new=9 - length)
    assert generate(endless, [[0], [3]], "greedy", max_new=1) != []  # the first and the last token


def test_a_model_that_allows_only_the_end_cannot_go_on():
    table = np.zeros((2, 2, 2))
    table[..., END] = 1
    assert generate(Markov(table), [[1]], Greedy(), max_new=3) == [[]]
    for arguments in ({"decoder": "greedy", "min_new": 1}, {"decoder": "adversarial:5"}):
        with pytest.raises(
            InputError, match=r"must not end here .*, but the model allows nothing else\. Lower min_new"
        ):
            generate(Markov(table), [[1]], max_new=3, **arguments)
