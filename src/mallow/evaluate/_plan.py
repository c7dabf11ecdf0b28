"""How many samples tell two systems apart: the result, and the call that plans from a pilot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mallow._checks import open_unit, seed_from, whole
from mallow.embed import AnyEmbedder
from mallow.errors import Caveat, InputError, warn_about
from mallow.estimate import Quantize
from mallow.evaluate._compare import compare_quietly
from mallow.evaluate._measure import MAUVE_STAR, Measure
from mallow.evaluate._pilot import FEWEST, Pilot, simulate_plan
from mallow.results import Result, TableData, draw
from mallow.theory import KL
from mallow.theory.bounds import statistical_bound
from mallow.theory.smoothing import empirical, krichevsky_trofimov, laplace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SamplePlan", "plan_samples"]

_ADDED: dict[Callable[..., Any], float] = {empirical: 0.0, krichevsky_trofimov: 0.5, laplace: 1.0}


@dataclass(frozen=True, repr=False)
class SamplePlan(Result):
    """How many samples and repeats are needed to tell two systems apart.

    Attributes
    ----------
    n : int
        Samples per side with which a true difference of `detect` is found significant with probability `power`.
    n_observed : int or None
        The same for the difference observed in the pilot; None where that is smaller than its standard error, since the
        true one may then have any size. A difference that was noticed because it is large tends to be overestimated, and
        this number tends to be too low.
    repeats : int
        Clusterings whose mean leaves at most a tenth of the variance to the seed.
    detect, power, level : float
        As requested; `detect` is a difference in MAUVE.
    pilot : dict
        What the pilot showed: "difference" (A minus B, bias-corrected), "low" and "high" (its 95 % interval),
        "standard error", "n" and "bins".
    simulated : dict
        "n" and "trials" of the simulation, the "standard error" that the test reported in it and the "deviation" of the
        differences.
    bound : int or None
        Samples per side with which the paper guarantees, for any distributions on the pilot's bins, an expected error of
        at most detect/2 in each frontier integral: a worst case, thousands of times more than is needed. None where the
        paper's bounds do not cover the measure.
    caveats : tuple of Caveat
    """

    KIND: ClassVar[str] = "plan"

    n: int
    n_observed: int | None
    repeats: int
    detect: float
    power: float
    level: float
    pilot: dict[str, float]
    simulated: dict[str, float]
    bound: int | None
    caveats: tuple[Caveat, ...]

    def __repr__(self) -> str:
        return f"SamplePlan(n={self.n}, repeats={self.repeats}, detect={self.detect:g}, power={self.power:g})"

    def __str__(self) -> str:
        pilot = self.pilot
        lines = [
            f"Take {self.n:,} samples of the reference and of each system, and {self.repeats} repeats: a true difference of "
            f"{self.detect:g} in MAUVE is then found at the {self.level:.3g} level with probability {self.power:.3g}.",
            f"The pilot of {pilot['n']:,.0f} samples showed a difference of {pilot['difference']:+.4f}, between "
            f"{pilot['low']:+.4f} and {pilot['high']:+.4f} with 95 % confidence.",
        ]
        if self.n_observed is None:
            lines.append("That is less than its standard error: how many samples would show it cannot be said.")
        else:
            lines.append(f"If the true difference is that large, {self.n_observed:,} samples are enough.")
        if self.bound is not None:
            lines.append(
                f"The paper's bound asks for {self.bound:.1e} samples, and then guarantees an error of {self.detect / 2:g} "
                f"in each frontier integral for the worst distributions on {pilot['bins']:.0f} bins."
            )
        return "\n".join([*lines, *(f"caveat: {line}" for line in self.caveat_lines())])

    def power_with(self, n: float) -> float:
        """About the power of n samples per side: the normal approximation that gives `power` at the plan's own `n`."""
        normal = NormalDist()
        z_level, z_power = -normal.inv_cdf(self.level / 2), normal.inv_cdf(self.power)
        return normal.cdf((z_level + z_power) * (n / self.n) ** 0.5 - z_level)

    def _table(self) -> TableData:
        rows = {
            "samples per side": f"{self.n:,}",
            "repeats": f"{self.repeats}",
            "difference to detect": f"{self.detect:g}",
            "power": f"{self.power:g}",
            "level": f"{self.level:g}",
            "difference in the pilot": f"{self.pilot['difference']:+.4f}",
            "95 % interval of it": f"{self.pilot['low']:+.4f} to {self.pilot['high']:+.4f}",
            "samples for that difference": "–" if self.n_observed is None else f"{self.n_observed:,}",
        }
        return TableData(["", "value"], list(rows.items()))

    def _records(self) -> list[dict[str, Any]]:
        names = ("n", "n_observed", "repeats", "detect", "power", "level", "bound")
        return [{name: getattr(self, name) for name in names} | {f"pilot {key}": v for key, v in self.pilot.items()}]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the power against the number of samples per side, with the plan marked; returns the axes."""
        ax = draw.axes(ax)
        sizes = np.geomspace(self.n / 10, self.n * 4, 60)
        draw.power(ax, sizes, [self.power_with(size) for size in sizes], (self.n, self.power), self.detect)
        return ax


def plan_samples(
    reference: Any,
    model_a: Any,
    model_b: Any,
    detect: float = 0.01,
    *,
    power: float = 0.8,
    level: float = 0.05,
    measure: Measure = MAUVE_STAR,
    embedder: AnyEmbedder | str | None = None,
    repeats: int = 5,
    rng: int | np.random.Generator | None = 0,
) -> SamplePlan:
    """How many samples are needed to find a difference between two systems, from a pilot of at least 100 samples.

    The plan is for systems whose scores differ by `detect`, around the mean of the pilot's two scores: the noise of a
    score depends on how far it is from 1. Their errors correlate as in the pilot, where they share the reference and
    perhaps the prompts. Where the number of bins grows with n, it does so here, and the new bins are assumed to show no
    more of a gap than the old ones.

    Parameters
    ----------
    reference, model_a, model_b : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The pilot: a few hundred samples per model are enough. 1,000 samples take about half a minute, and the time
        grows with them. With several generations per prompt, the plan is for the first of each.
    detect : float
        The true difference in MAUVE to be found, between 0 and 1.
    power : float
        The probability with which it is to be found.
    level : float
        The level of significance, two-sided.
    measure : Measure
        Its estimator must be `Quantize`.
    embedder, rng :
        As in `mallow.score`.
    repeats : int
        Clusterings of the pilot, at least 2: their spread says how many are needed.

    Examples
    --------
    >>> import warnings
    >>> rng = np.random.default_rng(0)
    >>> human, a, b = (rng.normal(shift, 1, size=(120, 4)) for shift in (0, 0.3, 0.5))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # 120 samples are few
    ...     plan = plan_samples(human, a, b, detect=0.5, repeats=2)
    >>> 100 <= plan.n < 1000 < plan.bound
    True
    """
    open_unit("detect", detect, why=" It is a difference in MAUVE, such as 0.01.")
    open_unit("power", power, why=" It is a probability, such as 0.8.")
    open_unit("level", level, why=" It is a probability, such as 0.05.")
    if power <= level:
        raise InputError(
            f"`power` must be above `level`, the power of a test without samples; got {power} and {level}."
        )
    whole("repeats", repeats, least=2)
    if not isinstance(measure.estimator, Quantize):
        raise InputError(f"`measure` must quantise to be planned for; its estimator is {measure.estimator!r}.")
    seed = seed_from(rng)
    systems = {"A": model_a, "B": model_b}
    comparison = compare_quietly(reference, systems, measure=measure, embedder=embedder, repeats=repeats, seed=seed)
    pilot = Pilot.from_comparison(comparison, measure)
    if pilot.n < FEWEST:
        raise InputError(f"a pilot must hold at least {FEWEST} samples on each side; the smallest holds {pilot.n}.")
    numbers, doubts = simulate_plan(pilot, detect, power, level, seed)
    caveats = (*comparison.caveats, *doubts)
    warn_about(caveats)
    bound = _bound(measure, pilot.bins, detect / 2)
    return SamplePlan(**numbers, detect=detect, power=power, level=level, bound=bound, caveats=caveats)


def _bound(measure: Measure, bins: int, error: float) -> int | None:
    """The least n for which the paper bounds the expected error of the frontier integral (eq:addb:fdiv:stat_error)."""
    constant = _ADDED.get(measure.estimator.smoothing) if isinstance(measure.estimator, Quantize) else None
    if measure.divergence != KL or constant is None:
        return None
    low, high = 3, 6
    while statistical_bound(bins, high, constant=constant) > error:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if statistical_bound(bins, middle, constant=constant) > error else (low, middle)
    return high
