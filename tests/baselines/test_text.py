"""Text statistics: definitions by brute force, NLTK and sacreBLEU, limits, invariances, real text."""

import functools
import math
import pydoc_data.topics
import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow.baselines._text import (
    distinct,
    diversity,
    gap,
    repetition,
    self_bleu,
    text_repetitions,
    text_self_bleus,
    text_statistics,
    zipf_coefficient,
)
from mallow.errors import EstimateWarning, InputError
from mallow.generate._ngram import NGram
from mallow.generate._search import generate

# Few tokens, so that n-grams are shared, tied and repeated; lengths from nothing to beyond every order.
token_texts = st.lists(st.lists(st.integers(0, 3), max_size=12), min_size=2, max_size=7).filter(any)
# None shorter than 4: sacreBLEU and NLTK then agree.
long_texts = st.lists(st.lists(st.sampled_from("abc"), min_size=4, max_size=12), min_size=2, max_size=7)
orders = st.integers(1, 6)
smoothings = st.sampled_from([0, 1e-6, 0.1, 0.5])

# The example of Papineni et al. (2002), and texts with a tie of lengths, no bigram in common, and too few tokens.
SOME = [
    "it is a guide to action which ensures that the military always obeys the commands of the party",
    "it is a guide to action that ensures that the military will forever heed party commands",
    "it is the guiding principle which guarantees the military forces always being under the command of the party",
    "it is the practical guide for the army always to heed the directions of the party",
    "the the the the the the the",
    "he read the book because he was interested in world history",
    "the party",
]
# fmt: off
# nltk 3.10.4: sentence_bleu(SOME without i, SOME[i], (1 / order,) * order, SmoothingFunction().method1), split at spaces
NLTK = {
    1: [0.9444444444444444, 0.8125, 0.6111111111111112, 0.75,
        0.32269606971871956, 0.0909090909090909, 0.0820849986238988],
    2: [0.7453559924999299, 0.6582805886043833, 0.42395584922430696, 0.4472135954999579,
        0.0551108456462731, 0.03015113445777637, 0.0820849986238988],
    4: [0.5045666840058485, 0.488923022434901, 0.11062798553579699, 0.12175790049611575,
        0.02638012815011716, 0.018850319022747353, 0.025957555738330737],
    5: [0.39202634084155785, 0.3942413199356801, 0.06395380615738391, 0.07121335905796317,
        0.02465832740702541, 0.017833449474726735, 0.020618819427385394],
}
# sacrebleu 2.6.0: BLEU(tokenize="none", smooth_method=..., smooth_value=0.1 or None, effective_order=False)
#     .sentence_score(SOME[i], SOME without i).score / 100
SACREBLEU = {
    "floor": [0.5045666840058485, 0.4889230224349009, 0.11062798553579699, 0.12175790049611575,
        0.026380128150117164, 0.018850319022747353, 0.0],
    "none": [0.5045666840058485, 0.4889230224349009, 0.0, 0.0, 0.0, 0.0, 0.0],
}
# fmt: on


@pytest.fixture(scope="module")
def manual():
    """Real human text that every Python carries, in stretches of 100 words."""
    found = [text.split() for text in pydoc_data.topics.topics.values()]
    return [" ".join(words[i : i + 100]) for words in found for i in range(0, len(words) - 99, 100)]


