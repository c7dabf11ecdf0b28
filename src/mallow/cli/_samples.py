"""Samples on the command line: paths become samples, and NAME=PATH names a system."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mallow._checks import whole
from mallow._files import read_text
from mallow._optional import did_you_mean, optional
from mallow.cli._printing import print_message, show
from mallow.errors import InputError, one_line

if TYPE_CHECKING:
    from mallow.embed import AnyEmbedder
    from mallow.samples import Limits, Samples


LIMITS = ("line-mb", "expansion", "depth", "pixels", "wait")
"""The names that --max knows."""


@dataclass(frozen=True)
class SampleReader:
    """How files become samples: the options of `mallow.read`."""

    field: str | None
    skip_bad: bool
    limit: int | None
    limits: tuple[str, ...] = ()

    def __call__(self, path: str) -> Samples:
        """The samples at a path; skipped entries are counted on standard error."""
        from mallow.engine import bar
        from mallow.samples import read

        with bar("reading", 1):
            samples = read(path, **self._settings())
        self.report_skipped(path, samples)
        return samples

    def column(self, path: str, name: str) -> tuple[str, ...]:
        """A different column of the same samples."""
        from mallow.samples import read_column

        if _file_of(path) == "-":
            raise click.UsageError(f"The column {name} cannot be read from standard input. Save it as a file first.")
        return read_column(path, name, **self._settings())

    def _settings(self) -> dict[str, Any]:
        return {**vars(self), "limits": parse_limits(self.limits)}

    def report_skipped(self, path: str, samples: Samples) -> None:
        """Count skipped entries on standard error."""
        if samples.skipped:
            more = f" and {len(samples.skipped) - 1} more" if len(samples.skipped) > 1 else ""
            entries = "entry" if len(samples.skipped) == 1 else "entries"
            print_message(
                one_line(f"mallow: {path}: {len(samples.skipped)} bad {entries} skipped: {samples.skipped[0]}{more}")
            )


def parse_limits(settings: Sequence[str]) -> Limits:
    """The limits that --max sets. The limit of pixels is set in Pillow."""
    from mallow.samples import Limits

    values: dict[str, float] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if name not in LIMITS or not equals:
            raise click.UsageError(
                f"--max takes NAME=VALUE, where NAME is one of {', '.join(LIMITS)}; got {setting!r}."
                f"{did_you_mean(name, LIMITS)}"
            )
        try:
            values[name.replace("-", "_")] = int(text) if name in ("depth", "pixels") else float(text)
        except ValueError:
            raise click.UsageError(f"--max {name} must be a number; got {text!r}.") from None
    pixels = values.pop("pixels", None)
    if pixels is not None:
        optional("PIL.Image", extra="images").MAX_IMAGE_PIXELS = whole("pixels", int(pixels), least=1)
    return Limits(**values)  # type: ignore[arg-type]


def read_arguments(read: SampleReader, **paths: str) -> list[Samples]:
    """The samples of several arguments; at most one may be standard input."""
    if [_file_of(path) for path in paths.values()].count("-") > 1:
        *names, last = paths
        raise click.UsageError(f"Only one of {', '.join(names)} and {last} can be standard input.")
    return [_read_argument(read, path, name) for name, path in paths.items()]


def embed_once(embedder: AnyEmbedder | None, *sets: Samples) -> tuple[Any, ...]:
    """The sets with features, and None; or the unchanged sets, and an embedder that must embed pairs separately."""
    from mallow.embed import JointEmbedder, embed_all

    if isinstance(embedder, JointEmbedder):
        return (*sets, embedder)
    embedded = embed_all({str(index or ""): samples for index, samples in enumerate(sets)}, embedder)
    return (*embedded.values(), None)


def read_systems(read: SampleReader, reference: str, systems: Sequence[str]) -> tuple[Samples, dict[str, Samples]]:
    """The samples of the reference and of each NAME=PATH. A PATH without a name is named after its file."""
    paths = name_systems(systems)
    if [_file_of(path) for path in (reference, *paths.values())].count("-") > 1:
        raise click.UsageError("Only one of the reference and the systems can be standard input.")
    for name, path in paths.items():
        if os.path.exists(path) and os.path.exists(reference) and os.path.samefile(path, reference):
            show("warning", f"{name} is the reference itself, so it scores 1 whatever it contains.")
    others = {name: (path, path if path in systems else f"{name}={path}") for name, path in paths.items()}
    x = _read_argument(read, reference, "REFERENCE")
    return x, {name: _read_argument(read, *argument) for name, argument in others.items()}


def _read_argument(read: SampleReader, path: str, argument: str) -> Samples:
    """The samples at a path. An error about its field shows where the field can be written."""
    try:
        return read(path)
    except InputError as error:
        raise InputError(str(error).replace("FILE:FIELD", f"{argument}:FIELD")) from error


def expand_glob(path: str) -> list[str]:
    """The files that match a pattern which the shell has not expanded; otherwise the path itself."""
    if "=" in path or "://" in path or os.path.exists(path) or not glob.has_magic(path):
        return [path]
    return sorted(glob.glob(os.path.expanduser(path))) or [path]


def name_systems(systems: Sequence[str]) -> dict[str, str]:
    """The path of each NAME=PATH, by name. A PATH without a name is named after its file, or after its folder if all
    files have the same name."""
    pairs: list[tuple[str | None, str]] = []
    for system in systems:
        name, equals, path = system.partition("=")
        if not equals or os.path.exists(system):
            pairs.append((None, system))
        elif not name or not path:
            raise click.UsageError(f"A system is written NAME=PATH; got {system!r}.")
        else:
            pairs.append((name, path))
    unnamed = [_file_of(path) for name, path in pairs if name is None]
    folders = [Path(path).parent.name for path in unnamed]
    alike = len({_stem(path) for path in unnamed}) < len(unnamed) == len(set(folders)) and all(folders)
    paths: dict[str, str] = {}
    for chosen_name, path in pairs:
        name = chosen_name or (Path(_file_of(path)).parent.name if alike else _stem(_file_of(path)))
        if name in paths:
            raise click.UsageError(
                f"Two systems are called {name!r}: {paths[name]} and {path}. Give one of them another name: "
                f"{name}-2={path}."
            )
        paths[name] = path
    return paths


def _stem(path: str) -> str:
    """The name of a file without its suffixes. A number with a point is not a suffix."""
    stem = re.sub(r"(\.[A-Za-z][A-Za-z0-9]*)+$", "", Path(path).name)
    return stem or path


def _file_of(path: str) -> str:
    """The path without the field of FILE:FIELD."""
    from mallow.samples import split_field

    return split_field(path)[0] if ":" in path else path


def read_lines(path: str) -> list[str]:
    """The lines of a text file that are not empty, such as names or ids."""
    return [line.strip() for line in read_text(path).splitlines() if line.strip()]


def read_key(path: str | None) -> str | None:
    """The secret in a file, without white space around it."""
    return None if path is None else read_text(path).strip()
