"""Log-probabilities of tokens: read off a table, with rules, prefixes and fast paths; what is refused."""

import itertools
import pydoc_data.topics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow.errors import InputError
from mallow.generate import NextToken, NGram, SequenceScores, Temperature, TopK, token_log_probs
from table_models import ShiftedTableModel, TableModel, random_table

token_texts = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=7)


seeds = st.integers(0, 10_000)


@pytest.fixture(scope="module")
def manual():
    """Real human text that every Python carries: its manual."""
    return list(pydoc_data.topics.topics.values())


@given(seed=seeds, texts=token_texts, batch=st.integers(1, 9))
def test_scores_are_read_off_the_table_in_any_batch(seed, texts, batch):
    model = TableModel(random_table(seed, zeros=0.3))
    every = token_log_probs(model, texts, batch=batch)
    for text, scores in zip(texts, every, strict=True):
        assert scores.tolist() == [model.table[a, b] for a, b in itertools.pairwise([0, *text])]
    assert max(model.batches) <= batch
    assert sum(model.batches) == len(texts)


@given(seed=seeds, texts=token_texts, batch=st.integers(1, 9), data=st.data())
def test_prefixes_come_before_and_stay_with_their_text(seed, texts, batch, data):
    model = ShiftedTableModel(random_table(seed))
    prompts = [data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)) for _ in texts]
    every = token_log_probs(model, texts, prefixes=prompts, batch=batch)
    for prompt, text, scores in zip(prompts, texts, every, strict=True):
        chain = itertools.pairwise([prompt[-1], *text])
        assert scores.tolist() == [np.roll(model.table[a], prompt[0])[b] for a, b in chain]


def test_rules_make_the_scores_of_a_decoder():
    model = TableModel([[0.1, 0.6, 0.3], [0.5, 0.3, 0.2], [0.2, 0.4, 0.4]])
    [scores] = token_log_probs(model, [[1, 0, 2, 1]], rules=(TopK(2),))
    assert np.exp(scores) == approx([0.6 / 0.9, 0.5 / 0.8, 0.3 / 0.9, 0.5])
    [scores] = token_log_probs(model, [[1, 2]], rules=(TopK(1),))
    assert scores.tolist() == [0.0, -np.inf]


def test_the_fast_path_equals_the_path_step_by_step(manual):
    model = NGram.fit(manual[:10], order=3)
    assert isinstance(model, SequenceScores)
    assert isinstance(model, NextToken)
    texts = [text[:60] for text in manual[10:14]]
    fast = token_log_probs(model, texts)
    slow = token_log_probs(model, texts, rules=[Temperature(1.0)], batch=3)  # a rule without effect
    for a, b in zip(fast, slow, strict=True):
        assert a == approx(b, abs=1e-6)
    prompts = [model.encode(text[60:90]) for text in manual[10:14]]
    fast = token_log_probs(model, texts, prefixes=prompts)
    slow = token_log_probs(model, texts, prefixes=prompts, rules=[Temperature(1.0)])
    for a, b in zip(fast, slow, strict=True):
        assert a == approx(b, abs=1e-6)


def test_rules_and_prefixes_apply_to_a_model_with_a_fast_path_too(manual):
    model = NGram.fit(manual[:10], order=3)
    text, prompt = model.encode("the name of the class"), model.encode("for")
    rows = [model.start([[0, *text[:i]]])[0] for i in range(len(text))]
    [scores] = token_log_probs(model, [text], rules=(Temperature(2.0),))
    assert scores == approx([Temperature(2.0)(row)[0, token] for row, token in zip(rows, text, strict=True)], abs=1e-9)
    rows = [model.start([[*prompt, *text[:i]]])[0] for i in range(len(text))]
    [scores] = token_log_probs(model, [text], prefixes=[prompt])
    assert scores == approx([row[0, token] for row, token in zip(rows, text, strict=True)], abs=1e-9)
    assert np.abs(scores - token_log_probs(model, [text])[0]).max() > 0.01


def test_a_token_that_begins_every_text_is_not_scored():
    table = random_table(3)
    plain, beginning = (
        TableModel(table),
        TableModel(table, begins=True, end=()),
    )  # without an end, nothing else could begin a text
    assert token_log_probs(beginning, ["bcd"])[0].tolist() == token_log_probs(plain, ["bcd"])[0].tolist()
    scores = token_log_probs(beginning, ["bcd"], prefixes=[[2]])[0]
    assert scores.tolist() == token_log_probs(plain, ["bcd"], prefixes=[[2]])[0].tolist()


