"""The N-gram kernel: texts are compared by the N-grams of tokens they share (paper: sec:string-kernel (a))."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mallow.embed._string_kernel import Matrix, Sequences, StringKernel, Tokenize, check_options, tokenizer_label
from mallow.models import words

_BLOCK = 1 << 20  # similarities computed at a time; chosen: 8 MB


@dataclass(frozen=True, repr=False)
class NGramKernel(StringKernel):
    """Jaccard similarity of the *sets* of token N-grams of two texts: |A ∩ B| / |A ∪ B| (paper: sec:string-kernel (a)).

    A text of fewer than N tokens has no N-gram. Two such texts have similarity 1, and such a text has similarity 0 with
    all others, which keeps the kernel positive definite: "nothing" counts as an N-gram of its own. There is a caveat if
    many texts are that short. How often an N-gram occurs, and where, does not matter.

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

    def __post_init__(self) -> None:
        check_options(self.n, self.tokenize, self.max_length)

    @property
    def name(self) -> str:
        """Everything that the similarities depend on, in one line."""
        return f"NGramKernel(n={self.n}, tokenize={tokenizer_label(self.tokenize)}, max_length={self.max_length})"

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
