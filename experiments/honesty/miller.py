"""Standard errors of `compare_items` beside the formulas of Miller (2024, "Adding Error Bars to Evals") and statsmodels.

    pip install --no-deps statsmodels==0.15.0 patsy      into an environment of its own, with pandas < 3
    python experiments/honesty/miller.py                 a few seconds

The difference of two systems on the same items: four systems of grade-school-math (items are independent), and made-up
scores in clusters of equal and of different sizes. Miller's equation 1 is √(Σ(s − s̄)²/(n − 1))/√n, and equation 4 adds
the products of different items of a cluster, divided by n², to its square. statsmodels: an ordinary regression on a constant, with nonrobust and with
cluster-robust errors. Writes miller.json and miller.md beside this file; tests read the JSON.
"""

from __future__ import annotations

import warnings

import numpy as np
import statsmodels.api as sm
from items import SCHOOL
from settings import DATA, HERE, save

from mallow.evaluate import compare_items
from mallow.samples import read_item_scores

SIZES = {
    "300 independent items": [1] * 300,
    "60 clusters of 5": [5] * 60,
    "60 clusters of 1 to 9": [1 + number % 9 for number in range(60)],
}


def made_up(sizes: list[int]) -> tuple[dict[str, list[float]], list[int]]:
    """Scores of two systems with effects of clusters, by item, and the cluster of each item."""
    rng = np.random.default_rng(2024)
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    shared, items = rng.normal(size=(2, len(sizes))), rng.normal(size=len(clusters))
    scores = items + shared[:, clusters] + rng.normal(size=(2, len(clusters)))
    return {name: np.round(row, 6).tolist() for name, row in zip("ab", scores, strict=True)}, clusters.tolist()


def compare(systems: dict[str, list[float]], clusters: list[int]) -> dict[str, float]:
    grouped = len(set(clusters)) < len(clusters)
    result = compare_items(systems, clusters=dict(enumerate(clusters)) if grouped else None)
    pair = result.differences[0]
    rows = np.array(systems[pair.first]) - np.array(systems[pair.second])
    n, rest = len(rows), rows - rows.mean()
    values = {"difference": pair.difference, "mallow": pair.error, "p": pair.p_value}
    values["Miller, equation 1"] = float(rows.std(ddof=1) / np.sqrt(n))
    model = sm.OLS(rows, np.ones(n))
    values["statsmodels"] = float(model.fit().bse[0])
    if grouped:
        products = (np.bincount(clusters, rest) ** 2).sum() - (rest**2).sum()
        values["Miller, equation 4"] = float(np.sqrt(values["Miller, equation 1"] ** 2 + products / n**2))
        values["statsmodels, clustered"] = float(
            model.fit(cov_type="cluster", cov_kwds={"groups": np.array(clusters)}).bse[0]
        )
    return values


def main() -> None:
    warnings.simplefilter("ignore")
    results = {name: compare(*made_up(sizes)) for name, sizes in SIZES.items()}
    scores = {
        name: read_item_scores(DATA / "grade-school-math" / f"{name}.jsonl.gz", name).scores for name in SCHOOL[1:3]
    }
    items = list(scores[SCHOOL[1]])
    lists = {name: [own[item][0] for item in items] for name, own in scores.items()}
    results[f"grade-school-math, {' and '.join(lists)}"] = compare(lists, list(range(len(items))))
    save("miller.json", results)
    heads = ["mallow", "Miller, equation 1", "statsmodels", "Miller, equation 4", "statsmodels, clustered"]
    lines = [
        "# Standard errors of differences by item",
        "",
        "Written by `python experiments/honesty/miller.py`. `compare_items` leaves out one cluster at a time. For independent items this is Miller's equation 1 and the error of a regression on a "
        "constant. For clusters of equal size it is statsmodels' cluster-robust error, which is Miller's times √(G / (G − 1)) for G clusters, up to terms of order 1/n. For clusters of different sizes it is larger, "
        "and the intervals of Student's law have fewer degrees of freedom ([items.md](items.md) has how often they hold).",
        "",
        f"| scores | difference | {' | '.join(heads)} |",
        "|---" * (len(heads) + 2) + "|",
    ]
    for name, row in results.items():
        cells = " | ".join(f"{row[head]:.6f}" if head in row else "–" for head in heads)
        lines.append(f"| {name} | {row['difference']:+.4f} | {cells} |")
    (HERE / "miller.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
