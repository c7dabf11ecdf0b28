"""The score of one model: for all samples, for each group of them, or for samples that agree in a covariate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypedDict, Unpack, overload

import numpy as np

from mallow.caveats import ALIGNMENTS, REMOVED_BY, align_samples, chosen_alignments, find_confounds
from mallow.embed import AnyEmbedder, embed_all, read_all, resolve_embedder
from mallow.engine import AnyEngine, overall, single_threaded_blas
from mallow.errors import Caveat, InputError, warn_about
from mallow.evaluate._evaluation import open_systems
from mallow.evaluate._run import Settings
from mallow.evaluate._score import Score, score_system
from mallow.evaluate._subsets import GroupScores, MatchedScore, score_groups, score_matched
from mallow.evidence import MAUVE_STAR, Measure, find_limit, measure_for
from mallow.results import at_most
from mallow.samples import Samples, read_column

Pair: TypeAlias = tuple[Sequence[Any], Sequence[Any]]
Match: TypeAlias = str | Pair | dict[str, Pair]
_MOST_CHANGED = 1000  # samples that are embedded once more for a caveat; chosen: half of a score of the advised size


class Options(TypedDict, total=False):
    """The options of a score that do not change what it returns."""

    measure: Measure | str
    embedder: AnyEmbedder | str | None
    paired: bool
    prompts: str
    repeats: int
    rng: int | np.random.Generator | None
    engine: AnyEngine
    align: str | Sequence[str]


@overload
def score(reference: Any, model: Any, *, by: None = ..., match: None = ..., **options: Unpack[Options]) -> Score: ...
@overload
def score(
    reference: Any, model: Any, *, by: str | Pair, match: None = ..., **options: Unpack[Options]
) -> GroupScores: ...
@overload
def score(reference: Any, model: Any, *, by: None = ..., match: Match, **options: Unpack[Options]) -> MatchedScore: ...
def score(
    reference: Any,
    model: Any,
    *,
    measure: Measure | str = MAUVE_STAR,
    embedder: AnyEmbedder | str | None = None,
    paired: bool = False,
    prompts: str = "joint",
    repeats: int = 5,
    rng: int | np.random.Generator | None = 0,
    engine: AnyEngine = None,
    by: str | Pair | None = None,
    match: Match | None = None,
    align: str | Sequence[str] = (),
) -> Score | GroupScores | MatchedScore:
    """How far the model's samples are from the reference: what the data prove about the gap, and the published score.

    Parameters
    ----------
    reference : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The real data: texts, images, recordings, or features with one row per sample. Samples with the same id (or
        prompt, without ids) belong together. Samples with neither are independent.
    model : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The model's samples, of the same kind.
    measure : Measure
        MAUVE* of the paper by default; for features of a string kernel, nearest neighbours
        (`mallow.evidence.MAUVE_KERNEL`), as in the paper.
    embedder : Embedder, callable, name or None
        Turns samples into features: an embedder of `mallow.embed`, or a function from a list of samples to an array. A
        name is looked up as on the command line. None: the default for texts or images; features need none.
    prompts : str
        "joint": if both sides have the same prompts, evidence is about texts with their prompts. "ignore": it is only
        about the texts.
    paired : bool
        Whether row i of the model belongs to row i of the reference, such as an answer to the same prompt. Only for
        samples without ids and prompts, with equal numbers on both sides.
    repeats : int
        Clusterings with different seeds, whose mean is the published score. They share embedding and reduction.
    rng : int, numpy Generator or None
        Seed: the same seed gives the same numbers, on any number of threads. A generator draws a seed, and None takes a
        fresh seed. The signature includes the seed.
    engine : None, "ray", "ray://…", or an engine
        What runs the work: the threads of this machine, or a Ray cluster (`mallow.Ray`). The result is the same, to the
        last bit. Shards that do not fit into memory are read chunk by chunk in either case (docs/scale.md).
    by : str or pair of sequences, or None
        Score each group, such as a topic or a language: a column of both sources, or the groups of all samples of the
        reference and of the model. The result is a `mallow.evaluate.GroupScores`, with p-values corrected for the
        number of groups. A group with fewer than 30 samples on a side is listed and not scored.
    match : str, pair of sequences or dict, or None
        Also score a subset in which a covariate agrees between the sides: "length" (the characters of texts), a column
        of both sources, or one value (a number or a name) for each sample of the reference and of the model;
        ``{"height": pair}`` gives it a name. The result is a `mallow.evaluate.MatchedScore`: how much of the gap is
        explained by the covariate. The choice of the subset depends only on the covariate, so its p-value is valid.
    align : str or sequence of str
        Differences unrelated to the model that are removed from both sides first: "quotes" (quotation marks, dashes
        and dots become ASCII), "space" (runs of white space become one space), "case" (lower case), "length" (texts are
        cut until lengths have one distribution), and "format" for images (one size, mode and JPEG quality). If a
        caveat reports such a difference and a gap is certified, the caveat also reports the bound without it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> human, machine = rng.normal(size=(1000, 8)), rng.normal(0.5, 1.0, size=(1000, 8))
    >>> result = score(human, machine)
    >>> 0.4 < result.mauve < 0.55 < 0.95 < result.self_score["mauve"]
    True
    >>> result.p_value <= 1e-5, result.certified["mauve"].high < 0.6
    (True, True)
    >>> topics = ["sport"] * 1000 + ["law"] * 1000
    >>> human, machine = rng.normal(size=(2, 2000, 8))
    >>> machine[:1000] += 0.3
    >>> score(human, machine, by=(topics, topics), repeats=1).with_gap
    ('sport',)
    >>> sizes = rng.normal(size=1600), rng.normal(0.5, 1.0, size=1600)
    >>> tall, taller = (np.c_[size, rng.normal(size=(1600, 7))] for size in sizes)
    >>> matched = score(tall, taller, match={"height": sizes}, repeats=1)
    >>> matched.same_size.p_value < 0.001 < 0.05 < matched.matched.p_value
    True
    """
    settings = Settings.checked(measure, repeats, rng, align)
    is_whole = by is None and match is None
    if not is_whole and engine is not None:
        raise InputError("`engine` is for the score of all samples; got `by` or `match`, which have them in memory.")
    if by is not None and match is not None:
        raise InputError("`by` and `match` are two questions; got both. Call `score` once for each.")
    if isinstance(by, str):
        by = _read_columns("by", by, reference, model)
    if isinstance(match, str) and match != "length":
        match = {match: _read_columns("match", match, reference, model)}
    pair = {"reference": reference, "model": model}
    result: Score | GroupScores | MatchedScore
    with overall():
        sets = align_samples(read_all(pair, embedder, lazy=is_whole, paired=paired), align)
        x, y = embed_all(sets, embedder, lazy=is_whole, prompts=prompts).values()
        if is_whole:
            with open_systems({"model": (x, y)}, settings.measure, engine) as systems:  # which may be in shards
                whole = score_system(systems, settings)
            result = _with_measured_caveats(whole, sets, embedder, settings, prompts)
        elif by is not None:
            result = score_groups(x.load(), y.load(), by, settings)
        else:
            result = score_matched(x.load(), y.load(), match, settings)
    warn_about(result.caveats)
    return result


def _read_columns(option: str, column: str, reference: Any, model: Any) -> Pair:
    """A column of both sides."""
    try:
        return read_column(reference, column), read_column(model, column)
    except InputError as error:
        raise InputError(f"`{option}`: {error} Or pass the values of both sides, a pair of sequences.") from None


def _with_measured_caveats(
    score: Score,
    sets: Mapping[str, Samples],
    embedder: AnyEmbedder | str | None,
    settings: Settings,
    prompts: str,
) -> Score:
    """The score with caveats that report its bound without their difference, where it can be removed.

    `sets` are the reference and the model before they were embedded. Nothing is measured where no gap is certified,
    where the samples came with features, and where the difference is in too many samples to embed them once more: such
    a caveat names the option that removes its difference.
    """
    limit = score.certified["mauve"].high if score.certified else 1.0
    if limit >= 1.0 or resolve_embedder(sets, embedder) is None:
        return score
    remedies: dict[str, str] = {}  # alignment → what its caveat adds
    before = chosen_alignments(settings.aligned)
    caveats = []
    for caveat in score.caveats:
        names = (name for name in REMOVED_BY.get(caveat.kind, ()) if name not in remedies)
        name, others = next(_removing(names, caveat, score, sets), ("", {}))
        if not name:
            caveats.append(caveat)
            continue
        changed = sum(
            item != other
            for key, samples in sets.items()
            for item, other in zip(samples.items, others[key].items, strict=True)
        )
        every, same = ",".join([*before, name]), ALIGNMENTS[name][2]
        option = f'align="{every}" (--align {every})'
        values = dict(caveat.values)
        if changed > _MOST_CHANGED:
            remedies[name] = f"To score with the same {same} on both sides, pass {option}."
        else:
            values |= {"limit": limit, "limit_aligned": _limit(others, embedder, settings.measure, prompts)}
            most, most_aligned = at_most(limit), at_most(values["limit_aligned"])
            change = f"still at most {most}" if most == most_aligned else f"at most {most_aligned} instead of {most}"
            remedies[name] = f"With the same {same} on both sides, MAUVE is {change}: {option}."
        caveats.append(Caveat(caveat.kind, f"{caveat.message} {remedies[name]}", caveat.system, values))
    return replace(score, caveats=tuple(caveats))


def _removing(
    names: Iterable[str], caveat: Caveat, score: Score, sets: Mapping[str, Samples]
) -> Iterator[tuple[str, Mapping[str, Samples]]]:
    """The alignments that leave fewer caveats of this kind than the score has, with the aligned sets."""
    for name in names:
        if ALIGNMENTS[name][0] != next(iter(sets.values())).kind:
            continue
        reference, model = (aligned := align_samples(sets, name)).values()
        if _count(caveat.kind, find_confounds(reference, {"model": model})) < _count(caveat.kind, score.caveats):
            yield name, aligned


def _count(kind: str, caveats: Iterable[Caveat]) -> int:
    return sum((caveat.kind, caveat.system) == (kind, "model") for caveat in caveats)


def _limit(sets: Mapping[str, Samples], embedder: AnyEmbedder | str | None, measure: Measure, prompts: str) -> float:
    """The certified upper limit of MAUVE."""
    x, y = embed_all(sets, embedder, prompts=prompts).values()
    with single_threaded_blas():
        return find_limit(measure_for(measure, x), x, y)
