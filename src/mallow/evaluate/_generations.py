"""Several generations per prompt: samples put into the order of the reference's prompts, and split by generation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mallow.errors import Caveat
from mallow.samples import Samples, read


def generations_as_samples(sources: Mapping[str, Any]) -> dict[str, Any]:
    """Sources in which arrays (prompts, generations, d) became samples with one id per prompt, like the reference's rows.

    The reference, which comes first, gets the same ids if it is an array.
    """
    axes = {name: getattr(source, "ndim", None) for name, source in sources.items()}
    prompts = {len(sources[name]) for name, count in axes.items() if count == 3 and _is_numeric(sources[name])}
    if not prompts:
        return dict(sources)
    changed = dict(sources)
    first = next(iter(sources))
    for name, source in sources.items():
        if axes[name] == 3 and _is_numeric(source):
            array = np.asarray(source)
            ids = [f"prompt {i}" for i in range(array.shape[0]) for _ in range(array.shape[1])]
            changed[name] = Samples(features=array.reshape(-1, array.shape[2]), ids=tuple(ids), source="array")
        elif name == first and axes[name] in (1, 2):
            rows = read(source)
            changed[name] = Samples.trusted(
                features=rows.features, ids=tuple(f"prompt {i}" for i in range(len(rows))), source=rows.source
            )
    return changed


def _is_numeric(source: Any) -> bool:
    return getattr(getattr(source, "dtype", None), "kind", "") in tuple("biuf")


def match_prompts(reference: Samples, samples: Samples) -> tuple[Samples, list[Caveat]]:
    """Samples in the order of the reference's ids, generation by generation, with what was doubtful about it.

    Without ids, with ids that the reference does not have, or where some samples are missing, the order stays as it is.
    """
    times = samples.generations
    if not (reference.ids and samples.ids and times):
        return _as_one(samples), []
    prompts = len(reference)
    if len(set(reference.ids)) < prompts or len(samples) != prompts * times:
        return _as_one(samples), []
    place = {each: i for i, each in enumerate(reference.ids)}
    missing = sorted(set(samples.ids) - set(place))
    if missing:
        if place.keys().isdisjoint(samples.ids):
            return _as_one(samples), []
        count = f"{len(missing)} ids, such as {missing[0]!r}, are" if len(missing) > 1 else f"the id {missing[0]!r} is"
        text = f"{count} not in the reference: only samples whose ids the reference has are paired with it."
        return _as_one(samples), [Caveat("unmatched ids", text, values={"ids": len(missing)})]
    order = np.argsort([place[each] for each in samples.ids], kind="stable")
    order = order.reshape(prompts, times).T.ravel()  # one generation after the other
    return (samples if np.array_equal(order, np.arange(len(order))) else samples.take(order)), []


def _as_one(samples: Samples) -> Samples:
    """Samples that cannot be matched with prompts count as one generation: without ids, nothing is split."""
    return samples if samples.generations == 1 else Samples.trusted(**vars(samples) | {"ids": None, "prompts": None})


def split_generations(samples: Samples) -> list[Samples]:
    """The samples of each generation; they come one generation after the other, as `match_prompts` puts them."""
    times = samples.generations if samples.ids else 1
    if not times or times == 1:
        return [samples]
    size = len(samples) // times
    return [samples.take(range(start, start + size)) for start in range(0, len(samples), size)]
