"""String kernels: the definition by enumeration, then what every kernel must keep, then texts as they come."""

import functools
import gzip
import itertools
import json
import math
import pickle
import sys
import tracemalloc
import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from scipy.spatial.distance import cdist

from mallow import area
from mallow.embed import _string_kernels as kernels
from mallow.embed._string_kernels import NGramKernel, SubsequenceKernel, words
from mallow.errors import EstimateWarning, InputError
from mallow.estimate import Neighbors

letters = st.text("abc", max_size=9)
pools = st.lists(letters, min_size=1, max_size=6)
sizes = st.integers(1, 4)
decays = st.floats(0.01, 0.99)
short_is_fine = pytest.mark.filterwarnings("ignore:.* texts have fewer than n = :mallow.errors.EstimateWarning")
both = pytest.mark.parametrize(
    "kernel", [NGramKernel(2, list), SubsequenceKernel(2, 0.7, tokenize=list)], ids=["ngram", "subsequence"]
)


@pytest.fixture(autouse=True)
def _numba(request):
    if "needs_none" not in request.fixturenames:
        pytest.importorskip("numba", reason="needs numba, of the extra `kernels`")


def features(text, n, decay):
    """The feature map of the paper, place by place."""
    found = Counter()
    for places in itertools.combinations(range(len(text)), n):
        found[tuple(text[i] for i in places)] += decay ** (places[-1] - places[0] + 1)
    return found


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


def ngrams(text, n):
    return {tuple(text[i : i + n]) for i in range(len(text) - n + 1)}


def jaccard(a, b):
    return len(a & b) / len(a | b) if a | b else 1.0


# --- the definitions (paper: sec:string-kernel)


@short_is_fine
@given(texts=pools, n=sizes)
def test_ngram_kernel_is_the_jaccard_similarity_of_the_sets(texts, n):
    expected = [[jaccard(ngrams(a, n), ngrams(b, n)) for b in texts] for a in texts]
    assert NGramKernel(n, list).gram(texts).tolist() == expected


@short_is_fine
@given(texts=pools, n=sizes, decay=decays)
def test_subsequence_kernel_is_the_product_of_the_listed_features(texts, n, decay):
    maps = [features(text, n, decay) for text in texts]
    expected = np.array([[product(a, b) for b in maps] for a in maps])
    found = SubsequenceKernel(n, decay, normalise=False, tokenize=list).gram(texts)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0)


@short_is_fine
@given(texts=pools, n=sizes, decay=decays)
def test_normalised_subsequence_kernel_is_the_cosine(texts, n, decay):
    plain = SubsequenceKernel(n, decay, normalise=False, tokenize=list).gram(texts)
    found = SubsequenceKernel(n, decay, tokenize=list).gram(texts)
    norm = np.sqrt(np.diagonal(plain))
    has = norm > 0
    np.testing.assert_allclose(found[has][:, has], (plain / np.outer(norm, norm).clip(1e-300))[has][:, has], rtol=1e-12)
    assert (found[~has][:, ~has] == 1).all()
    assert not found[~has][:, has].any()


@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("decay", [0.03, 0.5, 0.97])
def test_long_texts_agree_with_the_full_table(n, decay):
    rng = np.random.default_rng(n)
    texts = ["".join(rng.choice(list("abcdefgh"), size)) for size in (400, 333, 64, 65)]
    expected = [[table(a, b, n, decay) for b in texts] for a in texts]
    found = SubsequenceKernel(n, decay, normalise=False, tokenize=list).gram(texts)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


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
    found = SubsequenceKernel(2, 0.5, normalise=False, tokenize=list).gram(["ab", "a-b", "a--b"])
    assert found[0].tolist() == [0.5**4, 0.5**5, 0.5**6]


# --- what every kernel keeps


@short_is_fine
@both
@given(texts=pools)
def test_similarities_are_symmetric_positive_and_one_with_themselves(kernel, texts):
    gram = kernel.gram(texts)
    assert (gram == gram.T).all()
    assert (np.diagonal(gram) == 1).all()
    assert gram.min() >= 0
    assert gram.max() <= 1
    assert np.linalg.eigvalsh(gram)[0] > -1e-12


