"""Images: what is measured, and that nothing is said where nothing can be."""

import importlib.util

import numpy as np
import pytest
from pytest import approx

from explain.made import evidence_of
from mallow import Samples
from mallow.explain import _reasons, find_reasons
from mallow.explain._candidates import image_candidates

pillow = pytest.importorskip("PIL.Image", reason="needs pip install 'mallow[images]'")


def save(path, pixels):
    pillow.fromarray(np.asarray(pixels, np.uint8)).save(path)
    return path


def looks_of(path):
    return [float(one.trait[0]) for one in image_candidates([path])]


def test_looks_are_those_of_the_pixels(tmp_path):
    grey = save(tmp_path / "grey.png", np.full((40, 80, 3), 100))
    assert looks_of(grey) == approx([40, 2.0, 100, 0, 0, 0])
    red = save(tmp_path / "red.png", np.tile([255, 0, 0], (64, 64, 1)))
    assert looks_of(red)[4] == 255
    stripes = np.zeros((64, 64))
    stripes[:, ::2] = 200
    assert looks_of(save(tmp_path / "stripes.png", stripes)) == approx(
        [64, 1.0, 100, 100, 0, 100]
    )  # steps in one direction


@pytest.fixture
def two_sides(tmp_path):
    """Noise; the model's images are darker, and more so the lower their score."""
    rng = np.random.default_rng(0)
    sides, scores = [], []
    for name, low in (("real", 80), ("made", 50)):
        folder = tmp_path / name
        folder.mkdir()
        level = low + 40 * rng.random(60)
        paths = [save(folder / f"{i}.png", rng.normal(own, 8, (20, 20)).clip(0, 255)) for i, own in enumerate(level)]
        sides.append(Samples(images=paths, features=rng.normal(size=(60, 3))))
        scores.append(level / 30 - 2.8 + rng.normal(size=60) / 5)
    return sides, evidence_of(*scores)


def test_darker_images_are_a_reason(two_sides):
    (reason,) = find_reasons(*two_sides[0], two_sides[1])
    assert reason.kind == "trait"
    assert reason.text == "darker images (mean brightness 69 of 255, reference 100)"
    assert reason.values["explained"] > 0.8


def test_a_part_of_many_images_is_enough(two_sides, monkeypatch):
    monkeypatch.setattr(_reasons, "_IMAGES", 40)
    opened = []
    monkeypatch.setattr(_reasons, "image_candidates", lambda paths: opened.extend(paths) or image_candidates(paths))
    (reason,) = find_reasons(*two_sides[0], two_sides[1])
    assert reason.text.startswith("darker images")
    assert len(opened) == 80
    assert {path.stem for path in opened[:40]} == {path.stem for path in opened[40:]}  # both sides of the same pairs
    assert reason.values["explained"] == approx(1, abs=0.3)


def test_without_pillow_or_readable_images_nothing_is_said(two_sides, monkeypatch, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"nothing")
    assert image_candidates([tmp_path / "broken.png"]) == []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert find_reasons(*two_sides[0], two_sides[1]) == ()
