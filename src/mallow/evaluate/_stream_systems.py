"""Several systems in shards, or on a cluster: what `compare` needs of them, chunk by chunk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mallow.engine import Engine, Passes
from mallow.errors import Caveat
from mallow.evaluate._held_out_shards import Seen, hold_out_shards
from mallow.evaluate._run import Run
from mallow.evaluate._score_shards import SurveyedSet, check_seen, run_sharded, see_samples, survey_sets
from mallow.evaluate._shard_evidence import streams_evidence
from mallow.evidence import HeldOut, Measure, Pairs, Units, units_of_surveys
from mallow.samples import Samples


@dataclass(frozen=True, eq=False)
class StreamedSystems:
    """Systems and their reference, surveyed, with those of their samples that are in memory."""

    passes: Passes
    sets: dict[str, SurveyedSet]  # the reference is called ""
    units: Units
    seen: Seen

    @property
    def complete(self) -> bool:
        """Whether all samples are in memory."""
        return self.seen.complete

    @property
    def pairs(self) -> Pairs:
        """Each system with the reference, as far as they are in memory."""
        return {name: (self.seen.samples[""], own) for name, own in self.seen.samples.items() if name}

    @property
    def whole(self) -> Pairs:
        """Each system with the reference, all of their samples."""
        return {name: (self.sets[""].samples, one.samples) for name, one in self.sets.items() if name}

    def hold_out(self, measure: Measure, seed: int) -> HeldOut:
        """The evidence about each system."""
        shards = {name: one.shards for name, one in self.sets.items()}
        return hold_out_shards(self.passes, measure, shards, self.units, self.seen, seed)

    def caveats(self) -> dict[str, list[Caveat]]:
        """What gives reason to doubt the samples of each system."""
        checked = check_seen(self.seen, self.sets)
        return {name: [*self.seen.caveats, *own] for name, own in checked.items()}

    def runs(
        self,
        measure: Measure,
        generations: Mapping[str, Sequence[tuple[Samples, Samples]]],
        repeats: int,
        seed: int,
        known: dict[tuple[int, int], dict[str, float]],
    ) -> dict[str, list[Run]]:
        """The runs of each system, one per generation; self-scores are put into `known` by reference and size."""
        runs: dict[str, list[Run]] = {}
        for name, parts in generations.items():
            runs[name] = []
            for reference, model in parts:
                seen = None if self.complete else self.pairs[name]
                sets = {"": self.sets[""], name: self.sets[name]}
                if self.complete and model is not self.seen.samples[name]:  # one generation, or in another order
                    sets, _ = survey_sets(self.passes.engine, {"": reference, name: model}, within=self.passes)
                run, itself = run_sharded(self.passes, measure, sets[""], sets[name], repeats, seed, seen)
                runs[name].append(Run(reference, model, run.masses, run.reduction, run.units, seen))
                known[(id(reference), len(model))] = itself
        return runs


def stream_systems(engine: Engine, pairs: Pairs, measure: Measure) -> StreamedSystems:
    """Survey the reference and all systems, and read those of their samples that fit the memory.

    The caller removes the checkpoint at the end (`passes.finish`).
    """
    reference = next(iter(pairs.values()))[0]
    sets, passes = survey_sets(engine, {"": reference, **{name: samples for name, (_, samples) in pairs.items()}})
    units = units_of_surveys([one.survey for one in sets.values()])
    seen = see_samples(passes, sets, units, evidence=not streams_evidence(measure, units))
    return StreamedSystems(passes, sets, units, seen)
