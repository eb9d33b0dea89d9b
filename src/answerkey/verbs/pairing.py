"""What each sample of a finished task came to: one value, its truth, and why it has none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from answerkey.errors import RunError, listing, suggest
from answerkey.metrics import Mean
from answerkey.metrics.base import name_left_out, read_number
from answerkey.runs import Run, TaskRun
from answerkey.spec import ScoringStep, Task, task_from_source
from answerkey.types import EMPTY_STRUCT_FIELD

#: Where scorers keep what the sample's right answer is.
TRUTH_FIELDS = ("ground_truth_option", "ground_truth_choice", "answer_gt")
#: Where the scores of a task with `choice_order` say which sample they are of.
BASE_FIELD = "base_sample_id"
EXTRA_FIELD = "is_extra"
NO_VALUE = "null"


@dataclass(frozen=True)
class Outcomes:
    """The values of one task, one row per sample.

    Columns of `table`: `sample_id`, `value` (a float; the mean of the trials), `truth` (text, null where the
    scorer knows none), `reason` (why there is no value; else null). `label` says which run it is.
    """

    label: str
    run: Run
    task_run: TaskRun
    scorer: str
    value: str
    table: pl.DataFrame
    num_trials: int = 1

    @property
    def chance(self) -> float | None:
        """The mean variance among the trials of a sample; None where each was asked once."""
        if self.num_trials == 1:
            return None
        found = self.table.filter(pl.col("value").is_not_null())["chance"].mean()
        return None if found is None else float(str(found))


def read_outcomes(
    run: Run, task_run: TaskRun, *, label: str, scorer: str | None = None, value: str | None = None
) -> Outcomes:
    """Return what the samples of a task came to, by its main scorer and value or by those that are named."""
    task = task_from_source(task_run.source["task"])
    step = _find_step(task, scorer, label)
    name = value or _find_value(step, label)
    encoded = (task_run.manifest.get("encoded") or {}).get(step.key, ())
    parts = [_read_part(part[step.key], part["sample_id"], name, encoded) for part in task_run.score_parts()]
    table = (
        pl.concat([part for part in parts if part is not None])
        if any(part is not None for part in parts)
        else None
    )
    if table is None:
        raise _miss_value(task_run, step.key, name, label)
    has_repeats = task.num_trials > 1 or task.choice_order is not None
    averaged = _average_rows(table) if has_repeats else table
    # What the order of the options changes is no chance: only trials of one and the same prompt tell of that.
    num_trials = 1 if task.choice_order else task.num_trials
    return Outcomes(label, run, task_run, step.key, name, _drop_uncounted(averaged), num_trials)


def _find_step(task: Task, scorer: str | None, label: str) -> ScoringStep:
    if scorer is None:
        return task.main_step
    keys = [step.key for step in task.scoring]
    if scorer not in keys:
        hint = suggest(scorer, keys) or f"scorers of the task: {listing(keys)}"
        raise RunError("E508", f"task `{task.key}` of `{label}` has no scorer `{scorer}`", hint=hint)
    return next(step for step in task.scoring if step.key == scorer)


def _find_value(step: ScoringStep, label: str) -> str:
    """Return the scorer's main value, or what its first mean is taken of."""
    if step.scorer.main_value is not None:
        return step.scorer.main_value
    means = [one.metric.field for one in step.metrics if isinstance(one.metric, Mean)]
    if means:
        return means[0].partition(".")[0]
    raise RunError(
        "E508",
        f"scorer `{step.key}` of `{label}` has no main value to compare",
        hint="name one of its values with `--value`",
    )


def _read_part(verdicts: pl.Series, ids: pl.Series, name: str, encoded: Sequence[str]) -> pl.DataFrame | None:
    """Return the rows of one part; None when the scorer has no such value in it."""
    frame, ids = _keep_own(verdicts.struct.unnest(), ids)
    values = frame["values"].struct.unnest()
    if name not in values.columns:
        return None
    reason = frame.select(name_left_out()).to_series()
    numbers = _read_numbers(values[name], is_encoded=name in encoded)
    missing = pl.when(numbers.is_null()).then(pl.lit(NO_VALUE))
    return pl.DataFrame(
        [
            _find_samples(frame["metadata"], ids),
            numbers.alias("value"),
            _read_truth(frame["metadata"]),
            pl.select(pl.coalesce(reason, missing).alias("reason")).to_series(),
        ]
    )


def _read_numbers(column: pl.Series, *, is_encoded: bool) -> pl.Series:
    """Return a value as floats; null where it is no finite number."""
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        numbers = column.cast(pl.Float64)
        return pl.select(pl.when(numbers.is_finite()).then(numbers)).to_series()
    known = {text: read_number(json.loads(text)) for text in column.unique() if text} if is_encoded else {}
    return pl.Series([known.get(text) for text in column], dtype=pl.Float64)


def _keep_own(frame: pl.DataFrame, ids: pl.Series) -> tuple[pl.DataFrame, pl.Series]:
    """Return the rows without those that are there only to estimate a prior."""
    if EXTRA_FIELD not in frame["metadata"].struct.fields:
        return frame, ids
    own = ~frame["metadata"].struct.field(EXTRA_FIELD).fill_null(value=False)
    return frame.filter(own), ids.filter(own)


def _find_samples(metadata: pl.Series, ids: pl.Series) -> pl.Series:
    """Return the sample that each row is of: under `choice_order` another id than that of the row."""
    names = metadata.struct.fields
    found = metadata.struct.field(BASE_FIELD) if BASE_FIELD in names else ids
    return found.cast(pl.String).rename("sample_id")


def _read_truth(metadata: pl.Series) -> pl.Series:
    fields: Mapping[str, object] = dict.fromkeys(metadata.struct.fields)
    name = next((name for name in TRUTH_FIELDS if name in fields), None)
    if name is None:
        return pl.Series("truth", [None] * len(metadata), dtype=pl.String)
    return metadata.struct.field(name).cast(pl.String).alias("truth")


def _average_rows(table: pl.DataFrame) -> pl.DataFrame:
    """Return one row per sample: the mean of its trials and orders."""
    return table.group_by("sample_id", maintain_order=True).agg(
        pl.col("value").mean(),
        pl.col("value").var().alias("chance"),
        pl.col("truth").drop_nulls().first(),
        pl.col("reason").drop_nulls().first(),
    )


def _drop_uncounted(table: pl.DataFrame) -> pl.DataFrame:
    """Return the table with a value only where all rows of a sample count."""
    counted = pl.when(pl.col("reason").is_null()).then(pl.col("value")).alias("value")
    return table.with_columns(counted)


def _miss_value(task_run: TaskRun, scorer: str, name: str, label: str) -> RunError:
    first = next(iter(task_run.score_parts()), None)
    fields = [] if first is None else first[scorer].struct.field("values").struct.fields
    known = [one for one in fields if one != EMPTY_STRUCT_FIELD]
    hint = suggest(name, known) or f"values: {listing(known)}"
    return RunError("E508", f"scorer `{scorer}` of `{label}` has no value `{name}`", hint=hint)
