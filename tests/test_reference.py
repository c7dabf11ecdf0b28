"""The API reference is that of the code: every documented parameter stands by itself, with its own name, type and default."""

import functools
import importlib
import inspect
import itertools
import re
import sys
import types
from pathlib import Path

import griffe
import pytest

import mallow

ROOT = Path(__file__).resolve().parent.parent
GROUP = re.compile(r"^\*{0,2}\w+(, \*{0,2}\w+)+( :.*)?$")

sys.path.insert(0, str(ROOT / "docs"))
import build_site  # noqa: E402, F401  # types in docstrings are words, as the site shows them


@functools.cache
def public_objects():
    """Dotted name → function or class, of all that the reference has, with the public methods of classes."""
    modules = [name for name in mallow.__all__ if isinstance(getattr(mallow, name), types.ModuleType)]
    found = {name: getattr(mallow, name) for name in mallow.__all__ if name not in modules}
    for package in [*modules, *mallow._RARER, "theory.bounds", "theory.transport"]:
        inner = vars(importlib.import_module(f"mallow.{package}"))
        found |= {f"{package}.{name}": inner[name] for name in inner["__all__"]}
    objects = {name: value for name, value in found.items() if inspect.isclass(value) or inspect.isfunction(value)}
    for name, value in list(objects.items()):
        if inspect.isclass(value):
            methods = {key: member for key, member in vars(value).items() if inspect.isfunction(member)}
            objects |= {f"{name}.{key}": member for key, member in methods.items() if not key.startswith("_")}
    return {name: value for name, value in objects.items() if value.__module__.startswith("mallow")}


@functools.cache
def package():
    """The package as the site reads it; this takes seconds, which whoever runs other tests does not wait for."""
    return griffe.load("mallow", search_paths=[ROOT / "src"], docstring_parser="numpy", resolve_aliases=True)


def griffe_object(value):
    """What the site knows of a function or class: the same that mkdocstrings renders."""
    value = inspect.unwrap(value)
    return package()[f"{value.__module__}.{value.__qualname__}".removeprefix("mallow.")]


def documented_parameters(value):
    """Name, type and default of each row in the table of parameters, as the site shows it."""
    source = griffe_object(value)
    sections = source.docstring.parse("numpy") if source.docstring else []
    return [row for section in sections if section.kind.value == "parameters" for row in section.value]


def own_parameters(value):
    """Name → parameter of the code, from the same sources; those of `__init__` for a class."""
    source = griffe_object(value)
    return {parameter.name: parameter for parameter in source.parameters if parameter.name not in ("self", "cls")}


def problems(value):
    """What the table of parameters says that the code does not."""
    rows, own = documented_parameters(value), own_parameters(value)
    signature = inspect.signature(value).parameters if inspect.isfunction(value) else own
    for row in rows:
        name = row.name.lstrip("*")
        if name not in own:
            yield f"{row.name}: no such parameter"
            continue
        shown, real = str(row.annotation or ""), str(own[name].annotation or "")
        in_words = isinstance(row.annotation, str)  # of the docstring; otherwise that of the code
        plain = re.fullmatch(r"(?:int|float|bool|str)(?: \| None)?", real)
        if not in_words and shown != real:
            yield f"{name}: shown as {shown}, is {real}"
        elif in_words and plain and shown != real.replace("|", "or") and shown.split()[0] in ("int", "float", "bool"):
            yield f"{name}: documented as {shown}, is {real}"
        elif in_words and real.endswith("| None") and "None" not in shown:
            yield f"{name}: documented as {shown}, may be None"
        if str(row.value) != str(own[name].default):
            yield f"{name}: default {row.value}, is {own[name].default}"
        if name in signature and inspect.isfunction(value):
            required = signature[name].default is inspect.Parameter.empty
            if required != (own[name].default is None) and not own[name].kind.value.startswith("variadic"):
                yield f"{name}: required is {required}"
    names = [row.name.lstrip("*") for row in rows]
    if rows:
        yield from (f"{name}: not documented" for name in own if name not in names)
        yield from (f"{name}: documented twice" for name in set(names) if names.count(name) > 1)


def test_every_documented_parameter_is_that_of_the_code():
    assert len(public_objects()) > 250
    rows = sum(len(documented_parameters(value)) for value in public_objects().values())
    assert rows > 400
    wrong = {name: list(problems(value)) for name, value in public_objects().items()}
    assert {name: faults for name, faults in wrong.items() if faults} == {}


def test_no_two_parameters_share_an_entry():
    """numpydoc's `a, b : int` gets the type and default of the first for both."""
    shared = {}
    for name, value in public_objects().items():
        lines = (inspect.getdoc(value) or "").splitlines()
        pairs = itertools.pairwise(lines)
        groups = [line for line, below in pairs if GROUP.match(line) and (below.startswith("    ") or " : " in line)]
        if groups:
            shared[name] = groups
    assert shared == {}


def test_sections_of_docstrings_are_sections():
    joined = {
        name for name, value in public_objects().items() if re.search(r"\w -{4,} \w", inspect.getdoc(value) or "")
    }
    assert joined == set()


def test_a_wrong_type_is_noticed(monkeypatch):
    source = griffe_object(mallow.compare)
    text = source.docstring.value
    monkeypatch.setattr(source.docstring, "value", text.replace("repeats :\n", "repeats : bool\n"))
    assert list(problems(mallow.compare)) == ["repeats: documented as bool, is int"]
    monkeypatch.setattr(source.docstring, "value", text.replace("repeats :\n", "repeat :\n"))
    with pytest.raises(AssertionError):
        assert list(problems(mallow.compare)) == []
