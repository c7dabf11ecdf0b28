"""How a study is shown, and how much one visitor may ask for."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from mallow._checks import whole
from mallow.errors import InputError


@dataclass(frozen=True)
class Limits:
    """How much one visitor may ask for.

    Attributes
    ----------
    body : int
        Bytes of a form.
    seconds : float
        For sending a form.
    rate : float
        Requests per second of one annotator in the long run.
    burst : float
        Requests of one annotator at once.
    address_rate : float
        Requests per second of all visitors of one address who have not joined; many may share one.
    address_burst : float
        Requests of these visitors at once.
    join_rate : float
        New annotators per second that one address may bring in the long run. Personal links do not count.
    join_burst : float
        New annotators that one address may bring at once.
    header_seconds : float
        For sending the head of a request, from the start of the connection or the end of the previous request.
    waiting : int
        Connections that have not sent the head of a request: beyond this number, the oldest of them are closed.
    """

    body: int = 32_768
    seconds: float = 20.0
    rate: float = 5.0
    burst: float = 60.0
    address_rate: float = 20.0
    address_burst: float = 300.0
    join_rate: float = 1 / 60
    join_burst: float = 60.0
    header_seconds: float = 10.0
    waiting: int = 256


@dataclass(frozen=True)
class Settings:
    """How a study is shown.

    Attributes
    ----------
    open_link : bool
        Whether anybody who has the address may join with a name.
    platforms : frozenset of str or None
        The platforms whose workers may join by its address: "prolific", "mturk". None: both if `open_link`, otherwise
        none. Addresses of platforms are not signed: anybody who knows their form can make one.
    url : str or None
        The address by which people reach the page, if it differs from the server's own. With https://, cookies are
        sent over https only.
    hosts : frozenset of str
        Further names by which people reach the page. Numeric addresses, localhost and the host of `url` are always
        accepted. Other names are refused. Otherwise a foreign site could read the page by pointing its own name to
        this machine (DNS rebinding).
    completion_code : str or None
        One code for everybody, as Prolific requires. None gives each annotator their own code.
    pictures : Path or None
        The folder of the pictures.
    limits : Limits

    Examples
    --------
    >>> Settings(open_link=False).limits.body
    32768
    """

    open_link: bool = True
    platforms: frozenset[str] | None = None
    url: str | None = None
    hosts: frozenset[str] = frozenset()
    completion_code: str | None = None
    pictures: Path | None = None
    limits: Limits = Limits()

    def admits(self, platform: str) -> bool:
        """Whether workers of a platform may join by its address."""
        return self.open_link if self.platforms is None else platform in self.platforms

    def is_host(self, name: str) -> bool:
        """Whether a request may use this host name, which may end in a port.

        Examples
        --------
        >>> settings = Settings(url="https://study.example.org")
        >>> [settings.is_host(name) for name in ("127.0.0.1:8000", "[::1]", "study.example.org", "evil.example")]
        [True, True, True, False]
        """
        try:
            host = (urlsplit(f"//{name}").hostname or "").removesuffix(".")
        except ValueError:  # brackets without an address
            return False
        try:
            ipaddress.ip_address(host)
        except ValueError:
            own = (urlsplit(self.url or "").hostname or "", "localhost", *(known.lower() for known in self.hosts))
            return host != "" and host in own
        return True

    @property
    def secure(self) -> bool:
        """Whether people reach the page by https."""
        return (self.url or "").startswith("https://")


@dataclass(frozen=True)
class Address:
    """Where the page is.

    Attributes
    ----------
    host : str
        The address that the server listens on; 127.0.0.1 accepts connections from this machine only.
    port : int
        0: any that is free.
    url : str or None
        The address by which people reach it, if it differs: usually the address of a proxy with https.

    Examples
    --------
    >>> Address(url="https://study.example.org/").is_secure
    True
    """

    host: str = "127.0.0.1"
    port: int = 8000
    url: str | None = None

    def __post_init__(self) -> None:
        whole("port", self.port, least=0)
        if self.url is not None:
            parts = urlsplit(self.url)
            if parts.scheme not in ("http", "https") or not parts.netloc or parts.path not in ("", "/"):
                raise InputError(
                    "`url` must begin with http:// or https:// and end after the host, since the page has a host of "
                    f"its own; got {self.url!r}."
                )

    @property
    def is_secure(self) -> bool:
        """Whether people reach the page by https."""
        return (self.url or "").startswith("https://")

    @property
    def is_local(self) -> bool:
        """Whether the server can be reached from this machine only."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def base(self, port: int) -> str:
        """The beginning of links."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (self.url or f"http://{host}:{port}").rstrip("/")
