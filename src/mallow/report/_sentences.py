"""The sentences of the report: the verdict, the settings, what to cite."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mallow.evaluate import Comparison, Score

__all__ = ["Settings", "bibtex", "headline", "settings", "verdict"]

_SIGNATURE = re.compile(
    r"mallow (?P<version>\S+) \| (?P<measure>.+) \| (?P<embedder>.+) \| n=[^|]+ \| repeats=\d+, rng=(?P<rng>\d+)[^|]*",
    re.DOTALL,
)
_AUTHORS = (
    "Pillutla, Krishna and Liu, Lang and Thickstun, John and Welleck, Sean and Swayamdipta, Swabha and "
    "Zellers, Rowan and Oh, Sewoong and Choi, Yejin and Harchaoui, Zaid"
)


def headline(found: Comparison) -> str:
    """What the page is about."""
    names = list(found.scores)
    return f"{names[0]} against the reference" if len(names) == 1 else f"{len(names)} systems against the reference"


def verdict(found: Comparison) -> tuple[str, str]:
    """Two sentences: who is closest to the reference, or that nobody can be named; and how far from the noise floor."""
    first = next(iter(found.scores))
    return found.verdict, _gap(first, found.scores[first])


def _gap(name: str, one: Score) -> str:
    floor = one.noise_floor["mauve"]
    if one.mauve >= floor:
        return (
            f"{name} scores {one.mauve:.3f}, no less than the reference against itself ({floor:.3f}, the noise floor): "
            "this score shows no gap. Samples that continue the reference's own prompts may score above that."
        )
    return (
        f"{name} scores {one.mauve:.3f}, which is {floor - one.mauve:.3f} below the {floor:.3f} that the reference scores "
        "against itself (the noise floor)."
    )


@dataclass(frozen=True)
class Settings:
    """What the scores depend on, as far as a signature tells.

    Attributes
    ----------
    signatures : dict
        Each signature once, with the systems that it belongs to.
    version, measure, embedder, rng : str
        Of the first system; "" where its signature is not of the usual form.
    """

    signatures: dict[str, tuple[str, ...]]
    version: str = ""
    measure: str = ""
    embedder: str = ""
    rng: str = ""


def settings(found: Comparison) -> Settings:
    """The settings behind a comparison."""
    signatures: dict[str, tuple[str, ...]] = {}
    for name, one in found.scores.items():
        signatures[one.signature] = (*signatures.get(one.signature, ()), name)
    parts = _SIGNATURE.fullmatch(next(iter(signatures)))
    return Settings(signatures) if parts is None else Settings(signatures, **parts.groupdict())


def bibtex(version: str) -> str:
    """What to cite: the paper, and the library in the version used."""
    numbered = f"  version = {{{version}}},\n" if version else ""
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
{numbered}  license = {{Apache-2.0}},
  note    = {{Measures the gap between what a generative model produces and the data it should match}}
}}"""
