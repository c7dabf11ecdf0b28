"""Each difference between image files, planted: format, mode, size, compression, copies."""

import builtins
import importlib.util
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from caveats.real_texts import caveats_of_kind, only_caveat
from mallow import InputError, Samples
from mallow.caveats import find_confounds


def save(folder, count, *, seed=0, size=(24, 20), mode="RGB", suffix=".png", **options):
    image = pytest.importorskip("PIL.Image", reason="needs pip install 'mallow[images]'")
    rng = np.random.default_rng(seed)
    folder.mkdir()
    for i in range(count):
        shape = (*size[::-1], 3) if mode == "RGB" else size[::-1]
        image.fromarray(rng.integers(256, size=shape, dtype=np.uint8)).save(folder / f"{i}{suffix}", **options)
    return folder


def test_similar_images_give_no_caveats(tmp_path):
    one, other = (save(tmp_path / name, 60, seed=seed) for seed, name in enumerate("ab"))
    assert find_confounds(one, {"other": other}) == ()


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        (
            {"suffix": ".bmp"},
            "format",
            "100.0% of the images are BMP files (reference: 0.0%). Save both sides in the same lossless format.",
        ),
        (
            {"mode": "L"},
            "mode",
            "100.0% of the images are in mode L (reference: 0.0%). Convert both sides to the same mode, such as RGB.",
        ),
        (
            {"size": (32, 32)},
            "size",
            "100.0% of the images measure 32×32 pixels (reference: 0.0%). Resize both sides to the same size with the same "
            "filter.",
        ),
    ],
)
def test_images_of_another_kind(tmp_path, options, kind, message):
    one, other = save(tmp_path / "a", 40), save(tmp_path / "b", 40, seed=1, **options)
    caveat = caveats_of_kind(one, other, kind)[0]
    assert caveat.message == message
    assert (caveat.values["share"], caveat.values["share_reference"]) == (1.0, 0.0)


def test_sizes_that_vary_are_compared_by_their_shorter_side(tmp_path):
    folders = [tmp_path / name for name in "ab"]
    for scale, folder in zip((1, 2), folders, strict=True):
        folder.mkdir()
        for i in range(60):
            save(folder / str(i), 1, seed=i + 100 * scale, size=((20 + i % 30) * scale, (60 - i % 40) * scale))
    caveat = only_caveat(*folders, "size")
    own, reference = caveat.values["pixels"], caveat.values["pixels_reference"]
    assert own == pytest.approx(2 * reference)
    assert caveat.message.startswith(
        f"the median length of the shorter side is {own:.0f} pixels (reference: {reference:.0f}). Resize both sides"
    )


def test_jpeg_quality(tmp_path):
    one = save(tmp_path / "a", 40, suffix=".jpg", quality=90)
    other = save(tmp_path / "b", 40, seed=1, suffix=".jpg", quality=40)
    caveat = only_caveat(one, other, "compression")
    assert caveat.values == pytest.approx({"quality": 40, "quality_reference": 90}, abs=1)
    assert caveat.message == (
        "the median JPEG quality is about 40 (reference: about 90). Compress both sides in the same way, or preferably not "
        "at all."
    )


def test_copies_of_images(tmp_path):
    one, other = save(tmp_path / "a", 40, suffix=".bmp"), save(tmp_path / "b", 30, seed=1, suffix=".bmp")
    for i in range(10):
        (other / f"copy{i}.bmp").write_bytes((one / f"{i % 5}.bmp").read_bytes())
    values = {caveat.kind: caveat.values for caveat in find_confounds(one, {"model": other})}
    assert values["shared"]["copies"] == 10
    assert values["duplicates"]["repeats"] == 5
    assert set(values) == {"shared", "duplicates"}


def test_every_file_is_opened_once(tmp_path, monkeypatch):
    folders = save(tmp_path / "a", 10, suffix=".bmp"), save(tmp_path / "b", 10, seed=1, suffix=".png")
    sets = [Samples(images=sorted(folder.iterdir())) for folder in folders]
    opened = Counter()
    open_path, open_name = Path.open, builtins.open

    def count(path):
        if Path(str(path)).parent in folders:
            opened[str(path)] += 1

    monkeypatch.setattr(Path, "open", lambda path, *rest: [count(path), open_path(path, *rest)][1])
    monkeypatch.setattr(builtins, "open", lambda path, *rest, **more: [count(path), open_name(path, *rest, **more)][1])
    find_confounds(sets[0], {"model": sets[1]})
    assert opened == Counter(str(path) for samples in sets for path in samples.images)


def test_without_pillow_only_names_are_checked_and_a_caveat_says_so(tmp_path, monkeypatch):
    one = save(tmp_path / "a", 40, suffix=".jpeg")
    other = save(tmp_path / "b", 40, seed=1, suffix=".png")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "PIL" else find(name, *rest))
    unchecked, named = find_confounds(one, {"model": other})
    assert (unchecked.system, unchecked.kind) == ("reference", "unchecked")
    assert re.fullmatch(
        "sizes, modes and compression of the images were not checked, because Pillow is not installed: "
        r".*pip install '.*\[images\]'",
        unchecked.message,
    )
    assert named.kind == "format"
    assert re.match(r"100\.0% of the images are \.(jpg|png) files \(reference: 0\.0%\)\.", named.message)


def test_images_that_pillow_cannot_read_are_counted(tmp_path):
    one, other = save(tmp_path / "a", 40), save(tmp_path / "b", 40, seed=1)
    (other / "3.png").write_bytes(b"not an image")
    sets = [Samples(images=sorted(folder.iterdir())) for folder in (one, other)]
    (caveat,) = find_confounds(sets[0], {"model": sets[1]})
    assert (caveat.system, caveat.kind, caveat.values) == ("model", "unchecked", {"unread": 1, "n": 40})
    assert caveat.message == (
        "Pillow could not read the headers of 1 of 40 images; their sizes, modes and compression were not checked."
    )


def test_a_missing_file_is_an_error(tmp_path):
    gone = Samples(images=[tmp_path / "gone.png"])
    with pytest.raises(InputError, match=r"gone\.png: the image cannot be read: No such file or directory\."):
        find_confounds(gone, {"model": gone})