def quietly(function, *args, **options):
    """The value without the warning of short texts, which a test of its own looks at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        return function(*args, **options)


def grams(tokens, n):
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


# --- self-BLEU


def bleu(text, others, order, smoothing):
    """BLEU by its definition, one text against a list of others."""
    logs = []
    for n in range(1, order + 1):
        counts, tables = grams(text, n), [grams(other, n) for other in others]
        matches = sum(min(count, max(table[gram] for table in tables)) for gram, count in counts.items())
        if matches == 0 and (n == 1 or smoothing == 0):
            return 0.0
        logs.append(math.log((matches or smoothing) / max(sum(counts.values()), 1)))
    closest = min((abs(len(other) - len(text)), len(other)) for other in others)[1]
    return min(1.0, math.exp(1 - closest / len(text))) * math.exp(sum(logs) / order)


@given(texts=token_texts, order=orders, smoothing=smoothings)
def test_self_bleu_equals_its_definition(texts, order, smoothing):
    found = quietly(text_self_bleus, texts, order=order, smoothing=smoothing)
    expected = [bleu(text, texts[:i] + texts[i + 1 :], order, smoothing) for i, text in enumerate(texts)]
    assert found == approx(expected, abs=1e-12)
    assert quietly(self_bleu, texts, order=order, smoothing=smoothing) == approx(np.mean(expected), abs=1e-12)


@given(texts=token_texts, order=orders, smoothing=smoothings)
def test_self_bleu_equals_nltk(texts, order, smoothing):
    nltk = pytest.importorskip("nltk.translate.bleu_score", reason="compares with nltk")
    smooth = nltk.SmoothingFunction(epsilon=smoothing).method1 if smoothing else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of 0 matches
        expected = [
            nltk.sentence_bleu(texts[:i] + texts[i + 1 :], text, (1 / order,) * order, smooth)
            for i, text in enumerate(texts)
        ]
    assert quietly(text_self_bleus, texts, order=order, smoothing=smoothing) == approx(expected, abs=1e-9)


@given(texts=long_texts, smoothing=st.sampled_from([0, 0.1, 0.5]))
def test_self_bleu_equals_sacrebleu(texts, smoothing):
    sacrebleu = pytest.importorskip("sacrebleu", reason="compares with sacrebleu")
    how = {"smooth_method": "floor", "smooth_value": smoothing} if smoothing else {"smooth_method": "none"}
    joined = [" ".join(text) for text in texts]
    metric = sacrebleu.BLEU(tokenize="none", effective_order=False, **how)
    expected = [metric.sentence_score(text, joined[:i] + joined[i + 1 :]).score for i, text in enumerate(joined)]
    assert 100 * text_self_bleus(joined, smoothing=smoothing) == approx(expected, abs=1e-7)


@pytest.mark.parametrize("order", NLTK)
def test_self_bleu_of_some_texts_as_recorded_from_nltk(order):
    assert quietly(text_self_bleus, SOME, order=order) == approx(NLTK[order], abs=1e-12)


@pytest.mark.parametrize(("method", "smoothing"), [("floor", 0.1), ("none", 0)])
def test_self_bleu_of_some_texts_as_recorded_from_sacrebleu(method, smoothing):
    found = quietly(text_self_bleus, SOME, smoothing=smoothing)
    assert found[:-1] == approx(SACREBLEU[method][:-1], abs=1e-12)  # the last text has fewer than 4 tokens: see there
    assert found[-1] == approx(NLTK[4][-1] if smoothing else 0.0, abs=1e-12)


def test_the_limits_of_self_bleu():
    assert text_self_bleus(["a b c d e"] * 3).tolist() == [1.0, 1.0, 1.0]
    assert text_self_bleus(["a b c d e", "a b c d e", "f g h i"]).tolist() == [1.0, 1.0, 0.0]
    assert self_bleu(["a b c d", "e f g h"]) == 0.0
    assert quietly(text_self_bleus, ["", "a b c d"]).tolist() == [0.0, 0.0]
    # Two texts of two tokens: no 3-gram and no 4-gram, whose precisions are the smoothing.
    assert quietly(self_bleu, ["a b", "a b"]) == approx(math.sqrt(0.1))
    assert quietly(self_bleu, ["a b", "a b"], smoothing=0) == 0.0
    assert self_bleu(["a b", "a b"], order=2) == 1.0


def test_the_closest_length_is_that_of_another_text_and_the_shorter_one_of_two():
    texts = [["a"] * n for n in (10, 12, 14, 17)]
    # 10 → 12, 12 → 10 (and not 14, nor itself), 14 → 12, 17 → 14; unigrams of the longest are cut to 14 of 17.
    assert text_self_bleus(texts, order=1) == approx([math.exp(1 - 12 / 10), 1, 1, 14 / 17])


@given(texts=token_texts, data=st.data())
def test_order_of_texts_and_names_of_tokens_change_nothing(texts, data):
    shuffled = data.draw(st.permutations(texts))
    renamed = [["WXYZ"[token] for token in text] for text in texts]
    for statistic in (self_bleu, repetition):
        value = quietly(statistic, texts)
        assert quietly(statistic, shuffled) == value
        assert quietly(statistic, renamed) == value


def test_many_short_texts_are_doubtful_and_few_are_not():
    texts = [f"{i} b c d" for i in range(20)]
    self_bleu(["a b", *texts[1:]])
    with pytest.warns(EstimateWarning, match="2 of 20 texts have fewer than 4 tokens"):
        self_bleu(["a b", "c", *texts[2:]])
    with pytest.warns(EstimateWarning, match="2 of 20 texts have fewer than 4 tokens"):
        found = text_statistics(["a b", "c", *texts[2:]])
    assert found.warnings == (
        "2 of 20 texts have fewer than 4 tokens, and their self-BLEU is mostly that of the smoothing. Use longer texts.",
    )


def test_time_grows_with_the_number_of_ngrams_not_of_pairs():
    # All pairs of 20,000 texts would take hours.
    rng = np.random.default_rng(0)
    texts = rng.integers(0, 30, (20_000, 20))
    found = text_self_bleus(texts)
    assert found[7] == approx(bleu(texts[7].tolist(), [text.tolist() for text in np.delete(texts, 7, 0)], 4, 0.1))


# --- Zipf coefficient


@pytest.mark.parametrize("slope", [0.5, 1.0, 2.0])
def test_zipf_coefficient_of_a_power_law_is_its_exponent(slope):
    counts = np.round(1e4 / np.arange(1, 21) ** slope).astype(int)
    text = np.repeat(np.arange(20), counts)
    assert zipf_coefficient([np.random.default_rng(0).permutation(text)]) == approx(slope, abs=0.01)


@given(texts=token_texts.filter(lambda texts: len({token for text in texts for token in text}) > 1), ranks=orders)
def test_zipf_coefficient_is_minus_the_fitted_slope(texts, ranks):
    counts = sorted(Counter(token for text in texts for token in text).values(), reverse=True)[: ranks + 1]
    slope, _ = np.polyfit(np.log(range(1, len(counts) + 1)), np.log(counts), 1)
    assert zipf_coefficient(texts, ranks=ranks + 1) == approx(-slope, abs=1e-9)


@given(texts=token_texts.filter(lambda texts: len({token for text in texts for token in text}) > 1), data=st.data())
def test_zipf_coefficient_depends_on_counts_alone(texts, data):  # paper: baseline metrics, Zipf coefficient
    pooled = data.draw(st.permutations([token for text in texts for token in text]))
    assert zipf_coefficient([pooled]) == zipf_coefficient(texts)


def test_zipf_coefficient_by_default_is_of_5000_ranks():
    text = [*range(6000), *range(5000)]  # the first 5,000 ranks are flat
    assert zipf_coefficient([text]) == approx(0.0, abs=1e-12)
    assert zipf_coefficient([text], ranks=6000) > 0.01


# --- repetition


def repeats(tokens, copies, shortest):
    """Whether the tokens end in copies of a phrase, by its definition."""
    lengths = range(shortest, len(tokens) // copies + 1)
    return any(tokens[len(tokens) - copies * n :] == tokens[len(tokens) - n :] * copies for n in lengths)


@given(
    texts=st.lists(st.lists(st.integers(0, 1), max_size=16), min_size=1, max_size=9).filter(any),
    copies=st.integers(2, 4),
    shortest=st.integers(1, 4),
)
def test_repetition_equals_its_definition(texts, copies, shortest):
    found = text_repetitions(texts, copies=copies, shortest=shortest)
    assert found.tolist() == [repeats(text, copies, shortest) for text in texts]
    assert repetition(texts, copies=copies, shortest=shortest) == approx(found.mean())


def test_what_counts_as_a_repetition():
    texts = ["x y z y z", "y z y z x", "no no", "no", "a b c a b c", "", "a b c d"]
    assert text_repetitions(texts).tolist() == [True, False, True, False, True, False, False]
    assert text_repetitions(texts, shortest=2).tolist() == [True, False, False, False, True, False, False]
    assert text_repetitions(texts, shortest=3).tolist() == [False, False, False, False, True, False, False]
    assert text_repetitions(["a a a", "a a", "b c b c b c"], copies=3).tolist() == [True, False, True]
    long = list(range(500))  # a phrase of any length
    assert text_repetitions([long * 2, [*long, -1, *long]]).tolist() == [True, False]


# --- distinct-n and diversity


@given(texts=token_texts, n=orders)
def test_distinct_and_diversity_equal_their_definitions(texts, n):
    pooled, within = {}, {}
    for size in {n, 2, 3, 4}:
        each = [grams(text, size) for text in texts]
        total = sum(sum(counts.values()) for counts in each)
        pooled[size] = len(set().union(*each)) / total if total else None
        within[size] = sum(len(counts) for counts in each) / total if total else None
    if pooled[n] is None:
        with pytest.raises(InputError, match=f"at least {n} tokens, else there is no {n}-gram"):
            distinct(texts, n)
    else:
        assert distinct(texts, n) == approx(pooled[n])
    if within[4] is not None:
        assert diversity(texts) == approx(within[2] * within[3] * within[4])


def test_distinct_sees_equal_texts_and_diversity_does_not():
    texts = ["the cat sat on a mat", "the cat sat on a mat"]
    assert distinct(texts) == 0.5
    assert diversity(texts) == 1.0
    assert distinct(["a " * 20]) == approx(1 / 17)
    assert diversity(["a " * 20]) == approx(1 / (19 * 18 * 17))


# --- all at once, gaps


def test_all_statistics_at_once_are_those_of_the_functions(manual):
    some = [*manual[:40], manual[40] + " very very"]
    for texts, tokenize in ((some, "whitespace"), (some, "regex"), (some[20:], list)):
        found = text_statistics(texts, tokenize=tokenize)
        functions = (zipf_coefficient, repetition, distinct, diversity, self_bleu)
        assert found.values == {each.__name__: each(texts, tokenize=tokenize) for each in functions}
        assert (found.texts, found.warnings) == (len(texts), ())
        assert found.repetition > 0
    assert found.tokens == sum(len(text) for text in texts)
    assert found.tokenize == "builtins.list"
    assert text_statistics(manual[:9], tokenize=functools.partial(str.split, sep=" ")).tokenize == "functools.partial"


def test_a_gap_is_the_absolute_difference(manual):
    reference, model = manual[:50], [text[:300] + " and so on" * 30 for text in manual[50:100]]
    p, q = text_statistics(reference), text_statistics(model)
    found = q.gap(p)
    assert found == p.gap(q)
    assert found == {name: abs(q.values[name] - p.values[name]) for name in p.values}
    assert p.gap(p) == dict.fromkeys(p.values, 0.0)
    assert gap(diversity, reference, model) == gap(diversity, model, reference) == found["diversity"]
    assert found["repetition"] == 1.0 == gap(repetition, reference, model)


def test_statistics_of_other_tokens_or_other_sizes_are_not_compared(manual):
    p = text_statistics(manual[:10])
    with pytest.raises(InputError, match="tokenised as the model's texts are, by 'regex'; it was by 'whitespace'"):
        text_statistics(manual[10:20], tokenize="regex").gap(p)
    with pytest.warns(EstimateWarning, match="the reference has 10 texts and the model 11"):
        replace(p, texts=11).gap(p)
    with pytest.warns(EstimateWarning, match="the reference has 1 texts and the model 2"):
        assert gap(distinct, ["a b c d"], ["a b c d"] * 2) == 0.5


def test_greedy_text_repeats_itself_and_human_text_does_not(manual):  # paper: tab:mauve:expt:webtext-full
    model = NGram.fit(manual, order=3)
    texts = [model.encode(text)[:160] for text in manual[:40]]
    greedy = generate(model, [text[:10] for text in texts], "greedy", max_new=150, min_new=150)
    human = text_statistics([text[10:] for text in texts])
    machine = text_statistics(greedy)
    assert human.tokenize == machine.tokenize == "tokens"
    assert machine.repetition > 0.5 > 0.1 > human.repetition
    assert machine.distinct < 0.5 * human.distinct
    assert machine.diversity < 0.5 * human.diversity
    assert machine.self_bleu > human.self_bleu


# --- tokens


def test_how_texts_become_tokens():
    texts = ["The cat sat. The", "the cat sat, the"]
    assert distinct(texts, n=1) == 5 / 8  # The, the, cat, "sat." and "sat,"
    assert distinct(texts, n=1, tokenize="regex") == 5 / 10
    assert distinct(texts, n=1, tokenize=list) == len(set("".join(texts))) / 32
    model = NGram.fit(texts, min_count=1)
    assert distinct(texts, n=2, tokenize=model.encode) == distinct([model.encode(text) for text in texts], n=2)
    assert distinct(["a b", ("a", "b")], n=2) == 0.5


def test_arrays_and_tensors_are_lists_of_numbers():
    ids = [[1, 2, 1, 2, 3], [1, 2, 3, 4, 5]]
    expected = text_statistics(ids)
    assert text_statistics(np.array(ids)) == expected
    assert text_statistics([np.array(each, np.int32) for each in ids]) == expected
    torch = pytest.importorskip("torch", reason="the entries of a tensor are never equal as objects")
    assert text_statistics([torch.tensor(each) for each in ids]) == expected
    found = text_statistics(["1 2 1 2 3", "1 2 3 4 5"], tokenize=lambda text: torch.tensor([*map(int, text.split())]))
    assert found.values == expected.values


# --- what is refused

ALL = [zipf_coefficient, repetition, text_repetitions, distinct, diversity, self_bleu, text_self_bleus, text_statistics]


@pytest.mark.parametrize("statistic", ALL)
def test_what_is_no_list_of_texts_is_refused(statistic):
    for texts, message in [
        ("a b c d e", r"`texts` must be several texts; got one str. Pass \[text\]."),
        ([], "`texts` must hold at least .: .*; got 0."),
        ([1, 2], "`texts` must hold str or lists of tokens; got int at place 0."),
        (["a b c d", b"a b"], "`texts` must hold str or lists of tokens; got bytes at place 1."),
        ([["a"], [["b"]]], "`texts` must have hashable tokens, such as str or int; in text 1: unhashable type: 'list'"),
        (["", " ", []], "`texts` must have tokens; all of the 3 are empty."),
    ]:
        with pytest.raises(InputError, match=message):
            statistic(texts)
    for tokenize, message in [
        ("words", "`tokenize` must be 'whitespace', 'regex' or a callable from a text to its tokens; got 'words'."),
        (None, "`tokenize` must be 'whitespace', 'regex' or a callable from a text to its tokens; got None."),
        (str.lower, "`tokenize` must return a list of tokens; got str for text 0."),
        (lambda text: {"input_ids": [1]}, "`tokenize` must return a list of tokens; got dict for text 0."),
    ]:
        with pytest.raises(InputError, match=message):
            statistic(["a b c d", "b"], tokenize=tokenize)


@pytest.mark.parametrize("statistic", [self_bleu, text_self_bleus, text_statistics])
def test_self_bleu_needs_two_texts(statistic):
    with pytest.raises(InputError, match="at least 2: self-BLEU compares each text with the others; got 1"):
        statistic(["a b c d e f"])


@pytest.mark.parametrize("statistic", [diversity, distinct, text_statistics])
def test_texts_without_any_4_gram_are_refused(statistic):
    with pytest.raises(InputError, match=r"a text of at least . tokens, else there is no .-gram; all are shorter."):
        quietly(statistic, ["a b c", "d"])


def test_one_token_has_no_zipf_coefficient():
    with pytest.raises(InputError, match="at least two different tokens for a Zipf coefficient; got one"):
        zipf_coefficient(["a a", "a"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda texts: zipf_coefficient(texts, ranks=1), "`ranks` must be an integer of at least 2; got 1."),
        (lambda texts: repetition(texts, copies=1), "`copies` must be an integer of at least 2; got 1."),
        (lambda texts: repetition(texts, shortest=0), "`shortest` must be an integer of at least 1; got 0."),
        (lambda texts: distinct(texts, 0), "`n` must be an integer of at least 1; got 0."),
        (lambda texts: self_bleu(texts, order=0), "`order` must be an integer of at least 1; got 0."),
        (
            lambda texts: self_bleu(texts, smoothing=1.0),
            "`smoothing` must lie strictly between 0 and 1; got 1.0. Or pass 0",
        ),
        (lambda texts: self_bleu(texts, smoothing=-0.1), "`smoothing` must lie strictly between 0 and 1; got -0.1."),
        (lambda texts: self_bleu(texts, smoothing=math.nan), "`smoothing` must lie strictly between 0 and 1; got nan."),
    ],
)
def test_bad_options_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call(["a b c d", "a b c e"])
