"""Features are checked once, where they come in: their shape, their type, and that every entry is finite."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.errors import InputError

_CHUNK = 1 << 22  # entries tested at a time; chosen: 32 MB of float64, so that a mapped file is never loaded whole


def feature_array(subject: str, values: object) -> NDArray[Any]:
    """Numbers as an array (n, d), not yet tested for being finite; an array with one axis is n samples of one feature.

    Messages begin with `subject`.
    """
    try:
        rows = np.asanyarray(values)  # a mapped file stays mapped
    except ValueError as error:
        raise InputError(f"{subject} must have rows of equal length; {str(error).rstrip('.')}.") from None
    if isinstance(rows, np.ma.MaskedArray):  # numpy would pass over what is masked without a word
        if np.ma.is_masked(rows):
            raise InputError(f"{subject} must be complete; {int(np.sum(rows.mask))} entries are masked.")
        rows = rows.data
    if rows.dtype.kind not in "biuf":
        raise InputError(f"{subject} must be real numbers; got dtype {rows.dtype}.")
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2:
        raise InputError(f"{subject} must have shape (n, d), one row per sample; got shape {rows.shape}.")
    if rows.size == 0:
        raise InputError(f"{subject} must have at least one row and one column; got shape {rows.shape}.")
    return rows


def finite_features(subject: str, values: object) -> NDArray[Any]:
    """Features (n, d), all of them finite."""
    rows = feature_array(subject, values)
    finite = finite_rows(rows, None)
    if not finite.all():
        row = int(np.argmin(finite))
        column = int(np.argmin(np.isfinite(rows[row])))
        raise InputError(
            f"{subject} must be finite; {int((~finite).sum())} of {len(rows)} rows contain NaN or infinite entries, "
            f"the first {rows[row, column]} in row {row}, column {column}. "
            "Remove these rows, or let mallow.read skip them with skip_bad=True."
        )
    return rows


def finite_rows(rows: NDArray[Any], limit: int | None) -> NDArray[np.bool_]:
    """Which rows are finite: of all rows, or of enough chunks to contain `limit` finite ones."""
    step = max(1, _CHUNK // rows.shape[1])
    parts: list[NDArray[np.bool_]] = []
    total = 0
    for start in range(0, len(rows), step):
        parts.append(np.isfinite(rows[start : start + step]).all(axis=1))
        total += int(parts[-1].sum())
        if limit is not None and total >= limit:
            break
    return np.concatenate(parts)
