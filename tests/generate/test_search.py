"""Search: each decoder against its definition on models small enough to enumerate; batches, ends, lengths, errors."""

import itertools
import math
import pickle
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from scipy.stats import chisquare

from mallow.errors import InputError
from mallow.generate._protocol import NextToken
from mallow.generate._rules import Eta, MinP, Nucleus, Temperature, TopK, Typical
from mallow.generate._search import (
    Adversarial,
    Beam,
    Contrastive,
    Greedy,
    HiddenStates,
    Sampling,
    _drawn,
    decoder,
    generate,
)

END = 0


@dataclass(frozen=True, eq=False)
class Markov:
    """A chain of order two: the distribution (V, V, V) of the next token given the last two; before the first is END."""

    table: np.ndarray
    end: frozenset[int] = frozenset({END})
    context: int | None = None
    name: str = "markov"

    @property
    def vocabulary(self):
        return len(self.table)

    def encode(self, text):
        return [int(letter) for letter in text]

    def decode(self, tokens):
        return "".join(map(str, tokens))

    def log_probs(self, state):
        with np.errstate(divide="ignore"):
            return np.log(self.table[state[:, 0], state[:, 1]])

    def start(self, prefixes):
        state = np.array([[END, *prefix][-2:] for prefix in prefixes])
        return self.log_probs(state), state

    def step(self, state, tokens):
        assert len(state) == len(tokens)
        state = np.stack([state[:, 1], tokens], axis=1)
        return self.log_probs(state), state

    def select(self, state, rows):
        return state[rows]


@dataclass(frozen=True, eq=False)
class Seeing(Markov):
    """With a hidden state for each pair of tokens."""

    vectors: np.ndarray = None

    def start(self, prefixes):
        log_probs, state = super().start(prefixes)
        self_seen = [np.array([self.vectors[a, b] for a, b in itertools.pairwise([END, *p])]) for p in prefixes]
        return log_probs, (state, self_seen)

    def step(self, state, tokens):
        log_probs, pairs = super().step(state[0], tokens)
        return log_probs, (pairs, [self.vectors[a, b][None] for a, b in pairs])

    def select(self, state, rows):
        return state[0][rows], [state[1][row] for row in rows]

    def hidden(self, state):
        return state[1]


def chain(seed=0, size=4, concentration=0.7, end=True):
    """A random chain, which may end unless told otherwise."""
    table = np.random.default_rng(seed).dirichlet(np.full(size, concentration), size=(size, size))
    if not end:
        table[..., END] = 0
        table /= table.sum(axis=-1, keepdims=True)
    return Markov(table)


def log_prob(model, prefix, tokens):
    """The log-probability of tokens after a prefix."""
    seen = [END, *prefix]
    total = 0.0
    for token in tokens:
        probability = model.table[seen[-2], seen[-1], token]
        total += math.log(probability) if probability > 0 else -math.inf
        seen.append(token)
    return total


def every_text(model, length):
    """Every continuation up to a length, the shorter ones ended."""
    others = [token for token in range(model.vocabulary) if token not in model.end]
    for size in range(length + 1):
        for tokens in itertools.product(others, repeat=size):
            yield tokens if size == length else (*tokens, END)


ALL = [
    Sampling(),
    Sampling((Temperature(0.7), TopK(3))),
    Sampling((Nucleus(0.8),)),
    Greedy(),
    Beam(3),
    Beam(2, length_penalty=0.0, no_repeat=2),
    Adversarial(3.0),
    Contrastive(3, 0.5),
]
by_name = pytest.mark.parametrize("how", ALL, ids=lambda how: how.name)


def seeing(seed=0, size=4):
    vectors = np.random.default_rng(seed + 1).normal(size=(size, size, 3))
    return Seeing(chain(seed, size).table, vectors=vectors)


# --- every decoder


def test_the_models_of_this_file_are_models():
    assert isinstance(chain(), NextToken)
    assert not isinstance(chain(), HiddenStates)
    assert isinstance(seeing(), HiddenStates)


@by_name
@pytest.mark.parametrize("batch", [1, 2, 3, 64])
def test_a_prefix_has_the_same_continuation_in_any_batch(how, batch):
    model = seeing()
    prefixes = [[1], [2, 3], [1, 2, 3], [3], [1], [2]]
    together = generate(model, prefixes, how, max_new=12, rng=5)
    assert generate(model, prefixes, how, max_new=12, rng=5, batch=batch) == together
    keys = [4, 0, 2]
    some = generate(model, [prefixes[key] for key in keys], how, max_new=12, rng=5, keys=keys)
    assert some == [together[key] for key in keys]


