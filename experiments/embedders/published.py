"""What would `--embedder gpt2-large` give? The nearest that runs here, beside the published scores.

    python experiments/embedders/published.py       a second; reads results.json, which run.py writes

Where the weights of GPT-2 large exist, the published setting is one line for texts in files:

    mallow compare human.jsonl greedy=greedy.jsonl beam=beam.jsonl nucleus=nucleus.jsonl --embedder gpt2-large

It takes the last layer's vector of the last token, as published. Those weights cannot be had here. This page shows how the embedders that can be
had order the same texts (GPT-2 large, six decoders, 1,000 prompts of WebText), and how that compares. Writes published.json and published.md.
"""

from __future__ import annotations

import json
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import FAILS, HOLDS, NOISE, Claim, claims_table, grid, verdict, write
from webtext import DECODERS, PUBLISHED

HERE = Path(__file__).resolve().parent
OTHERS = tuple(name for name in DECODERS if name != "typical")


def ordered(one: dict, pairs: list[tuple[str, str]], *, all_needed: bool) -> tuple[dict[str, str], str]:
    """Whether the first of each pair is nearer to people, by MAUVE* with its noise and by held-out evidence, and how many pairs say so."""
    scores, errors = one["scores"], one["errors"]
    proven = {tuple(pair) for pair in one["pairs"]}
    said = {
        "MAUVE*": [
            verdict(scores[better] - scores[worse], float(np.hypot(errors[better], errors[worse])))
            for better, worse in pairs
        ],
        "held-out": [HOLDS if pair in proven else FAILS if pair[::-1] in proven else NOISE for pair in pairs],
    }
    verdicts, counts = {}, []
    for kind, each in said.items():
        clear = len(each) - each.count(NOISE)
        shown = clear == len(each) if all_needed else clear > 0
        verdicts[kind] = FAILS if FAILS in each else HOLDS if shown else NOISE
        counts.append(f"{kind}: {each.count(HOLDS)} of {clear} that differ, of {len(each)} pairs")
    return verdicts, "; ".join(counts)


def main() -> None:
    found = json.loads((HERE / "results.json").read_text())
    rows, claims = (
        [
            [
                "*published*, GPT-2 large",
                *(PUBLISHED[each] for each in DECODERS),
                " ≻ ".join(sorted(DECODERS, key=lambda each: -PUBLISHED[each])),
                1.0,
                1.0,
                "1000",
            ]
        ],
        [],
    )
    for name, one in found.items():
        scores = one["scores"]
        order = " ≻ ".join(sorted(DECODERS, key=lambda each: -scores[each]))
        rho = {
            len(names): float(
                spearmanr([scores[each] for each in names], [PUBLISHED[each] for each in names]).statistic
            )
            for names in (DECODERS, OTHERS)
        }
        rows.append([name, *(scores[each] for each in DECODERS), order, rho[6], rho[5], str(one["n"])])
        if "pairs" not in one:  # older than held-out evidence
            continue
        pairs = [(better, worse) for better in DECODERS[2:] for worse in DECODERS[:2]]
        text = f"greedy and beam are below the rest, {name}"
        claims.append(Claim("fig:embedding:roberta", text, *ordered(one, pairs, all_needed=True)))
        pairs = [pair if PUBLISHED[pair[0]] > PUBLISHED[pair[1]] else pair[::-1] for pair in combinations(OTHERS, 2)]
        text = f"beyond the paper: pairs that differ significantly are in the published order, without typical sampling, {name}"
        claims.append(Claim("fig:embedding:roberta", text, *ordered(one, pairs, all_needed=False)))
    page = "The published setting and what runs here: `python experiments/embedders/published.py`. Where the weights exist:\n\n"
    page += "    mallow compare human.jsonl greedy=greedy.jsonl beam=beam.jsonl nucleus=nucleus.jsonl --embedder gpt2-large\n\n"
    page += grid(["embedder", *DECODERS, "order", "ρ with published", "ρ without typical", "n"], rows)
    page += "\nThe published score of typical sampling does not come back with any embedder: its texts lack the leading space that all others have, "
    page += "which may be the reason; white space around a text is cut off here. The texts come from another program, and their τ is not recorded. "
    page += "Errors of MAUVE* are those of texts and clustering; of the string kernel none is known, and every difference counts."
    older = [name for name, one in found.items() if "pairs" not in one]
    if older:
        page += f" Rows that are older than held-out evidence have no claims: {', '.join(older)}."
    page += "\n\n" + claims_table(claims)
    write(__file__, "published", {"rows": rows, "claims": claims}, page)


if __name__ == "__main__":
    main()
