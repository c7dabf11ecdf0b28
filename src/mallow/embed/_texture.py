"""An embedder of images without a model: spectrum, colours, and differences between neighbouring pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from mallow.embed._image_batches import checked_images
from mallow.embed._preprocess import Preprocess
from mallow.embed._protocol import Rows, StreamsFeatures, in_parts
from mallow.engine import cores, ordered_map

Values = NDArray[np.float64]

_RECIPE = 1  # changes whenever the features of any image do
_SIDE = 256  # pixels of the centre that is measured; chosen: enough for every statistic, and photographs stay quick
_RINGS = 16  # of the spectrum, up to half a cycle per pixel, and one more for the corners beyond
_PART = 64  # images per part that `stream` yields
_FLOOR = 1e-6  # of powers and variances; chosen: far below the noise of 8 bits
# Absolute differences of values in [0, 1], at half steps of 8 bits: equal values lie in the first bin.
_STEPS = np.array([0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 63.5]) / 255
_PIXELS = Preprocess(size=None, layout="hwc")


@dataclass(frozen=True)
class Texture(StreamsFeatures):
    """Features of images without a model: 78 statistics of the central 256 × 256 pixels.

    They are the logarithmic power in 17 rings of the spectrum of the luma, and histograms of each colour channel, of
    the differences between neighbours and of the local residual (a pixel minus the mean of its four neighbours).
    Others are the sizes of these differences and residuals, and their correlations between channels and neighbours.
    They react to noise, blur, compression, colours and the traces of upsampling, not to what an image shows. Images
    are not resized.

    Examples
    --------
    >>> Texture()([np.zeros((32, 32, 3), np.uint8)]).shape
    (1, 78)
    """

    kind: ClassVar[Literal["image"]] = "image"
    published: ClassVar[bool] = False  # papers do not score such features: they are for evidence only

    @property
    def name(self) -> str:
        """The version of the recipe."""
        return f"texture-{_RECIPE}"

    def stream(self, samples: Sequence[Any], /) -> Iterator[Rows]:
        """Places and features (78) of images (paths, arrays or Pillow images), in order."""
        images = enumerate(checked_images(samples))
        return in_parts(ordered_map(_load_and_measure, images, cores(), ahead=2), _PART)


texture = Texture()
"""The embedder `Texture`."""


def _load_and_measure(numbered: tuple[int, Any]) -> NDArray[np.float32]:
    place, image = numbered
    pixels = _PIXELS(image, label=f"image {place}")
    height, width, _ = pixels.shape
    top, left = (max(0, (length - _SIDE) // 2) for length in (height, width))
    return _measure(pixels[top : top + _SIDE, left : left + _SIDE].astype(np.float64))


def _measure(pixels: Values) -> NDArray[np.float32]:
    """The features of the values (height, width, 3) in [0, 1]."""
    pixels = np.pad(pixels, [*((0, max(0, 4 - length)) for length in pixels.shape[:2]), (0, 0)], mode="edge")
    luma = pixels @ [0.299, 0.587, 0.114]
    across, down = np.diff(luma, axis=1), np.diff(luma, axis=0)
    neighbours = pixels[:-2, 1:-1] + pixels[2:, 1:-1] + pixels[1:-1, :-2] + pixels[1:-1, 2:]
    residual = pixels[1:-1, 1:-1] - neighbours / 4
    grey = residual @ [0.299, 0.587, 0.114]
    colours = np.minimum((pixels * 8).astype(np.int64), 7) + np.array([0, 8, 16])
    sizes = [np.mean(across**2), np.mean(down**2), *np.mean(residual**2, axis=(0, 1))]
    parts = [
        _spectrum(luma),
        _root_shares(colours.ravel(), 24),
        *(_root_shares(np.searchsorted(_STEPS, np.abs(values).ravel()), 8) for values in (across, down, grey)),
        np.log10(np.array(sizes) + _FLOOR),
        _correlations(pixels.reshape(-1, 3)),
        _correlations(residual.reshape(-1, 3)),
        np.array([_correlation(grey[:, 1:], grey[:, :-1]), _correlation(grey[1:], grey[:-1])]),
    ]
    return np.concatenate(parts).round(5).astype(np.float32)  # later digits differ between processors


def _spectrum(luma: Values) -> Values:
    """The logarithm of the mean power in each ring."""
    rings, counts, window = _rings(*luma.shape)
    power = np.abs(np.fft.rfft2((luma - luma.mean()) * window)) ** 2 / (window**2).sum()
    means = np.bincount(rings, power.ravel(), minlength=_RINGS + 1) / np.maximum(counts, 1)
    return np.asarray(np.log10(means + _FLOOR), np.float64)


@lru_cache(maxsize=64)
def _rings(height: int, width: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Values]:
    """The ring of each coefficient of `rfft2`, how many each ring has, and a window that falls to 0 at the edges."""
    frequencies = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width))
    rings = np.minimum((frequencies * 2 * _RINGS).astype(np.int64), _RINGS).ravel()
    one, other = (0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(length) + 0.5) / length) for length in (height, width))
    return rings, np.bincount(rings, minlength=_RINGS + 1), one[:, None] * other


def _root_shares(bins: NDArray[np.int64], count: int) -> Values:
    """Square roots of the shares of bins, times 2: about as large as the other features."""
    counts = np.bincount(bins, minlength=count)
    return np.asarray(2 * np.sqrt(counts / counts.sum()), np.float64)


def _correlations(values: Values) -> Values:
    """The correlations of the three pairs of columns."""
    return np.array([_correlation(values[:, i], values[:, j]) for i, j in ((0, 1), (0, 2), (1, 2))])


def _correlation(x: Values, y: Values) -> float:
    """The correlation of two arrays of one shape; 0 where one of them is constant."""
    x, y = x - x.mean(), y - y.mean()
    return float((x * y).mean() / (np.sqrt((x**2).mean() * (y**2).mean()) + _FLOOR))
