"""Every measure of several systems side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

import numpy as np

from mallow._checks import seed_from, whole
from mallow._optional import find_plugin, install_line, plugin_names
from mallow.baselines._corpus import Tokenize
from mallow.baselines._frechet import Moments, frechet_distance
from mallow.baselines._groups import (
    IDEALS,
    Outcome,
    accuracy_noise,
    main_measures,
    measure_diversity,
    measure_features,
    measure_frontiers,
    measure_limit,
    measure_more_features,
    measure_ngrams,
    measure_texts,
    measure_transport,
    measure_transport_of_reference,
    sampling_noise,
    score_noise,
)
from mallow.baselines._table import Row, Table
from mallow.caveats import rename_system
from mallow.embed import AnyEmbedder, embed_all
from mallow.engine import bar, settle
from mallow.errors import Caveat, InputError, each_once, warns
from mallow.estimate import Features
from mallow.evaluate import run_repeats
from mallow.evidence import MAUVE_STAR, pair_points
from mallow.generate import NextToken
from mallow.samples import Samples
from mallow.theory import Masses

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

    tasks = _list_tasks(sets, tokenize, scorer, seed, runs, transport=has_transport)
    if rows == "main":
        tasks = [task for task in tasks if task.group in ("text", "features", "frontier")]
    measured, values, caveats = _run(tasks, None if rows != "main" else (*main, "perplexity"))
    ideals = {row.name: row.ideal for row in measured}
    noise = {} if rows == "all" else _find_noise(sets, main, ideals, values, tokenize, seed, runs)
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


def _find_noise(
    sets: Mapping[str, Samples],
    main: Sequence[str],
    ideals: dict[str, float],
    values: Mapping[str, dict[str, float]],
    tokenize: Tokenize,
    seed: int,
    runs: Callable[[str], list[Masses]],
) -> dict[str, dict[str, tuple[float, float]]]:
    """The noise of the main measures of every system."""
    noise = {}
    systems = [name for name in sets if name]
    with bar("intervals", len(systems)) as show:
        for done, name in enumerate(systems):
            show(done, f"{name}: {done}/{len(systems)} systems")
            noise[name] = sampling_noise(sets[""], sets[name], main, ideals, tokenize, seed)
            noise[name]["discriminator"] = accuracy_noise(sets[""], sets[name], values[name]["discriminator"])
            noise[name]["MAUVE* KL"] = score_noise(sets[""], sets[name], runs(name))
    return noise


class _Task(NamedTuple):
    """Some measures of one system; "" is the reference."""

    system: str
    group: str
    work: Callable[[], Outcome]


def _list_tasks(
    sets: Mapping[str, Samples],
    tokenize: Tokenize,
    scorer: NextToken | None,
    seed: int,
    runs: Callable[[str], list[Masses]],
    *,
    transport: bool,
) -> list[_Task]:
    """All tasks, in the order of the rows of the table."""
    reference, systems = sets[""], [name for name in sets if name]
    x, points = reference.require_features(), {name: sets[name].require_features() for name in systems}
    tasks = []
    if reference.kind == "text":
        texts = {name: samples.require_texts() for name, samples in sets.items()}
        tasks += [_Task(name, "text", partial(measure_texts, texts[name], tokenize, scorer)) for name in texts]
        tasks += [_Task(name, "5-grams", partial(measure_ngrams, texts[""], texts[name])) for name in systems]
    tasks += [_Task(name, "features", partial(measure_features, x, points[name], seed)) for name in systems]
    tasks.append(_Task("", "more features", partial(measure_diversity, x)))
    tasks += [_Task(name, "more features", partial(measure_more_features, x, points[name], seed)) for name in systems]
    for plugin in plugin_names("metrics"):
        metric = find_plugin("metrics", plugin)
        tasks += [_Task(name, "plugins", partial(_measure_plugin, plugin, metric, x, points[name])) for name in systems]
    if transport:
        tasks.append(_Task("", "transport", partial(measure_transport_of_reference, x)))
        tasks += [
            _Task(name, "transport", partial(measure_transport, x, points[name], partial(runs, name)))
            for name in systems
        ]
    tasks += [_Task(name, "frontier", partial(measure_frontiers, partial(runs, name))) for name in systems]
    return tasks


def _measure_plugin(name: str, metric: Callable[..., float], x: Features, y: Features) -> Outcome:
    """A metric of another package: a function of two arrays of features."""
    try:
        value = float(metric(x, y))
    except Exception as error:  # code of other packages may raise anything
        return {}, [Caveat("left out", f"{name} is left out: it raised {type(error).__name__}: {error}")]
    return {name: value}, []


def _run(
    tasks: Sequence[_Task], wanted: Sequence[str] | None
) -> tuple[tuple[Row, ...], dict[str, dict[str, float]], list[Caveat]]:
    """Rows in the order of the tasks, the values of each system, and the caveats. All measures if `wanted` is None."""
    plugins = {name: find_plugin("metrics", name) for name in plugin_names("metrics")}
    ideals = IDEALS | {name: float(getattr(metric, "ideal", 0.0)) for name, metric in plugins.items()}
    groups: dict[str, str] = {}  # measure → group
    values: dict[str, dict[str, float]] = {task.system: {} for task in tasks if task.system}
    caveats: list[Caveat] = []
    with bar("measuring", len(tasks)) as show:
        for done, task in enumerate(tasks):
            name = task.system or "reference"
            show(done, f"{name}: {task.group}, {done}/{len(tasks)}")
            try:
                measured, doubts = settle(task.work())
            except InputError as error:
                raise InputError(f"{name}: {error}") from error
            caveats += rename_system(doubts, task.system or "reference")
            if task.system:
                chosen = {name: value for name, value in measured.items() if wanted is None or name in wanted}
                values[task.system] |= chosen
                groups |= dict.fromkeys(chosen, _ROW_GROUPS.get(task.group, task.group))
            else:
                ideals |= measured
    return tuple(Row(name, group, ideals[name]) for name, group in groups.items()), values, caveats


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
    caveats = [] if reference.embedder is not None else [_unknown_embedder(used)]
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


def _unknown_embedder(used: str | None) -> Caveat:
    text = (
        "the statistics of the reference do not tell which network made them, and from how many samples. The distance "
        f"means something only if it was the same as for the systems: {used or 'unknown as well'}."
    )
    return Caveat("unknown embedder", text)
