"""Images in, arrays out: what a file or an array becomes before a network sees it, and how many go through at a time.

The models themselves are in `mallow.embed._vision`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow._optional import optional
from mallow.embed._protocol import Points, Rows
from mallow.engine import cores, ordered_map
from mallow.errors import InputError
from mallow.models import ran_out_of_memory

__all__ = ["Image", "Network", "Preprocess", "checked_images", "grown_batches", "image_rows"]

Image = NDArray[np.float32]
"""One image as a network wants it: (channels, height, width), or (height, width, channels)."""

Network = Callable[[NDArray[np.float32]], Points]
"""Features (b, d) of b images."""

Resample = Literal["bicubic", "bilinear", "lanczos"]
Channels = Literal["rgb", "bgr", "grey"]
Layout = Literal["chw", "hwc"]

_THREADS = 8  # decoding is soon faster than any network; more threads only hold more images in memory
_LARGEST = 2**27  # pixels after the resize: a strip of 1×60000 must not become 12 GB
_FIRST = 8  # images in the first batch: small enough to run wherever the weights fit


@dataclass(frozen=True)
class Preprocess:
    """What is done to an image before a network sees it; its repr is part of the name of the embedder.

    In this order:

    1. The file is decoded and turned as its EXIF orientation says; of an animation, the first frame is taken.
    2. Everything becomes RGB. Whatever has transparency (RGBA, LA, a palette or a grey with a transparent colour) is laid
       on white. CMYK is converted without a colour profile. 16-bit greyscale (modes I;16 and I) is divided by 65535,
       floating-point images and arrays must lie in [0, 1]; neither is cut to 8 bits.
    3. The image is resized with Pillow, which is antialiased when it shrinks: the filter grows with the factor. 8-bit
       images stay 8-bit through the resize, as in most reference pipelines; a float pipeline differs by less than half a
       grey level on a photograph's average, and by more at single sharp edges. What a filter overshoots is cut.
    4. The centre is cropped; an odd margin leaves the extra row or column at the bottom and the right.
    5. Values go from [0, 1] to `scale`, then `mean` is subtracted and the result divided by `std`, per channel.

    Parameters
    ----------
    size : int, (height, width) or None
        An integer is the length of the shorter side, with the proportions kept. A pair is the size itself: proportions
        are lost. None leaves images as they are; they must then all have the same size, or `crop` must give it.
    crop : int, (height, width) or None
        The centre that is kept; an integer is a square. None keeps everything, or, when `size` is an integer, the central
        square of that size: a batch needs images of one size.
    resample : "bicubic", "bilinear" or "lanczos"
        Filter of the resize.
    scale : (low, high)
        What black and white become.
    mean, std : one number a channel, or None
        In the unit of `scale`, in the order of `channels`.
    channels : "rgb", "bgr" or "grey"
        Grey has one channel, the luma of ITU-R 601: 0.299 R + 0.587 G + 0.114 B.
    layout : "chw" or "hwc"
        Channels first, as torch has it, or last.

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
            if getattr(self, name) not in get_args(allowed):
                choices = ", ".join(map(repr, get_args(allowed)))
                raise InputError(f"`{name}` must be one of {choices}; got {getattr(self, name)!r}.")
        # Equal options must have equal reprs: lists become tuples, whole numbers floats.
        for name in ("size", "crop"):
            object.__setattr__(self, name, _checked_size(name, getattr(self, name)))
        for name, length in (("scale", 2), ("mean", self.depth), ("std", self.depth)):
            object.__setattr__(self, name, _checked_numbers(name, getattr(self, name), length))
        if self.scale is None or not self.scale[0] < self.scale[1]:
            raise InputError(f"`scale` must be what black and white become, the lower first; got {self.scale!r}.")
        if self.std is not None and min(self.std) <= 0:
            raise InputError(f"`std` must be above 0 in every channel; got {self.std!r}.")
        if self.size is not None and self.crop is not None:
            height, width = _pair(self.size)
            if _pair(self.crop)[0] > height or _pair(self.crop)[1] > width:
                raise InputError(f"`crop` must fit into `size` = {self.size}; got {self.crop}. Enlarge `size`.")

    @property
    def depth(self) -> int:
        """Number of channels."""
        return 1 if self.channels == "grey" else 3

    def __call__(self, image: object, *, label: str = "the image") -> Image:
        """The image as an array (channels, height, width), or with the channels last, in float32.

        Parameters
        ----------
        image : path, array or Pillow image
            An array is (height, width) or (height, width, channels) with 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGBA)
            channels: bool, uint8, uint16, or floating point in [0, 1].
        label : str
            What to call it in an error; a path is called by its own name.
        """
        if isinstance(image, (str, os.PathLike)):
            label = os.fspath(image) if isinstance(os.fspath(image), str) else label
        try:
            pixels = self._sized(_bands(image), label)
        except (InputError, MemoryError):
            raise
        except Exception as error:  # decoders raise OSError, SyntaxError, EOFError, zlib.error, struct.error and others
            raise InputError(_unreadable(label, error)) from error
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

    def _sized(self, bands: list[Any], label: str) -> NDArray[np.float32]:
        """Resized and cropped values in [0, 1], (height, width, channels), from one RGB or three float Pillow images."""
        pillow = optional("PIL.Image", extra="images")
        width, height = bands[0].size
        if isinstance(self.size, int):
            # The longer side is cut to a whole number, not rounded: so do transformers and torchvision.
            short = min(height, width)
            height, width = self.size * height // short, self.size * width // short
            if height * width > _LARGEST:
                raise InputError(
                    f"{label}: with the shorter side at `size` = {self.size}, the image would be {height}×{width}. "
                    "Give `size` as (height, width), or leave the image out."
                )
        elif self.size is not None:
            height, width = self.size
        method = getattr(pillow.Resampling, self.resample.upper())
        # A size that is kept is left alone: bicubic and the others would give the same values again.
        bands = [band if band.size == (width, height) else band.resize((width, height), method) for band in bands]
        crop = self.crop if self.crop is not None else self.size
        rows, columns = (height, width) if crop is None else _pair(crop)
        if rows > height or columns > width:
            raise InputError(
                f"{label}: the image must be at least as large as `crop` = {self.crop}; it is {height}×{width}. "
                "Give `size` as well: smaller images are then enlarged."
            )
        top, left = (height - rows) // 2, (width - columns) // 2
        box = (left, top, left + columns, top + rows)
        bands = [band.crop(box) for band in bands]
        if bands[0].mode == "F":
            pixels = np.stack([np.asarray(band, np.float32) for band in bands], axis=2).clip(0, 1)
        else:
            pixels = np.asarray(bands[0], np.float32) / np.float32(255)
        if self.channels == "grey":
            pixels = (pixels @ np.array([0.299, 0.587, 0.114], np.float32))[:, :, None]
        return np.asarray(pixels, np.float32)


