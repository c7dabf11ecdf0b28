"""Tables in memory: pandas and polars frames, pyarrow tables and Hugging Face datasets, by their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mallow.errors import InputError
from mallow.samples._entries import Options, at_index, gather_texts, list_names
from mallow.samples._samples import Samples


def read_table(table: Any, name: str, options: Options) -> Samples:
    """The texts of any table that names its columns, with their ids and prompts."""
    names = list(table.column_names if hasattr(table, "column_names") else table.columns)
    chosen = choose_columns(names, name, options)
    columns = [column_values(table[column]) for column in chosen]
    rows = (dict(zip(chosen, values, strict=True)) for values in zip(*columns, strict=True))
    return gather_texts(enumerate(rows), at_index(name), name, options)


def choose_columns(names: Sequence[object], name: str, options: Options) -> list[str]:
    """The columns to read: the text, and `id` and `prompt` where they exist."""
    text = options.text_field
    if text not in names:
        hint = " Columns must be separated by commas." if len(names) == 1 and {";", "\t"} & set(str(names[0])) else ""
        hint = hint or (" For features, pass the array that .to_numpy() returns." if name == "DataFrame" else "")
        raise InputError(
            f"{name}: no column `{text}`; available columns: {list_names(names)}. "
            f"Choose one with field=… (--field).{hint}"
        )
    columns = [text, *(column for column in ("id", options.label) if column in names and column != text)]
    for column in columns:
        if list(names).count(column) > 1:
            raise InputError(f"{name}: two columns are named `{column}`. Rename one of them.")
    return columns


def column_values(column: Any) -> list[object]:
    """The values of a column as Python objects."""
    for method in ("to_list", "to_pylist"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)
