"""The Jinja that rows are rendered with: sandboxed, strict, and looking for a column before a dict method."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

from jinja2 import (
    StrictUndefined,
    TemplateRuntimeError,
    TemplateSyntaxError,
    Undefined,
    UndefinedError,
    nodes,
)
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from jinja2.nodes import EvalContext
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import SandboxedEnvironment, modifies_known_mutable
from jinja2.utils import missing
from jinja2.visitor import NodeTransformer

from answerkey.templates.guarded_filters import (
    GOING_THROUGH,
    GUARDED,
    JOIN_TEXT,
    LAZY,
    LOOP_STEPS,
    guard_steps,
    print_value,
)
from answerkey.templates.jinja_filters import FILTERS
from answerkey.templates.limits import (
    CALL_STEPS,
    FILTER_STEPS,
    METHOD_SIZES,
    MOST_ELEMENTS,
    STEP_NODES,
    STEP_TEXT,
    ExcessError,
    measure_conversions,
    measure_fields,
    measure_power,
    measure_product,
    measure_sum,
)
from answerkey.templates.plain import explain_missing, explain_uncalled, fail_undefined
from answerkey.templates.row_context import RowContext
from answerkey.templates.trouble import MissingName
from answerkey.trace import TRACE_METHODS, is_trace_like

#: Of a template, in the parts that are no text.
MOST_TOKENS: Final = 20_000
#: What Jinja has and templates of rows have not: it would give another value each time.
NOT_REPEATABLE: Final = {
    "random": "take an element by its place: `| first`, or `[sample.index]`",
    "lipsum": "write the text into the template",
}


#: The usual kinds of value that are no mapping: to ask `Mapping` about each of them takes long.
_NO_MAPPINGS: Final = frozenset([str, int, float, bool, type(None), list, tuple, LoopContext])
#: What may be called of a class, as `dict.fromkeys` and `'abc'.maketrans`.
_CLASS_METHODS: Final = frozenset(["fromkeys", "maketrans"])
#: What Jinja hands to every call inside a loop or a block, and takes away again before it is made.
_JINJAS_OWN: Final = frozenset(["_loop_vars", "_block_vars"])
#: What templates ask a loop for; none of it is private.
_LOOP_NAMES: Final = frozenset(["index", "index0", "first", "last", "length", "revindex", "revindex0"])


class StrictName(StrictUndefined):
    """A name that is not there: to use it fails, to print a list of it too; the error lists what is there."""

    __slots__ = ()

    def __init__(
        self,
        hint: str | None = None,
        obj: Any = missing,  # noqa: ANN401 - Jinja's own signature
        name: str | None = None,
        exc: type[TemplateRuntimeError] = UndefinedError,
    ) -> None:
        super().__init__(hint, obj, name, exc)
        if exc is UndefinedError and hint is None:
            # Jinja calls this with its own message; ours is built only when the error is really raised.
            self._undefined_exception = self._explain  # type: ignore[assignment]

    def _explain(self, _message: str) -> MissingName:
        if self._undefined_obj is missing:
            name, hint = self._undefined_name, "set it in every branch, or before the first"
            return MissingName(f"`{name}` is not defined in this row", hint=hint)
        return explain_missing(self._undefined_obj, self._undefined_name)

    def __repr__(self) -> str:
        return str(self)


class UncalledMethod(StrictName):
    """A method of a mapping that has no such key: it can be called, and is not there for anything else.

    As text it would be its address in memory, another one each time.
    """

    __slots__ = ("_method",)

    def __init__(self, method: Callable[..., Any], *, obj: Mapping[str, Any], name: str) -> None:
        super().__init__(obj=obj, name=name)
        self._method = method

    def _explain(self, _message: str) -> MissingName:
        return explain_uncalled(self._undefined_obj, str(self._undefined_name))


class RowEnvironment(SandboxedEnvironment):
    """The sandbox: values of the row can be read, not changed; private attributes are out of reach.

    A template may change the lists and mappings that it makes itself. What it does is counted, step by step.
    """

    intercepted_binops = frozenset(["*", "**", "%", "+"])
    context_class = RowContext

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - Jinja's own options
        super().__init__(**options)
        self.direct_filters: dict[str, Callable[[Any], Any]] = {}

    def getattr(self, obj: Any, attribute: str) -> Any:  # noqa: ANN401 - Jinja's own signature
        """Return `obj.attribute`; of a mapping the key first, then a method of a trace or a dict."""
        kind = type(obj)
        if kind is LoopContext and attribute in _LOOP_NAMES:
            return getattr(obj, attribute)
        if kind not in _NO_MAPPINGS and isinstance(obj, (dict, Mapping)):
            if attribute in obj:
                return obj[attribute]
            if attribute in TRACE_METHODS and is_trace_like(obj):
                return UncalledMethod(partial(TRACE_METHODS[attribute], obj), obj=obj, name=attribute)
            if not hasattr(dict, attribute):
                return self.undefined(obj=obj, name=attribute)
            method = super().getattr(obj, attribute)
            is_refused = isinstance(method, Undefined)
            return method if is_refused else UncalledMethod(method, obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:  # noqa: ANN401 - Jinja's own signature
        """Return `obj[argument]`; of a mapping only ever a key."""
        if isinstance(argument, Undefined):
            fail_undefined(argument)
        if type(obj) in _NO_MAPPINGS or not isinstance(obj, (dict, Mapping)):
            return super().getitem(obj, argument)
        try:
            return obj[argument]
        except (KeyError, TypeError):
            return self.undefined(obj=obj, name=argument)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:  # noqa: ANN401 - Jinja's own signature
        """Say whether an attribute may be read; a method without its value (`dict.update`) may not."""
        if isinstance(obj, type):
            return attr == "fromkeys"
        return super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: RowContext, operator: str, left: Any, right: Any) -> Any:  # type: ignore[override]  # noqa: ANN401 - Jinja's own signature, and our context
        """Return a sum, product, power or remainder, unless it would be absurdly large."""
        size = 0
        if operator == "+":
            size = measure_sum(left, right)
        elif operator == "*":
            size = measure_product(left, right)
        elif operator == "**":
            context.effort.spend(measure_power(left, right))
        elif isinstance(left, (str, bytes)):
            size = measure_conversions(left if isinstance(left, str) else left.decode("latin-1"), right)
        if size:
            context.effort.spend_text(size)
        return super().call_binop(context, operator, left, right)

    def call(self, context: RowContext, function: Any, /, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]  # noqa: ANN401 - Jinja's own signature, and our context
        """Return what a call yields; it is a step, and may neither change the row nor make too much."""
        context.effort.spend(CALL_STEPS)
        if isinstance(function, UncalledMethod):
            function = function._method  # noqa: SLF001 - a method that is called
        owner = getattr(function, "__self__", None)
        if owner is not None:
            args = _check_method(context, owner, function.__name__, args, kwargs)
        elif isinstance(function, LoopContext) and args:
            args = (guard_steps(context, args[0]), *args[1:])
        return super().call(context, function, *args, **kwargs)

    def call_filter(
        self,
        name: str,
        value: Any,  # noqa: ANN401 - Jinja's own signature
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        context: Context | None = None,
        eval_ctx: EvalContext | None = None,
    ) -> Any:  # noqa: ANN401 - Jinja's own signature
        """Return what a filter makes of a value; `map` asks for it element by element."""
        direct = None if args or kwargs else self.direct_filters.get(name)
        if direct is not None:
            return direct(value)
        return super().call_filter(name, value, args, kwargs, context, eval_ctx)

    def take_filters(self, filters: Mapping[str, Callable[..., Any]]) -> None:
        """Have these filters and no others; those that need no more than their value are called directly."""
        self.filters = dict(filters)
        for name, function in filters.items():
            passed = getattr(function, "jinja_pass_arg", None)
            if passed is None or passed.name == "environment":
                self.direct_filters[name] = function if passed is None else partial(function, self)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:  # noqa: ANN401 - Jinja's own signature
        """Return `text.format` in the sandbox, with its size told before it is made."""
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None

        def fill(*args: Any, **kwargs: Any) -> str:  # noqa: ANN401 - whatever the template has
            named = args[0] if value.__name__ == "format_map" and args else kwargs
            if measure_fields(value.__self__, args, named) > MOST_ELEMENTS:
                raise ExcessError("the formatted text is too long")
            return wrapped(*args, **kwargs)

        return fill

    def _generate(
        self,
        source: nodes.Template,
        name: str | None,
        filename: str | None,
        defer_init: bool = False,  # noqa: FBT001, FBT002 - Jinja's own signature
    ) -> str:
        """Return the code of a template whose loops and `~` are counted."""
        _Guards().visit(source)
        source.set_environment(self)
        return super()._generate(source, name, filename, defer_init)


def _check_method(
    context: RowContext, owner: object, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """Return the arguments for a method; refuse one that changes the row, calls others or makes too much."""
    if isinstance(owner, type) and name not in _CLASS_METHODS:
        raise SecurityError(f"`{name}` is a method of a class")
    if (args or kwargs) and any(map(callable, (*args, *kwargs.values()))):
        # It would be called unseen: `xs.sort(key=sample.choices.append)` changes the row.
        raise SecurityError(f"a function cannot be handed to `{name}`")
    if isinstance(owner, (str, bytes)):
        context.effort.left -= len(owner) // STEP_TEXT
    elif isinstance(owner, (list, dict)) and modifies_known_mutable(owner, name) and context.holds(owner):
        raise SecurityError(f"`{name}` would change a value of the row")
    if name in METHOD_SIZES and isinstance(owner, (str, bytes, int, list)):
        if args and isinstance(args[0], Iterator):
            args = (list(args[0]), *args[1:])
        written = {key: value for key, value in kwargs.items() if key not in _JINJAS_OWN}
        context.effort.spend_text(METHOD_SIZES[name](owner, *args, **written))
    return args


class _Guards(NodeTransformer):
    """Puts a filter around what a loop or a filter goes through, and around what `~` joins."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 - Jinja's own naming
        self.generic_visit(node)
        text = sum(len(piece.data) for piece in node.find_all(nodes.TemplateData))
        parts = sum(1 for one in node.body for _ in one.find_all(nodes.Node))
        applied = sum(1 for one in node.body for _ in one.find_all((nodes.Filter, nodes.Test)))
        weight = nodes.Const(1 + text // STEP_TEXT + parts // STEP_NODES + applied * FILTER_STEPS)
        node.iter = nodes.Filter(node.iter, LOOP_STEPS, [weight], [], None, None, lineno=node.lineno)
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Filter:  # noqa: N802 - Jinja's own naming
        if node.name in GOING_THROUGH:
            _count_elements(node)
        self.generic_visit(node)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802 - Jinja's own naming
        self.generic_visit(node)
        pieces = nodes.List(node.nodes, lineno=node.lineno)
        return nodes.Filter(pieces, JOIN_TEXT, [], [], None, None, lineno=node.lineno)


def _count_elements(node: nodes.Filter) -> None:
    """Have the elements counted that a filter goes through, for itself and for the lazy ones before it."""
    filters = 1
    while isinstance(node.node, nodes.Filter) and node.node.name in LAZY:
        node, filters = node.node, filters + 1
    is_counted = isinstance(node.node, nodes.Filter) and node.node.name == LOOP_STEPS
    if node.node is not None and not is_counted:
        weight = nodes.Const(filters * FILTER_STEPS)
        node.node = nodes.Filter(node.node, LOOP_STEPS, [weight], [], None, None, lineno=node.lineno)


class LimitTokens(Extension):
    """Ends the reading of a template that is longer than any honest one; text in between is one token."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        """Yield the tokens up to the last that is allowed."""
        for number, token in enumerate(stream):
            if number >= MOST_TOKENS:
                message = f"it has more than {MOST_TOKENS:,} words and signs"
                raise TemplateSyntaxError(message, token.lineno)
            yield token


@cache
def open_environment() -> RowEnvironment:
    """Return the one environment of all templates."""
    environment = RowEnvironment(
        extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols", LimitTokens],
        undefined=StrictName,
        finalize=print_value,
        autoescape=False,
        # What Jinja folds while it compiles, it computes without any limit.
        optimized=False,
    )
    own = {name: _choose_form(function) for name, function in environment.filters.items()}
    filters = own | GUARDED | FILTERS
    environment.take_filters({name: one for name, one in filters.items() if name not in NOT_REPEATABLE})
    for name in NOT_REPEATABLE:
        environment.globals.pop(name, None)
    return environment


def _choose_form(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter without what it does on the way for asynchronous templates, which these never are."""
    is_double = getattr(function, "jinja_async_variant", False)
    form: Callable[..., Any] = function.__wrapped__ if is_double else function  # type: ignore[attr-defined]
    return form
