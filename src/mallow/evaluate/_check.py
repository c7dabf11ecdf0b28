"""Has the model got worse than a baseline, by more than noise? For continuous integration."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mallow._checks import seed_from
from mallow.embed import AnyEmbedder, embed_all
from mallow.errors import Caveat, InputError, warn_about
from mallow.evaluate._measure import MAUVE_2021, MAUVE_STAR, Measure
from mallow.evaluate._run import generator_for
from mallow.evaluate._score import Score, score_embedded
from mallow.inference import AREA, BinEvidence, collect_evidence, correlate_errors, join_arms
from mallow.results import Result, TableData, draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Check", "check_regression", "read_baseline"]

_ONE_SIDED = 1.6448536269514722  # standard errors that 95 % of a normal variable stay below
_KNOWN = {repr(measure): measure for measure in (MAUVE_STAR, MAUVE_2021)}


@dataclass(frozen=True, eq=False, repr=False)
class Check(Result):
    """Whether a model dropped below its baseline by more than is allowed, beyond the noise.

    Attributes
    ----------
    ok : bool
        False only if even the low end of `interval` is above `max_drop`.
    drop : float
        MAUVE of the baseline minus that of the model now, both bias-corrected.
    interval : tuple of float
        A 90 % interval of the drop: the true drop is above its low end with 95 % confidence, and below its high end with
        95 % confidence. It includes the noise of sampling and of clustering of both runs.
    max_drop : float
        The drop that is allowed.
    before, now : float
        MAUVE of the baseline and of the model, bias-corrected.
    score : Score
        The model's score: the next baseline.
    caveats : tuple of Caveat
        Reasons to doubt the verdict.
    """

    KIND: ClassVar[str] = "check"

    ok: bool
    drop: float
    interval: tuple[float, float]
    max_drop: float
    before: float
    now: float
    score: Score
    caveats: tuple[Caveat, ...]

    def __repr__(self) -> str:
        low, high = self.interval
        return (
            f"Check(ok={self.ok}, drop={self.drop:+.4f} between {low:+.4f} and {high:+.4f}, max_drop={self.max_drop:g})"
        )

    def __str__(self) -> str:
        lines = [self.message, f"Bias-corrected MAUVE: {self.before:.4f} in the baseline, {self.now:.4f} now."]
        return "\n".join([*lines, *(f"caveat: {line}" for line in self.caveat_lines())])

    @property
    def message(self) -> str:
        """The verdict in one sentence."""
        low, high = self.interval
        change = f"MAUVE {'rose' if self.drop < 0 else 'dropped'} by {abs(self.drop):.4f}"
        between = f"the drop is between {low:+.4f} and {high:+.4f} with 90 % confidence"
        if not self.ok:
            return f"Not ok: {change}; {between}, more than the {self.max_drop:g} allowed."
        if self.drop > self.max_drop:
            return f"Ok: {change}, more than the {self.max_drop:g} allowed, but within the noise: {between}."
        if high > self.max_drop:
            return f"Ok: {change}; {between}, so a drop of more than the {self.max_drop:g} allowed cannot be excluded."
        return f"Ok: {change}; {between}, less than the {self.max_drop:g} allowed."

    def _also(self) -> dict[str, Any]:
        return {"message": self.message}

    def _table(self) -> TableData:
        rows = {
            "verdict": "ok" if self.ok else "not ok",
            "bias-corrected MAUVE of the baseline": f"{self.before:.4f}",
            "bias-corrected MAUVE now": f"{self.now:.4f}",
            "drop": f"{self.drop:+.4f}",
            "90 % interval of the drop": f"{self.interval[0]:+.4f} to {self.interval[1]:+.4f}",
            "allowed drop": f"{self.max_drop:g}",
        }
        return TableData(["", "value"], list(rows.items()))

    def _records(self) -> list[dict[str, Any]]:
        names = ("ok", "drop", "max_drop", "before", "now")
        low, high = self.interval
        return [{**{name: getattr(self, name) for name in names}, "low": low, "high": high}]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the drop with its 90 % interval beside the drop that is allowed; returns the axes."""
        ax = draw.axes(ax)
        draw.intervals(ax, {"drop": (self.drop, *self.interval)}, "drop in bias-corrected MAUVE, with 90 % interval")
        ax.axvline(self.max_drop, color="k", linestyle="--", label=f"allowed: {self.max_drop:g}")
        draw.legend(ax, above=True)
        return ax


