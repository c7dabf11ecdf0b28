"""The geometry of the drawings on the page: plain numbers and path strings, which the template draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from mallow.evaluate import Score
from mallow.results import at_most, draw
from mallow.theory import Array, Frontier

_SIDE = 200.0  # side of the square of a frontier, as in charts.html
_GAP, _LOWEST = 15.0, 4.0  # distance and lowest position of the labels of curves


@dataclass(frozen=True)
class Scale:
    """An axis from `low` to `high` with its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def __call__(self, value: float) -> float:
        """The position of a value: 0 at the low end, 100 at the high end."""
        return round(100.0 * (value - self.low) / (self.high - self.low), 2)

    def label(self, tick: float) -> str:
        """The text of a tick, with as many decimals as the distance between two ticks needs."""
        step = self.ticks[1] - self.ticks[0]
        return f"{tick:.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"

    @classmethod
    def around(cls, values: Iterable[float], *, most_ticks: int = 6, low: float | None = None) -> Scale:
        """An axis with round ends around the values; `low` fixes the lower end.

        Examples
        --------
        >>> Scale.around([0.62, 0.97])
        Scale(low=0.6, high=1.0, ticks=(0.6, 0.7, 0.8, 0.9, 1.0))
        """
        finite = [value for value in values if math.isfinite(value)] or [1.0]
        start, end = min(finite) if low is None else low, max(finite)
        width = max(end - start, 1e-6)
        power = 10.0 ** math.floor(math.log10(width / most_ticks))
        step = next(power * factor for factor in (1, 2, 5, 10, 20) if width / (power * factor) <= most_ticks - 1)
        first, last = math.floor(start / step + 1e-9), math.ceil(end / step - 1e-9)
        last = max(last, first + 1)
        ticks = tuple(round(i * step, 12) for i in range(first, last + 1))
        return cls(ticks[0], ticks[-1], ticks)


@dataclass(frozen=True)
class Strip:
    """One system in the chart of scores; positions are percentages of the width."""

    name: str
    score: float  # published
    interval: tuple[float, float] | None  # the range of repeat samples, if known
    certified: tuple[float, float] | None  # the certified value, if any, and its limit with 95% confidence
    itself: float  # the self-score


def score_strips(scores: Mapping[str, Score]) -> tuple[Scale, tuple[Strip, ...]]:
    """The axis and, for each system, the positions of its scores and intervals on it."""
    intervals = {name: score.interval.get("mauve") for name, score in scores.items()}
    certified = {
        name: (score.certified["mauve"].value, score.certified["mauve"].high) if score.certified else None
        for name, score in scores.items()
    }
    ends = [value for score in scores.values() for value in (score.mauve, score.self_score["mauve"])]
    axis = Scale.around([*ends, *(end for pair in (*intervals.values(), *certified.values()) for end in pair or ())])

    def place(pair: tuple[float, float] | None) -> tuple[float, float] | None:
        return None if pair is None else (axis(pair[0]), axis(pair[1]))

    strips = [
        Strip(name, axis(score.mauve), place(intervals[name]), place(certified[name]), axis(score.self_score["mauve"]))
        for name, score in scores.items()
    ]
    return axis, tuple(strips)


@dataclass(frozen=True)
class Square:
    """The frontier of one system in a square with side 200: its axis, its paths, and the point with λ = ½.

    Both directions share one axis, so that missed and invented costs can be compared. There are paths for the curve,
    the area below it, the band over the repeats and the certified curve; "" if there is none.
    """

    axis: Scale
    line: str
    area: str
    band: str
    certified: str
    middle: tuple[float, float]


def exponentiated_square(score: Score) -> Square:
    """The published frontier, exponentiated, with the area below it, which is the score, and the certified frontier."""
    middle = [math.exp(-score.scale * cost) for cost in _halfway(score.frontier)]
    axis = Scale(0.0, 1.0, (0.0, 0.5, 1.0))
    return _square(score, lambda frontier: draw.exponentiated_points(frontier, score.scale), middle, axis)


def cost_square(score: Score) -> Square:
    """The frontier in its two costs, on its own axes: on the axes of a bad system, a good system would vanish."""
    return _square(score, draw.cost_points, _halfway(score.frontier))


def _square(
    score: Score, points: Callable[[Frontier], tuple[Array, Array]], middle: Iterable[float], axis: Scale | None = None
) -> Square:
    """The curves of a score through these points. Without an axis, one is made around all points, without area."""
    x, y = points(score.frontier)
    band = [points(edge) for edge in score.band or ()]
    sure = [] if score.certified_frontier is None else [points(score.certified_frontier)]
    area = "" if axis is None else _path(axis, np.append(x, 0.0), np.append(y, 0.0), closed=True)
    if axis is None:
        every = np.concatenate([x, y, *(np.concatenate(curve) for curve in (*band, *sure))])
        axis = Scale.around(every.tolist(), most_ticks=4, low=0.0)
    return Square(
        axis,
        line=_path(axis, x, y),
        area=area,
        band=_path(axis, *draw.band_outline(*band), closed=True) if band else "",
        certified=_path(axis, *sure[0]) if sure else "",
        middle=_point(axis, *middle),
    )


