"""Row filters of datasets and actions: which rows take part."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import polars as pl

from answerkey.errors import SpecError
from answerkey.templates.plain import describe_type
from answerkey.templates.template import Template
from answerkey.templates.trouble import RowTrouble
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
TRUE_WORDS: Final = frozenset(["true", "1", "yes"])
FALSE_WORDS: Final = frozenset(["false", "0", "no"])
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,4000}")
#: More digits than Python turns into a whole number are read as a float.
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DELIMITERS: Final = ("{{", "{%", "{#")
#: What the filter of a dataset sees, and that of an action.
DATASET_NAMES: Final = ("sample",)
ACTION_NAMES: Final = ("sample", "solver_output", "scores")


@dataclass(frozen=True)
class Sifted:
    """Which rows a filter keeps; null, and here with the reason, where that cannot be said."""

    is_kept: pl.Series
    troubles: tuple[tuple[int, RowTrouble], ...] = ()


@dataclass(frozen=True)
class RowFilter:
    """One condition on a row; `expression` is a template (`{{ sample.x }}`) or bare code (`sample.x`)."""

    op: FilterOp
    expression: str
    value: object = None
    values: tuple[object, ...] | None = None

    def __post_init__(self) -> None:
        needs_values = self.op in {"in", "not_in"}
        if needs_values and self.values is None:
            raise SpecError("E108", f"a filter with op `{self.op}` needs `values`", hint="`values: [a, b]`")
        if not needs_values and self.values is not None:
            raise SpecError(
                "E108", f"a filter with op `{self.op}` has no `values`", hint="use `in` or `not_in`"
            )

    @cached_property
    def template(self) -> Template:
        """The compiled expression of an action's filter. Raise SpecError E112."""
        return self.compile(ACTION_NAMES)

    @cached_property
    def row_template(self) -> Template:
        """The compiled expression of a dataset's filter, which sees the row alone. Raise SpecError E112."""
        return self.compile(DATASET_NAMES)

    def compile(self, names: Sequence[str]) -> Template:
        """Return the expression as a template that sees these names. Raise SpecError E112."""
        is_template = any(mark in self.expression for mark in _DELIMITERS)
        source = self.expression if is_template else f"{{{{ {self.expression} }}}}"
        return Template.compile(source, names=names)

    def matches(self, **context: object) -> bool:
        """Say whether a row fulfils the condition. Raise RowTrouble."""
        try:
            value = self.template.evaluate(**context)
        except RowTrouble as trouble:
            value = trouble
        return self._judge(value)

    def sift(self, samples: Samples, **others: Samples) -> Sifted:
        """Return which rows fulfil the condition, each distinct value judged once.

        `others` are the tables behind the other names of an action's filter; without them it is a dataset's.
        """
        template = self.template if others else self.row_template
        distinct = template.distinct(samples, **others)
        verdicts = [self._attempt(value) for value in distinct.values]
        holds = pl.Series([one if isinstance(one, bool) else None for one in verdicts], dtype=pl.Boolean)
        is_kept = holds.gather(distinct.codes)
        rows = is_kept.is_null().arg_true()
        reasons = (verdicts[code] for code in distinct.codes.gather(rows).to_list())
        pairs = zip(rows.to_list(), reasons, strict=True)
        return Sifted(is_kept, tuple((row, one) for row, one in pairs if isinstance(one, RowTrouble)))

    def _attempt(self, value: object) -> bool | RowTrouble:
        try:
            return self._judge(value)
        except RowTrouble as trouble:
            return trouble.with_traceback(None)

    def _judge(self, value: object) -> bool:
        if self.op in {"exists", "not_exists"}:
            return is_there(value) is (self.op == "exists")
        if isinstance(value, RowTrouble):
            raise value
        return _TESTS[self.op](value, self)


def is_there(value: object) -> bool:
    """Say whether a value is there: neither undefined nor null. An empty text is there."""
    if isinstance(value, RowTrouble) and not value.is_undefined:
        raise value
    return value is not None and not isinstance(value, RowTrouble)


def is_equal(left: object, right: object) -> bool:
    """Say whether two values are equal: numbers if one is a number and the other reads as one, else text."""
    if left is None or right is None:
        return left is right
    if isinstance(left, bool) or isinstance(right, bool):
        return _read_truth(left) is not None and _read_truth(left) is _read_truth(right)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(is_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(is_equal(left[key], right[key]) for key in left)
    numbers = read_number(left), read_number(right)
    if None not in numbers and not (isinstance(left, str) and isinstance(right, str)):
        return numbers[0] == numbers[1]
    return str(left) == str(right)


def read_number(value: object) -> int | float | None:
    """Return the number that a value is or reads as, else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return value
    text = value.strip() if isinstance(value, str) else ""
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else None


def _read_truth(value: object) -> bool | None:
    """Return the truth value that a boolean, a number or a word stands for, else None."""
    if isinstance(value, (bool, int, float)):
        return bool(value) if value in (0, 1) else None
    word = value.strip().casefold() if isinstance(value, str) else ""
    if word in TRUE_WORDS or word in FALSE_WORDS:
        return word in TRUE_WORDS
    return None


def _compare(compare: Callable[[object, object], bool]) -> Callable[[object, RowFilter], bool]:
    return lambda value, condition: compare(*_make_comparable(value, condition.value))


def _make_comparable(left: object, right: object) -> tuple[object, object]:
    """Return two values that have an order: two texts, or a number and what reads as one."""
    if isinstance(left, str) and isinstance(right, str):
        return left, right
    numbers = read_number(left), read_number(right)
    if None not in numbers:
        return numbers
    message = f"{left!r} ({describe_type(left)}) and {right!r} ({describe_type(right)}) have no order"
    raise RowTrouble(
        message,
        hint="order is for two numbers or two texts; filter the others out with `exists`",
    )


def _is_among(value: object, condition: RowFilter) -> bool:
    return any(is_equal(value, one) for one in condition.values or ())


_TESTS: Final[dict[str, Callable[[object, RowFilter], bool]]] = {
    "equals": lambda value, condition: is_equal(value, condition.value),
    "not_equals": lambda value, condition: not is_equal(value, condition.value),
    "greater_than": _compare(operator.gt),  # type: ignore[arg-type]
    "less_than": _compare(operator.lt),  # type: ignore[arg-type]
    "greater_or_equal": _compare(operator.ge),  # type: ignore[arg-type]
    "less_or_equal": _compare(operator.le),  # type: ignore[arg-type]
    "in": _is_among,
    "not_in": lambda value, condition: not _is_among(value, condition),
    "is_true": lambda value, _: _read_truth(value) is True,
    "is_false": lambda value, _: _read_truth(value) is False,
}
