"""Held-out evidence about one or more systems, the basis of all claims about them, whatever the estimator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.estimate import Features
from mallow.evidence._blocks import Rows as RowSource
from mallow.evidence._blocks import WideRows, select_columns
from mallow.evidence._certificate import Certificate, certify
from mallow.evidence._evidence import (
    LEVEL,
    Evidence,
    EvidenceDifference,
    difference_between,
    evidence_by_choice,
    is_undecided,
    subtract_certificates,
)
from mallow.evidence._identity import Draws
from mallow.evidence._learner import Learner
from mallow.evidence._measure import Measure
from mallow.evidence._rich import AXES, RICH_VIEWS
from mallow.evidence._space import find_space
from mallow.evidence._systems import pair_columns, pair_spaces, run_systems, widths_of_texts
from mallow.evidence._units import Units, are_uneven, choose_units, find_units
from mallow.evidence._witness import make_learner
from mallow.samples import Samples

PERMUTATIONS = 499  # of a score's test; chosen: p-values of at least 0.002; below that, the tail is approximated

_SIMILAR = 1.1  # chosen: sizes count as equal up to this ratio of units
_CLEAR = 6.0  # chosen: standard errors of the mid-point from which the test always shows the gap, too
_RICH_UNITS = 2000  # chosen: units of a system, and twice as many of the reference, for richer views
_RICH_ASSIGNMENTS = 2  # chosen: each takes ten calls of every view

Indices = NDArray[np.int64]
Source = Features | RowSource
Pairs = Mapping[str, tuple[Samples, Samples]]  # system → the reference and the system's samples, both with features


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The evidence about each system against its reference, and the data for their differences.

    Attributes
    ----------
    sources : mapping
        System → the rows of the reference and of the system on which the evidence is based.
    units : Units
        The units of the rows of the reference and all systems, in their order.
    samples : mapping
        System → samples of the reference and of the system in memory: all of them, or the samples at `places`.
    places : mapping
        System → the indices of these samples among the rows of the reference and of the system.
    widths : mapping
        System → the number of columns of each space; empty if there is one space.
    of_texts : mapping
        System → the certificate by the spaces that do not use prompts. Only if others do, and if a gap is certified
        with prompts: otherwise there is nothing to compare it with.
    of_cuts : dict
        The certificates of systems that were cut to a number of units, so that each is computed once.
    """

    measure: Measure
    sources: Mapping[str, tuple[Source, Source]]
    units: Units
    samples: Pairs
    evidence: dict[str, Evidence]
    certificates: dict[str, Certificate]
    places: Mapping[str, tuple[Indices, Indices]] = field(default_factory=dict)
    widths: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    of_texts: Mapping[str, Certificate] = field(default_factory=dict)
    of_cuts: dict[tuple[str, int], Certificate] = field(default_factory=dict, repr=False)

    def evidence_in_memory(self, name: str) -> Evidence:
        """The evidence about the samples of a system in memory."""
        evidence = self.evidence[name]
        if name not in self.places:
            return evidence
        first, second = self.places[name]
        return replace(
            evidence,
            reference_scores=evidence.reference_scores[first],
            model_scores=evidence.model_scores[second],
            reference_units=evidence.reference_units[first],
            model_units=evidence.model_units[second],
        )

    def difference(self, first: str, second: str) -> EvidenceDifference:
        """The differences between the certified summaries of two systems, with intervals and p-values.

        Systems of different sizes are cut to the smaller number of units, because a witness learns more from more
        units, and the larger system would seem to be farther away. For the same reason both are judged by the spaces
        that both have. A significant order must survive richer views. If they reverse it, it is not claimed.
        """
        if self._spaces(first) != self._spaces(second):
            return self._with_shared_spaces(first, second).difference(first, second)
        size = min(self._model_units(first), self._model_units(second))
        certificates = self._certificate(first, size), self._certificate(second, size)
        joint = self.samples[first][0] is not self.samples[second][0]  # an embedder gave each pair its own space
        if is_undecided(*certificates) and not joint:
            cut = [self._cut(name, size) for name in (first, second)]
            sets = cut[0].units.sets[0], cut[0].units.sets[1], cut[1].units.sets[1]
            both = [*cut[0].source, cut[1].source[1]]
            learner = make_learner(self.measure.witness, both, Units(sets, self.units.keys), self.widths.get(first))
            difference = difference_between(learner, (1, 2), certificates, self.measure.divergence)
        else:  # a common witness would not change the verdict, or there is none
            difference = subtract_certificates(*certificates)
        if difference.p_value["mauve"] < LEVEL and not self._survives_richer_views(first, second, size, difference):
            return difference.undecided()
        return difference

    def _spaces(self, name: str) -> dict[str, int]:
        """The number of columns of each space of a system; for the first one without the features, which all have."""
        widths = self.widths.get(name, {})
        return {**widths, "": max(0, widths.get("", 0) - self.samples[name][0].width)}

    def _with_shared_spaces(self, first: str, second: str) -> HeldOut:
        """The same evidence, with certificates of two systems by the columns that both have."""
        sources, certificates, widths = dict(self.sources), dict(self.certificates), dict(self.widths)
        both = self._spaces(first), self._spaces(second)
        shared = [space for space, width in both[0].items() if both[1].get(space) == width]
        for name in (first, second):
            of_system = {"": self.samples[name][0].width} | {space: self.widths[name][space] for space in shared}
            starts = dict(zip(self.widths[name], np.cumsum([0, *self.widths[name].values()]), strict=False))
            columns = np.concatenate([starts[space] + np.arange(width) for space, width in of_system.items()])
            x, y = (select_columns(rows, columns) for rows in self.sources[name])
            units = self.units.pair(list(self.samples).index(name) + 1)
            scores = make_learner(self.measure.witness, (x, y), units, of_system).scores(1)
            certificates[name] = certify(scores[0], scores[1], units, self.measure.divergence, self.measure.area_scale)
            sources[name], widths[name] = (x, y), of_system
        return replace(self, sources=sources, certificates=certificates, widths=widths, of_cuts={})

    def _model_units(self, name: str) -> int:
        number = list(self.samples).index(name) + 1
        return len(np.unique(self.units.sets[number]))

    def _cut(self, name: str, size: int) -> _Cut:
        """A system against the reference, with at most about this many units of the system."""
        number = list(self.samples).index(name) + 1
        units, source = self.units.pair(number), self.sources[name]
        if self._model_units(name) <= _SIMILAR * size:
            return _Cut(source, units, self.widths.get(name))
        rows = np.flatnonzero(choose_units(Units((units.sets[1],), units.keys), size)[units.sets[1]])
        model = source[1][rows] if isinstance(source[1], np.ndarray) else source[1].take(rows)
        cut = Units((units.sets[0], units.sets[1][rows]), units.keys)
        return _Cut((source[0], model), cut, self.widths.get(name))

    def _certificate(self, name: str, size: int) -> Certificate:
        if self._model_units(name) <= _SIMILAR * size:
            return self.certificates[name]
        certificate = self.of_cuts.get((name, size))
        if certificate is None:
            cut = self._cut(name, size)
            scores = make_learner(self.measure.witness, cut.source, cut.units, cut.widths).scores(1)
            certificate = certify(scores[0], scores[1], cut.units, self.measure.divergence, self.measure.area_scale)
            self.of_cuts[name, size] = certificate
        return certificate

    def _survives_richer_views(self, first: str, second: str, size: int, difference: EvidenceDifference) -> bool:
        """Whether a witness with richer views finds the two systems in the same order."""
        values = []
        for name in (first, second):
            key = (name, -size)
            if key not in self.of_cuts:
                cut = self._cut(name, min(size, _RICH_UNITS))
                self.of_cuts[key] = _certify_richly(self.measure, cut)
            values.append(self.of_cuts[key].estimates["mauve"].value)
        return (values[0] - values[1]) * difference.value["mauve"] > 0


