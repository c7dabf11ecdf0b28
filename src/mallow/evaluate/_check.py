"""Has the model got worse than a baseline, by more than noise? For continuous integration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import ndtr

from mallow._checks import seed_from
from mallow._files import parse_json, read_text
from mallow.embed import AnyEmbedder, embed_all
from mallow.engine import settle
from mallow.errors import Caveat, InputError, warn_about
from mallow.evaluate._run import Settings
from mallow.evaluate._score import Score, score_embedded
from mallow.evidence import (
    MEASURES,
    ONE_SIDED,
    Certificate,
    Evidence,
    Measure,
    Units,
    choose_units,
    find_measure,
    hold_out,
)
from mallow.results import Axes, Estimate, Result, TableData, draw
from mallow.samples import Samples
from mallow.theory import Array, Divergence, Masses, area, frontier

Outcome = Literal["passed", "regression", "cannot tell"]

_KNOWN = {repr(measure): measure for measure in MEASURES.values()}
_SCORE_AGAIN = " Write one with: mallow score REFERENCE MODEL --format json > baseline.json"
_SIMILAR = 1.1  # chosen: sizes count as equal up to this ratio of samples or units
_LUCK = math.sqrt(2.0)  # each run learned its own witness, with its own luck, as in `subtract_certificates`
# A shift of δ between Gaussians gives a mid-point cost of δ²/8, whose certificate has a standard error of √(δ²/8/n)
# with an ideal witness: z = δ/2 in units of √(1/n + 1/n), the standard error of the shift. Up to z = 1 nothing counts
# as learned, so a certificate of 1 leaves room for shifts up to 2·(1 + 1.645) = 5.3 errors, and any other certificate
# for 1.645·√2 = 2.3 errors more than its own. A learned witness detects less. Chosen in simulations
# (experiments/power/check.md, means, width 8): with 5.3 and 2.3 a limit misses the drop in up to 10% of runs, with
# these values in at most 4%.
_HIDDEN = 7.0
_FARTHER = 2.7
# Distances between the means of two Gaussians, which are practically disjoint at 8. Interpolated areas are right to
# 0.001.
_SHIFTS = np.concatenate([np.linspace(0.0, 3.0, 61), np.linspace(3.5, 8.0, 10)])
_EDGES = np.linspace(-6.0, 6.0, 121)


@dataclass(frozen=True, eq=False, repr=False)
class Check(Result):
    """Whether a model dropped below its baseline by more than is allowed, by held-out evidence.

    Attributes
    ----------
    outcome : str
        "passed": the whole interval of the drop is at most `max_drop`. "regression": the whole interval is above it.
        "cannot tell": `max_drop` lies inside, or the sizes of the two runs do not allow a verdict.
    drop : float
        Certified MAUVE of the baseline minus certified MAUVE of the model now.
    interval : tuple of float
        A 90% interval of the drop: the drop is above its low end with 95% confidence, and below its high end with 95%
        confidence. It includes the noise of both runs, except the noise that they share.
    max_drop : float
        The drop that is allowed.
    before : float
        Certified MAUVE of the baseline.
    now : float
        Certified MAUVE of the model with at most as many samples as the baseline.
    score : Score
        The model's score with all samples: the next baseline.
    caveats : tuple of Caveat
        Reasons to doubt the verdict.
    """

    KIND: ClassVar[str] = "check"
    ALSO = ("ok", "message")

    outcome: Outcome
    drop: float
    interval: tuple[float, float]
    max_drop: float
    before: float
    now: float
    score: Score
    caveats: tuple[Caveat, ...]

    def __repr__(self) -> str:
        low, high = self.interval
        span = f"{self.drop:+.4f} between {low:+.4f} and {high:+.4f}"
        return f"Check({self.outcome}, drop={span}, max_drop={self.max_drop:g})"

    def __str__(self) -> str:
        everything = self.score.certified["mauve"].value
        whole = "" if everything == self.now else f" ({everything:.4f} with all samples)"
        lines = [self.message, f"Certified MAUVE: {self.before:.4f} in the baseline, {self.now:.4f} now{whole}."]
        if self.outcome == "cannot tell" and self.interval[0] <= self.max_drop < self.interval[1]:
            lines.append("More samples narrow the interval: `mallow plan` estimates how many are needed.")
        return self._with_caveats(lines)

    @property
    def ok(self) -> bool:
        """False only for a regression."""
        return self.outcome != "regression"

    @property
    def message(self) -> str:
        """The verdict in one sentence."""
        low, high = self.interval
        change = (
            "did not change" if self.drop == 0 else f"{'rose' if self.drop < 0 else 'dropped'} by {abs(self.drop):.4f}"
        )
        change = f"certified MAUVE {change} (90% interval of the drop: {low:+.4f} to {high:+.4f})"
        more = f"a drop of more than the allowed {self.max_drop:g}"
        worse = low > 0  # then the text must not sound as if all were well
        if self.outcome == "regression":
            return f"Regression: {change}, more than the allowed {self.max_drop:g}."
        if self.outcome == "passed":
            but = ", but the model got worse" if worse else ""
            return f"Passed{but}: {change}; {more} is excluded with 95% confidence."
        if high <= self.max_drop:
            return (
                f"Cannot tell: {change}, but this run has fewer samples or units than the baseline, and fewer prove a "
                f"smaller gap; {more} is not excluded."
            )
        if low > self.max_drop:
            return (
                f"Cannot tell: {change}, but this run has more samples or units than the baseline, and more prove a "
                f"larger gap; {more} is not shown."
            )
        but = "the model got worse, but " if worse else ""
        return f"Cannot tell: {change}; {but}{more} is neither shown nor excluded."

    def _table(self) -> TableData:
        rows = {
            "outcome": self.outcome,
            "certified MAUVE of the baseline": f"{self.before:.4f}",
            "certified MAUVE now": f"{self.now:.4f}",
            "drop": f"{self.drop:+.4f}",
            "90% interval of the drop": f"{self.interval[0]:+.4f} to {self.interval[1]:+.4f}",
            "allowed drop": f"{self.max_drop:g}",
        }
        return TableData(["", "value"], list(rows.items()))

    def _records(self) -> list[dict[str, Any]]:
        names = ("outcome", "ok", "drop", "max_drop", "before", "now")
        low, high = self.interval
        return [{**{name: getattr(self, name) for name in names}, "low": low, "high": high}]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the drop with its 90% interval and the allowed drop; returns the axes."""
        ax = draw.axes(ax)
        draw.intervals(ax, {"drop": (self.drop, *self.interval)}, "drop in certified MAUVE, with 90% interval")
        ax.axvline(self.max_drop, color="k", linestyle="--", label=f"allowed: {self.max_drop:g}")
        draw.legend(ax, above=True)
        return ax


