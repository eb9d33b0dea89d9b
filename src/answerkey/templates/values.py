"""What comes out of a template on one row: a plain value, or an error in the words of the user; its limits.

Every limit on steps and sizes is a count, not a time, so that the same row always gives the same value. What
no count foresees is stopped by the limits of the worker process (`rendering`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from functools import cached_property
from string import Formatter
from typing import Any, Final, NoReturn, SupportsIndex, TypeGuard, cast

from jinja2 import TemplateError, TemplateRuntimeError, Undefined
from jinja2.exceptions import SecurityError, UndefinedError
from jinja2.runtime import Context

from answerkey.errors import listing, suggest
from answerkey.trace import Row

#: A message may quote what a template made; more of it says no more.
_LONGEST_MESSAGE: Final = 2_000
#: What goes out as it is.
SCALARS: Final = frozenset([str, int, float, bool, type(None)])
_LAZY: Final = (Iterator, AbstractSet, ValuesView, range)
_TYPE_WORDS: Final[dict[type, str]] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    tuple: "a list",
    dict: "a mapping",
    Row: "a sample",
}


class RowError(Exception):
    """What went wrong with a template on one row; the caller decides whether that stops anything.

    `column` names the column of `sample` that does not exist; `is_undefined` is true whenever something that
    the template reads is not there (a column, a field, a list element).
    """

    def __init__(
        self, message: str, *, hint: str | None = None, column: str | None = None, is_undefined: bool = False
    ) -> None:
        self.message = message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}…"
        super().__init__(self.message)
        self.hint = hint
        self.column = column
        self.is_undefined = is_undefined


class RowExcessError(RowError):
    """A template does more on a row than it may."""


class ExcessError(OverflowError):
    """A template does more on a row than it may; raised while it renders."""


class MissingName(UndefinedError):  # noqa: N818 - named like the thing that is missing
    """A template reads something that is not there."""

    def __init__(self, message: str, *, hint: str | None = None, column: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.column = column


#: What a template can raise while it renders.
FOREIGN: Final = (
    *(TemplateError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError, AttributeError),
    *(AssertionError, NameError, MemoryError, re.error),
)


def translate_error(error: BaseException, line: int | None = None) -> RowError:
    """Return what an exception of a rendering template means to the user, with the line if it is known."""
    message, hint, column = str(error) or type(error).__name__, None, None
    match error:
        case MissingName():
            hint, column = error.hint, error.column
        case SecurityError():
            message = f"not allowed in a template: {error}"
            hint = "templates read the row; they change only lists and mappings that they make themselves"
        case ZeroDivisionError():
            message = "division by zero"
        case KeyError():
            message = f"there is no key {error.args[0]!r}" if error.args else "there is no such key"
        case RecursionError():
            message = "the template calls itself too often, or the value is nested too deeply"
        case MemoryError():
            message = "the template needs more memory than there is"
        case re.error():
            message = f"not a regular expression: {error}"
        case TypeError():
            message = str(error) or "values of the wrong type"
            if "NoneType" in message:
                hint = (
                    "a value is null in this row; `| default('', true)` gives null and empty values a default"
                )
    if line is not None:
        message = f"{message[:_LONGEST_MESSAGE]} (line {line} of the template)"
    kind = RowExcessError if isinstance(error, ExcessError) else RowError
    return kind(message, hint=hint, column=column, is_undefined=isinstance(error, UndefinedError))


class PartialMapping(dict[str, object]):
    """A mapping with only the keys that a template reads; `known` has the names of all there are."""

    def __init__(self, known: Sequence[str], cells: Iterable[tuple[str, object]] = ()) -> None:
        super().__init__(cells)
        self.known = known


class PartialRow(PartialMapping, Row):
    """A row with only the columns that a template reads."""


class JsonText(str):  # noqa: SLOT000 - what was read once is kept
    """Text whose fields can be read as those of the JSON that it holds, like `text | fromjson`."""

    def __getitem__(self, key: SupportsIndex | slice | str) -> object:  # type: ignore[override]  # also by name
        return self._content[key] if isinstance(key, str) else str(self)[key]

    @cached_property
    def _content(self) -> Any:  # noqa: ANN401 - whatever JSON can hold
        return json.loads(self)


def describe_type(value: object) -> str:
    """Return the word for a value's type, as a user of templates knows it."""
    known = (_TYPE_WORDS[kind] for kind in type(value).__mro__ if kind in _TYPE_WORDS)
    return next(known, f"a {type(value).__name__}")


def is_flat(value: object) -> TypeGuard[list[object]]:
    """Say whether a value is a list of nothing but texts, numbers and nulls."""
    return type(value) is list and SCALARS.issuperset(map(type, value))


