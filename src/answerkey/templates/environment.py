"""The Jinja that rows are rendered with: sandboxed, strict, within limits, a column before a dict method."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache, partial, wraps
from typing import Any, Final, NoReturn

from jinja2 import StrictUndefined, TemplateSyntaxError, Undefined, UndefinedError, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.lexer import Token, TokenStream
from jinja2.runtime import LoopContext
from jinja2.sandbox import SandboxedEnvironment, modifies_known_mutable
from jinja2.utils import missing
from jinja2.visitor import NodeTransformer

from answerkey.templates.values import (
    CALL_STEPS,
    FILTER_STEPS,
    METHOD_SIZES,
    MOST_ELEMENTS,
    MOST_STEPS,
    SCALARS,
    STEP_NODES,
    STEP_TEXT,
    ExcessError,
    MissingName,
    RowContext,
    describe_type,
    explain_missing,
    fail_undefined,
    is_flat,
    make_plain,
    make_printable,
    measure,
    measure_conversions,
    measure_fields,
    measure_joined,
    measure_operation,
    measure_replacement,
    measure_stripped,
)
from answerkey.trace import TRACE_METHODS, Row, is_trace_like

#: What Jinja and filters hand around: any value at all.
Value = Any
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
#: The names of the two guards that the compiler puts in; no template can write them.
LOOP_STEPS: Final = "loop steps"
JOIN_TEXT: Final = "join text"
#: Filters that go through all of what they are given, some of them not before somebody asks for it.
LAZY: Final = frozenset(["map", "select", "reject", "selectattr", "rejectattr", "items"])
GOING_THROUGH: Final = LAZY | frozenset(
    ["batch", "dictsort", "groupby", "list", "max", "min", "reverse", "slice", "sort", "unique", "zip"]
)
_MOST_INDENT: Final = 100
#: What JSON text stands for takes several times its memory.
_JSON_GROWTH: Final = 4
#: Indented JSON is written by Python, which takes so many times as long.
_INDENT_GROWTH: Final = 8
_SHOWN: Final = 80
_MOST_DIGITS: Final = 1000
_LONGEST_NUMBER: Final = 4300
_DECIMAL: Final = 10


class StrictName(StrictUndefined):
    """A name that is not there: to use it fails, to print a list of it too; the error lists what is there."""

    __slots__ = ()

    def __init__(self, *arguments: Value, **options: Value) -> None:
        super().__init__(*arguments, **options)
        if self._undefined_exception is UndefinedError and self._undefined_hint is None:
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

    def __init__(self, method: Callable[..., Value], *, obj: Mapping[str, Value], name: str) -> None:
        super().__init__(obj=obj, name=name)
        self._method = method

    def _explain(self, _message: str) -> MissingName:
        error = explain_missing(self._undefined_obj, self._undefined_name)
        if not isinstance(self._undefined_obj, Row):  # of a row it is a missing column
            error.hint = f"{error.hint}; for the method write `.{self._undefined_name}()`"
        return error


class RowEnvironment(SandboxedEnvironment):
    """The sandbox: values of the row can be read, not changed; private attributes are out of reach.

    A template may change the lists and mappings that it makes itself. What it does is counted, step by step.
    """

    intercepted_binops = frozenset(["*", "**", "%", "+"])
    context_class = RowContext

    def __init__(self, **options: Value) -> None:
        super().__init__(**options)
        own = {
            # Without what a filter does on the way for asynchronous templates, which these never are.
            name: one.__wrapped__ if getattr(one, "jinja_async_variant", False) else one
            for name, one in self.filters.items()
        }
        self.filters = {
            name: one for name, one in (own | GUARDED | FILTERS).items() if name not in NOT_REPEATABLE
        }
        for name in NOT_REPEATABLE:
            self.globals.pop(name, None)
        #: Those that need no more than their value.
        self.direct_filters: dict[str, Callable[[Value], Value]] = {}
        for name, function in self.filters.items():
            passed = getattr(function, "jinja_pass_arg", None)
            if passed is None or passed.name == "environment":
                self.direct_filters[name] = function if passed is None else partial(function, self)

    def getattr(self, obj: Value, attribute: str) -> Value:
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

    def getitem(self, obj: Value, argument: Value) -> Value:
        """Return `obj[argument]`; of a mapping only ever a key."""
        if isinstance(argument, Undefined):
            fail_undefined(argument)
        if type(obj) in _NO_MAPPINGS or not isinstance(obj, (dict, Mapping)):
            return super().getitem(obj, argument)
        try:
            return obj[argument]
        except (KeyError, TypeError):
            return self.undefined(obj=obj, name=argument)

    def is_safe_attribute(self, obj: Value, attr: str, value: Value) -> bool:
        """Say whether an attribute may be read; a method without its value (`dict.update`) may not."""
        if isinstance(obj, type):
            return attr == "fromkeys"
        return super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: RowContext, operator: str, left: Value, right: Value) -> Value:  # type: ignore[override]  # our context
        """Return a sum, product, power or remainder, unless it would be absurdly large."""
        size = measure_operation(operator, left, right)
        if size:
            context.budget.spend_text(size)
        return super().call_binop(context, operator, left, right)

    def call(self, context: RowContext, function: Value, /, *args: Value, **kwargs: Value) -> Value:  # type: ignore[override]  # our context
        """Return what a call yields; it is a step, and may neither change the row nor make too much."""
        context.budget.spend(CALL_STEPS)
        if isinstance(function, UncalledMethod):
            function = function._method  # noqa: SLF001 - a method that is called
        owner = getattr(function, "__self__", None)
        if isinstance(function, LoopContext) and args:
            args = (guard_steps(context, args[0]), *args[1:])
        if owner is None:
            return super().call(context, function, *args, **kwargs)
        name = function.__name__
        if isinstance(owner, type) and name not in _CLASS_METHODS:
            raise SecurityError(f"`{name}` is a method of a class")
        if (args or kwargs) and any(map(callable, (*args, *kwargs.values()))):
            # It would be called unseen: `xs.sort(key=sample.choices.append)` changes the row.
            raise SecurityError(f"a function cannot be handed to `{name}`")
        if isinstance(owner, (str, bytes)):
            context.budget.left -= len(owner) // STEP_TEXT
        elif isinstance(owner, (list, dict)) and modifies_known_mutable(owner, name) and context.holds(owner):
            raise SecurityError(f"`{name}` would change a value of the row")
        if name in METHOD_SIZES and isinstance(owner, (str, bytes, int, list)):
            if args and isinstance(args[0], Iterator):
                args = (list(args[0]), *args[1:])
            written = {key: value for key, value in kwargs.items() if key not in _JINJAS_OWN}
            context.budget.spend_text(METHOD_SIZES[name](owner, *args, **written))
        return super().call(context, function, *args, **kwargs)

    def call_filter(
        self, name: str, value: Value, args: Value = None, kwargs: Value = None, *rest: Value, **others: Value
    ) -> Value:
        """Return what a filter makes of a value; `map` asks for it element by element."""
        direct = None if args or kwargs else self.direct_filters.get(name)
        if direct is not None:
            return direct(value)
        return super().call_filter(name, value, args, kwargs, *rest, **others)

    def wrap_str_format(self, value: Value) -> Callable[..., str] | None:
        """Return `text.format` in the sandbox, with its size told before it is made."""
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None

        def fill(*args: Value, **kwargs: Value) -> str:
            named = args[0] if value.__name__ == "format_map" and args else kwargs
            if measure_fields(value.__self__, args, named) > MOST_ELEMENTS:
                raise ExcessError("the formatted text is too long")
            return wrapped(*args, **kwargs)

        return fill

    def _generate(self, source: nodes.Template, *arguments: Value, **options: Value) -> str:
        """Return the code of a template whose loops and `~` are counted."""
        _Guards().visit(source)
        source.set_environment(self)
        return super()._generate(source, *arguments, **options)


class _Guards(NodeTransformer):
    """Puts a filter around what a loop or a filter goes through, and around what `~` joins."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 - Jinja's own naming
        self.generic_visit(node)
        text = sum(len(piece.data) for piece in node.find_all(nodes.TemplateData))
        parts = sum(1 for one in node.body for _ in one.find_all(nodes.Node))
        applied = sum(1 for one in node.body for _ in one.find_all((nodes.Filter, nodes.Test)))
        weight = 1 + text // STEP_TEXT + parts // STEP_NODES + applied * FILTER_STEPS
        node.iter = _apply(LOOP_STEPS, node.iter, nodes.Const(weight))
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Filter:  # noqa: N802 - Jinja's own naming
        if node.name in GOING_THROUGH:
            # The elements are counted for the filter itself and for the lazy ones before it.
            first, filters = node, 1
            while isinstance(first.node, nodes.Filter) and first.node.name in LAZY:
                first, filters = first.node, filters + 1
            is_counted = isinstance(first.node, nodes.Filter) and first.node.name == LOOP_STEPS
            if first.node is not None and not is_counted:
                first.node = _apply(LOOP_STEPS, first.node, nodes.Const(filters * FILTER_STEPS))
        self.generic_visit(node)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802 - Jinja's own naming
        self.generic_visit(node)
        return _apply(JOIN_TEXT, nodes.List(node.nodes, lineno=node.lineno))


