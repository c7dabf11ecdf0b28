"""A comparison of two gaps: is (reference 1, model 1) farther apart than (reference 2, model 2)?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mallow.caveats import rename_system, unique_caveats
from mallow.embed import AnyEmbedder, embed_all
from mallow.errors import Caveat, InputError, warn_about
from mallow.evaluate._comparison import Difference
from mallow.evaluate._run import Settings
from mallow.evaluate._score import Score, score_embedded
from mallow.evaluate._systems import CERTIFIED, ScoredSystems
from mallow.evidence import (
    LEVEL,
    MAUVE_STAR,
    Certificate,
    Evidence,
    Measure,
    find_units,
    measure_for,
    pair_columns,
    subtract_certificates,
)
from mallow.results import p_text
from mallow.samples import Samples
from mallow.theory import Array


@dataclass(frozen=True, eq=False, repr=False)
class GapDifference(ScoredSystems):
    """Two gaps, each between its own reference and model, and their difference.

    Attributes
    ----------
    scores : dict
        Name → Score of each pair, at equal sizes.
    difference : Difference
        The difference of the certified summaries, first minus second, with a 95% interval and a p-value for "equally
        large".
    left_out : tuple of int
        How many samples of each pair were left out to make the sizes equal.
    caveats : tuple of Caveat
        Reasons for doubt.
    """

    KIND: ClassVar[str] = "gap difference"
    ALSO = ("verdict", "larger")
    COLUMNS = (*CERTIFIED, "p-value\n(no gap)", "published\nMAUVE", "samples")

    scores: dict[str, Score]
    difference: Difference
    left_out: tuple[int, int]
    caveats: tuple[Caveat, ...] = ()

    def __repr__(self) -> str:
        gap = self.difference
        return (
            f"GapDifference({gap.first} − {gap.second}: {gap.difference['mauve']:+.4f}, {p_text(gap.p_value['mauve'])})"
        )

    @property
    def larger(self) -> str | None:
        """The pair with the larger gap; None if they do not differ at the 5% level."""
        gap = self.difference
        if gap.p_value["mauve"] >= LEVEL:
            return None
        return gap.second if gap.better == gap.first else gap.first

    @property
    def verdict(self) -> str:
        """Which gap is larger, by how much, and with which certainty."""
        gap = self.difference
        low, high = gap.interval["mauve"]
        amount = (
            f"certified MAUVE of {gap.first} minus that of {gap.second} is {gap.difference['mauve']:+.4f} "
            f"(95% interval {low:+.4f} to {high:+.4f}, {p_text(gap.p_value['mauve'])})."
        )
        if self.larger is None:
            return f"Neither gap was shown to be larger: {amount}"
        return f"The gap of {self.larger} is larger: {amount}"

    def _records(self) -> list[dict[str, Any]]:
        gap = self.difference
        return [
            {
                "summary": name,
                "first": self.scores[gap.first].certified[name].value,
                "second": self.scores[gap.second].certified[name].value,
                "difference": value,
                "low": gap.interval[name][0],
                "high": gap.interval[name][1],
                "p_value": gap.p_value[name],
            }
            for name, value in gap.difference.items()
        ]


def compare_gaps(
    pairs: Mapping[str, tuple[Any, Any]],
    *,
    measure: Measure | str = MAUVE_STAR,
    embedder: AnyEmbedder | str | None = None,
    repeats: int = 5,
    rng: int | np.random.Generator | None = 0,
) -> GapDifference:
    """Which of two gaps is larger, each between its own reference and model.

    For example, is the model farther from people in German than the same (or a different) model in English? Each gap
    gets its own held-out evidence. The errors of both are errors of means over units, and units that occur in both
    pairs, by their ids, count once. Evidence depends on the sizes, so the larger pair is cut to the size of the smaller
    pair, by units, chosen by a hash. It also depends on the spaces, such as prompts, so only shared spaces count.

    Parameters
    ----------
    pairs : mapping name → (reference, model)
        Two pairs, with samples of any kind that `score` takes.
    measure :
        Estimator, divergence and scale, as in `score`.
    embedder :
        The embedder for the samples of both pairs, as in `score`. Samples without ids and prompts are independent.
    repeats :
        How many clusterings are averaged, as in `score`.
    rng :
        The seed of the clusterings, as in `score`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> german, english = rng.normal(size=(2, 1000, 8))
    >>> far, near = rng.normal(0.5, 1.0, size=(1000, 8)), rng.normal(0.1, 1.0, size=(1000, 8))
    >>> compare_gaps({"German": (german, far), "English": (english, near)}).larger
    'German'
    """
    settings = Settings.checked(measure, repeats, rng)
    if not isinstance(pairs, Mapping) or len(pairs) != 2 or any(len(pair) != 2 for pair in pairs.values()):
        raise InputError("`pairs` must map two names to (reference, model) each; got something else.")
    sides = {
        name: tuple(
            samples.load()
            for samples in embed_all({f"{name}, reference": x, f"{name}, model": y}, embedder, prompts="joint").values()
        )
        for name, (x, y) in pairs.items()
    }
    sizes = [min(len(pair[side]) for pair in sides.values()) for side in (0, 1)]
    cut = {name: _first_units(pair[0], pair[1], (sizes[0], sizes[1])) for name, pair in sides.items()}
    cut = _with_shared_spaces(cut)
    left_out = [sum(map(len, sides[name])) - sum(map(len, cut[name])) for name in sides]
    settings = replace(settings, measure=measure_for(settings.measure, next(iter(cut.values()))[0]))
    scores = {name: score_embedded(*pair, settings) for name, pair in cut.items()}
    caveats = [caveat for name, score in scores.items() for caveat in rename_system(score.caveats, name)]
    result = GapDifference(
        scores, subtract_scores(scores, settings.measure), (left_out[0], left_out[1]), unique_caveats(caveats)
    )
    warn_about(result.caveats)
    return result


def _with_shared_spaces(pairs: Mapping[str, tuple[Samples, Samples]]) -> dict[str, tuple[Samples, Samples]]:
    """The pairs, with only the spaces in which evidence looks at both."""
    first, second = (pair_columns(*pair)[1] for pair in pairs.values())
    if first == second:
        return dict(pairs)
    shared = {name for name, width in first.items() if second.get(name) == width}
    shared |= {"prompt"} if "prompts" in shared else set()  # the features of prompts go with them

    def only_shared(samples: Samples) -> Samples:
        spaces = {name: rows for name, rows in (samples.spaces or {}).items() if name in shared}
        return Samples.trusted(**vars(samples) | {"spaces": spaces})

    return {name: (only_shared(x), only_shared(y)) for name, (x, y) in pairs.items()}


def subtract_scores(scores: Mapping[str, Score], measure: Measure) -> Difference:
    """The certified summaries of the first score minus the second, with units identified by their keys."""
    (first, one), (second, other) = scores.items()
    if one.evidence is None or other.evidence is None:
        raise InputError("`scores` must have evidence. Scores of a Monitor have none.")
    every = np.unique(np.concatenate([one.evidence.keys, other.evidence.keys]))
    gap = subtract_certificates(_on_units(one.evidence, measure, every), _on_units(other.evidence, measure, every))
    return Difference(first, second, gap.value, gap.interval, gap.p_value, gap.p_value)


def _on_units(evidence: Evidence, measure: Measure, keys: Any) -> Certificate:
    """The certificate of a pair, with its influence on units that are numbered by the keys of both pairs."""
    certificate = evidence.certify(measure.divergence, measure.area_scale)
    influence: Array = np.zeros((len(keys), certificate.influence.shape[1]))
    np.add.at(influence, np.searchsorted(keys, evidence.keys), certificate.influence)
    return replace(certificate, influence=influence)


def _first_units(reference: Samples, model: Samples, sizes: tuple[int, int]) -> tuple[Samples, Samples]:
    """The samples of the units with the smallest keys, which are hashes, up to this many of each side."""
    units = find_units(reference, model)
    cut = []
    for samples, numbers, size in zip((reference, model), units.sets, sizes, strict=True):
        order = np.argsort(units.keys[numbers], kind="stable")[:size]
        cut.append(samples if size >= len(samples) else samples.take(np.sort(order)))
    return cut[0], cut[1]
