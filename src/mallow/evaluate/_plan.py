"""The number of samples needed to distinguish two systems, from the held-out evidence of a pilot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mallow._checks import open_unit
from mallow.caveats import evidence_caveats, find_confounds, rename_system, unique_caveats
from mallow.embed import AnyEmbedder
from mallow.errors import Caveat, InputError, warn_about
from mallow.evaluate._check import _SHIFTS, gaussian_areas
from mallow.evaluate._compare import embed_pairs
from mallow.evidence import MAUVE_STAR, NORMAL, HeldOut, Measure, Pairs, find_measure, find_units, hold_out
from mallow.results import Axes, Result, TableData, draw
from mallow.samples import Samples

_FEWEST = 100  # samples of a pilot; chosen: with fewer, almost nothing is learned from the folds
_NO_NOISE = 1e-9  # below which an error comes from rounding
_FAR = 30  # multiple of the pilot beyond which a plan is doubtful; chosen
# Of the parameters that a witness must learn; fitted in experiments/honesty/plan.py.
_CONSTANT, _PER_DIMENSION, _METRIC = 5.0, 1.85, 1.3
_LEAST, _MOST = 0.7, 3.0  # limits for the noise of a pilot, as a multiple of the noise for Gaussians; chosen
_LIMIT = 2**40  # samples beyond which no plan is made


@dataclass(frozen=True, repr=False)
class SamplePlan(Result):
    """The number of samples needed to distinguish two systems.

    Attributes
    ----------
    n : int
        Samples of the reference and of each system with which a difference of `detect` is found significant with
        probability `power`. If samples come in units of several, such as one prompt with five texts, it counts units.
        It is at least the number of the pilot, because a pilot does not show what fewer samples can detect.
    n_observed : int or None
        The same for the difference observed in the pilot; None if that is smaller than its standard error, since the
        true difference may then have any size. A difference that was noticed because it is large tends to be
        overestimated, so this number tends to be too low.
    detect : float
        The true difference in MAUVE to detect, which unlimited samples would show.
    power : float
        The probability of detecting it, as requested.
    level : float
        The level of the test, as requested.
    pilot : dict
        The results of the pilot: "difference" (of certified MAUVE, A minus B), "low" and "high" (its 95% interval),
        "standard error" (the longer arm of the interval, divided by 1.96) and "n", the units of its largest side.
    unit : str
        What n counts: "samples", or "prompts" if several samples share an id or a prompt.
    caveats : tuple of Caveat
    """

    KIND: ClassVar[str] = "plan"

    n: int
    n_observed: int | None
    detect: float
    power: float
    level: float
    pilot: dict[str, float]
    unit: str
    caveats: tuple[Caveat, ...]

    def __repr__(self) -> str:
        return f"SamplePlan(n={self.n}, detect={self.detect:g}, power={self.power:g}, level={self.level:g})"

    def __str__(self) -> str:
        pilot, more = self.pilot, "" if self.unit == "samples" else ", each with as many samples as in the pilot"
        lines = [
            f"Take {self.n:,} {self.unit} of the reference and of each system{more}: a true difference of "
            f"{self.detect:g} in MAUVE is then found at the {self.level:.3g} level with probability {self.power:.3g}.",
            f"The pilot of {pilot['n']:,.0f} {self.unit} showed a difference of {pilot['difference']:+.4f} (95% "
            f"interval of the difference: {pilot['low']:+.4f} to {pilot['high']:+.4f}).",
        ]
        if self.n_observed is None:
            lines.append("That is less than its standard error, so the required sample size cannot be estimated.")
        else:
            lines.append(f"If the true difference is that large, {self.n_observed:,} are enough.")
        return self._with_caveats(lines)

    def power_with(self, n: float) -> float:
        """The approximate power of n samples, by the normal approximation that gives `power` at the plan's own `n`."""
        normal = NormalDist()
        z_level, z_power = -normal.inv_cdf(self.level / 2), normal.inv_cdf(self.power)
        return normal.cdf((z_level + z_power) * (n / self.n) ** 0.5 - z_level)

    def _table(self) -> TableData:
        rows = {
            f"{self.unit} per side": f"{self.n:,}",
            "difference to detect": f"{self.detect:g}",
            "power": f"{self.power:g}",
            "level": f"{self.level:g}",
            "difference in the pilot": f"{self.pilot['difference']:+.4f}",
            "95% interval": f"{self.pilot['low']:+.4f} to {self.pilot['high']:+.4f}",
            f"{self.unit} for that difference": "–" if self.n_observed is None else f"{self.n_observed:,}",
        }
        return TableData(["", "value"], list(rows.items()))

    def _records(self) -> list[dict[str, Any]]:
        names = ("n", "n_observed", "unit", "detect", "power", "level")
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
    measure: Measure | str = MAUVE_STAR,
    embedder: AnyEmbedder | str | None = None,
    paired: bool = False,
    rng: int | np.random.Generator | None = 0,
) -> SamplePlan:
    """How many samples are needed to find a difference between two systems, from a pilot of at least 100 samples.

    The plan gives the n at which the verdict of `compare` finds a true difference of `detect`. More samples help in two
    ways. The standard error of the difference between the certificates of the two systems falls like 1/√n. A witness
    that learned from more samples also detects more of the true difference; with more dimensions this takes more
    samples. The plan is for systems about as far from the reference as in the pilot, and for samples that share as much
    (the reference, perhaps prompts). On Gaussian samples, plans for a power of 0.8 found the difference in 77 to 92% of
    40 or 80 trials each (experiments/honesty/plan.md).

    Parameters
    ----------
    reference : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The reference of the pilot. A few hundred samples of each set are enough. If their numbers differ, the plan
        assumes that each side has as many as the largest, which is conservative.
    model_a : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The samples of one system.
    model_b : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The samples of the other system.
    detect : float
        The true difference in MAUVE to detect, between 0 and 1.
    power : float
        The required probability of detecting it.
    level : float
        The level of significance, two-sided.
    measure : Measure
        Only its divergence, scale and witness matter, not the estimator of the published score.
    embedder :
        The embedder, by name or as an object. None takes the default for the kind of samples, as in `mallow.score`.
    paired :
        Whether row i of each set belongs to row i of the others, as in `mallow.score`.
    rng :
        The seed of the clusterings, as in `mallow.score`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> human, a, b = (rng.normal(shift, 1, size=(300, 4)) for shift in (0, 0.3, 0.5))
    >>> plan = plan_samples(human, a, b, detect=0.1)
    >>> 300 < plan.n < 3000
    True
    """
    measure = find_measure(measure)
    open_unit("detect", detect, why=" It is a difference in MAUVE, such as 0.01.")
    open_unit("power", power, why=" It is a probability, such as 0.8.")
    open_unit("level", level, why=" It is a probability, such as 0.05.")
    if power <= level:
        raise InputError(
            f"`power` must be above `level`, the power of a test without samples; got {power} and {level}."
        )
    pairs = embed_pairs(reference, {"A": model_a, "B": model_b}, embedder, measure, paired=paired)
    units = find_units(pairs["A"][0], pairs["A"][1], pairs["B"][1])
    counts = [len(np.unique(own)) for own in units.sets]
    if min(counts) < _FEWEST:
        raise InputError(
            f"a pilot must have at least {_FEWEST} independent samples on each side, but the smallest has "
            f"{min(counts)}."
        )
    held_out = hold_out(measure, pairs)
    pilot = _show_pilot(held_out, max(counts))
    law = _LearningLaw.fit(held_out, max(counts), _dimension([pairs["A"][0], pairs["A"][1], pairs["B"][1]]))
    n, seen = law.samples_for(detect, level, power, max(counts)), abs(pilot["difference"])
    caveats = unique_caveats([*_sample_caveats(pairs, held_out), *_plan_caveats(held_out, n, max(counts))])
    warn_about(caveats)
    grouped = any(len(own) > count for own, count in zip(units.sets, counts, strict=True))
    n_observed = law.samples_for(seen, level, power, max(counts)) if seen > pilot["standard error"] else None
    return SamplePlan(n, n_observed, detect, power, level, pilot, "prompts" if grouped else "samples", caveats)


