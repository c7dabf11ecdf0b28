"""String kernels over their settings, on texts of GPT-2 large (paper: sec:string-kernel, table:non-deep).

    python experiments/embedders/kernels.py       about ten minutes of processor time

Six decoders against human text on the prompts of ../shared/data/webtext-gpt2-large, tokens of GPT-2, nearest neighbours, as published: the N-gram kernel with N = 3, 4, 5 on
1,000 texts per side (the paper: 800), the subsequence kernel with N = 3, 4, 5 and λ = 0.1 to 0.9 in steps of 0.2 (the paper: 0.1) on 200 (the paper: 200). Held-out evidence of
experiments/honesty/decoders.json stands in place of human judgements, the published scores in place of MAUVE* with GPT-2. Writes kernels.json, kernels.md and kernels.png.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import HOLDS, NOISE, Claim, Measured, claims_table, every, grid, rank_agreement, verdict, write
from pictures import Panel, draw
from webtext import DECODERS, FOLDER, PUBLISHED, by_prompt

from mallow import Neighbors, area, frontier
from mallow.embed import NGramKernel, SubsequenceKernel
from mallow.models import TokenFile

HERE = Path(__file__).resolve().parent
LABEL = "table:non-deep"
SIZES, DECAYS, HALVES = (3, 4, 5), (0.1, 0.3, 0.5, 0.7, 0.9), 4
COUNTS = {"N-gram": 1000, "subsequence": 200}
PRINTED = {"N-gram": ("N = 3", 0.727, 0.500), "subsequence": ("N = 5, λ = 0.5", 0.783, 0.286)}


def value(distances: NDArray[np.float64], n: int) -> float:
    """MAUVE by nearest neighbours, with the published c = 10."""
    estimator = Neighbors()
    return float(area(frontier(estimator.from_distances(distances, n)), scale=estimator.scale))


def measured(kernel: NGramKernel | SubsequenceKernel, reference: list[str], model: list[str]) -> tuple[float, float]:
    """The value of all texts, and its standard error from random halves of both sides."""
    distances, n, rng, halves = kernel.distances(reference, model), len(reference), np.random.default_rng(0), []
    for _ in range(HALVES):
        some = [np.sort(rng.permutation(count)[: count // 2]) for count in (n, len(model))]
        rows = np.concatenate([some[0], n + some[1]])
        halves.append(value(distances[np.ix_(rows, rows)], len(some[0])))
    return value(distances, n), float(np.std(halves, ddof=1))


def held_out() -> Measured:
    """The certified area of each decoder with its error, over all spaces, one generation for each prompt."""
    kept = json.loads((HERE.parent / "honesty" / "decoders.json").read_text())["One generation for each prompt"]
    pairs = {name: kept["scores"][name]["certified"] for name in DECODERS}
    return {name: (area_, area_ * float(np.log(high / area_)) / 1.645) for name, (area_, high) in pairs.items()}


def study() -> dict[str, dict[str, dict[str, tuple[float, float]]]]:
    """Kernel → setting → decoder → value and standard error."""
    texts = {name: list(each.values()) for name, each in by_prompt().items()}
    tokenize = TokenFile(str(FOLDER.parent / "gpt2-bpe"))
    kernels = {
        "N-gram": {f"N = {n}": NGramKernel(n, tokenize=tokenize) for n in SIZES},
        "subsequence": {
            f"N = {n}, λ = {decay}": SubsequenceKernel(n, decay, tokenize=tokenize) for n in SIZES for decay in DECAYS
        },
    }
    found: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    for name, settings in kernels.items():
        count, found[name] = COUNTS[name], {}
        for setting, kernel in settings.items():
            found[name][setting] = {
                each: measured(kernel, texts["human"][:count], texts[each][:count]) for each in DECODERS
            }
            print(
                name, setting, {each: round(one, 3) for each, (one, _) in found[name][setting].items()}, file=sys.stderr
            )
    return found


def agreements(found: dict) -> dict[str, dict[str, dict[str, tuple[float, float]]]]:
    """Kernel → setting → Spearman's ρ with the published scores and with held-out evidence, and its error."""
    gold = {"published": {name: (score, 0.0) for name, score in PUBLISHED.items()}, "held-out": held_out()}
    return {
        name: {
            setting: {kind: rank_agreement(one, other) for kind, other in gold.items()} for setting, one in each.items()
        }
        for name, each in found.items()
    }