@dataclass(frozen=True, eq=False)
class _Cut:
    """The rows of a reference and of some units of a system."""

    source: tuple[Source, Source]
    units: Units
    widths: Mapping[str, int] | None


def _certify_richly(measure: Measure, cut: _Cut) -> Certificate:
    """The certificate by a witness with richer views; from some units of the reference, if it has many."""
    reference, of_reference = cut.source[0], cut.units.sets[0]
    rows = np.flatnonzero(choose_units(Units((of_reference,), cut.units.keys), 2 * _RICH_UNITS)[of_reference])
    reference = reference[rows] if isinstance(reference, np.ndarray) else reference.take(rows)
    units = Units((of_reference[rows], cut.units.sets[1]), cut.units.keys)
    model = cut.source[1]
    model = model if isinstance(model, np.ndarray) else model.take(np.arange(len(model)))
    wide, widths = [reference, model], dict(cut.widths or {"": reference.shape[1]})
    if not are_uneven(units):  # whose samples would be told apart by axes that follow their units
        space = find_space(wide, units)
        count = widths[""]  # views only get the first space, so the leading axes of all columns are at its end
        leading = [space.points[rows][:, :AXES] for rows in space.places]
        widths[""] += leading[0].shape[1]
        wide = [
            np.concatenate([side[:, :count], axes, side[:, count:]], axis=1)
            for side, axes in zip(wide, leading, strict=True)
        ]
    witness = replace(measure.witness, views=(*measure.witness.views, *RICH_VIEWS), assignments=_RICH_ASSIGNMENTS)
    scores = make_learner(witness, wide, units, widths).scores(1)
    return certify(scores[0], scores[1], units, measure.divergence, measure.area_scale)


