"""How much of the plug-in bias does `extrapolated` remove, and does it ever harm?

    python experiments/debiasing/run.py        about 20 minutes

Root-mean-square error of the area (c = 5) and of the integral of the KL frontier against the known truth, over 100
trials, as a ratio to Krichevsky–Trofimov's, on the paper's simulation grid (Zipf and Dirichlet pairs), on mixtures near
identity, with 100 and 500 bins, bins/n from 0.01 to 1. Beside it: plain extrapolation 2F − H,
and the other smoothed estimates. Writes results.json and debiasing.md beside this file.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from synthetic import Progress, write, zipf

from mallow import Masses, area, integral, smoothing
from mallow.theory import extrapolated
from mallow.theory._extrapolate import _extrapolate

TRIALS, SCALE, BINS, SPARSITY = 100, 5.0, (100, 500), (0.01, 0.03, 0.1, 0.3, 1.0)
BASE, OURS = "Krichevsky–Trofimov", "extrapolated"


def pairs() -> list[tuple[str, str]]:
    far = [("Zipf(0)", "Dir(0.5)"), ("Dir(0.5)", "Dir(0.5)")]
    far += [(first, f"Zipf({r:g})") for first in ("Dir(1)", "Zipf(2)") for r in (0, 0.5, 1, 1.5, 2)]
    near = [(p, f"mix {e:g}") for p in ("Zipf(0)", "Zipf(1)", "Dir(1)") for e in (0, 0.01, 0.05, 0.1, 0.2, 0.4)]
    return far + near + [("Zipf(1)", f"permuted {e:g}") for e in (0.01, 0.05, 0.1, 0.2, 0.4)]


def distributions(pair: tuple[str, str], k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A fresh pair for each trial, (trials, k); `mix e` is (1 − e)P + e·Dir(1), `permuted e` mixes P permuted."""

    def one(name: str) -> np.ndarray:
        value = float(name[name.index("(") + 1 : -1])
        drawn = name.startswith("Dir")
        return rng.dirichlet(np.full(k, value), size=TRIALS) if drawn else np.tile(zipf(k, value), (TRIALS, 1))

    p = one(pair[0])
    kind, _, share = pair[1].partition(" ")
    if not share:
        return p, one(pair[1])
    other = rng.permuted(p, axis=1) if kind == "permuted" else one("Dir(1)")
    return p, (1 - float(share)) * p + float(share) * other


def estimates(a: np.ndarray, b: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    def summaries(masses: Masses) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(area(masses, scale=SCALE)), np.asarray(integral(masses))

    plain = {BASE: smoothing.krichevsky_trofimov, "Empirical": smoothing.empirical, "Laplace": smoothing.laplace}
    plain["Good–Turing"] = smoothing.good_turing
    found = {name: summaries(Masses.from_histograms(smooth(a), smooth(b))) for name, smooth in plain.items()}
    found[OURS] = summaries(extrapolated(a, b))
    found["2F − H"] = summaries(_extrapolate(a, b, lambda change, n, m: np.ones_like(change[..., :1])))
    return found


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def main() -> None:
    progress = Progress(len(BINS) * len(pairs()) * len(SPARSITY))
    rows = []
    for k in BINS:
        for i, pair in enumerate(pairs()):
            for sparsity in SPARSITY:
                rng = np.random.default_rng([k, i, int(1000 * sparsity)])
                p, q = distributions(pair, k, rng)
                n = round(k / sparsity)
                a, b = rng.multinomial(n, p).astype(float), rng.multinomial(n, q).astype(float)
                exact = Masses.from_histograms(p, q)
                truth = np.asarray(area(exact, scale=SCALE)), np.asarray(integral(exact))
                errors = {
                    name: [rms(f - t) for f, t in zip(found, truth, strict=True)]
                    for name, found in estimates(a, b).items()
                }
                rows.append(
                    {
                        "pair": " / ".join(pair),
                        "bins": k,
                        "bins/n": sparsity,
                        "truth": [float(t.mean()) for t in truth],
                        "rmse": errors,
                    }
                )
                progress.step(f"{' / '.join(pair)}, {k} bins")
    write(__file__, {"trials": TRIALS, "scale": SCALE, "order": ["area", "integral"], "settings": rows})
    text = report(rows)
    Path(__file__).with_name("debiasing.md").write_text(text)
    print(text)


def report(rows: list[dict]) -> str:
    def ratios(name: str, part: list[dict]) -> np.ndarray:
        found = np.array([np.array(row["rmse"][name]) / np.array(row["rmse"][BASE]) for row in part])
        return np.maximum(found, 0.01)  # where all trials are exactly right the ratio is 0

    lines = [
        "# Root-mean-square error, as a ratio to Krichevsky–Trofimov's (area, integral)",
        "",
        f"Written by `python experiments/debiasing/run.py`: {len(rows)} settings, {TRIALS} trials each.",
        "",
        "| estimate | geometric mean | largest | settings above 1.1 |",
        "|---|---|---|---|",
    ]
    for name in rows[0]["rmse"]:
        r = ratios(name, rows)
        mean, most = np.exp(np.log(r).mean(axis=0)), r.max(axis=0)
        above = int((r > 1.1).any(axis=1).sum())
        lines.append(f"| {name} | {mean[0]:.3f}, {mean[1]:.3f} | {most[0]:.2f}, {most[1]:.2f} | {above} |")
    far = [row for row in rows if not any(word in row["pair"] for word in ("mix", "permuted"))]
    near = [row for row in rows if row not in far]
    for title, part in (("far pairs", far), ("mixtures near identity", near)):
        mean = np.exp(np.log(ratios(OURS, part)).mean(axis=0))
        lines.append(f"| {OURS}, {title} only ({len(part)}) | {mean[0]:.3f}, {mean[1]:.3f} | | |")
    lines += ["", f"## `{OURS}`, setting by setting", ""]
    lines.append("| pair | bins | " + " | ".join(f"bins/n = {s:g}" for s in SPARSITY) + " |")
    lines.append("|---|---|" + "---|" * len(SPARSITY))
    for pair in dict.fromkeys(row["pair"] for row in rows):
        for k in BINS:
            cells = ratios(OURS, [row for row in rows if row["pair"] == pair and row["bins"] == k])
            lines.append(f"| {pair} | {k} | " + " | ".join(f"{x:.2f}, {y:.2f}" for x, y in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
