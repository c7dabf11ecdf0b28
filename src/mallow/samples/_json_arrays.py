"""Files that are one JSON array: its entries, one at a time, without the whole file in memory."""

from __future__ import annotations

import codecs
import json
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from mallow.errors import InputError
from mallow.samples._entries import BadEntryError, Options, Row, message_of
from mallow.samples._limits import depth_fault

_CHUNK = 1 << 16  # bytes
_SPACE = " \t\n\r"
_MARK = b"\xef\xbb\xbf"


def begins_with(stream: BinaryIO, name: str) -> str:
    """The first character of a stream that can `peek` which is not white space, as far as it can be seen; "" for none."""
    try:
        head: bytes = stream.peek(256)[:256]  # type: ignore[attr-defined]
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{name}: cannot be read to the end: {message_of(error)}. Is the file complete?") from error
    return head.removeprefix(_MARK).lstrip()[:1].decode("latin-1")


def array_rows(stream: BinaryIO, name: str, options: Options) -> Iterator[Row]:
    """The entries of a JSON array, numbered from 0.

    An entry that cannot be parsed ends the reading, since nobody can tell where the next one begins.
    """
    text = _Buffer(stream, name)
    if text.next_sign() != "[":
        raise InputError(
            f'{name}: must be a JSON array, such as [{{"text": "…"}}, …]; it begins with {text.next_sign() or "nothing"!r}. '
            "If it contains one JSON object per line, rename it to .jsonl."
        )
    text.skip()
    decoder, place = json.JSONDecoder(), 0
    if text.next_sign() == "]":
        text.skip()
    else:
        while True:
            yield place, _next_entry(text, decoder, f"{name}[{place}]", options)
            place += 1
            sign = text.next_sign()
            text.skip()
            if sign == "]":
                break
            if sign != ",":
                raise InputError(
                    f"{name}[{place - 1}]: a comma or ] must follow; got {sign or 'the end of the file'!r}. Is the file complete?"
                )
    if text.next_sign():
        raise InputError(f"{name}: must be one JSON array; something follows after its end.")


class _Buffer:
    """The part of a file that is not used up yet, decoded."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream, self._name, self._decoder = stream, name, codecs.getincrementaldecoder("utf-8-sig")()
        self.text, self.start, self.ended = "", 0, False

    def more(self, count: int = 0) -> None:
        """Read on, at least `count` bytes; `ended` says that there is no more."""
        try:
            data = self._stream.read(max(_CHUNK, count))
            self.text = self.text[self.start :] + self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise InputError(
                f"{self._name}: not UTF-8: {error.reason}. Re-encode it, for example with iconv."
            ) from error
        except (EOFError, OSError, zlib.error) as error:
            raise InputError(
                f"{self._name}: cannot be read to the end: {message_of(error)}. Is the file complete?"
            ) from error
        self.start, self.ended = 0, not data

    def next_sign(self) -> str:
        """The next character that is not white space; "" at the end."""
        while True:
            while self.start < len(self.text) and self.text[self.start] in _SPACE:
                self.start += 1
            if self.start < len(self.text):
                return self.text[self.start]
            if self.ended:
                return ""
            self.more()

    def skip(self) -> None:
        """Use up one character."""
        self.start += 1


def _may_go_on(value: object, rest: str) -> bool:
    """Whether a value may be the beginning of a longer number, with so much of what follows."""
    return not rest or (isinstance(value, int | float) and len(rest) < 3 and set(rest) <= set(".eE+-"))


def _next_entry(text: _Buffer, decoder: json.JSONDecoder, place: str, options: Options) -> object:
    """The next value, or a BadEntryError for one that is nested too deeply; reads on until the value is complete."""
    text.next_sign()
    while True:
        try:
            value, end = decoder.raw_decode(text.text, text.start)
            if text.ended or not _may_go_on(value, text.text[end : end + 3]):
                break
        except json.JSONDecodeError as error:
            if text.ended or (error.pos < len(text.text) - 32 and error.msg.startswith("Expecting")):
                raise InputError(f"{place}: invalid JSON: {error.msg}. Fix it; what follows cannot be read.") from error
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{place}: invalid JSON: {message_of(error)}. Fix it; what follows cannot be read."
            ) from error
        size = len(text.text) - text.start
        if size > options.limits.line_bytes:
            raise InputError(
                f"{place}: the entry is longer than {options.limits.line_mb:g} MB. Allow longer ones with "
                "limits=Limits(line_mb=…) (--max line-mb=…)."
            )
        text.more(size)
    raw, text.start = text.text[text.start : end], end
    fault = depth_fault(raw, options.limits)
    return value if fault is None else BadEntryError(fault)
