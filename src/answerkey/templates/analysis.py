"""What a parsed template is: a lone expression, a column; and what it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from jinja2 import meta, nodes

from answerkey.errors import Place, SpecError, listing, suggest
from answerkey.templates.environment import NOT_REPEATABLE, RowEnvironment

#: The constant steps from a name of a template to a value; none at all: the name as a whole.
Path = tuple["Step", ...]

_OTHER_FILES: Final = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


@dataclass(frozen=True)
class Step:
    """One step of a path: `.key` (attribute) or `[key]` (subscript)."""

    kind: Literal["attribute", "subscript"]
    key: str | int

    def take(self, value: object, environment: RowEnvironment) -> object:
        """Return what the step leads to from a value, as Jinja does."""
        if self.kind == "attribute":
            return environment.getattr(value, str(self.key))
        return environment.getitem(value, self.key)


def find_lone_expression(tree: nodes.Template) -> nodes.Expr | None:
    """Return the expression that a template consists of, white space and comments apart, or None."""
    if len(tree.body) != 1 or not isinstance(tree.body[0], nodes.Output):
        return None
    printed = [node for node in tree.body[0].nodes if not _is_blank(node)]
    if len(printed) != 1 or isinstance(printed[0], nodes.TemplateData):
        return None
    return printed[0]


def _is_blank(node: nodes.Node) -> bool:
    return isinstance(node, nodes.TemplateData) and not node.data.strip()


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


def find_path(expression: nodes.Expr) -> Path | None:
    """Return the steps from `sample` to the value, if the expression is nothing but constant steps."""
    steps = _find_steps(expression, "sample")
    return steps if steps and isinstance(steps[0].key, str) else None


def _find_steps(node: nodes.Node, name: str) -> Path | None:
    """Return the constant steps that lead from a name to a node; None for any other node."""
    steps: list[Step] = []
    while not isinstance(node, nodes.Name):
        step = read_step(node)
        if step is None:
            return None
        steps.append(step)
        node = node.node  # type: ignore[attr-defined]
    return tuple(reversed(steps)) if node.name == name else None


def read_step(node: nodes.Node) -> Step | None:
    """Return the constant step that a node takes from its owner; None for any other node."""
    if isinstance(node, nodes.Getattr):
        return Step("attribute", node.attr)
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        key = node.arg.value
        return Step("subscript", key) if type(key) in (str, int) else None
    return None


def find_paths_from(tree: nodes.Template, name: str) -> frozenset[tuple[str | int, ...]]:
    """Return where constant steps lead from a name, as far as they go: `scores.a.b` is `("a", "b")`.

    A method that is called is no step.
    """
    return frozenset(tuple(step.key for step in path) for path in _walk_paths(tree, name))


def find_reads(tree: nodes.Template, names: Sequence[str]) -> dict[str, frozenset[Path]]:
    """Return all that a template reads of each name, as the shortest paths that lead to it."""
    reads: dict[str, frozenset[Path]] = {}
    for name in names:
        paths = frozenset(_walk_paths(tree, name))
        if paths:
            reads[name] = frozenset(path for path in paths if not _has_shorter(path, paths))
    return reads


def _has_shorter(path: Path, paths: frozenset[Path]) -> bool:
    return any(path[:length] in paths for length in range(len(path)))


def _walk_paths(node: nodes.Node, name: str) -> Iterator[Path]:
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
        for child in [node.node.node, *(one for one in node.iter_child_nodes() if one is not node.node)]:
            yield from _walk_paths(child, name)
        return
    steps = _find_steps(node, name)
    if steps is not None:
        yield steps
        return
    for child in node.iter_child_nodes():
        yield from _walk_paths(child, name)


def find_columns(tree: nodes.Template) -> frozenset[str] | None:
    """Return the columns of `sample` that a template reads; None: any, because it uses the row as a whole."""
    found = list(_walk_columns(tree))
    return None if None in found else frozenset(name for name in found if name is not None)


def _walk_columns(node: nodes.Node) -> Iterator[str | None]:
    if isinstance(node, nodes.Name):
        if node.name == "sample":
            yield None
        return
    if isinstance(node, nodes.Call) and _is_of_sample(node.node) and hasattr(dict, _read_key(node.node)):
        yield None
    if _is_of_sample(node):
        yield _read_key(node)
        return
    for child in node.iter_child_nodes():
        yield from _walk_columns(child)


def _is_of_sample(node: nodes.Node) -> bool:
    """Say whether a node is `sample.x` or `sample['x']`."""
    owner = node.node if isinstance(node, (nodes.Getattr, nodes.Getitem)) else None
    if not isinstance(owner, nodes.Name) or owner.name != "sample":
        return False
    step = read_step(node)
    return step is not None and isinstance(step.key, str)


def _read_key(node: nodes.Node) -> str:
    step = read_step(node)
    return str(step.key) if step else ""


def check_tree(tree: nodes.Template, environment: RowEnvironment, names: Sequence[str]) -> None:
    """Raise SpecError for a filter, a test or a name that does not exist, and for reading other files."""
    for foreign in tree.find_all(_OTHER_FILES):
        word = type(foreign).__name__.lower()
        raise _refuse(
            f"`{word}` is not available in templates", foreign, "`!include` puts a file into the YAML"
        )
    for one in tree.find_all(nodes.Filter):
        for name in _name_filters(one):
            _check_repeatable(name, one)
        if one.name not in environment.filters:
            raise _refuse(f"no filter is named `{one.name}`", one, suggest(one.name, environment.filters))
    for test in tree.find_all(nodes.Test):
        if test.name not in environment.tests:
            raise _refuse(f"no test is named `{test.name}`", test, suggest(test.name, environment.tests))
    _check_names(tree, names)


def _check_repeatable(name: object, node: nodes.Node) -> None:
    if isinstance(name, str) and name in NOT_REPEATABLE:
        message = f"`{name}` is not available: the same row must always give the same value"
        raise _refuse(message, node, NOT_REPEATABLE[name])


def _name_filters(node: nodes.Filter) -> Iterator[object]:
    """Yield the names of the filters that a node applies; `map('x')` names another in a text."""
    yield node.name
    if node.name == "map":
        yield from (one.value for one in node.args[:1] if isinstance(one, nodes.Const))


def _check_names(tree: nodes.Template, names: Sequence[str]) -> None:
    unknown = meta.find_undeclared_variables(tree) - set(names)
    for node in _walk_loads(tree, set()) if unknown else ():
        if node.name in unknown:
            _check_repeatable(node.name, node)
            hint = f"{_advise(tree, node, names)} names: {listing(names)}"
            raise _refuse(f"`{node.name}` is not defined in this template", node, hint)


def _walk_loads(node: nodes.Node, known: set[str]) -> Iterator[nodes.Name | nodes.NSRef]:
    """Yield where a name is used that the template has set nowhere before; `known` takes in what it sets.

    A name that one branch of an `if` sets is known after it: whether it is there, the row decides.
    """
    if isinstance(node, (nodes.Name, nodes.NSRef)):
        if isinstance(node, nodes.Name) and node.ctx != "load":
            known.add(node.name)
        elif node.name not in known:
            yield node
    elif isinstance(node, nodes.If):
        yield from _walk_branches(node, known)
    elif type(node) in _SCOPES:
        yield from _walk_scope(node, known)
    else:
        # What is assigned stands before its value in the tree, and is there after it.
        children = list(node.iter_child_nodes())
        is_target = isinstance(node, nodes.Assign)
        for child in reversed(children) if is_target else children:
            yield from _walk_loads(child, known)


def _walk_branches(node: nodes.If, known: set[str]) -> Iterator[nodes.Name | nodes.NSRef]:
    yield from _walk_loads(node.test, known)
    found = set(known)
    branches: list[Sequence[nodes.Node]] = [node.body, *([one] for one in node.elif_), node.else_]
    for branch in branches:
        inner = set(known)
        yield from _walk_all(branch, inner)
        found |= inner
    known |= found


def _walk_scope(node: nodes.Node, known: set[str]) -> Iterator[nodes.Name | nodes.NSRef]:
    """Yield the same of a statement whose names end with it."""
    scope = _SCOPES[type(node)](node)
    yield from _walk_all(scope.before, known)
    for own in scope.inside:
        yield from _walk_all(own, {*known, *scope.names})
    yield from _walk_all(scope.after, known)
    if isinstance(node, nodes.Macro):
        known.add(node.name)


def _walk_all(found: Iterable[nodes.Node | None], known: set[str]) -> Iterator[nodes.Name | nodes.NSRef]:
    for one in found:
        yield from _walk_loads(one, known) if one is not None else ()


@dataclass(frozen=True)
class _Scope:
    """The parts of a statement: outside its scope, and each list inside it; `names` are those it brings."""

    inside: Sequence[Sequence[nodes.Node | None]]
    before: Sequence[nodes.Node | None] = ()
    after: Sequence[nodes.Node] = ()
    names: Sequence[str] = ()


_SCOPES: Final[dict[type[nodes.Node], Callable[[Any], _Scope]]] = {
    nodes.For: lambda node: _Scope(
        [[node.target, node.test, *node.body], node.else_], before=[node.iter], names=["loop"]
    ),
    nodes.With: lambda node: _Scope([[*node.targets, *node.body]], before=node.values),
    nodes.Macro: lambda node: _Scope(
        [[*node.args, *node.defaults, *node.body]], names=[node.name, "caller", "varargs", "kwargs"]
    ),
    nodes.CallBlock: lambda node: _Scope([[*node.args, *node.defaults, *node.body]], before=[node.call]),
    nodes.FilterBlock: lambda node: _Scope([node.body], before=[node.filter]),
    nodes.AssignBlock: lambda node: _Scope([node.body], before=[node.filter], after=[node.target]),
    nodes.Scope: lambda node: _Scope([node.body]),
    nodes.ScopedEvalContextModifier: lambda node: _Scope([node.body], before=node.options),
    nodes.Block: lambda node: _Scope([node.body]),
}


def _advise(tree: nodes.Template, node: nodes.Name | nodes.NSRef, names: Sequence[str]) -> str:
    for difference in tree.find_all(nodes.Sub):
        if difference.right is node and _is_of_sample(difference.left):
            column = f"{_read_key(difference.left)}-{node.name}"
            return f"a column with a hyphen is reached as `sample['{column}']`;"
    return suggest(node.name, names) or f"a column is reached as `sample.{node.name}`;"


def _refuse(message: str, node: nodes.Node, hint: str | None) -> SpecError:
    return SpecError("E112", message, where=Place(line=node.lineno), hint=hint)
