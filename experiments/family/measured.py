"""What several figures share: the comparison of all systems of a domain, and measures of one system. All are kept in the cache."""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import error_of_mean
from numpy.typing import NDArray
from settings import DOMAINS, NEW, Domain, domain_folder, model_folder
from systems import (
    COUNT,
    EMBEDS,
    FEW,
    RULES,
    System,
    compared,
    generations,
    human,
    human_tokens,
    is_written,
    model,
    prompts,
    systems_of,
    tokens_of,
)

from mallow import Comparison, Masses, Quantize, Samples, area, frontier
from mallow.baselines import text_perplexities, text_statistics
from mallow.embed import AnyEmbedder, LanguageModel, embed_samples, find_embedder
from mallow.smoothing import krichevsky_trofimov

EMBEDDER = "the family's own 0.3M model, mean of its last layer"
SCORED = 200  # texts whose perplexity is measured
COUNTED = 100  # texts for statistics such as self-BLEU, which depend on the amount of text: the same for all; means over all sets of so many


def written(domain: Domain) -> list[System]:
    """The systems whose texts exist; an experiment runs on these."""
    return [system for system in systems_of(domain) if is_written(domain, system)]


def texts_of(domain: Domain, systems: Sequence[System], *, new: int = NEW) -> dict[str, Samples]:
    found = {"human": human(domain, new=new, other=True)}
    return found | {system.name: generations(domain, system, new=new) for system in systems}


def kept(domain: Domain, key: str, content: object, work: Callable[[], object]) -> object:
    """A value of JSON from the cache, or computed and kept, under a digest of what it depends on."""
    label = hashlib.sha256(repr((content, COUNT)).encode()).hexdigest()[:12]
    path = domain_folder(domain) / f"{key}-{label}.json"
    if not path.exists():
        value = work()
        path.write_text(json.dumps(value))
    return json.loads(path.read_text())


def comparison(
    domain: Domain,
    systems: Sequence[System],
    embedder: str = "own",
    *,
    new: int = NEW,
    full: bool = True,
    style: bool = False,
) -> Comparison:
    """All systems and other human text against the reference; not `full`: with MAUVE* in as many bins for all; `style`: evidence sees the style of the texts beside their features."""

    def work() -> object:
        reference, sets = human(domain, new=new), texts_of(domain, systems, new=new)
        if not style:
            reference, *others = (
                Samples(features=features(domain, each, embedder), ids=each.ids) for each in (reference, *sets.values())
            )
            sets = dict(zip(sets, others, strict=True))
        return compared(reference, sets, find(domain, embedder) if style else None).to_json()

    key = [system.name for system in systems], embedder, new, FEW, *(() if style else ("features",))
    found = Comparison.from_json(kept(domain, "comparison", key, work))
    return in_full_bins(domain, systems, found) if full and embedder == "own" and new == NEW else found


def in_full_bins(domain: Domain, systems: Sequence[System], found: Comparison) -> Comparison:
    """The comparison with MAUVE* in n/10 bins for every system that has all its texts.

    `mallow.compare` gives one number of bins to all systems, that of the smallest, which is beam search with few texts. Held-out
    evidence does not depend on bins. The variance of sampling is that of redrawn counts of the bins.
    """
    scores, variance = dict(found.scores), dict(found.variance)
    by_name = {"human": None, **{system.name: system for system in systems}}
    for name, score in found.scores.items():
        if score.n[1] < COUNT:
            continue
        own = kept(domain, "bins", (name, COUNT), lambda name=name: published(domain, by_name[name]))
        scores[name] = replace(score, mauve=own["mauve"])
        variance[name] = {**variance[name], "sampling": own["sampling"], "clustering": own["clustering"]}
    return replace(found, scores=scores, variance=variance)


def published(domain: Domain, system: System | None) -> dict[str, float]:
    """MAUVE* of a system, or of other human text, over five clusterings, with its two variances."""
    x = features(domain, human(domain))
    y = features(domain, human(domain, other=True) if system is None else generations(domain, system))
    estimator, rng = Quantize(), np.random.default_rng(0)

    def value(*counts: np.ndarray) -> float:
        return float(area(frontier(Masses.from_histograms(*map(krichevsky_trofimov, counts))), scale=estimator.scale))

    parts = [estimator(x, y, rng=seed).partition for seed in range(5)]
    values = [value(part.p_counts, part.q_counts) for part in parts]
    counts = parts[0].p_counts, parts[0].q_counts
    redrawn = [value(*(rng.multinomial(each.sum(), each / each.sum()) for each in counts)) for _ in range(60)]
    return {
        "mauve": float(np.mean(values)),
        "clustering": float(np.var(values, ddof=1)),
        "sampling": float(np.var(redrawn, ddof=1)),
    }


def find(domain: Domain, embedder: str) -> AnyEmbedder:
    """An embedder by name; "own" is a model of the family that is evaluated, as GPT-2 is in the paper."""
    if embedder != "own":
        return find_embedder(embedder, kind="text")
    owner, size = EMBEDS[domain.name]
    folder = str(model_folder(DOMAINS[owner], RULES[size]))
    return LanguageModel(folder, pooling="mean", dtype="float32", device="cpu")


def features(domain: Domain, samples: Samples, embedder: str = "own") -> np.ndarray:
    return embed_samples(samples, find(domain, embedder)).require_features()


def statistics(domain: Domain, system: System | None) -> dict[str, tuple[float, float]]:
    """Text statistics of a system, or of the reference, over the tokens of the family, with standard errors over the sets of texts.

    Beam search has texts for one set alone, so that its errors are not known (nan).
    """

    def work() -> object:
        tokens = human_tokens(domain) if system is None else tokens_of(domain, system)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sets = [text_statistics(tokens[low : low + COUNTED].tolist()) for low in range(0, len(tokens), COUNTED)]
        found = {
            name: [getattr(one, key) for one in sets]
            for name, key in (
                ("Zipf", "zipf_coefficient"),
                ("repetition", "repetition"),
                ("distinct-4", "distinct"),
                ("self-BLEU", "self_bleu"),
            )
        }
        error = [error_of_mean(values) if len(sets) > 1 else float("nan") for values in found.values()]
        both = {name: (float(np.mean(values)), one) for (name, values), one in zip(found.items(), error, strict=True)}
        return both if domain.name == "epoch" else both | {"perplexity": generation_perplexity(domain, tokens)}

    return kept(domain, "statistics-sets", (system, NEW, COUNTED, SCORED, domain.sizes[-1]), work)


def generation_perplexity(domain: Domain, tokens: NDArray[np.int64], *, new: int = NEW) -> tuple[float, float]:
    """Of continuations under the largest model of the family, after their prompts, as the paper has it with GPT-2 large; and its standard error."""
    some = tokens[:SCORED, :new].tolist()
    before = [prompt.tokens for prompt in prompts(domain, len(some))]
    logs = np.log(
        text_perplexities(model(domain, domain.sizes[-1]), some, prefixes=before)
    )  # all texts are equally long
    value = float(np.exp(logs.mean()))
    return value, value * float(logs.std(ddof=1) / np.sqrt(len(logs)))