# --- any image → one 8-bit RGB image, or three floating-point bands in [0, 1]


def _bands(image: object) -> list[Any]:
    pillow = optional("PIL.Image", extra="images")
    if isinstance(image, (str, os.PathLike)):
        return _from_file(pillow, image)
    if isinstance(image, pillow.Image):
        return _from_pillow(pillow, image)
    return _from_array(pillow, np.asarray(image))


def _from_file(pillow: Any, path: str | os.PathLike[str]) -> list[Any]:
    bomb = f"it has more pixels than Pillow deems safe ({pillow.MAX_IMAGE_PIXELS}); if you trust it, raise PIL.Image.MAX_IMAGE_PIXELS"
    try:
        with pillow.open(path) as image:
            # Pillow only warns between its limit and twice its limit.
            if pillow.MAX_IMAGE_PIXELS is not None and image.width * image.height > pillow.MAX_IMAGE_PIXELS:
                raise _UnfitError(bomb)
            return _from_pillow(pillow, image)
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        raise _UnfitError(bomb) from error


def _from_pillow(pillow: Any, image: Any) -> list[Any]:
    operations = optional("PIL.ImageOps", extra="images")
    image = operations.exif_transpose(image)
    if image.mode == "F":
        return _float_bands(pillow, np.asarray(image)[:, :, None])
    if image.mode == "I" or image.mode.startswith("I;16"):
        # Pillow's own conversion cuts everything above 255 to white.
        values = np.asarray(image).astype(np.int64)
        if values.size and not 0 <= values.min() <= values.max() <= 65535:
            raise _UnfitError(
                f"integers must lie in 0 … 65535; it holds {values.min()} … {values.max()}. Pass an array in [0, 1]"
            )
        clear = image.info.get("transparency")
        if isinstance(clear, int):
            values[values == clear] = 65535
        return _float_bands(pillow, (values / 65535)[:, :, None])
    if image.has_transparency_data:
        opaque = pillow.new("RGBA", image.size, "white")
        opaque.alpha_composite(image.convert("RGBA"))
        image = opaque
    return [image.convert("RGB")]


