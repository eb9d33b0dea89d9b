"""What templates and snippets see: a row of the dataset, and the exchange behind a completion.

This file imports nothing of answerkey, and no column library: workers load it, one of them by its
path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_TEXT_PARTS = ("text", "output_text", "input_text")

Message = Mapping[str, Any]
Messages = Sequence[Message]
#: Makes the mapping of the trace and of each turn.
Build = Callable[[dict[str, object]], Any]


class Row(dict[str, object]):
    """One dataset row as `{{ sample }}` sees it: column name to value."""


def build_solver_output(
    output: object,
    messages: Messages,
    build: Build = dict,
) -> dict[str, object]:
    """Return all names of `solver_output`."""
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
    """Return the exchange by role and by turn; a turn begins with each message of the user."""
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

    None where none is.
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
    """A trace as snippets see it: its names and methods are reached with dots."""

    @property
    def items(self) -> Any:  # noqa: ANN401 - a list that can be called
        """The messages; called, what any dict's `items()` gives."""
        return _Items(self)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever has that name
        if name in TRACE_METHODS:
            return lambda: TRACE_METHODS[name](self)
        if name in self:
            return self[name]
        raise AttributeError(f"there is no key {name!r}; keys: {', '.join(map(repr, self))}")


class _Items(list[Any]):
    """The messages of a trace.

    Called, it gives what any other dict's `items()` does, as `copy` asks for.
    """

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace["items"])
        self._trace = trace

    def __call__(self) -> object:
        return dict.items(self._trace)


def is_trace_like(value: Mapping[str, Any]) -> bool:
    """Return whether a mapping is a trace, also one that was written to JSON and read again."""
    return "turns" in value and "items" in value
