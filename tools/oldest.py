"""Print the oldest allowed version of each direct dependency that has a wheel for this Python, as lines of a constraints file.

python tools/oldest.py EXTRA,EXTRA,... > oldest.txt
"""
# ruff: noqa: T201

from __future__ import annotations

import html
import os
import re
import sys
import tomllib
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.tags import sys_tags
from pip._vendor.packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from pip._vendor.packaging.version import InvalidVersion

ROOT = Path(__file__).resolve().parent.parent
TAGS = frozenset(sys_tags())


def requirements(extras: list[str]) -> list[Requirement]:
    """What pyproject.toml asks for with these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    parsed = {Requirement(line).name: Requirement(line) for line in lines}
    return [each for name, each in parsed.items() if name != "mallow"]


def oldest(requirement: Requirement) -> str:
    """The line that pins a requirement to its oldest version with a wheel that runs here."""
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
    with urllib.request.urlopen(f"{index}/{canonicalize_name(requirement.name)}/", timeout=60) as answer:
        page = answer.read().decode()
    versions = []
    for name in re.findall(r">\s*([^<>]+\.whl)\s*</a>", page):
        try:
            _, version, _, tags = parse_wheel_filename(html.unescape(name))
        except (InvalidWheelFilename, InvalidVersion):
            continue
        if tags & TAGS and requirement.specifier.contains(version):
            versions.append(version)
    if not versions:
        sys.exit(f"{requirement}: no wheel for Python {sys.version_info[0]}.{sys.version_info[1]} on this system.")
    return f"{requirement.name}=={min(versions)}"


if __name__ == "__main__":
    with ThreadPoolExecutor(8) as pool:
        print("\n".join(pool.map(oldest, requirements(sys.argv[1].split(",")))))
