"""Regions of images, drawn into files."""

from dataclasses import replace

import numpy as np
import pytest

from explain.planted import TWELVE_BINS, X, Y
from mallow import InputError
from mallow.explain import diagnose, image_grid


def pixels(paths: list) -> np.ndarray:
    from PIL import Image

    return np.stack([np.asarray(Image.open(path), np.float32).ravel() for path in paths])


def test_a_digit_that_the_model_lacks_is_missed_and_drawn(digits):
    from PIL import Image

    for path in (digits / "model").glob("0-*.png"):
        path.unlink()
    diagnosis = diagnose(digits / "reference", digits / "model", embedder=pixels, measure=TWELVE_BINS)
    first = diagnosis.missed[0]
    assert diagnosis.sample_kind == "image"
    assert first.significant
    assert [example.id[:2] for example in first.reference_examples] == ["0-"] * 3
    assert all(example.path in str(diagnosis) for example in first.reference_examples)

    image_grid(first, digits / "grid.png", size=56)
    grid = np.asarray(Image.open(digits / "grid.png"))
    assert grid.shape == (2 * (56 + 16), 3 * 56, 3)
    drawn = grid[16:72, :56, 0].astype(float)
    original = np.asarray(
        Image.open(first.reference_examples[0].path).resize((56, 56), Image.Resampling.BICUBIC), float
    )
    assert np.abs(drawn - original).mean() < 3
    assert (grid[:16] < 128).any()  # a caption
    image_grid(replace(first, model_examples=()), digits / "alone.png", size=56)
    assert (np.asarray(Image.open(digits / "alone.png"))[72 + 16 :] == 255).all()

    files = diagnosis.draw_images(digits / "regions")
    names = [f"{side}-{i + 1}.png" for side in ("missed", "invented") for i in range(len(getattr(diagnosis, side)))]
    assert [path.name for path in files] == names
    assert all(path.stat().st_size > 0 for path in files)


def test_refused(tmp_path):
    region = diagnose(X, Y).invented[0]
    with pytest.raises(
        InputError,
        match=r"`region` must have examples that are images, but it has none\. Diagnose images, with examples=3\.",
    ):
        image_grid(region, tmp_path / "grid.png")
    for name in ("grid.jpg", "nowhere/grid.png"):
        with pytest.raises(InputError, match=r"`path` must name a \.png file in an existing folder; got '.*grid"):
            image_grid(region, tmp_path / name)
    with pytest.raises(InputError, match=r"`size` must be an integer of at least 8; got 0"):
        image_grid(region, tmp_path / "grid.png", size=0)
