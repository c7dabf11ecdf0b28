"""Images become arrays honestly: every colour mode, orientation, size and broken file; batches fit into memory."""

import pickle
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow.embed._images import Preprocess, checked_images, grown_batches, image_rows
from mallow.errors import InputError

pillow = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")

AS_IS = Preprocess(size=None, layout="hwc")
RAMP = np.arange(256, dtype=np.uint8).reshape(16, 16)


def photo(name: str = "china.jpg") -> Path:
    """A photograph that ships with scikit-learn."""
    import sklearn.datasets

    return Path(sklearn.datasets.__file__).parent / "images" / name


def saved(image, path: Path, **options) -> Path:
    image.save(path, **options)
    return path


# --- colour modes


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
    found = AS_IS(saved(pillow.fromarray(values), tmp_path / "deep.png"))
    assert found[:, :, 0] == approx(values / 65535, abs=1e-7)
    assert AS_IS(values) == approx(found)
    shrunk = Preprocess(size=(3, 3), layout="hwc")(values)  # stays in floating point through the resize
    assert len(np.unique(np.round(shrunk * 255, 3) % 1)) > 3


def test_integers_beyond_sixteen_bits_are_refused(tmp_path):
    path = saved(pillow.fromarray(np.full((2, 2), 70000, np.int32)), tmp_path / "deep.tif")
    with pytest.raises(
        InputError, match=r"deep\.tif: integers must lie in 0 … 65535; it holds 70000 … 70000\. Pass an array"
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


# --- orientation, frames, size


def test_exif_orientation_is_applied(tmp_path):
    values = np.zeros((16, 32, 3), np.uint8)
    values[:, :16] = 255
    exif = pillow.Exif()
    exif[0x0112] = 6  # turn clockwise by a quarter to view
    found = AS_IS(saved(pillow.fromarray(values), tmp_path / "turned.jpg", exif=exif, quality=95))
    assert found.shape == (32, 16, 3)
    assert found[:15].min() > 0.9
    assert found[17:].max() < 0.1


def test_the_first_frame_of_an_animation(tmp_path):
    frames = [pillow.new("L", (4, 4), shade) for shade in (50, 150, 250)]
    path = saved(frames[0], tmp_path / "moving.gif", save_all=True, append_images=frames[1:])
    assert AS_IS(path) * 255 == approx(np.full((4, 4, 3), 50.0))


@pytest.mark.parametrize("resample", ["bicubic", "bilinear", "lanczos"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_shrinking_is_antialiased(resample, dtype):
    board = (np.indices((64, 64)).sum(axis=0) % 2).astype(dtype) * (255 if dtype == np.uint8 else 1)
    found = Preprocess(size=(8, 8), resample=resample)(board)
    assert found == approx(np.full((3, 8, 8), 0.5), abs=0.06)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_overshoot_is_cut(dtype):
    edge = np.zeros((8, 8), dtype)
    edge[:, 4:] = 255 if dtype == np.uint8 else 1
    found = Preprocess(size=(40, 40), resample="lanczos")(edge)
    assert found.min() == 0
    assert found.max() == 1


def test_one_pixel_is_enlarged():
    found = Preprocess(size=224)(np.full((1, 1, 3), 51, np.uint8))
    assert found == approx(np.full((3, 224, 224), 0.2))


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


def test_an_array_a_pillow_image_and_a_file_agree(tmp_path):
    path = photo()
    image = pillow.open(path)
    preprocess = Preprocess(size=64)
    assert (preprocess(path) == preprocess(image)).all()
    assert (preprocess(str(path)) == preprocess(np.asarray(image))).all()
    apart = np.abs(preprocess(np.asarray(image) / 255) - preprocess(path)) * 255
    assert apart.mean() < 0.5
    assert apart.max() < 2
    assert preprocess(path).dtype == np.float32


@pytest.mark.parametrize("name", ["china.jpg", "flower.jpg"])
def test_agrees_with_the_processor_of_clip(name):
    transformers = pytest.importorskip("transformers", minversion="5.0")
    kind = getattr(transformers, "CLIPImageProcessorPil", None)
    if kind is None:
        pytest.skip("needs a transformers with CLIPImageProcessorPil")
    reference = kind()
    expected = reference(pillow.open(photo(name)), return_tensors="np")["pixel_values"][0]
    ours = Preprocess(size=224, crop=224, mean=reference.image_mean, std=reference.image_std)
    assert ours(photo(name)) == approx(np.asarray(expected), abs=1e-5)


def test_equal_options_have_equal_reprs_and_pickle():
    one = Preprocess(size=[8, 9], scale=[0, 1], mean=[0, 0, 0])
    two = Preprocess(size=(8, 9), scale=(0.0, 1.0), mean=(0.0, 0.0, 0.0))
    assert one == two
    assert repr(one) == repr(two)
    assert pickle.loads(pickle.dumps(one)) == one


# --- refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, r"`size` must be an integer of at least 1; got 0\."),
        ({"size": (1, 2, 3)}, r"`size` must be an integer, \(height, width\) or None; got \(1, 2, 3\)\."),
        ({"size": 10, "crop": 11}, r"`crop` must fit into `size` = 10; got 11\. Enlarge `size`\."),
        ({"resample": "cubic"}, r"`resample` must be one of 'bicubic', 'bilinear', 'lanczos'; got 'cubic'\."),
        ({"channels": "RGB"}, r"`channels` must be one of 'rgb', 'bgr', 'grey'; got 'RGB'\."),
        ({"layout": "nchw"}, r"`layout` must be one of 'chw', 'hwc'; got 'nchw'\."),
        ({"scale": (1, 0)}, r"`scale` must be what black and white become, the lower first; got \(1\.0, 0\.0\)\."),
        ({"scale": None}, r"`scale` must be what black and white become, the lower first; got None\."),
        ({"mean": (0.5,)}, r"`mean` must hold 3 finite numbers; got \(0\.5,\)\."),
        ({"mean": 0.5}, r"`mean` must hold 3 finite numbers; got 0\.5\."),
        ({"std": (1, 1, 0)}, r"`std` must be above 0 in every channel; got \(1\.0, 1\.0, 0\.0\)\."),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_options_are_checked(options, message):
    with pytest.raises(InputError, match=message):
        Preprocess(**options)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (
            np.zeros((2, 2), np.int64),
            r"the image: an array must be bool, uint8, uint16, or floating .* got dtype int64\.",
        ),
        (np.zeros(5), r"an array must be \(height, width\) or .*; got shape \(5,\)\."),
        (np.zeros((3, 8, 9)), r"got shape \(3, 8, 9\); move the channels last\."),
        (np.zeros((0, 8)), r"got shape \(0, 8, 1\)\."),
        (
            np.full((2, 2), 255.0),
            r"floating-point values must lie in \[0, 1\]; they lie in \[255, 255\]\. Rescale them\.",
        ),
        (np.full((2, 2), np.nan), r"floating-point values must lie in \[0, 1\]; they lie in \[nan, nan\]"),
    ],
    ids=["int64", "vector", "channels-first", "empty", "beyond", "nan"],
)
def test_unfit_arrays_are_refused(array, message):
    with pytest.raises(InputError, match=message):
        AS_IS(array)


def test_broken_files_are_refused_by_name(tmp_path):
    whole = photo().read_bytes()
    (tmp_path / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        InputError, match=r"cut\.jpg: the image cannot be read \(.*truncated.*\)\. Open it in a viewer; if"
    ):
        AS_IS(tmp_path / "cut.jpg")
    (tmp_path / "no.png").write_bytes(b"no image at all")
    with pytest.raises(InputError, match=r"no\.png: the image cannot be read \(no image format that Pillow knows\)\."):
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
            InputError, match=rf"bomb\.png: .*deems safe \({pixels}\); .*raise PIL\.Image\.MAX_IMAGE_PIXELS\."
        ):
            AS_IS(path)


