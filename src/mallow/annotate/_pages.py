"""The pages that annotators see: how they come in, what they read first, the pairs, and the thanks at the end.

Everything that is filled into a template is escaped; the style and the script are files of our own.
"""

from __future__ import annotations

import functools
import math
import secrets
import time
from importlib import resources
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from mallow._visible import one_line
from mallow.annotate._settings import Settings
from mallow.annotate._store import Annotator, Assignment, Finished, Store
from mallow.annotate._visitors import FormError, Visitors, crowd_identity, read_form_fields, same_origin
from mallow.human import Form

_ASSETS = {"style.css": "text/css", "script.js": "text/javascript", "icon.svg": "image/svg+xml"}
_LONGEST_NAME = 80  # characters; chosen
_LONGEST_REASON = 300  # characters; chosen
_SKIP_REASONS = (
    "The pair cannot be judged",
    "I do not understand the language",
    "Offensive or upsetting",
    "Something else",
)


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page as a response."""
    return HTMLResponse(_environment().get_template(template).render(**values), status)


def message(status: int, heading: str, text: str, form: Form | None = None) -> HTMLResponse:
    """A page that says why something is not possible; `form` is that of the study where its title is shown."""
    return page("message.html", status, form=form, heading=heading, text=text)


@functools.cache
def asset(name: str) -> tuple[bytes, str] | None:
    """The content and the kind of a file that pages refer to; None if there is none of this name."""
    if name not in _ASSETS:
        return None
    return resources.files("mallow.annotate").joinpath("pages", name).read_bytes(), _ASSETS[name]


@functools.cache
def _environment() -> Any:
    import jinja2

    loader = jinja2.PackageLoader("mallow.annotate", "pages")
    return jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


class AnnotatorPages:
    """The pages of one study."""

    def __init__(self, store: Store, settings: Settings, visitors: Visitors) -> None:
        self._store, self._settings, self._visitors = store, settings, visitors
        self._study, self._form = store.study, store.study.form
        self._tasks = {task.id: task for task in (*self._study.tasks, *self._study.gold)}

    async def home(self, request: Request) -> Response:
        """Where everybody arrives: sends annotators to their pair, and asks others for a name."""
        crowd = crowd_identity(request.query_params)
        if crowd is not None:
            return await self._join_from_crowd(request, *crowd)
        annotator = await self._visitors.annotator(request)
        if annotator is not None:
            current = await self._current(annotator)
            return current if isinstance(current, Response) else RedirectResponse("/done", 303)
        if not self._settings.open_link:
            text = "This study is by invitation. Please open the personal link that was sent to you."
            return message(403, "By invitation", text, self._form)
        return page("welcome.html", form=self._form, name="", error="", longest=_LONGEST_NAME)

    async def join(self, request: Request) -> Response:
        """The form with the name."""
        fields = await read_form_fields(request, self._settings.limits)
        if not self._settings.open_link or not same_origin(request, self._settings.url):
            raise HTTPException(403, "Please open the address of the study again.")
        name = one_line(" ".join(fields.get("name", "").split()))  # PostgreSQL, for one, keeps no zero byte
        if not 0 < len(name) <= _LONGEST_NAME:
            error = f"Please enter a name of at most {_LONGEST_NAME} characters."
            start = name[:_LONGEST_NAME]
            return page("welcome.html", 422, form=self._form, name=start, error=error, longest=_LONGEST_NAME)
        return await self._enter("open", None, name, session="", trusted=True)

    async def personal_link(self, request: Request) -> Response:
        """A personal link: its token becomes a cookie and leaves the address."""
        link = self._store.signer.read_personal_token(request.path_params["token"])
        if link is None:
            text = (
                "This link is not complete, or is not one of this study. Please copy all of it from the message that "
                "you received."
            )
            return message(404, "Unknown link", text, self._form)
        name, expires = link
        if expires < time.time():
            text = "This link has expired. Please ask for a new one; answers that you have already given are kept."
            return message(410, "The link has expired", text, self._form)
        return await self._enter("link", name, name, session="", trusted=True)

    async def _join_from_crowd(self, request: Request, source: str, person: str, session: str) -> Response:
        if not session:  # MTurk shows tasks before they are accepted
            return page("instructions.html", form=self._form, csrf="", ready=False, preview=True)
        visitor = await self._visitors.annotator(request)
        same = visitor is not None and (visitor.source, visitor.name) == (source, person)
        return await self._enter(source, person, person, session=session, trusted=same)

    async def _enter(self, source: str, external: str | None, name: str, *, session: str, trusted: bool) -> Response:
        id_ = await run_in_threadpool(
            self._store.join, source, external, name, session=session, trusted=trusted, now=time.time()
        )
        if id_ is None:
            text = (
                "Somebody has already started with this worker ID in another session. Please go on in the browser in "
                "which you began."
            )
            return message(409, "Already started", text, self._form)
        answer = RedirectResponse("/", 303)
        self._visitors.remember(answer, id_)
        return answer

    async def instructions(self, request: Request) -> Response:
        """What to do, with worked examples."""
        annotator = await self._visitors.known(request)
        csrf = self._visitors.csrf(annotator.id)
        return page("instructions.html", form=self._form, csrf=csrf, ready=annotator.ready, preview=False)

    async def start(self, request: Request) -> Response:
        """The annotator has read them."""
        annotator, _ = await self._visitors.posted(request)
        await run_in_threadpool(self._store.get_ready, annotator.id, time.time())
        return RedirectResponse("/", 303)

    async def _current(self, annotator: Annotator) -> Response | Finished:
        """The way to the instructions or to the pair to judge now; or why there is no pair."""
        if not annotator.ready:
            return RedirectResponse("/instructions", 303)
        current = await run_in_threadpool(self._store.current, annotator.id, time.time())
        return current if isinstance(current, Finished) else RedirectResponse(f"/pair/{current}", 303)

    async def pair(self, request: Request) -> Response:
        """A pair with its questions."""
        annotator = await self._visitors.known(request)
        assignment = await self._assignment(annotator, request)
        if assignment is None:
            return RedirectResponse("/", 303)
        return await self._show(annotator, assignment, assignment.answers)

    async def answer(self, request: Request) -> Response:
        """The answers to a pair: written to disk, then acknowledged."""
        annotator, fields = await self._visitors.posted(request)
        place = request.path_params["place"]
        answers, missing = self._read_answers(fields)
        shown = self._visitors.read_page_token(annotator.id, place, fields.get("page", ""))
        if missing or shown is None:
            assignment = await self._assignment(annotator, request)
            if assignment is None:
                return RedirectResponse("/", 303)
            return await self._show(annotator, assignment, answers, status=422, missing=missing)
        seconds = _visible_seconds(fields.get("seconds", ""), time.time() - shown)
        submit = self._store.submit
        state = await run_in_threadpool(submit, annotator.id, place, fields["page"], answers, seconds, time.time())
        if state is None:
            raise HTTPException(404, "This pair is not one of yours.")
        return RedirectResponse("/", 303)

    async def skip(self, request: Request) -> Response:
        """A pair given back, with a reason."""
        annotator, fields = await self._visitors.posted(request)
        reason = fields.get("reason", "")
        if reason not in _SKIP_REASONS:
            raise FormError(422, "Please choose a reason for skipping the pair. Nothing was changed.")
        note = one_line(" ".join(fields.get("note", "").split()))[:_LONGEST_REASON]
        text = f"{reason}: {note}" if note else reason
        state = await run_in_threadpool(self._store.skip, annotator.id, request.path_params["place"], text, time.time())
        if state is None:
            raise HTTPException(404, "This pair is not one of yours.")
        return RedirectResponse("/", 303)

    async def picture(self, request: Request) -> Response:
        """One of the two pictures of a pair, for the annotator who has the pair."""
        annotator = await self._visitors.known(request)
        assignment = await self._assignment(annotator, request)
        side, folder = request.path_params["side"], self._settings.pictures
        if assignment is None or folder is None or side not in ("a", "b"):
            raise HTTPException(404, "There is no such picture.")
        return FileResponse(folder / dict(self._items(assignment))[side.upper()])

    async def done(self, request: Request) -> Response:
        """Thanks, and the completion code."""
        annotator = await self._visitors.known(request)
        current = await self._current(annotator)
        if isinstance(current, Response):
            return current
        judged, _ = await run_in_threadpool(self._store.progress, annotator.id)
        return page(
            "done.html",
            form=self._form,
            judged=judged,
            reason=current.reason,
            code=self._settings.completion_code or self._store.signer.completion_code(annotator.id),
            prolific=annotator.source == "prolific" and self._settings.completion_code is not None,
            last=await run_in_threadpool(self._store.last_place, annotator.id),
        )

    async def _show(
        self,
        annotator: Annotator,
        assignment: Assignment,
        answers: dict[str, int],
        *,
        status: int = 200,
        missing: tuple[str, ...] = (),
    ) -> Response:
        judged, limit = await run_in_threadpool(self._store.progress, annotator.id)
        return page(
            "pair.html",
            status,
            form=self._form,
            assignment=assignment,
            context=self._tasks[assignment.task].context,
            items=self._items(assignment),
            pictures=self._study.sample_kind == "image",
            answers=answers,
            missing=missing,
            judged=judged,
            limit=limit,
            csrf=self._visitors.csrf(annotator.id),
            token=self._visitors.page_token(annotator.id, assignment.place, time.time(), secrets.token_hex(6)),
            reasons=_SKIP_REASONS,
            longest_reason=_LONGEST_REASON,
        )

    async def _assignment(self, annotator: Annotator, request: Request) -> Assignment | None:
        place = request.path_params["place"]
        return await run_in_threadpool(self._store.assignment, annotator.id, place, time.time())

    def _items(self, assignment: Assignment) -> tuple[tuple[str, str], tuple[str, str]]:
        """Both texts, or the names of both pictures, as they are shown."""
        task = self._tasks[assignment.task]
        sides = (task.left_item, task.right_item)
        first, second = sides[::-1] if assignment.swapped else sides
        return ("A", first), ("B", second)

    def _read_answers(self, fields: dict[str, str]) -> tuple[dict[str, int], tuple[str, ...]]:
        """The answers by question, and the questions without one."""
        names = [question.name for question in self._form.questions]
        values = {name: fields.get(f"q{number}", "") for number, name in enumerate(names)}
        answers = {name: int(value) for name, value in values.items() if value in ("-2", "-1", "0", "1", "2")}
        return answers, tuple(name for name in names if name not in answers)


def _visible_seconds(measured: str, elapsed: float) -> float:
    """The time that the page was visible, as its script measured it; without one, since it was sent."""
    try:
        seconds = float(measured)
    except ValueError:
        seconds = math.nan
    return max(0.0, min(seconds, elapsed) if math.isfinite(seconds) else elapsed)
