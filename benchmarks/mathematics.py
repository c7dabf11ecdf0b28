"""Area, integral and mid-point of 1,000 resampled histogram pairs: one batched call against a plain loop.

    python benchmarks/mathematics.py

Both ways run in the same process, alternating; the ratio is of the medians. The plain way is what one
writes first: a loop over pairs and over a 25-point grid with NumPy, then the trapezoid rule. The true
areas come from a third rule: Gauss–Legendre on 400 panels with the analytic derivative.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

import mallow
from mallow import Masses, area, frontier, integral, midpoint
from mallow.theory.smoothing import empirical

PAIRS, BINS, SAMPLES, SCALE = 1_000, 500, 5_000, 5.0


def resampled_pairs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(BINS))
    tilt = p * np.exp(rng.normal(scale=0.5, size=BINS))
    q = tilt / tilt.sum()
    return (
        empirical(rng.multinomial(SAMPLES, p, size=PAIRS)),
        empirical(rng.multinomial(SAMPLES, q, size=PAIRS)),
    )


def batched(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    masses = Masses.from_histograms(p, q)
    curve = frontier(masses)
    return np.stack([area(curve, scale=SCALE), integral(masses), midpoint(masses)])


def kl(p: np.ndarray, q: np.ndarray) -> float:
    seen = p > 0
    return float(np.sum(p[seen] * np.log(p[seen] / q[seen])))


def plain(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    found = []
    for one_p, one_q in zip(p, q, strict=True):
        xs, ys = [0.0], [1.0]
        for lam in np.linspace(1e-6, 1 - 1e-6, 25):
            mix = lam * one_p + (1 - lam) * one_q
            xs.append(np.exp(-SCALE * kl(one_p, mix)))
            ys.append(np.exp(-SCALE * kl(one_q, mix)))
        both = (one_p > 0) & (one_q > 0) & (one_p != one_q)
        a, b = one_p[both], one_q[both]
        whole = np.sum((one_p + one_q)[one_p != one_q]) / 2
        half = (one_p + one_q) / 2
        found.append(
            (
                np.trapezoid([*ys, 0.0], [*xs, 1.0]),
                whole - np.sum(a * b / (a - b) * np.log(a / b)),
                (kl(one_p, half) + kl(one_q, half)) / 2,
            )
        )
    return np.array(found).T


def fine_area(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The area by Gauss–Legendre on 400 panels with the analytic derivative: another rule and formula."""
    at, weight = np.polynomial.legendre.leggauss(20)
    edges = np.linspace(-30, 30, 401)
    middle, half = (edges[:-1] + edges[1:]) / 2, np.diff(edges) / 2
    u = np.concatenate([edges[:1], (middle[:, None] + half[:, None] * at).ravel(), edges[-1:]])
    du = np.pad((half[:, None] * weight).ravel(), 1)
    lam, rest = 1 / (1 + np.exp(-u)), 1 / (1 + np.exp(u))
    mix = p[:, None] * lam + q[:, None] * rest
    log_p, log_q = np.log(np.where(p > 0, p, 1)), np.log(np.where(q > 0, q, 1))
    log_mix = np.log(np.where(mix > 0, mix, 1))
    x = np.exp(-SCALE * (p @ log_p - p @ log_mix))
    y = np.exp(-SCALE * (q @ log_q - q @ log_mix))
    slope = SCALE * x * (p @ ((p - q)[:, None] / np.where(mix > 0, mix, 1)))
    return x[0] + np.sum(y * slope * lam * rest * du) + (1 - x[-1]) * y[-1]


def main() -> None:
    p, q = resampled_pairs()
    times: dict[str, list[float]] = {"batched": [], "plain": []}
    values = {}
    for _ in range(5):
        for name, way in (("batched", batched), ("plain", plain)):
            start = time.perf_counter()
            values[name] = way(p, q)
            times[name].append(time.perf_counter() - start)
    truth = np.array([fine_area(*pair) for pair in zip(p[:50], q[:50], strict=True)])
    median = {name: float(np.median(seconds)) for name, seconds in times.items()}
    result = {
        "mallow": mallow.__version__,
        "numpy": np.__version__,
        "pairs": PAIRS,
        "bins": BINS,
        "samples": SAMPLES,
        "batched_seconds": round(median["batched"], 4),
        "plain_seconds": round(median["plain"], 4),
        "times_faster": round(median["plain"] / median["batched"], 1),
        "batched_area_error": float(np.abs(values["batched"][0][:50] - truth).max()),
        "plain_area_error": float(np.abs(values["plain"][0][:50] - truth).max()),
        "plain_area_error_all": float(np.abs(values["plain"][0] - values["batched"][0]).max()),
        "integral_difference": float(np.abs(values["plain"][1] - values["batched"][1]).max()),
        "midpoint_difference": float(np.abs(values["plain"][2] - values["batched"][2]).max()),
    }
    text = json.dumps(result, indent=1)
    print(text)
    Path(__file__).with_suffix(".json").write_text(text + "\n")


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
