"""What all metrics share: the protocol, what they read of a shard, how parts merge, what values are called.

A metric sees how often each combination of values occurs, and which samples are left out. Counting distinct
combinations first is a column operation; what follows touches each combination once.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any, ClassVar, Protocol

import polars as pl

from answerkey.errors import ScoringError, listing, suggest
from answerkey.metrics.exact import divide
from answerkey.metrics.intervals import Counts, Margin, measure_share
from answerkey.reader.explain import shorten
from answerkey.text import format_count
from answerkey.types import MetricValue, Purpose, Scores, ScoreStatus

#: What one shard contributes to a metric: whole numbers, texts, and lists and mappings of them.
Part = dict[str, Any]
#: How samples of one group or cluster are labelled, by one column or several.
Labels = tuple[str, ...]

#: Why a sample is left out, in `n_excluded`; excluded by an action is `excluded:` and the action's key.
FAILED, ERROR, NULL = "failed", "error", "null"
NOT_FINITE, NO_WEIGHT, NEITHER_ANSWER = "not_finite", "no_weight", "neither_answer"

NOTHING_COUNTED = "no sample counts towards it"
TOO_LARGE = "the value is too large for a float"

#: How many examples of unsuitable values an error shows.
SHOWN_EXAMPLES = 3


class Metric(Protocol):
    """A frozen dataclass whose fields are those of the YAML, and what it does shard by shard.

    Others may have more, which is looked for by name: `value_names` (which names its values get; without it
    any name is accepted where a gate names one), `find_scale` (the ends to which intervals are cut),
    `reads_numbers` (texts are refused by `check`), `reads_rows` (it is measured on rows, not on counts), and
    `sums` with `ratios` (`metrics.measure.RatioMetric`: without them there is no interval by clusters).
    """

    type: ClassVar[str]

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads."""

    def measure(self, scores: Scores) -> Part:
        """Return what one shard contributes, as plain values."""

    def merge(self, parts: Sequence[Part]) -> Part:
        """Return several parts as one; however the samples were sharded, the outcome is the same."""

    def finish(self, part: Part) -> list[MetricValue]:
        """Return the values. Raises ScoringError when the fields do not hold what the metric needs."""


class BaseMetric:
    """What our own metrics have in common: parts that merge in any order, and how a value is stated."""

    type: ClassVar[str]

    def merge(self, parts: Sequence[Part]) -> Part:
        """Return several parts as one, in any order."""
        return merge_parts(parts)

    def state(
        self,
        name: str,
        value: float | None,
        part: Part,
        *,
        note: str | None = None,
        details: Mapping[str, object] | None = None,
        margin: Margin | None = None,
    ) -> MetricValue:
        """Return a metric value; its note also says when values that are not finite were left out."""
        left_out = dict(sorted(part.get("left_out", {}).items()))
        not_finite = left_out.get(NOT_FINITE, 0)
        notes = [note, f"{not_finite} NaN or infinite left out" if not_finite else None]
        sure = margin if margin is not None and value is not None else Margin()
        return MetricValue(
            name=name,
            value=value,
            n=part.get("n", 0),
            n_excluded=left_out,
            note="; ".join(filter(None, notes)) or None,
            type=self.type,
            details=details or {},
            **vars(sure),
        )

    def state_share(
        self,
        name: str,
        share: Counts,
        part: Part,
        *,
        empty: str = NOTHING_COUNTED,
        details: Mapping[str, object] | None = None,
    ) -> MetricValue:
        """Return a share with its Wilson interval; `empty` is the note for 0/0."""
        details = {"count": share[0], "of": share[1], **(details or {})}
        if not share[1]:
            return self.state(name, None, part, note=empty, details=details)
        return self.state(name, divide(*share), part, details=details, margin=measure_share(*share))


class CountingMetric(BaseMetric, ABC):
    """A metric that needs no more of a shard than the counts of combinations of its fields' values."""

    def fields(self) -> tuple[str, ...]:
        """Return the names of the values or metadata that it reads, which its `field…` and `…_field` are."""
        own = vars(self).items()
        return tuple(name for key, name in own if key.startswith("field") or key.endswith("_field"))

    @abstractmethod
    def collect(self, counts: ValueCounts) -> Part:
        """Return the part of these counts."""

    def measure(self, scores: Scores) -> Part:
        """Return what one shard contributes, as plain values."""
        return self.collect(split_counts(scores, self.fields())[()])

    def check(self, part: Part) -> None:
        """Raise if a field is nowhere among the scores, or holds what this metric cannot take."""
        names = part.get("names", [])
        for name in self.fields():
            if part.get("rows") and name not in names:
                hint = suggest(name, names) or f"the scorer has {listing(names)}"
                raise ScoringError("E402", f"`{self.type}`: no score has the field `{name}`", hint=hint)
        for name, rows in sorted(part.get("unsuitable", {}).items()):
            examples = ", ".join(part["examples"][name][:SHOWN_EXAMPLES])
            held = f"holds other values in {format_count(rows, 'sample')}, such as {examples}"
            message = f"`{self.type}` needs numbers, but `{name}` {held}"
            raise ScoringError("E402", message, hint="`frequency` and the classification metrics read text")