def _apply(name: str, value: nodes.Node, *arguments: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(value, name, list(arguments), [], None, None, lineno=value.lineno)


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
    return RowEnvironment(
        extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols", LimitTokens],
        undefined=StrictName,
        finalize=print_value,
        autoescape=False,
        # What Jinja folds while it compiles, it computes without any limit.
        optimized=False,
    )


@pass_context
def print_value(context: RowContext, value: Value) -> Value:
    """Return what Jinja prints in place of a value."""
    if type(value) is str:
        budget, size = context.budget, len(value)
        budget.left -= 1 + size // STEP_TEXT
        if size > MOST_ELEMENTS or budget.left < 0:
            budget.spend_text(size)
        return value
    printed = value if type(value) in SCALARS or is_flat(value) else _make_printable(value)
    context.budget.spend_text(measure(printed))
    return printed


def _make_printable(value: Value) -> Value:
    # A list that holds another twice, and that one a third twice, is exponentially long in few lines.
    measure(value)
    return make_printable(value)


@pass_context
def join_text(context: RowContext, values: list[Value]) -> str:
    """Return what `~` makes of values: their texts put together."""
    printed = [one if type(one) is str else _make_printable(one) for one in values]
    context.budget.spend_text(sum(map(measure, printed)))
    return "".join(map(str, printed))


@pass_context
def guard_steps(context: RowContext, values: Iterable[Value], weight: int = 1) -> Iterable[Value]:
    """Return what a loop goes through, its steps paid for: all at once, or one by one where none can tell."""

    def count_steps() -> Iterator[Value]:
        for one in values:
            context.budget.spend(weight)
            yield one

    try:
        size = len(values)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        return count_steps()
    context.budget.spend(size * weight)
    return values


def write_text(value: object) -> str:
    """Return a value as text, unless it would be too long."""
    if isinstance(value, str):
        return value
    measure(value)
    return str(value)


# Jinja's own filters that can make a value far larger than what they are given, within limits.


def _guard(name: str, size: Callable[..., int]) -> Callable[..., Value]:
    """Return one of Jinja's filters that first says how large its outcome is."""
    original = JINJA_FILTERS[name]

    @pass_context
    @wraps(original)
    def guarded(context: RowContext, value: Value, *arguments: Value, **options: Value) -> Value:
        context.budget.spend_text(size(value, *arguments, **options))
        return context.call(original, value, *arguments, **options)

    return guarded


def _measure_indented(value: str, width: int | str = 4, *_rest: Value, **_options: Value) -> int:
    step = len(width) if isinstance(width, str) else width
    return len(value) + (value.count("\n") + 1) * max(step, 0)


def _measure_wrapped(
    value: str,
    width: int = 79,
    _break_long_words: Value = None,
    wrapstring: str | None = None,
    *_rest: Value,
    **_options: Value,
) -> int:
    lines = len(value) // max(width, 1) + value.count("\n") + 1
    return len(value) + lines * len(wrapstring or "\n")


def _measure_rounded(_value: Value, precision: int = 0, *_rest: Value, **_options: Value) -> int:
    if abs(precision) > _MOST_DIGITS:
        raise ExcessError(f"`round`: {precision} digits are too many")
    return 1


@pass_context
def join_values(
    context: RowContext, value: Iterable[Value], d: str = "", attribute: str | int | None = None
) -> str:
    """Return the values as one text with `d` between them."""
    if attribute is not None:
        value = context.call(JINJA_FILTERS["map"], value, attribute=attribute)
    values, separator = list(value), str(d)
    context.budget.spend_text(measure_joined(separator, values))
    return separator.join(map(str, values))


@pass_context
def format_text(context: RowContext, value: Value, *args: Value, **kwargs: Value) -> str:
    """Return text with its conversions (`%s`) filled in, by place or by name."""
    if args and kwargs:
        raise TypeError("`format` takes values either by place or by name")
    text, values = write_text(value), kwargs or args
    context.budget.spend_text(measure_conversions(text, values))
    return text % values


def read_integer(value: Value, default: Value = 0, base: int = 10) -> Value:
    """Return a value as a whole number, `default` for what is none."""
    if isinstance(value, str) and base != _DECIMAL and len(value) > _LONGEST_NUMBER:
        # Python itself refuses the decimal digits of longer ones.
        raise ExcessError(f"`int`: {len(value):,} digits are too many")
    return JINJA_FILTERS["int"](value, default, base)


@pass_context
def trim_text(context: RowContext, value: Value, chars: str | None = None) -> str:
    """Return text without white space, or without these characters, at both ends."""
    if chars is None and type(value) is str:
        return value.strip()
    text = write_text(value)
    context.budget.spend_text(measure_stripped(text, chars))
    return text.strip(chars)


@pass_context
def sum_values(
    context: RowContext, iterable: Iterable[Value], attribute: str | int | None = None, start: Value = 0
) -> Value:
    """Return the values added up; lists are added up to a longer list."""
    values = list(iterable)
    context.budget.spend_text(measure(values))
    return context.call(JINJA_FILTERS["sum"], values, attribute, start)


@pass_context
def replace_text(context: RowContext, s: Value, old: Value, new: Value, count: int | None = None) -> str:
    """Return text with every `old`, or the first `count`, replaced by `new`."""
    text, first, second = write_text(s), write_text(old), write_text(new)
    times = -1 if count is None else count
    context.budget.spend_text(measure_replacement(text, first, second, times))
    return text.replace(first, second, times)


GUARDED: Final[dict[str, Callable[..., Value]]] = {
    "batch": _guard(
        "batch", lambda _value, linecount, fill_with=None: linecount if fill_with is not None else 1
    ),
    "center": _guard("center", lambda value, width=80: max(len(value), width)),
    "format": format_text,
    "indent": _guard("indent", _measure_indented),
    "int": read_integer,
    "join": join_values,
    "replace": replace_text,
    "round": _guard("round", _measure_rounded),
    "slice": _guard("slice", lambda _value, slices, *_rest, **_options: slices),
    "sum": sum_values,
    "trim": trim_text,
    "wordwrap": _guard("wordwrap", _measure_wrapped),
    **{name: _guard(name, measure) for name in ("pprint", "string", "title", "wordcount")},
    LOOP_STEPS: guard_steps,
    JOIN_TEXT: join_text,
}


# The filters that templates have beside Jinja's own, and a `tojson` that writes plain JSON.


@pass_context
def parse_json(context: RowContext, value: object) -> object:
    """Return the value that JSON text stands for."""
    if not isinstance(value, str):
        plain = make_plain(value)
        raise TypeError(f"`fromjson` reads text, and this is {describe_type(plain)}")
    context.budget.spend_text(_JSON_GROWTH * len(value))
    try:
        found: object = _DECODER.decode(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"`fromjson`: {value[:_SHOWN]!r} is not JSON ({error})") from None
    if "\\u" in value:
        text = json.dumps(found, ensure_ascii=False)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = f"U+{ord(text[error.start]):04X}"
            raise ValueError(f"the text holds {half}, which is half a character") from None
    return found


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"`fromjson`: {word} is not JSON")


