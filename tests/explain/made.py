"""Evidence that is made up, for tests of what is read from it."""

import numpy as np

from mallow.evidence import Evidence, IdentityTest
from mallow.samples import Samples

SYLLABLES = ["ba", "ko", "lu", "mi", "ra", "se", "ti", "vo"], ["dan", "fel", "gor", "hin", "pas"]
WORDS = [first + second for first in SYLLABLES[0] for second in SYLLABLES[1]]


def evidence_of(reference_scores, model_scores, reference_units=None, model_units=None, p_value=1e-9) -> Evidence:
    """Evidence with these scores; without units, row i of both sides is one unit."""
    at_p, at_q = (np.asarray(own, float) for own in (reference_scores, model_scores))
    units = [
        np.arange(len(own)) if given is None else np.asarray(given)
        for own, given in ((at_p, reference_units), (at_q, model_units))
    ]
    count = 1 + max(int(own.max()) for own in units)
    keys = np.random.default_rng(count).integers(0, 2**63, count).astype(np.uint64)
    return Evidence(at_p, at_q, *units, keys, IdentityTest(p_value, 499, True, False, {}))


def with_features(texts, seed=0) -> Samples:
    """The texts with features that say nothing about them."""
    return Samples(texts=texts, features=np.random.default_rng(seed).normal(size=(len(texts), 3)))


def make_texts(n, seed, words=(20, 40)) -> list[str]:
    """Texts of random words, all drawn alike."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(*words))) + "." for _ in range(n)]
