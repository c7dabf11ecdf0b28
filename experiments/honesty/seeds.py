"""Is there one answer? The same samples in twelve forms: other names of units, features times a constant, rows in another order.

    python experiments/honesty/seeds.py [NAME ...]     about two minutes on one core with the features cached; NAMEs: only these

Evidence has no seed, so that these are all that could still change it. For each pair: the standard deviation over 12 forms of z of the certified
mid-point (its value over its standard error), at most 0.2 is allowed; the certified area and its limit; the range of the p-value and whether its verdict
at 5% is always the same. For pairs of systems the same for z of their difference. Writes seeds.json and seeds.md beside this file.
"""

from __future__ import annotations

import sys

import numpy as np
import settings
from scipy.stats import norm
from settings import LEVEL, evidence_of, learn

from mallow.evidence import difference_between
from mallow.samples import Samples
from mallow.theory import KL

FORMS = range(12)
ALLOWED = 0.2
MIDPOINT = 2


def gaussian_pairs(*shifts: float, n: int = 500, width: int = 20) -> list[Samples]:
    """The reference and systems for the same prompts, ρ = .5."""
    rng = np.random.default_rng(14)
    topics = rng.normal(size=(n, width))
    names = [str(number) for number in range(n)]
    return [
        Samples(features=(topics + rng.normal(size=(n, width))) / np.sqrt(2) + shift / np.sqrt(width), ids=names)
        for shift in (0.0, *shifts)
    ]


def independent_gaussians(*shifts: float, n: int = 300, width: int = 10) -> list[Samples]:
    """The reference and systems without ids: their units are known by their content."""
    rng = np.random.default_rng(14)
    return [Samples(features=rng.normal(size=(n, width)) + shift / np.sqrt(width)) for shift in (0.0, *shifts)]


def some_prompts(*names: str, count: int) -> list[Samples]:
    """Human text and decoders on the first prompts that all have."""
    sets = [settings.webtext(name) for name in ("human", *names)]
    return [
        settings.choose(each, rows[:count], ids=True)
        for each, rows in zip(sets, settings.shared_rows(*sets), strict=True)
    ]


# name → the reference and one system, or two systems whose difference is looked at too
CASES = {
    "human against nucleus and top-k, 1,000 prompts": lambda: some_prompts("nucleus", "topk", count=1000),
    "human against typical and contrastive, 1,000 prompts": lambda: some_prompts("typical", "contrastive", count=1000),
    "human against nucleus and top-k, 300 prompts": lambda: some_prompts("nucleus", "topk", count=300),
    "human against typical and contrastive, 300 prompts": lambda: some_prompts("typical", "contrastive", count=300),
    "human documents against GPT-2 small": lambda: [
        settings.documents("human"),
        settings.documents("gpt2-small-unconditional"),
    ],
    "Gaussian pairs, shifts 0.3 and 0.5": lambda: gaussian_pairs(0.3, 0.5),
    "Gaussian pairs, no shift and no shift": lambda: gaussian_pairs(0.0, 0.0),
    "independent Gaussians, shifts 0.5 and 0.7, n = 300": lambda: independent_gaussians(0.5, 0.7),
}


def one_form(sets: list[Samples], form: int) -> dict[str, list[float]]:
    learner = learn(*settings.retell(sets, form), seed=0)
    seen: dict[str, list[float]] = {"z": [], "area": [], "limit": [], "p": []}
    certificates = []
    for place in range(1, len(sets)):
        evidence, certificate = evidence_of(learner, place, seed=0)
        certificates.append(certificate)
        error = float(certificate.errors[MIDPOINT])
        seen["z"].append(certificate.estimates["midpoint"].value / error if error > 0 else 0.0)
        seen["area"].append(certificate.estimates["mauve"].value)
        seen["limit"].append(certificate.estimates["mauve"].high)
        seen["p"].append(evidence.test.p_value)
    if len(certificates) == 2:
        difference = difference_between(learner, (1, 2), (certificates[0], certificates[1]), KL)
        seen["difference z"] = [
            float(norm.isf(difference.p_value[name] / 2) * np.sign(difference.value[name]))
            for name in ("mauve", "midpoint")
        ]
        seen["difference p"] = [difference.p_value["mauve"]]
    return seen


def measure(sets: list[Samples]) -> dict[str, object]:
    runs = [one_form(sets, form) for form in FORMS]
    row: dict[str, object] = {}
    for key in runs[0]:
        values = np.array([run[key] for run in runs])
        row[key] = {
            "mean": values.mean(axis=0),
            "deviation": values.std(axis=0, ddof=1),
            "least": values.min(axis=0),
            "most": values.max(axis=0),
        }
    for key in ("p", "difference p"):
        if key in runs[0]:
            below = np.array([run[key] for run in runs]) < LEVEL
            row[f"{key}, share below {LEVEL}"] = below.mean(axis=0)
    return row


def report(results: dict[str, dict]) -> str:
    def cells(row: dict, key: str, form: str = "{mean:.1f} ± {deviation:.2f}") -> str:
        if key not in row:
            return ""
        entries = zip(*(row[key][name] for name in ("mean", "deviation", "least", "most")), strict=True)
        return ", ".join(form.format(mean=a, deviation=b, least=c, most=d) for a, b, c, d in entries)

    lines = [
        "# One answer: mean ± standard deviation over 12 forms of the same samples",
        "",
        f"Written by `python experiments/honesty/seeds.py`. The forms differ in the names of units, a constant factor of all features, and the order of rows. Allowed: a standard deviation of any z of {ALLOWED}. "
        "*z*: of the certified mid-point, one for each system. *p*: least and most over the forms. *difference*: z of the area, z of the mid-point.",
        "",
        "| samples | z | area | limit of the area | p | difference, z |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in results.items():
        lines.append(
            f"| {name} | {cells(row, 'z')} | {cells(row, 'area', '{mean:.3f} ± {deviation:.3f}')} | "
            f"{cells(row, 'limit', '{mean:.3f} ± {deviation:.3f}')} | {cells(row, 'p', '{least:.2g} to {most:.2g}')} | "
            f"{cells(row, 'difference z')} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    known = settings.load("seeds.json") if sys.argv[1:] else {}
    for name in sys.argv[1:] or CASES:
        known[name] = measure(CASES[name]())
        print(name, known[name], flush=True)
        settings.save("seeds.json", {each: known[each] for each in CASES if each in known})
        (settings.HERE / "seeds.md").write_text(report(settings.load("seeds.json")))


if __name__ == "__main__":
    main()
