"""Token probabilities: definitions by brute force, limits, truncated decoders, the paper's own table, real text."""

import itertools
import math
import pydoc_data.topics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from mallow.baselines._language import (
    SequenceScores,
    language_modelling,
    ngram_mauve,
    perplexity,
    perplexity_gap,
    text_perplexities,
    token_log_probs,
)
from mallow.errors import InputError
from mallow.generate._ngram import NGram
from mallow.generate._protocol import NextToken
from mallow.generate._rules import Nucleus, Temperature, TopK
from mallow.theory._frontier import area, integral

LOG_2 = math.log(2)


class Markov:
    """The next token by a table (V, V) of probabilities, by the last token alone; token 0 opens and ends a text."""

    def __init__(self, table, end=(0,), context=None, dtype=np.float64, opens=False):
        with np.errstate(divide="ignore"):
            self.table = np.log(np.asarray(table, np.float64)).astype(dtype)
        self.vocabulary, self.end, self.context, self.name = len(table), frozenset(end), context, "Markov"
        self.opens = opens
        self.batches = []

    def encode(self, text):
        return [0] * self.opens + [ord(letter) - ord("a") for letter in text]

    def decode(self, tokens):
        return "".join(chr(token + ord("a")) for token in tokens if token)

    def start(self, prefixes):
        assert all(len(prefix) for prefix in prefixes)
        self.batches.append(len(prefixes))
        state = np.array([prefix[-1] for prefix in prefixes])
        return self.table[state], state

    def step(self, state, tokens):
        assert len(state) == len(tokens)
        return self.table[tokens], np.asarray(tokens)

    def select(self, state, rows):
        return state[rows]


class Counting(Markov):
    """The same with a state that tells whether rows were mixed up: a prefix's first token shifts all of its rows."""

    def start(self, prefixes):
        state = np.array([[prefix[0], prefix[-1]] for prefix in prefixes])
        return self._rows(state), state

    def step(self, state, tokens):
        state = np.stack([state[:, 0], tokens], axis=1)
        return self._rows(state), state

    def _rows(self, state):
        return np.stack([np.roll(self.table[last], first) for first, last in state])


def random_table(seed, size=4, zeros=0.0):
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.ones(size), size=size)
    table[rng.random(table.shape) < zeros] = 0.0
    table[:, 1] += 1e-3
    return table / table.sum(axis=1, keepdims=True)


token_texts = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=7)
seeds = st.integers(0, 10_000)


@pytest.fixture(scope="module")
def manual():
    """Real human text that every Python carries."""
    return list(pydoc_data.topics.topics.values())


# --- log-probabilities of tokens


@given(seed=seeds, texts=token_texts, batch=st.integers(1, 9))
def test_scores_are_read_off_the_table_in_any_batch(seed, texts, batch):
    model = Markov(random_table(seed, zeros=0.3))
    found = token_log_probs(model, texts, batch=batch)
    for text, scores in zip(texts, found, strict=True):
        assert scores.tolist() == [model.table[a, b] for a, b in itertools.pairwise([0, *text])]
    assert max(model.batches) <= batch
    assert sum(model.batches) == len(texts)


@given(seed=seeds, texts=token_texts, batch=st.integers(1, 9), data=st.data())
def test_what_is_given_comes_before_and_stays_with_its_text(seed, texts, batch, data):
    model = Counting(random_table(seed))
    prompts = [data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)) for _ in texts]
    found = token_log_probs(model, texts, given=prompts, batch=batch)
    for prompt, text, scores in zip(prompts, texts, found, strict=True):
        chain = itertools.pairwise([prompt[-1], *text])
        assert scores.tolist() == [np.roll(model.table[a], prompt[0])[b] for a, b in chain]


def test_rules_make_the_scores_of_a_decoder():
    model = Markov([[0.1, 0.6, 0.3], [0.5, 0.3, 0.2], [0.2, 0.4, 0.4]])
    [scores] = token_log_probs(model, [[1, 0, 2, 1]], rules=(TopK(2),))
    assert np.exp(scores) == approx([0.6 / 0.9, 0.5 / 0.8, 0.3 / 0.9, 0.5])
    [scores] = token_log_probs(model, [[1, 2]], rules=(TopK(1),))
    assert scores.tolist() == [0.0, -np.inf]


