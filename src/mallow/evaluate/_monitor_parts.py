"""The counts of a monitor: as bytes for a different process, and the caveats that follow from them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.errors import Caveat, InputError
from mallow.evidence import Looks

_WORTH = 0.5  # of the samples; chosen: if the alarm can use fewer, a caveat says so


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
