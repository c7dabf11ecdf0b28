"""A passport: a small file from which anyone recomputes a score without the data, and sees if a digit was changed."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mallow._files import parse_json, read_text
from mallow.embed import AnyEmbedder, embed_all
from mallow.engine import settle
from mallow.errors import Caveat, InputError
from mallow.estimate import Codebook, Quantize
from mallow.evaluate._run import run_repeats, summary_values
from mallow.evaluate._score import Score
from mallow.evidence import MAUVE_STAR, SUMMARIES, Evidence, Measure, Signature, measure_for, pair_points
from mallow.results import Estimate, Result, TableData, draw
from mallow.theory import DIVERGENCES, smoothing

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_SEALS = ("digest", "mac")  # everything else is covered by them


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
    reference_counts, model_counts : tuple of arrays
        How many samples of each side fell into each bin, in every repeat.
    smoothing, divergence : str
        The names of the smoothing of the counts and of the divergence.
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
    caveats: tuple[Caveat, ...] = ()

    def __repr__(self) -> str:
        return f"Passport(mauve={self.published['mauve']:.4f}, digest={self.digest[:12]}…)"

    def __str__(self) -> str:
        sealed = "SHA-256 and HMAC" if self.mac else "SHA-256"
        sizes = f"{self.signature.n:,} and {self.signature.m:,} samples"
        head = f"Passport of a score of {sizes}, sealed by {sealed}: {self.digest}"
        caveats = (f"caveat: {line}" for line in self.caveat_lines())
        return "\n".join([head, "", self.table(), "", str(self.signature), *caveats])

    @property
    def measure(self) -> Measure:
        """A measure that turns the counts into the published score; its bins are not those of the data."""
        own = getattr(smoothing, self.smoothing, None)
        if self.smoothing not in smoothing.__all__ or self.divergence not in DIVERGENCES or not callable(own):
            raise InputError(f"a smoothing {self.smoothing!r} or a divergence {self.divergence!r} is not known here.")
        return Measure(Quantize(smoothing=own), DIVERGENCES[self.divergence], self.scale)

    def recompute_published(self) -> dict[str, float]:
        """The three summaries from the counts."""
        measure, each = self.measure, []
        for p_counts, q_counts in zip(self.reference_counts, self.model_counts, strict=True):
            each.append(measure.summarise_counts(p_counts.astype(np.float64), q_counts.astype(np.float64)))
        return {name: settle(float(np.mean([float(one[name]) for one in each]))) for name in SUMMARIES}

    def recompute_certified(self) -> dict[str, Estimate]:
        """What is certified, from the held-out scores and their units."""
        return self.evidence.certify(self.measure.divergence, self.scale).estimates

    def _table(self) -> TableData:
        rows = []
        for name in SUMMARIES:
            one = self.certified[name]
            rows.append([name, f"{self.published[name]:.4f}", f"{one.value:.4f}", f"{one.low:.4f} to {one.high:.4f}"])
        return TableData(["", "published", "certified", "95 % limits"], rows)

    def _records(self) -> list[dict[str, Any]]:
        return [
            {"summary": name, "published": self.published[name], "certified": self.certified[name].value}
            for name in SUMMARIES
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the certified summaries with their limits beside zero; returns the axes."""
        ax = draw.axes(ax)
        rows = {name: (one.value, one.low, one.high) for name, one in self.certified.items()}
        draw.intervals(ax, rows, "certified value, with its limit at 95 % confidence")
        return ax

    def seal(self, key: str | bytes | None = None) -> Passport:
        """The same passport with the digest of its content and, with a key, an HMAC."""
        return replace(self, digest=canonical_digest(self.to_dict()), mac=signed_digest(self.to_dict(), key))


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
    reference, model, measure, embedder :
        Those that `score` was called with; the measure has to have bins, with a smoothing and a divergence that have
        names.
    key : str, bytes or None
        A secret: who has it can tell that the passport was made with it (HMAC-SHA256). Without one, the digest shows
        damage and careless changes, and not who made the file.

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
    sides = embed_all({"reference": reference, "model": model}, embedder)
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
            "`score` must have held-out evidence; that of a Monitor has none. Score the samples themselves."
        )
    if not score.is_published:
        raise InputError("`score` must have a published score; that of style or texture (--fast) has none.")
    prepared = estimator.prepare(*pair_points(x, y))
    runs = run_repeats(measure, prepared, len(score.values["mauve"]), score.signature.rng)
    if settle(summary_values(measure, runs)) != score.values:
        raise InputError(
            "`score` must be that of these samples, with this measure and embedder; they give another one."
        )
    partitions = [masses.partition for masses in runs if masses.partition is not None]
    reduction, kinds = prepared.reduction, sorted({caveat.kind for caveat in score.caveats})
    codebook = Codebook(partitions[0].centres, None if reduction is None else reduction.projection)
    return Passport(
        published={name: float(getattr(score, name)) for name in SUMMARIES},
        certified=score.certified,
        p_value=score.p_value,
        reference_counts=tuple(one.p_counts.astype(np.int64) for one in partitions),
        model_counts=tuple(one.q_counts.astype(np.int64) for one in partitions),
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


def signed_digest(data: Mapping[str, Any], key: str | bytes | None) -> str:
    """HMAC-SHA256 of the same; "" without a key."""
    if key is None:
        return ""
    secret = key.encode() if isinstance(key, str) else key
    if not secret:
        raise InputError("`key` must not be empty. Pass a long random secret, or None.")
    return hmac.new(secret, _canonical(data), hashlib.sha256).hexdigest()


def _canonical(data: Mapping[str, Any]) -> bytes:
    content = {name: value for name, value in data.items() if name not in _SEALS}
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=True).encode()