def test_the_fast_path_gives_what_going_step_by_step_gives(manual):
    model = NGram.fit(manual[:10], order=3)
    assert isinstance(model, SequenceScores)
    assert isinstance(model, NextToken)
    texts = [text[:60] for text in manual[10:14]]
    fast = token_log_probs(model, texts)
    slow = token_log_probs(model, texts, rules=[Temperature(1.0)], batch=3)  # a rule that changes nothing
    for a, b in zip(fast, slow, strict=True):
        assert a == approx(b, abs=1e-6)
    prompts = [model.encode(text[60:90]) for text in manual[10:14]]
    fast = token_log_probs(model, texts, given=prompts)
    slow = token_log_probs(model, texts, given=prompts, rules=[Temperature(1.0)])
    for a, b in zip(fast, slow, strict=True):
        assert a == approx(b, abs=1e-6)
    assert perplexity(model, texts, given=prompts) == approx(np.exp(-np.concatenate(fast).mean()))
    assert text_perplexities(model, texts, given=prompts) == approx([np.exp(-each.mean()) for each in fast])


def test_rules_and_prompts_hold_for_a_model_with_a_fast_path_too(manual):
    model = NGram.fit(manual[:10], order=3)
    text, prompt = model.encode("the name of the class"), model.encode("for")
    rows = [model.start([[0, *text[:i]]])[0] for i in range(len(text))]
    [scores] = token_log_probs(model, [text], rules=(Temperature(2.0),))
    assert scores == approx([Temperature(2.0)(row)[0, token] for row, token in zip(rows, text, strict=True)], abs=1e-9)
    rows = [model.start([[*prompt, *text[:i]]])[0] for i in range(len(text))]
    [scores] = token_log_probs(model, [text], given=[prompt])
    assert scores == approx([row[0, token] for row, token in zip(rows, text, strict=True)], abs=1e-9)
    assert np.abs(scores - token_log_probs(model, [text])[0]).max() > 0.01


def test_a_token_that_begins_every_text_is_not_scored():
    table = random_table(3)
    plain, opening = Markov(table), Markov(table, opens=True, end=())  # without an end, nothing else could open a text
    assert token_log_probs(opening, ["bcd"])[0].tolist() == token_log_probs(plain, ["bcd"])[0].tolist()
    found = token_log_probs(opening, ["bcd"], given=[[2]])[0]
    assert found.tolist() == token_log_probs(plain, ["bcd"], given=[[2]])[0].tolist()


def test_rounding_above_zero_is_zero():
    model = Markov(np.full((2, 2), 0.5))
    model.table = np.array([[-np.inf, 1e-7], [-np.inf, 1e-7]])
    assert token_log_probs(model, [[1, 1]])[0].tolist() == [0.0, 0.0]
    assert perplexity(model, [[1, 1]]) == 1.0


# --- perplexity


@pytest.mark.parametrize("size", [2, 7, 300])
def test_a_uniform_model_has_the_perplexity_of_its_vocabulary(size):
    model = Markov(np.full((size, size), 1 / size))
    assert perplexity(model, [[1, 0, 1], [0]]) == approx(size)
    assert language_modelling(model, [[1, 0, 1], [0]]).perplexity == approx(size)


def test_every_token_counts_the_same_or_every_text():
    model = Markov([[0.5, 0.25, 0.25]] * 3)
    texts = [[0], [1, 1, 1]]
    assert perplexity(model, texts) == approx(2 ** (7 / 4))
    assert text_perplexities(model, texts) == approx([2, 4])
    assert perplexity_gap(model, [[0]], texts) == approx(2 ** (7 / 4) - 2)
    assert perplexity_gap(model, texts, [[0]]) == approx(2 ** (7 / 4) - 2)


def test_an_impossible_token_has_infinite_perplexity():
    model = Markov([[0.5, 0.5, 0.0]] * 3)
    assert perplexity(model, [[0, 2]]) == math.inf
    assert text_perplexities(model, [[0], [2]]).tolist() == [approx(2), math.inf]


def test_perplexity_beyond_the_largest_number_is_infinite():
    model = Markov([[0.5, 0.5]] * 2)
    model.table = np.array([[0.0, -1e4]] * 2)
    assert perplexity(model, [[1]]) == math.inf


def test_perplexity_of_real_text_falls_with_the_order(manual):
    train, test = manual[::2], manual[1::2]
    # The words that are spelt in bytes are the same for each order: the tokens are the same, and comparable.
    found = [perplexity(NGram.fit(train, order=order), test) for order in (1, 2, 3)]
    assert found[0] > 2 * found[1] > 2 * found[2]


def test_shuffled_words_are_further_from_human_text_than_human_text(manual):
    scorer = NGram.fit(manual[::2], order=3)
    reference, held_out = manual[1:40:4], manual[3:40:4]
    rng = np.random.default_rng(0)
    shuffled = [" ".join(rng.permutation(text.split())) for text in held_out]
    assert perplexity_gap(scorer, reference, shuffled) > 3 * perplexity_gap(scorer, reference, held_out)


