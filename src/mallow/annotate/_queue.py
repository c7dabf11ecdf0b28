"""Chooses the next pair of a study for each annotator."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mallow.human import Study

_MOST_FINISHED = 64  # finished tasks skipped at each choice before the list is rebuilt; chosen
_APART = 5  # pairs between a pair and its repetition, so that the answer is not just remembered; chosen


@dataclass(frozen=True)
class Given:
    """A pair that an annotator is given, or was given before: the task, its kind and the state of the assignment."""

    task: str
    kind: str
    state: str = "open"


class Queue:
    """The tasks of a study in their order; chooses the next task for each annotator."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._pair = {task.id: frozenset((task.left, task.right)) for task in study.tasks}
        self._prompt = {task.id: task.prompt for task in study.tasks}
        self._pairs = set(self._pair.values())
        self._finished: set[str] = set()
        self._waiting = [task.id for task in study.tasks]

    def finish(self, task: str) -> None:
        """Note that a task has all its votes. It never loses them, so it is not considered again."""
        self._finished.add(task)
        if len(self._finished) > min(_MOST_FINISHED, len(self._waiting) // 4):
            self._waiting = [id_ for id_ in self._waiting if id_ not in self._finished]
            self._finished.clear()

    def choose(self, annotator: str, history: Sequence[Given], is_full: Callable[[str], bool]) -> Given | None:
        """The next pair of an annotator; None if there is none.

        Only tasks with room that the annotator has not seen are considered. First come tasks whose pair of systems
        the annotator has judged least often, among these tasks with a new prompt, and then the order of the study
        decides.

        Parameters
        ----------
        history : sequence of Given
            In the order in which they were given.
        is_full : function
            Whether a task has, or is about to get, all its votes.
        """
        regular = self._regular(history, is_full)
        if regular is None:
            return None
        study = self._study
        judged = sum(given.state in ("done", "late") for given in history)
        number = judged + 1  # of the pair to come
        seen = {given.task for given in history if given.kind == "gold"}
        if len(seen) < _turns(number, study.checks.gold_every, f"gold {annotator}"):
            order = sorted((task.id for task in study.gold), key=lambda id_: _hash(f"{annotator} {id_}"))
            unseen = [id_ for id_ in order if id_ not in seen]
            if unseen:
                return Given(unseen[0], "gold")
        again = {given.task for given in history if given.kind == "repeat"}
        if len(again) < _turns(number, study.checks.repeat_every, f"repeat {annotator}"):
            done = [given.task for given in history if given.kind == "task" and given.state == "done"]
            old = [id_ for id_ in done[: max(0, len(done) - _APART)] if id_ not in again]
            if old:
                return Given(old[_hash(f"{annotator} {number}") % len(old)], "repeat")
        return Given(regular, "task")

    def _regular(self, history: Sequence[Given], is_full: Callable[[str], bool]) -> str | None:
        seen = {given.task for given in history if given.kind == "task"}
        counts = Counter(self._pair[id_] for id_ in seen)
        prompts = {self._prompt[id_] for id_ in seen}
        for level in sorted({counts[pair] for pair in self._pairs}):
            second_best = None
            for id_ in self._waiting:  # `finish` may replace the list, but does not change this one
                if counts[self._pair[id_]] != level or id_ in seen or id_ in self._finished or is_full(id_):
                    continue
                if self._prompt[id_] not in prompts:
                    return id_
                second_best = second_best or id_
            if second_best is not None:
                return second_best
        return None


def _turns(number: int, every: int, salt: str) -> int:
    """How many checks are due up to the pair with this number: one in `every`, at places that differ between
    annotators."""
    if not every:
        return 0
    first = 1 + _hash(salt) % every
    return 0 if number < first else (number - first) // every + 1


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