# What a metric reads of a shard ----------------------------------------------------------------------------


class ValueCounts:
    """The distinct combinations of some fields among the samples that count, with their counts.

    A metric goes over them once, and says of each whether it counts, is left out, or is unsuitable: `n`
    samples count. `build` makes the part that a shard contributes.
    """

    def __init__(
        self,
        counts: Sequence[tuple[tuple[object, ...], int]],
        left_out: Mapping[str, int],
        names: Sequence[str],
    ) -> None:
        self.counts, self.names, self.left_out = counts, names, Counter(left_out)
        self.n, self.rows = 0, sum(rows for _, rows in counts)
        self._unsuitable: Counter[str] = Counter()
        self._examples: dict[str, list[str]] = {}

    def leave_out(self, reason: str, rows: int) -> None:
        """Leave out so many samples."""
        if rows:
            self.left_out[reason] += rows

    def take_column(self, numbers: pl.Series) -> pl.Series:
        """Return those of many floats that are finite; the others, and nulls, are left out."""
        finite = numbers.filter(numbers.is_finite())
        self.rows, self.n = len(numbers), len(finite)
        self.leave_out(NULL, numbers.null_count())
        self.leave_out(NOT_FINITE, len(numbers) - numbers.null_count() - len(finite))
        return finite

    def take_numbers(
        self, fields: Sequence[str], values: Sequence[object], rows: int
    ) -> list[int | float] | None:
        """Return the values as numbers; None when they are left out or unsuitable, which is then noted."""
        numbers: list[int | float] = []
        for name, value in zip(fields, values, strict=True):
            if isinstance(value, int | float) and is_finite(value):
                numbers.append(value)
                continue
            if value is None:
                self.leave_out(NULL, rows)
            elif isinstance(value, int | float):
                self.leave_out(NOT_FINITE, rows)
            else:
                self._unsuitable[name] += rows
                known = {*self._examples.get(name, ()), shorten(value)}
                self._examples[name] = sorted(known)[:SHOWN_EXAMPLES]
            return None
        self.n += rows
        return numbers

    def build(self, **sums: object) -> Part:
        """Return the part: what is common, and what the metric itself has summed up."""
        return {
            "n": self.n,
            "rows": self.rows,
            "left_out": dict(self.left_out),
            "names": sorted(set(self.names)),
            "unsuitable": dict(self._unsuitable),
            "examples": self._examples,
            **sums,
        }


def split_counts(
    scores: Scores, fields: Sequence[str], labels: Sequence[pl.Series] = ()
) -> dict[Labels, ValueCounts]:
    """Count the combinations of `fields` for each combination of labels, also where no row counts.

    Without labels all rows are one, called `()`. A field that this shard lacks is null in every row.
    """
    marks = [f"label {place}" for place in range(len(labels))]
    columns = [series.alias(name) for name, series in zip(marks, labels, strict=True)]
    table = pl.DataFrame([*columns, *read_columns(scores, fields)])
    if not scores.are_all_counted:
        table = table.filter(scores.counted())
    first = table.to_series()
    if table.width == 1 and (first.dtype.is_float() or first.dtype in (pl.String, pl.Boolean)):
        # The same as below, in a third of the time.
        groups = first.value_counts(name="len")
    else:
        groups = table.group_by(pl.all()).len()
    counted: dict[Labels, list[tuple[tuple[object, ...], int]]] = {} if labels else {(): []}
    found = groups.select(marks).rows() if marks else [()] * groups.height
    values = read_rows(groups, scores, fields)
    for label, combination, rows in zip(found, values, groups["len"].to_list(), strict=True):
        counted.setdefault(label, []).append((combination, rows))
    left_out: dict[Labels, dict[str, int]] = {}
    if not scores.are_all_counted:
        reasons = scores.frame.select(name_left_out()).to_series()
        marked = pl.DataFrame([*columns, reasons]).drop_nulls("reason")
        for *named, reason, rows in marked.group_by(pl.all()).len().iter_rows():
            left_out.setdefault(tuple(named), {})[reason] = rows
    return {
        label: ValueCounts(counted.get(label, []), left_out.get(label, {}), scores.names)
        for label in dict.fromkeys([*counted, *left_out])
    }


def read_columns(scores: Scores, fields: Sequence[str]) -> list[pl.Series]:
    """Return fields of the scores, called by their places."""
    return [read_column(scores, name).alias(str(place)) for place, name in enumerate(fields)]


