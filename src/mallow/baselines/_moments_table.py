"""What can be measured against the mean and covariance of a reference alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mallow.baselines._frechet import Moments, frechet_distance
from mallow.baselines._groups import IDEALS, measure_limit
from mallow.baselines._table import Row, Table
from mallow.embed import AnyEmbedder, embed_all
from mallow.engine import settle
from mallow.errors import Caveat, InputError


def moments_table(
    reference: Moments, systems: Mapping[str, Any], embedder: AnyEmbedder | str | None, seed: int
) -> Table:
    """The Fréchet distance and FD∞ of each system; the rest of the table needs the samples of the reference."""
    sets = embed_all(systems, embedder)
    own = next(iter(sets.values())).embedder
    if None not in (own, reference.embedder) and own != reference.embedder:
        raise InputError(
            f"Features of different embedders cannot be compared: the reference by {reference.embedder}; "
            f"{next(iter(sets))} by {own}. Embed the systems with the embedder of the reference."
        )
    caveats = [] if reference.embedder is not None else [_unknown_embedder(own)]
    values: dict[str, dict[str, float]] = {}
    for name, samples in sets.items():
        y = samples.require_features()
        try:
            distance, doubts = frechet_distance.quiet(reference, y)
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
        limit, more = measure_limit(reference, y, seed)
        values[name] = {"Fréchet distance": settle(distance), **limit}
        caveats += [*settle(doubts), *more]
    return Table(
        rows=tuple(Row(name, "features", IDEALS[name]) for name in ("Fréchet distance", "FD∞")),
        values=values,
        n={"": reference.n, **{name: len(samples) for name, samples in sets.items()}},
        embedder=f"{own or 'features'}, width={len(reference.mean)}",
        caveats=tuple({str(caveat): caveat for caveat in caveats}.values()),
    )


def _unknown_embedder(own: str | None) -> Caveat:
    text = (
        "the statistics of the reference do not tell which network made them, and from how many samples. The distance means "
        f"something only if it was the same as for the systems: {own or 'unknown as well'}."
    )
    return Caveat("unknown embedder", text)
