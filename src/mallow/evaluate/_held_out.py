"""Held-out evidence about one or more systems: what is claimed about them rests on it, whatever the estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mallow.errors import Caveat
from mallow.evaluate._measure import Measure
from mallow.evaluate._run import pair_points, run_systems
from mallow.inference import (
    Certificate,
    Evidence,
    EvidenceDifference,
    Units,
    difference_between,
    find_units,
    gather_evidence,
    is_undecided,
    make_learner,
    subtract_certificates,
)
from mallow.samples import Samples

__all__ = ["PERMUTATIONS", "HeldOut", "Pairs", "evidence_caveats", "hold_out"]

PERMUTATIONS = 499  # of a score's test; chosen: a p-value of 0.002 at least, below that the tail is approximated
_FEW_UNITS = 20  # chosen: with fewer units, errors of means over them are little more than guesses

Pairs = Mapping[str, tuple[Samples, Samples]]  # system → the reference and the system's samples, both with features


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The evidence about each system against its reference, and what is needed for their differences."""

    measure: Measure
    samples: Pairs
    units: Units  # of the reference and all systems, in their order
    evidence: dict[str, Evidence]
    certificates: dict[str, Certificate]
    seed: int

    def difference(self, first: str, second: str) -> EvidenceDifference:
        """The certified summaries of one system minus those of another, with what can be said about them."""
        certificates = self.certificates[first], self.certificates[second]
        (reference, one), (other_reference, other) = self.samples[first], self.samples[second]
        if reference is not other_reference or not is_undecided(*certificates):
            # A joint embedder gave each pair a space of its own; or a common witness would not change the verdict.
            return subtract_certificates(*certificates)
        names = list(self.samples)
        sets = [self.units.sets[place] for place in (0, names.index(first) + 1, names.index(second) + 1)]
        points = [pair_points(reference, one), pair_points(reference, other)]
        both = [points[0][0], points[0][1], points[1][1]]
        learner = make_learner(self.measure.witness, both, Units(tuple(sets), self.units.keys), self.seed)
        return difference_between(learner, (1, 2), certificates, self.measure.divergence)


def hold_out(measure: Measure, pairs: Pairs, seed: int, *, permutations: int = PERMUTATIONS) -> HeldOut:
    """The evidence about each system against its reference, the same whichever systems are beside it."""
    references = [reference for reference, _ in pairs.values()]
    units = find_units(references[0], *(model for _, model in pairs.values()))

    def gather(place: int, pair: tuple[Samples, Samples]) -> tuple[Evidence, Certificate]:
        own = units.pair(place)
        if pair[0] is not references[0]:
            own = _with_keys_of(own, find_units(*pair))
        learner = make_learner(measure.witness, pair_points(*pair), own, seed)
        evidence = gather_evidence(learner, 1, permutations=permutations, seed=seed)
        return evidence, evidence.certify(measure.divergence, measure.area_scale)

    tasks = [partial(gather, place, pair) for place, pair in enumerate(pairs.values(), start=1)]
    each = run_systems(tasks, pairs.values(), alone=bool(measure.witness.views))
    evidence = {name: own for name, (own, _) in zip(pairs, each, strict=True)}
    certificates = {name: own for name, (_, own) in zip(pairs, each, strict=True)}
    return HeldOut(measure, pairs, units, evidence, certificates, seed)


def _with_keys_of(units: Units, alone: Units) -> Units:
    """The units of a pair with the keys that they have without other systems: a joint embedder gave it its own features."""
    keys = units.keys.copy()
    for numbers, own in zip(units.sets, alone.sets, strict=True):
        keys[numbers] = alone.keys[own]
    return Units(units.sets, keys)


def evidence_caveats(evidence: Evidence) -> Sequence[Caveat]:
    """What makes the evidence doubtful."""
    caveats = []
    count = len(set(evidence.reference_units.tolist()) | set(evidence.model_units.tolist()))
    if count < _FEW_UNITS:
        text = (
            f"only {count} independent units (samples that share an id or a prompt count as one): little can be certified. "
            "Use more prompts."
        )
        caveats.append(Caveat("few units", text, values={"units": count}))
    if not evidence.test.exact:
        text = (
            "the samples of one side come in groups and those of the other do not: the p-value is approximate. "
            "Give both sides the same prompts, or one sample per prompt."
        )
        caveats.append(Caveat("approximate test", text))
    return caveats
