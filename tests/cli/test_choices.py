"""Names on the command line, and the objects that they stand for."""

import json

import numpy as np
import pytest

from mallow import CHI2, MAUVE_2021, MAUVE_STAR, Classifier, KernelDensity, Measure, Neighbors, Quantize, Reduce
from mallow.cli._options import find_measure, find_measure_if_named
from mallow.evidence import MAUVE_KERNEL

SCORE = "score human.jsonl far.jsonl -e letters:letters --repeats 1"
NO_OPTIONS = (None, None, None, None, None)


@pytest.mark.parametrize(
    ("options", "measure"),
    [
        (NO_OPTIONS, MAUVE_STAR),
        (("mauve-kernel", None, None, None, None), MAUVE_KERNEL),
        (("mauve-2021", None, None, None, None), MAUVE_2021),
        (("mauve-2021", "quantize", None, 30, None), Measure(Quantize(30, MAUVE_2021.estimator.smoothing))),
        ((None, None, "chi2", 20, 2.0), Measure(Quantize(20), CHI2, 2.0)),
        ((None, "neighbors", None, None, None), Measure(Neighbors())),
        ((None, "kernel-density", None, None, None), Measure(KernelDensity())),
        ((None, "mallow.estimate:Classifier", None, None, None), Measure(Classifier())),
        ((*NO_OPTIONS, True), Measure(Quantize(reduce=Reduce(normalise=False)))),
        ((None, None, None, 20, None, True), Measure(Quantize(20, reduce=Reduce(normalise=False)))),
    ],
)
def test_options_describe_a_measure(options, measure):
    assert find_measure(*options) == measure
    assert find_measure_if_named(*options) == (None if options == NO_OPTIONS else measure)


def test_bins_change_nothing_else_of_an_estimator(home):
    (home / "mine.py").write_text(
        "from mallow import Quantize\n\nFINE = Quantize(restarts=3, reduce=None, max_iter=9, codebook='shared')\n"
    )
    kept = Quantize(restarts=3, reduce=None, max_iter=9, codebook="shared", bins=12)
    assert find_measure(None, "mine:FINE", None, 12, None).estimator == kept


def test_rows_that_are_not_scaled_cannot_be_left_unscaled(home, refused):
    (home / "unreduced.py").write_text("from mallow import Quantize\n\nPLAIN = Quantize(reduce=None)\n")
    message = "--no-normalise is for estimators that scale rows to length 1; unreduced:PLAIN does not."
    refused(f"{SCORE} --estimator unreduced:PLAIN --no-normalise", 2, message)


def test_what_is_missing_in_a_score_is_said_with_its_option(home, mallow):
    rng = np.random.default_rng(0)
    for name, lengths in (("near", 1.0), ("long", rng.uniform(1, 9, size=(200, 1)))):
        np.save(home / f"{name}.npy", rng.normal(size=(200, 3)) * lengths)
    _, _, err = mallow("score near.npy long.npy --repeats 1")
    assert "--no-normalise" in err
    assert "Measure(" not in err
    _, _, err = mallow("score near.npy long.npy --repeats 1 --no-normalise")
    assert "normalise" not in err


def test_names_reach_the_score(mallow):
    _, out, _ = mallow(f"{SCORE} --format json --bins 20 --scale 2 --divergence chi2 --rng 3 -q")
    signature = json.loads(out)["signature"]
    assert (signature["bins"], signature["rng"], signature["repeats"]) == (20, 3, 1)
    assert "CHI2, scale=2" in signature["measure"]
    assert (
        json.loads(out)["mauve"]
        == json.loads(mallow(f"{SCORE} --format json --bins 20 --scale 2 --divergence chi2 --seed 3 -q")[1])["mauve"]
    )
    assert (
        "Gaussian(" in json.loads(mallow(f"{SCORE} --estimator gaussian --format json -q")[1])["signature"]["measure"]
    )


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ("--estimator neighbours", 2, "or package.module:object; got 'neighbours'. Did you mean neighbors?"),
        ("--estimator gaussian --bins 9", 2, "--bins is for estimators that quantise; gaussian has no bins."),
        (
            "--estimator letters:NUMBER",
            2,
            "with `prepare`, `masses` and `scale`; letters:NUMBER is of type int and lacks prepare, masses, scale.",
        ),
        ("--estimator letters:nothing", 1, "--estimator must name something that can be imported"),
        ("-e mini-lm", 1, "Did you mean minilm?"),
        ("-e inception", 1, "inception embeds image samples"),
        ("-e nothere:x", 1, "No module named 'nothere'"),
        ("-e letters:nothere", 1, "has no attribute 'nothere'"),
        ("-e letters:NUMBER", 1, "--embedder must be callable; letters:NUMBER is a int."),
        ("-e gone.gguf", 1, "there is no file gone.gguf"),
        ("-e letters.py", 1, "must be a file that ends in .gguf, .onnx"),
        ("-e gpt3", 1, "--embedder gpt3 is not among the downloaded models"),
        ("-e minilm -E pooling", 2, "--embedder-option takes KEY=VALUE; got 'pooling'."),
        ("-e ngram -E size=3", 1, "ngram has no option 'size'. Its options are n"),
    ],
)
def test_unknown_names_are_refused(refused, options, code, message):
    refused(f"score human.jsonl far.jsonl -e letters:letters {options}", code, message)


def test_features_need_no_embedder(refused):
    refused("score points.npy points.npy -e minilm", 1, "Features need no embedder.")