# --- sparsemax score, Jensen–Shannon, ε-perplexity


def brute(q, x, epsilon):
    """SP, JS and the summand of ε-perplexity by their definitions."""
    one = np.eye(len(q))[x]
    middle = (one + q) / 2
    sp = 1 - np.sum((one - q) ** 2) / 2
    js = sum(0.5 * a * math.log(a / m) for p in (one, q) for a, m in zip(p, middle, strict=True) if a > 0)
    return sp, js, -math.log((q[x] + epsilon) / np.sum(q + epsilon))


@given(seed=seeds, texts=token_texts, epsilon=st.sampled_from([1e-8, 1e-5, 0.1, 3.0]), batch=st.integers(1, 9))
def test_metrics_equal_their_definitions(seed, texts, epsilon, batch):
    model = Markov(random_table(seed, zeros=0.3))
    found = language_modelling(model, texts, epsilon=epsilon, batch=batch)
    q = np.exp(model.table)
    each = [brute(q[a], b, epsilon) for text in texts for a, b in itertools.pairwise([0, *text])]
    sp, js, log_epsilon = np.mean(each, axis=0)
    assert found.sparsemax == approx(sp, abs=1e-12)
    assert found.js == approx(js, abs=1e-12)
    assert found.epsilon_perplexity == approx(math.exp(log_epsilon), rel=1e-12)
    assert found.perplexity == approx(perplexity(model, texts), rel=1e-12)
    assert found.tokens == sum(map(len, texts))
    assert found.epsilon == epsilon
    pairs = [(a, b) for text in texts for a, b in itertools.pairwise([0, *text])]
    assert found.impossible == approx(np.mean([q[a, b] == 0 for a, b in pairs]))
    assert 0 <= found.sparsemax <= 1
    assert 0 <= found.js <= LOG_2 + 1e-15
    assert 1 - 1e-12 <= found.epsilon_perplexity <= (1 + epsilon * 4) / epsilon * (1 + 1e-12)
    assert found == language_modelling(model, texts[::-1], epsilon=epsilon)  # bit for bit, in any order and batch


@settings(max_examples=30)
@given(seed=seeds, texts=token_texts, rule=st.sampled_from([TopK(1), TopK(2), Nucleus(0.6), Temperature(0.5)]))
def test_metrics_of_a_decoder_are_those_of_its_table(seed, texts, rule):
    model = Markov(random_table(seed))
    reshaped = Markov(np.exp(rule(model.table)))
    a, b = language_modelling(model, texts, (rule,)), language_modelling(reshaped, texts)
    for name in ("perplexity", "epsilon_perplexity", "sparsemax", "js", "impossible"):
        assert getattr(a, name) == approx(getattr(b, name), abs=1e-12)


def test_a_perfect_a_hopeless_and_an_ignorant_model():
    perfect = language_modelling(Markov(np.roll(np.eye(4), 1, axis=1)), [[1, 2, 3]])
    assert (perfect.perplexity, perfect.sparsemax, perfect.js, perfect.impossible) == (1, 1, 0, 0)
    hopeless = language_modelling(Markov(np.eye(4)), [[1, 2, 3]], epsilon=1e-3)
    assert (hopeless.perplexity, hopeless.sparsemax, hopeless.impossible) == (math.inf, 0, 1)
    assert hopeless.js == approx(LOG_2)
    assert hopeless.epsilon_perplexity == approx(1.004 / 1e-3)
    ignorant = language_modelling(Markov(np.full((50, 50), 0.02)), [[1, 2, 3]])
    assert ignorant.sparsemax == approx(0.5 + 0.5 / 50)
    assert ignorant.epsilon_perplexity == approx(50)  # smoothing leaves the uniform distribution alone


def test_single_precision_gives_the_same_to_rounding():
    table = random_table(1, zeros=0.2)
    a, b = (language_modelling(Markov(table, dtype=dtype), [[1, 2, 3, 1, 1]]) for dtype in (np.float64, np.float32))
    assert b.sparsemax == approx(a.sparsemax, abs=1e-6)
    assert b.js == approx(a.js, abs=1e-6)