@short_is_fine
@both
@given(texts=pools, names=st.permutations("abc"))
def test_renaming_the_tokens_changes_nothing(kernel, texts, names):
    renamed = [text.translate(str.maketrans("abc", "".join(names))) for text in texts]
    assert (kernel.gram(renamed) == kernel.gram(texts)).all()


@short_is_fine
@both
@given(texts=pools)
def test_reading_all_texts_backwards_changes_nothing(kernel, texts):
    backwards = kernel.gram([text[::-1] for text in texts])
    np.testing.assert_allclose(backwards, kernel.gram(texts), rtol=1e-13, atol=0)


@short_is_fine
@both
@given(texts=pools, data=st.data())
def test_a_similarity_depends_on_its_two_texts_alone(kernel, texts, data):
    places = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=8))
    found = kernel.gram([texts[i] for i in places])
    np.testing.assert_allclose(found, kernel.gram(texts)[np.ix_(places, places)], rtol=1e-13, atol=0)


@short_is_fine
@both
@given(texts=pools, split=st.integers(1, 5))
def test_distances_follow_from_similarities(kernel, texts, split):
    reference, model = texts[:split], [*texts[split:], "abba"]
    gram = kernel.gram(reference + model)
    found = kernel.distances(reference, model)
    own = np.diagonal(gram)
    np.testing.assert_allclose(found**2, own[:, None] + own - 2 * gram, atol=1e-14)
    assert (found == found.T).all()
    assert not np.diagonal(found).any()
    same = np.equal.outer(np.array(reference + model), np.array(reference + model))
    assert not found[same].any()


@short_is_fine
@pytest.mark.parametrize("normalise", [True, False])
@given(texts=pools)
def test_points_have_the_distances_of_the_kernel(normalise, texts):
    for kernel in (NGramKernel(2, list), SubsequenceKernel(2, 0.7, normalise, list)):
        points = kernel.points(texts)
        assert points.shape[0] == len(texts)
        assert 1 <= points.shape[1] <= len(texts)
        np.testing.assert_allclose(cdist(points, points), kernel.distances(texts, ["a"])[:-1, :-1], atol=1e-6)
        np.testing.assert_allclose(points @ points.T, kernel.gram(texts), atol=1e-12)
        for i, j in itertools.combinations(range(len(texts)), 2):
            if texts[i] == texts[j]:
                assert (points[i] == points[j]).all()


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


def test_points_of_texts_without_features_are_zeros():
    with pytest.warns(EstimateWarning, match="2 of 2 texts have fewer than n = 5 tokens"):
        assert SubsequenceKernel(normalise=False).points(["a", ""]).tolist() == [[0.0], [0.0]]
    with pytest.warns(EstimateWarning, match="2 of 2 texts have fewer than n = 5 tokens"):
        assert abs(SubsequenceKernel().points(["a", ""])).tolist() == [[1.0], [1.0]]


@both
def test_the_number_of_threads_does_not_change_a_bit(kernel, monkeypatch):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdef"), size)) for size in rng.integers(5, 90, 40)]
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(kernels, "cores", lambda threads=threads: threads)
        found.append((kernel.gram(texts).tobytes(), kernel.points(texts).tobytes()))
    assert found[0] == found[1] == found[2]


def test_blocks_of_rows_do_not_change_a_bit(monkeypatch):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdef"), 20)) for _ in range(30)]
    whole = NGramKernel(2, list).gram(texts)
    monkeypatch.setattr(kernels, "_ENTRIES", 7 * 30)
    assert (NGramKernel(2, list).gram(texts) == whole).all()


# --- texts as they come


@both
def test_short_texts_are_alike_and_unlike_all_others(kernel):
    with pytest.warns(
        EstimateWarning, match=r"3 of 4 texts .* fewer than n = 2 tokens.* Use longer texts or a smaller"
    ):
        gram = kernel.gram(["", "a", "ab", "c"])
    assert gram.tolist() == [[1, 1, 0, 1], [1, 1, 0, 1], [0, 0, 1, 0], [1, 1, 0, 1]]


