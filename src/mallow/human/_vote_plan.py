"""The number of votes that a study needs, simulated from Bradley–Terry, with the cost in time and money."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from mallow._checks import open_unit, positive, seed_from, whole
from mallow.errors import Caveat, InputError, warn_about
from mallow.human._paired import SCALE, make_design
from mallow.human._rank import FEWEST_CLUSTERS
from mallow.human._study_pairs import AllPairs, PairScheme, Star
from mallow.results import Result, TableData, draw
from mallow.theory import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RUNS = 4000  # simulated studies per number of votes; chosen: the power is known to within 0.01
_PUBLISHED = 90  # votes per pair (paper: sec:a:human-eval:datasheet)
_MOST = 1_000_000  # votes per pair of systems beyond which a plan is useless
_MANY_HOURS = 1000.0


@dataclass(frozen=True)
class VoteSharing:
    """The numbers of prompts and annotators that votes share.

    Attributes
    ----------
    prompts : int or None
        Prompts over which the votes are spread evenly; None: no two votes share one.
    annotators : int or None
        Annotators over which the votes are spread evenly; None: no two votes share one.
    prompt_spread : float
        The standard deviation of the score of a system between prompts, in points.
    annotator_spread : float
        The same between annotators.

    Examples
    --------
    >>> VoteSharing(prompts=50).extra_variance(1000)  # 50² (1/50 − 1/1000)
    47.5
    """

    prompts: int | None = None
    annotators: int | None = None
    prompt_spread: float = 50.0
    annotator_spread: float = 30.0

    def __post_init__(self) -> None:
        for name in ("prompts", "annotators"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), least=FEWEST_CLUSTERS)
        positive("prompt_spread", self.prompt_spread)
        positive("annotator_spread", self.annotator_spread)

    def extra_variance(self, votes: int) -> float:
        """The part of prompts and annotators in the variance of a score, in squared points."""
        kinds = ((self.prompts, self.prompt_spread), (self.annotators, self.annotator_spread))
        return sum(spread**2 * max(1.0 / count - 1.0 / votes, 0.0) for count, spread in kinds if count is not None)

    def freedom(self, votes: int) -> float:
        """Degrees of freedom of the errors in `rank`."""
        groups = [min(count, votes) - 1.0 for count in (self.prompts, self.annotators) if count is not None]
        return max(min(groups, default=math.inf), 1.0)

    def __str__(self) -> str:
        parts = [(self.prompts, "prompt", self.prompt_spread), (self.annotators, "annotator", self.annotator_spread)]
        texts = [
            f"{count:,} {noun}s (scores differ by {spread:g} points from one to the next)"
            for count, noun, spread in parts
            if count is not None
        ]
        return " and ".join(texts)


@dataclass(frozen=True)
class VoteGoal:
    """The goal of the votes.

    Attributes
    ----------
    kind : str
        "apart": the difference between two systems is significant, in the right direction. "ranking": the systems have
        the right order, significant or not.
    systems : pair of str or None
        The two systems to distinguish; None: the two with the closest scores.
    power : float
        The required probability of reaching the goal.
    level : float
        The level of significance, two-sided.

    Examples
    --------
    >>> VoteGoal("ranking", power=0.9)
    VoteGoal(kind='ranking', systems=None, power=0.9, level=0.05)
    """

    kind: Literal["apart", "ranking"] = "apart"
    systems: tuple[str, str] | None = None
    power: float = 0.8
    level: float = 0.05

    def __post_init__(self) -> None:
        if self.kind not in ("apart", "ranking"):
            raise InputError(f"`kind` must be 'apart' or 'ranking'; got {self.kind!r}.")
        open_unit("power", self.power, why=" It is a probability, such as 0.8.")
        open_unit("level", self.level, why=" It is a probability, such as 0.05.")


@dataclass(frozen=True)
class VoteCosts:
    """The cost of a vote. The defaults follow the paper (sec:a:human-eval:datasheet).

    Attributes
    ----------
    seconds : float
        Time for one pair with all its questions.
    wage : float
        Per hour.
    currency : str

    Examples
    --------
    >>> round(VoteCosts().money(3240))  # 90 votes on each of 36 pairs
    677
    """

    seconds: float = 47.0
    wage: float = 16.0
    currency: str = "USD"

    def __post_init__(self) -> None:
        positive("seconds", self.seconds)
        positive("wage", self.wage)

    def hours(self, votes: float) -> float:
        """Hours of work."""
        return votes * self.seconds / 3600.0

    def money(self, votes: float) -> float:
        """Pay for this work."""
        return self.hours(votes) * self.wage


@dataclass(frozen=True, repr=False)
class VotePlan(Result):
    """The number of votes that a study needs, and their cost.

    Attributes
    ----------
    per_pair : int
        Votes on each pair of systems that is compared.
    votes : int
        Votes in all. Each answers all questions about one pair of samples.
    power : float
        The probability of reaching the goal with these votes, in the simulation.
    goal : VoteGoal
        The goal, with the systems to distinguish.
    scores : dict
        The assumed scores of the systems, on the paper's scale.
    scheme : str
        Which pairs are compared.
    sharing : VoteSharing
        The assumptions about prompts and annotators.
    hours : float
        Working time of all annotators.
    money : float
        Its cost at the wage in `costs`.
    costs : VoteCosts
    curve : tuple of (int, float)
        Votes per pair and simulated power, for each simulated number.
    caveats : tuple of Caveat
    """

    KIND: ClassVar[str] = "vote plan"

    per_pair: int
    votes: int
    power: float
    goal: VoteGoal
    scores: dict[str, float]
    scheme: str
    sharing: VoteSharing
    hours: float
    money: float
    costs: VoteCosts
    curve: tuple[tuple[int, float], ...] = field(repr=False)
    caveats: tuple[Caveat, ...]

    def __repr__(self) -> str:
        return (
            f"VotePlan(per_pair={self.per_pair}, votes={self.votes}, goal={self.goal.kind!r}, power={self.power:.3g})"
        )

    def __str__(self) -> str:
        lines = [
            f"Take {self.per_pair:,} votes on each pair of systems, {self.votes:,} in all: {self._aim()} with "
            f"probability {self.goal.power:.3g} ({self.power:.3f} in {_RUNS:,} simulated studies).",
            f"That is {self.hours:,.1f} hours of work at {self.costs.seconds:g} s per pair, and {self.money:,.0f} "
            f"{self.costs.currency} at {self.costs.wage:g} per hour.",
            f"The published {_PUBLISHED} votes per pair reach the goal with probability "
            f"{dict(self.curve)[_PUBLISHED]:.2f}. {self._assumption()}",
        ]
        return self._with_caveats(lines)

    def _assumption(self) -> str:
        if self.sharing == VoteSharing():
            return "Votes count as independent. Several votes by one annotator, or on one prompt, would be worth less."
        return f"Votes are spread over {self.sharing}."

    def _aim(self) -> str:
        if self.goal.systems is None:
            return "all systems are then in the right order"
        first, second = self.goal.systems
        chance = 1.0 / (1.0 + math.exp(-abs(self.scores[first] - self.scores[second]) / SCALE))
        better = first if self.scores[first] > self.scores[second] else second
        other = second if better == first else first
        level = f"{self.goal.level:.3g} level"
        return f"{better}, which wins {100 * chance:.1f}% against {other}, is then found better at the {level}"

    def _table(self) -> TableData:
        rows = {
            "votes per pair of systems": f"{self.per_pair:,}",
            "votes in all": f"{self.votes:,}",
            "goal": self.goal.kind if self.goal.systems is None else f"tell {' and '.join(self.goal.systems)} apart",
            "power wanted": f"{self.goal.power:g}",
            "power in the simulation": f"{self.power:.3f}",
            "hours": f"{self.hours:,.1f}",
            self.costs.currency: f"{self.money:,.0f}",
        }
        return TableData(["", "value"], list(rows.items()))

    def _records(self) -> list[dict[str, Any]]:
        return [
            {
                "votes_per_pair": count,
                "votes": round(count * self.votes / self.per_pair),
                "power": power,
                "hours": self.costs.hours(count * self.votes / self.per_pair),
                "money": self.costs.money(count * self.votes / self.per_pair),
            }
            for count, power in self.curve
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the simulated power against the votes per pair, with the plan marked; returns the axes."""
        ax = draw.axes(ax)
        counts, powers = zip(*self.curve, strict=True)
        ax.plot(counts, powers, "o-", color="#0072b2", markersize=4)
        ax.plot([self.per_pair], [self.power], "o", color="black", markersize=8)
        ax.axhline(self.goal.power, color="black", linewidth=0.8, linestyle=":")
        ax.set_xscale("log")
        ax.set_ylim(0, 1.02)
        ax.set_xlabel("votes per pair of systems")
        ax.set_ylabel("probability of reaching the goal")
        return ax