def check_regression(
    reference: Any,
    model: Any,
    baseline: Score | str | PathLike[str],
    *,
    max_drop: float = 0.02,
    measure: Measure | str | None = None,
    embedder: AnyEmbedder | str | None = None,
    paired: bool = False,
    rng: int | np.random.Generator | None = 0,
) -> Check:
    """Whether the model is farther from the reference than its baseline, by more than `max_drop` in certified MAUVE.

    The answer rests on held-out evidence of both runs and has three outcomes: passed, regression, cannot tell. With few
    samples it is often the last; `mallow.plan_samples` estimates how many are needed. The comparison is between the
    gaps that samples of these sizes can certify. A gap that the witness detects in neither run plays no part. More
    samples certify a larger gap, so both runs are compared at one size. With over 10% more samples than the baseline,
    only as many as in the baseline are used. With over 10% fewer, the model cannot pass.

    Parameters
    ----------
    reference : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The real data, as in `mallow.score`. If both runs have the same reference, the noise that they share cancels.
    model : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The model's samples. If both runs have the same ids, the noise that they share cancels.
    baseline : Score or path
        An earlier score, or its JSON file.
    max_drop : float
        The drop in MAUVE that is allowed; at least 0.
    measure : Measure or None
        None: the measure of the baseline, if that is MAUVE_STAR, MAUVE_2021 or MAUVE_KERNEL. Any other measure must be
        passed.
    embedder :
        As in `mallow.score`. It must be the embedder of the baseline.
    paired :
        Whether row i of each set belongs to row i of the others, as in `mallow.score`.
    rng :
        The seed of the clusterings, as in `mallow.score`.

    Examples
    --------
    >>> import numpy as np
    >>> from mallow import score
    >>> rng = np.random.default_rng(0)
    >>> human, before, now = (rng.normal(shift, 1, size=(1000, 4)) for shift in (0, 0.1, 0.6))
    >>> check_regression(human, now, score(human, before)).outcome
    'regression'
    """
    if not (isinstance(max_drop, (int, float)) and 0 <= max_drop < 1):
        raise InputError(f"`max_drop` must be a drop in MAUVE, at least 0 and below 1; got {max_drop!r}.")
    before = baseline if isinstance(baseline, Score) else read_baseline(baseline)
    measure = _same_measure(before, measure)
    evidence_before = _evidence_of(before)
    settings = Settings(measure, len(before.values["mauve"]), seed_from(rng))
    prompts = "joint" if "prompts" in evidence_before.spaces else "ignore"
    sides = embed_all({"reference": reference, "model": model}, embedder, paired=paired, prompts=prompts)
    now = score_embedded(sides["reference"], sides["model"], settings)
    _refuse_other_evidence(before, now)
    caveats = [*now.caveats, *_changes_since(before, now)]
    evidence_now = _cut_to_baseline(evidence_before, _evidence_of(now), sides, settings)
    if _same_samples(before, now):
        drop = Estimate(0.0, 0.0, 0.0)
        caveats.append(Caveat("same samples", "these are the baseline's own samples, so nothing new was checked."))
    else:
        drop = settle(estimate_drop(evidence_before, evidence_now, measure.divergence, measure.area_scale))
    warn_about(caveats)
    fewer, more = _compare_sizes(evidence_before, evidence_now)
    outcome: Outcome = "cannot tell"
    if drop.high <= max_drop and not fewer:
        outcome = "passed"
    elif drop.low > max_drop and not more:
        outcome = "regression"
    value_now = evidence_now.certify(measure.divergence, measure.area_scale).estimates["mauve"].value
    values = {"before": before.certified["mauve"].value, "now": value_now}
    return Check(outcome, drop.value, (drop.low, drop.high), max_drop, **values, score=now, caveats=tuple(caveats))


