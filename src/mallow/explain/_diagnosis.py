"""A diagnosis of the gap: telltale signs, and the regions that the model misses or invents, with samples."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from mallow._checks import seed_from, whole
from mallow._files import make_folder
from mallow.caveats import evidence_caveats, refuse_without_answer, rename_system
from mallow.embed import AnyEmbedder, embed_all
from mallow.errors import Caveat, InputError, warn_about
from mallow.estimate import Codebook, Quantize
from mallow.evidence import (
    MAUVE_STAR,
    Evidence,
    Measure,
    Signature,
    describe_units,
    find_measure,
    generator_for,
    hold_out,
    make_signature,
    pair_points,
)
from mallow.explain._reasons import Reason, find_reasons, verdict_text
from mallow.explain._region import OffTopic, Region, Telltale, image_grid, in_one_line
from mallow.explain._regions import describe_regions, find_off_topic, find_telltales, small_bin_caveats, tabulate_bins
from mallow.results import Axes, Estimate, Result, TableData, draw, p_text, render
from mallow.samples import Samples
from mallow.theory import extrapolated

_TELLTALES_SHOWN = 3  # of each side in print; chosen
_TERMS_IN_LABEL = 3  # chosen: labels of a picture stay short
_CELL = 40  # characters of a prompt or text in a table; chosen: two of them fit a line of a terminal


@dataclass(frozen=True, repr=False)
class Diagnosis(Result):
    """The regions of the gap between reference and model, and the telltale signs of the model.

    Attributes
    ----------
    missed : tuple of Region
        The missed bins with the largest shares of the gap, the largest first.
    invented : tuple of Region
        The invented bins with the largest shares of the gap, the largest first.
    gap : dict
        "missed" and "invented": the sum over all bins of that side. Together they are the mid-point summary in these
        bins.
    sample_kind : "text", "image", "audio" or "features"
    n : tuple of int
        The number of samples of the reference and of the model.
    bins : int
    signature : Signature
        Everything that the diagnosis depends on.
    caveats : tuple of Caveat
        Reasons for doubt.
    p_value : float
        The p-value for "no gap", as in a score.
    certified : dict
        The bounds from held-out evidence, as in a score. Empty without evidence.
    reasons : tuple of Reason
        Differences between the sides that correlate with the held-out score: `find_reasons`.
    giveaways : tuple of Telltale
        The model's samples with the lowest held-out scores, the lowest first: those that look least like the reference.
        Empty if nothing was learned.
    unmatched : tuple of Telltale
        The reference samples with the highest held-out scores, the highest first: those that look least like anything
        that the model produces.
    off_topic : tuple of OffTopic
        The model's texts that are farthest from their own prompts, compared with the reference's texts for the same
        prompts. The farthest first. Empty if evidence does not use prompts, or shows no gap.
    """

    KIND: ClassVar[str] = "diagnosis"
    ALSO = ("verdict",)

    missed: tuple[Region, ...]
    invented: tuple[Region, ...]
    gap: dict[str, float]
    sample_kind: Literal["text", "image", "audio", "features"]
    n: tuple[int, int]
    bins: int
    signature: Signature
    caveats: tuple[Caveat, ...]
    p_value: float = 1.0
    certified: dict[str, Estimate] = field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()
    giveaways: tuple[Telltale, ...] = ()
    unmatched: tuple[Telltale, ...] = ()
    off_topic: tuple[OffTopic, ...] = ()

    @property
    def regions(self) -> tuple[Region, ...]:
        """All regions, the missed ones first."""
        return self.missed + self.invented

    @property
    def verdict(self) -> str:
        """Whether the gap is real, a bound on its size, and the telltale signs; empty without evidence."""
        return self._verdict(self.reasons)

    def _verdict(self, reasons: Sequence[Reason]) -> str:
        return verdict_text(self.p_value, self.certified["mauve"].high, self.n, reasons) if self.certified else ""

    def __repr__(self) -> str:
        parts = [p_text(self.p_value), f"reasons={len(self.reasons)}"]
        for side, regions in (("missed", self.missed), ("invented", self.invented)):
            significant = sum(region.significant for region in regions)
            parts.append(f"{side} {self.gap[side]:.4f} ({significant} of {len(regions)} regions significant)")
        return f"Diagnosis({', '.join(parts)}, bins={self.bins}, n={self.n})"

    def __str__(self) -> str:
        reasons = [(f"{100 * reason.values['explained']:3.0f}%", reason.text) for reason in self.reasons]
        giveaways, unmatched = (
            [(f"{telltale.score:+.2f}", str(telltale)) for telltale in some]
            for some in (self.giveaways, self.unmatched)
        )
        blocks = [
            self._verdict(()),
            _list_lines("Telltale signs, and the share of the evidence that each accounts for", reasons),
            _list_lines("Most telling model samples: the lowest held-out scores", giveaways[:_TELLTALES_SHOWN]),
            _list_lines(
                "Reference samples that the model hardly produces: the highest held-out scores",
                unmatched[:_TELLTALES_SHOWN],
            ),
            self.off_topic_table()
            and f"Off topic: farther from their prompts than the reference's texts\n{self.off_topic_table()}",
            self._gap_line(),
        ]
        for title, regions in (("MISSED by the model", self.missed), ("INVENTED by the model", self.invented)):
            blocks.append(title if regions else f"{title}: nothing")
            blocks += [f"{number}. {region}" for number, region in enumerate(regions, start=1)]
        blocks += [f"caveat: {line}" for line in self.caveat_lines()]
        return "\n\n".join(filter(None, blocks))

    def off_topic_table(self, form: str = "text", *, width: int | None = None) -> str:
        """The off-topic texts with their prompts, as a table; "" if there are none."""
        if not self.off_topic:
            return ""
        rows = [
            [
                in_one_line(answer.prompt, _CELL),
                in_one_line(answer.text or "", _CELL),
                f"{answer.cosine:.2f}",
                f"{answer.reference:.2f}",
            ]
            for answer in self.off_topic[: _TELLTALES_SHOWN if form == "text" else None]
        ]
        return render(form, TableData(["prompt", "text", "cosine", "reference"], rows, left=(0, 1)), width=width)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share of each region in the whole gap, labelled by its typical terms; returns the axes.

        Regions that are not significant are pale.
        """
        ax = draw.axes(ax)
        total = sum(self.gap.values())
        for row, region in enumerate(self.regions):
            ax.barh(
                row,
                region.share * self.gap[region.side] / total,
                color=draw.line_style(0 if region.side == "missed" else 1)["color"],
                alpha=1.0 if region.significant else 0.4,
                label=f"{region.side} by the model",
            )
        ax.set_yticks(range(len(self.regions)), [_label(region) for region in self.regions])
        ax.invert_yaxis()  # the first region on top
        ax.set_xlabel("share of the gap (pale: not significant at the 5% level)", loc="right")
        ax.spines[["top", "right"]].set_visible(False)
        if self.regions:
            draw.legend(ax, above=True)
        return ax

    def draw_images(self, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
        """Draw each region of images with `image_grid` into missed-1.png, invented-1.png … in a new folder."""
        home, paths = make_folder(folder), []
        for regions in (self.missed, self.invented):
            for number, region in enumerate(regions, start=1):
                paths.append(home / f"{region.side}-{number}.png")
                image_grid(region, paths[-1])
        return tuple(paths)

    def _headline(self) -> str:
        return self.verdict or self._gap_line()

    def _gap_line(self) -> str:
        total = self.gap["missed"] + self.gap["invented"]
        return (
            f"Regions: the mid-point gap is {total:.4f} in {self.bins} bins of {self.n[0]} reference and {self.n[1]} "
            f"model samples; {self.gap['missed']:.4f} missed, {self.gap['invented']:.4f} invented"
        )

    def _table(self) -> TableData:
        rows = []
        for region in self.regions:
            numbers = [f"{region.share:.0%}", str(region.reference), str(region.model), f"{region.adjusted:.2g}"]
            rows.append([region.side, *numbers, ", ".join(region.terms)])
        head = ["", "share", "reference", "model", "adjusted p", "typical terms"]
        return TableData(head, rows, breaks=[len(self.missed)])

    def _records(self) -> list[dict[str, Any]]:
        return [
            {
                "side": region.side,
                "bin": region.bin,
                "share": region.share,
                "reference": region.reference,
                "model": region.model,
                "expected_reference": region.expected[0],
                "expected_model": region.expected[1],
                "p_value": region.p_value,
                "adjusted": region.adjusted,
                "score": region.score,
                "terms": ", ".join(region.terms),
            }
            for region in self.regions
        ]


def _list_lines(title: str, lines: Sequence[tuple[str, str]]) -> str:
    """A title and the lines below it, each with its number; empty without lines."""
    return "\n".join([title, *(f"  {number}  {text}" for number, text in lines)]) if lines else ""


def _label(region: Region) -> str:
    return ", ".join(region.terms[:_TERMS_IN_LABEL]) or f"bin {region.bin}"


def diagnose(
    reference: Any,
    model: Any,
    *,
    embedder: AnyEmbedder | str | None = None,
    paired: bool = False,
    measure: Measure | str = MAUVE_STAR,
    regions: int = 5,
    examples: int = 3,
    rng: int | np.random.Generator | None = 0,
) -> Diagnosis:
    """Diagnose the gap: telltale signs, and the bins that the model misses or invents, with samples from them.

    Held-out evidence, the same as for a score, decides whether there is a gap, which samples show it most clearly, and
    which words, lengths or traits correlate with it. Bins show where in the data the gap is. Their p-values allow for
    samples that share an id or a prompt.

    Parameters
    ----------
    reference : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The real data. `Samples` that have features are not embedded again, unless an embedder is named.
    model : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The model's samples, of the same kind.
    embedder :
        The embedder, by name or as an object. None takes the default for the kind of samples, as in `mallow.score`.
    paired :
        Whether row i of each set belongs to row i of the others, as in `mallow.score`.
    measure : Measure
        Its estimator must be `Quantize`. With ``bins="auto"`` there are √(n + m) bins here, fewer than for a score,
        because a region should be a topic of a few dozen samples, not a part of a topic. Any other number, or a
        codebook, is kept. The gap is then the mid-point that ``score(…, repeats=1)`` returns for the same measure and
        seed. To look for a small defect in many samples, use more bins.
    regions : int
        The largest number of regions of each kind to return.
    examples : int
        The largest number of samples of each side to return for each region.
    rng : int, numpy Generator or None
        Seed.

    Notes
    -----
    A surplus in one region makes all others smaller. If a tenth of the model's samples are about a topic that the
    reference lacks, every other topic has a tenth less than in the reference, and the model misses a little of each.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> human = rng.normal(size=(2000, 4))
    >>> machine = rng.normal(size=(2000, 4))
    >>> machine[:200] = rng.normal((6, 6, 0, 0), 0.5, size=(200, 4))
    >>> first = diagnose(human, machine).invented[0]
    >>> first.significant, first.share > 0.5, all(example.place < 200 for example in first.model_examples)
    (True, True, True)
    """
    measure = find_measure(measure)
    whole("regions", regions, least=1)
    whole("examples", examples, least=0)
    seed = seed_from(rng)
    _check_estimator(measure)
    sets = embed_all({"reference": reference, "model": model}, embedder, paired=paired, prompts="joint")
    diagnosis = diagnose_embedded(
        sets["reference"], sets["model"], measure=measure, regions=regions, examples=examples, seed=seed
    )
    warn_about(diagnosis.caveats)
    return diagnosis


def diagnose_embedded(
    reference: Samples,
    model: Samples,
    *,
    measure: Measure,
    regions: int = 5,
    examples: int = 3,
    seed: int,
    evidence: Evidence | None = None,
) -> Diagnosis:
    """The diagnosis of samples that have features, with caveats in the result and no warnings.

    `evidence` comes from a score of the same samples; by default it is gathered here.
    """
    sides = reference, model
    x, y = pair_points(*sides)
    quantize = _check_estimator(measure)
    refuse_without_answer(measure, (x, y))
    if evidence is None:
        evidence = hold_out(measure, {"model": sides}).evidence["model"]
    if quantize.bins == "auto" and not isinstance(quantize.codebook, Codebook):
        # √(n + m), so that the average number of samples per bin equals the number of bins. Fewer bins mix a topic with
        # its neighbours, and more bins split it until no part is significant. Measured with minilm for 40 seeds, 300
        # texts per side, a tenth of one side documentation and the rest web texts: with 24 bins the first region was
        # the documentation, and significant, in 33 runs (invented by the model) and 38 runs (missed by it); with 45
        # bins in 16 and 29, with 60 in 6 and 16.
        quantize = replace(quantize, bins=max(2, round(math.sqrt(len(x) + len(y)))))
    measure = replace(measure, estimator=quantize)
    prepared = quantize.prepare(x, y)
    # The first of the clusterings that a score with this seed averages.
    masses = quantize.masses(prepared, generator_for(seed, "clustering").spawn(1)[0])
    table = tabulate_bins(masses, measure.divergence, evidence)
    if isinstance(quantize.codebook, Codebook):  # points in the space of the centres
        points = quantize.codebook.reduce(x), quantize.codebook.reduce(y)
    else:
        points = prepared.points[prepared.group[: len(x)]], prepared.points[prepared.group[len(x) :]]
    largest = describe_regions(table, regions, sides, points, examples, evidence)
    units = describe_units(evidence.units, *sides)
    return Diagnosis(
        missed=tuple(region for region in largest if region.side == "missed"),
        invented=tuple(region for region in largest if region.side == "invented"),
        gap=table.gap,
        sample_kind=reference.kind,
        n=(len(x), len(y)),
        bins=table.partition.bins,
        signature=make_signature(
            measure,
            reference,
            len(y),
            [masses],
            seed,
            tolerance=evidence.tolerance,
            units=units,
            spaces=evidence.spaces,
        ),
        caveats=(
            *rename_system(reference.caveats, "reference"),
            *rename_system(model.caveats, "model"),
            *masses.caveats,
            *small_bin_caveats(table.partition, evidence),
            *evidence_caveats(evidence),
        ),
        p_value=evidence.test.p_value,
        certified=evidence.certify(measure.divergence, measure.area_scale).estimates,
        reasons=find_reasons(reference, model, evidence),
        giveaways=find_telltales(model, evidence.model_scores, -1, evidence),
        unmatched=find_telltales(reference, evidence.reference_scores, 1, evidence),
        off_topic=find_off_topic(reference, model, evidence),
    )


def _check_estimator(measure: Measure) -> Quantize:
    """The estimator of the measure, which must have bins whose costs add up."""
    estimator = measure.estimator
    if not isinstance(estimator, Quantize):
        raise InputError(
            f"`measure` must have bins to tell regions apart, but its estimator is {estimator!r}. Use "
            "Measure(Quantize())."
        )
    if estimator.smoothing is extrapolated:
        raise InputError(
            "`measure` must smooth each bin separately, so that the gap can be split into bins; `extrapolated` looks "
            "at half-samples. Use the default smoothing of Quantize()."
        )
    return estimator