def _read_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"`fromjson`: {digits[:_SHOWN]} is too large a number")
    return number


#: Made once: `json.loads` with settings makes a decoder for every text.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_read_float)


def escape_json(value: object) -> str:
    """Return text as it stands between the quotes of a JSON string; other values as Jinja prints them."""
    return json.dumps(write_text(value), ensure_ascii=False)[1:-1]


@pass_context
def write_json(context: RowContext, value: object, indent: int | None = None) -> str:
    """Return a value as JSON text: keys in their order, nothing escaped for HTML, no NaN or infinity."""
    if indent is not None and indent > _MOST_INDENT:
        raise ValueError(f"`tojson`: an indent of {indent} is too wide")
    size = measure(value)
    context.budget.spend_text(size if indent is None else size * _INDENT_GROWTH)
    plain = make_plain(value)
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=indent, default=_write_cell)


def _write_cell(value: object) -> str:
    """Return a cell that JSON has no type for (a date, a decimal) as text."""
    if isinstance(value, bytes):
        raise TypeError("`tojson`: bytes have no JSON form")
    return str(value)


def zip_lists(first: Iterable[object], *others: Iterable[object]) -> list[list[object]]:
    """Return the lists side by side, as long as the shortest."""
    return [list(group) for group in zip(first, *others, strict=False)]


