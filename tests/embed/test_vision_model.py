"""Vision models of transformers, with random weights: pooling, batches, names, and what is refused."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from pytest import approx

from mallow.embed import Preprocess, VisionModel
from mallow.errors import InputError
from name_digests import name_digest

pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
SETTINGS = {
    "size": {"shortest_edge": 32},
    "do_center_crop": True,
    "crop_size": 28,
    "resample": 3,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}
DIFFERENT = [{}, {"pooling": "mean"}, {"dtype": "float16"}, {"preprocess": Preprocess(size=28)}]


def tiny(transformers, kind: str, folder: Path, **options) -> Path:
    """A model with random weights, saved as from the hub."""
    import torch

    text = {"vocab_size": 50, "max_position_embeddings": 8, **SMALL}
    configs = {
        "dinov2": lambda: transformers.Dinov2Config(image_size=28, patch_size=7, mlp_ratio=2, **SMALL),
        "registers": lambda: transformers.Dinov2WithRegistersConfig(
            image_size=28, patch_size=7, mlp_ratio=2, num_register_tokens=3, **SMALL
        ),
        "vit": lambda: transformers.ViTConfig(image_size=28, patch_size=7, **SMALL),
        "mae": lambda: transformers.ViTMAEConfig(image_size=28, patch_size=7, **SMALL),
        "resnet": lambda: transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic"
        ),
        "clip": lambda: transformers.CLIPConfig(
            text_config=text, vision_config={"image_size": 28, "patch_size": 7, **SMALL}, projection_dim=10
        ),
        "siglip": lambda: transformers.SiglipConfig(
            text_config=text, vision_config={"image_size": 28, "patch_size": 7, **SMALL}
        ),
        "bert": lambda: transformers.BertConfig(**text),
    }
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(configs[kind]())
    with torch.no_grad():  # far from the initial values, at which most features are nearly equal
        for weights in model.parameters():
            weights += 0.1 * torch.randn_like(weights)
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(SETTINGS | options))
    return folder


@pytest.mark.parametrize(
    ("kind", "pooling", "width"),
    [
        *(("dinov2", pooling, 16) for pooling in ("cls", "mean", "pooler")),
        *(("registers", pooling, 16) for pooling in ("cls", "mean")),
        *(("vit", pooling, 16) for pooling in ("cls", "mean", "pooler")),
        *(("mae", pooling, 16) for pooling in ("cls", "mean")),
        *(("resnet", pooling, 12) for pooling in ("mean", "pooler")),
        *(("clip", pooling, 16) for pooling in ("cls", "mean", "pooler")),
        ("clip", "projected", 10),
        *(("siglip", pooling, 16) for pooling in ("mean", "pooler", "projected")),
    ],
)
def test_features_do_not_depend_on_the_batch(kind, pooling, width, transformers, pictures, tmp_path):
    embedder = VisionModel(tiny(transformers, kind, tmp_path / kind), pooling=pooling)
    assert callable(embedder.stream)
    features = embedder(pictures)
    assert features.shape == (19, width)
    assert features.dtype == np.float32
    assert np.ptp(features, axis=0).max() > 1e-2
    assert embedder(pictures[:1]) == approx(features[:1], abs=1e-4)
    places, rows = zip(*embedder.stream(pictures[::-1]), strict=True)
    assert np.concatenate(places).tolist() == list(range(19))
    assert np.concatenate(rows)[::-1] == approx(features, abs=1e-4)


def test_the_same_images_give_the_same_bits(transformers, pictures, tmp_path):
    embedder = VisionModel(tiny(transformers, "dinov2", tmp_path / "model"), device="cpu")
    assert np.array_equal(embedder(pictures), embedder(pictures))


def preprocessed(torch, pictures):
    """The pictures as SETTINGS ask for, as a tensor."""
    preprocess = Preprocess(size=32, crop=28, mean=SETTINGS["image_mean"], std=SETTINGS["image_std"])
    return torch.from_numpy(np.stack([preprocess(picture) for picture in pictures]))


def test_pooling_is_what_its_name_says(transformers, torch, pictures, tmp_path):
    folder = tiny(transformers, "registers", tmp_path / "model")
    model = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        states = model(pixel_values=preprocessed(torch, pictures)).last_hidden_state.numpy()
    assert states.shape == (19, 1 + 3 + 16, 16)  # class, registers, patches
    assert VisionModel(folder, pooling="cls")(pictures) == approx(states[:, 0], abs=1e-5)
    assert VisionModel(folder, pooling="mean")(pictures) == approx(states[:, 4:].mean(axis=1), abs=1e-5)


def test_clip_is_projected_as_it_projects_itself(transformers, torch, pictures, tmp_path):
    folder = tiny(transformers, "clip", tmp_path / "model")
    model = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        pooled = model.vision_model(pixel_values=preprocessed(torch, pictures)).pooler_output
        expected = model.visual_projection(pooled).numpy()
    assert VisionModel(folder, pooling="pooler")(pictures) == approx(pooled.numpy(), abs=1e-5)
    assert VisionModel(folder, pooling="projected")(pictures) == approx(expected, abs=1e-5)


def test_the_name_holds_what_the_features_depend_on(transformers, tmp_path):
    folder = tiny(transformers, "dinov2", tmp_path / "tiny")
    embedder = VisionModel(str(folder), device="cpu")
    assert embedder.name == f"VisionModel(tiny@{name_digest(folder)}, pooling=cls, float32, {embedder._preprocess!r})"
    assert str(tmp_path) not in embedder.name
    assert pickle.loads(pickle.dumps(embedder)) == embedder
    names = {VisionModel(folder, device="cpu", **options).name for options in DIFFERENT}
    assert len(names) == len(DIFFERENT)


def test_the_commit_of_a_hub_model_is_in_its_name(transformers, pictures, tmp_path, monkeypatch):
    """A cache laid out as the hub's own: snapshots by commit, branches in refs."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    home = tmp_path / "models--someone--tiny"
    tiny(transformers, "dinov2", home / "snapshots" / commit)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    embedder = VisionModel("someone/tiny", device="cpu")
    assert embedder.name.startswith("VisionModel(someone/tiny@0123456789ab, pooling=cls, float32, Preprocess(size=32,")
    assert VisionModel("someone/tiny", revision=commit, device="cpu").name == embedder.name


