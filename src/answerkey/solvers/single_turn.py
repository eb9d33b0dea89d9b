"""Solvers that call a model: `single_turn_solver` for a text, `choice_ranking_solver` for
probabilities.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby
from typing import ClassVar, Literal, cast, get_args

from answerkey.datasets.rows import ID_COLUMN
from answerkey.errors import DataError, InternalError, SpecError, listing, raise_all, refuse_column
from answerkey.models.config import Model, RankingModel, has_loglikelihoods
from answerkey.models.images import find_folders, resolve_images
from answerkey.models.logprobs import continue_prompt
from answerkey.reader.explain import shorten
from answerkey.solvers.solver import (
    ONE_TRIAL,
    CheckedPrompts,
    Compiled,
    ExamplesError,
    Prompt,
    PromptError,
    Prompts,
    Solver,
    call_model,
    describe_row_errors,
    raise_row_errors,
)
from answerkey.templates import RowError, Template
from answerkey.types import Completions, Draws, Request, Row, SampleFacts, Samples

# The messages for a model: written as chat messages, or as one template that yields JSON.

Role = Literal["system", "developer", "user", "assistant"]
ROLES: tuple[str, ...] = get_args(Role)
#: A message, or a part of one.
Message = dict[str, object]
#: The values that templates see, by name.
Names = Mapping[str, object]
#: Templates by the field of the solver, such as `input_builder.input_messages.0.content`.
Templates = Mapping[str, Template]
#: The source of each template by its field, and the names that it sees in addition to the solver's.
Sources = dict[str, tuple[str, tuple[str, ...]]]
_MESSAGES = "input_builder.input_messages"
_TEMPLATE = "input_builder.template"


@dataclass(frozen=True)
class TextPart:
    """A text part of a message; `text` is a template."""

    text: str
    type: Literal["text"] = "text"

    def build(self, template: Template, names: Names) -> Message:
        """Return the part for one sample. Raise RowError."""
        return {"type": "text", "text": template.render(**names)}


@dataclass(frozen=True)
class ImagePart:
    """A part of a message with one image or several.

    `image` is a template. A null is left out.
    """

    image: str
    type: Literal["image"] = "image"

    def build(self, template: Template, names: Names) -> Message:
        """Return the part for one sample. Raise RowError."""
        column = min(template.columns or (), default=None)
        image = template.evaluate(**names)
        return {"type": "image", "column": column, "image": image}


@dataclass(frozen=True)
class InputMessage:
    """One message.

    `content` is a template over `sample` (and `examples`, if the solver has any), or a list of
    parts. With `for_each: examples` the message is repeated for each example, as `example`;
    adjacent messages with it are repeated together.
    """

    role: Role
    content: str | tuple[TextPart | ImagePart, ...]
    for_each: Literal["examples"] | None = None

    def __post_init__(self) -> None:
        if self.content == ():
            raise SpecError("E108", "`content` is empty", hint="write a text, or at least one part")

    def list_sources(self, field: str) -> Iterator[tuple[str, str]]:
        """Yield the field and the source of each template."""
        if isinstance(self.content, str):
            yield f"{field}.content", self.content
            return
        for place, part in enumerate(self.content):
            source = getattr(part, part.type)
            yield f"{field}.content.{place}.{part.type}", source

    def build(self, templates: Templates, field: str, names: Names) -> Message:
        """Return the message for one sample. Raise RowError."""
        if isinstance(self.content, str):
            text = templates[f"{field}.content"].render(**names)
            return {"role": self.role, "content": text}
        content = []
        for place, part in enumerate(self.content):
            template = templates[f"{field}.content.{place}.{part.type}"]
            content.append(part.build(template, names))
        return {"role": self.role, "content": content}


@dataclass(frozen=True)
class ChatInput:
    """Messages written one by one."""

    input_messages: tuple[InputMessage, ...]
    type: Literal["chat_completion"] = "chat_completion"

    def __post_init__(self) -> None:
        if not self.input_messages:
            raise SpecError("E108", "`input_messages` is empty", hint="write at least one message")

    def list_sources(self) -> Sources:
        """Return the source of each template by its field, and the names that only it sees."""
        sources: Sources = {}
        for number, message in enumerate(self.input_messages):
            names = ("example",) if message.for_each else ()
            path = f"{_MESSAGES}.{number}"
            for field, source in message.list_sources(path):
                sources[field] = source, names
        return sources

    def build(self, templates: Templates, sample: Row, examples: Sequence[Row]) -> Prompt:
        """Return the messages for one sample with its examples. Raise RowError."""
        prompt = []
        common = {"sample": sample, "examples": examples}
        messages = enumerate(self.input_messages)
        groups = groupby(messages, key=lambda pair: pair[1].for_each)
        for for_each, group in groups:
            members = list(group)
            contexts = [common]
            if for_each:
                contexts = [{**common, "example": example} for example in examples]
            for names in contexts:
                for number, message in members:
                    path = f"{_MESSAGES}.{number}"
                    prompt.append(message.build(templates, path, names))
        return prompt


@dataclass(frozen=True)
class GenericInput:
    """One template that yields JSON: a list of messages, or an object with `messages`."""

    template: str
    type: Literal["generic"] = "generic"

    def list_sources(self) -> Sources:
        """Return the source of the one template by its field."""
        return {_TEMPLATE: (self.template, ())}

    def build(self, templates: Templates, sample: Row, examples: Sequence[Row]) -> Prompt:
        """Return the messages for one sample with its examples. Raise RowError."""
        text = templates[_TEMPLATE].render(sample=sample, examples=examples)
        return parse_messages(text)


def parse_messages(text: str) -> Prompt:
    """Return the messages in JSON text, or raise PromptError with what is wrong with it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PromptError(
            f"the template does not yield JSON: {error}: {shorten(text)}",
            hint="put text from the sample through `| tojson`, which quotes and escapes it",
        ) from None
    if isinstance(value, dict) and set(value) == {"messages"}:
        value = value["messages"]
    if not isinstance(value, list) or not value:
        raise PromptError(
            f"the template yields {shorten(value)}, not messages",
            hint="write a list of messages, or an object with only `messages`",
        )
    for message in value:
        if not isinstance(message, dict) or not isinstance(message.get("content"), str | list):
            raise PromptError(f"a message must have `role` and `content`, not {shorten(message)}")
        role = message.get("role")
        if role not in ROLES:
            raise PromptError(f"unknown role {role!r}", hint=f"roles: {listing(ROLES)}")
    return value


