"""A passport checked: seals, and every number that its sums allow to recompute."""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

from mallow._files import parse_json, read_text
from mallow.errors import Caveat, InputError
from mallow.evaluate._passport import Passport, canonical_digest, close, signed_digest
from mallow.evidence import SUMMARIES
from mallow.results import Result, TableData, draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
