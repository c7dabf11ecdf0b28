"""Who is there: sessions in signed cookies, forms that belong to them, and the parameters of crowd-work platforms."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from mallow._visible import one_line
from mallow.annotate._guard import FormError, read_form_fields, same_origin
from mallow.annotate._people import Annotator
from mallow.annotate._settings import Settings
from mallow.annotate._store import Store

_DAYS = 60  # that a session lasts; chosen: longer than a study

# Platform → the parameters that name the person and the session.
_PLATFORMS = {"prolific": ("PROLIFIC_PID", "SESSION_ID"), "mturk": ("workerId", "assignmentId")}
_LONGEST_ID = 100
_PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"  # what MTurk sends before a worker accepts a task


def crowd_identity(parameters: Mapping[str, str]) -> tuple[str, str, str] | None:
    """The platform, the person and the session that the address names; None if it names none.

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


class Visitors:
    """Tells who sent a request, by a signed cookie."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._signer, self._settings = store, store.signer, settings
        self._cookie = (
            f"mallow_{store.study.digest}"  # cookies are shared by all ports of a host, and so by all studies
        )

    def remember(self, answer: Response, annotator: str) -> None:
        """Set the cookie of an annotator."""
        token = self._signer.sign("session", annotator)
        age = _DAYS * 24 * 3600
        answer.set_cookie(self._cookie, token, max_age=age, httponly=True, samesite="lax", secure=self._settings.secure)

    def annotator_id(self, request: Request) -> str | None:
        """The id in a genuine cookie."""
        return self._signer.verify("session", request.cookies.get(self._cookie, ""))

    async def annotator(self, request: Request) -> Annotator | None:
        """The annotator who sent a request; None if it is somebody else, or if the database is a new one."""
        id_ = self.annotator_id(request)
        return None if id_ is None else await run_in_threadpool(self._store.annotator, id_)

    async def known(self, request: Request) -> Annotator:
        """The annotator who sent a request; others are told to come in first."""
        annotator = await self.annotator(request)
        if annotator is None:
            raise HTTPException(403, "Please open the address of the study, or your personal link, again.")
        return annotator

    async def posted(self, request: Request) -> tuple[Annotator, dict[str, str]]:
        """Who sent a form, and its fields, if it came from our own page."""
        fields = await read_form_fields(request, self._settings.limits)
        request.state.fields = fields  # sent back if they cannot be saved
        annotator = await self.known(request)
        if not same_origin(request, self._settings.url) or not self.csrf_matches(annotator.id, fields.get("csrf", "")):
            raise FormError(
                403, "The form did not come from this page, or the page is too old. Please load the page again."
            )
        return annotator, fields

    def rate_key(self, request: Request) -> str | None:
        """What requests are counted by: the annotator, or the person of a personal link; None: the address."""
        id_ = self.annotator_id(request)
        if id_ is not None:
            return id_
        _, _, token = request.scope["path"].partition("/join/")  # not request.url, which the host header can break
        link = self._signer.read_personal_token(token) if token else None
        return None if link is None else f"link {link[0]}"

    def csrf(self, annotator: str) -> str:
        """What a form of this annotator contains, and a form of another site cannot."""
        return self._signer.mac("csrf", annotator)

    def csrf_matches(self, annotator: str, value: str) -> bool:
        """Whether a form contained it."""
        return self._signer.matches("csrf", annotator, value)

    def page_token(self, annotator: str, place: int, now: float, salt: str) -> str:
        """Names one display of a pair, with its time: answers that are sent twice are recognised by it."""
        return self._signer.sign("page", f"{annotator} {place} {now:.3f} {salt}")

    def read_page_token(self, annotator: str, place: int, token: str) -> float | None:
        """When the page was shown; None if the token is not one for this annotator and pair."""
        parts = (self._signer.verify("page", token) or "").split(" ")
        return float(parts[2]) if len(parts) == 4 and parts[:2] == [annotator, str(place)] else None
