"""The same comparison with several embedders, with a winner only if they agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from mallow.caveats import unique_caveats
from mallow.embed import AnyEmbedder, embedder_name, find_embedder, read_all
from mallow.errors import Caveat, InputError, warn_about
from mallow.evaluate._compare import compare_pairs, embed_pairs
from mallow.evaluate._comparison import Comparison
from mallow.evaluate._order import SystemPair
from mallow.evaluate._run import Settings
from mallow.evaluate._score import Score
from mallow.evaluate._systems import ScoredSystems
from mallow.evidence import LEVEL, MAUVE_STAR, Measure, holm
from mallow.results import Axes, TableData, draw, join_names, p_number


@dataclass(frozen=True)
class AgreedDifference(SystemPair):
    """The result of all embedders for two systems.

    Attributes
    ----------
    first, second : str
    difference : dict
        Embedder → the difference of the certified area, first minus second.
    p_value : float
        The largest p-value of the embedders, which is valid for "some embedder finds no difference"; 1 if they disagree
        on the sign.
    adjusted : float
        The p-value after Holm's correction over all pairs.
    """

    first: str
    second: str
    difference: dict[str, float]
    p_value: float
    adjusted: float

    @property
    def significant(self) -> bool:
        """Whether all embedders agree, at the 5% level after correction."""
        return self.adjusted < LEVEL

    @property
    def better(self) -> str | None:
        """The system whose proven gap is smaller by all embedders; None if they disagree."""
        if not self.significant:
            return None
        return self.first if next(iter(self.difference.values())) > 0 else self.second


@dataclass(frozen=True, eq=False, repr=False)
class RobustComparison(ScoredSystems):
    """A comparison with several embedders, and the differences on which they agree.

    Attributes
    ----------
    comparisons : dict
        Embedder → Comparison.
    differences : tuple of AgreedDifference
        The differences of all pairs of systems.
    caveats : tuple of Caveat
        Reasons for doubt, from all embedders.
    """

    KIND: ClassVar[str] = "robust comparison"
    ALSO = ("verdict", "winner")

    comparisons: dict[str, Comparison]
    differences: tuple[AgreedDifference, ...]
    caveats: tuple[Caveat, ...] = ()

    def __repr__(self) -> str:
        return f"RobustComparison({', '.join(self.comparisons)}; winner: {self.winner or 'none'})"

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems, in the order of the first embedder."""
        return tuple(self._scored())

    @property
    def winner(self) -> str | None:
        """The system whose proven gap is the smallest by all embedders; None if there is none."""
        for name in self.systems:
            of_system = [pair for pair in self.differences if name in (pair.first, pair.second)]
            if of_system and all(pair.better == name for pair in of_system):
                return name
        return None

    @property
    def contested(self) -> tuple[AgreedDifference, ...]:
        """The pairs that two embedders order in opposite ways, each at the 5% level by itself."""
        apart = []
        for pair in self.differences:
            winners = {
                difference.better
                for comparison in self.comparisons.values()
                for difference in comparison.differences
                if difference.systems == pair.systems and difference.significant
            }
            if len(winners) > 1:
                apart.append(pair)
        return tuple(apart)

    @property
    def verdict(self) -> str:
        """The system, if any, with the smallest proven gap by all embedders, and how many pairs they agree on."""
        agreed = sum(pair.significant for pair in self.differences)
        count = f"They agree on {agreed} of {len(self.differences)} pairs (5% level, corrected for all pairs)"
        against = [f"{pair.first} and {pair.second}" for pair in self.contested]
        count += f", and contradict each other on {join_names(against)}." if against else "."
        if self.winner is not None:
            every = "both" if len(self.comparisons) == 2 else f"all {len(self.comparisons)}"
            return f"Smallest proven gap by {every} embedders: {self.winner}. {count}"
        winners = [f"{comparison.winner or 'none'} by {name}" for name, comparison in self.comparisons.items()]
        return f"There is no clear winner that all embedders agree on ({', '.join(winners)}). {count}"

    def _scored(self) -> dict[str, Score]:
        return next(iter(self.comparisons.values())).scores

    def _table(self) -> TableData:
        rows = []
        for pair in self.differences:
            values = [f"{pair.difference[name]:+.4f}" for name in self.comparisons]
            rows.append([f"{pair.first} − {pair.second}", *values, p_number(pair.adjusted), pair.better or "–"])
        return TableData(["certified MAUVE", *self.comparisons, "p, all agree,\ncorrected", "smaller gap"], rows)

    def _records(self) -> list[dict[str, Any]]:
        return [
            {"first": pair.first, "second": pair.second, **pair.difference, "p_value": pair.p_value}
            | {"adjusted": pair.adjusted, "better": pair.better}
            for pair in self.differences
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the certified area of each system, one line per embedder; returns the axes."""
        ax = draw.axes(ax)
        for number, (name, comparison) in enumerate(self.comparisons.items()):
            values = [comparison.scores[system].certified["mauve"].value for system in self.systems]
            ax.plot(range(len(values)), values, label=name, **draw.line_style(number))
        ax.set_xticks(range(len(self.systems)), self.systems)
        ax.set_xlabel("system, in the order of the first embedder")
        ax.set_ylabel("certified MAUVE (1 = no gap found)")
        ax.set_ylim(0.0, 1.02)
        ax.spines[["top", "right"]].set_visible(False)
        draw.legend(ax)
        return ax


def compare_embedders(
    reference: Any,
    systems: Mapping[str, Any],
    embedders: Sequence[AnyEmbedder | str],
    *,
    measure: Measure | str = MAUVE_STAR,
    paired: bool = False,
    repeats: int = 5,
    rng: int | np.random.Generator | None = 0,
) -> RobustComparison:
    """Compare systems with several embedders, and name a winner only if all of them agree.

    A difference counts if every embedder finds it, in the same direction. Its p-value is the largest of the embedders,
    corrected for the number of pairs. More embedders make the verdict more cautious, never less.

    Parameters
    ----------
    reference :
        The real texts or images, as in `compare`.
    systems :
        Name → texts or images of a system, as in `compare`.
    embedders : sequence of embedders or names
        At least two.
    measure :
        Estimator, divergence and scale, as in `compare`.
    paired :
        Whether row i of each set belongs to row i of the others, as in `compare`.
    repeats :
        How many clusterings are averaged, as in `compare`.
    rng :
        The seed of the clusterings, as in `compare`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> words = [list("abcd" * 5) + list("e" * count) for count in (4, 6, 40)]
    >>> human, near, far = (["".join(rng.choice(own, 30)) for _ in range(200)] for own in words)
    >>> def letters(texts):
    ...     return np.array([[text.count(letter) for letter in "abcde"] for text in texts], float)
    >>> def runs(texts):
    ...     return np.array([[text.count(2 * letter) for letter in "abcde"] for text in texts], float)
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):  # few texts, and short ones
    ...     robust = compare_embedders(human, {"near": near, "far": far}, [letters, runs])
    >>> robust.winner
    'near'
    """
    settings = Settings.checked(measure, repeats, rng)
    if len(embedders) < 2:
        raise InputError(f"`embedders` must be at least two; got {len(embedders)}. For one, use compare.")
    if len(systems) < 2:
        raise InputError(f"`systems` must be at least two, to be compared; got {len(systems)}.")
    sets = read_all({"": reference, **systems}, paired=paired)
    if sets[""].kind == "features":
        raise InputError("`reference` must hold texts or images; features were made by one embedder already.")
    chosen = [
        find_embedder(embedder, kind=sets[""].kind) if isinstance(embedder, str) else embedder for embedder in embedders
    ]
    names = [str(embedder) if isinstance(embedder, str) else embedder_name(embedder) for embedder in embedders]
    if len(set(names)) < len(names):
        raise InputError(f"`embedders` must have different names; got {', '.join(names)}.")
    samples = {name: sets[name] for name in systems}
    comparisons = {
        name: compare_pairs(embed_pairs(sets[""], samples, embedder, settings.measure, prompts=None), settings)
        for name, embedder in zip(names, chosen, strict=True)
    }
    caveats = unique_caveats([caveat for comparison in comparisons.values() for caveat in comparison.caveats])
    result = RobustComparison(comparisons, _agree(comparisons), caveats)
    warn_about(result.caveats)
    return result


def _agree(comparisons: Mapping[str, Comparison]) -> tuple[AgreedDifference, ...]:
    """The result of all embedders for every pair."""
    order = list(next(iter(comparisons.values())).scores)
    pairs, values, p_values = list(combinations(order, 2)), [], []
    for first, second in pairs:
        by_embedder = {
            name: pair if pair.first == first else pair.reverse()
            for name, comparison in comparisons.items()
            for pair in comparison.differences
            if pair.systems == {first, second}
        }
        differences = {name: pair.difference["mauve"] for name, pair in by_embedder.items()}
        same = len({value > 0 for value in differences.values()}) == 1 and all(differences.values())
        values.append(differences)
        p_values.append(max(pair.p_value["mauve"] for pair in by_embedder.values()) if same else 1.0)
    adjusted = holm(p_values)
    return tuple(
        AgreedDifference(first, second, values[number], p_values[number], adjusted[number])
        for number, (first, second) in enumerate(pairs)
    )