def test_rounding_errors_above_zero_become_zero():
    model = TableModel(np.full((2, 2), 0.5))
    model.table = np.array([[-np.inf, 1e-7], [-np.inf, 1e-7]])
    assert token_log_probs(model, [[1, 1]])[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: token_log_probs(m, "abc"), r"`texts` must be a sequence of texts; got one str\. Pass \[text\]\."),
        (lambda m: token_log_probs(m, []), r"`texts` must hold at least one text; got none\."),
        (lambda m: token_log_probs(m, ["ab", ""]), r"`texts\[1\]` must have at least one token; got none\."),
        (
            lambda m: token_log_probs(m, [[1, 4]]),
            r"`texts\[0\]` must hold tokens from 0 to 3; got 1 to 4\. Do they come from the tokenizer of a different model\?",
        ),
        (lambda m: token_log_probs(m, [[-1]]), r"`texts\[0\]` must hold tokens from 0 to 3; got -1 to -1\."),
        (lambda m: token_log_probs(m, [[1]], batch=0), r"`batch` must be an integer of at least 1; got 0\."),
        (
            lambda m: token_log_probs(m, [[1], [2]], prefixes=[[1]]),
            r"`prefixes` must hold one prefix for each of 2 texts; got 1\.",
        ),
        (
            lambda m: token_log_probs(m, [[1]], prefixes=[[]]),
            r"`prefixes\[0\]` must have at least one token; got none\.",
        ),
        (
            lambda m: token_log_probs(m, [[1]], prefixes=[[9]]),
            r"`prefixes\[0\]` must hold tokens from 0 to 3; got 9 to 9\.",
        ),
        (
            lambda m: token_log_probs(m, [[1]], rules=(3,)),
            r"`rules` must be decoding rules such as Nucleus\(0\.95\); got 3\.",
        ),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call(TableModel(random_table(0)))


@pytest.mark.parametrize("end", [(), (0, 3)])
def test_the_token_that_begins_a_text_must_be_known(end):
    model = TableModel(random_table(0), end=end)
    message = rf"`prefixes` must hold the token that begins a text for table model, which has {len(end)} ends of text: pass \[\[token\]\] \* len"
    with pytest.raises(InputError, match=message):
        token_log_probs(model, [[1]])
    assert len(token_log_probs(model, [[1]], prefixes=[[2]])) == 1


def test_texts_fit_the_context():
    model = TableModel(random_table(0), context=4)
    assert token_log_probs(model, [[1, 2, 3, 1]])[0].shape == (4,)  # four are read: the first one and all but the last
    with pytest.raises(InputError, match=r"context of 4 tokens .* text 1 has 5\. Cut it to 4 tokens\."):
        token_log_probs(model, [[1], [1, 2, 3, 1, 1]])
    with pytest.raises(InputError, match=r"text 0 has 4\. Cut it to 3 tokens\."):
        token_log_probs(model, [[1, 2, 3, 1]], prefixes=[[1, 2]])


def test_rows_that_are_no_distributions_are_refused():
    model = TableModel(random_table(0))
    model.table = model.table + 1.0
    with pytest.raises(
        InputError, match=r"which sum to 1 after exp, but a row of table model sums to 2\.718\. Subtract"
    ):
        token_log_probs(model, [[1]])
    model = TableModel(random_table(0))
    model.table = np.vstack([model.table[:1], model.table[1:] + 9.0])  # correct at the start, wrong afterwards
    with pytest.raises(InputError, match=r"which are at most 0; got \d.* for token 1 of `texts\[0\]`"):
        token_log_probs(model, [[1, 1]])
    model.table = np.full((4, 4), np.nan)
    with pytest.raises(InputError, match=r"sums to nan"):
        token_log_probs(model, [[1, 1]])
    model.table = random_table(0)[:, :3]
    with pytest.raises(
        InputError, match=r"one row of 4 log-probabilities per text; table model returned shape \(1, 3\) for 1"
    ):
        token_log_probs(model, [[1, 1]])


def test_a_fast_path_must_return_one_number_per_token():
    class Fast(TableModel):
        def log_prob(self, tokens, prefix):
            return np.zeros(1)

    with pytest.raises(
        InputError, match=r"`log_prob` must return one number per token; got shape \(1,\) for 2 tokens of `texts\[0\]`"
    ):
        token_log_probs(Fast(random_table(0)), [[1, 1]])
