"""Preprocessing of images for networks: resize, crop, scale."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mallow._checks import one_of, whole
from mallow._files import read_text
from mallow._optional import optional
from mallow.errors import InputError
from mallow.models import Source
from mallow.samples import decode_image

Image = NDArray[np.float32]
"""One image as a network takes it: (channels, height, width), or (height, width, channels)."""

Resample = Literal["bicubic", "bilinear", "lanczos"]
Channels = Literal["rgb", "bgr", "grey"]
Layout = Literal["chw", "hwc"]
FidTool = Literal["torch-fidelity", "pytorch-fid", "clean-fid"]

_FID_SIZE = 299
_RESAMPLE: dict[int, Resample] = {1: "lanczos", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers
# Image processors for which a single number is a square; for the others that crop, it is the shorter side.
_SQUARE = ("deit", "beit", "flava", "perceiver", "data2vec")
_WAY_OUT = "Pass preprocess=Preprocess(size=…, mean=…, std=…)."
_MOST_PIXELS = 2**27  # after the resize; chosen: a strip of 1×60000 pixels must not become an image of 12 GB


@dataclass(frozen=True)
class Preprocess:
    """Preprocessing of images for a network. Its repr is part of the name of the embedder.

    The steps, in this order:

    1. The file is decoded and rotated according to its EXIF orientation; of an animation, the first frame is used.
    2. All images are converted to RGB. Images with transparency (RGBA, LA, a palette or greyscale with a transparent
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
        lost. None keeps the size of every image. All must then have the same size, unless `crop` sets it.
    crop : int, (height, width) or None
        The size of the centre that is kept. An integer means a square. None keeps everything, or, when `size` is an
        integer, the central square of that size, because all images of a batch must have one size.
    resample : "bicubic", "bilinear" or "lanczos"
        Filter of the resize.
    scale : (low, high)
        The values of black and white.
    mean : one number per channel, or None
        Subtracted from each channel, in the units of `scale` and the order of `channels`.
    std : one number per channel, or None
        Divides each channel, in the units of `scale` and the order of `channels`.
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
            What to call the image in an error message. A file is called by its path.
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
        # An image that has its size already is not resized: every filter would return the same values.
        bands = [band if band.size == (width, height) else band.resize((width, height), method) for band in bands]
        crop = self.crop if self.crop is not None else self.size
        rows, columns = (height, width) if crop is None else _pair(crop)
        if rows > height or columns > width:
            raise InputError(
                f"{label}: the image must be at least as large as `crop` = {self.crop}, but it is {height}×{width}. "
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


@dataclass(frozen=True)
class FidPreprocess:
    """The preprocessing of a published FID tool. Its repr is part of the name of the embedder.

    All of them convert files to RGB as Pillow does: transparency and the orientation in EXIF are ignored. Then

    - "torch-fidelity" (0.2 to 0.4): bilinear to 299×299 as in TensorFlow 1, without antialiasing, each pixel at its
      upper left corner; (value − 128) / 128;
    - "pytorch-fid" (0.3): bilinear without antialiasing, each pixel at its centre; value / 127.5 − 1;
    - "clean-fid" (0.1, mode "clean"): bicubic with antialiasing, in floating point; (value − 128) / 128.

    Parameters
    ----------
    tool : "torch-fidelity", "pytorch-fid" or "clean-fid"

    Examples
    --------
    >>> FidPreprocess("torch-fidelity")(np.full((2, 2, 3), 255, np.uint8))[:, 0, 0].tolist()
    [0.9921875, 0.9921875, 0.9921875]
    """

    tool: FidTool

    def __post_init__(self) -> None:
        one_of("match", self.tool, get_args(FidTool))

    def __call__(self, image: object, *, label: str = "the image") -> Image:
        """The image (path, Pillow image or uint8 array (height, width, 3)) as a float32 array (3, 299, 299)."""
        if isinstance(image, str | os.PathLike):
            label = str(image)
        pixels = np.asarray(decode_image(image, label=label, plain=True)[0], np.float32).transpose(2, 0, 1)
        if self.tool == "clean-fid":
            pillow = optional("PIL.Image", extra="images")  # in floating point, clipped to black and white
            bands = [pillow.fromarray(np.ascontiguousarray(channel)) for channel in pixels]
            bands = [band.resize((_FID_SIZE, _FID_SIZE), pillow.Resampling.BICUBIC) for band in bands]
            resized = np.stack([np.asarray(band, np.float32).clip(0, 255) for band in bands])
        elif self.tool == "pytorch-fid":
            return np.float32(2) * _resize_bilinear(pixels / np.float32(255), centred=True) - np.float32(1)
        else:
            resized = _resize_bilinear(pixels, centred=False)
        return (resized - np.float32(128)) / np.float32(128)


def _resize_bilinear(pixels: NDArray[np.float32], *, centred: bool) -> NDArray[np.float32]:
    """Channels (3, height, width) to 299×299 without antialiasing, in float32, in the order of the published code."""
    (top, bottom, down), (left, right, across) = (_neighbours(length, centred=centred) for length in pixels.shape[1:])
    down = down[:, None]
    upper, lower = pixels[:, top], pixels[:, bottom]
    upper = upper[:, :, left] + (upper[:, :, right] - upper[:, :, left]) * across
    lower = lower[:, :, left] + (lower[:, :, right] - lower[:, :, left]) * across
    return upper + (lower - upper) * down


def _neighbours(length: int, *, centred: bool) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """For each of 299 places, the pixels before and after it, and how far it is from the one before."""
    half = np.float32(0.5) if centred else np.float32(0)
    place = (np.arange(_FID_SIZE, dtype=np.float32) + half) * np.float32(length / _FID_SIZE) - half
    place = np.maximum(place, np.float32(0))
    before = place.astype(np.int64)
    return before, np.minimum(before + 1, length - 1), place - before.astype(np.float32)


def processor_settings(source: Source) -> dict[str, Any]:
    """The settings of the image processor, from the files of the model."""
    unreached: InputError | None = None
    # Since transformers 5, a processor of images and texts keeps the settings of both in one file.
    for name, part in (("preprocessor_config.json", None), ("processor_config.json", "image_processor")):
        try:
            path = source.file(name)
        except InputError as error:  # without a network connection, the cache may hold the other file
            unreached = error
            continue
        try:
            content = {} if path is None else json.loads(read_text(path))
        except (ValueError, RecursionError) as error:  # an InputError too
            raise InputError(f"{source.model!r} has a damaged {name}: {error} Download it again.") from error
        if not isinstance(content, dict):
            raise InputError(f"{source.model!r} has a damaged {name}: it must hold a JSON object. Download it again.")
        settings = content if part is None else content.get(part)
        if settings and isinstance(settings, dict):
            return settings
    if unreached is not None:
        raise unreached
    raise InputError(f"{source.model!r} has no preprocessor_config.json, so its preprocessing is not known. {_WAY_OUT}")


def preprocess_from_settings(model: str, settings: dict[str, Any]) -> Preprocess:
    """The `Preprocess` with these settings. An error if there is none."""
    try:
        if settings.get("do_pad"):
            raise _refusal(model, "it pads images (do_pad)")
        number = settings.get("resample", 2)
        if number not in _RESAMPLE:
            raise _refusal(model, f"its filter, resample = {number!r}, is not bicubic, bilinear or lanczos")
        size, crop = _size_and_crop(model, settings)
        factor = float(settings.get("rescale_factor", 1 / 255)) if settings.get("do_rescale", True) else 1.0
        offset = -1.0 if settings.get("rescale_offset") or settings.get("offset") else 0.0
        normalised = settings.get("do_normalize", True)
        return Preprocess(
            size=size,
            crop=crop,
            resample=_RESAMPLE[number],
            scale=(offset, round(255 * factor, 12) + offset),
            mean=settings.get("image_mean") if normalised else None,
            std=settings.get("image_std") if normalised else None,
            channels="bgr" if settings.get("do_flip_channel_order") else "rgb",
        )
    except InputError:
        raise
    except (TypeError, ValueError, ArithmeticError) as error:  # a list where a number belongs, a size of NaN
        raise _refusal(model, f"its settings are damaged ({error})") from error


def _refusal(model: str, reason: str) -> InputError:
    return InputError(f"The preprocessing of {model!r} cannot be reproduced: {reason}. {_WAY_OUT}")


def _size_and_crop(
    model: str, settings: dict[str, Any]
) -> tuple[int | tuple[int, int] | None, int | tuple[int, int] | None]:
    cropped = bool(settings.get("do_center_crop", False))
    crop = _parsed_size(settings.get("crop_size")) if cropped else None
    if not settings.get("do_resize", True):
        return None, crop
    kind = str(settings.get("image_processor_type") or settings.get("feature_extractor_type") or "").lower()
    setting = settings.get("size")
    size = _parsed_size(setting)
    if size is None:
        raise _refusal(model, f"its size is {setting!r}")
    if isinstance(setting, int) and (not cropped or kind.startswith(_SQUARE)):
        size = (setting, setting)
    if settings.get("crop_pct") is not None:
        if not kind.startswith("convnext"):
            raise _refusal(model, "it has its own rule for crop_pct")
        # ConvNext enlarges small images before it crops them, and stretches large ones.
        edge = size if isinstance(size, int) else size[0]
        return (int(edge / float(settings["crop_pct"])), edge) if edge < 384 else ((edge, edge), None)
    if isinstance(size, int) and not cropped:
        raise _refusal(model, "it keeps the proportions of images without a crop, so that they differ in size")
    return size, crop


def _parsed_size(setting: Any) -> int | tuple[int, int] | None:
    if isinstance(setting, int):
        return setting
    if isinstance(setting, dict) and setting.get("height") and setting.get("width"):
        return int(setting["height"]), int(setting["width"])
    if isinstance(setting, dict) and setting.get("shortest_edge") and not setting.get("longest_edge"):
        return int(setting["shortest_edge"])
    return None
