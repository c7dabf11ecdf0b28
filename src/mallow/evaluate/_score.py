"""One model against the reference: the proven gap, and the published score."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from mallow.caveats import bin_caveats, blindness_caveats, check_estimate, evidence_caveats, unique_caveats
from mallow.engine import settle
from mallow.errors import Caveat, InputError
from mallow.evaluate._evaluation import Evaluation, Explained, LoadedSystems, Systems, evaluate_systems
from mallow.evaluate._run import (
    Run,
    Settings,
    by_summary,
    mean_frontier,
    no_frontier,
    published_errors,
    spread,
    where_published,
)
from mallow.evidence import SUMMARIES, Certificate, Evidence, Measure, Signature, describe_units, make_signature
from mallow.explain import Reason, numbers_apart, verdict_text
from mallow.results import (
    Axes,
    Estimate,
    Result,
    TableData,
    at_least,
    at_most,
    draw,
    interval_cell,
    number_cell,
    p_text,
    render,
)
from mallow.samples import Samples
from mallow.theory import Frontier, Masses

_UNEXPLAINED = Explained()
_LEAST = 1e-14  # summaries are of order 1, so smaller values are rounding
_SHARES = {
    "unlike": "would have to be replaced to match the reference",
    "new": "foreign, if mixed into the reference",
    "missed": "of the reference missing, if nothing is foreign",
}
_TITLES = {"mauve": "MAUVE", "frontier_integral": "integral", "midpoint": "mid-point"}


@dataclass(frozen=True, eq=False, repr=False)
class Score(Result):
    """How far a model is from the reference: evidence about the distributions, and the published score.

    Attributes
    ----------
    mauve : float
        Area summary of the published estimator, mean over repeats: 1 = indistinguishable by this estimator. For
        features of `mallow.embed.style` or `mallow.embed.texture`, which papers do not score, there is only evidence:
        this and the other published numbers are NaN, and the frontier has NaN costs.
    frontier_integral : float
        Integral summary, mean over repeats: 0 = indistinguishable.
    midpoint : float
        Mid-point summary, mean over repeats: 0 = indistinguishable.
    std : dict
        Standard deviation of each summary over repeats: the noise of clustering, not of sampling.
    interval : dict
        The range around the score in which each summary of 95% of repeat samples of this size would lie. Empty for
        estimators without bins.
    debiased : dict
        An estimate of each summary with unlimited samples, in the same bins, with a 95% interval. Empty for estimators
        without bins.
    certified : dict
        The bounds from held-out evidence: with 95% confidence, the area for the two distributions is at most its
        `high`, and the other summaries are at least their `low`. For a `Monitor`, over all checks.
    p_value : float
        The p-value for "no gap"; valid for shared prompts and for several samples per prompt.
    self_score : dict
        The score of the reference against itself at these sizes, about the score of a perfect model.
    frontier : Frontier
        Mean curve of the published estimator over repeats.
    certified_frontier : Frontier or None
        The certified costs, up to the noise of sampling. The true curve lies farther out.
    masses : Masses or None
        The masses of the first repeat, with their partition. None without a published score.
    signature : Signature
        Everything that the numbers depend on.
    caveats : tuple of Caveat
        Reasons to doubt the numbers.
    n : tuple of int
        The numbers of samples of the reference and of the model.
    scale : float
        The constant c.
    values : dict
        Each summary in every repeat.
    band : two Frontiers or None
        The smallest and the largest cost over the repeats at each λ. None for a single repeat.
    evidence : Evidence or None
        The held-out score of each sample, its unit, and the test. None for a `Monitor`.
    reasons : tuple of Reason
        The telltale signs, the clearest first.
    texts_alone : dict
        The bounds from the texts without their prompts, like `certified`, if evidence uses the prompts and certifies a
        gap; otherwise empty.
    answers : dict
        The similarity of answers to one prompt: the mean cosine of the features of two answers, for the "model" and for
        the "reference". Empty if fewer than five prompts (ids) have several samples of both sides.
    shares : dict
        How many samples are not like the other side: at least `low` with 95% confidence each. "unlike": of the model's
        samples, how many would have to be replaced to match the reference (the total variation distance). "new": how
        many are something else, if the model's samples are the reference with something mixed in. "missed": of the
        reference, how many the model misses, if it adds nothing of its own. Empty without evidence.
    """

    KIND: ClassVar[str] = "score"
    ALSO = ("verdict",)

    mauve: float
    frontier_integral: float
    midpoint: float
    std: dict[str, float]
    interval: dict[str, tuple[float, float]]
    debiased: dict[str, Estimate]
    certified: dict[str, Estimate]
    p_value: float
    self_score: dict[str, float]
    frontier: Frontier
    certified_frontier: Frontier | None
    masses: Masses | None
    signature: Signature
    caveats: tuple[Caveat, ...]
    n: tuple[int, int]
    scale: float
    values: dict[str, tuple[float, ...]]
    band: tuple[Frontier, Frontier] | None = None
    evidence: Evidence | None = None
    reasons: tuple[Reason, ...] = ()
    texts_alone: dict[str, Estimate] = field(default_factory=dict)
    answers: dict[str, float] = field(default_factory=dict)
    shares: dict[str, Estimate] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if math.isnan(self.p_value):
            raise InputError("`p_value` must be a number; got NaN.")
        for name in ("std", "interval", "debiased", "certified", "self_score"):
            estimates = getattr(self, name)
            if estimates and set(estimates) != set(SUMMARIES):
                raise InputError(f"`{name}` must have the entries {', '.join(SUMMARIES)}; got {', '.join(estimates)}.")

    def __repr__(self) -> str:
        certified = f"certified at most {at_most(self.certified['mauve'].high)}, " if self.certified else ""
        published = f"mauve={self.mauve:.4f}" if self.is_published else "mauve not computed"
        return f"Score({published}, {certified}{p_text(self.p_value)}, n={self.n})"

    def __str__(self) -> str:
        lines = [self.verdict, "", self.mauve_table(), "", *self.basis_lines()]
        return self._with_caveats(lines)

    def basis_lines(self) -> list[str]:
        """The basis of the evidence, and its results about prompts and repeated answers; empty if nothing is known."""
        units = f"Units: {self.signature.units}." if self.signature.units else ""
        spaces = f"Evidence looks at features, {self.signature.spaces}." if self.signature.spaces else ""
        lines = [self._share_line(), " ".join(filter(None, [units, spaces])), self._prompt_line(), self._answers_line()]
        return [*filter(None, lines), ""] if any(lines) else []

    def _share_line(self) -> str:
        least = math.floor(100.0 * self.shares["unlike"].low) if self.shares else 0
        return f"With 95% confidence at least {least}% of the samples are not like the reference." if least else ""

    def _prompt_line(self) -> str:
        if not self.texts_alone:
            return ""
        alone, joint = (at_most(each["mauve"].high) for each in (self.texts_alone, self.certified))
        if float(alone) == 1.0:
            return f"Texts alone: no gap is proven; with their prompts: MAUVE at most {joint}."
        return f"Texts alone: MAUVE at most {alone}; with their prompts: at most {joint}."

    def _answers_line(self) -> str:
        if not self.answers:
            return ""
        own, other = numbers_apart(self.answers["model"], self.answers["reference"])
        return f"Answers to one prompt: mean cosine of two {own}, reference {other}."

    def _blocks(self, width: int | None) -> list[str]:
        def fill(text: str) -> str:
            return text if width is None else textwrap.fill(text, width)

        lines = [fill(line) for line in (self._share_line(), self._prompt_line(), self._answers_line()) if line]
        blocks = [fill(self.verdict), self.mauve_table(width=width), "\n".join(lines)]
        return [*filter(None, blocks), str(self.signature)]

    def __format__(self, spec: str) -> str:
        return format(self.mauve, spec) if spec else str(self)

    @property
    def is_published(self) -> bool:
        """Whether there is a published score, rather than evidence only."""
        return not math.isnan(self.mauve)

    @property
    def verdict(self) -> str:
        """What the data prove about the gap, in one or two sentences."""
        most = self.certified["mauve"].high if self.certified else 1.0
        return verdict_text(self.p_value, most, self.n, self.reasons)

    def _rows(self, name: str) -> list[list[str]]:
        """The rows of a summary: the row's name, its value, an interval, and the meaning of the interval."""
        rows = []
        if self.certified:
            one = self.certified[name]
            upper = number_cell(one.high, rounded="up", words="at most ")
            limit = upper if name == "mauve" else number_cell(one.low, rounded="down", words="at least ")
            bound = "upper" if name == "mauve" else "lower"
            rows.append(["certified", number_cell(one.value), limit, f"95% {bound} bound on the true value"])
        if not self.is_published:
            return [*rows, ["published", "not computed", "–", where_published(self.signature)]]
        span = self.interval.get(name)
        text = "–" if span is None else interval_cell(*span)
        about = "no interval without bins" if span is None else "95% of repeat samples of this size"
        rows.append(["published", number_cell(getattr(self, name)), text, about])
        if self.debiased:
            one = self.debiased[name]
            about = "with unlimited samples, same bins"
            rows.append(["bias-corrected", number_cell(one.value), interval_cell(one.low, one.high), about])
        rows.append(["self-score", number_cell(self.self_score[name]), "–", "about what a perfect model gets"])
        return rows

    def mauve_table(self, form: str = "text", *, width: int | None = None) -> str:
        """Only the rows of MAUVE, as a table; `table` has all summaries."""
        data = TableData(["", _TITLES["mauve"], "95% range", "meaning"], self._rows("mauve"), left=(0, 3))
        return render(form, data, width=width)

    def _table(self) -> TableData:
        each = [self._rows(name) for name in SUMMARIES]
        rows = [
            [f"{_TITLES[name]}, {row[0]}", *row[1:]]
            for name, of_summary in zip(SUMMARIES, each, strict=True)
            for row in of_summary
        ]
        breaks = [place * len(each[0]) for place in range(1, len(SUMMARIES) + bool(self.shares))]
        for name, estimate in self.shares.items():
            limit = f"at least {at_least(estimate.low)}"
            rows.append([f"share, {name}", f"{estimate.value:.4f}", limit, _SHARES[name]])
        return TableData(["", "value", "95% range", "meaning"], rows, breaks=breaks, left=(0, 3))

    def _records(self) -> list[dict[str, Any]]:
        records = []
        nothing = Estimate(float("nan"), float("nan"), float("nan"))
        for name in SUMMARIES:
            low, high = self.interval.get(name, (float("nan"), float("nan")))
            corrected, certified = self.debiased.get(name, nothing), self.certified.get(name, nothing)
            record = {"summary": name, "score": getattr(self, name), "low": low, "high": high, "std": self.std[name]}
            for key, estimate in (("debiased", corrected), ("certified", certified)):
                record |= {key: estimate.value, f"{key}_low": estimate.low, f"{key}_high": estimate.high}
            records.append(record | {"self_score": self.self_score[name], "p_value": self.p_value})
        return records

    def brief(self) -> dict[str, Any]:
        """The main numbers as a small dict, without curves and samples: what ``--summary`` prints."""
        values = {name: brief_values(self, name) for name in SUMMARIES}
        reasons = [reason.text for reason in self.reasons[:3]]
        shares = {name: float(at_least(estimate.low)) for name, estimate in self.shares.items()}
        facts = {"p_value": self.p_value, "n": list(self.n), "scale": self.scale, "signature": str(self.signature)}
        return {
            "kind": "mallow score",
            "verdict": self.verdict,
            **values,
            **facts,
            **({"shares": shares} if shares else {}),
            "reasons": reasons,
            **self._doubts(),
        }

    def plot(self, ax: Axes | None = None, label: str | None = None) -> Axes:
        """Draw the published frontier, exponentiated, with the area below it shaded, and the certified frontier.

        Returns the axes. Several scores on the same axes differ in colour, dash and marker: give each its `label`.

        With several repeats the curve has a band: the curves of all repeats lie between its edges. The true curve lies
        below the dashed one, up to the noise of sampling.
        """
        ax = draw.axes(ax)
        style: dict[str, Any] = {"number": (number := draw.count_frontiers(ax)), "shade": 0.06 if number else 0.15}
        if self.is_published:
            published = label or f"published: {self.mauve:.3f}"
            draw.exponentiated(ax, self, label=published, band="" if number else "all clusterings", **style)
            draw.certified_line(ax, self, name=f"{label}, " if label else "", number=number)
        else:
            certified = label or f"certified: {self.certified['mauve'].value:.3f}"
            draw.exponentiated(ax, self, label=certified, certified=True, **style)
        draw.legend(ax)
        return ax