def plan_votes(
    scores: Mapping[str, float],
    *,
    goal: VoteGoal = VoteGoal(),  # noqa: B008  # frozen
    pairs: Literal["all", "star"] = "all",
    ties: float = 0.0,
    sharing: VoteSharing = VoteSharing(),  # noqa: B008  # frozen
    costs: VoteCosts = VoteCosts(),  # noqa: B008  # frozen
    rng: int | np.random.Generator | None = 0,
) -> VotePlan:
    """The number of votes that reaches a goal, by simulating whole studies from Bradley–Terry.

    Each simulated study draws the wins of each pair, fits Bradley–Terry scores (with half a win added on each side of a
    pair, so that a winner of everything also has a score), and checks whether the goal is reached. The plan has the
    smallest number of votes per pair that reaches it often enough.

    Votes that share prompts or annotators contain less information than independent votes, and beyond some number more
    votes on the same prompts add nothing. `sharing` has the numbers of prompts and annotators. Significance is then as
    in `rank`, whose errors allow for both.

    Parameters
    ----------
    scores : mapping of name to number
        Expected scores, perhaps from a pilot, on the paper's scale: the log odds of a win are (w_i − w_j)/100. A
        difference of 40 is a win in 60% of the votes. In a star, the first system is the centre.
    goal : VoteGoal
    pairs : "all" or "star"
        Which pairs are compared.
    ties : float
        The share of votes that are ties, given to either side at random. Scores that were fitted to such votes already
        contain them, so keep 0.
    sharing : VoteSharing
        By default no two votes share a prompt or an annotator.
    costs : VoteCosts
    rng : int, Generator or None

    Returns
    -------
    VotePlan

    Examples
    --------
    >>> plan = plan_votes({"a": 40.0, "b": 0.0})
    >>> 150 < plan.per_pair < 250
    True
    >>> shared = plan_votes({"a": 40.0, "b": 0.0}, sharing=VoteSharing(prompts=100, annotators=20))
    >>> shared.per_pair > plan.per_pair
    True
    """
    names, values = _check_scores(scores)
    if not 0.0 <= ties < 1.0:
        raise InputError(f"`ties` must be a share from 0 to below 1; got {ties!r}.")
    if pairs not in ("all", "star"):
        raise InputError(f"`pairs` must be 'all' or 'star'; got {pairs!r}.")
    scheme: PairScheme = AllPairs(1) if pairs == "all" else Star(1)
    compared = np.array([[names.index(a), names.index(b)] for a, b in scheme(names)])
    tested = _tested(goal, names, values)
    seed = seed_from(rng)
    powers: dict[int, float] = {}

    def power(count: int) -> float:
        if count not in powers:
            votes = count * len(compared)
            random, extra = np.random.default_rng([seed, count]), sharing.extra_variance(votes)
            centres = values + math.sqrt(extra) * random.normal(size=(_RUNS, len(values))) if extra else values[None]
            chance = 1.0 / (1.0 + np.exp(-(centres[:, compared[:, 0]] - centres[:, compared[:, 1]]) / SCALE))
            chance = ties / 2.0 + (1.0 - ties) * chance
            wins = np.asarray(random.binomial(count, chance, size=(_RUNS, len(compared))), dtype=np.float64)
            estimates, information = _fit_studies(wins + 0.5, count + 1.0, compared, len(values))
            if tested is None:
                reached = (np.diff(estimates[:, np.argsort(values)], axis=1) > 0).all(axis=1)
            else:
                freedom = sharing.freedom(votes)
                noise = random.chisquare(freedom, size=_RUNS) / freedom if math.isfinite(freedom) else np.ones(_RUNS)
                first, second = tested
                direction = (np.eye(len(values))[first] - np.eye(len(values))[second])[1:]
                solved = np.linalg.solve(information, np.broadcast_to(direction[:, None], (_RUNS, len(direction), 1)))
                single = np.einsum("i,ni->n", direction, solved[..., 0])
                clustered = (single + 2.0 * extra / SCALE**2) * noise  # as `rank` estimates it in a study
                tail = goal.level / 2.0
                reach = np.maximum(
                    np.sqrt(clustered) * float(stdtrit(freedom, 1.0 - tail)),
                    np.sqrt(single) * -NormalDist().inv_cdf(tail),
                )
                gaps = (estimates[:, first] - estimates[:, second]) * np.sign(values[first] - values[second])
                reached = gaps > reach
            powers[count] = float(np.mean(reached))
        return powers[count]

    count = _smallest(power, goal.power, sharing)
    for other in (_PUBLISHED, *(max(2, round(count * factor)) for factor in (0.25, 0.5, 0.75, 1.5, 2.0))):
        power(other)  # for comparison, and for the picture
    votes = count * len(compared)
    hours, money = costs.hours(votes), costs.money(votes)
    text = f"{hours:,.0f} hours of work: ask for a larger difference."
    caveats = (Caveat("much work", text, values={"hours": hours}),) if hours > _MANY_HOURS else ()
    warn_about(caveats)
    chosen = goal if tested is None else VoteGoal("apart", (names[tested[0]], names[tested[1]]), goal.power, goal.level)
    expected = dict(zip(names, values.tolist(), strict=True))
    curve = tuple(sorted(powers.items()))
    return VotePlan(count, votes, powers[count], chosen, expected, pairs, sharing, hours, money, costs, curve, caveats)


