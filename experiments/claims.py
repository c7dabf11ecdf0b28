"""Verdicts on what the paper says: holds, does not hold, or cannot be decided.

Every claim is decided twice: by MAUVE* with its noise (the resampled texts and the clustering, two standard errors), and by held-out evidence (the
differences of `mallow.compare`, 95%, after Holm's correction). A claim about another measure has its own verdict in the column *measure*; what MAUVE* and
the evidence find of the same systems stands beside it. A claim
that something rises or falls over several systems is judged at every step (`monotone`). Nothing is decided by the sign of a difference alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from printed import numbers
from scipy.stats import norm, spearmanr
from synthetic import rounded

from mallow import Comparison
from mallow.evidence import holm

HOLDS, FAILS, NOISE = "holds", "does not hold", "cannot be decided"
REPEATS = 5
DIVERGENCES = (  # rows of the table of all measures that table:fdiv is about, beside MAUVE* KL
    "FI KL",
    "Mid KL",
    "MAUVE* χ²",
    "Mid χ²",
    "TV*",
    "Hellinger²*",
    "Mid TV",
    "Mid Hellinger²",
    "Mid JS",
    "Mid Le Cam",
    "MAUVE* JS",
    "MAUVE* Le Cam",
)
AGREEMENT = {  # label → the least ρ with MAUVE* of its row → measure → printed: with MAUVE*, and with people (BT/human-like)
    "table:fdiv": (
        0.99,
        {
            "FI KL": ("0.99", "0.929"),
            "Mid KL": ("1.0", "0.857"),
            "MAUVE* χ²": ("1.0", "0.857"),
            "Mid χ²": ("1.0", "0.857"),
            "TV*": ("1.0", "0.857"),
            "Hellinger²*": ("1.0", "0.857"),
        },
    ),
    "table:ot-corr": (
        0.95,
        {
            "transport": ("0.954", "0.810"),
            "Fréchet distance": ("0.997", "0.857"),
            "quantised transport": ("0.980", "0.810"),
            "MAUVE_OT": ("0.983", "0.810"),
            "MAUVE_OT bary": ("0.980", "0.857"),
        },
    ),
}
TRANSPORT = ("transport", "Fréchet distance", "quantised transport", "entropic transport", "MAUVE_OT", "MAUVE_OT bary")


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and what is found here by each kind of evidence."""

    label: str
    text: str
    verdicts: Mapping[str, str]
    detail: str = ""


def verdict(difference: float, error: float) -> str:
    """Of a difference that should be positive, with its standard error."""
    if abs(difference) <= 1.96 * error:
        return NOISE
    return HOLDS if difference > 0 else FAILS


def standard_errors(comparison: Comparison) -> dict[str, float]:
    """Of MAUVE* of each system: another draw of texts, and the mean over so many clusterings; 0 for an estimator without both."""
    return {
        name: float(np.sqrt(parts.get("sampling", 0.0) + parts.get("clustering", 0.0) / REPEATS))
        for name, parts in comparison.variance.items()
    }


Measured = Mapping[str, tuple[float, float]]
"""System → a value and its standard error."""


def published(comparison: Comparison) -> Measured:
    """MAUVE* of each system."""
    errors = standard_errors(comparison)
    return {name: (score.mauve, errors[name]) for name, score in comparison.scores.items()}


def evidence(comparison: Comparison) -> Measured:
    """The certified area of each system; its error follows from the limit that is certified, value · exp(1.645 error / value)."""
    found = {}
    for name, score in comparison.scores.items():
        one = score.certified["mauve"]
        found[name] = one.value, one.value * float(np.log(one.high / one.value)) / 1.645
    return found


def rank_agreement(one: Measured, other: Measured, draws: int = 200) -> tuple[float, float]:
    """Spearman's ρ of two measures over the systems that both have, and how far it moves if both are measured again."""
    names = [name for name in one if name in other and np.isfinite(one[name][0])]
    sides = [np.array([each[name] for name in names]).T for each in (one, other)]  # (2, systems): values, errors
    rng = np.random.default_rng(0)
    again = [
        spearmanr(*(values + errors * rng.standard_normal(len(names)) for values, errors in sides)).statistic
        for _ in range(draws)
    ]
    return float(spearmanr(sides[0][0], sides[1][0]).statistic), float(np.std(again, ddof=1))


def paired_rank_error(one: Mapping[str, Sequence[float]], other: Mapping[str, Sequence[float]]) -> float:
    """Standard error of ρ between two measures of the same texts, from its spread over disjoint parts: system → value on each part."""
    names = [name for name in one if np.isfinite(one[name]).all()]
    parts = [
        spearmanr(a, b).statistic
        for a, b in zip(*(zip(*(each[name] for name in names), strict=True) for each in (one, other)), strict=True)
    ]
    return error_of_mean(parts)


