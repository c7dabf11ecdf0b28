"""String kernels: texts compared by the word sequences they share, without any model (paper: sec:string-kernel).

A kernel compares pairs of texts, so that the features of one text depend on which others are there: a kernel is not an
`Embedder`. It gives three views of the texts of *both* samples: similarities (`gram`), the matrix of distances that
`Neighbors.from_distances` and `KernelDensity.from_distances` take, and `points`, features whose Euclidean distances are
those of the kernel, for any other estimator. Time and memory grow with the square of the number of texts: 2,000 need
32 MB for each matrix, 20,000 need 3.2 GB.

Known failure: the paper finds that these kernels see the trends of model size, decoding and length "only weakly and
unreliably" (table:non-deep). They are yardsticks to beat, not a substitute for learned features.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mallow._checks import open_unit, whole
from mallow._optional import optional
from mallow.embed._protocol import checked_texts
from mallow.engine import cores, ordered_map, single_threaded_blas
from mallow.errors import EstimateWarning, InputError
from mallow.models import words

__all__ = ["NGramKernel", "SubsequenceKernel"]

Matrix = NDArray[np.float64]

_ENTRIES = 1 << 20  # entries of a block of similarities
_MANY = 0.05  # share of texts too short for the kernel from which a warning is given
_LEAST_DECAY = 1e-100  # below, gaps add less than rounding; the reciprocal must not overflow
_NOTHING = 1e-200  # decays below are 0: far under rounding, and products of them would be slow denormal numbers


@dataclass(frozen=True, repr=False)
class NGramKernel:
    """Jaccard similarity of the *sets* of token N-grams of two texts: |A ∩ B| / |A ∪ B| (paper: sec:string-kernel (a)).

    A text of fewer than N tokens has no N-gram. Two such texts have similarity 1 and one such text has similarity 0 with
    all others, which keeps the kernel positive definite: "nothing" counts as an N-gram of its own. If many are so short,
    an `EstimateWarning` is given. How often an N-gram occurs, and where, does not matter.

    Parameters
    ----------
    n : int
        Tokens of an N-gram (N in the paper, which found 3 the best of 3, 4 and 5).
    tokenize : callable
        From a text to a sequence of hashable tokens. The paper uses word pieces: pass the `encode` of a model's
        tokenizer. `list` makes N-grams of characters. Its `name`, if it has one, or else its import name goes into
        `name`: give one to a method or `functools.partial`, whose import name does not tell what it holds.
    max_length : int or None
        Only that many leading tokens of each text are used. None: all.

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
    tokenize: Callable[[str], Sequence[Hashable]] = words
    max_length: int | None = 1024

    kind: ClassVar[Literal["text"]] = "text"

    def __post_init__(self) -> None:
        _check_options(self.n, self.tokenize, self.max_length)

    @property
    def name(self) -> str:
        """Everything that the similarities depend on, in one line."""
        return f"NGramKernel(n={self.n}, tokenize={_label(self.tokenize)}, max_length={self.max_length})"

    def __repr__(self) -> str:
        return self.name

    def gram(self, texts: Sequence[str]) -> Matrix:
        """The similarities (n, n) of all texts, in [0, 1], with ones on the diagonal; symmetric to the bit."""
        encoded = _encoded(checked_texts(texts, "texts"), self.n, self.tokenize, self.max_length)
        return _spread(_jaccard(_ngram_counts(encoded, self.n)), encoded.group)

    def distances(self, reference: Sequence[str], model: Sequence[str]) -> Matrix:
        """The distances √(2 − 2κ) between all texts (n + m, n + m), those of the reference first."""
        return _distances(self.gram([*checked_texts(reference, "reference"), *checked_texts(model, "model")]))

    def points(self, texts: Sequence[str]) -> Matrix:
        """Features (n, d), d ≤ n, with κ as inner product and the distances of the kernel, to 1e-6; rows of norm 1.

        They hold for these texts together: pool the texts of both samples, and split the rows.
        """
        return _points(self.gram(texts))


