"""What is shown: a comparison, or scores without one; and the caveats of all results together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mallow.errors import Caveat, InputError
from mallow.evaluate import Comparison, Score
from mallow.explain import Diagnosis

Scored = Comparison | Score | Mapping[str, Score]


def as_comparison(results: Scored) -> Comparison:
    """A comparison as it is; scores without a comparison as one in which no difference was tested."""
    if isinstance(results, Comparison):
        return results
    scores = {"model": results} if isinstance(results, Score) else results
    if not (isinstance(scores, Mapping) and scores and all(isinstance(score, Score) for score in scores.values())):
        raise InputError(
            f"`comparison` must be a Comparison, a Score, or a mapping of names to Scores; got {type(results).__name__}."
        )
    order = sorted(scores, key=lambda name: (-_certified_area(scores[name]), -scores[name].mauve))
    return Comparison(
        scores={name: scores[name] for name in order},
        differences=(),
        ranks={},
        groups=(),
        variance={},
        baseline=None,
        signature=scores[order[0]].signature,
        caveats=tuple(caveat for name in order for caveat in _caveats_of(name, scores[name].caveats)),
    )


def _certified_area(score: Score) -> float:
    """Where nothing was certified, nothing is known: 1."""
    return score.certified["mauve"].value if score.certified else 1.0


def collect_caveats(comparison: Comparison, diagnoses: Mapping[str, Diagnosis] | None = None) -> tuple[Caveat, ...]:
    """The caveats of a comparison and of the diagnoses of its systems, each one once."""
    caveats = list(comparison.caveats)
    for name, diagnosis in (diagnoses or {}).items():
        caveats += _caveats_of(name, diagnosis.caveats)
    return tuple({(caveat.system, caveat.message): caveat for caveat in caveats}.values())


def _caveats_of(name: str, caveats: Iterable[Caveat]) -> list[Caveat]:
    """Caveats of a result about one model, which does not know its name, as those of the system `name`."""
    return [replace(caveat, system=name) if caveat.system in (None, "model") else caveat for caveat in caveats]
