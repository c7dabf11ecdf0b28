"""The pairs: shown, answered, skipped, looked at again; and the page at the end."""

from __future__ import annotations

import math
import secrets
import time

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from mallow._visible import one_line
from mallow.annotate._guard import FormError
from mallow.annotate._pages import page
from mallow.annotate._people import Annotator, Assignment, Finished
from mallow.annotate._settings import Settings
from mallow.annotate._store import Store
from mallow.annotate._visitors import Visitors
from mallow.human import Task

_SKIP_REASONS = (
    "The pair cannot be judged",
    "I do not understand the language",
    "Offensive or upsetting",
    "Something else",
)
_LONGEST_REASON = 300  # characters; chosen


class Judging:
    """The pages with pairs, and the thanks."""

    def __init__(self, store: Store, settings: Settings, visitors: Visitors) -> None:
        self._store, self._settings, self._visitors = store, settings, visitors
        self._study = store.study
        self._tasks = {task.id: task for task in (*self._study.tasks, *self._study.gold)}

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
        task = self._tasks[assignment.task]
        left = (side == "a") != assignment.swapped
        return FileResponse(folder / (task.left_item if left else task.right_item))

    async def done(self, request: Request) -> Response:
        """Thanks, and the completion code."""
        annotator = await self._visitors.known(request)
        if not annotator.ready:
            return RedirectResponse("/instructions", 303)
        current = await run_in_threadpool(self._store.current, annotator.id, time.time())
        if not isinstance(current, Finished):
            return RedirectResponse(f"/pair/{current}", 303)
        judged, _ = await run_in_threadpool(self._store.progress, annotator.id)
        code = self._settings.completion_code or self._store.signer.completion_code(annotator.id)
        last = await run_in_threadpool(self._store.last_place, annotator.id)
        prolific = annotator.source == "prolific" and self._settings.completion_code is not None
        return page(
            "done.html",
            form=self._study.form,
            judged=judged,
            reason=current.reason,
            code=code,
            prolific=prolific,
            last=last,
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
