"""The scorer `string_equals`: the completion, or a value derived from it, is exactly the ground truth.

Values: `is_correct` (1.0 or 0.0). Metadata: `answer_gt` and `answer_pred`, the two texts that were compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from answerkey.scorers.base import (
    RowFault,
    RowProblem,
    Scorer,
    build_scores,
    compile_templates,
    fill,
    find_statuses,
    mark_faults,
    reads_completion,
    report_faults,
    spread,
    view_completions,
)
from answerkey.templates import RowError, Template
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
        faulty = [
            fault
            for name, template in templates.items()
            for fault in _read_texts(name, template, samples)[1].items()
        ]
        return report_faults(sorted(faulty, key=lambda one: one[0]), templates, samples), []

    def score(self, samples: Samples, completions: Completions) -> Scores:
        """Return the verdicts; a completion without text is wrong, a row without ground truth FAILED."""
        templates, calls = self.templates(), completions.frame["status"]
        truths, no_truth = _read_texts("ground_truth", templates["ground_truth"], samples)
        template, is_text = templates.get("value"), calls == CompletionStatus.OK.value
        faults: Mapping[int, RowFault] = {}
        if template is not None and not self.needs_completion:
            calls = fill(len(calls), CompletionStatus.OK.value)
            texts, faults = _read_texts("value", template, samples)
        elif template is None:
            texts = completions.frame["completion"]
            texts = texts if is_text.all() else texts.set(~is_text, None)
        elif is_text.all():
            texts, faults = _read_texts("value", template, samples, completions)
        else:
            # Nothing is compared where there is no text to derive it from.
            rows = is_text.arg_true()
            found, failed = _read_texts("value", template, samples.take(rows), completions.take(rows))
            texts = found.gather(spread(rows, len(samples)))
            faults = {rows[row]: fault for row, fault in failed.items()}
        statuses, reasons = find_statuses(mark_faults({**faults, **no_truth}, len(samples)), calls)
        return build_scores(
            statuses,
            reasons,
            {"is_correct": (truths == texts).fill_null(value=False).cast(pl.Float64)},
            metadata={"answer_gt": truths, "answer_pred": texts},
        )


def _read_texts(
    field: str, template: Template, samples: Samples, completions: Completions | None = None
) -> tuple[pl.Series, dict[int, RowFault]]:
    """Return what a template yields on each row, as Jinja prints it, and the rows where it yields nothing.

    Each distinct value is written once; null stays null.
    """
    others = {} if completions is None else {"solver_output": view_completions(completions, template)}
    series = template.series(samples, **others)
    if series is not None and series.dtype == pl.String and (field == "value" or not series.null_count()):
        return series, {}
    distinct = template.distinct(samples, **others)
    faults: dict[int, RowFault] = {}
    for code, value in enumerate(distinct.values):
        if isinstance(value, RowError):
            faults[code] = RowFault.from_error(field, value)
        elif value is None and field == "ground_truth":
            hint = "fill the cell or filter the row out"
            faults[code] = RowFault("BAD_TRUTH", "ground truth is null", hint, field)
    texts = [
        None if value is None or code in faults else str(value) for code, value in enumerate(distinct.values)
    ]
    rows = distinct.codes.is_in(list(faults)).arg_true()
    codes = distinct.codes.gather(rows).to_list()
    failed = {row: faults[code] for row, code in zip(rows.to_list(), codes, strict=True)}
    return pl.Series(texts, dtype=pl.String).gather(distinct.codes), failed
