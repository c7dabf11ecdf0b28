"""constraints.txt and the lists of tests/: which versions, and the SHA-256 of every file that a version may be installed from.

    python tools/lock.py hash FILE                      add hashes to the lines that have none (`make hashes`)
    python tools/lock.py write LIGHT ALL > FILE         both made by `pip freeze` (`make lock`)

The hashes are those of all wheels that the index has for a version, whatever the platform, or of its source archive where it
has no wheel. `PIP_INDEX_URL` names another index than PyPI.
"""
# ruff: noqa: T201

from __future__ import annotations

import argparse
import html
import os
import re
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["Lock", "Pin", "find_hashes", "format_lock", "parse_lock"]

_LIGHT = "# light: "
_OLD_WHEELS = re.compile(r"-(?:pp\d+|graalpy\d+|cp2\d|cp3[0-9]|cp310)(?:\.\w+)*-(?!abi3)")
_FILE = re.compile(r'<a [^>]*href="([^"#]+)#sha256=([0-9a-f]{64})"[^>]*>([^<]+)</a>')


@dataclass(frozen=True)
class Pin:
    """One version of one package, with the files that it may be installed from."""

    name: str
    version: str
    hashes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name as indexes spell it."""
        return re.sub(r"[-_.]+", "-", self.name).lower()

    def __str__(self) -> str:
        return " \\\n    ".join([f"{self.name}=={self.version}", *(f"--hash=sha256:{each}" for each in self.hashes)])


@dataclass(frozen=True)
class Lock:
    """A file of pins; `light` are the names that `make demo` needs, `comments` the lines above the pins."""

    pins: tuple[Pin, ...]
    light: frozenset[str] = frozenset()
    comments: tuple[str, ...] = ()


def parse_lock(text: str) -> Lock:
    """The pins of a file.

    >>> parse_lock("# light: a-b\\nA_b==1 \\\\\\n    --hash=sha256:0f\\nc==2\\n").pins
    (Pin(name='A_b', version='1', hashes=('0f',)), Pin(name='c', version='2', hashes=()))
    """
    pins, light, comments = [], set[str](), []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith(_LIGHT):
            light |= set(line.removeprefix(_LIGHT).split())
        elif line.startswith("#"):
            comments.append(line)
        elif line.strip():
            name, _, rest = line.partition("==")
            version, *hashes = rest.split()
            pins.append(Pin(name.strip(), version, tuple(each.removeprefix("--hash=sha256:") for each in hashes)))
    return Lock(tuple(pins), frozenset(light), tuple(comments))


def format_lock(lock: Lock) -> str:
    """The file of a lock."""
    light = [_LIGHT + " ".join(sorted(lock.light))] if lock.light else []
    pins = sorted(lock.pins, key=lambda pin: pin.key)
    return "\n".join([*lock.comments, *light, *map(str, pins)]) + "\n"


def find_hashes(pin: Pin) -> Pin:
    """The pin with the hashes of its files on the index; those that it has already stay."""
    if pin.hashes:
        return pin
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
    with urllib.request.urlopen(f"{index}/{pin.key}/", timeout=60) as answer:
        page = answer.read().decode()
    wheels, archives = [], []
    for _, sha256, text in _FILE.findall(page):
        name = html.unescape(text.strip())
        if name.endswith(".whl"):
            if _same_version(name.split("-")[1], pin.version) and not _OLD_WHEELS.search(name):
                wheels.append(sha256)
        elif name.endswith((".tar.gz", ".zip")):
            stem = name.removesuffix(".tar.gz").removesuffix(".zip")
            if _same_version(stem.rpartition("-")[2], pin.version):
                archives.append(sha256)
    hashes = sorted(set(wheels or archives))
    if not hashes:
        sys.exit(f"{pin.name}=={pin.version}: the index has no such file with a SHA-256.")
    return replace(pin, hashes=tuple(hashes))


def _same_version(one: str, other: str) -> bool:
    """Whether two spellings mean one version; builds such as 2.13.0+cpu are versions of 2.13.0."""
    return one.partition("+")[0].lower() == other.lower()


def _add_hashes(lock: Lock) -> Lock:
    with ThreadPoolExecutor(8) as pool:
        return replace(lock, pins=tuple(pool.map(find_hashes, lock.pins)))


def main() -> None:
    """Run the command that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("hash").add_argument("file", type=Path)
    write = commands.add_parser("write")
    write.add_argument("light", type=Path)
    write.add_argument("all", type=Path)
    options = parser.parse_args()
    if options.command == "hash":
        lock = _add_hashes(parse_lock(options.file.read_text(encoding="utf-8")))
        options.file.write_text(format_lock(lock), encoding="utf-8")
        return
    light = frozenset(pin.key for pin in parse_lock(options.light.read_text(encoding="utf-8")).pins)
    pins = parse_lock(options.all.read_text(encoding="utf-8")).pins
    comments = (
        "# The versions that the tests run with, and the SHA-256 of the files that they may be installed from: written by `make lock`,",
        "# used by every other target. `make hashes` adds hashes to lines that have none. What is special about torch: CONTRIBUTING.md.",
    )
    print(format_lock(_add_hashes(Lock(pins, light, comments))), end="")


if __name__ == "__main__":
    main()
