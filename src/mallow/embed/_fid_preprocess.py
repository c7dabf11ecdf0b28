"""What published tools for the Fréchet inception distance do to an image, step by step, so that their values are met."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mallow._optional import optional
from mallow.embed._preprocess import Image
from mallow.models import one_of
from mallow.samples import decode_image

FidTool = Literal["torch-fidelity", "pytorch-fid", "clean-fid"]

_SIZE = 299


@dataclass(frozen=True)
class FidPreprocess:
    """The preprocessing of a published FID tool; its repr is part of the name of the embedder.

    All of them convert files to RGB as Pillow does: transparency and the orientation in EXIF are ignored. Then

    - "torch-fidelity" (0.2 to 0.4): bilinear to 299×299 as in TensorFlow 1, without antialiasing, each pixel at its upper
      left corner; (value − 128) / 128;
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
        """The image as a float32 array (3, 299, 299): a path, a Pillow image, or an array (height, width, 3) of uint8."""
        if isinstance(image, str | os.PathLike):
            label = str(image)
        pixels = np.asarray(decode_image(image, label=label, plain=True)[0], np.float32).transpose(2, 0, 1)
        if self.tool == "clean-fid":
            resized = np.stack([_resize_clean(channel) for channel in pixels])
        elif self.tool == "pytorch-fid":
            return np.float32(2) * _resize_bilinear(pixels / np.float32(255), centred=True) - np.float32(1)
        else:
            resized = _resize_bilinear(pixels, centred=False)
        return (resized - np.float32(128)) / np.float32(128)


def _resize_clean(channel: NDArray[np.float32]) -> NDArray[np.float32]:
    """One channel, by Pillow in floating point; what the filter pushes beyond black or white is clipped."""
    pillow = optional("PIL.Image", extra="images")
    resized = pillow.fromarray(np.ascontiguousarray(channel)).resize((_SIZE, _SIZE), pillow.Resampling.BICUBIC)
    return np.asarray(resized, np.float32).clip(0, 255)


def _resize_bilinear(pixels: NDArray[np.float32], *, centred: bool) -> NDArray[np.float32]:
    """Channels (3, height, width) to 299×299 without antialiasing, in float32 and in the order of the published code."""
    (top, bottom, down), (left, right, across) = (_neighbours(length, centred=centred) for length in pixels.shape[1:])
    down = down[:, None]
    upper, lower = pixels[:, top], pixels[:, bottom]
    upper = upper[:, :, left] + (upper[:, :, right] - upper[:, :, left]) * across
    lower = lower[:, :, left] + (lower[:, :, right] - lower[:, :, left]) * across
    return upper + (lower - upper) * down


def _neighbours(length: int, *, centred: bool) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """For each of 299 places, the pixels before and after it, and how far it is from the one before."""
    half = np.float32(0.5) if centred else np.float32(0)
    place = (np.arange(_SIZE, dtype=np.float32) + half) * np.float32(length / _SIZE) - half
    place = np.maximum(place, np.float32(0))
    before = place.astype(np.int64)
    return before, np.minimum(before + 1, length - 1), place - before.astype(np.float32)
