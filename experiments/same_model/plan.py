"""Does the number of prompts or samples that `same_model` names reach the power of 80% that it promises?

    python experiments/same_model/plan.py [--trials 40] [--seed 30] [SETTING ...]      ten minutes on one core

A trial draws a pilot. If it proves a difference and `same_model` says how many prompts (or samples of each prompt) show
it, as many are drawn anew, with other prompts, and tested. Settings: Gaussian answers in eight columns that are moved
for each prompt in a direction of its own, or all in one direction, or for a fifth of the prompts only, or that spread
more; and texts of GPT-2 large on WebText by two decoders, whose prompts are not used twice in a trial.
Writes plan.json and plan.md beside this file; a setting that is in plan.json already is not run again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
from variants import lines

import mallow
from mallow import Samples
from mallow.embed import embed_all
from mallow.engine import single_threaded_blas

HERE = Path(__file__).resolve().parent
COLUMNS, POOL, EACH = 8, 1000, 3  # of Gaussians; prompts of WebText, samples of each
Pair = tuple[Samples, Samples]
Draw = Callable[[np.random.Generator, int, int], Pair]


def answers(kind: str, size: float, rng: np.random.Generator, prompts: int, each: int) -> Pair:
    """Answers of both models to new prompts."""
    a, b = rng.normal(size=(2, prompts, each, COLUMNS))
    own = rng.normal(size=(prompts, 1, COLUMNS))
    own *= size / np.linalg.norm(own, axis=2, keepdims=True)
    if kind == "one direction":
        b[:, :, 0] += size
    elif kind == "spread":
        b *= size
    else:
        b += own * (1.0 if kind == "own direction" else rng.random((prompts, 1, 1)) < 0.2)
    middle = rng.normal(size=(prompts, 1, COLUMNS))
    names = np.repeat([f"prompt {number}" for number in range(prompts)], each).tolist()
    return tuple(Samples(features=(middle + side).reshape(-1, COLUMNS), prompts=names) for side in (a, b))


@cache
def texts(decoder: str) -> list[dict]:
    return list(lines(f"webtext-gpt2-large/{decoder}.jsonl.gz"))


def continuations(decoders: tuple[str, str], rng: np.random.Generator, prompts: int, each: int) -> Pair:
    chosen = rng.permutation(POOL)[:prompts]
    sides = {
        name: Samples(
            texts=[texts(name)[place]["gen"][number] for place in chosen for number in range(each)],
            prompts=[f"{place} {texts(name)[place]['prefix']}" for place in chosen for _ in range(each)],
        )
        for name in decoders
    }
    embedded = embed_all(sides, "style", prompts="joint")
    return tuple(
        Samples(features=side.features, prompts=side.prompts, spaces=side.spaces) for side in embedded.values()
    )


SETTINGS: dict[str, tuple[Draw, int, int]] = {  # name: how to draw, prompts and samples of the pilot
    "own direction, 1.2 s.d.": (partial(answers, "own direction", 1.2), 25, 5),
    "own direction, 1.8 s.d.": (partial(answers, "own direction", 1.8), 25, 5),
    "own direction, 1 s.d.": (partial(answers, "own direction", 1.0), 20, 10),
    "own direction, 2 s.d.": (partial(answers, "own direction", 2.0), 40, 2),
    "one direction, 0.4 s.d.": (partial(answers, "one direction", 0.4), 25, 5),
    "a fifth of the prompts, 3 s.d.": (partial(answers, "few", 3.0), 25, 5),
    "spread × 1.4": (partial(answers, "spread", 1.4), 25, 5),
    "no difference": (partial(answers, "spread", 1.0), 25, 5),
    "nucleus and typical sampling": (partial(continuations, ("nucleus", "typical")), 60, EACH),
    "top-k and typical sampling": (partial(continuations, ("topk", "typical")), 60, EACH),
}


def judge(pair: Pair) -> mallow.evaluate.SameModel:
    return mallow.same_model(*pair, embedder=None)


def run(name: str, trials: int, seed: int) -> dict:
    """The plans of all pilots, and whether a new study of that size finds the difference."""
    draw, prompts, each = SETTINGS[name]
    row: dict = {"trials": trials, "prompts": prompts, "samples": each, "p": [], "planned": [], "found": []}
    more: dict = {"planned samples": [], "found by samples": []}
    for trial in range(trials):
        rng = np.random.default_rng([seed, list(SETTINGS).index(name), trial])
        pilot = judge(draw(rng, prompts, each))
        row["p"].append(pilot.p_value)
        if pilot.prompts_needed is not None and pilot.samples_needed is not None:
            row["planned"].append(pilot.prompts_needed)
            row["found"].append(judge(draw(rng, min(pilot.prompts_needed, POOL), each)).differs)
            if not name.endswith("sampling"):  # texts have three samples of a prompt
                more["planned samples"].append(pilot.samples_needed)
                more["found by samples"].append(judge(draw(rng, prompts, pilot.samples_needed)).differs)
    return row | more


def share(found: list[bool]) -> str:
    if not found:
        return "–"
    rate = float(np.mean(found))
    return f"{100 * rate:.0f} ± {100 * np.sqrt(max(rate * (1 - rate), 0.25 / len(found)) / len(found)):.0f}"


def report(results: dict) -> str:
    lines = [
        "# How many prompts and samples show a difference",
        "",
        "Written by `python experiments/same_model/plan.py`. `same_model` names a number of prompts, or of samples of each prompt, if a difference is proven and its lower limit (90%) is large enough. "
        "*reached*: how often a new study of that size finds the difference, in per cent ± standard error; 80 are promised. A plan for samples is for the prompts of the pilot, here as many others.",
        "",
        "| difference | pilot | trials | pilot proves it | plans | planned prompts: least, median, greatest | reached | planned samples | reached |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in results.items():
        proven = [p < 0.05 for p in row["p"]]
        of, by = row["planned"], row["planned samples"]
        cells = [name, f"{row['prompts']} × {row['samples']}", f"{row['trials']}", share(proven), f"{len(of)}"]
        cells += [f"{min(of)}, {np.median(of):.0f}, {max(of)}" if of else "–", share(row["found"])]
        cells += [f"{min(by)}, {np.median(by):.0f}, {max(by)}" if by else "–", share(row["found by samples"])]
        lines.append(f"| {' | '.join(cells)} |")
    for title, key in (("prompts", "found"), ("samples", "found by samples")):
        every = [one for name, row in results.items() if name != "no difference" for one in row[key]]
        lines += ["", f"All plans for {title}: {share(every)} of {len(every)}."]
    missing = [name for name in SETTINGS if name not in results]
    if missing:
        lines += ["", f"Not measured yet: {'; '.join(missing)}. The command adds them."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("settings", nargs="*", metavar="SETTING", help="names of settings to run")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--seed", type=int, default=30)
    options = parser.parse_args()
    file = HERE / "plan.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    with warnings.catch_warnings(), single_threaded_blas():
        warnings.simplefilter("ignore", mallow.EstimateWarning)
        for name in options.settings or SETTINGS:
            if name not in results:
                start = time.process_time()
                results[name] = run(name, options.trials, options.seed)
                print(name, f"{time.process_time() - start:.0f} s", flush=True)
                file.write_text(json.dumps(results) + "\n")
                (HERE / "plan.md").write_text(report(results))
    (HERE / "plan.md").write_text(report(results))


if __name__ == "__main__":
    main()
