"""Texts of about the same length: how they are counted in tokens, cut at a token, and refused when they are too short."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mallow._checks import whole
from mallow.errors import InputError
from mallow.models import load_token_file


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
        return [end for _, end in load_token_file(self.tokenizer).encode(text).offsets]
