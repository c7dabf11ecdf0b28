"""Mutants of the statistics: small changes of the code that its tests have to notice. A script, not a test.

    python tests/mutate.py inference                        # every module of the table below, 16 mutants each
    python tests/mutate.py _identity _exchange --sample 40 --seed 1
    python tests/mutate.py _multiplicity --sample 0         # all mutants
    python tests/mutate.py _identity --only 76,93           # all mutants of some lines

Each mutant is one change (`>=` to `>`, `+` to `-`, 1 to 0, `min` to `max`, branches swapped, a statement dropped ...) in a
temporary copy of the tree. The test files of its module run against the copy; a mutant that no test notices survives and
is printed. A survivor needs a test, or is equivalent: the code does the same with and without the change. Constants of
modules are not changed: they were chosen, and their tests are experiments. Nor is the text of errors.
"""
# ruff: noqa: T201

import argparse
import ast
import compileall
import copy
import importlib
import importlib.util
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"inference": "src/mallow/inference"}
# The tests that must notice, the quickest first: the first failure ends a run.
TESTS = {
    "_identity": ("test_definitions", "test_exchange", "test_identity"),
    "_exchange": ("test_definitions", "test_exchange"),
    "_certificate": ("test_definitions", "test_certificate"),
    "_evidence": ("test_definitions", "test_evidence"),
    "_jackknife": ("test_jackknife",),
    "_published": ("test_published",),
    "_multiplicity": ("test_definitions",),
    "_units": ("test_definitions", "test_units"),
    "_stack": ("test_definitions", "test_stack"),
    "_folds": ("test_definitions", "test_folds"),
    "_leave_out": ("test_definitions", "test_leave_out"),
    "_unit_views": ("test_leave_out", "test_witness"),
    "_unit_bins": ("test_jackknife", "test_published"),
    "_sequential": ("test_definitions", "test_sequential"),
}
# Imported once; each mutant is tested in a fork, which imports no more than the library itself.
PRELOADED = ("hypothesis.extra.numpy", "scipy.stats", "scipy.sparse.csgraph", "sklearn.cluster", "sklearn.linear_model")

OPERATORS = {
    ast.GtE: ast.Gt,
    ast.LtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.Is: ast.IsNot,
    ast.In: ast.NotIn,
    ast.Add: ast.Sub,
    ast.Mult: ast.Div,
    ast.And: ast.Or,
    ast.BitAnd: ast.BitOr,
}
OPERATORS |= {other: one for one, other in OPERATORS.items()}
NAMES = {"min": "max", "minimum": "maximum", "any": "all"}
NAMES |= {other: one for one, other in NAMES.items()}


@dataclass(frozen=True)
class Mutant:
    """One change of a module."""

    module: str
    kind: str
    line: int
    before: str
    after: str
    number: int  # of the node in the tree
    variant: ast.AST

    def source(self, tree: ast.Module) -> str:
        """The source of the module with this change."""
        mutated = copy.deepcopy(tree)
        target = next(other for place, other in enumerate(ast.walk(mutated)) if place == self.number)
        for parent in list(ast.walk(mutated)):
            _replace(parent, target, self.variant)
        return ast.unparse(ast.fix_missing_locations(mutated))