def read_rows(table: pl.DataFrame, scores: Scores, fields: Sequence[str]) -> list[tuple[object, ...]]:
    """Return the rows of a table with columns of `read_columns`, as metrics compare values.

    Minus zero is zero, a decimal is the nearest float.
    """
    values: list[list[object]] = []
    for place, name in enumerate(fields):
        column = table[str(place)]
        if name in scores.encoded:
            decoded = [None if text is None else json.loads(text) for text in column.to_list()]
            values.append([0.0 if isinstance(one, float) and one == 0 else one for one in decoded])
            continue
        if column.dtype.is_decimal() or column.dtype.is_float():
            column = column.cast(pl.Float64)
            column = pl.select(pl.when(column == 0).then(0.0).otherwise(column)).to_series()
        values.append(column.to_list())
    return list(zip(*values, strict=True))


def read_column(scores: Scores, name: str) -> pl.Series:
    """Return a field of the scores; all null when there is none such."""
    column = scores.column(name)
    return pl.repeat(None, len(scores), dtype=pl.Null, eager=True) if column is None else column


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
    return value if isinstance(value, int | float) and is_finite(value) else None


def is_finite(number: float) -> bool:
    """Whether the number is one that a float can hold: not NaN, not infinite, no larger integer."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def write_label(value: object) -> str:
    """Return a value as text: as Python prints numbers and booleans, nested values as JSON."""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return str(value)


# Parts -----------------------------------------------------------------------------------------------------


def merge_parts(parts: Iterable[Mapping[str, Any]]) -> Part:
    """Return parts as one: numbers are added, mappings merged key by key, lists united and sorted.

    Of texts the first is kept.
    """
    merged: Part = {}
    for part in parts:
        for key, leaf in part.items():
            first = merged.get(key)
            if isinstance(first, dict) and isinstance(leaf, dict):
                merged[key] = merge_parts([first, leaf])
            elif isinstance(first, int) and isinstance(leaf, int):
                merged[key] = first + leaf
            elif isinstance(first, list) and isinstance(leaf, list):
                merged[key] = sorted({*first, *leaf})
            elif key not in merged:
                merged[key] = leaf
            elif isinstance(first, dict | int | list) or isinstance(leaf, dict | int | list):
                raise TypeError(f"parts of different metrics: {first!r}, {leaf!r}")
    return merged


def sort_keys(part: Mapping[str, Any]) -> Part:
    """Return the part with its keys, and those of the mappings in it, in the order of their text."""
    return {key: sort_keys(leaf) if isinstance(leaf, dict) else leaf for key, leaf in sorted(part.items())}


# Names -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ValueNames:
    """What the values of a metric will be called, as far as that is known before there are scores.

    Names that are certain, and openings with endings between which the scores put a label. `is_share` says
    that all these values lie within [0, 1] by their nature.
    """

    names: tuple[str, ...] = ()
    patterns: tuple[tuple[str, str], ...] = ()
    is_share: bool = False

    def allow(self, name: str) -> bool:
        """Return whether a value may be called so."""
        return name in self.names or any(
            len(name) >= len(opening) + len(ending) and name.startswith(opening) and name.endswith(ending)
            for opening, ending in self.patterns
        )


def foresee_names(metric: Metric) -> ValueNames:
    """Return what the values of a metric will be called; anything, if it does not say."""
    tell = getattr(metric, "value_names", None)
    return tell() if tell else ValueNames(patterns=(("", ""),))


#: Scorer key, metric key, purpose, metric type, values.
ValueGroup = tuple[str, str, Purpose, str, Sequence[MetricValue]]


def name_values(groups: Sequence[ValueGroup]) -> list[MetricValue]:
    """Return all values of a task with their final names, in the order given.

    A name that is unique in the task stays; else it gets the metric's key in front; else also the scorer's.
    Should even that be taken, it is numbered, so that no value ever hides another.
    """
    values = [
        replace(value, scorer=scorer, metric=metric, purpose=purpose, type=kind)
        for scorer, metric, purpose, kind, found in groups
        for value in found
    ]
    names: dict[int, str] = {}
    for keys in (("name",), ("metric", "name"), ("scorer", "metric", "name")):
        longer = {
            place: "_".join(getattr(value, key) for key in keys)
            for place, value in enumerate(values)
            if place not in names
        }
        uses, taken = Counter(longer.values()), set(names.values())
        names |= {place: name for place, name in longer.items() if uses[name] == 1 and name not in taken}
    for place, value in enumerate(values):
        if place not in names:
            longest = f"{value.scorer}_{value.metric}_{value.name}"
            numbered = chain([longest], (f"{longest}-{number}" for number in count(2)))
            taken = set(names.values())
            names[place] = next(name for name in numbered if name not in taken)
    return [replace(value, name=names[place]) for place, value in enumerate(values)]
