"""Weights of torch.save as arrays: equal to those of torch, and nothing in the file runs."""

import io
import pickle
import struct

import numpy as np
import pytest

from mallow.embed._efficientnet import read_torch_weights
from mallow.errors import InputError


@pytest.fixture(scope="module")
def saved():
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'mallow[text]'")
    base = torch.arange(24.0).reshape(2, 3, 4)
    state = {"whole": base, "turned": base.permute(2, 0, 1), "part": base[1, :, 1:3], "count": torch.tensor(7)}
    stream = io.BytesIO()
    torch.save(state, stream, _use_new_zipfile_serialization=False)
    return stream.getvalue(), {name: value.numpy() for name, value in state.items()}


def test_the_arrays_are_those_of_torch(saved):
    content, expected = saved
    weights = read_torch_weights(content, name="file")
    assert set(weights) == set(expected)
    for name, value in expected.items():
        assert weights[name].dtype == value.dtype
        np.testing.assert_array_equal(weights[name], value)


class Harmful:
    def __reduce__(self):
        return (exec, ("print('run')",))


def test_nothing_in_the_file_runs(capsys):
    start = b"".join(pickle.dumps(value, 2) for value in (0x1950A86A20F9469CFC6C, 1001, {}))
    with pytest.raises(
        InputError, match=r"file: must be a state dict .*: it names .*\.exec, which describes no tensor"
    ):
        read_torch_weights(start + pickle.dumps(Harmful(), 2), name="file")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("cut", [0, 5, 40, 200, -3])
def test_a_file_that_is_cut_short_is_refused(cut, saved):
    with pytest.raises(InputError, match=r"file: must be a state dict as torch.save wrote it before version 1.6"):
        read_torch_weights(saved[0][:cut] if cut else b"", name="file")


def test_other_files_are_refused(saved):
    with pytest.raises(InputError, match=r"it does not begin as one"):
        read_torch_weights(pickle.dumps(3), name="file")
    content = bytearray(saved[0])
    place = content.index(struct.pack("<q", 24))  # the number of values of the first tensor
    content[place : place + 8] = struct.pack("<q", 23)
    with pytest.raises(InputError, match=r"it is cut short"):
        read_torch_weights(bytes(content), name="file")
