"""ONNX text encoders: small graphs written here, and the real MiniLM."""

import gzip
import hashlib
import pickle
import sys
from dataclasses import replace

import numpy as np
import pytest
from pytest import approx

from mallow.embed import OnnxText
from mallow.embed import _onnx_text as module
from mallow.embed._onnx_text import encode_leading_part, load_tokenizer
from mallow.errors import InputError
from name_digests import name_digest
from onnx_files import FLOAT, INT8, INT32, INT64, graph_input, graph_output, integer, integers, node, tensor, write_onnx

tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers: pip install 'mallow[onnx]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'mallow[onnx]'")

WORDS = ["[UNK]", "[CLS]", "[SEP]", "good", "day", "sun", "##ny", ",", "中", "文"]
TABLE = np.random.default_rng(0).normal(size=(len(WORDS), 4)).astype(np.float32)
LOOK_UP = node("Gather", ["table", "input_ids"], ["y"])


def graph(path, *nodes, inputs=("input_ids", "attention_mask"), kind=INT64, shape=("n", "l"), output=("n", "l", "d")):
    """A graph whose output is `y`, with the table of vectors as `table`."""
    ports = [graph_input(name, kind, shape) for name in inputs]
    return write_onnx(path, *nodes, tensor("table", TABLE, FLOAT), *ports, graph_output("y", FLOAT, output))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    graph(tmp_path / "tiny.onnx", LOOK_UP)
    return tmp_path


@pytest.fixture
def tiny(folder):
    return OnnxText(folder / "tiny.onnx")


def spaced_tokenizer(path):
    """A tokenizer.json that splits at white space, without special tokens and without a padding token."""
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.save(str(path))
    return path


# --- pooling


@pytest.mark.parametrize(
    ("pooling", "tokens"), [("mean", [1, 3, 5, 6, 7, 2]), ("cls", [1]), ("last", [2])], ids=["mean", "cls", "last"]
)
def test_pooling(tiny, pooling, tokens):
    row = replace(tiny, pooling=pooling)(["Good sunny,"])[0]
    assert row == approx(TABLE[tokens].mean(axis=0), abs=1e-6)


def test_rows_of_length_one(tiny):
    rows = replace(tiny, normalise=True)(["good", "day sun"])
    assert np.linalg.norm(rows, axis=1) == approx(1, abs=1e-6)
    plain = tiny(["good", "day sun"])
    assert rows == approx(plain / np.linalg.norm(plain, axis=1, keepdims=True), abs=1e-6)


def test_an_output_of_one_row_per_text_is_used_as_it_is(folder):
    sums = node("Gather", ["table", "input_ids"], ["h"]) + node(
        "ReduceMax", ["h"], ["y"], integers("axes", [1]), integer("keepdims", 0)
    )
    embed = OnnxText(graph(folder / "max.onnx", sums, output=("n", "d")), pooling="cls")
    assert embed(["good day"])[0] == approx(TABLE[[1, 3, 4, 2]].max(axis=0))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("attention_mask", [1, 1, 1, 1]),
        ("token_type_ids", [0, 0, 0, 0]),
        ("position_ids", [0, 1, 2, 3]),
        ("input_ids", [1, 3, 4, 2]),
    ],
)
@pytest.mark.parametrize("kind", [INT64, INT32], ids=["int64", "int32"])
def test_the_graph_gets_the_inputs_it_asks_for(folder, name, values, kind):
    look = node("Gather", ["table", name], ["y"])
    embed = OnnxText(graph(folder / "one.onnx", look, inputs=[name], kind=kind))
    assert embed(["good day"])[0] == approx(TABLE[values].mean(axis=0), abs=1e-6)


# --- texts


def test_a_text_without_words_has_its_special_tokens(tiny):
    rows = tiny(["", "  \n"])
    assert rows == approx(np.tile(TABLE[[1, 2]].mean(axis=0), (2, 1)))


def test_a_text_without_any_token_is_refused(folder):
    embed = OnnxText(folder / "tiny.onnx", spaced_tokenizer(folder / "own.json"))
    assert embed(["good day"])[0] == approx(TABLE[[3, 4]].mean(axis=0))  # no padding token, and none needed
    with pytest.raises(
        InputError,
        match=r"must hold texts with at least one token; got ' ' at place 1, .* no special tokens\. Leave it out",
    ):
        embed(["good", " "])


