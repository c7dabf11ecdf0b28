"""The web application: its routes, and the pages that say that something is not possible."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from mallow.annotate._database import StorageError
from mallow.annotate._entrance import Entrance
from mallow.annotate._guard import FormError, Guard
from mallow.annotate._judging import Judging
from mallow.annotate._owner import owner_routes
from mallow.annotate._pages import asset, page
from mallow.annotate._settings import Settings
from mallow.annotate._store import Store
from mallow.annotate._visitors import Visitors


def make_app(store: Store, settings: Settings) -> ASGIApp:
    """The application of a study."""
    visitors = Visitors(store, settings)
    entrance, judging = Entrance(store, settings, visitors), Judging(store, settings, visitors)
    routes = [
        Route("/", entrance.home),
        Route("/join", entrance.join, methods=["POST"]),
        Route("/join/{token}", entrance.personal_link),
        Route("/instructions", entrance.instructions),
        Route("/start", entrance.start, methods=["POST"]),
        Route("/pair/{place:int}", judging.pair),
        Route("/pair/{place:int}", judging.answer, methods=["POST"]),
        Route("/pair/{place:int}/skip", judging.skip, methods=["POST"]),
        Route("/pair/{place:int}/{side}", judging.picture),
        Route("/done", judging.done),
        Route("/health", _health),
        Route("/static/{name}", _static),
        *owner_routes(store, settings),
    ]
    handlers = {
        HTTPException: _on_http_error,
        FormError: _on_form_error,
        StorageError: _on_storage_error,
        Exception: _on_error,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)  # type: ignore[arg-type]
    app.router.redirect_slashes = False  # such a redirection goes to whatever host the request names
    return Guard(app, limits=settings.limits, visitor=visitors.rate_key, refuse=_refuse)  # outside, for every answer


async def _health(request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _static(request: Request) -> Response:
    file = asset(request.path_params["name"])
    if file is None:
        raise HTTPException(404, "There is no such page.")
    content, kind = file
    return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})


async def _refuse(status: int) -> ASGIApp:
    if status == 414:
        text = "The address is too long. Please open the address of the study again."
        return page("message.html", status, form=None, heading="Not possible", text=text)
    text = "There were too many requests in a short time. Please wait a few seconds and load the page again. Answers that were saved are kept."
    answer = page("message.html", status, form=None, heading="One moment, please", text=text)
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
    """The database is locked, full or away: a form goes back to the annotator, who can send it again."""
    fields = getattr(request.state, "fields", None)
    if fields is None:
        text = "The answers cannot be reached at the moment. Nothing is lost: please load the page again in a minute."
        answer = page("message.html", 503, form=None, heading="One moment, please", text=text)
    else:
        answer = page("again.html", 503, form=None, action=request.scope["path"], fields=fields)
    answer.headers["Retry-After"] = "10"
    return answer


async def _on_error(request: Request, error: Exception) -> Response:
    text = "Something went wrong on our side. Answers that were saved are kept: please load the page again."
    return page("message.html", 500, form=None, heading="One moment, please", text=text)
