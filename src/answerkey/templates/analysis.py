"""What a template is, from its text alone: whether it parses, what it reads, and whether it is bounded.

A bounded template consists of nothing but what is listed here, so that all it can do is to go through the row
a few times. It calls no function of its own, keeps nothing from one turn of a loop to the next, builds no
list that holds another twice, and names nothing with an underscore in front. Whatever else there is, now or
in a later Jinja, is not bounded, and is rendered in a worker process with limits.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

from jinja2 import TemplateSyntaxError, UndefinedError, meta, nodes

from answerkey.errors import Place, SpecError, listing, suggest
from answerkey.templates.environment import NOT_REPEATABLE, open_environment
from answerkey.trace import TRACE_METHODS

#: What Jinja and Python raise for a text that cannot be compiled, or has a constant without a value.
_UNCOMPILABLE: Final = (
    *(TemplateSyntaxError, SyntaxError, ValueError),
    *(UndefinedError, RecursionError, MemoryError),
)
_LONGEST_SOURCE: Final = 2_000_000
_LONGEST_NUMBER: Final = 4_300
_DIGITS: Final = re.compile(r"[0-9_]+")
_OTHER_FILES: Final = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


def parse_template(source: str, names: Sequence[str]) -> nodes.Template:
    """Return the syntax tree of a template whose names, filters and tests all exist. Raise SpecError E112."""
    if len(source) > _LONGEST_SOURCE:
        message = f"the template has {len(source):,} characters; {_LONGEST_SOURCE:,} are allowed"
        raise SpecError("E112", message, where=Place(line=1))
    for digits in _DIGITS.finditer(source):  # Jinja would need too long to read a very long number
        if len(digits[0]) > _LONGEST_NUMBER:
            before = source[: digits.start()]
            opened, closed = (max(map(before.rfind, marks)) for marks in (("{{", "{%"), ("}}", "%}")))
            if opened > closed:
                message = f"a number of {len(digits[0]):,} digits is too long"
                raise SpecError("E112", message, where=Place(line=before.count("\n") + 1))
    with translate_syntax_errors(source):
        tree = open_environment().parse(source)
        _check_tree(tree, names)
    return tree


@contextmanager
def translate_syntax_errors(source: str) -> Iterator[None]:
    """Turn what Jinja and Python raise for a text that is no template into SpecError E112."""
    try:
        with warnings.catch_warnings():
            # A regular expression in quotes, `'\d'`, is fine in Jinja but has Python's decoder warn.
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    except _UNCOMPILABLE as error:
        line = error.lineno if isinstance(error, TemplateSyntaxError) else None
        hint = "a template is written `{{ sample.answer }}`, filters behind `|`, text in quotes"
        if isinstance(error, RecursionError | MemoryError | SyntaxError):
            hint = "put fewer blocks into each other"
        if isinstance(error, RecursionError | MemoryError):
            message = "template does not parse: it is nested too deeply"
        elif isinstance(error, UndefinedError):
            message = f"template fails on every row: {error}"
        else:
            reason = getattr(error, "msg", None) or getattr(error, "message", None) or error
            message = f"template does not parse: {str(reason) or type(error).__name__}"
            if r"\|" in source and "unexpected char" in message:
                hint = "write `|`; the backslash comes from a Markdown table"
        raise SpecError("E112", message, where=Place(line=line), hint=hint) from None


def _check_tree(tree: nodes.Template, names: Sequence[str]) -> None:
    """Raise SpecError for a filter, a test or a name that does not exist, and for reading other files."""

    def refuse(node: nodes.Node, message: str, hint: str | None) -> SpecError:
        return SpecError("E112", message, where=Place(line=node.lineno), hint=hint)

    def check_repeatable(node: nodes.Node, name: object) -> None:
        if isinstance(name, str) and name in NOT_REPEATABLE:
            message = f"`{name}` is not available: the same row must always give the same value"
            raise refuse(node, message, NOT_REPEATABLE[name])

    for foreign in tree.find_all(_OTHER_FILES):
        word = type(foreign).__name__.lower()
        raise refuse(
            foreign, f"`{word}` is not available in templates", "`!include` puts a file into the YAML"
        )
    filters, tests = open_environment().filters, open_environment().tests
    for one in tree.find_all(nodes.Filter):
        # `map('x')` names another filter in a text.
        mapped = one.args[:1] if one.name == "map" else []
        for name in (one.name, *(arg.value for arg in mapped if isinstance(arg, nodes.Const))):
            check_repeatable(one, name)
        if one.name not in filters:
            raise refuse(one, f"no filter is named `{one.name}`", suggest(one.name, filters))
    for test in tree.find_all(nodes.Test):
        if test.name not in tests:
            raise refuse(test, f"no test is named `{test.name}`", suggest(test.name, tests))
    unknown = meta.find_undeclared_variables(tree) - set(names)
    for node in _walk_loads([tree], set()) if unknown else ():
        if node.name in unknown:
            check_repeatable(node, node.name)
            hint = suggest(node.name, names) or f"a column is reached as `sample.{node.name}`;"
            for difference in tree.find_all(nodes.Sub):
                path = find_path(difference.left, "sample")
                if difference.right is node and path and len(path) == 1:
                    hint = f"a column with a hyphen is reached as `sample['{path[0].key}-{node.name}']`;"
            raise refuse(
                node, f"`{node.name}` is not defined in this template", f"{hint} names: {listing(names)}"
            )


#: Statements whose names end with them: the fields outside that scope, the lists of fields inside, the names
#: that it brings.
_SCOPES: Final[dict[type[nodes.Node], tuple[list[str], list[list[str]], list[str]]]] = {
    nodes.For: (["iter"], [["target", "test", "body"], ["else_"]], ["loop"]),
    nodes.With: (["values"], [["targets", "body"]], []),
    nodes.Macro: ([], [["args", "defaults", "body"]], ["caller", "varargs", "kwargs"]),
    nodes.CallBlock: (["call"], [["args", "defaults", "body"]], []),
    nodes.FilterBlock: (["filter"], [["body"]], []),
    nodes.AssignBlock: (["filter"], [["body"]], []),
    nodes.Scope: ([], [["body"]], []),
    nodes.ScopedEvalContextModifier: (["options"], [["body"]], []),
    nodes.Block: ([], [["body"]], []),
}


def _walk_loads(found: Iterable[nodes.Node], known: set[str]) -> Iterator[nodes.Name | nodes.NSRef]:
    """Yield where a name is used that the template has set nowhere before; `known` takes in what it sets.

    A name that one branch of an `if` sets is known after it: whether it is there, the row decides.
    """
    for node in found:
        if isinstance(node, (nodes.Name, nodes.NSRef)):
            if isinstance(node, nodes.Name) and node.ctx != "load":
                known.add(node.name)
            elif node.name not in known:
                yield node
        elif isinstance(node, nodes.If):
            yield from _walk_loads([node.test], known)
            branches: list[Sequence[nodes.Node]] = [node.body, *([one] for one in node.elif_), node.else_]
            after = [set(known) for _ in branches]
            for branch, inner in zip(branches, after, strict=True):
                yield from _walk_loads(branch, inner)
            known.update(*after)
        elif type(node) in _SCOPES:
            before, groups, names = _SCOPES[type(node)]
            if isinstance(node, nodes.Macro):
                known.add(node.name)
            yield from _walk_loads(_list_children(node, before), known)
            for fields in groups:
                yield from _walk_loads(_list_children(node, fields), {*known, *names})
            if isinstance(node, nodes.AssignBlock):
                yield from _walk_loads([node.target], known)
        else:
            # What is assigned stands before its value in the tree, and is there after it.
            children = list(node.iter_child_nodes())
            yield from _walk_loads(reversed(children) if isinstance(node, nodes.Assign) else children, known)


def _list_children(node: nodes.Node, fields: Iterable[str]) -> list[nodes.Node]:
    return [child for name in fields for child in node.iter_child_nodes(only=[name])]


@dataclass(frozen=True)
class Step:
    """One step of a path: `.key` (attribute) or `[key]` (subscript)."""

    kind: Literal["attribute", "subscript"]
    key: str | int


#: The constant steps from a name of a template to a value; none at all: the name as a whole.
Path = tuple[Step, ...]


def find_lone_expression(tree: nodes.Template) -> nodes.Expr | None:
    """Return the expression that a template consists of, white space and comments apart, or None."""
    if len(tree.body) != 1 or not isinstance(tree.body[0], nodes.Output):
        return None
    printed = [
        one
        for one in tree.body[0].nodes
        if not (isinstance(one, nodes.TemplateData) and not one.data.strip())
    ]
    return printed[0] if len(printed) == 1 and not isinstance(printed[0], nodes.TemplateData) else None


def find_literal_text(tree: nodes.Template) -> str | None:
    """Return the text of a template that only prints literal text, else None."""
    pieces: list[str] = []
    for output in tree.body:
        for node in output.nodes if isinstance(output, nodes.Output) else [output]:
            if isinstance(node, nodes.TemplateData):
                pieces.append(node.data)
            elif isinstance(node, nodes.Const) and isinstance(node.value, str):
                pieces.append(node.value)
            else:
                return None
    return "".join(pieces)


def read_step(node: nodes.Node) -> Step | None:
    """Return the constant step that a node takes from its owner; None for any other node."""
    if isinstance(node, nodes.Getattr):
        return Step("attribute", node.attr)
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        key = node.arg.value
        return Step("subscript", key) if type(key) in (str, int) else None
    return None


def find_path(node: nodes.Node, name: str = "sample") -> Path | None:
    """Return the constant steps that lead from a name to a node; None for any other node."""
    steps: list[Step] = []
    while not isinstance(node, nodes.Name):
        step = read_step(node)
        if step is None:
            return None
        steps.append(step)
        node = node.node  # type: ignore[attr-defined]
    return tuple(reversed(steps)) if node.name == name else None


def find_paths(node: nodes.Node, name: str) -> Iterator[Path]:
    """Yield where constant steps lead from a name, as far as they go: `scores.a.b` is `.a.b`.

    A method that is called is no step.
    """
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
        method = node.node
        children = [method.node, *(one for one in node.iter_child_nodes() if one is not method)]
    else:
        steps = find_path(node, name)
        if steps is not None:
            yield steps
            return
        children = list(node.iter_child_nodes())
    for child in children:
        yield from find_paths(child, name)


#: What a bounded template may consist of: exactly these, not what is derived from them.
_KNOWN: Final = frozenset(
    [
        *(nodes.Template, nodes.Output, nodes.If, nodes.For, nodes.Assign, nodes.AssignBlock),
        *(nodes.Break, nodes.Continue),
        *(nodes.Name, nodes.Const, nodes.TemplateData, nodes.Getattr, nodes.Getitem, nodes.Slice),
        *(nodes.Filter, nodes.Test, nodes.Call, nodes.Keyword, nodes.Compare, nodes.Operand, nodes.And),
        *(nodes.Or, nodes.Not, nodes.CondExpr, nodes.Concat, nodes.Add, nodes.Sub, nodes.Mul, nodes.Div),
        *(nodes.FloorDiv, nodes.Mod, nodes.Neg, nodes.Pos, nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair),
    ]
)
#: What makes values that hold others. They may hold parts of the row, not each other: `[x, x]` in a chain of
#: names doubles what there is to print or to compare with each name.
_BUILDERS: Final = (nodes.List, nodes.Tuple, nodes.Dict)
_BUILDING: Final = frozenset(["batch", "dictsort", "groupby", "items", "merge", "slice", "zip"])
#: What applies a filter or a test that it is told by name; and where others are told an attribute.
_APPLYING: Final = frozenset(["map", "select", "reject", "selectattr", "rejectattr"])
_ATTRIBUTE_AT: Final = {"join": 1, "max": 1, "min": 1, "sort": 2, "sum": 0, "unique": 1}
BOUNDED_FILTERS: Final = frozenset(
    [
        *("abs", "capitalize", "count", "d", "default", "e", "escape", "first", "float", "format"),
        *("fromjson", "indent", "int", "items", "join", "json_escape", "last", "length", "list", "lower"),
        *("map", "max", "merge", "min", "regex_replace", "reject", "rejectattr", "replace", "reverse"),
        *("round", "select", "selectattr", "sort", "string", "sum", "title", "tojson", "trim"),
        *("truncate", "unique", "upper", "wordcount", "zip"),
    ]
)
BOUNDED_METHODS: Final = frozenset(
    [
        *("capitalize", "casefold", "count", "cycle", "endswith", "find", "get", "index", "isalnum"),
        *("isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric"),
        *("isspace", "istitle", "isupper", "items", "join", "keys", "lower", "lstrip", "partition"),
        *("removeprefix", "removesuffix", "replace", "rfind", "rindex", "rpartition", "rsplit", "rstrip"),
        *("split", "splitlines", "startswith", "strip", "swapcase", "title", "upper", "values", "zfill"),
        *TRACE_METHODS,
    ]
)
_FUNCTIONS: Final = frozenset(["range"])
_MOST_NODES: Final = 500
_MOST_LOOPS: Final = 3


def is_bounded(tree: nodes.Node, names: Sequence[str]) -> bool:
    """Say whether a tree is bounded that sees these names."""
    found = [tree]
    for one in found:  # which grows meanwhile
        found.extend(one.iter_child_nodes())
        if len(found) > _MOST_NODES:
            return False
    made = {node.name for node in found if isinstance(node, nodes.Name) and node.ctx != "load"}
    known = {*names, *made, "loop", *_FUNCTIONS}
    return (
        _KNOWN.issuperset(map(type, found))
        and all(node.name in known for node in found if isinstance(node, nodes.Name))
        and all(_CHECKS[type(node)](node) for node in found if type(node) in _CHECKS)
        and all(_holds_row(node, set(names)) for node in found)
        and _count_loops(tree) <= _MOST_LOOPS
    )


def _has_plain_arguments(node: nodes.Filter | nodes.Test | nodes.Call) -> bool:
    return node.dyn_args is None and node.dyn_kwargs is None


def _is_bounded_filter(node: nodes.Filter) -> bool:
    """Say whether a filter is bounded; what it is told by name, as `map('upper')` is, it is told plainly."""
    if node.name not in BOUNDED_FILTERS or not _has_plain_arguments(node):
        return False
    if node.name == "map" and node.args:
        first, others = node.args[0], BOUNDED_FILTERS - _BUILDING - _APPLYING
        return isinstance(first, nodes.Const) and first.value in others
    named = [one.value for one in node.kwargs if one.key == "attribute"]
    if node.name in _APPLYING:
        named += node.args[: 2 if "attr" in node.name else 1]
    elif node.name in _ATTRIBUTE_AT:
        named += node.args[_ATTRIBUTE_AT[node.name] :][:1]
    return all(isinstance(one, nodes.Const) for one in named)


def _is_bounded_call(node: nodes.Call) -> bool:
    if isinstance(node.node, nodes.Name):
        is_known = node.node.name in _FUNCTIONS
    else:
        is_known = isinstance(node.node, nodes.Getattr) and node.node.attr in BOUNDED_METHODS
    return is_known and _has_plain_arguments(node)


_CHECKS: Final[dict[type[nodes.Node], Callable[[Any], bool]]] = {
    nodes.Const: lambda node: not (isinstance(node.value, str) and "__" in node.value),
    nodes.Getattr: lambda node: not node.attr.startswith("_"),
    nodes.Getitem: lambda node: (
        not (isinstance(node.arg, nodes.Const) and str(node.arg.value).startswith("_"))
    ),
    nodes.For: lambda node: not node.recursive,
    nodes.Filter: _is_bounded_filter,
    nodes.Test: _has_plain_arguments,
    nodes.Call: _is_bounded_call,
}


def _holds_row(node: nodes.Node, names: set[str]) -> bool:
    """Say whether what a node builds holds nothing that the template has made before."""
    is_builder = isinstance(node, _BUILDERS) or (isinstance(node, nodes.Filter) and node.name in _BUILDING)
    if not is_builder or (isinstance(node, nodes.Tuple) and node.ctx != "load"):
        return True
    return all(one.name in names or one.ctx != "load" for one in node.find_all(nodes.Name))


def _count_loops(node: nodes.Node) -> int:
    """Return how many loops stand inside each other."""
    inner = max(map(_count_loops, node.iter_child_nodes()), default=0)
    return inner + isinstance(node, nodes.For)
