"""Caveats about the samples of a score, before anything is estimated.

Besides differences that are unrelated to the model (`find_confounds`): few samples or unequal sizes, texts that are too
short, features that do not tell the samples apart, several samples per prompt, prompts that evidence cannot use (on one
side only, without a partner, empty, or part of the texts), and rows that seem to be pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.caveats._confounds import find_confounds
from mallow.caveats._counts import count_independent, percent
from mallow.caveats._texts import script_of, share_with_prompt
from mallow.embed import UNMATCHED
from mallow.errors import Caveat, each_once
from mallow.models import words
from mallow.samples import Samples

_WITH_PROMPT = 0.5  # chosen: if this share of texts begins with the prompt, all are taken to contain it
_TOKENS = 256  # paper: sec:best-practices, in tokens of GPT-2
_TOKENS_PER_WORD = 1.11  # measured: of GPT-2, per word or mark of `words`; 1.10 to 1.13 in 12 sets of English texts
_MARGIN = 0.9  # chosen: the number of tokens is an estimate, and texts cut at 256 tokens are not to blame
_COUNTED = 31  # texts around the median length whose words are counted; chosen: words of all texts would take seconds
_ENGLISH = ("minilm", "glove", "gpt2", "mpnet")  # in the names of embedders that were trained on English
_FOREIGN = 0.1  # share of texts in another script; chosen: single quotations do not matter
_LOOKED_AT, _BEGINNING = 500, 300  # texts of each side, and characters of each, whose script is looked at; chosen
_SAME_FEATURES = 0.05  # share of samples; measured: 1% where MiniLM cuts texts that begin alike (Reuters)
_LEAST_SPREAD = 1e-3  # of the length of features; half precision rounds by 5e-4. Measured: from 0.13 in real text
_UNEVEN = 0.1  # share of prompts with a different number of samples than most; chosen: most files miss a few samples
_ROWS = 4096  # rows that are converted to double precision together
_COMPARED = 1000  # rows of each side whose order is looked at; chosen
_FEWEST_ROWS = 10  # chosen: fewer show nothing about their order
_ALIKE = 5.0  # standard deviations over all orders; chosen: independent rows are hardly ever this much alike
_FEW_SAMPLES = 1000  # paper: sec:best-practices
_SIZE_RATIO = 0.95  # of the smaller to the larger; chosen: bias falls like 1/n, so that a few samples do not matter
# Where the measure ignores the lengths of rows and that hides a gap, this is why lengths differ, bins are crowded, or
# the score misses what the evidence shows. Different sizes among the systems explain more than a different size than
# the reference.
_EXPLAINED_BY = dict.fromkeys(("norm", "one bin", "blind score"), "length normalisation") | {
    "unequal sizes": "system sizes"
}


def check_samples(pairs: Mapping[str, tuple[Samples, Samples]]) -> dict[str, list[Caveat]]:
    """Caveats about the score of each system that the samples show.

    `pairs` has the reference and the samples of each system, with features. The reference is the same for all of them,
    except that a joint embedder gives it other features for each. Caveats about it (``system="reference"``) are in
    every entry.
    """
    reference = next(iter(pairs.values()))[0]
    confounds = find_confounds(reference, {name: samples for name, (_, samples) in pairs.items()})
    caveats = {}
    for name, (own_reference, samples) in pairs.items():
        doubts = [caveat for caveat in confounds if caveat.system in (name, "reference")]
        doubts += [*rename_system(own_reference.caveats, "reference"), *rename_system(samples.caveats, name)]
        doubts += _size_caveats(own_reference, samples)
        doubts += _short_text_caveats(own_reference, samples, name)
        doubts += _language_caveats(own_reference, samples, name)
        doubts += _feature_caveats(own_reference, samples, name, doubts)
        doubts += [*_generation_caveats(own_reference, "reference"), *_generation_caveats(samples, name)]
        doubts += _prompt_caveats(own_reference, samples, name)
        doubts += _row_order_caveats(own_reference, samples, name)
        caveats[name] = doubts
    return caveats


def _size_caveats(reference: Samples, samples: Samples) -> list[Caveat]:
    """Caveats about sizes. Several samples for each of the same prompts have a separate caveat."""
    caveats = size_caveats(len(reference), len(samples))
    same = count_independent(reference) == count_independent(samples)
    return [caveat for caveat in caveats if not (same and caveat.kind == "unequal sizes")]


def _short_text_caveats(reference: Samples, samples: Samples, name: str) -> Iterator[Caveat]:
    """A caveat about short texts, once: of the reference or, if its texts are long, of the system.

    That the lengths of the two sides differ is a confound.
    """
    if reference.texts is None or samples.texts is None:
        return
    for system, texts in (("reference", reference.texts), (name, samples.texts)):
        count = _median_words(texts)
        tokens = _TOKENS_PER_WORD * count
        if tokens < _MARGIN * _TOKENS:
            yield Caveat(
                "short texts",
                f"the texts are short, about {tokens:.0f} tokens. The paper advises at least {_TOKENS}, because "
                "differences between shorter texts may go unnoticed. Use longer texts, or compare this score only with "
                "scores of texts as short as these.",
                system,
                {"words": count, "tokens": tokens},
            )
            return


def _language_caveats(reference: Samples, samples: Samples, name: str) -> Iterator[Caveat]:
    """A caveat about texts in another script than an English embedder knows, once: as for short texts."""
    embedder = (reference.embedder or "").lower()
    if not any(part in embedder for part in _ENGLISH) or "multilingual" in embedder:
        return
    for system, side in (("reference", reference), (name, samples)):
        texts = (side.texts or ())[:: max(1, len(side) // _LOOKED_AT)]
        scripts = Counter(filter(None, map(_main_script, texts)))
        if scripts.total() > _FOREIGN * len(texts) > 0:
            script, share = scripts.most_common(1)[0][0], scripts.total() / len(texts)
            yield Caveat(
                "embedder language",
                f"{percent(share)} of the texts are not in Latin letters (mostly {script}), but the embedder was "
                "trained on English: it hardly understands them. Use a multilingual embedder, such as "
                "sentence:paraphrase-multilingual-MiniLM-L12-v2, or style, which needs no model.",
                system,
                {"share": share, "n": len(side)},
            )
            return


def _main_script(text: str) -> str:
    """The script of most letters of a text, by its beginning; "" for Latin ones."""
    beginning = text[:_BEGINNING]
    scripts = Counter(filter(None, map(script_of, beginning))) if not beginning.isascii() else Counter[str]()
    letters = sum(map(str.isalpha, beginning)) if scripts else 0
    return scripts.most_common(1)[0][0] if scripts.total() > letters / 2 else ""


def _median_words(texts: tuple[str, ...]) -> float:
    """The number of words and punctuation marks in the median text: of texts around the median length in characters."""
    rows = sorted(range(len(texts)), key=lambda row: (len(texts[row]), texts[row]))
    low = max(0, (len(texts) - _COUNTED) // 2)
    return float(np.median([len(words(texts[row])) for row in rows[low : low + _COUNTED]]))


def _feature_caveats(reference: Samples, samples: Samples, name: str, caveats: list[Caveat]) -> Iterator[Caveat]:
    """Caveats about an embedder that gives different samples the same features, or all samples nearly the same."""
    if reference.kind == "features":  # features without samples: equal rows are duplicates
        return
    merged = False
    for system, side in (("reference", reference), (name, samples)):
        repeats = sum(
            int(caveat.values["repeats"])
            for caveat in caveats
            if (caveat.system, caveat.kind) == (system, "duplicates")
        )
        items = len(side) - repeats
        distinct = len({hash(row.tobytes()) for row in np.ascontiguousarray(side.require_features())})
        if (items - distinct) / len(side) > _SAME_FEATURES:
            merged = True
            yield Caveat(
                "same features",
                f"{items} different {side.kind}s have only {distinct} different rows of features: the embedder cannot "
                "tell the others apart, and neither can a score. It may cut them, or not know their language. See "
                "what it notices with `mallow audit`, or use a different embedder.",
                system,
                {"distinct": distinct, "items": items, "n": len(side)},
            )
    x, y = reference.require_features(), samples.require_features()
    if merged or x.shape[1] != y.shape[1]:  # features of different widths are an error of the score
        return
    spread = _relative_spread(x, y)
    if spread < _LEAST_SPREAD:
        yield Caveat(
            "same features",
            f"the features of all {reference.kind}s are nearly the same: they differ by {spread:.1e} of their length, "
            "so that rounding errors decide the score. Use a different embedder, or a different layer or pooling of "
            "this one.",
            name,
            {"spread": spread},
        )


def _relative_spread(x: NDArray[Any], y: NDArray[Any]) -> float:
    """Root mean squares: the distance of the rows of both samples from their mean, as a share of their length."""
    blocks = [part[low : low + _ROWS] for part in (x, y) for low in range(0, len(part), _ROWS)]
    rows = len(x) + len(y)
    largest = max(float(np.abs(block).max()) for block in blocks) or 1.0  # squares must neither overflow nor vanish
    mean = sum(block.sum(axis=0, dtype=np.float64) for block in blocks) / (rows * largest)
    around, length = 0.0, float(np.sum(mean**2))
    for block in blocks:
        apart = block.astype(np.float64) / largest - mean
        around += float(np.einsum("ij,ij", apart, apart)) / rows
    return float(np.sqrt(around / (around + length))) if around + length > 0 else 0.0


def _generation_caveats(samples: Samples, name: str) -> Iterator[Caveat]:
    """A caveat about several samples per prompt."""
    labels = samples.unit_names
    counts = [] if labels is None else list(Counter(labels).values())
    n, prompts = len(samples), len(counts)
    if prompts in (0, n):
        return
    least, most = min(counts), max(counts)
    usual = Counter(counts).most_common(1)[0][1]
    values: dict[str, float] = {"samples": n, "prompts": prompts, "least": least, "most": most}
    many = f"{n} samples for {prompts} {'prompt' if prompts == 1 else 'prompts'}"
    if prompts - usual > _UNEVEN * prompts:
        text = (
            f"{many}, from {least} to {most} each: prompts with more samples count for more. Use the same number of "
            "samples for each prompt."
        )
        yield Caveat("uneven generations", text, name, values)
    else:
        text = (
            f"{many}: samples for one prompt are alike, so that certificates and tests count prompts, not samples. "
            "For a surer result use more prompts; more samples per prompt help little."
        )
        yield Caveat("generations", text, name, values)


def _row_order_caveats(reference: Samples, samples: Samples, name: str) -> Iterator[Caveat]:
    """A caveat about rows without ids that resemble the rows at the same positions of the reference."""
    if len(reference) != len(samples) or (reference.unit_kind, samples.unit_kind) != (None, None):
        return
    x, y = reference.require_features(), samples.require_features()
    if x.shape[1] != y.shape[1] or (alike := row_likeness(x, y)) < _ALIKE:
        return
    yield Caveat(
        "row order",
        f"row i is more like row i of the reference than like its other rows ({alike:.0f} standard deviations over all "
        "orders), but without ids and prompts rows count as independent. If row i answers the same prompt as row i, "
        "use paired=True (--paired), or give the prompts: certificates and tests then count pairs. If both are merely "
        "sorted, by topic or length, nothing is to be done.",
        name,
        {"alike": alike},
    )


def row_likeness(x: NDArray[Any], y: NDArray[Any]) -> float:
    """How much more alike rows at the same positions are than in a random order, in standard deviations over all
    orders.

    Copies, which are one unit anyway, are left out; with few other rows it is 0.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(100, 3))
    >>> row_likeness(x, x + 0.1) > 5.0 > row_likeness(x, x[::-1])
    True
    """
    places = np.unique(np.linspace(0, len(x) - 1, _COMPARED).astype(np.int64))
    places = places[(x[places] != y[places]).any(axis=1)]
    if len(places) < _FEWEST_ROWS:
        return 0.0
    sides = [side[places].astype(np.float64) for side in (x, y)]
    largest = max(float(np.abs(side).max()) for side in sides) or 1.0
    a, b = (side / largest - (side / largest).mean(axis=0) for side in sides)
    products = a @ b.T
    spread = float(np.sqrt(np.einsum("ij,ij", products, products) / (len(a) - 1)))
    return float(np.trace(products)) / spread if spread > 0 else 0.0


def size_caveats(n: int, m: int) -> list[Caveat]:
    """Caveats about samples that are few or of different sizes."""
    caveats = []
    if min(n, m) < _FEW_SAMPLES:
        text = f"only {min(n, m)} samples: with fewer than {_FEW_SAMPLES} per side, scores are biased and noisy."
        caveats.append(Caveat("few samples", text, values={"n": n, "m": m}))
    if min(n, m) < _SIZE_RATIO * max(n, m):
        text = f"the sample sizes differ ({n} and {m}): compare scores only between samples of the same sizes."
        caveats.append(Caveat("unequal sizes", text, values={"n": n, "m": m}))
    return caveats


def system_size_caveats(sizes: Mapping[str, int]) -> list[Caveat]:
    """A caveat about systems of different sizes in one comparison; `sizes` has the number of samples of each."""
    least, most = min(sizes.values()), max(sizes.values())
    if least >= _SIZE_RATIO * most:
        return []
    smallest, largest = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
    text = (
        f"the systems have different numbers of samples, from {least} ({smallest}) to {most} ({largest}): published "
        f"scores depend on the number, so that the columns of the table cannot be compared. Use {least} samples of "
        "each (limit, --limit), or judge by the differences."
    )
    return [Caveat("system sizes", text, values={"least": least, "most": most})]


def rename_system(caveats: Iterable[Caveat], name: str) -> list[Caveat]:
    """The caveats with `name` as their system, except those about the reference."""
    return [
        caveat if caveat.system is not None else Caveat(caveat.kind, caveat.message, name, caveat.values)
        for caveat in caveats
    ]


def unique_caveats(caveats: Sequence[Caveat]) -> tuple[Caveat, ...]:
    """The caveats without repetitions, and without those that another caveat of the same system explains."""
    present = {(caveat.system, caveat.kind) for caveat in caveats}
    kept = [
        caveat
        for caveat in caveats
        if present.isdisjoint((system, _EXPLAINED_BY.get(caveat.kind)) for system in (None, caveat.system))
    ]
    return each_once(kept)


def _prompt_caveats(reference: Samples, samples: Samples, name: str) -> Iterator[Caveat]:
    """Caveats about the prompts of a system and its reference."""
    yield from _unmatched_caveats(reference, samples, name)
    if reference.texts is None or samples.texts is None:
        return
    sides = {"reference": reference, name: samples}
    for system, side in sides.items():
        yield from _empty_caveats(side, system)
    yield from _one_sided_caveats(reference, samples, name)
    looked_at = all("prompts" in (side.spaces or {}) for side in sides.values())
    if looked_at and all(share_with_prompt(side) >= _WITH_PROMPT for side in sides.values()):
        yield Caveat(
            "prompt in text",
            "the texts of both sides begin with their prompts, so that how near a text is to its prompt says less than "
            "it could. Remove the prompts from the texts of both sides.",
            name,
        )


def _empty_caveats(samples: Samples, system: str) -> Iterator[Caveat]:
    """A caveat about samples without a prompt among others that have one."""
    prompts = samples.prompts or ()
    empty = sum(not prompt.strip() for prompt in prompts)
    if samples.ids is None and 0 < empty < len(prompts):
        yield Caveat(
            "empty prompts",
            f"{empty} of the {len(prompts)} prompts are empty: all samples with an empty prompt count as answers to "
            "one prompt. Give each sample its prompt, or an id.",
            system,
            {"empty": empty, "n": len(prompts)},
        )


def _one_sided_caveats(reference: Samples, samples: Samples, name: str) -> Iterator[Caveat]:
    """A caveat about prompts that only one side has, unless they are part of the texts."""
    has_prompts = [len(set(side.prompts or ())) > 1 for side in (reference, samples)]
    if has_prompts[0] == has_prompts[1] or share_with_prompt(reference if has_prompts[0] else samples) >= _WITH_PROMPT:
        return
    side = "the reference has" if has_prompts[0] else "these texts have"
    yield Caveat(
        "prompts on one side",
        f"only {side} prompts: evidence looks at the texts without them. Give both sides their prompts, and it also "
        "looks at how well each text answers its own.",
        name,
    )


def _unmatched_caveats(reference: Samples, samples: Samples, name: str) -> Iterator[Caveat]:
    """A caveat about prompts of one side that the other lacks, if the two have some in common."""
    if reference.kind in ("image", "audio"):  # the ids are file names, which may be alike by accident
        return
    names, reference_names = set(samples.unit_names or ()), set(reference.unit_names or ())
    alone, missing = len(names - reference_names), len(reference_names - names)
    if names.isdisjoint(reference_names) or max(alone / len(names), missing / len(reference_names)) <= UNMATCHED:
        return
    here = f"{alone} of the {len(names)} prompts (ids) are not in the reference"
    there = f"{missing} of the {len(reference_names)} in the reference are missing here"
    if not alone:
        here, there = "", there.replace(" in the ", " prompts (ids) of the ")
    both = ", and ".join(filter(None, [here, there if missing else ""]))
    alone_seen = " Evidence looks at the texts without their prompts." if reference.prompts and samples.prompts else ""
    yield Caveat(
        "unmatched prompts",
        f"{both}, so that the two may differ in topic.{alone_seen} "
        "Keep the same prompts on both sides. A limit (limit, --limit) does so only if both list them in one order.",
        name,
        {"alone": alone, "missing": missing, "prompts": len(names), "prompts_reference": len(reference_names)},
    )
