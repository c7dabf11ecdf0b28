"""Generative precision and recall of text, by size, by p and by length (paper: fig:kynka-pr-nlp).

    python experiments/family/precision_recall.py       a minute, after systems.py and lengths.py

Stories, k = 5 neighbours as in the paper. Writes precision_recall.json, .md and .png beside this file.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import Claim, claims_table, grid, monotone, write
from measured import EMBEDDER, features, written
from pictures import Panel, draw
from settings import available
from systems import MIDDLE, P, generations, human

from mallow.baselines import precision_recall

HERE = Path(__file__).resolve().parent
LABEL = "fig:kynka-pr-nlp"


def main() -> None:
    warnings.simplefilter("ignore")
    domain = available("books")
    x, middle = features(domain, human(domain)), MIDDLE["books"]
    have = {system.name: system for system in written(domain)}
    values: dict[str, dict[str, float]] = {}

    def both(name: str) -> dict[str, float]:
        if name not in values:
            y = features(domain, human(domain, other=True) if name == "human" else generations(domain, have[name]))
            found = precision_recall(x, y, neighbors=5)
            values[name] = {"precision": found.precision, "recall": found.recall}
        return values[name]

    both("human")
    lines = {
        f"size, {decoder}": {size: f"{size} {decoder}" for size in domain.sizes}
        for decoder in ("ancestral", "nucleus:0.95")
    }
    lines[f"p, {middle}"] = {**{f"{p:g}": f"{middle} nucleus:{p:g}" for p in P}, "1": f"{middle} ancestral"}
    lengths = json.loads((HERE / "lengths.json").read_text())["values"]
    claims, panels = [], []

    def judge(title: str, kind: str, own: list[float], expected: str) -> None:
        errors = [float(np.sqrt(value * (1 - value) / len(x))) for value in own]
        sign = 1 if expected == "rises" else -1
        text = f"{kind} {expected} with {title}"
        claims.append(
            Claim(
                LABEL,
                text,
                {"measure": monotone([sign * value for value in own], errors)},
                ", ".join(f"{value:.3f}" for value in own),
            )
        )

    for title, each in lines.items():
        names = {at: name for at, name in each.items() if name in have}
        own = {kind: [both(name)[kind] for name in names.values()] for kind in ("precision", "recall")}
        judge(title, "precision", own["precision"], "falls" if title.startswith("size") else "rises")
        judge(title, "recall", own["recall"], "rises" if title.startswith("size") else "falls")
        shown = {
            kind: (range(len(names)), series, [np.sqrt(value * (1 - value) / len(x)) for value in series])
            for kind, series in own.items()
        }
        panels.append(Panel(title, "", shown, ticks=list(names)))
    for system, each in lengths.items():
        own = {kind: [one[kind][0] for one in each.values()] for kind in ("precision", "recall")}
        judge(f"the length, {system}", "precision", own["precision"], "rises")
        panels.append(
            Panel(
                f"tokens, {system}",
                "",
                {kind: (range(len(each)), series) for kind, series in own.items()},
                ticks=list(each),
            )
        )
    page = f"Stories, {EMBEDDER}, n = {len(x)} per side, 5 neighbours: `python experiments/family/precision_recall.py`. The lines below are what the paper "
    page += "observes, and finds to be the opposite of what a measure of quality should show.\n\n"
    page += (
        grid(["system", "precision", "recall"], [[name, *pair.values()] for name, pair in values.items()])
        + "\n"
        + claims_table(claims)
    )
    write(__file__, "precision_recall", {"values": values, "claims": claims}, page)
    draw(HERE / "precision_recall.png", panels)


if __name__ == "__main__":
    main()
