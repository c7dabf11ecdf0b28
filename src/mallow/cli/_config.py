"""Options from a file: [tool.mallow] in the pyproject.toml of the working folder, or --config FILE."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from mallow._optional import did_you_mean, optional
from mallow.cli._printing import show_note

__all__ = ["config_option", "tell_config"]

_FOUND = "mallow.config"  # the key in click's context
_PROJECT = "pyproject.toml"


def config_option() -> click.Option:
    """--config: defaults for the options of all commands."""

    def on_config(ctx: click.Context, _parameter: click.Parameter, path: str | None) -> None:
        name = path or (_PROJECT if _has_section(_PROJECT) else None)
        if name is None or not isinstance(ctx.command, click.Group) or ctx.resilient_parsing:
            return
        ctx.default_map = _defaults(ctx.command, _read(name), name)
        ctx.meta[_FOUND] = name

    help_text = "Options from a file: .toml, .yaml or .yml. [default: the section tool.mallow of pyproject.toml, if there is one]"
    return click.Option(
        ["--config"], metavar="FILE", expose_value=False, is_eager=True, callback=on_config, help=help_text
    )


def tell_config() -> None:
    """Say which options came from a file, once the command is known."""
    ctx = click.get_current_context()
    source = click.core.ParameterSource.DEFAULT_MAP
    words = [_words(parameter)[0] for parameter in ctx.command.params if parameter.name]
    names = [parameter.name for parameter in ctx.command.params if parameter.name]
    used = [word for word, name in zip(words, names, strict=True) if ctx.get_parameter_source(name) is source]
    if used and _FOUND in ctx.meta:
        show_note(f"from {ctx.meta[_FOUND]}: {', '.join(used)}")


def _has_section(path: str) -> bool:
    try:
        return b"[tool.mallow" in Path(path).read_bytes()
    except OSError:
        return False


def _read(path: str) -> Mapping[str, Any]:
    """The settings in a file: all of it, or the section tool.mallow of a project."""
    file = Path(os.path.expanduser(path))
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise click.UsageError(f"--config: {path} cannot be read: {reason}.") from None
    try:
        if file.suffix.lower() in (".yaml", ".yml"):
            values = optional("yaml", extra="config").safe_load(text)
        elif file.suffix.lower() == ".toml":
            values = tomllib.loads(text)
        else:
            raise click.UsageError(f"--config must end in .toml, .yaml or .yml; got {path!r}.")
    except click.UsageError:
        raise
    except Exception as error:  # yaml has errors of its own
        raise click.UsageError(f"--config: {path} is not valid: {' '.join(str(error).split())}") from None
    if isinstance(values, dict) and "tool" in values:
        values = values["tool"].get("mallow", {})
    if not isinstance(values, dict):
        raise click.UsageError(f"--config: {path} must hold names and values; got {type(values).__name__}.")
    return values


def _defaults(group: click.Group, settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What click takes as defaults: command → name of the argument → value."""
    common = {key: value for key, value in settings.items() if key not in group.commands}
    known = {word for command in group.commands.values() for parameter in command.params for word in _words(parameter)}
    for key in common:
        if _word(key) not in known:
            raise click.UsageError(
                f"{name}: there is no command or option {key!r}.{did_you_mean(key, [*group.commands, *sorted(known)])}"
            )
    defaults: dict[str, Any] = {}
    for command_name, command in group.commands.items():
        own = settings.get(command_name, {})
        if not isinstance(own, dict):
            raise click.UsageError(f"{name}: {command_name} must hold the options of that command; got {own!r}.")
        by_word = {word: parameter for parameter in command.params for word in _words(parameter)}
        for key in own:
            if _word(key) not in by_word:
                raise click.UsageError(
                    f"{name}: `mallow {command_name}` has no option {key!r}.{did_you_mean(_word(key), by_word)}"
                )
        chosen = {_word(key): value for key, value in {**common, **own}.items() if _word(key) in by_word}
        defaults[command_name] = {str(by_word[word].name): _value(value) for word, value in chosen.items()}
    return defaults


def _word(key: object) -> str:
    return str(key).replace("_", "-")


def _words(parameter: click.Parameter) -> list[str]:
    """What a parameter is called in a file: its options without dashes, or its name; the first is the longest."""
    if isinstance(parameter, click.Option):
        return [
            option.lstrip("-") for option in sorted(parameter.opts, key=len, reverse=True) if option.startswith("--")
        ] or [parameter.opts[0].lstrip("-")]
    return [_word(parameter.name)]


def _value(value: Any) -> Any:
    """A table of names and paths as NAME=PATH."""
    return [f"{key}={entry}" for key, entry in value.items()] if isinstance(value, dict) else value
