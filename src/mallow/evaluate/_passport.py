"""A passport: a small file from which anyone recomputes a score without the data, and sees if a digit was changed."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mallow._files import parse_json, read_text
from mallow._optional import optional
from mallow.embed import AnyEmbedder, embed_all
from mallow.engine import settle
from mallow.errors import Caveat, InputError
from mallow.estimate import Codebook, Quantize
from mallow.evaluate._run import run_repeats, summary_values
from mallow.evaluate._score import Score
from mallow.evidence import (
    LEVEL,
    MAUVE_STAR,
    SUMMARIES,
    Evidence,
    Measure,
    Signature,
    certify,
    measure_for,
    pair_points,
)
from mallow.results import Estimate, Result, TableData, draw
from mallow.theory import DIVERGENCES, smoothing

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_SEALS = ("digest", "mac", "ed25519")  # everything else is covered by them
_PEM = b"-----BEGIN"  # how a key of Ed25519 begins; other keys are secrets


@dataclass(frozen=True, eq=False, repr=False)
class Passport(Result):
    """What a score was computed from, without samples, features or ids.

    Attributes
    ----------
    published : dict
        The three summaries of the published estimator, means over repeats.
    certified : dict
        What held-out evidence proves, as in `Score.certified`.
    p_value : float
        Of no gap at all, by permutations of the features: recorded, and not to be recomputed from this file.
    reference_counts : tuple of arrays
        How many samples of the reference fell into each bin, in every repeat.
    model_counts : tuple of arrays
        How many samples of the model fell into each bin, in every repeat.
    smoothing : str
        The name of the smoothing of the counts.
    divergence : str
        The name of the divergence.
    scale : float
        The constant c.
    codebook : Codebook or None
        The bins of the first repeat: with it, anyone who has features can count samples of their own in the same bins.
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
        Of what kinds those of the score were; their own words may quote samples.
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
        caveats = (f"caveat: {line}" for line in self.caveat_lines())
        return "\n".join([head, "", self.table(), "", str(self.signature), *caveats])

    @property
    def measure(self) -> Measure:
        """A measure that turns the counts into the published score; its bins are not those of the data."""
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
        """What is certified, from the held-out scores and their units."""
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
        """Draw the certified summaries with their limits beside zero; returns the axes."""
        ax = draw.axes(ax)
        rows = {name: (bound.value, bound.low, bound.high) for name, bound in self.certified.items()}
        draw.intervals(ax, rows, "certified value, with its limit at 95% confidence")
        return ax

    def seal(self, key: str | bytes | None = None) -> Passport:
        """The same passport with the digest of its content and, with a key, an HMAC or a signature of Ed25519."""
        data = self.to_dict()
        seals = _sign(data, key)
        return replace(self, digest=canonical_digest(data), mac=seals.get("mac", ""), ed25519=seals.get("ed25519", ""))


