"""Regions of images as picture files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from mallow._checks import whole
from mallow._files import atomic_file
from mallow._optional import optional
from mallow.embed import Preprocess
from mallow.errors import InputError
from mallow.explain._region import Region

_CAPTION_HEIGHT = 16  # pixels; Pillow's built-in font is 11 high
_LEAST_WIDTH = 64  # pixels: the longest caption fits


def image_grid(region: Region, path: str | os.PathLike[str], *, size: int = 128) -> None:
    """Draw the examples of a region of images into a PNG file: the reference in the upper row, the model in the lower.

    Parameters
    ----------
    region : Region
        Of a diagnosis of images.
    path : path
        Ends in .png.
    size : int
        The side, in pixels, of the square that each image is fitted into; proportions are kept.
    """
    whole("size", size, least=8)
    target = Path(path)
    if target.suffix.lower() != ".png" or not target.parent.is_dir():
        raise InputError(f"`path` must name a .png file in an existing folder; got {os.fspath(path)!r}.")
    sides = (region.reference_examples, region.model_examples)
    rows = [[example.path for example in examples if example.path] for examples in sides]
    if not any(rows):
        raise InputError("`region` must have examples that are images; it has none. Diagnose images, with examples=3.")
    pillow, ops, draw = (optional(f"PIL.{name}", extra="images") for name in ("Image", "ImageOps", "ImageDraw"))
    decode = Preprocess(size=None, scale=(0, 255), layout="hwc")
    width = max(size * max(map(len, rows)), _LEAST_WIDTH)
    sheet = pillow.new("RGB", (width, 2 * (size + _CAPTION_HEIGHT)), "white")
    for row, (caption, files) in enumerate(zip(("reference", "model"), rows, strict=True)):
        top = row * (size + _CAPTION_HEIGHT)
        draw.Draw(sheet).text((2, top + 2), caption if files else f"{caption}: none", fill="black")
        for column, file in enumerate(files):
            pixels = np.rint(decode(file)).astype(np.uint8)
            fitted = ops.pad(pillow.fromarray(pixels), (size, size), color="white")
            sheet.paste(fitted, (column * size, top + _CAPTION_HEIGHT))
    try:
        with atomic_file(target) as stream:
            sheet.save(stream, "PNG")
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: cannot be written: {error.strerror or error}.") from error
