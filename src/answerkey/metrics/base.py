"""The base of all metrics: the protocol, the counts of scores that metrics read, and the names of
values.

Most metrics need only the number of occurrences of each combination of values, and the samples left
out. Polars counts the distinct combinations; metrics then process each combination once.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import polars as pl

from answerkey.errors import ScoringError, listing, suggest
from answerkey.metrics.intervals import (
    STUDENT,
    Counts,
    Exact,
    Margin,
    Ratio,
    bound_value,
    measure_f1,
    measure_share,
)
from answerkey.reader.explain import shorten
from answerkey.text import format_count
from answerkey.types import MetricValue, Purpose, Scores, ScoreStatus

#: The labels of a group or cluster in one column or several.
Labels = tuple[Any, ...]
#: The values of some fields in a sample; and the same with the number of samples that have them.
Cells = tuple[object, ...]
Combination = tuple[Cells, int]
#: The contribution of a sample to the two sums of a ratio.
Addition = tuple[Exact, Exact]

#: The reasons in `n_excluded` why samples are left out; for an action it is `excluded:` and the
#: action's key.
FAILED, ERROR, NULL = "failed", "error", "null"
NOT_FINITE, NO_WEIGHT, NEITHER_ANSWER = "not_finite", "no_weight", "neither_answer"

NOTHING_COUNTED = "no sample counts towards it"

#: The maximum number of unsuitable values that an error shows.
MAX_SHOWN_VALUES = 3


class Metric(Protocol):
    """A frozen dataclass whose fields are those of the YAML.

    Optional attributes: `value_names` (the names of its values; without it, gates may name any
    value), `find_scale` (the limits to which intervals are clipped), `reads_numbers` (texts are
    refused), `reads_rows` (it sees the rows of trials and orders, not one row per sample), and
    `reads_extra` (it also sees rows that only estimate a prior).
    """

    type: ClassVar[str]

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads."""

    def compute(self, scores: Scores) -> list[MetricValue]:
        """Return the values. Raise ScoringError if the fields do not have the values that the
        metric needs.
        """


@dataclass
class Coverage:
    """The number of samples that count towards a metric, and of those left out, by reason."""

    n: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