@by_name
def test_texts_stop_at_their_end_and_at_the_limit(how):
    model = seeing(seed=3)
    prefixes = [[1 + i % 3] for i in range(40)]
    new = generate(model, prefixes, how, max_new=7, rng=1)
    lengths = {len(tokens) for tokens in new}
    assert max(lengths) <= 7
    assert all(END not in tokens for tokens in new)
    if isinstance(how, Sampling):
        assert {0, 7} < lengths
    long = generate(model, prefixes, how, max_new=7, min_new=5, rng=1)
    assert min(map(len, long)) >= 5
    assert max(map(len, long)) <= 7


@by_name
def test_models_without_an_end_go_on_to_the_limit(how):
    model = seeing()
    endless = Seeing(model.table, frozenset(), vectors=model.vectors)
    assert {len(new) for new in generate(endless, [[1], [2], [3]], how, max_new=9)} == {9}


@by_name
def test_no_prefixes_have_no_continuations(how):
    assert generate(seeing(), [], how, max_new=3) == []


@by_name
def test_impossible_tokens_are_never_chosen(how):
    table = np.random.default_rng(0).dirichlet(np.ones(5), size=(5, 5))
    table[..., [2, 4]] = 0
    table /= table.sum(axis=-1, keepdims=True)
    model = Seeing(table, vectors=np.random.default_rng(1).normal(size=(5, 5, 2)))
    new = generate(model, [[1], [3]] * 20, how, max_new=20, rng=2)
    assert {token for tokens in new for token in tokens} <= {1, 3}


def test_the_same_rng_gives_the_same_tokens():
    model, prefixes = chain(), [[1], [2], [1]]
    first = generate(model, prefixes, Sampling(), max_new=20, rng=7)
    assert generate(model, prefixes, Sampling(), max_new=20, rng=7) == first
    assert generate(model, prefixes, Sampling(), max_new=20, rng=8) != first
    assert first[0] != first[2]  # equal prefixes at other places
    rng = np.random.default_rng(7)
    going_on = [generate(model, prefixes, Sampling(), max_new=20, rng=rng) for _ in range(2)]
    assert going_on[0] != going_on[1]
    assert generate(model, prefixes, Sampling(), max_new=20, rng=np.random.default_rng(7)) == going_on[0]


# --- sampling and greedy


@pytest.mark.parametrize("how", [Sampling(), Sampling((TopK(2),))], ids=lambda how: how.name)
def test_frequencies_are_those_of_the_chain(how):
    model = chain(seed=1, size=3, concentration=2.0)
    table = model.table.copy()
    if how.rules:
        np.put_along_axis(table, table.argmin(axis=-1)[..., None], 0, axis=-1)
        table /= table.sum(axis=-1, keepdims=True)
    reshaped = Markov(table)
    new = generate(model, [[1]] * 4000, how, max_new=3, rng=0, batch=1000)
    texts = {text: math.exp(log_prob(reshaped, [1], text)) for text in every_text(model, 3)}
    texts = {text: probability for text, probability in texts.items() if probability > 0}
    assert sum(texts.values()) == approx(1)
    counts = Counter(tuple(tokens) if len(tokens) == 3 else (*tokens, END) for tokens in new)
    assert set(counts) <= set(texts)
    test = chisquare([counts[text] for text in texts], [4000 * probability for probability in texts.values()])
    assert test.pvalue > 0.01


def test_tokens_too_unlikely_for_a_number_are_not_drawn():
    assert _drawn(np.array([-1e5, 0.0, -1e5]), 0.0) == 1
    assert _drawn(np.array([-1e5, 0.0, -1e5]), np.nextafter(1.0, 0.0)) == 1
    halves = np.log([0.5, 0.5])
    assert [_drawn(halves, uniform) for uniform in (0.0, 0.49, 0.51, 0.99)] == [0, 0, 1, 1]


@given(seed=st.integers(0, 50))
def test_greedy_is_top_one_and_a_beam_of_one(seed):
    model = chain(seed)
    greedy = generate(model, [[1], [2]], Greedy(), max_new=6)
    assert generate(model, [[1], [2]], Sampling((TopK(1),)), max_new=6, rng=seed) == greedy
    assert generate(model, [[1], [2]], Beam(1, length_penalty=0.0), max_new=6) == greedy
    for prefix, new in zip([[1], [2]], greedy, strict=True):
        seen = [END, *prefix]
        for token in new:
            assert token == model.table[seen[-2], seen[-1]].argmax()
            seen.append(token)
        if len(new) < 6:
            assert model.table[seen[-2], seen[-1]].argmax() == END


