"""Print a software bill of materials in the CycloneDX format: what is installed for mallow[all] or other extras (`make sbom`).

python tools/sbom.py [EXTRAS] > sbom.json       the same packages always give the same bytes
"""
# ruff: noqa: T201

from __future__ import annotations

import json
import sys
import uuid
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

from dependencies import direct, find_closure, spelled
from licences import licence_of
from lock import Pin, parse_lock

ROOT = Path(__file__).resolve().parent.parent


def reference(package: Distribution) -> str:
    """The address of a package among all packages (package URL)."""
    return f"pkg:pypi/{spelled(package.metadata['Name'])}@{package.version.replace('+', '%2B')}"


def component(package: Distribution, pins: dict[str, Pin]) -> dict[str, Any]:
    """The entry of a package, with the SHA-256 of the files that it may have been installed from."""
    name = package.metadata["Name"]
    entry: dict[str, Any] = {
        "type": "library",
        "bom-ref": reference(package),
        "name": name,
        "version": package.version,
        "purl": reference(package),
        "licenses": [{"license": {"name": licence_of(package)}}],
    }
    pin = pins.get(spelled(name))
    if pin is not None and pin.version == package.version:
        hashes = [{"alg": "SHA-256", "content": each} for each in pin.hashes]
        entry["externalReferences"] = [
            {"type": "distribution", "url": f"https://pypi.org/project/{name}/{pin.version}/", "hashes": hashes}
        ]
    return entry


def sbom(extras: str) -> dict[str, Any]:
    """The bill of materials of mallow with these extras."""
    pins = {pin.key: pin for pin in parse_lock((ROOT / "constraints.txt").read_text(encoding="utf-8")).pins}
    packages = find_closure(f"mallow[{extras}]").packages
    own = packages.pop("mallow")
    entries = [component(package, pins) for _, package in sorted(packages.items())]
    needs = {
        reference(each): sorted(reference(packages[name]) for name in direct(each) if name in packages)
        for each in packages.values()
    }
    content = json.dumps(entries, sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": reference(own),
                "name": "mallow",
                "version": own.version,
                "purl": reference(own),
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": entries,
        "dependencies": [
            {
                "ref": reference(own),
                "dependsOn": sorted(reference(packages[n]) for n in direct(own, extras) if n in packages),
            },
            *({"ref": each, "dependsOn": needs[each]} for each in sorted(needs)),
        ],
    }


if __name__ == "__main__":
    print(json.dumps(sbom(sys.argv[1] if len(sys.argv) > 1 else "all"), indent=1))