@dataclass(frozen=True, eq=False)
class _LearningLaw:
    """The part of a true difference that the verdict detects with n samples, since a witness must first learn.

    For Gaussians in d dimensions with means a distance s apart, a witness learned from n samples per side shows the
    distance s_n with s²/s_n² = (1 + k/(n s²)) (1 + 1.3 d/n), like a linear discriminant, whose direction and metric
    have errors. This and k = 5 + 1.85 d were fitted to the certified values of Gaussians in 2 to 50 dimensions
    (experiments/honesty/plan.md compares both).
    """

    areas: NDArray[np.float64]  # the true area at each of `_SHIFTS`
    slopes: NDArray[np.float64]  # how fast it falls there
    dimension: float  # the effective number of dimensions d
    values: tuple[float, float]  # the areas of the two systems of the pilot with unlimited samples
    noise: float  # the error of the pilot, in errors of independent Gaussians with one reference for both systems

    @classmethod
    def fit(cls, held_out: HeldOut, n: int, dimension: float) -> _LearningLaw:
        """The visible difference from the certificates of a pilot with n samples per side."""
        measure, both = held_out.measure, [held_out.certificates[name] for name in "AB"]
        areas = gaussian_areas(measure.divergence, measure.area_scale)
        slopes = -np.gradient(areas, _SHIFTS)
        certified = np.array([certificate.estimates["mauve"].value for certificate in both])
        seen = np.interp(-certified, -areas, _SHIFTS)
        law = cls(areas, slopes, dimension, (1.0, 1.0), 1.0)
        first, second = np.interp(law.true(n, seen), _SHIFTS, areas)
        error = float(replace(both[0], influence=both[0].influence - both[1].influence).errors[0])
        noise = error / max(law.error(n, seen), _NO_NOISE)
        return replace(law, values=(float(first), float(second)), noise=min(max(noise, _LEAST), _MOST))

    @property
    def _k(self) -> float:
        return _CONSTANT + _PER_DIMENSION * self.dimension

    def seen(self, n: float, shifts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The distances that a witness learned from n samples per side detects, for these true distances."""
        direction = 1.0 + self._k / (n * np.maximum(shifts, 1e-9) ** 2)
        learned: NDArray[np.float64] = shifts / np.sqrt(direction * (1.0 + _METRIC * self.dimension / n))
        return learned

    def true(self, n: float, seen: NDArray[np.float64]) -> NDArray[np.float64]:
        """The true distances for which a witness learned from n samples per side detects these."""
        square = np.maximum(seen, 1e-9) ** 2 * (1.0 + _METRIC * self.dimension / n)
        distance: NDArray[np.float64] = np.sqrt(square * (1.0 + np.sqrt(1.0 + 4.0 * self._k / (n * square))) / 2.0)
        return distance

    def error(self, n: float, seen: NDArray[np.float64]) -> float:
        """The standard error of the difference of two areas. Both systems share the noise of one reference."""
        first, second = np.interp(seen, _SHIFTS, self.slopes)
        return self.noise * math.sqrt((first**2 + second**2 + (first - second) ** 2) / n)

    def power(self, n: float, difference: float, level: float) -> float:
        """The power with n samples for two systems that are as far from the reference as in the pilot.

        z varies by more than 1, because each system has its own witness, with its own luck. This doubles the variance
        if almost nothing is detected, and adds nothing if everything is (`subtract_certificates`).
        """
        middle = min(max(sum(self.values) / 2.0, difference / 2.0), 1.0 - difference / 2.0)
        true = np.interp([-middle - difference / 2.0, difference / 2.0 - middle], -self.areas, _SHIFTS)
        seen = self.seen(n, true)
        near, far = np.interp(seen, _SHIFTS, self.areas)
        z = float(near - far) / max(self.error(n, seen), 1e-300)
        luck = math.sqrt(2.0 - float(((seen / np.maximum(true, 1e-9)) ** 2).mean()))
        return NormalDist().cdf((z + NormalDist().inv_cdf(level / 2.0)) / luck)

    def samples_for(self, difference: float, level: float, power: float, fewest: int) -> int:
        """The smallest number of samples with this power, but at least `fewest`."""
        low, high = fewest - 1, fewest
        while self.power(high, difference, level) < power and high < _LIMIT:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.power(middle, difference, level) >= power else (middle, high)
        return high


def _dimension(sets: Sequence[Samples]) -> float:
    """The effective number of dimensions of features: (Σλ)²/Σλ², with λ the variances of their principal components."""
    rows = [np.asarray(own.require_features(), dtype=np.float64) for own in sets]
    centred = np.concatenate([(own - own.mean(axis=0)).reshape(len(own), -1) for own in rows])
    gram = centred.T @ centred if centred.shape[1] <= len(centred) else centred @ centred.T
    return float(np.trace(gram)) ** 2 / max(float((gram**2).sum()), 1e-300)


def _show_pilot(held_out: HeldOut, n: int) -> dict[str, float]:
    """The difference of the two certificates in a pilot, whose error must be positive."""
    if min(certificate.estimates["mauve"].value for certificate in held_out.certificates.values()) > 1.0 - _NO_NOISE:
        raise InputError(
            f"the pilot shows no gap: with {n} samples neither system can be told from the reference, so that nothing "
            "is known about the noise of their difference. Use a larger pilot."
        )
    one = held_out.difference("A", "B")
    low, high = one.interval["mauve"]
    error = max(one.value["mauve"] - low, high - one.value["mauve"]) / NORMAL  # one end may be the end of the range
    if error < _NO_NOISE:
        raise InputError(
            "`model_a` and `model_b` must be different systems, with samples that vary, but these hold the same "
            "samples, or one sample many times, so that the pilot does not show the noise of a difference. Pass "
            "samples of two systems."
        )
    return {"difference": one.value["mauve"], "low": low, "high": high, "standard error": error, "n": n}


def _sample_caveats(pairs: Pairs, held_out: HeldOut) -> list[Caveat]:
    """Caveats from the samples of the pilot."""
    reference = next(iter(pairs.values()))[0]
    caveats = [*find_confounds(reference, {name: model for name, (_, model) in pairs.items()})]
    for name, (own_reference, model) in pairs.items():
        caveats += [*rename_system(own_reference.caveats, "reference"), *rename_system(model.caveats, name)]
        caveats += rename_system(evidence_caveats(held_out.evidence[name]), name)
    return caveats


def _plan_caveats(held_out: HeldOut, n: int, pilot: int) -> list[Caveat]:
    """Caveats about the plan."""
    caveats = []
    for name, certificate in held_out.certificates.items():
        if certificate.estimates["mauve"].high == 1.0:
            text = (
                f"no gap to the reference is certain in this pilot of {pilot}, so that its part of the noise is not "
                "seen and the plan may be too small. Use a larger pilot."
            )
            caveats.append(Caveat("no gap in the pilot", text, name, {"n": pilot}))
    if n > _FAR * pilot:
        text = (
            f"the plan is for {n / pilot:.0f} times the samples of the pilot: run a larger pilot before relying on it."
        )
        caveats.append(Caveat("small pilot", text, values={"times": n / pilot}))
    return caveats
