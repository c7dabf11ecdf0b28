"""Preprocessing: resize, crop and scale, as the reference pipelines do, and options that are refused."""

import pickle

import numpy as np
import pytest
from pytest import approx

from mallow.embed import Preprocess
from mallow.errors import InputError

pillow = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")


@pytest.mark.parametrize("resample", ["bicubic", "bilinear", "lanczos"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_shrinking_is_antialiased(resample, dtype):
    board = (np.indices((64, 64)).sum(axis=0) % 2).astype(dtype) * (255 if dtype == np.uint8 else 1)
    pixels = Preprocess(size=(8, 8), resample=resample)(board)
    assert pixels == approx(np.full((3, 8, 8), 0.5), abs=0.06)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_overshoot_is_cut(dtype):
    edge = np.zeros((8, 8), dtype)
    edge[:, 4:] = 255 if dtype == np.uint8 else 1
    pixels = Preprocess(size=(40, 40), resample="lanczos")(edge)
    assert pixels.min() == 0
    assert pixels.max() == 1


def test_one_pixel_is_enlarged():
    pixels = Preprocess(size=224)(np.full((1, 1, 3), 51, np.uint8))
    assert pixels == approx(np.full((3, 224, 224), 0.2))


def test_shorter_side_then_centre_crop():
    values = np.zeros((20, 40), np.uint8)
    values[:, 10:30] = 255  # white is the central square
    assert Preprocess(size=20, channels="grey")(values) == approx(np.ones((1, 20, 20)))
    assert Preprocess(size=10)(values).shape == (3, 10, 10)
    assert Preprocess(size=20, crop=(4, 6))(values).shape == (3, 4, 6)
    assert Preprocess(size=(5, 7), layout="hwc")(values).shape == (5, 7, 3)


def test_scale_mean_std_and_channels():
    values = np.array([[[0, 51, 255]]], np.uint8)
    assert Preprocess(size=None, scale=(-1, 1))(values).ravel() == approx([-1, -0.6, 1])
    normal = Preprocess(size=None, mean=[0.5, 0.2, 0.5], std=[0.5, 0.1, 0.25])
    assert normal(values).ravel() == approx([-1, 0, 2], abs=1e-6)
    assert Preprocess(size=None, channels="bgr", mean=(1, 0, 0))(values).ravel() == approx([0, 0.2, 0])
    assert Preprocess(size=None, channels="grey")(values).ravel() == approx([0.587 * 0.2 + 0.114])


def test_an_array_a_pillow_image_and_a_file_agree(photographs):
    path = photographs / "china.jpg"
    image = pillow.open(path)
    preprocess = Preprocess(size=64)
    assert (preprocess(path) == preprocess(image)).all()
    assert (preprocess(str(path)) == preprocess(np.asarray(image))).all()
    apart = np.abs(preprocess(np.asarray(image) / 255) - preprocess(path)) * 255
    assert apart.mean() < 0.5
    assert apart.max() < 2
    assert preprocess(path).dtype == np.float32


@pytest.mark.parametrize("name", ["china.jpg", "flower.jpg"])
def test_agrees_with_the_processor_of_clip(name, photographs):
    transformers = pytest.importorskip("transformers", minversion="5.0")
    kind = getattr(transformers, "CLIPImageProcessorPil", None)
    if kind is None:
        pytest.skip("needs a transformers with CLIPImageProcessorPil")
    reference = kind()
    expected = reference(pillow.open(photographs / name), return_tensors="np")["pixel_values"][0]
    ours = Preprocess(size=224, crop=224, mean=reference.image_mean, std=reference.image_std)
    assert ours(photographs / name) == approx(np.asarray(expected), abs=1e-5)


def test_equal_options_have_equal_reprs_and_pickle():
    one = Preprocess(size=[8, 9], scale=[0, 1], mean=[0, 0, 0])
    two = Preprocess(size=(8, 9), scale=(0.0, 1.0), mean=(0.0, 0.0, 0.0))
    assert one == two
    assert repr(one) == repr(two)
    assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, r"`size` must be an integer of at least 1; got 0\."),
        ({"size": (1, 2, 3)}, r"`size` must be an integer, \(height, width\) or None; got \(1, 2, 3\)\."),
        ({"size": 10, "crop": 11}, r"`crop` must fit into `size` = 10; got 11\. Increase `size`\."),
        (
            {"resample": "cubic"},
            r"`resample` must be one of 'bicubic', 'bilinear', 'lanczos'; got 'cubic'\. Did you mean bicubic\?",
        ),
        ({"channels": "RGB"}, r"`channels` must be one of 'rgb', 'bgr', 'grey'; got 'RGB'\."),
        ({"layout": "nchw"}, r"`layout` must be one of 'chw', 'hwc'; got 'nchw'\."),
        ({"scale": (1, 0)}, r"`scale` must be the values of black and white, the lower first; got \(1\.0, 0\.0\)\."),
        ({"scale": None}, r"`scale` must be the values of black and white, the lower first; got None\."),
        ({"mean": (0.5,)}, r"`mean` must hold 3 finite numbers; got \(0\.5,\)\."),
        ({"mean": 0.5}, r"`mean` must hold 3 finite numbers; got 0\.5\."),
        ({"std": (1, 1, 0)}, r"`std` must be above 0 in every channel; got \(1\.0, 1\.0, 0\.0\)\."),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_options_are_checked(options, message):
    with pytest.raises(InputError, match=message):
        Preprocess(**options)


def test_strips_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr("mallow.embed._preprocess._MOST_PIXELS", 10_000)
    with pytest.raises(InputError, match=r"image: with the shorter side at `size` = 50, .* 50×3000\. Pass `size` as"):
        Preprocess(size=50)(np.zeros((1, 60), np.uint8))


def test_a_crop_larger_than_the_image_is_refused():
    with pytest.raises(InputError, match=r"at least as large as `crop` = 20, but it is 16×16\. Set `size` as well"):
        Preprocess(size=None, crop=20)(np.zeros((16, 16), np.uint8))
