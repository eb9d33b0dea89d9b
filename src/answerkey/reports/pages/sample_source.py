"""A task of a run opened for looking at single samples: where its rows lie, and who reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from answerkey.dataset_audit.questions import QuestionFields, find_fields
from answerkey.errors import AnswerkeyError
from answerkey.reports.pages.excerpts import Excerpt, RowSource, open_source
from answerkey.reports.pages.verdict_columns import find_value_name, tabulate_verdicts
from answerkey.runs import Run, TaskRun
from answerkey.scorers import StringEqualsMcqa
from answerkey.spec import ScoringStep, task_from_source
from answerkey.types import EMPTY_STRUCT_FIELD


@dataclass(frozen=True)
class SampleSource:
    """The rows of a task, its scorers, and where the questions stand; small enough to be sent around.

    `values` names the value that stands for each scorer, `encoded` those fields of each that are JSON text.
    `reading` is the scorer whose rule is compared with others: the main one if it reads choices, else the
    first that does. `fields` is None where no column holds the question.
    """

    rows: RowSource
    steps: tuple[ScoringStep, ...]
    main: ScoringStep
    values: Mapping[str, str | None]
    encoded: Mapping[str, frozenset[str]]
    says_validity: bool
    reading: ScoringStep | None = None
    category: str | None = None
    fields: QuestionFields | None = None
    has_trials: bool = False

    def tabulate(self, part: Excerpt) -> pl.DataFrame:
        """Return what the main scorer says of some rows, column by column."""
        key = self.main.key
        said = None if self.says_validity else part.completions
        return tabulate_verdicts(part.scores[key], self.encoded[key], self.values[key], said)

    @property
    def question_columns(self) -> frozenset[str] | None:
        """The columns that the question is read from; None for all."""
        if self.fields is None:
            return frozenset()
        found: frozenset[str] = frozenset()
        for template in self.fields.questions:
            if template.columns is None:
                return None
            found |= template.columns
        return found


def open_samples(run: Run, task_run: TaskRun) -> SampleSource:
    """Return a task opened; without its dataset where that is gone (`rows.missing`)."""
    task = task_from_source(task_run.source["task"])
    rows = open_source(run, task_run)
    reading = [step for step in task.scoring if isinstance(step.scorer, StringEqualsMcqa)]
    main = task.main_step
    reader = main if main in reading else next(iter(reading), None)
    shapes = _read_shapes(task_run)
    encoded: Mapping[str, list[str]] = task_run.manifest.get("encoded") or {}
    category = task_run.tally.get("category_column")
    metadata = shapes.get(main.key, ((), ()))[1]
    return SampleSource(
        rows=rows,
        steps=task.scoring,
        main=main,
        values={step.key: find_value_name(step, shapes.get(step.key, ((), ()))[0]) for step in task.scoring},
        encoded={step.key: frozenset(encoded.get(step.key, ())) for step in task.scoring},
        says_validity="completion_validity" in metadata,
        reading=reader,
        category=category if category in rows.columns else None,
        fields=_find_fields(rows, reader),
        has_trials=task.num_trials > 1,
    )


Shape = tuple[tuple[str, ...], tuple[str, ...]]


def _read_shapes(task_run: TaskRun) -> dict[str, Shape]:
    """Return by scorer the names of its values and of its metadata."""
    schema = task_run.stored_scores.read(0, 1).schema
    found: dict[str, Shape] = {}
    for key, dtype in schema.items():
        if isinstance(dtype, pl.Struct):
            groups = {one.name: one.dtype for one in dtype.fields}
            found[key] = (_list_fields(groups.get("values")), _list_fields(groups.get("metadata")))
    return found


def _list_fields(dtype: object) -> tuple[str, ...]:
    names = [one.name for one in dtype.fields] if isinstance(dtype, pl.Struct) else []
    return tuple(name for name in names if name != EMPTY_STRUCT_FIELD)


def _find_fields(rows: RowSource, reader: ScoringStep | None) -> QuestionFields | None:
    scorer = reader.scorer if reader is not None else None
    if rows.rows is None:
        return None
    try:
        return find_fields(rows.rows, scorer if isinstance(scorer, StringEqualsMcqa) else None)
    except AnswerkeyError:
        return None
