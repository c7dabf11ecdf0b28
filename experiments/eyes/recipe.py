"""Which recipe of style sees most? Chosen on some texts, then compared with the present recipe on texts that nobody had looked at.

    python experiments/eyes/recipe.py [--trials 40] [choose | confirm ...]     about an hour on one core

A recipe says which characters count, how long the runs are, how many columns they are hashed to, and how counts are
weighted. `choose` measures every recipe on passages of books with 20% by a 5-gram model (n = 200) and on decoders of
GPT-2 large against human continuations of other prompts. `confirm` measures the present recipe and the best three of
`choose` with other seeds on news with machine texts of three kinds, on documents of GPT-2 small, on another decoder,
and on pairs without a gap. Every power is that of `mallow.permutation_test` at the 5% level on these features alone.
Writes recipe.json and recipe.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "honesty"))
import machine
import settings

from mallow.evidence import permutation_test
from mallow.samples import Samples

HERE = Path(__file__).resolve().parent
BEST = 3  # recipes that are confirmed beside the present one
Table = np.ndarray
WEIGHTS: dict[str, Callable[[Table], Table]] = {
    "roots": lambda counts: np.sign(counts) * np.sqrt(np.abs(counts)),
    "logs": lambda counts: np.sign(counts) * np.log1p(np.abs(counts)),
    "present or not": np.sign,
    "counts": lambda counts: counts,
}


@dataclass(frozen=True)
class Recipe:
    """The defaults are those of `mallow.embed.style`."""

    shortest: int = 2
    longest: int = 4
    width: int = 1024
    weight: str = "roots"
    kept: str = "letters"  # or "letters and digits", "all characters"
    capitals: bool = False
    punctuation: int = 0  # columns of a block of its own
    words: int = 0  # columns of a block of words

    def __str__(self) -> str:
        parts = [f"{self.shortest}–{self.longest} {self.kept}", f"{self.width} columns", self.weight]
        parts += ["capitals"] if self.capitals else []
        parts += [f"punctuation in {self.punctuation}"] if self.punctuation else []
        parts += [f"words in {self.words}"] if self.words else []
        return ", ".join(parts)

    def __call__(self, texts: Sequence[str]) -> Table:
        letters = [self._kept(text) for text in texts]
        blocks = [self._block(letters, "char_wb", (self.shortest, self.longest), self.width)]
        if self.punctuation:
            marks = [re.sub(r"[^\W_]+", "x", text) for text in texts]
            blocks.append(self._block(marks, "char", (1, 3), self.punctuation))
        if self.words:
            blocks.append(self._block(letters, "word", (1, 1), self.words))
        return np.concatenate(blocks, axis=1) / np.sqrt(len(blocks))

    def _kept(self, text: str) -> str:
        text = unicodedata.normalize("NFKC", text) if self.capitals else unicodedata.normalize("NFKC", text).casefold()
        if self.kept == "all characters":
            return " ".join(text.split())
        return " ".join(re.sub(r"[\W_]+" if "digits" in self.kept else r"[\W\d_]+", " ", text).split())

    def _block(self, texts: list[str], analyzer: str, runs: tuple[int, int], width: int) -> Table:
        counting = HashingVectorizer(
            analyzer=analyzer, ngram_range=runs, n_features=width, norm=None, alternate_sign=True, lowercase=False
        )
        rows = WEIGHTS[self.weight](counting.transform(texts).toarray())
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


PRESENT = Recipe()
RECIPES = [
    PRESENT,
    *(Recipe(a, b) for a, b in ((1, 2), (1, 3), (2, 3), (2, 5), (3, 3), (3, 5), (4, 4))),
    *(Recipe(width=width) for width in (256, 512, 2048, 4096)),
    *(Recipe(weight=weight) for weight in ("logs", "present or not", "counts")),
    Recipe(kept="letters and digits"),
    Recipe(kept="all characters"),
    Recipe(capitals=True),
    Recipe(punctuation=128),
    Recipe(2, 3, punctuation=128),
    Recipe(words=1024),
    Recipe(width=512, words=512),
]


@dataclass(frozen=True)
class Row:
    """Reference texts, others that are as good, and machine texts of which `share` replaces some of the others."""

    human: list[str]
    machine: list[str]
    n: int
    share: float = 1.0


def mixed(corpus: str, writer: str, n: int, share: float) -> Row:
    written = machine.machine_texts(corpus, writer)
    if written is None:
        sys.exit(f"{corpus}: {writer} is not available")
    return Row(machine.texts(corpus)[: 2 * machine.HUMAN : 2], written, n, share)


@cache
def continuations(name: str) -> list[str]:
    """The first text of each prompt."""
    rows = settings._lines(f"webtext-gpt2-large/{name}.jsonl.gz")
    first = [row["gen"][0] if isinstance(row["gen"], list) else row["gen"] for row in rows]
    return [" ".join(text.split()[:120]) for text in first]


def documents(name: str) -> list[str]:
    return [
        " ".join(row["text"].split()[:130]) for row in settings._lines(f"webtext-gpt2-small/webtext.{name}.jsonl.gz")
    ]


def decoder(name: str, n: int) -> Row:
    return Row(continuations("human"), continuations(name), n)


ROWS: dict[str, dict[str, Callable[[], Row]]] = {
    "choose": {
        "stories, 20% by a 5-gram model, n = 200": lambda: mixed("stories", "5-gram of words", 200, 0.2),
        "typical, other prompts, n = 60": lambda: decoder("typical", 60),
        "top-k, other prompts, n = 60": lambda: decoder("topk", 60),
        "nucleus, other prompts, n = 400": lambda: decoder("nucleus", 400),
    },
    "confirm": {
        "news, 20% by a 5-gram model, n = 200": lambda: mixed("news", "5-gram of words", 200, 0.2),
        "news, 20% by a 2-gram model, n = 200": lambda: mixed("news", "2-gram of words", 200, 0.2),
        "news, 10% by a 6-gram model of characters, n = 400": lambda: mixed("news", "6-gram of characters", 400, 0.1),
        "documents, 40% GPT-2 small, n = 400": lambda: Row(
            documents("human"), documents("gpt2-small-unconditional"), 400, 0.4
        ),
        "contrastive, other prompts, n = 25": lambda: decoder("contrastive", 25),
        "no gap: news, n = 200": lambda: Row(machine.texts("news")[::4], [], 200, 0.0),
        "no gap: human continuations, n = 200": lambda: Row(continuations("human"), [], 200, 0.0),
    },
}


def power(recipe: Recipe, row: Row, seed: int, trials: int) -> float:
    human, machine_rows = recipe(row.human), recipe(row.machine) if row.machine else np.zeros((0, 0))
    found = 0
    for trial in range(trials):
        rng = np.random.default_rng([seed, trial, row.n])
        order, replaced = rng.permutation(len(human)), round(row.share * row.n)
        second = human[order[row.n : 2 * row.n - replaced]]
        if replaced:
            # texts of a decoder continue the same prompts as human ones: other prompts are those that are not taken
            free = order[row.n :] if len(machine_rows) == len(human) else rng.permutation(len(machine_rows))
            second = np.concatenate([second, machine_rows[free[-replaced:]]])
        x, y = Samples(features=human[order[: row.n]]), Samples(features=second)
        found += float(permutation_test(x, y)) < settings.LEVEL
    return found / trials


def best(results: dict) -> list[Recipe]:
    """The present recipe, and those with the most power on average where recipes are chosen."""
    means = {
        str(recipe): float(np.mean([results["choose"][row][str(recipe)] for row in ROWS["choose"]]))
        for recipe in RECIPES
    }
    others = sorted((recipe for recipe in RECIPES if recipe != PRESENT), key=lambda recipe: -means[str(recipe)])
    return [PRESENT, *others[:BEST]]


def report(results: dict) -> str:
    lines = [
        "# Recipes of style",
        "",
        "Written by `python experiments/eyes/recipe.py`. Share of trials that see the gap at the 5% level.",
    ]
    for part, title in (("choose", "Where recipes were chosen"), ("confirm", "On texts that were not looked at")):
        if part not in results:
            continue
        rows = [row for row in ROWS[part] if row in results[part]]
        lines += [
            "",
            f"{title}, {results[part]['trials']} trials:",
            "",
            f"| recipe | {' | '.join(rows)} | mean of gaps |",
        ]
        lines += ["|---|" + "---|" * (len(rows) + 1)]
        for recipe in RECIPES:
            if not all(str(recipe) in results[part][row] for row in rows):
                continue
            cells = [results[part][row][str(recipe)] for row in rows]
            mean = np.mean([cell for row, cell in zip(rows, cells, strict=True) if "no gap" not in row])
            name = f"{recipe} (present)" if recipe == PRESENT else str(recipe)
            lines.append(f"| {name} | {' | '.join(f'{cell:.2f}' for cell in cells)} | {mean:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help="choose, confirm; others are kept from the last run")
    parser.add_argument("--trials", type=int, default=40)
    options = parser.parse_args()
    file = HERE / "recipe.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    for part in options.parts or list(ROWS):
        results[part] = {"trials": options.trials}
        recipes = RECIPES if part == "choose" else best(results)
        for name, make in ROWS[part].items():
            row = make()
            results[part][name] = {}
            for recipe in recipes:
                share = power(recipe, row, {"choose": 41, "confirm": 1941}[part], options.trials)
                results[part][name][str(recipe)] = share
                print(part, name, recipe, share, flush=True)
            file.write_text(json.dumps(results, indent=1) + "\n")
            (HERE / "recipe.md").write_text(report(results))


if __name__ == "__main__":
    main()
