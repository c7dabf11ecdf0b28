"""Scores of items: in logs of lm-evaluation-harness, Inspect and HELM, in plain columns, and in memory."""

from __future__ import annotations

import csv
import math
import numbers
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mallow._checks import number_of
from mallow.errors import InputError
from mallow.samples._entries import BadEntryError, Options, Row, list_names
from mallow.samples._eval_logs import eval_rows, inner, object_rows
from mallow.samples._read import no_such_file
from mallow.samples._streams import decode_lines, file_format, open_file, seekable
from mallow.samples._text_files import array_rows, begins_with, column_values, json_lines
from mallow.samples._value_checks import DEFAULT_LIMITS, is_missing, label_fault

_OPTIONS = Options(None, skip_bad=False, limit=None)
_ITEM = ("doc_id", "instance_id", "item", "id")  # names of the id of an item in tools
# Fields that are not scores, although they may be numbers.
_OTHERS = {*_ITEM, "cluster", "epoch", "filter", "metrics", "doc", "doc_hash", "prompt_hash", "target_hash"}
_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # of Inspect: correct, partly, incorrect, no answer
_WORDS = {"true": True, "false": False}


@dataclass(frozen=True)
class ItemScores:
    """The scores of one system."""

    scores: dict[str, list[float]] = field(default_factory=dict)  # by item; several if it was sampled repeatedly
    clusters: dict[str, str] = field(default_factory=dict)  # by item; empty if there are none


def read_item_scores(source: Any, label: str, metric: str | None = None, cluster: str | None = None) -> ItemScores:
    """The scores of items from a path, a mapping item → score or scores, a table, a list of dicts, or of numbers.

    `label` names the source in messages. Entries without the score, or whose score is missing, are left out.
    """
    records = []
    for place, row in _rows(source):
        where = f"{label}[{place}]"
        if not isinstance(row, Mapping):
            raise InputError(f"{where}: {row if isinstance(row, BadEntryError) else 'must be an object with fields'}.")
        name = next((name for name in _ITEM if not is_missing(row.get(name))), None)
        if name is None:
            raise InputError(f"{where}: no item; one of the fields {list_names(_ITEM)} must name it.")
        if (fault := label_fault(row[name])) is not None:
            raise InputError(f"{where}: the item must be a text or a number; {fault}.")
        group = row.get("cluster") if cluster is None else row.get(cluster, inner(row, *cluster.split(".")))
        if cluster is not None and (is_missing(group) or group == ""):
            way_out = "Name a field that all entries have."
            raise InputError(f"{where}: no field '{cluster}', which `clusters` names. {way_out}")
        records.append((where, str(row[name]), None if is_missing(group) else str(group), _values(row, cluster)))
    unnamed = not isinstance(source, str | os.PathLike) and all({*values} == {"score"} for *_, values in records)
    chosen = _choose(None if unnamed else metric, [values for *_, values in records], label)
    result = ItemScores()
    for where, item, group, values in records:
        value = values.get(chosen)
        if value is None or value != value:  # NaN
            continue
        number = _number(value)
        if number is None:
            raise InputError(f"{where}: the score '{chosen}' must be a number or true or false; got {value!r:.60}.")
        result.scores.setdefault(item, []).append(number)
        if group is not None and result.clusters.setdefault(item, group) != group:
            raise InputError(f"{where}: item '{item}' is in the clusters '{result.clusters[item]}' and '{group}'.")
    if not result.scores:
        raise InputError(f"{label}: contains no scores; at least one is needed.")
    return result


def _rows(source: Any) -> Iterable[Row]:
    if isinstance(source, str | os.PathLike):
        return _file_rows(os.fspath(source))
    if isinstance(source, Mapping):
        lists = (
            (item, value if isinstance(value, list | tuple) or np.ndim(value) else [value])
            for item, value in source.items()
        )
        return enumerate({"item": item, "score": score} for item, scores in lists for score in scores)
    if hasattr(source, "column_names") or hasattr(source, "columns"):
        names = list(source.column_names if hasattr(source, "column_names") else source.columns)
        _check_names(names, "the table")
        columns = [column_values(source[name]) for name in names]
        return enumerate(dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))
    if not isinstance(source, Iterable):
        raise InputError(f"`systems` must hold paths, mappings item → score, or tables; got {type(source).__name__}.")
    return enumerate(row if isinstance(row, Mapping) else {"item": i, "score": row} for i, row in enumerate(source))


