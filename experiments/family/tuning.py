"""The p of nucleus, the K of top-K and the τ of typical sampling (paper: fig:a:expt:model_selection:appendix, tab:mauve:expt:typical).

    python experiments/family/tuning.py       a minute, after systems.py and sizes.py

One size of the family on stories. Writes tuning.json, tuning.md and tuning.png beside this file.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import FAILS, HOLDS, NOISE, Claim, above, claims_table, grid, standard_errors, write
from measured import EMBEDDER, comparison, written
from pictures import Panel, draw
from settings import available
from systems import MIDDLE, TAU, K, P

from mallow import Comparison

HERE = Path(__file__).resolve().parent
LABEL = "fig:a:expt:model_selection:appendix"
LETTERS = {"nucleus": "p", "top-k": "K", "typical": "τ"}


def best(scores: Comparison, wanted: list[str], others: list[str]) -> dict[str, str]:
    """Whether the best system is one of the wanted: refuted by another that is clearly above all of them."""
    both = {}
    for kind in ("MAUVE*", "held-out"):
        refuted = [all(above(scores, name, each)[kind] == HOLDS for each in wanted) for name in others]
        shown = [all(above(scores, each, name)[kind] == HOLDS for name in others) for each in wanted]
        both[kind] = FAILS if any(refuted) else HOLDS if any(shown) else NOISE
    return both


def main() -> None:
    warnings.simplefilter("ignore")
    domain = available("books")
    size = MIDDLE["books"]
    scores = comparison(domain, written(domain))
    errors = standard_errors(scores)
    curves = {
        "nucleus": {**{p: f"{size} nucleus:{p:g}" for p in P}, 1.0: f"{size} ancestral"},
        "top-k": {**{k: f"{size} top-k:{k}" for k in K}, 2048: f"{size} ancestral"},
        "typical": {**{tau: f"{size} typical:{tau:g}" for tau in TAU}, 1.0: f"{size} ancestral"},
    }
    curves = {
        kind: {at: name for at, name in sorted(each.items()) if name in scores.scores} for kind, each in curves.items()
    }
    rows, panels = [], []
    for kind, each in curves.items():
        for at, name in each.items():
            score = scores.scores[name]
            rows.append(
                [
                    f"{kind} {at:g}",
                    score.mauve,
                    errors[name],
                    score.certified["mauve"].value,
                    score.certified["mauve"].high,
                ]
            )
        published = [scores.scores[name].mauve for name in each.values()]
        certified = [scores.scores[name].certified["mauve"].high for name in each.values()]
        lines = {
            "MAUVE*, bars: one standard error": (list(each), published, [errors[name] for name in each.values()]),
            "certified: MAUVE at most": (list(each), certified),
        }
        panels.append(Panel(f"{size}, {kind} sampling", LETTERS[kind], lines, log=kind == "top-k"))
    draw(HERE / "tuning.png", panels)
    nucleus, top, typical = curves.values()
    inside = [name for k, name in top.items() if 100 <= k <= 1000]
    claims = [
        Claim(
            LABEL,
            "nucleus sampling is best at p = 0.95",
            best(scores, [nucleus[0.95]], [name for p, name in nucleus.items() if p != 0.95]),
        ),
        Claim(
            LABEL,
            "top-K sampling is best at 100 ≤ K ≤ 1000",
            best(scores, inside, [name for k, name in top.items() if name not in inside]),
        ),
        Claim(
            "tab:mauve:expt:typical",
            "typical sampling is best at τ = 0.95, of 0.2, 0.5, 0.7, 0.9, 0.95 and 0.99",
            best(scores, [typical[0.95]], [name for tau, name in typical.items() if tau not in (0.95, 1)]),
        ),
    ]
    n = scores.scores[f"{size} ancestral"].n[1]
    page = f"Stories, {size}, {EMBEDDER}, n = {n}: `python experiments/family/tuning.py`. p = 1, K = 2048 and τ = 1 are ancestral sampling.\n\n"
    page += (
        grid(["decoder", "MAUVE*", "standard error", "certified", "certified, at most"], rows)
        + "\n"
        + claims_table(claims)
    )
    write(__file__, "tuning", {"rows": rows, "claims": claims}, page)


if __name__ == "__main__":
    main()
