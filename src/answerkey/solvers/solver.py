"""The base of all solvers, their calls to a model, and `pass_through_solver`, which reads recorded
completions.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

from answerkey.datasets.options import read_option_cell
from answerkey.datasets.rows import get_inside, split_name
from answerkey.errors import DataError, Place, SpecError, distinct, raise_all, refuse_column
from answerkey.models.config import OPTIONS_HINT, Model, missing_facts, sees_samples
from answerkey.models.images import describe_content
from answerkey.models.responses import is_trace, read_message
from answerkey.templates import RowError, Template
from answerkey.text import parse_python
from answerkey.types import Completion, Completions, Request, SampleFacts, Samples

# Errors of samples that get no prompt although their template works.


class PromptError(RowError):
    """The error of one row without a prompt."""

    code = "E302"


class ExamplesError(PromptError):
    """Too few examples: a mistake in the task, so it is reported once, not for every row."""


# The base of all solvers.

Prompt = list[dict[str, object]]
#: The prompt of each sample, or its error.
Prompts = list[Prompt | RowError]
#: The texts of each sample; None if it has none.
TextLists = list[Sequence[str] | None]
#: The errors of rows, with their positions.
RowErrors = list[tuple[int, DataError]]
#: The trials of a sample that is run once.
ONE_TRIAL = range(1)
#: The maximum number of row errors shown together.
SHOWN = 20
#: Longer texts are not lists of options; Python's parser needs a hundred times their memory.
MAX_LITERAL_LENGTH = 100_000
#: The prompts or their errors, and the errors of invalid rows with their positions.
CheckedPrompts = tuple[Prompts, RowErrors]
#: The templates that compile and the errors of the others, by field.
Compiled = tuple[dict[str, Template], list[tuple[str, SpecError]]]


class Solver(ABC):
    """Turns samples into completions; its dataclass fields are its YAML fields.

    `needs_model`: it calls a model. `reads_column`: it reads completions from a column.
    `ranks_continuations`: it reads log-probabilities instead of text. `sends_prompts`: the model
    gets exactly what `build_prompts` returns.
    """

    type: ClassVar[str]
    needs_model: ClassVar[bool]
    reads_column: ClassVar[bool] = False
    ranks_continuations: ClassVar[bool] = False
    sends_prompts: ClassVar[bool] = False

    def compile_templates(self) -> Compiled:
        """Return the templates that compile, and the errors of the others, by field (`a.0.b` for
        nested); none by default.
        """
        return {}, []

    def list_calls(self, samples: Samples, examples: Samples | None) -> list[list[Prompt]]:
        """Return the prompts sent for each sample; none for a sample without a prompt."""
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
        """Return the prompts that were built to check the rows, and the errors of invalid rows.

        A missing column is reported once, at the first row.
        """

    @abstractmethod
    def solve(
        self,
        samples: Samples,
        *,
        model: Model | None,
        facts: SampleFacts | None,
        examples: Samples | None,
        trials: range = ONE_TRIAL,
    ) -> Completions:
        """Return one completion per sample and trial, in order; raise if a row cannot be solved.

        `trials` are the numbers of the trials; the completions of a sample are consecutive.
        """


def describe_row_errors(samples: Samples, outcomes: Sequence[object]) -> RowErrors:
    """Return the error of each row that has one; a missing column is reported once.

    Rows with too few examples for the same reason share one error.
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
            # Templates see rows of two datasets: a column of the samples may be missing in the
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
    """Raise the distinct errors of rows, up to the maximum shown."""
    errors = []
    for outcome in outcomes:
        for _, error in describe_row_errors(samples, outcome):
            errors.append(error)
    raise_all(distinct(errors)[:SHOWN])


def parse_literal(text: str) -> tuple[object, bool]:
    """Return the value of a JSON text, or else of a Python literal (None if it is neither), and
    whether it is JSON.
    """
    if len(text) > MAX_LITERAL_LENGTH:
        return None, False
    with suppress(ValueError, RecursionError):
        return json.loads(text), True
    with suppress(ValueError):
        return parse_python(text.strip()), False
    return None, False


# Requests to a model, and the facts that it may need.

OPTIONS_COLUMN = "options"
#: The column with the question without its options, if the dataset has one.
QUESTION_COLUMN = "question"