def _cut_to_baseline(before: Evidence, now: Evidence, sides: Mapping[str, Samples], settings: Settings) -> Evidence:
    """The evidence of this run with at most as many samples of each side as the baseline, in whole units.

    The choice of units depends on neither the seed nor the order of the samples.
    """
    cut = []
    for samples, numbers, earlier in zip(sides.values(), now.units.sets, before.units.sets, strict=True):
        if len(numbers) > _SIMILAR * len(earlier):
            chosen = choose_units(Units((numbers,), now.keys), len(earlier))
            samples = samples.take(np.flatnonzero(chosen[numbers]))
        cut.append(samples)
    if all(len(samples) == len(numbers) for samples, numbers in zip(cut, now.units.sets, strict=True)):
        return now
    return hold_out(settings.measure, {"model": (cut[0], cut[1])}).evidence["model"]


def _compare_sizes(before: Evidence, now: Evidence) -> tuple[bool, bool]:
    """Whether a run has clearly fewer samples or units of a side than the baseline, and whether clearly more."""
    counts = [
        np.array([count for units in run.units.sets for count in (len(units), len(np.unique(units)))])
        for run in (before, now)
    ]
    return bool((_SIMILAR * counts[1] < counts[0]).any()), bool((counts[1] > _SIMILAR * counts[0]).any())


def read_baseline(path: str | PathLike[str]) -> Score:
    """The score in a file that `mallow score --format json` or `Score.to_json` wrote."""
    try:
        data = parse_json(read_text(path))
    except InputError as error:
        raise InputError(f"`baseline` must be a readable file; {error}{_SCORE_AGAIN}") from None
    except ValueError:
        raise InputError(f"`baseline` must be the JSON file of a score; {path} is not JSON.{_SCORE_AGAIN}") from None
    kind = data.get("kind") if isinstance(data, dict) else type(data).__name__
    if kind != "mallow score":
        raise InputError(f"`baseline` must be the JSON file of a score; {path} holds {kind!r}.{_SCORE_AGAIN}")
    try:
        return Score.from_dict(data)
    except InputError as error:
        raise InputError(f"`baseline` must be the JSON file of a score; {path}: {error}{_SCORE_AGAIN}") from None


def _evidence_of(score: Score) -> Evidence:
    if score.evidence is None:
        raise InputError(
            "`baseline` must hold held-out evidence, which scores of a `Monitor` do not have. Score the samples with "
            "`mallow.score`."
        )
    return score.evidence


def _same_samples(before: Score, now: Score) -> bool:
    """Whether two scores are of the same samples, so that everything that depends on them is the same, bit by bit."""
    first, second = _evidence_of(before), _evidence_of(now)
    arrays = ("keys", "reference_units", "model_units", "reference_scores", "model_scores")
    return before.values == now.values and all(
        np.array_equal(getattr(first, name), getattr(second, name)) for name in arrays
    )


def _same_measure(before: Score, measure: Measure | str | None) -> Measure:
    made_by = before.signature.measure
    if measure is None:
        if made_by not in _KNOWN:
            raise InputError(f"`measure` must be passed, since the baseline was made with {made_by}.")
        return _KNOWN[made_by]
    measure = find_measure(measure)
    if repr(measure) != made_by:
        raise InputError(f"`measure` must be the measure of the baseline, {made_by}; got {measure!r}.")
    return measure