# --- beam


@given(
    seed=st.integers(0, 200),
    size=st.integers(2, 4),
    length=st.integers(1, 4),
    penalty=st.sampled_from([0.0, 0.5, 1.0, 2.0, -1.0]),
)
def test_a_beam_wide_enough_finds_the_best_text_of_all(seed, size, length, penalty):
    model = chain(seed, size)
    best = max(every_text(model, length), key=lambda text: log_prob(model, [1], text) / len(text) ** penalty)
    [found] = generate(model, [[1]], Beam(size**length, length_penalty=penalty), max_new=length)
    assert tuple(found) == tuple(token for token in best if token != END)


def test_a_wider_beam_is_not_worse_on_average():
    def mean(width):
        scores = []
        for seed in range(30):
            model = chain(seed, end=False)
            [new] = generate(model, [[1]], Beam(width), max_new=8)
            scores.append(log_prob(model, [1], new))
        return np.mean(scores)

    assert mean(1) < mean(4) <= mean(64)


def plain_beam(model, prefix, width, length):
    """The paper's sentence, word for word, for models that never end."""
    beam = [((), 0.0)]
    for _ in range(length):
        longer = [(*tokens, token) for tokens, _ in beam for token in range(1, model.vocabulary)]
        beam = sorted(((t, log_prob(model, prefix, t)) for t in longer), key=lambda one: -one[1])[:width]
    return list(beam[0][0])


@given(seed=st.integers(0, 200), width=st.integers(1, 5))
def test_a_beam_retains_the_best_continuations(seed, width):  # paper: setup, beam search
    model = chain(seed, end=False)
    assert generate(model, [[2]], Beam(width), max_new=6) == [plain_beam(model, [2], width, 6)]


@given(seed=st.integers(0, 100), size=st.integers(1, 4))
def test_no_n_gram_is_repeated_and_the_prefix_counts(seed, size):
    model = chain(seed, size=5, end=False)
    prefix = [1, 2, 3, 1, 2]
    [new] = generate(model, [prefix], Beam(3, no_repeat=size), max_new=10)
    text = prefix + new
    ngrams = [tuple(text[i : i + size]) for i in range(len(text) - size + 1)]
    old = len(prefix) - size + 1
    assert all(ngram not in ngrams[: old + i] for i, ngram in enumerate(ngrams[old:]))
    # It goes on for as long as it may: with 4 tokens, 1-grams are used up after one more.
    assert len(new) == (1 if size == 1 else 10) or size == 2


def test_a_text_that_cannot_go_on_stays_as_it_is_and_ends_are_not_repeats():
    model = chain(end=False, size=3)
    assert generate(model, [[1, 2]], Beam(2, no_repeat=1), max_new=5) == [[]]
    # After 1 comes 2, after 2 most likely the end, although an end has opened the text.
    table = np.zeros((4, 4, 4))
    table[:, 1, 2] = table[:, END, 1] = table[:, 3, END] = 1
    table[:, 2] = [0.9, 0, 0, 0.1]
    assert generate(Markov(table), [[END, 1]], Beam(2, no_repeat=1), max_new=5) == [[2]]


def test_the_length_penalty_prefers_longer_texts():
    # The end at once has probability 0.5; going on has 0.45 and then certainty for ever.
    table = np.zeros((3, 3, 3))
    table[END, 1] = [0.5, 0.45, 0.05]
    table[1, 1] = [0.0, 1.0, 0.0]
    table[1, 2] = table[2, 1] = table[2, 2] = [1.0, 0.0, 0.0]
    model = Markov(table)
    assert generate(model, [[1]], Beam(2, length_penalty=0.0), max_new=4) == [[]]
    assert generate(model, [[1]], Beam(2, length_penalty=1.0), max_new=4) == [[1, 1, 1, 1]]


# --- adversarial


def test_the_adversary_has_the_perplexity_of_people():
    model = chain(seed=2, size=30, concentration=1.0)
    for target in (20.0, 40.0):
        prefixes = [[1], [2], [3]]
        new = generate(model, prefixes, Adversarial(target), max_new=200, rng=0)
        for prefix, tokens in zip(prefixes, new, strict=True):
            assert len(tokens) == 200  # never ends before
            perplexity = math.exp(-log_prob(model, prefix, tokens) / 200)
            assert perplexity == approx(target, rel=0.02)


