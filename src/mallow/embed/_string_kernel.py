"""What the string kernels share: texts become token sequences, similarities become distances and points.

A kernel compares pairs of texts (paper: sec:string-kernel), so the features of one text depend on the other texts: a
kernel is not an `Embedder`. It offers three views of the texts of *both* samples: similarities (`gram`), the matrix of
distances that `Neighbors.from_distances` and `KernelDensity.from_distances` take, and `points`, features whose Euclidean
distances are those of the kernel, for any other estimator. Time and memory grow with the square of the number of texts:
each matrix takes 32 MB for 2,000 texts and 3.2 GB for 20,000.

Known failure: the paper finds that these kernels see the trends of model size, decoding and length "only weakly and
unreliably" (table:non-deep). They are baselines to beat, not a substitute for learned features.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.embed._protocol import checked_texts
from mallow.engine import single_threaded_blas
from mallow.errors import Caveat, InputError, warn_about

Matrix = NDArray[np.float64]
Tokenize = Callable[[str], Sequence[Hashable]]

_MANY_SHORT = 0.05  # chosen: the share of texts too short for the kernel above which there is a caveat


class StringKernel:
    """The methods that both kernels share; each of them only computes similarities of token sequences."""

    n: int
    tokenize: Tokenize
    max_length: int | None

    kind: ClassVar[Literal["text"]] = "text"

    if TYPE_CHECKING:  # each kernel has its own

        @property
        def name(self) -> str: ...

        def _similarities(self, sequences: Sequences) -> Matrix: ...

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
        """The distances √(κ(x, x) + κ(y, y) − 2κ(x, y)) between all texts (n + m, n + m), those of the reference first.

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
    """The distinct token sequences of some texts, one after the other, and which of them each text is."""

    tokens: NDArray[np.int32]  # all sequences, joined
    starts: NDArray[np.int64]  # where each sequence starts, and the end of the last
    group: NDArray[np.int64]  # (texts,)
    vocabulary: int

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each sequence."""
        return np.diff(self.starts)


def check_options(n: int, tokenize: object, max_length: int | None) -> None:
    """Refuse options that no kernel can use."""
    whole("n", n, least=1)
    if not callable(tokenize):
        raise InputError(f"`tokenize` must be a callable from a text to its tokens; got {tokenize!r}.")
    if max_length is not None and whole("max_length", max_length, least=1) < n:
        raise InputError(
            f"`max_length` must be at least n = {n} tokens, otherwise no text has any feature; got {max_length}."
        )


def tokenizer_label(tokenize: object) -> str:
    """The name of a tokenizer in the name of a kernel: its own `name`, or else where it is imported from."""
    name = getattr(tokenize, "name", None)
    if isinstance(name, str):
        return name
    source: Any = tokenize if hasattr(tokenize, "__qualname__") else type(tokenize)
    module = getattr(source, "__module__", None)
    well_known = module in (None, "builtins") or str(module).startswith("mallow.")
    return f"{'' if well_known else f'{module}.'}{source.__qualname__}"


# --- texts to numbers


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
        f"{sum(short)} of {len(short)} texts have fewer than n = {n} tokens, and this kernel cannot tell them apart. "
        "Use longer texts or a smaller `n`."
    )
    return (Caveat("short texts", message, values={"short": sum(short), "texts": len(short), "n": n}),)


# --- views of the similarities


def _to_distances(gram: Matrix) -> Matrix:
    """Distances from similarities, in place."""
    own = np.diagonal(gram).copy()
    gram *= -2.0
    for row, other in zip(gram, own, strict=True):
        row += own + other
    np.maximum(gram, 0.0, out=gram)
    np.fill_diagonal(gram, 0.0)
    return np.sqrt(gram, out=gram)


def _to_points(gram: Matrix) -> Matrix:
    from scipy.linalg import eigh

    # Equal texts only once, so that they get exactly equal rows.
    same = _to_distances(gram.copy()) == 0
    distinct, group = np.unique(same.argmax(axis=1), return_inverse=True)
    with single_threaded_blas():
        # "evd" takes a fifth of the time of the default on 2,000 real texts, whose eigenvalues lie close together.
        values, vectors = eigh(gram[np.ix_(distinct, distinct)], overwrite_a=True, check_finite=False, driver="evd")
    kept = values > np.finfo(np.float64).eps * values[-1]  # below is the rounding of an entry
    kept[-1] = True  # if no text has features: one axis of zeros
    rows = vectors[:, kept][:, ::-1] * np.sqrt(np.maximum(values[kept][::-1], 0.0))
    return rows[group]  # type: ignore[no-any-return]
