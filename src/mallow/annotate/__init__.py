"""The annotation page: a study in the browser, by plain forms, with every answer on disk before it is acknowledged.

    open_study(path) -> Store ─ serve(store, …) ─▶ pages ─▶ export_votes(store) ─▶ votes.jsonl ─▶ mallow rank

The page needs starlette and uvicorn (the extra `human`), which are imported when it is served.
"""

from mallow.annotate._export import annotator_table, export_votes, votes_text
from mallow.annotate._serve import Links, make_links, open_study, serve
from mallow.annotate._settings import Address, Limits, Settings
from mallow.annotate._store import Store

__all__ = [
    "Address",
    "Limits",
    "Links",
    "Settings",
    "Store",
    "annotator_table",
    "export_votes",
    "make_links",
    "open_study",
    "serve",
]
