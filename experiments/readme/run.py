"""The example of the README: `mallow score` of human web text and GPT-2 large with contrastive search.

    python experiments/readme/run.py      two minutes on one core

Needs ../shared/data beside the checkout. Writes score.txt, what the command prints, and score.json, the numbers that pages quote.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "shared" / "data" / "webtext-gpt2-large"


def main() -> None:
    """Run the command, and keep what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        for name, file in (("human", "human.jsonl"), ("contrastive", "model.jsonl")):
            with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
                rows = [json.loads(line) for line in lines]
            entries = [json.dumps({"prompt": row["prefix"], "text": row["gen"][0]}) for row in rows]
            Path(folder, file).write_text("\n".join(entries) + "\n")
        command = [sys.executable, "-m", "mallow", "score", "human.jsonl", "model.jsonl", "--out", "score.json"]
        printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder).stdout
        score = json.loads(Path(folder, "score.json").read_text())
    (HERE / "score.txt").write_text(printed)
    numbers = {
        "mauve": score["mauve"],
        "at_most": score["certified"]["mauve"]["high"],
        "self_score": score["self_score"]["mauve"],
    }
    (HERE / "score.json").write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