def merge_mappings(first: Mapping[str, object], *others: Mapping[str, object]) -> dict[str, object]:
    """Return one mapping with the keys of all; the later value wins."""
    merged: dict[str, object] = {}
    for mapping in (first, *others):
        merged |= {key: mapping[key] for key in mapping.keys()}  # noqa: SIM118 - a list must fail here, not iterate
    return merged


# Regular expressions that cannot run for ever. Python's own engine is the fast one, and does what it may in
# the worst case: `(a+)+$` takes years on forty letters. A pattern whose worst case is small on the text at
# hand goes there; any other goes to an engine that can be stopped.

#: The fast engine makes ten to this power tries in about a second.
_MOST_TRIES: Final = 8
#: So many tries count as one step.
_STEP_TRIES: Final = 256
_LONGEST_PATTERN: Final = 2_000
_LEAST_SECONDS: Final = 0.001
_ATOM: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_GROUP_START: Final = re.compile(r"\(\?(?:[a-zA-Z-]*[:)]|P?<\w+>|P=|<?[=!]|>|#)")
_REPEAT: Final = re.compile(r"[*+}][?+]?")
_LAST_REPEAT: Final = re.compile(r"[^()|{}][*+]\Z")
_VERBOSE: Final = re.compile(r"\(\?[a-wyzA-Z-]*x")
#: The flags that the filter sets; both engines know them by the same number.
_FLAGS: Final = re.MULTILINE | re.IGNORECASE


