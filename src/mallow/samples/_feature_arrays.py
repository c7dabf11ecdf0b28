"""Features from arrays and from .npy and .npz files."""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._files import file_stamp, parse_json
from mallow.errors import InputError
from mallow.samples._entries import Options, Skips, list_names, message_of
from mallow.samples._samples import Samples, first_places
from mallow.samples._streams import decompress, is_gzip
from mallow.samples._value_checks import Limits, check_archive, check_expansion, feature_array, finite_rows, label_fault

_COMPANIONS = ("ids", "prompts", "provenance")  # arrays of a .npz file that accompany the features


def read_features(values: object, name: str, options: Options) -> Samples:
    """Samples from an array, or from a list of rows."""
    return _keep_finite(feature_array(f"{name}: features", values), name, options)


def read_numpy(path: Path, name: str, options: Options) -> Samples:
    """Samples from a .npy file, or from a .npz file with its ids, prompts and provenance.

    Everything is copied into memory, since a mapped file could change while its rows are used, or end the process when
    it is truncated.
    """
    try:
        with path.open("rb") as raw:
            stamp, zipped = file_stamp(raw.fileno()), is_gzip(raw)
            file: Any = io.BytesIO(decompress(raw, name, options.limits).read()) if zipped else raw
            start = file.read(2)
            file.seek(0)
            if start != b"PK":  # not a zip archive, which a .npz file is
                if start == b"\x93N" or zipped:
                    _check_header(file, len(file.getbuffer()) if zipped else stamp[2])
                values, companions = np.load(file), {}
            else:
                with np.load(file) as arrays:
                    others = [array for array in arrays.files if array not in _COMPANIONS]
                    chosen = options.field or (others[0] if len(others) == 1 else "features")
                    if chosen not in arrays.files:
                        known = list_names(arrays.files)
                        way_out = "Choose one with `field`."
                        raise InputError(f"{name}: no array '{chosen}'; available arrays: {known}. {way_out}")
                    wanted = [chosen, *(label for label in _COMPANIONS if label in arrays and label != chosen)]
                    check_members(arrays.zip, wanted, name, options.limits)
                    values, companions = arrays[chosen], {label: arrays[label] for label in wanted[1:]}
            if file_stamp(raw.fileno()) != stamp:
                raise InputError(f"{name}: was changed while it was read. Do not write to it meanwhile; start again.")
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or message_of(error)}. Is it complete?") from error
    except Exception as error:  # numpy and zipfile may raise anything on a damaged header
        objects = "pickle" in str(error) or "Python objects" in str(error)
        reason = "it contains something other than plain arrays" if objects else message_of(error)
        way_out = "Write it again with np.save or np.savez; pickles are never loaded"
        raise InputError(f"{name}: not a readable npy or npz file: {reason}. {way_out}.") from error
    rows = feature_array(f"{name}: features", values)
    ids, prompts = (_labels(label, companions.get(label), len(rows), name) for label in ("ids", "prompts"))
    stored, provenance = companions.get("provenance"), None
    if stored is not None:
        rule = f"{name}: `provenance` must be a JSON object as text"
        provenance = _parse_json(str(stored[()]), dict, rule)
    return _keep_finite(rows, name, options, ids=ids, prompts=prompts, provenance=provenance)


def check_members(archive: zipfile.ZipFile, arrays: list[str], name: str, limits: Limits) -> None:
    """Refuse arrays of one name, that expand too far, or whose header promises too much, before memory is allocated."""
    check_archive(archive)
    entries = [archive.getinfo(array if array in archive.namelist() else f"{array}.npy") for array in arrays]
    check_expansion(
        name, sum(entry.file_size for entry in entries), sum(entry.compress_size for entry in entries), limits
    )
    for entry in entries:
        with archive.open(entry) as stream:
            _check_header(stream, entry.file_size)


def _check_header(stream: Any, size: int) -> None:
    """Raise a ValueError if an array in the .npy format is larger than `size`, the size of its file."""
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    read_header = readers.get(version)
    if read_header is None:
        raise ValueError(f"its format {version} is for arrays with named fields, not for features")
    shape, _, dtype = read_header(stream)
    if dtype.hasobject:
        raise ValueError("it contains Python objects")
    if math.prod(map(int, shape)) * dtype.itemsize > size:
        raise ValueError(f"its header promises shape {shape}, more than there is")
    if stream.seekable():
        stream.seek(0)


def _labels(label: str, stored: NDArray[Any] | None, rows: int, name: str) -> tuple[str, ...] | None:
    """Ids or prompts: an array of strings, or a JSON list in a single string, as `write` stores prompts."""
    if stored is None:
        return None
    entries = stored.tolist()
    if stored.ndim == 0:
        entries = _parse_json(
            str(entries), list, f"{name}: `{label}` must be an array of strings, or a JSON list as text"
        )
    if stored.ndim > 1 or len(entries) != rows:
        shape = stored.shape if stored.ndim else (len(entries),)
        raise InputError(f"{name}: `{label}` must have one entry for each of the {rows} rows; got shape {shape}.")
    for row, entry in enumerate(entries):
        if (fault := label_fault(entry)) is not None:
            raise InputError(f"{name}: `{label}` must be texts or numbers; {fault} in row {row}.")
    return tuple(map(str, entries))


def _parse_json(text: str, kind: type, rule: str) -> Any:
    try:
        value = parse_json(text)
    except ValueError as error:
        raise InputError(f"{rule}; got {text[:40]!r}: {error}.") from None
    if not isinstance(value, kind):
        raise InputError(f"{rule}; got {text[:40]!r}.")
    return value


def _keep_finite(
    rows: NDArray[Any],
    name: str,
    options: Options,
    *,
    ids: tuple[str, ...] | None = None,
    prompts: tuple[str, ...] | None = None,
    provenance: dict[str, object] | None = None,
) -> Samples:
    """The samples whose features are finite, up to the limit. The others are skipped, or refused."""
    skips, labels, limit = Skips(options), ids or prompts, options.limit
    finite = finite_rows(rows, limit if labels is None else None)
    good, stop = np.flatnonzero(finite), len(finite)
    if limit is not None:
        prompt_of_row = [row if labels is None else labels[row] for row in good.tolist()]
        places = first_places(prompt_of_row, limit)
        if len(places) < len(good) or len(set(prompt_of_row)) == limit:  # entries after the last prompt are not checked
            stop = int(good[places[-1]]) + 1
        good = good[places]
    for row in np.flatnonzero(~finite[:stop]):
        column = int(np.argmin(np.isfinite(rows[row])))
        skips.add(f"{name}[{row}]", f"features must be finite; got {rows[row, column]} in column {column}")
    if len(good) == 0:
        raise skips.nothing_left(name)
    kept_ids, kept_prompts = (labels and tuple(labels[row] for row in good) for labels in (ids, prompts))
    return Samples.trusted(
        features=rows[:stop] if len(good) == stop else rows[good],
        ids=kept_ids,
        prompts=kept_prompts,
        source=name,
        skipped=tuple(skips),
        provenance=provenance,
    )
