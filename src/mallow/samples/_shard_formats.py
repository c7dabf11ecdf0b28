"""The content of a shard of features, and reading some of its rows, for each format."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._files import explained, is_url, parse_json
from mallow._optional import optional
from mallow.errors import InputError
from mallow.samples._shard_files import open_shard, read_bytes, shard_suffix, stamp_of
from mallow.samples._value_checks import ALWAYS_ALLOWED, DEFAULT_LIMITS, check_archive, label_fault

Array = NDArray[Any]

_TENSORS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "bfloat16"}
PROMPTS = "prompts"  # the array of a .npz file that replaces missing ids
_HEADER = 100_000_000  # bytes, the format's own limit
_AGAIN = "Is it complete? Write it again."


@dataclass(frozen=True)
class Content:
    """The content of a shard."""

    rows: int
    width: int
    dtype: str
    offset: int = -1  # the start of the numbers, if the rows follow one another in the file
    field: str = ""  # the array, tensor or column that holds the features
    ids: str = ""  # the array or column that holds the ids, or the prompts if there are no ids; "" without any
    embedder: str = ""  # "" if it is not known


def describe_shard(name: str, field: str | None) -> Content:
    """The content of a shard, from its header. An InputError that names the shard if it is damaged or empty."""
    describe = {".npy": _describe_npy, ".npz": _describe_npz, ".parquet": _describe_parquet}.get(
        shard_suffix(name), _describe_safetensors
    )
    with explained(name, "not a readable shard", _AGAIN):
        content = describe(name, field)
    if content.rows < 1 or content.width < 1:
        raise InputError(
            f"{name}: the shard is empty: shape ({content.rows}, {content.width}). Remove it, or write it again."
        )
    return content


def read_rows(name: str, content: Content, low: int, high: int) -> Array:
    """The rows from `low` to `high` of a shard."""
    if content.offset >= 0:
        return _read_range(name, content, low, high)
    with explained(name, "cannot be read", _AGAIN):
        return (_read_npz if shard_suffix(name) == ".npz" else _read_parquet)(name, content, low, high)


def read_ids(name: str, content: Content, low: int, high: int) -> list[str] | None:
    """The ids of these rows, or their prompts; None if the shard has neither."""
    if not content.ids:
        return None
    with explained(name, "the ids cannot be read", "Write the shard again."):
        if shard_suffix(name) == ".npz":
            with open_shard(name) as stream, np.load(stream) as arrays:
                labels = arrays[content.ids]
                ids = (labels.tolist() if content.ids != PROMPTS else parse_json(str(labels[()])))[low:high]
        else:
            ids = _read_column(name, content.ids, low, high).to_pylist()
    if len(ids) != high - low:
        raise InputError(f"{name}: each row must have an id, but there are fewer ids than rows. Write the shard again.")
    for row, id_ in enumerate(ids, start=low):
        if (fault := label_fault(id_)) is not None:
            raise InputError(f"{name}: each row must have an id; {fault} in row {row}. Write the shard again.")
    return [str(id_) for id_ in ids]


def _read_range(name: str, content: Content, low: int, high: int) -> Array:
    """Rows that follow one another in the file."""
    half = content.dtype == "bfloat16"
    dtype = np.dtype("<u2" if half else content.dtype)
    row = content.width * dtype.itemsize
    start = content.offset + low * row
    if is_url(name):
        flat = np.frombuffer(read_bytes(name, start, content.offset + high * row), dtype)
    else:
        try:  # not mapped into memory, since a file that is truncated during the work would end the process
            flat = np.fromfile(name, dtype, (high - low) * content.width, offset=start)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise InputError(f"{name}: the shard cannot be read: {error.strerror or error}. Write it again.") from error
        if len(flat) < (high - low) * content.width:
            raise InputError(
                f"{name}: the shard ends too early, in row {low + len(flat) // content.width}. Write it again."
            )
    rows = flat.reshape(high - low, content.width)
    return (rows.astype("<u4") << 16).view("<f4") if half else rows


def _choose(what: str, names: Sequence[str], fitting: Sequence[str], field: str | None, name: str) -> str:
    """The array, tensor or column that holds the features."""
    chosen = field or (fitting[0] if len(fitting) == 1 else "features")
    if chosen not in names:
        raise InputError(f"{name}: no {what} '{chosen}'. It has {', '.join(names)}. Choose one with `field`.")
    return chosen


# --- .npy


def _describe_npy(name: str, field: str | None) -> Content:
    size = stamp_of(name)[0]
    start = io.BytesIO(read_bytes(name, 0, min(size, 4096)))
    shape, by_columns, dtype = _array_header(start)
    if by_columns and len(shape) > 1:
        raise InputError(
            f"{name}: the rows of a shard must follow one another, but these are stored by columns (Fortran order). "
            "Write it again with np.save(name, np.ascontiguousarray(features))."
        )
    rows, width = _shape(name, shape, dtype)
    needed = start.tell() + rows * width * dtype.itemsize
    if size < needed:
        raise InputError(
            f"{name}: the shard is cut short: its header promises shape {shape}, which takes {needed:,} bytes, but "
            f"it has {size:,}. Write it again."
        )
    return Content(rows, width, dtype.str, offset=start.tell())


def _array_header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether it is stored by columns, and type of an array in the .npy format."""
    first = np.lib.format.read_magic(stream) == (1, 0)
    return np.lib.format.read_array_header_1_0(stream) if first else np.lib.format.read_array_header_2_0(stream)


