"""What a language model is, to whoever generates with it or asks it for probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["LogProbs", "NextToken", "Tokens"]

Tokens = NDArray[np.int64]
"""Token ids (b,), one for each row of a batch."""
LogProbs = NDArray[np.floating[Any]]
"""Natural logarithms of next-token probabilities (b, vocabulary): each row sums to 1 after exp; −∞ is allowed."""


@runtime_checkable
class NextToken(Protocol):
    """A language model that gives the distribution of the next token for a batch of prefixes, with a state for reuse.

    The state belongs to the model: whoever generates passes it back and never looks inside. A row's probabilities do not
    depend on the other rows of its batch (to 1e-4 for networks in float32).
    """

    @property
    def name(self) -> str:
        """Weights with their revision or content, in one line: part of every signature and cache key."""
        ...

    @property
    def vocabulary(self) -> int:
        """Number of tokens; ids run from 0."""
        ...

    @property
    def end(self) -> frozenset[int]:
        """Tokens that end a text; may be empty."""
        ...

    @property
    def context(self) -> int | None:
        """The most tokens that a prefix and its continuation may have together; None: any number."""
        ...

    def encode(self, text: str, /) -> list[int]:
        """The tokens of a text, without end of text."""
        ...

    def decode(self, tokens: Sequence[int], /) -> str:
        """The text of tokens; `decode(encode(text)) == text` where the tokenizer allows."""
        ...

    def start(self, prefixes: Sequence[Sequence[int]], /) -> tuple[LogProbs, Any]:
        """Log-probabilities (b, vocabulary) of the token after each prefix, which has at least one token, and the state."""
        ...

    def step(self, state: Any, tokens: Tokens, /) -> tuple[LogProbs, Any]:
        """The same after one more token of each row. The old state must not be used again."""
        ...

    def select(self, state: Any, rows: Tokens, /) -> Any:
        """The state of some rows, in that order, possibly repeated: for beams, and to drop rows that have ended."""
        ...
