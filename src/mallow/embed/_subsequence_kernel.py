"""The gapped subsequence kernel of texts (Lodhi et al. 2002)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mallow._checks import open_unit
from mallow._optional import optional
from mallow.embed._string_kernels import Matrix, Sequences, StringKernel, Tokenize, check_options, tokenizer_label
from mallow.engine import cores, ordered_map
from mallow.errors import InputError
from mallow.models import words

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
        check_options(self.n, self.tokenize, self.max_length)
        open_unit("decay", self.decay, why=" It is the weight of one more token in a gap.")
        if not isinstance(self.normalise, bool):
            raise InputError(f"`normalise` must be True or False; got {self.normalise!r}.")

    @property
    def name(self) -> str:
        """Everything that the similarities depend on, in one line."""
        return (
            f"SubsequenceKernel(n={self.n}, decay={float(self.decay)!r}, normalise={self.normalise}, "
            f"tokenize={tokenizer_label(self.tokenize)}, max_length={self.max_length})"
        )

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
