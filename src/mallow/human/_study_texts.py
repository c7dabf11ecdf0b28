"""Texts of about the same length: how they are counted in tokens, cut at a token, and refused when they are too short."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mallow._checks import whole
from mallow._optional import optional
from mallow.errors import InputError

__all__ = ["TextWindow"]


@dataclass(frozen=True)
class TextWindow:
    """How long continuations are: at least `least` tokens, and cut after `most`.

    Texts of equal length are compared fairly, and annotators do not read for longer than they can. Published: 200 to 256
    tokens of GPT-2 (paper: sec:a:human-eval:datasheet).

    Attributes
    ----------
    least, most : int
        `least` is at least 1.
    tokenizer : str
        "words" (what white space separates), or the path of a tokenizer.json, or of a folder that holds one, or GPT-2's
        vocab.json and merges.txt.

    Examples
    --------
    >>> TextWindow(2, 3).cut("one  two three four")
    ('one  two three', 3)
    >>> TextWindow(2, 3).cut("one") is None
    True
    """

    least: int = 200
    most: int = 256
    tokenizer: str = "words"

    def __post_init__(self) -> None:
        whole("least", self.least, least=1)
        whole("most", self.most, least=1)
        if self.most < self.least:
            raise InputError(f"`most` must be at least `least` = {self.least} tokens; got {self.most}.")

    def cut(self, text: str) -> tuple[str, int] | None:
        """The first `most` tokens of a text and how many they are; None if it has fewer than `least`."""
        ends = self._token_ends(text)
        if len(ends) < self.least:
            return None
        kept = min(len(ends), self.most)
        return (text if kept == len(ends) else text[: ends[kept - 1]]), kept

    def count(self, text: str) -> int:
        """The number of tokens of a text."""
        return len(self._token_ends(text))

    def _token_ends(self, text: str) -> list[int]:
        """Where each token ends, in characters."""
        if self.tokenizer == "words":
            return [word.end() for word in re.finditer(r"\S+", text)]
        # A character of several bytes may be split between tokens: then both end where it ends.
        return [end for _, end in _load(self.tokenizer).encode(text).offsets]


@functools.lru_cache(maxsize=4)
def _load(path: str) -> Any:
    tokenizers = optional("tokenizers", extra="human")
    place = Path(path).expanduser()
    file = place / "tokenizer.json" if place.is_dir() else place
    vocabulary, merges = place / "vocab.json", place / "merges.txt"
    try:
        if file.is_file():
            tokenizer = tokenizers.Tokenizer.from_file(str(file))
        elif vocabulary.is_file() and merges.is_file():
            tokenizer = tokenizers.ByteLevelBPETokenizer(str(vocabulary), str(merges))
        else:
            raise InputError(
                '`tokenizer` must be "words", a tokenizer.json, or a folder with one or with GPT-2\'s vocab.json and merges.txt; '
                f"there is none at {path!r}."
            )
    except InputError:
        raise
    except Exception as error:  # tokenizers raises plain Exceptions
        raise InputError(
            f"`tokenizer` must be a tokenizer.json or GPT-2's files; {path} cannot be read: {error}."
        ) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
