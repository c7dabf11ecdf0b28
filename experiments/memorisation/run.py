"""Is copying told from generalising? A generator mixed with 0 to 50% copies of its training data, exact and edited, on real texts.

    python experiments/memorisation/run.py [--null 200] [--trials 20] [--embedder glove] [books news ...]

Each trial splits human texts at random into training data, fresh data (the reference) and texts of a perfect model, 500 of
each, and replaces a share of the model's texts by copies of training data. Counted is how often `mallow.memorisation` finds
copying at the 5% level, and how often its second test, which is not valid for every model, rejects; estimated is the share of near copies. Two models copy nothing and differ from the data: GPT-2 small
against WebText, and a model of few topics. The settings of `explain/_memorisation.py`
were chosen on books with GloVe (seeds 7); all seeds here are others, and news and the second embedder were not looked at.
Writes results-EMBEDDER.json and memorisation.md beside this file.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import texts as data

import mallow
from mallow.embed import embed_samples, find_embedder

HERE = Path(__file__).resolve().parent
N = 500
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
LEVEL = 0.05


def embedded(name: str, edited: str, embedder: str) -> np.ndarray:
    """The features of a pool, in float64."""
    own = data.edited_texts(name, edited)
    rows = embed_samples(list(own), find_embedder(embedder, kind="text"), progress=False).features
    return np.asarray(rows, np.float64)


def judge(fresh: np.ndarray, model: np.ndarray, train: np.ndarray, seed: int) -> mallow.explain.Memorisation:
    """The result, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mallow.EstimateWarning)
        return mallow.memorisation(fresh, model, train, permutations=399, rng=seed)


def summary(results: list[mallow.explain.Memorisation]) -> dict[str, float]:
    """How often copying was found, by the test that decides and by the second one, and the mean of the estimated shares."""
    return {
        "trials": len(results),
        "found": float(np.mean([one.copying for one in results])),
        "nearer_than_fresh": float(np.mean([one.nearer_than_fresh < LEVEL for one in results])),
        "share": float(np.mean([one.share.value for one in results])),
        "share_low": float(np.mean([one.share.low for one in results])),
        "share_high": float(np.mean([one.share.high for one in results])),
        "drawn": float(np.mean([one.drawn.value for one in results])),
        "doubts": float(np.mean([bool(one.caveats) for one in results])),
    }


def study(name: str, embedder: str, null: int, trials: int) -> dict[str, dict[str, float]]:
    """All shares and edits of one source of texts."""
    pool = embedded(name, "exact", embedder)
    copies = {edited: embedded(name, edited, embedder)[: data.COPIED] for edited in data.EDITS}
    results: dict[str, list[mallow.explain.Memorisation]] = {}
    for trial in range(max(null, trials)):
        rng = np.random.default_rng([1914, trial])
        if trial < null:  # all texts are split at random, so that training and fresh data can be exchanged
            order = rng.permutation(len(pool))
            train, fresh, rest = pool[order[:N]], pool[order[N : 2 * N]], pool[order[2 * N :]]
            results.setdefault("no copies", []).append(judge(fresh, rest[:N], train, trial))
            few = rest[np.argsort(rest @ rng.normal(size=pool.shape[1]))[:200]]
            results.setdefault("no copies, few topics", []).append(judge(fresh, few, train, trial))
        if trial >= trials:
            continue
        trained = rng.permutation(data.COPIED)[:N]
        others = data.COPIED + rng.permutation(len(pool) - data.COPIED)
        fresh, model = pool[others[:N]], pool[others[N : 2 * N]]
        for edited, rows in copies.items():
            for share in SHARES:
                mixed = model.copy()
                mixed[: round(share * N)] = rows[trained[: round(share * N)]]
                found = judge(fresh, mixed, pool[trained], trial)
                results.setdefault(f"{share:.0%} copies, {edited}", []).append(found)
    return {key: summary(own) for key, own in results.items()}


def webtext(embedder: str, null: int) -> dict[str, dict[str, float]]:
    """A real model that copies none of these texts: GPT-2 small against WebText that it was not trained on."""
    human, machine = embedded("web", "exact", embedder), embedded("gpt2", "exact", embedder)
    found = []
    for trial in range(null):
        order = np.random.default_rng([1914, trial]).permutation(len(human))
        half = len(order) // 2
        found.append(judge(human[order[:half]], machine, human[order[half:]], trial))
    return {"no copies, GPT-2 small": summary(found)}


def page() -> str:
    """All results as a page."""
    lines = [
        "# Copying told from generalising",
        "",
        "`python experiments/memorisation/run.py`: what is counted is said there.",
        "",
    ]
    for file in sorted(HERE.glob("results-*.json")):
        known = json.loads(file.read_text())
        for name, rows in known["results"].items():
            lines += [f"## {name}, {known['embedder']}, n = {N} each", ""]
            lines += [
                "| model | trials | copying found | second test | near copies, mean (95%) | at training data beyond chance, mean |"
            ]
            lines += ["|---|---|---|---|---|---|"]
            for key, one in rows.items():
                share = f"{one['share']:.1%} ({one['share_low']:.1%} to {one['share_high']:.1%})"
                share += f" | {one['drawn']:.1%}" if "drawn" in one else " | –"
                lines.append(
                    f"| {key} | {one['trials']} | {one['found']:.3f} | {one['nearer_than_fresh']:.3f} | {share} |"
                )
            lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Run, and write what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=["books", "news", "webtext"])
    parser.add_argument("--null", type=int, default=200)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--embedder", default="glove")
    options = parser.parse_args()
    file = HERE / f"results-{options.embedder}.json"
    known = json.loads(file.read_text()) if file.exists() else {"embedder": options.embedder, "results": {}}
    for name in options.names:
        began = time.monotonic()
        if name == "webtext":
            known["results"][name] = webtext(options.embedder, options.null)
        else:
            known["results"][name] = study(name, options.embedder, options.null, options.trials)
        print(name, f"{time.monotonic() - began:.0f} s", flush=True)
        file.write_text(json.dumps(known, indent=1) + "\n")
        (HERE / "memorisation.md").write_text(page())


if __name__ == "__main__":
    main()