def _refuse_other_evidence(before: Score, now: Score) -> None:
    there, here = (f"{result.signature.embedder}, width={result.signature.width}" for result in (before, now))
    if there != here:
        raise InputError(
            f"`embedder` must be the embedder of the baseline, {there}; got {here}. Scores of two embedders cannot be "
            "compared: pass the same one, or score the baseline again."
        )
    there, here = (", ".join(["features", *_evidence_of(score).spaces]) for score in (before, now))
    if there != here:
        raise InputError(
            f"`baseline` must use the same evidence as this score, {here}; it used {there}. More evidence "
            "proves a larger gap. Score the baseline again, with prompts on both sides or on neither."
        )


def _changes_since(before: Score, now: Score) -> list[Caveat]:
    """Differences between the runs that do not rule out a comparison."""
    caveats = []
    there, here = before.signature.version, now.signature.version
    if there != here:
        caveats.append(Caveat("other version", f"the baseline was made by mallow {there}, and this score by {here}."))
    if before.n != now.n:
        least = min(*before.n, *now.n)
        text = (
            f"the baseline has {before.n[0]} and {before.n[1]} samples, and this score {now.n[0]} and {now.n[1]}. More "
            "samples prove a larger gap, so that no more samples of a side are compared than the baseline has, and "
            "with clearly fewer the model cannot pass. Score the baseline again with the same sizes, such as "
            f"{least} samples on all sides (--limit {least})."
        )
        caveats.append(Caveat("other sizes", text, values={"least": least, "most": max(*before.n, *now.n)}))
    return caveats


def estimate_drop(before: Evidence, now: Evidence, divergence: Divergence, scale: float) -> Estimate:
    """The difference of certified MAUVE of two runs, with a 90% interval: each end holds with 95% confidence.

    The errors of both certificates are compared unit by unit, so that noise from shared parts, such as the reference or
    the prompts, cancels. Near 1 the error of a certificate tends to 0 although a gap too small to be learned may
    remain. There its limits come from Gaussians: how much farther apart could two of them be and give the same
    certificate?
    """
    certificates = before.certify(divergence, scale), now.certify(divergence, scale)
    areas = gaussian_areas(divergence, scale)
    down_before, up_before = _arms(certificates[0], before, areas)
    down_now, up_now = _arms(certificates[1], now, areas)
    shared = _shared_error(before, now, certificates)
    drop = certificates[0].estimates["mauve"].value - certificates[1].estimates["mauve"].value
    return Estimate(drop, drop - _join(down_before, up_now, shared), drop + _join(up_before, down_now, shared))


def gaussian_areas(divergence: Divergence, scale: float) -> Array:
    """The area for two Gaussians of variance 1 whose means differ by each of `_SHIFTS`, falling from 1."""
    half = _SHIFTS[:, None] / 2.0
    sides = (np.diff(ndtr(_EDGES + shift), axis=1) for shift in (half, -half))
    masses = Masses(*(side / side.sum(axis=1, keepdims=True) for side in sides))
    falling: Array = np.minimum.accumulate(np.asarray(area(frontier.quiet(masses, divergence), scale=scale)))
    return falling


def _arms(certificate: Certificate, evidence: Evidence, areas: Array) -> tuple[float, float]:
    """How far below and above its value the certificate of a new run may be, each with 95% confidence."""
    value, error = certificate.estimates["mauve"].value, _LUCK * ONE_SIDED * float(certificate.errors[0])
    counts = (len(np.unique(units)) for units in (evidence.reference_units, evidence.model_units))
    noise = math.sqrt(sum(1.0 / count for count in counts))  # the standard error of a shift
    shift = float(np.interp(-value, -areas, _SHIFTS))
    farther = noise * max(shift / noise + _FARTHER, _HIDDEN)
    down = max(error, value - float(np.interp(farther, _SHIFTS, areas)))
    # As in a certificate, the area falls exponentially with the costs, so the error applies to its logarithm.
    up = value * math.expm1(min(error / max(value, 1e-300), 700.0))
    return min(down, value), min(up, 1.0 - value)


def _shared_error(before: Evidence, now: Evidence, certificates: tuple[Certificate, Certificate]) -> float:
    """The correlation of the errors of two certificates. Equal keys mean the same unit."""
    keys, inverse = np.unique(np.concatenate([before.keys, now.keys]), return_inverse=True)
    places = np.split(inverse, [len(before.keys)])
    first, second = (
        np.bincount(rows, certificate.influence[:, 0], len(keys))
        for rows, certificate in zip(places, certificates, strict=True)
    )
    size = math.sqrt(float(first @ first) * float(second @ second))
    return float(first @ second) / size if size > 0 else 0.0


def _join(first: float, second: float, shared: float) -> float:
    """The arm of the interval of a difference, from the arms of both intervals on that side and their correlation."""
    return math.sqrt(max(first**2 + second**2 - 2.0 * shared * first * second, 0.0))