# Few-shot examples: the rows of a second dataset that are shown with a sample.

#: The examples of each sample, or why there are too few.
PickedExamples = list[list[Row] | RowError]


@dataclass(frozen=True)
class Examples:
    """How examples are chosen.

    With `by`, only rows with the sample's own value in that column.
    """

    dataset: str
    num_examples: int
    seed: int = 0
    by: str | None = None

    def __post_init__(self) -> None:
        if self.num_examples < 0:
            raise SpecError(
                "E108", f"`num_examples` is {self.num_examples}, it must not be negative"
            )


def pick_examples(setting: Examples, samples: Samples, examples: Samples) -> PickedExamples:
    """Return the examples of each sample, or why there are too few.

    Rows are ranked by the seed and their id, and the first ones are taken, except the sample
    itself: the same seed gives the same examples, whichever samples are run. The sample itself is
    the row with its id in the same file, or any row with the same content in all common columns.
    """
    by = setting.by
    for table in (samples, examples):
        if by is not None and by not in table.columns:
            raise refuse_column(
                f"`examples.by` names `{by}`, which is not a column of both datasets",
                by,
                table.columns,
            )
    columns = _list_common_columns(samples, examples)
    is_same_file = samples.file is not None and samples.file == examples.file
    ranked = _rank_examples(setting, examples)
    write_example = cache(lambda place: _write_cells(examples.row(place), columns))
    picked: PickedExamples = []
    for sample in samples:
        content = _write_cells(sample.fields, columns)
        rows: list[Row] = []
        for place in ranked[_find_group(setting, sample.fields)]:
            if len(rows) == setting.num_examples:
                break
            example = examples.items[place]
            is_same_row = is_same_file and sample.id == example.id
            is_same_content = bool(columns) and content == write_example(place)
            if not is_same_row and not is_same_content:
                rows.append(example.fields)
        if len(rows) == setting.num_examples:
            picked.append(rows)
        else:
            picked.append(_describe_shortage(setting, sample.fields, len(rows)))
    return picked


def _describe_shortage(setting: Examples, row: Row, count: int) -> ExamplesError:
    """Return why a sample has too few examples."""
    group = ""
    hint = "lower `num_examples`"
    if setting.by is not None:
        group = f" with `{setting.by}` = {row[setting.by]!r}"
        hint += ", or leave `by` out"
    problem = f"{setting.num_examples} examples are needed, and dataset `{setting.dataset}` has"
    message = f"{problem} {count}{group} that are not the sample itself"
    return ExamplesError(message, hint=hint)


