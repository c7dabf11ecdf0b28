"""The check of a passport: its seals, and all numbers that can be recomputed from it."""

from __future__ import annotations

import hmac
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar

import numpy as np

from mallow._files import parse_json, read_text
from mallow.errors import Caveat, InputError
from mallow.evaluate._passport import SEAL_NAMES, Passport, as_bytes, canonical_digest, is_signed, seal_of_key
from mallow.evidence import LEVEL, SUMMARIES, certify
from mallow.results import Axes, Result, TableData, draw


def close(first: float, second: float) -> bool:
    """Whether two numbers are the same up to rounding on different processors."""
    return math.isclose(first, second, rel_tol=1e-8, abs_tol=1e-12)


NOT_RECOMPUTED = (
    "the p-value (it needs the features)",
    "the interval of repeat samples, the bias-corrected value and the self-score",
    "that counts and held-out scores come from the data, the embedder and the seed that the signature names",
)
"""What a passport does not prove."""


@dataclass(frozen=True)
class Finding:
    """One check: the recorded value, the recomputed value, and whether they agree; None if not checked."""

    what: str
    recorded: str
    found: str
    agrees: bool | None


@dataclass(frozen=True)
class PassportCheck(Result):
    """The result of checking a passport.

    Attributes
    ----------
    findings : tuple of Finding
    digest : str
        The digest in the file.
    caveats : tuple of Caveat
        The caveats of the passport, and values that are possible but suspicious.
    """

    KIND: ClassVar[str] = "passport check"
    not_recomputed: ClassVar[tuple[str, ...]] = NOT_RECOMPUTED
    ALSO = ("verdict", "consistent", "signature", "not_recomputed")

    findings: tuple[Finding, ...]
    digest: str
    caveats: tuple[Caveat, ...] = ()

    def __str__(self) -> str:
        lines = [self.verdict, "", self.table(), "", "Not recomputed, since the data are not in the file:"]
        lines += [f"- {item}" for item in NOT_RECOMPUTED]
        return self._with_caveats(lines)

    @property
    def consistent(self) -> bool:
        """Whether everything that was checked agrees."""
        return all(finding.agrees is not False for finding in self.findings)

    @property
    def signature(self) -> str:
        """ "checked" with the right key, "wrong" with a different key, "not checked" without a key, or "none"."""
        seals = [finding for finding in self.findings if finding.what in SEAL_NAMES.values()]
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
        """The verdict on the passport, in one sentence."""
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
    """Check a passport: its digest, its signature if a key is given, and everything that can be recomputed.

    All numbers are computed again from the counts and the held-out scores. The measure, the sizes, the bins and the
    number of repeats must agree with the signature of the score.

    Parameters
    ----------
    passport : path, dict or Passport
        The file from `make_passport` or ``mallow score --passport``, its content, or the value itself.
    key : str, bytes or None
        The secret that it was sealed with, or the public key of Ed25519 in PEM form. Without a key no signature is
        checked, and anyone could have made a consistent file.

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
    opened = Passport.from_dict(dict(data))
    findings = (*_check_seals(opened, data, as_bytes(key)), *_check_signature(opened), *_check_numbers(opened))
    return PassportCheck(findings, opened.digest, (*opened.caveats, *_find_suspicious(opened)))


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


def _check_seals(passport: Passport, data: Mapping[str, Any], key: bytes | None) -> Iterator[Finding]:
    digest = canonical_digest(data)
    same = hmac.compare_digest(passport.digest.encode(), digest.encode())
    yield Finding("digest", passport.digest[:12], digest[:12], same)
    wanted = None if key is None else seal_of_key(key)
    for name, label in SEAL_NAMES.items():
        recorded = getattr(passport, name)
        if name == wanted and key is not None:
            same = is_signed(data, key, name)
            yield Finding(label, recorded[:12] or "none", "the same" if same else "another key or content", same)
        elif recorded:
            yield Finding(label, recorded[:12], "signature present, not checked", None)


def _check_signature(passport: Passport) -> Iterator[Finding]:
    """Whether the fields agree with the signature of the score."""
    signature, evidence = passport.signature, passport.evidence
    n, m = f"{signature.n}", f"{signature.m}"
    measure = f"{passport.smoothing}, {passport.divergence}, scale={passport.scale:g}"
    parts = (f"smoothing={passport.smoothing},", f"), {passport.divergence}, scale={passport.scale:g}")
    # The scale is followed by the end or by a witness, so that 5 does not match 50.
    same = all(re.search(re.escape(part) + r"(?![\w.])", signature.measure) for part in parts)
    yield Finding("measure", measure, "as in the signature" if same else signature.measure, same)
    repeats = len(passport.reference_counts)
    yield Finding("repeats", f"{signature.repeats}", f"{repeats}", repeats == signature.repeats)
    bins = [len(counts) for counts in passport.reference_counts]
    same = bins[0] == signature.bins and (passport.codebook is None or len(passport.codebook.centres) == bins[0])
    if "method=" not in signature.measure:  # methods other than k-means may find a different number in each repeat
        same = same and len(set(bins)) == 1
    yield Finding("bins", f"{signature.bins}", f"{sorted(set(bins))}", same)
    if passport.codebook is not None:
        projection = passport.codebook.projection
        width = (passport.codebook.centres if projection is None else projection.axes).shape[-1]
        yield Finding("width of features", f"{signature.width}", f"{width}", width == signature.width)
    sizes = [{int(counts.sum()) for counts in side} for side in (passport.reference_counts, passport.model_counts)]
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


def _check_numbers(passport: Passport) -> Iterator[Finding]:
    """Whether the numbers follow from the counts and the held-out scores."""
    published = passport.recompute_published()
    for name in SUMMARIES:
        first, second = passport.published[name], published[name]
        yield Finding(f"published {name}", f"{first:.8g}", f"{second:.8g}", close(first, second))
    certified = passport.recompute_certified()
    for name in SUMMARIES:
        recorded, recomputed = passport.certified[name], certified[name]
        same = all(close(getattr(recorded, part), getattr(recomputed, part)) for part in ("value", "low", "high"))
        yield Finding(f"certified {name}", str(recorded), str(recomputed), same)
    test = passport.evidence.test
    least = 1.0 / (max(0, test.permutations) + 1)
    possible = test.permutations >= 0 and least * (1 - 1e-9) <= passport.p_value <= 1.0
    possible = possible and all(0.0 < value <= 1.0 for value in test.statistics.values())
    expected = f"{test.p_value:.4g} (recorded twice), at least {least:.4g}"
    yield Finding("p-value", f"{passport.p_value:.4g}", expected, possible and passport.p_value == test.p_value)


def _find_suspicious(passport: Passport) -> Iterator[Caveat]:
    """Values that are possible, but that a forged passport would also have."""
    evidence, measure = passport.evidence, passport.measure
    scores = evidence.reference_scores, evidence.model_scores
    by_scores = certify(*scores, evidence.units, measure.divergence, passport.scale).estimates["mauve"]
    if evidence.test.p_value >= LEVEL and by_scores.high < 1.0:
        yield Caveat(
            "recorded p-value",
            f"the recorded p-value, {passport.p_value:.3g}, cancels the limits: by the held-out scores themselves, "
            f"mauve would be at most {by_scores.high:.4f}.",
            values={"p_value": passport.p_value, "high": by_scores.high},
        )
    pairs = list(zip(passport.reference_counts, passport.model_counts, strict=True))
    if all(len(first) > 1 and np.array_equal(first, second) for first, second in pairs) and by_scores.high < 1.0:
        yield Caveat(
            "copied counts",
            "both sides have the same counts in every bin of every repeat, although the held-out scores tell them "
            "apart: one side may be a copy.",
        )
    rows = {tuple(np.concatenate(pair).tolist()) for pair in pairs}
    if len(rows) < len(pairs) and "codebook=" not in passport.signature.measure:
        yield Caveat(
            "copied counts",
            f"only {len(rows)} of the {len(pairs)} repeats have different counts, although each has bins of its own: "
            "some may be copies.",
            values={"different": len(rows), "repeats": len(pairs)},
        )