class BaseMetric:
    """The base of our own metrics: creates metric values."""

    type: ClassVar[str]

    def make_value(
        self,
        name: str,
        value: float | None,
        coverage: Coverage,
        *,
        note: str | None = None,
        details: Mapping[str, object] | None = None,
        margin: Margin | None = None,
    ) -> MetricValue:
        """Return a metric value.

        Its note also mentions values left out because they are not finite.
        """
        notes = []
        if note:
            notes.append(note)
        not_finite = coverage.left_out[NOT_FINITE]
        if not_finite:
            notes.append(f"{not_finite} NaN or infinite left out")
        if margin is None or value is None:
            margin = Margin()
        return MetricValue(
            name=name,
            value=value,
            n=coverage.n,
            n_excluded=sort_keys(coverage.left_out),
            note="; ".join(notes) or None,
            type=self.type,
            details=details or {},
            **vars(margin),
        )

    def make_share(
        self,
        name: str,
        share: Counts,
        coverage: Coverage,
        *,
        empty: str = NOTHING_COUNTED,
        details: Mapping[str, object] | None = None,
    ) -> MetricValue:
        """Return a share with its Wilson interval; `empty` is the note for 0/0."""
        count, of = share
        counted = {"count": count, "of": of, **(details or {})}
        if not of:
            return self.make_value(
                name,
                None,
                coverage,
                note=empty,
                details=counted,
            )
        margin = measure_share(count, of)
        return self.make_value(
            name,
            count / of,
            coverage,
            details=counted,
            margin=margin,
        )

    def make_f1(
        self,
        name: str,
        share: Counts,
        coverage: Coverage,
        *,
        empty: str,
    ) -> MetricValue:
        """Return F1, which is 2 TP / (2 TP + FP + FN), with its interval."""
        count, of = share
        if not of:
            return self.make_value(name, None, coverage, note=empty)
        margin = measure_f1(count // 2, of - count)
        return self.make_value(name, count / of, coverage, margin=margin)


class Sums(dict[str, Ratio]):
    """The ratio of sums behind each value of a metric, by the value's name.

    `absent` is the ratio of a value without any samples. In a classification, `cells` counts
    samples by truth and prediction; a missing prediction is None.
    """

    def __init__(self) -> None:
        super().__init__()
        self.absent = Ratio()
        self.cells: Counter[tuple[str, str | None]] = Counter()

    def __missing__(self, name: str) -> Ratio:
        return self.absent

    def add(
        self,
        name: str,
        top: Exact,
        bottom: Exact,
        rows: int,
    ) -> None:
        """Add a number of identical samples to a ratio."""
        self.setdefault(name, Ratio()).add(top, bottom, rows)


class CountingMetric(BaseMetric, ABC):
    """A metric that needs only the counts of combinations of its fields' values.

    `needs` describes the values it accepts if it reads numbers. `has_ratios`: its values are the
    ratios from `collect` or averages of them, whose intervals can allow for clusters.
    """

    needs: ClassVar[str] = "numbers"
    has_ratios: ClassVar[bool] = True

    def fields(self) -> tuple[str, ...]:
        """Return the names of the values or metadata that it reads: its `field…` and `…_field`
        settings.
        """
        names = []
        for key, name in vars(self).items():
            if key.startswith("field") or key.endswith("_field"):
                names.append(name)
        return tuple(names)

    @abstractmethod
    def collect(self, counts: ValueCounts) -> Sums:
        """Return the sums over these counts, and record in the counts which samples count."""

    @abstractmethod
    def make_values(self, counts: ValueCounts, sums: Sums) -> list[MetricValue]:
        """Return the values from the sums over these counts."""

    def averages(
        self,
        sums: Sums,  # noqa: ARG002 - for subclasses with averages
    ) -> dict[str, list[str]]:
        """Return the names of the ratios behind each value that is an average."""
        return {}

    def compute(self, scores: Scores) -> list[MetricValue]:
        """Return the values."""
        counts = split_counts(scores, self.fields(), [])[()]
        sums = self.collect(counts)
        self.check(counts)
        return self.make_values(counts, sums)

    def check(self, counts: ValueCounts) -> None:
        """Raise if no score has a field, or if a field has values that this metric does not
        accept.
        """
        for name in self.fields():
            if counts.counts and name not in counts.names:
                names = sorted(counts.names)
                hint = suggest(name, names) or f"the scorer has {listing(names)}"
                message = f"`{self.type}`: no score has the field `{name}`"
                raise ScoringError("E402", message, hint=hint)
        if not counts.unsuitable:
            return
        name = min(counts.unsuitable)
        examples = ", ".join(counts.examples[name])
        samples = format_count(counts.unsuitable[name], "sample")
        message = (
            f"`{self.type}` needs {self.needs}, but `{name}` has other values in {samples}, "
            f"such as {examples}"
        )
        hint = "`frequency` and the classification metrics read text"
        raise ScoringError("E402", message, hint=hint)


class RatioMetric(CountingMetric):
    """A metric with one value, the ratio of two sums over the samples.

    `outcomes` are the contributions to the two sums of a sample with a single 0/1 outcome, or none.
    """

    empty: ClassVar[str] = NOTHING_COUNTED
    method: ClassVar[str] = STUDENT
    score_method: ClassVar[str | None] = None
    outcomes: ClassVar[tuple[Addition, ...]] = (
        (0, 0),
        (0, 1),
        (1, 1),
    )
    name: str | None

    @property
    @abstractmethod
    def value_name(self) -> str:
        """The name of the value."""

    @abstractmethod
    def weigh(
        self,
        counts: ValueCounts,
        values: Cells,
        rows: int,
    ) -> Addition | None:
        """Return the contribution of a sample with these values to the two sums.

        None if it is left out or unsuitable, which is then recorded.
        """

    def collect(self, counts: ValueCounts) -> Sums:
        """Return the exact sums."""
        ratio = Ratio()
        for values, rows in counts.counts:
            addition = self.weigh(counts, values, rows)
            if addition is None:
                continue
            ratio.add(*addition, rows)
            if addition not in self.outcomes:
                ratio.several += rows
        sums = Sums()
        sums[self.value_name] = ratio
        return sums

    def make_values(self, counts: ValueCounts, sums: Sums) -> list[MetricValue]:
        """Return the value, which is null if no sample counts, or for 0/0."""
        ratio = sums[self.value_name]
        if ratio.bottom:
            return [self.make_ratio_value(counts, ratio)]
        note = self.empty if ratio.n else NOTHING_COUNTED
        return [self.make_value(self.value_name, None, counts, note=note)]

    def make_ratio_value(self, counts: ValueCounts, ratio: Ratio) -> MetricValue:
        """Return the value of a ratio that is not 0/0."""
        if not ratio.several:
            return self.make_share(self.value_name, ratio.share, counts)
        margin = bound_value(
            ratio.value,
            ratio.std_error,
            ratio.n - 1,
            self.method,
            score_method=self.score_method,
            is_share=counts.is_share or self.score_method is not None,
        )
        return self.make_value(self.value_name, ratio.value, counts, margin=margin)


# The counts of scores that metrics read


@dataclass
class ValueCounts(Coverage):
    """The distinct combinations of some fields among the samples that count, with their counts.

    A metric iterates over them once and marks each as counted, left out or unsuitable. `is_share`:
    the mean of the numbers is a share although they are not all 0 or 1.
    """

    names: Collection[str] = ()
    counts: list[Combination] = field(default_factory=list)
    unsuitable: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    is_share: bool = False

    def take_numbers(
        self,
        fields: Sequence[str],
        values: Sequence[object],
        rows: int,
        *,
        is_count: bool = False,
    ) -> list[Exact] | None:
        """Return the values as exact numbers, which must be 0 or more if they are counts.

        None if they are left out or unsuitable, which is then recorded.
        """
        numbers: list[Exact] = []
        for name, value in zip(fields, values, strict=True):
            if value is None:
                self.left_out[NULL] += rows
                return None
            if not isinstance(value, int | float) or (is_count and value < 0):
                self.unsuitable[name] += rows
                self._add_example(name, value)
                return None
            if not is_finite(value):
                self.left_out[NOT_FINITE] += rows
                return None
            # A whole number stays an integer, which is faster than a fraction.
            numbers.append(value if isinstance(value, int) else Fraction(value))
        self.n += rows
        return numbers

    def _add_example(self, name: str, value: object) -> None:
        examples = set(self.examples.get(name, ()))
        examples.add(shorten(value))
        self.examples[name] = sorted(examples)[:MAX_SHOWN_VALUES]


def split_counts(
    scores: Scores,
    fields: Sequence[str],
    labels: Sequence[pl.Series],
) -> dict[Labels, ValueCounts]:
    """Count the combinations of `fields` for each combination of labels, even if no row of it
    counts.

    Without labels all rows are in one group, called `()`. A field that the scores do not have is
    null in every row.
    """
    label_columns = []
    for place, series in enumerate(labels):
        label_columns.append(series.alias(f"label {place}"))
    columns = []
    for place, name in enumerate(fields):
        columns.append(read_column(scores, name).alias(str(place)))
    verdicts = scores.frame.select("status", "excluded_by")
    groups = count_combinations(pl.DataFrame([*label_columns, *columns, *verdicts]))
    # Reasons are named only now, when there are few.
    groups = groups.select(pl.exclude("len", *verdicts.columns), exclusion_reason(), "len")
    has_reason = groups["reason"].is_not_null()
    counted = groups.filter(~has_reason)
    left_out = groups.filter(has_reason)
    cells = []
    for place, name in enumerate(fields):
        column = counted[str(place)]
        cells.append(_list_cells(column, is_encoded=name in scores.encoded))
    make_counts = partial(ValueCounts, names=scores.columns)
    split: defaultdict[Labels, ValueCounts] = defaultdict(make_counts)
    if not labels:
        split[()] = make_counts()
    rows_of_cells = zip(*cells, strict=True)
    for row, values in zip(counted.iter_rows(), rows_of_cells, strict=True):
        *_, size = row
        split[row[: len(labels)]].counts.append((values, size))
    for row in left_out.iter_rows():
        *_, reason, size = row
        split[row[: len(labels)]].left_out[reason] += size
    return split


def count_combinations(table: pl.DataFrame) -> pl.DataFrame:
    """Return the distinct rows of a table in the order in which they first occur, and `len`.

    The streaming engine does not hold the rows in memory.
    """
    groups = table.lazy().group_by(pl.all(), maintain_order=True)
    return groups.len().collect(engine="streaming")


def _list_cells(column: pl.Series, *, is_encoded: bool) -> list[Any]:
    """Return the cells of a field as plain values, with JSON texts decoded.

    Minus zero becomes zero; decimals, and whole numbers among floats, become the nearest float.
    """
    if column.dtype.is_decimal() or column.dtype.is_float():
        floats = column.cast(pl.Float64)
        is_zero = floats == 0
        return floats.set(is_zero, 0.0).to_list()
    cells = column.to_list()
    if not is_encoded:
        return cells
    decoded = decode(cells)
    kinds = {type(cell) for cell in decoded}
    if float in kinds:
        return [_make_float(cell) for cell in decoded]
    return decoded


def decode(texts: Iterable[Any]) -> list[Any]:
    """Return the values of JSON texts; null stays None."""
    return [text and json.loads(text) for text in texts]


def _make_float(cell: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Return a number as a float if that is exact."""
    is_number = type(cell) in {int, float}
    if is_number and is_finite(cell) and float(cell) == cell:
        return cell + 0.0
    return cell


def read_column(scores: Scores, name: str) -> pl.Series:
    """Return a field of the scores; all null if it does not exist."""
    if name in scores.columns:
        return scores.columns[name]
    return pl.repeat(
        None,
        len(scores),
        dtype=pl.Null,
        eager=True,
    )


def exclusion_reason() -> pl.Expr:
    """Return an expression, `reason`: why a row of scores is left out of all metrics, or null."""
    status = pl.col("status")
    action = pl.col("excluded_by").cast(pl.String)
    return (
        pl.when(status == ScoreStatus.FAILED.value)
        .then(pl.lit(FAILED))
        .when(status == ScoreStatus.ERROR.value)
        .then(pl.lit(ERROR))
        .otherwise(pl.lit("excluded:") + action)
        .alias("reason")
    )


def count_coverage(scores: Scores) -> Coverage:
    """Count the samples that count towards metrics, and the others by reason."""
    verdicts = count_combinations(scores.frame.select("status", "excluded_by"))
    coverage = Coverage()
    for reason, size in verdicts.select(exclusion_reason(), "len").iter_rows():
        if reason is None:
            coverage.n += size
        else:
            coverage.left_out[reason] += size
    return coverage


def read_number(value: object) -> int | float | None:
    """Return a finite number unchanged, a boolean as 1 or 0, anything else as None."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float) and is_finite(value):
        return value
    return None


def is_finite(number: float) -> bool:
    """Whether a float can hold the number: not NaN, not infinite, not too large an integer."""
    return abs(number) <= sys.float_info.max


def write_label(value: object) -> str:
    """Return a value as text: numbers and booleans as Python prints them, nested values as JSON."""
    if not isinstance(value, list | dict):
        return str(value)
    return json.dumps(
        value,
        ensure_ascii=False,
        sort_keys=True,
        default=str,
    )


def sort_keys(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping, and the mappings in it, with their keys sorted as text."""
    ordered = {}
    for key, value in sorted(mapping.items()):
        if isinstance(value, dict):
            value = sort_keys(value)  # noqa: PLW2901 - the same, in order
        ordered[key] = value
    return ordered


# Names


class ValueNames(NamedTuple):
    """The names of a metric's values, as far as they are known before scoring.

    They are fixed names, and patterns of a prefix and a suffix with a label from the scores between
    them. `is_share`: all these values are always between 0 and 1.
    """

    names: tuple[str, ...] = ()
    patterns: tuple[tuple[str, str], ...] = ()
    is_share: bool = False

    def allow(self, name: str) -> bool:
        """Return whether a value may have this name."""
        if name in self.names:
            return True
        for opening, ending in self.patterns:
            is_long = len(name) >= len(opening) + len(ending)
            if is_long and name.startswith(opening) and name.endswith(ending):
                return True
        return False


def expected_names(metric: Metric) -> ValueNames:
    """Return the expected names of a metric's values; any name if the metric does not define
    them.
    """
    if not hasattr(metric, "value_names"):
        return ValueNames(patterns=(("", ""),))
    names: ValueNames = metric.value_names()
    return names


#: Scorer key, metric key, purpose, metric type, values.
ValueGroup = tuple[str, str, Purpose, str, Sequence[MetricValue]]


def name_values(groups: Sequence[ValueGroup]) -> list[MetricValue]:
    """Return all values of a task with their final names, in the order given.

    A name that is unique in the task is kept; otherwise the metric's key is put before it, and if
    needed also the scorer's. If even that is taken, a number is added, so that no value hides
    another.
    """
    values: list[MetricValue] = []
    for scorer, metric, purpose, kind, group in groups:
        for value in group:
            keyed = replace(
                value,
                scorer=scorer,
                metric=metric,
                purpose=purpose,
                type=kind,
            )
            values.append(keyed)
    names: dict[int, str] = {}
    for keys in (["name"], ["metric", "name"], ["scorer", "metric", "name"]):
        candidates = {}
        for place, value in enumerate(values):
            if place not in names:
                parts = [getattr(value, key) for key in keys]
                candidates[place] = "_".join(parts)
        uses = Counter(names.values())
        uses.update(candidates.values())
        names |= {place: name for place, name in candidates.items() if uses[name] == 1}
    for place, value in enumerate(values):
        if place not in names:
            longest = f"{value.scorer}_{value.metric}_{value.name}"
            names[place] = number_name(longest, names.values())
        values[place] = replace(value, name=names[place])
    return values


def number_name(name: str, taken: Collection[str]) -> str:
    """Return a name that is not taken: the name itself, or with `-2`, `-3` … added."""
    numbered = name
    number = 1
    while numbered in taken:
        number += 1
        numbered = f"{name}-{number}"
    return numbered