def _from_array(pillow: Any, array: NDArray[Any]) -> list[Any]:
    if array.dtype.kind not in "bf" and array.dtype not in (np.uint8, np.uint16):
        raise _UnfitError(f"an array must be bool, uint8, uint16, or floating point in [0, 1]; got dtype {array.dtype}")
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 2, 3, 4) or array.size == 0:
        hint = "; move the channels last" if array.ndim == 3 and array.shape[0] in (1, 3, 4) else ""
        raise _UnfitError(
            f"an array must be (height, width) or (height, width, 1 to 4 channels); got shape {array.shape}{hint}"
        )
    if array.dtype == np.uint8:
        mode = ("L", "LA", "RGB", "RGBA")[array.shape[2] - 1]
        values = np.ascontiguousarray(array[:, :, 0] if mode == "L" else array)
        return _from_pillow(pillow, pillow.frombytes(mode, values.shape[1::-1], values.tobytes()))
    if array.dtype == np.uint16:
        array = array / 65535
    return _float_bands(pillow, array)


def _float_bands(pillow: Any, values: NDArray[Any]) -> list[Any]:
    """Three bands in mode F from (height, width, 1 to 4 channels) in [0, 1], laid on white."""
    values = values.astype(np.float32)
    if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1):
        raise _UnfitError(
            f"floating-point values must lie in [0, 1]; they lie in [{values.min():g}, {values.max():g}]. Rescale them"
        )
    if values.shape[2] in (2, 4):
        alpha = values[:, :, -1:]
        values = values[:, :, :-1] * alpha + (1 - alpha)
    values = np.broadcast_to(values, (*values.shape[:2], 3))
    return [pillow.fromarray(np.ascontiguousarray(values[:, :, band])) for band in range(3)]


class _UnfitError(Exception):
    """Why an image cannot be used; the name of the image is put before it."""


def _unreadable(label: str, error: Exception) -> str:
    if isinstance(error, _UnfitError):
        return f"{label}: {error}."
    # Pillow's sentences often repeat the path; the last part of the error is its reason.
    reason = type(error).__name__ if not str(error) else str(error).splitlines()[0].rstrip(".")
    if type(error).__name__ == "UnidentifiedImageError":
        reason = "no image format that Pillow knows"
    return f"{label}: the image cannot be read ({reason}). Open it in a viewer; if it is broken, save it again or leave it out."


# --- images at the door


