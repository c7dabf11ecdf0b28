"""What the store tells about annotators: who they are, which pair they have, and why there is none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Annotator:
    """A person who takes part. `id` is random and goes into exports; `name` is for the owner's eyes."""

    id: str
    name: str
    source: str
    ready: bool


@dataclass(frozen=True)
class Assignment:
    """A pair in the hands of an annotator.

    Attributes
    ----------
    place : int
        1 for the annotator's first pair.
    task : str
    kind : str
        "task", "gold" or "repeat".
    swapped : bool
        Whether the sides are exchanged.
    state : str
        "open", "done", "skipped", "late" (answered after the time-out, when the quota was full) or "lost" (not answered, and
        given to somebody else).
    answers : dict
        The latest answers by question; empty if there are none.
    back : int or None
        The place before it.
    """

    place: int
    task: str
    kind: str
    swapped: bool
    state: str
    answers: dict[str, int]
    back: int | None


@dataclass(frozen=True)
class Finished:
    """There is no pair for the annotator: "limit", "all done", "waiting" (others have the rest) or "closed"."""

    reason: str