def test_a_few_short_texts_give_no_warning():
    assert NGramKernel(1).gram([f"word{i}" for i in range(20)] + [""]).sum() == 21


def test_short_texts_have_no_features_without_normalisation():
    with pytest.warns(EstimateWarning, match="1 of 2 texts"):
        gram = SubsequenceKernel(2, 0.5, normalise=False, tokenize=list).gram(["a", "ab"])
    assert gram.tolist() == [[0, 0], [0, 0.0625]]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Don’t STOP, it's 3.14 a_b!", ["don’t", "stop", ",", "it's", "3", ".", "14", "a_b", "!"]),
        ("'quoted' -- x", ["'", "quoted", "'", "-", "-", "x"]),
        ("", []),
        (" \t\n\u2003", []),
        ("👩‍💻👍🏽 ❤️ 🇬🇧🇫🇷 1️⃣", ["👩‍💻", "👍🏽", "❤️", "🇬🇧", "🇫🇷", "1️⃣"]),
        ("السلام عليكم، كيف حالك؟", ["السلام", "عليكم", "،", "كيف", "حالك", "؟"]),
        ("שָׁלוֹם עֲלֵיכֶם!", ["שָׁלוֹם", "עֲלֵיכֶם", "!"]),
        ("\u200fשלום\u200e abc", ["שלום", "abc"]),
        ("می‌خواهم", ["می‌خواهم"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("我喜欢Python。です", ["我", "喜", "欢", "python", "。", "で", "す"]),
        ("Cafe\u0301", ["caf\u00e9"]),
        ("ÀÉ Ω", ["àé", "ω"]),
        ("a\ud800b", ["a", "\ud800", "b"]),
    ],
    ids=lambda value: ascii(value)[:24] if isinstance(value, str) else "",
)
def test_words_of_many_scripts(text, tokens):
    assert words(text) == [unicodedata.normalize("NFC", token) for token in tokens]


@given(text=st.text())
def test_words_lose_nothing_that_can_be_seen(text):
    joined = "".join(words(text))
    assert not any(character.isspace() for character in joined)
    kept = unicodedata.normalize("NFC", text.lower())
    visible = [c for c in kept if not c.isspace() and unicodedata.category(c)[0] not in "CM"]
    assert [c for c in joined if unicodedata.category(c)[0] not in "CM"] == visible


@both
def test_right_to_left_text_and_emoji_count_as_any_other(kernel):
    plain = kernel.gram(["abcab", "bca"])
    assert (kernel.gram(["אבגאב", "בגא"]) == plain).all()
    assert (kernel.gram(["👍🎉🚀👍🎉", "🎉🚀👍"]) == plain).all()


@pytest.mark.parametrize("kernel", [NGramKernel(), SubsequenceKernel()], ids=["ngram", "subsequence"])
def test_a_million_characters_are_cut_and_need_little_memory(kernel):
    rng = np.random.default_rng(0)
    vocabulary = np.array([f"w{i}" for i in range(500)])
    text = " ".join(rng.choice(vocabulary, 220_000))
    assert len(text) > 1_000_000 - 60_000
    cut = " ".join(text.split()[:1024])
    kernel.gram([cut])
    tracemalloc.start()
    gram = kernel.gram([text, cut, "w1 " * 300_000])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert gram[0, 1] == 1
    assert peak < 100e6