def _shape(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, int]:
    if dtype.kind not in "biuf":
        raise InputError(f"{name}: features must be real numbers; got dtype {dtype}.")
    if len(shape) not in (1, 2):
        raise InputError(f"{name}: features must have shape (n, d), one row per sample; got shape {shape}.")
    return int(shape[0]), int(shape[1]) if len(shape) == 2 else 1


# --- .npz


def _describe_npz(name: str, field: str | None) -> Content:
    with open_shard(name) as stream, np.load(stream) as arrays:
        check_archive(arrays.zip)
        members = arrays.zip.infolist()
        size, stored = sum(member.file_size for member in members), sum(member.compress_size for member in members)
        if size > ALWAYS_ALLOWED and size > DEFAULT_LIMITS.expansion * stored:
            raise InputError(
                f"{name}: expands to more than {DEFAULT_LIMITS.expansion:g} times its size, {size / 1e6:,.0f} MB from "
                f"{stored / 1e6:,.2f} MB. If you trust the file, write its array again with np.save, which does not "
                "compress."
            )
        others = [array for array in arrays.files if array not in ("ids", PROMPTS, "provenance")]
        chosen = _choose("array", arrays.files, others, field, name)
        with arrays.zip.open(f"{chosen}.npy") as member:
            shape, _, dtype = _array_header(member)
        embedder = ""
        if "provenance" in arrays.files:
            embedder = str(parse_json(str(arrays["provenance"][()])).get("embedder", ""))
        rows, width = _shape(name, shape, dtype)
        promised, there = rows * width * dtype.itemsize, arrays.zip.getinfo(f"{chosen}.npy").file_size
        if promised > there:
            raise InputError(f"{name}: the header promises shape {shape}, more than there is. Write it again.")
        ids = next((label for label in ("ids", PROMPTS) if label in arrays.files and label != chosen), "")
        return Content(rows, width, dtype.str, field=chosen, ids=ids, embedder=embedder)


def _read_npz(name: str, content: Content, low: int, high: int) -> Array:
    with open_shard(name) as stream, np.load(stream) as arrays:
        rows = arrays[content.field]
    part: Array = (rows[:, None] if rows.ndim == 1 else rows)[low:high]
    return part


# --- .parquet: a column of lists


def _describe_parquet(name: str, field: str | None) -> Content:
    arrow, parquet = optional("pyarrow", extra="tables"), optional("pyarrow.parquet", extra="tables")
    with open_shard(name) as stream:
        file = parquet.ParquetFile(stream)
        schema, rows = file.schema_arrow, file.metadata.num_rows
        lists = [column.name for column in schema if _is_numeric_list(arrow, column.type)]
        chosen = _choose("column", schema.names, lists, field, name)
        if chosen not in lists:
            raise InputError(
                f"{name}: the column '{chosen}' must hold lists of numbers, but it holds {schema.field(chosen).type}."
            )
        first = next(file.iter_batches(1, columns=[chosen]), None) if rows else None
        kind = schema.field(chosen).type
        width = 0 if first is None else len(first.column(0)[0])
        metadata = parse_json((schema.metadata or {}).get(b"mallow", b"{}"))
        ids = next((label for label in ("id", "ids") if label in schema.names and label != chosen), "")
        dtype = np.dtype(kind.value_type.to_pandas_dtype()).str
        return Content(rows, width, dtype, field=chosen, ids=ids, embedder=str(metadata.get("embedder", "")))


