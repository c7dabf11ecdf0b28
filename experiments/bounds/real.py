"""How tight are the statistical error bounds on real features (paper: fig:main:bound:new)?

    python experiments/bounds/real.py       minutes

Text: people and GPT-2 large with nucleus sampling, p = 0.95, on 1,000 prompts, averaged word vectors (GloVe). Images: 5,000 MNIST digits and 5,000
of a GAN, features of a LeNet-5. As in the paper, all features of both are put into k bins by k-means; these histograms are the populations, from
which n samples are drawn 100 times. The curves are those of run.py, on synthetic data. Writes real.json, real.md and real.png beside this file.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "embedders"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "digits"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bounds"))
import run
from claims import FAILS, HOLDS, Claim, claims_table, grid, write
from data import LeNet, gan, real
from webtext import by_prompt

from mallow.embed import glove
from mallow.estimate import Quantize

HERE = Path(__file__).resolve().parent
SIZES = [30, 100, 300, 1_000, 3_000, 10_000]
MANY = [4, 16, 64, 256, 1_024]


def features() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    everything = by_prompt()
    embed, rng = glove(), np.random.default_rng(0)
    text = tuple(np.asarray(embed(list(everything[name].values()))) for name in ("human", "nucleus"))
    map_noise, synthesise, width = gan()
    made = synthesise(map_noise(rng.normal(size=(5000, width)).astype(np.float32)))
    return {"text": text, "images": (LeNet()(real(rng)[:5000]), LeNet()(made))}


def histograms(x: np.ndarray, y: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The shares of both in k bins of k-means, without smoothing; bins without points of either stay."""
    masses = Quantize(bins=k)(x, y, rng=0)
    p, q = masses.partition.p_counts, masses.partition.q_counts
    return p / p.sum(), q / q.sum()


def main() -> None:
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    points = features()
    made = {(kind, k): histograms(*points[kind], k) for kind in points for k in MANY}
    settings = {
        "a": ("n", "text, k = 64", [(n, *made["text", 64], n) for n in SIZES]),
        "b": ("n", "images, k = 1024", [(n, *made["images", 1_024], n) for n in SIZES]),
        "c": ("k", "text, n = 1000", [(k, *made["text", k], 1_000) for k in MANY]),
        "d": ("k", "images, n = 10000", [(k, *made["images", k], 10_000) for k in MANY]),
    }
    panels = run.study(settings, HERE / "real.png", rng)
    claims = judge(panels)
    head = ["panel", "slope, over", *run.CURVES]
    rows = [[panel["title"], panel["axis"], *panel["slope"].values()] for panel in panels.values()]
    page = "Bounds on real features: `python experiments/bounds/real.py`. Slopes in the log–log plot:\n\n" + grid(
        head, rows
    )
    write(
        __file__, "real", {"trials": run.TRIALS, "panels": panels, "claims": claims}, page + "\n" + claims_table(claims)
    )


def judge(panels: dict) -> list[Claim]:
    """What the text says of the four panels; by the slopes of 100 trials, whose error is a few hundredths."""
    label, claims = "fig:main:bound:new", []

    def nearer(panel: str, part: slice, first: str, second: str, text: str) -> None:
        at, values = panels[panel]["at"][part], panels[panel]["values"]
        slopes = {name: run.slope(at, values[name][part]) for name in ("Monte Carlo", first, second)}
        off = [abs(slopes[name] - slopes["Monte Carlo"]) for name in (first, second)]
        detail = ", ".join(f"{name}: {value:.2f}" for name, value in slopes.items())
        claims.append(Claim(label, text, {"measure": HOLDS if off[0] < off[1] else FAILS}, detail))

    bound, oracle = "Bound / 30", "Oracle bound / 30"
    nearer("b", slice(0, 3), oracle, bound, "(b) the oracle bound has the right slope where k/n > 1")
    nearer("b", slice(-3, None), bound, oracle, "(b) the other bound is nearer for large n")
    nearer("c", slice(-2, None), oracle, bound, "(c) the oracle bound is nearer for large k")
    for panel in ("a", "d"):
        slopes = panels[panel]["slope"]
        off = min(abs(slopes[name] - slopes["Monte Carlo"]) for name in (bound, oracle))
        said = {"measure": HOLDS if off > 0.1 else FAILS}
        claims.append(
            Claim(label, f"({panel}) neither bound has the right slope", said, f"nearest is off by {off:.2f}")
        )
    valid = all(
        error <= bounding
        for panel in panels.values()
        for error, bounding in zip(
            panel["values"]["Monte Carlo"], panel["values"]["Theorem, sharp constants"], strict=True
        )
    )
    claims.append(Claim(label, "the theorem is an upper bound everywhere", {"measure": HOLDS if valid else FAILS}))
    return claims


if __name__ == "__main__":
    main()
