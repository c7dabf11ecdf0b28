"""Images are decoded faithfully: every colour mode, transparency, orientation and broken file."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from pytest import approx

from mallow.embed import Preprocess
from mallow.errors import InputError

pillow = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")

AS_IS = Preprocess(size=None, layout="hwc")
RAMP = np.arange(256, dtype=np.uint8).reshape(16, 16)


def saved(image, path: Path, **options) -> Path:
    image.save(path, **options)
    return path


def grey_image(mode: str):
    if mode == "I;16":
        return pillow.fromarray(RAMP.astype(np.uint16) * 257)
    if mode == "I":
        return pillow.fromarray(RAMP.astype(np.int32) * 257)
    if mode == "F":
        return pillow.fromarray(RAMP.astype(np.float32) / np.float32(255))
    return pillow.fromarray(RAMP).convert(mode)


@pytest.mark.parametrize(
    ("mode", "suffix"),
    [
        *(
            ("L", "png"),
            ("LA", "png"),
            ("P", "png"),
            ("RGB", "bmp"),
            ("RGBA", "png"),
            ("CMYK", "tif"),
            ("YCbCr", "tif"),
        ),
        *(("I;16", "png"), ("I;16", "tif"), ("I", "tif"), ("F", "tif")),
    ],
)
def test_every_mode_shows_the_same_ramp(mode, suffix, tmp_path):
    path = saved(grey_image(mode), tmp_path / f"ramp.{suffix}")
    with pillow.open(path) as image:
        assert image.mode == mode
    expected = np.repeat(RAMP[:, :, None] / 255, 3, axis=2)
    assert AS_IS(path) == approx(expected, abs=1.01 / 255 if mode == "YCbCr" else 1e-6)


def test_one_bit_is_black_and_white(tmp_path):
    values = np.indices((6, 6)).sum(axis=0) % 2 == 0
    path = saved(pillow.fromarray(values), tmp_path / "bits.png")
    assert (AS_IS(path) == values[:, :, None]).all()
    assert (AS_IS(values) == values[:, :, None]).all()


def test_sixteen_bits_are_not_cut(tmp_path):
    values = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    pixels = AS_IS(saved(pillow.fromarray(values), tmp_path / "deep.png"))
    assert pixels[:, :, 0] == approx(values / 65535, abs=1e-7)
    assert AS_IS(values) == approx(pixels)
    shrunk = Preprocess(size=(3, 3), layout="hwc")(values)  # stays in floating point through the resize
    assert len(np.unique(np.round(shrunk * 255, 3) % 1)) > 3


@pytest.mark.parametrize(("low", "high"), [(70000, 70000), (0, 65536), (-1, 9), (-5, -5)])
def test_integers_beyond_sixteen_bits_are_refused(tmp_path, low, high):
    path = saved(pillow.fromarray(np.array([[low, high]], np.int32)), tmp_path / "deep.tif")
    with pytest.raises(
        InputError, match=rf"deep\.tif: integers must lie in 0 … 65535, but they lie in {low} … {high}\. Pass an array"
    ):
        AS_IS(path)


def test_colours_survive_cmyk(tmp_path):
    colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0), (120, 60, 30)]
    image = pillow.new("RGB", (6, 1))
    image.putdata(colours)
    path = saved(image.convert("CMYK"), tmp_path / "ink.tif")
    assert AS_IS(path)[0] * 255 == approx(np.array(colours), abs=1)
    jpeg = saved(pillow.new("CMYK", (16, 16), (0, 255, 255, 0)), tmp_path / "ink.jpg", quality=100)
    assert AS_IS(jpeg)[0, 0] * 255 == approx(np.array([255, 0, 0]), abs=4)


def test_the_transparent_is_white(tmp_path):
    rgba = np.zeros((2, 2, 4), np.uint8)
    rgba[0, :, 0] = 200
    rgba[:, 0, 3] = 255
    rgba[1, 1, 3] = 51  # one fifth of black on white
    expected = np.array([[[200, 0, 0], [255, 255, 255]], [[0, 0, 0], [204, 204, 204]]])
    assert AS_IS(saved(pillow.fromarray(rgba), tmp_path / "a.png")) * 255 == approx(expected, abs=1)
    assert AS_IS(rgba) * 255 == approx(expected, abs=1)
    assert AS_IS(rgba / 255) * 255 == approx(expected, abs=1e-3)
    assert AS_IS(rgba[:, :, [0, 3]])[:, 0, 0] * 255 == approx(np.array([200, 0]), abs=1)

    palette = pillow.new("P", (2, 1), 0)
    palette.putpalette([10, 20, 30, 200, 100, 50])
    palette.putpixel((1, 0), 1)
    path = saved(palette, tmp_path / "p.png", transparency=bytes([0, 255]))  # alpha of each entry of the palette
    assert AS_IS(path)[0] * 255 == approx(np.array([[255, 255, 255], [200, 100, 50]]))
    path = saved(palette, tmp_path / "p.gif", transparency=1)
    assert AS_IS(path)[0] * 255 == approx(np.array([[10, 20, 30], [255, 255, 255]]))
    path = saved(pillow.fromarray(RAMP), tmp_path / "l.png", transparency=7)  # a grey with a transparent shade
    assert AS_IS(path)[0, 6:9, 0] * 255 == approx(np.array([6, 255, 8]))
    deep = pillow.fromarray(np.array([[500, 7]], np.uint16))
    path = saved(deep, tmp_path / "deep.png", transparency=7)
    assert AS_IS(path)[0, :, 0] == approx(np.array([500 / 65535, 1]))


def test_exif_orientation_is_applied(tmp_path):
    values = np.zeros((16, 32, 3), np.uint8)
    values[:, :16] = 255
    exif = pillow.Exif()
    exif[0x0112] = 6  # turn clockwise by a quarter to view
    pixels = AS_IS(saved(pillow.fromarray(values), tmp_path / "turned.jpg", exif=exif, quality=95))
    assert pixels.shape == (32, 16, 3)
    assert pixels[:15].min() > 0.9
    assert pixels[17:].max() < 0.1


def test_the_first_frame_of_an_animation(tmp_path):
    frames = [pillow.new("L", (4, 4), shade) for shade in (50, 150, 250)]
    path = saved(frames[0], tmp_path / "moving.gif", save_all=True, append_images=frames[1:])
    assert AS_IS(path) * 255 == approx(np.full((4, 4, 3), 50.0))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (
            np.zeros((2, 2), np.int64),
            r"the image: an array must be bool, uint8, uint16, or floating .* got dtype int64\.",
        ),
        (np.zeros(5), r"an array must be \(height, width\) or .*; got shape \(5,\)\."),
        (np.zeros((3, 8, 9)), r"got shape \(3, 8, 9\); move the channels to the last axis\."),
        (np.zeros((0, 8)), r"got shape \(0, 8, 1\)\."),
        (
            np.full((2, 2), 255.0),
            r"floating-point values must lie in \[0, 1\], but they lie in \[255, 255\]\. Rescale them\.",
        ),
        (np.full((2, 2), np.nan), r"floating-point values must lie in \[0, 1\], but they lie in \[nan, nan\]"),
    ],
    ids=["int64", "vector", "channels-first", "empty", "beyond", "nan"],
)
def test_unfit_arrays_are_refused(array, message):
    with pytest.raises(InputError, match=message):
        AS_IS(array)


def test_an_image_without_pixels_is_refused():
    with pytest.raises(InputError, match=r"^the image: the image has no pixels; leave it out\.$"):
        AS_IS(pillow.new("RGB", (0, 5)))


def test_broken_files_are_refused_by_name(photographs, tmp_path):
    whole = (photographs / "china.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        InputError, match=r"cut\.jpg: the image cannot be read \(.*truncated.*\)\. Open it in a viewer; if"
    ):
        AS_IS(tmp_path / "cut.jpg")
    (tmp_path / "no.png").write_bytes(b"no image at all")
    with pytest.raises(
        InputError, match=r"no\.png: the image cannot be read \(not an image format that Pillow knows\)\."
    ):
        AS_IS(tmp_path / "no.png")
    png = saved(pillow.fromarray(RAMP), tmp_path / "torn.png").read_bytes()
    (tmp_path / "torn.png").write_bytes(png[:45] + bytes(10) + png[55:])
    with pytest.raises(InputError, match=r"torn\.png: the image cannot be read \(.+\)\. Open it in a viewer"):
        AS_IS(tmp_path / "torn.png")


@pytest.mark.parametrize("pixels", [150, 100], ids=["up to twice the limit", "beyond twice the limit"])
@pytest.mark.parametrize("shown", ["default", "error"])
def test_decompression_bombs_are_errors(pixels, shown, tmp_path, monkeypatch):
    path = saved(pillow.fromarray(RAMP), tmp_path / "bomb.png")  # 256 pixels
    monkeypatch.setattr(pillow, "MAX_IMAGE_PIXELS", pixels)
    with warnings.catch_warnings():
        warnings.simplefilter(shown, pillow.DecompressionBombWarning)
        if shown == "default":
            warnings.simplefilter("ignore", pillow.DecompressionBombWarning)
        with pytest.raises(
            InputError,
            match=rf"bomb\.png: .*considers safe \({pixels}\); .*raise `PIL\.Image\.MAX_IMAGE_PIXELS`\.",
        ):
            AS_IS(path)