def call_model(
    model: Model,
    samples: Samples,
    prompts: Sequence[Prompt],
    facts: SampleFacts | None,
    *,
    trials: range = ONE_TRIAL,
) -> Completions:
    """Return the model's completion for each prompt and trial, including the prompt."""
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
    facts: SampleFacts | None,
) -> list[Request]:
    """Return the request of each prompt, with the known facts about the sample if the model uses
    them.

    Options and truth are for the built-in models; choices also for models with constrained replies.
    """
    requests = []
    for sample_id, prompt in zip(samples.ids, prompts, strict=True):
        requests.append(Request(str(sample_id), prompt))
    if not sees_samples(model):
        return requests
    nothing = [None] * len(samples)
    facts = facts or SampleFacts(nothing, nothing, nothing)
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
            return describe_content(content) or str(content)
    return ""


def require_known(model: Model, samples: Samples, facts: SampleFacts | None) -> None:
    """Raise SpecError E301 if a model needs facts that neither the scorers nor the dataset
    provide.
    """
    missing = missing_facts(model, facts)
    if missing:
        words = " and ".join(f"`{name}`" for name in sorted(missing))
        message = f"model `{model.name}` needs the {words} of each sample"
        hint = "add a scorer `string_equals_mcqa`, or use `builtin/constant?choice=A`"
        raise SpecError("E301", f"{message}, and no scorer of the task provides them", hint=hint)
    needs_options = OPTIONS_COLUMN in getattr(model, "needs", ())
    if not needs_options or not len(samples):
        return
    if not any(read_options(samples, facts)):
        raise SpecError(
            "E301",
            f"model `{model.name}` reads the option texts, and there are none",
            hint=OPTIONS_HINT,
        )


def _list_texts(cell: object) -> list[str] | None:
    """Return the option texts in a cell; None if it contains no list, or one with gaps."""
    texts, _ = read_option_cell(cell)
    if not texts:
        return None
    present = [text for text in texts if text is not None]
    return present if len(present) == len(texts) else None


def read_options(samples: Samples, facts: SampleFacts | None) -> TextLists:
    """Return each sample's option texts: from the scorer, or else from the column `options`, or
    else None.
    """
    options: TextLists = [None] * len(samples)
    if facts is not None:
        options = list(facts.options)
    if OPTIONS_COLUMN in samples.columns:
        for position, cell in enumerate(samples.values(OPTIONS_COLUMN)):
            if options[position] is None:
                options[position] = _list_texts(cell)
    return options


# Finding the field of a solver that names a missing column.

#: The beginning of messages about settings: "`trace_column` names `x`, which is not a column".
_SETTING = re.compile(r"`([a-z_.]+)` names ")


def find_column_field(solver: Solver | None, error: DataError) -> tuple[str | int, ...]:
    """Return the path of the field that names a missing column (E206).

    Empty if it is unknown.
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
        # Columns of examples, or uses of the whole row, can only be found in the text of the
        # templates.
        if column in str(template.source):
            return _split_path(name)
    return ()


def _split_path(name: str) -> tuple[str | int, ...]:
    steps = name.split(".")
    return tuple(int(step) if step.isdigit() else step for step in steps)


# `pass_through_solver`: completions are recorded in the dataset.


@dataclass(frozen=True)
class PassThroughSolver(Solver):
    """Reads completions from a column, without calling a model.

    A cell contains a trace (an OpenAI-like object, a list of messages, or the JSON text of either)
    or plain text. JSON text that is not a trace is plain text. `message_format` is accepted for
    existing files but has no effect.
    """

    trace_column: str
    message_format: object = None

    type: ClassVar[str] = "pass_through_solver"
    needs_model: ClassVar[bool] = False
    reads_column: ClassVar[bool] = True

    def build_prompts(self, samples: Samples, examples: Samples | None) -> Prompts:  # noqa: ARG002 - the protocol's signature
        """Return an empty prompt for each sample: no model is called."""
        return [[] for _ in range(len(samples))]

    def check_prompts(self, samples: Samples, examples: Samples | None) -> CheckedPrompts:  # noqa: ARG002 - the protocol's signature
        """Return the error of a missing trace column, once."""
        try:
            require_column(samples, self.trace_column)
        except DataError as error:
            return [], [(0, error)]
        return [], []

    def solve(self, samples: Samples, *, trials: range = ONE_TRIAL, **_: object) -> Completions:
        """Return the completions in the column, in order, as a single trial."""
        if len(trials) > 1:
            raise SpecError(
                "E119",
                f"`{self.type}` reads one completion for each sample, not {len(trials)} trials",
                hint="leave `trials` out, or call a model with a `single_turn_solver`",
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
    """Raise E206 if no column has this name, or the part of it before a dot."""
    if name in samples.columns or split_name(name, samples.columns):
        return
    where = None
    if len(samples):
        where = samples.place(0, name)
    raise refuse_column(
        f"`trace_column` names `{name}`, which is not a column", name, samples.columns, where
    )
