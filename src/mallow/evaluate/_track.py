"""A series of checkpoints against one reference: its trend, and the points where it changed."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mallow.embed import AnyEmbedder
from mallow.errors import Caveat, InputError, warn_about
from mallow.evaluate._compare import compare_pairs, embed_pairs
from mallow.evaluate._comparison import ComparedSystems, Comparison, Difference
from mallow.evaluate._run import Settings
from mallow.evaluate._systems import CERTIFIED, render_differences, score_cells
from mallow.evidence import LEVEL, MAUVE_STAR, Measure, Pairs
from mallow.results import Axes, TableData, draw, join_names, p_text
from mallow.samples import Samples

_FEWEST = 3  # checkpoints of a series
_ALIKE = 0.95  # of the smallest number of samples to the largest; chosen: a few samples do not matter


@dataclass(frozen=True)
class Trend:
    """Whether the certified area rises or falls along the series.

    Attributes
    ----------
    tau : float
        Kendall's rank correlation of step and certified area; 1 if every checkpoint is closer than the one before.
    p_value : float
        Two-sided p-value for "the order of the checkpoints is random". With fewer than five checkpoints it cannot be
        below 0.05.
    """

    tau: float
    p_value: float


@dataclass(frozen=True)
class Change:
    """A point in the series from which the model is closer to the reference, or farther from it, than before.

    Attributes
    ----------
    at : str
        The first checkpoint of the new segment.
    before : str
        The checkpoint of the previous segment that differs most clearly from it.
    difference, low, high : float
        Certified area at `at` minus certified area at `before`, with a 95% interval.
    p_value : float
        Corrected for all pairs of checkpoints.
    """

    at: str
    before: str
    difference: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True, eq=False, repr=False)
class Track(ComparedSystems):
    """A series of checkpoints against one reference.

    Attributes
    ----------
    steps : dict
        Checkpoint → its step, in the order of the steps.
    comparison : Comparison
        The comparison of all checkpoints.
    trend : Trend
    changes : tuple of Change
        The points where the series changed; empty if no two checkpoints differ significantly.
    """

    KIND: ClassVar[str] = "track"
    ALSO = ("verdict", "best")

    steps: dict[str, float]
    comparison: Comparison
    trend: Trend
    changes: tuple[Change, ...]

    def __repr__(self) -> str:
        return f"Track({len(self.steps)} checkpoints, {len(self.changes)} changes, tau={self.trend.tau:.2f})"

    def _tables(self, form: str = "text", width: int | None = None) -> list[str]:
        return [self.table(form, width=width), self.change_table(form, width=width)]

    @property
    def verdict(self) -> str:
        """The trend, the changes, and whether the last checkpoint is as good as the best one."""
        names = list(self.steps)
        test = f"Kendall's tau {self.trend.tau:+.2f}, {p_text(self.trend.p_value)}"
        if self.trend.p_value < LEVEL:
            where = "closer to" if self.trend.tau > 0 else "farther from"
            parts = [f"The model moves {where} the reference from {names[0]} to {names[-1]} ({test})."]
        else:
            parts = [f"No trend from {names[0]} to {names[-1]} is shown ({test})."]
        if self.changes:
            places = [
                f"{'closer' if change.difference > 0 else 'farther'} from {change.at} on" for change in self.changes
            ]
            parts.append(f"It changed: {join_names(places)}.")
        else:
            parts.append("No difference between two checkpoints was shown.")
        best = self.comparison.best
        if names[-1] not in best:
            parts.append(f"The last checkpoint is farther from the reference than {best[0]}.")
        elif best[0] != names[-1]:
            parts.append(f"No difference was shown between the last checkpoint and the best one, {best[0]}.")
        return " ".join(parts)

    def brief(self) -> dict[str, Any]:
        """The main numbers as a small dict, without curves and samples: what ``--summary`` prints."""
        changes = [
            {"at": change.at, "before": change.before, "difference": round(change.difference, 4)}
            for change in self.changes
        ]
        systems = self.comparison.brief()["systems"]
        trend = {"tau": self.trend.tau, "p_value": self.trend.p_value}
        kept = {name: systems[name] for name in self.steps}
        return {"kind": "mallow track", **self._also(), "trend": trend, "changes": changes, "checkpoints": kept}

    def _table(self) -> TableData:
        starts = {change.at: change for change in self.changes}
        rows, breaks = [], []
        titles = [*CERTIFIED, "published\nMAUVE", "95% of\nrepeat samples"]
        for number, (name, step) in enumerate(self.steps.items()):
            mark = "" if name not in starts else "closer" if starts[name].difference > 0 else "farther"
            rows.append([name, f"{step:g}", *score_cells(self.comparison.scores[name], titles), mark])
            breaks += [number] if mark and number else []
        return TableData(["", "step", *titles, "change"], rows, breaks=breaks, left=(0, 6))

    def change_table(self, form: str = "text", *, width: int | None = None) -> str:
        """The changes as a table; "" if there are none."""
        if not self.changes:
            return ""
        return render_differences("change", map(astuple, self.changes), form, width)

    def _records(self) -> list[dict[str, Any]]:
        records = {record["system"]: record for record in self.comparison._records()}
        starts = [change.at for change in self.changes]
        rows, segment = [], 1
        for name, step in self.steps.items():
            segment += name in starts
            rows.append({"step": step, "segment": segment, **records[name]})
        return rows

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the published and certified scores against the step, with a line at every change; returns the axes."""
        ax = draw.axes(ax)
        scores = self.comparison.scores
        draw.curve(ax, "checkpoints", list(self.steps.values()), [scores[name] for name in self.steps], {})
        ax.set_xlabel("step")
        draw.marks(ax, [self.steps[one.at] for one in self.changes], "change, 5% level, corrected for all pairs")
        return ax


