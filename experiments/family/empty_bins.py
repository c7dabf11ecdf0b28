"""MAUVE with and without smoothing, and how many bins are empty (paper: tab:smoothing).

    python experiments/family/empty_bins.py       a minute, after systems.py

Stories, every size, five clusterings each. A bin counts as empty for a side that has no sample in it, out of 2k as in the paper's table.
Writes empty_bins.json, empty_bins.md and empty_bins.png beside this file.
"""

from __future__ import annotations

import sys
import warnings
from itertools import combinations
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import (
    FAILS,
    HOLDS,
    Claim,
    Measured,
    above,
    agrees,
    claims_table,
    error_of_mean,
    grid,
    rank_agreement,
    verdict,
    write,
)
from measured import EMBEDDER, comparison, features, written
from pictures import Panel, draw
from settings import available
from systems import generations, human

from mallow import Comparison, Masses, Quantize, area, frontier, smoothing

HERE = Path(__file__).resolve().parent
SEEDS = 5


def measured(x: np.ndarray, y: np.ndarray) -> dict[str, list[float]]:
    estimator = Quantize()
    found: dict[str, list[float]] = {"no smoothing": [], "K-T": [], "empty": [], "% empty": []}
    for seed in range(SEEDS):
        part = estimator(x, y, rng=seed).partition
        counts = part.p_counts, part.q_counts
        for name, smooth in (("no smoothing", smoothing.empirical), ("K-T", smoothing.krichevsky_trofimov)):
            masses = Masses.from_histograms(*map(smooth, counts))
            found[name].append(float(area(frontier(masses), scale=estimator.scale)))
        empty = sum(int((each == 0).sum()) for each in counts)
        found["empty"].append(empty)
        found["% empty"].append(100 * empty / (2 * len(counts[0])))
    return found


def reversed_pairs(bare: Measured, smooth: Measured, scores: Comparison) -> dict[str, int]:
    """Pairs of systems that MAUVE without smoothing orders clearly otherwise than with it, and otherwise than held-out evidence."""

    def order(one: Measured, name: str, other: str) -> int:
        gap, error = one[name][0] - one[other][0], float(np.hypot(one[name][1], one[other][1]))
        return 0 if abs(gap) <= 1.96 * error + 1e-9 else int(np.sign(gap))

    pairs = list(combinations(bare, 2))
    seen = {one.systems: one for one in scores.differences if one.significant}
    proven = [(seen[frozenset(pair)].better, *pair) for pair in pairs if frozenset(pair) in seen]
    return {
        "MAUVE*": sum(order(bare, *pair) * order(smooth, *pair) < 0 for pair in pairs),
        "held-out": sum(order(bare, better, one if better == other else other) < 0 for better, one, other in proven),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    domain = available("books")
    x = features(domain, human(domain))
    wanted = [system for system in written(domain) if system.decoder in ("greedy", "ancestral", "nucleus:0.95")]
    wanted.sort(key=lambda system: domain.sizes.index(system.size))
    values = {system.name: measured(x, features(domain, generations(domain, system))) for system in wanted}
    values["human"] = measured(x, features(domain, human(domain, other=True)))
    scores = comparison(domain, written(domain))
    rows = [
        [name, *(f"{np.mean(each):.3g} ± {np.std(each, ddof=1):.2g}" for each in one.values())]
        for name, one in values.items()
    ]
    bare, smooth, share = (
        {name: (float(np.mean(one[kind])), error_of_mean(one[kind])) for name, one in values.items()}
        for kind in ("no smoothing", "K-T", "% empty")
    )
    rho, _ = rank_agreement(bare, smooth)
    against = reversed_pairs(bare, smooth, scores)
    detail = f"pairs that are clearly reversed: {against['MAUVE*']} against MAUVE* with smoothing, {against['held-out']} against held-out evidence; "
    detail += f"ρ = {rho:.3f} over {len(values)} systems, of which those of greedy decoding tie without smoothing"
    said = {kind: FAILS if count else HOLDS for kind, count in against.items()}
    claims = [Claim("tab:smoothing", "without smoothing the ranking is the same", said, detail)]
    fuller = {name: (-value, error) for name, (value, error) in share.items()}
    claims.append(
        Claim("tab:smoothing", "the number of empty bins grows with the gap (ρ ≥ 0.8)", *agrees(fuller, scores, 0.8))
    )
    for size in domain.sizes:
        names = f"{size} greedy", f"{size} nucleus:0.95"
        if set(names) <= set(values):
            a, b = (np.array(values[name]["% empty"]) for name in names)
            error = float(np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / SEEDS))
            detail = f"{share[names[0]][0]:.1f}% and {share[names[1]][0]:.1f}%"
            claims.append(
                Claim(
                    "tab:smoothing",
                    f"greedy has more empty bins than nucleus sampling, {size}",
                    {"measure": verdict(float(a.mean() - b.mean()), error)} | above(scores, names[1], names[0]),
                    detail,
                )
            )
    page = f"Smoothing and empty bins, stories, {EMBEDDER}, n = {len(x)} per side, {SEEDS} clusterings (mean ± standard deviation): `python experiments/family/empty_bins.py`. "
    page += "Columns MAUVE* and held-out of the last rows: whether greedy decoding is also farther from people by these.\n\n"
    page += grid(["system", *next(iter(values.values()))], rows) + "\n" + claims_table(claims)
    write(__file__, "empty_bins", {"values": values, "claims": claims}, page)
    ticks, at = list(values), range(len(values))
    lines = {
        kind: (at, [np.mean(one[kind]) for one in values.values()], [np.std(one[kind]) for one in values.values()])
        for kind in ("no smoothing", "K-T")
    }
    panels = [
        Panel("MAUVE with and without smoothing", "", lines, ticks=ticks),
        Panel("empty bins, %", "", {"both sides": (at, [value for value, _ in share.values()])}, ticks=ticks),
    ]
    draw(HERE / "empty_bins.png", panels, width=5)


if __name__ == "__main__":
    main()
