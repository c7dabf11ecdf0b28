"""Device and precision: one rule for all models."""

import pytest

from mallow._checks import one_of
from mallow.embed import LanguageModel, Preprocess, VisionModel
from mallow.errors import InputError
from mallow.generate import CausalModel
from mallow.models import Source, choose_device

torch = pytest.importorskip("torch", reason="needs torch: pip install 'mallow[text]'")


@pytest.mark.parametrize(
    ("device", "cuda", "mps", "expected"),
    [
        (None, True, True, "cuda"),
        (None, False, True, "mps"),
        (None, False, False, "cpu"),
        ("cuda:1", True, False, "cuda:1"),
        ("cpu", True, True, "cpu"),
    ],
)
def test_device(monkeypatch, device, cuda, mps, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert choose_device(device, extra="text") == expected
    assert Source("some/model", device=device).chosen_device == expected


@pytest.mark.parametrize(
    ("dtype", "device", "bfloat16", "expected"),
    [
        (None, "cpu", True, "float32"),
        (None, "cuda", True, "bfloat16"),
        (None, "cuda:1", False, "float16"),
        (None, "mps", False, "float16"),
        ("float32", "cuda", True, "float32"),
    ],
)
@pytest.mark.parametrize("kind", [LanguageModel, CausalModel, VisionModel])
def test_precision(monkeypatch, gpt2, kind, dtype, device, bfloat16, expected):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bfloat16 or including_emulation)
    options = {"preprocess": Preprocess()} if kind is VisionModel else {}
    name = kind(gpt2, dtype=dtype, device=device, **options).name
    assert f", {expected}" in name.removesuffix(")") + ","


@pytest.mark.parametrize("kind", [LanguageModel, CausalModel, VisionModel])
def test_dtype(kind):
    with pytest.raises(
        InputError,
        match=r"`dtype` must be one of 'float32', 'float16', 'bfloat16' or None; got 'float23'\. Did you mean",
    ):
        kind("some/model", dtype="float23")
    with pytest.raises(InputError, match=r"^`x` must be one of 'a', 'b'; got None\.$"):
        one_of("x", None, ("a", "b"))
