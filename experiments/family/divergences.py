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
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import FAILS, HOLDS, Claim, claims_table, grid, write
from measured import EMBEDDER, comparison, features, kept, written
from pictures import Panel, draw
from settings import available
from systems import generations, human

from mallow.baselines import Table, table

HERE = Path(__file__).resolve().parent
FDIV = (
    "MAUVE* KL",
    "FI KL",
    "Mid KL",
    "MAUVE* χ²",
    "Mid χ²",
    "Mid TV",
    "Mid Hellinger²",
    "Mid JS",
    "Mid Le Cam",
    "MAUVE* JS",
    "MAUVE* Le Cam",
)
DECODERS = ("ancestral", "nucleus:0.95", "greedy", "adversarial", "top-k:50", "nucleus:0.8")
OT = ("transport", "Fréchet distance", "quantised transport", "entropic transport", "MAUVE_OT", "MAUVE_OT bary")


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
    each_table = {name: Table.from_json(content) for name, content in tables.items()}
    found = replace(each_table["human"], values={name: one.values[name] for name, one in each_table.items()})
    scores = comparison(domain, written(domain))
    certified = {name: scores.scores[name].certified["mauve"].value for name in points}
    names = [row.name for row in found.rows]
    ideal = {row.name: row.ideal for row in found.rows}
    off = {each: [abs(found.values[name][each] - ideal[each]) for name in points] for each in names}
    agreement = {
        each: {
            "with MAUVE*": float(spearmanr(off[each], off["MAUVE* KL"]).statistic),
            "with held-out": -float(spearmanr(off[each], list(certified.values())).statistic),
        }
        for each in names
    }
    main_three = [name for name in points if name.split(" ", 1)[-1] in ("ancestral", "nucleus:0.95", "human")]
    shown = [each for each in (*FDIV, *OT) if each in names]
    page = f"Stories, {EMBEDDER}, n = {len(x)} per side: `python experiments/family/divergences.py`.\n\n"
    page += grid(["system", *shown], [[name, *(found.values[name][each] for each in shown)] for name in points])
    page += f"\nSpearman's ρ of the distances from the reference over {len(points)} systems, with MAUVE* of KL, and with the certified area:\n\n"
    page += grid(["measure", "with MAUVE*", "with held-out"], [[each, *agreement[each].values()] for each in names])
    claims = judge(domain.sizes, found.values, agreement, shown)
    write(
        __file__,
        "divergences",
        {"values": found.values, "agreement": agreement, "claims": claims},
        page + "\n" + claims_table(claims),
    )
    picture(domain.sizes, found.values, main_three)


def judge(sizes: tuple[str, ...], values: dict, agreement: dict, shown: list[str]) -> list[Claim]:
    divergences = [each for each in FDIV if each in shown]
    least = min(agreement[each]["with MAUVE*"] for each in divergences)
    claims = [
        Claim(
            "table:fdiv",
            "all summaries of divergences agree with MAUVE* (ρ ≥ 0.99)",
            {"measure": HOLDS if least >= 0.99 else FAILS},
            f"least ρ {least:.3f}",
        )
    ]
    for each, printed in (
        ("transport", 0.954),
        ("Fréchet distance", 0.997),
        ("quantised transport", 0.980),
        ("MAUVE_OT", 0.983),
        ("MAUVE_OT bary", 0.980),
    ):
        rho = agreement[each]["with MAUVE*"]
        said = {"measure": HOLDS if rho >= 0.9 else FAILS}
        claims.append(
            Claim("table:ot-corr", f"{each} agrees with MAUVE* (paper: ρ = {printed})", said, f"ρ = {rho:.3f}")
        )
    for decoder in ("ancestral", "nucleus:0.95"):
        for each, sign in (("transport", -1), ("quantised transport", -1), ("MAUVE_OT", 1), ("MAUVE_OT bary", 1)):
            own = [sign * values[f"{size} {decoder}"][each] for size in sizes if f"{size} {decoder}" in values]
            said = {"by sign": HOLDS if bool(np.all(np.diff(own) > 0)) else FAILS}
            claims.append(
                Claim(
                    "fig:ot-v-mauve",
                    f"{each} improves with every size, {decoder}",
                    said,
                    ", ".join(f"{sign * value:.3g}" for value in own),
                )
            )
    return claims


def picture(sizes: tuple[str, ...], values: dict, names: list[str]) -> None:
    panels = []
    for each in ("MAUVE* KL", "transport", "Fréchet distance", "quantised transport", "MAUVE_OT", "MAUVE_OT bary"):
        lines = {}
        for decoder in ("ancestral", "nucleus:0.95", "greedy"):
            have = [place for place, size in enumerate(sizes) if f"{size} {decoder}" in values]
            lines[decoder] = (have, [values[f"{sizes[place]} {decoder}"][each] for place in have])
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
