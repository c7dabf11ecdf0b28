"""What is done to an image before a network sees it: resize, crop, scale."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow._optional import optional
from mallow.errors import InputError
from mallow.models import one_of
from mallow.samples import decode_image

Image = NDArray[np.float32]
"""One image as a network takes it: (channels, height, width), or (height, width, channels)."""

Resample = Literal["bicubic", "bilinear", "lanczos"]
Channels = Literal["rgb", "bgr", "grey"]
Layout = Literal["chw", "hwc"]

_MOST_PIXELS = 2**27  # after the resize; chosen: a strip of 1×60000 pixels must not become an image of 12 GB


@dataclass(frozen=True)
class Preprocess:
    """What is done to an image before a network sees it; its repr is part of the name of the embedder.

    The steps, in this order:

    1. The file is decoded and rotated according to its EXIF orientation; of an animation, the first frame is used.
    2. Everything is converted to RGB. Images with transparency (RGBA, LA, a palette or greyscale with a transparent
       colour) are placed on white. CMYK is converted without a colour profile. 16-bit greyscale (modes I;16 and I) is
       divided by 65535; floating-point images and arrays must lie in [0, 1]. Neither is reduced to 8 bits.
    3. The image is resized with Pillow, which antialiases when it shrinks an image: the filter grows with the factor.
       8-bit images stay 8-bit through the resize, as in most reference pipelines. A pipeline in floating point differs
       by less than half a grey level on average over a photograph, and by more at single sharp edges. Values that the
       filter pushes beyond black or white are clipped.
    4. The centre is cropped; where the margin is odd, the extra row or column is cut at the bottom or on the right.
    5. Values are mapped from [0, 1] to `scale`, then `mean` is subtracted and the result divided by `std`, per channel.

    Parameters
    ----------
    size : int, (height, width) or None
        An integer is the length of the shorter side; proportions are kept. A pair is the size itself; proportions are
        lost. None keeps the size of every image; all must then have the same size, unless `crop` sets it.
    crop : int, (height, width) or None
        The size of the centre that is kept; an integer means a square. None keeps everything, or, when `size` is an
        integer, the central square of that size, because all images of a batch must have one size.
    resample : "bicubic", "bilinear" or "lanczos"
        Filter of the resize.
    scale : (low, high)
        The values of black and white.
    mean, std : one number per channel, or None
        In the units of `scale`, in the order of `channels`.
    channels : "rgb", "bgr" or "grey"
        Grey has one channel, the luma of ITU-R 601: 0.299 R + 0.587 G + 0.114 B.
    layout : "chw" or "hwc"
        Channels first, as in torch, or last.

    Examples
    --------
    >>> Preprocess(size=(299, 299), resample="bicubic", scale=(-1, 1))
    Preprocess(size=(299, 299), crop=None, resample='bicubic', scale=(-1.0, 1.0), mean=None, std=None,
    channels='rgb', layout='chw')
    """

    size: int | tuple[int, int] | None = 224
    crop: int | tuple[int, int] | None = None
    resample: Resample = "bicubic"
    scale: tuple[float, float] = (0.0, 1.0)
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    channels: Channels = "rgb"
    layout: Layout = "chw"

    def __post_init__(self) -> None:
        for name, allowed in (("resample", Resample), ("channels", Channels), ("layout", Layout)):
            one_of(name, getattr(self, name), get_args(allowed))
        # Equal options must have equal reprs: lists become tuples, whole numbers floats.
        for name in ("size", "crop"):
            object.__setattr__(self, name, _checked_size(name, getattr(self, name)))
        for name, length in (("scale", 2), ("mean", self.depth), ("std", self.depth)):
            object.__setattr__(self, name, _checked_numbers(name, getattr(self, name), length))
        if self.scale is None or not self.scale[0] < self.scale[1]:
            raise InputError(f"`scale` must be the values of black and white, the lower first; got {self.scale!r}.")
        if self.std is not None and min(self.std) <= 0:
            raise InputError(f"`std` must be above 0 in every channel; got {self.std!r}.")
        if self.size is not None and self.crop is not None:
            height, width = _pair(self.size)
            if _pair(self.crop)[0] > height or _pair(self.crop)[1] > width:
                raise InputError(f"`crop` must fit into `size` = {self.size}; got {self.crop}. Increase `size`.")

    @property
    def depth(self) -> int:
        """Number of channels."""
        return 1 if self.channels == "grey" else 3

    def __call__(self, image: object, *, label: str = "the image") -> Image:
        """The image as a float32 array (channels, height, width), or with the channels last.

        Parameters
        ----------
        image : path, array or Pillow image
            An array is (height, width) or (height, width, channels) with 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGBA)
            channels: bool, uint8, uint16, or floating point in [0, 1].
        label : str
            What to call the image in an error message; a file is called by its path.
        """
        if isinstance(image, (str, os.PathLike)):
            path = os.fspath(image)
            label = path if isinstance(path, str) else label
        pixels = self._resized(decode_image(image, label=label), label)
        low, high = self.scale
        pixels *= np.float32(high - low)
        pixels += np.float32(low)
        if self.channels == "bgr":
            pixels = pixels[:, :, ::-1]
        if self.mean is not None:
            pixels -= np.asarray(self.mean, np.float32)
        if self.std is not None:
            pixels /= np.asarray(self.std, np.float32)
        return np.ascontiguousarray(pixels.transpose(2, 0, 1) if self.layout == "chw" else pixels)

    def _resized(self, bands: list[Any], label: str) -> NDArray[np.float32]:
        """Resized and cropped values in [0, 1], (height, width, channels), from what `decode_image` returns."""
        pillow = optional("PIL.Image", extra="images")
        width, height = bands[0].size
        height, width = self._resized_size(height, width, label)
        method = getattr(pillow.Resampling, self.resample.upper())
        # An image that has its size already is left alone: every filter would return the same values.
        bands = [band if band.size == (width, height) else band.resize((width, height), method) for band in bands]
        crop = self.crop if self.crop is not None else self.size
        rows, columns = (height, width) if crop is None else _pair(crop)
        if rows > height or columns > width:
            raise InputError(
                f"{label}: the image must be at least as large as `crop` = {self.crop}; it is {height}×{width}. "
                "Set `size` as well: smaller images are then enlarged."
            )
        top, left = (height - rows) // 2, (width - columns) // 2
        bands = [band.crop((left, top, left + columns, top + rows)) for band in bands]
        if bands[0].mode == "F":
            pixels = np.stack([np.asarray(band, np.float32) for band in bands], axis=2).clip(0, 1)
        else:
            pixels = np.asarray(bands[0], np.float32) / np.float32(255)
        if self.channels == "grey":
            pixels = (pixels @ np.array([0.299, 0.587, 0.114], np.float32))[:, :, None]
        return np.asarray(pixels, np.float32)

    def _resized_size(self, height: int, width: int, label: str) -> tuple[int, int]:
        """Height and width after the resize of an image of this height and width."""
        if self.size is None:
            return height, width
        if isinstance(self.size, tuple):
            return self.size
        # The longer side is rounded down, as in transformers and torchvision.
        shorter = min(height, width)
        height, width = self.size * height // shorter, self.size * width // shorter
        if height * width > _MOST_PIXELS:
            raise InputError(
                f"{label}: with the shorter side at `size` = {self.size}, the image would be {height}×{width}. "
                "Pass `size` as (height, width), or leave the image out."
            )
        return height, width


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


def _checked_size(name: str, size: Any) -> int | tuple[int, int] | None:
    if size is None:
        return None
    if isinstance(size, (tuple, list)):
        if len(size) != 2:
            raise InputError(f"`{name}` must be an integer, (height, width) or None; got {size!r}.")
        return whole(name, size[0], least=1), whole(name, size[1], least=1)
    return whole(name, size, least=1)


def _checked_numbers(name: str, values: Any, length: int) -> tuple[float, ...] | None:
    if values is None:
        return None
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != length or not np.isfinite(numbers).all():
        raise InputError(f"`{name}` must hold {length} finite numbers; got {values!r}.")
    return numbers
