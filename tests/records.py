"""Recorded results: how they are compared, and one command that writes all of them again.

    make records      then read `git diff`: every changed number and sentence is meant, or a mistake

A comparison fails with one line per field, the largest change of it, so that one intended change reads as one line.
"""

import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SCRIPTS = ("reference/calls.py", "recorded_evidence.py", "made_results.py", "recorded_fields.py")


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """All leaves of a nested result, by their path."""
    if isinstance(value, dict):
        return {key: leaf for name, part in value.items() for key, leaf in flat(part, f"{path}/{name}").items()}
    if isinstance(value, list):
        return {key: leaf for number, part in enumerate(value) for key, leaf in flat(part, f"{path}/{number}").items()}
    return {path: value}


def differs(new: Any, old: Any, relative: float, absolute: float) -> bool:
    """Whether two leaves differ by more than is allowed; words and whole numbers must be equal."""
    if isinstance(new, float) and isinstance(old, int | float):
        return not math.isclose(new, old, rel_tol=relative, abs_tol=absolute) and not (new != new and old != old)
    return bool(new != old)


def changes(new: Any, old: Any, *, relative: float = 0.0, absolute: float = 0.0) -> list[str]:
    """One line per field that has changed: its largest change, and how many of its values have changed."""
    now, before = flat(new), flat(old)
    lines = [f"{path}: new" for path in now if path not in before]
    lines += [f"{path}: gone" for path in before if path not in now]
    fields: dict[str, list[tuple[float, str]]] = {}
    for path in now.keys() & before.keys():
        value, recorded = now[path], before[path]
        if differs(value, recorded, relative, absolute):
            numbers = isinstance(value, int | float) and isinstance(recorded, int | float)
            size = abs(value - recorded) if numbers else math.inf
            fields.setdefault(re.sub(r"/\d+", "", path), []).append((size, f"{recorded!r} → {value!r}"))
    for field, every in sorted(fields.items()):
        size, text = max(every)
        more = "" if len(every) == 1 else f", the largest of {len(every)} changes"
        lines.append(f"{field}: {text}{'' if size == math.inf else f' (by {size:.2g}{more})'}")
    return lines


def check_unchanged(new: Any, old: Any, *, relative: float = 0.0, absolute: float = 0.0, exact: str = "\0") -> None:
    """Fail with all changes, one line per field; fields with `exact` in their names must be equal to the last bit."""
    lines = [line for line in changes(new, old) if exact in line.partition(":")[0]]
    lines += [line for line in changes(new, old, relative=relative, absolute=absolute) if line not in lines]
    if lines:
        raise AssertionError("\n".join(["differs from what is recorded (`make records`, if that is meant):", *lines]))


if __name__ == "__main__":
    for script in SCRIPTS:
        sys.stderr.write(f"{script}\n")
        subprocess.run([sys.executable, HERE / script], check=True, cwd=HERE)
