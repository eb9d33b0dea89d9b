"""Laws of the trace: turns, roles and texts of an exchange."""

from __future__ import annotations

from typing import Any

import pytest

from answerkey.templates import Template
from answerkey.types import Completion

PROMPT: list[dict[str, Any]] = [
    {
        "role": "developer",
        "content": [{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}],
    },
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "First?"},
    {"role": "assistant", "content": "A"},
    {"role": "tool", "content": "42"},
    {
        "role": "user",
        "content": ["Second", {"type": "image", "url": "x"}, {"type": "text", "text": 3}, "?"],
    },
]


def read_trace(completion: Completion) -> dict[str, Any]:
    """Return the trace that templates see."""
    trace: dict[str, Any] = completion.solver_output()["trace"]  # type: ignore[assignment]
    return trace


def test_each_message_of_the_user_begins_a_turn() -> None:
    """What the assistant says before the first is a turn without one.

    Other roles belong to none.
    """
    completion = Completion("B", prompt=PROMPT)
    trace = read_trace(completion)
    said = {"role": "assistant", "content": "B"}
    assert trace["items"] == [*PROMPT, said]
    assert [turn["user_message"] for turn in trace["turns"]] == [None, PROMPT[2], PROMPT[5]]
    assert [turn["assistant_messages"] for turn in trace["turns"]] == [
        [PROMPT[1]],
        [PROMPT[3]],
        [said],
    ]
    assert all(turn["assistant_items"] == turn["assistant_messages"] for turn in trace["turns"])
    assert trace["system_messages"] == PROMPT[:1]


@pytest.mark.parametrize(
    ("completion", "texts"),
    [
        (Completion("B", prompt=PROMPT), ["B", "Second\n?", "Be\nbrief."]),
        (Completion("B"), ["B", None, None]),
        (Completion(None), [None, None, None]),
        (
            Completion("B", reply={"content": [{"type": "refusal", "refusal": "no"}]}),
            [None, None, None],
        ),
        (Completion("B", reply={"role": "assistant", "content": 4}), [None, None, None]),
    ],
)
def test_texts_of_an_exchange(completion: Completion, texts: list[str | None]) -> None:
    """Text parts are joined by a newline; where there is no text there is none."""
    names = ("get_last_assistant_text", "get_last_user_text", "get_first_system_prompt")
    context = {"solver_output": completion.solver_output()}
    templates = [
        Template.compile(f"{{{{ solver_output.trace.{name}() }}}}", names=["solver_output"])
        for name in names
    ]
    assert [template.evaluate(**context) for template in templates] == texts


def test_a_method_of_a_trace_is_no_value() -> None:
    """Not called it is missing, as that of any mapping."""
    template = Template.compile(
        "{{ solver_output.trace.get_last_user_text }}", names=["solver_output"]
    )
    with pytest.raises(Exception, match="there is no field `get_last_user_text`"):
        template.evaluate(solver_output=Completion("B").solver_output())
