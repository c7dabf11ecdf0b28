"""Held-out evidence about one or more systems: what is claimed about them rests on it, whatever the estimator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mallow.estimate import Features
from mallow.evidence._blocks import Rows as RowSource
from mallow.evidence._certificate import Certificate
from mallow.evidence._evidence import (
    Evidence,
    EvidenceDifference,
    difference_between,
    gather_evidence,
    is_undecided,
    subtract_certificates,
)
from mallow.evidence._measure import Measure
from mallow.evidence._systems import pair_points, run_systems
from mallow.evidence._units import Units, find_units
from mallow.evidence._witness import make_learner
from mallow.samples import Samples

PERMUTATIONS = 499  # of a score's test; chosen: a p-value of 0.002 at least, below that the tail is approximated

Indices = NDArray[np.int64]
Source = Features | RowSource
Pairs = Mapping[str, tuple[Samples, Samples]]  # system → the reference and the system's samples, both with features


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The evidence about each system against its reference, and what is needed for their differences.

    Attributes
    ----------
    sources : mapping
        System → the rows of the reference and of the system that evidence was gathered from.
    units : Units
        Of the rows of the reference and all systems, in their order.
    samples : mapping
        System → samples of the reference and of the system in memory: all of them, or those at `places`.
    places : mapping
        System → where these samples are among the rows of the reference and of the system.
    """

    measure: Measure
    sources: Mapping[str, tuple[Source, Source]]
    units: Units
    samples: Pairs
    evidence: dict[str, Evidence]
    certificates: dict[str, Certificate]
    seed: int
    places: Mapping[str, tuple[Indices, Indices]] = field(default_factory=dict)

    def evidence_in_memory(self, name: str) -> Evidence:
        """The evidence about the samples of a system that are in memory."""
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
        """The certified summaries of one system minus those of another, with what can be said about them."""
        certificates = self.certificates[first], self.certificates[second]
        if self.samples[first][0] is not self.samples[second][0] or not is_undecided(*certificates):
            # A joint embedder gave each pair a space of its own; or a common witness would not change the verdict.
            return subtract_certificates(*certificates)
        names = list(self.samples)
        sets = [self.units.sets[place] for place in (0, names.index(first) + 1, names.index(second) + 1)]
        both = [*self.sources[first], self.sources[second][1]]
        learner = make_learner(self.measure.witness, both, Units(tuple(sets), self.units.keys), self.seed)
        return difference_between(learner, (1, 2), certificates, self.measure.divergence)


def hold_out(
    measure: Measure, pairs: Pairs, seed: int, *, permutations: int = PERMUTATIONS, units: Units | None = None
) -> HeldOut:
    """The evidence about each system against its reference, the same whichever systems are beside it.

    `units` are those of the reference and all systems; by default they are found.
    """
    references = [reference for reference, _ in pairs.values()]
    units = units or find_units(references[0], *(model for _, model in pairs.values()))
    sources = {name: pair_points(*pair) for name, pair in pairs.items()}

    def gather(place: int, name: str) -> tuple[Evidence, Certificate]:
        own = units.pair(place)
        if pairs[name][0] is not references[0]:
            own = _with_keys_of(own, find_units(*pairs[name]))
        return gather_and_certify(measure, sources[name], own, seed, permutations=permutations)

    tasks = [partial(gather, place, name) for place, name in enumerate(pairs, start=1)]
    each = run_systems(tasks, pairs.values(), alone=bool(measure.witness.views))
    return HeldOut(measure, sources, units, pairs, *_by_name(pairs, each), seed)


def hold_out_sources(
    measure: Measure,
    sources: Mapping[str, tuple[Source, Source]],
    units: Units,
    samples: Pairs,
    places: Mapping[str, tuple[Indices, Indices]],
    seed: int,
) -> HeldOut:
    """The same for many rows that need not be in memory; some of them are, as samples."""
    each = [
        gather_and_certify(measure, source, units.pair(place), seed)
        for place, source in enumerate(sources.values(), start=1)
    ]
    return HeldOut(measure, sources, units, samples, *_by_name(samples, each), seed, places)


def gather_and_certify(
    measure: Measure, source: tuple[Source, Source], units: Units, seed: int, *, permutations: int = PERMUTATIONS
) -> tuple[Evidence, Certificate]:
    """The evidence about one system, and its certificate."""
    learner = make_learner(measure.witness, source, units, seed)
    evidence = gather_evidence(learner, 1, permutations=permutations, seed=seed)
    return evidence, evidence.certify(measure.divergence, measure.area_scale)


def _by_name(
    names: Iterable[str], each: Sequence[tuple[Evidence, Certificate]]
) -> tuple[dict[str, Evidence], dict[str, Certificate]]:
    pairs = dict(zip(names, each, strict=True))
    return {name: own for name, (own, _) in pairs.items()}, {name: own for name, (_, own) in pairs.items()}


def _with_keys_of(units: Units, alone: Units) -> Units:
    """The units of a pair with the keys that they have without other systems.

    A joint embedder gave it its own features.
    """
    keys = units.keys.copy()
    for numbers, own in zip(units.sets, alone.sets, strict=True):
        keys[numbers] = alone.keys[own]
    return Units(units.sets, keys)
