"""The owner's pages: progress, agreement, times, export, and closing the study. They need a token of their own."""

from __future__ import annotations

import hmac

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from mallow.annotate._export import annotator_table, export_votes, overview, votes_text
from mallow.annotate._guard import FormError, read_form_fields, same_origin
from mallow.annotate._pages import page
from mallow.annotate._settings import Settings
from mallow.annotate._store import Store

_WHO = "the owner"


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
