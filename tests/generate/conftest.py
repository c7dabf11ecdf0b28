"""Decoders, human texts and a small model of them, for several test files."""

import pydoc_data.topics

import pytest

from mallow.generate import (
    Adversarial,
    Beam,
    Contrastive,
    Decoder,
    Greedy,
    NGram,
    Nucleus,
    Sampling,
    Temperature,
    TopK,
)

DECODERS = [
    Sampling(),
    Sampling((Temperature(0.7), TopK(3))),
    Sampling((Nucleus(0.8),)),
    Greedy(),
    Beam(3),
    Beam(2, length_penalty=0.0, no_repeat=2),
    Adversarial(3.0),
    Contrastive(3, 0.5),
]


@pytest.fixture(params=DECODERS, ids=lambda decoder: decoder.name)
def chosen(request) -> Decoder:
    """A decoder of each kind, one after the other."""
    return request.param


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Human text that comes with Python."""
    return [text for text in pydoc_data.topics.topics.values() if len(text) > 400][:40]


@pytest.fixture(scope="session")
def model(texts) -> NGram:
    """A trigram model of the texts."""
    return NGram.fit(texts, order=3)