def checked_images(samples: Sequence[Any]) -> list[Any]:
    """The samples as a list of paths, arrays and Pillow images; text and missing files are refused before any work."""
    optional("PIL.Image", extra="images")
    if isinstance(samples, (str, bytes, os.PathLike)):
        raise InputError(
            f"`samples` must be a list of images; got {_short(samples)}. mallow.read(folder).paths lists a folder."
        )
    if isinstance(samples, np.ndarray) and samples.ndim == 3 and samples.shape[2] in (3, 4):
        raise InputError(
            f"`samples` must be a list of images or an array (n, height, width, channels); got shape {samples.shape}, "
            "which looks like one image. Pass [image]."
        )
    items = list(samples)
    for place, item in enumerate(items):
        if isinstance(item, str) and not Path(item).is_file():
            raise InputError(
                f"`samples` must be images: paths, arrays or Pillow images; sample {place} is the string {_short(item)}, "
                "and no such file exists. Texts need a text embedder."
            )
        if isinstance(item, os.PathLike) and not Path(item).is_file():
            raise InputError(f"{os.fspath(item)}: no such file (sample {place}). Check the path.")
        if not isinstance(item, (str, os.PathLike)) and not _array_like(item):
            raise InputError(
                f"`samples` must be images: paths, arrays or Pillow images; sample {place} is {_short(item)}, "
                f"of type {type(item).__name__}."
            )
    return items


def _array_like(item: object) -> bool:
    pillow = sys.modules.get("PIL.Image")
    return hasattr(item, "__array__") or (pillow is not None and isinstance(item, pillow.Image))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…" + text[-1]


# --- images → rows


def image_rows(samples: Sequence[Any], preprocess: Preprocess, network: Network, *, limit: int) -> Iterator[Rows]:
    """Places and features of all images: decoded on threads, in order, while the network runs.

    At most two batches of `limit` images are in memory. `samples` as `checked_images` returns them.
    """
    optional("PIL.Image", extra="images").init()  # the plugins, before threads compete for them

    def load(task: tuple[int, Any]) -> Image:
        return preprocess(task[1], label=f"image {task[0]}")

    threads = min(_THREADS, cores())
    images = ordered_map(load, enumerate(samples), threads, ahead=max(2, -(-limit // threads)))
    yield from grown_batches(images, network, limit=limit)


def grown_batches(images: Iterable[Image], network: Network, *, limit: int) -> Iterator[Rows]:
    """Places and features, in batches as large as memory allows.

    The first batch has 8 images, each further one twice as many as the last, up to `limit`. A batch that runs out of
    memory is halved, down to single images, and no batch is larger than that from then on. No clock is asked: the
    batches of two runs differ only where their memory does. `network` must not let rows depend on their batch.
    """
    size = min(_FIRST, whole("limit", limit, least=1))
    source = iter(images)
    waiting: list[Image] = []
    place = 0
    while True:
        waiting += islice(source, max(0, size - len(waiting)))
        if not waiting:
            return
        rows = _attempt(network, _stacked(waiting[:size], place))
        if rows is None:
            if len(waiting[:size]) == 1:
                raise InputError(
                    "The network runs out of memory on a single image. Use a smaller model or image size, or device='cpu'."
                )
            size = limit = len(waiting[:size]) // 2
            continue
        yield np.arange(place, place + len(rows), dtype=np.int64), rows
        place += len(rows)
        del waiting[:size]
        size = min(2 * size, limit)


def _attempt(network: Network, batch: NDArray[np.float32]) -> Points | None:
    """Features of a batch, or None if memory runs out.

    A function of its own, so that the error, whose traceback holds the network's arrays, is gone before the next try.
    """
    try:
        rows = network(batch)
    except Exception as error:
        if ran_out_of_memory(error):
            return None
        raise
    if rows.ndim != 2 or len(rows) != len(batch):
        raise InputError(
            f"The network must give one row of features an image, shape ({len(batch)}, d); got {rows.shape}. "
            "Choose another `output`, or wrap the network so that it pools."
        )
    if not np.isfinite(rows).all():
        raise InputError("The network gives NaN or infinite features. If it runs in float16, pass dtype='float32'.")
    return rows


def _stacked(images: list[Image], place: int) -> NDArray[np.float32]:
    for offset, image in enumerate(images):
        if image.shape != images[0].shape:
            raise InputError(
                f"All images must have one shape; image {place} gives {images[0].shape}, image {place + offset} "
                f"{image.shape}. Give `size` in Preprocess."
            )
    return np.stack(images)


# --- sizes and numbers


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
