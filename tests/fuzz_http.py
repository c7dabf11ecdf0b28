"""The annotation page as a target of the fuzzer: short visits of requests that a browser, a careless proxy or an attacker sends.

Requests go to the application itself, as uvicorn hands them over, and its answers are kept in a real SQLite file. An answer of
500 or more, a traceback, a missing header, a page for the wrong person and an answer that is kept without its token are failures.
"""

import asyncio
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

from hypothesis import strategies as st

from annotation_page import hidden, make_study
from mallow import annotate
from mallow.annotate._app import make_app
from mallow.annotate._connections import limited_protocol
from mallow.human import write_study

FORM = "application/x-www-form-urlencoded"
METHODS = ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get", "X" * 40]
# Words in braces are filled in when the request is sent: tokens of the visitor, of somebody else, of the owner.
PATHS = ["/", "/join", "/join/{link}", "/join/{page}", "/instructions", "/start", "/done", "/health", "/owner"]
PATHS += ["/owner/{owner}", "/owner/votes.jsonl", "/owner/annotators.csv", "/static/style.css", "/static/../_app.py"]
PAIRS = ["/pair/{place}", "/pair/{place}/skip"]
PATHS += [*PAIRS, "/pair/{place}/a", "/pair/{place}/b"]
ODD = [
    "",
    "0",
    "-1",
    "9" * 25,
    "9" * 5000,
    "1e3",
    "٣",
    "\x00",
    "..",
    "%",
    "%2e%2e%2f",
    "a" * 3000,
    "\x1b[2J",
    "[",
    "]",
    "é\ud800",
]
ODD += [
    "'; DROP TABLE submissions; --",
    "<script>",
    "=1+1",
    "{{7*7}}",
    "{csrf}",
    "{page}",
    "{link}",
    "{stale}",
    "nan",
    "inf",
    "\r\nx: y",
]
NAMES = [
    "name",
    "csrf",
    "page",
    "seconds",
    "q0",
    "q1",
    "q2",
    "q3",
    "reason",
    "note",
    "wanted",
    "PROLIFIC_PID",
    "SESSION_ID",
]
NAMES += ["STUDY_ID", "workerId", "assignmentId", "hitId"]
GOOD = [
    "{csrf}",
    "{page}",
    "1",
    "-2",
    "open",
    "close",
    "Ann",
    "Something else",
    "ASSIGNMENT_ID_NOT_AVAILABLE",
    "w1",
    "s1",
]
HEADERS = [
    "content-type",
    "origin",
    "sec-fetch-site",
    "host",
    "cookie",
    "accept",
    "range",
    "content-length",
    "if-range",
]
HEADERS += ["x-forwarded-for", "transfer-encoding", "accept-language", "if-none-match", "referer"]
VALUES = [
    FORM,
    f"{FORM}; charset=x",
    "multipart/form-data; boundary=x",
    "application/json",
    "http://testserver",
    "http://[",
    "null",
]
VALUES += [
    "cross-site",
    "same-origin",
    "none",
    "bytes=0-5,-1",
    "bytes=9-1",
    "chunked",
    "-1",
    "[::1",
    "a:b@c:d",
    "http://a]b",
    "*/*",
]


@dataclass(frozen=True)
class Visit:
    """One request: its parts, in which words in braces are not filled in yet."""

    method: str = "GET"
    path: str = "/"
    query: tuple[tuple[str, str], ...] = ()
    fields: tuple[tuple[str, str], ...] | None = None
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    who: str = "annotator"  # whose cookie is sent
    pieces: int = 1  # in which the body arrives
    leaves: bool = False  # before it has sent the whole body


