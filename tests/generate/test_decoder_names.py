"""Names of decoders: what they stand for, that they can be read back, and which are refused."""

import pytest

from mallow.errors import InputError
from mallow.generate import (
    Adversarial,
    Beam,
    Contrastive,
    Eta,
    Greedy,
    MinP,
    Nucleus,
    Sampling,
    Temperature,
    TopK,
    Typical,
    decoder,
)


def test_every_name_can_be_read_back(chosen):
    assert decoder(chosen.name) == chosen


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ancestral", Sampling()),
        ("greedy", Greedy()),
        ("nucleus:0.95", Sampling((Nucleus(0.95),))),
        ("typical:0.2", Sampling((Typical(0.2),))),
        ("eta:0.0003", Sampling((Eta(0.0003),))),
        ("min-p:0.1", Sampling((MinP(0.1),))),
        ("temperature:0.7 + top-k:50", Sampling((Temperature(0.7), TopK(50)))),
        ("beam:4", Beam(4)),
        ("beam:4:no-repeat=4:length-penalty=0", Beam(4, 0.0, 4)),
        ("adversarial:12.5", Adversarial(12.5)),
        ("adversarial:12.5:uniform-share=0.3", Adversarial(12.5, 0.3)),
        ("contrastive:5:0.6", Contrastive(5, 0.6)),
    ],
)
def test_names_stand_for_decoders(name, expected):
    assert decoder(name) == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nucleos:0.9", r"must be one of ancestral, greedy, .*; got 'nucleos:0.9'. Did you mean nucleus\?"),
        ("", "`decoder` must be one of ancestral, greedy"),
        ("nucleus", "`decoder` must be written nucleus:P; got 'nucleus'"),
        ("greedy:3", "`decoder` must be written greedy; got 'greedy:3'"),
        ("contrastive:5", "`decoder` must be written contrastive:K:PENALTY; got 'contrastive:5'"),
        ("nucleus:much", "`decoder` must have a number in nucleus:P; got 'much' in 'nucleus:much'"),
        ("top-k:2.5", "`decoder` must have a whole number in top-k:K; got '2.5' in 'top-k:2.5'"),
        ("beam:4:no-repeat=x", "must have a whole number in beam:WIDTH:no-repeat=; got 'x'"),
        (
            "beam:4:norepeat=4",
            r"`decoder` beam has the options length-penalty=, no-repeat=; .* Did you mean no-repeat\?",
        ),
        ("greedy:x=1", "`decoder` greedy has the options none; got 'x'"),
        ("greedy+nucleus:0.9", "`decoder` must join only rules .* by [+]; got 'greedy[+]nucleus:0.9'"),
        ("nucleus:1.5", "`mass` must be above 0 and at most 1; got 1.5"),
    ],
)
def test_other_names_are_refused(name, message):
    with pytest.raises(InputError, match=message):
        decoder(name)
