"""The scorer `string_equals`: the completion, or a value derived from it, is exactly the ground truth.

Values: `is_correct` (1.0 or 0.0). Metadata: `answer_gt` and `answer_pred`, the two texts that were compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from answerkey.scorers.base import (
    RowFault,
    RowProblem,
    Scorer,
    build_scores,
    compile_templates,
    fill,
    find_statuses,
    reads_completion,
    report_faults,
    spread,
    view_completions,
)
from answerkey.templates import Distinct, RowError, Template
from answerkey.types import Completions, CompletionStatus, Notice, Samples, Scores


@dataclass(frozen=True)
class StringEquals(Scorer):
    """Compares two texts exactly: case and white space matter.

    `value` sees `sample` and `solver_output`; without it the completion's text is compared.
    """

    ground_truth: str | int
    value: str | int | None = None

    type = "string_equals"
    title = "String Equality"
    template_fields = ("ground_truth", "value")
    value_names = ("is_correct",)
    metadata_names = ("answer_gt", "answer_pred")
    text_names = ("answer_gt", "answer_pred")
    main_value = "is_correct"
    default_metric_name = "Accuracy"

    @property
    def needs_completion(self) -> bool:
        """Whether the compared value comes from the completion; False when `value` reads the sample alone."""
        return self.value is None or reads_completion(self.value)

    def compile_field(self, field: str) -> Template | None:
        """Return the template of one field; `value` sees `solver_output` too."""
        source = getattr(self, field)
        names = ("sample", "solver_output") if field == "value" else ("sample",)
        return None if source is None else Template.compile(source, names=names)

    @property
    def completion_fields(self) -> tuple[str, ...]:
        """`value`, if it reads the completion."""
        return ("value",) if self.value is not None and self.needs_completion else ()

    def try_field(self, field: str, samples: Samples, completions: Completions) -> RowError | None:
        """Return what goes wrong with `value` on these rows; None when nothing does."""
        template = self.templates()[field]
        values = template.values(samples, solver_output=view_completions(completions, template))
        return next((one for one in values if isinstance(one, RowError)), None)

    def check_rows(self, samples: Samples) -> tuple[list[RowProblem], list[Notice]]:
        """Return the rows without a ground truth, and those on which a template fails."""
        templates, errors = compile_templates(self)
        if self.needs_completion:
            templates.pop("value", None)
        if errors:
            return [], []
        faulty: list[tuple[int, RowFault]] = []
        for name, template in templates.items():
            found = _Compared.read(name, template.distinct(samples))
            rows = found.reasons.is_not_null().arg_true()
            faults = [found.faults[code] for code in found.codes.gather(rows).to_list()]
            faulty += [(row, one) for row, one in zip(rows.to_list(), faults, strict=True) if one is not None]
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
        places = spread(rows, len(samples))
        codes = found.codes.gather(places) if found.faults else found.codes
        return _Compared(found.texts.gather(places), found.faults, codes)


@dataclass(frozen=True)
class _Compared:
    """One side of the comparison: the text of each row; `faults` by code, and the code of each row."""

    texts: pl.Series
    faults: Sequence[RowFault | None] = ()
    codes: pl.Series = field(default_factory=pl.Series)

    @classmethod
    def of(
        cls, field: str, template: Template, samples: Samples, completions: Completions | None = None
    ) -> _Compared:
        """Return the texts that a template yields."""
        others = {} if completions is None else {"solver_output": view_completions(completions, template)}
        series = template.series(samples, **others)
        if series is not None and series.dtype == pl.String and (field == "value" or not series.null_count()):
            return cls(series)
        return cls.read(field, template.distinct(samples, **others))

    @classmethod
    def read(cls, field: str, distinct: Distinct) -> _Compared:
        """Return the texts of values, as Jinja prints them, each written once; null stays null."""
        texts: list[str | None] = []
        faults: list[RowFault | None] = []
        for value in distinct.values:
            fault = RowFault.from_error(field, value) if isinstance(value, RowError) else None
            if value is None and field == "ground_truth":
                fault = RowFault(
                    "BAD_TRUTH", "ground truth is null", "fill the cell or filter the row out", field
                )
            faults.append(fault)
            texts.append(None if fault is not None or value is None else str(value))
        return cls(pl.Series(texts, dtype=pl.String).gather(distinct.codes), faults, distinct.codes)

    @property
    def reasons(self) -> pl.Series:
        """The reason why a row is FAILED, null for rows that are not."""
        if not any(self.faults):
            return fill(len(self.texts), None)
        reasons = [None if one is None else one.reason for one in self.faults]
        return pl.Series(reasons, dtype=pl.String).gather(self.codes)
