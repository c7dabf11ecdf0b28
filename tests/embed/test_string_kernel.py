"""String kernels: what every kernel must keep, then texts as they come, then options and errors."""

import functools
import itertools
import pickle
import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from scipy.spatial.distance import cdist

from mallow import area
from mallow.embed import NGramKernel, SubsequenceKernel
from mallow.embed import _string_kernels as subsequences
from mallow.errors import EstimateWarning, InputError
from mallow.estimate import Neighbors

pytest.importorskip("numba", reason="needs numba, of the extra `kernels`")

letters = st.text("abc", max_size=9)
pools = st.lists(letters, min_size=1, max_size=6)
short_is_fine = pytest.mark.filterwarnings("ignore:.* texts have fewer than n = :mallow.errors.EstimateWarning")
both = pytest.mark.parametrize(
    "kernel", [NGramKernel(2, list), SubsequenceKernel(2, 0.7, tokenize=list)], ids=["ngram", "subsequence"]
)


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
    similarities = kernel.gram([texts[i] for i in places])
    np.testing.assert_allclose(similarities, kernel.gram(texts)[np.ix_(places, places)], rtol=1e-13, atol=0)


@short_is_fine
@both
@given(texts=pools, split=st.integers(1, 5))
def test_distances_follow_from_similarities(kernel, texts, split):
    reference, model = texts[:split], [*texts[split:], "abba"]
    gram = kernel.gram(reference + model)
    distances = kernel.distances(reference, model)
    own = np.diagonal(gram)
    np.testing.assert_allclose(distances**2, own[:, None] + own - 2 * gram, atol=1e-14)
    assert (distances == distances.T).all()
    assert not np.diagonal(distances).any()
    same = np.equal.outer(np.array(reference + model), np.array(reference + model))
    assert not distances[same].any()


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


def test_points_of_texts_without_features_are_zeros():
    assert SubsequenceKernel(normalise=False).points(["a", ""]).tolist() == [[0.0], [0.0]]
    assert abs(SubsequenceKernel().points(["a", ""])).tolist() == [[1.0], [1.0]]


@both
def test_the_number_of_threads_does_not_change_a_bit(kernel, monkeypatch):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdef"), size)) for size in rng.integers(5, 90, 40)]
    results = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(subsequences, "cores", lambda threads=threads: threads)
        results.append((kernel.gram(texts).tobytes(), kernel.points(texts).tobytes()))
    assert results[0] == results[1] == results[2]


# --- texts as they come


@both
def test_short_texts_are_alike_and_unlike_all_others(kernel):
    texts = ["", "a", "ab", "c"]
    message = (
        "3 of 4 texts have fewer than n = 2 tokens, so this kernel cannot distinguish them. "
        "Use longer texts or a smaller `n`."
    )
    with pytest.warns(EstimateWarning, match=f"^{re.escape(message)}$"):
        gram = kernel.gram(texts)
    assert gram.tolist() == [[1, 1, 0, 1], [1, 1, 0, 1], [0, 0, 1, 0], [1, 1, 0, 1]]
    with pytest.warns(EstimateWarning, match=f"^{re.escape(message)}$") as caught:
        kernel.distances(texts[:1], texts[1:])
    assert len(caught) == 1


@both
def test_short_texts_are_a_caveat_and_points_do_not_warn(kernel):
    texts = ["", "a", "ab", "c"]
    (caveat,) = kernel.caveats(texts)
    assert caveat.kind == "short texts"
    assert caveat.message.startswith("3 of 4 texts have fewer than n = 2 tokens, ")
    assert caveat.values == {"short": 3, "texts": 4, "n": 2}
    kernel.points(texts)  # any warning is an error in these tests
    assert kernel.caveats(["ab"] * 19 + [""]) == ()
    assert kernel.caveats(["ab"] * 18 + [""]) != ()


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


def test_max_length_cuts_tokens():
    for kind in (NGramKernel, SubsequenceKernel):
        cut, full = kind(n=2, max_length=3), kind(n=2, max_length=None)
        assert cut.gram(["a b c d", "a b c e"])[0, 1] == 1
        assert full.gram(["a b c d", "a b c e"])[0, 1] < 1


# --- used by an estimator


@pytest.mark.parametrize(
    "kernel", [NGramKernel(n=2, max_length=128), SubsequenceKernel(n=2, max_length=128)], ids=["ngram", "subsequence"]
)
def test_neighbors_take_distances_or_points(kernel, webtext):
    human, greedy = webtext(200), webtext(200, "greedy")
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


# --- values and errors


def split_words(text):
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
    assert f"tokenize={split_words.__module__}.split_words," in NGramKernel(tokenize=split_words).name
    assert ".Nameless," in NGramKernel(tokenize=Nameless()).name
    assert "tokenize=functools.partial," in NGramKernel(tokenize=functools.partial(split_words)).name


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
            "`max_length` must be at least n = 9 tokens, otherwise no text has any feature; got 8.",
        ),
    ],
    ids=["n", "float", "tokenize", "max_length", "below_n"],
)
def test_bad_options_are_refused(kind, options, message):
    with pytest.raises(InputError) as caught:
        kind(**options)
    assert str(caught.value) == message


@both
@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("abc", "must be a list of texts; got a single str. Put it into a list."),
        (b"abc", "must be a list of texts; got a single bytes. Put it into a list."),
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
