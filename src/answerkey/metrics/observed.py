"""What a metric sees of a shard: how often each combination of values occurs, and which samples are left out.

Counting distinct combinations first is a column operation; what follows touches each combination once.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from answerkey.types import Scores, ScoreStatus

#: What one shard contributes to a metric: whole numbers, texts, and lists and mappings of them.
Part = dict[str, Any]

#: Why a sample is left out, in `n_excluded`; excluded by an action is `excluded:` and the action's key.
FAILED, ERROR, NULL = "failed", "error", "null"
NOT_FINITE, NO_WEIGHT, NEITHER_ANSWER = "not_finite", "no_weight", "neither_answer"

#: So many different numbers among the first rows are more than are worth counting.
MANY = 1000

#: How many examples of unsuitable values an error shows, and how much of each.
SHOWN_EXAMPLES = 3
SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class Observed:
    """The distinct combinations of some fields among the samples that count, with their counts."""

    counts: Sequence[tuple[tuple[object, ...], int]]
    left_out: Counter[str]
    names: Sequence[str]

    @property
    def rows(self) -> int:
        """How many samples count."""
        return sum(count for _, count in self.counts)


def observe(scores: Scores, fields: Sequence[str]) -> Observed:
    """Count the combinations of `fields`; a field that this shard lacks is null in every row."""
    columns = [read_column(scores, name).alias(str(index)) for index, name in enumerate(fields)]
    table = pl.DataFrame(columns)
    groups = _count_rows(table if scores.are_all_counted else table.filter(scores.counted()))
    values = [
        read_values(groups[str(index)], is_encoded=name in scores.encoded)
        for index, name in enumerate(fields)
    ]
    return Observed(
        counts=list(zip(zip(*values, strict=True), groups["len"].to_list(), strict=True)),
        left_out=count_left_out(scores),
        names=scores.names,
    )


def find_many(scores: Scores, name: str) -> pl.Series | None:
    """Return the floats of a field in the rows that count if nearly all differ, else None.

    A glance at the first rows decides: whether a field is counted or summed changes no number.
    """
    column = scores.column(name)
    if column is None or name in scores.encoded or column.dtype != pl.Float64:
        return None
    counted = column if scores.are_all_counted else column.filter(scores.counted())
    return counted if counted.head(2 * MANY).n_unique() > MANY else None


def _count_rows(table: pl.DataFrame) -> pl.DataFrame:
    """Return the distinct rows with how often each occurs, as `len`."""
    first = table.to_series()
    if table.width == 1 and (first.dtype.is_float() or first.dtype in (pl.String, pl.Boolean)):
        # The same as below, in a third of the time.
        return first.value_counts(name="len")
    return table.group_by(pl.all()).len()


def read_column(scores: Scores, name: str) -> pl.Series:
    """Return a field of the scores; all null when there is none such."""
    column = scores.column(name)
    return pl.repeat(None, len(scores), dtype=pl.Null, eager=True) if column is None else column


def read_values(column: pl.Series, *, is_encoded: bool) -> list[object]:
    """Return the values as metrics compare them: minus zero is zero, a decimal is the nearest float."""
    if is_encoded:
        texts = column.to_list()
        return [None if text is None else _drop_minus(json.loads(text)) for text in texts]
    if column.dtype.is_decimal() or column.dtype.is_float():
        column = column.cast(pl.Float64)
        column = pl.select(pl.when(column == 0).then(0.0).otherwise(column)).to_series()
    return column.to_list()


def _drop_minus(value: object) -> object:
    return 0.0 if isinstance(value, float) and value == 0 else value


def name_left_out() -> pl.Expr:
    """Return why no metric sees a row of scores, as `reason`; null for one that counts."""
    return (
        pl.when(pl.col("status") == ScoreStatus.FAILED.value)
        .then(pl.lit(FAILED))
        .when(pl.col("status") == ScoreStatus.ERROR.value)
        .then(pl.lit(ERROR))
        .otherwise(pl.lit("excluded:") + pl.col("excluded_by"))
        .alias("reason")
    )


def count_left_out(scores: Scores) -> Counter[str]:
    """Count the samples that no metric sees, by reason."""
    if scores.are_all_counted:
        return Counter()
    groups = scores.frame.group_by(name_left_out()).len().drop_nulls("reason")
    return Counter(dict(sorted(groups.iter_rows())))


def read_number(value: object) -> int | float | None:
    """Return a finite number as it is, a boolean as 1 or 0, anything else as None."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float) and is_finite(value):
        return value
    return None


