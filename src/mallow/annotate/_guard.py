"""What protects the page: headers, limits of size and rate, and checks of where a form came from."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

import anyio
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mallow.annotate._settings import Limits

# Characters of an address before "?". Links of ours are shorter; Python reads no number of more than 4,300 digits.
_LONGEST_PATH = 4000

_HEADERS = {
    # Texts are data: nothing of them runs, nothing is loaded from elsewhere, and no other site may frame the page.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # links hold tokens; with no-referrer, our own forms would arrive without an origin
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "X-Robots-Tag": "noindex, nofollow",
}


class FormError(Exception):
    """A form that is refused; `status` is the code of the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Bucket:
    """Counts requests: a visitor has `burst` of them, and gains `rate` per second."""

    rate: float
    burst: float
    _levels: dict[str, tuple[float, float]] = field(default_factory=dict)

    def allows(self, key: str, now: float | None = None) -> bool:
        """Whether a visitor may make one more request."""
        moment = time.monotonic() if now is None else now
        if len(self._levels) > 20_000:  # chosen: about 3 MB; those who are full again need no entry
            self._levels = {k: v for k, v in self._levels.items() if v[0] + (moment - v[1]) * self.rate < self.burst}
        level, since = self._levels.get(key, (self.burst, moment))
        level = min(self.burst, level + (moment - since) * self.rate)
        if level < 1.0:
            self._levels[key] = (level, moment)
            return False
        self._levels[key] = (level - 1.0, moment)
        return True


class Guard:
    """Adds the security headers to every answer, and refuses visitors that ask too much.

    `visitor` names who sent a request, for counting; `refuse` makes the answer for a request that goes no further, with its
    status: 429 for too many, 414 for an address that is too long.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        visitor: Callable[[Request], str | None],
        refuse: Callable[[int], Awaitable[ASGIApp]],
    ) -> None:
        self._app, self._visitor, self._refuse = app, visitor, refuse
        self._known = Bucket(limits.rate, limits.burst)
        self._unknown = Bucket(limits.address_rate, limits.address_burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        person = self._visitor(request)
        bucket, key = (
            (self._unknown, request.client.host if request.client else "") if person is None else (self._known, person)
        )
        answer = self._app
        if not bucket.allows(key):
            answer = await self._refuse(429)
        elif len(scope["path"]) > _LONGEST_PATH:
            answer = await self._refuse(414)
        await answer(scope, receive, send_with_headers)


async def read_form_fields(request: Request, limits: Limits) -> dict[str, str]:
    """The fields of a form that was sent as application/x-www-form-urlencoded."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise FormError(415, "A form was expected.")
    body = bytearray()
    try:
        with anyio.fail_after(limits.seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.body:
                    raise FormError(413, "The form is too large.")
    except TimeoutError:
        raise FormError(408, "The form took too long to arrive. Please send it again.") from None
    try:
        return dict(
            parse_qsl(
                body.decode("ascii"), keep_blank_values=True, strict_parsing=False, max_num_fields=100, errors="strict"
            )
        )
    except ValueError:
        raise FormError(400, "The form could not be read.") from None


def same_origin(request: Request, url: str | None) -> bool:
    """Whether a form came from our own page, as far as the browser says; `url` is how people reach it, if by a proxy."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return True  # browsers of the last years send one of the two; the token in the form is checked as well
    hosts = {request.headers.get("host", "").lower(), urlsplit(url or "").netloc.lower()} - {""}
    try:
        return urlsplit(origin).netloc.lower() in hosts
    except ValueError:  # no address at all, such as "http://["
        return False
