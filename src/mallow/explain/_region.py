"""Regions of a gap, with samples from them, in the form for results."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from mallow._checks import whole
from mallow._files import atomic_file
from mallow._optional import optional
from mallow.embed import Preprocess
from mallow.errors import InputError, visible
from mallow.evidence import LEVEL

_TEXT_LENGTH = 88  # characters of an example in print; chosen: a line of a terminal
Side = Literal["missed", "invented"]
_CAPTION_HEIGHT = 16  # pixels; Pillow's built-in font is 11 high
_LEAST_SHEET_WIDTH = 64  # pixels: the longest caption fits


def in_one_line(text: str, length: int = _TEXT_LENGTH) -> str:
    """The beginning of a text in one line, with control characters written out."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= length else line[: length - 1] + "…"


@dataclass(frozen=True)
class Example:
    """One sample of a region.

    Attributes
    ----------
    place : int
        Its index among the samples of its side, from 0.
    id : str or None
        Its id, if the samples have ids.
    text, path : str or None
        The text, or the file of the image; features have neither.
    """

    place: int
    id: str | None = None
    text: str | None = None
    path: str | None = None

    def __str__(self) -> str:
        """The sample in one line, without control characters."""
        if self.text is None:
            return self.path or f"sample {self.place}" + (f" ({self.id})" if self.id else "")
        return in_one_line(self.text)


@dataclass(frozen=True)
class Telltale(Example):
    """A sample whose held-out score points most clearly to its own side.

    Attributes
    ----------
    score : float
        Its held-out score, an estimate of log p/q by a rule that was learned without it. Below 0 it looks like the
        model's samples, and above 0 like the reference.
    rank : int
        1 for the clearest sample.
    """

    score: float = 0.0
    rank: int = 0


@dataclass(frozen=True)
class OffTopic(Example):
    """A text of the model that is farther from its prompt than the reference's texts for the same prompt.

    Attributes
    ----------
    prompt : str
    cosine : float
        The cosine between the features of the text and of its prompt.
    reference : float
        The mean cosine of the reference's texts for this prompt.
    """

    prompt: str = ""
    cosine: float = 0.0
    reference: float = 0.0


@dataclass(frozen=True)
class Region:
    """A bin in which one side has more samples than the other.

    Attributes
    ----------
    side : "missed" or "invented"
        "missed": the model has too few samples here; "invented": it has too many.
    bin : int
        Its number in the partition.
    share : float
        Its share of the total that the model misses or invents. The shares of all bins of a side sum to 1.
    reference, model : int
        The number of samples of each side in the bin.
    expected : tuple of float
        The expected numbers if both sides had the same distribution.
    p_value : float
        Two-sided p-value for equal proportions in this bin; allows for samples that share an id.
    adjusted : float
        The p-value after Holm's correction over all bins, including those that are not shown.
    reference_examples, model_examples : tuple of Example
        The samples of each side nearest to the centre of the bin, the nearest first. Equal texts appear only once.
    terms : tuple of str
        Words and pairs of words that are typical of the samples of the side with more samples (`terms_of_groups`).
        Empty unless the samples are texts.
    lengths : dict
        Median number of words: "region" for samples here of the side with more samples, "elsewhere" for all other
        samples. Empty unless the samples are texts.
    score : float
        The mean held-out score of the samples of the side with more samples. Below 0 they look like the model's
        samples, and above 0 like the reference.
    """

    side: Side
    bin: int
    share: float
    reference: int
    model: int
    expected: tuple[float, float]
    p_value: float
    adjusted: float
    reference_examples: tuple[Example, ...]
    model_examples: tuple[Example, ...]
    terms: tuple[str, ...]
    lengths: dict[str, float]
    score: float = 0.0

    @property
    def significant(self) -> bool:
        """Whether the proportions differ at the 5% level, after correction for all bins."""
        return self.adjusted < LEVEL

    def __str__(self) -> str:
        verb = "misses" if self.side == "missed" else "invents"
        doubt = "" if self.significant else ", not significant"
        lines = [
            f"{self.share:.0%} of what the model {verb}: {self.reference} reference and {self.model} model samples, "
            f"{self.expected[0]:.1f} and {self.expected[1]:.1f} expected; adjusted p = {self.adjusted:.2g}{doubt}"
        ]
        if self.score:
            lines.append(f"  score      {self.score:+.2f} on average, held out")
        if self.terms:
            lines.append(f"  typical    {', '.join(self.terms)}")
        if self.lengths:
            lines.append(f"  length     {self.lengths['region']:g} words; elsewhere {self.lengths['elsewhere']:g}")
        for name, examples in (("reference", self.reference_examples), ("model", self.model_examples)):
            lines += [f"  {name:<9}  {example}" for example in examples]
        return "\n".join(lines)


def image_grid(region: Region, path: str | os.PathLike[str], *, size: int = 128) -> None:
    """Draw the examples of a region of images into a PNG file: the reference in the upper row, the model in the lower.

    Parameters
    ----------
    region : Region
        A region of a diagnosis of images.
    path : path
        A path that ends in .png.
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
        raise InputError(
            "`region` must have examples that are images, but it has none. Diagnose images, with examples=3."
        )
    pillow, ops, draw = (optional(f"PIL.{name}", extra="images") for name in ("Image", "ImageOps", "ImageDraw"))
    decode = Preprocess(size=None, scale=(0, 255), layout="hwc")
    width = max(size * max(map(len, rows)), _LEAST_SHEET_WIDTH)
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
