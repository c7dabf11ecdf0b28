"""The parts of a monitor: its reference and bins, what it has counted as bytes for another process, and caveats."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.embed import AnyEmbedder, JointEmbedder, embedder_name, find_embedder
from mallow.errors import Caveat, InputError
from mallow.estimate import Codebook, Features, Quantize, automatic_bins, row_keys
from mallow.evidence import Looks, Measure, find_units, generator_for, mauve_limit
from mallow.samples import Samples, read
from mallow.theory import KL

_FITTING = 0.25  # share of the reference that fits the bins; half left fewer samples to count and a larger error

Indices = NDArray[np.int64]

_WINDOW = 50  # samples; chosen: a smaller window says little about the reference
_WORTH = 0.5  # of the samples; chosen: if the alarm can use fewer, a caveat says so


def check_watch(measure: Measure, tolerance: float | None, window: int | None) -> None:
    """An InputError if there can be no alarm about this tolerance."""
    if window is not None:
        whole("window", window, least=_WINDOW)
        if tolerance is None:
            raise InputError(f"`window` needs a tolerance, since a moving reference has no other alarm; got {window}.")
    if tolerance is None:
        return
    least = mauve_limit(math.log(2.0), measure.area_scale)
    if not least < tolerance < 1:
        raise InputError(
            f"`tolerance` must lie between {least:.3g}, what MAUVE is at least shown to be with scale="
            f"{measure.area_scale:g}, and 1; got {tolerance}. Pass 0.9 for an alarm when MAUVE falls below 0.9."
        )
    if measure.divergence is not KL:
        raise InputError(f"`tolerance` needs the divergence KL; got {measure.divergence!r}. Leave it out.")


def pack_part(key: str, counts: NDArray[np.int64], looks: Looks) -> bytes:
    """Counts and sums of a monitor with this key."""
    part: dict[str, Any] = {
        "key": key,
        "counts": counts.tolist(),
        "sums": [own.tolist() for own in looks.sums],
        "squares": [int(own) for own in looks.squares],
        "numbers": [int(looks.rows), int(looks.left_out), int(looks.size_squares)],
        "missing": sorted(looks.missing),
        "sizes": [[int(unit), int(size)] for unit, size in looks.sizes.items()],
    }
    return json.dumps(part | {"digest": _part_digest(part)}, separators=(",", ":")).encode()


def _part_digest(part: dict[str, Any]) -> str:
    """The digest of a whole part, since a digit changed on the way would change a p-value."""
    return hashlib.blake2b(json.dumps(part, sort_keys=True).encode(), digest_size=16).hexdigest()


def unpack_part(key: str, part: bytes, empty: Looks) -> tuple[NDArray[np.int64], Looks]:
    """The content that `pack_part` wrote. An InputError if it is damaged, or comes from a monitor with a different key.

    Parameters
    ----------
    empty : Looks
        The looks of the monitor that takes the part. The sums of the part must have the same shapes.
    """
    try:
        data: dict[str, Any] = json.loads(part)
        if data.pop("digest") != _part_digest(data):
            raise InputError(
                "`parts` must be what `Monitor.counted` returned; one was changed on the way. Send it again."
            )
        if data["key"] != key:
            raise InputError(
                "`parts` must come from copies of this monitor, with the same reference, bins, measure and embedder."
            )
        rows, left_out, size_squares = map(int, data["numbers"])
        sums = [np.asarray(own, dtype=np.int64) for own in data["sums"]]
        sizes = {int(unit): int(size) for unit, size in data["sizes"]}
        squares, tails = list(map(int, data["squares"])), [1.0] * len(sums)
        missing = frozenset(map(str, data["missing"]))
        looks = Looks(sums, squares, rows, left_out, size_squares, sizes, tails, missing)
        counts = np.asarray(data["counts"], dtype=np.int64)
        shapes = [own.shape for own in (*empty.sums, empty.sums[-1])]  # the counts are the sums of the last view
        if [own.shape for own in (*sums, counts)] != shapes or len(looks.squares) != len(empty.squares):
            raise ValueError("its sums have other sizes")
        return counts, looks
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"`parts` must be what `Monitor.counted` returned; {type(error).__name__}: {error}."
        ) from error


SPENT = Caveat(
    "reference used up",
    "the bets of the tolerance have used up the reference, so that later samples of the model prove nothing more. "
    "Start a new monitor, with more samples of the reference or with a window.",
)
"""For a monitor whose alarm is about a tolerance."""


def unit_caveats(looks: Looks, m: int) -> list[Caveat]:
    """Caveats about ids or prompts that repeat, and about samples that the alarm cannot use."""
    caveats = []
    if looks.units < _WORTH * looks.rows:
        text = (
            f"the {m} samples of the model share ids or prompts: for the alarm they count as {looks.units:.0f} "
            "independent ones, while the interval of the score takes each as independent. One sample for each of many "
            "prompts says more."
        )
        caveats.append(Caveat("repeated units", text, values={"samples": m, "units": looks.units}))
    if looks.left_out > (1 - _WORTH) * m:
        text = (
            f"{looks.left_out} of the {m} samples have ids or prompts of reference samples that fitted the bins, and "
            "the alarm leaves them out: use other prompts, or more of them."
        )
        caveats.append(Caveat("left out", text, values={"samples": m, "left_out": looks.left_out}))
    return caveats


def resolve_reference(reference: object, embedder: AnyEmbedder | str | None) -> tuple[object, AnyEmbedder | None]:
    """The reference, and the embedder itself: None for features."""
    if embedder is None or isinstance(embedder, str):
        samples = read(reference)
        reference = samples
        embedder = (
            None if embedder is None and samples.features is not None else find_embedder(embedder, kind=samples.kind)
        )
    if isinstance(embedder, JointEmbedder):
        raise InputError(
            f"`embedder` must embed each sample by itself; {embedder_name(embedder)} embeds all at once. Use another, "
            "such as 'minilm'."
        )
    return reference, embedder


def split_reference(samples: Samples, rows: Features, seed: int) -> tuple[Indices, Indices, int]:
    """An order of the rows, the unit of each row, and how many of the first rows fit the bins. No unit is cut.

    The order is random, and does not depend on the order in which the rows are given.
    """
    units = find_units(samples)
    if units.count < 2:
        raise InputError(
            f"`reference` must hold samples of at least 2 units, but all {len(rows)} have the same id or prompt. "
            "Pass ids that differ, or neither ids nor prompts."
        )
    rng = generator_for(seed, "split of the reference")
    permuted = np.argsort(units.keys, kind="stable")[rng.permutation(units.count)]
    place = np.empty_like(permuted)
    place[permuted] = np.arange(units.count)
    ends = np.cumsum(units.sizes(0)[permuted])[:-1]  # at least one unit is counted
    fitting = int(ends[min(int(np.searchsorted(ends, round(_FITTING * len(rows)))), len(ends) - 1)])
    return np.lexsort((row_keys(rows), place[units.sets[0]])), units.sets[0], fitting


def fit_codebook(fitting: Features, size: int, estimator: Quantize, seed: int) -> Codebook:
    """The bins, fitted on these of `size` rows of the reference."""
    if isinstance(estimator.codebook, Codebook):
        return estimator.codebook
    bins = automatic_bins(size - len(fitting)) if estimator.bins == "auto" else estimator.bins
    if bins > len(fitting):
        raise InputError(
            f"`bins` must be at most the {len(fitting)} of {size} reference samples that fit the codebook; got "
            f"{bins}. Leave out `bins`, or pass a larger reference."
        )
    return replace(estimator, bins=bins).fit(fitting, rng=generator_for(seed, "clustering"))


def join_spaces(
    rows: Features, spaces: Mapping[str, NDArray[Any]], widths: Mapping[str, int]
) -> tuple[Features, list[str]]:
    """Rows of features with the columns of all spaces beside them, and which of these the samples lack.

    Columns that they lack are 0. Only the style and the prompts may be missing.
    """
    widths = {name: width for name, width in widths.items() if name}
    missing = [name for name in widths if name not in spaces and name in ("style", "prompts")]
    known = {**spaces, **{name: np.zeros((len(rows), widths[name])) for name in missing}}
    for name, width in widths.items():
        if name not in known or known[name].shape[1] != width:
            raise InputError(f"`batch` must have the space {name!r} with {width} columns, as the reference has.")
    if not widths:
        return rows, []
    columns = [rows, *(known[name] for name in widths)]
    return np.concatenate(columns, axis=1, dtype=np.result_type(np.float32, rows.dtype)), missing
