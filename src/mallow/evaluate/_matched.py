"""A score of samples matched in length or in a different covariate: how much of the gap does it explain?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mallow.caveats import unique_caveats
from mallow.engine import settle
from mallow.errors import Caveat, InputError
from mallow.evaluate._comparison import Difference, ScoredSystems, score_cells, score_record
from mallow.evaluate._gaps import subtract_scores
from mallow.evaluate._run import Settings
from mallow.evaluate._score import Score, score_embedded
from mallow.evidence import measure_for
from mallow.results import TableData, p_text
from mallow.samples import Samples
from mallow.theory import Array

_BINS = 20  # chosen: for a numeric covariate. Each bin holds a twentieth of both sides together
_FEWEST = 100  # chosen: samples of each side that must remain

Indices = NDArray[np.int64]


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

    def _table(self) -> TableData:
        columns = [
            "certified\nMAUVE",
            "95% upper\nbound",
            "integral\nat least",
            "p-value\n(no gap)",
            "published\nMAUVE",
        ]
        columns.append("samples")
        return TableData(
            ["", *columns], [[name, *score_cells(score, columns)] for name, score in self._scored().items()]
        )

    def _records(self) -> list[dict[str, Any]]:
        return [{"samples": name, **score_record(score)} for name, score in self._scored().items()]

    def _also(self) -> dict[str, Any]:
        return {"verdict": self.verdict, "explained": self.explained}


def score_matched(x: Samples, y: Samples, match: Any, settings: Settings) -> MatchedScore:
    """The score of samples that agree in a covariate, without warnings.

    Samples are kept so that the covariate has the same distribution on both sides: in each of its categories (twenty
    ranges, for a number), the share that both sides have. The choice depends only on the covariate, never on texts or
    features, so the certificate and the p-value of the matched samples are valid. The comparison is with a random
    subset of the same size, because fewer samples always certify less.

    Parameters
    ----------
    x, y : Samples
        The reference and the model, with features.
    match : "length", pair of sequences, or dict
        The values for the reference and for the model, with a name as ``{name: pair}``.
    settings : Settings
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
