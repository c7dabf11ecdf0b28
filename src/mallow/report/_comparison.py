"""What is shown: a comparison, or scores that were never compared."""

from __future__ import annotations

from collections.abc import Mapping

from mallow.errors import InputError
from mallow.evaluate import Comparison, Score

__all__ = ["Scored", "as_comparison"]

Scored = Comparison | Score | Mapping[str, Score]


def as_comparison(given: Scored) -> Comparison:
    """A comparison as it is; scores without a comparison as one that tests nothing."""
    if isinstance(given, Comparison):
        return given
    scores = {"model": given} if isinstance(given, Score) else given
    if not (isinstance(scores, Mapping) and scores and all(isinstance(one, Score) for one in scores.values())):
        raise InputError(
            f"`comparison` must be a Comparison, a Score, or a mapping of names to Scores; got {type(given).__name__}."
        )
    order = sorted(scores, key=lambda name: -scores[name].mauve)
    alone = len(order) == 1
    said = {name: scores[name].warnings for name in order}
    return Comparison(
        scores={name: scores[name] for name in order},
        differences=(),
        ranks={},
        groups=(),
        variance={},
        baseline=None,
        signature=scores[order[0]].signature,
        warnings=tuple(text if alone else f"{name}: {text}" for name, each in said.items() for text in each),
    )
