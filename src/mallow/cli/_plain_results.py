"""Results of commands whose functions return plain values: a p-value, a tuple of caveats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mallow.errors import Caveat
from mallow.results import Result, TableData, merge_caveats

__all__ = ["Confounds", "PermutationTest"]


@dataclass(frozen=True)
class PermutationTest(Result):
    """What `mallow.permutation_test` returned, and what it was asked."""

    KIND: ClassVar[str] = "permutation test"

    p_value: float
    permutations: int
    n: tuple[int, int]

    def __str__(self) -> str:
        return (
            f"p = {self.p_value:.4g}: the probability of a gap at least this large if {self.n[0]} reference and "
            f"{self.n[1]} model samples came from one distribution, by {self.permutations} permutations; it is exact only "
            "if all samples are independent."
        )

    def _table(self) -> TableData:
        rows = {
            "p-value": f"{self.p_value:.4g}",
            "permutations": str(self.permutations),
            "samples": f"{self.n[0]} and {self.n[1]}",
        }
        return TableData(["", "value"], list(rows.items()))


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
