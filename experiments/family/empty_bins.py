"""MAUVE with and without smoothing, and how many bins are empty (paper: tab:smoothing).

    python experiments/family/empty_bins.py       a minute, after systems.py

Stories, every size, five clusterings each. A bin counts as empty for a side that has no sample in it, out of 2k as in the paper's table.
Writes empty_bins.json, empty_bins.md and empty_bins.png beside this file.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import FAILS, HOLDS, Claim, claims_table, grid, verdict, write
from measured import EMBEDDER, features, written
from pictures import Panel, draw
from settings import available
from systems import generations, human

from mallow import Masses, Quantize, area, frontier, smoothing

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


def main() -> None:
    warnings.simplefilter("ignore")
    domain = available("books")
    x = features(domain, human(domain))
    wanted = [system for system in written(domain) if system.decoder in ("greedy", "ancestral", "nucleus:0.95")]
    wanted.sort(key=lambda system: domain.sizes.index(system.size))
    values = {system.name: measured(x, features(domain, generations(domain, system))) for system in wanted}
    values["other human text"] = measured(x, features(domain, human(domain, other=True)))
    rows = [
        [name, *(f"{np.mean(each):.3g} ± {np.std(each, ddof=1):.2g}" for each in one.values())]
        for name, one in values.items()
    ]
    bare, smooth = ([np.mean(one[kind]) for one in values.values()] for kind in ("no smoothing", "K-T"))
    rho = float(spearmanr(bare, smooth).statistic)
    share = {name: float(np.mean(one["% empty"])) for name, one in values.items()}
    gap = float(spearmanr(list(share.values()), smooth).statistic)
    means, errors = (
        np.array([[kind(one[each]) for each in ("no smoothing", "K-T")] for one in values.values()])
        for kind in (np.mean, lambda all_: np.std(all_, ddof=1) / np.sqrt(SEEDS))
    )
    gaps = means[:, None] - means  # (systems, systems, 2)
    sure = np.abs(gaps) > 1.96 * np.sqrt(errors[:, None] ** 2 + errors**2) + 1e-9
    turned = int((sure.all(axis=2) & (gaps.prod(axis=2) < 0)).sum()) // 2
    detail = f"{turned} pairs are clearly reversed; ρ = {rho:.3f} over {len(values)} systems, of which those of greedy decoding tie without smoothing"
    claims = [
        Claim("tab:smoothing", "both induce the same ranking", {"measure": FAILS if turned else HOLDS}, detail),
    ]
    claims.append(
        Claim(
            "tab:smoothing",
            "the number of empty bins grows with the gap",
            {"measure": HOLDS if gap < -0.8 else FAILS},
            f"ρ of MAUVE* and empty bins {gap:.2f}",
        )
    )
    for size in domain.sizes:
        names = f"{size} greedy", f"{size} nucleus:0.95"
        if set(names) <= set(values):
            a, b = (np.array(values[name]["% empty"]) for name in names)
            error = float(np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / SEEDS))
            detail = f"{share[names[0]]:.1f} % and {share[names[1]]:.1f} %"
            claims.append(
                Claim(
                    "tab:smoothing",
                    f"greedy has more empty bins than nucleus sampling, {size}",
                    {"measure": verdict(float(a.mean() - b.mean()), error)},
                    detail,
                )
            )
    page = f"Smoothing and empty bins, stories, {EMBEDDER}, n = {len(x)} per side, {SEEDS} clusterings (mean ± standard deviation): `python experiments/family/empty_bins.py`.\n\n"
    page += grid(["system", *next(iter(values.values()))], rows) + "\n" + claims_table(claims)
    write(__file__, "empty_bins", {"values": values, "claims": claims}, page)
    ticks, at = list(values), range(len(values))
    lines = {
        kind: (at, [np.mean(one[kind]) for one in values.values()], [np.std(one[kind]) for one in values.values()])
        for kind in ("no smoothing", "K-T")
    }
    panels = [
        Panel("MAUVE with and without smoothing", "", lines, ticks=ticks),
        Panel("empty bins, %", "", {"both sides": (at, list(share.values()))}, ticks=ticks),
    ]
    draw(HERE / "empty_bins.png", panels, width=5)


if __name__ == "__main__":
    main()
