"""Equal models on shared items: how often is one of twenty declared better, and does planned power come true?

Scores are true or false. An item has a difficulty that all models share; within a cluster, each model also has an effect
of its own, so that items of a cluster depend on each other. All models are equally good on average. Beside each row, the
same scores with clusters ignored.

    python experiments/honesty/items.py [trials] [equal] [plan] [school]

`school` compares the four systems of grade-school-math, in ../shared/data.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from settings import DATA, HERE, LEVEL, load, save, share_with_error

from mallow.evaluate import compare_items

MODELS = 20
SETTINGS = {  # sizes of the clusters, samples per item, spread of the clusters' effects, mean of the log-odds
    "200 items": ([1] * 200, 1, 0.0, 0.0),
    "40 items": ([1] * 40, 1, 0.0, 0.0),
    "200 items, 97% correct": ([1] * 200, 1, 0.0, 6.0),
    "80 items, 3 samples each": ([1] * 80, 3, 0.0, 0.0),
    "40 passages of 5 items": ([5] * 40, 1, 1.0, 0.0),
    "40 passages of 1 to 8 items": ([1 + number % 8 for number in range(40)], 1, 1.0, 0.0),
    "10 passages of 20 items": ([20] * 10, 1, 1.0, 0.0),
    "10 passages of 4 to 56 items": ([4, 6, 8, 10, 13, 17, 23, 31, 42, 56], 1, 1.0, 0.0),
}
PLANNED = 0.3
SCHOOL = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")


def draw(rng: np.random.Generator, name: str, models: int = MODELS) -> tuple[dict[str, dict[int, list[bool]]], dict]:
    """The scores of equal models, and the cluster of each item."""
    sizes, samples, spread, mean = SETTINGS[name]
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    difficulty = rng.normal(mean, 2.0, size=len(clusters))
    odds = difficulty + rng.normal(0.0, spread, size=(models, len(sizes)))[:, clusters]
    right = rng.random((samples, models, len(clusters))) < 1 / (1 + np.exp(-odds))
    systems = {f"model-{i}": {item: right[:, i, item].tolist() for item in range(len(clusters))} for i in range(models)}
    return systems, dict(enumerate(clusters.tolist()))


def run(name: str, trials: int) -> dict:
    """How many trials name a winner, and find any pair to differ; with clusters and without."""
    counts = dict.fromkeys(["winner", "any pair", "interval", "winner, ignored", "any pair, ignored"], 0)
    for trial in range(trials):
        rng = np.random.default_rng([32, list(SETTINGS).index(name), trial])
        systems, clusters = draw(rng, name)
        for ending, option in (("", clusters), (", ignored", None)):
            if ending and max(SETTINGS[name][0]) == 1:  # the same call
                continue
            result = compare_items(systems, clusters=option)
            counts[f"winner{ending}"] += result.winner is not None
            counts[f"any pair{ending}"] += any(pair.significant for pair in result.differences)
            if not ending:
                pair = next(one for one in result.differences if one.systems == {"model-0", "model-1"})
                counts["interval"] += pair.interval[0] <= 0 <= pair.interval[1]
    if max(SETTINGS[name][0]) == 1:
        counts |= {f"{key}, ignored": counts[key] for key in ("winner", "any pair")}
    return {"trials": trials, **counts}


def run_plan(trials: int) -> dict:
    """How often a difference is found with the number of items that a pilot of 100 items plans for it."""
    planned, found = [], 0
    for trial in range(trials):
        rng = np.random.default_rng([33, trial])

        def scores(count: int, rng: np.random.Generator = rng) -> dict[str, np.ndarray]:
            items = rng.normal(size=count)
            noise = rng.normal(size=(2, count))
            return {"a": items + noise[0] + PLANNED, "b": items + noise[1]}

        [count] = compare_items(scores(100)).items_needed(PLANNED).values()
        planned.append(count)
        found += compare_items(scores(count)).winner == "a"
    return {"trials": trials, "items": float(np.median(planned)), "found": found}


def run_school() -> dict:
    """What `mallow items` says of four systems, true or false for each of 1,319 questions."""
    paths = {name: DATA / "grade-school-math" / f"{name}.jsonl.gz" for name in SCHOOL}
    result = compare_items(paths, detect=0.02)
    pairs = {
        f"{pair.first} - {pair.second}": {"difference": pair.difference, "interval": pair.interval, "p": pair.adjusted}
        | {"detectable": pair.detectable, "items for 0.02": result.items_needed(0.02)[pair.first, pair.second]}
        for pair in result.differences
    }
    means = {name: score.value for name, score in result.scores.items()}
    return {"items": result.items, "means": means, "pairs": pairs, "verdict": result.verdict}


def report(results: dict) -> str:
    lines = [
        "# Equal models on shared items",
        "",
        "Written by `python experiments/honesty/items.py`. Twenty equal models, scores true or false. Shares in per cent, with their",
        f"standard errors; at most {100 * LEVEL:g}% of trials may name a winner or find any pair to differ, and at least 95% of intervals of a difference",
        "should hold. *Ignored*: the same scores with every item as its own cluster.",
        "",
        "| setting | trials | a winner | any pair | intervals | a winner, ignored | any pair, ignored |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in results["equal"].items():
        cells = (
            share_with_error(row[key], row["trials"])
            for key in ("winner", "any pair", "interval", "winner, ignored", "any pair, ignored")
        )
        lines.append(f"| {name} | {row['trials']} | {' | '.join(cells)} |")
    plan = results["plan"]
    lines += [
        "",
        f"A pilot of 100 items plans {plan['items']:.0f} items (median) to find a difference of {PLANNED:g} with 80% power. It is found in "
        f"{share_with_error(plan['found'], plan['trials'])}% of {plan['trials']} trials.",
    ]
    school = results["school"]
    lines += ["", f"Four systems on {school['items']:,} questions of grade-school-math: {school['verdict']}", ""]
    lines += [
        "| difference | mean score | 95% interval | p, corrected | detectable | items for 0.02 |",
        "|---|---|---|---|---|---|",
    ]
    for name, pair in school["pairs"].items():
        low, high = pair["interval"]
        cells = f"{pair['difference']:+.4f} | {low:+.4f} to {high:+.4f} | {pair['p']:.2g} | {pair['detectable']:.4f}"
        lines.append(f"| {name} | {cells} | {pair['items for 0.02']:,} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    warnings.simplefilter("ignore")  # few clusters are the point
    parts = sys.argv[2:] or ["equal", "plan", "school"]
    results = load("items.json")
    if "equal" in parts:
        results["equal"] = {name: run(name, trials) for name in SETTINGS}
    if "plan" in parts:
        results["plan"] = run_plan(trials)
    if "school" in parts:
        results["school"] = run_school()
    save("items.json", results)
    (HERE / "items.md").write_text(report(results))


if __name__ == "__main__":
    main()
