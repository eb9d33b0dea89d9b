"""Solvers that ask a model: `single_turn_solver` for a text, `choice_ranking_solver` for
probabilities.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import groupby, repeat
from typing import ClassVar, Literal, cast, get_args

from answerkey.errors import DataError, InternalError, SpecError, listing, raise_all, refuse_column
from answerkey.models.config import Model
from answerkey.models.images import find_folders, resolve_images
from answerkey.models.logprobs import measure_continuation
from answerkey.models.responses import read_text
from answerkey.solvers.solver import (
    ID_COLUMN,
    ONE_TRIAL,
    Compiled,
    ExamplesError,
    Prompt,
    PromptError,
    Solver,
    call_model,
    describe_row_errors,
    join_columns,
    raise_row_errors,
    shorten,
)
from answerkey.templates import RowError, Template
from answerkey.types import (
    Completion,
    Completions,
    CompletionStatus,
    Draws,
    Known,
    Request,
    Row,
    Samples,
)

# How the messages for a model are written down: as chat messages, or as one template that yields
# JSON.

Role = Literal["system", "developer", "user", "assistant"]
ROLES: tuple[str, ...] = get_args(Role)


#: Whether a part of a message is an image, and its template.
Part = tuple[bool, Template]


@dataclass(frozen=True)
class TextPart:
    """A part of a message that is text; `text` is a template."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True)
class ImagePart:
    """A part of a message that is an image, or several.

    `image` is a template. A null is left out.
    """

    image: str
    type: Literal["image"] = "image"


@dataclass(frozen=True)
class InputMessage:
    """One message.

    `content` is a template over `sample` (and `examples`, when the solver has any), or parts. With
    `for_each: examples` it is repeated for each example, as `example`; neighbours that have it are
    repeated together.
    """

    role: Role
    content: str | tuple[TextPart | ImagePart, ...]
    for_each: Literal["examples"] | None = None

    def __post_init__(self) -> None:
        if self.content == ():
            raise SpecError("E108", "`content` is empty", hint="write a text, or at least one part")

    def list_sources(self) -> list[tuple[str, str]]:
        """Return the templates with the way to each below the message."""
        if isinstance(self.content, str):
            return [("content", self.content)]
        return [
            (f"content.{at}.{one.type}", getattr(one, one.type))
            for at, one in enumerate(self.content)
        ]

    def fill(self, own: Sequence[Part], columns: Sequence[Sequence[object]]) -> Sequence[object]:
        """Return the content of each row with the values of its templates, or the first error among
        these.
        """
        if isinstance(self.content, str):
            return columns[0]
        text: dict[str, object] = {"type": "text"}
        starts = [
            {"type": "image", "column": min(one.columns or (), default=None)} if is_image else text
            for is_image, one in own
        ]
        return [
            next((value for value in row if isinstance(value, RowError)), None)
            or [
                {**start, str(start["type"]): value}
                for start, value in zip(starts, row, strict=True)
            ]
            for row in zip(*columns, strict=True)
        ]


