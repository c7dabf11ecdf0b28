"""Every measure of several systems side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from mallow._checks import seed_from, whole
from mallow.baselines._corpus import Tokenize
from mallow.baselines._groups import (
    IDEALS,
    Outcome,
    measure_features,
    measure_frontiers,
    measure_ngrams,
    measure_texts,
    measure_transport,
    measure_transport_of_reference,
)
from mallow.baselines._table import Row, Table
from mallow.embed import AnyEmbedder, embed_all
from mallow.engine import bar, settle
from mallow.errors import Caveat, InputError, warn_about
from mallow.evaluate import MAUVE_STAR, pair_points, run_repeats
from mallow.generate import NextToken
from mallow.samples import Samples
from mallow.theory import Masses

__all__ = ["table"]

_NO_TRANSPORT = Caveat("left out", "transport is left out: it needs POT. Run: pip install 'mallow[transport]'")


def table(
    reference: Any,
    systems: Mapping[str, Any],
    *,
    embedder: AnyEmbedder | str | None = None,
    tokenize: Tokenize = "whitespace",
    scorer: NextToken | None = None,
    repeats: int = 5,
    rng: int | np.random.Generator | None = 0,
) -> Table:
    """Every measure of the paper's comparisons for several systems, with MAUVE*, FI and Mid for every divergence.

    All of them are available for texts; for images and features there are no text statistics. Transport costs and their
    frontiers need POT; without it they are left out, and a caveat says so. Most values depend on the number of samples:
    use the same number for all systems.

    Parameters
    ----------
    reference : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The real data.
    systems : mapping name → the same
        The samples of each system, all of the same kind as the reference, at least two each.
    embedder : Embedder, callable, name or None
        As in `mallow.score`.
    tokenize : "whitespace", "regex" or callable
        What a token is for text statistics: see `mallow.baselines`.
    scorer : NextToken or None
        A language model for the generation perplexity, which is left out without one.
    repeats, rng :
        As in `mallow.score`, which gives the same MAUVE*.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> human, systems = rng.normal(size=(500, 4)), {"near": rng.normal(size=(500, 4)), "far": rng.normal(2, 1, (500, 4))}
    >>> result = table(human, systems, repeats=1)
    >>> result.closest("Fréchet distance"), result.closest("MAUVE* KL")
    (('near',), ('near',))
    """
    whole("repeats", repeats, least=1)
    seed = seed_from(rng)
    if not systems:
        raise InputError("`systems` must name at least one system; got none. Pass {'name': samples}.")
    if "" in systems:
        raise InputError("`systems` must have names; one name is empty.")
    sets = embed_all({"": reference, **systems}, embedder)
    has_transport = find_spec("ot") is not None
    rows, values, caveats = _run(_list_tasks(sets, tokenize, scorer, repeats, seed, transport=has_transport))
    own = [_with_system(caveat, name) for name, samples in sets.items() for caveat in samples.caveats]
    label = f"{sets[''].embedder or 'features'}, width={sets[''].require_features().shape[1]}"
    result = Table(
        rows=rows,
        values=values,
        n={name: len(samples) for name, samples in sets.items()},
        embedder=label,
        caveats=_once([*([] if has_transport else [_NO_TRANSPORT]), *own, *caveats]),
    )
    warn_about(result.caveats)
    return result


class _Task(NamedTuple):
    """Some measures of one system; "" is the reference."""

    system: str
    group: str
    work: Callable[[], Outcome]


def _list_tasks(
    sets: Mapping[str, Samples],
    tokenize: Tokenize,
    scorer: NextToken | None,
    repeats: int,
    seed: int,
    *,
    transport: bool,
) -> list[_Task]:
    """All tasks, in the order of the rows of the table."""
    reference, systems = sets[""], [name for name in sets if name]
    x, points = reference.require_features(), {name: sets[name].require_features() for name in systems}

    @cache
    def runs(name: str) -> list[Masses]:
        prepared = MAUVE_STAR.estimator.prepare(*pair_points(reference, sets[name]))
        return run_repeats(MAUVE_STAR, prepared, repeats, seed)

    tasks = []
    if reference.kind == "text":
        texts = {name: samples.require_texts() for name, samples in sets.items()}
        tasks += [_Task(name, "text", partial(measure_texts, own, tokenize, scorer)) for name, own in texts.items()]
        tasks += [_Task(name, "text", partial(measure_ngrams, texts[""], texts[name])) for name in systems]
    tasks += [_Task(name, "features", partial(measure_features, x, points[name], seed)) for name in systems]
    if transport:
        tasks.append(_Task("", "transport", partial(measure_transport_of_reference, x)))
        tasks += [
            _Task(name, "transport", partial(measure_transport, x, points[name], partial(runs, name)))
            for name in systems
        ]
    tasks += [_Task(name, "frontier", partial(measure_frontiers, partial(runs, name))) for name in systems]
    return tasks


def _run(tasks: Sequence[_Task]) -> tuple[tuple[Row, ...], dict[str, dict[str, float]], list[Caveat]]:
    """The rows in the order of the tasks, the values of each system, and the caveats."""
    ideals = dict(IDEALS)
    groups: dict[str, str] = {}  # measure → group
    values: dict[str, dict[str, float]] = {task.system: {} for task in tasks if task.system}
    caveats: list[Caveat] = []
    with bar("measuring", len(tasks)) as show:
        for done, task in enumerate(tasks):
            name = task.system or "reference"
            show(done, f"{name}: {task.group}")
            try:
                measured, doubts = settle(task.work())
            except InputError as error:
                raise InputError(f"{name}: {error}") from error
            caveats += [_with_system(caveat, task.system) for caveat in doubts]
            if task.system:
                values[task.system] |= measured
                groups |= dict.fromkeys(measured, task.group)
            else:
                ideals |= measured
    return tuple(Row(name, group, ideals[name]) for name, group in groups.items()), values, caveats


def _with_system(caveat: Caveat, system: str) -> Caveat:
    """The caveat with the name of the system it is about."""
    return caveat if caveat.system is not None else replace(caveat, system=system or "reference")


def _once(caveats: Sequence[Caveat]) -> tuple[Caveat, ...]:
    """The caveats without duplicates."""
    return tuple({str(caveat): caveat for caveat in caveats}.values())