# paper: tab:mauve:expt:webtext-app-LM, rows "Greedy"
@pytest.mark.parametrize(
    ("sp", "js", "epsilon_perplexity"),
    [(0.431, 0.394, 1049.589), (0.465, 0.371, 708.057), (0.483, 0.359, 580.020), (0.496, 0.349, 497.696)],
    ids=["small", "medium", "large", "xl"],
)
def test_greedy_rows_of_the_paper_fit_our_definitions(sp, js, epsilon_perplexity):
    class Sure(Markov):  # says token 1 always, as greedy decoding does
        def __init__(self):
            super().__init__(np.eye(2))
            self.vocabulary = 50_257
            self.table = np.full((1, 50_257), -np.inf, np.float32)
            self.table[0, 1] = 0.0

        def start(self, prefixes):
            return np.broadcast_to(self.table, (len(prefixes), 50_257)), None

        def step(self, state, tokens):
            return self.start(tokens)

        def select(self, state, rows):
            return None

    right = round(1000 * sp)
    found = language_modelling(Sure(), [[1] * right + [2] * (1000 - right)])
    assert found.sparsemax == approx(sp, abs=1e-12)  # greedy: the accuracy
    assert found.js == approx(LOG_2 * (1 - sp), abs=1e-12)
    assert found.js == approx(js, abs=0.0005 + 0.0005 * LOG_2)  # both are printed to three digits
    assert found.epsilon_perplexity == approx(epsilon_perplexity, rel=0.0005 * math.log(1e5))


def test_metrics_of_real_text_disagree_as_in_the_paper(manual):
    model = NGram.fit(manual[::2], order=3)
    texts = [text[:150] for text in manual[1:30:5]]
    sampling, nucleus, greedy = (language_modelling(model, texts, rules) for rules in ((), (Nucleus(0.9),), (TopK(1),)))
    assert greedy.perplexity == nucleus.perplexity == math.inf > sampling.perplexity
    assert greedy.js < nucleus.js < sampling.js  # JS prefers greedy decoding
    assert sampling.epsilon_perplexity < nucleus.epsilon_perplexity < greedy.epsilon_perplexity
    assert sampling.impossible == 0 < nucleus.impossible < greedy.impossible
    assert greedy.sparsemax == approx(1 - greedy.impossible)


# --- n-gram models of both sides


def test_equal_sides_have_equal_masses_in_any_order(manual):
    texts = [text[:200] for text in manual[:30]]
    masses = ngram_mauve(texts, texts[::-1], order=3)
    assert masses.p == approx(masses.q)
    assert area(masses, scale=5) == approx(1)
    other = [text[200:400] for text in manual[:30] if len(text) > 200]
    a, b = ngram_mauve(texts, other, order=2), ngram_mauve(texts[::-1], other, order=2)
    assert integral(a) == approx(integral(b), rel=1e-12)
    assert integral(a) == approx(integral(ngram_mauve(other, texts, order=2).swap()), rel=1e-12)


def test_no_model_scores_a_text_it_was_fitted_on(monkeypatch):
    texts = [f"{a} {b} {c}" for a in "xyz" for b in "xyz" for c in "xyz"]
    fitted, fit, log_prob = {}, NGram.fit, NGram.log_prob

    def watched_fit(texts, **options):
        model = fit(texts, min_count=1, **options)
        fitted[id(model)] = (model, set(texts))
        return model

    def watched_log_prob(model, tokens, given=None):
        assert model.decode(tokens[:-1]) not in fitted[id(model)][1]
        assert tokens[-1] == 0
        return log_prob(model, tokens)

    monkeypatch.setattr(NGram, "fit", watched_fit)
    monkeypatch.setattr(NGram, "log_prob", watched_log_prob)
    masses = ngram_mauve(texts[:20], texts[7:] + texts[7:], order=2)  # copies within a side and on both
    assert masses.p.shape == (20 + 40,)
    assert len(fitted) == 4


def test_other_texts_are_told_apart():
    rng = np.random.default_rng(0)
    one, other, far = (
        [" ".join(rng.choice(words, 12)) for _ in range(80)]
        for words in ("abcd", "abcd", "wxyz")
        for words in [[*words]]
    )
    near, apart = (ngram_mauve(one, each, order=2) for each in (other, far))
    assert integral(near) < 0.5 < 0.98 < integral(apart)
    assert apart.p[: len(one)].sum() == approx(1, abs=0.01)  # atoms at the reference texts come first