def check_regression(
    reference: Any,
    model: Any,
    baseline: Score | str | PathLike[str],
    *,
    max_drop: float = 0.02,
    measure: Measure | None = None,
    embedder: AnyEmbedder | str | None = None,
    same_reference: bool = False,
    rng: int | np.random.Generator | None = 0,
) -> Check:
    """Whether the model scores worse than the baseline by more than `max_drop`, beyond the noise of both runs.

    A drop that may be noise passes: with few samples little is detected. `mallow.plan_samples` says how many are needed.

    Parameters
    ----------
    reference, model : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        As in `mallow.score`.
    baseline : Score or path
        An earlier score, or its JSON file.
    max_drop : float
        The drop in MAUVE that is allowed; at least 0.
    measure : Measure or None
        None: the one that made the baseline, if that is MAUVE_STAR or MAUVE_2021. Any other measure must be passed.
    embedder, rng :
        As in `mallow.score`. The embedder must be that of the baseline.
    same_reference : bool
        Whether `reference` holds the very samples, in the same order, that the baseline was scored against. Both runs
        then share the noise of the reference, most of which cancels. False treats them as independent, which can only
        make the interval too wide. The baseline's file does not hold its samples, so this cannot be detected.

    Examples
    --------
    >>> import numpy as np
    >>> from mallow import score
    >>> rng = np.random.default_rng(0)
    >>> human, before, now = (rng.normal(shift, 1, size=(1000, 4)) for shift in (0, 0.1, 0.6))
    >>> check_regression(human, before, score(human, before)).drop
    0.0
    >>> check_regression(human, now, score(human, before)).ok
    False
    """
    if not (isinstance(max_drop, (int, float)) and 0 <= max_drop < 1):
        raise InputError(f"`max_drop` must be a drop in MAUVE, at least 0 and below 1; got {max_drop!r}.")
    before = baseline if isinstance(baseline, Score) else read_baseline(baseline)
    measure = _same_measure(before, measure)
    if before.masses.partition is None:
        raise InputError(
            "`baseline` must come from an estimator with bins, such as Quantize: the noise of "
            f"{measure.estimator!r} is not known."
        )
    seed, repeats = seed_from(rng), len(before.values["mauve"])
    sides = embed_all({"reference": reference, "model": model}, embedder)
    now = score_embedded(sides["reference"], sides["model"], measure=measure, repeats=repeats, seed=seed)
    _refuse_other_embedder(before, now)
    if same_reference and before.n[0] != now.n[0]:
        raise InputError(
            f"`same_reference` cannot hold: the baseline's reference has {before.n[0]} samples, and this one {now.n[0]}."
        )
    first, second = (_evidence(measure, score, seed) for score in (before, now))
    drop, interval = _drop_between(first, second, same_reference)
    caveats = (*now.caveats, *_changes_since(before, now))
    warn_about(caveats)
    ok = interval[0] <= max_drop
    return Check(ok, drop, interval, max_drop, first.score["mauve"], second.score["mauve"], now, caveats)


def read_baseline(path: str | PathLike[str]) -> Score:
    """The score in a file that `mallow score --format json` or `Score.to_json` wrote."""
    way_out = " Write one with: mallow score REFERENCE MODEL --format json > baseline.json"
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"`baseline` must be a readable file; {path}: {error.strerror}.{way_out}") from None
    except ValueError:
        raise InputError(f"`baseline` must be the JSON file of a score; {path} is not JSON.{way_out}") from None
    kind = data.get("kind") if isinstance(data, dict) else type(data).__name__
    if kind != "mallow score":
        raise InputError(f"`baseline` must be the JSON file of a score; {path} holds {kind!r}.{way_out}")
    try:
        return Score.from_dict(data)
    except InputError as error:
        raise InputError(f"`baseline` must be the JSON file of a score; {path}: {error}{way_out}") from None


def _evidence(measure: Measure, score: Score, seed: int) -> BinEvidence:
    """What the bins of a score say, as when it was made."""
    partitions = [] if score.masses.partition is None else [score.masses.partition]
    random, scale = generator_for(seed, "intervals"), measure.area_scale
    return collect_evidence(partitions, score.values, divergence=measure.divergence, scale=scale, rng=random)


def _drop_between(before: BinEvidence, now: BinEvidence, same_reference: bool) -> tuple[float, tuple[float, float]]:
    """How much lower the area is now, and its 90 % interval, which joins those of both scores."""
    shared = 0.0
    if same_reference:
        shared = float(correlate_errors(before.influence, now.influence, paired=False)[0][AREA])
    (down_before, up_before), (down_now, up_now) = _arms(before), _arms(now)
    drop = before.score["mauve"] - now.score["mauve"]
    low = drop - float(join_arms(down_before, up_now, shared))
    return drop, (low, drop + float(join_arms(up_before, down_now, shared)))


def _arms(evidence: BinEvidence) -> tuple[float, float]:
    """How far the area's interval reaches down and up, with the noise of the seeds."""
    centre = evidence.estimate.score[AREA]
    low, high = (end[AREA] for end in evidence.estimate.ends(_ONE_SIDED))
    seeds = _ONE_SIDED * evidence.seed_error[AREA]
    return math.hypot(centre - low, seeds), math.hypot(high - centre, seeds)


def _same_measure(before: Score, measure: Measure | None) -> Measure:
    made_by = before.signature.measure
    if measure is None:
        if made_by not in _KNOWN:
            raise InputError(f"`measure` must be passed, since the baseline was made with {made_by}.")
        return _KNOWN[made_by]
    if repr(measure) != made_by:
        raise InputError(f"`measure` must be that of the baseline, {made_by}; got {measure!r}.")
    return measure


def _refuse_other_embedder(before: Score, now: Score) -> None:
    there, here = (f"{one.signature.embedder}, width={one.signature.width}" for one in (before, now))
    if there != here:
        raise InputError(
            f"`embedder` must be that of the baseline, {there}; got {here}. Scores of two embedders cannot be compared: "
            "pass the same one, or score the baseline again."
        )


def _changes_since(before: Score, now: Score) -> list[Caveat]:
    """What differs between the runs without ruling out a comparison."""
    caveats = []
    there, here = before.signature.version, now.signature.version
    if there != here:
        caveats.append(Caveat("other version", f"the baseline was made by mallow {there}, and this score by {here}."))
    if before.n != now.n:
        text = (
            f"the baseline has {before.n[0]} and {before.n[1]} samples, and this score {now.n[0]} and {now.n[1]}: most of "
            "the bias that depends on the sizes is removed, but not all."
        )
        caveats.append(Caveat("other sizes", text))
    return caveats
