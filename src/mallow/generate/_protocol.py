"""The protocols of language models, for generating texts and for probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int64]
"""Token ids (b,), one per row of a batch."""
LogProbs = NDArray[np.floating[Any]]
"""Natural logarithms of next-token probabilities (b, vocabulary): each row sums to 1 after exp; −∞ is allowed."""


@runtime_checkable
class NextToken(Protocol):
    """A language model that returns the distribution of the next token for a batch of prefixes, with a state for reuse.

    The state belongs to the model: the caller passes it back and never uses its content. A row's probabilities do not
    depend on the other rows of its batch (up to 1e-4 for networks in float32).
    """

    @property
    def name(self) -> str:
        """The weights with their revision or digest, in one line: part of every signature and cache key."""
        ...

    @property
    def vocabulary(self) -> int:
        """Number of tokens. The ids begin at 0."""
        ...

    @property
    def end(self) -> frozenset[int]:
        """Tokens that end a text; may be empty."""
        ...

    @property
    def context(self) -> int | None:
        """The maximum number of tokens of a prefix with its continuation; None for no limit."""
        ...

    def encode(self, text: str, /) -> list[int]:
        """The tokens of a text, without the end of text."""
        ...

    def decode(self, tokens: Sequence[int], /) -> str:
        """The text of tokens; `decode(encode(text)) == text` if the tokenizer permits it."""
        ...

    def start(self, prefixes: Sequence[Sequence[int]], /) -> tuple[LogProbs, Any]:
        """Log-probabilities (b, vocabulary) after each prefix, and the state. A prefix has at least one token."""
        ...

    def step(self, state: Any, tokens: Tokens, /) -> tuple[LogProbs, Any]:
        """The same after one more token per row. The old state must not be used again."""
        ...

    def select(self, state: Any, rows: Tokens, /) -> Any:
        """The state of some rows, in this order, possibly repeated: for beams, and to drop texts that have ended."""
        ...


@runtime_checkable
class HiddenStates(NextToken, Protocol):
    """A language model that also shows its hidden states, which contrastive search needs."""

    def hidden(self, state: Any, /) -> Sequence[NDArray[np.floating[Any]]]:
        """For each row the last layer's vectors (t, d) of the t tokens that the last `start` or `step` read.

        After `start` these are all tokens of the prefix, without padding, and after `step` one token. `select` also
        applies to them.
        """
        ...


@runtime_checkable
class SequenceScores(Protocol):
    """An optional part of a `NextToken`: the scores of a whole text at once, much faster than token by token."""

    def log_prob(self, tokens: Sequence[int], prefix: Sequence[int] | None, /) -> Any:
        """Log-probability (t,) of each token after `prefix` and earlier tokens; None: at the beginning of a text."""
        ...
