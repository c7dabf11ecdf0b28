"""The prompts in two halves at random: human texts of one are the reference, human text and six decoders on the other are measured."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "embedders"))
from webtext import by_prompt


def split() -> tuple[list[str], dict[str, list[str]]]:
    everything = by_prompt()
    common = sorted(set.intersection(*(set(each) for each in everything.values())))
    order = np.random.default_rng(0).permutation(common).tolist()
    half = len(order) // 2
    reference = [everything["human"][number] for number in order[:half]]
    return reference, {name: [each[number] for number in order[half : 2 * half]] for name, each in everything.items()}
