"""How annotators come in: by name, by personal link, from a crowd-work platform; and the instructions that they read first."""

from __future__ import annotations

import time

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mallow._visible import one_line
from mallow.annotate._guard import read_form_fields, same_origin
from mallow.annotate._pages import page
from mallow.annotate._people import Annotator, Finished
from mallow.annotate._settings import Settings
from mallow.annotate._store import Store
from mallow.annotate._visitors import Visitors, crowd_identity

_LONGEST_NAME = 80  # characters; chosen


class Entrance:
    """The pages before the first pair."""

    def __init__(self, store: Store, settings: Settings, visitors: Visitors) -> None:
        self._store, self._settings, self._visitors = store, settings, visitors
        self._study = store.study

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
        if not self._settings.open_link or not same_origin(request, self._settings.url):
            raise HTTPException(403, "Please open the address of the study again.")
        name = one_line(" ".join(fields.get("name", "").split()))  # PostgreSQL, for one, keeps no zero byte
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

    async def instructions(self, request: Request) -> Response:
        """What to do, with worked examples."""
        annotator = await self._visitors.known(request)
        csrf = self._visitors.csrf(annotator.id)
        return page("instructions.html", form=self._study.form, csrf=csrf, ready=annotator.ready, preview=False)

    async def start(self, request: Request) -> Response:
        """The annotator has read them."""
        annotator, _ = await self._visitors.posted(request)
        await run_in_threadpool(self._store.get_ready, annotator.id, time.time())
        return RedirectResponse("/", 303)

    async def _next(self, annotator: Annotator) -> Response:
        if not annotator.ready:
            return RedirectResponse("/instructions", 303)
        current = await run_in_threadpool(self._store.current, annotator.id, time.time())
        return RedirectResponse("/done" if isinstance(current, Finished) else f"/pair/{current}", 303)
