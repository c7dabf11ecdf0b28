"""The content of a page: a comparison, diagnoses of samples that are embedded once, and the caveats of all results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mallow.embed import AnyEmbedder, suggest_embedder
from mallow.errors import Caveat, InputError, each_once
from mallow.estimate import Quantize
from mallow.evaluate import Comparison, Score, Settings, compare_pairs, embed_pairs
from mallow.evidence import MAUVE_STAR, Measure
from mallow.explain import Diagnosis, diagnose_embedded
from mallow.theory import extrapolated

Scored = Comparison | Score | Mapping[str, Score]


def as_comparison(results: Scored) -> Comparison:
    """The comparison itself; scores become a comparison without tested differences."""
    if isinstance(results, Comparison):
        _refuse_evidence_only(results.scores)
        return results
    scores = {"model": results} if isinstance(results, Score) else results
    if not (isinstance(scores, Mapping) and scores and all(isinstance(score, Score) for score in scores.values())):
        raise InputError(
            "`comparison` must be a Comparison, a Score, or a mapping of names to Scores; got "
            f"{type(results).__name__}."
        )
    _refuse_evidence_only(scores)
    # Without a certified value, the bound is 1.
    areas = {name: score.certified["mauve"].value if score.certified else 1.0 for name, score in scores.items()}
    order = sorted(scores, key=lambda name: (-areas[name], -scores[name].mauve))
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


def _refuse_evidence_only(scores: Mapping[str, Score]) -> None:
    for score in scores.values():
        if not score.is_published:
            raise InputError(
                "A report shows published scores, and these samples have none: they were compared by style or texture "
                f"(--fast). Compare them with {suggest_embedder(score.signature.embedder)}."
            )


def collect_caveats(comparison: Comparison, diagnoses: Mapping[str, Diagnosis] | None = None) -> tuple[Caveat, ...]:
    """The caveats of a comparison and of the diagnoses of its systems, each one once."""
    caveats = list(comparison.caveats)
    for name, diagnosis in (diagnoses or {}).items():
        caveats += _caveats_of(name, diagnosis.caveats)
    return each_once(caveats)


def _caveats_of(name: str, caveats: Iterable[Caveat]) -> list[Caveat]:
    """The caveats of a result about one unnamed model, with `name` as their system."""
    return [replace(caveat, system=name) if caveat.system in (None, "model") else caveat for caveat in caveats]


# Examples of each side of a cluster; chosen: a row of small pictures, a few texts.
_EXAMPLES = {"image": 6, "text": 3, "audio": 3, "features": 3}


def compare_and_diagnose(
    reference: Any,
    systems: Mapping[str, Any],
    *,
    measure: Measure | str = MAUVE_STAR,
    embedder: AnyEmbedder | str | None = None,
    paired: bool = False,
    prompts: str = "joint",
    repeats: int = 5,
    rng: int | np.random.Generator | None = 0,
) -> tuple[Comparison, dict[str, Diagnosis]]:
    """A comparison of several systems and a diagnosis of each, for `html` and `write`. Nothing is embedded twice.

    The results come from `mallow.compare` and `mallow.diagnose`, with six examples for images. Caveats are in the
    results, without warnings. A measure that cannot be split into bins has no diagnoses.

    Parameters
    ----------
    reference :
        The real data, as in `mallow.compare`.
    systems :
        Name → samples of a system, as in `mallow.compare`.
    measure :
        Estimator, divergence and scale, as in `mallow.compare`.
    embedder :
        The embedder, by name or as an object. None takes the default for the kind of samples, as in `mallow.compare`.
    paired :
        Whether row i of each set belongs to row i of the others, as in `mallow.compare`.
    prompts :
        "joint": evidence is about texts with their prompts; "ignore": without, as in `mallow.compare`.
    repeats :
        How many clusterings are averaged, as in `mallow.compare`.
    rng :
        The seed of the clusterings, as in `mallow.compare`.
    """
    settings = Settings.checked(measure, repeats, rng)
    measure = settings.measure
    pairs = embed_pairs(reference, systems, embedder, measure, paired=paired, prompts=prompts)
    comparison = compare_pairs(pairs, settings)
    if not isinstance(measure.estimator, Quantize) or measure.estimator.smoothing is extrapolated:
        return comparison, {}
    return comparison, {
        name: diagnose_embedded(
            human,
            samples,
            measure=measure,
            examples=_EXAMPLES[human.kind],
            seed=settings.seed,
            evidence=comparison.scores[name].evidence,
        )
        for name, (human, samples) in pairs.items()
    }
