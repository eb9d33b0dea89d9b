"""`single_turn_solver`: one prompt, one completion; how prompts are written, with examples or without."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby, repeat
from typing import ClassVar, Literal, get_args

from answerkey.errors import DataError, InternalError, SpecError, listing, raise_all, suggest
from answerkey.models.builtin import Draws
from answerkey.models.config import Model
from answerkey.solvers.solver import (
    ID_COLUMN,
    ONE_TRIAL,
    Compiled,
    ExamplesError,
    Prompt,
    PromptError,
    call_model,
    describe_row_errors,
    shorten,
)
from answerkey.templates import RowError, Template
from answerkey.types import Completions, Known, Row, Samples

# How the messages for a model are written down: as chat messages, or as one template that yields JSON.

Role = Literal["system", "developer", "user", "assistant"]
ROLES: tuple[str, ...] = get_args(Role)

Rows = Sequence[Mapping[str, object]]


@dataclass(frozen=True)
class InputMessage:
    """One message; `content` is a template over `sample` (and `examples`, when the solver has any).

    With `for_each: examples` it is repeated for each example, as `example`; neighbours that have it are
    repeated together.
    """

    role: Role
    content: str
    for_each: Literal["examples"] | None = None

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            hint = suggest(str(self.role), ROLES) or f"roles: {listing(ROLES)}"
            raise SpecError("E108", f"unknown role {self.role!r}", hint=hint)

    def compile(self, names: tuple[str, ...]) -> Template:
        """Return the compiled content."""
        return Template.compile(self.content, names=(*names, "example") if self.for_each else names)


@dataclass(frozen=True)
class ChatInput:
    """Messages written one by one."""

    input_messages: tuple[InputMessage, ...]
    type: Literal["chat_completion"] = "chat_completion"

    def __post_init__(self) -> None:
        if not self.input_messages:
            raise SpecError("E108", "`input_messages` is empty", hint="write at least one message")

    def compilers(self, names: tuple[str, ...]) -> dict[str, Callable[[], Template]]:
        """Return, for each template field, the function that compiles it."""
        return {
            f"input_messages.{position}.content": lambda message=message: message.compile(names)  # type: ignore[misc]  # a default binds the loop variable
            for position, message in enumerate(self.input_messages)
        }

    def build(
        self, templates: Mapping[str, Template], sample: Mapping[str, object], examples: Rows | None
    ) -> Prompt:
        """Return the messages for one sample."""
        context = {"sample": sample} if examples is None else {"sample": sample, "examples": examples}
        contents = [templates[f"input_messages.{i}.content"] for i in range(len(self.input_messages))]
        prompt: Prompt = []
        for is_repeated, positions in self._groups:
            rounds = [{**context, "example": row} for row in examples or ()] if is_repeated else [context]
            prompt += [
                {"role": self.input_messages[i].role, "content": contents[i].render(**names)}
                for names in rounds
                for i in positions
            ]
        return prompt

    def build_all(self, templates: Mapping[str, Template], samples: Samples) -> list[Prompt | RowError]:
        """Return the messages for every sample, or why there are none, where no examples are shown."""
        written = [i for i, message in enumerate(self.input_messages) if message.for_each is None]
        roles = [self.input_messages[i].role for i in written]
        texts = [templates[f"input_messages.{i}.content"].texts(samples) for i in written]
        contents = zip(*texts, strict=True) if texts else repeat((), len(samples))
        return [
            next((text for text in one if isinstance(text, RowError)), None)
            or [{"role": role, "content": text} for role, text in zip(roles, one, strict=True)]
            for one in contents
        ]

    @cached_property
    def _groups(self) -> list[tuple[bool, list[int]]]:
        """Neighbouring messages, by position, that are written once each, or repeated together."""
        positions = groupby(range(len(self.input_messages)), key=lambda i: self.input_messages[i].for_each)
        return [(for_each is not None, list(members)) for for_each, members in positions]


@dataclass(frozen=True)
class GenericInput:
    """One template that yields JSON: a list of messages, or an object that has them as `messages`."""

    template: str
    type: Literal["generic"] = "generic"

    def compilers(self, names: tuple[str, ...]) -> dict[str, Callable[[], Template]]:
        """Return, for the one template field, the function that compiles it."""
        return {"template": lambda: Template.compile(self.template, names=names)}

    def build(
        self, templates: Mapping[str, Template], sample: Mapping[str, object], examples: Rows | None
    ) -> Prompt:
        """Return the messages for one sample."""
        context = {"sample": sample} if examples is None else {"sample": sample, "examples": examples}
        return parse_messages(templates["template"].render(**context))

    def build_all(self, templates: Mapping[str, Template], samples: Samples) -> list[Prompt | RowError]:
        """Return the messages for every sample, or why there are none, where no examples are shown."""
        prompts: list[Prompt | RowError] = []
        for text in templates["template"].texts(samples):
            try:
                prompts.append(text if isinstance(text, RowError) else parse_messages(text))
            except RowError as problem:
                prompts.append(problem)
        return prompts


def parse_messages(text: str) -> Prompt:
    """Return the messages of JSON text, or raise PromptError with what is wrong with it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"the template does not yield JSON: {error}: {shorten(text)}"
        hint = "put text from the sample through `| tojson`, which quotes and escapes it"
        raise PromptError(message, hint=hint) from None
    if isinstance(value, dict):
        if "messages" not in value:
            raise PromptError(f"the template yields an object without `messages`: it has {listing(value)}")
        others = [name for name in value if name != "messages"]
        if others:
            message = f"the template yields an object with {listing(others)} beside `messages`"
            raise PromptError(message, hint="only `messages` is read; remove the rest")
        value = value["messages"]
    if not isinstance(value, list) or not value:
        raise PromptError(f"the template yields {shorten(value)}, not a list of messages")
    for one in value:
        if not isinstance(one, dict) or not isinstance(one.get("content"), str | list):
            raise PromptError(f"a message must have `role` and `content`, not {shorten(one)}")
        if one.get("role") not in ROLES:
            raise PromptError(f"unknown role {one.get('role')!r}", hint=f"roles: {listing(ROLES)}")
    return value


