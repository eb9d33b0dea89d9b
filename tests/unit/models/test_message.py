from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.models import is_trace, read_message
from answerkey.types import Completion, Completions, CompletionStatus

OK, REFUSED, NO_TEXT = CompletionStatus.OK, CompletionStatus.REFUSED, CompletionStatus.NO_TEXT
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def say(content: object, **more: object) -> dict[str, object]:
    """Return a message of the assistant."""
    return {"role": "assistant", "content": content, **more}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("B", "B"),
        ("", ""),
        (" \n", " \n"),
        ('{"answer": "B"}', '{"answer": "B"}'),
        (2, "2"),
        (1.0, "1.0"),
        (say("B"), "B"),
        (say(""), ""),
        ({"content": "B"}, "B"),
        (say("B", refusal=None), "B"),
        (say("B", refusal=""), "B"),
        (say("B", tool_calls=[CALL]), "B"),
        (say([{"type": "text", "text": "B"}]), "B"),
        (say([{"type": "text", "text": "B"}, {"type": "text", "text": "because"}]), "B\nbecause"),
        (say(["B", "because"]), "B\nbecause"),
        (say([{"type": "thinking", "thinking": "A?"}, {"type": "text", "text": "B"}]), "B"),
        (say([{"type": "text", "text": {"value": "B"}}]), "B"),
        ([{"type": "text", "text": "B"}], "B"),
        ([{"role": "user", "content": "A?"}, say("B")], "B"),
        ([say("A"), {"role": "user", "content": "sure?"}, say("B"), {"role": "tool", "content": "C"}], "B"),
        ({"choices": [{"message": say("B"), "finish_reason": "stop"}]}, "B"),
        ({"choices": [{"message": say("B")}, {"message": say("C")}]}, "B"),
        ({"choices": [{"text": "B"}]}, "B"),
        ({"message": say("B")}, "B"),
        ({"messages": [{"role": "user", "content": "?"}, say("B")]}, "B"),
        ({"output": {"choices": [{"message": say("B")}]}, "messages": [say("B")]}, "B"),
        ({"output": "B"}, "B"),
        (
            {
                "output": [
                    {"type": "reasoning", "summary": []},
                    {
                        "type": "message",
                        "role": "assistant",
                        "content": [{"type": "output_text", "text": "B"}],
                    },
                ]
            },
            "B",
        ),
    ],
)
def test_text_is_found(message: object, text: str) -> None:
    """The text is the content of the assistant's last message, parts joined by a newline."""
    completion = read_message(message)
    assert (completion.text, completion.status) == (text, OK)


@pytest.mark.parametrize(
    "message",
    [
        say(None, refusal="I can't help"),
        say("B", refusal="I can't help"),
        say([{"type": "refusal", "refusal": "no"}]),
        say([{"type": "text", "text": "B"}, {"type": "refusal", "refusal": "no"}]),
        {"choices": [{"message": say(None), "finish_reason": "content_filter"}]},
        {"choices": [{"message": say(""), "finish_reason": "refusal"}]},
        {"role": "assistant", "content": [], "stop_reason": "refusal"},
    ],
)
def test_refusal_is_not_an_answer(message: object) -> None:
    """A message that the provider marks as a refusal is REFUSED, whatever its content."""
    completion = read_message(message)
    assert (completion.text, completion.status) == (None, REFUSED)


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        {},
        b"B",
        object(),
        say(None),
        say([]),
        say(None, tool_calls=[CALL]),
        say("", tool_calls=[CALL]),
        say(" \n", function_call={"name": "f"}),
        say([{"type": "image_url", "image_url": {}}]),
        say({"odd": 1}),
        {"choices": []},
        {"choices": [None]},
        {"choices": [{}]},
        {"role": "user", "content": "B"},
        [{"role": "user", "content": "B"}],
        [None, 3],
        {"answer": "B"},
    ],
)
def test_reply_without_text_says_so(message: object) -> None:
    """Null, tool calls alone and shapes without an assistant's text are NO_TEXT."""
    completion = read_message(message)
    assert (completion.text, completion.status) == (None, NO_TEXT)


