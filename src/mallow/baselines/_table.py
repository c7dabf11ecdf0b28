"""All yardsticks side by side: one table of every measure for several systems."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.baselines import _features as of_features
from mallow.baselines._language import ngram_mauve, perplexity
from mallow.baselines._text import Tokenize, text_statistics
from mallow.embed import AnyEmbedder, all_features, of_one_kind
from mallow.engine import bar
from mallow.errors import EstimateWarning, InputError
from mallow.estimate import checked_pair
from mallow.evaluate import MAUVE_STAR, Measure, all_values, described, repeated
from mallow.generate import NextToken
from mallow.results import rendered
from mallow.samples import Samples
from mallow.theory import CHI2, HELLINGER2, JS, KL, LE_CAM, TV, Divergence, Masses, area
from mallow.theory.transport import barycentric_frontier, entropic_cost, linear_frontier, quantized_cost, transport_cost

__all__ = ["Column", "Table", "table"]

Points = NDArray[Any]
Values = dict[str, float]

_DIVERGENCES: dict[str, Divergence] = {
    "KL": KL,
    "χ²": CHI2,
    "TV": TV,
    "Hellinger²": HELLINGER2,
    "JS": JS,
    "Le Cam": LE_CAM,
}
_NO_TRANSPORT = "transport is left out: it needs POT. Run: pip install 'mallow[transport]'"


@dataclass(frozen=True)
class Column:
    """One measure of a table.

    Attributes
    ----------
    name : str
    group : str
        "text", "features", "transport" or "frontier".
    ideal : float
        What the reference has: for a statistic of texts its own value, else that of two equal distributions.
    """

    name: str
    group: str
    ideal: float


@dataclass(frozen=True)
class Table:
    """Every measure of every system.

    Attributes
    ----------
    columns : tuple of Column
    values : dict
        System → measure → value; a measure that a system cannot have is missing, and a note says why.
    n : dict
        System → number of samples; "" is the reference.
    embedder : str
    notes : tuple of str
        What was left out, and what makes numbers doubtful.
    """

    columns: tuple[Column, ...]
    values: dict[str, Values]
    n: dict[str, int]
    embedder: str
    notes: tuple[str, ...]

    def closest(self, name: str) -> tuple[str, ...]:
        """The systems whose value of a measure is nearest to the reference's; several where they are equal."""
        ideal = {column.name: column.ideal for column in self.columns}
        if name not in ideal:
            raise InputError(f"`name` must be a measure of the table, one of {', '.join(ideal)}; got {name!r}.")
        off = {system: abs(values[name] - ideal[name]) for system, values in self.values.items() if name in values}
        least = min(off.values())
        return tuple(system for system, value in off.items() if value == least)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain numbers, strings, lists and dicts; `from_dict` gives the same table back."""
        return {
            "kind": "mallow baselines",
            "columns": [asdict(column) for column in self.columns],
            "values": self.values,
            "closest": {column.name: list(self.closest(column.name)) for column in self.columns},
            "n": self.n,
            "embedder": self.embedder,
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Table:
        """The table that `to_dict` wrote."""
        if data.get("kind") != "mallow baselines":
            raise InputError(f"`data` must be what Table.to_dict wrote; its kind is {data.get('kind')!r}.")
        columns = tuple(Column(**column) for column in data["columns"])
        return cls(columns, dict(data["values"]), dict(data["n"]), data["embedder"], tuple(data["notes"]))

    def to_text(self) -> str:
        """A measure a line, a system a column; * marks what is closest to the reference."""
        return "\n".join([self._rendered("text"), "", "* closest to the reference", *self.notes, self.embedder])

    def to_markdown(self) -> str:
        """The same as a table of Markdown; bold is closest to the reference."""
        return self._rendered("markdown")

    def to_latex(self) -> str:
        """The same as a tabular of LaTeX, which needs booktabs; bold is closest to the reference."""
        return self._rendered("latex")

    def _rendered(self, form: str) -> str:
        names = list(self.values)
        rows, marked, breaks = [], set(), {0}
        for place, column in enumerate(self.columns):
            found = [values.get(column.name) for values in self.values.values()]
            rows.append(
                [column.name, f"{column.ideal:.4g}", *("–" if each is None else f"{each:.4g}" for each in found)]
            )
            marked |= {(place, names.index(system) + 2) for system in self.closest(column.name)}
            if place and column.group != self.columns[place - 1].group:
                breaks.add(place)
        return rendered(form, ["", "reference", *names], rows, marked=marked, breaks=breaks)


def table(
    reference: Any,
    systems: Mapping[str, Any],
    *,
    embedder: AnyEmbedder | str | None = None,
    tokenize: Tokenize = "whitespace",
    scorer: NextToken | None = None,
    repeats: int = 5,
    rng: int = 0,
) -> Table:
    """Every measure that the paper compares with, for several systems, beside MAUVE*, FI and Mid of every divergence.

    Texts have all of them; images and features lack the statistics of texts. Transport costs and frontiers need POT, and
    are left out with a note where it is missing. Values depend on the numbers of samples: take equal ones.

    Parameters
    ----------
    reference : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The real data.
    systems : mapping name → the same
        All of one kind, at least two samples each.
    embedder : Embedder, callable, name or None
        As in `mallow.score`.
    tokenize : "whitespace", "regex" or callable
        What a token is to the statistics of texts: `mallow.baselines._text`.
    scorer : NextToken or None
        A language model for generation perplexity; without one it is left out.
    repeats, rng :
        As in `mallow.score`, which gives the same MAUVE*.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> human, systems = rng.normal(size=(500, 4)), {"near": rng.normal(size=(500, 4)), "far": rng.normal(2, 1, (500, 4))}
    >>> with warnings.catch_warnings(action="ignore"):  # 500 samples are few
    ...     found = table(human, systems, repeats=1)
    >>> found.closest("Fréchet distance"), found.closest("MAUVE* KL")
    (('near',), ('near',))
    """
    whole("repeats", repeats, least=1)
    whole("rng", rng, least=0)
    if not systems:
        raise InputError("`systems` must name at least one; got none. Pass {'name': samples}.")
    if "" in systems:
        raise InputError("`systems` must have names; one is empty.")
    given, kind = of_one_kind({"": reference, **systems})
    embedded, how = all_features(given, embedder)
    points = {name: each.features if isinstance(each, Samples) else np.asarray(each) for name, each in embedded.items()}
    x = points[""]

    @cache
    def clustered(name: str) -> list[Masses]:
        pair = checked_pair(x, points[name])
        return repeated(MAUVE_STAR, MAUVE_STAR.estimator.prepare(*pair), repeats, rng)

    jobs: list[_Job] = []
    if kind == "text":
        texts = {name: each.texts for name, each in given.items() if isinstance(each, Samples)}
        jobs += [_Job(name, "text", partial(_of_texts, own, tokenize, scorer)) for name, own in texts.items()]
        jobs += [_Job(name, "text", partial(_of_ngrams, texts[""], texts[name])) for name in systems]
    jobs += [_Job(name, "features", partial(_of_points, x, points[name], rng)) for name in systems]
    notes = () if find_spec("ot") else (_NO_TRANSPORT,)
    if not notes:
        jobs.append(_Job("", "transport", lambda: {"entropic transport": entropic_cost(x, x)}))  # not 0
        jobs += [
            _Job(name, "transport", partial(_of_transport, x, points[name], partial(clustered, name)))
            for name in systems
        ]
    jobs += [_Job(name, "frontier", partial(_of_frontiers, partial(clustered, name))) for name in systems]
    columns, values, doubts = _done(jobs)
    counts = {name: len(each) for name, each in points.items()}
    return Table(columns, values, counts, described(how, x), (*notes, *doubts))


class _Job(NamedTuple):
    """Some measures of one system; "" is the reference."""

    system: str
    group: str
    work: Callable[[], Values]


def _done(jobs: Sequence[_Job]) -> tuple[tuple[Column, ...], dict[str, Values], tuple[str, ...]]:
    """The columns in the order of the jobs, the values of each system, and what makes them doubtful."""
    ideals: Values = {}
    groups: dict[str, str] = {}  # measure → group
    values: dict[str, Values] = {job.system: {} for job in jobs if job.system}
    notes: dict[str, None] = {}
    with bar("measuring", len(jobs)) as show:
        for done, job in enumerate(jobs):
            name = job.system or "reference"
            show(done, f"{name}: {job.group}")
            with _named(name, notes):
                found = job.work()
            if job.system:
                values[job.system] |= found
                groups |= dict.fromkeys(found, job.group)
            else:
                ideals |= found
    columns = [Column(name, group, ideals.get(name, _LIMITS.get(name, 0.0))) for name, group in groups.items()]
    return tuple(columns), values, tuple(notes)


def _of_texts(texts: Sequence[str], tokenize: Tokenize, scorer: NextToken | None) -> Values:
    found = text_statistics(texts, tokenize=tokenize)
    values = {
        "Zipf coefficient": found.zipf_coefficient,
        "repetition": found.repetition,
        "distinct-4": found.distinct,
        "diversity": found.diversity,
        "self-BLEU(4)": found.self_bleu,
    }
    return values if scorer is None else values | {"perplexity": perplexity(scorer, texts)}


def _of_ngrams(reference: Sequence[str], model: Sequence[str]) -> Values:
    """Nothing where a side has too few different texts to fit a model on some and judge the others."""
    try:
        masses = ngram_mauve(reference, model)
    except InputError as error:
        warnings.warn(f"5-gram MAUVE is left out: {error}", EstimateWarning, stacklevel=2)
        return {}
    return {"5-gram MAUVE": float(area(masses, scale=MAUVE_STAR.c))}


def _of_points(x: Points, y: Points, rng: int) -> Values:
    near = of_features.precision_recall(x, y)
    return {
        "Fréchet distance": of_features.frechet_distance(x, y),
        "kernel distance": of_features.kernel_distance(x, y),
        "precision": near.precision,
        "recall": near.recall,
        "density": near.density,
        "coverage": near.coverage,
        "discriminator": of_features.discriminator_accuracy(x, y, rng=rng),
    }


def _of_transport(x: Points, y: Points, runs: Callable[[], list[Masses]]) -> Values:
    """Of the points as they are; quantised, as the paper, without smoothing, the mean over repeats."""
    found = {"transport": transport_cost(x, y), "entropic transport": entropic_cost(x, y)}
    each: dict[str, list[float]] = {"quantised transport": [], "MAUVE_OT": [], "MAUVE_OT bary": []}
    for run in runs():
        if run.partition is None:  # MAUVE* has one
            continue
        p, q = run.partition.p_counts, run.partition.q_counts
        masses = Masses(p / p.sum(), q / q.sum(), partition=run.partition)
        each["quantised transport"].append(quantized_cost(masses))
        each["MAUVE_OT"].append(float(area(linear_frontier(masses), scale=MAUVE_STAR.c)))
        each["MAUVE_OT bary"].append(float(area(barycentric_frontier(masses), scale=MAUVE_STAR.c)))
    return found | {name: float(np.mean(values)) for name, values in each.items()}


def _of_frontiers(runs: Callable[[], list[Masses]]) -> Values:
    found: dict[str, Values] = {title: {} for title in ("MAUVE*", "FI", "Mid")}
    for name, divergence in _DIVERGENCES.items():
        values = all_values(Measure(MAUVE_STAR.estimator, divergence), runs())
        for title, summary in zip(found, values, strict=True):
            found[title][f"{title} {name}"] = float(np.mean(values[summary]))
    return {name: value for values in found.values() for name, value in values.items()}


# What two equal distributions have, each measure of which the reference has no value of its own.
_LIMITS = {
    "5-gram MAUVE": 1.0,
    "Fréchet distance": 0.0,
    "kernel distance": 0.0,
    "precision": 1.0,
    "recall": 1.0,
    "density": 1.0,
    "coverage": 1.0,
    "discriminator": 0.5,
    "transport": 0.0,
    "quantised transport": 0.0,
    "MAUVE_OT": 1.0,
    "MAUVE_OT bary": 1.0,
    **{f"MAUVE* {name}": 1.0 for name in _DIVERGENCES},
    **{f"{title} {name}": 0.0 for title in ("FI", "Mid") for name in _DIVERGENCES},
}


@contextmanager
def _named(name: str, notes: dict[str, None]) -> Iterator[None]:
    """Errors and warnings say which system they are about; warnings are kept as notes."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    for one in caught:
        if issubclass(one.category, EstimateWarning):
            notes[f"{name}: {one.message}"] = None
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
