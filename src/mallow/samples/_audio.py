"""Recordings: .wav files of all usual encodings, read here, and .flac files through soundfile."""

from __future__ import annotations

import importlib.util
import os
import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mallow._optional import optional
from mallow.errors import InputError
from mallow.samples._limits import ALWAYS_ALLOWED, DEFAULT_LIMITS

AUDIO_SUFFIXES = frozenset({".wav", ".flac"})

_BLOCK = 1 << 20  # values of each channel that are read at a time
_UNKNOWN_LENGTH = 0x7FFF0000  # bytes; programs that write to a pipe state about 2³¹ or 2³²
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_WAY_OUT = "Open it in a player; if it is broken, save it again or leave it out."


class AudioHeader(NamedTuple):
    """The header of a recording."""

    rate: int  # values per second of each channel
    channels: int
    frames: int  # values of each channel

    @property
    def seconds(self) -> float:
        """The duration."""
        return self.frames / self.rate


class _WaveHeader(NamedTuple):
    header: AudioHeader
    code: int  # 1: integers, 3: floating point
    bits: int
    start: int  # of the values, in bytes


class _UnfitError(Exception):
    """The reason why a recording cannot be used."""


def decode_audio(path: str | os.PathLike[str]) -> tuple[NDArray[np.float32], int]:
    """The values of a recording (frames, channels) in [-1, 1], and the rate; or an InputError that names the file."""
    try:
        if Path(path).suffix.lower() == ".flac":
            values, rate = _decode_flac(path)
        else:
            values, rate = _decode_wave(path)
        if not len(values):
            raise _UnfitError("it has no values; leave it out")
        if not np.isfinite(values).all():
            raise _UnfitError("it contains values that are not finite")
        return values, int(rate)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # soundfile has its own error classes
        raise InputError(f"{os.fspath(path)}: the recording cannot be read: {_reason(error)}. {_WAY_OUT}") from error


def read_audio_header(path: str | os.PathLike[str]) -> AudioHeader:
    """Rate, channels and duration, without reading the values. An InputError if the header cannot be read."""
    try:
        if Path(path).suffix.lower() == ".flac":
            info = optional("soundfile", extra="audio").info(os.fspath(path))
            return AudioHeader(int(info.samplerate), int(info.channels), int(info.frames))
        with Path(path).open("rb") as stream:
            return _read_wave_header(stream).header
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{os.fspath(path)}: the recording cannot be read: {_reason(error)}. {_WAY_OUT}") from error


def audio_fault(entry: object, *, decode: bool) -> str | None:
    """The problem with a recording by its name and header, or None; with `decode`, all of it is read."""
    if not isinstance(entry, str | os.PathLike):
        return f"must be the path of a recording; got {repr(entry)[:40]}"
    path = Path(entry)
    if path.suffix.lower() not in AUDIO_SUFFIXES:
        return f"recordings with the suffix {path.suffix!r} are not supported; convert it to wav or flac"
    if not path.is_file():
        return "no such file"
    if path.stat().st_size == 0:
        return "the file is empty, not a recording"
    if path.suffix.lower() == ".flac" and importlib.util.find_spec("soundfile") is None:
        return None
    try:
        if read_audio_header(path).frames == 0:
            return "it has no values"
        if decode:
            decode_audio(path)
    except InputError as error:
        return str(error).removeprefix(f"{path}: ").removesuffix(_WAY_OUT).rstrip(". ")
    return None


def _reason(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _decode_flac(path: str | os.PathLike[str]) -> tuple[NDArray[np.float32], int]:
    """Block by block, since a header may promise any number of values, and a file of silence may hold very many."""
    soundfile = optional("soundfile", extra="audio")
    blocks: list[NDArray[np.float32]] = []
    allowed = max(ALWAYS_ALLOWED, DEFAULT_LIMITS.expansion * Path(path).stat().st_size)
    with soundfile.SoundFile(os.fspath(path)) as file:
        while len(block := file.read(_BLOCK, dtype="float32", always_2d=True)):
            blocks.append(block)
            if sum(values.nbytes for values in blocks) > allowed:
                raise _UnfitError(
                    f"it expands to more than {DEFAULT_LIMITS.expansion:g} times its size; if you trust it, save it as "
                    "wav"
                )
        values = np.concatenate(blocks) if blocks else np.zeros((0, file.channels), np.float32)
        if len(values) < file.frames < 1 << 62:  # the largest number means that the header does not give it
            raise _UnfitError(f"it is cut short: {len(values):,} of {file.frames:,} values are there")
        return values, file.samplerate


def _decode_wave(path: str | os.PathLike[str]) -> tuple[NDArray[np.float32], int]:
    with Path(path).open("rb") as stream:
        (header, code, bits, start) = _read_wave_header(stream)
        stream.seek(start)
        data = stream.read(header.frames * header.channels * bits // 8)
    if code == _FLOAT:
        values = np.frombuffer(data, f"<f{bits // 8}").astype(np.float32)
    elif bits == 8:  # the only unsigned values
        values = (np.frombuffer(data, np.uint8).astype(np.float32) - np.float32(128)) / np.float32(128)
    elif bits == 24:
        padded = np.zeros((len(data) // 3, 4), np.uint8)
        padded[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        values = padded.view("<i4")[:, 0].astype(np.float32) / np.float32(2**31)
    else:
        values = np.frombuffer(data, f"<i{bits // 8}").astype(np.float32) / np.float32(2.0 ** (bits - 1))
    return values.reshape(-1, header.channels), header.rate


def _read_wave_header(stream: BinaryIO) -> _WaveHeader:
    """The chunks of a RIFF file up to the values. A file with fewer of them than it promises is refused."""
    size = os.fstat(stream.fileno()).st_size
    start = stream.read(12)
    if len(start) < 12 or start[:4] != b"RIFF" or start[8:] != b"WAVE":
        raise _UnfitError("it does not begin like a wav file")
    encoding: tuple[int, int, int, int] | None = None
    while len(head := stream.read(8)) == 8:
        name, length = head[:4], struct.unpack("<I", head[4:])[0]
        if name == b"fmt ":
            encoding = _read_encoding(stream.read(length))
        elif name == b"data":
            if encoding is None:
                raise _UnfitError("its values come before their description")
            code, channels, rate, bits = encoding
            place = stream.tell()
            frame, rest = channels * bits // 8, size - place
            if rest < length < _UNKNOWN_LENGTH:
                raise _UnfitError(f"it is cut short: {rest // frame:,} of {length // frame:,} values are there")
            return _WaveHeader(AudioHeader(rate, channels, min(length, rest) // frame), code, bits, place)
        else:
            stream.seek(length, os.SEEK_CUR)
        if length % 2:
            stream.seek(1, os.SEEK_CUR)
    raise _UnfitError("it has no values")


def _read_encoding(chunk: bytes) -> tuple[int, int, int, int]:
    if len(chunk) < 16:
        raise _UnfitError("its header is cut short")
    code, channels, rate, _, _, bits = struct.unpack("<HHIIHH", chunk[:16])
    if code == _EXTENSIBLE and len(chunk) >= 26:
        code = struct.unpack("<H", chunk[24:26])[0]
    supported = {_PCM: (8, 16, 24, 32), _FLOAT: (32, 64)}
    if bits not in supported.get(code, ()):
        raise _UnfitError(f"encoding {code} with {bits} bits is not supported; save it with 16 bits")
    if not channels or not rate:
        raise _UnfitError(f"its header promises {channels} channels and {rate} values per second")
    return code, channels, rate, bits
