"""Direct estimation from model probabilities (paper: fig:estimation-direct).

    python experiments/family/direct.py       minutes, after systems.py

The largest model of the family stands for the human distribution, as GPT-2 xl does in the paper. Stories, probabilities of whole continuations
after their prompts. Writes direct.json, direct.md and direct.png beside this file.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import FAILS, HOLDS, Claim, claims_table, grid, write
from measured import comparison, kept, written
from pictures import Panel, draw
from settings import Domain, available
from systems import System, human_tokens, model, prompts, tokens_of

from mallow import area
from mallow.estimate import direct_frontier
from mallow.generate import decoder, token_log_probs

HERE = Path(__file__).resolve().parent
TEXTS, LENGTHS = 50, (16, 256)
SCALE = 5.0


def coordinates(domain: Domain, system: System) -> dict[str, dict[str, float]]:
    """The area at each length, and the share of human texts that the system cannot write.

    Texts may not end early, which widens the nucleus a little; the few that have a token outside it are left out.
    """
    before = [prompt.tokens for prompt in prompts(domain, TEXTS)]
    own, judge = model(domain, system.size), model(domain, domain.sizes[-1])
    sides = human_tokens(domain, count=TEXTS).tolist(), tokens_of(domain, system)[:TEXTS].tolist()
    rules = decoder(system.decoder).rules
    rows = [
        token_log_probs(each, side, rules=own_rules, prefixes=before)
        for side in sides
        for each, own_rules in ((judge, ()), (own, rules))
    ]
    found = {}
    for length in LENGTHS:
        p_at_p, q_at_p, p_at_q, q_at_q = (np.array([float(np.sum(each[:length])) for each in part]) for part in rows)
        own_texts = np.isfinite(q_at_q)
        curve = direct_frontier(p_at_p, q_at_p, p_at_q[own_texts], q_at_q[own_texts])
        found[str(length)] = {"area": float(area(curve, scale=SCALE)), "zero": float(np.mean(np.isneginf(q_at_p)))}
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    domain = available("books")
    systems = [each for each in written(domain) if each.decoder in ("ancestral", "nucleus:0.95")]
    values = {
        system.name: kept(
            domain,
            "direct",
            (system, TEXTS, LENGTHS, domain.sizes[-1]),
            lambda system=system: coordinates(domain, system),
        )
        for system in systems
    }
    scores = comparison(domain, written(domain))
    mauve = {name: scores.scores[name].mauve for name in values}
    claims = []
    for length in map(str, LENGTHS):
        rho = float(spearmanr([values[name][length]["area"] for name in values], list(mauve.values())).statistic)
        claims.append(
            Claim(
                "fig:estimation-direct",
                f"direct estimation agrees weakly with MAUVE* (paper: ρ = 0.430), {length} tokens",
                {"measure": HOLDS if not rho > 0.8 else FAILS},
                f"ρ = {rho:.2f}",
            )
        )
        for size in domain.sizes:
            one, other = (values.get(f"{size} {name}") for name in ("ancestral", "nucleus:0.95"))
            if one and other:
                said = HOLDS if one[length]["area"] > other[length]["area"] else FAILS
                detail = f"{one[length]['area']:.2g} and {other[length]['area']:.2g}; {other[length]['zero']:.0%} of human texts are impossible under nucleus sampling"
                claims.append(
                    Claim(
                        "fig:estimation-direct",
                        f"it rates ancestral above nucleus sampling, {size}, {length} tokens",
                        {"by sign": said},
                        detail,
                    )
                )
    page = f"The largest model, {domain.sizes[-1]}, stands for people; n = {TEXTS} texts per side, scale c = {SCALE:g}: `python experiments/family/direct.py`. "
    page += "Ancestral sampling from that model has a ratio of 1 by construction; at the longer length all others are at the lower end of the scale.\n\n"
    head = [
        "system",
        "MAUVE*",
        *(f"direct, {length} tokens" for length in LENGTHS),
        *(f"human texts of probability 0, {length} tokens" for length in LENGTHS),
    ]
    page += grid(
        head,
        [
            [
                name,
                mauve[name],
                *(one[str(length)]["area"] for length in LENGTHS),
                *(one[str(length)]["zero"] for length in LENGTHS),
            ]
            for name, one in values.items()
        ],
    )
    write(__file__, "direct", {"values": values, "mauve": mauve, "claims": claims}, page + "\n" + claims_table(claims))
    panels = []
    for length in map(str, LENGTHS):
        lines = {}
        for name in ("ancestral", "nucleus:0.95"):
            have = [place for place, size in enumerate(domain.sizes) if f"{size} {name}" in values]
            lines[name] = (have, [values[f"{domain.sizes[place]} {name}"][length]["area"] for place in have])
        panels.append(Panel(f"direct, {length} tokens", "size", lines, ticks=domain.sizes))
    draw(HERE / "direct.png", panels)


if __name__ == "__main__":
    main()
