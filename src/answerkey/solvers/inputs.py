"""How the messages for a model are written down: as chat messages, or as one template that yields JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, repeat
from typing import Literal, get_args

from answerkey.errors import SpecError, listing, suggest
from answerkey.solvers.solver import Prompt
from answerkey.solvers.troubles import PromptTrouble
from answerkey.templates import RowTrouble, Template
from answerkey.types import Samples

Role = Literal["system", "developer", "user", "assistant"]
ROLES: tuple[str, ...] = get_args(Role)

Row = Mapping[str, object]
Rows = Sequence[Row]


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

    def build(self, templates: Mapping[str, Template], sample: Row, examples: Rows | None) -> Prompt:
        """Return the messages for one sample."""
        context = {"sample": sample} if examples is None else {"sample": sample, "examples": examples}
        contents = [templates[f"input_messages.{i}.content"] for i in range(len(self.input_messages))]
        prompt: Prompt = []
        for group in self._groups:
            rounds = (
                [context]
                if not group.is_repeated
                else [{**context, "example": row} for row in examples or ()]
            )
            prompt += [
                {"role": self.input_messages[i].role, "content": contents[i].render(**names)}
                for names in rounds
                for i in group.positions
            ]
        return prompt

    def build_all(self, templates: Mapping[str, Template], samples: Samples) -> list[Prompt | RowTrouble]:
        """Return the messages for every sample, or why there are none, where no examples are shown."""
        written = [i for i, message in enumerate(self.input_messages) if message.for_each is None]
        roles = [self.input_messages[i].role for i in written]
        texts = [templates[f"input_messages.{i}.content"].texts(samples) for i in written]
        contents = zip(*texts, strict=True) if texts else repeat((), len(samples))
        return [_put_together(roles, one) for one in contents]

    @cached_property
    def _groups(self) -> tuple[_Group, ...]:
        return tuple(_group_messages(self.input_messages))


def _put_together(roles: Sequence[str], contents: Sequence[str | RowTrouble]) -> Prompt | RowTrouble:
    """Return messages with these contents, or the trouble of the first that has none."""
    for content in contents:
        if isinstance(content, RowTrouble):
            return content
    return [{"role": role, "content": content} for role, content in zip(roles, contents, strict=True)]


@dataclass(frozen=True)
class _Group:
    """Neighbouring messages that are written once each, or repeated together."""

    is_repeated: bool
    positions: tuple[int, ...]


def _group_messages(messages: Sequence[InputMessage]) -> Iterator[_Group]:
    positions = range(len(messages))
    for for_each, members in groupby(positions, key=lambda position: messages[position].for_each):
        yield _Group(for_each is not None, tuple(members))


@dataclass(frozen=True)
class GenericInput:
    """One template that yields JSON: a list of messages, or an object that has them as `messages`."""

    template: str
    type: Literal["generic"] = "generic"

    def compilers(self, names: tuple[str, ...]) -> dict[str, Callable[[], Template]]:
        """Return, for the one template field, the function that compiles it."""
        return {"template": lambda: Template.compile(self.template, names=names)}

    def build(self, templates: Mapping[str, Template], sample: Row, examples: Rows | None) -> Prompt:
        """Return the messages for one sample."""
        context = {"sample": sample} if examples is None else {"sample": sample, "examples": examples}
        return parse_messages(templates["template"].render(**context))

    def build_all(self, templates: Mapping[str, Template], samples: Samples) -> list[Prompt | RowTrouble]:
        """Return the messages for every sample, or why there are none, where no examples are shown."""
        return [_attempt(text) for text in templates["template"].texts(samples)]


def _attempt(text: str | RowTrouble) -> Prompt | RowTrouble:
    if isinstance(text, RowTrouble):
        return text
    try:
        return parse_messages(text)
    except RowTrouble as trouble:
        return trouble


def parse_messages(text: str) -> Prompt:
    """Return the messages of JSON text, or raise PromptTrouble with what is wrong with it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"the template does not yield JSON: {error}: {_shorten(text)}"
        hint = "put text from the sample through `| tojson`, which quotes and escapes it"
        raise PromptTrouble(message, hint=hint) from None
    return read_messages(value)


def read_messages(value: object) -> Prompt:
    """Return the messages of a JSON value, or raise PromptTrouble with what is wrong with them."""
    if isinstance(value, dict):
        value = _unwrap(value)
    if not isinstance(value, list) or not value:
        raise PromptTrouble(f"the template yields {_shorten(value)}, not a list of messages")
    return [_read_one(message) for message in value]


def _unwrap(value: dict[str, object]) -> object:
    if "messages" not in value:
        raise PromptTrouble(f"the template yields an object without `messages`: it has {listing(value)}")
    others = [name for name in value if name != "messages"]
    if others:
        raise PromptTrouble(
            f"the template yields an object with {listing(others)} beside `messages`",
            hint="only `messages` is read; remove the rest",
        )
    return value["messages"]


def _read_one(message: object) -> dict[str, object]:
    if not isinstance(message, dict) or not isinstance(message.get("content"), str | list):
        raise PromptTrouble(f"a message must have `role` and `content`, not {_shorten(message)}")
    if message.get("role") not in ROLES:
        raise PromptTrouble(f"unknown role {message.get('role')!r}", hint=f"roles: {listing(ROLES)}")
    return message


def _shorten(value: object, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}…"
