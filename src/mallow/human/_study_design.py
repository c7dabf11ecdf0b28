"""From samples of a reference and of systems to a study: pairs balanced over systems, sides, prompts and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from mallow._checks import seed_from, whole
from mallow.errors import Caveat, InputError, warn_about
from mallow.human._study import QualityChecks, Study, Task
from mallow.human._study_form import IMAGE_FORM, TEXT_FORM, Form
from mallow.human._study_pairs import AllPairs, PairScheme, orient
from mallow.human._study_pool import Pool, PromptFilter, TextWindow, collect_pool, fitting_window
from mallow.samples import read


@dataclass(frozen=True)
class StudyDesign:
    """The design of a study. The defaults follow the paper (sec:a:human-eval), with additional quality checks.

    Attributes
    ----------
    pairs : AllPairs, Star, DOptimal or a function
        The number of comparisons of each pair of systems: 45, which with two votes each are the 90 votes of the paper.
    window : TextWindow or None
        The length of texts; not used for images. None: the longest window that the texts allow, at most the published
        200 to 256 (`fitting_window`).
    prompts : PromptFilter or None
        The rule for choosing prompts; None: all of them.
    checks : QualityChecks
    votes : int
        The number of annotators who judge each pair. Two show the agreement of annotators; one, as published, gives the
        best ranking for its price.
    per_annotator : int or None
        The largest number of pairs for one annotator, including quality checks; None: no limit.
    form : Form or None
        The texts that annotators read; None: `TEXT_FORM` or `IMAGE_FORM`.
    reference_name : str
        The name of the reference among the systems.

    Examples
    --------
    >>> StudyDesign(votes=3).pairs
    AllPairs(per_pair=45)
    """

    pairs: PairScheme = field(default_factory=partial(AllPairs, 45))
    window: TextWindow | None = None
    prompts: PromptFilter | None = field(default_factory=PromptFilter)
    checks: QualityChecks = field(default_factory=QualityChecks)
    votes: int = 2
    per_annotator: int | None = None
    form: Form | None = None
    reference_name: str = "human"

    def __post_init__(self) -> None:
        whole("votes", self.votes, least=1)
        if self.per_annotator is not None:
            whole("per_annotator", self.per_annotator, least=1)


def design_study(
    reference: Any,
    systems: Mapping[str, Any],
    design: StudyDesign = StudyDesign(),  # noqa: B008  # frozen
    *,
    gold: Sequence[Task] = (),
    rng: int | np.random.Generator | None = 0,
) -> Study:
    """A study that compares systems with the reference and with each other, pair by pair.

    For each comparison a prompt is drawn that both systems continue at sufficient length, without replacement within a
    pair of systems, and the least used prompts first (paper: sec:a:human-eval:datasheet). In each pair of systems, each
    system is on the left in half of the comparisons, to within one, and so is each system overall. The order of the
    tasks keeps the pairs of systems balanced at any time.

    Parameters
    ----------
    reference : list of texts, path to a file or folder, table or `Samples`
        Samples with ids or prompts, by which the samples of the systems are matched. Without either, samples are
        matched by position.
    systems : mapping of name to the same
        At least one.
    design : StudyDesign
    gold : sequence of Task
        Your own gold pairs, with `expected`. They replace the automatic pairs of `design.checks.gold`. Studies of
        pictures need them.
    rng : int, Generator or None
        The seed. The same samples and the same seed give the same study.

    Returns
    -------
    Study

    Examples
    --------
    >>> prompts = [f"This is the beginning of story number {i}, in which" for i in range(12)]
    >>> human, small = ([f"{name} tells of day {i}." for i in range(12)] for name in ("she", "it"))
    >>> from mallow.samples import Samples
    >>> samples = {name: Samples(texts=texts, prompts=prompts) for name, texts in (("human", human), ("small", small))}
    >>> plan = StudyDesign(AllPairs(10), TextWindow(3, 20), checks=QualityChecks(gold=2))
    >>> study = design_study(samples["human"], {"small": samples["small"]}, plan)
    >>> len(study.tasks), study.pair_counts, len(study.gold)
    (10, {('human', 'small'): 10}, 2)
    """
    names = _system_names(design.reference_name, systems)
    seed = seed_from(rng)
    generator = np.random.default_rng(seed)
    samples = {names[0]: read(reference)} | {name: read(value) for name, value in systems.items()}
    counts = _checked_counts(design.pairs(names), names)
    window = design.window or fitting_window(samples, design.prompts, most_used=max(counts.values()))
    design = replace(design, window=window)
    pool = collect_pool(samples, window, design.prompts)
    form = design.form or (TEXT_FORM if pool.kind == "text" else IMAGE_FORM)
    tasks = _draw_tasks(pool, counts, generator)
    checks = tuple(gold) or _make_gold(pool, names[0], design.checks.gold, generator)
    caveats = (*pool.caveats, *_doubts(design, pool, checks))
    warn_about(caveats)
    return Study(
        form=form,
        systems=tuple(names),
        sample_kind=pool.kind,
        tasks=tasks,
        gold=tuple(replace(task, id=f"g{number:02}") for number, task in enumerate(checks, start=1)),
        votes=design.votes,
        checks=design.checks,
        per_annotator=design.per_annotator,
        dropped=pool.dropped,
        settings=_settings(design, pool, seed),
        caveats=caveats,
    )


def _system_names(reference: str, systems: Mapping[str, Any]) -> list[str]:
    if not isinstance(systems, Mapping) or not systems:
        raise InputError(
            '`systems` must map at least one name to its samples, such as {"small": "small.jsonl"}; '
            f"got {'no system' if isinstance(systems, Mapping) else type(systems).__name__}. "
            "A study compares the reference with systems, and systems with each other."
        )
    names = [reference, *systems]
    if len(set(names)) < len(names):
        raise InputError(
            f"the systems must have other names than the reference, {reference!r}; rename one, or pass "
            "`reference_name`."
        )
    for name in names:
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise InputError(f"the name of a system must be printable text; got {name!r}.")
    return names


def _checked_counts(counts: Mapping[tuple[str, str], int], names: Sequence[str]) -> dict[tuple[str, str], int]:
    """The comparisons of a scheme, perhaps a user's own, if they connect all systems."""
    reached, new = {names[0]}, {names[0]}
    while new:
        new = {name for pair, count in counts.items() if count and set(pair) & reached for name in pair} - reached
        reached |= new
    missing = [name for name in names if name not in reached]
    if missing:
        raise InputError(
            f"`pairs` must connect all systems by comparisons, since otherwise they cannot be ranked; {missing[0]!r} "
            f"is never compared with {names[0]!r}, not even by way of others."
        )
    return {pair: whole("pairs", count, least=0) for pair, count in counts.items() if count}


