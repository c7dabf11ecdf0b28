"""The sentences of the page: its title, the verdict, and what to cite."""

from __future__ import annotations

from mallow.evaluate import Comparison, Score

__all__ = ["bibtex", "default_title", "gap_sentence", "systems_by_signature"]

_AUTHORS = (
    "Pillutla, Krishna and Liu, Lang and Thickstun, John and Welleck, Sean and Swayamdipta, Swabha and "
    "Zellers, Rowan and Oh, Sewoong and Choi, Yejin and Harchaoui, Zaid"
)


def default_title(comparison: Comparison) -> str:
    """What the page is about."""
    names = list(comparison.scores)
    return f"{names[0]} against the reference" if len(names) == 1 else f"{len(names)} systems against the reference"


def gap_sentence(comparison: Comparison) -> str:
    """What is certain about the gap of the system that comes first; "" where the verdict has said it."""
    if len(comparison.scores) == 1:
        return ""
    name, score = next(iter(comparison.scores.items()))
    return f"{name} against the reference: {score.verdict[:1].lower()}{score.verdict[1:]}"


def systems_by_signature(scores: dict[str, Score]) -> dict[str, tuple[str, ...]]:
    """Each signature once, with the systems that it belongs to."""
    systems: dict[str, tuple[str, ...]] = {}
    for name, score in scores.items():
        line = str(score.signature)
        systems[line] = (*systems.get(line, ()), name)
    return systems


def bibtex(version: str) -> str:
    """What to cite: the paper, and the library in the version that was used."""
    return f"""@article{{pillutla2023mauve,
  title   = {{{{MAUVE}} Scores for Generative Models: Theory and Practice}},
  author  = {{{_AUTHORS}}},
  journal = {{Journal of Machine Learning Research}},
  volume  = {{24}},
  number  = {{356}},
  pages   = {{1--92}},
  year    = {{2023}}
}}

@software{{mallow,
  title   = {{mallow}},
  author  = {{{{The mallow developers}}}},
  version = {{{version}}},
  license = {{Apache-2.0}},
  note    = {{Measures the gap between what a generative model produces and the data it should match}}
}}"""
