"""Samples for tests of held-out evidence, and the evidence about them."""

import numpy as np

from mallow.evaluate._check import _SHIFTS, gaussian_areas
from mallow.evidence import Certificate, Evidence, Witness, certify, find_units, gather_evidence, make_learner
from mallow.samples import Samples
from mallow.theory import KL


def samples(features, ids=None):
    return Samples(features=np.asarray(features), ids=None if ids is None else [str(name) for name in ids])


def learn(*sets, witness=None):
    """A learner of sets of features, or of pairs (features, ids)."""
    every = [samples(*one) if isinstance(one, tuple) else samples(one) for one in sets]
    return make_learner(witness or Witness(), [one.features for one in every], find_units(*every))


def gather(*sets, witness=None, seed=0, permutations=99) -> Evidence:
    return gather_evidence(learn(*sets, witness=witness), 1, permutations=permutations, seed=seed)


def certificate(*sets, witness=None, divergence=KL) -> Certificate:
    learner = learn(*sets, witness=witness)
    return certify(*learner.scores(1), learner.units.pair(1), divergence, 5.0)


def shifted(n, width, shift, seed, *, m=None):
    """Two Gaussian samples, the second one moved along every axis."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, width)), rng.normal(size=(m or n, width)) + shift


def paired(n, width, shift, seed, *, shared=0.9, gens=1):
    """Samples for the same prompts, which have much in common; the second side has `gens` for each. With ids."""
    rng = np.random.default_rng(seed)
    common = np.sqrt(shared) * rng.normal(size=(n, width))

    def draw(times):
        return np.repeat(common, times, axis=0) + np.sqrt(1 - shared) * rng.normal(size=(n * times, width))

    x, y = draw(1), draw(gens)
    y[:, 0] += shift
    return (x, list(range(n))), (y, np.repeat(np.arange(n), gens).tolist())


def gaussian_slope(value, divergence, scale):
    """How fast the area falls as the means of two Gaussians move apart, where it has this value."""
    areas = gaussian_areas(divergence, scale)
    slopes = -np.gradient(areas, _SHIFTS)
    return float(np.interp(np.interp(-value, -areas, _SHIFTS), _SHIFTS, slopes))