def _rank_examples(setting: Examples, examples: Samples) -> defaultdict[str, list[int]]:
    """Return the positions of the examples in the order of their ranks, by their value in `by`."""
    ranks = []
    for place, example in enumerate(examples):
        rank = Draws(setting.seed, example.id).rank("example")
        ranks.append((rank, example.id, place))
    groups = defaultdict(list)
    for _, _, place in sorted(ranks):
        groups[_find_group(setting, examples.row(place))].append(place)
    return groups


def _list_common_columns(samples: Samples, examples: Samples) -> list[str]:
    """Return the columns that are in both tables, by which contents are compared."""
    first = set(samples.columns) - {ID_COLUMN}
    second = set(examples.columns) - {ID_COLUMN}
    if first <= second or second <= first:
        return sorted(first & second)
    return []


def _find_group(setting: Examples, row: Row) -> str:
    if setting.by is None:
        return ""
    return _write_cells(row, [setting.by])


def _write_cells(row: Row, columns: Sequence[str]) -> str:
    return json.dumps([row[name] for name in columns], sort_keys=True, default=str)


# `single_turn_solver`: one prompt, one completion.


@dataclass(frozen=True)
class SingleTurnSolver(Solver):
    """Calls the model once for each sample.

    `message_format` is accepted for existing files but has no effect. `examples` makes rows of a
    second dataset visible to the templates.
    """

    input_builder: ChatInput | GenericInput
    message_format: object = None
    examples: Examples | None = None

    type: ClassVar[str] = "single_turn_solver"
    needs_model: ClassVar[bool] = True
    sends_prompts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        # No examples are shown, and no template reads their list: the dataset is not needed.
        if self.examples is not None and self.examples.num_examples == 0:
            sources = self.input_builder.list_sources().values()
            if not any("examples" in source for source, _ in sources):
                object.__setattr__(self, "examples", None)

    def compile_templates(self) -> Compiled:
        """Return the templates that compile, and the errors of the others, by field."""
        return self._compiled

    @cached_property
    def _compiled(self) -> Compiled:
        templates = {}
        errors = []
        names = ("sample", "examples") if self.examples else ("sample",)
        sources = self.input_builder.list_sources()
        for field, (source, further_names) in sources.items():
            try:
                templates[field] = Template.compile(source, (*names, *further_names))
            except SpecError as error:
                errors.append((field, error))
        return templates, errors

    def build_prompts(self, samples: Samples, examples: Samples | None) -> Prompts:
        """Return the messages for each sample, or the error.

        Raise the error of a template that does not compile.
        """
        templates, errors = self._compiled
        raise_all([error for _, error in errors])
        shown: PickedExamples = [[]] * len(samples)
        if self.examples is not None:
            if examples is None:
                raise InternalError(
                    "E901", f"the examples of dataset `{self.examples.dataset}` were not passed in"
                )
            shown = pick_examples(self.examples, samples, examples)
        example_file = examples.file if examples else None
        list_folders = cache(find_folders)
        prompts: Prompts = []
        rows = zip(samples.rows(), shown, strict=True)
        for position, (row, few) in enumerate(rows):
            if isinstance(few, RowError):
                prompts.append(few)
                continue
            try:
                prompt = self.input_builder.build(templates, row, few)
                if any(isinstance(message["content"], list) for message in prompt):
                    file = samples.place(position).file
                    folders = list_folders(file, example_file)
                    prompt = resolve_images(prompt, folders)
                prompts.append(prompt)
            except RowError as problem:
                prompts.append(problem)
        return prompts

    def check_prompts(self, samples: Samples, examples: Samples | None) -> CheckedPrompts:
        """Return the prompts and the errors of rows without one; no prompts if none can be built.

        Templates that do not compile are reported elsewhere; the others are rendered anyway.
        """
        templates, errors = self._compiled
        if errors:
            problems = []
            if self.examples is None:
                for template in templates.values():
                    problems += describe_row_errors(samples, template.values(samples))
            return [], problems
        try:
            prompts = self.build_prompts(samples, examples)
        except DataError as error:
            return [], [(0, error)]
        return prompts, describe_row_errors(samples, prompts)

    def solve(
        self,
        samples: Samples,
        *,
        model: Model | None,
        facts: SampleFacts | None,
        examples: Samples | None,
        trials: range = ONE_TRIAL,
    ) -> Completions:
        """Return the model's completions for each sample, in order.

        An invalid row raises before any call.
        """
        if model is None:
            raise SpecError(
                "E108", f"`{self.type}` calls a model, and none is named", hint="add `--model NAME`"
            )
        prompts = self.build_prompts(samples, examples)
        raise_row_errors(samples, prompts)
        sound_prompts = cast("list[Prompt]", prompts)
        return call_model(model, samples, sound_prompts, facts, trials=trials)


