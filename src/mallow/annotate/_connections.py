"""Closes connections that send nothing, or send their requests very slowly, so that others get in."""

from __future__ import annotations

import asyncio
from typing import Any

from mallow.annotate._settings import Limits

_GRACE = 1.0  # seconds that every connection gets; chosen: browsers send their request at once


def limited_protocol(limits: Limits) -> type[asyncio.Protocol]:
    """The protocol class of uvicorn, with a time limit for the head of every request.

    uvicorn limits the time between requests, but not the time for sending one. If more than `limits.waiting`
    connections have sent no request, the oldest are closed as soon as others come.
    """
    from h11 import LocalProtocolError
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    base: Any = AutoHTTPProtocol
    waiting: dict[Any, tuple[asyncio.TimerHandle, float]] = {}  # in the order in which they came

    class LimitedProtocol(base):  # type: ignore[misc]
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self._wait()
            for protocol, (_, since) in list(waiting.items())[: max(0, len(waiting) - limits.waiting)]:
                if self.loop.time() - since < _GRACE:
                    break
                protocol.give_up()

        def data_received(self, data: bytes) -> None:
            try:
                super().data_received(data)
            except LocalProtocolError:  # bytes after an answered request are not HTTP; uvicorn would answer again
                self.give_up()
                return
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop_waiting()
            elif self not in waiting and not self.transport.is_closing():
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def give_up(self) -> None:
            self._stop_waiting()
            self.transport.abort()

        def _wait(self) -> None:
            waiting[self] = (self.loop.call_later(limits.header_seconds, self.give_up), self.loop.time())

        def _stop_waiting(self) -> None:
            timer, _ = waiting.pop(self, (None, 0.0))
            if timer is not None:
                timer.cancel()

    return LimitedProtocol
