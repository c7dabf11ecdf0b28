"""Is texture a space of its own beside the features of images? Photographs and images of Stable Diffusion.

    pip install -e '.[efficientnet,plot]'
    python experiments/eyes/images.py [--seed 30] [--trials 50]     three minutes of processor time on one core

750 real and 750 generated images of CIFAKE, 32 × 32 pixels (`../shared/data/cifake`). Evidence looks at EfficientNet's
features, at texture, or at both as two spaces: the value and 95% limit of MAUVE that it certifies for real against
generated images, for five draws, and how often 20 or 30% of generated images among real ones are seen at the 5% level. Writes
images.json and images.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "honesty"))
import settings

from mallow.embed import embed_samples, texture
from mallow.evidence import MAUVE_STAR, hold_out, permutation_test
from mallow.samples import Samples

HERE = Path(__file__).resolve().parent
COUNT = 750  # images of each kind
DRAWS = 5  # of each size for certificates
SPACES = ("EfficientNet", "texture", "both")
Rows = np.ndarray


def images(kind: str, folder: Path) -> list[Path]:
    """Paths of the first images of a kind, unpacked into a folder."""
    file = settings.DATA / "cifake" / f"{kind}.tar"
    if not file.exists():
        sys.exit(f"This study needs {file}, which is not part of the repository (../shared/data beside the checkout).")
    with tarfile.open(file) as tar:
        members = sorted((one for one in tar if one.isfile()), key=lambda one: one.name)[:COUNT]
        tar.extractall(folder, members, filter="data")
    return [folder / one.name for one in members]


def embedded(kind: str) -> dict[str, np.ndarray]:
    """EfficientNet's features and texture."""
    with tempfile.TemporaryDirectory() as folder:
        paths = images(kind, Path(folder))
        return {
            "EfficientNet": embed_samples(Samples(images=paths), "efficientnet").features,
            "texture": texture(paths),
        }


def seen(rows: dict[str, np.ndarray], space: str) -> Samples:
    if space == "both":
        return Samples(features=rows["EfficientNet"], spaces={"texture": rows["texture"]})
    return Samples(features=rows[space])


def take(rows: dict[str, np.ndarray], some: Rows) -> dict[str, np.ndarray]:
    return {name: table[some] for name, table in rows.items()}


def join(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([table, b[name]]) for name, table in a.items()}


def certificates(real: dict, fake: dict, seed: int) -> dict[str, dict[str, list[float]]]:
    """The certified value and its limit, means of the draws."""
    results = {}
    for size in (350, 700):
        results[str(size)] = {}
        for space in SPACES:
            found = []
            for draw in range(DRAWS):
                rng = np.random.default_rng([seed, draw])
                pair = [seen(take(rows, rng.permutation(COUNT)[:size]), space) for rows in (real, fake)]
                certified = hold_out(MAUVE_STAR, {"model": tuple(pair)}).certificates["model"].estimates["mauve"]
                found.append((certified.value, certified.high))
            results[str(size)][space] = np.mean(found, axis=0).tolist()
        print(size, results[str(size)], flush=True)
    return results


def power(real: dict, fake: dict, seed: int, trials: int, shares: tuple[float, ...]) -> dict[str, dict[str, float]]:
    """The share of trials in which generated images among real ones are seen; without any these are false alarms."""
    results = {}
    for share in shares:
        for size in (60, 100, 150):
            found = dict.fromkeys(SPACES, 0)
            for trial in range(trials):
                rng = np.random.default_rng([seed, trial, size])
                rows = rng.permutation(COUNT)[: 2 * size]
                swapped = int(rng.binomial(size, share))
                some = rng.permutation(COUNT)[:swapped]
                x, y = take(real, rows[:size]), join(take(real, rows[size : 2 * size - swapped]), take(fake, some))
                for space in SPACES:
                    found[space] += permutation_test(seen(x, space), seen(y, space)) < settings.LEVEL
            results[f"{share:.0%} generated, n = {size}"] = {space: count / trials for space, count in found.items()}
            print(share, size, results[f"{share:.0%} generated, n = {size}"], flush=True)
    return results


def report(results: dict[str, dict]) -> str:
    head = [f"| | {' | '.join(SPACES)} |", "|---|" + "---|" * len(SPACES)]
    lines = ["# Images: texture beside EfficientNet", "", "Written by `python experiments/eyes/images.py`.", ""]
    lines += [
        f"Real against generated images, MAUVE is at most (95% limit; certified value in brackets), means of {DRAWS} draws:",
        "",
    ]
    lines += head
    for size, row in results["certificates"].items():
        lines.append(f"| n = {size} | " + " | ".join(f"{row[s][1]:.3f} ({row[s][0]:.3f})" for s in SPACES) + " |")
    lines += [
        "",
        f"Generated images among real ones, share of {results['trials']} trials that see them at the 5% level:",
        "",
    ]
    lines += head
    lines += [
        f"| {name} | " + " | ".join(f"{row[s]:.2f}" for s in SPACES) + " |" for name, row in results["power"].items()
    ]
    lines += ["", f"Real against other real images, share of {4 * results['trials']} trials that claim a gap:", ""]
    lines += head
    lines += [
        f"| {name.removeprefix('0% generated, ')} | " + " | ".join(f"{row[s]:.3f}" for s in SPACES) + " |"
        for name, row in results["false alarms"].items()
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=30)
    parser.add_argument("--trials", type=int, default=50)
    options = parser.parse_args()
    real, fake = embedded("real"), embedded("fake")
    results = {
        "trials": options.trials,
        "certificates": certificates(real, fake, options.seed),
        "false alarms": power(real, fake, options.seed, 4 * options.trials, (0.0,)),
        "power": power(real, fake, options.seed, options.trials, (0.2, 0.3)),
    }
    (HERE / "images.json").write_text(json.dumps(results, indent=1) + "\n")
    (HERE / "images.md").write_text(report(results))


if __name__ == "__main__":
    main()