@pytest.mark.parametrize(("kind", "pooling"), [("vit", "cls"), ("resnet", "mean")])
def test_float16_is_kept_apart_and_returned_as_float32(kind, pooling, transformers, pictures, tmp_path):
    folder = tiny(transformers, kind, tmp_path / kind)
    half = VisionModel(folder, pooling=pooling, dtype="float16", device="cpu")(pictures[:4])
    full = VisionModel(folder, pooling=pooling, device="cpu")(pictures[:4])
    assert half.dtype == np.float32
    assert half == approx(full, abs=2e-2, rel=2e-2)
    assert not np.array_equal(half, full)


def test_models_that_do_not_fit(transformers, pictures, tmp_path):
    def embed(kind: str, pooling: str = "cls") -> None:
        VisionModel(tiny(transformers, kind, tmp_path / kind), pooling=pooling)(pictures)

    with pytest.raises(
        InputError, match=r"must be a vision model; '.*bert' \(BertModel\) takes input_ids\. Texts need"
    ):
        embed("bert")
    with pytest.raises(InputError, match=r"pooling='cls' needs a model with a class token .* Use 'mean' or 'pooler'\."):
        embed("siglip")
    with pytest.raises(InputError, match=r"pooling='cls' needs a model with a class token"):
        embed("resnet")
    with pytest.raises(
        InputError, match=r"pooling='pooler' needs a model with a pooled output, but .* Use 'cls' or 'mean'\."
    ):
        embed("mae", "pooler")
    with pytest.raises(InputError, match=r"pooling='projected' needs a model with a text tower, .* is a Dinov2Model\."):
        embed("dinov2", "projected")


def test_weights_that_would_be_random_are_refused(transformers, pictures, tmp_path):
    folder = tiny(transformers, "vit", tmp_path / "vit")
    safetensors = pytest.importorskip("safetensors.numpy")
    file = folder / "model.safetensors"
    weights = safetensors.load_file(file)
    kept = {key: value for key, value in weights.items() if "pooler" not in key}
    assert len(kept) < len(weights)
    safetensors.save_file(kept, file, {"format": "pt"})
    VisionModel(folder, pooling="cls")(pictures[:2])
    with pytest.raises(
        InputError,
        match=r"lacks 2, such as pooler\..*, which would be random\. Use `pooling='cls'` or `pooling='mean'`\.",
    ):
        VisionModel(folder, pooling="pooler")(pictures[:2])
    safetensors.save_file(dict(list(kept.items())[:-4]), file, {"format": "pt"})
    with pytest.raises(InputError, match=r"must have all its weights; .* lacks 4, such as .* Use another checkpoint\."):
        VisionModel(folder)(pictures[:2])


def test_options_are_checked():
    with pytest.raises(InputError, match=r"`pooling` must be one of 'cls', 'mean', 'pooler', 'projected'; got 'max'\."):
        VisionModel(pooling="max")


def test_text_is_refused_before_the_model_is_loaded():
    with pytest.raises(
        InputError, match=r"sample 0 is the string 'Call me Ishmael\.', and no such file exists\. Texts need"
    ):
        VisionModel("nobody/nothing")(["Call me Ishmael."])


def test_settings_in_the_file_of_a_processor(transformers, tmp_path):
    folder = tiny(transformers, "clip", tmp_path / "clip")
    before = VisionModel(folder)._preprocess
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(InputError, match=r"has no preprocessor_config\.json, .* Pass preprocess=Preprocess\(size=…"):
        _ = VisionModel(folder).name
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": SETTINGS}))
    assert VisionModel(folder)._preprocess == before
