"""A comparison of three systems whose texts, and what is found in them, go into the report."""

import string
import warnings
from pathlib import Path

import numpy as np
import pytest

import mallow
from mallow.confounds import find_confounds
from mallow.errors import EstimateWarning
from mallow.estimate import Quantize
from mallow.evaluate._score import Measure
from mallow.explain import diagnose

ATTACK = "<script>document.title = 'owned'</script> & <b>bold</b>"
MEASURE = Measure(Quantize(bins=20))
N = 300


def letters(texts):
    """An embedder: how often each letter stands in a text."""
    return np.array([[text.count(letter) for letter in string.ascii_lowercase] for text in texts], dtype=float)


def sentences(seed, topics):
    rng = np.random.default_rng(seed)
    words = {
        "sea": ["wave", "tide", "boat", "sail", "harbour", "salt"],
        "farm": ["cow", "barn", "hay", "milk", "field", "gate"],
        "attack": [ATTACK],
    }
    made = []
    for topic in rng.choice(list(topics), size=N, p=np.array(list(topics.values()))):
        made.append(" ".join(rng.choice(words[topic], size=8 if topic != "attack" else 1 + rng.integers(2))))
    return made


HUMAN = sentences(0, {"sea": 0.5, "farm": 0.5})
SYSTEMS = {
    "near": sentences(1, {"sea": 0.5, "farm": 0.5}),
    "twin": sentences(2, {"sea": 0.5, "farm": 0.5}),
    "far <b>": sentences(3, {"sea": 0.5, "farm": 0.2, "attack": 0.3}),
}


@pytest.fixture(scope="session")
def compared():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        return mallow.compare(HUMAN, SYSTEMS, measure=MEASURE, embedder=letters, repeats=3)


@pytest.fixture(scope="session")
def diagnosed():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        return {
            name: diagnose(HUMAN, SYSTEMS[name], measure=MEASURE, embedder=letters, regions=3, examples=2)
            for name in ("near", "far <b>")
        }


@pytest.fixture(scope="session")
def found():
    return find_confounds(HUMAN, SYSTEMS)


@pytest.fixture(scope="session")
def page(compared, diagnosed, found) -> str:
    from mallow.report import html

    return html(compared, diagnoses=diagnosed, findings=found)


@pytest.fixture(scope="session")
def page_file(page, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page, encoding="utf-8")
    return path
