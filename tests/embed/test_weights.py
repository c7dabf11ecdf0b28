"""The name of an embedder stands for all bytes that are loaded, at the time of each use."""

import os
import re

import numpy as np
import pytest

import mallow
from mallow.embed import Cache, OnnxImages, OnnxText, Preprocess, embed_samples
from mallow.embed import _embed as module
from mallow.errors import InputError
from mallow.models import Source, keep_model
from onnx_files import FLOAT, INT64, external_tensor, graph_input, graph_output, node, tensor, write_onnx

WORDS = ["[UNK]", "[CLS]", "[SEP]", "good", "day", "sun"]
TEXTS = ["good day", "sun", "day", "good sun"]
FIRST, SECOND = np.random.default_rng(0).normal(size=(2, len(WORDS), 4)).astype(np.float32)


def write_graph(path, constant):
    ports = graph_input("input_ids", INT64, ("n", "l")), graph_output("y", FLOAT, ("n", "l", "d"))
    return write_onnx(path, node("Gather", ["table", "input_ids"], ["y"]), constant, *ports)


@pytest.fixture(autouse=True)
def _packages():
    pytest.importorskip("tokenizers", reason="needs tokenizers: pip install 'mallow[onnx]'")
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'mallow[onnx]'")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    write_graph(tmp_path / "graph.onnx", tensor("table", FIRST, FLOAT))
    return tmp_path


def replace_weights(path, table=SECOND):
    """As a training run does that writes its next checkpoint."""
    other = write_graph(path.with_suffix(".new"), tensor("table", table, FLOAT))
    os.replace(other, path)


def rows(table):
    """The mean over the tokens of each text, with [CLS] and [SEP]."""
    codes = [[1, *(WORDS.index(word) for word in text.split()), 2] for text in TEXTS]
    return np.stack([table[tokens].astype(np.float64).mean(axis=0) for tokens in codes]).astype(np.float32)


def test_weights_beside_the_graph_are_part_of_the_name(folder):
    graph = write_graph(folder / "outside.onnx", external_tensor("table", FIRST, FLOAT, "outside.onnx_data"))
    for table in (FIRST, SECOND):
        (folder / "outside.onnx_data").write_bytes(table.tobytes())
        assert np.array_equal(embed_samples(TEXTS, OnnxText(graph)).features, rows(table))


@pytest.mark.parametrize("name", ["outside.bin", "outside.ONNX", "linked.onnx"])
def test_weights_beside_a_graph_of_any_name_or_behind_a_link_are_part_of_the_name(folder, name):
    (folder / "blobs").mkdir()
    graph = folder / "blobs" / "content" if name == "linked.onnx" else folder / name
    write_graph(graph, external_tensor("table", FIRST, FLOAT, "outside.data"))
    if name == "linked.onnx":  # as in the hub's cache; weights are looked for beside the link
        (folder / name).symlink_to(graph)
    names = set()
    for table in (FIRST, SECOND):
        (folder / "outside.data").write_bytes(table.tobytes())
        names.add(OnnxText(folder / name).name)
    assert len(names) == 2


def test_weights_beside_the_graph_are_not_covered_by_its_sha256(folder):
    graph = write_graph(folder / "outside.onnx", external_tensor("table", FIRST, FLOAT, "outside.onnx_data"))
    (folder / "outside.onnx_data").write_bytes(FIRST.tobytes())
    with pytest.raises(
        InputError, match=r"keeps weights in other files \(outside\.onnx_data\), which `sha256` does not"
    ):
        OnnxText(graph, sha256="0" * 64)(TEXTS)


@pytest.mark.parametrize("size", [0, 1, 4_190_000, 4_194_290, 4_194_304, 8_388_600])
def test_weights_in_other_files_are_found_wherever_the_graph_names_them(tmp_path, size):
    padding = tensor("unused", np.zeros(size, np.uint8), 2)
    path = tmp_path / "graph.onnx"
    (tmp_path / "deep").mkdir()
    constant = padding + external_tensor("table", FIRST, FLOAT, "deep/" + "w" * 200)
    write_graph(path, constant)
    (tmp_path / "deep" / ("w" * 200)).write_bytes(b"one")
    before = OnnxImages(path, Preprocess()).name
    (tmp_path / "deep" / ("w" * 200)).write_bytes(b"two")
    assert OnnxImages(path, Preprocess()).name != before