@dataclass(frozen=True)
class ChatInput:
    """Messages written one by one."""

    input_messages: tuple[InputMessage, ...]
    type: Literal["chat_completion"] = "chat_completion"

    def __post_init__(self) -> None:
        if not self.input_messages:
            raise SpecError("E108", "`input_messages` is empty", hint="write at least one message")

    def list_sources(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Return the text of each template by its field, and the names that it sees beside the
        solver's.
        """
        return {
            f"input_messages.{position}.{way}": (source, ("example",) if one.for_each else ())
            for position, one in enumerate(self.input_messages)
            for way, source in one.list_sources()
        }

    @cached_property
    def _images(self) -> list[tuple[InputMessage, list[bool]]]:
        """The messages, and for each of their templates whether it is an image."""
        messages = self.input_messages
        return [
            (one, [way.endswith(".image") for way, _ in one.list_sources()]) for one in messages
        ]

    def _group(self, templates: Sequence[Template]) -> list[tuple[InputMessage, list[Part]]]:
        rest = iter(templates)
        return [
            (one, [(is_image, next(rest)) for is_image in images]) for one, images in self._images
        ]

    def build(self, templates: Sequence[Template], sample: Row, examples: Sequence[Row]) -> Prompt:
        """Return the messages for one sample with its examples. Raise RowError."""
        prompt: Prompt = []
        for for_each, group in groupby(self._group(templates), key=lambda pair: pair[0].for_each):
            members = list(group)
            for names in [{"example": one} for one in examples] if for_each else [{}]:
                given = {"sample": sample, "examples": examples, **names}
                for one, own in members:
                    values = [
                        [each.evaluate(**given) if image else each.render(**given)]
                        for image, each in own
                    ]
                    prompt.append({"role": one.role, "content": one.fill(own, values)[0]})
        return prompt

    def build_all(self, templates: Sequence[Template], samples: Samples) -> list[Prompt | RowError]:
        """Return the messages for every sample, or why there are none, where no examples are
        shown.
        """
        members = [pair for pair in self._group(templates) if pair[0].for_each is None]
        roles = [one.role for one, _ in members]
        columns = [
            one.fill(
                own, [each.values(samples) if image else each.texts(samples) for image, each in own]
            )
            for one, own in members
        ]
        contents = zip(*columns, strict=True) if columns else repeat((), len(samples))
        return [
            next((content for content in one if isinstance(content, RowError)), None)
            or [
                {"role": role, "content": content} for role, content in zip(roles, one, strict=True)
            ]
            for one in contents
        ]


@dataclass(frozen=True)
class GenericInput:
    """One template that yields JSON: a list of messages, or an object that has them as
    `messages`.
    """

    template: str
    type: Literal["generic"] = "generic"

    def list_sources(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Return the text of the one template by its field."""
        return {"template": (self.template, ())}

    def build(self, templates: Sequence[Template], sample: Row, examples: Sequence[Row]) -> Prompt:
        """Return the messages for one sample with its examples. Raise RowError."""
        return parse_messages(templates[0].render(sample=sample, examples=examples))

    def build_all(self, templates: Sequence[Template], samples: Samples) -> list[Prompt | RowError]:
        """Return the messages for every sample, or why there are none, where no examples are
        shown.
        """
        texts = templates[0].texts(samples)
        return [
            text if isinstance(text, RowError) else _attempt(parse_messages, text) for text in texts
        ]


def _attempt(build: Callable[..., Prompt], *arguments: object) -> Prompt | RowError:
    """Return a prompt, or why there is none."""
    try:
        return build(*arguments)
    except RowError as problem:
        return problem


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
            raise PromptError(
                f"the template yields an object without `messages`: it has {listing(value)}"
            )
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
    """How examples are chosen.

    With `by`, only rows that have the sample's own value in that column.
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


def pick_examples(
    setting: Examples, samples: Samples, examples: Samples
) -> list[list[Row] | RowError]:
    """Return the examples of each sample, or why there are too few.

    Rows are ranked by the seed and their id, and the first that are not the sample itself are
    taken: the same seed gives the same examples, whichever samples are asked. The sample itself is
    the row with its id in the same file, or any row that says the same in all columns the two have
    in common.
    """
    by = setting.by
    for table in (samples, examples):
        if by is not None and by not in table.columns:
            message = f"`examples.by` names `{by}`, which is not a column of both datasets"
            raise refuse_column(message, by, table.columns)
    sample_ids, ids = samples.ids.to_list(), examples.ids.to_list()
    values = [_key(value) for value in examples.values(by)] if by else [""] * len(ids)
    groups: dict[str, list[int]] = {}
    for place in sorted(
        range(len(ids)), key=lambda i: (Draws(setting.seed, ids[i]).rank("example"), ids[i])
    ):
        groups.setdefault(values[place], []).append(place)
    is_same_file = samples.file is not None and samples.file == examples.file
    first, second = (set(table.columns) - {ID_COLUMN} for table in (samples, examples))
    # Content is compared only if one dataset has all columns of the other.
    columns = sorted(first & second) if first <= second or second <= first else []
    contents: list[bytes | None] = [None] * len(samples)
    if columns:
        contents = [_digest(row, columns) for row in samples.rows()]

    @cache
    def digest_example(place: int) -> bytes | None:
        return _digest(examples.row(place), columns)

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
        wanting = f"{setting.num_examples} examples are wanted, and dataset `{setting.dataset}` has"
        message = f"{wanting} {len(chosen)}{group} that are not the sample itself"
        hint = "lower `num_examples`" + (", or leave `by` out" if by else "")
        found.append(ExamplesError(message, hint=hint))
    return found


def _digest(row: Row, columns: Sequence[str]) -> bytes:
    content = {name: row[name] for name in columns}
    return hashlib.sha256(_key(content).encode(errors="surrogatepass")).digest()


def _key(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


# `single_turn_solver`: one prompt, one completion.


@dataclass(frozen=True)
class SingleTurnSolver(Solver):
    """Asks the model once for each sample.

    `message_format` is accepted for the sake of existing files and changes nothing. `examples` adds
    rows of a second dataset to what the templates see.
    """

    input_builder: ChatInput | GenericInput
    message_format: object = None
    examples: Examples | None = None

    type: ClassVar[str] = "single_turn_solver"
    needs_model: ClassVar[bool] = True
    sends_prompts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        # None are shown, and no template asks for the list of them: the dataset need not be read.
        if self.examples is not None and self.examples.num_examples == 0:
            sources = self.input_builder.list_sources().values()
            if not any("examples" in source for source, _ in sources):
                object.__setattr__(self, "examples", None)

    def compile_templates(self) -> Compiled:
        """Return the templates that compile and the errors of the others, by field."""
        return self._compiled

    def list_columns(self, samples: Samples) -> frozenset[str] | None:  # noqa: ARG002 - for solvers
        """Return the columns that the templates read; None if they may read any."""
        if self.examples is not None:
            return None
        return join_columns(self.compile_templates()[0].values())

    @cached_property
    def _compiled(self) -> Compiled:
        compiled: dict[str, Template] = {}
        errors: list[tuple[str, SpecError]] = []
        names = ("sample", "examples") if self.examples else ("sample",)
        for name, (source, more) in self.input_builder.list_sources().items():
            try:
                compiled[f"input_builder.{name}"] = Template.compile(source, names=(*names, *more))
            except SpecError as error:
                errors.append((f"input_builder.{name}", error))
        return compiled, errors

    def build_prompts(self, samples: Samples, examples: Samples | None) -> list[Prompt | RowError]:
        """Return the messages for each sample, or why there are none.

        Raise what is wrong with a template.
        """
        compiled, errors = self._compiled
        raise_all([error for _, error in errors])
        templates = list(compiled.values())
        if self.examples is None:
            return _resolve_all(self.input_builder.build_all(templates, samples), samples, None)
        if examples is None:
            message = f"the examples of dataset `{self.examples.dataset}` were not handed in"
            raise InternalError("E901", message)
        # All columns where one is read that does not exist: the error about it lists those there
        # are.
        build = partial(_attempt, self.input_builder.build, templates)
        pairs = zip(samples.rows(), pick_examples(self.examples, samples, examples), strict=True)
        built = [few if isinstance(few, RowError) else build(row, few) for row, few in pairs]
        return _resolve_all(built, samples, examples.file)

    def check_rows(self, samples: Samples, examples: Samples | None) -> list[tuple[int, DataError]]:
        """Return the rows whose prompt cannot be built.

        Templates that do not compile are told elsewhere.
        """
        return self.check_prompts(samples, examples)[1]

    def check_prompts(
        self, samples: Samples, examples: Samples | None
    ) -> tuple[list[Prompt | RowError], list[tuple[int, DataError]]]:
        """Return the prompts, none if they cannot be built at all, and the rows whose prompt cannot
        be.
        """
        if self._compiled[1]:
            # Those that do compile are looked at each on its own.
            rest = () if self.examples else self._compiled[0].values()
            return [], [
                one for each in rest for one in describe_row_errors(samples, each.values(samples))
            ]
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
        """Return the model's completions for each sample, in order.

        A wrong row raises before any call.
        """
        if model is None:
            message = f"`{self.type}` calls a model, and none is named"
            raise SpecError("E108", message, hint="add `--model NAME`")
        built = self.build_prompts(samples, examples)
        raise_row_errors(samples, built)
        return call_model(model, samples, cast("list[Prompt]", built), known, trials=trials)


def _resolve_all(
    prompts: list[Prompt | RowError], samples: Samples, examples: str | None
) -> list[Prompt | RowError]:
    """Return prompts with their images, or why a row has none.

    `examples` is the file of the examples.
    """
    find = cache(find_folders)
    for position, prompt in enumerate(prompts):
        if isinstance(prompt, list) and any(isinstance(one["content"], list) for one in prompt):
            folders = find(samples.place(position).file, examples)
            prompts[position] = _attempt(resolve_images, prompt, folders)
    return prompts


# `choice_ranking_solver`: how likely a base model finds each choice as the continuation of the
# prompt. Nothing is generated: each choice is one call, whose text is echoed with its
# log-probabilities.


@dataclass(frozen=True)
class ChoiceRankingSolver(Solver):
    """Asks the model once for each continuation of each sample.

    `continuations` is a template that yields the texts in the order of the choices; each is put
    directly after the prompt, which is the text of all messages, parted by an empty line.
    """

    input_builder: ChatInput | GenericInput
    continuations: str | list[str]
    examples: Examples | None = None

    type: ClassVar[str] = "choice_ranking_solver"
    needs_model: ClassVar[bool] = True
    ranks_continuations: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if any(way.endswith(".image") for way in self.input_builder.list_sources()):
            raise SpecError("E108", f"`{self.type}` sends text alone, and a message has an image")

    @cached_property
    def _prompts(self) -> SingleTurnSolver:
        return SingleTurnSolver(self.input_builder, examples=self.examples)

    def compile_templates(self) -> Compiled:
        """Return the templates that compile and the errors of the others, by field."""
        compiled, errors = self._prompts.compile_templates()
        try:
            return {**compiled, "continuations": Template.compile(self.continuations)}, errors
        except SpecError as error:
            return compiled, [*errors, ("continuations", error)]

    def list_columns(self, samples: Samples) -> frozenset[str] | None:  # noqa: ARG002 - for solvers
        """Return the columns that the templates read; None if they may read any."""
        if self.examples is not None:
            return None
        return join_columns(self.compile_templates()[0].values())

    def build_prompts(self, samples: Samples, examples: Samples | None) -> list[Prompt | RowError]:
        """Return the messages for each sample, without a continuation, or why there are none."""
        return self._prompts.build_prompts(samples, examples)

    def list_calls(self, samples: Samples, examples: Samples | None) -> list[list[Prompt]]:
        """Return what the model is asked for each sample: one text for each continuation."""
        pairs = zip(
            self.build_prompts(samples, examples), self.list_continuations(samples), strict=True
        )
        return [
            []
            if isinstance(prompt, RowError) or isinstance(texts, RowError)
            else _continue(prompt, texts)
            for prompt, texts in pairs
        ]

    def list_continuations(self, samples: Samples) -> list[list[str] | RowError]:
        """Return the continuations of each sample, or why there are none."""
        return [
            _read_texts(value) for value in Template.compile(self.continuations).values(samples)
        ]

    def check_rows(self, samples: Samples, examples: Samples | None) -> list[tuple[int, DataError]]:
        """Return the rows whose prompt or continuations cannot be built."""
        found = self._prompts.check_rows(samples, examples)
        if not self.compile_templates()[1]:
            found = [*found, *describe_row_errors(samples, self.list_continuations(samples))]
        return found

    def solve(
        self,
        samples: Samples,
        *,
        model: Model | None,
        examples: Samples | None,
        trials: range = ONE_TRIAL,
        **_: object,
    ) -> Completions:
        """Return for each sample the log-probability of its continuations.

        There is no text to be read.
        """
        require_echo(model)
        prompts, texts = self.build_prompts(samples, examples), self.list_continuations(samples)
        raise_row_errors(samples, prompts, texts)
        pairs = list(
            zip(cast("list[Prompt]", prompts), cast("list[list[str]]", texts), strict=True)
        )
        questions = [
            Request(str(sample_id), messages, trial=trial)
            for sample_id, pair in zip(samples.ids, pairs, strict=True)
            for trial in trials
            for messages in _continue(*pair)
        ]
        said = iter(model.answer(questions) if model else ())
        completions = [
            _rank(prompt, continuations, [next(said) for _ in continuations])
            for prompt, continuations in pairs
            for _ in trials
        ]
        return Completions.build(samples.repeat(len(trials)).ids, completions, source="live")


def _rank(prompt: Prompt, continuations: Sequence[str], said: Sequence[Completion]) -> Completion:
    """Return one completion for a sample in one trial; a call that failed fails it."""
    failed = next((one for one in said if one.status is CompletionStatus.ERROR), None)
    if failed is not None:
        return replace(failed, prompt=prompt)
    start, ranking = _write(prompt), []
    for one, text in zip(said, continuations, strict=True):
        found = measure_continuation(one, start, text)
        told: dict[str, object] = {"continuation": text}
        if isinstance(found, str):
            told |= {"logprob": None, "why": found}
        else:
            told |= {"logprob": found.logprob, "tokens": found.tokens, "bytes": len(text.encode())}
            told |= {"is_split": True} if found.is_split else {}
        ranking.append(told)
    return Completion(
        None,
        prompt=prompt,
        prompt_tokens=_add(one.prompt_tokens for one in said),
        completion_tokens=_add(one.completion_tokens for one in said),
        latency=sum(one.latency or 0.0 for one in said),
        logprobs={"ranking": ranking},
        source=said[0].source if said else None,
    )


def _add(counts: Iterable[int | None]) -> int | None:
    """Return the sum of what is known; None when nothing is."""
    known = [one for one in counts if one is not None]
    return sum(known) if known else None


def _write(prompt: Prompt) -> str:
    """Return the messages as the text that a completions API is sent."""
    return "\n\n".join(read_text(message) for message in prompt)


def _continue(prompt: Prompt, continuations: Sequence[str]) -> list[Prompt]:
    start = _write(prompt)
    return [[{"role": "user", "content": start + text}] for text in continuations]


def _read_texts(value: object) -> list[str] | RowError:
    if isinstance(value, RowError):
        return value
    texts = value if isinstance(value, list | tuple) else None
    if not texts or not all(isinstance(one, str) and one for one in texts):
        hint = "for letters write \"{{ [' A', ' B', ' C', ' D'] }}\""
        return PromptError(f"`continuations` yields {value!r:.80}, not a list of texts", hint=hint)
    return list(texts)


def require_echo(model: Model | None) -> None:
    """Raise SpecError E301 for a model that does not send the log-probabilities of a text back."""
    if getattr(model, "echoes_logprobs", False):
        return
    named = "no model" if model is None else f"model `{model.name}`"
    needs = f"`{ChoiceRankingSolver.type}` needs an endpoint that echoes log-probabilities"
    hint = "use the completions API with `echo`: `--model 'http://HOST/v1?api=completions&echo=true#NAME'`"
    raise SpecError("E301", f"{needs}, and {named} is not told to echo them", hint=hint)
