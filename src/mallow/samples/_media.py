"""Samples in separate files, images and recordings: found, checked by name and header, and decoded."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import struct
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from mallow._files import explained, files_below
from mallow._optional import optional
from mallow.errors import InputError
from mallow.samples._entries import Options, Skips
from mallow.samples._samples import Samples
from mallow.samples._value_checks import ALWAYS_ALLOWED, DEFAULT_LIMITS


class Medium(NamedTuple):
    """One kind of files."""

    field: str  # of Samples
    noun: str
    one: str
    suffixes: frozenset[str]
    others: frozenset[str]  # unsupported formats, which are bad entries in a folder of this kind
    usual: str
    content_fault: Callable[..., str | None]

    def fault(self, entry: object, *, decode: bool) -> str | None:
        """The problem with a file by its name and header, or None; with `decode`, all of it is read."""
        if not isinstance(entry, str | os.PathLike):
            return f"must be the path of {self.one}; got {repr(entry)[:40]}"
        path = Path(entry)
        if path.suffix.lower() not in self.suffixes:
            return f"{self.noun} with the suffix {path.suffix!r} are not supported; convert it to {self.usual}"
        if not path.is_file():
            return "no such file"
        if path.stat().st_size == 0:
            return f"the file is empty, not {self.one}"
        return self.content_fault(path, decode=decode)


def read_folder(folder: Path, name: str, options: Options) -> Samples:
    """The images or recordings in a folder and its subfolders, sorted by name; ids are the paths inside."""
    files = sorted((path.relative_to(folder).as_posix(), path) for path in files_below(folder))
    entries_of = {
        medium: [(id_, path) for id_, path in files if path.suffix.lower() in medium.suffixes | medium.others]
        for medium in _MEDIA
    }
    entries_of = {medium: entries for medium, entries in entries_of.items() if entries}
    if not entries_of:
        content = ", ".join(id_ for id_, _ in files[:3]) + (", …" if len(files) > 3 else "")
        kinds = " or ".join(f"{medium.noun} ({' '.join(sorted(medium.suffixes))})" for medium in _MEDIA)
        raise InputError(
            f"{name}: a folder must contain {kinds}, or texts (.txt, one text per file), but it contains "
            f"{content or 'no files'}. For other texts or features, pass the path of one file."
        )
    if len(entries_of) > 1:
        counts = " and ".join(f"{len(entries)} {medium.noun}" for medium, entries in entries_of.items())
        raise InputError(f"{name}: a folder must contain samples of one kind, but it contains {counts}. Separate them.")
    (medium, entries), *_ = entries_of.items()
    return _gather(entries, medium, name, options)


def read_media(files: Iterable[tuple[str, object]], name: str, options: Options) -> Samples:
    """The files at some paths, each with its id. The suffix of the first determines their kind."""
    entries = iter(files)
    first = next(entries, None)
    suffix = Path(cast("str", first[1])).suffix.lower() if first and isinstance(first[1], str | os.PathLike) else ""
    medium = next((kind for kind in _MEDIA if suffix in kind.suffixes | kind.others), _MEDIA[0])
    return _gather(entries if first is None else itertools.chain([first], entries), medium, name, options)


def _gather(files: Iterable[tuple[str, object]], medium: Medium, name: str, options: Options) -> Samples:
    skips = Skips(options)

    def usable() -> Iterator[tuple[str, Path]]:
        for id_, entry in files:
            if (fault := medium.fault(entry, decode=options.skip_bad)) is None:
                yield id_, Path(cast("str", entry))
            else:
                skips.add(str(entry), fault)

    chosen = list(itertools.islice(usable(), options.limit))
    if not chosen:
        raise skips.nothing_left(name)
    ids, paths = zip(*chosen, strict=True)
    return Samples.trusted(**{medium.field: paths}, ids=ids, source=name, skipped=tuple(skips))


IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"})


_MORE_PIXELS = "if you trust the file, raise `PIL.Image.MAX_IMAGE_PIXELS`"


def image_fault(path: Path, *, decode: bool) -> str | None:
    """The problem with an image by its header, or None. With `decode`, all of its pixels are read as well."""
    if importlib.util.find_spec("PIL") is None:
        return None
    pillow = importlib.import_module("PIL.Image")
    try:
        with warnings.catch_warnings():
            # An unusual image can be used. Only Pillow's warnings are ignored: filters belong to the whole process, and
            # a thread that overlaps may leave them in place.
            warnings.filterwarnings("ignore", module=r"PIL\b")
            with pillow.open(path) as image:
                pixels, most = image.width * image.height, pillow.MAX_IMAGE_PIXELS
            if most is not None and pixels > most:
                return f"the image has {pixels:,} pixels, more than the {most:,} that are allowed; {_MORE_PIXELS}"
            if decode:
                decode_image(path, label="image")
    except pillow.DecompressionBombError:
        return f"the image has far more pixels than the {pillow.MAX_IMAGE_PIXELS:,} that are allowed; {_MORE_PIXELS}"
    except InputError as error:  # of the decoder
        return str(error).removeprefix("image: ").rstrip(".")
    except Exception as error:  # a decoder may raise anything on a corrupt header
        unidentified = isinstance(error, pillow.UnidentifiedImageError)
        return "cannot be opened as an image" + ("" if unidentified else f": {error}")
    return None


def _decode_file(pillow: Any, path: str | os.PathLike[str], *, plain: bool) -> list[Any]:
    too_large = f"it has more pixels than Pillow considers safe ({pillow.MAX_IMAGE_PIXELS}); {_MORE_PIXELS}"
    try:
        with pillow.open(path) as image:
            # Between its limit and twice its limit, Pillow only warns.
            if pillow.MAX_IMAGE_PIXELS is not None and image.width * image.height > pillow.MAX_IMAGE_PIXELS:
                raise _UnfitError(too_large)
            return [image.convert("RGB")] if plain else _convert_pillow(pillow, image)
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        raise _UnfitError(too_large) from error


def decode_image(image: object, *, label: str, plain: bool = False) -> list[Any]:
    """The image, whatever `Preprocess` accepts, as a list of Pillow images: one in mode RGB, or three in mode F.

    `label` names it in error messages. With `plain` it is only converted to RGB by Pillow, as published tools do:
    transparency and the orientation in EXIF are ignored, and arrays must be uint8.
    """
    pillow = optional("PIL.Image", extra="images")
    try:
        if isinstance(image, (str, os.PathLike)):
            bands = _decode_file(pillow, image, plain=plain)
        elif isinstance(image, pillow.Image):
            bands = [image.convert("RGB")] if plain else _convert_pillow(pillow, image)
        elif plain:
            array = np.asarray(image)
            if array.dtype != np.uint8:
                raise _UnfitError(
                    f"published tools take 8-bit images; got an array of dtype {array.dtype}. Pass uint8 or a file"
                )
            grey = array.ndim == 3 and array.shape[2] == 1
            bands = [pillow.fromarray(array[:, :, 0] if grey else array).convert("RGB")]
        else:
            bands = _convert_array(pillow, np.asarray(image))
        if 0 in bands[0].size:
            raise _UnfitError("the image has no pixels; leave it out")
    except (InputError, MemoryError):
        raise
    except _UnfitError as error:
        raise InputError(f"{label}: {error}.") from error
    except Exception as error:  # decoders raise OSError, SyntaxError, EOFError, zlib.error, struct.error and others
        raise InputError(
            f"{label}: the image cannot be read ({_reason(error)}). Open it in a viewer; if it is broken, save it "
            "again or leave it out."
        ) from error
    return bands


class _UnfitError(Exception):
    """The reason why a file cannot be used. The message of the InputError puts its name before it."""


def _reason(error: Exception) -> str:
    if type(error).__name__ == "UnidentifiedImageError":  # its message only repeats the path
        return "not an image format that Pillow knows"
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__


def _convert_pillow(pillow: Any, image: Any) -> list[Any]:
    operations = optional("PIL.ImageOps", extra="images")
    image = operations.exif_transpose(image)
    if image.mode == "F":
        return _float_bands(pillow, np.asarray(image)[:, :, None])
    if image.mode == "I" or image.mode.startswith("I;16"):
        # Pillow's own conversion turns everything above 255 into white.
        values = np.asarray(image).astype(np.int64)
        if values.size and not 0 <= values.min() <= values.max() <= 65535:
            raise _UnfitError(
                f"integers must lie in 0 … 65535, but they lie in {values.min()} … {values.max()}. Pass an array in "
                "[0, 1]"
            )
        transparent = image.info.get("transparency")
        if isinstance(transparent, int):
            values[values == transparent] = 65535
        return _float_bands(pillow, (values / 65535)[:, :, None])
    if image.has_transparency_data:
        opaque = pillow.new("RGBA", image.size, "white")
        opaque.alpha_composite(image.convert("RGBA"))
        image = opaque
    return [image.convert("RGB")]


def _convert_array(pillow: Any, array: NDArray[Any]) -> list[Any]:
    if array.dtype.kind not in "bf" and array.dtype not in (np.uint8, np.uint16):
        raise _UnfitError(f"an array must be bool, uint8, uint16, or floating point in [0, 1]; got dtype {array.dtype}")
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 2, 3, 4) or array.size == 0:
        hint = "; move the channels to the last axis" if array.ndim == 3 and array.shape[0] in (1, 3, 4) else ""
        raise _UnfitError(
            f"an array must be (height, width) or (height, width, 1 to 4 channels); got shape {array.shape}{hint}"
        )
    if array.dtype == np.uint8:
        mode = ("L", "LA", "RGB", "RGBA")[array.shape[2] - 1]
        values = np.ascontiguousarray(array[:, :, 0] if mode == "L" else array)
        return _convert_pillow(pillow, pillow.frombytes(mode, values.shape[1::-1], values.tobytes()))
    if array.dtype == np.uint16:
        array = array / 65535
    return _float_bands(pillow, array)


def _float_bands(pillow: Any, values: NDArray[Any]) -> list[Any]:
    """Three images in mode F from (height, width, 1 to 4 channels) in [0, 1], on a white background."""
    values = values.astype(np.float32)
    if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1):
        raise _UnfitError(
            f"floating-point values must lie in [0, 1], but they lie in [{values.min():g}, {values.max():g}]. "
            "Rescale them"
        )
    if values.shape[2] in (2, 4):
        alpha = values[:, :, -1:]
        values = values[:, :, :-1] * alpha + (1 - alpha)
    values = np.broadcast_to(values, (*values.shape[:2], 3))
    return [pillow.fromarray(np.ascontiguousarray(values[:, :, band])) for band in range(3)]


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


def decode_audio(path: str | os.PathLike[str]) -> tuple[NDArray[np.float32], int]:
    """The values of a recording (frames, channels) in [-1, 1], and the rate; or an InputError that names the file."""
    with explained(os.fspath(path), "the recording cannot be read", _WAY_OUT):
        values, rate = (_decode_flac if Path(path).suffix.lower() == ".flac" else _decode_wave)(path)
        if not len(values):
            raise _UnfitError("it has no values; leave it out")
        if not np.isfinite(values).all():
            raise _UnfitError("it contains values that are not finite")
        return values, int(rate)


def read_audio_header(path: str | os.PathLike[str]) -> AudioHeader:
    """Rate, channels and duration, without reading the values. An InputError if the header cannot be read."""
    with explained(os.fspath(path), "the recording cannot be read", _WAY_OUT):
        if Path(path).suffix.lower() == ".flac":
            info = optional("soundfile", extra="audio").info(os.fspath(path))
            return AudioHeader(int(info.samplerate), int(info.channels), int(info.frames))
        with Path(path).open("rb") as stream:
            return _read_wave_header(stream).header


def audio_fault(path: Path, *, decode: bool) -> str | None:
    """The problem with a recording by its header, or None; with `decode`, all of it is read."""
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


_OTHER_IMAGES = frozenset({".avif", ".heic", ".heif", ".jfif", ".jp2", ".jxl", ".pgm", ".ppm", ".svg", ".tga"})
_OTHER_AUDIO = frozenset({".mp3", ".ogg", ".m4a", ".aac", ".opus", ".aiff"})
IMAGES = Medium("images", "images", "an image", IMAGE_SUFFIXES, _OTHER_IMAGES, "png or jpg", image_fault)
_MEDIA = (
    IMAGES,
    Medium("audio", "recordings", "a recording", AUDIO_SUFFIXES, _OTHER_AUDIO, "wav or flac", audio_fault),
)


MEDIA_SUFFIXES = IMAGE_SUFFIXES | AUDIO_SUFFIXES
