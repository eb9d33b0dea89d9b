"""The Jinja that rows are rendered with: sandboxed, strict, with counted steps.

A field of a mapping comes before a method of the same name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from jinja2 import (
    StrictUndefined,
    Undefined,
    UndefinedError,
    nodes,
)
from jinja2.exceptions import SecurityError
from jinja2.sandbox import SandboxedEnvironment, modifies_known_mutable
from jinja2.utils import missing
from jinja2.visitor import NodeTransformer

from answerkey.templates.filters import FILTERS, JOIN_TEXT, LOOP_STEPS, print_value
from answerkey.templates.limits import (
    CALL_STEPS,
    FILTER_STEPS,
    STEP_TEXT,
    RowContext,
    measure,
)
from answerkey.templates.values import MissingName, explain_missing, fail_undefined
from answerkey.trace import TRACE_METHODS, is_trace_like

#: What Jinja and filters hand around: any value at all.
Value = Any
#: Filters of bounded templates that go through all elements of what they are given.
_ITERATING_FILTERS = frozenset(["list", "map", "reverse", "zip"])


class StrictName(StrictUndefined):
    """A name that is not there: using or printing it fails, with an error that lists what is."""

    def __init__(self, *arguments: Value, **options: Value) -> None:
        super().__init__(*arguments, **options)
        if self._undefined_exception is UndefinedError and self._undefined_hint is None:
            # Jinja calls this with its own message; ours is built only when it is raised.
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
    """A method of a mapping without such a key: it can be called, and is undefined otherwise.

    As text it would be its address in memory, another one each time.
    """

    def __init__(self, method: Callable[..., Value], *, obj: object, name: str) -> None:
        super().__init__(obj=obj, name=name)
        self.method = method


class RowEnvironment(SandboxedEnvironment):
    """The sandbox: values of the row can be read, not changed; private attributes are out of reach.

    A template may change the lists and mappings that it makes itself. What it does is counted, step
    by step.
    """

    intercepted_binops = frozenset(["+"])
    context_class = RowContext

    def __init__(self, **options: Value) -> None:
        super().__init__(**options)
        self.filters |= FILTERS
        # Each call would give another value.
        del self.filters["random"]
        del self.globals["lipsum"]

    def getattr(self, obj: Value, attribute: str) -> Value:
        """Return `obj.attribute`; of a mapping the key first, then a method of a trace or dict."""
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
        return UncalledMethod(
            method,
            obj=obj,
            name=attribute,
        )

    def getitem(self, obj: Value, argument: Value) -> Value:
        """Return `obj[argument]`; of a mapping only ever a key."""
        if isinstance(argument, Undefined):
            fail_undefined(argument)
        if not isinstance(obj, dict):
            return super().getitem(obj, argument)
        try:
            return obj[argument]
        except (KeyError, TypeError):
            return self.undefined(obj=obj, name=argument)

    def is_safe_attribute(self, obj: Value, attr: str, value: Value) -> bool:
        """Say whether an attribute may be read; a method of a class (`dict.update`) may not."""
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
        """Return what a call yields; it may neither change the row nor make too much."""
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

    def _generate(self, source: nodes.Template, *arguments: Value, **options: Value) -> str:
        """Return the code of a template whose loops and `~` are counted."""
        _Guards().visit(source)
        source.set_environment(self)
        return super()._generate(source, *arguments, **options)


def _check_method(context: RowContext, owner: Value, name: str, values: list[Value]) -> None:
    """Raise SecurityError for a method that reaches out of the sandbox or changes the row."""
    if isinstance(owner, type):
        raise SecurityError(f"`{name}` is a method of a class")
    if any(map(callable, values)):
        # It would be called unseen: `xs.sort(key=sample.choices.append)` changes the row.
        raise SecurityError(f"a function cannot be handed to `{name}`")
    if modifies_known_mutable(owner, name) and context.holds(owner):
        raise SecurityError(f"`{name}` would change a value of the row")


class _Guards(NodeTransformer):
    """Puts a filter around what a loop or a filter goes through, and around what `~` joins."""

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
        # What Jinja folds while it compiles, it computes without any limit.
        optimized=False,
    )
