"""Mutants: small changes of a module that its tests have to notice. `mutate.py` tries them.

Each is one change: `>=` to `>`, `+` to `-`, 1 to 0, `min` to `max`, branches swapped, a statement or an escape dropped, an
entry of a table left out ... Other constants of modules are not changed: they were chosen, and their tests are experiments.
Nor is the text of errors, or what only changes the look of a picture, or statements that only choose how many rows or
threads work at once, or report a speed: the results are the same, at another speed or with other memory.
"""

import ast
import copy
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Mutant", "mutants_of", "sample"]

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
# Calls that make a text or a number safe: without them it stays as it is.
SAFETY = ("accumulate", "clip", "sort", "sorted", "abs", "visible", "escape", "escape_markdown", "one_line")
# Arguments of matplotlib that were chosen by eye.
LOOKS = {
    "alpha",
    "capsize",
    "color",
    "edgecolor",
    "facecolor",
    "fmt",
    "fontsize",
    "ha",
    "linestyle",
    "linewidth",
    "loc",
}
LOOKS |= {"marker", "markeredgewidth", "markerfacecolor", "markersize", "rotation", "solid_capstyle", "va", "zorder"}
# How many rows or threads work at once, and speeds: statements that assign one of the first from one of the second.
PACES = {"step", "chunk", "threads", "rate"}
AT_ONCE = {"ENTRIES", "_ENTRIES", "_BLOCK", "_CHUNK", "_AT_ONCE", "_NUMBERS", "_MOST_ENTRIES", "cores", "monotonic"}
NAMES = {"min": "max", "minimum": "maximum", "any": "all"}
NAMES |= {other: one for one, other in NAMES.items()}


@dataclass(frozen=True)
class Mutant:
    """One change of a module."""

    path: str
    kind: str
    line: int
    before: str
    after: str
    statement: str  # around it, on one line: lines may move, and one module has many a 0
    number: int  # of the node in the tree
    variant: ast.AST

    def source(self, tree: ast.Module) -> str:
        """The source of the module with this change."""
        mutated = copy.deepcopy(tree)
        target = next(other for number, other in enumerate(ast.walk(mutated)) if number == self.number)
        for parent in list(ast.walk(mutated)):
            _replace(parent, target, self.variant)
        return ast.unparse(ast.fix_missing_locations(mutated))


def mutants_of(path: str, tree: ast.Module) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of the tree."""
    skipped = {id(part) for node in _untouched(tree) for part in ast.walk(node)}
    statement: dict[int, ast.stmt] = {}  # the innermost around each node
    for node in ast.walk(tree):  # from the outside in
        if isinstance(node, ast.stmt):
            statement |= dict.fromkeys(map(id, ast.walk(node)), node)
    for number, node in enumerate(ast.walk(tree)):
        if id(node) not in skipped:
            for kind, variant in _variants(node):
                line = getattr(node, "lineno", 0)
                around = _brief(statement.get(id(node), node))
                yield Mutant(path, kind, line, _brief(node), _brief(variant), around, number, variant)


def _untouched(tree: ast.Module) -> Iterator[ast.AST]:
    """Imports, constants of the module, annotations, docstrings, decorators, checks, and what is raised."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            parts = (*node.value.keys, *node.value.values)  # the table itself may lose entries
            yield from (part for part in parts if part is not None)
        elif not isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise | ast.JoinedStr):
            yield node
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node
        if isinstance(node, ast.AnnAssign) and node.value is None:
            yield node
        if isinstance(node, ast.Assign) and _names(node.targets[0]) <= PACES and _names(node.value) & AT_ONCE:
            yield node
        if isinstance(node, ast.keyword) and node.arg in {"strict", *LOOKS}:
            yield node
        if isinstance(node, ast.Dict) and {key.value for key in node.keys if _is_string(key)} & LOOKS:
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
            for i, operator in enumerate(operators):
                if type(operator) in OPERATORS:
                    other = OPERATORS[type(operator)]()
                    yield "comparison", change(ops=[*operators[:i], other, *operators[i + 1 :]])
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) | ast.BoolOp(op=operator) if (
            type(operator) in OPERATORS
        ):
            yield "operator", change(op=OPERATORS[type(operator)]())
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
            if name in SAFETY and node.args:
                yield "step dropped", node.args[0]
            if name in ("replace", "strip") and isinstance(function, ast.Attribute) and _is_text(node):
                yield "step dropped", function.value
        case ast.Dict(keys=[_, _, *_] as keys, values=values) if all(key is None or _is_string(key) for key in keys):
            for dropped in range(len(keys)):
                kept = [i for i in range(len(keys)) if i != dropped]
                yield "entry dropped", change(keys=[keys[i] for i in kept], values=[values[i] for i in kept])
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


def _names(node: ast.AST) -> set[str]:
    parts = list(ast.walk(node))
    return {part.id for part in parts if isinstance(part, ast.Name)} | {
        part.attr for part in parts if isinstance(part, ast.Attribute)
    }


def _is_string(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_text(node: ast.Call) -> bool:
    """Whether all that a method takes are texts; `dataclasses.replace` and `os.replace` take other things."""
    return all(map(_is_string, node.args)) and not node.keywords


def _replace(parent: ast.AST, target: ast.AST, variant: ast.AST) -> None:
    for name, value in ast.iter_fields(parent):
        if value is target:
            setattr(parent, name, variant)
        elif isinstance(value, list):
            setattr(parent, name, [variant if entry is target else entry for entry in value])


def _brief(node: ast.AST) -> str:
    if isinstance(node, ast.Dict):  # values may be long, and the keys tell which entry is missing
        return f"{{{', '.join('**' if key is None else ast.unparse(key) for key in node.keys)}}}"
    text = f"{node.arg}={ast.unparse(node.value)}" if isinstance(node, ast.keyword) else ast.unparse(node)
    return " ".join(text.split("\n")[0].split())[:90]


def sample(mutants: list[Mutant], size: int, seed: int) -> list[Mutant]:
    """So many mutants, every kind in turn, so that the many constants do not crowd out the few comparisons; 0: all."""
    if not size:
        return mutants
    rng, kinds = random.Random(seed), defaultdict(list)
    for mutant in mutants:
        kinds[mutant.kind].append(mutant)
    for group in kinds.values():
        rng.shuffle(group)
    chosen: list[Mutant] = []
    while len(chosen) < size and any(kinds.values()):
        chosen += [kinds[kind].pop() for kind in sorted(kinds) if kinds[kind]]
    return sorted(chosen[:size], key=lambda mutant: (mutant.path, mutant.line))