def best_setting(settings: dict[str, dict[str, tuple[float, float]]], printed: str, kind: str) -> tuple[str, str]:
    """Whether the setting that the paper reports agrees better than each of the others, and which agrees best here."""
    own, own_error = settings[printed][kind]
    others = {name: one[kind] for name, one in settings.items() if name != printed}
    said = [verdict(own - rho, float(np.hypot(error, own_error))) for rho, error in others.values()]
    best = max(others, key=lambda name: others[name][0])
    rho, error = others[best]
    return every(said), f"{kind}: {own:.3f} ± {own_error:.3f}, the best other {rho:.3f} ± {error:.3f} ({best})"


def judge(found: dict, rho: dict) -> list[Claim]:
    minilm = json.loads((HERE / "results.json").read_text())["MiniLM int8"]
    gap, noise = (minilm[key] for key in ("scores", "errors"))
    trend = {
        "MAUVE*": verdict(gap["nucleus"] - gap["greedy"], float(np.hypot(noise["nucleus"], noise["greedy"]))),
        "held-out": HOLDS if ["nucleus", "greedy"] in minilm["pairs"] else NOISE,
    }
    claims = []
    for name, (setting, mauve, people) in PRINTED.items():
        kinds = {"MAUVE*": "published", "held-out": "held-out"}
        best = {kind: best_setting(rho[name], setting, key) for kind, key in kinds.items()}
        said = {kind: one for kind, (one, _) in best.items()}
        text = f"{setting} agrees best with people, {name} kernel"
        claims.append(Claim(LABEL, text, said, "; ".join(detail for _, detail in best.values())))
        (score, error), (evidence, evidence_error) = (rho[name][setting][key] for key in kinds.values())
        said = {"MAUVE*": verdict(0.9 - score, error), "held-out": verdict(0.5 - evidence, evidence_error)}
        text = f"it ranks unlike GPT-2's embeddings (ρ < 0.9; paper: {mauve}) and unlike people (ρ ≤ 0.5; paper: {people}), {name} kernel, {setting}"
        detail = f"ρ = {score:.3f} ± {error:.3f} with the published scores, {evidence:.3f} ± {evidence_error:.3f} with held-out"
        claims.append(Claim(LABEL, text, said, detail))
        (a, a_error), (b, b_error) = (found[name][setting][each] for each in ("nucleus", "greedy"))
        text = f"nucleus sampling is above greedy decoding, {name} kernel, {setting} (paper: weakly)"
        said = {"measure": verdict(a - b, float(np.hypot(a_error, b_error)))} | trend
        claims.append(Claim("fig:embedding:non-deep", text, said, f"{a:.3f} and {b:.3f}"))
    return claims


def main() -> None:
    warnings.simplefilter("ignore")
    found = study()
    rho = agreements(found)
    claims = judge(found, rho)
    page = f"GPT-2 large under six decoders against people, tokens of GPT-2, nearest neighbours: `python experiments/embedders/kernels.py`. n = {COUNTS['N-gram']:,} per side for the N-gram kernel, "
    page += f"{COUNTS['subsequence']} for the subsequence kernel; ± standard error, from random halves of the texts. ρ: over six decoders, with the published scores (features of GPT-2 large) and with the certified area, "
    page += "in place of human judgements, ± over redrawn values. In the claims, the column MAUVE* has the published scores, and of the last claim of a kernel both columns have MiniLM.\n\n"
    rows = [
        [
            f"{name}, {setting}",
            *(f"{each[decoder][0]:.3f} ± {each[decoder][1]:.3f}" for decoder in DECODERS),
            *(
                f"{rho[name][setting][kind][0]:.3f} ± {rho[name][setting][kind][1]:.3f}"
                for kind in ("published", "held-out")
            ),
        ]
        for name, settings in found.items()
        for setting, each in settings.items()
    ]
    page += grid(["kernel", *DECODERS, "ρ with published", "ρ with held-out"], rows) + "\n" + claims_table(claims)
    write(__file__, "kernels", {"values": found, "agreement": rho, "claims": claims}, page)
    panels = [
        Panel(
            f"subsequence kernel, Spearman's ρ with {kind}",
            "gap penalty λ",
            {
                f"N = {n}": (
                    DECAYS,
                    *zip(*(rho["subsequence"][f"N = {n}, λ = {decay}"][kind] for decay in DECAYS), strict=True),
                )
                for n in SIZES
            },
        )
        for kind in ("published", "held-out")
    ]
    lines = {
        decoder: (SIZES, *zip(*(found["N-gram"][f"N = {n}"][decoder] for n in SIZES), strict=True))
        for decoder in DECODERS
    }
    draw(HERE / "kernels.png", [Panel("N-gram kernel, MAUVE", "N", lines), *panels])


if __name__ == "__main__":
    main()