def test_folders_behind_links_are_part_of_the_name(tmp_path):
    for name in ("model", "weights"):
        (tmp_path / name).mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "model" / "part").symlink_to(tmp_path / "weights")
    (tmp_path / "model" / "circle").symlink_to(tmp_path / "model")
    seen = set()
    for content in ("one", "two"):
        (tmp_path / "weights" / "weights.bin").write_text(content)
        seen.add(Source(str(tmp_path / "model")).label)
    (tmp_path / "model" / "part").unlink()
    seen.add(Source(str(tmp_path / "model")).label)
    assert len(seen) == 3


def test_a_file_that_was_read_is_read_again_once_it_has_changed(tmp_path):
    path = tmp_path / "weights.onnx"
    path.write_bytes(b"one")
    os.utime(path, (1e9, 1e9))
    before = OnnxImages(path, Preprocess()).name
    path.write_bytes(b"two")  # in place, of the same size, with the same time
    os.utime(path, (1e9, 1e9))
    assert OnnxImages(path, Preprocess()).name != before


def test_weights_that_are_replaced_while_the_embedder_lives(folder):
    embedder = OnnxText(folder / "graph.onnx")
    assert np.array_equal(embed_samples(TEXTS, embedder).features, rows(FIRST))
    replace_weights(folder / "graph.onnx")
    assert np.array_equal(embed_samples(TEXTS, embedder).features, rows(SECOND))


def test_a_model_that_stays_in_memory_is_loaded_again_once_its_weights_have_changed(folder):
    embedder = OnnxText(folder / "graph.onnx")
    with keep_model({}):
        assert np.array_equal(embedder(TEXTS), rows(FIRST))
        replace_weights(folder / "graph.onnx")
        assert np.array_equal(embedder(TEXTS), rows(SECOND))


class Replaced(OnnxText):
    """An embedder whose weights are replaced after its name was asked for, and before they are loaded."""

    def stream(self, samples):
        replace_weights(self.path)
        yield from super().stream(samples)


def test_rows_of_other_weights_are_never_stored_under_the_name(folder, tmp_path):
    cache, embedder = Cache(tmp_path / "cache"), OnnxText(folder / "graph.onnx")
    name = embedder.name
    with pytest.raises(InputError, match=re.escape(name) + ": its weights were changed while they were used"):
        embed_samples(TEXTS, Replaced(folder / "graph.onnx"), cache=cache)
    assert cache.entries() == []


def test_samples_of_one_comparison_have_features_of_the_same_weights(folder, monkeypatch):
    def embed_then_replace(samples, embedder, *rest):
        embedded = embed_set(samples, embedder, *rest)
        replace_weights(folder / "graph.onnx")
        return embedded

    embed_set = module._embed_set
    monkeypatch.setattr(module, "_embed_set", embed_then_replace)
    with pytest.raises(InputError, match="Features of different embedders cannot be compared"):
        mallow.score([*TEXTS, "good"], TEXTS, embedder=OnnxText(folder / "graph.onnx"))


def test_a_picture_that_is_replaced_meanwhile_has_no_row(tmp_path):
    pictures = [tmp_path / f"{number}.png" for number in range(3)]
    for number, path in enumerate(pictures):
        path.write_bytes(bytes([number]) * 10)

    class Sizes:
        name, kind = "sizes", "image"

        def __call__(self, paths):
            pictures[1].write_bytes(b"new content")
            return np.array([[len(path.read_bytes()), 1.0] for path in paths])

    cache = Cache(tmp_path / "cache")
    with pytest.raises(InputError, match=r"1\.png: was changed while it was embedded"):
        embed_samples(mallow.Samples(images=pictures), Sizes(), cache=cache)
    assert cache.entries() == []


@pytest.mark.parametrize(
    ("file", "content", "complaint"),
    [
        ("adapter_config.json", "{}", "is an adapter of a different model"),
        ("modules.json", '[{"path": "../other"}]', r"names the file '\.\./other' outside of it"),
        (
            "model.safetensors.index.json",
            '{"weight_map": {"a": "/x.safetensors"}}',
            r"names the file '/x\.safetensors'",
        ),
    ],
)
def test_a_model_whose_files_are_elsewhere_has_no_name(tmp_path, file, content, complaint):
    pytest.importorskip("torch", reason="needs torch: pip install 'mallow[text]'")
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    (tmp_path / file).write_text(content)
    with pytest.raises(InputError, match=complaint):
        _ = mallow.embed.LanguageModel(str(tmp_path)).name
