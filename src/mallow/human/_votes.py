"""Votes: the answer of one annotator to one question about one pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mallow._optional import did_you_mean
from mallow.errors import InputError

Kind = Literal["task", "gold", "repeat"]
KINDS: tuple[Kind, ...] = ("task", "gold", "repeat")


@dataclass(frozen=True)
class Vote:
    """One answer of one annotator to one question about one pair.

    Attributes
    ----------
    left : str
        The system that was shown on the left.
    right : str
        The system that was shown on the right.
    answer : int
        −2 definitely left, −1 slightly left, 0 tie, 1 slightly right, 2 definitely right.
    question : str
        The question, such as "human-like".
    annotator : str
        The name of the annotator; "" if not known.
    prompt : str
        The prompt of both continuations; "" if not known.
    seconds : float or None
        The time spent on the page, the same for all its questions. None if it was not measured.
    kind : str
        "task"; "gold", whose answer is known; "repeat", a pair shown again to the same annotator.
    task : str
        The name of the pair of texts; "" if it has none.
    judge : bool
        Whether a program answered, such as a language model.
    expected : int or None
        The known answer of a gold pair.
    left_length : float or None
        The length of the left text, in words or tokens.
    right_length : float or None
        The length of the right text, in words or tokens.
    when : str
        The time of the answer in ISO form, or "".

    Examples
    --------
    >>> Vote("small", "large", 1, "human-like", "ann", "17", 48.0).winner
    'large'
    """

    left: str
    right: str
    answer: int
    question: str
    annotator: str
    prompt: str
    seconds: float | None
    kind: str = "task"
    task: str = ""
    judge: bool = False
    expected: int | None = None
    left_length: float | None = None
    right_length: float | None = None
    when: str = ""

    def __post_init__(self) -> None:
        if self.left == self.right:
            raise InputError(f"`left` and `right` must be two systems, but both are {self.left!r}.")
        for name in ("answer", "expected"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not (whole and -2 <= value <= 2) and (name == "answer" or value is not None):
                raise InputError(
                    f"`{name}` must be −2 (definitely left), −1, 0 (tie), 1 or 2 (definitely right); got {value!r}."
                )
        if self.kind not in KINDS:
            raise InputError(f"`kind` must be one of {', '.join(KINDS)}; got {self.kind!r}.")

    @property
    def winner(self) -> str | None:
        """The system that was preferred; None for a tie."""
        return None if self.answer == 0 else self.left if self.answer < 0 else self.right

    @property
    def points(self) -> float:
        """The points of the left side: 1, 0, or 1/2 for a tie."""
        return 0.5 if self.answer == 0 else float(self.answer < 0)

    @property
    def pair(self) -> tuple[str, str]:
        """Both systems in alphabetical order."""
        return (self.left, self.right) if self.left < self.right else (self.right, self.left)


@dataclass(frozen=True)
class Votes:
    """Votes, and the counts of dropped ones.

    Attributes
    ----------
    votes : tuple of Vote
    left_out : dict
        Question → reason → the number of votes left out for it; "" is for all questions.
    source : str
        The source of the votes, for messages.

    Examples
    --------
    >>> votes = Votes(tuple(Vote("a", "b", answer, "sensible", "ann", "1", 40.0) for answer in (-2, 1)))
    >>> votes.systems, votes.questions, len(votes)
    (('a', 'b'), ('sensible',), 2)
    """

    votes: tuple[Vote, ...]
    left_out: dict[str, dict[str, int]] = field(default_factory=dict)
    source: str = "the votes"

    def __len__(self) -> int:
        return len(self.votes)

    def __iter__(self) -> Iterator[Vote]:
        return iter(self.votes)

    @property
    def dropped(self) -> dict[str, int]:
        """Reason → the number of votes left out for it."""
        total: Counter[str] = Counter()
        for reasons in self.left_out.values():
            total.update(reasons)
        return dict(total)

    @property
    def systems(self) -> tuple[str, ...]:
        """The names of the systems, in alphabetical order."""
        return tuple(sorted({name for vote in self.votes for name in (vote.left, vote.right)}))

    @property
    def questions(self) -> tuple[str, ...]:
        """The questions, in the order of their first vote."""
        return tuple(dict.fromkeys(vote.question for vote in self.votes))

    @property
    def annotators(self) -> tuple[str, ...]:
        """The known people, in alphabetical order."""
        return tuple(sorted({vote.annotator for vote in self.votes if vote.annotator and not vote.judge}))

    @property
    def judges(self) -> tuple[str, ...]:
        """The judges that are programs, in alphabetical order."""
        return tuple(sorted({vote.annotator for vote in self.votes if vote.judge}))

    def of(self, question: str | None) -> Votes:
        """The votes on one question; None: the only one."""
        if question is None:
            if len(self.questions) > 1:
                raise InputError(
                    f"`question` must name one of the questions of {self.source}: {', '.join(self.questions)}."
                )
            return self
        if question not in self.questions and question not in self.left_out:
            questions = ", ".join(self.questions) or "none"
            hint = did_you_mean(question, self.questions)
            raise InputError(f"`question` must be one of {questions}; got {question!r}.{hint}")
        chosen = tuple(vote for vote in self.votes if vote.question == question)
        return replace(self, votes=chosen, left_out={q: self.left_out[q] for q in ("", question) if q in self.left_out})

    def without(self, annotators: Collection[str]) -> Votes:
        """The votes of all other annotators. The votes of these are counted as dropped."""
        unknown = sorted(set(annotators) - {vote.annotator for vote in self.votes})
        if unknown:
            raise InputError(f"`annotators` must have voted; {unknown[0]!r} did not.")
        return self.drop("of excluded annotators", [vote.annotator in annotators for vote in self.votes])

    def drop(self, reason: str, which: Iterable[bool]) -> Votes:
        """The votes that are not marked. The others are counted as dropped for this reason."""
        marks = list(which)
        counts = {question: dict(reasons) for question, reasons in self.left_out.items()}
        for vote, out in zip(self.votes, marks, strict=True):
            if out:
                of_question = counts.setdefault(vote.question, {})
                of_question[reason] = of_question.get(reason, 0) + 1
        kept = tuple(vote for vote, out in zip(self.votes, marks, strict=True) if not out)
        return replace(self, votes=kept, left_out=counts)

    def people(self) -> Votes:
        """The votes of people on tasks: without judges, gold pairs and repeats, which are counted as dropped."""
        votes = self.drop("by a judge, not a person", [vote.judge for vote in self.votes])
        votes = votes.drop("on gold pairs", [vote.kind == "gold" for vote in votes])
        return votes.drop("on repeated pairs", [vote.kind == "repeat" for vote in votes])

    def to_rows(self) -> list[dict[str, Any]]:
        """One plain dict per vote, as in votes.jsonl."""
        return [asdict(vote) for vote in self.votes]


def number_systems(
    votes: Sequence[Vote],
) -> tuple[tuple[str, ...], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The names of the systems, and for each vote the numbers of both systems and the points of the left one."""
    names = Votes(tuple(votes)).systems
    numbers = {name: number for number, name in enumerate(names)}
    left, right = (np.array([numbers[getattr(vote, side)] for vote in votes], int) for side in ("left", "right"))
    return names, left, right, np.array([vote.points for vote in votes])
