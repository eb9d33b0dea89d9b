"""What every solver is, and how it calls a model.

`pass_through_solver`, which reads what one once said.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

from answerkey.datasets.rows import get_inside, split_name
from answerkey.errors import DataError, Place, SpecError, distinct, raise_all, refuse_column
from answerkey.models.config import OPTIONS_HINT, Model, missing_parts, sees_samples
from answerkey.models.images import write_content
from answerkey.models.responses import is_trace, read_message
from answerkey.templates import RowError, Template
from answerkey.text import parse_python
from answerkey.types import Completion, Completions, Known, Request, Samples

# A sample for which no prompt can be built, for a reason other than a template that fails.


class PromptError(RowError):
    """The error of one row, with its own code."""

    code = "E302"


class ExamplesError(PromptError):
    """Too few examples: what the task asks for is at fault, so that it is told once, not row by
    row.
    """


# What every solver is.

Prompt = list[dict[str, object]]
#: What is built for each sample: its prompt, or why there is none.
Prompts = list[Prompt | RowError]
#: The texts that belong to each sample; None where there are none.
TextLists = list[Sequence[str] | None]
#: The errors of rows, with their positions.
RowErrors = list[tuple[int, DataError]]
#: The trials of a sample that is asked once.
ONE_TRIAL = range(1)
#: How many wrong rows one error shows.
SHOWN = 20
#: Longer texts are no lists of options; Python's own reader takes a hundred times their memory.
LONGEST_LITERAL = 100_000
#: The prompts, or why there is none, and the errors of wrong rows with their positions.
CheckedPrompts = tuple[Prompts, RowErrors]
#: The templates that compile and the errors of the others, by field.
Compiled = tuple[dict[str, Template], list[tuple[str, SpecError]]]


class Solver(ABC):
    """Turns samples into completions; its dataclass fields are its YAML fields.

    `needs_model` says whether a model must be named, `reads_column` whether completions stand in a
    column, `ranks_continuations` whether log-probabilities are read and no text, `sends_prompts`
    whether `build_prompts` returns just what the model is sent.
    """

    type: ClassVar[str]
    needs_model: ClassVar[bool]
    reads_column: ClassVar[bool] = False
    ranks_continuations: ClassVar[bool] = False
    sends_prompts: ClassVar[bool] = False

    def compile_templates(self) -> Compiled:
        """Return the templates that compile and the errors of the others, by field (`a.0.b` for
        nested); none here.
        """
        return {}, []

    def list_calls(self, samples: Samples, examples: Samples | None) -> list[list[Prompt]]:
        """Return what the model is asked for each sample; nothing for one without a prompt."""
        calls: list[list[Prompt]] = []
        for prompt in self.build_prompts(samples, examples):
            if isinstance(prompt, RowError):
                calls.append([])
            else:
                calls.append([prompt])
        return calls

    @abstractmethod
    def build_prompts(self, samples: Samples, examples: Samples | None) -> Prompts:
        """Return the messages for each sample, or why there are none."""

    @abstractmethod
    def check_prompts(self, samples: Samples, examples: Samples | None) -> CheckedPrompts:
        """Return the prompts, as far as checking the rows builds them, and the wrong rows.

        A missing column is reported once, at the first row.
        """

    @abstractmethod
    def solve(
        self,
        samples: Samples,
        *,
        model: Model | None,
        facts: Known | None,
        examples: Samples | None,
        trials: range = ONE_TRIAL,
    ) -> Completions:
        """Return one completion per sample and trial, in order; raises if a row cannot be solved.

        `trials` are the numbers of the trials; those of a sample stand one after the other.
        """


def describe_row_errors(samples: Samples, outcomes: Sequence[object]) -> RowErrors:
    """Return the error of each row that has one; a column that does not exist is told once.

    Rows that have too few examples for the same reason have the same error.
    """
    errors: RowErrors = []
    missing: set[str] = set()
    for position, problem in enumerate(outcomes):
        if not isinstance(problem, RowError):
            continue
        code = getattr(problem, "code", "E207")
        message = f"sample `{samples.ids[position]}`: {problem.message}"
        column = problem.column
        where: Place | None = samples.place(position, column)
        if problem.is_undefined and column is not None:
            if column in missing:
                continue
            missing.add(column)
            code = "E206"
            message = problem.message
            # Templates see rows of two datasets: a column that the samples have is missing in the
            # examples.
            if column in samples.columns:
                message += " of the examples"
        elif isinstance(problem, ExamplesError):
            message = problem.message
            where = None
        error = DataError(code, message, where=where, hint=problem.hint)
        errors.append((position, error))
    return errors


def raise_row_errors(samples: Samples, *outcomes: Sequence[object]) -> None:
    """Raise the errors of rows, each text once and no more than an error shows."""
    errors = []
    for outcome in outcomes:
        for _, error in describe_row_errors(samples, outcome):
            errors.append(error)
    raise_all(distinct(errors)[:SHOWN])


def parse_literal(text: str) -> tuple[object, bool]:
    """Return what JSON, else Python reads in a text (None when neither does), and whether it is
    JSON.
    """
    if len(text) > LONGEST_LITERAL:
        return None, False
    with suppress(ValueError, RecursionError):
        return json.loads(text), True
    with suppress(ValueError):
        return parse_python(text.strip()), False
    return None, False


# From prompts to completions: what a model is told of each sample, and what it must be able to
# know.

OPTIONS_COLUMN = "options"
#: Where the question stands without the options, if the dataset has such a column.
QUESTION_COLUMN = "question"


def call_model(
    model: Model,
    samples: Samples,
    prompts: Sequence[Prompt],
    facts: Known | None,
    *,
    trials: range = ONE_TRIAL,
) -> Completions:
    """Return the model's completion for each prompt and trial, with the prompt in it."""
    require_known(model, samples, facts)
    requests = []
    for request in _list_requests(model, samples, prompts, facts):
        for trial in trials:
            requests.append(replace(request, trial=trial))
    completions = []
    replies = model.complete(requests)
    for request, reply in zip(requests, replies, strict=True):
        if reply.prompt is not request.messages:
            reply = reply.with_fields(prompt=request.messages)  # noqa: PLW2901 - the same reply
        completions.append(reply)
    ids = samples.repeat(len(trials)).ids
    return Completions.build(ids, completions, source="live")


