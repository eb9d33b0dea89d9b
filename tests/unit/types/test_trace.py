"""Laws of the trace: turns, roles and texts of an exchange."""

from __future__ import annotations

from typing import Any

import pytest

from answerkey.templates import Template
from answerkey.types import Completion

NAMES = ["solver_output"]
PARTS = [{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}]
MIXED = ["Second", {"type": "image", "url": "x"}, {"type": "text", "text": 3}, "?"]
PROMPT: list[dict[str, Any]] = [
    {"role": "developer", "content": PARTS},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "First?"},
    {"role": "assistant", "content": "A"},
    {"role": "tool", "content": "42"},
    {"role": "user", "content": MIXED},
]


def read_trace(completion: Completion) -> dict[str, Any]:
    """Return the trace that templates see."""
    trace: dict[str, Any] = completion.solver_output()["trace"]  # type: ignore[assignment]
    return trace


def test_each_message_of_the_user_begins_a_turn() -> None:
    """What the assistant says before the first is a turn without one.

    Other roles belong to none.
    """
    trace = read_trace(Completion("B", prompt=PROMPT))
    reply = {"role": "assistant", "content": "B"}
    assert trace["items"] == [*PROMPT, reply]
    turns = trace["turns"]
    assert [turn["user_message"] for turn in turns] == [None, PROMPT[2], PROMPT[5]]
    for name in ("assistant_items", "assistant_messages"):
        assert [turn[name] for turn in turns] == [[PROMPT[1]], [PROMPT[3]], [reply]]
    assert trace["system_messages"] == PROMPT[:1]


REFUSAL = {"content": [{"type": "refusal", "refusal": "no"}]}


def evaluate(completion: Completion, expression: str) -> object:
    """Return what an expression on a trace evaluates to."""
    template = Template.compile(f"{{{{ solver_output.trace.{expression} }}}}", names=NAMES)
    return template.evaluate(solver_output=completion.solver_output())


@pytest.mark.parametrize(
    ("completion", "texts"),
    [
        (Completion("B", prompt=PROMPT), ["B", "Second\n?", "Be\nbrief."]),
        (Completion("B"), ["B", None, None]),
        (Completion(None), [None, None, None]),
        (Completion("B", reply=REFUSAL), [None, None, None]),
        (Completion("B", reply={"role": "assistant", "content": 4}), [None, None, None]),
    ],
)
def test_texts_of_an_exchange(completion: Completion, texts: list[str | None]) -> None:
    """Text parts are joined by a newline; where there is no text there is none.

    A method that is not called is missing, as that of any mapping.
    """
    methods = ("get_last_assistant_text", "get_last_user_text", "get_first_system_prompt")
    assert [evaluate(completion, f"{method}()") for method in methods] == texts
    with pytest.raises(Exception, match="there is no field `get_last_user_text`"):
        evaluate(completion, "get_last_user_text")
