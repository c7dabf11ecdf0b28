"""Images: what is measured, and that nothing is said where nothing can be."""

import gzip
import importlib.util
import io
import re
import tarfile

import numpy as np
import pytest
from pytest import approx

import mallow
from explain.made import evidence_of
from mallow import Samples
from mallow.explain import _reasons, find_reasons
from mallow.explain._looks import image_candidates

pillow = pytest.importorskip("PIL.Image", reason="needs pip install 'mallow[images]'")
ImageEnhance, ImageFilter = (pytest.importorskip(f"PIL.{name}") for name in ("ImageEnhance", "ImageFilter"))

pytestmark = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")


def save(path, pixels):
    pillow.fromarray(np.asarray(pixels, np.uint8)).save(path)
    return path


def looks_of(path):
    return [float(one.trait[0]) for one in image_candidates([path])]


def test_looks_are_those_of_the_pixels(tmp_path):
    grey = save(tmp_path / "grey.png", np.full((40, 80, 3), 100))
    assert looks_of(grey)[:6] == approx([40, 2.0, 100, 0, 0, 0])
    red = save(tmp_path / "red.png", np.tile([255, 0, 0], (64, 64, 1)))
    assert looks_of(red)[4] == 255
    stripes = np.zeros((64, 64))
    stripes[:, ::2] = 200
    assert looks_of(save(tmp_path / "stripes.png", stripes))[:6] == approx(
        [64, 1.0, 100, 100, 0, 100]
    )  # steps in one direction


def spoil_with_noise(image, rng):
    pixels = np.asarray(image, float)
    return pillow.fromarray((pixels + rng.normal(0, 8, pixels.shape)).clip(0, 255).astype(np.uint8))


def compress(image, _):
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=20)
    return pillow.open(stream).convert("RGB")


def repeat_a_corner(image, _):
    return pillow.fromarray(np.tile(np.asarray(image)[:12, :12], (3, 3, 1))[:32, :32])


FLAWS = {
    "blurrier images": lambda image, _: image.filter(ImageFilter.GaussianBlur(0.6)),
    "noisier images": spoil_with_noise,
    "stronger traces of JPEG compression": compress,
    "more colourful images": lambda image, _: ImageEnhance.Color(image).enhance(1.5),
    "more repeated textures": repeat_a_corner,
}


@pytest.fixture(scope="module")
def photographs(shared):
    """600 real photographs, in a random order."""
    with tarfile.open(shared / "data/cifake/real.tar") as archive:
        files = [archive.extractfile(member).read() for member in archive if member.name.lower().endswith(".jpg")]
    chosen = np.random.default_rng(0).permutation(len(files))[:600]
    return [pillow.open(io.BytesIO(files[place])).convert("RGB") for place in chosen]


def test_cropped_digits_are_a_reason(shared, tmp_path):
    with gzip.open(shared / "data/mnist/t10k-images-idx3-ubyte.gz") as stream:
        digits = np.frombuffer(stream.read(), np.uint8, offset=16).reshape(-1, 28, 28)[:400]
    for number, digit in enumerate(digits):
        image, folder = pillow.fromarray(digit), tmp_path / ("real" if number < 200 else "made")
        folder.mkdir(exist_ok=True)
        (image if number < 200 else image.crop((4, 4, 24, 24)).resize((28, 28))).save(folder / f"{number}.png")
    reasons = mallow.score(tmp_path / "real", tmp_path / "made", embedder="texture").reasons
    assert any(reason.text.startswith("more tightly cropped images (detail in the outer eighth") for reason in reasons)


@pytest.mark.parametrize("words", FLAWS)
def test_planted_flaws_are_reasons_with_their_size(photographs, tmp_path, words):
    rng = np.random.default_rng(0)
    for number, image in enumerate(photographs):
        folder = tmp_path / ("real" if number < 300 else "made")
        folder.mkdir(exist_ok=True)
        (image if number < 300 else FLAWS[words](image, rng)).save(folder / f"{number}.png")
    reasons = mallow.score(tmp_path / "real", tmp_path / "made", embedder="texture").reasons
    (reason,) = (reason for reason in reasons if reason.text.startswith(words))
    assert re.search(r" [\d.]+.*, reference [\d.]+\)$", reason.text)
    assert reason.p_value < 0.01


def test_tiny_images_show_no_flaws(tmp_path):
    assert len(looks_of(save(tmp_path / "tiny.png", np.full((9, 9), 7)))) == 6


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