def mutants_of(module: str, tree: ast.Module) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of the tree."""
    skipped = {id(part) for node in _untouched(tree) for part in ast.walk(node)}
    for number, node in enumerate(ast.walk(tree)):
        if id(node) not in skipped:
            for kind, variant in _variants(node):
                line = getattr(node, "lineno", 0)
                yield Mutant(module, kind, line, _brief(node), _brief(variant), number, variant)


def _untouched(tree: ast.Module) -> Iterator[ast.AST]:
    """Imports, constants of the module, annotations, docstrings, decorators, checks, and what is raised."""
    yield from (node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.ClassDef))
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise | ast.JoinedStr):
            yield node
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node
        if isinstance(node, ast.AnnAssign) and node.value is None:
            yield node
        if isinstance(node, ast.keyword) and node.arg == "strict":
            yield node
        parts = [
            getattr(node, "annotation", None),
            getattr(node, "returns", None),
            *getattr(node, "decorator_list", ()),
        ]
        yield from (part for part in parts if isinstance(part, ast.AST))


def _variants(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What a node may become, with the kind of the change."""

    def change(**fields: object) -> ast.AST:
        other = copy.copy(node)
        for name, value in fields.items():
            setattr(other, name, value)
        return other

    match node:
        case ast.Compare(ops=operators):
            for place, one in enumerate(operators):
                if type(one) in OPERATORS:
                    yield (
                        "comparison",
                        change(ops=[*operators[:place], OPERATORS[type(one)](), *operators[place + 1 :]]),
                    )
        case ast.BinOp(op=one) | ast.AugAssign(op=one) | ast.BoolOp(op=one) if type(one) in OPERATORS:
            yield "operator", change(op=OPERATORS[type(one)]())
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub(), operand=operand):
            yield "sign", operand
        case ast.Constant(value=bool(value)):
            yield "constant", change(value=not value)
        case ast.Constant(value=int(value) | float(value)) if abs(value) <= 10:
            yield "constant", change(value=type(value)(0 if value == 1 else value + 1))
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name) as function):
            if name in NAMES:
                renamed = copy.copy(function)
                setattr(renamed, "id" if isinstance(function, ast.Name) else "attr", NAMES[name])
                yield "extreme", change(func=renamed)
            if name in ("min", "max", "minimum", "maximum") and len(node.args) == 2:
                yield from (("limit dropped", argument) for argument in node.args)
            if name == "where" and len(node.args) == 3:
                yield "branches", change(args=[node.args[0], node.args[2], node.args[1]])
            if name in ("accumulate", "clip", "sort", "sorted", "abs") and node.args:
                yield "step dropped", node.args[0]
        case ast.keyword(arg="ddof"):
            yield "ddof", change(value=ast.Constant(1 - node.value.value))
        case ast.If(test=test) | ast.IfExp(test=test):
            yield "branches", change(test=ast.UnaryOp(ast.Not(), test))
    if isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield "step dropped", ast.Pass()
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        used = {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
        if node.targets[0].id in used:  # a value that is changed
            yield "step dropped", ast.Pass()


def _replace(parent: ast.AST, target: ast.AST, variant: ast.AST) -> None:
    for name, value in ast.iter_fields(parent):
        if value is target:
            setattr(parent, name, variant)
        elif isinstance(value, list):
            setattr(parent, name, [variant if one is target else one for one in value])


def _brief(node: ast.AST) -> str:
    text = f"{node.arg}={ast.unparse(node.value)}" if isinstance(node, ast.keyword) else ast.unparse(node)
    return " ".join(text.split("\n")[0].split())[:90]


def sample(mutants: list[Mutant], size: int, seed: int) -> list[Mutant]:
    """So many mutants, every kind in turn, so that the many constants do not crowd out the few comparisons; 0: all."""
    if not size:
        return mutants
    rng, kinds = random.Random(seed), defaultdict(list)
    for one in mutants:
        kinds[one.kind].append(one)
    for each in kinds.values():
        rng.shuffle(each)
    chosen: list[Mutant] = []
    while len(chosen) < size and any(kinds.values()):
        chosen += [kinds[kind].pop() for kind in sorted(kinds) if kinds[kind]]
    return sorted(chosen[:size], key=lambda one: one.line)


class Copy:
    """A temporary copy of the sources and the tests in which one module at a time is changed."""

    def __init__(self, folder: Path, package: str) -> None:
        self.folder, self.package = folder, package
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        compileall.compile_dir(folder / "src", quiet=1)

    def path(self, module: str) -> Path:
        """The file of a module."""
        return self.folder / self.package / f"{module}.py"

    def start(self, module: str, source: str) -> int:
        """Begin to test a module whose source is this; the number of the process."""
        path = self.path(module)
        path.write_text(source, encoding="utf-8")
        # Compiled files are known by size and second alone, which a mutant may share with its original.
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
        folder = self.package.replace("src/mallow", "tests")
        files = [f"{folder}/{name}.py" for name in TESTS[module] if (self.folder / folder / f"{name}.py").exists()]
        sys.stdout.flush()
        process = os.fork()
        if process:
            return process
        try:
            os.setpgid(0, 0)
            os.chdir(self.folder)
            sys.path.insert(0, str(self.folder / "src"))
            for stream in (1, 2):
                os.dup2(os.open(self.folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
            code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *files]))
            sys.stdout.flush()
        except BaseException:
            code = 1
        finally:
            os._exit(code)