def hold_out(
    measure: Measure, pairs: Pairs, *, permutations: int = PERMUTATIONS, units: Units | None = None
) -> HeldOut:
    """The evidence about each system against its reference, independent of the other systems.

    `units` are the units of the reference and all systems; by default they are computed.
    """
    references = [reference for reference, _ in pairs.values()]
    units = units or find_units(references[0], *(model for _, model in pairs.values()))
    columns = {name: pair_spaces(*pair) for name, pair in pairs.items()}
    sources = {name: (x, y) for name, (x, y, _) in columns.items()}
    widths, scale = {name: of_spaces for name, (_, _, of_spaces) in columns.items()}, measure.area_scale

    def gather(name: str) -> list[tuple[Evidence, Certificate]]:
        of_pair, of_texts = _units_of_pair(units, pairs, name), widths_of_texts(pairs[name][0], widths[name])
        learner = make_learner(measure.witness, sources[name], of_pair, widths[name], of_texts)
        by_choice = certify_by_choice(measure, learner, widths[name], permutations=permutations)
        if of_texts is None or len(by_choice) > 1 or by_choice[0][1].estimates["mauve"].high == 1.0:
            return by_choice
        x, y, of_spaces = pair_spaces(*pairs[name], prompts=False)
        scores = make_learner(measure.witness, (x, y), of_pair, of_spaces).scores(1)
        return [*by_choice, (by_choice[0][0], certify(scores[0], scores[1], of_pair, measure.divergence, scale))]

    tasks = [partial(gather, name) for name in pairs]
    outcomes = run_systems(tasks, pairs.values(), alone=bool(measure.witness.views))
    of_texts = {
        name: by_choice[1][1]
        for name, by_choice in zip(pairs, outcomes, strict=True)
        if len(by_choice) > 1 and by_choice[0][1].estimates["mauve"].high < 1.0
    }
    evidence = _by_name(pairs, [by_choice[0] for by_choice in outcomes])
    return HeldOut(measure, sources, units, pairs, *evidence, widths=widths, of_texts=of_texts)


