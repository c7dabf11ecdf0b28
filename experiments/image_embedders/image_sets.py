"""Crops of photographs that packages carry, with planted flaws at two strengths; and digits, real and generated."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
from candidates import inside
from PIL import Image, ImageEnhance, ImageFilter

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "digits"))
import data as digits

N = 160
SIDE = 128
PHOTOGRAPHS = [
    "astronaut.png",
    "brick.png",
    "camera.png",
    "chelsea.png",
    "coffee.png",
    "coins.png",
    "grass.png",
    "gravel.png",
    "hubble_deep_field.jpg",
    "ihc.png",
    "moon.png",
    "motorcycle_left.png",
    "retina.jpg",
    "rocket.jpg",
]


def photographs() -> list[Image.Image]:
    """Fourteen pictures of scikit-image and two of scikit-learn."""
    paths = [inside("skimage", f"data/{name}") for name in PHOTOGRAPHS]
    paths += [inside("sklearn", f"datasets/images/{name}") for name in ("china.jpg", "flower.jpg")]
    return [Image.open(path).convert("RGB") for path in paths]


def crops(photos: list[Image.Image], rng: np.random.Generator, sources: int = 16) -> list[Image.Image]:
    """Squares at random places of random photographs, at random scales, half of them mirrored."""
    result = []
    for _ in range(N):
        photo = photos[rng.integers(sources)]
        side = int(rng.uniform(SIDE, min(photo.size) * 0.75))
        left, top = (int(rng.integers(length - side + 1)) for length in photo.size)
        crop = photo.crop((left, top, left + side, top + side)).resize((SIDE, SIDE), Image.Resampling.LANCZOS)
        result.append(crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else crop)
    return result


def noisy(crop: Image.Image, spread: float, rng: np.random.Generator) -> Image.Image:
    pixels = np.asarray(crop, np.float64) + rng.normal(0, spread, (SIDE, SIDE, 3))
    return Image.fromarray(pixels.round().clip(0, 255).astype(np.uint8))


def compressed(crop: Image.Image, quality: int) -> Image.Image:
    stream = io.BytesIO()
    crop.save(stream, "jpeg", quality=quality)
    return Image.open(stream).convert("RGB")


def shuffled(crop: Image.Image, share: float, rng: np.random.Generator) -> Image.Image:
    """With probability `share`, the four quarters change places: every part is right, the whole is not."""
    if rng.random() >= share:
        return crop
    pixels, half = np.asarray(crop), SIDE // 2
    quarters = [pixels[i : i + half, j : j + half] for i in (0, half) for j in (0, half)]
    a, b, c, d = (quarters[place] for place in (3, 2, 1, 0))
    return Image.fromarray(np.vstack([np.hstack([a, b]), np.hstack([c, d])]))


def photo_sets() -> dict[str, list[np.ndarray]]:
    """The reference, other crops of the same photographs, and those with a flaw: weak and strong."""
    rng, photos = np.random.default_rng(0), photographs()
    sets = {"reference": crops(photos, rng), "none": crops(photos, rng)}
    for place, strength in enumerate(("weak", "strong")):
        sets[f"noise, {strength}"] = [noisy(crop, (3, 10)[place], rng) for crop in crops(photos, rng)]
        radius = (0.5, 1.0)[place]
        sets[f"blur, {strength}"] = [crop.filter(ImageFilter.GaussianBlur(radius)) for crop in crops(photos, rng)]
        sets[f"jpeg, {strength}"] = [compressed(crop, (75, 30)[place]) for crop in crops(photos, rng)]
        colour = (0.85, 0.6)[place]
        sets[f"pale, {strength}"] = [ImageEnhance.Color(crop).enhance(colour) for crop in crops(photos, rng)]
        sets[f"quarters, {strength}"] = [shuffled(crop, (0.3, 0.8)[place], rng) for crop in crops(photos, rng)]
        sets[f"missing, {strength}"] = crops(photos, rng, sources=(14, 9)[place])
    return {name: [np.asarray(crop) for crop in images] for name, images in sets.items()}


def digit_sets() -> dict[str, list[np.ndarray]]:
    """Real digits twice, those of a GAN with less and more varied noise, of a VAE, and real ones with noise."""
    rng = np.random.default_rng(1)
    every = digits.real(rng)
    map_noise, synthesise, width = digits.gan()

    def generated(spread: float) -> np.ndarray:
        return synthesise(map_noise(spread * rng.normal(size=(N, width)).astype(np.float32)))

    grainy = np.clip(every[2 * N : 3 * N] + rng.normal(0, 12, (N, 28, 28)), 0, 255).round().astype(np.uint8)
    sets = {
        "reference": every[:N],
        "none": every[N : 2 * N],
        "GAN": generated(1.0),
        "GAN, noise × 0.6": generated(0.6),
        "GAN, noise × 2": generated(2.0),
        "VAE": digits.vae(rng.normal(size=(N, 20)).astype(np.float32)),
        "grain": grainy,
    }
    return {name: list(images) for name, images in sets.items()}
