"""Has the model got worse than a baseline, by more than noise? For continuous integration."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from mallow.embed import AnyEmbedder
from mallow.errors import EstimateWarning, InputError
from mallow.evaluate._score import MAUVE_2021, MAUVE_STAR, Measure, Score, collected_doubts, generator, score
from mallow.inference import AREA, Evidence, correlation, evidence
from mallow.results import rendered

__all__ = ["Check", "check_regression", "read_baseline"]

_ONE_SIDED = 1.6448536269514722  # standard errors that 95 % of a normal variable stay below
_KNOWN = {repr(measure): measure for measure in (MAUVE_STAR, MAUVE_2021)}


@dataclass(frozen=True, eq=False)
class Check:
    """Whether a model dropped below its baseline by more than is allowed, beyond the noise.

    Attributes
    ----------
    ok : bool
        False only if even the low end of `interval` is above `max_drop`.
    drop : float
        MAUVE of the baseline minus that of the model now, both freed of most of the plug-in bias.
    interval : tuple of float
        A 90 % interval of the drop: the true drop is above its low end with 95 % confidence, and below its high end with as
        much. It has the noise of sampling and of clustering of both runs in it.
    max_drop : float
        The drop that is allowed.
    before, now : float
        MAUVE of the baseline and of the model, freed of most of the bias.
    score : Score
        The model's score: the next baseline.
    warnings : tuple of str
        What makes the verdict doubtful.
    """

    ok: bool
    drop: float
    interval: tuple[float, float]
    max_drop: float
    before: float
    now: float
    score: Score
    warnings: tuple[str, ...]

    @property
    def message(self) -> str:
        """The verdict in a sentence."""
        low, high = self.interval
        what = f"MAUVE {'rose' if self.drop < 0 else 'dropped'} by {abs(self.drop):.4f}"
        between = f"the drop is between {low:+.4f} and {high:+.4f}"
        if not self.ok:
            return f"Not ok: {what}; {between}, more than the {self.max_drop:g} allowed."
        if self.drop > self.max_drop:
            return f"Ok: {what}, more than the {self.max_drop:g} allowed, but within the noise: {between}."
        if high > self.max_drop:
            return f"Ok: {what}; {between}, so that more than the {self.max_drop:g} allowed cannot be ruled out."
        return f"Ok: {what}; {between}, less than the {self.max_drop:g} allowed."

    def to_dict(self) -> dict[str, Any]:
        """All of it but the score, which has its own `to_dict`, as plain numbers, strings, lists and dicts."""
        return {
            "kind": "mallow check",
            "ok": self.ok,
            "drop": self.drop,
            "interval": list(self.interval),
            "max_drop": self.max_drop,
            "before": self.before,
            "now": self.now,
            "message": self.message,
            "signature": self.score.signature,
            "warnings": list(self.warnings),
        }

    def table(self, form: str = "text") -> str:
        """The verdict and its numbers, a row each, as "text", "markdown" or "latex"."""
        rows = {
            "verdict": "ok" if self.ok else "not ok",
            "MAUVE before, freed of bias": f"{self.before:.4f}",
            "MAUVE now, freed of bias": f"{self.now:.4f}",
            "drop": f"{self.drop:+.4f}",
            "90 % interval of it": f"{self.interval[0]:+.4f} to {self.interval[1]:+.4f}",
            "allowed": f"{self.max_drop:g}",
        }
        return rendered(form, ["", "value"], list(rows.items()))

    def to_text(self) -> str:
        """The verdict, the two scores and the warnings, a line each."""
        lines = [self.message, f"MAUVE freed of bias: {self.before:.4f} in the baseline, {self.now:.4f} now."]
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])


def check_regression(
    reference: Any,
    model: Any,
    baseline: Score | str | PathLike[str],
    *,
    max_drop: float = 0.02,
    measure: Measure | None = None,
    embedder: AnyEmbedder | str | None = None,
    same_reference: bool = False,
    rng: int = 0,
) -> Check:
    """Whether the model scores worse than the baseline by more than `max_drop`, beyond the noise of both runs.

    A drop that may be noise passes: with few samples little is found. `mallow.plan` says how many are needed.

    Parameters
    ----------
    reference, model : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        As in `mallow.score`.
    baseline : Score or path
        An earlier score, or the JSON file of one.
    max_drop : float
        The drop in MAUVE that is allowed; at least 0.
    measure : Measure or None
        None: the one that made the baseline, where that is MAUVE_STAR or MAUVE_2021. Another measure must be given.
    embedder, rng :
        As in `mallow.score`. The embedder must be that of the baseline.
    same_reference : bool
        Whether `reference` holds the very samples, in the same order, that the baseline was scored against. Both runs then
        share the noise of the reference, most of which cancels. False takes them as independent, which can only make the
        interval too wide. The baseline's file does not hold its samples, so it is not found out by itself.

    Examples
    --------
    >>> import numpy as np
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
            f"`baseline` must come from an estimator with bins, such as Quantize: the noise of {measure.estimator!r} is not known."
        )
    with collected_doubts() as doubts:
        now = score(reference, model, measure=measure, embedder=embedder, repeats=len(before.values["mauve"]), rng=rng)
        _same_embedder(before, now)
        if same_reference and before.n[0] != now.n[0]:
            raise InputError(
                f"`same_reference` cannot be: the baseline's reference has {before.n[0]} samples, and this one {now.n[0]}."
            )
        both = [_evidence(measure, one, rng) for one in (before, now)]
        drop, interval = _drop(both[0], both[1], same_reference)
    doubts += _differences(before, now)
    for text in doubts:
        warnings.warn(text, EstimateWarning, stacklevel=2)
    values = [one.score["mauve"] for one in both]
    return Check(interval[0] <= max_drop, drop, interval, max_drop, values[0], values[1], now, tuple(doubts))


