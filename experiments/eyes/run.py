"""What do more spaces see, and do claims still hold? Style and prompts beside the features of the default embedder.

    python experiments/eyes/run.py [--seed 30] [--trials 400] [PART ...]     about an hour on one core

PARTs: `decoders` (certified values of six decoders by space), `dealt` (human texts, dealt to other prompts), `nucleus`
(how many prompts are needed to see it), `mixtures` (machine texts among human ones), `nulls` (no gap), `known` (pairs
whose MAUVE is known). Real texts come from `../shared/data`. Stories, news and WebText led to the choice of spaces with
other samples and fewer trials; documents and books were looked at afterwards. Writes run.json, run.md and run.png
beside this file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "honesty"))
import settings
from certificates import shift_truth

from mallow.embed import embed_all
from mallow.evidence import MAUVE_STAR, hold_out
from mallow.generate import NGram, generate
from mallow.samples import Samples

HERE = Path(__file__).resolve().parent
LEVEL = 0.05
DECODERS = ("nucleus", "topk", "typical", "contrastive", "beam", "greedy")
SPACES: dict[str, tuple[str, ...]] = {
    "features": (),
    "features, style": ("style",),
    "features, prompts": ("prompt", "prompts"),
    "all": ("style", "prompt", "prompts"),
}
Pair = tuple[Samples, Samples]


def embedded(*sets: Samples) -> list[Samples]:
    """The sets with features and all spaces."""
    return list(embed_all({str(number): samples for number, samples in enumerate(sets)}, prompts="joint").values())


def only(samples: Samples, *names: str) -> Samples:
    """The samples with some of their spaces."""
    spaces = {name: rows for name, rows in (samples.spaces or {}).items() if name in names}
    return Samples(features=samples.features, ids=samples.ids, prompts=samples.prompts, spaces=spaces)


def style_alone(samples: Samples) -> Samples:
    return Samples(features=samples.spaces["style"], ids=samples.ids, prompts=samples.prompts)


def judge(pair: Pair) -> tuple[float, float, float]:
    """The p-value, the certified value of MAUVE and its limit."""
    held_out = hold_out(MAUVE_STAR, {"model": pair})
    certified = held_out.certificates["model"].estimates["mauve"]
    return held_out.evidence["model"].test.p_value, certified.value, certified.high


@cache
def webtext() -> dict[str, Samples]:
    """Human continuations and those of the decoders, for the same prompts; empty ones are a full stop."""
    sets = {}
    for name in ("human", *DECODERS, "nucleus again"):
        generation = 1 if name.endswith("again") else 0
        rows = settings._lines(f"webtext-gpt2-large/{name.removesuffix(' again')}.jsonl.gz")[:1000]
        texts = [row["gen"][generation] if isinstance(row["gen"], list) else row["gen"] for row in rows]
        prompts = [row["prefix"] for row in rows]
        sets[name] = Samples(
            texts=[text if text.strip() else "." for text in texts],
            prompts=prompts,
            ids=[str(number) for number in range(len(rows))],
        )
    return dict(zip(sets, embedded(*sets.values()), strict=True))


@cache
def story_pairs() -> list[Samples]:
    """Passages of books: their first 40 words are the prompt, the next 90 the text; and the same texts dealt anew."""
    rows = settings._lines("classic-books/classic_books_chunks.jsonl.gz")[::4][:1000]
    words = [row["text"].split() for row in rows]
    words = [some for some in words if len(some) >= 130]
    prompts, texts = [" ".join(some[:40]) for some in words], [" ".join(some[40:130]) for some in words]
    dealt = [texts[number] for number in np.random.default_rng(30).permutation(len(texts))]
    return embedded(Samples(texts=texts, prompts=prompts), Samples(texts=dealt, prompts=prompts))


@cache
def corpus(name: str) -> tuple[Samples, Samples]:
    """Human texts of 130 words, and machine texts: of a 5-gram model fitted on others, or of GPT-2 small."""
    if name == "documents":
        human, machine = (
            [
                " ".join(row["text"].split()[:130])
                for row in settings._lines(f"webtext-gpt2-small/webtext.{file}.jsonl.gz")
            ]
            for file in ("human", "gpt2-small-unconditional")
        )
        return tuple(embedded(Samples(texts=human), Samples(texts=machine)))
    file = {"stories": "classic-books/classic_books_chunks", "news": "reuters/reuters_c50"}[name]
    cut = [" ".join(row["text"].split()[:130]) for row in settings._lines(f"{file}.jsonl.gz")]
    model = NGram.fit(cut[1::2], order=5)
    tokens = [model.encode(text) for text in cut[1::4]][:400]
    starts, longest = [text[:10] for text in tokens], max(map(len, tokens)) - 10
    new = generate(model, starts, "nucleus:0.95", max_new=longest, min_new=longest, rng=14, batch=len(starts))
    machine = [model.decode([*a, *b[: len(c) - 10]]) for a, b, c in zip(starts, new, tokens, strict=True)]
    return tuple(embedded(Samples(texts=cut[::2][:1250]), Samples(texts=machine)))


def decoders(seed: int, _: int) -> dict[str, dict[str, list[float]]]:
    """Certified values and limits of the decoders with 300 and with 1,000 prompts."""
    sets, results = webtext(), {}
    for size in (300, 1000):
        rows = np.random.default_rng(seed).permutation(1000)[:size]
        human = sets["human"].take(rows)
        for name in DECODERS:
            model = sets[name].take(rows)
            each = {title: judge((only(human, *some), only(model, *some))) for title, some in SPACES.items()}
            each["style"] = judge((style_alone(human), style_alone(model)))
            results[f"{name}, {size} prompts"] = each
            print(name, size, each, flush=True)
    return results


def dealt(seed: int, _: int) -> dict[str, dict[str, list[float]]]:
    """Human texts, dealt to other prompts: as texts alone nothing is wrong with them."""
    rows = np.random.default_rng(seed).permutation(1000)
    human = webtext()["human"]
    prompts = human.take(rows[:300])
    others = human.take(np.roll(rows[:300], 1))
    moved = Samples(texts=others.texts, prompts=prompts.prompts, ids=prompts.ids)
    pairs = {
        "WebText, 300 prompts": embedded(Samples(texts=prompts.texts, prompts=prompts.prompts, ids=prompts.ids), moved)
    }
    chosen = np.random.default_rng(seed).permutation(len(story_pairs()[0]))[:300]
    pairs["stories, 300 prompts"] = [samples.take(chosen) for samples in story_pairs()]
    results = {}
    for title, pair in pairs.items():
        results[title] = {name: judge(tuple(only(side, *some) for side in pair)) for name, some in SPACES.items()}
        print(title, results[title], flush=True)
    return results


def nucleus(seed: int, trials: int) -> dict[str, dict[str, float]]:
    """How often nucleus sampling is told from people, by the number of prompts."""
    sets, results = webtext(), {}
    for size in (50, 84, 120, 200, 336):
        seen = dict.fromkeys(SPACES, 0)
        for trial in range(min(trials, 50)):
            rows = np.random.default_rng([seed, trial]).permutation(1000)[:size]
            for title, some in SPACES.items():
                pair = tuple(only(sets[name].take(rows), *some) for name in ("human", "nucleus"))
                seen[title] += judge(pair)[0] < LEVEL
        results[f"{size} prompts"] = {title: count / min(trials, 50) for title, count in seen.items()}
        print(size, results[f"{size} prompts"], flush=True)
    return results


def mixtures(seed: int, trials: int) -> dict[str, dict[str, float]]:
    """How often machine texts among human ones are seen, in 50 trials."""
    results = {}
    for name, size, share in (
        ("stories", 200, 0.2),
        ("stories", 400, 0.1),
        ("news", 200, 0.2),
        ("news", 400, 0.1),
        ("documents", 400, 0.3),
    ):
        human, machine = corpus(name)
        seen = {"features": 0, "features, style": 0}
        for trial in range(min(trials, 50)):
            rng = np.random.default_rng([seed, trial])
            rows = rng.permutation(len(human))[: 2 * size]
            swapped = int(rng.binomial(size, share))
            some = rng.permutation(len(machine))[:swapped]
            for title in seen:
                spaces = SPACES[title]
                x, y, z = (
                    only(own, *spaces) for own in (human.take(rows[:size]), human.take(rows[size:]), machine.take(some))
                )
                seen[title] += judge((x, join(y.take(range(size - swapped)), z)))[0] < LEVEL
        results[f"{name}, {share:.0%} machine, n = {size}"] = {
            title: count / min(trials, 50) for title, count in seen.items()
        }
        print(name, size, share, results[f"{name}, {share:.0%} machine, n = {size}"], flush=True)
    return results


def join(first: Samples, second: Samples) -> Samples:
    spaces = {name: np.concatenate([rows, second.spaces[name]]) for name, rows in first.spaces.items()}
    return Samples(features=np.concatenate([first.features, second.features]), spaces=spaces)


def null_nucleus(rng: np.random.Generator) -> Pair:
    """Two generations for each of 150 prompts, each dealt to either side."""
    rows, swap = rng.permutation(1000)[:150], rng.random(150) < 0.5
    first, second = (webtext()[name].take(rows) for name in ("nucleus", "nucleus again"))
    both = join_prompts(first, second)
    x = both.take(np.where(swap, np.arange(150) + 150, np.arange(150)))
    return x, both.take(np.where(swap, np.arange(150), np.arange(150) + 150))


def join_prompts(first: Samples, second: Samples) -> Samples:
    spaces = {name: np.concatenate([rows, second.spaces[name]]) for name, rows in first.spaces.items()}
    features = np.concatenate([first.features, second.features])
    return Samples(features=features, spaces=spaces, ids=first.ids + second.ids, prompts=first.prompts + second.prompts)


def halves(name: str, n: int, m: int) -> Callable[[np.random.Generator], Pair]:
    def draw(rng: np.random.Generator) -> Pair:
        human = only(corpus(name)[0], "style")
        rows = rng.permutation(len(human))
        return human.take(rows[:n]), human.take(rows[n : n + m])

    return draw


def authors(rng: np.random.Generator) -> Pair:
    """25 authors with 8 texts each on either side; an author is a unit."""
    samples = news_by_author()
    names = rng.permutation(sorted(set(samples.ids)))
    rows = {str(name): [] for name in names}
    for row in rng.permutation(len(samples)):
        rows[samples.ids[row]].append(int(row))
    sides = [[row for name in half for row in rows[str(name)][:8]] for half in (names[:25], names[25:50])]
    return samples.take(sides[0]), samples.take(sides[1])


@cache
def news_by_author() -> Samples:
    rows = settings._lines("reuters/reuters_c50.jsonl.gz")[::2]
    texts = [" ".join(row["text"].split()[:130]) for row in rows]
    [samples] = embedded(Samples(texts=texts, ids=[row["author"] for row in rows]))
    return only(samples, "style")


NULLS: dict[str, Callable[[np.random.Generator], Pair]] = {
    "nucleus, two generations of 150 prompts": null_nucleus,
    "stories, 200 against 200": halves("stories", 200, 200),
    "documents, 200 against 200": halves("documents", 200, 200),
    "news, 300 against 60": halves("news", 300, 60),
    "news, 25 authors × 8 against 25 others": authors,
}


def nulls(seed: int, trials: int) -> dict[str, dict[str, float]]:
    results = {}
    for name, draw in NULLS.items():
        found = [judge(draw(np.random.default_rng([seed, trial]))) for trial in range(trials)]
        results[name] = {
            "trials": trials,
            "rejected": sum(p < LEVEL for p, _, _ in found),
            "limit below 1": sum(high < 1.0 for _, _, high in found),
        }
        print(name, results[name], flush=True)
    return results


def known(seed: int, trials: int) -> dict[str, dict[str, float]]:
    """A shift in each of two spaces, whose true MAUVE is that of both together."""
    results = {}
    for title, shifts, size, widths in (
        ("shifts 0.7 and 0.7, n = 300", (0.7, 0.7), 300, (20, 50)),
        ("shifts 0 and 1, n = 300", (0.0, 1.0), 300, (50, 5)),
        ("shifts 0.5 and 2, n = 60", (0.5, 2.0), 60, (20, 20)),
        ("shifts 0.5 and 0, n = 1000", (0.5, 0.0), 1000, (10, 200)),
    ):
        truth = shift_truth(float(np.hypot(*shifts)))[0]
        limits = []
        for trial in range(trials):
            rng = np.random.default_rng([seed, trial, size])
            sides = []
            for side in (0, 1):
                features, more = (
                    rng.normal(size=(size, width)) + side * shift / np.sqrt(width)
                    for shift, width in zip(shifts, widths, strict=True)
                )
                sides.append(Samples(features=features, spaces={"more": more}))
            limits.append(judge((sides[0], sides[1]))[1:])
        results[title] = {
            "trials": trials,
            "truth": truth,
            "holds": sum(truth <= high for _, high in limits),
            "certified": float(np.mean([value for value, _ in limits])),
            "limit": float(np.mean([high for _, high in limits])),
        }
        print(title, results[title], flush=True)
    return results


PARTS = {"decoders": decoders, "dealt": dealt, "nucleus": nucleus, "mixtures": mixtures, "nulls": nulls, "known": known}


def report(results: dict[str, dict]) -> str:
    lines = [
        "# More eyes: style and prompts beside the features",
        "",
        "Written by `python experiments/eyes/run.py`.",
        "",
    ]
    if "decoders" in results:
        titles = ["features", "style", "features, style", "features, prompts", "all"]
        lines += ["MAUVE is at most (95% limit; certified value in brackets), GPT-2 large on WebText:", ""]
        lines += [f"| decoder | {' | '.join(titles)} |", "|---|" + "---|" * len(titles)]
        for name, row in results["decoders"].items():
            lines.append(f"| {name} | " + " | ".join(f"{row[t][2]:.3f} ({row[t][1]:.3f})" for t in titles) + " |")
    if "dealt" in results:
        lines += ["", "Human texts dealt to other prompts, p-value and 95% limit:", ""]
        lines += [f"| texts | {' | '.join(SPACES)} |", "|---|" + "---|" * len(SPACES)]
        for name, row in results["dealt"].items():
            lines.append(f"| {name} | " + " | ".join(f"p = {row[t][0]:.2g}, {row[t][2]:.3f}" for t in SPACES) + " |")
    for part, text in (
        ("nucleus", "Nucleus sampling told from people at the 5% level, share of 50 trials:"),
        ("mixtures", "Machine texts among human ones, share of 50 trials that see them at the 5% level:"),
    ):
        if part in results:
            titles = list(next(iter(results[part].values())))
            lines += ["", text, "", f"| samples | {' | '.join(titles)} |", "|---|" + "---|" * len(titles)]
            lines += [
                f"| {name} | " + " | ".join(f"{row[t]:.2f}" for t in titles) + " |"
                for name, row in results[part].items()
            ]
    if "nulls" in results:
        lines += ["", "No gap, all spaces: rejected at the 5% level, and limits below 1:", ""]
        lines += ["| samples | trials | rejected | limits below 1 |", "|---|---|---|---|"]
        for name, row in results["nulls"].items():
            share = settings.share_with_error(row["rejected"], row["trials"])
            lines.append(f"| {name} | {row['trials']} | {share}% | {row['limit below 1']} |")
    if "known" in results:
        lines += ["", "Two spaces with a known gap: how often the 95% limit holds:", ""]
        lines += ["| pair | trials | true MAUVE | certified, limit | holds |", "|---|---|---|---|---|"]
        for name, row in results["known"].items():
            share = settings.share_with_error(row["holds"], row["trials"])
            lines.append(
                f"| {name} | {row['trials']} | {row['truth']:.3f} | {row['certified']:.3f}, {row['limit']:.3f} | {share}% |"
            )
    return "\n".join(lines) + "\n"


def picture(results: dict[str, dict]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True, layout="constrained")
    looks = {
        "features": ("s", "#9aa0a6"),
        "style": ("v", "#d08a2e"),
        "features, prompts": ("D", "#4f9d8f"),
        "features, style": ("^", "#6f9bd1"),
        "all": ("o", "#7b4fa3"),
    }
    for each, size in zip(axes, (300, 1000), strict=True):
        for place, (title, (marker, colour)) in enumerate(looks.items()):
            limits = [results["decoders"][f"{name}, {size} prompts"][title][2] for name in DECODERS]
            height = np.arange(len(DECODERS)) + 0.13 * (place - 2)
            each.plot(limits, height, marker, color=colour, label=title, markersize=6)
        each.set(yticks=range(len(DECODERS)), yticklabels=DECODERS, xlim=(-0.02, 1.02), title=f"{size:,} prompts")
        each.set_xlabel("MAUVE is at most (95% limit)")
        each.grid(axis="x", alpha=0.3)
    axes[0].invert_yaxis()
    axes[1].legend(title="evidence from", loc="lower right", fontsize=8)
    figure.savefig(HERE / "run.png", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help="parts to run; others are kept from the last run")
    parser.add_argument("--seed", type=int, default=30)
    parser.add_argument("--trials", type=int, default=400)
    options = parser.parse_args()
    file = HERE / "run.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    for part in options.parts or PARTS:
        results[part] = PARTS[part](options.seed, options.trials)
        results = {name: results[name] for name in PARTS if name in results}
        file.write_text(json.dumps(settings.rounded(results) if hasattr(settings, "rounded") else results, indent=1))
        (HERE / "run.md").write_text(report(results))
    if "decoders" in results:
        picture(results)


if __name__ == "__main__":
    main()
