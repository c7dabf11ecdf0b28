"""A reason: something that a person can read, and that goes with the evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

LEVEL = 0.05  # the usual level of significance

Kind = Literal["words", "length", "trait", "region"]


@dataclass(frozen=True)
class Reason:
    """Something that differs between the sides and goes with the held-out score.

    Attributes
    ----------
    kind : "words", "length", "trait" or "region"
        "region" is about where the samples lie among all features.
    text : str
        A phrase about the model's samples, for "What gives it away: …": no capital, no full stop.
    p_value : float
        That it does not differ, or does not go with the held-out score; valid for shared prompts and for several samples
        per prompt.
    adjusted : float
        The p-value after correction for everything that was tried.
    values : dict
        The numbers of the phrase, by name; "explained" is the share of the evidence that it accounts for.
    """

    kind: Kind
    text: str
    p_value: float
    adjusted: float
    values: dict[str, float] = field(default_factory=dict)
