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
from claims import Claim, claims_table, grid, monotone, rising, write
from measured import EMBEDDER, comparison, features, written
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
    scores = comparison(domain, written(domain))
    claims, panels = [], []

    def judge(title: str, kind: str, own: list[float], expected: str, quality: dict[str, str]) -> None:
        """A line of the paper about precision or recall, beside what MAUVE* and the evidence say of the same order."""
        errors = [float(np.sqrt(value * (1 - value) / len(x))) for value in own]
        sign = 1 if expected == "rises" else -1
        said = {"measure": monotone([sign * value for value in own], errors)} | quality
        claims.append(Claim(LABEL, f"{kind} {expected} with {title}", said, ", ".join(f"{value:.3f}" for value in own)))

    for title, each in lines.items():
        names = {at: name for at, name in each.items() if name in have}
        own = {kind: [both(name)[kind] for name in names.values()] for kind in ("precision", "recall")}
        order = {
            "rises": rising(scores, list(names.values())),
            "falls": rising(scores, list(names.values())[::-1]),
        }
        expected = ("falls", "rises") if title.startswith("size") else ("rises", "falls")
        for kind, direction in zip(own, expected, strict=True):
            judge(title, kind, own[kind], direction, order[direction])
        shown = {
            kind: (range(len(names)), series, [np.sqrt(value * (1 - value) / len(x)) for value in series])
            for kind, series in own.items()
        }
        panels.append(Panel(title, "", shown, ticks=list(names)))
    for system, each in lengths.items():
        own = {kind: [one[kind][0] for one in each.values()] for kind in ("precision", "recall")}
        quality = {
            kind: monotone([one[name][0] for one in each.values()], [one[name][1] for one in each.values()])
            for kind, name in (("MAUVE*", "MAUVE*"), ("held-out", "certified"))
        }
        judge(f"the length, {system}", "precision", own["precision"], "rises", quality)
        panels.append(
            Panel(
                f"tokens, {system}",
                "",
                {kind: (range(len(each)), series) for kind, series in own.items()},
                ticks=list(each),
            )
        )
    page = f"Stories, {EMBEDDER}, n = {len(x)} per side, 5 neighbours: `python experiments/family/precision_recall.py`. The lines below are what the paper "
    page += "observes of precision and recall, where it expects both to rise with quality. Columns MAUVE* and held-out: whether quality moves in the same "
    page += "direction by these; *does not hold* there means that precision or recall moves against it.\n\n"
    page += (
        grid(["system", "precision", "recall"], [[name, *pair.values()] for name, pair in values.items()])
        + "\n"
        + claims_table(claims)
    )
    write(__file__, "precision_recall", {"values": values, "claims": claims}, page)
    draw(HERE / "precision_recall.png", panels)


if __name__ == "__main__":
    main()