def brief_values(score: Score, name: str) -> dict[str, Any]:
    """The values of one summary of a score, rounded to four digits."""
    values: dict[str, Any] = {}
    if score.certified:
        estimate = score.certified[name]
        values["certified"] = round(estimate.value, 4)
        values |= (
            {"at_most": float(at_most(estimate.high))}
            if name == "mauve"
            else {"at_least": float(at_least(estimate.low))}
        )
    if not score.is_published:
        return values | {"published": None}
    values["published"] = round(float(getattr(score, name)), 4)
    if name in score.interval:
        values["other_draws"] = [round(end, 4) for end in score.interval[name]]
    return values | {"self_score": round(score.self_score[name], 4)}


def score_embedded(reference: Samples, model: Samples, settings: Settings) -> Score:
    """The score of samples that have features, with caveats in the result and no warnings."""
    return score_system(LoadedSystems.of({"model": (reference, model)}), settings)


def score_system(systems: Systems, settings: Settings) -> Score:
    """The score of a single system, without warnings."""
    (result,) = build_scores(evaluate_systems(systems, settings), "model")
    return result


def build_scores(evaluation: Evaluation, name: str) -> list[Score]:
    """The scores of a system, one per generation."""
    held_out = evaluation.held_out
    known: dict[str, Any] = {"evidence": held_out.evidence[name], "certificate": held_out.certificates[name]}
    known |= {"explained": evaluation.explained[name], "caveats": evaluation.caveats[name]}
    itself = evaluation.self_scores[name]
    return [build_score(evaluation.settings, run, itself, **known) for run in evaluation.runs[name]]


