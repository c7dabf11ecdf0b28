"""Images: folders and lists of paths, checked by name and header."""

from __future__ import annotations

import importlib
import importlib.util
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

from mallow.errors import InputError
from mallow.samples._decode import decode_image
from mallow.samples._entries import Options, Skips
from mallow.samples._samples import Samples

__all__ = ["IMAGE_SUFFIXES", "image_fault", "read_folder", "read_images"]

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
# Image formats that are not supported: in a folder of images they are bad entries, while other files are ignored.
_OTHER_IMAGES = frozenset({".avif", ".heic", ".heif", ".jfif", ".jp2", ".jxl", ".pgm", ".ppm", ".svg", ".tga"})


_MORE_PIXELS = "if you trust the file, raise PIL.Image.MAX_IMAGE_PIXELS (--max pixels=…)"


def read_folder(folder: Path, name: str, options: Options) -> Samples:
    """The images in a folder and its subfolders, in the order of their names; the ids are the paths inside the folder."""
    files = sorted((path.relative_to(folder).as_posix(), path) for path in _walk(folder))
    images = [(id_, path) for id_, path in files if path.suffix.lower() in IMAGE_SUFFIXES | _OTHER_IMAGES]
    if not images:
        content = ", ".join(id_ for id_, _ in files[:3]) + (", …" if len(files) > 3 else "")
        raise InputError(
            f"{name}: a folder must contain images ({' '.join(sorted(IMAGE_SUFFIXES))}); "
            f"it contains {content or 'no files'}. For texts or features, pass the path of one file."
        )
    return read_images(images, name, options)


def _walk(folder: Path) -> Iterator[Path]:
    """All files that are not hidden; links are followed, but each folder is visited once."""

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: the folder cannot be read: {error.strerror}. Check its permissions.")

    visited = set()
    for here, folders, files in os.walk(folder, followlinks=True, onerror=refuse):
        real = os.path.realpath(here)
        folders[:] = [] if real in visited else sorted(name for name in folders if not name.startswith("."))
        if real not in visited:
            visited.add(real)
            yield from (Path(here, file) for file in files if not file.startswith("."))


def read_images(images: Iterable[tuple[str, object]], name: str, options: Options) -> Samples:
    """The images at some paths; each comes with its id."""
    ids: list[str] = []
    paths: list[Path] = []
    skips = Skips(options)
    for id_, entry in images:
        fault = image_fault(entry, decode=options.skip_bad)
        if fault is not None:
            skips.add(str(entry), fault)
            continue
        ids.append(id_)
        paths.append(Path(cast("str", entry)))
        if len(paths) == options.limit:
            break
    if not paths:
        raise skips.nothing_left(name)
    return Samples.trusted(images=tuple(paths), ids=tuple(ids), source=name, skipped=tuple(skips))


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
