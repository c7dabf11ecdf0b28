"""Image files: checked by name and header, and decoded to 8-bit RGB or to three floating-point bands in [0, 1]."""

from __future__ import annotations

import importlib
import importlib.util
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._optional import optional
from mallow.errors import InputError

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
# Image formats that are not supported: in a folder of images they are bad entries, and other files are ignored.
OTHER_IMAGES = frozenset({".avif", ".heic", ".heif", ".jfif", ".jp2", ".jxl", ".pgm", ".ppm", ".svg", ".tga"})
_MORE_PIXELS = "if you trust the file, raise `PIL.Image.MAX_IMAGE_PIXELS`"


def image_fault(entry: object, *, decode: bool) -> str | None:
    """The problem with an image by its name and header, or None. The file is opened once.

    With `decode` it is opened again and all of its pixels are read, so that a bad image cannot end the work later.
    """
    if not isinstance(entry, str | os.PathLike):
        return f"must be the path of an image; got {repr(entry)[:40]}"
    path = Path(entry)
    if path.suffix.lower() not in IMAGE_SUFFIXES:
        return f"images with the suffix {path.suffix!r} are not supported; convert it to png or jpg"
    if not os.path.isfile(path):
        return "no such file"
    if path.stat().st_size == 0:
        return "the file is empty, not an image"
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


def decode_image(image: object, *, label: str, plain: bool = False) -> list[Any]:
    """The image as a list of Pillow images: one in mode RGB, or three in mode F.

    Parameters
    ----------
    image : path, array or Pillow image
        What `Preprocess` accepts.
    label : str
        The name of the image in an error message.
    plain : bool
        Only convert to RGB with Pillow, as published tools do. Transparency and the orientation in EXIF are ignored.
        The result is in mode RGB; arrays must be uint8.
    """
    pillow = optional("PIL.Image", extra="images")
    try:
        if isinstance(image, (str, os.PathLike)):
            bands = _decode_file(pillow, image, plain=plain)
        elif isinstance(image, pillow.Image):
            bands = [image.convert("RGB")] if plain else _convert_pillow(pillow, image)
        elif plain:
            bands = [pillow.fromarray(_eight_bits(np.asarray(image))).convert("RGB")]
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
    """The reason why an image cannot be used. The message of the InputError puts the name of the image before it."""


def _reason(error: Exception) -> str:
    if type(error).__name__ == "UnidentifiedImageError":  # its message only repeats the path
        return "not an image format that Pillow knows"
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__


def _eight_bits(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype != np.uint8:
        raise _UnfitError(
            f"published tools take 8-bit images; got an array of dtype {array.dtype}. Pass uint8 or a file"
        )
    return array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array


def _decode_file(pillow: Any, path: str | os.PathLike[str], *, plain: bool) -> list[Any]:
    too_large = (
        f"it has more pixels than Pillow considers safe ({pillow.MAX_IMAGE_PIXELS}); if you trust the file, raise "
        "`PIL.Image.MAX_IMAGE_PIXELS`"
    )
    try:
        with pillow.open(path) as image:
            # Between its limit and twice its limit, Pillow only warns.
            if pillow.MAX_IMAGE_PIXELS is not None and image.width * image.height > pillow.MAX_IMAGE_PIXELS:
                raise _UnfitError(too_large)
            return [image.convert("RGB")] if plain else _convert_pillow(pillow, image)
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        raise _UnfitError(too_large) from error


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