def make_passport(
    score: Score,
    reference: Any,
    model: Any,
    *,
    measure: Measure = MAUVE_STAR,
    embedder: AnyEmbedder | str | None = None,
    key: str | bytes | None = None,
) -> Passport:
    """The passport of a score, from the samples that it was computed from.

    The counts of all repeats are taken again, with the seed of the score, and have to give the same score. The file
    holds no sample, feature or id; who has it knows how many samples fell into which bin, and the held-out score of
    each.

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
        A secret: whoever has it can check that the passport was made with it (HMAC-SHA256). Or a private key of Ed25519
        in PEM form: whoever has the public key can check that. Without a key, the digest shows damage and careless
        changes, and not who made the file.

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


def canonical_digest(data: Mapping[str, Any]) -> str:
    """SHA-256 of all fields but the seals, whatever their order and the white space between them."""
    return hashlib.sha256(_canonical(data)).hexdigest()


def _sign(data: Mapping[str, Any], key: str | bytes | None) -> dict[str, str]:
    """The seal that needs a key, by the name of its field; empty without a key."""
    secret = _as_bytes(key)
    if secret is None:
        return {}
    if not secret.startswith(_PEM):
        return {"mac": hmac.new(secret, _canonical(data), hashlib.sha256).hexdigest()}
    private = _load_ed25519(secret)
    if not hasattr(private, "sign"):
        raise InputError("`key` must be a private key to sign with, but this is a public one, which only checks.")
    return {"ed25519": private.sign(_canonical(data)).hex()}


def _is_signed(data: Mapping[str, Any], key: bytes, name: str) -> bool:
    """Whether the seal in the field `name` was made with a key, which for Ed25519 may be the public one."""
    seal = str(data.get(name, ""))
    if name == "mac":
        return hmac.compare_digest(seal.encode(), _sign(data, key)["mac"].encode())
    from cryptography.exceptions import InvalidSignature

    known = _load_ed25519(key)
    try:
        (known.public_key() if hasattr(known, "public_key") else known).verify(bytes.fromhex(seal), _canonical(data))
    except (InvalidSignature, ValueError):
        return False
    return True


def _as_bytes(key: str | bytes | None) -> bytes | None:
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


def close(first: float, second: float) -> bool:
    """Whether two numbers are the same up to rounding on another processor."""
    return math.isclose(first, second, rel_tol=1e-8, abs_tol=1e-12)


NOT_RECOMPUTED = (
    "the p-value (it needs the features)",
    "the interval of repeat samples, the bias-corrected value and the self-score",
    "that counts and held-out scores come from the data, the embedder and the seed that the signature names",
)
"""What a passport does not prove."""


@dataclass(frozen=True)
class Finding:
    """One thing that was checked: the recorded value, the recomputed one, and whether they agree; None: not checked."""

    what: str
    recorded: str
    found: str
    agrees: bool | None


@dataclass(frozen=True)
class PassportCheck(Result):
    """What the check of a passport found.

    Attributes
    ----------
    findings : tuple of Finding
    digest : str
        As the file says.
    caveats : tuple of Caveat
        Those of the passport, and what is possible but suspicious.
    """

    KIND: ClassVar[str] = "passport check"

    findings: tuple[Finding, ...]
    digest: str
    caveats: tuple[Caveat, ...] = ()

    def __str__(self) -> str:
        lines = [self.verdict, "", self.table(), "", "Not recomputed, since the data are not in the file:"]
        lines += [f"- {item}" for item in NOT_RECOMPUTED]
        return "\n".join([*lines, *(f"caveat: {line}" for line in self.caveat_lines())])

    @property
    def consistent(self) -> bool:
        """Whether everything that was checked agrees."""
        return all(finding.agrees is not False for finding in self.findings)

    @property
    def signature(self) -> str:
        """ "checked" with a key that fits, "wrong" with another one, "not checked" without a key, or "none"."""
        seals = [finding for finding in self.findings if finding.what in _SEAL_NAMES.values()]
        if not seals:
            return "none"
        states = {None: "not checked", True: "checked", False: "wrong"}
        return states[next((finding.agrees for finding in seals if finding.agrees is not None), None)]

    @property
    def valid(self) -> bool:
        """Whether everything agrees, and a key proves who made the passport."""
        return self.consistent and self.signature == "checked"

    @property
    def verdict(self) -> str:
        """Whether the passport is what it says, in one sentence."""
        wrong = [finding.what for finding in self.findings if finding.agrees is False]
        if wrong:
            return f"The passport is NOT valid: {', '.join(wrong)} {'does' if len(wrong) == 1 else 'do'} not agree."
        count = sum(finding.agrees is True for finding in self.findings)
        if self.valid:
            return f"The passport is valid: it was signed with this key, and all {count} checks agree."
        signed = "signature present, not checked" if self.signature == "not checked" else "no signature"
        return f"The passport is consistent: all {count} checks agree; {signed}, so that anyone may have made it."

    def _table(self) -> TableData:
        words = {True: "yes", False: "NO", None: "not checked"}
        rows = [[finding.what, finding.recorded, finding.found, words[finding.agrees]] for finding in self.findings]
        return TableData(["", "recorded", "recomputed", "agrees"], rows)

    def _records(self) -> list[dict[str, Any]]:
        return [vars(finding) for finding in self.findings]

    def _also(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "consistent": self.consistent,
            "signature": self.signature,
            "not_recomputed": list(NOT_RECOMPUTED),
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw which checks agree, 1 or 0; returns the axes."""
        ax = draw.axes(ax)
        checked = [finding for finding in self.findings if finding.agrees is not None]
        ax.barh([finding.what for finding in checked], [float(bool(finding.agrees)) for finding in checked])
        ax.set_xlabel("agrees")
        return ax


