"""Which machine texts does style see among human ones? By what wrote them, by space, and by the number of texts.

    python experiments/family/train.py books 0.04M && python experiments/family/train.py books 0.3M      (news alike)
    python experiments/eyes/machine.py [--seed 30] [--trials 25] [--writers NAME ...] [--spaces NAME ...] [stories | news ...]     a quarter of an hour on one core

Human texts are the first 130 words of passages of books and of Reuters stories (`../shared/data`). Machine texts begin
with 10 tokens of others and are as long: from n-gram models over words of order 1 to 5 and over characters of order 6,
and from the models of experiments/family, where their weights are in the cache; all sample from the nucleus of 0.95.
Half of a trial is human; of the other half 20% of 200 or 10% of 400 are machine texts. Evidence looks at the default
embedder's features, at style, or at both. Writes machine.json and machine.md beside this file.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "honesty"))
import settings

from mallow.embed import embed_samples, find_embedder, style
from mallow.evidence import permutation_test
from mallow.generate import CausalModel, NGram, generate
from mallow.samples import Samples

HERE = Path(__file__).resolve().parent
WORDS, START = 130, 10  # words of a text; tokens that a machine text continues
HUMAN, MACHINE = 1000, 240  # texts
DESIGNS = ((200, 0.2), (400, 0.1))
SPACES = ("features", "style", "both")
CORPORA = {
    "stories": ("classic-books/classic_books_chunks", "books"),
    "news": ("reuters/reuters_c50", "news"),
}
WRITERS = {
    **{f"{order}-gram of words": order for order in (1, 2, 3, 4, 5)},
    "6-gram of characters": 6,
    "transformer, 0.04M": "0.04M",
    "transformer, 0.3M": "0.3M",
}


@cache
def texts(corpus: str) -> list[str]:
    rows = settings._lines(f"{CORPORA[corpus][0]}.jsonl.gz")
    return [" ".join(row["text"].split()[:WORDS]) for row in rows]


def family_model(corpus: str, size: str) -> CausalModel | None:
    """A model of experiments/family, if it has been trained."""
    spec = importlib.util.spec_from_file_location("family_settings", HERE.parent / "family" / "settings.py")
    family = importlib.util.module_from_spec(spec)
    sys.modules["family_settings"] = family
    spec.loader.exec_module(family)
    sizes = {own.name: own for own in family.SIZES}
    folder = family.model_folder(family.DOMAINS[CORPORA[corpus][1]], sizes[size])
    if not (folder / "model.safetensors").exists():
        print(f"{corpus}, {size}: train it by experiments/family/train.py", file=sys.stderr)
        return None
    return CausalModel(str(folder), dtype="float32", device="cpu").load()


def machine_texts(corpus: str, writer: str) -> list[str] | None:
    others = texts(corpus)[1::2]
    if isinstance(WRITERS[writer], str):
        model = family_model(corpus, WRITERS[writer])
        if model is None:
            return None
    elif "characters" in writer:
        model = NGram.fit(others, order=WRITERS[writer], tokenize=list)
    else:
        model = NGram.fit(others, order=WRITERS[writer])
    start = START * (6 if "characters" in writer else 1)
    tokens = [model.encode(text) for text in others[:: len(others) // MACHINE][:MACHINE]]
    longest = max(map(len, tokens)) - start
    if not isinstance(model, NGram):
        longest = min(longest, model.context - start)
    prefixes = [own[:start] for own in tokens]
    new = generate(model, prefixes, "nucleus:0.95", max_new=longest, min_new=longest, rng=14, batch=len(tokens))
    return [model.decode([*a, *b[: len(c) - start]]) for a, b, c in zip(prefixes, new, tokens, strict=True)]


def embedded(some: list[str], spaces: tuple[str, ...]) -> dict[str, np.ndarray]:
    rows = {"style": style(some)}
    if spaces != ("style",):
        rows["features"] = embed_samples(Samples(texts=some), find_embedder(None, kind="text")).features
    return rows


def seen(rows: dict[str, np.ndarray], space: str) -> Samples:
    if space == "both":
        return Samples(features=rows["features"], spaces={"style": rows["style"]})
    return Samples(features=rows[space])


def power(
    human: dict, machine: dict, spaces: tuple[str, ...], size: int, share: float, seed: int, trials: int
) -> dict[str, float]:
    found = dict.fromkeys(spaces, 0)
    for trial in range(trials):
        rng = np.random.default_rng([seed, trial, size])
        rows = rng.permutation(HUMAN)[: 2 * size]
        swapped = int(rng.binomial(size, share))
        some = rng.permutation(MACHINE)[:swapped]
        for space in spaces:
            x = seen({name: table[rows[:size]] for name, table in human.items()}, space)
            kept = rows[size : 2 * size - swapped]
            both = {name: np.concatenate([table[kept], machine[name][some]]) for name, table in human.items()}
            found[space] += permutation_test(x, seen(both, space)) < settings.LEVEL
    return {space: count / trials for space, count in found.items()}


def report(results: dict[str, dict]) -> str:
    lines = [
        "# Machine texts among human ones, by what wrote them",
        "",
        "Written by `python experiments/eyes/machine.py`. Share of trials that see them at the 5% level; – was not measured.",
        "",
    ]
    titles = [f"{space}, n = {size}, {share:.0%}" for size, share in DESIGNS for space in SPACES]
    lines += [f"| machine texts | trials | {' | '.join(titles)} |", "|---|---|" + "---|" * len(titles)]
    for corpus in CORPORA:
        for writer in (one for one in WRITERS if one in results.get(corpus, {})):
            row = results[corpus][writer]
            cells = [row[f"n = {size}, {share:.0%}"].get(space) for size, share in DESIGNS for space in SPACES]
            shown = " | ".join("–" if cell is None else f"{cell:.2f}" for cell in cells)
            lines.append(f"| {corpus}, {writer} | {row['trials']} | {shown} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", nargs="*", metavar="CORPUS", help="stories, news; others are kept from the last run")
    parser.add_argument("--writers", nargs="+", choices=list(WRITERS), default=list(WRITERS))
    parser.add_argument("--spaces", nargs="+", choices=SPACES, default=SPACES)
    parser.add_argument("--seed", type=int, default=30)
    parser.add_argument("--trials", type=int, default=25)
    options = parser.parse_args()
    file, spaces = HERE / "machine.json", tuple(options.spaces)
    results = json.loads(file.read_text()) if file.exists() else {}
    for corpus in options.corpora or CORPORA:
        half = texts(corpus)[::2]
        human = embedded(half[:: len(half) // HUMAN][:HUMAN], spaces)
        for writer in options.writers:
            written = machine_texts(corpus, writer)
            if written is None:
                continue
            machine = embedded(written, spaces)
            cells = {
                f"n = {size}, {share:.0%}": power(human, machine, spaces, size, share, options.seed, options.trials)
                for size, share in DESIGNS
            }
            results.setdefault(corpus, {})[writer] = {"trials": options.trials, **cells}
            print(corpus, writer, cells, flush=True)
            file.write_text(json.dumps(results, indent=1) + "\n")
            (HERE / "machine.md").write_text(report(results))


if __name__ == "__main__":
    main()
