"""What results call their numbers in data frames, in summaries and in files: recorded in reference/fields.json.

python tests/recorded_fields.py        writes the file again; do that only when a change of names is meant
"""

import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FIELDS = HERE / "reference" / "fields.json"


def field_names(result: Any) -> dict[str, list[str]]:
    """The columns of the frame of a result, and the keys of its summary and of its file."""
    columns = dict.fromkeys(name for record in result._records() for name in record)
    return {"frame": [*columns], "summary": [*result.brief()], "file": [*result.to_dict()]}


def recorded() -> dict[str, dict[str, list[str]]]:
    """What is recorded, by the kind of the result."""
    names: dict[str, dict[str, list[str]]] = json.loads(FIELDS.read_text(encoding="utf-8"))
    return names


if __name__ == "__main__":
    sys.path.insert(0, str(HERE / "results"))
    from test_result import KINDS, make

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        results = [make(kind, Path(folder)) for kind in KINDS]
    names = {result.KIND: field_names(result) for result in results}
    FIELDS.write_text(json.dumps(names, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"fields of {len(names)} kinds of results\n")