def _list_requests(
    model: Model,
    samples: Samples,
    prompts: Sequence[Prompt],
    facts: Known | None,
) -> list[Request]:
    """Return the request of each prompt, with all that is known of the sample if the model sees it.

    Options and truth are for the built-in models; choices also for models whose replies are
    constrained to them.
    """
    requests = []
    for sample_id, prompt in zip(samples.ids, prompts, strict=True):
        requests.append(Request(str(sample_id), prompt))
    if not sees_samples(model):
        return requests
    nothing = [None] * len(samples)
    facts = facts or Known(nothing, nothing, nothing)
    options = read_options(samples, facts)
    questions: Sequence[object] = nothing
    if QUESTION_COLUMN in samples.columns:
        questions = samples.values(QUESTION_COLUMN)
    for row, prompt in enumerate(prompts):
        text = questions[row]
        if not isinstance(text, str):
            text = _find_last_text(prompt)
        requests[row] = replace(
            requests[row],
            choices=facts.choices[row],
            options=options[row],
            truth=facts.truths[row],
            text=text,
        )
    return requests


def _find_last_text(prompt: Prompt) -> str:
    """Return the text of the user's last message."""
    for message in reversed(prompt):
        if message["role"] == "user":
            content = message["content"]
            return write_content(content) or str(content)
    return ""


def require_known(model: Model, samples: Samples, facts: Known | None) -> None:
    """Raise SpecError E301 when a model needs what neither the scorers nor the dataset tell."""
    missing = missing_parts(model, facts)
    if missing:
        words = " and ".join(f"`{name}`" for name in sorted(missing))
        message = f"model `{model.name}` needs the {words} of each sample"
        hint = "add a scorer `string_equals_mcqa`, or use `builtin/constant?choice=A`"
        raise SpecError("E301", f"{message}, and no scorer of the task tells them", hint=hint)
    needs_options = OPTIONS_COLUMN in getattr(model, "needs", ())
    if not needs_options or not len(samples):
        return
    if not any(read_options(samples, facts)):
        raise SpecError(
            "E301",
            f"model `{model.name}` reads the option texts, and there are none",
            hint=OPTIONS_HINT,
        )


