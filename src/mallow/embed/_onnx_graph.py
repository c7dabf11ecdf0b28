"""Graphs of ONNX, written as bytes without the package onnx: as much of the format as a convolutional network needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_FLOAT = 1
_OPSET = 13
_IR = 7
# The kinds of attributes, by the number of the field that holds the value and the code of the kind.
_INT, _STRING, _INTS = (3, 2), (4, 3), (8, 7)


class Graph:
    """A network with one input of images and one output, built step by step; each step returns the name of its result.

    Examples
    --------
    >>> graph = Graph("images", (3, 8, 8))
    >>> maps = graph.convolve("images", np.ones((2, 3, 1, 1)), np.zeros(2), stride=1)
    >>> len(graph.to_bytes(graph.step("GlobalAveragePool", maps))) > 100
    True
    """

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self._body = bytearray(_port(11, name, shape))
        self._count = 0

    def constant(self, values: NDArray[Any]) -> str:
        """An array of float32 in the graph."""
        name = self._new("constant")
        array = np.asarray(values, "<f4")
        sizes = b"".join(_field(1, size) for size in array.shape)
        self._body += _field(5, sizes + _field(2, _FLOAT) + _field(8, name) + _field(9, array.tobytes()))
        return name

    def step(self, kind: str, *inputs: str, **attributes: int | str | list[int]) -> str:
        """One operation of ONNX on named values."""
        name = self._new(kind)
        ports = b"".join(_field(1, each) for each in inputs) + _field(2, name) + _field(4, kind)
        self._body += _field(1, ports + b"".join(_field(5, _attribute(*each)) for each in attributes.items()))
        return name

    def convolve(self, images: str, weights: NDArray[Any], bias: NDArray[Any], *, stride: int, groups: int = 1) -> str:
        """A convolution that pads as TensorFlow does ("SAME"): more at the bottom and on the right where it is odd."""
        inputs = (images, self.constant(weights), self.constant(bias))
        return self.step("Conv", *inputs, strides=[stride, stride], group=groups, auto_pad="SAME_UPPER")

    def to_bytes(self, output: str) -> bytes:
        """The file, with one value as its output."""
        graph = bytes(self._body) + _field(2, "mallow") + _port(12, output, None)
        return _field(1, _IR) + _field(8, _field(2, _OPSET)) + _field(7, graph)

    def _new(self, kind: str) -> str:
        self._count += 1
        return f"{kind.lower()}_{self._count}"


def _varint(value: int) -> bytes:
    """An integer, seven bits per byte, the lowest first."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _field(number: int, value: int | bytes | str) -> bytes:
    """One field of a message: an integer, a string or a message."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _attribute(name: str, value: int | str | list[int]) -> bytes:
    number, kind = _INT if isinstance(value, int) else _STRING if isinstance(value, str) else _INTS
    values = value if isinstance(value, list) else [value]
    return _field(1, name) + b"".join(_field(number, each) for each in values) + _field(20, kind)


def _port(number: int, name: str, shape: tuple[int, ...] | None) -> bytes:
    """An input with any number of images of this shape, or an output of any shape."""
    sizes = b"" if shape is None else _field(1, _field(2, "n")) + b"".join(_field(1, _field(1, size)) for size in shape)
    shaped = b"" if shape is None else _field(2, sizes)
    return _field(number, _field(1, name) + _field(2, _field(1, _field(1, _FLOAT) + shaped)))
