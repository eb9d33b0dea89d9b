"""The scorer `string_equals`: the completion, or a value derived from it, is exactly the ground truth.

Values: `is_correct` (1.0 or 0.0). Metadata: `answer_gt` and `answer_pred`, the two texts that were compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from answerkey.errors import SpecError
from answerkey.scorers.base import (
    BaseScorer,
    RowProblem,
    build_scores,
    compile_templates,
    fill,
    find_statuses,
)
from answerkey.scorers.row_faults import FieldFault, RowFault, report_faults
from answerkey.scorers.views import view_completions
from answerkey.templates import Distinct, RowTrouble, Template
from answerkey.types import Completions, CompletionStatus, Notice, Samples, Scores


@dataclass(frozen=True)
class StringEquals(BaseScorer):
    """Compares two texts exactly: case and white space matter.

    `value` sees `sample` and `solver_output`; without it the completion's text is compared.
    """

    ground_truth: str | int
    value: str | int | None = None

    type: ClassVar[str] = "string_equals"
    title: ClassVar[str] = "String Equality"
    template_fields: ClassVar[tuple[str, ...]] = ("ground_truth", "value")
    value_names: ClassVar[tuple[str, ...] | None] = ("is_correct",)
    metadata_names: ClassVar[tuple[str, ...] | None] = ("answer_gt", "answer_pred")
    text_names: ClassVar[tuple[str, ...]] = ("answer_gt", "answer_pred")
    main_value: ClassVar[str | None] = "is_correct"
    default_metric_name: ClassVar[str | None] = "Accuracy"

    @property
    def needs_completion(self) -> bool:
        """Whether the compared value comes from the completion; False when `value` reads the sample alone."""
        if self.value is None:
            return True
        try:
            Template.compile(self.value)
        except SpecError:
            return True
        return False

    def compile_field(self, field: str) -> Template | None:
        """Return the template of one field; `value` sees `solver_output` too."""
        source = getattr(self, field)
        names = ("sample", "solver_output") if field == "value" else ("sample",)
        return None if source is None else Template.compile(source, names=names)

    @property
    def completion_fields(self) -> tuple[str, ...]:
        """`value`, if it reads the completion."""
        return ("value",) if self.value is not None and self.needs_completion else ()

    def try_field(self, field: str, samples: Samples, completions: Completions) -> RowTrouble | None:
        """Return what goes wrong with `value` on these rows; None when nothing does."""
        template = self.templates()[field]
        values = template.values(samples, **_list_tables(completions, template))
        return next((one for one in values if isinstance(one, RowTrouble)), None)

    def check_rows(self, samples: Samples) -> tuple[list[RowProblem], list[Notice]]:
        """Return the rows without a ground truth, and those on which a template fails."""
        templates, errors = compile_templates(self)
        if self.needs_completion:
            templates.pop("value", None)
        if errors:
            return [], []
        faulty: list[tuple[int, FieldFault]] = []
        for field, template in templates.items():
            faulty += _Compared.read(field, template.distinct(samples)).list_faults()
        return report_faults(sorted(faulty, key=lambda one: one[0]), templates, samples), []

    def score(self, samples: Samples, completions: Completions) -> Scores:
        """Return the verdicts; a completion without text is wrong, a row without ground truth FAILED."""
        templates = self.templates()
        calls = completions.frame["status"]
        truth = _Compared.of("ground_truth", templates["ground_truth"], samples)
        value = self._read_values(templates.get("value"), samples, completions)
        has_call = calls if self.needs_completion else fill(len(calls), CompletionStatus.OK.value)
        faults = pl.select(pl.coalesce(truth.reasons, value.reasons)).to_series()
        statuses, reasons = find_statuses(faults, has_call)
        is_correct = (truth.texts == value.texts).fill_null(value=False)
        return build_scores(
            statuses,
            reasons,
            {"is_correct": is_correct.cast(pl.Float64)},
            metadata={"answer_gt": truth.texts, "answer_pred": value.texts},
        )

    def _read_values(
        self, template: Template | None, samples: Samples, completions: Completions
    ) -> _Compared:
        """Return what is compared with the truth: nothing where there is no text to derive it from."""
        if template is not None and not self.needs_completion:
            return _Compared.of("value", template, samples)
        is_text = completions.frame["status"] == CompletionStatus.OK.value
        if template is None:
            texts = completions.frame["completion"]
            return _Compared(texts if is_text.all() else texts.set(~is_text, None))
        if is_text.all():
            return _Compared.of("value", template, samples, completions)
        rows = is_text.arg_true()
        found = _Compared.of("value", template, samples.take(rows), completions.take(rows))
        return found.spread(rows, len(samples))


@dataclass(frozen=True)
class _Compared:
    """One side of the comparison: the text of each row, and the fault of those that have none."""

    texts: pl.Series
    faults: Sequence[FieldFault | None] = ()
    codes: pl.Series | None = None

    @classmethod
    def of(
        cls, field: str, template: Template, samples: Samples, completions: Completions | None = None
    ) -> _Compared:
        """Return the texts that a template yields."""
        others = {} if completions is None else _list_tables(completions, template)
        series = template.series(samples, **others)
        if series is not None and series.dtype == pl.String and (field == "value" or not series.null_count()):
            return cls(series)
        return cls.read(field, template.distinct(samples, **others))

    @classmethod
    def read(cls, field: str, distinct: Distinct) -> _Compared:
        """Return the texts of values, each written once."""
        texts = pl.Series([_write_text(value) for value in distinct.values], dtype=pl.String)
        faults = [_find_fault(field, value) for value in distinct.values]
        return cls(texts.gather(distinct.codes), faults, distinct.codes)

    @property
    def reasons(self) -> pl.Series:
        """The reason why a row is FAILED, null for rows that are not."""
        if self.codes is None or not any(self.faults):
            return fill(len(self.texts), None)
        reasons = [None if one is None else one.fault.reason for one in self.faults]
        return pl.Series(reasons, dtype=pl.String).gather(self.codes)

    def list_faults(self) -> list[tuple[int, FieldFault]]:
        """Return the rows that are FAILED, and why."""
        rows = self.reasons.is_not_null().arg_true()
        codes = [] if self.codes is None else self.codes.gather(rows).to_list()
        pairs = zip(rows.to_list(), (self.faults[code] for code in codes), strict=True)
        return [(row, fault) for row, fault in pairs if fault is not None]

    def spread(self, rows: pl.Series, height: int) -> _Compared:
        """Return a column of this height with these texts in these rows, and nothing in the others."""
        places = pl.repeat(None, height, dtype=pl.UInt32, eager=True)
        places.scatter(rows, pl.int_range(len(rows), dtype=pl.UInt32, eager=True))
        codes = None if self.codes is None else self.codes.gather(places)
        return _Compared(self.texts.gather(places), self.faults, codes)


def _list_tables(completions: Completions, template: Template) -> dict[str, Samples]:
    """Return the tables behind the names that `value` sees beside `sample`."""
    return {"solver_output": view_completions(completions, template)}


def _find_fault(field: str, value: object) -> FieldFault | None:
    if isinstance(value, RowTrouble):
        return FieldFault.from_trouble(field, value)
    if value is None and field == "ground_truth":
        return FieldFault(
            field, RowFault("BAD_TRUTH", "ground truth is null", "fill the cell or filter the row out")
        )
    return None


def _write_text(value: object) -> str | None:
    """Return a value as Jinja prints it; null stays null."""
    return None if value is None or isinstance(value, RowTrouble) else str(value)
