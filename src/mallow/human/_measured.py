"""Values of systems with their errors, from rankings, comparisons, tables, mappings or files."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import number_of
from mallow._files import read_text
from mallow.baselines import Table
from mallow.errors import InputError
from mallow.evaluate import Comparison
from mallow.evidence import NORMAL
from mallow.human._rankings import JudgedRanking, Ranking, Rankings
from mallow.human._read_votes import csv_rows, parse_at
from mallow.results import Estimate

Floats = NDArray[np.float64]

_RESULTS = {f"mallow {kind.KIND}": kind for kind in (Ranking, Rankings, JudgedRanking, Comparison, Table)}


@dataclass(frozen=True)
class Measured:
    """One value per system, with the covariance of the errors in the order of the values."""

    values: dict[str, float]
    covariance: Floats

    @classmethod
    def independent(cls, values: Mapping[str, tuple[float, float]]) -> Measured:
        """Values with independent standard deviations."""
        return cls(
            {name: value for name, (value, _) in values.items()}, np.diag([std**2 for _, std in values.values()])
        )

    def take(self, systems: tuple[str, ...]) -> tuple[Floats, Floats]:
        """The values and the covariance of some systems."""
        order = [list(self.values).index(name) for name in systems]
        return np.array([self.values[name] for name in systems]), self.covariance[np.ix_(order, order)]

    def table(self) -> dict[str, tuple[float, float]]:
        """System → (value, standard deviation)."""
        errors = np.sqrt(np.diag(self.covariance))
        return {name: (value, float(error)) for (name, value), error in zip(self.values.items(), errors, strict=True)}


def measure_people(people: Any) -> dict[str, Measured]:
    """Criterion → scores of people."""
    if isinstance(people, str | os.PathLike):
        people = read_measured(people)
    if isinstance(people, JudgedRanking):
        people = people.ranking
    if isinstance(people, Ranking):
        return {people.question or "people": _from_ranking(people)}
    if isinstance(people, Rankings):
        return {name: _from_ranking(ranking) for name, ranking in people.rankings.items()}
    return _from_mapping("people", people)


def _from_ranking(ranking: Ranking) -> Measured:
    """Scores with their covariance, stretched to the 95% intervals, which are wider for few people or prompts."""
    low, high = np.array(list(ranking.interval.values())).T
    stretch = (high - low) / (2 * NORMAL) / np.sqrt(np.maximum(np.diag(ranking.covariance), 1e-300))
    return Measured(ranking.scores, ranking.covariance * np.outer(stretch, stretch))


def measure_metrics(metrics: Any, reference: str | None) -> dict[str, Measured]:
    """Metric → values, higher is better."""
    if isinstance(metrics, str | os.PathLike):
        metrics = read_measured(metrics)
    if isinstance(metrics, Comparison):
        return _from_comparison(metrics)
    if isinstance(metrics, Table):
        return _from_baselines(metrics)
    measured = _from_mapping("metrics", metrics)
    return measured if reference is None else {name: _gap(values, reference) for name, values in measured.items()}


def _gap(measured: Measured, reference: str) -> Measured:
    """−|T(Q) − T(P)| for a metric with a value for the reference P. Other metrics do not change."""
    if reference not in measured.values:
        return measured
    ideal = measured.values[reference]
    systems = tuple(name for name in measured.values if name != reference)
    values, covariance = measured.take(systems)
    # Rounded to ten digits, so that 0.003 − 0.002 and 0.001 are the same distance.
    gaps = {name: float(f"{-abs(float(v) - ideal):.10g}") for name, v in zip(systems, values, strict=True)}
    return Measured(gaps, covariance)


def _from_comparison(comparison: Comparison) -> dict[str, Measured]:
    """The published MAUVE, with the spread of repeat samples, and the certified MAUVE, with its one-sided limit."""
    published, certified = {}, {}
    for name, score in comparison.scores.items():
        low, high = score.interval.get("mauve", (math.nan, math.nan))
        spread = (high - low) / (2 * 1.96) if math.isfinite(high - low) else score.std["mauve"]
        published[name] = (score.mauve, spread)
        if "mauve" in score.certified:
            estimate = score.certified["mauve"]
            certified[name] = (estimate.value, (estimate.high - estimate.value) / 1.645, estimate.high >= 1.0)
    made = {"published MAUVE": published}
    if len(certified) == len(published):
        # A limit cut off at 1 hides the error, which is replaced by the mean of the others.
        whole = [std for _, std, cut in certified.values() if not cut]
        usual = float(np.mean(whole)) if whole else 0.0
        made["certified MAUVE"] = {
            name: (value, max(std, usual) if cut else std) for name, (value, std, cut) in certified.items()
        }
    return {name: Measured.independent(values) for name, values in made.items()}


def _from_baselines(table: Table) -> dict[str, Measured]:
    """−|T(Q) − T(P)| of every measure."""
    made = {}
    for row in table.rows:
        values = {
            system: (-abs(values[row.name] - row.ideal), 0.0)
            for system, values in table.values.items()
            if row.name in values
        }
        made[row.name] = Measured.independent(values)
    return made


def _from_mapping(argument: str, data: Any) -> dict[str, Measured]:
    if not isinstance(data, Mapping) or not data:
        raise InputError(
            f"`{argument}` must be a result, a file, or a mapping of names to values by system; got "
            f"{type(data).__name__}."
        )
    made = {}
    for name, values in data.items():
        if not isinstance(values, Mapping):
            raise InputError(
                f"`{argument}` must map {name!r} to values by system; got {type(values).__name__}, such as "
                f"{{'small': 0.7}}."
            )
        made[str(name)] = Measured.independent(
            {str(system): _pair(f"{argument}[{name!r}][{system!r}]", value) for system, value in values.items()}
        )
    return made


def _pair(where: str, value: Any) -> tuple[float, float]:
    if isinstance(value, Estimate):
        value = (value.value, (value.high - value.low) / (2 * 1.96))
    try:
        mean, std = map(number_of, value if isinstance(value, tuple | list) else (value, 0.0))
    except (TypeError, ValueError):
        mean = std = math.nan
    if not (math.isfinite(mean) and math.isfinite(std) and std >= 0):
        raise InputError(f"`{where}` must be a number, or a number and its standard deviation; got {value!r}.")
    return mean, std


def read_measured(path: str | os.PathLike[str]) -> Any:
    """A result in a .json file, or values in a .csv file, as a mapping name → system → (value, standard deviation).

    The first column of the .csv names the system. A column "X std" holds the standard deviations of column "X". Empty
    cells are missing values.
    """
    file = Path(path).expanduser()
    text = read_text(file).removeprefix("\ufeff")
    if file.suffix == ".csv":
        return _read_table(file, text)
    if file.suffix != ".json":
        raise InputError(f"{file}: must end in .csv or .json; got {file.name!r}.")
    data = parse_at(str(file), text)
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind in _RESULTS:
        return _RESULTS[kind].from_dict(data)
    if kind is not None or not isinstance(data, dict):
        raise InputError(f"{file}: must hold a ranking, a comparison, a table of baselines or values; got {kind!r}.")
    return data


def _read_table(file: Path, text: str) -> dict[str, dict[str, tuple[float, float]]]:
    table: dict[str, dict[str, tuple[float, float]]] = {}
    systems = set[str]()
    for number, row in csv_rows(str(file), text):
        cells = {name: cell.strip() for name, cell in row.items()}
        system, *_ = cells.values()
        if system in systems:
            raise InputError(f"{file}:{number}: the system {system!r} occurs twice. Keep one row for each system.")
        if any(cells.values()):
            systems.add(system)
        for name in list(cells)[1:]:
            if cells[name] and not (name.endswith(" std") and name.removesuffix(" std") in cells):
                pair = cells[name], cells.get(f"{name} std") or 0.0
                table.setdefault(name, {})[system] = _pair(f"{file}:{number}: {name}", pair)
    if not table:
        raise InputError(f"{file}: must have a heading, and columns for the system and at least one value.")
    return table
