"""What the script of mutants records: the rate at first sight stays, whatever is tested later."""

import argparse
import ast
import json
from pathlib import Path

from mutant_tests import choose_tests, nearest_first
from mutants import mutants_of
from mutate import AREAS, described, keep_survivors, new_area, reasons_in

SOURCES = Path(__file__).resolve().parent.parent / "src" / "mallow"


def survivor(module, reason=""):
    return {"module": module, "change": "sign", "before": "a", "after": "-a", "line": 3, "reason": reason}


def options(seed, sample=10):
    return argparse.Namespace(seed=seed, sample=sample)


def test_the_first_rate_of_a_sample_stays():
    first = new_area(None, options(1), 10, [survivor("a.py"), survivor("b.py", "the same")])
    assert (first["tried"], first["killed"]) == (10, 8)
    assert first["first seen"] == {"10 of seed 1": "8 of 10 killed"}
    tested = keep_survivors(first, [])  # tests were written, and the survivors without a reason tried again
    assert (tested["killed"], tested["first seen"]) == (9, first["first seen"])
    again = new_area(tested, options(1), 10, [survivor("b.py", "the same")])
    assert again["first seen"] == {"10 of seed 1": "8 of 10 killed"}
    assert again["survivors of earlier samples"] == []
    other = new_area(again, options(2), 10, [survivor("c.py")])
    assert other["first seen"] == {"10 of seed 1": "8 of 10 killed", "10 of seed 2": "9 of 10 killed"}
    assert [one["module"] for one in other["survivors of earlier samples"]] == ["b.py"]
    assert "the same" in dict(reasons_in({"areas": {"x": other}})).values()


def test_the_areas_name_modules_and_tests_that_exist():
    missing = [
        f"{name}: {pattern}"
        for name, area in AREAS.items()
        for folder, patterns in ((SOURCES, area.modules), (SOURCES.parents[1] / "tests", area.tests))
        for pattern in patterns
        if not list(folder.glob(pattern))
    ]
    assert missing == []


def test_the_record_names_code_that_exists():
    """A reason is only found again by the statement and the change, and excuses no other mutant of the module."""
    record = json.loads((Path(__file__).parent / "mutations.json").read_text(encoding="utf-8"))
    for key, reason in reasons_in(record):
        tree = ast.parse((SOURCES / key[0]).read_text(encoding="utf-8"))
        assert sum(tuple(described(mutant).values()) == key for mutant in mutants_of(key[0], tree)) == 1, (key, reason)


def test_the_page_has_the_rates_at_first_sight_of_the_record():
    """If it fails, put these lines between the marks."""
    record = json.loads((Path(__file__).parent / "mutations.json").read_text(encoding="utf-8"))
    rows = [
        "| area | last sample, noticed at first sight | of it, alters nothing | samples before |",
        "|---|---|---|---|",
    ]
    for name, area in sorted(record["areas"].items()):
        *before, last = [
            f"{rate.removesuffix(' killed')} (seed {sample.split()[-1]})" for sample, rate in area["first seen"].items()
        ]
        rows.append(f"| {name} | {last} | {len(area['survivors'])} | {', '.join(before[::-1]) or '–'} |")
    page = (SOURCES.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert page.partition("<!-- mutants -->\n")[2].partition("\n<!-- end of mutants -->")[0].split("\n") == rows


def test_the_tests_of_a_module_come_first(tmp_path):
    source = tmp_path / "_pca.py"
    source.write_text("def reduce_rows(rows):\n    return rows\n\nclass Axes:\n    pass\n")
    uses = {"test_score.py": "", "test_quantize.py": "reduce_rows(Axes)", "test_pca.py": "", "test_reduce.py": "Axes"}
    for name, text in uses.items():
        (tmp_path / name).write_text(text)
    order = [path.name for path in nearest_first([tmp_path / name for name in uses], [source])]
    assert order == ["test_pca.py", "test_quantize.py", "test_reduce.py", "test_score.py"]
    tests = {
        f"tests/{name}::{test}": {"seconds": seconds, "calls": [["_pca.py", function]]}
        for name, test, seconds, function in (
            ("test_pca.py", "slow", 9.0, "reduce_rows"),
            ("test_pca.py", "other", 0.1, "Axes.__init__"),
            ("test_score.py", "quick", 0.5, "reduce_rows"),
        )
    }
    assert choose_tests(tests, "_pca.py", "reduce_rows", 60) == [
        "tests/test_pca.py::slow",
        "tests/test_score.py::quick",
    ]
    assert choose_tests(tests, "_pca.py", "reduce_rows", 5) == ["tests/test_score.py::quick"]
    assert len(choose_tests(tests, "_pca.py", None, 60)) == 3
    assert choose_tests(tests, "_pca.py", "compiled", 60) == choose_tests(tests, "_pca.py", None, 60)
    assert choose_tests(tests, "_other.py", "compiled", 60) == []


def test_an_entry_is_named_by_the_keys_and_what_only_changes_a_look_stays():
    code = "def f(ax, n):\n    ax.plot(n + 5, linewidth=2, label=3)\n    style = {'color': 7, 'marker': 8}\n    return {'a': n, **n, 'b': n}\n"
    changes = [(one.before, one.after) for one in mutants_of("a.py", ast.parse(code))]
    assert ("3", "4") in changes
    assert ("5", "6") in changes
    assert not {"2", "7", "8"} & {before for before, _ in changes}
    assert not [change for change in changes if "color" in change[0]]
    assert [after for before, after in changes if before == "{'a', **, 'b'}"] == [
        "{**, 'b'}",
        "{'a', 'b'}",
        "{'a', **}",
    ]


def test_how_many_rows_or_threads_work_at_once_stays_and_how_far_a_step_goes_does_not():
    code = (
        "def f(n):\n    step = max(1, _BLOCK // n)\n    threads = min(n, cores())\n"
        "    rate = n / max(time.monotonic() - 3, 2)\n    for low in range(0, n, step):\n        step = n + 5\n"
    )
    assert {one.before for one in mutants_of("a.py", ast.parse(code))} == {"0", "n + 5", "5"}