@dataclass(frozen=True)
class NamedCurve:
    """One system in the picture of all: its curve, the point with λ = ½, and the height of its name beside the square.

    `number` counts the systems from 0, so that colour and dash are the same in every picture. `says` describes the area
    under the curve.
    """

    number: int
    name: str
    value: float
    says: str
    line: str
    middle: tuple[float, float]
    label: float


@dataclass(frozen=True)
class Picture:
    """A large picture of curves: its id on the page, a word for it, its description, and the curves."""

    id: str
    short: str
    caption: str
    curves: tuple[NamedCurve, ...]


def pictures(scores: Mapping[str, Score]) -> tuple[Picture, ...]:
    """The certified curves of all systems and, separately, the published ones; for one system, both in one picture."""
    if len(scores) == 1:
        [score] = scores.values()
        both = [(0, "published", _published(score))]
        if score.certified_frontier is not None:
            both.append((1, "certified", _certified(score, score.certified_frontier)))
        caption = "Certified: the true curve lies below, up to the noise of sampling. Published: as in papers."
        return (Picture("frontier", "Both", caption if len(both) > 1 else "Published, as in papers", _name(both)),)
    systems = list(enumerate(scores.items()))
    sure = [
        (number, name, _certified(score, score.certified_frontier))
        for number, (name, score) in systems
        if score.certified_frontier is not None
    ]
    published = [(number, name, _published(score)) for number, (name, score) in systems]
    pictures = (
        Picture(
            "certified-curves",
            "Proven",
            "Certified: the true curve lies below, up to the noise of sampling",
            _name(sure),
        ),
        Picture(
            "published-curves",
            "As in papers",
            "Published: the area below is MAUVE as in papers, which can miss a gap",
            _name(published),
        ),
    )
    return tuple(picture for picture in pictures if picture.curves)


_Curve = tuple[Frontier, float, float, str]  # with the scale, the area, and its description


def _certified(score: Score, frontier: Frontier) -> _Curve:
    estimate = score.certified["mauve"]
    says = f"certified MAUVE {estimate.value:.4f}, with 95% confidence at most {at_most(estimate.high)}"
    return frontier, score.scale, estimate.value, says


def _published(score: Score) -> _Curve:
    says = f"published MAUVE {score.mauve:.3f}"
    if "mauve" in score.interval:
        low, high = score.interval["mauve"]
        says += f", 95% of repeat samples from {low:.3f} to {high:.3f}"
    return score.frontier, score.scale, score.mauve, says


def _name(curves: list[tuple[int, str, _Curve]]) -> tuple[NamedCurve, ...]:
    """The exponentiated curves with names beside the square, in the order of the curves."""
    axis = Scale(0.0, 1.0, (0.0, 0.5, 1.0))
    drawn = []
    for number, name, (frontier, scale, value, says) in curves:
        line = _path(axis, *draw.exponentiated_points(frontier, scale))
        middle = _point(axis, *(math.exp(-scale * cost) for cost in _halfway(frontier)))
        drawn.append((number, name, value, says, line, middle))
    drawn.sort(key=lambda curve: curve[-1][1] - curve[-1][0])
    heights = spread_labels([middle[1] for *_, middle in drawn])
    return tuple(NamedCurve(*curve, label=height) for curve, height in zip(drawn, heights, strict=True))


def spread_labels(wanted: list[float]) -> list[float]:
    """Heights in the given order, near the requested ones and 15 apart; closer only if there is no room.

    Examples
    --------
    >>> spread_labels([0.0, 1.0, 100.0])
    [4.0, 19.0, 100.0]
    >>> spread_labels([199.0, 200.0])
    [185.0, 200.0]
    """
    gap = min(_GAP, (_SIDE - _LOWEST) / max(len(wanted) - 1, 1))
    heights: list[float] = []
    for height in wanted:
        heights.append(max(height, _LOWEST, heights[-1] + gap if heights else _LOWEST))
    limit = _SIDE
    for i in reversed(range(len(heights))):
        heights[i] = min(heights[i], limit)
        limit = heights[i] - gap
    return [round(height, 1) for height in heights]


def _halfway(frontier: Frontier) -> tuple[float, float]:
    """The two costs of the even mixture, λ = ½."""
    half = int(np.argmin(np.abs(frontier.lam - 0.5)))
    return float(frontier.p_to_mix[half]), float(frontier.q_to_mix[half])


def _point(axis: Scale, x: float, y: float) -> tuple[float, float]:
    """A point in the square, whose origin is the upper left corner."""
    return round(_SIDE * axis(x) / 100.0, 1), round(_SIDE * (1.0 - axis(y) / 100.0), 1)


def _path(axis: Scale, x: Array, y: Array, *, closed: bool = False) -> str:
    """The path through all finite points, repeated ones once."""
    points: list[tuple[float, float]] = []
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        if math.isfinite(a) and math.isfinite(b) and (point := _point(axis, a, b)) not in points[-1:]:
            points.append(point)
    return "M" + "L".join(f"{a:g} {b:g}" for a, b in points) + ("Z" if closed else "")
