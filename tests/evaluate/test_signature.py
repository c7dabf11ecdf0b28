"""The signature says all that a number depends on, in one line, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from mallow import MAUVE_STAR, Samples
from mallow.evidence import Signature, make_signature
from mallow.theory import Masses, Partition

PLAIN = Signature("0.1.0", "M", "minilm", 384, 500, 400, 40, 5, 0)
LINE = "mallow 0.1.0 | M | minilm, width=384 | n=500, m=400, bins=40 | repeats=5, rng=0"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, LINE),
        ({"bins": None}, LINE.replace(", bins=40", "")),
        ({"generations": 3}, LINE + ", generations=3"),
        ({"codebook": "abc"}, LINE.replace("width=384", "width=384, codebook abc")),
        ({"tolerance": 1e-5}, LINE + " | held-out scores ±1e-05"),
        ({"tolerance": None, "libraries": "numpy 2"}, LINE + " | numpy 2"),
        ({"embedder": "two\nlines"}, None),
    ],
)
def test_the_line(changes, line):
    text = str(replace(PLAIN, **changes))
    assert "\n" not in text
    assert line is None or text == line


def libraries():
    """Numpy and its BLAS."""
    every = [library for library in threadpool_info() if library["user_api"] == "blas"]
    of_numpy = next((library for library in every if "numpy" in library["filepath"]), every[0])
    parts = [of_numpy["internal_api"], of_numpy["version"], of_numpy.get("architecture")]
    return f"numpy {np.__version__}, {' '.join(part for part in parts if part)}"


def test_it_is_read_off_the_samples_and_the_masses():
    reference = Samples(features=np.ones((6, 3)), provenance={"embedder": "glove"})
    partition = Partition(np.zeros(6, int), np.zeros(4, int), np.zeros((2, 3)))
    masses = Masses(np.array([0.5, 0.5]), np.array([0.5, 0.5]), partition=partition)
    made = make_signature(MAUVE_STAR, reference, 4, [masses] * 3, 7)
    assert (made.measure, made.embedder, made.width) == (repr(MAUVE_STAR), "glove", 3)
    assert (made.n, made.m, made.bins, made.repeats, made.rng) == (6, 4, 2, 3, 7)
    assert (made.generations, made.codebook, made.tolerance, made.libraries) == (1, None, 0.0, "")
    some = make_signature(MAUVE_STAR, Samples(features=np.ones((6, 3))), 4, [masses], 7, tolerance=1e-4)
    assert (some.embedder, some.tolerance, some.libraries) == ("features", 1e-4, libraries())
    bare = make_signature(MAUVE_STAR, reference, 4, [replace(masses, partition=None)], 7)
    assert (bare.bins, bare.tolerance, bare.libraries) == (None, None, libraries())
