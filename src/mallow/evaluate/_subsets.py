"""Scores of parts of the samples: of each group, such as a topic, and of samples matched in a covariate."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mallow.caveats import rename_system, unique_caveats
from mallow.engine import settle
from mallow.errors import Caveat, InputError
from mallow.evaluate._comparison import Difference
from mallow.evaluate._gaps import subtract_scores
from mallow.evaluate._run import Settings
from mallow.evaluate._score import Score, score_embedded
from mallow.evaluate._systems import CERTIFIED, ScoredSystems, score_cells, score_record
from mallow.evidence import LEVEL, holm, measure_for
from mallow.results import TableData, join_names, p_number, p_text
from mallow.samples import Samples
from mallow.theory import Array

_BINS = 20  # chosen: for a numeric covariate. Each bin holds a twentieth of both sides together
_FEWEST = 100  # chosen: samples of each side that must remain
Indices = NDArray[np.int64]

_LEAST = 30  # chosen: samples of each side in a scored group; with fewer, nothing can be certified


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
    ALSO = ("verdict", "with_gap")

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
        last = ["published\n(self-score)", "samples"]
        rows = [
            [name, *score_cells(score, CERTIFIED), p_number(self.adjusted[name]), *score_cells(score, last)]
            for name, score in self.scores.items()
        ]
        rows += [[name, "–", "–", "–", "–", f"{n:,} and {m:,}"] for name, (n, m) in self.skipped.items()]
        head = ["group", *CERTIFIED, "corrected p-value\n(no gap)", *last]
        return TableData(head, rows, breaks=[len(self.scores)] if self.skipped else [])

    def _records(self) -> list[dict[str, Any]]:
        records = []
        for name, score in self.scores.items():
            values = score_record(score)
            sizes = {side: values.pop(side) for side in ("n", "m")}
            records.append({"group": name, **values, "adjusted": self.adjusted[name], **sizes})
        return records


def score_groups(x: Samples, y: Samples, groups: Any, settings: Settings) -> GroupScores:
    """The score of each group, without warnings; x is the reference and y the model, with features."""
    labels = _labels(groups, x, y)
    counts = [Counter(of_side.tolist()) for of_side in labels]
    names = sorted(set(counts[0]) | set(counts[1]))
    sizes = {name: (counts[0][name], counts[1][name]) for name in names}
    scored = [name for name in names if min(sizes[name]) >= _LEAST]
    if not scored:
        raise InputError(
            f"`by` must have a group with at least {_LEAST} samples on each side, but the largest of {len(names)} has "
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


@dataclass(frozen=True, eq=False, repr=False)
class MatchedScore(ScoredSystems):
    """A score before and after a covariate was matched.

    Attributes
    ----------
    covariate : str
        The name of the covariate.
    before : Score
        The score of all samples.
    same_size : Score
        The score of a random subset of the same size as the matched samples, for comparison.
    matched : Score
        The score of the matched samples.
    difference : Difference
        The difference of the certified summaries, matched minus random subset.
    kept : float
        The share of the samples that could be matched, a measure of the overlap of the covariate.
    means : dict
        The means of the covariate in the reference and the model, "before" and "matched"; empty for categories.
    caveats : tuple of Caveat
        Reasons for doubt.
    """

    KIND: ClassVar[str] = "matched score"
    ALSO = ("verdict", "explained")
    COLUMNS = (*CERTIFIED, "integral\nat least", "p-value\n(no gap)", "published\nMAUVE", "samples")

    covariate: str
    before: Score
    same_size: Score
    matched: Score
    difference: Difference
    kept: float
    means: dict[str, tuple[float, float]]
    caveats: tuple[Caveat, ...] = ()

    def __repr__(self) -> str:
        change = "not computed"
        if self.same_size.is_published:
            change = f"{self.same_size.mauve:.4f} → {self.matched.mauve:.4f}"
        return f"MatchedScore({self.covariate}: {change}, kept {self.kept:.0%})"

    @property
    def explained(self) -> float | None:
        """The share of the certified gap (its frontier integral) that disappears when the covariate is matched.

        None without a gap.
        """
        before, after = (score.certified["frontier_integral"].value for score in (self.same_size, self.matched))
        return None if before <= 0 else min(1.0, max(0.0, 1.0 - after / before))

    @property
    def verdict(self) -> str:
        """How much of the gap the covariate explains, and how much remains."""
        after, low, high = self.matched, *self.difference.interval["mauve"]
        left = (
            f"A gap is left at equal {self.covariate} ({p_text(after.p_value)})."
            if after.p_value < 0.05
            else f"At equal {self.covariate} no gap can be proven any more ({p_text(after.p_value)})."
        )
        if self.explained is None:
            nothing = f"so that {self.covariate} explains nothing of it"
            return f"Before matching no gap was certified at this size, {nothing}. {left}"
        change = f"certified MAUVE changes by {self.difference.difference['mauve']:+.4f} ({low:+.4f} to {high:+.4f})"
        share = f"About {self.explained:.0%} of the certified gap goes with {self.covariate}"
        return f"{share}: {change} when it is matched. {left}"

    def _scored(self) -> dict[str, Score]:
        return {"all samples": self.before, "same size, at random": self.same_size, "matched": self.matched}

    def _records(self) -> list[dict[str, Any]]:
        return [{"samples": name, **score_record(score)} for name, score in self._scored().items()]


def score_matched(x: Samples, y: Samples, match: Any, settings: Settings) -> MatchedScore:
    """The score of samples that agree in a covariate, without warnings.

    Samples are kept so that the covariate has the same distribution on both sides: in each of its categories (twenty
    ranges, for a number), the share that both sides have. The choice depends only on the covariate, never on texts or
    features, so the certificate and the p-value of the matched samples are valid. The comparison is with a random
    subset of the same size, because fewer samples always certify less. x is the reference and y the model, with
    features.
    """
    name, values = _covariate(match, x, y)
    chosen, kept = _match(values, np.random.default_rng([settings.seed, 21]))
    if min(map(len, chosen)) < 2:
        raise InputError(
            f"`match` leaves {len(chosen[0])} samples of the reference and {len(chosen[1])} of the model: {name} "
            "hardly overlaps. The sides cannot be compared at equal values."
        )
    settings = replace(settings, measure=measure_for(settings.measure, x))
    random = np.random.default_rng([settings.seed, 22])
    others = [np.sort(random.permutation(len(side))[: len(rows)]) for side, rows in zip((x, y), chosen, strict=True)]
    subsets = {"same": (x.take(others[0]), y.take(others[1])), "matched": (x.take(chosen[0]), y.take(chosen[1]))}
    before = score_embedded(x, y, settings)
    scores = {key: score_embedded(*pair, settings) for key, pair in subsets.items()}
    return MatchedScore(
        covariate=name,
        before=before,
        same_size=scores["same"],
        matched=scores["matched"],
        difference=subtract_scores({"matched": scores["matched"], "same size": scores["same"]}, settings.measure),
        kept=settle(kept, 6),
        means=_means(values, chosen),
        caveats=unique_caveats([*_few_left(chosen, name), *before.caveats]),
    )


def _few_left(chosen: tuple[Indices, Indices], name: str) -> list[Caveat]:
    fewest = min(map(len, chosen))
    if fewest >= _FEWEST:
        return []
    few = f"only {fewest} samples of a side are left at equal {name}"
    text = f"{few}: little can be certified about them. Use more samples."
    return [Caveat("few matched", text, values={"samples": fewest})]


def _covariate(match: Any, x: Samples, y: Samples) -> tuple[str, tuple[NDArray[Any], NDArray[Any]]]:
    """The name of the covariate, and its values on both sides: numbers, or names."""
    if isinstance(match, str) and match == "length":
        lengths = [np.array([len(text) for text in side.require_texts()], np.float64) for side in (x, y)]
        return match, (lengths[0], lengths[1])
    name, match = next(iter(match.items())) if isinstance(match, dict) and len(match) == 1 else ("covariate", match)
    if not isinstance(match, tuple | list) or len(match) != 2:
        raise InputError(
            "`match` must be 'length', a column, or a pair of sequences of values, of the reference and of the model, "
            "or {name: pair}."
        )
    for side, values, called in ((x, match[0], "reference"), (y, match[1], "model")):
        if len(values) != len(side):
            raise InputError(
                f"`match` must have a value for each of the {len(side)} {called} samples; got {len(values)}."
            )
    try:
        numbers = [np.asarray(list(values), np.float64) for values in match]
    except (TypeError, ValueError):
        names = [np.array([str(value) for value in values]) for values in match]
        return name, (names[0], names[1])
    if not all(np.isfinite(values).all() for values in numbers):
        raise InputError("`match` must have finite numbers, or names; got NaN or infinite values.")
    return name, (numbers[0], numbers[1])


def _categories(values: tuple[NDArray[Any], NDArray[Any]]) -> tuple[Indices, Indices]:
    """The category of each sample: its value, or its range if there are many different numbers."""
    pooled = np.concatenate(values)
    distinct, label = np.unique(pooled, return_inverse=True)
    if pooled.dtype.kind == "f" and len(distinct) > _BINS:
        share = [np.searchsorted(np.sort(of_side), distinct, side="right") / len(of_side) for of_side in values]
        label = np.minimum((_BINS * (share[0] + share[1]) / 2.0).astype(np.int64), _BINS - 1)[label]
    return label[: len(values[0])].astype(np.int64), label[len(values[0]) :].astype(np.int64)


def _match(
    values: tuple[NDArray[Any], NDArray[Any]], rng: np.random.Generator
) -> tuple[tuple[Indices, Indices], float]:
    """Which samples of both sides are kept, by the covariate only, and which share of them."""
    labels = _categories(values)
    count = int(max(of_side.max() for of_side in labels)) + 1
    shares = [np.bincount(of_side, minlength=count) / len(of_side) for of_side in labels]
    common = np.minimum(*shares)
    chosen = []
    for of_side in labels:
        wanted = _whole_parts(common * len(of_side))
        order = rng.permutation(len(of_side))
        rank: Array = np.empty(len(of_side))
        for label in range(count):  # the position of each sample within its category, in a random order
            members = order[of_side[order] == label]
            rank[members] = np.arange(len(members))
        chosen.append(np.flatnonzero(rank < wanted[of_side]))
    return (chosen[0], chosen[1]), float(common.sum())


def _whole_parts(parts: Array) -> Indices:
    """These numbers rounded down, except the largest fractions, so that the sum changes by less than one."""
    down = np.floor(parts + 1e-9)
    up = np.argsort(-(parts - down), kind="stable")[: round(float(parts.sum() - down.sum()))]
    down[up[parts[up] - down[up] > 1e-9]] += 1.0
    return down.astype(np.int64)


def _means(
    values: tuple[NDArray[Any], NDArray[Any]], chosen: tuple[Indices, Indices]
) -> dict[str, tuple[float, float]]:
    if values[0].dtype.kind != "f":
        return {}
    before = (float(values[0].mean()), float(values[1].mean()))
    after = (float(values[0][chosen[0]].mean()), float(values[1][chosen[1]].mean()))
    return settle({"before": before, "matched": after}, 6)