def test_the_adversary_is_uniform_first_and_then_nearest():
    model = chain(seed=2, size=6, concentration=1.0)
    options = Adversarial(4.0)
    new = generate(model, [[1]] * 1500, options, max_new=10, rng=3)
    uniform = 2  # ⌈0.15 · 10⌉
    counts = Counter(tuple(tokens[:uniform]) for tokens in new)
    assert len(counts) == 25
    assert chisquare([counts[pair] for pair in sorted(counts)]).pvalue > 0.01
    for tokens in new[:20]:
        for size in range(uniform, 10):
            tried = {
                token: abs(-log_prob(model, [1], [*tokens[:size], token]) / (size + 1) - math.log(4.0))
                for token in range(1, 6)
            }
            assert tried[tokens[size]] == approx(min(tried.values()))


# --- contrastive


def contrastive_by_definition(model, prefix, k, penalty, length):
    text = list(prefix)
    for _ in range(length):
        seen = [END, *text]
        probs = model.table[seen[-2], seen[-1]]
        past = [model.vectors[a, b] for a, b in itertools.pairwise(seen)]

        def score(token, probs=probs, past=past, last=seen[-1]):
            one = model.vectors[last, token]
            cosines = [one @ other / np.linalg.norm(one) / np.linalg.norm(other) for other in past]
            return (1 - penalty) * probs[token] - penalty * max(cosines)

        token = max(sorted(np.argsort(-probs)[:k]), key=score)
        if token == END:
            break
        text.append(int(token))
    return text[len(prefix) :]


@given(seed=st.integers(0, 100), k=st.integers(1, 5), penalty=st.floats(0, 1))
def test_contrastive_search_is_its_definition(seed, k, penalty):
    model = seeing(seed, 5)
    prefixes = [[1, 2], [3], [4, 4, 4]]
    expected = [contrastive_by_definition(model, prefix, k, penalty, 6) for prefix in prefixes]
    assert generate(model, prefixes, Contrastive(k, penalty), max_new=6) == expected


def test_contrastive_search_without_penalty_is_greedy():
    model = seeing(4)
    prefixes = [[1], [2], [3]]
    assert generate(model, prefixes, Contrastive(4, 0.0), max_new=9) == generate(model, prefixes, Greedy(), max_new=9)


# --- names


@by_name
def test_every_name_reads_back(how):
    assert decoder(how.name) == how
    assert pickle.loads(pickle.dumps(how)) == how


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ancestral", Sampling()),
        ("greedy", Greedy()),
        ("nucleus:0.95", Sampling((Nucleus(0.95),))),
        ("typical:0.2", Sampling((Typical(0.2),))),
        ("eta:0.0003", Sampling((Eta(0.0003),))),
        ("min-p:0.1", Sampling((MinP(0.1),))),
        ("temperature:0.7 + top-k:50", Sampling((Temperature(0.7), TopK(50)))),
        ("beam:4", Beam(4)),
        ("beam:4:no-repeat=4:length-penalty=0", Beam(4, 0.0, 4)),
        ("adversarial:12.5", Adversarial(12.5)),
        ("adversarial:12.5:uniform-share=0.3", Adversarial(12.5, 0.3)),
        ("contrastive:5:0.6", Contrastive(5, 0.6)),
    ],
)
def test_names_stand_for_decoders(name, expected):
    assert decoder(name) == expected


def test_generate_takes_a_name():
    model = chain()
    assert generate(model, [[1]], "top-k:1", max_new=5) == generate(model, [[1]], Greedy(), max_new=5)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nucleos:0.9", r"must be one of ancestral, greedy, .*; got 'nucleos:0.9'. Did you mean nucleus\?"),
        ("", "`decoder` must be one of ancestral, greedy"),
        ("nucleus", "`decoder` must be written nucleus:P; got 'nucleus'"),
        ("greedy:3", "`decoder` must be written greedy; got 'greedy:3'"),
        ("contrastive:5", "`decoder` must be written contrastive:K:PENALTY; got 'contrastive:5'"),
        ("nucleus:much", "`decoder` must have a number in nucleus:P; got 'much' in 'nucleus:much'"),
        ("top-k:2.5", "`decoder` must have a whole number in top-k:K; got '2.5' in 'top-k:2.5'"),
        ("beam:4:no-repeat=x", "must have a whole number in beam:WIDTH:no-repeat=; got 'x'"),
        ("beam:4:norepeat=4", r"`decoder` beam has options length-penalty=, no-repeat=; .* Did you mean no-repeat\?"),
        ("greedy:x=1", "`decoder` greedy has options none; got 'x'"),
        ("greedy+nucleus:0.9", "`decoder` must join only rules .* by [+]; got 'greedy[+]nucleus:0.9'"),
        ("nucleus:1.5", "`mass` must be above 0 and at most 1; got 1.5"),
    ],
)
def test_other_names_are_refused(name, message):
    with pytest.raises(InputError, match=message):
        decoder(name)


