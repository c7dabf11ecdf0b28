"""The protocol of embedders, and the code that they share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mallow.errors import InputError

Points = NDArray[Any]
"""Features (n, d), one row per sample."""

Rows = tuple[NDArray[np.int64], Points]
"""Places among the samples, and their features."""


@runtime_checkable
class Embedder(Protocol):
    """Turns samples into features: any callable with a name.

    The name is part of the signature of every score and of the key of the cache. It must include everything that the
    features depend on: weights with their revision, pooling, length, precision. A plain function has no such name.
    It works, but is not cached. An embedder may also offer ``caveats(samples)``, which returns a tuple of `Caveat`
    about these samples, and ``stream(samples)``, which yields places among the samples, each of them once, with their
    features as they are ready, in any order, so that little is lost when it is stopped. The attribute
    ``cached = False`` marks an embedder that is faster than a cache, and ``published = False`` one whose features are
    for evidence only, without a published score.
    """

    @property
    def name(self) -> str:
        """Everything that the features depend on, in one line."""
        ...

    def __call__(self, samples: Sequence[Any], /) -> Points:
        """The features (n, d) of the samples, in their order."""
        ...


@runtime_checkable
class JointEmbedder(Protocol):
    """Embeds all samples together, since their features depend on one another: a string kernel."""

    @property
    def name(self) -> str:
        """Everything that the features depend on, in one line."""
        ...

    def points(self, samples: Sequence[Any], /) -> Points:
        """The features (n, d) of all samples."""
        ...


AnyEmbedder = Embedder | JointEmbedder | Callable[[Any], Any]
"""What may be passed as an embedder, with or without a name."""


class StreamsFeatures:
    """Lets an embedder be called, by way of its `stream`."""

    if TYPE_CHECKING:  # each embedder has its own

        def stream(self, samples: Sequence[Any], /) -> Iterator[Rows]: ...

    def __call__(self, samples: Sequence[Any], /) -> Points:
        """The features (n, d) of the samples, in their order."""
        return collected(self.stream(samples), len(samples))


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a file. An InputError that names it if it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}.") from error


def in_parts(rows: Iterable[Points], size: int) -> Iterator[Rows]:
    """Single rows grouped into the parts that `stream` yields: places and features of this many samples each."""
    waiting, start = iter(rows), 0
    while part := list(islice(waiting, size)):
        yield np.arange(start, start + len(part)), np.stack(part)
        start += len(part)


def collected(parts: Iterable[Rows], n: int) -> Points:
    """The features of all n samples, from the parts that `stream` yields."""
    points: Points | None = None
    missing = n
    for places, rows in parts:
        if points is None:
            points = np.empty((n, rows.shape[1]), rows.dtype)
        points[places] = rows
        missing -= len(places)
    if points is None or missing:
        raise InputError(f"The embedder must return features for all {n} samples; {missing} are missing.")
    return points


def checked_texts(samples: Sequence[str], name: str = "samples") -> list[str]:
    """The samples as a list, if all of them are texts. An empty string is a text."""
    if isinstance(samples, (str, bytes)):
        raise InputError(
            f"`{name}` must be a list of texts; got a single {type(samples).__name__}. Put it into a list."
        )
    texts = list(samples)
    if not texts:
        raise InputError(f"`{name}` must hold at least one text; got none.")
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"`{name}` must hold texts (str); got {repr(text)[:40]} ({type(text).__name__}) at place {place}."
            )
        try:
            text.isascii() or text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"`{name}` must hold valid Unicode; got {text[error.start]!a}, half of a pair, at place {place}, "
                f"character {error.start}. Decode the file with errors='replace'."
            ) from None
    return texts