def test_scripts(tiny):
    # CJK characters are words; what the vocabulary lacks is one unknown word each.
    assert tiny(["中文", "😀", "שלום"]) == approx(
        np.stack([TABLE[t].mean(axis=0) for t in ([1, 8, 9, 2], [1, 0, 2], [1, 0, 2])]), abs=1e-6
    )


def test_long_texts_are_cut(tiny):
    assert replace(tiny, max_length=5)(["good day sun good good"])[0] == approx(TABLE[[1, 3, 4, 5, 2]].mean(axis=0))


@pytest.mark.parametrize(
    "text", ["中文" * 500_000, "good, " * 160_000, "x" * 1_000_000], ids=["cjk", "words", "letters"]
)
def test_a_million_characters_give_what_their_first_part_gives(tiny, text, monkeypatch):
    seen = []
    real = module.encode_leading_part
    monkeypatch.setattr(module, "encode_leading_part", lambda *arguments: seen.append(real(*arguments)) or seen[-1])
    rows = tiny([text])
    assert rows == approx(tiny([text[:5000]]), abs=1e-6)
    # A single word is no shorter than the text; anything else is cut long before its end.
    assert len(seen[0][0]) == (len(text) if text[0] == "x" else 8 * 256)


@pytest.mark.parametrize("size", [3, 17, 256])
def test_a_leading_part_has_the_tokens_of_the_text(size, minilm_folder, webtext):
    tokenizer = load_tokenizer(minilm_folder / "tokenizer.json", size)
    texts = [text * 3 for text in webtext(60)] + ["[MASK] [SEP]" * 400, "a" * 90 + " 中 " * 3000, "é" * 4000]
    for text in texts:
        part, encoding = encode_leading_part(tokenizer, text, size)
        assert encoding.ids == tokenizer.encode(part).ids == tokenizer.encode(text).ids
    assert sum(len(encode_leading_part(tokenizer, text, size)[0]) < len(text) for text in texts) > len(texts) / 2


# --- neighbours and threads


def test_a_quantised_graph_does_not_see_the_neighbours(folder):
    weights = np.random.default_rng(1).integers(-127, 128, size=(4, 4)).astype(np.int8)
    quantised = (
        node("Gather", ["table", "input_ids"], ["h"])
        + node("DynamicQuantizeLinear", ["h"], ["q", "scale", "zero"])
        + tensor("w", weights, INT8)
        + node("MatMulInteger", ["q", "w", "zero"], ["i"])
        + node("Cast", ["i"], ["f"], integer("to", FLOAT))
        + node("Mul", ["f", "scale"], ["y"])
    )
    embed = OnnxText(graph(folder / "int8.onnx", quantised, inputs=["input_ids"]))
    texts = ["good", "day", "sun", ",", "sunny day , good", "文", "中"]
    together = embed(texts)
    alone = np.concatenate([embed([text]) for text in texts])
    assert (together == alone).all()
    # The graph itself does: its activations are scaled by the range of the whole batch.
    session = onnxruntime.InferenceSession(str(embed.path), providers=["CPUExecutionProvider"])
    batch = session.run(None, {"input_ids": np.array([[1, 3, 2], [1, 4, 2], [1, 5, 2]])})[0].mean(axis=1)
    assert np.abs(batch - alone[:3]).max() > 1e-2


def test_threads_and_parts_change_nothing(tiny, monkeypatch):
    texts = ["good " * n + "day" for n in range(20)]
    whole = replace(tiny, threads=1)(texts)
    monkeypatch.setattr(module, "_TEXTS", 6)
    parts = list(replace(tiny, threads=3).stream(texts))
    assert [len(places) for places, _ in parts] == [6, 6, 6, 2]
    assert np.concatenate([places for places, _ in parts]).tolist() == list(range(20))
    assert (np.concatenate([rows for _, rows in parts]) == whole).all()
    assert whole.dtype == np.float32


# --- the tokenizer


def test_a_vocabulary_with_capitals_is_of_text_with_capitals(folder):
    (folder / "cased.txt").write_text("\n".join([*WORDS[:-1], "Good"]), encoding="utf-8")
    embed = OnnxText(folder / "tiny.onnx", folder / "cased.txt")
    assert embed(["Good good"])[0] == approx(TABLE[[1, 9, 3, 2]].mean(axis=0), abs=1e-6)


