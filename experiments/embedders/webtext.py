"""The texts of ../shared/data/webtext-gpt2-large, as the study of embedders uses them."""

from __future__ import annotations

import sys
from pathlib import Path

import mallow.samples

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "webtext-gpt2-large"
DECODERS = ("greedy", "beam", "typical", "contrastive", "nucleus", "topk")
PUBLISHED = {"greedy": 0.079, "beam": 0.052, "typical": 0.498, "contrastive": 0.873, "nucleus": 0.879, "topk": 0.896}
WORDS = (32, 64)


def by_prompt() -> dict[str, dict[int, str]]:
    """The first generation of each prompt, by its number: human and every decoder.

    White space around a text is cut off: the published typical generations lack the leading space that all others have, and
    a language model sees that. A prompt whose generation is empty has none (4 of beam, 1 of nucleus).
    """
    if not FOLDER.is_dir():
        sys.exit(f"This study needs the generations in {FOLDER}, which are not part of the repository.")
    found = {}
    for name in ("human", *DECODERS):
        read = mallow.samples.read(FOLDER / f"{name}.jsonl.gz", field="gen", skip_bad=True)
        first = dict(reversed(list(zip(read.ids or (), read.texts, strict=True))))
        kept = {int(number): text.strip() for number, text in sorted(first.items(), key=lambda pair: int(pair[0]))}
        found[name] = {number: text for number, text in kept.items() if text}
        if len(found[name]) < 1000:
            print(f"{name}: {len(found[name])} texts, since the others are empty", file=sys.stderr)
    return found


def cut(texts: list[str], words: int) -> list[str]:
    """The first so many words of each text."""
    return [" ".join(text.split()[:words]) for text in texts]