def find_limit(measure: Measure, reference: Samples, model: Samples) -> float:
    """The certified upper limit of MAUVE for samples with features, without anything else.

    A limit counts if the test shows a gap. Where held-out scores leave no doubt, the test would only take time.
    """
    x, y, widths = pair_spaces(reference, model)
    units = find_units(reference, model)
    learner = make_learner(measure.witness, (x, y), units, widths)
    of_x, of_y = learner.scores(1)
    certificate = certify(of_x, of_y, units, measure.divergence, measure.area_scale)
    if certificate.estimates["midpoint"].value <= _CLEAR * certificate.errors[2]:
        test = learner.test(1, Draws(PERMUTATIONS, more=()))  # the first permutations decide
        certificate = certificate if test.p_value < LEVEL else certificate.without_limits()
    return certificate.estimates["mauve"].high


def hold_out_rows(
    measure: Measure,
    rows: Mapping[str, RowSource],
    pairs: Pairs,
    units: Units,
    samples: Pairs,
    places: Mapping[str, tuple[Indices, Indices]],
) -> HeldOut:
    """The same for many rows of features that need not be in memory.

    `rows` are those of the reference, named "", and of each system. `pairs` are all samples, whose spaces are in memory
    if they have any. `samples` are those of them at `places`, whose features are in memory, too.
    """
    sources, widths, outcomes = {}, {}, []
    for number, (name, pair) in enumerate(pairs.items(), start=1):
        columns, widths[name] = pair_columns(*pair)
        widths[name][""] += rows[""].width
        first, second = (_widen(rows[side], more) for side, more in zip(("", name), columns, strict=True))
        sources[name] = first, second
        learner = make_learner(measure.witness, sources[name], units.pair(number), widths[name])
        outcomes += certify_by_choice(measure, learner, widths[name])
    return HeldOut(measure, sources, units, samples, *_by_name(samples, outcomes), places, widths)


def _widen(rows: RowSource, more: Sequence[NDArray[Any]]) -> RowSource:
    """Rows with more columns beside theirs."""
    if not more:
        return rows
    return WideRows(rows, more[0] if len(more) == 1 else np.concatenate(more, axis=1))


def certify_by_choice(
    measure: Measure, learner: Learner, widths: Mapping[str, int], *, permutations: int = PERMUTATIONS
) -> list[tuple[Evidence, Certificate]]:
    """The evidence about the first system of a learner, and its certificate, by each choice of spaces."""
    spaces = tuple(name for name in widths if name)
    by_choice = evidence_by_choice(learner, 1, permutations=permutations)
    by_choice = [replace(evidence, spaces=spaces) for evidence in by_choice]
    return [(evidence, evidence.certify(measure.divergence, measure.area_scale)) for evidence in by_choice]


def _by_name(
    names: Iterable[str], outcomes: Sequence[tuple[Evidence, Certificate]]
) -> tuple[dict[str, Evidence], dict[str, Certificate]]:
    pairs = dict(zip(names, outcomes, strict=True))
    return {name: outcome for name, (outcome, _) in pairs.items()}, {
        name: outcome for name, (_, outcome) in pairs.items()
    }


def _units_of_pair(units: Units, pairs: Pairs, name: str) -> Units:
    """The units of a system and its reference, from the units of all systems.

    If a joint embedder gave the pair its own features, the keys are computed without other systems.
    """
    of_pair = units.pair(list(pairs).index(name) + 1)
    if pairs[name][0] is next(iter(pairs.values()))[0]:
        return of_pair
    alone, keys = find_units(*pairs[name]), of_pair.keys.copy()
    for numbers, numbers_alone in zip(of_pair.sets, alone.sets, strict=True):
        keys[numbers] = alone.keys[numbers_alone]
    return Units(of_pair.sets, keys)