def read_baseline(path: str | PathLike[str]) -> Score:
    """The score in a file that `mallow score --format json` or `Score.to_json` wrote."""
    way_out = " Write one with: mallow score REFERENCE MODEL --format json > baseline.json"
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"`baseline` must be a file that can be read; {path}: {error.strerror}.{way_out}") from None
    except ValueError:
        raise InputError(f"`baseline` must be the JSON file of a score; {path} is not JSON.{way_out}") from None
    kind = data.get("kind") if isinstance(data, dict) else type(data).__name__
    if kind != "mallow score":
        raise InputError(f"`baseline` must be the JSON file of a score; {path} holds {kind!r}.{way_out}")
    try:
        return Score.from_dict(data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"`baseline` must be the JSON file of a score; {path} is damaged: {error!r}.{way_out}"
        ) from None


def _evidence(measure: Measure, one: Score, rng: int) -> Evidence:
    """What the bins of a score say, as when it was made."""
    parts = [] if one.masses.partition is None else [one.masses.partition]
    random = generator(rng, "intervals")
    return evidence(parts, one.values, divergence=measure.divergence, scale=measure.c, rng=random)


def _drop(before: Evidence, now: Evidence, same_reference: bool) -> tuple[float, tuple[float, float]]:
    """How much lower the area is now, and its 90 % interval, which joins those of both scores."""
    shared = correlation(before.influence, now.influence, paired=False)[0][AREA] if same_reference else 0.0
    (down_before, up_before), (down_now, up_now) = _arms(before), _arms(now)

    def joined(x: float, y: float) -> float:
        return math.sqrt(max(x**2 + y**2 - 2.0 * float(shared) * x * y, 0.0))

    drop = before.score["mauve"] - now.score["mauve"]
    return drop, (drop - joined(down_before, up_now), drop + joined(up_before, down_now))


def _arms(found: Evidence) -> tuple[float, float]:
    """How far the area's interval reaches down and up, with the noise of the seeds."""
    centre = found.estimate.score[AREA]
    low, high = (end[AREA] for end in found.estimate.ends(_ONE_SIDED))
    seeds = _ONE_SIDED * found.seed_error[AREA]
    return math.hypot(centre - low, seeds), math.hypot(high - centre, seeds)


def _parts(one: Score) -> list[str]:
    """Version, measure, embedder, sizes and seeds of the signature."""
    return one.signature.split(" | ")


def _same_measure(before: Score, measure: Measure | None) -> Measure:
    made_by = _parts(before)[1]
    if measure is None:
        if made_by not in _KNOWN:
            raise InputError(f"`measure` must be given, since the baseline was made with {made_by}.")
        return _KNOWN[made_by]
    if repr(measure) != made_by:
        raise InputError(f"`measure` must be that of the baseline, {made_by}; got {measure!r}.")
    return measure


def _same_embedder(before: Score, now: Score) -> None:
    there, here = _parts(before)[2], _parts(now)[2]
    if there != here:
        raise InputError(
            f"`embedder` must be that of the baseline, {there}; got {here}. Scores of two embedders cannot be compared: "
            "pass the same one, or score the baseline again."
        )


def _differences(before: Score, now: Score) -> list[str]:
    """What differs between the runs without forbidding to compare them."""
    found = []
    there, here = _parts(before)[0], _parts(now)[0]
    if there != here:
        found.append(f"the baseline was made by {there}, and this score by {here}.")
    if before.n != now.n:
        found.append(
            f"the baseline has {before.n[0]} and {before.n[1]} samples, and this score {now.n[0]} and {now.n[1]}: most of the "
            "bias that depends on it is removed, not all."
        )
    return found