def _draw_tasks(pool: Pool, counts: dict[tuple[str, str], int], rng: np.random.Generator) -> tuple[Task, ...]:
    """The tasks in the order in which they are given out."""
    eligible = {pair: pool.shared_prompts(*pair) for pair in counts}
    for (a, b), count in counts.items():
        if len(eligible[a, b]) < count:
            reference = next(iter(pool.items))
            star = "" if reference in (a, b) else f"compare systems only with {reference} (`pairs=Star(…)`), "
            raise InputError(
                f"{count} comparisons of {a!r} and {b!r} need as many prompts with texts of both, but there are "
                f"{len(eligible[a, b])}. {pool.explain()} Ask for fewer comparisons with `pairs=AllPairs(…)`, {star}"
                "allow shorter texts with `window=TextWindow(…)`, or take all prompts with `prompts=None`."
            )
    used: dict[str, int] = {}
    sides = orient(counts, rng)
    drawn: list[tuple[float, Task]] = []
    least_choice_first = sorted(counts, key=lambda pair: len(eligible[pair]) - counts[pair])
    for pair in least_choice_first:
        prompts = eligible[pair]
        order = rng.permutation(len(prompts))
        least_used = sorted(order, key=lambda place: used.get(prompts[place], 0))[: counts[pair]]
        chosen = [prompts[place] for place in rng.permutation(least_used)]
        for number, (prompt, first_left) in enumerate(zip(chosen, sides[pair], strict=True)):
            used[prompt] = used.get(prompt, 0) + 1
            left, right = pair if first_left else pair[::-1]
            when = (number + rng.random()) / counts[pair]  # spread evenly over the study
            drawn.append((when, pool.make_task(left, right, prompt, rng)))
    drawn.sort(key=lambda entry: entry[0])
    return tuple(replace(task, id=f"t{number:04}") for number, (_, task) in enumerate(drawn, start=1))


def _make_gold(pool: Pool, reference: str, count: int, rng: np.random.Generator) -> tuple[Task, ...]:
    """Texts of the reference against their own words in random order, with an obvious answer."""
    if pool.kind != "text" or not count:
        return ()
    prompts = sorted(pool.items[reference])
    tasks = []
    for number, place in enumerate(rng.permutation(len(prompts))[:count]):
        prompt = prompts[place]
        text, length = pool.items[reference][prompt][0]
        broken, left = _shuffle_words(text, rng), number % 2 == 0
        pair = (text, broken) if left else (broken, text)
        systems = (reference, "shuffled") if left else ("shuffled", reference)
        context = pool.contexts[prompt]
        tasks.append(Task("", *systems, prompt, context, *pair, length, length, expected=-2 if left else 2))
    return tuple(tasks)


def _shuffle_words(text: str, rng: np.random.Generator) -> str:
    parts, joint = (text.split(), " ") if len(text.split()) >= 8 else (list(text), "")  # scripts without spaces
    return joint.join(parts[place] for place in rng.permutation(len(parts)))


def _doubts(design: StudyDesign, pool: Pool, gold: Sequence[Task]) -> list[Caveat]:
    if design.checks.gold_every and not gold:
        why = "pictures need gold pairs of your own" if pool.kind == "image" else "none were asked for"
        return [Caveat("no gold pairs", f"there are no gold pairs to check annotators with: {why}.")]
    return []


def _settings(design: StudyDesign, pool: Pool, seed: int) -> dict[str, str]:
    settings = {"seed": str(seed), "pairs": repr(design.pairs)}
    if pool.kind == "text":
        settings["window"] = repr(design.window)
    if design.prompts is not None:
        settings["prompts"] = repr(design.prompts) if design.prompts.keep is None else "PromptFilter(keep=…)"
    return settings | {f"source of {name}": source for name, source in pool.sources.items()}
