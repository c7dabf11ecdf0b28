"""Seals of a passport: the digest of its content, an HMAC with a secret, or a signature of Ed25519."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from mallow._optional import optional
from mallow.errors import InputError

SEAL_NAMES = {"mac": "HMAC", "ed25519": "Ed25519"}
"""The seals that need a key, by the name of their field."""
_SEALS = ("digest", *SEAL_NAMES)  # they cover everything else
_PEM = b"-----BEGIN"  # how a key of Ed25519 begins; other keys are secrets


def seal_of_key(key: bytes) -> str:
    """The field of the seal that a key makes or checks."""
    return "ed25519" if key.startswith(_PEM) else "mac"


def canonical_digest(data: Mapping[str, Any]) -> str:
    """SHA-256 of all fields except the seals, whatever their order and the white space between them."""
    return hashlib.sha256(_canonical(data)).hexdigest()


def sign(data: Mapping[str, Any], key: str | bytes | None) -> dict[str, str]:
    """The seal that needs a key, by the name of its field; empty without a key."""
    secret = as_bytes(key)
    if secret is None:
        return {}
    if seal_of_key(secret) == "mac":
        return {"mac": hmac.new(secret, _canonical(data), hashlib.sha256).hexdigest()}
    private = _load_ed25519(secret)
    if not hasattr(private, "sign"):
        raise InputError("`key` must be a private key to sign with, but this is a public one, which only checks.")
    return {"ed25519": private.sign(_canonical(data)).hex()}


def is_signed(data: Mapping[str, Any], key: bytes, name: str) -> bool:
    """Whether the seal in the field `name` was made with a key, which for Ed25519 may be the public one."""
    seal = str(data.get(name, ""))
    if name == "mac":
        return hmac.compare_digest(seal.encode(), sign(data, key)["mac"].encode())
    from cryptography.exceptions import InvalidSignature

    loaded = _load_ed25519(key)
    try:
        (loaded.public_key() if hasattr(loaded, "public_key") else loaded).verify(bytes.fromhex(seal), _canonical(data))
    except (InvalidSignature, ValueError):
        return False
    return True


def as_bytes(key: str | bytes | None) -> bytes | None:
    """The key as bytes; an empty key is an error."""
    secret = key.encode() if isinstance(key, str) else key
    if secret is not None and not secret.strip():
        raise InputError("`key` must not be empty. Pass a long random secret, or None.")
    return secret


def _load_ed25519(pem: bytes) -> Any:
    """The private or the public key in a PEM text."""
    optional("cryptography", extra="sign")
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    try:
        if b"PRIVATE" in pem.splitlines()[0]:
            key: Any = serialization.load_pem_private_key(pem, None)
        else:
            key = serialization.load_pem_public_key(pem)
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:  # TypeError: it is encrypted
        raise InputError(f"`key` must be a key of Ed25519 in PEM form, without a password; {error}.") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey | ed25519.Ed25519PublicKey):
        raise InputError(f"`key` must be a key of Ed25519; got {type(key).__name__}.")
    return key


def _canonical(data: Mapping[str, Any]) -> bytes:
    content = {name: value for name, value in data.items() if name not in _SEALS}
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=True).encode()
