"""Products by oneDNN on AMD processors: the same numbers, only where they are meant."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch", reason="needs torch: pip install 'mallow[text]'")
conv1d = pytest.importorskip("transformers.pytorch_utils", reason="needs transformers: pip install 'mallow[text]'")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from mallow.models import _products, fast_products  # noqa: E402


class Names(TorchDispatchMode):
    """Lists the operations that torch runs."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


def run(module, inputs, device="cpu"):
    """The result of a module inside `fast_products`, and whether oneDNN computed a product."""
    with torch.inference_mode(), Names() as names, fast_products(torch, device):
        result = module(inputs)
    return result, any("mkldnn" in name for name in names.seen)


@pytest.fixture
def amd(monkeypatch):
    monkeypatch.setattr(_products, "is_amd", lambda: True)


@pytest.mark.parametrize("shape", [(5, 16), (2, 3, 16), (1, 1, 16), (0, 16)])
@pytest.mark.parametrize("bias", [True, False])
def test_products_are_the_same_up_to_rounding(amd, shape, bias):
    layer = torch.nn.Linear(16, 24, bias=bias)
    inputs = torch.randn(shape)
    result, fast = run(layer, inputs)
    assert fast
    assert result.shape == (*shape[:-1], 24)
    assert_allclose(result.numpy(), layer(inputs).detach().numpy(), atol=1e-5)


def test_the_transposed_weights_of_gpt2_are_understood(amd):
    layer, inputs = conv1d.Conv1D(24, 16), torch.randn(2, 3, 16)
    result, fast = run(layer, inputs)
    assert fast
    assert_allclose(result.numpy(), layer(inputs).detach().numpy(), atol=1e-5)


def test_other_operations_and_types_are_left_alone(amd):
    half = torch.nn.Linear(16, 24).to(torch.bfloat16)
    inputs = torch.randn(5, 16)
    for module, given in (
        (half, inputs.bfloat16()),
        (torch.nn.GELU(), inputs),
        (torch.nn.Linear(16, 24), torch.randn(16)),  # a single row
        (lambda rows: torch.addmm(torch.zeros(5, 5), rows, rows.t()), inputs),  # not a bias
        (lambda rows: torch.addmm(torch.zeros(5), rows, rows.t(), beta=2), inputs),
    ):
        result, fast = run(module, given)
        assert not fast
        assert torch.equal(result, module(given))


def test_elsewhere_nothing_changes(monkeypatch, amd):
    layer, inputs = torch.nn.Linear(16, 24), torch.randn(5, 16)
    assert not run(layer, inputs, device="cuda")[1]
    monkeypatch.setattr(_products, "is_amd", lambda: False)
    result, fast = run(layer, inputs)
    assert not fast
    assert np.array_equal(result.numpy(), layer(inputs).detach().numpy())


@pytest.mark.parametrize(
    ("machine", "vendor", "expected"),
    [
        ("x86_64", "AuthenticAMD", True),
        ("AMD64", "AuthenticAMD", True),
        ("x86_64", "GenuineIntel", False),
        ("aarch64", "AuthenticAMD", False),
    ],
)
def test_the_processor_is_known_from_the_system(tmp_path, monkeypatch, machine, vendor, expected):
    monkeypatch.setattr(_products.platform, "machine", lambda: machine)
    (tmp_path / "cpuinfo").write_text(f"vendor_id\t: {vendor}\n")
    assert _products.is_amd.__wrapped__(tmp_path / "cpuinfo") is expected
    monkeypatch.setattr(_products.platform, "processor", lambda: f"AMD64 Family 25, {vendor}")
    assert _products.is_amd.__wrapped__(tmp_path / "none") is expected
