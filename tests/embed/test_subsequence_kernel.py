"""The subsequence kernel: the paper's definition by enumeration, its limits, and the optional compiler."""

import itertools
import math
import sys
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from scipy.spatial.distance import cdist

from mallow.embed import SubsequenceKernel
from mallow.embed import _string_kernels as module
from mallow.errors import EstimateWarning, InputError

pytest.importorskip("numba", reason="needs numba, of the extra `kernels`")

letters = st.text("abc", max_size=9)
pools = st.lists(letters, min_size=1, max_size=6)
sizes = st.integers(1, 4)
decays = st.floats(0.01, 0.99)
short_is_fine = pytest.mark.filterwarnings("ignore:.* texts have fewer than n = :mallow.errors.EstimateWarning")


def features(text, n, decay):
    """The feature map of the paper, place by place."""
    weights = Counter()
    for places in itertools.combinations(range(len(text)), n):
        weights[tuple(text[i] for i in places)] += decay ** (places[-1] - places[0] + 1)
    return weights


def product(a, b):
    return math.fsum(weight * b[z] for z, weight in a.items())


def table(x, y, n, decay):
    """κ by the full table, with rows of sums: another order of work than the library's."""
    equal = np.equal.outer(np.array(list(x)), np.array(list(y)))
    level = equal * decay**2
    for _ in range(n - 1):
        above = np.zeros_like(level)
        for i in range(1, len(x)):
            above[i] = decay * above[i - 1] + level[i - 1]
        left = np.zeros_like(level)
        for j in range(1, len(y)):
            left[:, j] = decay * left[:, j - 1] + above[:, j - 1]
        level = equal * decay**2 * left
    return level.sum()


# --- the definition (paper: sec:string-kernel (b))


@short_is_fine
@given(texts=pools, n=sizes, decay=decays)
def test_subsequence_kernel_is_the_product_of_the_listed_features(texts, n, decay):
    maps = [features(text, n, decay) for text in texts]
    expected = np.array([[product(a, b) for b in maps] for a in maps])
    similarities = SubsequenceKernel(n, decay, normalise=False, tokenize=list).gram(texts)
    np.testing.assert_allclose(similarities, expected, rtol=1e-12, atol=0)


@short_is_fine
@given(texts=pools, n=sizes, decay=decays)
def test_normalised_subsequence_kernel_is_the_cosine(texts, n, decay):
    plain = SubsequenceKernel(n, decay, normalise=False, tokenize=list).gram(texts)
    similarities = SubsequenceKernel(n, decay, tokenize=list).gram(texts)
    norm = np.sqrt(np.diagonal(plain))
    has = norm > 0
    np.testing.assert_allclose(
        similarities[has][:, has], (plain / np.outer(norm, norm).clip(1e-300))[has][:, has], rtol=1e-12
    )
    assert (similarities[~has][:, ~has] == 1).all()
    assert not similarities[~has][:, has].any()


@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("decay", [0.03, 0.5, 0.97])
def test_long_texts_agree_with_the_full_table(n, decay):
    rng = np.random.default_rng(n)
    texts = ["".join(rng.choice(list("abcdefgh"), size)) for size in (400, 333, 64, 65)]
    expected = [[table(a, b, n, decay) for b in texts] for a in texts]
    similarities = SubsequenceKernel(n, decay, normalise=False, tokenize=list).gram(texts)
    np.testing.assert_allclose(similarities, expected, rtol=1e-12)


def test_products_below_the_smallest_number_leave_the_cosine_exact():
    # decay^(2N) = 1e-1000 is 0 as a number. Adjacent tokens alone count: the cosine of N-gram frequencies.
    x, y = "abcabcd" * 20, "bcdabab" * 20
    counts = [Counter(text[i : i + 5] for i in range(len(text) - 4)) for text in (x, y)]
    cosine = product(*counts) / math.sqrt(product(counts[0], counts[0]) * product(counts[1], counts[1]))
    for decay in (1e-100, 1e-250, 5e-324):
        assert SubsequenceKernel(5, decay, tokenize=list).gram([x, y])[0, 1] == approx(cosine, rel=1e-13)


