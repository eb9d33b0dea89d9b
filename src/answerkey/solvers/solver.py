"""What every solver is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from answerkey.errors import DataError, SpecError
from answerkey.models import Model
from answerkey.solvers.troubles import ExamplesTrouble
from answerkey.templates import RowTrouble, Template
from answerkey.types import Completions, Known, Samples

Prompt = list[dict[str, object]]
#: The trials of a sample that is asked once.
ONE_TRIAL = range(1)
Compiled = tuple[dict[str, Template], list[tuple[str, SpecError]]]


class Solver(Protocol):
    """Turns samples into completions; its dataclass fields are its YAML fields.

    `needs_model` says whether a model must be named.
    """

    type: ClassVar[str]
    needs_model: ClassVar[bool]

    def compile_templates(self) -> Compiled:
        """Return the templates that compile and the errors of the others, by field (`a.0.b` for nested)."""
        ...

    def build_prompts(self, samples: Samples, examples: Samples | None) -> list[Prompt | RowTrouble]:
        """Return the messages for each sample, or why there are none."""
        ...

    def check_rows(self, samples: Samples, examples: Samples | None) -> list[tuple[int, DataError]]:
        """Return the rows that cannot be solved; a missing column is told once, at the first of them."""
        ...

    def solve(
        self,
        samples: Samples,
        *,
        model: Model | None,
        known: Known | None,
        examples: Samples | None,
        trials: range = ONE_TRIAL,
    ) -> Completions:
        """Return one completion per sample and trial, in order; raises if a row cannot be solved.

        `trials` are the numbers of the trials; those of a sample stand one after the other.
        """
        ...


def compile_templates(solver: Solver) -> Compiled:
    """Return the templates of a solver that compile, and every error with the field's name."""
    return solver.compile_templates()


def build_prompts(solver: Solver, samples: Samples, examples: Samples | None) -> list[Prompt | RowTrouble]:
    """Return what a model would be asked for each sample; empty lists for a solver that asks nothing."""
    return solver.build_prompts(samples, examples)


def describe_troubles(
    samples: Samples, outcomes: Sequence[object | RowTrouble]
) -> list[tuple[int, DataError]]:
    """Return the error of each row in trouble; a column that does not exist is told once.

    Rows that have too few examples for the same reason have the same error.
    """
    errors: list[tuple[int, DataError]] = []
    missing: set[str | None] = set()
    for position, trouble in enumerate(outcomes):
        if not isinstance(trouble, RowTrouble):
            continue
        error = _describe_trouble(trouble, samples, position)
        if error.code == "E206" and trouble.column in missing:
            continue
        missing.add(trouble.column)
        errors.append((position, error))
    return errors


def _describe_trouble(trouble: RowTrouble, samples: Samples, position: int) -> DataError:
    place = samples.place(position, trouble.column)
    if trouble.is_undefined and trouble.column is not None:
        # Templates see rows of two datasets: a column that the samples have is missing in the examples.
        where = " of the examples" if trouble.column in samples.columns else ""
        return DataError("E206", f"{trouble.message}{where}", where=place, hint=trouble.hint)
    if isinstance(trouble, ExamplesTrouble):
        return DataError(trouble.code, trouble.message, hint=trouble.hint)
    message = f"sample `{samples.ids[position]}`: {trouble.message}"
    return DataError(getattr(trouble, "code", "E207"), message, where=place, hint=trouble.hint)
