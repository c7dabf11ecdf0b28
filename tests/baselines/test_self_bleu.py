"""Self-BLEU: the definition by brute force, NLTK and sacreBLEU, limits, time."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from baselines.token_texts import grams, orders, quietly, token_texts
from mallow.baselines import self_bleu, text_self_bleus, text_statistics
from mallow.errors import EstimateWarning, InputError
from real_packages import beside

# None is shorter than 4, so that sacreBLEU and NLTK agree.
long_texts = st.lists(st.lists(st.sampled_from("abc"), min_size=4, max_size=12), min_size=2, max_size=7)


smoothings = st.sampled_from([0, 1e-6, 0.1, 0.5])


# The example of Papineni et al. (2002), and texts with equal distances in length, no common bigram, and too few tokens.
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
    values = quietly(text_self_bleus, texts, order=order, smoothing=smoothing)
    expected = [bleu(text, texts[:i] + texts[i + 1 :], order, smoothing) for i, text in enumerate(texts)]
    assert values == approx(expected, abs=1e-12)
    assert quietly(self_bleu, texts, order=order, smoothing=smoothing) == approx(np.mean(expected), abs=1e-12)


@given(texts=token_texts, order=orders, smoothing=smoothings)
def test_self_bleu_equals_nltk(texts, order, smoothing):
    nltk = pytest.importorskip("nltk.translate.bleu_score", reason="compares with nltk")
    smooth = nltk.SmoothingFunction(epsilon=smoothing).method1 if smoothing else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about 0 matches
        expected = [
            nltk.sentence_bleu(texts[:i] + texts[i + 1 :], text, (1 / order,) * order, smooth)
            for i, text in enumerate(texts)
        ]
    assert quietly(text_self_bleus, texts, order=order, smoothing=smoothing) == approx(expected, abs=1e-9)


@pytest.fixture(scope="module")
def sacrebleu():
    with beside("sacrebleu", "portalocker", "tabulate", "lxml") as package:
        yield package


@given(texts=long_texts, smoothing=st.sampled_from([0, 0.1, 0.5]))
def test_self_bleu_equals_sacrebleu(sacrebleu, texts, smoothing):
    options = {"smooth_method": "floor", "smooth_value": smoothing} if smoothing else {"smooth_method": "none"}
    joined = [" ".join(text) for text in texts]
    metric = sacrebleu.BLEU(tokenize="none", effective_order=False, **options)
    expected = [metric.sentence_score(text, joined[:i] + joined[i + 1 :]).score for i, text in enumerate(joined)]
    assert 100 * text_self_bleus(joined, smoothing=smoothing) == approx(expected, abs=1e-7)


@pytest.mark.parametrize("order", NLTK)
def test_some_texts_have_the_values_recorded_from_nltk(order):
    assert quietly(text_self_bleus, SOME, order=order) == approx(NLTK[order], abs=1e-12)


@pytest.mark.parametrize(("method", "smoothing"), [("floor", 0.1), ("none", 0)])
def test_some_texts_have_the_values_recorded_from_sacrebleu(method, smoothing):
    values = quietly(text_self_bleus, SOME, smoothing=smoothing)
    assert values[:-1] == approx(SACREBLEU[method][:-1], abs=1e-12)
    # The last text has fewer than 4 tokens: sacreBLEU gives 0, NLTK and mallow do not.
    assert values[-1] == approx(NLTK[4][-1] if smoothing else 0.0, abs=1e-12)


def test_limits():
    assert text_self_bleus(["a b c d e"] * 3).tolist() == [1.0, 1.0, 1.0]
    assert text_self_bleus(["a b c d e", "a b c d e", "f g h i"]).tolist() == [1.0, 1.0, 0.0]
    assert self_bleu(["a b c d", "e f g h"]) == 0.0
    assert quietly(text_self_bleus, ["", "a b c d"]).tolist() == [0.0, 0.0]
    # Two texts of two tokens have neither 3-grams nor 4-grams: these precisions are the smoothing.
    assert quietly(self_bleu, ["a b", "a b"]) == approx(math.sqrt(0.1))
    assert quietly(self_bleu, ["a b", "a b"], smoothing=0) == 0.0
    assert self_bleu(["a b", "a b"], order=2) == 1.0


def test_the_closest_length_is_that_of_another_text_and_the_shorter_one_in_a_tie():
    texts = [["a"] * n for n in (10, 12, 14, 17)]
    # 10 → 12, 12 → 10 (neither 14 nor itself), 14 → 12, 17 → 14; unigrams of the longest are clipped to 14 of 17.
    assert text_self_bleus(texts, order=1) == approx([math.exp(1 - 12 / 10), 1, 1, 14 / 17])


def test_many_short_texts_have_a_caveat_and_few_have_none():
    texts = [f"{i} b c d" for i in range(20)]
    self_bleu(["a b", *texts[1:]])
    with pytest.warns(EstimateWarning, match="2 of 20 texts have fewer than 4 tokens"):
        self_bleu(["a b", "c", *texts[2:]])
    with pytest.warns(EstimateWarning, match="2 of 20 texts have fewer than 4 tokens"):
        statistics = text_statistics(["a b", "c", *texts[2:]])
    [caveat] = statistics.caveats
    assert caveat.message == (
        "2 of 20 texts have fewer than 4 tokens, and their self-BLEU mostly reflects the smoothing. Use longer texts."
    )
    assert caveat.values == {"short": 2, "texts": 20}


def test_time_grows_with_the_number_of_ngrams_not_of_pairs():
    # Comparing all pairs of 20,000 texts would take hours.
    rng = np.random.default_rng(0)
    texts = rng.integers(0, 30, (20_000, 20))
    values = text_self_bleus(texts)
    assert values[7] == approx(bleu(texts[7].tolist(), [text.tolist() for text in np.delete(texts, 7, 0)], 4, 0.1))


@pytest.mark.parametrize("statistic", [self_bleu, text_self_bleus, text_statistics])
def test_at_least_two_texts_are_needed(statistic):
    with pytest.raises(InputError, match="at least 2: self-BLEU compares each text with the others; got 1"):
        statistic(["a b c d e f"])
