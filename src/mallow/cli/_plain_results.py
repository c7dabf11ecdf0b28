"""Results of commands whose functions return plain values: a test, a tuple of caveats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mallow.errors import Caveat
from mallow.evidence import IdentityTest
from mallow.results import Result, TableData, merge_caveats, p_text


@dataclass(frozen=True)
class PermutationTest(Result):
    """What the test of identity said of two samples of these sizes."""

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
        lines = [
            f"{p_text(self.p_value)}: the probability of a gap at least this large if {self.n[0]:,} reference and {self.n[1]:,} "
            f"model samples came from one distribution, by {self.permutations:,} permutations in which samples with the same "
            "id or prompt stay together."
        ]
        if self.tail:
            lines.append(
                "No permutation came near this gap, so that the probability is that of a normal tail, an approximation."
            )
        if not self.exact:
            lines.append(
                "It is approximate: the samples of one side come in groups and those of the other do not. Give both sides the "
                "same prompts, or one sample per prompt."
            )
        return "\n".join(lines)

    def _table(self) -> TableData:
        rows = {
            "p-value": p_text(self.p_value).removeprefix("p = ").removeprefix("p "),
            "permutations": str(self.permutations),
            "exact": "yes" if self.exact and not self.tail else "no",
            "samples": f"{self.n[0]} and {self.n[1]}",
        }
        rows |= {f"p-value of {name} alone": f"{value:.2g}" for name, value in self.statistics.items()}
        return TableData(["", "value"], list(rows.items()))

    def _records(self) -> list[dict[str, Any]]:
        whole = {"statistic": "all together", "p_value": self.p_value}
        return [whole, *({"statistic": name, "p_value": value} for name, value in self.statistics.items())]


@dataclass(frozen=True)
class Confounds(Result):
    """What `mallow.find_confounds` returned for some systems."""

    KIND: ClassVar[str] = "confounds"

    systems: tuple[str, ...]
    findings: tuple[Caveat, ...]

    def __str__(self) -> str:
        if not self.findings:
            return "No differences unrelated to the model were found."
        return "\n".join(merge_caveats(self.findings, self.systems))

    def _table(self) -> TableData:
        rows = [[finding.system or "reference", finding.kind, finding.message] for finding in self.findings]
        return TableData(["samples", "kind", "finding"], rows)

    def _records(self) -> list[dict[str, Any]]:
        return [{"system": one.system, "kind": one.kind, "message": one.message} for one in self.findings]
