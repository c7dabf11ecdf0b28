"""Which pair an annotator gets next: balanced over pairs of systems, within quotas, with quality checks in between."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mallow.human import Study, Task

__all__ = ["Choice", "Given", "choose"]

_APART = 5  # pairs between a pair and its repetition, so that the answer is not just remembered; chosen


@dataclass(frozen=True)
class Given:
    """A pair that an annotator was given before: the task, its kind and the state of the assignment."""

    task: str
    kind: str
    state: str


@dataclass(frozen=True)
class Choice:
    """The next pair."""

    task: str
    kind: str
    swapped: bool


def choose(study: Study, annotator: str, history: Sequence[Given], full: Collection[str]) -> Choice | None:
    """The next pair of an annotator; None if there is none.

    Of the tasks with room that the annotator has not seen, the one whose pair of systems the annotator has judged least
    often; then one whose prompt is new to the annotator; then the first in the order of the study.

    Parameters
    ----------
    history : sequence of Given
        In the order in which they were given.
    full : collection of str
        Tasks that have, or are about to get, all their votes.
    """
    regular = _regular(study, history, full)
    if regular is None:
        return None
    judged = sum(given.state in ("done", "late") for given in history)
    number = judged + 1  # of the pair to come
    seen = {given.task for given in history if given.kind == "gold"}
    if len(seen) < _turns(number, study.checks.gold_every, f"gold {annotator}"):
        order = sorted((task.id for task in study.gold), key=lambda id_: _hash(f"{annotator} {id_}"))
        unseen = [id_ for id_ in order if id_ not in seen]
        if unseen:
            return Choice(unseen[0], "gold", swapped=False)
    again = {given.task for given in history if given.kind == "repeat"}
    if len(again) < _turns(number, study.checks.repeat_every, f"repeat {annotator}"):
        done = [given.task for given in history if given.kind == "task" and given.state == "done"]
        old = [id_ for id_ in done[: max(0, len(done) - _APART)] if id_ not in again]
        if old:
            return Choice(old[_hash(f"{annotator} {number}") % len(old)], "repeat", swapped=True)
    return Choice(regular.id, "task", swapped=False)


def _regular(study: Study, history: Sequence[Given], full: Collection[str]) -> Task | None:
    seen = {given.task for given in history if given.kind == "task"}
    own = [task for task in study.tasks if task.id in seen]
    pairs = Counter(frozenset((task.left, task.right)) for task in own)
    prompts = {task.prompt for task in own}
    best: Task | None = None
    rank = (len(study.tasks), True)
    for task in study.tasks:
        if task.id in seen or task.id in full:
            continue
        this = (pairs[frozenset((task.left, task.right))], task.prompt in prompts)
        if this < rank or best is None:
            best, rank = task, this
    return best


def _turns(number: int, every: int, salt: str) -> int:
    """How many checks are due up to the pair with this number: one in `every`, at places of each annotator's own."""
    if not every:
        return 0
    first = 1 + _hash(salt) % every
    return 0 if number < first else (number - first) // every + 1


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