def test_where_the_tokenizer_is_looked_for(folder, tiny):
    rows = tiny(["good"])
    zipped = folder / "vocab.txt.gz"
    zipped.write_bytes(gzip.compress((folder / "vocab.txt").read_bytes()))
    for tokenizer in (folder, folder / "vocab.txt", str(folder / "vocab.txt"), zipped):
        assert (replace(tiny, tokenizer=tokenizer)(["good"]) == rows).all()
    spaced_tokenizer(folder / "tokenizer.json")  # goes before vocab.txt
    assert tiny(["good"])[0] == approx(TABLE[3])


def test_the_name_tells_what_the_features_depend_on(folder, tiny):
    assert f"/tiny.onnx@{name_digest(tiny.path)}" in tiny.name
    assert tiny.name.endswith(", pooling=mean, max_length=256, normalise=False)")
    others = [
        replace(tiny, pooling="cls"),
        replace(tiny, max_length=9),
        replace(tiny, normalise=True),
        replace(tiny, output="y"),
        replace(tiny, tokenizer=spaced_tokenizer(folder / "own.json")),
    ]
    assert len({tiny.name, *(other.name for other in others)}) == 6
    assert replace(tiny, threads=2).name == tiny.name


def test_it_is_a_value_that_pickles(tiny):
    again = pickle.loads(pickle.dumps(tiny))
    assert again == tiny
    assert (again(["good"]) == tiny(["good"])).all()
    assert callable(tiny.stream)
    assert tiny.kind == "text"


# --- what is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "no.onnx"}, r"`path` must be an ONNX graph, but there is no file at 'no\.onnx'"),
        ({"tokenizer": "/no/such"}, r"`tokenizer` must be a tokenizer\.json, .* there is none at '/no/such'"),
        ({"pooling": "max"}, r"`pooling` must be one of 'mean', 'cls', 'last'; got 'max'"),
        ({"max_length": 0}, r"`max_length` must be an integer of at least 1; got 0"),
        ({"threads": 0}, r"`threads` must be an integer of at least 1; got 0"),
    ],
    ids=["path", "tokenizer", "pooling", "length", "threads"],
)
def test_bad_options_are_refused(tiny, options, message):
    with pytest.raises(InputError, match=message):
        replace(tiny, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 2}, r"`max_length` must be larger than 2, the number of special tokens in every text; got 2"),
        ({"output": "pooled"}, r"`output` must be one of the graph's y; got 'pooled'"),
        ({"path": "vocab.txt"}, r"`path` must be an ONNX graph; .*vocab\.txt cannot be loaded"),
        ({"tokenizer": "bad.json"}, r"`tokenizer` must be a tokenizer\.json; .*bad\.json cannot be read"),
        ({"tokenizer": "bad.txt"}, r"must be a WordPiece vocabulary with .*bad\.txt has no \[UNK\], \[CLS\], \[SEP\]"),
        ({"tokenizer": "tiny.onnx"}, r"must be a WordPiece vocabulary with .*tiny\.onnx has no \[UNK\]"),
        (
            {"path": "extra.onnx"},
            r"asks for the input 'pixel_values' \(tensor\(int64\)\); OnnxText provides input_ids, ",
        ),
        ({"path": "fixed.onnx"}, r"takes input_ids of the fixed shape \(1, 128\); export it with free axes"),
        ({"path": "flat.onnx"}, r"must return \(1, tokens, d\) or \(1, d\) for one text; got shape \(4,\)"),
        ({"tokenizer": "large.txt"}, r"The graph failed on the text at place 1 \(3 tokens\): .* A lower `max_length`"),
    ],
    ids=["special", "output", "graph", "json", "vocab", "bytes", "input", "fixed", "flat", "other-tokenizer"],
)
def test_what_does_not_fit_is_refused(folder, tiny, options, message):
    (folder / "bad.json").write_text("{}", encoding="utf-8")
    (folder / "bad.txt").write_text("good 1 2\n", encoding="utf-8")
    (folder / "large.txt").write_text("\n".join([*WORDS, "more"]), encoding="utf-8")
    graph(folder / "extra.onnx", LOOK_UP, inputs=["input_ids", "pixel_values"])
    graph(folder / "fixed.onnx", LOOK_UP, inputs=["input_ids"], shape=(1, 128))
    flat = node("Gather", ["table", "input_ids"], ["h"]) + node(
        "ReduceMax", ["h"], ["y"], integers("axes", [0, 1]), integer("keepdims", 0)
    )
    graph(folder / "flat.onnx", flat, output=("d",))
    options = {k: folder / v if k in ("path", "tokenizer") else v for k, v in options.items()}
    with pytest.raises(InputError, match=message):
        replace(tiny, **options)(["good day", "more"])


