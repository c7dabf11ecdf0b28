"""The pages that annotators see: how they come in, what they read first, the pairs, and the thanks at the end.

Everything that is filled into a template is escaped. The style and the script are files of our own.
"""

from __future__ import annotations

import functools
import math
import secrets
import time
from importlib import resources
from typing import Any

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from mallow.annotate._clock import now
from mallow.annotate._database import Execute
from mallow.annotate._lanes import Lane
from mallow.annotate._settings import Settings
from mallow.annotate._store import Assignment, Finished, Store, View
from mallow.annotate._visitors import (
    Bucket,
    FormError,
    Visitors,
    address_of,
    crowd_identity,
    not_known,
    read_form_fields,
    same_origin,
)
from mallow.errors import one_line
from mallow.human import Form, picture_type

_PICTURE_POLICY = "default-src 'none'; sandbox"  # opened on its own, it runs no code and belongs to no site
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
    return HTMLResponse(_template(template).render(**values), status)


def message(status: int, heading: str, text: str, form: Form | None = None) -> HTMLResponse:
    """A page that explains why something is not possible; `form` is the form of the study, to show its title."""
    return page("message.html", status, form=form, heading=heading, text=text)


@functools.cache
def asset(name: str) -> tuple[bytes, str] | None:
    """The content and the type of a file that pages refer to; None if no file has this name."""
    if name not in _ASSETS:
        return None
    return resources.files("mallow.annotate").joinpath("pages", name).read_bytes(), _ASSETS[name]


@functools.cache
def _template(name: str) -> Any:
    return _environment().get_template(name)


@functools.cache
def _environment() -> Any:
    import jinja2

    loader = jinja2.PackageLoader("mallow.annotate", "pages")
    return jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


