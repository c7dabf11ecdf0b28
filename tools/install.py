"""Fill the virtual environment that this Python belongs to, from files whose SHA-256 is known.

    .venv/bin/python tools/install.py light       what the demonstration needs
    .venv/bin/python tools/install.py dev         everything, and the models in tests/models.txt; what is in
                                                  tests/beside.txt and tests/integrations.txt in folders of their own

Every package is installed from constraints.txt with `--require-hashes`. Three cases are different, and each is told on standard
error: a line without hashes (`make hashes` adds them); torch from a folder of this machine (PIP_FIND_LINKS), such as a build for
the CPU alone, which is preferred to the one on the index; and packages that constraints.txt lacks because only other systems,
other versions of Python or the CUDA build of torch need them.
"""
# ruff: noqa: T201

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from dependencies import find_closure
from lock import Lock, Pin, parse_lock

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = {"light": "plot,minilm", "dev": "dev"}


def pip(*arguments: str, quiet: bool = False) -> bool:
    """Whether pip succeeds with these arguments; with `quiet` its errors are not shown."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=quiet, check=False).returncode == 0


def require(*arguments: str) -> None:
    """Run pip, and end where it fails; pip has said why."""
    if not pip(*arguments):
        sys.exit("The set-up failed: see the message of pip above. `make clean` starts afresh.")


def note(text: str) -> None:
    """Tell something on standard error."""
    print(f"note: {text}", file=sys.stderr)


def install_pins(pins: Iterable[Pin]) -> None:
    """Install exactly these versions, and nothing that they ask for."""
    listed = list(pins)
    torch = [pin for pin in listed if pin.key == "torch" and pin.hashes]
    known = [pin for pin in listed if pin.hashes and pin not in torch]
    unknown = [pin for pin in listed if not pin.hashes]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "pins.txt")
        if known:
            file.write_text("".join(f"{pin}\n" for pin in known), encoding="utf-8")
            require("install", "--no-deps", "--require-hashes", "--requirement", str(file))
        for pin in torch:
            file.write_text(f"{pin}\n", encoding="utf-8")
            install_torch(pin, file)
    if unknown:
        note(f"installed by version, without hashes: {' '.join(pin.name for pin in unknown)}. `make hashes` adds them.")
        require("install", "--no-deps", *(f"{pin.name}=={pin.version}" for pin in unknown))


def install_torch(pin: Pin, file: Path) -> None:
    """Install torch: the build of this version in a folder of this machine, if there is one; otherwise a known SHA-256."""
    if installed_version("torch") == pin.version:
        return
    # No index is asked: what comes over a network must have a known SHA-256.
    if pip("install", "--no-deps", "--no-index", f"{pin.name}=={pin.version}", quiet=True):
        note(
            f"torch {pin.version} comes from a folder of this machine (PIP_FIND_LINKS), and its SHA-256 was not checked."
        )
        return
    require("install", "--no-deps", "--require-hashes", "--requirement", str(file))


def installed_version(name: str) -> str | None:
    """The version that is installed, without the name of its build; None if there is none."""
    try:
        return version(name).partition("+")[0]
    except PackageNotFoundError:
        return None


def install_project(lock: Lock, extras: str) -> None:
    """Install mallow from these sources, and what it needs that the lock does not name."""
    require("install", "--no-deps", "--no-build-isolation", "--editable", ".")
    missing = find_closure(f"mallow[{extras}]").missing
    if missing:
        note(f"not in constraints.txt, installed without hashes: {', '.join(sorted(missing))}.")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "versions.txt")
            file.write_text("".join(f"{pin.name}=={pin.version}\n" for pin in lock.pins), encoding="utf-8")
            require("install", "--constraint", str(file), "--no-build-isolation", "--editable", f".[{extras}]")


def main() -> None:
    """Install what the argument names."""
    kind = sys.argv[1]
    lock = parse_lock((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    install_pins(pin for pin in lock.pins if kind == "dev" or pin.key in lock.light)
    install_project(lock, EXTRAS[kind])
    if kind == "dev":
        install_pins(parse_lock((ROOT / "tests" / "models.txt").read_text(encoding="utf-8")).pins)
        for name in ("beside", "integrations"):  # thousands of files, few of which are imported: compiled when they are
            folder = str(Path(sys.prefix, name))
            options = ("--no-deps", "--require-hashes", "--no-compile", "--upgrade", "--target", folder)
            require("install", *options, "--requirement", str(ROOT / "tests" / f"{name}.txt"))


if __name__ == "__main__":
    main()
