"""Every measure of several systems side by side, with the values of the reference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from mallow._checks import seed_from, whole
from mallow._optional import find_plugin, install_line, plugin_names
from mallow.baselines._corpus import Tokenize
from mallow.baselines._frechet import Moments, frechet_distance
from mallow.baselines._groups import IDEALS, Group, distance_from, find_noise, list_groups, main_measures, measure_limit
from mallow.caveats import rename_system
from mallow.embed import AnyEmbedder, embed_all
from mallow.engine import bar, settle
from mallow.errors import Caveat, InputError, each_once, warns
from mallow.evaluate import run_repeats
from mallow.evidence import MAUVE_STAR, pair_points
from mallow.generate import NextToken
from mallow.results import Result, TableData, draw, merge_caveats
from mallow.theory import Masses

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
        legend = ["* closest to the reference"]
        if self.noise:
            legend = ["± 95% interval of the noise of sampling", "* closest to the reference, by more than that noise"]
        return "\n".join([title, self.table(), "", *legend, *self.caveat_lines()])

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
        records = []
        for row in self.rows:
            for system, values in self.values.items():
                if row.name in values:
                    record = {"measure": row.name, "group": row.group, "system": system, "value": values[row.name]}
                    half = self.noise.get(system, {}).get(row.name, (math.nan, math.nan))[0]
                    records.append({**record, "reference": row.ideal} | ({"half_width": half} if self.noise else {}))
        return records


_ROW_GROUPS = {"5-grams": "text", "more features": "features"}
_NO_TRANSPORT = Caveat("left out", f"transport is left out, because it needs POT: {install_line('transport')}")


@warns
def table(
    reference: Any,
    systems: Mapping[str, Any],
    *,
    embedder: AnyEmbedder | str | None = None,
    paired: bool = False,
    tokenize: Tokenize = "whitespace",
    scorer: NextToken | None = None,
    repeats: int = 5,
    rng: int | np.random.Generator | None = 0,
    rows: Literal["all", "main", "all with noise"] = "all",
) -> Table:
    """Every measure of the paper's comparisons for several systems, with MAUVE*, FI and Mid for every divergence.

    All of them are available for texts; for images and features there are no text statistics. Transport costs and
    their frontiers need POT. Without it they are left out, with a caveat. Most values depend on the number of
    samples: use the same number for all systems. Functions of two arrays of features that installed packages offer
    as entry points of the group ``mallow.metrics`` are rows too. The attribute `ideal` of a function is its value
    for equal distributions, 0 without one.

    Parameters
    ----------
    reference : list of texts, path to a file or folder, table, `Samples`, array (n, d), or Moments
        The real data. If only its `Moments` are given, for example from `load_statistics`, the table has two rows:
        the Fréchet distance and FD∞.
    systems : mapping name → the same
        The samples of each system, all of the same kind as the reference, at least two each.
    embedder :
        The embedder: a name or an object. None takes the default for their kind, as in
        `mallow.score`.
    paired :
        Whether row i of each set belongs to row i of the others, as in `mallow.score`.
    tokenize : "whitespace", "regex" or callable
        How text statistics split texts into tokens: see `mallow.baselines`.
    scorer : NextToken or None
        A language model for the generation perplexity, which is left out without one.
    repeats :
        How many clusterings are averaged for MAUVE*, as in `mallow.score`.
    rng :
        The seed of the clusterings, as in `mallow.score`, which gives the same MAUVE*.
    rows : "all", "main" or "all with noise"
        "main": eight measures, each with a 95% interval of the noise of sampling, by leaving out groups of units in
        turn. The closest system is marked only if its lead is larger than that noise. "all with noise" adds the
        other measures, without intervals and marks.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> human, near, far = rng.normal(size=(500, 4)), rng.normal(size=(500, 4)), rng.normal(2, 1, (500, 4))
    >>> result = table(human, {"near": near, "far": far}, repeats=1)
    >>> result.closest("Fréchet distance"), result.closest("MAUVE* KL")
    (('near',), ('near',))
    """
    whole("repeats", repeats, least=1)
    if rows not in ("all", "main", "all with noise"):
        raise InputError(f"`rows` must be 'all', 'main' or 'all with noise'; got {rows!r}.")
    seed = seed_from(rng)
    if not systems:
        raise InputError("`systems` must name at least one system; got none. Pass {'name': samples}.")
    if "" in systems:
        raise InputError("`systems` must have names; one name is empty.")
    if isinstance(reference, Moments):
        return moments_table(reference, systems, embedder, seed)
    sets = embed_all({"": reference, **systems}, embedder, paired=paired)
    has_transport = find_spec("ot") is not None or rows == "main"
    main = main_measures(sets[""].kind)

    @cache
    def runs(name: str) -> list[Masses]:
        prepared = MAUVE_STAR.estimator.prepare(*pair_points(sets[""], sets[name]))
        return run_repeats(MAUVE_STAR, prepared, repeats, seed)

    groups = list_groups(sets, tokenize, scorer, seed, runs, transport=has_transport)
    if rows == "main":
        groups = [group for group in groups if group[0] in ("text", "features", "frontier")]
    measured, values, caveats = _run(groups, list(systems), None if rows != "main" else (*main, "perplexity"))
    ideals = {row.name: row.ideal for row in measured}
    noise = {} if rows == "all" else find_noise(sets, main, ideals, values, tokenize, seed, runs)
    of_samples = [
        caveat for name, samples in sets.items() for caveat in rename_system(samples.caveats, name or "reference")
    ]
    label = f"{sets[''].embedder or 'features'}, width={sets[''].require_features().shape[1]}"
    return Table(
        rows=measured,
        values=values,
        n={name: len(samples) for name, samples in sets.items()},
        embedder=label,
        caveats=each_once([*([] if has_transport else [_NO_TRANSPORT]), *of_samples, *caveats]),
        noise=noise,
    )


def _run(
    groups: Sequence[Group], systems: Sequence[str], wanted: Sequence[str] | None
) -> tuple[tuple[Row, ...], dict[str, dict[str, float]], list[Caveat]]:
    """Rows in the order of the groups, the values of each system, and the caveats. All measures if `wanted` is None."""
    plugins = {name: find_plugin("metrics", name) for name in plugin_names("metrics")}
    ideals = IDEALS | {name: float(getattr(metric, "ideal", 0.0)) for name, metric in plugins.items()}
    group_of: dict[str, str] = {}  # by measure
    values: dict[str, dict[str, float]] = {system: {} for system in systems}
    caveats: list[Caveat] = []
    tasks = [(system, group, measure) for group, names, measure in groups for system in names]
    with bar("measuring", len(tasks)) as show:
        for done, (system, group, measure) in enumerate(tasks):
            shown = system or "reference"
            show(done, f"{shown}: {group}, {done}/{len(tasks)}")
            try:
                measured, doubts = settle(measure(system))
            except InputError as error:
                raise InputError(f"{shown}: {error}") from error
            caveats += rename_system(doubts, shown)
            if system:
                chosen = {name: value for name, value in measured.items() if wanted is None or name in wanted}
                values[system] |= chosen
                group_of |= dict.fromkeys(chosen, _ROW_GROUPS.get(group, group))
            else:
                ideals |= measured
    return tuple(Row(name, group, ideals[name]) for name, group in group_of.items()), values, caveats


def moments_table(
    reference: Moments, systems: Mapping[str, Any], embedder: AnyEmbedder | str | None, seed: int
) -> Table:
    """The Fréchet distance and FD∞ of each system. The rest of the table needs the samples of the reference."""
    sets = embed_all(systems, embedder)
    used = next(iter(sets.values())).embedder
    if None not in (used, reference.embedder) and used != reference.embedder:
        raise InputError(
            f"Features of different embedders cannot be compared: the reference by {reference.embedder}; "
            f"{next(iter(sets))} by {used}. Embed the systems with the embedder of the reference."
        )
    caveats = []
    if reference.embedder is None:
        text = (
            "the statistics of the reference do not tell which network made them, and from how many samples. The "
            "distance means something only if it was the same as for the systems: "
            f"{used or 'unknown as well'}."
        )
        caveats.append(Caveat("unknown embedder", text))
    values: dict[str, dict[str, float]] = {}
    for name, samples in sets.items():
        y = samples.require_features()
        try:
            distance, doubts = frechet_distance.quiet(reference, y)
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
        limit, more = measure_limit(reference, y, seed)
        values[name] = {"Fréchet distance": settle(distance), **limit}
        caveats += [*doubts, *more]
    return Table(
        rows=tuple(Row(name, "features", IDEALS[name]) for name in ("Fréchet distance", "FD∞")),
        values=values,
        n={"": reference.n, **{name: len(samples) for name, samples in sets.items()}},
        embedder=f"{used or 'features'}, width={len(reference.mean)}",
        caveats=each_once(caveats),
    )
