"""The web application: its routes, the owner's pages, and the pages that refuse a request."""

from __future__ import annotations

import hmac

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from mallow.annotate._database import StorageError
from mallow.annotate._export import annotator_table, export_votes, overview, votes_text
from mallow.annotate._lanes import Lane
from mallow.annotate._pages import AnnotatorPages, asset, message, page
from mallow.annotate._settings import Settings
from mallow.annotate._store import Store
from mallow.annotate._visitors import FormError, Guard, Visitors, read_form_fields, same_origin

_WHO = "the owner"
_REFUSALS = {  # status → heading and text
    414: ("Not possible", "The address is too long. Please open the address of the study again."),
    421: ("Not possible", "This page is not known by the name in the address. Please check the link."),
    429: (
        "One moment, please",
        "There were too many requests in a short time. Please wait a few seconds and load the page again. Answers that "
        "were saved are kept.",
    ),
}


def make_app(store: Store, settings: Settings) -> ASGIApp:
    """The application of a study."""
    read, write = Lane(store, write=False), Lane(store, write=True)
    visitors = Visitors(store, settings, read)
    pages = AnnotatorPages(store, settings, visitors, read, write)
    routes = [
        Route("/pair/{place:int}", pages.pair),
        Route("/pair/{place:int}", pages.answer, methods=["POST"]),
        Route("/", pages.home),
        Route("/join", pages.join, methods=["POST"]),
        Route("/join/{token}", pages.personal_link),
        Route("/instructions", pages.instructions),
        Route("/start", pages.start, methods=["POST"]),
        Route("/pair/{place:int}/skip", pages.skip, methods=["POST"]),
        Route("/pair/{place:int}/{side}", pages.picture),
        Route("/done", pages.done),
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
    app.router.redirect_slashes = False  # such a redirection would go to any host that the request names
    return Guard(app, settings=settings, visitor=visitors.rate_key, refuse=_refuse)  # outermost: it guards all


async def _health(request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _static(request: Request) -> Response:
    file = asset(request.path_params["name"])
    if file is None:
        raise HTTPException(404, "There is no such page.")
    content, kind = file
    return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})


async def _refuse(status: int) -> ASGIApp:
    answer = message(status, *_REFUSALS[status])
    if status == 429:
        answer.headers["Retry-After"] = "5"
    return answer


async def _on_http_error(request: Request, error: HTTPException) -> Response:
    unknown = error.status_code == 404 and error.detail == "Not Found"
    heading = "There is no such page" if error.status_code == 404 else "Not possible"
    answer = message(
        error.status_code, heading, "Please open the address of the study again." if unknown else error.detail
    )
    answer.headers.update(error.headers or {})
    return answer


async def _on_form_error(request: Request, error: FormError) -> Response:
    return message(error.status, "Not possible", str(error))


async def _on_storage_error(request: Request, error: StorageError) -> Response:
    """The database is locked, full or away: a form goes back to the annotator, who can send it again."""
    fields = getattr(request.state, "fields", None)
    if fields is None:
        text = "The answers cannot be reached at the moment. Nothing is lost: please load the page again in a minute."
        answer = message(503, "One moment, please", text)
    else:
        answer = page("again.html", 503, form=None, action=request.scope["path"], fields=fields)
    answer.headers["Retry-After"] = "10"
    return answer


async def _on_error(request: Request, error: Exception) -> Response:
    text = "Something went wrong on our side. Answers that were saved are kept: please load the page again."
    return message(500, "One moment, please", text)


def owner_routes(store: Store, settings: Settings) -> list[Route]:
    """The routes of the owner."""
    cookie = f"mallow_owner_{store.study.digest}"

    def require_owner(request: Request) -> None:
        if store.signer.verify("owner session", request.cookies.get(cookie, "")) != _WHO:
            raise HTTPException(
                403, "This page is for the owner of the study. Open the owner's link that the program printed."
            )

    async def enter(request: Request) -> Response:
        if not hmac.compare_digest(store.owner_token, request.path_params["token"].encode("ascii", "replace").decode()):
            raise HTTPException(404, "This is not the owner's link of this study.")
        answer = RedirectResponse("/owner", 303)
        token = store.signer.sign("owner session", _WHO)
        answer.set_cookie(cookie, token, httponly=True, samesite="lax", secure=settings.secure, path="/owner")
        return answer

    async def show(request: Request) -> Response:
        require_owner(request)
        shown = await run_in_threadpool(overview, store)
        csrf = store.signer.mac("csrf", _WHO)
        return page("owner.html", form=store.study.form, study=store.study, shown=shown, csrf=csrf)

    async def change(request: Request) -> Response:
        require_owner(request)
        fields = await read_form_fields(request, settings.limits)
        if not same_origin(request, settings.url) or not store.signer.matches("csrf", _WHO, fields.get("csrf", "")):
            raise FormError(403, "The form did not come from this page. Please load the page again.")
        await run_in_threadpool(store.set_open, fields.get("wanted") == "open")
        return RedirectResponse("/owner", 303)

    async def votes(request: Request) -> Response:
        require_owner(request)
        text = votes_text(await run_in_threadpool(export_votes, store))
        return _download(text, "votes.jsonl", "application/jsonl")

    async def annotators(request: Request) -> Response:
        require_owner(request)
        return _download(await run_in_threadpool(annotator_table, store), "annotators.csv", "text/csv")

    return [
        Route("/owner", show),
        Route("/owner", change, methods=["POST"]),
        Route("/owner/votes.jsonl", votes),
        Route("/owner/annotators.csv", annotators),
        Route("/owner/{token}", enter),
    ]


def _download(text: str, name: str, kind: str) -> Response:
    return Response(text, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})
