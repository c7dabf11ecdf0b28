"""Options from a file: [tool.mallow] in the pyproject.toml of the working folder, or --config FILE."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import click

from mallow._files import unique_names
from mallow._optional import did_you_mean, optional
from mallow.cli._printing import show
from mallow.errors import InputError

_LARGEST = 1_000_000  # bytes; chosen: hundreds of times what all options need
_SIMPLE = (str, int, float)
# How YAML 1.2 writes values that are not text, and the characters with which each begins.
_YAML = {
    "bool": (r"(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    "null": (r"(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    "int": (r"[-+]?(?:0|[1-9][0-9]*)$", list("-+0123456789")),
    "float": (r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$", list("-+.0123456789")),
}
_DOUBTFUL = re.compile(r"[-+]?(0[0-9_]+|0[box][0-9a-fA-F_]+|[0-9][0-9_]*_[0-9_]*|[0-9]+(:[0-5]?[0-9])+)")
_PROGRAMS = ("embedder", "estimator")
_FILES_AND_PLACES = frozenset(
    [
        "out",
        "plot",
        "junit",
        "grids",
        "overwrite",
        "checkpoint",
        "engine",
        "database",
        "export",
        "people",
        "host",
        "url",
        "github-summary",
        "repair",
        "passport",
        "save-statistics",
    ]
)


def read_defaults(group: click.Group, name: str, asked: bool) -> dict[str, Any] | None:
    """The defaults for click in a file: command → name of the argument → value. None for another project's file."""
    return _defaults(group, _read(name), name) if asked or _has_section(name) else None


def report_config(ctx: click.Context, name: str, asked: bool) -> None:
    """Report which options came from a file, once the command is known.

    A project in the working folder must not start programs or choose which files are written, unless --config names it.
    """
    source = click.core.ParameterSource.DEFAULT_MAP
    used = {
        _words(parameter)[0]: ctx.params.get(parameter.name)
        for parameter in ctx.command.params
        if parameter.name and ctx.get_parameter_source(parameter.name) is source
    }
    for word, value in used.items():
        if not asked and (reason := _reason_to_ask(word, value)):
            raise click.UsageError(
                f"{name}: {word} {reason}, which only you may decide. Pass --{word} on the command line, or say "
                f"that you trust the file: mallow --config {name} {ctx.command.name}."
            )
    if used:
        show("note", f"from {name}: {', '.join(used)}")


def _reason_to_ask(word: str, value: object) -> str | None:
    """Why an option may not come from a file that --config does not name; None if it may."""
    if word in _FILES_AND_PLACES:
        return "says which files are written, or where to connect"
    if word == "embedder-option" and "run_code" in str(value):
        return "lets a program run"
    if word in _PROGRAMS:
        from mallow.embed import is_import

        return "names a program" if is_import(str(value)) else None
    return None


def _has_section(path: str) -> bool:
    """Whether a project file has a section for mallow. A pipe or a device is not read."""
    with suppress(OSError, ValueError):  # an InputError, or bytes that are not UTF-8
        return "[tool.mallow" in _content(path)
    return False


def _content(path: str) -> str:
    """The text of a file of settings; never waits, and never reads without end."""
    file = Path(os.path.expanduser(path))
    status = file.stat()
    if stat.S_ISREG(status.st_mode) and status.st_size > _LARGEST:
        raise InputError(f"it has {status.st_size / 1e6:.1f} MB; at most {_LARGEST / 1e6:g} MB are read")
    if not stat.S_ISREG(status.st_mode):
        raise InputError("it is not a file on a disk")
    return file.read_text(encoding="utf-8")


