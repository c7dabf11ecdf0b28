"""Which installed packages mallow needs, directly and indirectly, with its extras; and which of them are missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distribution

try:
    from packaging.markers import default_environment
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name
except ImportError:  # before anything is installed, pip has its own copy
    from pip._vendor.packaging.markers import default_environment
    from pip._vendor.packaging.requirements import Requirement
    from pip._vendor.packaging.utils import canonicalize_name

__all__ = ["Closure", "find_closure"]


@dataclass
class Closure:
    """Name → installed package; and the requirements that no installed package fulfils."""

    packages: dict[str, Distribution] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)


def find_closure(*roots: str) -> Closure:
    """What these requirements, such as "mallow[dev]", need on this Python and this system."""
    closure, seen = Closure(), set[str]()
    todo = [Requirement(root) for root in roots]
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        try:
            package = closure.packages.get(name) or distribution(requirement.name)
        except PackageNotFoundError:
            closure.missing.add(str(requirement).partition(";")[0].strip())
            continue
        if not requirement.specifier.contains(package.version, prereleases=True):
            closure.missing.add(str(requirement).partition(";")[0].strip())
        closure.packages[name] = package
        for extra in ("", *sorted(requirement.extras)):
            if f"{name}[{extra}]" in seen:
                continue
            seen.add(f"{name}[{extra}]")
            environment = {**default_environment(), "extra": extra}
            for line in package.requires or ():
                needed = Requirement(line)
                if needed.marker is None or needed.marker.evaluate(environment):
                    todo.append(needed)
    return closure