def has_lists(name: str) -> bool:
    """Whether a parquet file has a column of lists, which may be features."""
    arrow, parquet = optional("pyarrow", extra="tables"), optional("pyarrow.parquet", extra="tables")
    with explained(name, "not a readable shard", _AGAIN, arrow.ArrowInvalid), open_shard(name) as stream:
        return any(_is_list(arrow, field.type) for field in parquet.ParquetFile(stream).schema_arrow)


def _is_list(arrow: Any, kind: Any) -> bool:
    types = arrow.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_numeric_list(arrow: Any, kind: Any) -> bool:
    values = kind.value_type if _is_list(arrow, kind) else None
    return bool(values is not None and (arrow.types.is_floating(values) or arrow.types.is_integer(values)))


def _read_column(name: str, column: str, low: int, high: int) -> Any:
    """Some rows of a column; only their groups of rows are read."""
    arrow, parquet = optional("pyarrow", extra="tables"), optional("pyarrow.parquet", extra="tables")
    with open_shard(name) as stream:
        file = parquet.ParquetFile(stream)
        ends = np.cumsum([file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)])
        groups = [group for group, end in enumerate(ends) if end > low and (ends[group - 1] if group else 0) < high]
        begin = int(ends[groups[0] - 1]) if groups[0] else 0
        table = file.read_row_groups(groups, columns=[column], use_threads=False)
    part = table.column(0).slice(low - begin, high - low)
    return part.combine_chunks() if isinstance(part, arrow.ChunkedArray) else part


def _read_parquet(name: str, content: Content, low: int, high: int) -> Array:
    part = _read_column(name, content.field, low, high)
    arrow = optional("pyarrow", extra="tables")
    part = part.chunk(0) if isinstance(part, arrow.ChunkedArray) else part
    flat = part.flatten().to_numpy(zero_copy_only=False)
    lengths = part.value_lengths().to_numpy(zero_copy_only=False) if part.null_count == 0 else np.array([-1])
    if (lengths != content.width).any():
        row = low + int(np.argmax(lengths != content.width))
        raise InputError(f"{name}: all rows must be {content.width} wide; row {row} is not. Write the shard again.")
    return np.asarray(flat).reshape(high - low, content.width)


# --- .safetensors: a JSON header, then the numbers


def _describe_safetensors(name: str, field: str | None) -> Content:
    size = stamp_of(name)[0]
    length = int.from_bytes(read_bytes(name, 0, 8), "little") if size >= 8 else size
    if size < 8 + length or length > _HEADER:
        raise InputError(f"{name}: the shard is cut short: {size} bytes do not hold its header. Write it again.")
    header = parse_json(read_bytes(name, 8, 8 + length))
    metadata = header.pop("__metadata__", {})
    chosen = _choose("tensor", list(header), list(header), field, name)
    tensor = header[chosen]
    if tensor["dtype"] not in _TENSORS:
        raise InputError(f"{name}: features must be of type {', '.join(_TENSORS)}; got {tensor['dtype']}.")
    dtype = _TENSORS[tensor["dtype"]]
    begin, end = tensor["data_offsets"]
    rows, width = _shape(name, tuple(tensor["shape"]), np.dtype("f4"))
    if size < 8 + length + end or end - begin < math.prod(tensor["shape"]) * (
        2 if dtype == "bfloat16" else np.dtype(dtype).itemsize
    ):
        raise InputError(
            f"{name}: the shard is cut short: it has {size:,} of {8 + length + end:,} bytes. Write it again."
        )
    return Content(
        rows, width, dtype, offset=8 + length + begin, field=chosen, embedder=str(metadata.get("embedder", ""))
    )
