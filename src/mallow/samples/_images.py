"""Image files, checked by name and header."""

from __future__ import annotations

import importlib
import importlib.util
import os
import warnings
from pathlib import Path

from mallow.errors import InputError
from mallow.samples._decode import decode_image

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
# Image formats that are not supported: in a folder of images they are bad entries, while other files are ignored.
OTHER_IMAGES = frozenset({".avif", ".heic", ".heif", ".jfif", ".jp2", ".jxl", ".pgm", ".ppm", ".svg", ".tga"})
_MORE_PIXELS = "if you trust the file, raise PIL.Image.MAX_IMAGE_PIXELS (--max pixels=…)"


def image_fault(entry: object, *, decode: bool) -> str | None:
    """What is wrong with an image as far as its name and header show, or None. The file is opened once.

    With `decode` it is opened again and all of its pixels are read as well: an image that is skipped must not end the work later.
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
            warnings.simplefilter("ignore")  # whatever is odd about an image that can be used
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
        known = isinstance(error, pillow.UnidentifiedImageError)
        return "cannot be opened as an image" + ("" if known else f": {error}")
    return None
