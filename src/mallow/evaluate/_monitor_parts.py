"""What a monitor has counted, as bytes for another process."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.errors import InputError
from mallow.evidence import Looks


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
    """Of all that a part says: a digit that was changed on the way would change a p-value."""
    return hashlib.blake2b(json.dumps(part, sort_keys=True).encode(), digest_size=16).hexdigest()


def unpack_part(key: str, part: bytes, empty: Looks) -> tuple[NDArray[np.int64], Looks]:
    """What `pack_part` wrote; an InputError if it is damaged, or of a monitor with another key.

    Parameters
    ----------
    empty : Looks
        Those of the monitor that is to take the part: the sums of the part must have their shapes.
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