def _check_scores(scores: Mapping[str, float]) -> tuple[list[str], Array]:
    names = list(scores) if isinstance(scores, Mapping) else []
    if len(names) < 2:
        raise InputError(
            '`scores` must map at least two systems to what you expect of them, such as {"small": 0, "large": 40}; '
            f"got {scores!r}."
        )
    try:
        values = np.array([float(scores[name]) for name in names])
    except (TypeError, ValueError):
        values = np.array([math.nan])
    if not np.isfinite(values).all():
        raise InputError(f"`scores` must be finite numbers; got {dict(scores)!r}.")
    return names, values


def _tested(goal: VoteGoal, names: Sequence[str], values: Array) -> tuple[int, int] | None:
    """The indices of the two systems to distinguish; None if the goal is the ranking."""
    if goal.kind == "ranking":
        if len(set(values.tolist())) < len(values):
            raise InputError("`scores` must all differ: systems that are equally good have no right order.")
        return None
    if goal.systems is None:
        order = np.argsort(values)
        gaps = np.diff(values[order])
        least = int(np.argmin(gaps))
        first, second = int(order[least + 1]), int(order[least])
    else:
        unknown = [name for name in goal.systems if name not in names]
        if unknown or goal.systems[0] == goal.systems[1]:
            raise InputError(f"`systems` must be two of {', '.join(names)}; got {' and '.join(goal.systems)}.")
        first, second = (names.index(name) for name in goal.systems)
    if values[first] == values[second]:
        raise InputError(
            f"{names[first]!r} and {names[second]!r} have the same score: no number of votes tells equal systems apart."
        )
    return first, second