def track(
    reference: Any,
    checkpoints: Mapping[str, Any],
    *,
    steps: Sequence[float] | None = None,
    measure: Measure | str = MAUVE_STAR,
    embedder: AnyEmbedder | str | None = None,
    paired: bool = False,
    repeats: int = 5,
    rng: int | np.random.Generator | None = 0,
) -> Track:
    """Compare a series of checkpoints with one reference: does it come closer, and where did it change?

    A change is a checkpoint that differs significantly from some checkpoint since the change before, by held-out
    evidence and after Holm's correction over all pairs. So the chance that a constant series shows a change is at most
    5%. The trend is Kendall's test of the certified areas against the order.

    Parameters
    ----------
    reference : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The real data.
    checkpoints : mapping name → the same
        At least three. Give all of them the same number of samples, and the same prompts. If the numbers differ, each
        checkpoint is cut to the smallest number at random, since more samples detect a gap better.
    steps : sequence of float or None
        The step of each checkpoint. None: the last number in its name, if all names have different numbers (ckpt-100,
        ckpt-2000); otherwise the position in the mapping, from 1.
    measure :
        Estimator, divergence and scale, as in `mallow.compare`.
    embedder :
        The embedder, by name or as an object. None takes the default for the kind of samples, as in `mallow.compare`.
    paired :
        Whether row i of each set belongs to row i of the others, as in `mallow.compare`.
    repeats :
        How many clusterings are averaged, as in `mallow.compare`.
    rng :
        The seed of the clusterings, as in `mallow.compare`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> human = rng.normal(size=(1000, 8))
    >>> gaps = {"ckpt-100": 0.6, "ckpt-2000": 0.1, "ckpt-300": 0.6}
    >>> series = {name: rng.normal(gap, 1, size=(1000, 8)) for name, gap in gaps.items()}
    >>> result = track(human, series, repeats=1)
    >>> list(result.steps), [change.at for change in result.changes]
    (['ckpt-100', 'ckpt-300', 'ckpt-2000'], ['ckpt-2000'])
    """
    settings = Settings.checked(measure, repeats, rng)
    if not isinstance(checkpoints, Mapping) or len(checkpoints) < _FEWEST:
        count = len(checkpoints) if isinstance(checkpoints, Mapping) else type(checkpoints).__name__
        raise InputError(
            f"`checkpoints` must map at least {_FEWEST} names to samples; got {count}. To compare two, use "
            "mallow.compare."
        )
    ordered = _order_by_step(list(checkpoints), steps)
    systems = {name: checkpoints[name] for name in ordered}
    pairs = embed_pairs(reference, systems, embedder, settings.measure, lazy=True, paired=paired)
    pairs, caveats = _cut_to_one_size(pairs, settings.seed)
    comparison = compare_pairs(pairs, settings)
    comparison = replace(comparison, caveats=(*caveats, *comparison.caveats))
    result = Track(
        ordered, comparison, _find_trend(ordered, comparison), find_changes(list(ordered), comparison.differences)
    )
    warn_about(result.caveats)
    return result


