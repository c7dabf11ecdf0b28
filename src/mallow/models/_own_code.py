"""Models that bring program code along, which is never run: they are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mallow._files import parse_json, read_text
from mallow.errors import InputError

_WAY_OUT = "If you trust it, load it in a function of your own and pass that as package.module:object."


def code_refusal(model: str, what: str = "the program code that it brings along") -> str:
    """The sentence for a model that cannot be loaded without running code of its own."""
    return f"`model` must be one that its library knows; {model} needs {what}, which mallow does not run. {_WAY_OUT}"


def refuse_downloaded_kernels(model: str, config_file: Path | None) -> None:
    """Refuse a config.json that names a compiled kernel on the hub, which would be downloaded and run."""
    config = _read(config_file)
    for name in ("attn_implementation", "_attn_implementation"):
        value = config.get(name)
        named = list(value.values()) if isinstance(value, dict) else [value]
        if any(isinstance(each, str) and "/" in each for each in named):
            raise InputError(code_refusal(model, f"the compiled code {value!r} from the hub"))


def refuse_foreign_modules(model: str, folder: Path) -> None:
    """Refuse a sentence-transformers model with modules or functions that are not part of sentence-transformers or torch.

    Some versions of sentence-transformers import them without asking if the model is a local folder.
    """
    modules = _read(folder / "modules.json")
    listed = modules if isinstance(modules, list) else []
    for module in listed:
        kind = str(module.get("type")) if isinstance(module, dict) else ""
        if not kind.startswith("sentence_transformers."):
            raise InputError(code_refusal(model, f"the module {kind!r}"))
        function = _read(folder / str(module.get("path", "")) / "config.json").get("activation_function", "torch.")
        if not str(function).startswith("torch."):
            raise InputError(code_refusal(model, f"the function {function!r}"))


def _read(file: Path | None) -> Any:
    """The content of a JSON file; {} if there is none that can be read, which whoever loads the model will notice."""
    try:
        return {} if file is None else parse_json(read_text(file))
    except ValueError:
        return {}