def verify_passport(
    passport: str | PathLike[str] | Mapping[str, Any] | Passport, *, key: str | bytes | None = None
) -> PassportCheck:
    """Check a passport: its digest, its signature where a key is given, and everything that can be recomputed.

    All numbers are computed again from the counts and the held-out scores; the measure, the sizes, the bins and the
    number of repeats have to be those of the signature of the score.

    Parameters
    ----------
    passport : path, dict or Passport
        The file that `make_passport` and ``mallow score --passport`` wrote, what is in it, or the value itself.
    key : str, bytes or None
        The secret that it was sealed with, or the public key of Ed25519 in PEM form. Without a key no signature is
        checked, and anyone may have made a file that is consistent.

    Examples
    --------
    >>> import numpy as np
    >>> from mallow import make_passport, score
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(1000, 4)), rng.normal(0.3, 1.0, size=(1000, 4))
    >>> data = make_passport(score(x, y, repeats=2), x, y).to_dict()
    >>> verify_passport(data).consistent
    True
    >>> data["published"]["mauve"] += 0.01
    >>> print(verify_passport(data).verdict)
    The passport is NOT valid: digest, published mauve do not agree.
    """
    data = _raw(passport)
    known = Passport.from_dict(dict(data))
    findings = (*_check_seals(known, data, _as_bytes(key)), *_check_signature(known), *_check_numbers(known))
    return PassportCheck(findings, known.digest, (*known.caveats, *_find_suspicious(known)))


def _raw(passport: Any) -> Mapping[str, Any]:
    if isinstance(passport, Passport):
        return passport.to_dict()
    if isinstance(passport, Mapping):
        return passport
    try:
        data = parse_json(read_text(passport))
    except (json.JSONDecodeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"`passport` must be a JSON file; {os.fspath(passport)} is not: {error}.") from None
    if not isinstance(data, dict):
        raise InputError(f"`passport` must be the JSON file of a passport; got {type(data).__name__}.")
    return data


_SEAL_NAMES = {"mac": "HMAC", "ed25519": "Ed25519"}


def _check_seals(known: Passport, data: Mapping[str, Any], key: bytes | None) -> Iterator[Finding]:
    digest = canonical_digest(data)
    yield Finding("digest", known.digest[:12], digest[:12], hmac.compare_digest(known.digest.encode(), digest.encode()))
    wanted = None if key is None else "ed25519" if key.startswith(_PEM) else "mac"
    for name, label in _SEAL_NAMES.items():
        recorded = getattr(known, name)
        if name == wanted and key is not None:
            same = _is_signed(data, key, name)
            yield Finding(label, recorded[:12] or "none", "the same" if same else "another key or content", same)
        elif recorded:
            yield Finding(label, recorded[:12], "signature present, not checked", None)


