"""From votes to a ranking: ties, effects of side and length, errors clustered by item and annotator."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mallow._checks import seed_from
from mallow.errors import Caveat, InputError, warn_about
from mallow.human._bradley_terry import build_ranking, connection_caveats, fit_or_penalise
from mallow.human._paired import Floats, Rows, cluster_errors, count_wins, make_design
from mallow.human._rankings import Ranking, Rankings
from mallow.human._read_votes import read_votes
from mallow.human._votes import Vote, Votes, number_systems
from mallow.results import join_names

Ties = Literal["half", "random", "davidson"]
Effect = Literal["left", "length"]
TIES: tuple[Ties, ...] = ("half", "random", "davidson")
EFFECTS: tuple[Effect, ...] = ("left", "length")
FEWEST_CLUSTERS = 5  # with fewer items or annotators, their differences cannot be estimated
_FEW = 20  # chosen: with fewer of them, intervals are long


def rank(
    votes: Votes | str | os.PathLike[str],
    *,
    question: str | None = None,
    ties: Ties = "half",
    effects: Collection[Effect] = (),
    exclude: Collection[str] = (),
    rng: int | np.random.Generator | None = 0,
) -> Ranking:
    """Systems ranked by the votes of people, by Bradley–Terry.

    "Definitely" and "slightly" count the same, as published (paper: sec:a:human-eval:bt). Votes of one person depend on
    each other, and so do votes on one prompt. Errors are therefore clustered by both (`Vote.annotator`; `Vote.prompt`,
    or `Vote.task` if prompts are not known), with Student's quantiles for few clusters. The intervals are for the
    answers of other people about other prompts. Votes with an unknown prompt or annotator count as independent in that
    respect. Gold pairs, repeated pairs and judges that are programs are not used; `Ranking.dropped` counts the votes
    that were left out.

    Parameters
    ----------
    votes : Votes or path
        A path is read by `read_votes`, which leaves out answers given in less than 25 seconds.
    question : str or None
        None: the only question.
    ties : str
        "half": half a win for each, which gives the average scores of "random" without its noise. "random": a win for
        one of them at random, as published. "davidson": a third outcome with its own parameter (Davidson, 1970).
    effects : collection of str
        "left": the advantage of the left side. "length": the advantage of the longer text. Scores are then adjusted for
        these.
    exclude : collection of str
        Annotators whose votes are left out.
    rng : int, Generator or None
        For random ties.

    Examples
    --------
    >>> votes = [Vote("large", "small", answer, "human-like", who, f"{who}{i}", 40.0)
    ...          for who in "abcdefghijklmnopqrstuvwxyz" for i, answer in enumerate([-2, -1, -1, 2, 1, -2])]
    >>> ranking = rank(Votes(tuple(votes)))
    >>> round(ranking.scores["large"] - ranking.scores["small"], 3)  # 100 log(4 / 2)
    69.315
    """
    ranking = _rank_question(as_votes(votes), question, ties, effects, exclude, seed_from(rng))
    warn_about(ranking.caveats)
    return ranking


def rank_all(
    votes: Votes | str | os.PathLike[str],
    *,
    ties: Ties = "half",
    effects: Collection[Effect] = (),
    exclude: Collection[str] = (),
    rng: int | np.random.Generator | None = 0,
) -> Rankings:
    """The ranking by each question, as in `rank`."""
    given, seed = as_votes(votes), seed_from(rng)
    if not given.questions:
        raise InputError(_no_votes(given))
    made = {question: _rank_question(given, question, ties, effects, exclude, seed) for question in given.questions}
    caveats = {caveat.message: caveat for ranking in made.values() for caveat in ranking.caveats}
    warn_about(caveats.values())
    return Rankings(made, tuple(caveats.values()))


def as_votes(votes: Votes | str | os.PathLike[str]) -> Votes:
    """Votes unchanged. A path is read."""
    if isinstance(votes, Votes):
        return votes
    if isinstance(votes, str | os.PathLike):
        return read_votes(votes)
    raise InputError(f"`votes` must be Votes or the path of a file of votes; got {type(votes).__name__}.")


def _no_votes(votes: Votes) -> str:
    gone = "; ".join(f"{count} {reason}" for reason, count in votes.dropped.items()) or "none were given"
    fast = any(reason.startswith("faster than") for reason in votes.dropped)
    way_out = " Keep fast answers with `min_seconds=0`." if fast else ""
    return f"`votes` must hold votes of people on tasks; none are left ({gone}).{way_out}"


def _rank_question(
    votes: Votes,
    question: str | None,
    ties: Ties,
    effects: Collection[Effect],
    exclude: Collection[str],
    seed: int,
) -> Ranking:
    if ties not in TIES:
        raise InputError(f"`ties` must be one of {', '.join(TIES)}; got {ties!r}.")
    unknown = [effect for effect in effects if effect not in EFFECTS]
    if unknown:
        raise InputError(f"`effects` must be among {', '.join(EFFECTS)}; got {unknown[0]!r}.")
    chosen = votes.of(question)
    chosen = (chosen.without(exclude) if exclude else chosen).people()
    if not chosen.votes:
        raise InputError(_no_votes(chosen))
    systems, left, right, points = number_systems(chosen.votes)
    tied = points == 0.5
    if ties == "random":
        points[tied] = np.random.default_rng(seed).integers(2, size=int(tied.sum()))
    caveats = list(connection_caveats(count_wins(left, right, points, len(systems)), systems, "`votes`"))
    separated = bool(caveats)
    all_tied = bool((points == 0.5).all())
    if all_tied:
        caveats.append(Caveat("all ties", "all votes are ties: nothing tells the systems apart."))
    davidson = ties == "davidson" and 0 < tied.sum() < len(points)
    design, names = _add_effects(make_design(left, right, len(systems)), chosen.votes, effects)
    rows = Rows(design, points, np.ones(len(points)), len(systems), davidson)
    fit = fit_or_penalise(rows, penalise=separated)
    if fit.penalised and not separated:
        text = "the votes set no limit to some effect: a weak penalty keeps the numbers finite, and they depend on it."
        caveats.append(Caveat("separation", text))
    clusterings, doubts = cluster_votes(chosen.votes)
    return build_ranking(
        rows,
        fit,
        cluster_errors(rows, fit, clusterings),
        systems,
        clusterings=clusterings,
        effects=[*names, "tie"] if davidson else names,
        votes=len(chosen),
        annotators=len({vote.annotator for vote in chosen.votes} - {""}),
        ties=f"{ties} ({tied.sum()} of {len(chosen)})" if tied.any() else "none",
        question=chosen.votes[0].question,
        dropped=chosen.dropped,
        caveats=(*caveats, *doubts),
    )


def _add_effects(design: Any, votes: Sequence[Vote], effects: Collection[Effect]) -> tuple[Any, list[str]]:
    """The design with a column for each effect, and the names of these columns."""
    columns: dict[str, Floats] = {}
    if "left" in effects:
        columns["left"] = np.ones(len(votes))
    if "length" in effects:
        lengths = [(vote.left_length, vote.right_length) for vote in votes]
        missing = sum(not (first and two) for first, two in lengths)
        if missing:
            raise InputError(
                f"`effects` with 'length' needs the lengths of both texts of every vote; {missing} of {len(votes)} "
                "votes have none."
            )
        columns["length"] = np.array([np.log(first / two) for first, two in lengths if first and two])
    if not columns:
        return design, []
    systems = design.shape[1]
    design = sparse.hstack([design, sparse.csr_matrix(np.column_stack(list(columns.values())))], format="csr")
    if np.linalg.matrix_rank((design.T @ design).toarray()) < systems - 1 + len(columns):
        raise InputError(
            f"`effects` cannot be told from the systems here ({join_names(list(columns))}): for instance, a system "
            "always stood on the same side. Leave the effect out, or collect votes with the sides exchanged."
        )
    return design, list(columns)


def cluster_votes(votes: Sequence[Vote], others: Sequence[Vote] = ()) -> tuple[list[NDArray[np.int64]], list[Caveat]]:
    """For each vote, the numbers of its item and annotator, and caveats if there are too few of them.

    An item is a prompt, or a task if prompts are not known. A vote on an unknown item, or by an unknown person, is a
    separate cluster. With fewer than five of a kind their differences cannot be estimated, and the intervals only hold
    for these. `others` are votes of programs, which only have items.
    """
    prompts, people = [vote.prompt for vote in votes], [vote.annotator for vote in votes]
    few_prompts = _few(prompts)
    items = [vote.task if few_prompts else vote.prompt or vote.task for vote in (*votes, *others)]
    caveats = [
        *_count_caveats("items", "prompt", prompts if few_prompts else items[: len(votes)]),
        *_count_caveats("annotators", "annotator", people),
    ]
    kinds = [] if _few(items[: len(votes)]) else [items]
    kinds += [] if _few(people) else [[*people, *("" for _ in others)]]
    clusterings = []
    for names in kinds:
        numbers: dict[object, int] = {}
        labels = [name or place for place, name in enumerate(names)]  # an unknown one differs from all others
        clusterings.append(np.array([numbers.setdefault(label, len(numbers)) for label in labels]))
    return clusterings, caveats


def _count_caveats(kind: str, noun: str, names: Sequence[str]) -> list[Caveat]:
    """A caveat if all items or annotators are known, and there are few."""
    count = len(set(names))
    if not all(names) or count >= _FEW:
        return []
    if count >= FEWEST_CLUSTERS:
        text = f"only {count} {noun}s: with fewer than {_FEW}, intervals are long. Use more {noun}s."
    else:
        text = (
            f"only {count} {noun}{'' if count == 1 else 's'}: differences between {noun}s cannot be seen. The "
            f"intervals, the ranks and the winner hold for {'this one' if count == 1 else 'these'}, not for others. "
            f"Use at least {FEWEST_CLUSTERS} {noun}s."
        )
    return [Caveat(f"few {kind}", text, values={kind: count})]


def _few(names: Sequence[str]) -> bool:
    """Whether all are known, with too few to estimate their differences."""
    return all(names) and len(set(names)) < FEWEST_CLUSTERS