def _smallest(power: Callable[[int], float], wanted: float, sharing: VoteSharing) -> int:
    """The smallest number of votes per pair with enough power, by doubling and halving."""
    high = 2
    while power(high) < wanted:
        high *= 2
        if high > _MOST:
            if sharing != VoteSharing():
                raise InputError(
                    f"no number of votes reaches the goal with {sharing}: more votes on the same prompts, or by the "
                    "same people, tell nothing new. Use more prompts and annotators, or ask for a larger difference."
                )
            raise InputError(
                f"more than {_MOST:,} votes per pair would be needed: the systems are too close. Ask about two "
                "other systems, or for a larger difference."
            )
    low = high // 2
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= wanted else (middle, high)
    return high


def _fit_studies(wins: Array, count: float, compared: NDArray[np.int64], size: int) -> tuple[Array, Array]:
    """Bradley–Terry scores of many studies at once by Newton's method, the first system at 0, and their information.

    `wins` (runs, pairs) are the wins of the first system of each pair, out of `count` votes each.
    """
    design = make_design(compared[:, 0], compared[:, 1], size).toarray()[:, 1:]  # (pairs, size - 1)
    estimates = np.zeros((len(wins), size - 1))
    for _ in range(25):
        chance = 1.0 / (1.0 + np.exp(-(estimates @ design.T)))
        gradient = (wins - count * chance) @ design
        information = np.einsum("pi,np,pj->nij", design, count * chance * (1.0 - chance), design, optimize=True)
        step = np.linalg.solve(information, gradient[..., None])[..., 0]
        estimates += np.clip(step, -2.0, 2.0)
        if np.abs(step).max() < 1e-6:
            break
    return np.concatenate([np.zeros((len(wins), 1)), estimates], axis=1), np.asarray(information)