def visits() -> st.SearchStrategy[list[Visit]]:
    """Some requests one after another."""
    odd = st.sampled_from(ODD) | st.text(max_size=12)
    value = st.sampled_from(GOOD) | odd
    pairs = st.lists(st.tuples(st.sampled_from(NAMES) | odd, value), max_size=5).map(tuple)
    answers = st.tuples(value, value, value).map(
        lambda own: (("csrf", "{csrf}"), ("page", "{page}"), *((f"q{i}", v) for i, v in enumerate(own)))
    )
    mended = answers | st.just((("csrf", "{csrf}"), *((f"q{i}", "1") for i in range(3)), ("page", "{page}")))
    skip = value.map(lambda note: (("csrf", "{csrf}"), ("reason", "Something else"), ("note", note)))
    path = st.sampled_from(PATHS) | st.tuples(st.sampled_from(PATHS), odd).map("/".join) | odd.map("/pair/{}".format)
    headers = st.lists(st.tuples(st.sampled_from(HEADERS), st.sampled_from(VALUES) | odd), max_size=3).map(tuple)
    who = st.sampled_from(["nobody", "annotator", "owner", "forged", "gone"])
    request = st.builds(
        Visit,
        method=st.sampled_from(METHODS),
        path=path | odd,
        query=st.just(()) | pairs,
        fields=st.none() | pairs | mended | mended | skip,
        body=st.binary(max_size=40) | st.sampled_from([b"a" * 40_000, b"a=1&" * 200, b"%ff=%00", b"q0=1;q0=2"]),
        headers=st.just(()) | headers,
        who=who,
        pieces=st.integers(1, 3),
        leaves=st.booleans(),
    )
    answer = st.builds(
        Visit, method=st.just("POST"), path=st.sampled_from(PAIRS), fields=mended | skip, headers=headers
    )
    look = st.builds(Visit, path=st.sampled_from(PATHS), query=pairs, headers=headers, who=who)
    forms = st.sampled_from(["/join", "/start", "/owner", *PAIRS])
    send = st.builds(Visit, method=st.just("POST"), path=forms, fields=pairs, headers=headers, who=who)
    return st.lists(st.one_of(request, answer, look, send), min_size=1, max_size=5)


@dataclass
class Page:
    """A study that is open, an annotator who has begun, and the tokens that a visitor could have."""

    app: Any
    store: annotate.Store
    loop: asyncio.Runner = field(default_factory=asyncio.Runner)
    cookies: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    def begin(self) -> None:
        """A new annotator, ready to judge."""
        answer = self.ask(Visit("POST", "/join", fields=(("name", "Ann"),), who="nobody"))
        self.cookies["annotator"] = answer.cookie
        self.cookies["forged"] = answer.cookie[:-3] + "xyz"
        self.look("/instructions")
        self.ask(Visit("POST", "/start", fields=(("csrf", "{csrf}"),)))
        self.words["stale"] = self.words.get("page", "")

    def look(self, path: str = "/") -> None:
        """Load a page as a browser does, and keep the tokens that it holds."""
        answer = self.ask(Visit(path=path))
        while answer.status == 303:
            answer = self.ask(Visit(path=answer.headers["location"]))
        self.words["place"] = found[1] if (found := re.search(r'action="/pair/(\d+)"', answer.text)) else "1"
        for name in ("csrf", "page"):
            if f'name="{name}"' in answer.text:
                self.words[name] = hidden(answer.text, name)

    def fill(self, text: str) -> str:
        for name, word in self.words.items():
            text = text.replace(f"{{{name}}}", word)
        return text

    def ask(self, visit: Visit) -> "Answer":
        """Send a request, and check what holds of every answer."""
        if visit.fields is None:
            body = visit.body
        else:
            filled = [(self.fill(name), self.fill(value)) for name, value in visit.fields]
            body = urlencode(filled, errors="surrogatepass").encode()
        sent = {"host": "testserver"}
        if visit.fields is not None:
            sent["content-type"] = FORM
        if visit.who in self.cookies:
            sent["cookie"] = self.cookies[visit.who]
        sent |= {name: self.fill(value) for name, value in visit.headers}
        raw = quote(self.fill(visit.path), safe="/%", errors="surrogatepass")
        query = urlencode([(self.fill(a), self.fill(b)) for a, b in visit.query], errors="surrogatepass").encode()
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": visit.method,
            "scheme": "http",
            "path": unquote(raw),  # as uvicorn does
            "raw_path": raw.encode(),
            "root_path": "",
            "query_string": query,
            "headers": [(name.encode(), _header(value)) for name, value in sent.items()],
            "client": ("127.0.0.1", 5),
            "server": ("127.0.0.1", 80),
        }
        return self.loop.run(_exchange(self.app, scope, _messages(body, visit)))


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    content: bytes
    cookie: str

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")


