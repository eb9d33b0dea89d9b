"""Small changes to functions: each is one mutant, and a good test notices it.

Only the bodies of functions are changed. Docstrings, annotations, decorators and defaults stay as they are,
and so do assertions and wording: the texts of f-strings and of raised errors (but not their codes).
"""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import cast

#: A way to a node inside a function: the names of fields, and places in lists.
Way = tuple[str | int, ...]
Function = ast.FunctionDef | ast.AsyncFunctionDef

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Div,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
CALLED = (
    ("min", "max"), ("any", "all"), ("lower", "upper"), ("lstrip", "rstrip"), ("startswith", "endswith"),
    ("find", "rfind"), ("split", "rsplit"), ("removeprefix", "removesuffix"), ("floor", "ceil"),
    ("append", "remove"), ("any_horizontal", "all_horizontal"), ("is_null", "is_not_null"), ("first", "last"),
)  # fmt: skip
NAMES = dict(CALLED) | {second: first for first, second in CALLED}
UNCHANGED = frozenset({"annotation", "returns", "decorator_list", "ctx"})
ERROR_CODE = re.compile(r"E\d{3}")


@dataclass(frozen=True)
class Mutant:
    """One change to one function; `name` is the same for as long as the function is."""

    name: str
    path: Path
    qualname: str
    #: The lines of the statement that is changed: a test that runs none of them cannot notice.
    lines: range
    way: Way = field(repr=False)
    changed: ast.AST | None = field(repr=False)

    @property
    def module(self) -> str:
        """The module's name below the package: `metrics.paired`."""
        return self.name.split(":", 1)[0]


def find_mutants(path: Path, module: str) -> list[Mutant]:
    """Return every mutant of a file, in the order of its lines."""
    seen: Counter[str] = Counter()
    mutants = []
    for qualname, function in find_functions(ast.parse(path.read_text(encoding="utf-8"))):
        for way, changed in _change_function(function):
            name = f"{module}:{qualname}: {_describe(function, way, changed)}"
            seen[name] += 1
            number = f" ({seen[name]})" if seen[name] > 1 else ""
            mutants.append(Mutant(name + number, path, qualname, _lines(function, way), way, changed))
    return mutants


def find_functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Yield the functions of a module and the methods of its classes; what stands inside them is theirs."""

    def visit(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Function]]:
        for statement in body:
            if isinstance(statement, Function):
                yield prefix + statement.name, statement
            elif isinstance(statement, ast.ClassDef):
                yield from visit(statement.body, f"{prefix}{statement.name}.")

    yield from visit(tree.body, "")


def compile_mutant(mutant: Mutant) -> CodeType:
    """Return the changed function's code, as if it stood where the function stands."""
    tree = ast.parse(mutant.path.read_text(encoding="utf-8"))
    function = dict(find_functions(tree))[mutant.qualname]
    statement: ast.stmt = _put(function, mutant.way, mutant.changed)
    for name in reversed(mutant.qualname.split(".")[:-1]):
        statement = ast.ClassDef(name, bases=[], keywords=[], body=[statement], decorator_list=[])
    future = ast.ImportFrom("__future__", [ast.alias("annotations")], 0)
    whole = ast.fix_missing_locations(ast.Module([future, statement], type_ignores=[]))
    code = compile(whole, str(mutant.path), "exec", dont_inherit=True)
    for name in mutant.qualname.split("."):
        code = next(one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == name)
    return code


def _change_function(function: Function) -> Iterator[tuple[Way, ast.AST | None]]:
    """Yield where something can be changed, and into what; None is a statement left out."""
    first = 1 if ast.get_docstring(function, clean=False) is not None else 0
    for place in range(first, len(function.body)):
        yield from _change_below(function.body[place], ("body", place), is_raised=False)


def _change_below(node: ast.AST, way: Way, *, is_raised: bool) -> Iterator[tuple[Way, ast.AST | None]]:
    if (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) or _is_assertion(node):
        return
    is_raised = is_raised or isinstance(node, ast.Raise)
    for changed in _change(node, is_raised=is_raised):
        if isinstance(changed, ast.stmt):
            ast.copy_location(changed, node)
        yield way, changed
    for name, value in ast.iter_fields(node):
        if name in UNCHANGED or (name == "args" and not isinstance(node, ast.Call)):
            continue
        if isinstance(value, ast.AST):
            yield from _change_below(value, (*way, name), is_raised=is_raised)
        elif isinstance(value, list):
            for place, one in enumerate(value):
                is_text = isinstance(node, ast.JoinedStr) and isinstance(one, ast.Constant)
                if isinstance(one, ast.AST) and not is_text:
                    yield from _change_below(one, (*way, name, place), is_raised=is_raised)


def _is_assertion(node: ast.AST) -> bool:
    """Say whether a node only states what must hold anyway: `assert`, `zip(strict=True)`."""
    match node:
        case ast.Assert() | ast.keyword(arg="strict", value=ast.Constant(value=True)):
            return True
    return False


def _change(node: ast.AST, *, is_raised: bool) -> Iterator[ast.AST | None]:
    """Yield what can stand in a node's place."""
    if type(node) in SWAPS:
        yield SWAPS[type(node)]()
    elif isinstance(node, ast.Constant):
        yield from _change_constant(node, is_raised=is_raised)
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        yield node.operand
    elif isinstance(node, ast.expr | ast.comprehension):
        yield from _change_expression(node)
    elif isinstance(node, ast.stmt):
        yield from _change_statement(node)


