"""Why a model cannot be loaded: one sentence for an error of transformers or of the hub's client, with the way out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """What was to be loaded, for the error message."""

    model: str
    revision: str | None
    alternatives: str  # to a name on the hub, such as "a local folder"


def explain_hub_error(error: BaseException, request: Request) -> str:
    """One sentence for an error while loading a model from the hub."""
    kinds = class_names(error)
    model, instead = request.model, f"Or pass {request.alternatives}."
    if "GatedRepoError" in kinds:
        return (
            f"`model` {model} is available on the hub only to those who accept its terms. Accept them there, then run: "
            f"hf auth login. {instead}"
        )
    if "RevisionNotFoundError" in kinds:
        return f"`revision` must be a branch, tag or commit of {model} on the hub; there is no {request.revision!r}."
    if kinds & {"RepositoryNotFoundError", "HFValidationError"}:
        return f"`model` must be on the hub; there is no {model} that you have access to. Check the name. {instead}"
    if kinds & {"LocalEntryNotFoundError", "ConnectError", "ConnectionError", "TimeoutException"}:
        at = "" if request.revision is None else f" at {request.revision!r}"
        connect = "unset HF_HUB_OFFLINE" if "OfflineModeIsEnabled" in kinds else "connect"
        return (
            f"`model` {model}{at} is not among the downloaded models, and the hub cannot be reached. "
            f"Check the name, or {connect}. {instead}"
        )
    return f"`model` {model} cannot be loaded: {first_line(error)} {instead}"


def first_line(error: BaseException) -> str:
    """The first line of an error's message as a sentence; its class name if it has no message."""
    lines = str(error).strip().splitlines()
    line = lines[0].strip() if lines else type(error).__name__
    return line if line.endswith((".", "?", "!")) else line + "."


def asks_to_run_code(error: BaseException) -> bool:
    """Whether an error says that the model cannot be loaded without running program code that it brings along."""
    return "trust_remote_code" in str(error)


def class_names(error: BaseException) -> set[str]:
    """Names of all classes of an error and of the errors that caused it."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    return {kind.__name__ for link in chain for kind in type(link).__mro__}
