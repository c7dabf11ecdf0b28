"""The table of all measures, with the values of every system and of the reference."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from mallow.errors import Caveat, InputError
from mallow.results import Result, TableData, draw, merge_caveats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Row:
    """One measure of a table.

    Attributes
    ----------
    name : str
    group : str
        "text", "features", "plugins" (of other packages), "transport" or "frontier".
    ideal : float
        The value to reach: for a text statistic the value of the reference, otherwise the value for equal
        distributions.
    """

    name: str
    group: str
    ideal: float


@dataclass(frozen=True)
class Table(Result):
    """Every measure for every system.

    Attributes
    ----------
    rows : tuple of Row
        The measures, in the order in which they are printed.
    values : dict
        System → measure → value. If a measure is not available for a system, it is missing, and a caveat gives the
        reason.
    n : dict
        System → number of samples; "" is the reference.
    embedder : str
        Its name, and the width of the features.
    caveats : tuple of Caveat
        Measures that were left out, and reasons to doubt some of the values.
    noise : dict
        System → measure → the half-widths of the 95% intervals of its value and of its distance from the reference.
        Empty unless it was requested. Measures without noise are not marked.
    """

    KIND: ClassVar[str] = "baselines"

    rows: tuple[Row, ...]
    values: dict[str, dict[str, float]]
    n: dict[str, int]
    embedder: str
    caveats: tuple[Caveat, ...] = ()
    noise: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)

    def leader(self, name: str) -> tuple[str, ...]:
        """The systems to mark: the closest, if its lead over the next one is larger than the noise of sampling.

        Without known noise, all systems of `closest` are marked if noise was not requested, and otherwise none.
        """
        first = self.closest(name)
        if not self.noise:
            return first
        noise_of = {system: noise[name][1] for system, noise in self.noise.items() if name in noise}
        if len(first) != 1 or first[0] not in noise_of:
            return ()
        ideal = next(row.ideal for row in self.rows if row.name == name)
        gaps = {system: distance_from(ideal, values[name]) for system, values in self.values.items() if name in values}
        others = [system for system in gaps if system != first[0]]
        clear = all(gaps[other] - gaps[first[0]] > math.hypot(noise_of[other], noise_of[first[0]]) for other in others)
        return first if others and clear else ()

    def closest(self, name: str) -> tuple[str, ...]:
        """The systems whose value of a measure is closest to the value of the reference; several if they are tied."""
        return tuple(system for system, rank in self.ranks(name).items() if rank == 1)

    def ranks(self, name: str) -> dict[str, int]:
        """The rank of each system by the distance of its value from the value of the reference.

        1 is the closest. Tied systems share the better rank, and systems without a value have none.
        """
        ideals = {row.name: row.ideal for row in self.rows}
        if name not in ideals:
            raise InputError(f"`name` must be a measure of the table, one of {', '.join(ideals)}; got {name!r}.")
        distances = {
            system: distance_from(ideals[name], values[name])
            for system, values in self.values.items()
            if name in values
        }
        return {
            system: 1 + sum(other < distance for other in distances.values()) for system, distance in distances.items()
        }

    def __str__(self) -> str:
        count = f"{len(self.values)} system{'' if len(self.values) == 1 else 's'}"
        title = f"{len(self.rows)} measures of {count} against a reference of {self.n['']} samples ({self.embedder})"
        return "\n".join([title, self.table(), "", *self._legend(), *self.caveat_lines()])

    def _legend(self) -> list[str]:
        if not self.noise:
            return ["* closest to the reference"]
        return ["± 95% interval of the noise of sampling", "* closest to the reference, by more than that noise"]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the rank of every system by every measure, 1 being closest to the reference; returns the axes."""
        ax = draw.axes(ax)
        draw.rank_map(ax, list(self.values), {row.name: self.ranks(row.name) for row in self.rows})
        return ax

    def caveat_lines(self) -> list[str]:
        """The caveats, equal ones of several systems merged into one line."""
        return merge_caveats(self.caveats, systems=list(self.values))

    def _also(self) -> dict[str, Any]:
        return {"closest": {row.name: list(self.closest(row.name)) for row in self.rows}}

    def _table(self) -> TableData:
        """One row per measure, one column per system. The values closest to the reference are marked."""
        systems = list(self.values)
        cells, marked, breaks = [], set(), {0}
        for number, row in enumerate(self.rows):
            cells.append([row.name, f"{row.ideal:.4g}", *(self._cell(system, row.name) for system in systems)])
            marked |= {(number, systems.index(system) + 2) for system in self.leader(row.name)}
            if number and row.group != self.rows[number - 1].group:
                breaks.add(number)
        return TableData(["", "reference", *systems], cells, marked=marked, breaks=breaks)

    def _cell(self, system: str, name: str) -> str:
        value = self.values[system].get(name)
        half = self.noise.get(system, {}).get(name, (None, None))[0]
        if value is None:
            return "–"
        return f"{value:.4g}" if half is None else f"{value:.4g} ±{half:.2g}"

    def _records(self) -> list[dict[str, Any]]:
        """One row per measure and system, so that no name of a system can clash with another column."""
        return [
            {
                "measure": row.name,
                "group": row.group,
                "system": system,
                "value": values[row.name],
                "reference": row.ideal,
                **self._noise_record(system, row.name),
            }
            for row in self.rows
            for system, values in self.values.items()
            if row.name in values
        ]

    def _noise_record(self, system: str, name: str) -> dict[str, float]:
        """The half-width of the interval of a value; empty if noise was not requested."""
        return {"half_width": self.noise.get(system, {}).get(name, (math.nan, math.nan))[0]} if self.noise else {}


def distance_from(ideal: float, value: float) -> float:
    """|value − ideal|; 0 if both are infinite, and where an unbiased estimate of a distance fell below 0."""
    return 0.0 if value == ideal or value < ideal == 0.0 else abs(value - ideal)