def _header(value: str) -> bytes:
    """What a server lets through: no line ends, no zero byte."""
    return re.sub(rb"[\r\n\0]", b"", value.encode("utf-8", "surrogatepass"))


def _messages(body: bytes, visit: Visit) -> list[dict[str, Any]]:
    step = max(1, -(-len(body) // visit.pieces))
    parts = [body[at : at + step] for at in range(0, len(body), step)] or [b""]
    last = len(parts) - 1
    messages = [{"type": "http.request", "body": part, "more_body": i < last} for i, part in enumerate(parts)]
    return [*messages[: last // 2], {"type": "http.disconnect"}] if visit.leaves and last else messages


async def _exchange(app: Any, scope: dict[str, Any], messages: list[dict[str, Any]]) -> Answer:
    waiting, got = iter(messages), []

    async def receive() -> dict[str, Any]:
        return next(waiting, {"type": "http.disconnect"})

    async def send(message: dict[str, Any]) -> None:
        got.append(message)

    async with asyncio.timeout(20):
        try:
            await app(scope, receive, send)
        except Exception as error:
            if type(error).__name__ != "ClientDisconnect":
                raise
            return Answer(0, {}, b"", "")
    start, *rest = got
    assert start["type"] == "http.response.start"
    assert not rest[-1].get("more_body", False)
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]}
    content = b"".join(part.get("body", b"") for part in rest)
    cookie = headers.get("set-cookie", "").partition(";")[0]
    return Answer(start["status"], headers, content, cookie)


OPENED: dict[Path, Page] = {}


def open_page(folder: Path) -> Page:
    """The page of a small study in a folder; that of another folder is closed."""
    if folder not in OPENED:
        close_page()
        OPENED[folder] = _new_page(folder)
    return OPENED[folder]


def close_page() -> None:
    """Close the page that is open, if one is."""
    while OPENED:
        page = OPENED.popitem()[1]
        page.loop.close()
        page.store.close()


def _new_page(folder: Path) -> Page:
    file = folder / "study.json"
    write_study(make_study(per_pair=20, systems=2, votes=50), file)
    store = annotate.open_study(file)
    limits = annotate.Limits(rate=1e9, burst=1e9, address_rate=1e9, address_burst=1e9, join_rate=1e9, join_burst=1e9)
    page = Page(make_app(store, annotate.Settings(limits=limits, hosts=frozenset({"testserver"}))), store)
    page.cookies["gone"] = f"mallow_{store.study.digest}={store.signer.session_token('a000000000000', 4e9)}"
    page.words |= {"owner": store.owner_token, "link": store.signer.personal_token("Eve", 4e9)}
    page.cookies["owner"] = page.ask(Visit(path="/owner/{owner}", who="nobody")).cookie
    page.begin()
    return page


def visit_page(requests: list[Visit], folder: Path) -> None:
    """Send the requests, and check what is kept afterwards."""
    page = open_page(folder)
    for visit in requests:
        page.look()
        if page.words["place"] == "1" and _last_place(page) is not None:
            page.begin()  # all pairs are judged
            page.look()
        before = _submissions(page)
        answer = page.ask(visit)
        after = _submissions(page)
        if answer.status == 0:
            assert visit.leaves
            continue
        assert 200 <= answer.status < 500, (answer.status, answer.text)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "Traceback" not in answer.text
        assert "<script>" not in answer.text
        assert all(letter not in value for value in answer.headers.values() for letter in "\r\n\0")
        if "{owner}" not in visit.path and visit.who != "owner" and answer.status == 200:
            assert not answer.headers.get("content-disposition")
        if after != before:  # only a form of the annotator's own page is kept
            assert (after - before, visit.method, visit.who) == (1, "POST", "annotator")
            assert ("csrf", "{csrf}") in (visit.fields or ())
    annotate.annotator_table(page.store).encode()
    votes = annotate.export_votes(page.store)
    assert len({(vote.annotator, vote.task, vote.kind, vote.question) for vote in votes}) == len(votes)
    assert page.ask(Visit(path="/owner", who="owner")).status == 200


class Wire(asyncio.Transport):
    """The server's end of a connection; what it writes is kept."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 80)})
        self.written, self.closing = b"", False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closing = True

    abort = close

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


@lru_cache
def wire_seeds() -> list[bytes]:
    """What a browser sends, in one piece, in chunks, and several requests at once."""
    form = b"name=Ann"
    head = b"Host: testserver\r\nContent-Type: " + FORM.encode()
    sized = b"POST /join HTTP/1.1\r\n" + head + b"\r\nContent-Length: 8\r\n\r\n" + form
    parts = b"POST /join HTTP/1.1\r\n" + head + b"\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n" + form + b"\r\n0\r\n\r\n"
    look = b"GET /health HTTP/1.1\r\nHost: testserver\r\nCookie: a=b\r\nRange: bytes=0-5\r\n\r\n"
    waits = sized.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    upgrade = b"GET / HTTP/1.1\r\nHost: testserver\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    return [sized, parts, look, look + sized + look, waits, upgrade, b"HEAD / HTTP/1.0\r\n\r\n"]


def send_bytes(data: bytes, folder: Path) -> None:
    """Bytes as they come from a connection, in three pieces: every answer is one, and below 500."""
    import uvicorn
    from uvicorn.server import ServerState

    page, wire = open_page(folder), Wire()
    protocol_class = limited_protocol(annotate.Limits(waiting=5))
    config = uvicorn.Config(page.app, http=protocol_class, ws="none", lifespan="off", log_level="critical")

    async def serve() -> None:
        state = ServerState()
        protocol = protocol_class(config=config, server_state=state, app_state={})
        protocol.connection_made(wire)
        for part in (data[: len(data) // 3], data[len(data) // 3 : -5], data[-5:]):
            if part and not wire.closing:  # a connection never delivers nothing: to h11 that is its end
                protocol.data_received(part)
            await asyncio.sleep(0)
        # An application that waits for the rest of a request, which does not come, is left alone.
        while not wire.closing and not (protocol.cycle and protocol.cycle.more_body):
            if not (waiting := [task for task in state.tasks if not task.done()]):
                break
            if not (await asyncio.wait(waiting, timeout=0.1))[0]:
                break
        protocol.connection_lost(None)
        if state.tasks:
            await asyncio.wait(state.tasks, timeout=5)
        assert not [task for task in state.tasks if not task.done()]

    page.loop.run(serve())
    for status in re.findall(rb"(?:^|\r\n)HTTP/1\.1 (\d+)", wire.written):
        assert 100 <= int(status) < 500, wire.written
    assert not wire.written or wire.written.startswith(b"HTTP/1.1 "), wire.written
    assert b"Traceback" not in wire.written


def _submissions(page: Page) -> int:
    with page.store.database.transaction(write=False) as execute:
        return int(execute("SELECT COUNT(*) FROM submissions")[0][0])


def _last_place(page: Page) -> int | None:
    cookie = page.cookies["annotator"].partition("=")[2]
    annotator = page.store.signer.read_session_token(cookie, 0.0) or ""
    return page.store.run([lambda execute: page.store.ledger.last_place(execute, annotator)])[0]
