"""What a monitor has counted, as bytes that travel between processes: plain JSON, so that reading them runs no code."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.errors import InputError
from mallow.inference import Looks

__all__ = ["pack_part", "unpack_part"]


def pack_part(key: str, counts: NDArray[np.int64], looks: Looks) -> bytes:
    """Counts and sums of a monitor with this key."""
    part = {
        "key": key,
        "counts": counts.tolist(),
        "sums": [own.tolist() for own in looks.sums],
        "squares": [int(own) for own in looks.squares],
        "numbers": [int(looks.rows), int(looks.left_out), int(looks.size_squares)],
        "sizes": [[int(unit), int(size)] for unit, size in looks.sizes.items()],
    }
    return json.dumps(part, separators=(",", ":")).encode()


def unpack_part(key: str, part: bytes) -> tuple[NDArray[np.int64], Looks]:
    """What `pack_part` wrote; an InputError if it is damaged, or of a monitor with another key."""
    try:
        data: dict[str, Any] = json.loads(part)
        if data["key"] != key:
            raise InputError(
                "`parts` must come from copies of this monitor, with the same reference, bins, measure and embedder."
            )
        rows, left_out, size_squares = data["numbers"]
        sums = [np.asarray(own, dtype=np.int64) for own in data["sums"]]
        sizes = {int(unit): int(size) for unit, size in data["sizes"]}
        looks = Looks(sums, list(data["squares"]), rows, left_out, size_squares, sizes, [1.0] * len(sums))
        return np.asarray(data["counts"], dtype=np.int64), looks
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"`parts` must be what `Monitor.counted` returned; {type(error).__name__}: {error}."
        ) from error
