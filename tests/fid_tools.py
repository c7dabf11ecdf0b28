"""The real torch-fidelity, with the weights of the file of `inception`: it would download the same weights in its own format."""

from __future__ import annotations

import importlib
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

BESIDE = str(Path(sys.prefix, "beside"))  # where tests/beside.txt is installed


@contextmanager
def torch_fidelity() -> Iterator[types.ModuleType]:
    """The package, imported beside a torchvision that has the one function it uses for folders of images.

    torchvision cannot be installed here; `pil_to_tensor` is its documented behaviour, the bytes with the channels first.
    """
    import torch

    names = ["torchvision", "torchvision.datasets", "torchvision.transforms", "torchvision.transforms.functional"]
    before = {name: sys.modules.get(name) for name in names}
    modules = {name: types.ModuleType(name) for name in names}
    for dataset in ("CIFAR10", "CIFAR100", "STL10"):  # classes that it derives its own from, and that are not used
        setattr(modules["torchvision.datasets"], dataset, type(dataset, (), {}))
    modules["torchvision"].transforms = modules["torchvision.transforms"]
    modules["torchvision.transforms"].functional = modules["torchvision.transforms.functional"]
    modules["torchvision.transforms.functional"].pil_to_tensor = lambda image: torch.from_numpy(
        np.array(image).transpose(2, 0, 1)
    )
    sys.modules.update(modules)
    sys.path.append(BESIDE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield importlib.import_module("torch_fidelity")
    finally:
        sys.path.remove(BESIDE)
        for name in [each for each in sys.modules if each.partition(".")[0] == "torch_fidelity"]:
            del sys.modules[name]
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def write_weights(script: str, path: Path) -> Path:
    """The weights of the TorchScript file under the names of torch-fidelity; its last layer, which FID ignores, is 0.

    Both networks list their 94 convolutions in the order of the published graph.
    """
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        weights = torch.jit.load(script, map_location="cpu").state_dict()
    network = importlib.import_module("torch_fidelity.feature_extractor_inceptionv3")
    # Its constructor insists on weights; the names are wanted first.
    extractor = network.FeatureExtractorInceptionV3
    skeleton = types.new_class("Skeleton", (extractor,), {}, lambda body: body.update(load_state_dict=lambda *_: None))
    torch.save({}, path)
    names = dict(skeleton("names", ["2048"], str(path)).state_dict())
    own = [name.removesuffix(".conv.weight") for name in names if name.endswith(".conv.weight")]
    theirs = [name.removesuffix(".weight") for name in weights if name.endswith(".weight")]
    for ours, each in zip(own, theirs, strict=True):
        names[f"{ours}.conv.weight"] = weights[f"{each}.weight"]
        names[f"{ours}.bn.weight"] = torch.ones(len(weights[f"{each}.beta"].flatten()))
        names[f"{ours}.bn.bias"] = weights[f"{each}.beta"].flatten()
        names[f"{ours}.bn.running_mean"] = weights[f"{each}.mean"].flatten()
        names[f"{ours}.bn.running_var"] = weights[f"{each}.var"].flatten()
    names["fc.weight"], names["fc.bias"] = torch.zeros(1008, 2048), torch.zeros(1008)
    torch.save(names, path)
    return path