def agrees(one: Measured, comparison: Comparison, least: float) -> tuple[dict[str, str], str]:
    """Whether a measure, larger for better systems, ranks as MAUVE* and as held-out evidence do: verdicts on ρ ≥ least, and both ρ in words."""
    both = {
        "MAUVE*": rank_agreement(one, published(comparison)),
        "held-out": rank_agreement(one, evidence(comparison)),
    }
    verdicts = {kind: verdict(rho - least, error) for kind, (rho, error) in both.items()}
    return verdicts, "; ".join(f"ρ = {rho:.3f} ± {error:.3f} with {kind}" for kind, (rho, error) in both.items())


Values = Mapping[str, float]
"""Measure → value."""


def rank_agreements(
    values: Mapping[str, Values], parts: Mapping[str, Sequence[Values]], ideal: Values, scores: Comparison
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    """Of all measures of a table (system → values, also on disjoint parts of the texts): their standard errors by system, and how each ranks the
    systems by their distance from the ideal value, beside MAUVE* of KL and beside held-out evidence."""
    errors = {
        name: {each: error_of_mean([part[each] for part in own]) for each in ideal} for name, own in parts.items()
    }
    off = {each: [abs(values[name][each] - best) for name in values] for each, best in ideal.items()}
    part_off = {
        each: {name: [abs(part[each] - best) for part in parts[name]] for name in values}
        for each, best in ideal.items()
    }
    agreement = {}
    for each in ideal:
        near = {name: (-value, errors[name][each]) for name, value in zip(values, off[each], strict=True)}
        rho, rho_error = rank_agreement(near, evidence(scores))
        agreement[each] = {
            "with MAUVE*": float(spearmanr(off[each], off["MAUVE* KL"]).statistic),
            "± (MAUVE*)": paired_rank_error(part_off[each], part_off["MAUVE* KL"]),
            "with held-out": rho,
            "± (held-out)": rho_error,
        }
    return errors, agreement


def agreement_claims(agreement: Mapping[str, Values]) -> list[Claim]:
    """The rows of the paper's tables of correlations; held-out evidence stands in place of people."""
    return [
        Claim(
            label,
            f"{each} agrees with MAUVE* (ρ ≥ {least}; paper: {mauve}) and with people (ρ ≥ {people}, printed for human-like; here held-out evidence)",
            agreement_verdicts(agreement[each], least, float(people)),
            agreement_text(agreement[each]),
        )
        for label, (least, row) in AGREEMENT.items()
        for each, (mauve, people) in row.items()
    ]


def comparable(verdicts: Mapping[str, str]) -> dict[str, str]:
    """The verdicts on "no difference can be shown", from those on a difference."""
    return {kind: HOLDS if said == NOISE else FAILS for kind, said in verdicts.items()}


def agreement_verdicts(own: Values, least: float, least_held_out: float) -> dict[str, str]:
    """On ρ ≥ least, with MAUVE* and with held-out evidence."""
    return {
        "MAUVE*": verdict(own["with MAUVE*"] - least, own["± (MAUVE*)"]),
        "held-out": verdict(own["with held-out"] - least_held_out, own["± (held-out)"]),
    }


def agreement_text(own: Values) -> str:
    """Both correlations of a measure, with their errors."""
    return "; ".join(
        f"ρ = {own[f'with {kind}']:.3f} ± {own[f'± ({kind})']:.3f} with {kind}" for kind in ("MAUVE*", "held-out")
    )


def above(comparison: Comparison, better: str, worse: str) -> dict[str, str]:
    """Whether one system is nearer to the reference than another."""
    errors = standard_errors(comparison)
    gap = comparison.scores[better].mauve - comparison.scores[worse].mauve
    found = {"MAUVE*": verdict(gap, float(np.hypot(errors[better], errors[worse])))}
    for one in comparison.differences:
        if one.systems == {better, worse}:
            seen = NOISE if not one.significant else HOLDS if one.better == better else FAILS
            found["held-out"] = seen
    return found


def pair_text(comparison: Comparison, better: str, worse: str) -> str:
    """MAUVE* of two systems, and what it is at most by held-out evidence."""
    one, other = comparison.scores[better], comparison.scores[worse]
    limits = one.certified["mauve"].high, other.certified["mauve"].high
    return f"{one.mauve:.3f} and {other.mauve:.3f}; certified at most {limits[0]:.3f} and {limits[1]:.3f}"


def rising(comparison: Comparison, names: Sequence[str]) -> dict[str, str]:
    """Whether each system is nearer than the one before, by MAUVE* and by the certified area: see `monotone`."""
    return rising_values(published(comparison), evidence(comparison), names)


def rising_values(mauve: Measured, certified: Measured, names: Sequence[str]) -> dict[str, str]:
    """`rising` from values and errors, such as those that a study has stored."""
    return {
        kind: monotone(*zip(*(one[name] for name in names), strict=True))
        for kind, one in (("MAUVE*", mauve), ("held-out", certified))
    }


def all_above(comparison: Comparison, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Whether in each pair the first system is nearer to the reference than the second; MAUVE* after Holm's correction for the pairs, as evidence is for all."""
    pairs, errors = list(pairs), standard_errors(comparison)
    gaps = [comparison.scores[better].mauve - comparison.scores[worse].mauve for better, worse in pairs]
    found = {"MAUVE*": all_positive(gaps, [np.hypot(errors[better], errors[worse]) for better, worse in pairs])}
    proven = [above(comparison, *pair) for pair in pairs]
    return found | ({"held-out": every(one["held-out"] for one in proven)} if "held-out" in proven[0] else {})


def every(verdicts: Iterable[str]) -> str:
    """One verdict on several claims together: one that is refuted refutes all."""
    said = set(verdicts)
    return FAILS if FAILS in said else NOISE if NOISE in said else HOLDS


def favours(values: Mapping[str, Sequence[float]], wanted: str) -> str:
    """Whether a measure is lowest for the wanted system: system → its values on the same parts of the data."""
    gaps = [np.subtract(own, values[wanted]) for name, own in values.items() if name != wanted]
    return all_positive([gap.mean() for gap in gaps], [error_of_mean(gap) for gap in gaps])


def monotone(values: Sequence[float], errors: Sequence[float]) -> str:
    """Whether numbers rise at every step, with their standard errors: `all_positive` of the steps.

    Errors are taken as independent, which is cautious for systems that share a reference.
    """
    return all_positive(np.diff(np.asarray(values, dtype=float)), np.hypot(errors[1:], errors[:-1]))


def all_positive(differences: Sequence[float], errors: Sequence[float]) -> str:
    """Whether all of several differences are positive, with their standard errors.

    Each is a two-sided test at the 5% level after Holm's correction for their number. One that is clearly negative refutes the claim; it holds if each is
    clearly positive. A tie, or one that is not clear, leaves it undecided.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        p_values = np.nan_to_num(
            2 * norm.sf(np.abs(differences) / np.asarray(errors)), nan=1.0
        )  # a tie without errors is 0/0
    return every(
        NOISE if p > 0.05 else HOLDS if one > 0 else FAILS for one, p in zip(differences, holm(p_values), strict=True)
    )


def trend(kind: str, quality: Sequence[float], errors: Sequence[float]) -> str:
    """Whether quality "falls" or "rises" at every step, is "not monotone" (both a clear rise and a clear fall), or "stays" (no step is clear)."""
    falls, rises = monotone(np.negative(quality), errors), monotone(quality, errors)
    if kind == "stays":
        return FAILS if FAILS in (falls, rises) else HOLDS
    if kind == "not monotone":
        return FAILS if HOLDS in (falls, rises) else HOLDS if falls == rises == FAILS else NOISE
    return {"falls": falls, "rises": rises}[kind]


FOLDS = 4


def fold_values(measure: Callable[[np.ndarray, np.ndarray], float], x: np.ndarray, y: np.ndarray) -> list[float]:
    """A measure of two samples on disjoint parts of both."""
    return [measure(*part) for part in zip(np.array_split(x, FOLDS), np.array_split(y, FOLDS), strict=True)]


def fold_error(measure: Callable[[np.ndarray, np.ndarray], float], x: np.ndarray, y: np.ndarray) -> float:
    """Standard error of a measure of two samples, from its spread over disjoint parts of both."""
    return error_of_mean(fold_values(measure, x, y))


def error_of_mean(values: Sequence[float]) -> float:
    """Standard error of the mean of independent values."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def claims_table(claims: Iterable[Claim]) -> str:
    """The claims with what the paper prints, where it prints numbers for the decoders of a claim."""
    claims = list(claims)
    used = {kind for claim in claims for kind in claim.verdicts}
    kinds = [kind for kind in ("MAUVE*", "held-out", "measure") if kind in used]
    cited = [numbers(claim.label, claim.text) for claim in claims]
    columns = [*(["it prints"] if any(cited) else []), *kinds]
    rows = [["label", "the paper says", *columns, "here"], ["---"] * (len(columns) + 3)]
    for claim, printed in zip(claims, cited, strict=True):
        cells = [printed] if any(cited) else []
        verdicts = [claim.verdicts.get(kind, "") for kind in kinds]
        rows.append([f"`{claim.label}`", claim.text, *cells, *verdicts, claim.detail or ""])
    return markdown(rows)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table; the second row is the rule."""
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def grid(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of names and numbers; numbers have three significant digits or more."""
    return markdown(
        [list(head), ["---", *["---:"] * (len(head) - 1)], *([_cell(cell) for cell in row] for row in rows)]
    )


def _cell(value: object) -> str:
    if isinstance(value, (float, np.floating)):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"
    return str(value)


def write(script: str, name: str, results: Mapping[str, object], page: str) -> None:
    """NAME.json, rounded to five digits, and NAME.md beside the script."""
    home = Path(script).resolve().parent
    (home / f"{name}.json").write_text(json.dumps(rounded(results), indent=1, ensure_ascii=False) + "\n")
    (home / f"{name}.md").write_text(page)
    print(page)
