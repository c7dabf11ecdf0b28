"""Running a study: the database, the links, and the server."""

from __future__ import annotations

import gc
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mallow._checks import positive
from mallow._optional import optional
from mallow.annotate._export import csv_text
from mallow.annotate._settings import Address, Settings
from mallow.annotate._store import Store, open_store
from mallow.errors import InputError
from mallow.human import picture_folder, read_study

_LINK_DAYS = 60.0
_MOST_FILES = 4096  # open at once, including connections; chosen: more than a study has visitors
_FILES_APART = 64  # of them are for the database, the pictures and the terminal; chosen


@dataclass(frozen=True)
class Links:
    """The addresses to give to people.

    Attributes
    ----------
    study : str
        The open link. With their parameters added, it is the link for Prolific or MTurk.
    owner : str
        The owner's page. Whoever has it can read all answers and close the study.
    personal : dict
        Name → personal link.
    """

    study: str
    owner: str
    personal: dict[str, str]

    def to_csv(self) -> str:
        """The personal links, one line per person."""
        return csv_text([("name", "link"), *self.personal.items()])


def open_study(
    path: str | os.PathLike[str],
    database: str | None = None,
    *,
    lease: float = 1800.0,
    create: bool = True,
    accept_edits: bool = False,
) -> Store:
    """The store of the study in a file.

    Parameters
    ----------
    path : path
        The file of the study, as `mallow study` writes it.
    database : str or None
        The path of an SQLite file or a postgresql:// URL. None is a file beside the study, named after it.
    lease : float
        Seconds after which a pair that was not answered goes to somebody else.
    create : bool
        Whether to create a file that does not exist, for a study that begins.
    accept_edits : bool
        Whether to take a study that was edited by hand.
    """
    positive("lease", lease)
    study = read_study(path, accept_edits=accept_edits)
    file = Path(path).expanduser()
    url = database or str(file.with_name(f"{file.stem}-answers.db"))
    if not create and "://" not in url and not Path(url).expanduser().exists():
        raise InputError(f"{url}: there are no answers yet: no such file. Name the file with --database.")
    return open_store(url, study, lease=lease)


def make_links(store: Store, base: str, people: Sequence[str] = (), *, days: float = _LINK_DAYS) -> Links:
    """The links of a study whose page is at `base`; personal ones are valid for `days`."""
    expires = time.time() + 24 * 3600 * positive("days", days)
    names = [" ".join(name.split()) for name in people]
    if len(set(names)) < len(names) or "" in names:
        raise InputError("`people` must be different names, but a name occurs twice, or is empty.")
    personal = {name: f"{base}/join/{store.signer.personal_token(name, expires)}" for name in names}
    return Links(f"{base}/", f"{base}/owner/{store.owner_token}", personal)


def serve(
    store: Store,
    study_file: str | os.PathLike[str],
    address: Address,
    settings: Settings = Settings(),  # noqa: B008  # frozen
    *,
    ready: Callable[[str, int, Callable[[], None]], object] = lambda base, port, stop: None,
) -> None:
    """Show a study until the process is interrupted.

    `ready` is called once the port is open, with the beginning of all links, the port, and a function that stops the
    server.
    """
    optional("starlette", extra="human")
    uvicorn = optional("uvicorn", extra="human")
    from mallow.annotate._app import make_app
    from mallow.annotate._connections import limited_protocol

    hosts = settings.hosts | ({address.host} if address.is_local else {socket.gethostname(), socket.getfqdn()})
    app = make_app(store, replace(settings, url=address.url, hosts=hosts, pictures=picture_folder(study_file)))
    # No access log: addresses hold tokens. The header with the server's name and version helps nobody but attackers.
    config = uvicorn.Config(
        app,
        http=limited_protocol(settings.limits),
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=_raise_file_limit() - _FILES_APART,
        lifespan="off",
    )
    server = uvicorn.Server(config)
    with _listening(address) as listener:
        port = listener.getsockname()[1]
        ready(address.base(port), port, lambda: setattr(server, "should_exit", True))
        gc.freeze()  # study and packages stay loaded; collecting garbage among them stops all answers for 80 ms
        try:
            server.run(sockets=[listener])
        finally:
            gc.unfreeze()


def _raise_file_limit() -> int:
    """Raise the limit of open files and connections of this process as far as allowed, and return it."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return _MOST_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(_MOST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return _MOST_FILES if soft == resource.RLIM_INFINITY else min(soft, _MOST_FILES)


@contextmanager
def _listening(address: Address) -> Iterator[socket.socket]:
    """A socket that listens. If that is not possible, the error comes before anything is printed."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # With the protocol named, asyncio sends small answers at once (TCP_NODELAY); otherwise pages wait for 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address.host, address.port))
            listener.listen(1024)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(
                f"cannot listen on {address.host}, port {address.port}: {reason}. Choose another --port."
            ) from error
        yield listener
    finally:
        listener.close()
