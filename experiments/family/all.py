"""All figures of the family, one after the other, in one process.

python experiments/family/all.py [NAME ...]      minutes once the texts are written; continues where it stopped
"""

from __future__ import annotations

import importlib
import sys
import time
import traceback

NAMES = (
    "sizes",
    "tuning",
    "empty_bins",
    "divergences",
    "estimators",
    "lengths",
    "precision_recall",
    "language_modelling",
    "direct",
    "embeddings",
)


def main() -> None:
    wanted = sys.argv[1:] or NAMES
    sys.argv[1:] = []
    failed = []
    for name in wanted:
        start = time.monotonic()
        try:
            importlib.import_module(name).main()
        except Exception:  # the others may still run
            traceback.print_exc()
            failed.append(name)
        print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
