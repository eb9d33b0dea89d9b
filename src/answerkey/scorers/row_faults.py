"""What is wrong with a dataset row, and the errors that tell it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from answerkey.errors import DataError, Place
from answerkey.scorers.base import RowProblem
from answerkey.templates import RowTrouble, Template
from answerkey.types import Samples

FaultReason = Literal["BAD_TRUTH", "BAD_CHOICES", "TEMPLATE_FAILED"]

_CODES: dict[FaultReason, str] = {"BAD_TRUTH": "E204", "BAD_CHOICES": "E205", "TEMPLATE_FAILED": "E207"}


class RowFault(Exception):  # noqa: N818 - a row's trouble, which becomes a value or an error with a code
    """What is wrong with one value of a row, and what to do about it."""

    def __init__(self, reason: FaultReason, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.reason: FaultReason = reason
        self.message = message
        self.hint = hint


@dataclass(frozen=True)
class FieldFault:
    """What is wrong with one scorer field on a row; `missing` names a column that does not exist."""

    field: str
    fault: RowFault
    missing: str | None = None

    @classmethod
    def from_trouble(cls, field: str, trouble: RowTrouble) -> FieldFault:
        """Return the fault of a field whose template failed on a row."""
        fault = RowFault("TEMPLATE_FAILED", f"`{field}`: {trouble.message}", trouble.hint)
        return cls(field, fault, trouble.column if trouble.is_undefined else None)


def report_faults(
    faulty: Iterable[tuple[int, FieldFault]],
    templates: Mapping[str, Template],
    samples: Samples,
) -> list[RowProblem]:
    """Return an error for each fault; a column that does not exist is told once."""
    problems: dict[object, RowProblem] = {}
    for position, one in faulty:
        is_missing = one.missing is not None and one.missing not in samples.columns
        key = (one.field, one.missing) if is_missing else (one.field, position)
        if key in problems:
            continue
        if is_missing:
            error = DataError("E206", one.fault.message, where=Place(file=samples.file), hint=one.fault.hint)
        else:
            error = _build_error(one, templates[one.field], samples, position=position)
        problems[key] = RowProblem(position, error, one.fault.reason, one.field)
    return list(problems.values())


def _build_error(one: FieldFault, template: Template, samples: Samples, *, position: int) -> DataError:
    return DataError(
        _CODES[one.fault.reason],
        f"sample `{samples.ids[position]}`: {one.fault.message}",
        where=samples.place(position, name_column(template)),
        hint=one.fault.hint or "fix the row",
    )


def name_column(template: Template) -> str | None:
    """Return the column that a template simply reads, dotted into structs; None for anything else."""
    if template.kind != "column" or not template.path:
        return None
    return ".".join(str(part) for part in template.path)
