"""Masses from n-gram models that are fitted to the reference and to the model (paper: related work)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from mallow.errors import InputError
from mallow.generate import NGram
from mallow.theory import Masses


def ngram_mauve(reference: Sequence[str], model: Sequence[str], *, order: int = 5, pooled: bool = True) -> Masses:
    """Masses from the likelihood ratio of two n-gram models, one per side (Pimentel, Meister and Cotterell 2023).

    MAUVE(P, Q) ≈ MAUVE(P̂, Q̂) with n-gram models P̂ and Q̂ (paper: related work, footnote on 5-gram estimation). It
    agrees with human judgement much less than the estimators on embeddings do. Known failure: log-likelihoods of
    texts are sums over tokens, so the noise of two fits, a few tenths per token, becomes a ratio of e^±10 for a
    text. Two samples of the same distribution look different unless there is far more text than a fit can use.

    No model scores a text that it was fitted to: each side is split into halves, and each half is scored by the
    models of the other halves. Texts are assigned by their content, so that all copies of a text, on one side or on
    both, are in the same half. A text is therefore never scored by a model that was fitted to a copy of it, the
    order of the texts has no effect, and the same texts on both sides give r = 1 everywhere.

    Parameters
    ----------
    reference : sequence of str
        The human texts, none of them empty. The end of a text is scored too.
    model : sequence of str
        The generated texts, none of them empty.
    order : int
        The length of the longest n-grams.
    pooled : bool
        As in `Masses.from_log_ratio`. True, since otherwise a ratio of e^10 would be the whole cost.

    Examples
    --------
    >>> import numpy as np
    >>> texts = [f"{a} saw {b}" for a in ("she", "he", "it") for b in ("me", "you", "us", "them")]
    >>> masses = ngram_mauve(texts, texts[::-1], order=3)
    >>> bool(np.allclose(masses.p, masses.q))
    True
    """
    sides = {"reference": reference, "model": model}
    for name, texts in sides.items():
        if isinstance(texts, str) or not all(isinstance(text, str) and text for text in texts):
            raise InputError(f"`{name}` must be a list of texts, none of them empty.")
    half_of = _assign_halves([*reference, *model])
    halves = {
        name: [[text for text in texts if half_of[text] == half] for half in (0, 1)] for name, texts in sides.items()
    }
    for name, parts in halves.items():
        if not all(parts):
            raise InputError(
                f"`{name}` must hold enough different texts to be split into halves; one half of its "
                f"{len(sides[name])} texts is empty."
            )
    log_ratios: dict[str, list[float]] = {"reference": [], "model": []}
    for half in (0, 1):
        p, q = (NGram.fit(halves[name][1 - half], order=order) for name in ("reference", "model"))
        for name, ratios in log_ratios.items():
            ratios += [_text_log_prob(p, text) - _text_log_prob(q, text) for text in halves[name][half]]
    return Masses.from_log_ratio(log_ratios["reference"], log_ratios["model"], pooled=pooled)


def _text_log_prob(model: NGram, text: str) -> float:
    return math.fsum(model.log_prob([*model.encode(text), *model.end]))


def _assign_halves(texts: Sequence[str]) -> dict[str, int]:
    """Each different text → 0 or 1, alternately in the order of their digests, which is unrelated to the content."""
    ranked = sorted(set(texts), key=lambda text: hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    return {text: rank % 2 for rank, text in enumerate(ranked)}
