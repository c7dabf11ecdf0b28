"""Pages from templates: everything that is filled in is escaped, and the style and the script are files of our own."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

from starlette.responses import HTMLResponse

_ASSETS = {"style.css": "text/css", "script.js": "text/javascript", "icon.svg": "image/svg+xml"}


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page as a response."""
    return HTMLResponse(_environment().get_template(template).render(**values), status)


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