def read_options(samples: Samples, facts: Known | None) -> TextLists:
    """Return each sample's option texts: from the scorer, else from the column `options`, else
    None.
    """
    options: TextLists = [None] * len(samples)
    if facts is not None:
        options = list(facts.options)
    if OPTIONS_COLUMN in samples.columns:
        for position, cell in enumerate(samples.values(OPTIONS_COLUMN)):
            if options[position] is None:
                options[position] = _read_texts(cell)
    return options


def _read_texts(cell: object) -> list[str] | None:
    """Return the texts of a cell: a list, a mapping, objects with `text`, or a list written as
    text.
    """
    if isinstance(cell, str):
        cell = parse_literal(cell)[0]
    if isinstance(cell, Mapping):
        cell = list(cell.values())
    if not isinstance(cell, list):
        return None
    texts = []
    for entry in cell:
        text = entry
        if isinstance(entry, Mapping):
            text = entry.get("text")
        if not isinstance(text, str | int | float):
            return None
        texts.append(str(text))
    return texts


# Which field of a solver asks for a column that does not exist.

#: How the checks of settings begin: "`trace_column` names `x`, which is not a column".
_SETTING = re.compile(r"`([a-z_.]+)` names ")


def find_column_field(solver: Solver | None, error: DataError) -> tuple[str | int, ...]:
    """Return the way to the field that a missing column (E206) is asked for in.

    Empty when none is known.
    """
    setting = _SETTING.match(error.message)
    if setting:
        return _split_path(setting[1])
    column = error.where.field if error.where else None
    if solver is None or column is None:
        return ()
    templates, _ = solver.compile_templates()
    for name, template in templates.items():
        if column in (template.columns or ()):
            return _split_path(name)
    for name, template in templates.items():
        # What is read of the examples, or of the row as a whole, is known by its text only.
        if column in str(template.source):
            return _split_path(name)
    return ()


def _split_path(name: str) -> tuple[str | int, ...]:
    steps = name.split(".")
    return tuple(int(step) if step.isdigit() else step for step in steps)


# `pass_through_solver`: what the model once said stands in the dataset.


@dataclass(frozen=True)
class PassThroughSolver(Solver):
    """Reads completions from a column; asks no model.

    A cell holds a trace (an OpenAI-like object, a list of messages, or the JSON text of either) or
    plain text. JSON text that is no trace is plain text. `message_format` is accepted for the sake
    of existing files and changes nothing.
    """

    trace_column: str
    message_format: object = None

    type: ClassVar[str] = "pass_through_solver"
    needs_model: ClassVar[bool] = False
    reads_column: ClassVar[bool] = True

    def build_prompts(self, samples: Samples, examples: Samples | None) -> Prompts:  # noqa: ARG002 - the protocol's signature
        """Return an empty prompt for each sample: nothing is asked."""
        return [[] for _ in range(len(samples))]

    def check_prompts(self, samples: Samples, examples: Samples | None) -> CheckedPrompts:  # noqa: ARG002 - the protocol's signature
        """Return the error of a trace column that does not exist, once."""
        try:
            require_column(samples, self.trace_column)
        except DataError as error:
            return [], [(0, error)]
        return [], []

    def solve(self, samples: Samples, *, trials: range = ONE_TRIAL, **_: object) -> Completions:
        """Return what the column says, in order; there is one trial of it."""
        if len(trials) > 1:
            raise SpecError(
                "E119",
                f"`{self.type}` reads one completion for each sample, not {len(trials)} trials",
                hint="leave `trials` out, or ask a model with a `single_turn_solver`",
            )
        require_column(samples, self.trace_column)
        completions = []
        for row in samples.rows():
            cell = get_inside(row, self.trace_column)
            completions.append(read_cell(cell))
        return Completions.build(samples.ids, completions, source="recorded")


def read_cell(cell: object) -> Completion:
    """Return the completion of one cell: a trace, its JSON text, or plain text; null is NO_TEXT."""
    if isinstance(cell, str) and cell.lstrip()[:1] in {"{", "["}:
        with suppress(ValueError, RecursionError):
            parsed = json.loads(cell)
            if is_trace(parsed):
                return read_message(parsed)
    return read_message(cell)


def require_column(samples: Samples, name: str) -> None:
    """Raise E206 when no column has a name, or what stands before one of its dots."""
    if name in samples.columns or split_name(name, samples.columns):
        return
    where = None
    if len(samples):
        where = samples.place(0, name)
    raise refuse_column(
        f"`trace_column` names `{name}`, which is not a column", name, samples.columns, where
    )