@dataclass(frozen=True, repr=False)
class SubsequenceKernel:
    """Similarity by common subsequences of N tokens, gaps allowed but discounted (paper: sec:string-kernel (b)).

    The feature of a sequence z of N tokens is φ(x)[z] = Σ decay^len(i) over all places i with x[i] = z, where
    len(i) = i_N − i_1 + 1 is the stretch of text they span; κ(x, x′) = ⟨φ(x), φ(x′)⟩ (Lodhi et al. 2002). No feature is
    ever listed: in one pass over the M pairs of equal tokens of two texts, with Fenwick trees for the sums, κ takes
    O(N M log|x|) steps as in Rousu and Shawe-Taylor (2005) and memory of O(N |x|). Decays are taken relative to the
    current place, so that long texts do not underflow; absolute errors are those of rounding, 1e-15 times the norms.

    A text of fewer than N tokens has no feature, φ = 0. Normalised, two such texts have similarity 1 and one such text
    has similarity 0 with all others, as if "nothing" were a feature; not normalised, all its similarities are 0.

    It needs numba (``pip install 'mallow[kernels]'``), which compiles it at the first call, in about a second; the
    result is kept beside this file or in numba's cache of the user, and where neither can be written it is compiled
    once a process. All cores are used, with the same bits on any number of them.

    Parameters
    ----------
    n : int
        Tokens of a subsequence (N in the paper, which found 5 the best of 3, 4 and 5).
    decay : float
        The gap penalty λ, strictly between 0 and 1; the paper found 0.5 the best of 0.1 to 0.9. Towards 0 only
        contiguous N-grams count, with their frequencies; towards 1 gaps cost nothing.
    normalise : bool
        True: the cosine κ(x, x′)/√(κ(x, x) κ(x′, x′)). The paper does not say, and its κ has no bound: the norm of φ
        grows with length and repetition, and then neighbours are those of similar length, whatever they say.
        False: κ itself.
    tokenize, max_length
        As in `NGramKernel`. Time grows with the square of the length.

    Examples
    --------
    >>> SubsequenceKernel(n=2, decay=0.9).name
    'SubsequenceKernel(n=2, decay=0.9, normalise=True, tokenize=words, max_length=1024)'
    """

    n: int = 5
    decay: float = 0.5
    normalise: bool = True
    tokenize: Callable[[str], Sequence[Hashable]] = words
    max_length: int | None = 1024

    kind: ClassVar[Literal["text"]] = "text"

    def __post_init__(self) -> None:
        _check_options(self.n, self.tokenize, self.max_length)
        open_unit("decay", self.decay, why=" It is the weight of one more token in a gap.")
        if not isinstance(self.normalise, bool):
            raise InputError(f"`normalise` must be True or False; got {self.normalise!r}.")

    @property
    def name(self) -> str:
        """Everything that the similarities depend on, in one line."""
        return (
            f"SubsequenceKernel(n={self.n}, decay={float(self.decay)!r}, normalise={self.normalise}, "
            f"tokenize={_label(self.tokenize)}, max_length={self.max_length})"
        )

    def __repr__(self) -> str:
        return self.name

    def gram(self, texts: Sequence[str]) -> Matrix:
        """The similarities (n, n) of all texts, symmetric to the bit; normalised in [0, 1] with ones on the diagonal."""
        encoded = _encoded(checked_texts(texts, "texts"), self.n, self.tokenize, self.max_length)
        found = _subsequence_products(encoded, self.n, self.decay)
        if self.normalise:
            _to_cosines(found)
        else:
            found *= self.decay ** (2 * self.n)
        return _spread(found, encoded.group)

    def distances(self, reference: Sequence[str], model: Sequence[str]) -> Matrix:
        """The distances √(κ(x, x) + κ(y, y) − 2κ(x, y)) between all texts (n + m, n + m), those of the reference first."""
        return _distances(self.gram([*checked_texts(reference, "reference"), *checked_texts(model, "model")]))

    def points(self, texts: Sequence[str]) -> Matrix:
        """Features (n, d), d ≤ n, with κ as inner product and the distances of the kernel, to 1e-6 of the largest norm.

        They hold for these texts together: pool the texts of both samples, and split the rows.
        """
        return _points(self.gram(texts))


# --- texts to numbers


class _Encoded(NamedTuple):
    """The distinct token sequences one behind the other, and which of them each text is."""

    tokens: NDArray[np.int32]  # all sequences, joined
    starts: NDArray[np.int64]  # where each sequence starts, and the end of the last
    group: NDArray[np.int64]  # (texts,)
    vocabulary: int


