"""ψ-sampling: contraction towards the mean embedding, the same latent variables for every ψ, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from mallow import InputError, integral
from mallow.estimate import Quantize
from mallow.generate import mean_embedding, psi_samples

MATRIX = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def embed(z):
    return np.tanh(z @ MATRIX) + 1.0


@given(psi=st.floats(0, 3), count=st.integers(1, 20), batch=st.integers(1, 25))
@settings(max_examples=30)
def test_samples_are_those_of_the_definition(psi, count, batch):  # paper: sec:expt:vision
    middle = mean_embedding(embed, latent=3, draws=500)
    found = psi_samples(embed, lambda w: 2.0 * w, psi, count, latent=3, mean=middle, batch=batch, rng=7)
    z = np.random.default_rng(7).standard_normal((count, 3)).astype(np.float32)
    assert found == approx(2.0 * (middle + psi * (embed(z) - middle)), abs=1e-5)


def test_one_is_the_generator_and_zero_a_single_sample():
    plain = psi_samples(embed, np.asarray, 1.0, 50, latent=3, rng=1)
    still = psi_samples(embed, np.asarray, 0.0, 50, latent=3, rng=1)
    assert np.ptp(still, axis=0) == approx(0.0, abs=1e-6)
    assert still[0] == approx(mean_embedding(embed, latent=3, draws=50_000), abs=0.05)
    assert plain == approx(psi_samples(embed, np.asarray, 1.0, 50, latent=3, rng=1, mean=0.0), abs=1e-5)


def test_the_generator_itself_is_nearest_to_its_samples():
    other = psi_samples(embed, np.asarray, 1.0, 1500, latent=3, rng=2)
    gaps = {
        psi: float(
            integral(Quantize(bins=40, reduce=None)(other, psi_samples(embed, np.asarray, psi, 1500, latent=3, rng=3)))
        )
        for psi in (0.4, 1.0, 1.8)
    }
    assert gaps[1.0] == min(gaps.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"psi": -0.1}, r"`psi` must be a finite number of at least 0; got -0\.1\."),
        ({"psi": float("inf")}, r"`psi` must be a finite number of at least 0; got inf\."),
        ({"count": 0}, r"`count` must be an integer of at least 1; got 0\."),
        ({"mean": np.zeros(5)}, r"`mean` must have the shape of an embedding, \(4,\); got \(5,\)\."),
        ({"mapping": lambda z: np.zeros((1, 4))}, r"`mapping` must return one finite embedding for each of 10 latent"),
        ({"mapping": lambda z: np.full((len(z), 4), np.nan)}, r"got shape \(10, 4\), with NaN or infinities\."),
        (
            {"synthesis": lambda w: np.zeros(3)},
            r"`synthesis` must return one sample for each of 10 embeddings; got shape \(3,\)",
        ),
    ],
)
def test_bad_arguments_are_refused(options, message):
    call = {"mapping": embed, "synthesis": np.asarray, "psi": 1.0, "count": 10, "latent": 3, "mean": 0.0} | options
    with pytest.raises(InputError, match=message):
        psi_samples(call.pop("mapping"), call.pop("synthesis"), call.pop("psi"), call.pop("count"), **call)
