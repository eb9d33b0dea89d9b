"""The row filters of datasets and actions: one condition on a row."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from answerkey.errors import SpecError
from answerkey.templates.template import Template
from answerkey.templates.values import RowError, describe_type

if TYPE_CHECKING:
    from answerkey.types import Samples

FilterOp = Literal[
    "equals",
    "not_equals",
    "greater_than",
    "less_than",
    "greater_or_equal",
    "less_or_equal",
    "in",
    "not_in",
    "exists",
    "not_exists",
    "is_true",
    "is_false",
]
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "greater_than": operator.gt,
    "less_than": operator.lt,
    "greater_or_equal": operator.ge,
    "less_or_equal": operator.le,
}
_TRUTH_WORDS = {
    "true": True,
    "1": True,
    "yes": True,
    "false": False,
    "0": False,
    "no": False,
}
_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}")
#: Numbers with more digits than Python converts to an integer are read as floats.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
#: The names that a filter of a dataset sees, and a filter of an action.
DATASET_NAMES = ("sample",)
ACTION_NAMES = ("sample", "solver_output", "scores")


@dataclass(frozen=True)
class RowFilter:
    """One condition on a row.

    `expression` is a template (`{{ sample.x }}`) or bare code (`sample.x`).
    """

    op: FilterOp
    expression: str
    value: object = None
    values: tuple[object, ...] | None = None

    def __post_init__(self) -> None:
        needs_values = self.op in {"in", "not_in"}
        if needs_values is (self.values is None):
            message = f"op `{self.op}` and `values` cannot be combined"
            hint = "`in` and `not_in` need `values: [a, b]`; no other op takes it"
            raise SpecError("E108", message, hint=hint)

    @cached_property
    def template(self) -> Template:
        """The compiled expression of an action's filter. Raise SpecError E112."""
        return self.compile(ACTION_NAMES)

    def compile(self, names: Sequence[str]) -> Template:
        """Return the expression as a template that sees these names. Raise SpecError E112."""
        source = self.expression
        if not re.search(r"\{[{%#]", source):
            source = f"{{{{ {source} }}}}"
        return Template.compile(source, names=names)

    def matches(self, **context: object) -> bool:
        """Return whether a row meets the condition. Raise RowError."""
        try:
            value = self.template.evaluate(**context)
        except RowError as problem:
            value = problem
        verdict = self._judge(value)
        if isinstance(verdict, RowError):
            raise verdict
        return verdict

    def sift(self, samples: Samples) -> list[bool | RowError]:
        """Return for every row of a dataset whether it meets the condition, or an error."""
        template = self.compile(DATASET_NAMES)
        return [self._judge(value) for value in template.values(samples)]

    def _judge(self, value: object) -> bool | RowError:
        """Return whether a value meets the condition; an error can only be tested for existence."""
        if isinstance(value, RowError):
            if value.is_undefined and self.op in {"exists", "not_exists"}:
                return self.op == "not_exists"
            return value
        match self.op:
            case "exists" | "not_exists":
                return (value is not None) is (self.op == "exists")
            case "equals" | "not_equals":
                return is_equal(value, self.value) is (self.op == "equals")
            case "in" | "not_in":
                is_in = any(is_equal(value, member) for member in self.values or ())
                return is_in is (self.op == "in")
            case "is_true" | "is_false":
                return parse_truth(value) is (self.op == "is_true")
        return self._compare(value)

    def _compare(self, value: object) -> bool | RowError:
        """Return whether a value meets the filter's `<`, `>` or similar condition."""
        is_ordered = _ORDERS[self.op]
        if isinstance(value, str) and isinstance(self.value, str):
            return is_ordered(value, self.value)
        left = parse_number(value)
        right = parse_number(self.value)
        if left is not None and right is not None:
            return is_ordered(left, right)
        sides = [f"{side!r} ({describe_type(side)})" for side in (value, self.value)]
        hint = "only two numbers or two texts can be ordered; filter the others out with `exists`"
        return RowError(f"{' and '.join(sides)} have no order", hint=hint)


def is_equal(left: object, right: object) -> bool:
    """Return whether two values are equal.

    They are compared as numbers if one is a number and the other reads as one, or else as text;
    null equals only null.
    """
    match left, right:
        case (None, _) | (_, None):
            return left is right
        case (bool(), _) | (_, bool()):
            truth = parse_truth(left)
            return truth is not None and truth is parse_truth(right)
        case str(), str():
            return left == right
    number = parse_number(left)
    other_number = parse_number(right)
    if number is None or other_number is None:
        return left == right or str(left) == str(right)
    return number == other_number


def parse_number(value: object) -> int | float | None:
    """Return the number that a value is or reads as, else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, str):
        text = value.strip()
        if _INTEGER.fullmatch(text):
            return int(text)
        if _NUMBER.fullmatch(text):
            return float(text)
    return None


def parse_truth(value: object) -> bool | None:
    """Return the truth value of a boolean, a number or a word, else None."""
    if isinstance(value, (bool, int, float)) and value in (0, 1):
        return bool(value)
    if isinstance(value, str):
        return _TRUTH_WORDS.get(value.strip().casefold())
    return None
