"""Why a model cannot be loaded: failures of transformers and the hub in one sentence, and code that is not run."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from mallow._files import parse_json, read_text
from mallow._optional import optional
from mallow.errors import InputError

_WAY_OUT = "If you trust it, load it in a function of your own and pass that as package.module:object."
_PATIENCE = 4.0  # seconds; chosen: connections take less than one, and an answer is promised within ten
_NO_CONNECTION = {"ConnectError", "ConnectionError", "ConnectTimeout", "TimeoutException", "Timeout", "NetworkError"}


def explain_hub_error(error: BaseException, model: str, revision: str | None, alternatives: str) -> str:
    """One sentence for an error while loading a model from the hub; `alternatives` are such as "a local folder"."""
    kinds, instead = class_names(error), f"Or pass {alternatives}."
    if "GatedRepoError" in kinds:
        return (
            f"`model` {model} is available on the hub only to those who accept its terms. Accept them there, then run: "
            f"hf auth login. {instead}"
        )
    if "RevisionNotFoundError" in kinds:
        return f"`revision` must be a branch, tag or commit of {model} on the hub, but there is no {revision!r}."
    if kinds & {"RepositoryNotFoundError", "HFValidationError"}:
        return f"`model` must be on the hub, but there is no {model} that you have access to. Check the name. {instead}"
    if kinds & {"LocalEntryNotFoundError", "ConnectError", "ConnectionError", "TimeoutException"}:
        at = "" if revision is None else f" at {revision!r}"
        connect = "unset HF_HUB_OFFLINE" if "OfflineModeIsEnabled" in kinds else "connect"
        return (
            f"`model` {model}{at} is not among the downloaded models, and the hub cannot be reached. "
            f"Check the name, or {connect}. {instead}"
        )
    return f"`model` {model} cannot be loaded: {first_line(error)} {instead}"


def first_line(error: BaseException) -> str:
    """The first line of an error's message as a sentence. Its class name if it has no message."""
    lines = str(error).strip().splitlines()
    line = lines[0].strip() if lines else type(error).__name__
    return line if line.endswith((".", "?", "!")) else line + "."


def class_names(error: BaseException) -> set[str]:
    """Names of all classes of an error and of the errors that caused it."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    return {kind.__name__ for link in chain for kind in type(link).__mro__}


def code_refusal(model: str, what: str = "the program code that it brings along") -> str:
    """The sentence for a model that cannot be loaded without running its own code."""
    return f"`model` must be one that its library knows; {model} needs {what}, which mallow does not run. {_WAY_OUT}"


def refuse_downloaded_kernels(model: str, config_file: Path | None) -> None:
    """Refuse a config.json that names a compiled kernel on the hub, which would be downloaded and run."""
    config = _read(config_file)
    for name in ("attn_implementation", "_attn_implementation"):
        value = config.get(name)
        named = list(value.values()) if isinstance(value, dict) else [value]
        if any(isinstance(kernel, str) and "/" in kernel for kernel in named):
            raise InputError(code_refusal(model, f"the compiled code {value!r} from the hub"))


def refuse_files_elsewhere(model: str, folder: Path) -> None:
    """Refuse a folder whose model needs files outside it, since its digest, and so its name, would not cover them."""
    if (folder / "adapter_config.json").is_file():
        raise InputError(
            f"`model` must have all its weights; {model} is an adapter of a different model. Merge both "
            "(merge_and_unload of peft), save the result, and pass its folder."
        )
    modules = _read(folder / "modules.json")
    named = [str(module.get("path", "")) for module in modules if isinstance(module, dict)] if modules else []
    for index in folder.glob("*.index.json"):
        weights = _read(index)
        listed = weights.get("weight_map") if isinstance(weights, dict) else None
        named += [str(file) for file in listed.values()] if isinstance(listed, dict) else []
    for file in named:
        if Path(file).is_absolute() or ".." in Path(file).parts:
            raise InputError(
                f"`model` must be one folder; {model} names the file {file!r} outside of it. Copy it there."
            )


def refuse_foreign_modules(model: str, folder: Path) -> None:
    """Refuse a sentence-transformers model with modules or functions from outside sentence-transformers and torch.

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
    """The content of a JSON file; {} if it cannot be read, which is reported when the model is loaded."""
    try:
        return {} if file is None else parse_json(read_text(file))
    except ValueError:
        return {}


def hub_is_unreachable(*, extra: str) -> bool:
    """Whether one request to the hub, through its own client, finds no connection within a few seconds.

    Any answer, even an error of the server, counts as a connection. False if HF_HUB_OFFLINE is set, since the client
    then expects no connection.
    """
    hub, tools = optional("huggingface_hub", extra=extra), optional("huggingface_hub.utils", extra=extra)
    if hub.constants.HF_HUB_OFFLINE:
        return False
    errors: list[BaseException | None] = []

    # In a separate thread, since looking up a name has no time limit. The process can end without waiting for it.
    def ask() -> None:
        try:
            tools.get_session().head(hub.constants.ENDPOINT, timeout=_PATIENCE)
            errors.append(None)
        except Exception as error:  # of whatever the client is built on
            errors.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    return not errors or (errors[0] is not None and bool(class_names(errors[0]) & _NO_CONNECTION))
