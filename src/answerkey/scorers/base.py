"""What every scorer is, and the table its verdicts are put in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Protocol

import polars as pl

from answerkey.errors import DataError, SpecError
from answerkey.sandbox import Snippet
from answerkey.templates import Template
from answerkey.types import (
    EMPTY_STRUCT_FIELD,
    Completions,
    CompletionStatus,
    Known,
    Notice,
    Samples,
    Scores,
    ScoreStatus,
)

#: Why a sample without a completion has no score: the call failed.
CALL_FAILED = "CALL_FAILED"


@dataclass(frozen=True)
class RowProblem:
    """A row that cannot be scored: its position, the error, and the reason of its FAILED score.

    A column that does not exist (E206) fails every row and is reported once, at the first of them. `field` is
    the scorer's field that asked for it.
    """

    position: int
    error: DataError
    reason: str
    field: str | None = None


class Scorer(Protocol):
    """Turns samples and completions into scores; its dataclass fields are its YAML fields.

    `value_names` and `metadata_names` are None when only the scores can tell. `main_value` is what the
    default metric, named `default_metric_name`, takes the mean of; without it `metrics` are required.
    """

    type: ClassVar[str]
    title: ClassVar[str]
    template_fields: ClassVar[tuple[str, ...]]
    value_names: ClassVar[tuple[str, ...] | None]
    metadata_names: ClassVar[tuple[str, ...] | None]
    main_value: ClassVar[str | None]
    default_metric_name: ClassVar[str | None]

    @property
    def needs_completion(self) -> bool:
        """Whether there must be completions; False for a scorer that looks at the sample alone."""

    def check_fields(self) -> list[tuple[str, SpecError]]:
        """Return what is wrong with the fields themselves, each with the field's name."""

    def compile_field(self, field: str) -> Template | None:
        """Return the template of one field, None when it is not given; raise SpecError."""

    def templates(self) -> dict[str, Template]:
        """Return the templates of all fields that are given; raise the first SpecError."""

    def snippets(self) -> tuple[Snippet, ...]:
        """Return the Python snippets that the scorer would run."""

    def check_rows(self, samples: Samples) -> tuple[list[RowProblem], list[Notice]]:
        """Return the rows that cannot be scored, and what the user should hear."""

    def score(self, samples: Samples, completions: Completions) -> Scores:
        """Return one verdict per sample, in order."""

    def know(self, samples: Samples) -> Known | None:
        """Return what is known of each sample before a model is asked; None when nothing is."""


class BaseScorer:
    """What most scorers have in common; a scorer of your own may build on it."""

    template_fields: ClassVar[tuple[str, ...]] = ()

    @property
    def scales(self) -> Mapping[str, tuple[float, float]]:
        """The least and the greatest number of values and metadata, by name, where they have these."""
        return {}

    @property
    def completion_fields(self) -> tuple[str, ...]:
        """The templates that read the completion; a scorer that has some can `try_field` each of them."""
        return ()

    @property
    def needs_completion(self) -> bool:
        """Whether there must be completions."""
        return True

    def check_fields(self) -> list[tuple[str, SpecError]]:
        """Return nothing: any value of the right type will do."""
        return []

    def compile_field(self, field: str) -> Template | None:
        """Return the template of one field, which sees `sample`."""
        source = getattr(self, field)
        return None if source is None else Template.compile(source)

    def templates(self) -> dict[str, Template]:
        """Return the templates of all fields that are given; raise the first SpecError."""
        compiled = {field: self.compile_field(field) for field in self.template_fields}
        return {field: template for field, template in compiled.items() if template is not None}

    def snippets(self) -> tuple[Snippet, ...]:
        """Return nothing: no code of the user's is run."""
        return ()

    def check_rows(self, samples: Samples) -> tuple[list[RowProblem], list[Notice]]:  # noqa: ARG002 - the protocol's signature
        """Return nothing: every row can be scored."""
        return [], []

    def know(self, samples: Samples) -> Known | None:  # noqa: ARG002 - the protocol's signature
        """Return nothing: there are no choices."""
        return None


def compile_templates(scorer: Scorer) -> tuple[dict[str, Template], list[tuple[str, SpecError]]]:
    """Return the templates that compile, and every error of the scorer's fields with the field's name."""
    compiled: dict[str, Template] = {}
    errors = scorer.check_fields()
    for field in scorer.template_fields:
        try:
            template = scorer.compile_field(field)
        except SpecError as error:
            errors.append((field, error))
        else:
            compiled.update({} if template is None else {field: template})
    return compiled, errors


def find_statuses(faults: pl.Series, calls: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return status and reason of each row: FAILED with its fault, ERROR when its call failed, else SCORED.

    `faults` is null where a row can be scored, `calls` the status of the completions.
    """
    is_failed, is_error = faults.is_not_null(), calls == CompletionStatus.ERROR.value
    if not is_failed.any() and not is_error.any():
        return fill(len(faults), ScoreStatus.SCORED.value), fill(len(faults), None)
    failed, error = pl.lit(ScoreStatus.FAILED.value), pl.lit(ScoreStatus.ERROR.value)
    scored = pl.lit(ScoreStatus.SCORED.value)
    table = pl.select(
        pl.when(is_failed).then(failed).when(is_error).then(error).otherwise(scored).alias("status"),
        pl.when(is_failed).then(faults).when(is_error).then(pl.lit(CALL_FAILED)).alias("reason"),
    )
    return table["status"], table["reason"]


def fill(height: int, text: str | None) -> pl.Series:
    """Return a column with the same text in every row."""
    return pl.repeat(text, height, dtype=pl.String, eager=True)


def build_scores(
    statuses: pl.Series,
    reasons: pl.Series,
    values: Mapping[str, pl.Series],
    *,
    metadata: Mapping[str, pl.Series],
    kept: Mapping[str, pl.Series] | None = None,
    encoded: frozenset[str] = frozenset(),
) -> Scores:
    """Return the table of verdicts; values and metadata become null where the status is not SCORED.

    `kept` is metadata that stays whatever the status is. `encoded` as in `Scores`.
    """
    is_scored = statuses == ScoreStatus.SCORED.value
    frame = pl.DataFrame(
        {
            "status": statuses,
            "reason": reasons,
            "values": _build_struct(values, is_scored),
            "metadata": _build_struct(metadata, is_scored, kept or {}),
            "excluded_by": fill(len(statuses), None),
        }
    )
    return Scores(frame, encoded)


def _build_struct(
    columns: Mapping[str, pl.Series],
    is_scored: pl.Series,
    kept: Mapping[str, pl.Series] = MappingProxyType({}),
) -> pl.Series:
    mask = None if is_scored.all() else is_scored
    fields = [
        *(_blank_out(column, mask).alias(name) for name, column in columns.items() if name not in kept),
        *(column.alias(name) for name, column in kept.items()),
    ]
    blank = pl.repeat(None, len(is_scored), dtype=pl.Boolean, eager=True).alias(EMPTY_STRUCT_FIELD)
    return pl.DataFrame(fields or [blank]).to_struct()


def _blank_out(column: pl.Series, mask: pl.Series | None) -> pl.Series:
    return column if mask is None else pl.select(pl.when(mask).then(column)).to_series()
