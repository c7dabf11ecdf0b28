"""How much of a corpus did a machine write? Planted shares of texts by a 5-gram model among passages of books.

    python experiments/cases/corpus.py      some minutes on one core

A user has 1,000 passages by people, 500 texts by the machine, and a corpus of 500 with an unknown share. Writes corpus.json beside this file,
which run.py puts on a page. The texts are embedded by GloVe, 60 words each.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "honesty"))
import settings  # noqa: E402

from mallow import Samples, score  # noqa: E402
from mallow.compat import compute_mauve  # noqa: E402
from mallow.embed import embed_samples  # noqa: E402
from mallow.evaluate import estimate_share  # noqa: E402
from mallow.generate import NGram, generate  # noqa: E402

SHARES = (0.0, 0.1, 0.2, 0.4)


def texts() -> tuple[list[str], list[str]]:
    """Passages by people, and texts that a 5-gram model wrote, which was fitted on other passages and continues them."""
    rows = settings._lines("classic-books/classic_books_chunks.jsonl.gz")
    cut = [" ".join(row["text"].split()[:60]) for row in rows]
    model = NGram.fit(cut[1::2], order=5)
    prompts = [model.encode(text)[:5] for text in cut[1:6000:6]]
    written = generate(model, prompts, "nucleus:0.95", max_new=70, min_new=70, rng=14, batch=len(prompts))
    machine = [" ".join(model.decode([*a, *b]).split()[:60]) for a, b in zip(prompts, written, strict=True)]
    return cut[0:4000:2], machine


def main() -> None:
    people, machine = (embed_samples(Samples(texts=each), "glove") for each in texts())
    human, other = people.require_features(), machine.require_features()
    reference, results = human[:1000], {}
    for share in SHARES:
        mixed = round(500 * share)
        corpus = np.concatenate([human[1000 : 1500 - mixed], other[500 : 500 + mixed]])
        start = time.process_time()
        estimate = estimate_share(reference, other[:500], corpus)
        seconds = time.process_time() - start
        result = score(reference, corpus)
        published = compute_mauve(p_features=reference[:500], q_features=corpus, verbose=False).mauve
        results[str(share)] = {
            "estimate": [estimate.value, estimate.low, estimate.high],
            "seconds": seconds,
            "p": result.p_value,
            "at most": result.certified["mauve"].high,
            "shares": {name: bound.low for name, bound in result.shares.items()},
            "as mauve-text": published,
        }
        print(share, results[str(share)], flush=True)
    (HERE / "corpus.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
