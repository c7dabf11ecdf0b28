"""A region of the gap: one bin, its numbers, and samples from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mallow.explain._reason import LEVEL

_TEXT_LENGTH = 88  # characters of an example in print; chosen: a line of a terminal

Side = Literal["missed", "invented"]


@dataclass(frozen=True)
class Example:
    """One sample of a region.

    Attributes
    ----------
    place : int
        Its place among the samples of its side, from 0.
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
        line = "".join(letter if letter.isprintable() else "�" for letter in " ".join(self.text.split()))
        return line if len(line) <= _TEXT_LENGTH else line[: _TEXT_LENGTH - 1] + "…"


@dataclass(frozen=True)
class Telltale(Example):
    """A sample that by its held-out score belongs to its own side more than others do.

    Attributes
    ----------
    score : float
        Its held-out score, an estimate of log p/q by a rule that never saw it: below 0, it looks like the model's samples,
        above 0 like those of the reference.
    rank : int
        1 for the clearest one.
    """

    score: float = 0.0
    rank: int = 0


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
        Its share of what the model misses or invents; the shares of all bins of a side sum to 1.
    reference, model : int
        The number of samples of each side in the bin.
    expected : tuple of float
        The expected numbers if both sides had the same distribution.
    p_value : float
        Two-sided, for equal proportions in this bin; allows for samples that share an id.
    adjusted : float
        The p-value after Holm's correction over all bins, including those that are not shown.
    reference_examples, model_examples : tuple of Example
        The samples of each side nearest to the centre of the bin, the nearest first, equal texts only once.
    terms : tuple of str
        Words and pairs of words that are typical of the samples of the side in excess: `marking_terms`. Empty unless the
        samples are texts.
    lengths : dict
        Median number of words: "region", of the samples of the side in excess here; "elsewhere", of all other samples.
        Empty unless the samples are texts.
    score : float
        The mean held-out score of the samples of the side in excess: below 0 they look like the model's, above 0 like
        those of the reference.
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
        """Whether the proportions differ at the 5 % level, after correction for all bins."""
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
