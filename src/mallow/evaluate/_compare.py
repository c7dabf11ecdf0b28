"""Many systems against one reference: scores, paired differences, rank ranges, and where the variance comes from."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.embed import AnyEmbedder, all_features
from mallow.errors import EstimateWarning, InputError
from mallow.estimate import Quantize, checked_features, checked_pair
from mallow.evaluate._score import (
    MAUVE_STAR,
    SUMMARIES,
    Measure,
    Score,
    all_values,
    assembled,
    collected_doubts,
    described,
    evidence_of,
    generator,
    mean_frontier,
    noise_floor,
    repeated,
    say_doubts,
)
from mallow.inference import Evidence, holm, pair_difference, resampled
from mallow.results import draw, rendered
from mallow.samples import Samples
from mallow.theory import Masses, Partition

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Comparison", "Difference", "compare"]

_LEVEL = 0.05


@dataclass(frozen=True)
class Difference:
    """How much one system's score differs from another's, freed of most of the plug-in bias.

    Attributes
    ----------
    first, second : str
        The systems; differences are first minus second.
    difference : dict
        Of each summary.
    interval : dict
        A 95 % interval of each.
    p_value : dict
        Two-sided, for equal scores.
    adjusted : dict
        The p-values after Holm's correction over all pairs compared.
    """

    first: str
    second: str
    difference: dict[str, float]
    interval: dict[str, tuple[float, float]]
    p_value: dict[str, float]
    adjusted: dict[str, float]

    @property
    def significant(self) -> bool:
        """Whether the area differs at the 5 % level, after correction."""
        return self.adjusted["mauve"] < _LEVEL


@dataclass(frozen=True, eq=False)
class Comparison:
    """Scores of several systems and what can be said about their order.

    Attributes
    ----------
    scores : dict
        System → Score, best first.
    differences : tuple of Difference
        Of all pairs, or of all systems from the baseline where there is one.
    ranks : dict
        System → (best, worst): the ranks that are compatible with the significant differences. Empty with a baseline.
    groups : tuple of tuples
        Systems that cannot be told apart, best first; a system may stand in several. Empty with a baseline.
    variance : dict
        System → {"clustering", "sampling", "generation"}: the variance of its area. That of clustering is of a single
        repeat; "generation" is there when several generations for each prompt were given.
    baseline : str or None
    signature : str
    warnings : tuple of str
    """

    scores: dict[str, Score]
    differences: tuple[Difference, ...]
    ranks: dict[str, tuple[int, int]]
    groups: tuple[tuple[str, ...], ...]
    variance: dict[str, dict[str, float]]
    baseline: str | None
    signature: str
    warnings: tuple[str, ...]

    @property
    def winner(self) -> str | None:
        """The system that beats all others significantly; None inside the noise."""
        first = next(iter(self.scores))
        return first if len(self.scores) > 1 and self.ranks.get(first) == (1, 1) else None

    def __repr__(self) -> str:
        width = max(len(name) for name in self.scores)
        lines = []
        for name, one in self.scores.items():
            best, worst = self.ranks.get(name, (0, 0))
            rank = "" if not best else f"  rank {best}" if best == worst else f"  rank {best} to {worst}"
            lines.append(f"{name:<{width}}  {one.mauve:.4f}  std {one.std['mauve']:.4f}{rank}")
        return "\n".join(lines)

    @property
    def best(self) -> tuple[str, ...]:
        """The system with the highest score, and those that do not differ from it significantly."""
        first, *others = self.scores
        apart = {frozenset((one.first, one.second)) for one in self.differences if one.significant}
        return (first, *(other for other in others if frozenset((first, other)) not in apart))

    @property
    def verdict(self) -> str:
        """One sentence: who is closest to the reference, or that nobody can be named inside the noise."""
        first, tested = next(iter(self.scores)), "(5 % level, corrected for all pairs)"
        if len(self.scores) == 1:
            return f"{first} was compared with the reference only."
        if self.baseline is not None:
            return self._against(self.baseline)
        if self.winner is not None:
            return f"{self.winner} is closest to the reference: it beats every other system {tested}."
        if not self.differences:
            return f"No winner can be named: the differences were not tested. {first} has the highest score."
        return f"No winner can be named: {_listed(self.best)} cannot be told apart {tested}."

    def _against(self, baseline: str) -> str:
        sides: dict[str, list[str]] = {"closer to the reference": [], "farther from it": [], "not to be told apart": []}
        for one in self.differences:
            key = "not to be told apart"
            if one.significant:
                closer = (one.difference["mauve"] > 0) == (one.second == baseline)
                key = "closer to the reference" if closer else "farther from it"
            sides[key].append(one.second if one.first == baseline else one.first)
        parts = [
            f"{_listed(names)} {'is' if len(names) == 1 else 'are'} {key}" for key, names in sides.items() if names
        ]
        return f"Compared with {baseline}: {'; '.join(parts) or 'the differences were not tested'}."

    def table(self, form: str = "text", *, width: int | None = None) -> str:
        """Scores with their spread, interval, noise floor and rank, as "text", "markdown" or "latex".

        `width` is that of a terminal: a text that is wider becomes a paragraph a system.
        """
        rows = []
        for name, one in self.scores.items():
            pair = one.interval["mauve"]
            interval = "none near identity" if pair is None else f"{pair[0]:.4f} to {pair[1]:.4f}"
            best, worst = self.ranks.get(name, (0, 0))
            rank = "" if not best else f"{best}" if best == worst else f"{best} to {worst}"
            numbers = [f"{one.mauve:.4f}", f"{one.std['mauve']:.4f}", interval, f"{one.noise_floor['mauve']:.4f}"]
            rows.append([name, *numbers, rank])
        return rendered(form, ["", "MAUVE", "std", "95 % interval", "floor", "rank"], rows, width=width)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain numbers, strings, lists and dicts; `from_dict` gives the same comparison back."""
        return {
            "kind": "mallow comparison",
            "scores": {name: one.to_dict() for name, one in self.scores.items()},
            "differences": [asdict(one) for one in self.differences],
            "ranks": {name: list(pair) for name, pair in self.ranks.items()},
            "groups": [list(group) for group in self.groups],
            "variance": self.variance,
            "baseline": self.baseline,
            "signature": self.signature,
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Comparison:
        """The comparison that `to_dict` wrote."""
        if data.get("kind") != "mallow comparison":
            raise InputError(f"`data` must be what Comparison.to_dict wrote; its kind is {data.get('kind')!r}.")
        found = [
            Difference(**{**one, "interval": {name: tuple(pair) for name, pair in one["interval"].items()}})
            for one in data["differences"]
        ]
        return cls(
            scores={name: Score.from_dict(one) for name, one in data["scores"].items()},
            differences=tuple(found),
            ranks={name: (pair[0], pair[1]) for name, pair in data["ranks"].items()},
            groups=tuple(tuple(group) for group in data["groups"]),
            variance=data["variance"],
            baseline=data["baseline"],
            signature=data["signature"],
            warnings=tuple(data["warnings"]),
        )

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Comparison:
        """The comparison that `to_json` wrote."""
        return cls.from_dict(json.loads(text))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each system's score with its spread, its interval and the noise floor; returns the axes."""
        ax = draw.axes(ax)
        draw.scores(ax, self.scores)
        return ax


def compare(
    reference: Any,
    systems: Mapping[str, Any],
    *,
    measure: Measure = MAUVE_STAR,
    embedder: AnyEmbedder | str | None = None,
    repeats: int = 5,
    rng: int = 0,
    baseline: str | None = None,
) -> Comparison:
    """Score several systems against one reference and say which differences are real.

    Parameters
    ----------
    reference : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The real data.
    systems : mapping name → the same, or array (prompts, generations, d)
        Where all have as many samples as the reference, sample i of each belongs to prompt i, and resampling keeps them
        together; samples with ids are brought into the order of the reference's ids first. With several generations of each
        prompt (three axes, or ids that repeat), scores are means over the generations, whose variance is told apart.
    measure : Measure
        With ``Quantize(codebook="shared")`` one partition serves the reference and all systems; otherwise each system has its
        own, and its score is the one that `score` gives.
    embedder, repeats, rng :
        As in `score`.
    baseline : str or None
        Compare all systems with this one only; None: all pairs.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> human = rng.normal(size=(1000, 8))
    >>> found = compare(human, {"near": rng.normal(0.1, 1, size=(1000, 8)), "far": rng.normal(0.6, 1, size=(1000, 8))})
    >>> found.winner, found.ranks
    ('near', {'near': (1, 1), 'far': (2, 2)})
    """
    _check_names(systems, baseline)
    whole("repeats", repeats, least=1)
    whole("rng", rng, least=0)
    # The reference comes first, under a name that no system has.
    found, how = all_features({"": reference, **systems}, embedder)
    given = found.pop("")
    x = checked_features("reference", given.features if isinstance(given, Samples) else given)
    samples = {}
    with collected_doubts() as doubts:
        for name, one in found.items():
            with _doubts_about(name):
                samples[name] = _generations(name, _in_order(given, one))
                say_doubts(x, samples[name][0])
        runs = _all_runs(measure, x, samples, repeats, rng)
        evidences = {name: [evidence_of(measure, each, rng) for each in one.masses] for name, one in runs.items()}
        scores = _all_scores(measure, x, runs, evidences, repeats, described(how, x), rng)
        pairs = (
            [(name, baseline) for name in systems if name != baseline] if baseline else list(combinations(systems, 2))
        )
        differences = _all_differences(measure, runs, evidences, pairs, len(x), rng)
        variance = _all_variances(measure, runs, scores, rng)
    for text in doubts:
        warnings.warn(text, EstimateWarning, stacklevel=2)
    order = sorted(scores, key=lambda name: -scores[name].mauve)
    ranks, groups = ({}, ()) if baseline else _ranked(order, differences)
    return Comparison(
        scores={name: scores[name] for name in order},
        differences=differences,
        ranks=ranks,
        groups=groups,
        variance={name: variance[name] for name in order},
        baseline=baseline,
        signature=scores[order[0]].signature,
        warnings=tuple(doubts),
    )


@dataclass(frozen=True)
class _Runs:
    """The masses of one system: generations, each a list of repeats."""

    masses: list[list[Masses]]
    prepared: Any
    m: int

    @property
    def partitions(self) -> list[Partition]:
        return [one.partition for each in self.masses for one in each if one.partition is not None]


def _check_names(systems: Mapping[str, Any], baseline: str | None) -> None:
    if not isinstance(systems, Mapping) or not systems:
        raise InputError(f"`systems` must map at least one name to samples; got {type(systems).__name__}.")
    for name in systems:
        if not isinstance(name, str) or not name:
            raise InputError(f"`systems` must have names that are texts; got {name!r}.")
    if baseline is not None and baseline not in systems:
        raise InputError(f"`baseline` must be one of the systems ({', '.join(systems)}); got {baseline!r}.")


def _in_order(reference: Samples | NDArray[Any], samples: Samples | NDArray[Any]) -> NDArray[Any]:
    """The features of samples in the order of the reference's ids, (prompts, generations, d) where ids repeat.

    Without ids, with other ids than the reference's, or where some samples are missing, rows stay as they are.
    """
    if not isinstance(samples, Samples):
        return samples
    rows = samples.features
    if not (isinstance(reference, Samples) and reference.ids and samples.ids and samples.generations):
        return rows
    prompts, times = len(reference), samples.generations
    if len(set(reference.ids)) < prompts or len(samples) != prompts * times:
        return rows
    place = {each: i for i, each in enumerate(reference.ids)}
    missing = sorted(set(samples.ids) - set(place))
    if missing:
        if not place.keys().isdisjoint(samples.ids):
            warnings.warn(
                f"{len(missing)} ids, such as {missing[0]!r}, are not among the reference's: samples are paired by position.",
                EstimateWarning,
                stacklevel=2,
            )
        return rows
    order = np.argsort([place[each] for each in samples.ids], kind="stable")
    return rows[order] if times == 1 else rows[order].reshape(prompts, times, -1)


@contextmanager
def _doubts_about(name: str) -> Iterator[None]:
    """Doubts raised inside are raised again with the system's name in front."""
    with collected_doubts() as doubts:
        yield
    for text in doubts:
        warnings.warn(f"{name}: {text}", EstimateWarning, stacklevel=2)


def _generations(name: str, samples: Any) -> list[Any]:
    """One array of features for each generation of the prompts."""
    array = np.asarray(samples)
    if array.ndim == 3 and array.dtype.kind in "biuf":
        return [checked_features(name, array[:, i]) for i in range(array.shape[1])]
    return [checked_features(name, array)]


def _all_runs(measure: Measure, x: Any, samples: dict[str, list[Any]], repeats: int, rng: int) -> dict[str, _Runs]:
    estimator = measure.estimator
    if isinstance(estimator, Quantize) and estimator.codebook == "shared":
        return _shared_runs(estimator, x, samples, repeats, rng)
    found = {}
    for name, each in samples.items():
        masses = []
        for y in each:
            checked_pair(x, y)
            prepared = estimator.prepare(x, y)
            masses.append(repeated(measure, prepared, repeats, rng))
        found[name] = _Runs(masses, prepared, len(y))
    return found


def _shared_runs(
    estimator: Quantize, x: Any, samples: dict[str, list[Any]], repeats: int, rng: int
) -> dict[str, _Runs]:
    """One partition of the reference and all systems in each repeat."""
    every = [y for each in samples.values() for y in each]
    for y in every:
        checked_pair(x, y)
    smallest = min(len(y) for y in every)
    alone = replace(estimator, codebook=None, bins=estimator.bins_for(len(x), smallest))
    prepared = alone.prepare(x, np.concatenate(every))
    cuts = np.cumsum([0, *(len(y) for y in every)])
    masses: list[list[Masses]] = [[] for _ in every]
    for child in generator(rng, "clustering").spawn(repeats):
        pooled = alone.masses(prepared, child).partition
        if pooled is None:
            continue
        for i, (low, high) in enumerate(pairwise(cuts)):
            masses[i].append(estimator.count(replace(pooled, q_labels=pooled.q_labels[low:high])))
    found, place = {}, 0
    for name, each in samples.items():
        part = masses[place : place + len(each)]
        found[name] = _Runs(part, replace(prepared, m=len(each[0])), len(each[0]))
        place += len(each)
    return found


def _all_scores(
    measure: Measure,
    x: Any,
    runs: dict[str, _Runs],
    evidences: dict[str, list[Evidence | None]],
    repeats: int,
    embedder: str,
    rng: int,
) -> dict[str, Score]:
    floors: dict[int, dict[str, float]] = {}  # by sample size: the model plays no part in it
    found = {}
    for name, one in runs.items():
        if one.m not in floors:
            floors[one.m] = noise_floor(measure, x, one.m, one.prepared, repeats, rng)
        each = zip(one.masses, evidences[name], strict=True)
        n = (len(x), one.m)
        with _doubts_about(name):
            scores = [assembled(measure, masses, seen, floors[one.m], n, embedder, rng) for masses, seen in each]
        found[name] = scores[0] if len(scores) == 1 else _mean_score(scores)
    return found


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _mean_score(scores: list[Score]) -> Score:
    """The mean over generations."""
    values = {name: tuple(np.mean([one.values[name] for one in scores], axis=0).tolist()) for name in SUMMARIES}
    interval: dict[str, tuple[float, float] | None] = {}
    for name in SUMMARIES:
        pairs = [pair for one in scores if (pair := one.interval[name]) is not None]
        ends = np.mean(pairs, axis=0) if len(pairs) == len(scores) else None
        interval[name] = None if ends is None else (float(ends[0]), float(ends[1]))
    debiased = {name: float(np.mean([one.debiased[name] for one in scores])) for name in scores[0].debiased}
    mean, _ = mean_frontier([one.frontier for one in scores])
    _, band = mean_frontier([curve for one in scores for curve in (one.band or (one.frontier,))])
    return replace(
        scores[0],
        mauve=float(np.mean(values["mauve"])),
        frontier_integral=float(np.mean(values["frontier_integral"])),
        midpoint=float(np.mean(values["midpoint"])),
        values=values,
        std={name: float(np.std(found, ddof=1)) if len(found) > 1 else 0.0 for name, found in values.items()},
        interval=interval,
        debiased=debiased,
        frontier=mean,
        band=band,
        signature=f"{scores[0].signature}, generations={len(scores)}",
    )


def _all_differences(
    measure: Measure,
    runs: dict[str, _Runs],
    evidences: dict[str, list[Evidence | None]],
    pairs: list[tuple[str, str]],
    n: int,
    rng: int,
) -> tuple[Difference, ...]:
    """The differences of the pairs, with p-values corrected over all of them; none for estimators without bins."""
    every: dict[str, Evidence] = {}
    for name, one in runs.items():
        flat = [masses for each in one.masses for masses in each]
        found = evidences[name][0] if len(one.masses) == 1 else evidence_of(measure, flat, rng)
        if found is None:
            return ()
        every[name] = found
    paired = all(one.m == n for one in runs.values())
    each = [pair_difference(every[first], every[second], paired=paired) for first, second in pairs]
    adjusted = {name: holm([one.p_value[name] for one in each]) for name in SUMMARIES}
    return tuple(
        Difference(
            first,
            second,
            difference=one.value,
            interval=one.interval,
            p_value=one.p_value,
            adjusted={name: adjusted[name][i] for name in SUMMARIES},
        )
        for i, ((first, second), one) in enumerate(zip(pairs, each, strict=True))
    )


def _all_variances(
    measure: Measure, runs: dict[str, _Runs], scores: dict[str, Score], rng: int
) -> dict[str, dict[str, float]]:
    """Where the variance of the area comes from: seeds of clustering, samples, generations."""
    partitions = {name: one.partitions for name, one in runs.items()}
    drawn = {}
    if all(partitions.values()):
        drawn = resampled(partitions, measure.of_counts, rng=generator(rng, "resampling"))
    found = {}
    for name, one in runs.items():
        found[name] = {"clustering": scores[name].std["mauve"] ** 2}
        if drawn:
            found[name]["sampling"] = float(np.var(drawn[name]["mauve"], ddof=1))
        if len(one.masses) > 1:
            means = [np.mean(all_values(measure, each)["mauve"]) for each in one.masses]
            found[name]["generation"] = float(np.var(means, ddof=1))
    return found


def _ranked(
    order: list[str], differences: tuple[Difference, ...]
) -> tuple[dict[str, tuple[int, int]], tuple[tuple[str, ...], ...]]:
    """Rank ranges, and the largest sets of neighbours of which no two differ significantly."""
    if not differences and len(order) > 1:
        return {}, ()
    apart = {frozenset((one.first, one.second)) for one in differences if one.significant}
    better = {
        name: sum(
            1
            for one in differences
            if one.significant
            and (
                (one.first == name and one.difference["mauve"] < 0)
                or (one.second == name and one.difference["mauve"] > 0)
            )
        )
        for name in order
    }
    ranks = {}
    for name in order:
        worse = sum(frozenset((name, other)) in apart for other in order if other != name) - better[name]
        ranks[name] = (1 + better[name], len(order) - worse)
    groups: list[tuple[str, ...]] = []
    for i in range(len(order)):
        group = [order[i]]
        for other in order[i + 1 :]:
            if all(frozenset((name, other)) not in apart for name in group):
                group.append(other)
        if not any(set(group) <= set(earlier) for earlier in groups):
            groups.append(tuple(group))
    return ranks, tuple(groups)