def _check_options(n: int, tokenize: object, max_length: int | None) -> None:
    whole("n", n, least=1)
    if not callable(tokenize):
        raise InputError(f"`tokenize` must be a callable from a text to its tokens; got {tokenize!r}.")
    if max_length is not None and whole("max_length", max_length, least=1) < n:
        raise InputError(
            f"`max_length` must be at least n = {n} tokens, else no text has any feature; got {max_length}."
        )


def _encoded(
    texts: list[str], n: int, tokenize: Callable[[str], Sequence[Hashable]], max_length: int | None
) -> _Encoded:
    number: dict[Hashable, int] = {}
    place: dict[bytes, int] = {}  # of each distinct sequence: equal texts must be at distance 0 exactly
    group, short = [], 0
    for text in texts:
        tokens = _tokens(tokenize, text)[:max_length]
        try:
            codes = np.array([number.setdefault(token, len(number)) for token in tokens], np.int32)
        except TypeError as error:
            raise InputError(f"`tokenize` must return hashable tokens; {error}.") from None
        group.append(place.setdefault(codes.tobytes(), len(place)))
        short += len(codes) < n
    if short > _MANY * len(texts):
        warnings.warn(
            f"{short} of {len(texts)} texts have fewer than n = {n} tokens, and are all alike to this kernel. "
            "Use longer texts or a smaller `n`.",
            EstimateWarning,
            stacklevel=3,
        )
    lengths = [len(codes) // np.dtype(np.int32).itemsize for codes in place]
    return _Encoded(
        np.frombuffer(b"".join(place), np.int32).copy(),  # the compiled code takes no read-only array
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.array(group, np.int64),
        len(number),
    )


def _tokens(tokenize: Callable[[str], Sequence[Hashable]], text: str) -> Sequence[Hashable]:
    found: Any = tokenize(text)
    if isinstance(found, np.ndarray) and found.ndim == 1:
        return found.tolist()  # type: ignore[no-any-return]
    # Not any iterable: the entries of a tensor, say, are hashable objects that are never equal.
    if not isinstance(found, Sequence):
        raise InputError(f"`tokenize` must return a list of tokens, or another sequence; got {type(found).__name__}.")
    return found


def _label(tokenize: object) -> str:
    name = getattr(tokenize, "name", None)
    if isinstance(name, str):
        return name
    named = tokenize if hasattr(tokenize, "__qualname__") else type(tokenize)
    module = getattr(named, "__module__", None)
    known = module in (None, "builtins") or str(module).startswith("mallow.")
    prefix = "" if known else f"{module}."
    return f"{prefix}{named.__qualname__}"


# --- N-grams


def _ngram_counts(encoded: _Encoded, n: int) -> Any:
    """A sparse matrix of ones (sequences, distinct N-grams)."""
    from scipy.sparse import csr_array

    code = encoded.tokens.astype(np.int64)
    for after in range(1, n):
        # Numbers below the count of tokens, so that no product overflows and no two N-grams share a number.
        code = np.unique(code[:-1] * encoded.vocabulary + encoded.tokens[after:], return_inverse=True)[1]
    lengths = np.maximum(np.diff(encoded.starts) - n + 1, 0)
    row = np.repeat(np.arange(len(lengths)), lengths)
    begin = np.concatenate([np.arange(a, a + k) for a, k in zip(encoded.starts[:-1], lengths, strict=True)])
    code = code[begin] if len(begin) else begin
    cells = np.unique(row * (code.max(initial=0) + 1) + code)  # each N-gram once a text
    row, column = np.divmod(cells, code.max(initial=0) + 1)
    return csr_array((np.ones(len(cells), np.int32), (row, column)), (len(lengths), code.max(initial=0) + 1))


def _jaccard(has: Any) -> Matrix:
    size = np.bincount(has.tocoo().coords[0], minlength=has.shape[0])
    transposed = has.T.tocsr()
    found = np.empty((len(size), len(size)))
    step = max(1, _ENTRIES // len(size))
    for start in range(0, len(size), step):
        rows = slice(start, start + step)
        common = (has[rows] @ transposed).toarray()
        union = size[rows, None] + size - common
        found[rows] = np.where(union == 0, 1.0, common / np.maximum(union, 1))
    return found


# --- subsequences


def _subsequence_products(encoded: _Encoded, n: int, decay: float) -> Matrix:
    """⟨φ, φ⟩ of all pairs of sequences, divided by decay^2N: adjacent tokens have weight 1, whatever the decay."""
    compiled = _compiled()
    count = len(encoded.starts) - 1
    longest = int(np.diff(encoded.starts).max())
    step = max(decay, _LEAST_DECAY)
    powers = np.power(step, np.arange(longest + 2))
    powers[powers < _NOTHING] = 0.0
    every = max(1, math.floor(100 * math.log(2) / -math.log(step)))  # rows in which decays span 2^100

    def row(first: int) -> Matrix:
        products = np.zeros(count - first)
        compiled(first, encoded.tokens, encoded.starts, encoded.vocabulary, powers, every, n, products)
        return products

    found = np.empty((count, count))
    for first, products in enumerate(ordered_map(row, range(count), cores())):
        found[first, first:] = found[first:, first] = products
    if not np.isfinite(found).all():
        raise InputError(
            f"`n` = {n} with decay {decay:g} makes similarities beyond all floating-point numbers for texts of {longest} "
            "tokens. Use a smaller `n`, `decay` or `max_length`."
        )
    return found


def _products_with(
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

    At a pair of equal tokens (i of y, j of x) level p is the sum of weights of the common subsequences of p tokens that
    end there. It is the sum of level p − 1 over all pairs above and to the left, each with decay^(gap in y + gap in x).
    A Fenwick tree over the places of x holds these sums, all levels side by side: node k has the places (k − lowbit(k),
    k], with decays relative to place k, and to row `base` of y. Measured for English texts of 256 tokens (660 equal
    pairs of 65,536): 15 times faster than the full table of all i and j, also compiled.
    """
    levels, length = n - 1, starts[first + 1] - starts[first]
    last = np.zeros(vocabulary, np.int64)  # place of each token in x, from 1; 0 is none
    before = np.zeros(length + 1, np.int64)  # the place of the same token before
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
            while j > 0:  # backwards: what is added at a place is not seen by the places before it
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
        compiled = numba.njit(_SIGNATURE, nogil=True, cache=True)(_products_with)
    except (RuntimeError, OSError):  # no folder for the cache can be written, or the disk is full
        compiled = numba.njit(_SIGNATURE, nogil=True)(_products_with)
    return compiled  # type: ignore[no-any-return]


def _to_cosines(products: Matrix) -> None:
    """Cosines from products, in place; zero vectors are alike, and unlike all others."""
    norm = np.sqrt(np.diagonal(products))
    empty = norm == 0
    norm[empty] = 1.0
    for row, own in zip(products, norm, strict=True):
        row /= own * norm
    np.minimum(products, 1.0, out=products)
    products[np.ix_(empty, empty)] = 1.0
    np.fill_diagonal(products, 1.0)


# --- views of the similarities


def _spread(found: Matrix, group: NDArray[np.int64]) -> Matrix:
    """The similarities of all texts from those of the distinct sequences."""
    if len(found) == len(group):  # numbered in order of appearance
        return found
    return found[np.ix_(group, group)]


def _distances(gram: Matrix) -> Matrix:
    own = np.diagonal(gram).copy()
    gram *= -2.0
    for row, other in zip(gram, own, strict=True):
        row += own + other
    np.maximum(gram, 0.0, out=gram)
    np.fill_diagonal(gram, 0.0)
    return np.sqrt(gram, out=gram)


def _points(gram: Matrix) -> Matrix:
    from scipy.linalg import eigh

    # Equal texts once, so that they get equal rows to the bit.
    same = _distances(gram.copy()) == 0
    distinct, group = np.unique(same.argmax(axis=1), return_inverse=True)
    with single_threaded_blas():
        # "evd" takes a fifth of the time of the default on 2,000 real texts, whose eigenvalues lie close together.
        values, vectors = eigh(gram[np.ix_(distinct, distinct)], overwrite_a=True, check_finite=False, driver="evd")
    kept = values > np.finfo(np.float64).eps * values[-1]  # the rounding of an entry
    kept[-1] = True  # all texts without features: one axis of zeros
    rows = vectors[:, kept][:, ::-1] * np.sqrt(np.maximum(values[kept][::-1], 0.0))
    return rows[group]  # type: ignore[no-any-return]