# --- what is refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Beam(0), "`width` must be an integer of at least 1; got 0"),
        (lambda: Beam(2, length_penalty=math.inf), "`length_penalty` must be a finite number; got inf"),
        (lambda: Beam(2, length_penalty="1"), "`length_penalty` must be a finite number; got '1'"),
        (lambda: Beam(2, no_repeat=0), "`no_repeat` must be an integer of at least 1; got 0"),
        (lambda: Adversarial(0), "`perplexity` must be a finite number above 0; got 0"),
        (lambda: Adversarial(1.0), "`perplexity` must be above 1, that of a text known for certain; got 1.0"),
        (lambda: Adversarial(9, 1.5), "`uniform_share` must lie between 0 and 1; got 1.5"),
        (lambda: Adversarial(9, "all"), "`uniform_share` must lie between 0 and 1; got 'all'"),
        (lambda: Contrastive(0), "`k` must be an integer of at least 1; got 0"),
        (lambda: Contrastive(4, -0.1), "`penalty` must lie between 0 and 1; got -0.1"),
        (lambda: Sampling(("nucleus",)), "`rules` must be decoding rules such as Nucleus"),
    ],
)
def test_options_outside_their_range_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prefixes": [[1], []]}, r"at least one token; prefix 1 is empty. Begin from nothing .* end of text \[0\]"),
        ({"prefixes": [[1], [2, 4]]}, "`prefixes` must hold tokens from 0 to 3; prefix 1 has 2 to 4"),
        ({"prefixes": [[-1]]}, "`prefixes` must hold tokens from 0 to 3; prefix 0 has -1 to -1"),
        ({"prefixes": [[1] * 8]}, "shorter than the model's context of 8 tokens; prefix 0 has 8. Cut it"),
        ({"prefixes": [[1] * 5]}, r"context of 8 tokens; got 5 \+ 5 for prefix 0. Use max_new=3 or cut"),
        ({"max_new": 0}, "`max_new` must be an integer of at least 1; got 0"),
        ({"min_new": -1}, "`min_new` must be an integer of at least 0; got -1"),
        ({"min_new": 6}, "`min_new` must be at most max_new = 5; got 6"),
        ({"batch": 0}, "`batch` must be an integer of at least 1; got 0"),
        ({"keys": [1, 2]}, "`keys` must hold one number for each of 1 prefixes; got 2"),
        ({"keys": [-1]}, "`keys` must be an integer of at least 0; got -1"),
        ({"rng": 0.5}, "`rng` must be an integer of at least 0; got 0.5"),
        ({"decoder": None}, "`decoder` must be a decoder such as Sampling.* got None"),
        ({"decoder": Nucleus(0.9)}, "`decoder` must be a decoder such as Sampling.* got Nucleus"),
        (
            {"decoder": "contrastive:3:0.5"},
            "model without hidden states, such as markov. Give the model a method `hidden`",
        ),
    ],
)
def test_calls_that_cannot_work_are_refused(arguments, message):
    model = Markov(chain().table, context=8)
    with pytest.raises(InputError, match=message):
        generate(model, **({"prefixes": [[1]], "decoder": "ancestral", "max_new": 5} | arguments))


def test_a_model_that_knows_only_the_end_cannot_go_on():
    table = np.zeros((2, 2, 2))
    table[..., END] = 1
    assert generate(Markov(table), [[1]], Greedy(), max_new=3) == [[]]
    for arguments in ({"decoder": "greedy", "min_new": 1}, {"decoder": "adversarial:5"}):
        with pytest.raises(InputError, match=r"must go on here .* knows nothing but its end"):
            generate(Markov(table), [[1]], max_new=3, **arguments)