def test_a_small_decay_tends_to_ngram_frequencies_and_a_large_one_to_all_subsequences():
    x, y = "abracadabra", "cadabrabrac"
    counts = [Counter(text[i : i + 3] for i in range(len(text) - 2)) for text in (x, y)]
    cosine = product(*counts) / math.sqrt(product(counts[0], counts[0]) * product(counts[1], counts[1]))
    assert SubsequenceKernel(3, 1e-9, tokenize=list).gram([x, y])[0, 1] == approx(cosine, rel=1e-7)
    alphabet = "".join(map(chr, range(0x4E00, 0x4E00 + 200)))
    everything = SubsequenceKernel(5, 1 - 1e-14, normalise=False, tokenize=list).gram([alphabet, alphabet + "!"])
    assert everything[0] == approx(np.full(2, math.comb(200, 5)), rel=1e-10)
    assert everything[1, 1] == approx(math.comb(201, 5), rel=1e-10)


def test_a_gap_costs_one_decay_a_token():
    similarities = SubsequenceKernel(2, 0.5, normalise=False, tokenize=list).gram(["ab", "a-b", "a--b"])
    assert similarities[0].tolist() == [0.5**4, 0.5**5, 0.5**6]


def test_nearly_parallel_texts_stay_within_1_and_keep_their_distances():
    # One feature or few: cosines of 1 but for rounding, and eigenvalues down to it.
    for texts in (
        ["a" * size for size in range(5, 40)],
        ["ab" * 100 + "a" * i + "b" * j for i in range(6) for j in range(6)],
    ):
        kernel = SubsequenceKernel(5, 0.3, tokenize=list)
        assert kernel.gram(texts).max() <= 1
        points = kernel.points(texts)
        np.testing.assert_allclose(
            cdist(points, points), kernel.distances(texts, texts)[: len(texts), : len(texts)], atol=1e-6
        )


def test_short_texts_have_no_features_without_normalisation():
    with pytest.warns(EstimateWarning, match="1 of 2 texts"):
        gram = SubsequenceKernel(2, 0.5, normalise=False, tokenize=list).gram(["a", "ab"])
    assert gram.tolist() == [[0, 0], [0, 0.0625]]


def test_without_a_limit_memory_is_linear_in_the_length(monkeypatch):
    rng = np.random.default_rng(0)
    texts = rng.integers(0, 1_000, (2, 1_000))  # 1,000 pairs of equal tokens of a million
    kernel = SubsequenceKernel(n=2, tokenize=lambda text: texts[int(text)], max_length=None)
    compiled = kernel.gram(["0", "1"])
    monkeypatch.setattr(module, "_compiled", lambda: module._fill_products)  # compiled code allocates unseen
    monkeypatch.setattr(module, "cores", lambda: 1)
    tracemalloc.start()
    gram = kernel.gram(["0", "1"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_allclose(gram, compiled, rtol=1e-13)
    assert 0 < gram[0, 1] < 0.1
    assert peak < 1e6


# --- options and the optional package


@pytest.mark.parametrize("decay", [0, 1, -0.5, 1.5, math.nan, "0.5", True])
def test_decay_lies_between_0_and_1(decay):
    with pytest.raises(InputError, match=r"`decay` must lie strictly between 0 and 1; got .* one more token in a gap."):
        SubsequenceKernel(decay=decay)


def test_normalise_is_a_truth_value():
    with pytest.raises(InputError, match="`normalise` must be True or False; got 'no'"):
        SubsequenceKernel(normalise="no")


def test_similarities_beyond_all_numbers_are_refused():
    message = (
        r"`n` = 400 with decay 0\.99 makes similarities too large for floating-point .* texts of 900 tokens\. Use a"
    )
    with pytest.raises(InputError, match=message):
        SubsequenceKernel(400, 0.99, tokenize=list).gram(["a" * 900])


@pytest.fixture
def uncompiled():
    module._compiled.cache_clear()
    yield
    module._compiled.cache_clear()


def test_without_numba_the_message_says_what_to_install(uncompiled, monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(InputError, match=r"numba is needed for this .*: .*pip install '.*\[kernels\]'$"):
        SubsequenceKernel(n=1).gram(["a"])


@pytest.mark.parametrize("error", [RuntimeError("no locator available"), OSError(28, "No space left on device")])
def test_where_the_cache_cannot_be_written_it_works_all_the_same(error, uncompiled, monkeypatch):
    numba = pytest.importorskip("numba", reason="needs numba, of the extra `kernels`")
    njit, calls = numba.njit, []

    def refusing(*args, cache=False, **options):
        calls.append(cache)
        if cache:
            raise error
        return njit(*args, **options)

    monkeypatch.setattr(numba, "njit", refusing)
    assert SubsequenceKernel(1, tokenize=list).gram(["ab", "ab"]).tolist() == [[1, 1], [1, 1]]
    assert calls == [True, False]
