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
from claims import FAILS, HOLDS, Claim, claims_table, grid, write
from measured import comparison, kept, written
from pictures import Panel, draw
from settings import Domain, available
from systems import human_tokens, model, prompts

from mallow.baselines import language_modelling
from mallow.generate import Nucleus, TopK

HERE = Path(__file__).resolve().parent
LABEL = "tab:mauve:expt:webtext-app-LM"
TEXTS = 30
RULES = {"greedy": (TopK(1),), "ancestral": (), "nucleus:0.95": (Nucleus(0.95),)}


def measured(domain: Domain, size: str, rules: tuple) -> dict[str, float]:
    own = model(domain, size)
    texts = human_tokens(domain, count=TEXTS)[:, :128].tolist()
    before = [prompt.tokens for prompt in prompts(domain, TEXTS)]
    found = language_modelling(own, texts, rules, prefixes=before, batch=TEXTS)
    return {"SP": found.sparsemax, "JS": found.js, "ε-perplexity": found.epsilon_perplexity}


def main() -> None:
    warnings.simplefilter("ignore")
    domain = available("books")
    sizes = [size for size in domain.sizes if any(system.size == size for system in written(domain))]
    values = {
        f"{size} {name}": kept(
            domain, "lm", (size, name, TEXTS), lambda size=size, rules=rules: measured(domain, size, rules)
        )
        for size in sizes
        for name, rules in RULES.items()
    }
    scores = comparison(domain, written(domain))
    claims = []
    for size in sizes:
        own = {name: values[f"{size} {name}"] for name in RULES}
        best = {kind: min(own, key=lambda name: own[name][kind]) for kind in ("JS", "ε-perplexity")}
        claims.append(
            Claim(
                LABEL,
                f"JS favours greedy decoding, {size}",
                {"measure": HOLDS if best["JS"] == "greedy" else FAILS},
                f"best: {best['JS']}",
            )
        )
        claims.append(
            Claim(
                LABEL,
                f"ε-perplexity favours ancestral sampling, {size}",
                {"measure": HOLDS if best["ε-perplexity"] == "ancestral" else FAILS},
                f"best: {best['ε-perplexity']}",
            )
        )
        gap = abs(own["ancestral"]["SP"] - own["nucleus:0.95"]["SP"])
        claims.append(
            Claim(
                LABEL,
                f"SP cannot tell ancestral from nucleus sampling (within 0.005), {size}",
                {"measure": HOLDS if gap < 0.005 else FAILS},
                f"{own['ancestral']['SP']:.4f} and {own['nucleus:0.95']['SP']:.4f}",
            )
        )
    rows = [
        [name, *one.values(), scores.scores[name].mauve if name in scores.scores else ""]
        for name, one in values.items()
    ]
    page = f"{TEXTS} human stories of 128 tokens after their prompts: `python experiments/family/language_modelling.py`.\n\n"
    page += grid(["system", "SP", "JS", "ε-perplexity", "MAUVE*"], rows) + "\n" + claims_table(claims)
    write(__file__, "language_modelling", {"values": values, "claims": claims}, page)
    panels = [
        Panel(
            kind,
            "size",
            {name: (np.arange(len(sizes)), [values[f"{size} {name}"][kind] for size in sizes]) for name in RULES},
            ticks=sizes,
            logy=kind.startswith("ε"),
        )
        for kind in ("SP", "JS", "ε-perplexity")
    ]
    draw(HERE / "language_modelling.png", panels)


if __name__ == "__main__":
    main()