def test_a_tokenizer_without_a_token_for_unknown_text_is_refused(folder):
    """Found by fuzzing: one byte of the vocabulary was changed, and the first unknown word ended in an exception of another kind."""
    load_tokenizer(folder / "vocab.txt", 16).save(str(folder / "whole.json"))
    content = (folder / "whole.json").read_text(encoding="utf-8")
    vocabulary = content.index('"vocab"')
    (folder / "changed.json").write_text(
        content[:vocabulary] + content[vocabulary:].replace("[UNK]", "ZUNK]"), encoding="utf-8"
    )
    assert load_tokenizer(folder / "whole.json", 16).encode("㐀").tokens[1] == "[UNK]"
    with pytest.raises(
        InputError, match=r"changed\.json must have a token for unknown text; .*UNK.*: download it again"
    ):
        load_tokenizer(folder / "changed.json", 16)


def test_a_batch_of_one_may_be_fixed(folder):
    embed = OnnxText(graph(folder / "one.onnx", LOOK_UP, shape=(1, "l"), output=(1, "l", "d")))
    assert embed(["good", "day"]).shape == (2, 4)


@pytest.mark.parametrize("samples", ["good", ["good", 3], []], ids=["string", "number", "none"])
def test_samples_must_be_texts(tiny, samples):
    with pytest.raises(InputError, match="`samples` must"):
        tiny(samples)


@pytest.mark.parametrize("missing", ["onnxruntime", "tokenizers", "tokenizers.implementations"])
def test_missing_packages_are_named(monkeypatch, tiny, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(InputError, match=r"is needed for this .* pip install '.*\[onnx\]'$"):
        tiny(["good"])


# --- the file is the one that was meant


def test_a_graph_with_another_digest_is_refused(tiny):
    right = hashlib.sha256(tiny.path.read_bytes()).hexdigest()
    assert replace(tiny, sha256=right)(["good"]).tolist() == tiny(["good"]).tolist()
    assert replace(tiny, sha256=right.upper()).name == tiny.name
    with pytest.raises(
        InputError,
        match=rf"tiny\.onnx: must have the SHA-256 0{{64}}; got {right}\. It was damaged or exchanged: pass the right `sha256`, "
        "or None for any file",
    ):
        replace(tiny, sha256="0" * 64)(["good"])
    pinned = replace(tiny, sha256=right)
    tiny.path.unlink()
    with pytest.raises(InputError, match=r"tiny\.onnx: cannot be read: No such file"):
        pinned(["good"])


def test_the_last_words_before_a_cut_are_not_trusted():
    """A cut may change several words before it: here a rule joins five words if an exclamation mark follows."""
    tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers: pip install 'mallow[onnx]'")
    vocabulary = {"[UNK]": 0, "a": 1, "b": 2, "!": 3, "x" * 13: 4}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.normalizer = tokenizers.normalizers.Replace("a a a a a !", "b")
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.enable_truncation(3)
    text = "x" * 13 + " a a a a a ! " + "a " * 300  # the first part that is tried, 24 characters, ends before the mark
    assert made.encode(text).ids == [4, 2, 1]
    assert made.encode(text[:24]).ids == [4, 1, 1]
    part, _ = encode_leading_part(made, text, 3)
    assert made.encode(part).ids == [4, 2, 1]
    assert len(part) < len(text)  # it is shortened all the same


def test_a_vocabulary_does_not_expand_without_end(folder, monkeypatch):
    monkeypatch.setattr("mallow.embed._onnx_text._LARGEST", 10_000)
    (folder / "vocab.txt.gz").write_bytes(gzip.compress(bytes(10_001)))
    with pytest.raises(InputError, match=r"vocab\.txt\.gz must have at most 0\.01 MB; vocabularies have less"):
        load_tokenizer(folder / "vocab.txt.gz", 10)
