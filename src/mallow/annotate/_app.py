"""The web application: pages for annotators, each a plain form that works without JavaScript."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from mallow.annotate._guard import FormError, Guard, read_form_fields, same_origin
from mallow.annotate._owner import owner_routes
from mallow.annotate._pages import asset, page
from mallow.annotate._settings import Settings
from mallow.annotate._store import Annotator, Assignment, Finished, StorageError, Store
from mallow.annotate._visitors import Visitors, crowd_identity
from mallow.human import Task

__all__ = ["make_app"]

Handler = Callable[[Request], Awaitable[Response]]

_SKIP_REASONS = (
    "The texts cannot be judged",
    "I do not understand the language",
    "Offensive or upsetting",
    "Something else",
)
_LONGEST_REASON = 300  # characters; chosen
_LONGEST_NAME = 80  # characters; chosen


def make_app(store: Store, settings: Settings) -> Starlette:
    """The application of a study."""
    visitors = Visitors(store, secure=settings.secure)
    pages = _Pages(store, settings, visitors)
    routes = [
        Route("/", pages.home),
        Route("/join", pages.join, methods=["POST"]),
        Route("/join/{token}", pages.personal_link),
        Route("/instructions", pages.instructions),
        Route("/start", pages.start, methods=["POST"]),
        Route("/pair/{place:int}", pages.pair),
        Route("/pair/{place:int}", pages.answer, methods=["POST"]),
        Route("/pair/{place:int}/skip", pages.skip, methods=["POST"]),
        Route("/pair/{place:int}/{side}", pages.picture),
        Route("/done", pages.done),
        Route("/health", _health),
        Route("/static/{name}", _static),
        *owner_routes(store, settings.limits, secure=settings.secure),
    ]
    guard = Middleware(Guard, limits=settings.limits, visitor=visitors.rate_key, refuse=_too_many)
    handlers = {
        HTTPException: _on_http_error,
        FormError: _on_form_error,
        StorageError: _on_storage_error,
        Exception: _on_error,
    }
    return Starlette(routes=routes, middleware=[guard], exception_handlers=handlers)  # type: ignore[arg-type]


class _Pages:
    """The pages of annotators."""

    def __init__(self, store: Store, settings: Settings, visitors: Visitors) -> None:
        self._store, self._settings, self._visitors = store, settings, visitors
        self._study = store.study
        self._tasks = {task.id: task for task in (*self._study.tasks, *self._study.gold)}

    # --- joining

    async def home(self, request: Request) -> Response:
        """Where everybody arrives: sends annotators to their pair, and asks others for a name."""
        crowd = crowd_identity(request.query_params)
        if crowd is not None:
            return await self._join_from_crowd(request, *crowd)
        annotator = await self._visitors.annotator(request)
        if annotator is not None:
            return await self._next(annotator)
        if not self._settings.open_link:
            text = "This study is by invitation. Please open the personal link that was sent to you."
            return page("message.html", 403, form=self._study.form, heading="By invitation", text=text)
        return page("welcome.html", form=self._study.form, name="", error="", longest=_LONGEST_NAME)

    async def join(self, request: Request) -> Response:
        """The form with the name."""
        fields = await read_form_fields(request, self._settings.limits)
        if not self._settings.open_link or not same_origin(request):
            raise HTTPException(403, "Please open the address of the study again.")
        name = " ".join(fields.get("name", "").split())
        if not 0 < len(name) <= _LONGEST_NAME:
            error = f"Please enter a name of at most {_LONGEST_NAME} characters."
            return page(
                "welcome.html",
                422,
                form=self._study.form,
                name=name[:_LONGEST_NAME],
                error=error,
                longest=_LONGEST_NAME,
            )
        return await self._enter("open", None, name, session="", trusted=True)

    async def personal_link(self, request: Request) -> Response:
        """A personal link: its token becomes a cookie and leaves the address."""
        link = self._store.signer.read_personal_token(request.path_params["token"])
        if link is None:
            text = "This link is not complete, or is not one of this study. Please copy all of it from the message that you received."
            return page("message.html", 404, form=self._study.form, heading="Unknown link", text=text)
        name, expires = link
        if expires < time.time():
            text = "This link has expired. Please ask for a new one; answers that you have already given are kept."
            return page("message.html", 410, form=self._study.form, heading="The link has expired", text=text)
        return await self._enter("link", name, name, session="", trusted=True)

    async def _join_from_crowd(self, request: Request, source: str, person: str, session: str) -> Response:
        if not session:  # MTurk shows tasks before they are accepted
            return page("instructions.html", form=self._study.form, csrf="", ready=False, preview=True)
        known = await self._visitors.annotator(request)
        same = known is not None and (known.source, known.name) == (source, person)
        return await self._enter(source, person, person, session=session, trusted=same)

    async def _enter(self, source: str, external: str | None, name: str, *, session: str, trusted: bool) -> Response:
        id_ = await run_in_threadpool(
            self._store.join, source, external, name, session=session, trusted=trusted, now=time.time()
        )
        if id_ is None:
            text = "Somebody has already started with this worker ID in another session. Please go on in the browser in which you began."
            return page("message.html", 409, form=self._study.form, heading="Already started", text=text)
        answer = RedirectResponse("/", 303)
        self._visitors.remember(answer, id_)
        return answer

    # --- instructions

    async def instructions(self, request: Request) -> Response:
        """What to do, with worked examples."""
        annotator = await self._known(request)
        csrf = self._visitors.csrf(annotator.id)
        return page("instructions.html", form=self._study.form, csrf=csrf, ready=annotator.ready, preview=False)

    async def start(self, request: Request) -> Response:
        """The annotator has read them."""
        annotator, _ = await self._posted(request)
        await run_in_threadpool(self._store.get_ready, annotator.id, time.time())
        return RedirectResponse("/", 303)

    # --- pairs

    async def pair(self, request: Request) -> Response:
        """A pair with its questions."""
        annotator = await self._known(request)
        assignment = await self._assignment(annotator, request)
        if assignment is None:
            return RedirectResponse("/", 303)
        return await self._show(annotator, assignment, assignment.answers)

    async def answer(self, request: Request) -> Response:
        """The answers to a pair: written to disk, then acknowledged."""
        annotator, fields = await self._posted(request)
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
        try:
            state = await run_in_threadpool(submit, annotator.id, place, fields["page"], answers, seconds, time.time())
        except StorageError:
            return await self._not_saved(request, fields)
        if state is None:
            raise HTTPException(404, "This pair is not one of yours.")
        return RedirectResponse("/", 303)

    async def skip(self, request: Request) -> Response:
        """A pair given back, with a reason."""
        annotator, fields = await self._posted(request)
        reason = fields.get("reason", "")
        if reason not in _SKIP_REASONS:
            raise FormError(422, "Please choose a reason for skipping the pair. Nothing was changed.")
        note = " ".join(fields.get("note", "").split())[:_LONGEST_REASON]
        text = f"{reason}: {note}" if note else reason
        try:
            state = await run_in_threadpool(
                self._store.skip, annotator.id, request.path_params["place"], text, time.time()
            )
        except StorageError:
            return await self._not_saved(request, fields)
        if state is None:
            raise HTTPException(404, "This pair is not one of yours.")
        return RedirectResponse("/", 303)

    async def picture(self, request: Request) -> Response:
        """One of the two pictures of a pair, for the annotator who has the pair."""
        annotator = await self._known(request)
        assignment = await self._assignment(annotator, request)
        side, folder = request.path_params["side"], self._settings.pictures
        if assignment is None or folder is None or side not in ("a", "b"):
            raise HTTPException(404, "There is no such picture.")
        task = self._tasks[assignment.task]
        left = (side == "a") != assignment.swapped
        return FileResponse(folder / (task.left_item if left else task.right_item))

    async def done(self, request: Request) -> Response:
        """Thanks, and the completion code."""
        annotator = await self._known(request)
        current = await run_in_threadpool(self._store.current, annotator.id, time.time())
        if isinstance(current, int) and annotator.ready:
            return RedirectResponse(f"/pair/{current}", 303)
        judged, _ = await run_in_threadpool(self._store.progress, annotator.id)
        reason = current.reason if isinstance(current, Finished) else "closed"
        code = self._settings.completion_code or self._store.signer.completion_code(annotator.id)
        last = await run_in_threadpool(self._store.last_place, annotator.id)
        prolific = annotator.source == "prolific" and self._settings.completion_code is not None
        return page(
            "done.html", form=self._study.form, judged=judged, reason=reason, code=code, prolific=prolific, last=last
        )

    async def _next(self, annotator: Annotator) -> Response:
        if not annotator.ready:
            return RedirectResponse("/instructions", 303)
        current = await run_in_threadpool(self._store.current, annotator.id, time.time())
        return RedirectResponse("/done" if isinstance(current, Finished) else f"/pair/{current}", 303)

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
        left, right = _sides(self._tasks[assignment.task], assignment.swapped)
        return page(
            "pair.html",
            status,
            form=self._study.form,
            assignment=assignment,
            context=self._tasks[assignment.task].context,
            items=(("A", left), ("B", right)),
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

    async def _not_saved(self, request: Request, fields: dict[str, str]) -> Response:
        """The database is locked or full: the answers go back to the annotator, who can send them again."""
        kept = {name: value for name, value in fields.items() if len(value) <= _LONGEST_REASON}
        answer = page("again.html", 503, form=self._study.form, action=request.url.path, fields=kept)
        answer.headers["Retry-After"] = "10"
        return answer

    async def _known(self, request: Request) -> Annotator:
        annotator = await self._visitors.annotator(request)
        if annotator is None:
            raise HTTPException(403, "Please open the address of the study, or your personal link, again.")
        return annotator

    async def _posted(self, request: Request) -> tuple[Annotator, dict[str, str]]:
        """Who sent a form, and its fields, if it came from our own page."""
        fields = await read_form_fields(request, self._settings.limits)
        annotator = await self._known(request)
        if not same_origin(request) or not self._visitors.csrf_matches(annotator.id, fields.get("csrf", "")):
            raise FormError(
                403, "The form did not come from this page, or the page is too old. Please load the page again."
            )
        return annotator, fields

    async def _assignment(self, annotator: Annotator, request: Request) -> Assignment | None:
        place = request.path_params["place"]
        return await run_in_threadpool(self._store.assignment, annotator.id, place, time.time())

    def _read_answers(self, fields: dict[str, str]) -> tuple[dict[str, int], tuple[str, ...]]:
        """The answers by question, and the questions without one."""
        answers = {}
        for number, question in enumerate(self._study.form.questions):
            value = fields.get(f"q{number}", "")
            if value in ("-2", "-1", "0", "1", "2"):
                answers[question.name] = int(value)
        missing = tuple(question.name for question in self._study.form.questions if question.name not in answers)
        return answers, missing


def _sides(task: Task, swapped: bool) -> tuple[str, str]:
    return (task.right_item, task.left_item) if swapped else (task.left_item, task.right_item)


def _visible_seconds(measured: str, elapsed: float) -> float:
    """The time that the page was visible, as its script measured it; without one, since it was sent."""
    try:
        seconds = float(measured)
    except ValueError:
        return max(0.0, elapsed)
    return min(max(0.0, seconds), max(0.0, elapsed)) if math.isfinite(seconds) else max(0.0, elapsed)


async def _health(request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _static(request: Request) -> Response:
    found = asset(request.path_params["name"])
    if found is None:
        raise HTTPException(404, "There is no such page.")
    content, kind = found
    return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})


async def _too_many(request: Request) -> ASGIApp:
    text = "There were too many requests in a short time. Please wait a few seconds and load the page again. Answers that were saved are kept."
    answer = page("message.html", 429, form=None, heading="One moment, please", text=text)
    answer.headers["Retry-After"] = "5"
    return answer


async def _on_http_error(request: Request, error: HTTPException) -> Response:
    headings = {403: "Not possible", 404: "There is no such page", 405: "Not possible"}
    text = (
        error.detail
        if error.status_code != 404 or error.detail != "Not Found"
        else "Please open the address of the study again."
    )
    return page(
        "message.html", error.status_code, form=None, heading=headings.get(error.status_code, "Not possible"), text=text
    )


async def _on_form_error(request: Request, error: FormError) -> Response:
    return page("message.html", error.status, form=None, heading="Not possible", text=str(error))


async def _on_storage_error(request: Request, error: StorageError) -> Response:
    text = "The answers cannot be reached at the moment. Nothing is lost: please load the page again in a minute."
    answer = page("message.html", 503, form=None, heading="One moment, please", text=text)
    answer.headers["Retry-After"] = "10"
    return answer


async def _on_error(request: Request, error: Exception) -> Response:
    text = "Something went wrong on our side. Answers that were saved are kept: please load the page again."
    return page("message.html", 500, form=None, heading="One moment, please", text=text)
