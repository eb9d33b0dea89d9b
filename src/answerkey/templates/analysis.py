"""What a template is, from its text alone: whether it parses, what it reads, and whether it is
bounded.

A bounded template consists of nothing but what is listed here, so that all it can do is to go
through the row a few times. It sets no variable, calls no function of its own, and names nothing
with an underscore in front. Whatever else there is, now or in a later Jinja, is not bounded, and is
rendered in a worker process with limits.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from jinja2 import TemplateSyntaxError, nodes
from jinja2.meta import TrackingCodeGenerator

from answerkey.errors import Place, SpecError, listing, suggest
from answerkey.templates.environment import open_environment
from answerkey.templates.limits import MOST_BITS
from answerkey.trace import TRACE_METHODS

_LONGEST_SOURCE = 2_000_000
#: The text between two blocks is one token.
MOST_TOKENS = 20_000
#: The constant steps from a name of a template to a value; none at all: the name as a whole.
Path = tuple[str | int, ...]


def parse_template(source: str, names: Sequence[str]) -> nodes.Template:
    """Return the syntax tree of a template whose names, filters and tests all exist.

    Raise SpecError E112.
    """
    if len(source) > _LONGEST_SOURCE:
        message = f"the template has {len(source):,} characters; {_LONGEST_SOURCE:,} are allowed"
        raise SpecError("E112", message, where=Place(line=1))
    with translate_syntax_errors(source):
        _limit_tokens(source)
        tree = open_environment().parse(source)
        _check_filters(tree)
        _check_names(tree, names)
    return tree


def _limit_tokens(source: str) -> None:
    """Raise TemplateSyntaxError for a template that is longer than any honest one."""
    count = 0
    for line, kind, _ in open_environment().lex(source):
        count += kind != "whitespace"
        if count > MOST_TOKENS:
            raise TemplateSyntaxError(f"it has more than {MOST_TOKENS:,} words and signs", line)


@contextmanager
def translate_syntax_errors(source: str) -> Iterator[None]:
    """Turn what Jinja and Python raise for a text that is no template into SpecError E112."""
    hint = "a template is written `{{ sample.answer }}`, filters behind `|`, text in quotes"
    line = None
    try:
        with warnings.catch_warnings():
            # In Jinja `'\d'` in quotes is fine, but Python's decoder warns about it.
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    except (RecursionError, MemoryError, SyntaxError):
        message = "template does not parse: it is nested too deeply"
        hint = "put fewer blocks into each other"
    except TemplateSyntaxError as error:
        message = f"template does not parse: {error.message}"
        line = error.lineno
        if r"\|" in source and "unexpected char" in message:
            hint = "write `|`; the backslash comes from a Markdown table"
    except ValueError as error:
        message = f"template does not parse: {error}"
    else:
        return
    raise SpecError("E112", message, where=Place(line=line), hint=hint)


def _refuse(node: nodes.Node, message: str, hint: str | None) -> SpecError:
    return SpecError("E112", message, where=Place(line=node.lineno), hint=hint)


def _check_filters(tree: nodes.Template) -> None:
    """Raise SpecError for a filter or test that does not exist, and for reading other files."""
    environment = open_environment()
    for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
        message = f"`{type(node).__name__.lower()}` is not available in templates"
        raise _refuse(node, message, "`!include` puts a file into the YAML")
    for test in tree.find_all(nodes.Test):
        _check_exists(test, test.name, environment.tests)
    for applied in tree.find_all(nodes.Filter):
        _check_exists(applied, applied.name, environment.filters)


def _check_exists(node: nodes.Node, name: str, available: Iterable[str]) -> None:
    if name not in available:
        message = f"no {type(node).__name__.lower()} is named `{name}`"
        raise _refuse(node, message, suggest(name, available))


def _check_names(tree: nodes.Template, names: Sequence[str]) -> None:
    """Raise SpecError for a name that the template neither sees nor sets.

    Whether a name is there that only a branch of an `if` sets, the row decides.
    """
    tracker = TrackingCodeGenerator(open_environment())
    # Constants are computed without any limit.
    tracker.optimizer = None
    tracker.visit(tree)
    unknown = tracker.undeclared_identifiers - set(names)
    for branch in tree.find_all(nodes.If):
        unknown -= _find_assigned(branch)
    for node in tree.find_all((nodes.Name, nodes.NSRef)):
        name = str(vars(node)["name"])
        if name in unknown:
            hint = suggest(name, names) or f"a column is reached as `sample.{name}`;"
            message = f"`{name}` is not defined in this template"
            raise _refuse(node, message, f"{hint} names: {listing(names)}")


def _find_assigned(node: nodes.Node) -> set[str]:
    """Return the names that a part of a template sets."""
    names = {macro.name for macro in node.find_all(nodes.Macro)}
    for name in node.find_all(nodes.Name):
        if name.ctx != "load":
            names.add(name.name)
    return names


def find_lone_expression(tree: nodes.Template) -> nodes.Expr | None:
    """Return the expression that a template consists of, or None.

    White space and comments around it do not count.
    """
    if len(tree.body) != 1 or not isinstance(tree.body[0], nodes.Output):
        return None
    expressions = []
    for node in tree.body[0].nodes:
        if not isinstance(node, nodes.TemplateData) or node.data.strip():
            expressions.append(node)
    if len(expressions) != 1 or isinstance(expressions[0], nodes.TemplateData):
        return None
    return expressions[0]


def find_path(node: nodes.Node, name: str = "sample") -> Path | None:
    """Return the constant steps that lead from a name to a node; None for any other node."""
    path: Path = ()
    while not isinstance(node, nodes.Name):
        if isinstance(node, nodes.Getattr):
            path = (node.attr, *path)
        elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
            if type(node.arg.value) not in (str, int):
                return None
            path = (node.arg.value, *path)
        else:
            return None
        node = node.node
    if node.name != name:
        return None
    return path


def find_paths(node: nodes.Node, name: str) -> Iterator[Path]:
    """Yield where constant steps lead from a name, as far as they go: `scores.a.b` is `.a.b`.

    A method that is called is no step.
    """
    path = find_path(node, name)
    if path is not None:
        yield path
        return
    children = list(node.iter_child_nodes())
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
        children.remove(node.node)
        children.append(node.node.node)
    for child in children:
        yield from find_paths(child, name)


#: What a bounded template may consist of: exactly these, not what is derived from them.
_BOUNDED_NODES = frozenset(
    [
        "Add",
        "And",
        "Break",
        "Call",
        "Compare",
        "Concat",
        "CondExpr",
        "Const",
        "Continue",
        "Dict",
        "Div",
        "Filter",
        "For",
        "Getattr",
        "Getitem",
        "If",
        "Keyword",
        "List",
        "Name",
        "Neg",
        "Not",
        "Operand",
        "Or",
        "Output",
        "Pair",
        "Pos",
        "Slice",
        "Sub",
        "Template",
        "TemplateData",
        "Test",
        "Tuple",
    ]
)
BOUNDED_FILTERS = frozenset(
    [
        "count",
        "d",
        "default",
        "first",
        "fromjson",
        "int",
        "join",
        "json_escape",
        "last",
        "length",
        "list",
        "lower",
        "map",
        "reverse",
        "string",
        "tojson",
        "trim",
        "upper",
        "zip",
    ]
)
#: Those that `map` may apply to each element.
_MAPPED_FILTERS = BOUNDED_FILTERS - {"map", "zip"}
BOUNDED_METHODS = frozenset(
    [
        "count",
        "endswith",
        "find",
        "get",
        "index",
        "items",
        "keys",
        "lower",
        "lstrip",
        "removeprefix",
        "removesuffix",
        "rsplit",
        "rstrip",
        "split",
        "splitlines",
        "startswith",
        "strip",
        "upper",
        "values",
        *TRACE_METHODS,
    ]
)


def is_bounded(tree: nodes.Template, names: Sequence[str]) -> bool:
    """Say whether a template that sees these names is bounded."""
    names_in_reach = {*names, *_find_assigned(tree), "loop", "range"}
    waiting: list[nodes.Node] = [tree]
    for node in waiting:
        waiting.extend(node.iter_child_nodes())
        if len(waiting) > 500 or type(node).__name__ not in _BOUNDED_NODES:  # noqa: PLR2004 - long
            return False
        if isinstance(node, nodes.Name) and node.name not in names_in_reach:
            return False
        if not _is_bounded_node(node, names):
            return False
    return _count_loops(tree) <= 3  # noqa: PLR2004 - the row is gone through a few times


def _is_bounded_node(node: nodes.Node, names: Sequence[str]) -> bool:
    """Say whether one node is bounded.

    A list holds only what the row has: `[x, x]` in nested loops doubles its size with each.
    """
    match node:
        case nodes.List() | nodes.Dict() | nodes.Tuple(ctx="load"):
            return all(name.name in names for name in node.find_all(nodes.Name))
        case nodes.Const():
            return _is_bounded_constant(node.value)
        case nodes.Getattr():
            return not node.attr.startswith("_")
        case nodes.Getitem(arg=nodes.Const(value=key)):
            return not str(key).startswith("_")
        case nodes.For():
            return not node.recursive
        case nodes.Filter():
            return _is_bounded_filter(node)
        case nodes.Test():
            return _has_plain_arguments(node)
        case nodes.Call():
            return _is_bounded_call(node)
    return True


def _is_bounded_constant(value: object) -> bool:
    if isinstance(value, int):
        return value.bit_length() <= MOST_BITS
    return not isinstance(value, str) or (len(value) <= MOST_BITS and "__" not in value)


def _has_plain_arguments(node: nodes.Filter | nodes.Test | nodes.Call) -> bool:
    return node.dyn_args is None and node.dyn_kwargs is None


def _is_bounded_call(node: nodes.Call) -> bool:
    if isinstance(node.node, nodes.Getattr):
        is_allowed = node.node.attr in BOUNDED_METHODS
    else:
        is_allowed = isinstance(node.node, nodes.Name) and node.node.name == "range"
    return is_allowed and _has_plain_arguments(node)


def _is_bounded_filter(node: nodes.Filter) -> bool:
    """Say whether a filter is bounded: what it applies or reads by name must be a constant."""
    if node.name not in BOUNDED_FILTERS or not _has_plain_arguments(node):
        return False
    if node.name == "join":
        return len(node.args) <= 1 and not node.kwargs
    if node.name != "map":
        return True
    if node.args:
        applied = node.args[0]
        return isinstance(applied, nodes.Const) and applied.value in _MAPPED_FILTERS
    return all(isinstance(keyword.value, nodes.Const) for keyword in node.kwargs)


def _count_loops(node: nodes.Node) -> int:
    """Return how many loops are nested inside each other."""
    inner = max(map(_count_loops, node.iter_child_nodes()), default=0)
    if isinstance(node, nodes.For):
        return inner + 1
    return inner
