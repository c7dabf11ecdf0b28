"""A tokenizer from a tokenizer.json or a WordPiece vocabulary, and a quick way to cut very long texts."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

from mallow._optional import optional
from mallow.errors import InputError

_CHARACTERS_PER_TOKEN = 8  # chosen: more than texts have, so that the first part of a long text is nearly always enough
# Words at the end of a part that the cut may change; chosen: it may go through a special token, which is then read as
# marks and letters.
_UNCERTAIN_WORDS = 8
_RARE = "㐀 ꙮ"  # in hardly any vocabulary
_LARGEST = 100_000_000  # bytes of a vocabulary; chosen: the largest have a few million


def find_tokenizer_file(path: Path) -> Path:
    """The tokenizer.json or vocab.txt: the path itself, or a file in that folder."""
    if path.is_file():
        return path
    for name in ("tokenizer.json", "vocab.txt"):
        if (path / name).is_file():
            return path / name
    raise InputError(
        f"`tokenizer` must be a tokenizer.json, a vocab.txt, or a folder with one of them; there is none at {str(path)!r}."
    )


def load_tokenizer(path: Path, max_length: int) -> Any:
    """The tokenizer of a file, set to cut texts to `max_length` tokens and not to pad."""
    tokenizers = optional("tokenizers", extra="onnx")
    if path.suffix == ".json":
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises plain Exceptions
            raise InputError(f"`tokenizer` must be a tokenizer.json; {path} cannot be read: {error}.") from None
        try:
            tokenizer.encode(_RARE)
        except Exception as error:
            raise InputError(
                f"`tokenizer`: {path} must have a token for unknown text; {error}. The file may be damaged: download it again."
            ) from None
    else:
        tokenizer = _load_word_pieces(path)
    special = tokenizer.num_special_tokens_to_add(False)
    if max_length <= special:
        raise InputError(
            f"`max_length` must be larger than {special}, the number of special tokens in every text; got {max_length}."
        )
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length)
    return tokenizer


def _load_word_pieces(path: Path) -> Any:
    """BERT's tokenizer with the vocabulary of the file."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            raw = stream.read(_LARGEST + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"`tokenizer`: {path} cannot be read: {error}. Is it complete?") from error
    if len(raw) > _LARGEST:
        raise InputError(
            f"`tokenizer`: {path} must have at most {_LARGEST / 1e6:g} MB; vocabularies have less than one."
        )
    try:
        pieces = raw.decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        pieces = []
    vocabulary = {piece.rstrip("\r"): number for number, piece in enumerate(pieces)}
    missing = [mark for mark in ("[UNK]", "[CLS]", "[SEP]") if mark not in vocabulary]
    if missing:
        raise InputError(
            f"`tokenizer` must be a WordPiece vocabulary with one piece per line, or a tokenizer.json; {path} has no "
            f"{', '.join(missing)}."
        )
    implementations = optional("tokenizers.implementations", extra="onnx")
    has_capitals = any(piece != piece.lower() for piece in vocabulary if not piece.startswith("["))
    return implementations.BertWordPieceTokenizer(vocabulary, lowercase=not has_capitals)


def leading_part(tokenizer: Any, text: str, max_length: int) -> str:
    """The text; or, of a very long one, a first part with the same first `max_length` tokens, which is faster to tokenise.

    Tokens are made word by word, so the tokens of a first part are those of the text, except in its last few words, which
    the cut may have changed. A part with enough words beyond the tokens that are kept is therefore as good as the text. A
    tokenizer that does not report words needs the whole text.
    """
    size = _CHARACTERS_PER_TOKEN * max_length
    while size < len(text):
        encoding = tokenizer.encode(text[:size])
        if encoding.overflowing and _last_word(encoding) + _UNCERTAIN_WORDS < _last_word(encoding.overflowing[-1]):
            return text[:size]
        size *= 8
    return text


def _last_word(encoding: Any) -> int:
    return max((word for word in encoding.word_ids if word is not None), default=0)