def _check_signature(known: Passport) -> Iterator[Finding]:
    """Whether the fields agree with the signature of the score."""
    signature, evidence = known.signature, known.evidence
    n, m = f"{signature.n}", f"{signature.m}"
    measure = f"{known.smoothing}, {known.divergence}, scale={known.scale:g}"
    parts = (f"smoothing={known.smoothing},", f"), {known.divergence}, scale={known.scale:g}")
    # What follows the scale is the end, or a witness; 5 is not 50.
    same = all(re.search(re.escape(part) + r"(?![\w.])", signature.measure) for part in parts)
    yield Finding("measure", measure, "as in the signature" if same else signature.measure, same)
    repeats = len(known.reference_counts)
    yield Finding("repeats", f"{signature.repeats}", f"{repeats}", repeats == signature.repeats)
    bins = [len(counts) for counts in known.reference_counts]
    same = bins[0] == signature.bins and (known.codebook is None or len(known.codebook.centres) == bins[0])
    if "method=" not in signature.measure:  # other methods than k-means may find another number in each repeat
        same = same and len(set(bins)) == 1
    yield Finding("bins", f"{signature.bins}", f"{sorted(set(bins))}", same)
    if known.codebook is not None:
        projection = known.codebook.projection
        width = (known.codebook.centres if projection is None else projection.axes).shape[-1]
        yield Finding("width of features", f"{signature.width}", f"{width}", width == signature.width)
    sizes = [{int(counts.sum()) for counts in side} for side in (known.reference_counts, known.model_counts)]
    counted = f"{sorted(sizes[0])} and {sorted(sizes[1])}"
    yield Finding("samples", f"{n} and {m}", counted, sizes == [{signature.n}, {signature.m}])
    scores = len(evidence.reference_scores), len(evidence.model_scores)
    same = scores == (signature.n, signature.m)
    yield Finding("held-out scores", f"{n} and {m}", f"{scores[0]} and {scores[1]}", same)
    numbers = np.unique(np.concatenate(evidence.units.sets))
    count = len(numbers)
    same = np.array_equal(numbers, np.arange(count)) and np.array_equal(evidence.keys, numbers)
    same = same and signature.units.startswith(f"{count} ")
    yield Finding("units", signature.units, f"{count}", same)
    same = evidence.tolerance == signature.tolerance
    yield Finding("tolerance", f"{signature.tolerance}", f"{evidence.tolerance}", same)


def _check_numbers(known: Passport) -> Iterator[Finding]:
    """Whether the numbers follow from the counts and the held-out scores."""
    published = known.recompute_published()
    for name in SUMMARIES:
        first, second = known.published[name], published[name]
        yield Finding(f"published {name}", f"{first:.8g}", f"{second:.8g}", close(first, second))
    certified = known.recompute_certified()
    for name in SUMMARIES:
        recorded, recomputed = known.certified[name], certified[name]
        same = all(close(getattr(recorded, part), getattr(recomputed, part)) for part in ("value", "low", "high"))
        yield Finding(f"certified {name}", str(recorded), str(recomputed), same)
    test = known.evidence.test
    least = 1.0 / (max(0, test.permutations) + 1)
    possible = test.permutations >= 0 and least * (1 - 1e-9) <= known.p_value <= 1.0
    possible = possible and all(0.0 < value <= 1.0 for value in test.statistics.values())
    found = f"{test.p_value:.4g} (recorded twice), at least {least:.4g}"
    yield Finding("p-value", f"{known.p_value:.4g}", found, possible and known.p_value == test.p_value)


def _find_suspicious(known: Passport) -> Iterator[Caveat]:
    """What can be true, but is what a forged passport would look like."""
    evidence, measure = known.evidence, known.measure
    scores = evidence.reference_scores, evidence.model_scores
    by_scores = certify(*scores, evidence.units, measure.divergence, known.scale).estimates["mauve"]
    if evidence.test.p_value >= LEVEL and by_scores.high < 1.0:
        yield Caveat(
            "recorded p-value",
            f"the recorded p-value, {known.p_value:.3g}, cancels the limits: by the held-out scores themselves, "
            f"mauve would be at most {by_scores.high:.4f}.",
            values={"p_value": known.p_value, "high": by_scores.high},
        )
    pairs = list(zip(known.reference_counts, known.model_counts, strict=True))
    if all(len(first) > 1 and np.array_equal(first, second) for first, second in pairs) and by_scores.high < 1.0:
        yield Caveat(
            "copied counts",
            "both sides have the same counts in every bin of every repeat, although the held-out scores tell them "
            "apart: one side may be a copy.",
        )
    rows = {tuple(np.concatenate(pair).tolist()) for pair in pairs}
    if len(rows) < len(pairs) and "codebook=" not in known.signature.measure:
        yield Caveat(
            "copied counts",
            f"only {len(rows)} of the {len(pairs)} repeats have different counts, although each has bins of its own: "
            "some may be copies.",
            values={"different": len(rows), "repeats": len(pairs)},
        )
