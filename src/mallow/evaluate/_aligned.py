"""How the bound of a score changes once a difference that a caveat reports is removed from both sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from mallow.caveats import ALIGNMENTS, REMOVED_BY, align_samples, chosen_alignments, find_confounds
from mallow.embed import AnyEmbedder, embed_all, resolve_embedder
from mallow.engine import single_threaded_blas
from mallow.errors import Caveat
from mallow.evaluate._score import Score
from mallow.evidence import Measure, find_limit, measure_for
from mallow.results import at_most
from mallow.samples import Samples

_MOST_CHANGED = 1000  # samples that are embedded once more for a caveat; chosen: half of a score of the advised size


def with_measured_caveats(
    score: Score,
    sets: Mapping[str, Samples],
    embedder: AnyEmbedder | str | None,
    measure: Measure,
    *,
    prompts: str,
    aligned: str | Sequence[str],
) -> Score:
    """The score with caveats that report its bound without their difference, where it can be removed.

    `sets` are the reference and the model before they were embedded, `aligned` the differences that were removed from
    them. Nothing is measured where no gap is certified, where the samples came with features, and where the difference
    is in too many samples to embed them once more: such a caveat names the option that removes its difference.
    """
    limit = score.certified["mauve"].high if score.certified else 1.0
    if limit >= 1.0 or resolve_embedder(sets, embedder) is None:
        return score
    remedies: dict[str, str] = {}  # alignment → what its caveat adds
    before = chosen_alignments(aligned)
    caveats = []
    for caveat in score.caveats:
        names = [name for name in REMOVED_BY.get(caveat.kind, ()) if name not in remedies]
        removing = next(_removing(names, caveat, score, sets), None)
        if removing is None:
            caveats.append(caveat)
            continue
        name, others = removing
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
            values |= {"limit": limit, "limit_aligned": _limit(others, embedder, measure, prompts)}
            remedies[name] = f"With the same {same} on both sides, {_change(values)}: {option}."
        caveats.append(Caveat(caveat.kind, f"{caveat.message} {remedies[name]}", caveat.system, values))
    return replace(score, caveats=tuple(caveats))


def with_aligned_signature(score: Score, align: str | Sequence[str]) -> Score:
    """The score of aligned samples, whose signature names what was aligned."""
    return replace(score, signature=replace(score.signature, aligned=", ".join(chosen_alignments(align))))


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


def _change(values: Mapping[str, float]) -> str:
    before, after = at_most(values["limit"]), at_most(values["limit_aligned"])
    return f"MAUVE is still at most {after}" if before == after else f"MAUVE is at most {after} instead of {before}"
