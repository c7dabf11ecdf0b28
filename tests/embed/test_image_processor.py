"""The preprocessing that a model comes with: settings of well-known models, and settings that cannot be followed."""

import pytest

from mallow.embed import Preprocess
from mallow.embed._preprocess import preprocess_from_settings
from mallow.errors import InputError

SETTINGS = {
    "image_processor_type": "BitImageProcessor",
    "do_resize": True,
    "size": {"shortest_edge": 32},
    "do_center_crop": True,
    "crop_size": {"height": 28, "width": 28},
    "resample": 3,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (SETTINGS, Preprocess(32, (28, 28), "bicubic", (0, 1), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))),
        # The file of openai/clip-vit-base-patch32, which is older than sizes by name.
        (
            {
                "crop_size": 224,
                "do_center_crop": True,
                "do_normalize": True,
                "do_resize": True,
                "feature_extractor_type": "CLIPFeatureExtractor",
                "image_mean": [0.48145466, 0.4578275, 0.40821073],
                "image_std": [0.26862954, 0.26130258, 0.27577711],
                "resample": 3,
                "size": 224,
            },
            Preprocess(
                224,
                224,
                mean=(0.48145466, 0.4578275, 0.40821073),
                std=(0.26862954, 0.26130258, 0.27577711),
            ),
        ),
        # google/vit-base-patch16-224-in21k
        (
            {
                "do_normalize": True,
                "do_resize": True,
                "image_mean": [0.5] * 3,
                "image_std": [0.5] * 3,
                "resample": 2,
                "size": 224,
            },
            Preprocess((224, 224), resample="bilinear", mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)),
        ),
        (
            {"feature_extractor_type": "DeiTFeatureExtractor", "size": 256, "do_center_crop": True, "crop_size": 224}
            | {"resample": 3, "do_normalize": False},
            Preprocess((256, 256), 224),
        ),
        (
            {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 224}, "crop_pct": 0.875}
            | {"resample": 3, "do_normalize": False},
            Preprocess(256, 224),
        ),
        (
            {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 384}, "crop_pct": 0.875}
            | {"resample": 3, "do_normalize": False},
            Preprocess((384, 384)),
        ),
        (
            {
                "do_resize": False,
                "do_rescale": False,
                "do_normalize": False,
                "do_flip_channel_order": True,
                "resample": 1,
            },
            Preprocess(None, resample="lanczos", scale=(0, 255), channels="bgr"),
        ),
        (
            {
                "size": {"height": 9, "width": 8},
                "rescale_factor": 1 / 127.5,
                "rescale_offset": True,
                "do_normalize": False,
            },
            Preprocess((9, 8), resample="bilinear", scale=(-1, 1)),
        ),
    ],
    ids=["dinov2", "clip", "vit", "deit", "convnext", "convnext-large", "raw", "offset"],
)
def test_settings_are_read(settings, expected):
    assert preprocess_from_settings("some/model", settings) == expected


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"do_pad": True}, r"it pads images \(do_pad\)"),
        ({"resample": 0}, r"its filter, resample = 0, is not bicubic, bilinear or lanczos"),
        ({"size": {"longest_edge": 800}}, r"its size is \{'longest_edge': 800\}"),
        ({"do_center_crop": False}, r"it keeps the proportions of images without a crop"),
        ({"crop_pct": 0.9}, r"it has its own rule for crop_pct"),
        ({"resample": [3]}, r"its settings are damaged"),
        ({"rescale_factor": "x"}, r"its settings are damaged"),
        ({"size": {"shortest_edge": float("nan")}}, r"its settings are damaged"),
        ({"size": 8, "crop_pct": 0, "image_processor_type": "ConvNextImageProcessor"}, r"its settings are damaged"),
    ],
    ids=["pad", "nearest", "longest", "proportions", "crop_pct", "list", "text", "nan", "zero"],
)
def test_settings_that_cannot_be_followed_are_refused(change, reason):
    message = (
        rf"The preprocessing of 'some/model' cannot be reproduced: {reason}.*\. Pass preprocess=Preprocess\(size=…"
    )
    with pytest.raises(InputError, match=message):
        preprocess_from_settings("some/model", SETTINGS | change)
