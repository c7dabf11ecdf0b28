"""Compare all versions in constraints.txt and in the lists of tests/ with the databases of known vulnerabilities (`make audit`).

pip-audit does it, in a virtual environment of its own (.venv-audit): it is no dependency of mallow. It needs the network.
"""
# ruff: noqa: T201

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv-audit"
FILES = ("constraints.txt", "tests/models.txt", "tests/beside.txt", "tests/integrations.txt")


def main() -> None:
    """Install pip-audit if it is not there yet, run it, and report what it finds."""
    program = FOLDER / "bin" / "pip-audit"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
        pip = [str(FOLDER / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
        subprocess.run([*pip, "pip-audit"], check=True)
    # With hashes nothing needs to be resolved, and nothing is installed or run to be audited.
    options = ["--require-hashes", "--disable-pip", "--progress-spinner", "off", "--format", "json"]
    options += [part for file in FILES for part in ("--requirement", str(ROOT / file))]
    done = subprocess.run([str(program), *options], check=False, capture_output=True, text=True)
    if not done.stdout.strip():
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        sys.exit(f"pip-audit could not compare the versions; it needs the network: {last}")
    report(json.loads(done.stdout)["dependencies"])


def report(packages: list[dict[str, Any]]) -> None:
    """Print what is known, one line each, and exit with 1 if a version is vulnerable or could not be looked up."""
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    known = [(package, entry) for package in packages for entry in package.get("vulns", ())]
    for package, entry in known:
        fixed = ", ".join(entry["fix_versions"]) or "no version yet"
        print(f"{package['name']} {package['version']}: {entry['id']}, fixed in {fixed}")
    print(f"{len(packages) - len(skipped)} of {len(packages)} packages looked up, {len(known)} known vulnerabilities")
    if skipped:
        print(f"not looked up, the database does not answer for them: {', '.join(skipped)}")
    sys.exit(1 if known or skipped else 0)


if __name__ == "__main__":
    main()
