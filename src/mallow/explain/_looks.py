"""Traits of images that may be reasons: size, light and colour, and flaws such as blur, noise and repeated texture."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mallow._optional import optional
from mallow.explain._candidates import Candidate, contrast
from mallow.theory import Array

_SIDE = 64  # pixels of the square that an image is shrunk to for light and colour; chosen
_PART = 192  # pixels of the square in the middle that flaws are looked for in; chosen: about what networks see
_LEAST_PART = 16  # pixels; chosen: smaller images show no flaws
_BLOCK = 8  # pixels; JPEG compresses squares of this size
_NEAR = 6  # pixels; chosen: texture that repeats at a smaller distance is mere smoothness
# What is measured → the words for more of it, for less of it, and what the number is.
_LOOKS = {
    "size": ("larger images", "smaller images", "shorter side {} pixels on average, reference {}"),
    "proportion": ("wider images", "narrower images", "width over height {} on average, reference {}"),
    "brightness": ("brighter images", "darker images", "mean brightness {} of 255, reference {}"),
    "contrast": (
        "more contrasting images",
        "flatter images",
        "standard deviation of brightness {} of 255, reference {}",
    ),
    "colour": ("more colourful images", "less colourful images", "mean saturation {} of 255, reference {}"),
    "detail": (
        "more detailed images",
        "smoother images",
        "mean step between neighbouring pixels {} of 255, reference {}",
    ),
    "blur": ("blurrier images", "sharper images", "smoothing leaves {} of the steps between pixels, reference {}"),
    "noise": ("noisier images", "less noisy images", "standard deviation of the grain {} of 255, reference {}"),
    "blocks": (
        "stronger traces of JPEG compression",
        "weaker traces of JPEG compression",
        "steps at the edges of 8 × 8 blocks {} times the others, reference {}",
    ),
    "crop": (
        "more tightly cropped images",
        "less tightly cropped images",
        "detail in the outer eighth {} times that inside, reference {}",
    ),
    "repetition": (
        "more repeated textures",
        "fewer repeated textures",
        "correlation of an image with its most similar shift {}, reference {}",
    ),
}


def image_candidates(paths: Sequence[Path]) -> list[Candidate]:
    """Traits of images, such as brightness, that may be reasons; none without Pillow, or if an image cannot be read."""
    if importlib.util.find_spec("PIL") is None:
        return []
    pillow = optional("PIL.Image", extra="images")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pillow.DecompressionBombWarning)  # very large images are legal
            values = np.array([_measure(path, pillow) for path in paths])
    except Exception:  # a decoder may raise anything, and the embedder reports unusable images
        return []
    return [
        Candidate("trait", column, contrast(*words))
        for words, column in zip(_LOOKS.values(), values.T, strict=True)
        if np.isfinite(column).all()
    ]


def _measure(path: Path, pillow: Any) -> list[float]:
    """The numbers of one image, in the order of `_LOOKS`; NaN for flaws of an image too small to show them."""
    with pillow.open(path) as image:
        width, height = image.size
        image.draft("RGB", (2 * _PART, 2 * _PART))  # JPEG files are decoded no finer than needed
        whole = image.convert("RGB")
    small = whole.resize((_SIDE, _SIDE), pillow.Resampling.BOX)
    bright = np.asarray(small.convert("L"), dtype=np.float64)
    saturation = np.asarray(small.convert("HSV"), dtype=np.float64)[..., 1]
    steps = np.abs(np.diff(bright, axis=0)).mean() + np.abs(np.diff(bright, axis=1)).mean()
    looks = [float(min(width, height)), width / height, float(bright.mean()), float(bright.std())]
    return [*looks, float(saturation.mean()), float(steps) / 2.0, *_measure_flaws(whole)]


def _measure_flaws(image: Any) -> list[float]:
    """Blur, noise, blocks, crop and repetition, from the brightness of the pixels as they are stored."""
    grey = np.asarray(image.convert("L"), dtype=np.float64)
    if min(grey.shape) < _LEAST_PART:
        return [np.nan] * 5
    # The middle, whose corner is the corner of a block of JPEG.
    top, left = (max(0, (length - _PART) // 2) // _BLOCK * _BLOCK for length in grey.shape)
    part = grey[top : top + _PART, left : left + _PART]
    return [_blur(part), _grain(part), _block_edges(part), _outer_detail(grey), _repetition(part)]


def _smoothed(grey: Array) -> Array:
    """The means of all squares of 3 × 3 pixels."""
    rows = grey[:-2] + grey[1:-1] + grey[2:]
    means: Array = (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 9.0
    return means


def _blur(grey: Array) -> float:
    """The share of the steps between neighbouring pixels that smoothing leaves: sharp images lose most of theirs."""
    inner, smooth = grey[1:-1, 1:-1], _smoothed(grey)
    before, after = (sum(float(np.abs(np.diff(each, axis=axis)).sum()) for axis in (0, 1)) for each in (inner, smooth))
    return min(after / before, 1.0) if before else 1.0


def _grain(grey: Array) -> float:
    """The standard deviation of noise, from second differences in both directions (Immerkær 1996)."""
    second = np.diff(np.diff(grey, n=2, axis=0), n=2, axis=1)
    return float(np.sqrt(np.pi / 2.0) * np.abs(second).mean() / 6.0)


def _block_edges(grey: Array) -> float:
    """Steps between pixels of different blocks of JPEG, as a multiple of the steps inside blocks; 1 without traces."""
    at_edges = inside = 0.0
    edges = others = 0
    for axis in (0, 1):
        steps = np.abs(np.diff(grey, axis=axis)).mean(axis=1 - axis)
        edge = np.arange(1, len(steps) + 1) % _BLOCK == 0
        at_edges, edges = at_edges + float(steps[edge].sum()), edges + int(edge.sum())
        inside, others = inside + float(steps[~edge].sum()), others + int((~edge).sum())
    return at_edges / edges / (inside / others) if inside else 1.0


def _outer_detail(grey: Array) -> float:
    """The mean step between pixels near the border, as a multiple of the mean elsewhere."""
    steps = np.abs(np.diff(grey, axis=0))[:, :-1] + np.abs(np.diff(grey, axis=1))[:-1]
    rim = max(1, min(steps.shape) // _BLOCK)
    inner = steps[rim:-rim, rim:-rim]
    outer = (steps.sum() - inner.sum()) / (steps.size - inner.size)
    return float(outer / inner.mean()) if inner.any() else 1.0


def _repetition(grey: Array) -> float:
    """The largest correlation of the fine detail with a shift of itself by more than a few pixels."""
    fine = grey[3:-3, 3:-3] - _smoothed(_smoothed(_smoothed(grey)))
    fine = fine - fine.mean()
    spectrum = np.abs(np.fft.rfft2(fine)) ** 2
    shifts = np.fft.irfft2(spectrum, s=fine.shape)
    if shifts[0, 0] <= 0:
        return 0.0
    away = [np.minimum(np.arange(length), length - np.arange(length)) for length in fine.shape]
    far = np.maximum(away[0][:, None], away[1][None, :]) >= _NEAR
    return float(shifts[far].max() / shifts[0, 0])
