"""How a study is shown, and how much one visitor may ask for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Limits:
    """How much one visitor may ask for.

    Attributes
    ----------
    body : int
        Bytes of a form.
    seconds : float
        For sending a form.
    rate, burst : float
        Requests per second in the long run, and at once, of one annotator.
    address_rate, address_burst : float
        The same for all visitors of one address who have not joined: many may share one.
    """

    body: int = 32_768
    seconds: float = 20.0
    rate: float = 5.0
    burst: float = 60.0
    address_rate: float = 20.0
    address_burst: float = 300.0


@dataclass(frozen=True)
class Settings:
    """How a study is shown.

    Attributes
    ----------
    open_link : bool
        Whether anybody who has the address may join with a name.
    url : str or None
        How people reach the page, if by another address than the server's own. With https://, cookies are never sent
        without it.
    completion_code : str or None
        One code for everybody, as Prolific wants it; None: each annotator has their own.
    pictures : Path or None
        The folder of the pictures.
    limits : Limits

    Examples
    --------
    >>> Settings(open_link=False).limits.body
    32768
    """

    open_link: bool = True
    url: str | None = None
    completion_code: str | None = None
    pictures: Path | None = None
    limits: Limits = Limits()

    @property
    def secure(self) -> bool:
        """Whether people reach the page by https."""
        return (self.url or "").startswith("https://")
