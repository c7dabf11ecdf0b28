"""The common part of the string kernels: from texts to token sequences, from similarities to distances and points.

A kernel compares pairs of texts (paper: sec:string-kernel), so the features of one text depend on the other texts: a
kernel is not an `Embedder`. It offers three views of the texts of *both* samples: similarities (`gram`), the matrix of
distances that `Neighbors.from_distances` and `KernelDensity.from_distances` take, and `points`, features whose
Euclidean distances equal the distances of the kernel, for any other estimator. Time and memory grow with the square
of the number of texts: each matrix takes 32 MB for 2,000 texts and 3.2 GB for 20,000.

Known failure: the paper finds that these kernels show the trends of model size, decoding and length "only weakly and
unreliably" (table:non-deep). They are baselines to beat, not a substitute for learned features.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mallow._checks import open_unit, whole
from mallow._optional import optional
from mallow.embed._protocol import checked_texts
from mallow.engine import cores, ordered_map, single_threaded_blas
from mallow.errors import Caveat, InputError, warn_about
from mallow.models import words

Matrix = NDArray[np.float64]
Tokenize = Callable[[str], Sequence[Hashable]]

_BLOCK = 1 << 20  # similarities computed at a time; chosen: 8 MB
_MANY_SHORT = 0.05  # chosen: the share of texts too short for the kernel above which there is a caveat


class StringKernel:
    """The methods that both kernels share. Each of them only computes similarities of token sequences."""

    n: int
    tokenize: Tokenize
    max_length: int | None

    kind: ClassVar[Literal["text"]] = "text"

    if TYPE_CHECKING:  # each kernel has its own

        def _similarities(self, sequences: Sequences) -> Matrix: ...

    def __post_init__(self) -> None:
        whole("n", self.n, least=1)
        if not callable(self.tokenize):
            raise InputError(f"`tokenize` must be a callable from a text to its tokens; got {self.tokenize!r}.")
        if self.max_length is not None and whole("max_length", self.max_length, least=1) < self.n:
            raise InputError(
                f"`max_length` must be at least n = {self.n} tokens, otherwise no text has any feature; got "
                f"{self.max_length}."
            )

    @property
    def name(self) -> str:
        """Everything that the similarities depend on, in one line."""
        options = {**vars(self), "tokenize": tokenizer_label(self.tokenize)}
        return f"{type(self).__name__}({', '.join(f'{option}={value}' for option, value in options.items())})"

    def __repr__(self) -> str:
        return self.name

    def gram(self, texts: Sequence[str]) -> Matrix:
        """The similarities κ (n, n) of all texts, exactly symmetric.

        They lie in [0, 1] with ones on the diagonal, except for a `SubsequenceKernel` that is not normalised. Warns if
        many texts are too short, as `caveats` says.
        """
        similarities, caveats = self._compare(checked_texts(texts, "texts"))
        warn_about(caveats)
        return similarities

    def distances(self, reference: Sequence[str], model: Sequence[str]) -> Matrix:
        """The distances √(κ(x, x) + κ(y, y) − 2κ(x, y)) between all texts (n + m, n + m), the reference first.

        Warns if many texts are too short, as `caveats` says.
        """
        texts = [*checked_texts(reference, "reference"), *checked_texts(model, "model")]
        similarities, caveats = self._compare(texts)
        warn_about(caveats)
        return _to_distances(similarities)

    def points(self, texts: Sequence[str]) -> Matrix:
        """Features (n, d), d ≤ n, with κ as inner product and the distances of the kernel, to 1e-6 of the largest norm.

        They are valid only for these texts together: pool the texts of both samples, then split the rows. There are no
        warnings: ask `caveats`.
        """
        return _to_points(self._compare(checked_texts(texts, "texts"))[0])

    def caveats(self, texts: Sequence[str]) -> tuple[Caveat, ...]:
        """Reasons to doubt what the kernel says about these texts: many have fewer than N tokens."""
        return _short_text_caveats(
            (len(_tokens(self.tokenize, text)) for text in checked_texts(texts, "texts")), self.n
        )

    def _compare(self, texts: list[str]) -> tuple[Matrix, tuple[Caveat, ...]]:
        sequences = _encode(texts, self.tokenize, self.max_length)
        similarities, group = self._similarities(sequences), sequences.group
        if len(similarities) < len(group):  # else every text is distinct, and numbered in order of appearance
            similarities = similarities[np.ix_(group, group)]
        return similarities, _short_text_caveats(sequences.lengths[group].tolist(), self.n)


class Sequences(NamedTuple):
    """The distinct token sequences of some texts, one after the other, and the sequence of each text."""

    tokens: NDArray[np.int32]  # all sequences, joined
    starts: NDArray[np.int64]  # the start of each sequence, and the end of the last
    group: NDArray[np.int64]  # (texts,)
    vocabulary: int

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each sequence."""
        return np.diff(self.starts)


