"""A passport: a small file from which anyone can recompute a score without the data and detect a changed digit."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mallow._optional import optional
from mallow.embed import AnyEmbedder, embed_all
from mallow.engine import settle
from mallow.errors import Caveat, InputError
from mallow.estimate import Codebook, Quantize
from mallow.evaluate._run import run_repeats, summary_values
from mallow.evaluate._score import Score
from mallow.evidence import MAUVE_STAR, SUMMARIES, Evidence, Measure, Signature, find_measure, measure_for, pair_points
from mallow.results import Axes, Estimate, Result, TableData, draw
from mallow.theory import DIVERGENCES, smoothing


@dataclass(frozen=True, eq=False, repr=False)
class Passport(Result):
    """The counts and held-out scores behind a score, without samples, features or ids.

    Attributes
    ----------
    published : dict
        The three summaries of the published estimator, averaged over repeats.
    certified : dict
        The bounds from held-out evidence, as in `Score.certified`.
    p_value : float
        The p-value for "no gap", by permutations of the features. It is recorded, but cannot be recomputed from this
        file.
    reference_counts : tuple of arrays
        The number of reference samples in each bin, in every repeat.
    model_counts : tuple of arrays
        The number of model samples in each bin, in every repeat.
    smoothing : str
        The name of the smoothing of the counts.
    divergence : str
        The name of the divergence.
    scale : float
        The constant c.
    codebook : Codebook or None
        The bins of the first repeat. With it, anyone who has features can count their own samples in the same bins.
    evidence : Evidence
        The held-out score of each sample and its unit, with numbers instead of ids.
    signature : Signature
        Everything that the score depends on.
    digest : str
        SHA-256 of everything else.
    mac : str
        HMAC-SHA256 of the same with a secret key; "" without one.
    ed25519 : str
        The signature of the same with a private key of Ed25519; "" without one.
    caveats : tuple of Caveat
        The kinds of the score's caveats. Their full text is left out, since it may quote samples.
    """

    KIND: ClassVar[str] = "passport"

    published: dict[str, float]
    certified: dict[str, Estimate]
    p_value: float
    reference_counts: tuple[NDArray[np.int64], ...]
    model_counts: tuple[NDArray[np.int64], ...]
    smoothing: str
    divergence: str
    scale: float
    codebook: Codebook | None
    evidence: Evidence
    signature: Signature
    digest: str = ""
    mac: str = ""
    ed25519: str = ""
    caveats: tuple[Caveat, ...] = ()

    def __post_init__(self) -> None:  # it may come from a file
        sides = self.reference_counts, self.model_counts
        if len(sides[0]) != len(sides[1]) or not sides[0]:
            raise InputError(f"both sides must have counts of every repeat; got {len(sides[0])} and {len(sides[1])}.")
        for counts in (*sides[0], *sides[1]):
            if counts.ndim != 1 or not counts.size or counts.dtype.kind not in "iu" or counts.min() < 0:
                raise InputError("the counts of a repeat must be whole numbers from 0, one per bin.")
        if any(len(first) != len(second) for first, second in zip(*sides, strict=True)):
            raise InputError("both sides must have the same bins in every repeat.")
        if self.codebook is not None and self.codebook.centres.ndim != 2:
            raise InputError("the centres of bins must be a table.")

    def __repr__(self) -> str:
        return f"Passport(mauve={self.published['mauve']:.4f}, digest={self.digest[:12]}…)"

    def __str__(self) -> str:
        sealed = " and ".join(["SHA-256", *["HMAC"] * bool(self.mac), *["Ed25519"] * bool(self.ed25519)])
        sizes = f"{self.signature.n:,} and {self.signature.m:,} samples"
        head = f"Passport of a score of {sizes}, sealed by {sealed}: {self.digest}"
        return self._with_caveats([head, "", self.table(), "", str(self.signature)])

    @property
    def measure(self) -> Measure:
        """A measure that turns the counts into the published score. Its bins do not matter."""
        smooth = getattr(smoothing, self.smoothing, None)
        if self.smoothing not in smoothing.__all__ or self.divergence not in DIVERGENCES or not callable(smooth):
            raise InputError(f"a smoothing {self.smoothing!r} or a divergence {self.divergence!r} is not known here.")
        return Measure(Quantize(smoothing=smooth), DIVERGENCES[self.divergence], self.scale)

    def recompute_published(self) -> dict[str, float]:
        """The three summaries from the counts."""
        measure, repeats = self.measure, []
        for p_counts, q_counts in zip(self.reference_counts, self.model_counts, strict=True):
            repeats.append(measure.summarise_counts(p_counts.astype(np.float64), q_counts.astype(np.float64)))
        return {name: settle(float(np.mean([float(values[name]) for values in repeats]))) for name in SUMMARIES}

    def recompute_certified(self) -> dict[str, Estimate]:
        """The certified summaries, from the held-out scores and their units."""
        return self.evidence.certify(self.measure.divergence, self.scale).estimates

    def _table(self) -> TableData:
        rows = []
        for name in SUMMARIES:
            bound = self.certified[name]
            limits = f"{bound.low:.4f} to {bound.high:.4f}"
            rows.append([name, f"{self.published[name]:.4f}", f"{bound.value:.4f}", limits])
        return TableData(["", "published", "certified", "95% limits"], rows)

    def _records(self) -> list[dict[str, Any]]:
        return [
            {"summary": name, "published": self.published[name], "certified": self.certified[name].value}
            for name in SUMMARIES
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the certified summaries with their limits, compared with zero; returns the axes."""
        ax = draw.axes(ax)
        rows = {name: (bound.value, bound.low, bound.high) for name, bound in self.certified.items()}
        draw.intervals(ax, rows, "certified value, with its limit at 95% confidence")
        return ax

    def seal(self, key: str | bytes | None = None) -> Passport:
        """The same passport with the digest of its content and, with a key, an HMAC or a signature of Ed25519."""
        data = self.to_dict()
        seals = sign(data, key)
        return replace(self, digest=canonical_digest(data), mac=seals.get("mac", ""), ed25519=seals.get("ed25519", ""))