# `choice_ranking_solver`: the probability of each choice as the continuation of the prompt.


@dataclass(frozen=True)
class ChoiceRankingSolver(Solver):
    """Asks the model for the log-probability of each continuation; no text is generated.

    `continuations` is a template that yields the texts in the order of the choices; each is
    appended directly to the prompt, which is the text of all messages, separated by empty lines.
    """

    input_builder: ChatInput | GenericInput
    continuations: str | list[str]
    examples: Examples | None = None

    type: ClassVar[str] = "choice_ranking_solver"
    needs_model: ClassVar[bool] = True
    ranks_continuations: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for field in self.input_builder.list_sources():
            if field.endswith(".image"):
                raise SpecError(
                    "E108", f"`{self.type}` sends only text, but a message has an image"
                )

    @cached_property
    def _prompts(self) -> SingleTurnSolver:
        return SingleTurnSolver(self.input_builder, examples=self.examples)

    def compile_templates(self) -> Compiled:
        """Return the templates that compile, and the errors of the others, by field."""
        templates, errors = self._prompts.compile_templates()
        try:
            template = Template.compile(self.continuations)
        except SpecError as error:
            return templates, [*errors, ("continuations", error)]
        return {**templates, "continuations": template}, errors

    def build_prompts(self, samples: Samples, examples: Samples | None) -> Prompts:
        """Return the messages for each sample, without a continuation, or the error."""
        return self._prompts.build_prompts(samples, examples)

    def list_calls(self, samples: Samples, examples: Samples | None) -> list[list[Prompt]]:
        """Return the prompts sent for each sample: one text for each continuation."""
        prompts = self.build_prompts(samples, examples)
        continuations = self.list_continuations(samples)
        calls: list[list[Prompt]] = []
        for prompt, texts in zip(prompts, continuations, strict=True):
            if isinstance(prompt, RowError) or isinstance(texts, RowError):
                calls.append([])
            else:
                calls.append(continue_prompt(prompt, texts))
        return calls

    def list_continuations(self, samples: Samples) -> list[list[str] | RowError]:
        """Return the continuations of each sample, or the error."""
        template = Template.compile(self.continuations)
        return list(map(_read_texts, template.values(samples)))

    def check_prompts(self, samples: Samples, examples: Samples | None) -> CheckedPrompts:
        """Return the rows whose prompt or continuations cannot be built."""
        _, problems = self._prompts.check_prompts(samples, examples)
        if not self.compile_templates()[1]:
            problems += describe_row_errors(samples, self.list_continuations(samples))
        return [], problems

    def solve(
        self,
        samples: Samples,
        *,
        model: Model | None,
        examples: Samples | None,
        trials: range = ONE_TRIAL,
        **_: object,
    ) -> Completions:
        """Return for each sample the log-probabilities of its continuations, without a text."""
        ranking_model = require_echo(model)
        prompts = self.build_prompts(samples, examples)
        texts = self.list_continuations(samples)
        raise_row_errors(samples, prompts, texts)
        requests = []
        continuations = []
        for sample_id, prompt, ends in zip(samples.ids, prompts, texts, strict=True):
            messages = cast("Prompt", prompt)
            for trial in trials:
                requests.append(Request(str(sample_id), messages, trial=trial))
                continuations.append(cast("list[str]", ends))
        completions = ranking_model.loglikelihoods(requests, continuations)
        ids = samples.repeat(len(trials)).ids
        return Completions.build(ids, completions, source="live")


def _read_texts(value: object) -> list[str] | RowError:
    if isinstance(value, RowError):
        return value
    if isinstance(value, list | tuple):
        is_text = set(map(type, value)) == {str}
        if is_text and all(value):
            return list(value)
    return PromptError(
        f"`continuations` yields {value!r:.80}, not a list of texts",
        hint="for letters write \"{{ [' A', ' B', ' C', ' D'] }}\"",
    )


def require_echo(model: Model | None) -> RankingModel:
    """Return the model if it can give the log-probability of a continuation; SpecError E301
    otherwise.
    """
    if has_loglikelihoods(model):
        return model
    subject = "no model" if model is None else f"model `{model.name}`"
    needs = f"`{ChoiceRankingSolver.type}` needs log-probabilities of given texts"
    hint = (
        "use the completions API with `echo`: "
        "`--model 'http://HOST/v1?api=completions&echo=true#NAME'`; "
        "or a Python object with a method `loglikelihoods`"
    )
    raise SpecError("E301", f"{needs}, and {subject} does not give them", hint=hint)
