"""Decoders as values: they pickle, they say whether they draw random numbers, and they refuse options out of range."""

import math
import pickle

import pytest

from mallow.errors import InputError
from mallow.generate import Adversarial, Beam, Contrastive, Greedy, Nucleus, Sampling, is_deterministic


@pytest.mark.parametrize(
    ("chosen", "deterministic"),
    [
        (Sampling((Nucleus(0.8),)), False),
        (Greedy(), True),
        (Beam(2, length_penalty=0.0, no_repeat=2), True),
        (Adversarial(3.0), False),
        (Contrastive(3, 0.5), True),
    ],
    ids=["sampling", "greedy", "beam", "adversarial", "contrastive"],
)
def test_decoders_are_values(chosen, deterministic):
    assert pickle.loads(pickle.dumps(chosen)) == chosen
    assert hash(pickle.loads(pickle.dumps(chosen))) == hash(chosen)
    assert is_deterministic(chosen) is deterministic


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Beam(0), "`width` must be an integer of at least 1; got 0"),
        (lambda: Beam(2, length_penalty=math.inf), "`length_penalty` must be a finite number; got inf"),
        (lambda: Beam(2, length_penalty="1"), "`length_penalty` must be a finite number; got '1'"),
        (lambda: Beam(2, no_repeat=0), "`no_repeat` must be an integer of at least 1; got 0"),
        (lambda: Adversarial(0), "`perplexity` must be a finite number above 0; got 0"),
        (
            lambda: Adversarial(1.0),
            "`perplexity` must be above 1, the perplexity of a text without any surprise; got 1.0",
        ),
        (lambda: Adversarial(9, 1.5), "`uniform_share` must lie between 0 and 1; got 1.5"),
        (lambda: Adversarial(9, "all"), "`uniform_share` must lie between 0 and 1; got 'all'"),
        (lambda: Contrastive(0), "`k` must be an integer of at least 1; got 0"),
        (lambda: Contrastive(4, -0.1), "`penalty` must lie between 0 and 1; got -0.1"),
        (lambda: Sampling(("nucleus",)), "`rules` must be decoding rules such as Nucleus"),
    ],
)
def test_options_outside_their_range_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