def _file_rows(name: str) -> Iterator[Row]:
    path = Path(os.path.expanduser(name))
    if not path.is_file():
        raise no_such_file(path, name)
    form, _ = file_format(path, name)
    with open_file(path, name, DEFAULT_LIMITS) as stream:
        if form not in ("jsonl", "json", "csv", "eval"):
            raise InputError(f"{name}: scores are read from .jsonl, .json, .csv and .eval files; got .{form}.")
        if form == "eval":
            yield from eval_rows(seekable(stream, name), name, DEFAULT_LIMITS)
        elif form == "csv":
            yield from _csv_rows(stream, name)
        elif begins_with(stream, name) == "[":
            yield from array_rows(stream, name, _OPTIONS)
        elif form == "json":
            yield from object_rows(stream, name, DEFAULT_LIMITS)
        else:
            yield from json_lines(decode_lines(stream, name, DEFAULT_LIMITS), _OPTIONS)


def _csv_rows(stream: BinaryIO, name: str) -> Iterator[Row]:
    lines = (str(line) for _, line in decode_lines(stream, name, DEFAULT_LIMITS))
    try:
        reader = csv.DictReader(lines, strict=True)
        _check_names(reader.fieldnames or (), name)
        for place, row in enumerate(reader, start=2):
            if None in row or None in row.values():
                raise InputError(f"{name}[{place}]: the number of columns differs from the header.")
            yield place, {key: text if key in _OTHERS else _parse(text) for key, text in row.items()}
    except csv.Error as error:
        raise InputError(f"{name}: invalid CSV: {error}. Is it a CSV file?") from error


def _check_names(names: Sequence[object], where: str) -> None:
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{where}: two columns are named `{twice}`. Rename one of them.")


def _parse(text: str) -> object:
    """The value of a cell: a number, true or false, or nothing."""
    try:
        return number_of(text)
    except ValueError:
        return _WORDS.get(text.strip().lower(), text or None)


def _values(row: Mapping[str, Any], cluster: str | None) -> dict[str, Any]:
    """The possible scores, by name."""
    if isinstance(row.get("stats"), list):  # HELM; perturbed instances are different items
        named = [(inner(stat, "name"), inner(stat, "mean")) for stat in row["stats"]]
        return {name["name"]: mean for name, mean in named if "name" in name and "perturbation" not in name}
    if isinstance(row.get("scores"), Mapping):  # Inspect
        values: dict[str, Any] = {}
        for scorer, score in row["scores"].items():
            value = score.get("value") if isinstance(score, Mapping) else score
            parts = {f"{scorer}.{key}": part for key, part in value.items()} if isinstance(value, Mapping) else None
            values |= parts or {scorer: value}
        return {name: _GRADES.get(value, value) if isinstance(value, str) else value for name, value in values.items()}
    plain = {name: value for name, value in row.items() if name not in _OTHERS and name != cluster}
    if "doc_id" not in row:
        return plain
    names = row["metrics"] if isinstance(row.get("metrics"), list) else plain  # lm-evaluation-harness
    return {f"{name},{row.get('filter', 'none')}": plain.get(name) for name in names}


def _choose(metric: str | None, rows: list[dict[str, Any]], label: str) -> str:
    """The name of the score: the requested one, "score", or the only one."""
    names: dict[str, bool] = {}
    for values in rows:
        for name, value in values.items():
            if name == metric or not (value is None or value != value):
                names[name] = names.get(name, True) and _number(value) is not None
    known = [name for name, numeric in names.items() if numeric or name == metric]
    wanted = metric or "score"
    if wanted in known:
        return wanted
    fitting = [name for name in known if metric is None or name.rpartition(",")[0] == metric]
    if len(fitting) == 1:
        return fitting[0]
    if metric is not None and not fitting:
        raise InputError(f"{label}: no score '{metric}', which `metric` names; there are {list_names(known)}.")
    if not fitting:
        raise InputError(f"{label}: no field holds scores, which are numbers or true or false in all entries.")
    raise InputError(f"{label}: has several scores: {list_names(fitting)}. Choose one with `metric`.")


def _number(value: Any) -> float | None:
    """A finite number, or true or false as 1 or 0; None for anything else."""
    if isinstance(value, bool | np.bool_ | numbers.Real) and math.isfinite(value):
        return float(value)
    return None
