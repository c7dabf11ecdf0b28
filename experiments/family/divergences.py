"""Other divergences and transport costs by size and decoder, and how they agree with MAUVE*.

    python experiments/family/divergences.py       minutes, after systems.py

The analogue of table:fdiv, table:fdiv-full, table:ot-corr, table:ot-full, fig:ot-v-mauve and fig:bary-mauve on stories. There are no human
judgements of these texts; the rows BT need them. In their place stands the held-out evidence: the certified area. Writes divergences.json, .md, .png.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import (
    DIVERGENCES,
    FOLDS,
    TRANSPORT,
    Claim,
    above,
    agreement_claims,
    claims_table,
    comparable,
    grid,
    monotone,
    rank_agreements,
    rising,
    verdict,
    write,
)
from measured import EMBEDDER, comparison, features, kept, written
from pictures import Panel, draw
from settings import available
from systems import generations, human

from mallow import Comparison
from mallow.baselines import Table, table

HERE = Path(__file__).resolve().parent
DECODERS = ("ancestral", "nucleus:0.95", "greedy", "adversarial", "top-k:50", "nucleus:0.8")


def main() -> None:
    warnings.simplefilter("ignore")
    domain = available("books")
    systems = [system for system in written(domain) if system.decoder in DECODERS]
    x = features(domain, human(domain))
    points = {"human": features(domain, human(domain, other=True))} | {
        system.name: features(domain, generations(domain, system)) for system in systems
    }
    tables = {
        name: kept(domain, "table", name, lambda y=y, name=name: table(x, {name: y}, repeats=3).to_json())
        for name, y in points.items()
    }
    parts = {
        name: kept(
            domain,
            "table-parts",
            (name, FOLDS),
            lambda y=y, name=name: [
                table(a, {name: b}, repeats=1).values[name]
                for a, b in zip(np.array_split(x, FOLDS), np.array_split(y, FOLDS), strict=True)
            ],
        )
        for name, y in points.items()
    }
    each_table = {name: Table.from_json(content) for name, content in tables.items()}
    found = replace(each_table["human"], values={name: one.values[name] for name, one in each_table.items()})
    scores = comparison(domain, written(domain))
    names = [row.name for row in found.rows]
    ideal = {row.name: row.ideal for row in found.rows}
    errors, agreement = rank_agreements(found.values, parts, ideal, scores)
    shown = [each for each in ("MAUVE* KL", *DIVERGENCES, *TRANSPORT) if each in names]
    page = f"Stories, {EMBEDDER}, n = {len(x)} per side: `python experiments/family/divergences.py`. In the last rows, columns MAUVE* and held-out say whether quality rises with "
    page += "size by these. The certified area stands in place of the judgements by people.\n\n"
    page += grid(["system", *shown], [[name, *(found.values[name][each] for each in shown)] for name in points])
    page += f"\nSpearman's ρ of the distances from the reference over {len(points)} systems, with MAUVE* of KL, and with the certified area; ±: standard errors, over {FOLDS} disjoint parts of the texts and over redrawn values:\n\n"
    page += grid(["measure", *next(iter(agreement.values()))], [[each, *agreement[each].values()] for each in names])
    claims = judge(domain.sizes, found.values, errors, agreement, scores)
    write(
        __file__,
        "divergences",
        {"values": found.values, "errors": errors, "agreement": agreement, "claims": claims},
        page + "\n" + claims_table(claims),
    )
    picture(domain.sizes, found.values, errors)


def judge(sizes: tuple[str, ...], values: dict, errors: dict, agreement: dict, scores: Comparison) -> list[Claim]:
    claims = agreement_claims(agreement)
    for decoder in ("ancestral", "nucleus:0.95"):
        for each, sign in (("transport", -1), ("quantised transport", -1), ("MAUVE_OT", 1), ("MAUVE_OT bary", 1)):
            names = [f"{size} {decoder}" for size in sizes if f"{size} {decoder}" in values]
            own = [sign * values[name][each] for name in names]
            said = {"measure": monotone(own, [errors[name][each] for name in names])} | rising(scores, names)
            shown_values = ", ".join(f"{sign * value:.3g}" for value in own)
            label = "fig:bary-mauve" if "MAUVE" in each else "fig:ot-v-mauve"
            falls = decoder == "ancestral" or each == "transport"  # in table:ot-full
            text = f"{each} improves with size, {decoder}{' (paper: but medium is below small)' if falls else ''}"
            claims.append(Claim(label, text, said, shown_values))
    first, last = sizes[0], sizes[-1]
    pairs = [  # label, text, measure, sign, the system that should be nearer, the other
        (
            "table:fdiv-full",
            f"FI KL rates {last} ancestral above {first} nucleus",
            "FI KL",
            -1,
            f"{last} ancestral",
            f"{first} nucleus:0.95",
        ),
        (
            "table:ot-full",  # the text says so there, and beside table:fdiv-full that the two cannot be told apart
            f"MAUVE* KL rates {last} ancestral above {first} nucleus",
            "MAUVE* KL",
            1,
            f"{last} ancestral",
            f"{first} nucleus:0.95",
        ),
        (
            "table:ot-full",
            f"transport rates {first} above {sizes[1]}, nucleus, against people",
            "transport",
            -1,
            f"{first} nucleus:0.95",
            f"{sizes[1]} nucleus:0.95",
        ),
        (
            "table:ot-full",
            f"quantised transport rates {sizes[1]} nucleus above {last} ancestral, against people",
            "quantised transport",
            -1,
            f"{sizes[1]} nucleus:0.95",
            f"{last} ancestral",
        ),
        (
            "table:ot-full",
            f"MAUVE_OT makes the same mistake: {sizes[1]} nucleus above {last} ancestral",
            "MAUVE_OT",
            1,
            f"{sizes[1]} nucleus:0.95",
            f"{last} ancestral",
        ),
    ]
    for label, text, each, sign, near, far in pairs:
        gap = sign * (values[near][each] - values[far][each])
        said = {"measure": verdict(gap, float(np.hypot(errors[near][each], errors[far][each])))} | above(
            scores, near, far
        )
        claims.append(Claim(label, text, said, f"{values[near][each]:.3g} and {values[far][each]:.3g}"))
        if each == "MAUVE* KL":
            text = f"MAUVE* KL cannot tell {last} ancestral from {first} nucleus"
            claims.append(Claim("table:fdiv-full", text, comparable(said), claims[-1].detail))
    return claims


def picture(sizes: tuple[str, ...], values: dict, errors: dict) -> None:
    panels = []
    for each in ("MAUVE* KL", "transport", "Fréchet distance", "quantised transport", "MAUVE_OT", "MAUVE_OT bary"):
        lines = {}
        for decoder in ("ancestral", "nucleus:0.95", "greedy"):
            have = [place for place, size in enumerate(sizes) if f"{size} {decoder}" in values]
            names = [f"{sizes[place]} {decoder}" for place in have]
            lines[decoder] = have, [values[name][each] for name in names], [errors[name][each] for name in names]
        panels.append(
            Panel(
                each,
                "size",
                lines,
                level={"other human text": values["human"][each]},
                ticks=sizes,
                logy="MAUVE" not in each,
            )
        )
    draw(HERE / "divergences.png", panels, columns=3)


if __name__ == "__main__":
    main()
