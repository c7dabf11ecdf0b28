"""Is there one answer? Twelve seeds on the same samples, and rows in any order.

    python experiments/honesty/seeds.py     about two minutes on one core with the features cached

For each pair: the standard deviation over 12 seeds of z of the certified mid-point (its value over its standard error), at most 0.3 is allowed; the
certified area and its limit; the range of the p-value and whether its verdict at 5 % is always the same. For pairs of systems the same for z of
their difference. Then the rows are put into another order (pairs stay pairs). The seed moves folds, partitions and permutations.
Writes seeds.json and seeds.md beside this file.
"""

from __future__ import annotations

import numpy as np
import settings
from scipy.stats import norm
from settings import LEVEL, evidence_of, learn

from mallow.evidence import difference_between
from mallow.samples import Samples
from mallow.theory import KL

SEEDS = range(12)
ALLOWED = 0.3
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
}


def one_seed(sets: list[Samples], seed: int) -> dict[str, list[float]]:
    learner = learn(*sets, seed=seed)
    seen: dict[str, list[float]] = {"z": [], "area": [], "limit": [], "p": []}
    certificates = []
    for place in range(1, len(sets)):
        evidence, certificate = evidence_of(learner, place, seed=seed)
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


def reordered(sets: list[Samples]) -> list[Samples]:
    """Every set in an order of its own, if ids tell what belongs together."""
    rng = np.random.default_rng(77)
    return [settings.choose(each, rng.permutation(len(each.features)), ids=True) for each in sets]


def measure(sets: list[Samples]) -> dict[str, object]:
    runs = [one_seed(sets, seed) for seed in SEEDS]
    other = one_seed(reordered(sets), SEEDS[0])
    row: dict[str, object] = {
        "change by order": {key: float(np.max(np.abs(np.subtract(other[key], runs[0][key])))) for key in other}
    }
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
        "# One answer: mean ± standard deviation over 12 seeds (0 to 11) on the same samples",
        "",
        f"Written by `python experiments/honesty/seeds.py`. Allowed: a standard deviation of any z of {ALLOWED}. *z*: of the certified mid-point, one for each system. "
        "*p*: least and most over the seeds. *difference*: z of the area, z of the mid-point. *order*: the largest change of z, and of p, when rows are "
        "put into another order.",
        "",
        "| samples | z | area | limit of the area | p | difference, z | order: z, p, difference z |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in results.items():
        order = row["change by order"]
        changes = ", ".join(f"{order[key]:.2g}" for key in ("z", "p", "difference z") if key in order)
        lines.append(
            f"| {name} | {cells(row, 'z')} | {cells(row, 'area', '{mean:.3f} ± {deviation:.3f}')} | "
            f"{cells(row, 'limit', '{mean:.3f} ± {deviation:.3f}')} | {cells(row, 'p', '{least:.2g} to {most:.2g}')} | "
            f"{cells(row, 'difference z')} | {changes} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    results = {}
    for name, build in CASES.items():
        results[name] = measure(build())
        print(name, results[name], flush=True)
    settings.save("seeds.json", results)
    (settings.HERE / "seeds.md").write_text(report(settings.load("seeds.json")))


if __name__ == "__main__":
    main()
