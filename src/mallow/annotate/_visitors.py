"""Visitors and their rights: security headers, limits, signed cookies, checks of forms."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import parse_qsl, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mallow.annotate._lanes import Lane
from mallow.annotate._settings import Limits, Settings
from mallow.annotate._store import Annotator, Store
from mallow.errors import one_line

# Characters of an address before "?". Links of ours are shorter. Python reads no number of more than 4,300 digits.
_LONGEST_PATH = 4000
_LONGEST_HOST = 300  # characters. A name of the DNS has at most 253

_HEADERS = {
    # Texts are data: they run no code and load nothing from elsewhere, and no other site may frame the page.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action "
    "'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Links hold tokens; with no-referrer, our own forms would arrive without an origin.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "X-Robots-Tag": "noindex, nofollow",
}
_RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
_RAW_HEADERS.append((b"cache-control", b"no-store"))
_DAYS = 60  # that a session lasts; chosen: longer than a study
_ANNOTATOR = "mallow.annotator"  # the key of the annotator's id in the scope of a request
# Platform → the parameters that name the person and the session.
_PLATFORMS = {"prolific": ("PROLIFIC_PID", "SESSION_ID"), "mturk": ("workerId", "assignmentId")}
_LONGEST_ID = 100
_PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"  # what MTurk sends before a worker accepts a task


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
        if len(self._levels) > 20_000:  # chosen: about 3 MB; visitors with a full budget need no entry
            self._levels = {k: v for k, v in self._levels.items() if v[0] + (moment - v[1]) * self.rate < self.burst}
        level, since = self._levels.get(key, (self.burst, moment))
        level = min(self.burst, level + (moment - since) * self.rate)
        allowed = level >= 1.0
        self._levels[key] = (level - allowed, moment)
        return allowed


class Guard:
    """Adds the security headers to every answer, and refuses foreign hosts and visitors that send too much.

    `visitor` returns the name under which a request is counted. `refuse` makes the answer to a refused request from
    its status: 429 for too many, 414 for an address that is too long, 421 for a foreign host name.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: Settings,
        visitor: Callable[[Request], str | None],
        refuse: Callable[[int], Awaitable[ASGIApp]],
    ) -> None:
        self._app, self._visitor, self._refuse, self._is_host = app, visitor, refuse, lru_cache(1000)(settings.is_host)
        limits = settings.limits
        self._known = Bucket(limits.rate, limits.burst)
        self._unknown = Bucket(limits.address_rate, limits.address_burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        person = self._visitor(request)
        allowed = self._unknown.allows(address_of(request)) if person is None else self._known.allows(person)
        answer = self._app
        if not allowed:
            answer = await self._refuse(429)
        elif not self._is_host(request.headers.get("host", "")[:_LONGEST_HOST]):
            answer = await self._refuse(421)
        elif len(scope["path"]) > _LONGEST_PATH:
            answer = await self._refuse(414)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                names = {name for name, _ in headers}
                message["headers"] = headers + [header for header in _RAW_HEADERS if header[0] not in names]
            await send(message)

        await answer(scope, receive, send_with_headers)


def address_of(request: Request) -> str:
    """The address that a request came from, as the server or its proxy says."""
    return request.client.host if request.client else ""


async def read_form_fields(request: Request, limits: Limits) -> dict[str, str]:
    """The fields of a form that was sent as application/x-www-form-urlencoded."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise FormError(415, "A form was expected.")
    body = bytearray()
    try:
        async with asyncio.timeout(limits.seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.body:
                    raise FormError(413, "The form is too large.")
    except TimeoutError:
        raise FormError(408, "The form took too long to arrive. Please send it again.") from None
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=100, errors="strict"))
    except ValueError:
        raise FormError(400, "The form could not be read.") from None


def same_origin(request: Request, url: str | None) -> bool:
    """Whether a form came from our own page, by the headers of the browser; `url` is its address behind a proxy."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return True  # recent browsers send one of the two, and the token in the form is checked as well
    hosts = {request.headers.get("host", "").lower(), urlsplit(url or "").netloc.lower()} - {""}
    try:
        return urlsplit(origin).netloc.lower() in hosts
    except ValueError:  # no address at all, such as "http://["
        return False


def crowd_identity(parameters: Mapping[str, str]) -> tuple[str, str, str] | None:
    """The platform, the person and the session in the address; None without them.

    The session is empty for a preview. STUDY_ID and hitId are accepted and not needed.

    Examples
    --------
    >>> crowd_identity({"PROLIFIC_PID": "5f1", "STUDY_ID": "s", "SESSION_ID": "x9"})
    ('prolific', '5f1', 'x9')
    >>> crowd_identity({"hitId": "h", "assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE"})
    ('mturk', '', '')
    """
    for platform, (person, session) in _PLATFORMS.items():
        who, which = (one_line(parameters.get(name, "")) for name in (person, session))
        if which == _PREVIEW:
            return platform, "", ""
        if who and which and max(len(who), len(which)) <= _LONGEST_ID:
            return platform, who, which
    return None


def not_known() -> HTTPException:
    """The error for visitors who have not joined, or whose session has ended."""
    return HTTPException(403, "Please open the address of the study, or your personal link, again.")


class Visitors:
    """Identifies visitors by a signed cookie."""

    def __init__(self, store: Store, settings: Settings, read: Lane) -> None:
        self._ledger, self._signer, self._settings, self._read = store.ledger, store.signer, settings, read
        # All ports of a host share their cookies, so all studies do.
        self._cookie = f"mallow_{store.study.digest}"

    def remember(self, answer: Response, annotator: str, until: float) -> None:
        """Set the cookie of an annotator, which expires together with the personal link."""
        now = time.time()
        expires = min(until, now + _DAYS * 24 * 3600)
        token = self._signer.session_token(annotator, expires)
        age = int(expires - now)
        answer.set_cookie(self._cookie, token, max_age=age, httponly=True, samesite="lax", secure=self._settings.secure)

    def annotator_id(self, request: Request) -> str | None:
        """The id in a genuine cookie, which is read once per request."""
        if _ANNOTATOR not in request.scope:
            token = request.cookies.get(self._cookie, "")
            request.scope[_ANNOTATOR] = self._signer.read_session_token(token, time.time())
        id_: str | None = request.scope[_ANNOTATOR]
        return id_

    async def annotator(self, request: Request) -> Annotator | None:
        """The annotator who sent a request; None for anybody else, or if the database is new."""
        id_ = self.annotator_id(request)
        return None if id_ is None else await self._read(self._ledger.annotator, id_)

    async def known(self, request: Request) -> Annotator:
        """The annotator who sent a request. Others are asked to join first."""
        annotator = await self.annotator(request)
        if annotator is None:
            raise not_known()
        return annotator

    async def posted(self, request: Request) -> tuple[str, dict[str, str]]:
        """The id of the annotator who sent a form, and its fields, if it came from our own page."""
        fields = await read_form_fields(request, self._settings.limits)
        request.state.fields = fields  # returned to the annotator if they cannot be saved
        annotator = self.annotator_id(request)
        if annotator is None:
            raise not_known()
        genuine = self._signer.matches("csrf", annotator, fields.get("csrf", ""))
        if not same_origin(request, self._settings.url) or not genuine:
            raise FormError(
                403, "The form did not come from this page, or the page is too old. Please load the page again."
            )
        return annotator, fields

    def rate_key(self, request: Request) -> str | None:
        """The name under which requests are counted: the annotator, or the person of a personal link; None: the
        address."""
        id_ = self.annotator_id(request)
        if id_ is not None:
            return id_
        _, _, token = request.scope["path"].partition("/join/")  # not request.url, which the host header can break
        link = self._signer.read_personal_token(token) if token else None
        return None if link is None else f"link {link[0]}"

    def csrf(self, annotator: str) -> str:
        """The secret in a form of this annotator, which a form of another site cannot contain."""
        return self._signer.mac("csrf", annotator)

    def page_token(self, annotator: str, place: int, now: float, salt: str) -> str:
        """A token for one display of a pair, with its time; it shows which answers were sent twice."""
        return self._signer.sign("page", f"{annotator} {place} {now:.3f} {salt}")

    def read_page_token(self, annotator: str, place: int, token: str) -> float | None:
        """When the page was shown; None if the token is not one for this annotator and pair."""
        parts = (self._signer.verify("page", token) or "").split(" ")
        return float(parts[2]) if len(parts) == 4 and parts[:2] == [annotator, str(place)] else None
