"""GGUF files: the two facts that are needed before transformers reads the whole file, or without it."""

from __future__ import annotations

import mmap
import struct
from typing import Any

from mallow._files import refuse_special
from mallow.errors import InputError

# Numbers of value types in the GGUF format.
_BOOL = 7
_STRING = 8


def gguf_architecture(path: str) -> str:
    """The key general.architecture of the header, such as "llama"; refuses a file that is not in GGUF format."""
    refuse_special(path)
    try:
        with open(path, "rb") as file:
            head = file.read(1 << 16)  # the architecture is among the first keys
    except OSError as error:
        raise InputError(
            f"`model`: {path} cannot be read: {error.strerror or error}. Check its permissions."
        ) from error
    if head[:4] != b"GGUF":
        raise InputError(f"`model` must be a GGUF file if its name ends in .gguf; {path} is not one.")
    return _value(head, b"general.architecture", kind=_STRING).decode(errors="replace")


def gguf_adds_bos(path: str) -> bool:
    """Whether the file states that texts begin with <bos>."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return _value(content, b"tokenizer.ggml.add_bos_token", kind=_BOOL) == b"\1"


def _value(content: Any, key: bytes, *, kind: int) -> bytes:
    """Value of a key: a string or one byte for a truth value; empty if the key is missing or has another type."""
    at = content.find(struct.pack("<Q", len(key)) + key, 0, 1 << 28)  # the metadata come before the weights
    if at < 0:
        return b""
    at += 8 + len(key)
    if bytes(content[at : at + 4]) != struct.pack("<I", kind):  # also where the file ends
        return b""
    if kind == _BOOL:
        return bytes(content[at + 4 : at + 5])
    size = int.from_bytes(content[at + 4 : at + 12], "little")
    return bytes(content[at + 12 : at + 12 + size])