class AnnotatorPages:
    """The pages of one study."""

    def __init__(self, store: Store, settings: Settings, visitors: Visitors, read: Lane, write: Lane) -> None:
        self._ledger, self._signer, self._settings, self._visitors = store.ledger, store.signer, settings, visitors
        self._read, self._write = read, write
        self._joins = Bucket(settings.limits.join_rate, settings.limits.join_burst)
        self._study, self._form = store.study, store.study.form
        self._most = store.study.per_annotator or len(store.study.tasks)
        self._tasks = {task.id: task for task in (*self._study.tasks, *self._study.gold)}
        self._questions = functools.lru_cache(1000)(self._render_questions)  # the same for most pages

    async def home(self, request: Request) -> Response:
        """The first page: sends annotators to their pair, and asks others for a name."""
        crowd = crowd_identity(request.query_params)
        if crowd is not None and self._settings.admits(crowd[0]):
            return await self._join_from_crowd(request, *crowd)
        annotator = await self._visitors.annotator(request)
        if annotator is not None:
            if not annotator.ready:
                return RedirectResponse("/instructions", 303)
            return _way_to(await self._write(self._ledger.current, annotator.id, now()))
        if not self._settings.open_link:
            text = "This study is by invitation. Please open the personal link that was sent to you."
            return message(403, "By invitation", text, self._form)
        return page("welcome.html", form=self._form, name="", error="", longest=_LONGEST_NAME)

    async def join(self, request: Request) -> Response:
        """The form with the name."""
        fields = await read_form_fields(request, self._settings.limits)
        if not self._settings.open_link or not same_origin(request, self._settings.url):
            raise HTTPException(403, "Please open the address of the study again.")
        name = one_line(" ".join(fields.get("name", "").split()))  # PostgreSQL stores no zero bytes
        if not 0 < len(name) <= _LONGEST_NAME:
            error = f"Please enter a name of at most {_LONGEST_NAME} characters."
            start = name[:_LONGEST_NAME]
            return page("welcome.html", 422, form=self._form, name=start, error=error, longest=_LONGEST_NAME)
        self._count_join(request)
        return await self._enter("open", None, name, session="", trusted=True)

    async def personal_link(self, request: Request) -> Response:
        """A personal link: its token becomes a cookie and leaves the address."""
        link = self._signer.read_personal_token(request.path_params["token"])
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
        return await self._enter("link", name, name, session="", trusted=True, until=expires)

    async def _join_from_crowd(self, request: Request, source: str, person: str, session: str) -> Response:
        if not session:  # MTurk shows tasks before they are accepted
            return page("instructions.html", form=self._form, csrf="", ready=False, preview=True)
        visitor = await self._visitors.annotator(request)
        same = visitor is not None and (visitor.source, visitor.name) == (source, person)
        if not same:
            self._count_join(request)
        return await self._enter(source, person, person, session=session, trusted=same)

    def _count_join(self, request: Request) -> None:
        if not self._joins.allows(address_of(request)):
            text = "Too many people have joined from your address in a short time. Please try again in a few minutes."
            raise HTTPException(429, text, headers={"Retry-After": "60"})

    async def _enter(
        self,
        source: str,
        external: str | None,
        name: str,
        *,
        session: str,
        trusted: bool,
        until: float = math.inf,
    ) -> Response:
        id_ = await self._write(self._ledger.join, source, external, name, session=session, trusted=trusted, now=now())
        if id_ is None:
            text = (
                "Somebody has already started with this worker ID in another session. Please go on in the browser in "
                "which you began."
            )
            return message(409, "Already started", text, self._form)
        answer = RedirectResponse("/", 303)
        self._visitors.remember(answer, id_, until)
        return answer

    async def instructions(self, request: Request) -> Response:
        """What to do, with worked examples."""
        annotator = await self._visitors.known(request)
        csrf = self._visitors.csrf(annotator.id)
        return page("instructions.html", form=self._form, csrf=csrf, ready=annotator.ready, preview=False)

    async def start(self, request: Request) -> Response:
        """The annotator has read them."""
        annotator, _ = await self._visitors.posted(request)
        await self._write(self._ledger.get_ready, annotator, now())
        return RedirectResponse("/", 303)

    async def pair(self, request: Request) -> Response:
        """A pair with its questions."""
        view = await self._view(request)
        if view.assignment is None:
            return RedirectResponse("/", 303)
        return self._show(view, view.assignment, view.assignment.answers)

    async def answer(self, request: Request) -> Response:
        """The answers to a pair: written to disk, then acknowledged."""
        annotator, fields = await self._visitors.posted(request)
        place, token = request.path_params["place"], fields.get("page", "")
        answers, missing = self._read_answers(fields)
        shown = self._visitors.read_page_token(annotator, place, token)
        if missing or shown is None:
            view = await self._view(request)
            if view.assignment is None:
                return RedirectResponse("/", 303)
            return self._show(view, view.assignment, answers, status=422, missing=missing)
        ledger, moment = self._ledger, now()

        def keep(execute: Execute) -> int | Finished | None:
            begin = max(shown, ledger.last_action(execute, annotator, place))
            seconds = _visible_seconds(fields.get("seconds", ""), moment - begin)
            state = ledger.submit(execute, annotator, place, token, answers, seconds, moment)
            return None if state is None else ledger.current(execute, annotator, moment)

        return _way_to(await self._write(keep))

    async def skip(self, request: Request) -> Response:
        """A pair given back, with a reason."""
        annotator, fields = await self._visitors.posted(request)
        reason = fields.get("reason", "")
        if reason not in _SKIP_REASONS:
            raise FormError(422, "Please choose a reason for skipping the pair. Nothing was changed.")
        note = one_line(" ".join(fields.get("note", "").split()))[:_LONGEST_REASON]
        text = f"{reason}: {note}" if note else reason
        ledger, place, moment = self._ledger, request.path_params["place"], now()

        def give_back(execute: Execute) -> int | Finished | None:
            state = ledger.skip(execute, annotator, place, text, moment)
            return None if state is None else ledger.current(execute, annotator, moment)

        return _way_to(await self._write(give_back))

    async def picture(self, request: Request) -> Response:
        """One of the two pictures of a pair, for the annotator who has the pair."""
        assignment = (await self._view(request)).assignment
        side, folder = request.path_params["side"], self._settings.pictures
        if assignment is None or folder is None or side not in ("a", "b"):
            raise HTTPException(404, "There is no such picture.")
        path = folder / dict(self._items(assignment))[side.upper()]
        # Only pictures leave the folder, whatever the name of the file and whatever was added to the folder since.
        media = await run_in_threadpool(picture_type, path) if path.is_file() else None
        if media is None:
            raise HTTPException(404, "There is no such picture.")
        return FileResponse(path, media_type=media, headers={"Content-Security-Policy": _PICTURE_POLICY})

    async def done(self, request: Request) -> Response:
        """Thanks, and the completion code."""
        annotator = await self._visitors.known(request)
        if not annotator.ready:
            return RedirectResponse("/instructions", 303)
        ledger, id_ = self._ledger, annotator.id
        current, judged, last = await self._write(
            lambda execute: (
                ledger.current(execute, id_, now()),
                ledger.progress(execute, id_),
                ledger.last_place(execute, id_),
            )
        )
        if not isinstance(current, Finished):
            return _way_to(current)
        return page(
            "done.html",
            form=self._form,
            judged=judged,
            reason=current.reason,
            code=self._settings.completion_code or self._signer.completion_code(id_),
            prolific=annotator.source == "prolific" and self._settings.completion_code is not None,
            last=last,
        )

    def _show(
        self,
        view: View,
        assignment: Assignment,
        answers: dict[str, int],
        *,
        status: int = 200,
        missing: tuple[str, ...] = (),
    ) -> Response:
        return page(
            "pair.html",
            status,
            form=self._form,
            assignment=assignment,
            context=self._tasks[assignment.task].context,
            items=self._items(assignment),
            pictures=self._study.sample_kind == "image",
            questions=self._questions(tuple(answers.items()), missing),
            missing=missing,
            judged=view.judged,
            limit=self._most,
            csrf=self._visitors.csrf(view.annotator),
            token=self._visitors.page_token(view.annotator, assignment.place, now(), secrets.token_hex(6)),
            reasons=_SKIP_REASONS,
            longest_reason=_LONGEST_REASON,
        )

    def _render_questions(self, answers: tuple[tuple[str, int], ...], missing: tuple[str, ...]) -> Any:
        template = _template("questions.html")
        return Markup(template.render(form=self._form, answers=dict(answers), missing=missing))

    async def _view(self, request: Request) -> View:
        """The annotator and the pair of a request. It writes only if the time of the pair has to be renewed."""
        id_, place, moment = self._visitors.annotator_id(request), request.path_params["place"], now()
        if id_ is None:
            raise not_known()
        view = await self._read(self._ledger.view, id_, place, moment, keep=False)
        if view is not None and view.renew:
            view = await self._write(self._ledger.view, id_, place, moment)
        if view is None:
            raise not_known()
        return view

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


def _way_to(current: int | Finished | None) -> Response:
    """A redirection to the pair to judge now, or to the end; None for an answer to somebody else's pair."""
    if current is None:
        raise HTTPException(404, "This pair is not one of yours.")
    return RedirectResponse("/done" if isinstance(current, Finished) else f"/pair/{current}", 303)


def _visible_seconds(measured: str, elapsed: float) -> float:
    """The time that the page was visible, as its script measured it; without one, since it was sent."""
    try:
        seconds = float(measured)
    except ValueError:
        seconds = math.nan
    return max(0.0, min(seconds, elapsed) if math.isfinite(seconds) else elapsed)