def tokenizer_label(tokenize: object) -> str:
    """The name of a tokenizer in the name of a kernel: its own `name`, or else its import path."""
    name = getattr(tokenize, "name", None)
    if isinstance(name, str):
        return name
    source: Any = tokenize if hasattr(tokenize, "__qualname__") else type(tokenize)
    module = getattr(source, "__module__", None)
    well_known = module in (None, "builtins") or str(module).startswith("mallow.")
    return f"{'' if well_known else f'{module}.'}{source.__qualname__}"


def _encode(texts: list[str], tokenize: Tokenize, max_length: int | None) -> Sequences:
    numbers: dict[Hashable, int] = {}
    places: dict[bytes, int] = {}  # of each distinct sequence: equal texts must be at distance 0 exactly
    group = []
    for text in texts:
        tokens = _tokens(tokenize, text)[:max_length]
        try:
            codes = np.array([numbers.setdefault(token, len(numbers)) for token in tokens], np.int32)
        except TypeError as error:
            raise InputError(f"`tokenize` must return hashable tokens; {error}.") from None
        group.append(places.setdefault(codes.tobytes(), len(places)))
    lengths = [len(codes) // np.dtype(np.int32).itemsize for codes in places]
    return Sequences(
        np.frombuffer(b"".join(places), np.int32).copy(),  # the compiled code does not take read-only arrays
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.array(group, np.int64),
        len(numbers),
    )


def _tokens(tokenize: Tokenize, text: str) -> Sequence[Hashable]:
    tokens: Any = tokenize(text)
    if isinstance(tokens, np.ndarray) and tokens.ndim == 1:
        return tokens.tolist()  # type: ignore[no-any-return]
    # Not any iterable: the entries of a tensor, for example, are hashable objects that are never equal.
    if not isinstance(tokens, Sequence):
        raise InputError(f"`tokenize` must return a list of tokens, or another sequence; got {type(tokens).__name__}.")
    return tokens


def _short_text_caveats(lengths: Iterable[int], n: int) -> tuple[Caveat, ...]:
    short = [length < n for length in lengths]
    if sum(short) <= _MANY_SHORT * len(short):
        return ()
    message = (
        f"{sum(short)} of {len(short)} texts have fewer than n = {n} tokens, so this kernel cannot distinguish them. "
        "Use longer texts or a smaller `n`."
    )
    return (Caveat("short texts", message, values={"short": sum(short), "texts": len(short), "n": n}),)


def _to_distances(gram: Matrix) -> Matrix:
    """Distances from similarities, in place."""
    norms = np.diagonal(gram).copy()  # squared
    gram *= -2.0
    for row, norm in zip(gram, norms, strict=True):
        row += norms + norm
    np.maximum(gram, 0.0, out=gram)
    np.fill_diagonal(gram, 0.0)
    return np.sqrt(gram, out=gram)


def _to_points(gram: Matrix) -> Matrix:
    from scipy.linalg import eigh

    # Equal texts are embedded once, so that they get exactly equal rows.
    same = _to_distances(gram.copy()) == 0
    distinct, group = np.unique(same.argmax(axis=1), return_inverse=True)
    with single_threaded_blas():
        # "evd" takes a fifth of the time of the default on 2,000 real texts, whose eigenvalues lie close together.
        values, vectors = eigh(gram[np.ix_(distinct, distinct)], overwrite_a=True, check_finite=False, driver="evd")
    kept = values > np.finfo(np.float64).eps * values[-1]  # smaller values are rounding errors
    kept[-1] = True  # if no text has features: one axis of zeros
    rows = vectors[:, kept][:, ::-1] * np.sqrt(np.maximum(values[kept][::-1], 0.0))
    return rows[group]  # type: ignore[no-any-return]


@dataclass(frozen=True, repr=False)
class NGramKernel(StringKernel):
    """Jaccard similarity of the *sets* of token N-grams of two texts: |A ∩ B| / |A ∪ B| (paper: sec:string-kernel (a)).

    A text of fewer than N tokens has no N-gram. Two such texts have similarity 1, and such a text has similarity 0
    with all others. "Nothing" counts as a separate N-gram, which keeps the kernel positive definite. There is a
    caveat if many texts are that short. How often an N-gram occurs, and where, does not matter.

    Parameters
    ----------
    n : int
        Tokens of an N-gram (N in the paper, which found 3 the best of 3, 4 and 5).
    tokenize : callable
        From a text to a sequence of hashable tokens. The paper uses word pieces: pass the `encode` of a model's
        tokenizer. `list` makes N-grams of characters. Its attribute `name`, if it has one, or else its import name is
        part of `name`: give a name to a method or `functools.partial`, whose import name does not identify it.
    max_length : int or None
        Only this many leading tokens of each text are used. None: all.

    Examples
    --------
    >>> kernel = NGramKernel(n=2)
    >>> kernel.gram(["The cat sat.", "the cat ran."])
    array([[1. , 0.2],
           [0.2, 1. ]])
    >>> kernel.name
    'NGramKernel(n=2, tokenize=words, max_length=1024)'
    """

    n: int = 3
    tokenize: Tokenize = words
    max_length: int | None = 1024

    def _similarities(self, sequences: Sequences) -> Matrix:
        return _jaccard(_ngram_membership(sequences, self.n))


def _ngram_membership(sequences: Sequences, n: int) -> Any:
    """A sparse matrix (sequences, distinct N-grams) with a 1 where the sequence has the N-gram."""
    from scipy.sparse import csr_array

    code = sequences.tokens.astype(np.int64)
    for after in range(1, n):
        # Numbers below the count of tokens, so that no product overflows and no two N-grams share a number.
        code = np.unique(code[:-1] * sequences.vocabulary + sequences.tokens[after:], return_inverse=True)[1]
    counts = np.maximum(sequences.lengths - n + 1, 0)
    row = np.repeat(np.arange(len(counts)), counts)
    begin = np.concatenate(
        [np.arange(start, start + count) for start, count in zip(sequences.starts[:-1], counts, strict=True)]
    )
    code = code[begin] if len(begin) else begin
    cells = np.unique(row * (code.max(initial=0) + 1) + code)  # each N-gram once per text
    row, column = np.divmod(cells, code.max(initial=0) + 1)
    return csr_array((np.ones(len(cells), np.int32), (row, column)), (len(counts), code.max(initial=0) + 1))


def _jaccard(membership: Any) -> Matrix:
    """|A ∩ B| / |A ∪ B| of all pairs of rows; 1 for two empty ones."""
    size = np.bincount(membership.tocoo().coords[0], minlength=membership.shape[0])
    transposed = membership.T.tocsr()
    similarities = np.empty((len(size), len(size)))
    step = max(1, _BLOCK // len(size))
    for start in range(0, len(size), step):
        rows = slice(start, start + step)
        common = (membership[rows] @ transposed).toarray()
        union = size[rows, None] + size - common
        similarities[rows] = np.where(union == 0, 1.0, common / np.maximum(union, 1))
    return similarities


_LEAST_DECAY = 1e-100  # chosen: below, gaps add less than rounding errors. The reciprocal must not overflow
_NEGLIGIBLE = (
    1e-200  # chosen: smaller powers become 0. They are far below rounding, and their products would be slow denormals
)


@dataclass(frozen=True, repr=False)
class SubsequenceKernel(StringKernel):
    """Similarity by common subsequences of N tokens, gaps allowed but discounted (paper: sec:string-kernel (b)).

    The feature of a sequence z of N tokens is φ(x)[z] = Σ decay^len(i) over all places i with x[i] = z, where len(i)
    = i_N − i_1 + 1 is the length of the stretch of text they span, and κ(x, x′) = ⟨φ(x), φ(x′)⟩ (Lodhi et al. 2002).
    The features are never listed: in one pass over the M pairs of equal tokens of two texts, with Fenwick trees for
    the sums, κ takes O(N M log|x|) steps as in Rousu and Shawe-Taylor (2005), and memory of O(N |x|). Decays are
    relative to the current place, so that long texts do not underflow. Absolute errors come from rounding only:
    1e-15 times the norms.

    A text of fewer than N tokens has no feature, φ = 0. If normalised, two such texts have similarity 1 and such a text
    has similarity 0 with all others, as if "nothing" were a feature; otherwise all its similarities are 0.

    It needs numba (the extra `kernels`), which compiles it at the first call, in about a second. The compiled code
    is kept beside this file or in the user's numba cache. If neither can be written, it is compiled once per
    process. All cores are used, and the result is exactly the same on any number of them.

    Parameters
    ----------
    n : int
        Tokens of a subsequence (N in the paper, which found 5 the best of 3, 4 and 5).
    decay : float
        The gap penalty λ, strictly between 0 and 1. The paper found 0.5 the best of 0.1 to 0.9. Towards 0 only
        contiguous N-grams count, with their frequencies; towards 1 gaps cost nothing.
    normalise : bool
        True: the cosine κ(x, x′)/√(κ(x, x) κ(x′, x′)). The paper does not state this, and its κ is unbounded: the norm
        of φ grows with length and repetition, and then the nearest neighbours are texts of similar length, whatever
        their content. False: κ itself.
    tokenize
        From a text to its tokens, as in `NGramKernel`.
    max_length
        The maximum number of tokens, as in `NGramKernel`. Time grows with the square of the length.

    Examples
    --------
    >>> SubsequenceKernel(n=2, decay=0.9).name
    'SubsequenceKernel(n=2, decay=0.9, normalise=True, tokenize=words, max_length=1024)'
    """

    n: int = 5
    decay: float = 0.5
    normalise: bool = True
    tokenize: Tokenize = words
    max_length: int | None = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        open_unit("decay", self.decay, why=" It is the weight of one more token in a gap.")
        if not isinstance(self.normalise, bool):
            raise InputError(f"`normalise` must be True or False; got {self.normalise!r}.")

    def _similarities(self, sequences: Sequences) -> Matrix:
        products = _subsequence_products(sequences, self.n, self.decay)
        if self.normalise:
            _to_cosines(products)
        else:
            products *= self.decay ** (2 * self.n)
        return products


def _subsequence_products(sequences: Sequences, n: int, decay: float) -> Matrix:
    """⟨φ, φ⟩ of all pairs of sequences, divided by decay^2N: adjacent tokens have weight 1, whatever the decay."""
    compiled = _compiled()
    count = len(sequences.starts) - 1
    longest = int(sequences.lengths.max())
    step = max(decay, _LEAST_DECAY)
    powers = np.power(step, np.arange(longest + 2))
    powers[powers < _NEGLIGIBLE] = 0.0
    every = max(1, math.floor(100 * math.log(2) / -math.log(step)))  # rows within which decays span 2^100

    def row_products(first: int) -> Matrix:
        products = np.zeros(count - first)
        compiled(first, sequences.tokens, sequences.starts, sequences.vocabulary, powers, every, n, products)
        return products

    similarities = np.empty((count, count))
    for first, products in enumerate(ordered_map(row_products, range(count), cores())):
        similarities[first, first:] = similarities[first:, first] = products
    if not np.isfinite(similarities).all():
        raise InputError(
            f"`n` = {n} with decay {decay:g} makes similarities too large for floating-point numbers for texts of "
            f"{longest} tokens. Use a smaller `n`, `decay` or `max_length`."
        )
    return similarities


def _fill_products(
    first: int,
    tokens: NDArray[np.int32],
    starts: NDArray[np.int64],
    vocabulary: int,
    powers: Matrix,
    every: int,
    n: int,
    products: Matrix,
) -> None:
    """The products of one sequence x with itself and all later ones, written into `products`; compiled by numba.

    At a pair of equal tokens (i of y, j of x), level p is the sum of the weights of the common subsequences of p tokens
    that end there. It is the sum of level p − 1 over all pairs above and to the left, each times
    decay^(gap in y + gap in x). A Fenwick tree over the places of x holds these sums, all levels side by side: node k
    covers the places (k − lowbit(k), k], with decays relative to place k, and to row `base` of y. Measured for English
    texts of 256 tokens (660 equal pairs of 65,536): 15 times faster than the full table of all i and j, also compiled.
    """
    levels, length = n - 1, starts[first + 1] - starts[first]
    last = np.zeros(vocabulary, np.int64)  # last place of each token in x, from 1; 0 if it is not there
    before = np.zeros(length + 1, np.int64)  # the previous place of the same token
    for j in range(1, length + 1):
        token = tokens[starts[first] + j - 1]
        before[j] = last[token]
        last[token] = j
    tree = np.zeros((length + 1, levels))
    level = np.zeros(n)
    level[0] = 1.0
    for other in range(first, len(starts) - 1):
        tree[:] = 0.0
        base, total = -1, 0.0
        for i in range(starts[other + 1] - starts[other]):
            if i - base > every:
                tree *= powers[i - 1 - base]
                base = i - 1
            j = last[tokens[starts[other] + i]]
            down, up = powers[i - 1 - base], 1.0 / powers[i - base]
            while j > 0:  # backwards, so that additions at a place do not reach earlier places
                level[1:] = 0.0
                k = j - 1
                while k > 0:
                    weight = powers[j - 1 - k] * down
                    for p in range(levels):
                        level[p + 1] += weight * tree[k, p]
                    k &= k - 1
                total += level[levels]
                k = j
                while k <= length:
                    weight = powers[k - j] * up
                    for p in range(levels):
                        tree[k, p] += weight * level[p]
                    k += k & -k
                j = before[j]
        products[other - first] = total


_SIGNATURE = "void(int64, int32[::1], int64[::1], int64, float64[::1], int64, int64, float64[::1])"


@functools.cache
def _compiled() -> Callable[..., None]:
    numba = optional("numba", extra="kernels")
    try:
        compiled = numba.njit(_SIGNATURE, nogil=True, cache=True)(_fill_products)
    except (RuntimeError, OSError):  # there is no writable folder for the cache, or the disk is full
        compiled = numba.njit(_SIGNATURE, nogil=True)(_fill_products)
    return compiled  # type: ignore[no-any-return]


def _to_cosines(products: Matrix) -> None:
    """Cosines from products, in place; zero vectors have cosine 1 with each other and 0 with all others."""
    norm = np.sqrt(np.diagonal(products))
    empty = norm == 0
    norm[empty] = 1.0
    for row, own in zip(products, norm, strict=True):
        row /= own * norm
    np.minimum(products, 1.0, out=products)
    products[np.ix_(empty, empty)] = 1.0
    np.fill_diagonal(products, 1.0)
