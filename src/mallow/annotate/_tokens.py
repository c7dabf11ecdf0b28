"""Tokens that cannot be guessed or forged: signed texts for links, sessions, forms and completion codes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass

_CODE_LETTERS = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"  # none that look alike


def new_secret() -> str:
    """A fresh key of 256 bits."""
    return secrets.token_hex(32)


@dataclass(frozen=True)
class Signer:
    """Signs texts with a secret key. A signature for one purpose is invalid for any other.

    Examples
    --------
    >>> signer = Signer("0" * 64)
    >>> token = signer.sign("session", "ann")
    >>> signer.verify("session", token), signer.verify("owner", token), signer.verify("session", token + "x")
    ('ann', None, None)
    """

    secret: str

    def __repr__(self) -> str:
        return "Signer(…)"

    def mac(self, purpose: str, text: str) -> str:
        """192 bits that only the holder of the key can compute from a text."""
        raw = hmac.digest(self.secret.encode(), f"{purpose}\0{text}".encode("utf-8", "surrogatepass"), hashlib.sha256)
        return base64.urlsafe_b64encode(raw[:24]).decode()

    def sign(self, purpose: str, text: str) -> str:
        """A token that holds the text, readable by all, and its signature."""
        body = base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")
        return f"{body}.{self.mac(purpose, body)}"

    def verify(self, purpose: str, token: str) -> str | None:
        """The text of a token that was signed for this purpose; None for anything else."""
        body, _, signature = token.partition(".")
        expected = self.mac(purpose, body)
        if not hmac.compare_digest(signature.encode("utf-8", "surrogatepass"), expected.encode()):
            return None
        return base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode("utf-8", "surrogatepass")

    def matches(self, purpose: str, text: str, mac: str) -> bool:
        """Whether `mac` is the signature of the text for this purpose."""
        return hmac.compare_digest(mac.encode("utf-8", "surrogatepass"), self.mac(purpose, text).encode())

    def personal_token(self, name: str, expires: float) -> str:
        """The end of a personal link."""
        return self.sign("link", json.dumps([name, int(expires)]))

    def read_personal_token(self, token: str) -> tuple[str, float] | None:
        """The name and the time of expiry of a personal link; None if it was not made here."""
        text = self.verify("link", token)
        if text is None:
            return None
        name, expires = json.loads(text)
        return str(name), float(expires)

    def session_token(self, annotator: str, expires: float) -> str:
        """The content of an annotator's cookie."""
        return self.sign("session", f"{annotator} {int(expires)}")

    def read_session_token(self, token: str, now: float) -> str | None:
        """The annotator of a session; None if it was not made here, or has ended."""
        annotator, _, expires = (self.verify("session", token) or "").partition(" ")
        return annotator if expires and now < int(expires) else None

    def completion_code(self, annotator: str) -> str:
        """A code of ten letters that proves that an annotator finished."""
        raw = hmac.digest(self.secret.encode(), f"completion\0{annotator}".encode(), hashlib.sha256)
        number = int.from_bytes(raw[:16], "big")
        letters = []
        for _ in range(10):
            number, place = divmod(number, len(_CODE_LETTERS))
            letters.append(_CODE_LETTERS[place])
        return "".join(letters)
