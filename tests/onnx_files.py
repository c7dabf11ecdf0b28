"""ONNX files are protocol buffers: enough of the format to write small graphs without the package onnx."""

from pathlib import Path

import numpy as np

FLOAT, UINT8, INT8, INT32, INT64 = 1, 2, 3, 6, 7


def varint(value: int) -> bytes:
    """An integer, seven bits per byte, the lowest first."""
    low, rest = value & 127, value >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def field(number: int, value: int | bytes | str) -> bytes:
    """One field of a message: an integer, a string or a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def node(kind: str, inputs: list[str], outputs: list[str], *attributes: bytes) -> bytes:
    """One operation of a graph."""
    ports = b"".join(field(1, name) for name in inputs) + b"".join(field(2, name) for name in outputs)
    return field(1, ports + field(4, kind) + b"".join(field(5, attribute) for attribute in attributes))


def integer(name: str, value: int) -> bytes:
    """An attribute with one integer."""
    return field(1, name) + field(3, value) + field(20, 2)


def integers(name: str, values: list[int]) -> bytes:
    """An attribute with a list of integers."""
    return field(1, name) + b"".join(field(8, value) for value in values) + field(20, 7)


def tensor(name: str, values: np.ndarray, kind: int) -> bytes:
    """A constant of a graph."""
    sizes = b"".join(field(1, size) for size in values.shape)
    return field(5, sizes + field(2, kind) + field(8, name) + field(9, values.tobytes()))


def external_tensor(name: str, values: np.ndarray, kind: int, location: str) -> bytes:
    """A constant of a graph whose values are in another file."""
    sizes = b"".join(field(1, size) for size in values.shape)
    place = field(13, field(1, "location") + field(2, location))
    return field(5, sizes + field(2, kind) + field(8, name) + place + field(14, 1))


def graph_input(name: str, kind: int, shape) -> bytes:
    """An input; a size is a number, or a word where it is free."""
    return _port(11, name, kind, shape)


def graph_output(name: str, kind: int, shape) -> bytes:
    """An output; a size is a number, or a word where it is free."""
    return _port(12, name, kind, shape)


def _port(number: int, name: str, kind: int, shape) -> bytes:
    sizes = b"".join(field(1, field(1, size) if isinstance(size, int) else field(2, size)) for size in shape)
    return field(number, field(1, name) + field(2, field(1, field(1, kind) + field(2, sizes))))


def write_onnx(path: Path, *parts: bytes) -> Path:
    """Write a graph that consists of these nodes, constants, inputs and outputs."""
    graph = b"".join(parts) + field(2, "graph")
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13)))
    return path
