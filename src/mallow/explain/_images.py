"""How images look, as numbers: size, brightness, contrast, colour, detail."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mallow._optional import optional
from mallow.explain._candidate import Candidate, numbers_apart
from mallow.theory import Array

_SIDE = 64  # pixels of the square that an image is shrunk to; chosen

# What is measured → the adjective for more of it, for less of it, and what the number is.
_LOOKS = {
    "size": ("larger", "smaller", "shorter side {} pixels on average, reference {}"),
    "proportion": ("wider", "narrower", "width over height {} on average, reference {}"),
    "brightness": ("brighter", "darker", "mean brightness {} of 255, reference {}"),
    "contrast": ("more contrasting", "flatter", "standard deviation of brightness {} of 255, reference {}"),
    "colour": ("more colourful", "less colourful", "mean saturation {} of 255, reference {}"),
    "detail": ("more detailed", "smoother", "mean step between neighbouring pixels {} of 255, reference {}"),
}


def image_candidates(paths: Sequence[Path]) -> list[Candidate]:
    """Everything about the looks of images that may be a reason; nothing without Pillow, or if one cannot be read."""
    if importlib.util.find_spec("PIL") is None:
        return []
    pillow = optional("PIL.Image", extra="images")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pillow.DecompressionBombWarning)  # very large images are legal
            looks = np.array([_measure(path, pillow) for path in paths])
    except Exception:  # a decoder may raise anything; whether an image can be used is for the embedder to say
        return []
    return [_candidate(name, column) for name, column in zip(_LOOKS, looks.T, strict=True)]


def _measure(path: Path, pillow: Any) -> list[float]:
    """The numbers of one image, in the order of `_LOOKS`."""
    with pillow.open(path) as image:
        width, height = image.size
        image.draft("RGB", (2 * _SIDE, 2 * _SIDE))  # JPEG files are decoded no finer than needed
        small = image.convert("RGB").resize((_SIDE, _SIDE), pillow.Resampling.BOX)
    bright = np.asarray(small.convert("L"), dtype=np.float64)
    saturation = np.asarray(small.convert("HSV"), dtype=np.float64)[..., 1]
    steps = np.abs(np.diff(bright, axis=0)).mean() + np.abs(np.diff(bright, axis=1)).mean()
    size, proportion = float(min(width, height)), width / height
    return [size, proportion, float(bright.mean()), float(bright.std()), float(saturation.mean()), float(steps) / 2.0]


def _candidate(name: str, trait: Array) -> Candidate:
    more, less, numbers = _LOOKS[name]

    def phrase(model: float, reference: float) -> tuple[str, dict[str, float]]:
        shown = numbers.format(*numbers_apart(model, reference))
        text = f"{more if model > reference else less} images ({shown})"
        return text, {"model": model, "reference": reference}

    return Candidate("trait", trait, phrase)
