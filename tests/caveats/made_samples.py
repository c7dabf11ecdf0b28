"""Texts and features made for the tests of caveats."""

import numpy as np

from mallow import Samples

VOCABULARY = [f"{first}{second}ra" for first in "bcdfghjklmnp" for second in "aeiou"]


def gaussian(n, width, scale=1.0, centre=0.0, seed=0):
    return centre + scale * np.random.default_rng(seed).normal(size=(n, width))


def texts_of(n, length, seed=0):
    """Different texts of about so many words."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(VOCABULARY, size=length + rng.integers(-3, 4))) + "." for _ in range(n)]


def embedded(texts, features=None, width=4):
    rows = np.random.default_rng(len(texts)).normal(size=(len(texts), width)) if features is None else features
    return Samples(texts=texts).with_features(rows, provenance={"embedder": "test"})


def of_features(n, seed=0, **labels):
    return Samples(features=np.random.default_rng([n, seed]).normal(size=(n, 4)), **labels)
