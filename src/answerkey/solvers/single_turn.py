"""`single_turn_solver`: one prompt, one completion."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from answerkey.errors import DataError, InternalError, SpecError, raise_all
from answerkey.models import Model
from answerkey.solvers.asking import ask_model
from answerkey.solvers.examples import Examples, pick_examples
from answerkey.solvers.inputs import ChatInput, GenericInput
from answerkey.solvers.solver import ONE_TRIAL, Compiled, Prompt, describe_troubles
from answerkey.templates import RowTrouble, Template
from answerkey.types import Completions, Known, Row, Samples

#: How many rows in trouble one error shows.
SHOWN = 20


@dataclass(frozen=True)
class SingleTurnSolver:
    """Asks the model once for each sample.

    `message_format` is accepted for the sake of existing files and changes nothing. `examples` adds rows of a
    second dataset to what the templates see.
    """

    input_builder: ChatInput | GenericInput
    message_format: object = None
    examples: Examples | None = None

    type: ClassVar[str] = "single_turn_solver"
    needs_model: ClassVar[bool] = True

    @property
    def template_names(self) -> tuple[str, ...]:
        """The names that the templates may use."""
        return ("sample", "examples") if self.examples else ("sample",)

    def templates(self) -> dict[str, Template]:
        """Return the compiled templates by field; raise the first SpecError."""
        compiled, errors = self._compiled
        raise_all([error for _, error in errors])
        return compiled

    def compile_templates(self) -> Compiled:
        """Return the templates that compile and the errors of the others, by field."""
        return self._compiled

    @cached_property
    def _compiled(self) -> Compiled:
        compiled: dict[str, Template] = {}
        errors: list[tuple[str, SpecError]] = []
        for name, compile_one in self.input_builder.compilers(self.template_names).items():
            try:
                compiled[f"input_builder.{name}"] = compile_one()
            except SpecError as error:
                errors.append((f"input_builder.{name}", error))
        return compiled, errors

    def build_prompts(self, samples: Samples, examples: Samples | None) -> list[Prompt | RowTrouble]:
        """Return the messages for each sample, or why there are none."""
        templates = {name.removeprefix("input_builder."): one for name, one in self.templates().items()}
        if self.examples is None:
            return self.input_builder.build_all(templates, samples)
        rows = samples.rows(_columns_read(list(templates.values()), samples))
        if examples is None:
            raise InternalError(
                "E901", f"the examples of dataset `{self.examples.dataset}` were not handed in"
            )
        shown = pick_examples(self.examples, samples, examples)
        return [self._build_one(templates, *pair) for pair in zip(rows, shown, strict=True)]

    def _build_one(
        self, templates: dict[str, Template], row: Row, examples: list[Row] | RowTrouble
    ) -> Prompt | RowTrouble:
        if isinstance(examples, RowTrouble):
            return examples
        try:
            return self.input_builder.build(templates, row, examples)
        except RowTrouble as trouble:
            return trouble

    def check_rows(self, samples: Samples, examples: Samples | None) -> list[tuple[int, DataError]]:
        """Return the rows whose prompt cannot be built; templates that do not compile are told elsewhere."""
        if self._compiled[1]:
            return self._check_templates(samples)
        try:
            return describe_troubles(samples, self.build_prompts(samples, examples))
        except DataError as error:
            return [(0, error)]

    def _check_templates(self, samples: Samples) -> list[tuple[int, DataError]]:
        """Return the rows on which the templates that do compile fail, each looked at on its own."""
        if self.examples:
            return []
        compiled = self._compiled[0].values()
        return [one for template in compiled for one in describe_troubles(samples, template.values(samples))]

    def solve(
        self,
        samples: Samples,
        *,
        model: Model | None,
        known: Known | None,
        examples: Samples | None,
        trials: range = ONE_TRIAL,
    ) -> Completions:
        """Return the model's completions for each sample, in order; a row in trouble raises before asking."""
        if model is None:
            raise SpecError(
                "E108", f"`{self.type}` asks a model, and none is named", hint="add `--model NAME`"
            )
        built = self.build_prompts(samples, examples)
        errors = {str(error): error for _, error in describe_troubles(samples, built)}
        raise_all(list(errors.values())[:SHOWN])
        prompts = [one for one in built if not isinstance(one, RowTrouble)]
        return ask_model(model, samples, prompts, known, trials=trials)


def _columns_read(templates: list[Template], samples: Samples) -> list[str] | None:
    """Return the columns that the templates read; None for all, also when one does not exist.

    The error about a column that does not exist lists those there are.
    """
    read: set[str] = set()
    for template in templates:
        if template.columns is None:
            return None
        read |= template.columns
    return [name for name in samples.columns if name in read] if read <= set(samples.columns) else None
