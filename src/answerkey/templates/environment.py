"""The Jinja environment of rows, and the analysis of templates before they are rendered.

The environment is sandboxed and strict, and counts steps; a field of a mapping takes precedence
over a method of the same name.

A bounded template uses only the nodes, filters and methods listed here, so that it can do no more
than iterate over the row a few times. It sets no variable, calls no function of its own, and uses
no name that begins with an underscore. Anything else, now or in a later Jinja, is not bounded and
is rendered in a worker process with limits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial

from jinja2 import (
    StrictUndefined,
    TemplateSyntaxError,
    Undefined,
    UndefinedError,
    nodes,
)
from jinja2.exceptions import SecurityError
from jinja2.meta import TrackingCodeGenerator
from jinja2.sandbox import SandboxedEnvironment, modifies_known_mutable
from jinja2.utils import missing
from jinja2.visitor import NodeTransformer

from answerkey.errors import Place, SpecError, listing, suggest
from answerkey.templates.filters import FILTERS, JOIN_TEXT, LOOP_STEPS, print_value
from answerkey.templates.limits import (
    CALL_STEPS,
    FILTER_STEPS,
    MAX_BITS,
    MAX_LOOPS,
    MAX_NODES,
    STEP_TEXT,
    RowContext,
    Value,
    measure,
)
from answerkey.templates.values import MissingName, explain_missing, fail_undefined
from answerkey.trace import TRACE_METHODS, is_trace_like

#: Filters of bounded templates that iterate over all elements of their input.
_ITERATING_FILTERS = frozenset(["list", "map", "reverse", "zip"])
_MAX_SOURCE_LENGTH = 2_000_000
#: The maximum number of tokens; the text between two blocks is one token.
MAX_TOKENS = 20_000
#: The constant steps from a name in a template to a value; empty for the name itself.
Path = tuple[str | int, ...]


class StrictName(StrictUndefined):
    """An undefined name: using or printing it fails, with an error that lists the defined ones."""

    def __init__(self, *arguments: Value, **options: Value) -> None:
        super().__init__(*arguments, **options)
        if self._undefined_exception is UndefinedError and self._undefined_hint is None:
            # Jinja calls this with its own message; ours is built only when the error is raised.
            self._undefined_exception = self._explain  # type: ignore[assignment]

    def _explain(self, _message: str) -> MissingName:
        name = self._undefined_name
        if self._undefined_obj is missing:
            hint = "set it in every branch, or before the first"
            return MissingName(f"`{name}` is not defined in this row", hint=hint)
        return explain_missing(self._undefined_obj, name)

    def __repr__(self) -> str:
        return str(self)


class UncalledMethod(StrictName):
    """A method of a mapping without a key of that name: it can be called, but is otherwise
    undefined.

    As text it would be its memory address, which changes each time.
    """

    method: Callable[..., Value]


class RowEnvironment(SandboxedEnvironment):
    """The sandbox: values of the row can be read, but not changed; private attributes are
    inaccessible.

    A template may change lists and mappings that it has created. Its steps are counted.
    """

    intercepted_binops = frozenset(["+"])
    context_class = RowContext

    def __init__(self, **options: Value) -> None:
        super().__init__(**options)
        self.filters |= FILTERS
        # Each call would return a different value.
        del self.filters["random"]
        del self.globals["lipsum"]

    def getattr(self, obj: Value, attribute: str) -> Value:
        """Return `obj.attribute`; for a mapping, first the key, then a method of a trace or
        dict.
        """
        if not isinstance(obj, dict):
            return super().getattr(obj, attribute)
        if attribute in obj:
            return obj[attribute]
        if attribute in TRACE_METHODS and is_trace_like(obj):
            method: Value = partial(TRACE_METHODS[attribute], obj)
        elif hasattr(dict, attribute):
            method = super().getattr(obj, attribute)
        else:
            return self.undefined(obj=obj, name=attribute)
        if isinstance(method, Undefined):
            return method
        uncalled = UncalledMethod(obj=obj, name=attribute)
        uncalled.method = method
        return uncalled

    def getitem(self, obj: Value, argument: Value) -> Value:
        """Return `obj[argument]`; for a mapping, always a key."""
        if isinstance(argument, Undefined):
            fail_undefined(argument)
        if not isinstance(obj, dict):
            return super().getitem(obj, argument)
        try:
            return obj[argument]
        except (KeyError, TypeError):
            return self.undefined(obj=obj, name=argument)

    def is_safe_attribute(
        self,
        obj: Value,
        attr: str,
        value: Value,
    ) -> bool:
        """Return whether an attribute may be read; methods of a class (`dict.update`) may not."""
        return not isinstance(obj, type) and super().is_safe_attribute(obj, attr, value)

    def call_binop(
        self,
        context: RowContext,  # type: ignore[override]  # our own
        operator: str,
        left: Value,
        right: Value,
    ) -> Value:
        """Return a sum, unless it would be absurdly large."""
        if isinstance(left, (str, list, tuple)):
            context.budget.spend_text(measure(left) + measure(right))
        return super().call_binop(context, operator, left, right)

    def call(
        self,
        context: RowContext,  # type: ignore[override]  # our own
        function: Value,
        /,
        *args: Value,
        **kwargs: Value,
    ) -> Value:
        """Return the value of a call, which may neither change the row nor create too large a
        value.
        """
        context.budget.spend(CALL_STEPS)
        if isinstance(function, UncalledMethod):
            function = function.method
        owner = getattr(function, "__self__", None)
        if owner is not None:
            if isinstance(owner, str):
                context.budget.spend(len(owner) // STEP_TEXT)
            values = [*args, *kwargs.values()]
            _check_method(context, owner, function.__name__, values)
        return super().call(context, function, *args, **kwargs)

    def _generate(
        self,
        source: nodes.Template,
        *arguments: Value,
        **options: Value,
    ) -> str:
        """Return the code of a template whose loops and `~` are counted."""
        _Guards().visit(source)
        source.set_environment(self)
        return super()._generate(source, *arguments, **options)


def _check_method(
    context: RowContext,
    owner: Value,
    name: str,
    values: list[Value],
) -> None:
    """Raise SecurityError for a method that reaches out of the sandbox or changes the row."""
    if isinstance(owner, type):
        raise SecurityError(f"`{name}` is a method of a class")
    if any(map(callable, values)):
        # It would be called unchecked: `xs.sort(key=sample.choices.append)` changes the row.
        raise SecurityError(f"a function cannot be passed to `{name}`")
    if modifies_known_mutable(owner, name) and context.holds(owner):
        raise SecurityError(f"`{name}` would change a value of the row")


class _Guards(NodeTransformer):
    """Wraps the input of loops and filters, and the operands of `~`, in a counting filter."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 - Jinja's own naming
        self.generic_visit(node)
        weight = 1
        for part in nodes.Template(node.body).find_all(nodes.Node):
            weight += 1
            if isinstance(part, nodes.TemplateData):
                weight += len(part.data) // STEP_TEXT
        node.iter = _apply(LOOP_STEPS, node.iter, nodes.Const(weight))
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Filter:  # noqa: N802 - Jinja's own naming
        self.generic_visit(node)
        if node.name in _ITERATING_FILTERS and node.node is not None:
            node.node = _apply(LOOP_STEPS, node.node, nodes.Const(FILTER_STEPS))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802 - Jinja's own naming
        self.generic_visit(node)
        return _apply(JOIN_TEXT, nodes.List(node.nodes, lineno=node.lineno))