def test_whole_completion_object_keeps_end_and_usage() -> None:
    """Finish reason and token counts of a chat completion are kept, and the message as the reply."""
    message = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": say("B"), "finish_reason": "length"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3},
    }
    assert read_message(message) == Completion(
        "B", OK, reply=say("B"), finish_reason="length", prompt_tokens=12, completion_tokens=3
    )


def test_exchange_keeps_what_was_asked() -> None:
    """Of a list of messages, those before the last of the assistant are the prompt."""
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which?"}]
    assert read_message([*asked, say("B")]).prompt == asked
    assert read_message({"messages": [*asked, say("B")]}).prompt == asked
    assert (
        read_message({"output": {"choices": [{"message": say("B")}]}, "messages": [*asked, say("B")]}).prompt
        == asked
    )


@pytest.mark.parametrize("count", [True, -1, 1 << 63, "7", 1.5, None, {}])
def test_odd_token_counts_are_left_out(count: object) -> None:
    """Only whole numbers that a table can hold are token counts."""
    message = {"choices": [{"message": say("B")}], "usage": {"prompt_tokens": count, "completion_tokens": 1}}
    completion = read_message(message)
    assert (completion.prompt_tokens, completion.completion_tokens) == (None, 1)


def test_half_surrogates_are_mended() -> None:
    """Text that no file can hold comes out with a replacement character; whole pairs are joined."""
    assert read_message("B\ud800").text == "B\ufffd"
    cut = {"choices": [{"message": {"content": "B"}, "finish_reason": "\ud800"}]}
    assert read_message(cut).finish_reason == "\ufffd"
    completion = read_message(say("\ud83d\ude42 B", note="\udfff"))
    assert completion.text == "🙂 B"
    assert completion.reply == say("🙂 B", note="\ufffd")
    assert len(Completions.build(["1"], [completion], source="recorded")) == 1


def test_endless_wrapping_ends() -> None:
    """Wrappers inside wrappers, also a wrapper that holds itself, are NO_TEXT in the end."""
    loop: dict[str, Any] = {}
    loop["output"] = loop
    assert read_message(loop).status == NO_TEXT
    assert not is_trace(loop)
    message = say("B")
    message["self"] = message
    assert read_message(message).text == "B"


WORDS = st.sampled_from(
    [
        "role",
        "content",
        "type",
        "text",
        "refusal",
        "choices",
        "message",
        "messages",
        "output",
        "usage",
        "tool_calls",
    ]
)
VALUES = st.sampled_from(["assistant", "user", "text", "refusal", "message", "B", "", "\ud800"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | VALUES | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=2), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_value_gives_a_completion_that_a_table_can_hold(value: object) -> None:
    """Reading never fails; text is there exactly when the status is OK; the table takes it."""
    completion = read_message(value)
    assert (completion.text is not None) == (completion.status is OK)
    table = Completions.build(["1"], [completion], source="recorded")
    (row,) = table.rows()
    assert (row.text, row.status) == (completion.text, completion.status)


@given(JSON)
def test_any_value_is_a_trace_or_not(value: object) -> None:
    """Telling a trace from another value never fails."""
    assert is_trace(value) in {True, False}


@pytest.mark.parametrize(
    "text",
    [
        '{"role": "assistant", "content": "B"}',
        '{"role": "assistant", "refusal": "no"}',
        '[{"role": "user", "content": "?"}, {"role": "assistant", "content": "B"}]',
        '{"choices": [{"message": {"role": "assistant", "content": "B"}}]}',
        '{"messages": [{"role": "assistant", "content": "B"}]}',
        '{"output": {"choices": [{"message": {"role": "assistant", "content": "B"}}]}}',
        '{"output": [{"type": "reasoning"}, {"type": "message", "role": "assistant", "content": []}]}',
    ],
)
def test_traces_are_told(text: str) -> None:
    """A message, a list of messages and the objects that hold them are traces."""
    assert is_trace(json.loads(text))


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": "B"}',
        '["B"]',
        "[]",
        "{}",
        "7",
        '"B"',
        "null",
        '{"choices": ["A", "B"]}',
        '{"output": "B"}',
        '{"role": "pilot"}',
        '[{"type": "text", "text": "B"}]',
    ],
)
def test_other_json_is_no_trace(text: str) -> None:
    """JSON without a message in it is not a trace."""
    assert not is_trace(json.loads(text))