def _read(path: str) -> Mapping[str, Any]:
    """The settings in a file: all of it, or the section tool.mallow of a project."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".toml", ".yaml", ".yml"):
        raise click.UsageError(f"--config must end in .toml, .yaml or .yml; got {path!r}.")
    try:
        text = _content(path)
    except (OSError, InputError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else getattr(error, "strerror", error)
        raise click.UsageError(f"--config: {path} cannot be read: {reason}.") from None
    try:
        values = tomllib.loads(text) if suffix == ".toml" else _parse_yaml(text)
    except click.UsageError:
        raise
    except Exception as error:  # yaml has its own errors
        raise click.UsageError(f"--config: {path} is not valid: {' '.join(str(error).split())}") from None
    if isinstance(values, dict) and "tool" in values:
        values = values["tool"].get("mallow", {}) if isinstance(values["tool"], dict) else values["tool"]
    if not isinstance(values, dict):
        raise click.UsageError(f"--config: {path} must hold names and values; got {type(values).__name__}.")
    return values


def _parse_yaml(text: str) -> Any:
    """The value of a YAML text by the rules of YAML 1.2: yes, no, on and off are texts. A repeated key is an error."""
    yaml = optional("yaml", extra="config")
    if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
        raise ValueError("aliases (*name) are not read: a few lines of them can stand for any number of values")

    class Loader(yaml.SafeLoader):  # type: ignore[misc,name-defined]
        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def make_text(loader: Any, node: Any) -> str:
        if node.style is None and _DOUBTFUL.fullmatch(node.value):  # without quotation marks
            raise ValueError(
                f"{node.value} is read as different numbers by different programs. Write it in a different way"
            )
        return str(loader.construct_scalar(node))

    def make_table(loader: Any, node: Any) -> dict[Any, Any]:
        return unique_names([tuple(map(loader.construct_object, pair, (True, True))) for pair in node.value])

    for tag, (pattern, first) in _YAML.items():
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), first)
    Loader.add_constructor("tag:yaml.org,2002:str", make_text)
    Loader.add_constructor("tag:yaml.org,2002:map", make_table)
    return yaml.load(text, Loader)


def _defaults(group: click.Group, settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The defaults for click: command → name of the argument → value."""
    common = {key: value for key, value in settings.items() if key not in group.commands}
    words = {word for command in group.commands.values() for parameter in command.params for word in _words(parameter)}
    for key in common:
        if _word(key) not in words:
            hint = did_you_mean(_word(key), [*group.commands, *sorted(words)])
            raise click.UsageError(f"{name}: there is no command or option {key!r}.{hint}")
    defaults: dict[str, Any] = {}
    for command_name, command in group.commands.items():
        section = settings.get(command_name, {})
        if not isinstance(section, dict):
            shown = repr(section) if isinstance(section, _SIMPLE) else type(section).__name__
            raise click.UsageError(f"{name}: {command_name} must hold the options of that command; got {shown}.")
        by_word = {word: parameter for parameter in command.params for word in _words(parameter)}
        for key in section:
            if _word(key) not in by_word:
                raise click.UsageError(
                    f"{name}: `mallow {command_name}` has no option {key!r}.{did_you_mean(_word(key), by_word)}"
                )
        chosen = {_word(key): value for key, value in {**common, **section}.items() if _word(key) in by_word}
        defaults[command_name] = {
            str(by_word[word].name): _value(value, by_word[word], f"{name}: {word}") for word, value in chosen.items()
        }
    return defaults


def _word(key: object) -> str:
    return str(key).replace("_", "-")


def _words(parameter: click.Parameter) -> list[str]:
    """The names of a parameter in a file: its options without dashes, or its name. The first is the longest."""
    if isinstance(parameter, click.Option):
        return [
            option.lstrip("-") for option in sorted(parameter.opts, key=len, reverse=True) if option.startswith("--")
        ] or [parameter.opts[0].lstrip("-")]
    return [_word(parameter.name)]


def _value(value: Any, parameter: click.Parameter, where: str) -> Any:
    """A value as click takes it. A table of names and paths becomes NAME=PATH."""
    is_flag = bool(getattr(parameter, "is_flag", False))
    several = parameter.nargs != 1 or getattr(parameter, "multiple", False)
    if isinstance(value, dict | list) and not several:
        raise click.UsageError(f"{where} must be one value; got {type(value).__name__}.")
    parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else [value]
    for part in parts:
        if not isinstance(part, _SIMPLE):
            raise click.UsageError(f"{where} must hold texts, numbers, true or false; got {type(part).__name__}.")
        if isinstance(part, bool) and not is_flag:
            raise click.UsageError(f"{where} must be a text or a number; got {str(part).lower()}.")
    if isinstance(value, dict):
        return [f"{key}={entry}" for key, entry in value.items()]
    words = [part if is_flag else str(part) for part in parts]  # as on the command line: 2.7 is not a whole number
    return words if several else words[0]