def make_passport(
    score: Score,
    reference: Any,
    model: Any,
    *,
    measure: Measure | str = MAUVE_STAR,
    embedder: AnyEmbedder | str | None = None,
    key: str | bytes | None = None,
) -> Passport:
    """The passport of a score, from the samples that it was computed from.

    The counts of all repeats are computed again, with the seed of the score, and must give the same score. The file
    holds no sample, feature or id. It reveals how many samples fell into each bin, and the held-out score of each
    sample.

    Parameters
    ----------
    score : Score
    reference :
        The reference that `score` was called with.
    model :
        The model's samples that `score` was called with.
    measure :
        The measure that `score` was called with. It must have bins, and a smoothing and a divergence with names.
    embedder :
        The embedder that `score` was called with.
    key : str, bytes or None
        A secret, with which others who have it can check who made the passport (HMAC-SHA256). Or a private key of
        Ed25519 in PEM form, so that the public key is enough to check it. Without a key, the digest shows damage and
        careless changes, but not who made the file.

    Examples
    --------
    >>> from mallow import score
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(1000, 4)), rng.normal(0.3, 1.0, size=(1000, 4))
    >>> result = score(x, y, repeats=2)
    >>> passport = make_passport(result, x, y)
    >>> passport.recompute_published()["mauve"] == result.mauve
    True
    """
    measure = find_measure(measure)
    sides = embed_all({"reference": reference, "model": model}, embedder, prompts="joint")
    x, y = (samples.load() for samples in sides.values())
    measure = measure_for(measure, x)
    estimator, evidence = measure.estimator, score.evidence
    smooth = getattr(getattr(estimator, "smoothing", None), "__name__", "")
    if (
        not isinstance(estimator, Quantize)
        or smooth not in smoothing.__all__
        or measure.divergence.name not in DIVERGENCES
    ):
        raise InputError(
            f"`measure` must have bins, and a smoothing and a divergence that have names; got {measure!r}. MAUVE_STAR "
            "has them."
        )
    if evidence is None:
        raise InputError(
            "`score` must have held-out evidence. The score of a Monitor has none. Score the samples themselves."
        )
    if not score.is_published:
        raise InputError("`score` must have a published score. With style or texture (--fast) there is none.")
    prepared = estimator.prepare(*pair_points(x, y))
    runs = run_repeats(measure, prepared, len(score.values["mauve"]), score.signature.rng)
    if settle(summary_values(measure, runs)) != score.values:
        raise InputError(
            "`score` must be the score of these samples with this measure and embedder, but they give a different one."
        )
    partitions = [masses.partition for masses in runs if masses.partition is not None]
    reduction, kinds = prepared.reduction, sorted({caveat.kind for caveat in score.caveats})
    codebook = Codebook(partitions[0].centres, None if reduction is None else reduction.projection)
    return Passport(
        published={name: float(getattr(score, name)) for name in SUMMARIES},
        certified=score.certified,
        p_value=score.p_value,
        reference_counts=tuple(partition.p_counts.astype(np.int64) for partition in partitions),
        model_counts=tuple(partition.q_counts.astype(np.int64) for partition in partitions),
        smoothing=smooth,
        divergence=measure.divergence.name,
        scale=measure.area_scale,
        codebook=codebook if estimator.method is None and estimator.codebook is None else None,
        evidence=_anonymous(evidence),
        signature=score.signature,
        caveats=tuple(Caveat(kind, f"the score has a caveat of the kind “{kind}”.") for kind in kinds),
    ).seal(key)


def _anonymous(evidence: Evidence) -> Evidence:
    """The evidence with units that are numbered from 0 and have no keys, which are hashes of ids."""
    _, number = np.unique(np.concatenate([evidence.reference_units, evidence.model_units]), return_inverse=True)
    cut = len(evidence.reference_units)
    count = int(number.max()) + 1
    return replace(
        evidence,
        reference_units=number[:cut].astype(np.int64),
        model_units=number[cut:].astype(np.int64),
        keys=np.arange(count, dtype=np.uint64),
    )


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
