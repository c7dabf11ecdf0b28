"""Sparsemax score, Jensen–Shannon, ε-perplexity: definitions by brute force, limits, the paper's own table, real text."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from mallow.baselines import language_modelling, perplexity
from mallow.errors import InputError
from mallow.generate import NGram, Nucleus, Temperature, TopK
from table_models import TableModel, random_table

LOG_2 = math.log(2)


token_texts = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=7)


seeds = st.integers(0, 10_000)


def by_definition(q, x, epsilon):
    """SP, JS and the summand of ε-perplexity of one token."""
    certain = np.eye(len(q))[x]
    middle = (certain + q) / 2
    sp = 1 - np.sum((certain - q) ** 2) / 2
    js = sum(0.5 * a * math.log(a / m) for p in (certain, q) for a, m in zip(p, middle, strict=True) if a > 0)
    return sp, js, -math.log((q[x] + epsilon) / np.sum(q + epsilon))


@given(seed=seeds, texts=token_texts, epsilon=st.sampled_from([1e-8, 1e-5, 0.1, 3.0]), batch=st.integers(1, 9))
def test_metrics_equal_their_definitions(seed, texts, epsilon, batch):
    model = TableModel(random_table(seed, zeros=0.3))
    metrics = language_modelling(model, texts, epsilon=epsilon, batch=batch)
    q = np.exp(model.table)
    terms = [by_definition(q[a], b, epsilon) for text in texts for a, b in itertools.pairwise([0, *text])]
    sp, js, log_epsilon = np.mean(terms, axis=0)
    assert metrics.sparsemax == approx(sp, abs=1e-12)
    assert metrics.js == approx(js, abs=1e-12)
    assert metrics.epsilon_perplexity == approx(math.exp(log_epsilon), rel=1e-12)
    assert metrics.perplexity == approx(perplexity(model, texts), rel=1e-12)
    assert metrics.tokens == sum(map(len, texts))
    assert metrics.epsilon == epsilon
    pairs = [(a, b) for text in texts for a, b in itertools.pairwise([0, *text])]
    assert metrics.impossible == approx(np.mean([q[a, b] == 0 for a, b in pairs]))
    assert 0 <= metrics.sparsemax <= 1
    assert 0 <= metrics.js <= LOG_2 + 1e-15
    assert 1 - 1e-12 <= metrics.epsilon_perplexity <= (1 + epsilon * 4) / epsilon * (1 + 1e-12)
    assert metrics == language_modelling(model, texts[::-1], epsilon=epsilon)  # bit for bit, in any order and batch


@settings(max_examples=30)
@given(seed=seeds, texts=token_texts, rule=st.sampled_from([TopK(1), TopK(2), Nucleus(0.6), Temperature(0.5)]))
def test_metrics_of_a_decoder_equal_those_of_its_table(seed, texts, rule):
    model = TableModel(random_table(seed))
    reshaped = TableModel(np.exp(rule(model.table)))
    a, b = language_modelling(model, texts, (rule,)), language_modelling(reshaped, texts)
    for name in ("perplexity", "epsilon_perplexity", "sparsemax", "js", "impossible"):
        assert getattr(a, name) == approx(getattr(b, name), abs=1e-12)


def test_a_perfect_a_hopeless_and_a_uniform_model():
    perfect = language_modelling(TableModel(np.roll(np.eye(4), 1, axis=1)), [[1, 2, 3]])
    assert (perfect.perplexity, perfect.sparsemax, perfect.js, perfect.impossible) == (1, 1, 0, 0)
    hopeless = language_modelling(TableModel(np.eye(4)), [[1, 2, 3]], epsilon=1e-3)
    assert (hopeless.perplexity, hopeless.sparsemax, hopeless.impossible) == (math.inf, 0, 1)
    assert hopeless.js == approx(LOG_2)
    assert hopeless.epsilon_perplexity == approx(1.004 / 1e-3)
    uniform = language_modelling(TableModel(np.full((50, 50), 0.02)), [[1, 2, 3]])
    assert uniform.sparsemax == approx(0.5 + 0.5 / 50)
    assert uniform.epsilon_perplexity == approx(50)  # smoothing does not change the uniform distribution


def test_single_precision_differs_by_rounding_only():
    table = random_table(1, zeros=0.2)
    a, b = (language_modelling(TableModel(table, dtype=dtype), [[1, 2, 3, 1, 1]]) for dtype in (np.float64, np.float32))
    assert b.sparsemax == approx(a.sparsemax, abs=1e-6)
    assert b.js == approx(a.js, abs=1e-6)


# paper: tab:mauve:expt:webtext-app-LM, rows "Greedy"
@pytest.mark.parametrize(
    ("sp", "js", "epsilon_perplexity"),
    [(0.431, 0.394, 1049.589), (0.465, 0.371, 708.057), (0.483, 0.359, 580.020), (0.496, 0.349, 497.696)],
    ids=["small", "medium", "large", "xl"],
)
def test_greedy_rows_of_the_paper_fit_our_definitions(sp, js, epsilon_perplexity):
    class AlwaysOne(TableModel):  # token 1 is certain, as under greedy decoding
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

    correct = round(1000 * sp)
    metrics = language_modelling(AlwaysOne(), [[1] * correct + [2] * (1000 - correct)])
    assert metrics.sparsemax == approx(sp, abs=1e-12)  # greedy: the accuracy
    assert metrics.js == approx(LOG_2 * (1 - sp), abs=1e-12)
    assert metrics.js == approx(js, abs=0.0005 + 0.0005 * LOG_2)  # both are printed to three digits
    assert metrics.epsilon_perplexity == approx(epsilon_perplexity, rel=0.0005 * math.log(1e5))


def test_metrics_disagree_on_real_text_as_in_the_paper(manual):
    model = NGram.fit(manual[::2], order=3)
    texts = [text[:150] for text in manual[1:30:5]]
    sampling, nucleus, greedy = (language_modelling(model, texts, rules) for rules in ((), (Nucleus(0.9),), (TopK(1),)))
    assert greedy.perplexity == nucleus.perplexity == math.inf > sampling.perplexity
    assert greedy.js < nucleus.js < sampling.js  # JS prefers greedy decoding
    assert sampling.epsilon_perplexity < nucleus.epsilon_perplexity < greedy.epsilon_perplexity
    assert sampling.impossible == 0 < nucleus.impossible < greedy.impossible
    assert greedy.sparsemax == approx(1 - greedy.impossible)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, r"`batch` must be an integer of at least 1; got 0\."),
        ({"epsilon": 0}, r"`epsilon` must be a finite number above 0; got 0\. For ε = 0 it is the perplexity itself\."),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        language_modelling(TableModel(random_table(0)), [[1]], **options)


def test_rows_that_are_no_distributions_are_refused():
    model = TableModel(random_table(0))
    model.table = model.table + 1.0
    with pytest.raises(
        InputError, match=r"which sum to 1 after exp, but a row of table model sums to 2\.718\. Subtract"
    ):
        language_modelling(model, [[1]])
    model.table = np.vstack([model.table[:1] - 1.0, model.table[1:] - 2.0])  # correct at the start, wrong afterwards
    with pytest.raises(InputError, match=r"a row of table model sums to 0\.3679\."):
        language_modelling(model, [[1, 1]])