def build_score(
    settings: Settings,
    run: Run,
    itself: dict[str, float],
    *,
    evidence: Evidence | None = None,
    certificate: Certificate | None = None,
    explained: Explained = _UNEXPLAINED,
    caveats: Sequence[Caveat] = (),
) -> Score:
    """The score of all repeats of a run, with the given caveats followed by those about its masses and bins.

    Without evidence the p-value is 1, and the caller must replace it.
    """
    measure = settings.measure
    traced = [measure.trace(masses) for masses in run.masses]
    curves, values = [curve for curve, _ in traced], by_summary([summaries for _, summaries in traced])
    mean, band = mean_frontier(curves) if curves else (no_frontier(certificate), None)
    every = [
        *caveats,
        *(caveat for masses in run.masses for caveat in masses.caveats),
        *(caveat for curve in curves for caveat in curve.caveats),
        *_doubts(measure, run, values["mauve"], itself, evidence, certificate),
    ]
    known: dict[str, Any] = {}
    if evidence is not None:
        known = {"tolerance": evidence.tolerance, "spaces": evidence.spaces}
        known["units"] = describe_units(evidence.units, run.reference, run.model)
    signature = make_signature(measure, run.reference, len(run.model), run.masses, settings.seed, **known)
    interval, debiased = settle(published_errors(measure, run, values), least=_LEAST)
    return Score(
        **{name: settle(float(np.mean(each))) if each else math.nan for name, each in values.items()},
        std={name: settle(spread(each)) if each else math.nan for name, each in values.items()},
        interval=interval,
        debiased=debiased,
        certified={} if certificate is None else certificate.estimates,
        p_value=1.0 if evidence is None else evidence.test.p_value,
        self_score=settle(itself) if run.masses else itself,
        frontier=mean.settle(),
        certified_frontier=None if certificate is None else certificate.frontier,
        masses=run.masses[0] if run.masses else None,
        signature=replace(signature, aligned=settings.aligned),
        caveats=settle(unique_caveats(every)),
        n=(len(run.reference), len(run.model)),
        scale=measure.area_scale,
        values=settle(values),
        band=None if band is None else (band[0].settle(), band[1].settle()),
        evidence=evidence,
        reasons=explained.reasons,
        texts_alone={} if explained.texts_alone is None else explained.texts_alone.estimates,
        answers=settle(explained.answers),
        shares={} if evidence is None else evidence.shares(),
    )


def _doubts(
    measure: Measure,
    run: Run,
    areas: tuple[float, ...],
    itself: dict[str, float],
    evidence: Evidence | None,
    certificate: Certificate | None,
) -> list[Caveat]:
    """Caveats from the estimate and the evidence."""
    if not run.masses:
        return [] if evidence is None else [*evidence_caveats(evidence)]
    partition = run.masses[0].partition
    if evidence is None or certificate is None:
        return bin_caveats(partition)
    mauve, high = float(np.mean(areas)), certificate.estimates["mauve"].high
    return [
        *check_estimate(
            measure,
            *(run.seen or (run.reference, run.model)),
            reduction=run.reduction,
            partition=partition,
            mauve=mauve,
        ),
        *blindness_caveats(mauve, itself["mauve"], evidence.test.p_value, high),
        *evidence_caveats(evidence),
    ]
