"""A comparison of three systems, two diagnoses and the page that shows them."""

import string
import warnings
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import mallow
from mallow.errors import EstimateWarning
from mallow.estimate import Quantize
from mallow.evaluate import Comparison, Difference
from mallow.evidence import Measure
from mallow.explain import diagnose
from mallow.report import html
from mallow.results import Estimate

ATTACK = "<script>document.title = 'owned'</script> & <b>bold</b>"
MEASURE = Measure(Quantize(bins=20))
N = 300


def letters(texts):
    """An embedder: how often each letter occurs in a text."""
    return np.array([[text.count(letter) for letter in string.ascii_lowercase] for text in texts], dtype=float)


def sentences(seed, topics):
    rng = np.random.default_rng(seed)
    words = {
        "sea": ["wave", "tide", "boat", "sail", "harbour", "salt"],
        "farm": ["cow", "barn", "hay", "milk", "field", "gate"],
        "attack": [ATTACK],
    }
    texts = []
    for topic in rng.choice(list(topics), size=N, p=np.array(list(topics.values()))):
        texts.append(" ".join(rng.choice(words[topic], size=8 if topic != "attack" else 1 + rng.integers(2))))
    return texts


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
def compared_as(compared):
    """Makes a comparison with these certified values, of which these pairs differ significantly."""
    score = compared.scores["near"]

    def build(means, apart=(), baseline=None):
        itself = {**score.self_score, "mauve": 0.95}
        scores = {
            name: replace(
                score,
                mauve=value,
                self_score=itself,
                certified={**score.certified, "mauve": Estimate(value, 0.0, (1 + value) / 2)},
                p_value=1e-9,
                reasons=(),
            )
            for name, value in means
        }
        names, values = list(scores), dict(means)
        differences = tuple(
            Difference(
                a,
                b,
                {"mauve": values[a] - values[b]},
                {"mauve": (0.0, 1.0)},
                {"mauve": 0.01},
                {"mauve": 0.01 if {a, b} in apart else 0.9},
            )
            for a, b in combinations(names, 2)
            if baseline in (None, a, b)
        )
        worst = 1 + sum({names[0], other} not in apart for other in names[1:])
        ranks = {} if baseline else dict.fromkeys(names, (1, worst))
        return Comparison(scores, differences, ranks, (), {}, baseline, score.signature, ())

    return build


@pytest.fixture(scope="session")
def page(compared, diagnosed) -> str:
    return html(compared, diagnoses=diagnosed)


@pytest.fixture(scope="session")
def page_file(page, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def texts():
    """The reference and the systems that `compared` and `diagnosed` are about."""
    return HUMAN, SYSTEMS
