"""How much of a corpus is machine-written, or anything else of which there are examples."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from mallow.embed import AnyEmbedder, embed_all
from mallow.engine import settle
from mallow.errors import InputError
from mallow.evidence import (
    NORMAL,
    Units,
    Witness,
    find_units,
    make_learner,
    pair_spaces,
    standard_errors,
    unit_influence,
)
from mallow.results import Estimate

_SHARES = np.linspace(0.0, 1.0, 2001)


def estimate_share(
    reference: object, other: object, corpus: object, *, embedder: AnyEmbedder | str | None = None
) -> Estimate:
    """The share of a corpus that is like the examples of something else, with a 95% interval.

    A function is learned that tells the examples from the reference; each sample is judged by one that was learned
    without its unit. Its mean over the corpus lies between those over the reference and over the examples, and where it
    lies is the share. The interval has every share that the three means do not contradict (Fieller), with errors over
    units. Where the examples cannot be told from the reference it reaches from 0 to 1.

    The corpus must be a mixture of samples like the reference and samples like the examples. Machine texts of another
    model, or people who write about something else, bias the share without warning. `Score.shares` needs no examples,
    and gives a lower bound only.

    Parameters
    ----------
    reference : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        Samples that are surely not what is looked for, such as texts by people.
    other : likewise
        Examples of what is looked for, such as machine texts.
    corpus : likewise
        What may have a share of them.
    embedder : Embedder, callable, name or None
        As in `mallow.score`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> corpus = np.concatenate([rng.normal(size=(800, 4)), rng.normal(1.5, 1.0, size=(200, 4))])
    >>> share = estimate_share(rng.normal(size=(500, 4)), rng.normal(1.5, 1.0, size=(500, 4)), corpus)
    >>> share.low < 0.2 < share.high, share.high - share.low < 0.1
    (True, True)
    """
    names = ("reference", "other", "corpus")
    sides = embed_all(dict(zip(names, (reference, other, corpus), strict=True)), embedder, prompts="ignore")
    samples = [sides[name] for name in names]
    (x, y, widths), (_, z, of_corpus) = (pair_spaces(samples[0], side, prompts=False) for side in samples[1:])
    if widths != of_corpus:
        raise InputError(
            f"`other` and `corpus` must have the same spaces; got {sorted(widths)} and {sorted(of_corpus)}. "
            "Pass texts, or features, for all three."
        )
    units = find_units(*samples)
    terms = [expit(-h) for h in make_learner(Witness(), [x, y, z], units, widths).scores(1, judged=[2])]
    influence = np.stack(
        [unit_influence([term], Units((units.sets[number],), units.keys)) for number, term in enumerate(terms)], axis=1
    )
    at_reference, at_other, at_corpus = (float(term.mean()) for term in terms)
    factors = np.stack([_SHARES - 1.0, -_SHARES, np.ones(len(_SHARES))])
    distance = np.abs(np.array([at_reference, at_other, at_corpus]) @ factors)
    inside = _SHARES[distance <= NORMAL * standard_errors(influence @ factors)]
    apart = at_other - at_reference
    value = float(np.clip((at_corpus - at_reference) / apart, 0.0, 1.0)) if apart > 0 else 0.0
    low, high = (float(inside.min()), float(inside.max())) if len(inside) else (value, value)
    return settle(Estimate(value, min(low, value), max(high, value)))
