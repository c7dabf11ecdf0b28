"""Halves of real text, in which defects are planted, and shorthands for the caveats about them."""

import re
from pydoc_data.topics import topics

import numpy as np

from mallow.caveats import find_confounds
from mallow.errors import Caveat


def passages() -> list[str]:
    """Passages of whole sentences from the language reference that comes with Python, 15 words or more each."""
    text = re.sub(r"[*_`|+=-]{2,}", " ", "\n\n".join(topics[name] for name in sorted(topics)))
    sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z])", re.sub(r"[ \t]+", " ", text))
    complete, current = [], ""
    for sentence in sentences:
        current = f"{current} {sentence}" if current else sentence
        if len(current.split()) >= 15:
            complete.append(current.strip())
            current = ""
    return list(dict.fromkeys(complete))[:1600]


TEXTS = passages()


def halves(seed: int = 0, size: int = 500) -> tuple[list[str], list[str]]:
    order = np.random.default_rng(seed).permutation(len(TEXTS))
    return [TEXTS[i] for i in order[:size]], [TEXTS[i] for i in order[size : 2 * size]]


def only_caveat(reference: object, model: object, kind: str) -> Caveat:
    """The only caveat, which must be of this kind and about the model."""
    caveats = find_confounds(reference, {"model": model})
    assert [(caveat.system, caveat.kind) for caveat in caveats] == [("model", kind)], caveats
    return caveats[0]


def caveats_of_kind(reference: object, model: object, kind: str) -> list[Caveat]:
    return [caveat for caveat in find_confounds(reference, {"model": model}) if caveat.kind == kind]
