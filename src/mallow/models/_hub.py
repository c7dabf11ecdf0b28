"""Whether the model hub can be asked at all: without a network its client would try again for half a minute."""

from __future__ import annotations

import threading
from typing import Any

from mallow._optional import optional
from mallow.models._load_errors import class_names

_PATIENCE = 4.0  # seconds; chosen: connections take less than one, and an answer is promised within ten
_NO_CONNECTION = {"ConnectError", "ConnectionError", "ConnectTimeout", "TimeoutException", "Timeout", "NetworkError"}


def hub_is_unreachable(*, extra: str) -> bool:
    """Whether one request to the hub, through its own client, finds no connection within a few seconds.

    Any answer, also an error of the server, counts as a connection. False where HF_HUB_OFFLINE is set: the client knows
    then by itself that there is none.
    """
    hub, tools = optional("huggingface_hub", extra=extra), optional("huggingface_hub.utils", extra=extra)
    if hub.constants.HF_HUB_OFFLINE:
        return False
    errors: list[BaseException | None] = []
    # In a thread of its own: looking up a name has no time limit. It is not waited for when the process ends.
    thread = threading.Thread(target=_ask, args=(tools.get_session(), hub.constants.ENDPOINT, errors), daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    return not errors or (errors[0] is not None and bool(class_names(errors[0]) & _NO_CONNECTION))


def _ask(session: Any, address: str, errors: list[BaseException | None]) -> None:
    try:
        session.head(address, timeout=_PATIENCE)
        errors.append(None)
    except Exception as error:  # of whatever the client is built on
        errors.append(error)