def try_all(module: str, sources: list[str], copies: list[Copy], limit: float) -> Iterator[bool]:
    """Whether the tests of a module pass, for each of some sources of it, as many at a time as there are copies."""
    original = copies[0].path(module).read_text(encoding="utf-8")
    free, running, passed, following = list(copies), {}, {}, iter(enumerate(sources))
    while len(passed) < len(sources):
        while free and (todo := next(following, None)):
            own = free.pop()
            running[own.start(module, todo[1])] = own, todo[0], time.monotonic() + limit
        time.sleep(0.05)
        for process, (own, number, end) in list(running.items()):
            ended, status = os.waitpid(process, os.WNOHANG)
            if not ended:
                if time.monotonic() < end:
                    continue
                os.killpg(process, signal.SIGKILL)
                os.waitpid(process, 0)
            code = os.waitstatus_to_exitcode(status) if ended else 1
            if code > 2:  # neither passed nor failed nor crashed: a usage error, or nothing collected
                print((own.folder / "output.txt").read_text())
                raise SystemExit(f"{module}: pytest ended with {code}.")
            passed[number] = code == 0
            own.path(module).write_text(original, encoding="utf-8")
            del running[process]
            free.append(own)
    return (passed[number] for number in range(len(sources)))


def try_module(module: str, copies: list[Copy], options: argparse.Namespace) -> tuple[int, list[Mutant]]:
    """The number of mutants that were tried, and those that survived."""
    source = copies[0].path(module).read_text(encoding="utf-8")
    start = time.monotonic()
    if not all(try_all(module, [source], copies, 600.0)):
        print((copies[-1].folder / "output.txt").read_text())
        raise SystemExit(f"{module}: its tests fail without any change.")
    limit = 3 * (time.monotonic() - start) + 20
    if any(try_all(module, ["raise RuntimeError\n"], copies, limit)):
        raise SystemExit(f"{module}: its tests do not import the copy.")
    tree = ast.parse(source)
    mutants = list(mutants_of(module, tree))
    if options.only:
        chosen = [one for one in mutants if one.line in options.only]
    else:
        chosen = sample(mutants, options.sample, options.seed)
    alive = try_all(module, [one.source(tree) for one in chosen], copies, limit)
    survivors = [one for one, passed in zip(chosen, alive, strict=True) if passed]
    print(
        f"{module:15} {len(mutants):4} mutants, {len(chosen):3} tried, {len(chosen) - len(survivors):3} killed", end=""
    )
    print(f", {time.monotonic() - start:4.0f} s")
    for one in survivors:
        print(f"    {module}.py:{one.line}  {one.kind}: {one.before}  →  {one.after}")
    sys.stdout.flush()
    return len(chosen), survivors


def main() -> int:
    """Try mutants, print a line for each module and one for each survivor; 1 if there are survivors."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="+", help=f"a package ({', '.join(PACKAGES)}) or modules: {', '.join(TESTS)}")
    parser.add_argument("--sample", type=int, default=16, help="mutants of each module; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=lambda text: [int(line) for line in text.split(",")], help="lines: 76,93")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    modules = [module for name in options.names for module in (TESTS if name in PACKAGES else [name])]
    if unknown := [module for module in modules if module not in TESTS]:
        parser.error(f"unknown: {', '.join(unknown)}")
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for name in PRELOADED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        copies = [Copy(Path(folder) / str(number), PACKAGES["inference"]) for number in range(options.jobs)]
        results = [try_module(module, copies, options) for module in modules]
    tried, survivors = sum(count for count, _ in results), sum(len(alive) for _, alive in results)
    print(f"{'all':15} {tried} tried, {tried - survivors} killed, {survivors} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