def test_without_a_limit_memory_is_linear_in_the_length(monkeypatch):
    rng = np.random.default_rng(0)
    texts = rng.integers(0, 1_000, (2, 1_000))  # 1,000 pairs of equal tokens of a million
    kernel = SubsequenceKernel(n=2, tokenize=lambda text: texts[int(text)], max_length=None)
    compiled = kernel.gram(["0", "1"])
    monkeypatch.setattr(kernels, "_compiled", lambda: kernels._products_with)  # compiled code allocates unseen
    monkeypatch.setattr(kernels, "cores", lambda: 1)
    tracemalloc.start()
    gram = kernel.gram(["0", "1"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_allclose(gram, compiled, rtol=1e-13)
    assert 0 < gram[0, 1] < 0.1
    assert peak < 1e6


def test_max_length_cuts_tokens():
    for kind in (NGramKernel, SubsequenceKernel):
        cut, full = kind(n=2, max_length=3), kind(n=2, max_length=None)
        assert cut.gram(["a b c d", "a b c e"])[0, 1] == 1
        assert full.gram(["a b c d", "a b c e"])[0, 1] < 1


def test_tokens_may_be_numbers_tuples_or_an_array():
    expected = NGramKernel(2, list).gram(["abc", "bcd"])
    for tokenize in (
        lambda text: [ord(c) for c in text],
        lambda text: tuple((c, 1) for c in text),
        lambda text: np.array([ord(c) for c in text]),
        str.upper,
    ):
        assert (NGramKernel(2, tokenize).gram(["abc", "bcd"]) == expected).all()


def test_word_pieces_of_a_model(shared):
    tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers, of the extra `text`")
    folder = shared / "data" / "gpt2-bpe"
    model = tokenizers.models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    pieces = tokenizers.Tokenizer(model)
    pieces.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    kernel = NGramKernel(2, lambda text: pieces.encode(text).ids)
    assert kernel.gram(["The cat sat", "The cat ran"])[0, 1] == approx(1 / 3)
    with pytest.raises(InputError, match="`tokenize` must return a list of tokens, or another sequence; got Encoding"):
        NGramKernel(2, pieces.encode).gram(["The cat sat"])


# --- used by an estimator


@pytest.fixture(scope="module")
def webtext(shared):
    def read(name):
        with gzip.open(shared / "data" / "webtext-gpt2-large" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            return [json.loads(line)["gen"][0] for line in itertools.islice(lines, 200)]

    return {name: read(name) for name in ("human", "greedy")}


@pytest.mark.parametrize(
    "kernel", [NGramKernel(n=2, max_length=128), SubsequenceKernel(n=2, max_length=128)], ids=["ngram", "subsequence"]
)
def test_neighbors_take_distances_or_points(kernel, webtext):
    human, greedy = webtext["human"], webtext["greedy"]
    estimator = Neighbors(neighbors=15, reduce=None)
    distances = kernel.distances(human, greedy)
    by_distance = estimator.from_distances(distances, n=len(human))
    points = kernel.points(human + greedy)
    np.testing.assert_allclose(cdist(points, points), distances, atol=1e-6)
    by_point = estimator(points[: len(human)], points[len(human) :])
    assert area(by_point, scale=10) == approx(area(by_distance, scale=10), abs=1e-6)
    halves = estimator.from_distances(kernel.distances(human[::2], human[1::2]), n=len(human[::2]))
    assert area(halves, scale=10) > area(by_distance, scale=10) + 0.1
    copies = estimator.from_distances(kernel.distances(human, human), n=len(human))
    assert area(copies, scale=10) == approx(1)


# --- values, errors, the optional package


def named(text):
    return text.split()


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (NGramKernel(), "NGramKernel(n=3, tokenize=words, max_length=1024)"),
        (NGramKernel(2, list, None), "NGramKernel(n=2, tokenize=list, max_length=None)"),
        (
            SubsequenceKernel(),
            "SubsequenceKernel(n=5, decay=0.5, normalise=True, tokenize=words, max_length=1024)",
        ),
        (
            SubsequenceKernel(2, 0.123456789, False, str.split, 9),
            "SubsequenceKernel(n=2, decay=0.123456789, normalise=False, tokenize=str.split, max_length=9)",
        ),
    ],
    ids=["ngram", "characters", "subsequence", "options"],
)
def test_names_tell_every_option_and_values_pickle(kernel, name):
    assert kernel.name == repr(kernel) == name
    assert kernel.kind == "text"
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert hash(kernel) == hash(pickle.loads(pickle.dumps(kernel)))
    assert not callable(kernel)


def test_a_tokenizer_is_named_by_its_name_or_where_it_is_from():
    class Pieces:
        name = "gpt2@607a30d7"

        def __call__(self, text):
            return text.split()

    class Nameless(Pieces):
        name = None

    assert "tokenize=gpt2@607a30d7," in NGramKernel(tokenize=Pieces()).name
    assert f"tokenize={named.__module__}.named," in NGramKernel(tokenize=named).name
    assert ".Nameless," in NGramKernel(tokenize=Nameless()).name
    assert "tokenize=functools.partial," in NGramKernel(tokenize=functools.partial(named)).name


@pytest.mark.parametrize("kind", [NGramKernel, SubsequenceKernel])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "`n` must be an integer of at least 1; got 0."),
        ({"n": 2.0}, "`n` must be an integer of at least 1; got 2.0."),
        ({"tokenize": None}, "`tokenize` must be a callable from a text to its tokens; got None."),
        ({"max_length": 0}, "`max_length` must be an integer of at least 1; got 0."),
        (
            {"n": 9, "max_length": 8},
            "`max_length` must be at least n = 9 tokens, else no text has any feature; got 8.",
        ),
    ],
    ids=["n", "float", "tokenize", "max_length", "below_n"],
)
def test_bad_options_are_refused(kind, options, message):
    with pytest.raises(InputError) as caught:
        kind(**options)
    assert str(caught.value) == message