def close(first: float, second: float) -> bool:
    """Whether two numbers are the same up to rounding on another processor."""
    return math.isclose(first, second, rel_tol=1e-8, abs_tol=1e-12)


NOT_RECOMPUTED = (
    "the p-value (it needs the features)",
    "the interval of other draws, the bias-corrected value and the self-score",
    "that counts and held-out scores come from the data and the embedder that the signature names",
)
"""What a passport does not prove."""


@dataclass(frozen=True)
class Finding:
    """One thing that was checked: what the file says, what was found, and whether they agree."""

    what: str
    recorded: str
    found: str
    agrees: bool


@dataclass(frozen=True)
class PassportCheck(Result):
    """What the check of a passport found.

    Attributes
    ----------
    findings : tuple of Finding
    digest : str
        As the file says.
    caveats : tuple of Caveat
        Those of the passport.
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
    def valid(self) -> bool:
        """Whether everything agrees."""
        return all(one.agrees for one in self.findings)

    @property
    def verdict(self) -> str:
        """Whether the passport is what it says, in one sentence."""
        wrong = [one.what for one in self.findings if not one.agrees]
        if wrong:
            return f"The passport is NOT valid: {', '.join(wrong)} {'does' if len(wrong) == 1 else 'do'} not agree."
        return f"The passport is valid: all {len(self.findings)} checks agree."

    def _table(self) -> TableData:
        rows = [[one.what, one.recorded, one.found, "yes" if one.agrees else "NO"] for one in self.findings]
        return TableData(["", "recorded", "recomputed", "agrees"], rows)

    def _records(self) -> list[dict[str, Any]]:
        return [vars(one) for one in self.findings]

    def _also(self) -> dict[str, Any]:
        return {"verdict": self.verdict, "valid": self.valid, "not_recomputed": list(NOT_RECOMPUTED)}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw which checks agree, 1 or 0; returns the axes."""
        ax = draw.axes(ax)
        ax.barh([one.what for one in self.findings], [float(one.agrees) for one in self.findings])
        ax.set_xlabel("agrees")
        return ax


def verify_passport(
    passport: str | PathLike[str] | Mapping[str, Any] | Passport, *, key: str | bytes | None = None
) -> PassportCheck:
    """Check a passport: its digest, its HMAC where a key is given, and all numbers that its sums allow to recompute.

    Parameters
    ----------
    passport : path, dict or Passport
        The file that `make_passport` and ``mallow score --passport`` wrote, what is in it, or the value itself.
    key : str, bytes or None
        The secret that it was sealed with. Without it, the HMAC is not checked.

    Examples
    --------
    >>> import numpy as np
    >>> from mallow import make_passport, score
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(1000, 4)), rng.normal(0.3, 1.0, size=(1000, 4))
    >>> data = make_passport(score(x, y, repeats=2), x, y).to_dict()
    >>> verify_passport(data).valid
    True
    >>> data["published"]["mauve"] += 0.01
    >>> print(verify_passport(data).verdict)
    The passport is NOT valid: digest, published mauve do not agree.
    """
    data = _raw(passport)
    known = Passport.from_dict(dict(data))
    findings = tuple(_check(known, data, key))
    return PassportCheck(findings, known.digest, known.caveats)


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


def _check(known: Passport, data: Mapping[str, Any], key: str | bytes | None) -> Iterator[Finding]:
    digest = canonical_digest(data)
    yield Finding("digest", known.digest[:12], digest[:12], hmac.compare_digest(known.digest.encode(), digest.encode()))
    if key is not None:
        mac = signed_digest(data, key)
        same = hmac.compare_digest(known.mac.encode(), mac.encode())
        yield Finding("HMAC", known.mac[:12] or "none", "the same" if same else "another key or content", same)
    sizes = {int(own.sum()) for own in known.reference_counts}, {int(own.sum()) for own in known.model_counts}
    counted = f"{sorted(sizes[0])} and {sorted(sizes[1])}"
    signature = known.signature
    yield Finding("samples", f"{signature.n} and {signature.m}", counted, sizes == ({signature.n}, {signature.m}))
    scores = len(known.evidence.reference_scores), len(known.evidence.model_scores)
    yield Finding(
        "held-out scores",
        f"{signature.n} and {signature.m}",
        f"{scores[0]} and {scores[1]}",
        scores == (signature.n, signature.m),
    )
    published = known.recompute_published()
    for name in SUMMARIES:
        first, second = known.published[name], published[name]
        yield Finding(f"published {name}", f"{first:.8g}", f"{second:.8g}", close(first, second))
    certified = known.recompute_certified()
    for name in SUMMARIES:
        one, other = known.certified[name], certified[name]
        same = all(close(getattr(one, part), getattr(other, part)) for part in ("value", "low", "high"))
        yield Finding(f"certified {name}", str(one), str(other), same)
    yield Finding(
        "p-value",
        f"{known.p_value:.4g}",
        f"{known.evidence.test.p_value:.4g} (recorded twice)",
        known.p_value == known.evidence.test.p_value,
    )
