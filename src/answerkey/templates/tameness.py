"""Which templates are tame: their cost on a row is known to be small before they are rendered.

A tame template consists of nothing but what is listed here, so that all it can do is to go through the row a
few times. It calls no function of its own, keeps nothing from one turn of a loop to the next, builds no list
that holds another twice, and names nothing with an underscore in front. Whatever else there is, now or in a
later Jinja, is not tame, and is rendered in a worker process with limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from jinja2 import nodes

from answerkey.trace import TRACE_METHODS

_STATEMENTS: Final = (
    *(nodes.Template, nodes.Output, nodes.If, nodes.For, nodes.Assign, nodes.AssignBlock),
    *(nodes.Break, nodes.Continue),
)
_EXPRESSIONS: Final = (
    *(nodes.Name, nodes.Const, nodes.TemplateData, nodes.Getattr, nodes.Getitem, nodes.Slice),
    *(nodes.Filter, nodes.Test, nodes.Call, nodes.Keyword, nodes.Compare, nodes.Operand, nodes.And, nodes.Or),
    *(nodes.Not, nodes.CondExpr, nodes.Concat, nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv),
    *(nodes.Mod, nodes.Neg, nodes.Pos, nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair),
)
#: Exactly these, not what is derived from them.
_KNOWN: Final = frozenset([*_STATEMENTS, *_EXPRESSIONS])
#: What makes values that hold others. They may hold parts of the row, not each other: `[x, x]` in a chain of
#: names doubles what there is to print or to compare with each name.
_BUILDERS: Final = (nodes.List, nodes.Tuple, nodes.Dict)
_BUILDING: Final = frozenset(["batch", "dictsort", "groupby", "items", "merge", "slice", "zip"])

#: What applies a filter or a test that it is told by name; and where others are told an attribute.
_APPLYING: Final = frozenset(["map", "select", "reject", "selectattr", "rejectattr"])
_ATTRIBUTE_AT: Final = {"join": 1, "max": 1, "min": 1, "sort": 2, "sum": 0, "unique": 1}

FILTERS: Final = frozenset(
    [
        *("abs", "capitalize", "count", "d", "default", "e", "escape", "first", "float", "format"),
        *("fromjson", "indent", "int", "items", "join", "json_escape", "last", "length", "list", "lower"),
        *("map", "max", "merge", "min", "regex_replace", "reject", "rejectattr", "replace", "reverse"),
        *("round", "select", "selectattr", "sort", "string", "sum", "title", "tojson", "trim"),
        *("truncate", "unique", "upper", "wordcount", "zip"),
    ]
)
METHODS: Final = frozenset(
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


def is_tame(tree: nodes.Node, names: Sequence[str]) -> bool:
    """Say whether a tree is tame that sees these names."""
    found = list(_walk(tree, _MOST_NODES + 1))
    if len(found) > _MOST_NODES or not _KNOWN.issuperset(map(type, found)):
        return False
    made = {node.name for node in found if isinstance(node, nodes.Name) and node.ctx != "load"}
    known = {*names, *made, "loop", *_FUNCTIONS}
    return (
        all(node.name in known for node in found if isinstance(node, nodes.Name))
        and all(_CHECKS[type(node)](node) for node in found if type(node) in _CHECKS)
        and all(_holds_row(node, set(names)) for node in found)
        and _count_loops(tree) <= _MOST_LOOPS
    )


def _walk(node: nodes.Node, most: int) -> Iterator[nodes.Node]:
    """Yield a node and all nodes inside it; not many more than `most`."""
    waiting = [node]
    while waiting and most > 0:
        one = waiting.pop()
        most -= 1
        yield one
        waiting.extend(one.iter_child_nodes())


def _has_plain_arguments(node: nodes.Filter | nodes.Test | nodes.Call) -> bool:
    return node.dyn_args is None and node.dyn_kwargs is None


def _applies_tame(node: nodes.Filter) -> bool:
    """Say whether a filter that is told by name what to apply or read is told so plainly: `map('upper')`."""
    if node.name == "map" and node.args:
        return isinstance(node.args[0], nodes.Const) and node.args[0].value in FILTERS - _BUILDING - _APPLYING
    named = [one.value for one in node.kwargs if one.key == "attribute"]
    if node.name in _APPLYING:
        named += node.args[: 2 if "attr" in node.name else 1]
    elif node.name in _ATTRIBUTE_AT:
        named += node.args[_ATTRIBUTE_AT[node.name] :][:1]
    return all(isinstance(one, nodes.Const) for one in named)


def _calls_tame(function: nodes.Node) -> bool:
    if isinstance(function, nodes.Name):
        return function.name in _FUNCTIONS
    return isinstance(function, nodes.Getattr) and function.attr in METHODS


_CHECKS: Final[dict[type[nodes.Node], Callable[[Any], bool]]] = {
    nodes.Const: lambda node: not (isinstance(node.value, str) and "__" in node.value),
    nodes.Getattr: lambda node: not node.attr.startswith("_"),
    nodes.Getitem: lambda node: (
        not (isinstance(node.arg, nodes.Const) and str(node.arg.value).startswith("_"))
    ),
    nodes.For: lambda node: not node.recursive,
    nodes.Filter: lambda node: node.name in FILTERS and _has_plain_arguments(node) and _applies_tame(node),
    nodes.Test: _has_plain_arguments,
    nodes.Call: lambda node: _has_plain_arguments(node) and _calls_tame(node.node),
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
