"""Direct estimation from model probabilities (paper: fig:estimation-direct).

    python experiments/family/direct.py       minutes, after systems.py

The largest model of the family stands for the human distribution, as GPT-2 xl does in the paper. Stories, probabilities of whole continuations
after their prompts. Writes direct.json, direct.md and direct.png beside this file.
"""

from __future__ import annotations

import functools
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import (
    Claim,
    above,
    claims_table,
    evidence,
    grid,
    monotone,
    published,
    rank_agreement,
    rising,
    verdict,
    write,
)
from measured import comparison, kept, written
from pictures import Panel, draw
from settings import Domain, available
from systems import System, human_tokens, model, prompts, tokens_of

from mallow import area
from mallow.estimate import direct_frontier
from mallow.generate import decoder, token_log_probs

HERE = Path(__file__).resolve().parent
TEXTS, LENGTHS, DRAWS = 100, (16, 256), 50
LEAST = 1e-4  # standard error: at the lower end of the scale all texts say the same, and differences are rounding
WEAK = 0.8  # a rank correlation below this is weak
SCALE = 5.0


@functools.cache
def of_people(domain: Domain, size: str, rule: str) -> np.ndarray:
    """Log-probabilities (n, tokens) of human texts under a size and a decoder."""
    return log_probs(domain, size, rule, human_tokens(domain, count=TEXTS))


def log_probs(domain: Domain, size: str, rule: str, tokens: np.ndarray) -> np.ndarray:
    before = [prompt.tokens for prompt in prompts(domain, TEXTS)]
    rules = decoder(rule).rules
    return np.array(token_log_probs(model(domain, size), tokens.tolist(), rules=rules, prefixes=before))


def coordinates(domain: Domain, system: System) -> dict[str, dict[str, float]]:
    """The area at each length with its standard error over redrawn texts, and the share of human texts that the system cannot write.

    Texts may not end early, which widens the nucleus a little; the few that have a token outside it are left out.
    """
    judge, written_by = domain.sizes[-1], tokens_of(domain, system)[:TEXTS]
    sides = (
        (of_people(domain, judge, "ancestral"), of_people(domain, system.size, system.decoder)),
        tuple(log_probs(domain, *who, written_by) for who in ((judge, "ancestral"), (system.size, system.decoder))),
    )
    found, rng = {}, np.random.default_rng(0)
    for length in LENGTHS:
        people, machine = (np.array([rows[:, :length].sum(axis=1) for rows in side]) for side in sides)  # (2, n)
        machine = machine[:, np.isfinite(machine[1])]

        def value(at_p: np.ndarray, at_q: np.ndarray) -> float:
            return float(area(direct_frontier(*at_p, *at_q), scale=SCALE))

        again = [
            value(*(side[:, rng.integers(0, side.shape[1], side.shape[1])] for side in (people, machine)))
            for _ in range(DRAWS)
        ]
        found[str(length)] = {
            "area": value(people, machine),
            "error": float(np.std(again, ddof=1)),
            "zero": float(np.mean(np.isneginf(people[1]))),
        }
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    domain = available("books")
    systems = [each for each in written(domain) if each.decoder in ("ancestral", "nucleus:0.95")]
    values = {
        system.name: kept(
            domain,
            "direct",
            (system, TEXTS, LENGTHS, DRAWS, domain.sizes[-1]),
            lambda system=system: coordinates(domain, system),
        )
        for system in systems
    }
    for one in values.values():
        for each in one.values():
            each["error"] = max(each["error"], LEAST)
    scores = comparison(domain, written(domain))
    mauve = {name: scores.scores[name].mauve for name in values}
    claims = []
    for length in map(str, LENGTHS):
        own = {name: (one[length]["area"], one[length]["error"]) for name, one in values.items()}
        both = {
            "MAUVE*": rank_agreement(own, published(scores)),
            "held-out": rank_agreement(own, evidence(scores)),
        }
        claims.append(
            Claim(
                "fig:estimation-direct",
                f"direct estimation agrees weakly, ρ < {WEAK} (paper: 0.430 with MAUVE, 0.371 with people), {length} tokens",
                {kind: verdict(WEAK - rho, error) for kind, (rho, error) in both.items()},
                "; ".join(f"ρ = {rho:.2f} ± {error:.2f} with {kind}" for kind, (rho, error) in both.items()),
            )
        )
        for name in ("ancestral", "nucleus:0.95"):
            names = [f"{size} {name}" for size in domain.sizes if f"{size} {name}" in values]
            line = [own[each] for each in names]
            said = {"measure": monotone(*map(list, zip(*line, strict=True)))} | rising(scores, names)
            note = " (paper: medium is not below small)" if name == "ancestral" else ""
            text = f"it rises with size, {name}, {length} tokens{note}"
            claims.append(Claim("fig:estimation-direct", text, said, ", ".join(f"{value:.2g}" for value, _ in line)))
        for size in domain.sizes:
            one, other = (values.get(f"{size} {name}") for name in ("ancestral", "nucleus:0.95"))
            if one and other:
                gap = one[length]["area"] - other[length]["area"]
                said = verdict(gap, float(np.hypot(one[length]["error"], other[length]["error"])))
                detail = f"{one[length]['area']:.2g} and {other[length]['area']:.2g}; {other[length]['zero']:.0%} of human texts are impossible under nucleus sampling"
                claims.append(
                    Claim(
                        "fig:estimation-direct",
                        f"it rates ancestral above nucleus sampling, {size}, {length} tokens",
                        {"measure": said} | above(scores, f"{size} ancestral", f"{size} nucleus:0.95"),
                        detail,
                    )
                )
    page = f"The largest model, {domain.sizes[-1]}, stands for people; n = {TEXTS} texts per side, scale c = {SCALE:g}: `python experiments/family/direct.py`. "
    page += "Ancestral sampling from that model has a ratio of 1 by construction; at the longer length all others are at the lower end of the scale. "
    page += f"±: standard error over {DRAWS} redrawn sets of texts. Columns MAUVE* and held-out: what these find of the same pair.\n\n"
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
                *(f"{one[str(length)]['area']:.3f} ± {one[str(length)]['error']:.3f}" for length in LENGTHS),
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
            own = [values[f"{domain.sizes[place]} {name}"][length] for place in have]
            lines[name] = (have, [one["area"] for one in own], [one["error"] for one in own])
        panels.append(Panel(f"direct, {length} tokens", "size", lines, ticks=domain.sizes))
    draw(HERE / "direct.png", panels)


if __name__ == "__main__":
    main()