def test_strips_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr("mallow.embed._images._LARGEST", 10_000)
    with pytest.raises(InputError, match=r"image: with the shorter side at `size` = 50, .* 50×3000\. Give `size` as"):
        Preprocess(size=50)(np.zeros((1, 60), np.uint8))


def test_a_crop_larger_than_the_image_is_refused():
    with pytest.raises(InputError, match=r"at least as large as `crop` = 20; it is 16×16\. Give `size` as well"):
        Preprocess(size=None, crop=20)(RAMP)


def test_text_instead_of_images_is_refused(tmp_path):
    with pytest.raises(
        InputError, match=r"sample 1 is the string 'A tale of two.*…', and no such file exists\. Texts need"
    ):
        checked_images([str(photo()), "A tale of two cities" * 9])
    with pytest.raises(InputError, match=r"`samples` must be a list of images; got 'folder'\. mallow\.read"):
        checked_images("folder")
    with pytest.raises(InputError, match=r"gone\.png: no such file \(sample 0\)\. Check the path\."):
        checked_images([tmp_path / "gone.png"])
    with pytest.raises(InputError, match=r"sample 0 is 3\.5, of type float\."):
        checked_images([3.5])
    with pytest.raises(InputError, match=r"got shape \(8, 9, 3\), which looks like one image\. Pass \[image\]\."):
        checked_images(np.zeros((8, 9, 3)))
    assert len(checked_images(np.zeros((5, 8, 9)))) == 5


