"""The objects that templates and snippets see: a dataset row, and the exchange behind a completion.

This file imports neither answerkey nor Polars: workers load it, one of them by its path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_TEXT_PARTS = ("text", "output_text", "input_text")

Message = Mapping[str, Any]
Messages = Sequence[Message]
#: A function that creates the mapping of the trace or of a turn.
Build = Callable[[dict[str, object]], Any]


class Row(dict[str, object]):
    """One dataset row as `{{ sample }}` sees it: column name to value."""


def build_solver_output(
    output: object,
    messages: Messages,
    build: Build = dict,
) -> dict[str, object]:
    """Return all fields of `solver_output`."""
    trace = build(_build_trace(messages, build))
    replies = [output]
    return {
        "output": output,
        "messages": messages,
        "trace": trace,
        "raw_outputs": replies,
        "model_outputs": replies,
    }


def _build_trace(messages: Messages, build: Build) -> dict[str, object]:
    """Return the exchange by role and by turn; each user message begins a turn."""
    by_role: dict[str, list[Message]] = defaultdict(list)
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = str(message.get("role", "assistant"))
        if role == "developer":
            role = "system"
        by_role[role].append(message)
        is_user = role == "user"
        if is_user or (role == "assistant" and not turns):
            turn: dict[str, Any] = {
                "user_message": message if is_user else None,
                "assistant_items": [],
                "assistant_messages": [],
            }
            turns.append(turn)
        if role == "assistant":
            turns[-1]["assistant_items"].append(message)
            turns[-1]["assistant_messages"].append(message)
    return {
        "items": messages,
        "turns": [build(turn) for turn in turns],
        "user_messages": by_role["user"],
        "assistant_messages": by_role["assistant"],
        "system_messages": by_role["system"],
    }


def _read_text(messages: Messages, position: int) -> str | None:
    """Return the text of one message: several text parts are joined by a newline.

    None if none is.
    """
    if not messages:
        return None
    content = messages[position].get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    texts = []
    for part in content:
        text = part
        if isinstance(part, Mapping) and part.get("type", "text") in _TEXT_PARTS:
            text = part.get("text")
        if isinstance(text, str):
            texts.append(text)
    return "\n".join(texts) if texts else None


#: The methods of a trace.
TRACE_METHODS: dict[str, Callable[[Mapping[str, Any]], str | None]] = {
    "get_last_assistant_text": lambda trace: _read_text(trace["assistant_messages"], -1),
    "get_last_user_text": lambda trace: _read_text(trace["user_messages"], -1),
    "get_first_system_prompt": lambda trace: _read_text(trace["system_messages"], 0),
}


class Trace(dict[str, Any]):
    """A trace as snippets see it: its fields and methods can be read with dots."""

    @property
    def items(self) -> Any:  # noqa: ANN401 - a callable list
        """The messages; when called, the result of `dict.items()`."""
        return _Items(self)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any field or method
        if name in TRACE_METHODS:
            return lambda: TRACE_METHODS[name](self)
        if name in self:
            return self[name]
        raise AttributeError(f"there is no key {name!r}; keys: {', '.join(map(repr, self))}")


class _Items(list[Any]):
    """The messages of a trace.

    When called, it returns the result of `dict.items()`, which `copy` needs.
    """

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace["items"])
        self._trace = trace

    def __call__(self) -> object:
        return dict.items(self._trace)


def is_trace_like(value: Mapping[str, Any]) -> bool:
    """Return whether a mapping is a trace, even after a round trip through JSON."""
    return "turns" in value and "items" in value