def is_finite(number: float) -> bool:
    """Whether the number is one that a float can hold: not NaN, not infinite, no larger integer."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def is_number(value: object) -> bool:
    """Whether the value is a number or a boolean, finite or not."""
    return isinstance(value, bool | int | float)


def show_value(value: object) -> str:
    """Return a value as an error or a note shows it, cut after 80 characters."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def write_label(value: object) -> str:
    """Return a value as text: as Python prints numbers and booleans, nested values as JSON."""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return str(value)


@dataclass
class Ledger:
    """Collects what all parts have in common: how many samples count, who is left out, and why."""

    left_out: Counter[str]
    names: Sequence[str]
    rows: int
    n: int = 0
    unsuitable: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def open(cls, observed: Observed) -> Ledger:
        """Return a ledger that knows who was left out before any value was looked at."""
        return cls(Counter(observed.left_out), observed.names, observed.rows)

    def take_column(self, numbers: pl.Series) -> pl.Series:
        """Return those of many floats that are finite; the others, and nulls, are left out."""
        finite = numbers.filter(numbers.is_finite())
        self.rows, self.n = len(numbers), len(finite)
        self.leave_out(NULL, numbers.null_count())
        self.leave_out(NOT_FINITE, len(numbers) - numbers.null_count() - len(finite))
        return finite

    def leave_out(self, reason: str, count: int) -> None:
        """Leave out `count` samples."""
        if count:
            self.left_out[reason] += count

    def refuse(self, name: str, value: object, count: int) -> None:
        """Note that a field holds something a metric cannot be computed from."""
        self.unsuitable[name] += count
        known = {*self.examples.get(name, ()), show_value(value)}
        self.examples[name] = sorted(known)[:SHOWN_EXAMPLES]

    def take_numbers(
        self, fields: Sequence[str], values: Sequence[object], count: int
    ) -> list[int | float] | None:
        """Return the values as numbers; None when they are left out or refused, which is then noted."""
        numbers: list[int | float] = []
        for name, value in zip(fields, values, strict=True):
            if value is None:
                self.leave_out(NULL, count)
            elif not isinstance(value, int | float):
                self.refuse(name, value, count)
            elif not is_finite(value):
                self.leave_out(NOT_FINITE, count)
            else:
                numbers.append(value)
                continue
            return None
        self.n += count
        return numbers

    def close(self, **sums: object) -> Part:
        """Return the part: the ledger and what the metric itself has summed up."""
        return {
            "n": self.n,
            "rows": self.rows,
            "left_out": dict(self.left_out),
            "names": sorted(set(self.names)),
            "unsuitable": dict(self.unsuitable),
            "examples": dict(self.examples),
            **sums,
        }


def merge_parts(parts: Iterable[Mapping[str, object]]) -> Part:
    """Return parts as one: numbers are added, mappings merged key by key, lists united and sorted."""
    merged: Part = {}
    for part in parts:
        for key, leaf in part.items():
            merged[key] = _merge_leaves(merged[key], leaf) if key in merged else leaf
    return merged


def _merge_leaves(first: object, second: object) -> object:
    if isinstance(first, dict) and isinstance(second, dict):
        return merge_parts([first, second])
    if isinstance(first, int) and isinstance(second, int):
        return first + second
    if isinstance(first, list) and isinstance(second, list):
        return sorted({*first, *second})
    message = f"parts of different metrics: {first!r}, {second!r}"
    raise TypeError(message)


def sort_keys(part: Mapping[str, Any]) -> Part:
    """Return the part with its keys, and those of the mappings in it, in the order of their text."""
    return {key: sort_keys(leaf) if isinstance(leaf, dict) else leaf for key, leaf in sorted(part.items())}
