"""The preprocessing that a vision model of transformers comes with, as a `Preprocess`."""

from __future__ import annotations

import json
from typing import Any

from mallow._files import read_text
from mallow.embed._preprocess import Preprocess, Resample
from mallow.errors import InputError
from mallow.models import Source

_RESAMPLE: dict[int, Resample] = {1: "lanczos", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers
# Image processors for which a single number is a square; for the others that crop, it is the shorter side.
_SQUARE = ("deit", "beit", "flava", "perceiver", "data2vec")
_WAY_OUT = "Pass preprocess=Preprocess(size=…, mean=…, std=…)."


def processor_settings(source: Source) -> dict[str, Any]:
    """The settings of the image processor, from the files of the model."""
    unreached: InputError | None = None
    # Since transformers 5, a processor of images and texts keeps the settings of both in one file.
    for name, part in (("preprocessor_config.json", None), ("processor_config.json", "image_processor")):
        try:
            path = source.file(name)
        except InputError as error:  # without a network connection, the cache may hold the other file
            unreached = error
            continue
        try:
            content = {} if path is None else json.loads(read_text(path))
        except (ValueError, RecursionError) as error:  # an InputError too
            raise InputError(f"{source.model!r} has a damaged {name}: {error} Download it again.") from error
        if not isinstance(content, dict):
            raise InputError(f"{source.model!r} has a damaged {name}: it must hold a JSON object. Download it again.")
        settings = content if part is None else content.get(part)
        if settings and isinstance(settings, dict):
            return settings
    if unreached is not None:
        raise unreached
    raise InputError(f"{source.model!r} has no preprocessor_config.json, so its preprocessing is not known. {_WAY_OUT}")


def preprocess_from_settings(model: str, settings: dict[str, Any]) -> Preprocess:
    """The `Preprocess` that does what these settings say; an error where there is none."""
    try:
        return _preprocess(model, settings)
    except InputError:
        raise
    except (TypeError, ValueError, ArithmeticError) as error:  # a list where a number belongs, a size of NaN
        raise _refusal(model, f"its settings are damaged ({error})") from error


def _preprocess(model: str, settings: dict[str, Any]) -> Preprocess:
    if settings.get("do_pad"):
        raise _refusal(model, "it pads images (do_pad)")
    number = settings.get("resample", 2)
    if number not in _RESAMPLE:
        raise _refusal(model, f"its filter, resample = {number!r}, is not bicubic, bilinear or lanczos")
    size, crop = _size_and_crop(model, settings)
    factor = float(settings.get("rescale_factor", 1 / 255)) if settings.get("do_rescale", True) else 1.0
    offset = -1.0 if settings.get("rescale_offset") or settings.get("offset") else 0.0
    normalised = settings.get("do_normalize", True)
    return Preprocess(
        size=size,
        crop=crop,
        resample=_RESAMPLE[number],
        scale=(offset, round(255 * factor, 12) + offset),
        mean=settings.get("image_mean") if normalised else None,
        std=settings.get("image_std") if normalised else None,
        channels="bgr" if settings.get("do_flip_channel_order") else "rgb",
    )


def _refusal(model: str, reason: str) -> InputError:
    return InputError(f"The preprocessing of {model!r} cannot be reproduced: {reason}. {_WAY_OUT}")


def _size_and_crop(
    model: str, settings: dict[str, Any]
) -> tuple[int | tuple[int, int] | None, int | tuple[int, int] | None]:
    cropped = bool(settings.get("do_center_crop", False))
    crop = _parsed_size(settings.get("crop_size")) if cropped else None
    if not settings.get("do_resize", True):
        return None, crop
    kind = str(settings.get("image_processor_type") or settings.get("feature_extractor_type") or "").lower()
    setting = settings.get("size")
    size = _parsed_size(setting)
    if size is None:
        raise _refusal(model, f"its size is {setting!r}")
    if isinstance(setting, int) and (not cropped or kind.startswith(_SQUARE)):
        size = (setting, setting)
    if settings.get("crop_pct") is not None:
        if not kind.startswith("convnext"):
            raise _refusal(model, "it has its own rule for crop_pct")
        return _convnext_size(size, float(settings["crop_pct"]))
    if isinstance(size, int) and not cropped:
        raise _refusal(model, "it keeps the proportions of images without a crop, so that they differ in size")
    return size, crop


def _parsed_size(setting: Any) -> int | tuple[int, int] | None:
    if isinstance(setting, int):
        return setting
    if isinstance(setting, dict) and setting.get("height") and setting.get("width"):
        return int(setting["height"]), int(setting["width"])
    if isinstance(setting, dict) and setting.get("shortest_edge") and not setting.get("longest_edge"):
        return int(setting["shortest_edge"])
    return None


def _convnext_size(
    size: int | tuple[int, int], share: float
) -> tuple[int | tuple[int, int], int | tuple[int, int] | None]:
    """ConvNext enlarges small images before it crops them, and stretches large ones."""
    edge = size if isinstance(size, int) else size[0]
    return (int(edge / share), edge) if edge < 384 else ((edge, edge), None)