# Few-shot: which rows of a second dataset a sample is shown.


@dataclass(frozen=True)
class Examples:
    """How examples are chosen; with `by`, only rows that have the sample's own value in that column."""

    dataset: str
    num_examples: int
    seed: int = 0
    by: str | None = None

    def __post_init__(self) -> None:
        if self.num_examples < 0:
            raise SpecError("E108", f"`num_examples` is {self.num_examples}, it must not be negative")


def pick_examples(setting: Examples, samples: Samples, examples: Samples) -> list[list[Row] | RowError]:
    """Return the examples of each sample, or why there are too few.

    Rows are ranked by the seed and their id, and the first that are not the sample itself are taken: the same
    seed gives the same examples, whichever samples are asked. The sample itself is the row with its id in the
    same file, or any row that says the same in all columns the two have in common.
    """
    by = setting.by
    for table in (samples, examples):
        if by is not None and by not in table.columns:
            raise DataError(
                "E206",
                f"`examples.by` names `{by}`, which is not a column of both datasets",
                where=None,
                hint=suggest(by, table.columns) or f"columns: {listing(table.columns)}",
            )
    sample_ids, ids = samples.ids.to_list(), examples.ids.to_list()
    values = [_key(value) for value in examples.values(by)] if by else [""] * len(ids)
    groups: dict[str, list[int]] = {}
    for place in sorted(range(len(ids)), key=lambda i: (Draws(setting.seed, ids[i]).rank("example"), ids[i])):
        groups.setdefault(values[place], []).append(place)
    is_same_file = samples.file is not None and samples.file == examples.file
    first, second = (set(table.columns) - {ID_COLUMN} for table in (samples, examples))
    # Content is compared only if one dataset has all columns of the other.
    columns = sorted(first & second) if first <= second or second <= first else []
    contents = [_digest(row) for row in samples.rows(columns)] if columns else [None] * len(samples)

    @cache
    def digest_example(place: int) -> bytes | None:
        return _digest(next(iter(examples.slice(place, 1).rows(columns))))

    show = cache(examples.row)
    wanted = samples.values(by) if by else [None] * len(samples)
    found: list[list[Row] | RowError] = []
    for value, sample_id, content in zip(wanted, sample_ids, contents, strict=True):
        chosen: list[int] = []
        for place in groups.get(_key(value) if by else "", ()):
            if len(chosen) == setting.num_examples:
                break
            is_itself = is_same_file and sample_id == ids[place]
            if not is_itself and (content is None or content != digest_example(place)):
                chosen.append(place)
        if len(chosen) == setting.num_examples:
            found.append([show(place) for place in chosen])
            continue
        group = f" with `{by}` = {value!r}" if by else ""
        problem = ExamplesError(
            f"{setting.num_examples} examples are asked for, and dataset `{setting.dataset}` has"
            f" {len(chosen)}{group} that are not the sample itself",
            hint="lower `num_examples`" + (", or leave `by` out" if by else ""),
        )
        found.append(problem)
    return found


def _digest(row: Row) -> bytes:
    return hashlib.sha256(_key(row).encode(errors="surrogatepass")).digest()


def _key(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


# `single_turn_solver`: one prompt, one completion.

#: How many wrong rows one error shows.
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

    def build_prompts(self, samples: Samples, examples: Samples | None) -> list[Prompt | RowError]:
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
        prompts: list[Prompt | RowError] = []
        for row, few in zip(rows, shown, strict=True):
            try:
                build = self.input_builder.build
                prompts.append(few if isinstance(few, RowError) else build(templates, row, few))
            except RowError as problem:
                prompts.append(problem)
        return prompts

    def check_rows(self, samples: Samples, examples: Samples | None) -> list[tuple[int, DataError]]:
        """Return the rows whose prompt cannot be built; templates that do not compile are told elsewhere."""
        return self.check_prompts(samples, examples)[1]

    def check_prompts(
        self, samples: Samples, examples: Samples | None
    ) -> tuple[list[Prompt | RowError], list[tuple[int, DataError]]]:
        """Return the prompts, none if they cannot be built at all, and the rows whose prompt cannot be."""
        if self._compiled[1]:
            # Those that do compile are looked at each on its own.
            rest = () if self.examples else self._compiled[0].values()
            return [], [one for each in rest for one in describe_row_errors(samples, each.values(samples))]
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
        known: Known | None,
        examples: Samples | None,
        trials: range = ONE_TRIAL,
    ) -> Completions:
        """Return the model's completions for each sample, in order; a wrong row raises before any call."""
        if model is None:
            raise SpecError(
                "E108", f"`{self.type}` asks a model, and none is named", hint="add `--model NAME`"
            )
        built = self.build_prompts(samples, examples)
        errors = {str(error): error for _, error in describe_row_errors(samples, built)}
        raise_all(list(errors.values())[:SHOWN])
        prompts = [one for one in built if not isinstance(one, RowError)]
        return call_model(model, samples, prompts, known, trials=trials)


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