def _cut_to_one_size(pairs: Pairs, seed: int) -> tuple[Pairs, list[Caveat]]:
    """The checkpoints with as many samples as the smallest, drawn at random, and a caveat if that changes them.

    A witness learns more from more samples, so a constant model would seem to move away from the reference with growing
    numbers of samples. Prompts keep their first samples, and checkpoints that share prompts keep the same prompts.
    """
    sizes = {name: len(model) for name, (_, model) in pairs.items()}
    smallest = min(sizes, key=sizes.__getitem__)
    least, most = sizes[smallest], max(sizes.values())
    if least >= _ALIKE * most:
        return pairs, []
    if any(model.shards is not None for _, model in pairs.values()):
        raise InputError(
            f"checkpoints in shards must have the same number of samples; got {least:,} ({smallest}) to {most:,}. A "
            "trend of checkpoints of different sizes would be a trend of the sizes."
        )
    cut = {name: (reference, _draw_samples(model, least, seed)) for name, (reference, model) in pairs.items()}
    text = (
        f"the checkpoints have from {least:,} ({smallest}) to {most:,} samples, and results depend on the number: "
        f"everything here is about {least:,} samples of each, drawn at random. Give all checkpoints the same number, "
        "or leave out the smallest."
    )
    return cut, [Caveat("checkpoint sizes", text, values={"least": least, "most": most})]


def _draw_samples(samples: Samples, count: int, seed: int) -> Samples:
    if len(samples) == count:
        return samples
    names = samples.unit_names
    rng = np.random.default_rng([seed, 60])
    if names is None:
        return samples.take(np.sort(rng.permutation(len(samples))[:count]))
    before: dict[str, int] = {}
    order = []
    for number, name in enumerate(names):
        before[name] = before.get(name, -1) + 1
        order.append((before[name], hashlib.sha256(f"{seed} {name}".encode()).digest(), number))
    return samples.take(sorted(row for _, _, row in sorted(order)[:count]))


def _order_by_step(names: list[str], steps: Sequence[float] | None) -> dict[str, float]:
    """Each checkpoint with its step, in the order of the steps."""
    if steps is None:
        numbers = [re.findall(r"\d+(?:\.\d+)?", name) for name in names]
        steps = [float(digits[-1]) for digits in numbers if digits]
        values = steps if len(set(steps)) == len(names) else list(range(1, len(names) + 1))
    else:
        values = [float(step) for step in steps]
        if len(values) != len(names) or len(set(values)) != len(names) or not all(map(math.isfinite, values)):
            raise InputError(
                f"`steps` must have one finite number for each of the {len(names)} checkpoints, all different; got "
                f"{list(steps)}."
            )
    return dict(sorted(zip(names, values, strict=True), key=lambda pair: pair[1]))


def _find_trend(steps: Mapping[str, float], comparison: Comparison) -> Trend:
    from scipy.stats import kendalltau

    values = [comparison.scores[name].certified["mauve"].value for name in steps]
    if len(set(values)) == 1:
        return Trend(0.0, 1.0)
    tau, p_value = kendalltau(list(steps.values()), values)
    return Trend(float(tau), float(p_value))


def find_changes(names: Sequence[str], differences: Sequence[Difference]) -> tuple[Change, ...]:
    """The points where a series changed; see `track`."""
    by_pair = {pair.systems: pair for pair in differences}
    changes: list[Change] = []
    segment: list[str] = []
    for name in names:
        pairs = [by_pair[frozenset((name, other))] for other in segment]
        apart = [pair if pair.first == name else pair.reverse() for pair in pairs if pair.significant]
        if apart:
            clearest = min(apart, key=lambda pair: (pair.adjusted["mauve"], -abs(pair.difference["mauve"])))
            low, high = clearest.interval["mauve"]
            p_value = clearest.adjusted["mauve"]
            changes.append(Change(name, clearest.second, clearest.difference["mauve"], low, high, p_value))
            segment = []
        segment.append(name)
    return tuple(changes)
