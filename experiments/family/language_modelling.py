"""Measures that need token probabilities: sparsemax score, Jensen–Shannon, ε-perplexity (paper: tab:mauve:expt:webtext-app-LM).

    python experiments/family/language_modelling.py       minutes, after train.py and sizes.py

Human stories under every size and decoder; no text is generated. Writes language_modelling.json, .md and .png beside this file.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import (
    FAILS,
    HOLDS,
    NOISE,
    Claim,
    above,
    all_above,
    claims_table,
    error_of_mean,
    favours,
    grid,
    verdict,
    write,
)
from measured import comparison, kept, written
from pictures import Panel, draw
from settings import Domain, available
from systems import human_tokens, model, prompts

from mallow.baselines import language_modelling
from mallow.generate import Nucleus, TopK

HERE = Path(__file__).resolve().parent
LABEL = "tab:mauve:expt:webtext-app-LM"
TEXTS, PARTS = 200, 10
SAME = 0.005  # sparsemax scores that differ by less cannot be told apart in the paper's table
RULES = {"greedy": (TopK(1),), "ancestral": (), "nucleus:0.95": (Nucleus(0.95),)}


def measured(domain: Domain, size: str, rules: tuple) -> dict[str, list[float]]:
    """Every measure on each of the parts of the texts; of perplexity the logarithm, so that the mean is that of all tokens."""
    own = model(domain, size)
    texts = human_tokens(domain, count=TEXTS)[:, :128].tolist()
    before = [prompt.tokens for prompt in prompts(domain, TEXTS)]
    parts = [language_modelling(own, texts[part::PARTS], rules, prefixes=before[part::PARTS]) for part in range(PARTS)]
    return {
        "SP": [one.sparsemax for one in parts],
        "JS": [one.js for one in parts],
        "ε-perplexity": [float(np.log(one.epsilon_perplexity)) for one in parts],
    }


def same(pair: dict[str, str]) -> dict[str, str]:
    """Verdicts on "cannot be told apart", from those on "is above"."""
    return {kind: HOLDS if said == NOISE else FAILS for kind, said in pair.items()}


def main() -> None:
    warnings.simplefilter("ignore")
    domain = available("books")
    sizes = [size for size in domain.sizes if any(system.size == size for system in written(domain))]
    values = {
        f"{size} {name}": kept(
            domain, "lm", (size, name, TEXTS, PARTS), lambda size=size, rules=rules: measured(domain, size, rules)
        )
        for size in sizes
        for name, rules in RULES.items()
    }
    scores = comparison(domain, written(domain))
    claims = []
    means = {
        name: {kind: float(np.mean(parts)) for kind, parts in one.items()}
        | {"ε-perplexity": float(np.exp(np.mean(one["ε-perplexity"])))}
        for name, one in values.items()
    }
    for size in sizes:
        own = {name: values[f"{size} {name}"] for name in RULES}
        for kind, wanted in (("JS", "greedy"), ("ε-perplexity", "ancestral")):
            others = [name for name in RULES if name != wanted]
            both = all_above(scores, [(f"{size} {wanted}", f"{size} {name}") for name in others])
            best = min(RULES, key=lambda name, kind=kind, size=size: means[f"{size} {name}"][kind])
            claims.append(
                Claim(
                    LABEL,
                    f"{kind} favours {wanted}, {size}",
                    {"measure": favours({name: one[kind] for name, one in own.items()}, wanted)} | both,
                    f"best: {best}",
                )
            )
        gaps = np.subtract(own["ancestral"]["SP"], own["nucleus:0.95"]["SP"])
        said = verdict(SAME - abs(float(gaps.mean())), error_of_mean(gaps))
        claims.append(
            Claim(
                LABEL,
                f"SP cannot tell ancestral from nucleus sampling (within {SAME}), {size}",
                {"measure": said} | same(above(scores, f"{size} ancestral", f"{size} nucleus:0.95")),
                f"{means[f'{size} ancestral']['SP']:.4f} and {means[f'{size} nucleus:0.95']['SP']:.4f}",
            )
        )
    rows = [
        [name, *one.values(), scores.scores[name].mauve, scores.scores[name].certified["mauve"].high]
        for name, one in means.items()
        if name in scores.scores
    ]
    page = f"{TEXTS} human stories of 128 tokens after their prompts: `python experiments/family/language_modelling.py`. Errors are of {PARTS} parts of these texts. "
    page += "Columns MAUVE* and held-out: whether the same decoder is best by these, and whether they too cannot tell the two apart.\n\n"
    page += (
        grid(["system", "SP", "JS", "ε-perplexity", "MAUVE*", "certified, at most"], rows) + "\n" + claims_table(claims)
    )
    write(__file__, "language_modelling", {"values": means, "claims": claims}, page)
    panels = [
        Panel(
            kind,
            "size",
            {name: (np.arange(len(sizes)), [means[f"{size} {name}"][kind] for size in sizes]) for name in RULES},
            ticks=sizes,
            logy=kind.startswith("ε"),
        )
        for kind in ("SP", "JS", "ε-perplexity")
    ]
    draw(HERE / "language_modelling.png", panels)


if __name__ == "__main__":
    main()