@pytest.mark.parametrize("decay", [0, 1, -0.5, 1.5, math.nan, "0.5", True])
def test_decay_lies_between_0_and_1(decay):
    with pytest.raises(InputError, match=r"`decay` must lie strictly between 0 and 1; got .* one more token in a gap."):
        SubsequenceKernel(decay=decay)


def test_normalise_is_a_truth_value():
    with pytest.raises(InputError, match="`normalise` must be True or False; got 'no'"):
        SubsequenceKernel(normalise="no")


@both
@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("abc", "must be a list of texts; got one str. Put it into a list."),
        (b"abc", "must be a list of texts; got one bytes. Put it into a list."),
        ([], "must hold at least one text; got none."),
        (["a", None], "must hold texts (str); got None (NoneType) at place 1."),
        ([b"a"], "must hold texts (str); got b'a' (bytes) at place 0."),
    ],
    ids=["str", "bytes", "empty", "none", "bytes_within"],
)
def test_what_is_not_texts_is_refused(kernel, texts, message):
    for name, call in (
        ("texts", kernel.gram),
        ("texts", kernel.points),
        ("reference", lambda texts: kernel.distances(texts, ["b"])),
        ("model", lambda texts: kernel.distances(["b"], texts)),
    ):
        with pytest.raises(InputError) as caught:
            call(texts)
        assert str(caught.value) == f"`{name}` {message}"


@both
def test_what_is_not_tokens_is_refused(kernel):
    kind = type(kernel)
    with pytest.raises(InputError, match="`tokenize` must return hashable tokens; unhashable type: 'list'"):
        kind(tokenize=lambda text: [[1], [2]]).gram(["a"])
    with pytest.raises(InputError, match="`tokenize` must return a list of tokens, or another sequence; got dict"):
        kind(tokenize=lambda text: {"input_ids": [1]}).gram(["a"])
    with pytest.raises(InputError, match="`tokenize` must return a list of tokens, or another sequence; got ndarray"):
        kind(tokenize=lambda text: np.array([[1]])).gram(["a"])


def test_similarities_beyond_all_numbers_are_refused():
    with pytest.raises(
        InputError, match=r"`n` = 400 with decay 0\.99 makes similarities beyond .* texts of 900 tokens"
    ):
        SubsequenceKernel(400, 0.99, tokenize=list).gram(["a" * 900])


@pytest.fixture
def needs_none():
    kernels._compiled.cache_clear()
    yield
    kernels._compiled.cache_clear()


def test_without_numba_the_message_says_what_to_install(needs_none, monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(InputError, match=r"numba is needed for this .*: pip install 'mallow\[kernels\]'$"):
        SubsequenceKernel(n=1).gram(["a"])
    assert NGramKernel(1).gram(["a", "b"]).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("error", [RuntimeError("no locator available"), OSError(28, "No space left on device")])
def test_where_the_cache_cannot_be_written_it_works_all_the_same(error, needs_none, monkeypatch):
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
