"""Samples that distinguish the two sides: by their held-out scores, or by a large distance from their prompts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mallow.evidence import Evidence
from mallow.explain._reason import LEVEL, Example, OffTopic, Telltale
from mallow.samples import Samples
from mallow.theory import Array

_KEPT = 10  # samples of each kind; chosen


def find_telltales(samples: Samples, scores: Array, sign: int, evidence: Evidence) -> tuple[Telltale, ...]:
    """The samples with the largest scores of a sign, the clearest first, equal texts only once; none without a gap."""
    if evidence.test.p_value >= LEVEL:
        return ()
    order = np.argsort(-sign * scores, kind="stable")
    clear = order[sign * scores[order] > 0]
    telltales = []
    for rank, row in enumerate(distinct_places(samples, clear, _KEPT), start=1):
        telltales.append(Telltale(**vars(make_example(samples, row)), score=float(scores[row]), rank=rank))
    return tuple(telltales)


def find_off_topic(reference: Samples, model: Samples, evidence: Evidence) -> tuple[OffTopic, ...]:
    """The model's texts farthest from their prompts; none without a gap, or if evidence does not use prompts."""
    if evidence.test.p_value >= LEVEL or "prompts" not in evidence.spaces or model.texts is None:
        return ()
    of_reference, of_model = ((side.spaces or {})["prompts"][:, 0].tolist() for side in (reference, model))
    answers: dict[str, list[float]] = {}
    for prompt, cosine in zip(reference.prompts or (), of_reference, strict=True):
        answers.setdefault(prompt, []).append(cosine)
    usual = {prompt: float(np.mean(cosines)) for prompt, cosines in answers.items()}
    prompts = model.prompts or ()
    farther = np.array([of_model[row] - usual.get(prompt, -np.inf) for row, prompt in enumerate(prompts)])
    order = np.argsort(farther, kind="stable")
    return tuple(
        OffTopic(
            **vars(make_example(model, row)), prompt=(own := prompts[row]), cosine=of_model[row], reference=usual[own]
        )
        for row in distinct_places(model, order[farther[order] < 0], _KEPT)
    )


def distinct_places(samples: Samples, rows: NDArray[np.intp], count: int) -> list[int]:
    """At most `count` of the rows, the first ones, without those whose text occurred before."""
    chosen: list[int] = []
    shown: set[str] = set()
    for row in rows.tolist():
        if len(chosen) == count:
            break
        text = None if samples.texts is None else samples.texts[row]
        if text is None or text not in shown:
            shown.add(text or "")
            chosen.append(row)
    return chosen


def make_example(samples: Samples, row: int) -> Example:
    """The sample in a row, in the form for results."""
    text = None if samples.texts is None else samples.texts[row]
    files = samples.images if samples.audio is None else samples.audio
    path = None if files is None else str(files[row])
    return Example(row, samples.ids[row] if samples.ids else None, text, path)
