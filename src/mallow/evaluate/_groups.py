"""The score of each group of samples, such as a topic or a language, with p-values corrected for their number."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mallow.caveats import rename_system, unique_caveats
from mallow.errors import Caveat, InputError
from mallow.evaluate._comparison import ScoredSystems, score_cells, score_record
from mallow.evaluate._order import LEVEL
from mallow.evaluate._run import Settings
from mallow.evaluate._score import Score, score_embedded
from mallow.evidence import holm
from mallow.results import TableData, join_names, p_number
from mallow.samples import Samples

_FEWEST = 30  # chosen: samples of each side in a scored group; with fewer, nothing can be certified


@dataclass(frozen=True, eq=False, repr=False)
class GroupScores(ScoredSystems):
    """The score of each group.

    Attributes
    ----------
    scores : dict
        Group → Score, the largest certified gap first.
    adjusted : dict
        Group → p-value of "no gap in this group" after Holm's correction over all groups.
    skipped : dict
        Group → samples of the reference and of the model, for groups with too few to be scored.
    caveats : tuple of Caveat
        Reasons for doubt about any of the scores.
    """

    KIND: ClassVar[str] = "group scores"

    scores: dict[str, Score]
    adjusted: dict[str, float]
    skipped: dict[str, tuple[int, int]]
    caveats: tuple[Caveat, ...] = ()

    def __repr__(self) -> str:
        certified = (f"{name} {score.certified['mauve'].value:.4f}" for name, score in self.scores.items())
        return f"GroupScores({', '.join(certified)})"

    @property
    def with_gap(self) -> tuple[str, ...]:
        """The groups in which a gap is proven, at the 5% level corrected for all groups."""
        return tuple(name for name in self.scores if self.adjusted[name] < LEVEL)

    @property
    def verdict(self) -> str:
        """The groups with a proven gap, in a sentence."""
        count, level = len(self.scores), "(5% level, corrected for all groups)"
        if not self.with_gap:
            return f"No gap is proven in any group {level}."
        if len(self.with_gap) == count:
            every = {1: "the only group", 2: "both groups"}.get(count, f"all {count} groups")
            return f"A gap is proven in {every} {level}."
        return f"A gap is proven in {len(self.with_gap)} of {count} groups {level}: {join_names(self.with_gap)}."

    def _table(self) -> TableData:
        first, last = ["certified\nMAUVE", "95% upper\nbound"], ["published\n(self-score)", "samples"]
        rows = [
            [name, *score_cells(score, first), p_number(self.adjusted[name]), *score_cells(score, last)]
            for name, score in self.scores.items()
        ]
        rows += [[name, "–", "–", "–", "–", f"{n:,} and {m:,}"] for name, (n, m) in self.skipped.items()]
        head = ["group", *first, "corrected p-value\n(no gap)", *last]
        return TableData(head, rows, breaks=[len(self.scores)] if self.skipped else [])

    def _records(self) -> list[dict[str, Any]]:
        records = []
        for name, score in self.scores.items():
            values = score_record(score)
            sizes = {side: values.pop(side) for side in ("n", "m")}
            records.append({"group": name, **values, "adjusted": self.adjusted[name], **sizes})
        return records

    def _also(self) -> dict[str, Any]:
        return {"verdict": self.verdict, "with_gap": list(self.with_gap)}


def score_groups(x: Samples, y: Samples, groups: Any, settings: Settings) -> GroupScores:
    """The score of each group of samples that have features, without warnings.

    Parameters
    ----------
    x, y : Samples
        The reference and the model.
    groups : pair of sequences
        The groups of all samples of the reference, and of the model.
    settings : Settings
    """
    labels = _labels(groups, x, y)
    counts = [Counter(of_side.tolist()) for of_side in labels]
    names = sorted(set(counts[0]) | set(counts[1]))
    sizes = {name: (counts[0][name], counts[1][name]) for name in names}
    scored = [name for name in names if min(sizes[name]) >= _FEWEST]
    if not scored:
        raise InputError(
            f"`by` must have a group with at least {_FEWEST} samples on each side, but the largest of {len(names)} has "
            f"{max(map(min, sizes.values()))}. Join small groups, or use more samples."
        )
    scores = {
        name: score_embedded(
            x.take(np.flatnonzero(labels[0] == name)),
            y.take(np.flatnonzero(labels[1] == name)),
            settings,
        )
        for name in scored
    }
    order = sorted(scores, key=lambda name: (scores[name].certified["mauve"].value, scores[name].mauve))
    adjusted = dict(zip(scored, holm([scores[name].p_value for name in scored]), strict=True))
    caveats = [caveat for name in order for caveat in rename_system(scores[name].caveats, name)]
    return GroupScores(
        scores={name: scores[name] for name in order},
        adjusted={name: adjusted[name] for name in order},
        skipped={name: sizes[name] for name in names if name not in scores},
        caveats=unique_caveats(caveats),
    )


def _labels(groups: Any, x: Samples, y: Samples) -> list[Any]:
    if not isinstance(groups, tuple | list) or len(groups) != 2:
        raise InputError("`by` must be a column or a pair of sequences: the groups of the reference and of the model.")
    for side, labels, called in ((x, groups[0], "reference"), (y, groups[1], "model")):
        if len(labels) != len(side):
            raise InputError(
                f"`by` must have an entry for each of the {len(side)} {called} samples; got {len(labels)}."
            )
    return [np.array([str(label) for label in labels], dtype=object) for labels in groups]