# --- errors


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: token_log_probs(m, "abc"), r"`texts` must be several texts; got one str\. Pass \[text\]\."),
        (lambda m: token_log_probs(m, []), r"`texts` must hold at least one text; got none\."),
        (lambda m: token_log_probs(m, ["ab", ""]), r"`texts\[1\]` must have at least one token; got none\."),
        (
            lambda m: token_log_probs(m, [[1, 4]]),
            r"`texts\[0\]` must hold tokens from 0 to 3; got 1 to 4\. Were they made by another model's tokenizer\?",
        ),
        (lambda m: token_log_probs(m, [[-1]]), r"`texts\[0\]` must hold tokens from 0 to 3; got -1 to -1\."),
        (lambda m: token_log_probs(m, [[1]], batch=0), r"`batch` must be an integer of at least 1; got 0\."),
        (lambda m: language_modelling(m, [[1]], batch=0), r"`batch` must be an integer of at least 1; got 0\."),
        (
            lambda m: token_log_probs(m, [[1], [2]], given=[[1]]),
            r"`given` must hold what comes before each of 2 texts; got 1\.",
        ),
        (lambda m: token_log_probs(m, [[1]], given=[[]]), r"`given\[0\]` must have at least one token; got none\."),
        (lambda m: token_log_probs(m, [[1]], given=[[9]]), r"`given\[0\]` must hold tokens from 0 to 3; got 9 to 9\."),
        (
            lambda m: token_log_probs(m, [[1]], rules=(3,)),
            r"`rules` must be decoding rules such as Nucleus\(0\.95\); got 3\.",
        ),
        (
            lambda m: language_modelling(m, [[1]], epsilon=0),
            r"`epsilon` must be a finite number above 0; got 0\. For ε = 0 it is the perplexity itself\.",
        ),
        (lambda m: ngram_mauve("ab", ["a"]), r"`reference` must be texts, none of them empty\."),
        (lambda m: ngram_mauve(["ab"], [""]), r"`model` must be texts, none of them empty\."),
        (
            lambda m: ngram_mauve(["ab"], ["a", "b"]),
            r"`reference` must hold enough different texts .* half of its 1 is empty",
        ),
        (lambda m: ngram_mauve(["a", "b"], []), r"`model` must hold enough different texts .* half of its 0 is empty"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call(Markov(random_table(0)))


@pytest.mark.parametrize("end", [(), (0, 3)])
def test_what_opens_a_text_must_be_known(end):
    model = Markov(random_table(0), end=end)
    message = (
        rf"`given` must say what opens a text for Markov, which has {len(end)} ends of text: pass \[\[token\]\] \* len"
    )
    with pytest.raises(InputError, match=message):
        perplexity(model, [[1]])
    assert len(token_log_probs(model, [[1]], given=[[2]])) == 1


def test_texts_fit_the_context():
    model = Markov(random_table(0), context=4)
    assert token_log_probs(model, [[1, 2, 3, 1]])[0].shape == (4,)  # four are read: the opening and all but the last
    with pytest.raises(InputError, match=r"context of 4 tokens .* text 1 has 5\. Cut it to 4 tokens\."):
        token_log_probs(model, [[1], [1, 2, 3, 1, 1]])
    with pytest.raises(InputError, match=r"text 0 has 4\. Cut it to 3 tokens\."):
        token_log_probs(model, [[1, 2, 3, 1]], given=[[1, 2]])


def test_what_is_no_distribution_is_refused():
    model = Markov(random_table(0))
    model.table = model.table + 1.0
    for metric in (token_log_probs, language_modelling):
        with pytest.raises(InputError, match=r"which sum to 1 after exp; a row of Markov sums to 2\.718\. Subtract"):
            metric(model, [[1]])
    model = Markov(random_table(0))
    model.table = np.vstack([model.table[:1], model.table[1:] + 9.0])  # right at the start, wrong afterwards
    with pytest.raises(InputError, match=r"which are at most 0; got \d.* for token 1 of `texts\[0\]`"):
        token_log_probs(model, [[1, 1]])
    model.table[1:] -= 10.0  # at most 0, and no distribution
    with pytest.raises(InputError, match=r"a row of Markov sums to 0\.3679\."):
        language_modelling(model, [[1, 1]])
    model.table = np.full((4, 4), np.nan)
    with pytest.raises(InputError, match=r"sums to nan"):
        token_log_probs(model, [[1, 1]])
    model.table = random_table(0)[:, :3]
    with pytest.raises(InputError, match=r"one row of 4 log-probabilities a text; Markov gave shape \(1, 3\) for 1"):
        token_log_probs(model, [[1, 1]])


def test_a_fast_path_must_give_one_number_a_token():
    class Fast(Markov):
        def log_prob(self, tokens, given):
            return np.zeros(1)

    with pytest.raises(
        InputError, match=r"`log_prob` must give one number a token; got shape \(1,\) for 2 of `texts\[0\]`"
    ):
        token_log_probs(Fast(random_table(0)), [[1, 1]])
