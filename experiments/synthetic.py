"""What the studies on synthetic distributions share."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path

import numpy as np


def zipf(bins: int, power: float) -> np.ndarray:
    """P_l ∝ l^-power; power 0 is uniform."""
    weights = np.arange(1.0, bins + 1) ** -power
    return weights / weights.sum()


def rounded(value: object) -> object:
    """A value for JSON, with five digits so that it can be read and compared; dataclasses become objects."""
    if is_dataclass(value) and not isinstance(value, type):
        return rounded(vars(value))
    if isinstance(value, Mapping):
        return {str(key): rounded(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [rounded(entry) for entry in value]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.5g}")
    return int(value) if isinstance(value, np.integer) else value


def write(script: str, result: Mapping[str, object]) -> None:
    """results.json beside the script."""
    path = Path(script).with_name("results.json")
    path.write_text(json.dumps(rounded(result), indent=1) + "\n")


class Progress:
    """One line on stderr while a long study runs."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.start = total, 0, time.perf_counter()

    def step(self, what: str) -> None:
        self.done += 1
        seconds = time.perf_counter() - self.start
        left = seconds / self.done * (self.total - self.done)
        print(f"\r{self.done}/{self.total} {what:<40} {left:5.0f} s left", end="", file=sys.stderr)
        if self.done == self.total:
            print(file=sys.stderr)