def _apply(name: str, value: nodes.Node, *arguments: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(
        value,
        name,
        list(arguments),
        [],
        None,
        None,
        lineno=value.lineno,
    )


@cache
def open_environment() -> RowEnvironment:
    """Return the one environment of all templates."""
    return RowEnvironment(
        extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
        undefined=StrictName,
        finalize=print_value,
        autoescape=False,
        # Jinja would fold constants at compile time without any limit.
        optimized=False,
    )


# Static analysis of templates.


def parse_template(source: str, names: Sequence[str]) -> nodes.Template:
    """Return the syntax tree of a template whose names, filters and tests all exist.

    Raise SpecError E112.
    """
    if len(source) > _MAX_SOURCE_LENGTH:
        message = f"the template has {len(source):,} characters; {_MAX_SOURCE_LENGTH:,} are allowed"
        raise SpecError("E112", message, where=Place(line=1))
    environment = open_environment()
    with translate_syntax_errors(source):
        count = 0
        for line, kind, _ in environment.lex(source):
            count += kind != "whitespace"
            if count > MAX_TOKENS:
                message = f"it has more than {MAX_TOKENS:,} tokens"
                raise TemplateSyntaxError(message, line)
        tree = environment.parse(source)
        _check_filters(tree)
        _check_names(tree, names)
    return tree


@contextmanager
def translate_syntax_errors(source: str) -> Iterator[None]:
    """Turn the exceptions of Jinja and Python for an invalid template into SpecError E112."""
    hint = "a template looks like `{{ sample.answer }}`, with filters after `|` and text in quotes"
    line = None
    try:
        with warnings.catch_warnings():
            # `'\d'` in quotes is valid in Jinja, but Python's decoder warns about it.
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    except (RecursionError, MemoryError, SyntaxError):
        message = "template does not parse: it is nested too deeply"
        hint = "nest fewer blocks"
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
    """Raise SpecError for an unknown filter or test, and for reading other files."""
    environment = open_environment()
    for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
        message = f"`{type(node).__name__.lower()}` is not available in templates"
        raise _refuse(node, message, "use `!include` in the YAML instead")
    for applied in tree.find_all((nodes.Test, nodes.Filter)):
        kind = type(applied).__name__.lower()
        names = environment.tests if kind == "test" else environment.filters
        if applied.name not in names:
            message = f"no {kind} is named `{applied.name}`"
            raise _refuse(applied, message, suggest(applied.name, names))


def _check_names(tree: nodes.Template, names: Sequence[str]) -> None:
    """Raise SpecError for a name that is neither given to the template nor set in it.

    A name that is set only in a branch of an `if` may be defined in some rows and not in others.
    """
    tracker = TrackingCodeGenerator(open_environment())
    # Jinja would compute constants without any limit.
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
    macros = {macro.name for macro in node.find_all(nodes.Macro)}
    return macros | {name.name for name in node.find_all(nodes.Name) if name.ctx != "load"}


def find_lone_expression(tree: nodes.Template) -> nodes.Expr | None:
    """Return the expression if a template is a single one, or None.

    White space and comments around it are ignored.
    """
    if len(tree.body) != 1 or not isinstance(tree.body[0], nodes.Output):
        return None
    expressions = []
    for node in tree.body[0].nodes:
        if not isinstance(node, nodes.TemplateData):
            expressions.append(node)
        elif node.data.strip():
            return None
    return expressions[0] if len(expressions) == 1 else None


def find_path(node: nodes.Node, name: str = "sample") -> Path | None:
    """Return the constant steps that lead from a name to a node; None if the node is anything
    else.
    """
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
    """Yield the longest constant paths that start at a name: `scores.a.b` gives `.a.b`.

    A method call is not part of a path.
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


def _list_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: The node types of a bounded template: exactly these, without subclasses.
_BOUNDED_NODES = _list_words(
    "Add And Break Call Compare Concat CondExpr Const Continue Dict Div Filter For Getattr "
    "Getitem If Keyword List Name Neg Not Operand Or Output Pair Pos Slice Sub Template "
    "TemplateData Test Tuple"
)
BOUNDED_FILTERS = _list_words(
    "count d default first fromjson int join json_escape last length list lower map reverse "
    "string tojson trim upper zip"
)
#: The filters that `map` may apply to each element.
_MAPPED_FILTERS = BOUNDED_FILTERS - {"map", "zip"}
BOUNDED_METHODS = _list_words(
    "count endswith find get index items keys lower lstrip removeprefix removesuffix rsplit "
    "rstrip split splitlines startswith strip upper values"
).union(TRACE_METHODS)


def is_bounded(tree: nodes.Template, names: Sequence[str]) -> bool:
    """Return whether a template that is given these names is bounded."""
    names_in_reach = {*names, *_find_assigned(tree), "loop", "range"}
    waiting: list[nodes.Node] = [tree]
    for node in waiting:
        waiting.extend(node.iter_child_nodes())
        if len(waiting) > MAX_NODES or type(node).__name__ not in _BOUNDED_NODES:
            return False
        if isinstance(node, nodes.Name) and node.name not in names_in_reach:
            return False
        if not _is_bounded_node(node, names):
            return False
    return _count_loops(tree) <= MAX_LOOPS


def _is_bounded_node(node: nodes.Node, names: Sequence[str]) -> bool:
    """Return whether one node is bounded.

    A list may not repeat values: `[x, x]` in nested loops doubles its size with each loop.
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
        return value.bit_length() <= MAX_BITS
    return not isinstance(value, str) or (len(value) <= MAX_BITS and "__" not in value)


def _has_plain_arguments(node: nodes.Filter | nodes.Test | nodes.Call) -> bool:
    return node.dyn_args is None and node.dyn_kwargs is None


def _is_bounded_call(node: nodes.Call) -> bool:
    if isinstance(node.node, nodes.Getattr):
        is_allowed = node.node.attr in BOUNDED_METHODS
    else:
        is_allowed = isinstance(node.node, nodes.Name) and node.node.name == "range"
    return is_allowed and _has_plain_arguments(node)


def _is_bounded_filter(node: nodes.Filter) -> bool:
    """Return whether a filter is bounded: names of filters and attributes in it must be
    constants.
    """
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
    """Return the depth of nested loops."""
    inner = max(map(_count_loops, node.iter_child_nodes()), default=0)
    if isinstance(node, nodes.For):
        return inner + 1
    return inner