@pass_context
def replace_pattern(
    context: RowContext,
    value: object,
    pattern: str,
    repl: str = "",
    multiline: bool = False,  # noqa: FBT001, FBT002 - order and names as published
    ignorecase: bool = False,  # noqa: FBT001, FBT002 - same
    count: int = 0,
) -> str:
    """Return text with the matches of a regular expression replaced, the first `count` or (0) all of them.

    Raise re.error for what is no pattern, ExcessError for a pattern that takes too long and for a text that
    becomes too long.
    """
    flags = (re.MULTILINE if multiline else re.NOFLAG) | (re.IGNORECASE if ignorecase else re.NOFLAG)
    text, budget = write_text(value), context.budget
    if len(pattern) > _LONGEST_PATTERN:
        raise re.error(f"the pattern has {len(pattern):,} characters; {_LONGEST_PATTERN:,} are allowed")
    compiled = re.compile(pattern, flags)
    # Each repeat may try every length, from every start; each branch doubles that.
    powers, branches = _weigh_pattern(pattern, flags)
    tries = powers * math.log10(len(text) + 2) + branches * math.log10(2)
    if tries <= _MOST_TRIES and (len(text) + 1) * len(repl) <= MOST_ELEMENTS:
        budget.spend(int(10.0**tries) // _STEP_TRIES)
        return compiled.sub(repl, text, count=count)
    if budget.steps < MOST_STEPS:  # only with all steps granted does this run where it can be stopped
        budget.spend(budget.steps + 1)
    import regex  # type: ignore[import-untyped]  # its functions are those of `re`, with a time limit

    made = 0
    compiled.sub(repl, "")  # a replacement that names no group is told by the same library as ever

    def expand(match: re.Match[str]) -> str:
        nonlocal made
        piece = match.expand(repl)
        made += len(piece)
        if made > MOST_ELEMENTS:
            raise ExcessError(f"`regex_replace` makes more than {MOST_ELEMENTS:,} characters")
        return piece

    flag_bits = int(compiled.flags & _FLAGS)
    started = time.monotonic()
    try:
        return str(regex.sub(pattern, expand, text, count=count, flags=flag_bits, timeout=budget.seconds))
    except TimeoutError:
        message = f"`regex_replace`: the pattern {pattern!r} takes too long on this text"
        raise ExcessError(message) from None
    except regex.error as error:
        raise re.error(str(error)) from None
    finally:
        # All patterns of a row share its time; the last of them may still begin.
        budget.seconds = max(budget.seconds - (time.monotonic() - started), _LEAST_SECONDS)


@lru_cache(maxsize=512)
def _weigh_pattern(pattern: str, flags: re.RegexFlag) -> tuple[float, int]:
    """Return how often the size of the text counts (a repeated group has no bound), and the branches."""
    bare = _GROUP_START.sub("(", _ATOM.sub("x", pattern))
    if _VERBOSE.search(pattern) or re.search(r"\)[*+{]", bare):
        return math.inf, 0
    is_anchored = pattern.startswith((r"\A", "^")) and not flags & re.MULTILINE and "|" not in bare
    # Nothing comes after a repeat at the end, so none of its lengths is ever tried again: `\s+` is linear.
    repeats = len(_REPEAT.findall(_LAST_REPEAT.sub("", bare)))
    branches = bare.count("|") + _REPEAT.sub("", bare).count("?")
    return repeats if is_anchored else repeats + 1, branches


#: The name in templates, and what it does.
FILTERS: Final[dict[str, Callable[..., object]]] = {
    "fromjson": parse_json,
    "json_escape": escape_json,
    "merge": merge_mappings,
    "regex_replace": replace_pattern,
    "tojson": write_json,
    "zip": zip_lists,
}
