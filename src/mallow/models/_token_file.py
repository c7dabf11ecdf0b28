"""Tokens of a published vocabulary: a tokenizer.json, or GPT-2's vocab.json and merges.txt."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mallow._optional import optional
from mallow.errors import InputError


@dataclass(frozen=True)
class TokenFile:
    """Splits texts into the tokens of a file, such as GPT-2's: ``text_statistics(texts, tokenize=TokenFile("gpt2-bpe"))``.

    Attributes
    ----------
    path : str
        A tokenizer.json, or a folder that holds one, or GPT-2's vocab.json and merges.txt.
    """

    path: str

    @property
    def name(self) -> str:
        """How results name this tokenizer."""
        return f"tokens of {Path(self.path).expanduser().name}"

    def __call__(self, text: str) -> list[int]:
        """The token ids of a text, without special tokens."""
        ids: list[int] = load_token_file(self.path).encode(text, add_special_tokens=False).ids
        return ids


@functools.lru_cache(maxsize=4)
def load_token_file(path: str, *, extra: str = "human") -> Any:
    """The tokenizer of a file or folder, which neither cuts nor pads; see `TokenFile`."""
    tokenizers = optional("tokenizers", extra=extra)
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
