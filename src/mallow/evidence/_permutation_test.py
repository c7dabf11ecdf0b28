"""The public test of identity for samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mallow._checks import seed_from, whole
from mallow.embed import AnyEmbedder, embed_all
from mallow.evidence._identity import Draws, IdentityTest
from mallow.evidence._space import find_spaces
from mallow.evidence._systems import pair_spaces
from mallow.evidence._units import find_units
from mallow.evidence._within import run_test
from mallow.results import Result, TableData, p_text
from mallow.samples import Samples


@dataclass(frozen=True)
class PermutationTest(Result):
    """The result of the test of identity for two samples of these sizes."""

    KIND: ClassVar[str] = "permutation test"

    p_value: float
    permutations: int
    exact: bool
    tail: bool
    statistics: dict[str, float]
    n: tuple[int, int]

    @classmethod
    def from_test(cls, test: IdentityTest, n: tuple[int, int]) -> PermutationTest:
        """The result of a test."""
        return cls(test.p_value, test.permutations, test.exact, test.tail, test.statistics, n)

    def __str__(self) -> str:
        if self.permutations == 0:
            return (
                "No answer: the samples of a side come in fewer than five groups, and the other side has none of their "
                "size. Give both sides the same prompts, or more prompts."
            )
        lines = [
            f"{self._p_text()}: the probability of a gap at least this large if {self.n[0]:,} reference and "
            f"{self.n[1]:,} model samples came from one distribution, by {self.permutations:,} permutations in which "
            "samples with the same id or prompt stay together."
        ]
        if any(name.startswith("within units") for name in self.statistics):
            lines.append(
                "A second test exchanged samples of the same id or prompt, as independent samples. The p-value is "
                "twice the smaller of the two."
            )
        if not self.exact:
            lines.append(
                "The groups of samples of both sides differ in size, so that only a part of each large group was used. "
                "Give both sides the same prompts to use all."
            )
        return "\n".join(lines)

    def _p_text(self) -> str:
        """The p-value, an upper bound if no permutation reached the gap."""
        text = p_text(self.p_value)
        return text.replace("=", "<") if self.tail else text

    def _table(self) -> TableData:
        rows = {
            "p-value": self._p_text().removeprefix("p = ").removeprefix("p "),
            "permutations": str(self.permutations),
            "exact": "yes" if self.exact else "no",
            "samples": f"{self.n[0]} and {self.n[1]}",
        }
        rows |= {f"p-value of {name} by itself": f"{value:.2g}" for name, value in self.statistics.items()}
        return TableData(["", "value"], list(rows.items()))

    def _records(self) -> list[dict[str, Any]]:
        whole = {"statistic": "all together", "p_value": self.p_value}
        return [whole, *({"statistic": name, "p_value": value} for name, value in self.statistics.items())]


class PValue(float):
    """A p-value that shows in a notebook where it comes from; anywhere else it is a float.

    Attributes
    ----------
    test : PermutationTest
        The test that it is the result of: ``print(p.test)`` explains it.
    """

    test: PermutationTest

    @classmethod
    def of(cls, test: PermutationTest) -> PValue:
        """The p-value of a test."""
        value = cls(test.p_value)
        value.test = test
        return value

    @property
    def p_value(self) -> float:
        """The number itself."""
        return float(self)

    def _repr_html_(self) -> str:
        return self.test._repr_html_()


def permutation_test(
    reference: Any,
    model: Any,
    *,
    embedder: AnyEmbedder | str | None = None,
    paired: bool = False,
    prompts: str = "joint",
    independent_samples: bool = True,
    permutations: int = 999,
    rng: int | np.random.Generator | None = 0,
) -> PValue:
    """The p-value for "model and reference have one distribution", by exchanging units between them.

    A small value means that the gap is real, however close to 1 the score is. It is the test behind `Score.p_value`: it
    uses several statistics of the features at once and is exact if units are exchangeable. Samples that share an id (or
    a prompt, without ids) are one unit, and so is row i of both sides with `paired`, so shared prompts and several
    samples per prompt are no problem. If few permutations reach the observed gap, up to 100,000 are drawn, and the
    smallest possible p-value is 0.00001.

    If at least five units have several samples of both sides, a second test exchanges samples within units. It detects
    changes that are different for each prompt. The p-value is then twice the smaller of the two. The samples must be
    independent given their prompt; if they are not, pass ``independent_samples=False``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> permutation_test(rng.normal(size=(200, 3)), rng.normal(0.5, 1.0, size=(200, 3)))
    1e-05

    The result is a float. In a notebook it shows the test, and ``print(p.test)`` explains it anywhere.
    """
    sides = embed_all({"reference": reference, "model": model}, embedder, paired=paired, prompts=prompts)
    test = run_permutations(
        *sides.values(), independent_samples=independent_samples, permutations=permutations, rng=rng
    )
    return PValue.of(PermutationTest.from_test(test, (len(sides["reference"]), len(sides["model"]))))


def run_permutations(
    reference: Samples,
    model: Samples,
    *,
    independent_samples: bool = True,
    permutations: int = 999,
    rng: int | np.random.Generator | None = 0,
) -> IdentityTest:
    """The whole test of samples with features: its p-value, whether it is exact, and the p-value of each statistic."""
    seed = seed_from(rng)
    whole("permutations", permutations, least=1)
    *points, widths = pair_spaces(reference, model)
    units = find_units(reference, model)
    spaces = find_spaces(points, units, widths)
    return run_test(spaces, units, 1, Draws(permutations, seed), within=independent_samples)