def test_pillow_is_asked_for(monkeypatch):
    for name in ("PIL", "PIL.Image"):
        monkeypatch.setitem(sys.modules, name, None)
    for call in (checked_images, AS_IS):
        with pytest.raises(InputError, match=r"PIL is needed .*: pip install 'mallow\[images\]'"):
            call([RAMP])


# --- batches


class Bounded:
    """A network that runs out of memory above a number of images, and whose row is the image's first value."""

    def __init__(self, most: int, error: Exception) -> None:
        self.most, self.error, self.seen = most, error, []

    def __call__(self, batch):
        self.seen.append(len(batch))
        if len(batch) > self.most:
            raise self.error
        return batch.reshape(len(batch), -1)[:, :1]


class OutOfMemoryError(RuntimeError):
    """Named as in torch."""


FULL = [
    MemoryError(),
    OutOfMemoryError("CUDA"),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: not enough memory: you tried to allocate 1 TB"
    ),
    RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    Exception("Failed to allocate memory for requested buffer of size 8"),
]


@given(n=st.integers(0, 90), most=st.integers(1, 40), limit=st.integers(1, 40), error=st.sampled_from(FULL))
def test_every_image_comes_once_in_order_within_memory(n, most, limit, error):
    network = Bounded(most, error)
    parts = list(grown_batches((np.full((1, 1, 1), i, np.float32) for i in range(n)), network, limit=limit))
    assert [place for places, _ in parts for place in places] == list(range(n))
    assert [value for _, rows in parts for value in rows[:, 0]] == list(range(n))
    assert max(network.seen, default=0) <= limit
    failed = [place for place, size in enumerate(network.seen) if size > most]
    assert not failed or max(network.seen[failed[-1] + 1 :]) <= network.seen[failed[-1]] // 2  # and never grows again


def test_batches_grow_to_the_limit():
    network = Bounded(1000, MemoryError())
    list(grown_batches(np.zeros((100, 1, 1, 1), np.float32), network, limit=32))
    assert network.seen == [8, 16, 32, 32, 12]


def test_memory_for_no_image_is_an_error():
    with pytest.raises(
        InputError, match=r"runs out of memory on a single image\. Use a smaller model or image size, or"
    ):
        list(grown_batches(np.zeros((9, 1, 1, 1), np.float32), Bounded(0, MemoryError()), limit=8))


def test_other_errors_of_the_network_stay():
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        list(grown_batches(np.zeros((9, 1, 1, 1), np.float32), Bounded(0, RuntimeError("mat1 and mat2")), limit=8))


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (
            lambda batch: batch,
            r"one row of features an image, shape \(8, d\); got \(8, 3, 2, 2\)\. Choose another `output`",
        ),
        (lambda batch: batch[:1, 0, 0], r"shape \(8, d\); got \(1, 2\)"),
        (
            lambda batch: batch[:, 0, 0] * np.nan,
            r"gives NaN or infinite features\. If it runs in float16, pass dtype='float32'",
        ),
    ],
    ids=["maps", "rows", "nan"],
)
def test_what_a_network_gives_is_checked(network, message):
    with pytest.raises(InputError, match=message):
        list(grown_batches(np.zeros((9, 3, 2, 2), np.float32), network, limit=8))


def test_images_of_two_sizes_are_refused():
    with pytest.raises(
        InputError, match=r"image 0 gives \(3, 4, 4\), image 1 \(3, 5, 5\)\. Give `size` in Preprocess\."
    ):
        list(image_rows([np.zeros((4, 4)), np.zeros((5, 5))], Preprocess(size=None), lambda batch: batch, limit=8))


def test_decoding_stays_a_bounded_number_of_images_ahead(monkeypatch):
    loaded, most = 0, 0
    original = Preprocess.__call__

    def counted(self, image, *, label):
        nonlocal loaded
        loaded += 1
        return original(self, image, label=label)

    monkeypatch.setattr(Preprocess, "__call__", counted)
    monkeypatch.setattr("mallow.embed._images.cores", lambda: 2)
    done = 0
    for places, rows in image_rows([RAMP] * 200, AS_IS, lambda batch: batch.reshape(len(batch), -1), limit=16):
        done += len(places)
        most = max(most, loaded - done)
        assert rows.shape[1] == 16 * 16 * 3
    assert done == loaded == 200
    assert most <= 2 * 16


def test_a_broken_image_ends_the_stream_with_its_name(tmp_path):
    (tmp_path / "no.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"no\.png: the image cannot be read"):
        list(image_rows([photo()] * 5 + [tmp_path / "no.png"], Preprocess(size=8), lambda b: b[:, :, 0, 0], limit=8))
    with pytest.raises(InputError, match=r"image 1: an array must be"):
        list(image_rows([RAMP, np.zeros(3)], AS_IS, lambda b: b[:, :, 0, 0], limit=8))
