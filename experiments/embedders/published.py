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

from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import FAILS, HOLDS, NOISE, Claim, claims_table, grid, write
from webtext import DECODERS, PUBLISHED

HERE = Path(__file__).resolve().parent
OTHERS = tuple(name for name in DECODERS if name != "typical")


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
        low = max(scores["greedy"], scores["beam"]) < min(scores[each] for each in DECODERS[2:])
        claims.append(
            Claim(
                "fig:embedding:roberta",
                f"greedy and beam are below the rest, {name}",
                {"MAUVE*": HOLDS if low else FAILS},
            )
        )
        together = {frozenset(pair) for group in one["groups"] for pair in combinations(group, 2)}
        kept = [pair for pair in combinations(OTHERS, 2) if frozenset(pair) not in together]
        right = [
            pair for pair in kept if (scores[pair[0]] < scores[pair[1]]) == (PUBLISHED[pair[0]] < PUBLISHED[pair[1]])
        ]
        said = NOISE if not kept else HOLDS if len(right) == len(kept) else FAILS
        claims.append(
            Claim(
                "fig:embedding:roberta",
                f"pairs that differ significantly are in the published order, without typical sampling, {name}",
                {"MAUVE*": said},
                f"{len(right)} of {len(kept)}, of 10 pairs",
            )
        )
    page = "The published setting and what runs here: `python experiments/embedders/published.py`. Where the weights exist:\n\n"
    page += "    mallow compare human.jsonl greedy=greedy.jsonl beam=beam.jsonl nucleus=nucleus.jsonl --embedder gpt2-large\n\n"
    page += grid(["embedder", *DECODERS, "order", "ρ with published", "ρ without typical", "n"], rows)
    page += "\nThe published score of typical sampling does not come back with any embedder: its texts lack the leading space that all others have, "
    page += "which may be the reason; white space around a text is cut off here.\n\n" + claims_table(claims)
    write(__file__, "published", {"rows": rows, "claims": claims}, page)


if __name__ == "__main__":
    main()
