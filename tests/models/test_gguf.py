"""GGUF files: two facts of the header, and what is missing or wrong."""

import importlib.util
import struct
from pathlib import Path

import pytest

from mallow.embed import LanguageModel, VisionModel
from mallow.errors import InputError
from mallow.models import Source

pytest.importorskip("torch", reason="needs torch: pip install 'mallow[text]'")
pytest.importorskip("transformers", reason="needs transformers: pip install 'mallow[text]'")


def gguf_header(**entries):
    """The header of a GGUF file with these keys, `__` for a dot."""

    def text(value):
        return struct.pack("<Q", len(value)) + value

    body = b""
    for key, value in entries.items():
        body += text(key.replace("__", ".").encode())
        body += struct.pack("<IB", 7, value) if isinstance(value, bool) else struct.pack("<I", 8) + text(value.encode())
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + body


def test_gguf_headers(tmp_path):
    path = tmp_path / "some.gguf"
    path.write_bytes(gguf_header(general__architecture="gemma3", tokenizer__ggml__add_bos_token=True))
    assert Source(path).attention == "causal"
    assert Source(path).wants_bos is True
    path.write_bytes(gguf_header(general__architecture="t5", tokenizer__ggml__add_bos_token=False))
    assert Source(path).attention == "encoder"
    assert Source(path).wants_bos is False
    assert "pooling=mean" in LanguageModel(path, device="cpu").name
    path.write_bytes(gguf_header(general__architecture="llama"))
    assert Source(path).wants_bos is False


@pytest.mark.parametrize("missing", [("gguf",), ("accelerate",), ("gguf", "accelerate")])
def test_gguf_without_its_packages(tmp_path, monkeypatch, missing):
    (tmp_path / "some.gguf").write_bytes(gguf_header(general__architecture="llama"))
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in missing else find(name))
    with pytest.raises(
        InputError,
        match=rf"^GGUF files need {' and '.join(missing)}, not installed here: .*pip install '.*\[gguf\]'$",
    ):
        LanguageModel(tmp_path / "some.gguf", device="cpu")(["a"])


def test_a_file_in_another_format(tmp_path):
    (tmp_path / "some.gguf").write_bytes(b"something else")
    with pytest.raises(InputError, match=r"^`model` must be a GGUF file if its name ends in \.gguf; .* is not one\.$"):
        LanguageModel(tmp_path / "some.gguf", device="cpu")(["a"])


def test_gguf_files_are_for_texts(tmp_path):
    (tmp_path / "some.gguf").write_bytes(gguf_header(general__architecture="llama"))
    with pytest.raises(InputError, match=r"^`model` must be a name on the hub or a local folder; got the file .*gguf"):
        VisionModel(tmp_path / "some.gguf")


def test_a_tokenizer_beside_the_file_is_not_taken(tmp_path, monkeypatch):
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'mallow[text]'")
    pytest.importorskip("gguf", reason="needs gguf: pip install 'mallow[gguf]'")
    path = tmp_path / "some.gguf"
    path.write_bytes(gguf_header(general__architecture="llama"))
    (tmp_path / "tokenizer.json").write_text("{}")
    seen = {}

    def load(folder, *, gguf_file, **options):
        seen.update({file.name: file.read_bytes() for file in Path(folder).iterdir()}, asked=gguf_file)

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", load)
    Source(path).load("AutoTokenizer")
    assert seen == {"some.gguf": path.read_bytes(), "asked": "some.gguf"}
