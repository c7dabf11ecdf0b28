"""Ten checkpoints of one training run: which one is best by the training loss, by MAUVE as mauve-text computes it, and by the certificate?

    python experiments/cases/checkpoints.py      a minute on one core

A mixture of 20 Gaussians is trained on 800 of scikit-learn's digits in six dimensions, from random responsibilities. Writes checkpoints.json beside
this file, which run.py puts on a page.
"""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

import mallow
from mallow.compat import compute_mauve

STEPS = tuple(range(2, 21, 2))


def main() -> None:
    warnings.simplefilter("ignore")
    digits = np.random.default_rng(0).permutation(load_digits().data)
    features = PCA(6, svd_solver="full").fit_transform(digits)
    training, reference, truth = features[:800], features[800:1300], features[1300:]
    samples, rows = {}, {}
    for step in STEPS:
        model = GaussianMixture(20, max_iter=step, tol=0, init_params="random", random_state=0)
        model.fit(training)
        name = f"step {step}"
        samples[name] = model.sample(500)[0]
        published = compute_mauve(p_features=reference, q_features=samples[name], verbose=False).mauve
        losses = -model.score(training), -model.score(truth)
        rows[name] = {"training loss": losses[0], "loss on other digits": losses[1], "as mauve-text": float(published)}
    start = time.process_time()
    comparison = mallow.compare(reference, samples)
    seconds = time.process_time() - start
    for name, score in comparison.scores.items():
        low, high = comparison.ranks[name]
        certified = score.certified["mauve"]
        rows[name] |= {"certified": certified.value, "at most": certified.high, "rank": [low, high], "p": score.p_value}
    results = {"rows": rows, "verdict": comparison.verdict, "best": list(comparison.best), "seconds": seconds}
    Path(__file__).with_name("checkpoints.json").write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