def make_plain(value: object, *, keep_tuples: bool = False) -> object:
    """Return a value without anything lazy in it: generators, ranges and views become lists.

    An undefined value anywhere inside fails, and so does a function or another part of Jinja's own machinery.
    Tuples become lists too, unless they are to be printed.
    """
    if type(value) in SCALARS:
        return value
    if is_flat(value):
        return list(value)
    if isinstance(value, Undefined):
        fail_undefined(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return {key: make_plain(one, keep_tuples=keep_tuples) for key, one in value.items()}
    if not isinstance(value, (list, tuple)):
        if callable(value) or type(value).__module__.startswith("jinja2"):
            name = getattr(value, "__name__", type(value).__name__)
            what = "a function" if callable(value) else f"Jinja's `{name}`"
            raise TemplateRuntimeError(f"the template yields {what}, which is no value")
        if not isinstance(value, _LAZY):
            return value
    parts = [make_plain(one, keep_tuples=keep_tuples) for one in value]
    return tuple(parts) if keep_tuples and isinstance(value, tuple) else parts


def make_printable(value: object) -> object:
    """Return what Jinja prints in place of a value: the same, but nothing lazy in it.

    Of an `if` without `else` that does not hold Jinja prints nothing, strict or not.
    """
    return "" if type(value) is Undefined else make_plain(value, keep_tuples=True)


def fail_undefined(value: Undefined) -> NoReturn:
    """Raise the error that an undefined value stands for."""
    value._fail_with_undefined_error()  # noqa: SLF001 - there is no public name for it


def explain_missing(owner: object, name: object) -> MissingName:
    """Return the error for a name that `owner` does not have."""
    shown = "null" if name is None else "a function" if callable(name) else repr(name)
    part = f"field `{name}`" if isinstance(name, str) else f"element {shown}"
    if isinstance(owner, Mapping):
        known = owner.known if isinstance(owner, PartialMapping) else list(owner)
        near = suggest(str(name), known)
        names = f"{'columns' if isinstance(owner, Row) else 'fields'}: {listing(known)}"
        hint = f"{near} {names}" if near else names
        if isinstance(owner, Row):
            return MissingName(f"`{name}` is not a column", hint=hint, column=str(name))
        return MissingName(f"there is no field `{name}`", hint=hint)
    if owner is None:
        return MissingName(f"null has no {part}", hint="the value is null in this row")
    if isinstance(owner, (list, tuple, str)) and not isinstance(name, str):
        if not isinstance(name, int):
            return MissingName(f"{shown} is not an index", hint="an index is a whole number; the first is 0")
        size = f"{len(owner)} {'character' if isinstance(owner, str) else 'value'}{'s' * (len(owner) != 1)}"
        return MissingName(f"index {name} is outside {describe_type(owner)} of {size}", hint="the first is 0")
    advice = None
    if isinstance(owner, str):
        advice = "text that holds JSON is read with `| fromjson`"
    elif isinstance(owner, (list, tuple)) and isinstance(name, str) and name.strip().isdigit():
        advice = f"{name!r} is text; make a number of it with `| int`"
    return MissingName(f"{describe_type(owner)} has no {part}", hint=advice)


# How much a template may do on one row: steps, and the size of what it makes.

#: The elements that loops and filters go through and the calls of one row, with the text that is made.
MOST_STEPS: Final = 1_000_000
#: A bounded template that needs no more is rendered here; one that needs more, again in a worker process.
FEW_STEPS: Final = 10_000
#: A call counts as so many steps of a loop.
CALL_STEPS: Final = 20
#: A filter counts as so many on each element, and so does one in the body of a loop.
FILTER_STEPS: Final = 5
#: So many characters count as one step, and so many parts of the body of a loop.
STEP_TEXT: Final = 32
STEP_NODES: Final = 4
#: Larger texts are refused before they are made, and larger lists, products and powers.
MOST_ELEMENTS: Final = 10_000_000
MOST_PARTS: Final = 1_000_000
MOST_BITS: Final = 10_000
#: The product of two numbers of so many bits together counts as one step.
STEP_BITS: Final = 2**14
#: What a template may make of nothing, and how many times what it reads and what it is written with.
FREE_OUTPUT: Final = 16_384
MOST_GROWTH: Final = 32
#: For patterns whose worst case is not known, on one row.
PATTERN_SECONDS: Final = 0.5

#: A conversion of `'%5.2f' % x`: its width and its precision.
_CONVERSION: Final = re.compile(r"%(?:\([^)]*\))?[-#0 +]*(\*|[0-9]+)?(?:\.(\*|[0-9]+)?)?")
_WIDTH: Final = re.compile(r"[0-9*]")
#: A format of its own inside `'{:>5}'.format(x)`.
_SPECIAL: Final = re.compile(r"\{[^{}]*[:!]")
_DIGITS: Final = re.compile(r"[0-9]+")
#: Python reads no longer numbers either.
_LONGEST_WIDTH: Final = 18
_SHOWN_BITS: Final = 200
_DIGIT_BITS: Final = 4
_TEXTS: Final = frozenset([str])


class Budget:
    """What is left of the steps of one row, and of the time for patterns.

    With few steps (`FEW_STEPS`) nothing is tried whose cost cannot be told.
    """

    __slots__ = ("left", "seconds", "steps")

    def __init__(self, steps: int = MOST_STEPS) -> None:
        self.steps = steps
        self.renew()

    def renew(self) -> None:
        """Begin anew with the next row."""
        self.left = self.steps
        self.seconds = PATTERN_SECONDS

    def spend(self, steps: int) -> None:
        """Take steps away; raise ExcessError when there are none left."""
        self.left -= steps
        if self.left < 0:
            raise ExcessError(f"the template takes more than {self.steps:,} steps on this row")

    def spend_text(self, size: int) -> None:
        """Take away the steps of a text or list before it is made; raise ExcessError if it is too long."""
        if size > MOST_ELEMENTS:
            message = f"the template makes a value of {size:,} elements; {MOST_ELEMENTS:,} are allowed"
            raise ExcessError(message)
        self.left -= 1 + size // STEP_TEXT
        if self.left < 0:
            self.spend(0)


class RowContext(Context):
    """What a template sees of one row, with its budget of steps.

    `holds` tells the row's own values, which nothing may change, from what the template made itself.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - Jinja's own signature
        super().__init__(*arguments, **options)
        self.budget = Budget()
        self.given = self.parent
        self._held: frozenset[int] | None = None

    def renew(self, row: Mapping[str, Any]) -> None:
        """Begin anew with the next row: nothing set, nothing spent."""
        self.given.update(row)
        self.vars.clear()
        self.exported_vars.clear()
        self.budget.renew()
        self.eval_ctx.autoescape = False
        self._held = None

    def derived(self, locals: dict[str, Any] | None = None) -> RowContext:  # noqa: A002 - Jinja's own signature
        """Return a context of the same row; what was given and what is left stay the same."""
        context = cast("RowContext", super().derived(locals))
        context.budget, context.given = self.budget, self.given
        return context

    def holds(self, value: object) -> bool:
        """Say whether a value is part of what was given, at any depth."""
        if self._held is None:
            found: set[int] = set()
            waiting: list[object] = [self.given]
            while waiting:
                one = waiting.pop()
                if isinstance(one, (list, tuple, dict)) and id(one) not in found:
                    found.add(id(one))
                    waiting.extend(one.values() if isinstance(one, dict) else one)
            self._held = frozenset(found)
        return id(value) in self._held


def measure(value: object) -> int:
    """Return about how long a value is when it is printed; raise ExcessError where that is too long."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, int):
        return max(1, value.bit_length() // _DIGIT_BITS)
    if not isinstance(value, (list, tuple, dict)):
        return 1
    if type(value) is list and _TEXTS.issuperset(map(type, value)):
        # By far the most usual list, and told without a loop of ours.
        size = len(value) + 1 + sum(map(len, value))
    else:
        size = parts = 0
        waiting: list[object] = [value]
        while waiting:
            one = waiting.pop()
            if isinstance(one, str):
                size += len(one)
            elif isinstance(one, (list, tuple, dict)):
                # Keys count as short: there are never more of them than values.
                waiting.extend(one.values() if isinstance(one, dict) else one)
                parts += len(one) + 1
                if parts > MOST_PARTS:
                    raise ExcessError(f"the template makes a value of more than {MOST_PARTS:,} parts")
            else:
                size += 1
        size += parts
    if size > MOST_ELEMENTS:
        raise ExcessError(f"the template makes a value of more than {MOST_ELEMENTS:,} elements")
    return size


def count_within(value: object, most: int) -> int:
    """Return how many characters and parts a value has; when there are more than `most`, some such number.

    A list or mapping that is reached in several ways counts once.
    """
    size = 0
    seen: set[int] = set()
    waiting: list[object] = [value]
    while waiting and size <= most:
        one = waiting.pop()
        if isinstance(one, (list, tuple, dict)):
            if id(one) in seen:
                continue
            seen.add(id(one))
            size += 2 * len(one) + 2
            if size <= most:
                waiting.extend([*one, *one.values()] if isinstance(one, dict) else one)
        elif isinstance(one, (str, bytes)):
            size += len(one)
    return size


def measure_operation(operator: str, left: object, right: object) -> int:
    """Return the size of what `+`, `*`, `**` or `%` makes, or the work of it; refuse what is absurd.

    The work is counted in characters, as sizes are.
    """
    if operator == "+":
        if isinstance(left, (str, bytes)) and isinstance(right, (str, bytes)):
            return len(left) + len(right)
        is_list = isinstance(left, (list, tuple)) and isinstance(right, (list, tuple))
        return measure(left) + measure(right) if is_list else 0
    if operator == "%":
        if isinstance(left, (str, bytes)):
            return measure_conversions(left if isinstance(left, str) else left.decode("latin-1"), right)
        return 0
    if operator == "*":
        for many, times in ((left, right), (right, left)):
            if isinstance(many, (str, bytes, list, tuple)) and isinstance(times, int):
                return measure(many) * times
    if not (isinstance(left, int) and isinstance(right, int)):
        return 0
    if operator == "*":
        sizes = left.bit_length(), right.bit_length()
        if sum(sizes) > MOST_BITS:
            raise ExcessError("the product is too large a number")
        return sizes[0] * sizes[1] * STEP_TEXT // STEP_BITS
    bits = left.bit_length() * max(right, 0)
    if bits > MOST_BITS:
        shown = [
            str(one) if one.bit_length() < _SHOWN_BITS else f"(a number of {one.bit_length()} bits)"
            for one in (left, right)
        ]
        raise ExcessError(f"the power {shown[0]} ** {shown[1]} is too large")
    return bits * bits * STEP_TEXT // STEP_BITS


def measure_conversions(text: str, values: object) -> int:
    """Return at most how long `text % values` is."""
    if not _WIDTH.search(text):
        return len(text) + text.count("%") * measure(values)
    arguments = values if isinstance(values, tuple) else (values,)
    pairs = _CONVERSION.findall(text)
    widths = [width for pair in pairs for width in pair]
    stars = sum(abs(one) for one in arguments if isinstance(one, int)) if "*" in widths else 0
    fixed = sum(_read_width(width) for width in widths if width.isdigit())
    return len(text) + fixed + stars + len(pairs) * measure(values)


def measure_fields(text: str, arguments: Sequence[object], named: Mapping[str, object]) -> int:
    """Return at most how long `text.format(…)` is."""
    values = [*arguments, *(named[key] for key in named)]
    if not _SPECIAL.search(text):
        return len(text) + text.count("{") * measure(values)
    size, fields = len(text), 0
    for _, name, form, _ in Formatter().parse(text):
        fields += name is not None
        size += sum(map(_read_width, _DIGITS.findall(form or "")))
        if form and "{" in form:  # any of the values may be the width
            size += sum(max(map(_read_width, _DIGITS.findall(str(one))), default=0) for one in values)
    return size + fields * measure(values)


def _read_width(digits: str) -> int:
    return int(digits) if len(digits) <= _LONGEST_WIDTH else MOST_ELEMENTS + 1


def measure_replacement(text: str, old: str, new: str, count: int = -1) -> int:
    """Return how long a text is with `old` replaced by `new`, the first `count` times or (-1) always."""
    if len(new) <= len(old):
        return len(text)
    found = text.count(old)
    return len(text) + (found if count < 0 else min(found, count)) * (len(new) - len(old))


def measure_joined(separator: str, values: Sequence[object]) -> int:
    """Return how long values are with a separator between them."""
    return len(separator) * len(values) + sum(map(measure, values))


def measure_stripped(text: str, characters: str | None = None) -> int:
    """Return what it takes to look for each character at the ends of a text among others."""
    return len(text) * max(1, len(characters or "") // STEP_TEXT)


#: Methods of texts and lists that make something longer than what they are given, and how long.
METHOD_SIZES: Final[dict[str, Callable[..., int]]] = {
    **dict.fromkeys(["center", "ljust", "rjust", "zfill"], lambda owner, width=0, *_: max(len(owner), width)),
    **dict.fromkeys(["strip", "lstrip", "rstrip"], measure_stripped),
    "expandtabs": lambda owner, tabsize=8: len(owner) + owner.count("\t") * tabsize,
    "replace": measure_replacement,
    "join": measure_joined,
    "translate": lambda owner, table: len(owner) * max((measure(table[key]) for key in table), default=1),
    "extend": lambda owner, values: len(owner) + len(values),
    "to_bytes": lambda _owner, length=1, *_rest, **_options: length,
}