def _change_constant(node: ast.Constant, *, is_raised: bool) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int | float):
        yield ast.Constant(value + 1)
    elif isinstance(value, str) and (not is_raised or ERROR_CODE.fullmatch(value)):
        yield ast.Constant(value + "~")


def _change_expression(node: ast.expr | ast.comprehension) -> Iterator[ast.AST]:
    """Yield a condition turned round, another method, a value left out."""
    match node:
        case ast.IfExp() if _is_turned(node.test):
            yield ast.IfExp(_negate(node.test), node.body, node.orelse)
        case ast.comprehension(ifs=[first, *others]) if _is_turned(first):
            yield ast.comprehension(node.target, node.iter, [_negate(first), *others], node.is_async)
        case ast.Call(func=ast.Name(name)) if name in NAMES:
            yield ast.Call(ast.Name(NAMES[name], ast.Load()), node.args, node.keywords)
        case ast.Call(func=ast.Attribute(value, name)) if name in NAMES and not _splits_all(node):
            yield ast.Call(ast.Attribute(value, NAMES[name], ast.Load()), node.args, node.keywords)
        case ast.Yield(value=ast.expr() as value) if not _is_none(value):
            yield ast.Yield(ast.Constant(None))


def _change_statement(node: ast.stmt) -> Iterator[ast.AST | None]:
    """Yield a branch turned round, a call or an error left out, a value lost, a loop ended."""
    match node:
        case ast.If() if _is_turned(node.test):
            yield ast.If(_negate(node.test), node.body, node.orelse)
        case ast.While():
            yield ast.While(ast.Constant(value=False), node.body, node.orelse)
        case ast.Return(value=ast.expr() as value) if not _is_nothing(value):
            yield ast.Return(ast.Constant(None))
        case ast.Assign() if not _is_none(node.value):
            yield ast.Assign(node.targets, ast.Constant(None))
        case ast.AnnAssign(value=ast.expr() as value) if not _is_none(value):
            yield ast.AnnAssign(node.target, node.annotation, ast.Constant(None), node.simple)
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise():
            yield None
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()


def _splits_all(call: ast.Call) -> bool:
    """Say whether a text is split everywhere, so that the side to begin from makes no difference."""
    is_split = isinstance(call.func, ast.Attribute) and call.func.attr in {"split", "rsplit"}
    return is_split and len(call.args) + len(call.keywords) < 2


def _is_turned(condition: ast.expr) -> bool:
    """Say whether a condition is turned round as a whole: not when a change inside it does the same."""
    match condition:
        case ast.UnaryOp(op=ast.Not()):
            return False
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.Is() | ast.IsNot() | ast.In() | ast.NotIn()]):
            return False
    return True


def _negate(condition: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), condition)


def _is_nothing(node: ast.expr) -> bool:
    """Say whether None in a value's place would be no change, or none that a condition sees."""
    return isinstance(node, ast.Constant) and (node.value is None or node.value is False)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _put(function: Function, way: Way, changed: ast.AST | None) -> Function:
    """Return a copy of the function with another node at the end of the way."""
    mutated = copy.deepcopy(function)
    mutated.decorator_list = []
    new = ast.Pass() if changed is None else copy.deepcopy(changed)
    old = _swap(mutated, way, new)
    if isinstance(old, ast.expr | ast.stmt):
        ast.copy_location(new, old)
    return ast.fix_missing_locations(mutated)


def _swap(function: Function, way: Way, new: ast.AST) -> ast.AST:
    """Put a node at the end of the way; return what stood there."""
    *before, last = way
    parent = _follow(function, tuple(before))
    if isinstance(parent, list):
        place = cast("int", last)
        old, parent[place] = parent[place], new
        return old
    old = getattr(parent, str(last))
    setattr(parent, str(last), new)
    return cast("ast.AST", old)


def _follow(node: ast.AST, way: Way) -> ast.AST | list[ast.AST]:
    """Return what stands at the end of the way: a node, or a list of them."""
    found: ast.AST | list[ast.AST] = node
    for step in way:
        found = found[cast("int", step)] if isinstance(found, list) else getattr(found, str(step))
    return found


def _describe(function: Function, way: Way, changed: ast.AST | None) -> str:
    """Return what is changed, as code before and after: the smallest expression that shows it."""
    nodes = [_follow(function, way[:end]) for end in range(len(way), 0, -1)]
    shown = next(end for end, node in enumerate(nodes) if _shows(node))
    before = _show(nodes[shown])
    old = _swap(function, way, ast.Pass() if changed is None else changed)
    after = _show(_follow(function, way[: len(way) - shown]))
    _swap(function, way, old)
    return f"{before} -> {after}"


def _shows(node: ast.AST | list[ast.AST]) -> bool:
    return isinstance(node, ast.expr | ast.stmt) and not isinstance(node, ast.Constant | ast.Name)


def _show(node: ast.AST | list[ast.AST]) -> str:
    """Return a node's code in one line; of a compound statement its head."""
    if isinstance(node, list):
        return ", ".join(map(_show, node))
    if isinstance(node, ast.If | ast.While):
        word = "if" if isinstance(node, ast.If) else "while"
        return f"{word} {ast.unparse(node.test)}"
    return " ".join(ast.unparse(node).split())


def _lines(function: Function, way: Way) -> range:
    """Return the lines of the smallest statement around a node; of a compound one those of its head."""
    for end in range(len(way), 0, -1):
        node = _follow(function, way[:end])
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            return range(node.lineno, max(last, node.lineno) + 1)
    return range(function.lineno, function.lineno + 1)
