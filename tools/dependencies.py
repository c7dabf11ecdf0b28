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

__all__ = ["Closure", "direct", "find_closure", "spelled"]


@dataclass
class Closure:
    """Name → installed package; and the requirements that no installed package fulfils."""

    packages: dict[str, Distribution] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)


def spelled(name: str) -> str:
    """The name of a package as indexes spell it."""
    return str(canonicalize_name(name))


def direct(package: Distribution, extras: str = "") -> set[str]:
    """The names of what a package asks for itself on this Python and this system."""
    return {spelled(needed.name) for needed in _needs(package, {"", *extras.split(",")})}


def find_closure(*roots: str) -> Closure:
    """What these requirements, such as "mallow[dev]", need on this Python and this system."""
    closure, done = Closure(), set[tuple[str, str]]()
    todo = [Requirement(root) for root in roots]
    while todo:
        requirement = todo.pop()
        name = spelled(requirement.name)
        try:
            package = closure.packages.get(name) or distribution(requirement.name)
        except PackageNotFoundError:
            closure.missing.add(str(requirement).partition(";")[0].strip())
            continue
        if not requirement.specifier.contains(package.version, prereleases=True):
            closure.missing.add(str(requirement).partition(";")[0].strip())
        closure.packages[name] = package
        extras = {extra for extra in ("", *requirement.extras) if (name, extra) not in done}
        done |= {(name, extra) for extra in extras}
        todo += _needs(package, extras)
    return closure


def _needs(package: Distribution, extras: set[str]) -> list[Requirement]:
    environments = [{**default_environment(), "extra": extra} for extra in extras]
    needed = [Requirement(line) for line in package.requires or ()]
    return [each for each in needed if any(each.marker is None or each.marker.evaluate(e) for e in environments)]
