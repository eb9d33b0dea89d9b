"""Laws of reading: any message, the answers of each API, log-probabilities.

Nothing is ever raised.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from answerkey.models.calls import completion_cost
from answerkey.models.config import FunctionConfig, Generation, ModelConfig, Price
from answerkey.models.logprobs import measure_continuation, read_positions
from answerkey.models.model import open_model
from answerkey.models.providers import APIS, Connection
from answerkey.models.responses import (
    DEPTH,
    RAW_BYTES,
    find_error_message,
    is_trace,
    parse_anthropic,
    parse_chat,
    parse_gemini,
    parse_text,
    read_body,
    read_message,
)
from answerkey.models.retry import HttpReply, RetryVerdict, judge
from answerkey.scorers import judge as score
from answerkey.types import USAGE_NAMES, Completion, Completions, CompletionStatus, Request

OK, REFUSED, NO_TEXT, ERROR = CompletionStatus
Take = Callable[[Mapping[str, object]], Completion]
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def say(content: object, **more: object) -> dict[str, object]:
    """Return a message of the assistant."""
    return {"role": "assistant", "content": content, **more}


def read(value: object, take: Take = parse_chat, *, status: int = 200) -> Completion:
    """Return what a body says that is the JSON of a value."""
    return read_body(status, json.dumps(value).encode(), take)


def chat(content: object, *, finish: object = "stop", **message: object) -> dict[str, object]:
    """Return a chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}}
    return {"choices": [choice | {"finish_reason": finish}]}


def part(text: object, kind: str = "text") -> dict[str, object]:
    """Return a part of a content."""
    return {"type": kind, "text": text}


REFUSAL = {"type": "refusal", "refusal": "no"}
#: What one message says, read alone or as that of a chat completion.
MESSAGES: list[tuple[dict[str, object], str | None, CompletionStatus]] = [
    (say("B"), "B", OK),
    (say(""), "", OK),
    (say(" \n"), " \n", OK),
    (say("B", refusal=None), "B", OK),
    (say("B", refusal=""), "B", OK),
    (say("B", tool_calls=[CALL]), "B", OK),
    (say([part("B"), part("because")]), "B\nbecause", OK),
    (say(["B", "because"]), "B\nbecause", OK),
    (say([{"type": "thinking", "thinking": "A?"}, part("B")]), "B", OK),
    (say([part("B", "output_text"), {"type": "image_url", "image_url": {}}]), "B", OK),
    (say([part({"value": "B"})]), "B", OK),
    ({"content": "B"}, "B", OK),
    (say("<think>no</think>B"), "<think>no</think>B", OK),
    (say(None, refusal="I can't help"), None, REFUSED),
    (say("B", refusal="I can't help"), None, REFUSED),
    (say([REFUSAL]), None, REFUSED),
    (say([part("B"), REFUSAL]), None, REFUSED),
    (say(None), None, NO_TEXT),
    (say([]), None, NO_TEXT),
    (say(None, tool_calls=[CALL]), None, NO_TEXT),
    (say("", tool_calls=[CALL]), None, NO_TEXT),
    (say(" \n", function_call={"name": "f"}), None, NO_TEXT),
    (say([{"type": "image_url", "image_url": {}}]), None, NO_TEXT),
]


@pytest.mark.parametrize(("message", "text", "status"), MESSAGES)
def test_what_a_message_says(
    message: dict[str, object], text: str | None, status: CompletionStatus
) -> None:
    """The text is the content, parts joined by a newline; a refusal is one whatever its content.

    Null and tool calls alone have no text. The same is read of a whole chat completion.
    """
    whole = {"error": None, "choices": [{"message": message}, {"message": 3}]}
    for completion in (read_message(message), read_message(whole), read(whole)):
        assert (completion.text, completion.status) == (text, status)
        assert (completion.error, completion.raw) == (None, None)


USER, REPLY = {"role": "user", "content": "A?"}, say("B")
RESPONSE = [{"type": "reasoning"}, {"type": "message", **say([part("B", "output_text")])}]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("B", "B"),
        ("", ""),
        ('{"answer": "B"}', '{"answer": "B"}'),
        (2, "2"),
        (1.0, "1.0"),
        ([part("B")], "B"),
        ([USER, REPLY], "B"),
        ([say("A"), USER, REPLY, {"role": "tool", "content": "C"}], "B"),
        ({"choices": [{"text": "B"}]}, "B"),
        ({"message": REPLY}, "B"),
        ({"messages": [USER, REPLY]}, "B"),
        ({"output": {"choices": [{"message": REPLY}]}, "messages": [REPLY]}, "B"),
        ({"output": "B"}, "B"),
        ({"output": RESPONSE}, "B"),
    ],
)
def test_text_is_found(message: object, text: str) -> None:
    """A reply may be a text, a number, a list of messages (the assistant's last), or wrapped."""
    completion = read_message(message)
    assert (completion.text, completion.status) == (text, OK)


REFUSALS: list[object] = [
    {"choices": [{"message": say(None), "finish_reason": "content_filter"}]},
    {"choices": [{"message": say(""), "finish_reason": "refusal"}]},
    {"role": "assistant", "content": [], "stop_reason": "refusal"},
]
WITHOUT_TEXT: list[object] = [
    *(None, [], {}, b"B", object(), say({"odd": 1}), [None, 3], {"answer": "B"}),
    *({"choices": []}, {"choices": [None]}, {"choices": [{}]}, USER, [USER]),
]


def test_what_is_no_answer_has_no_text() -> None:
    """What the provider marks as a refusal is REFUSED, whatever its content.

    All else is NO_TEXT.
    """
    for messages, status in ((REFUSALS, REFUSED), (WITHOUT_TEXT, NO_TEXT)):
        results = [(reply.text, reply.status) for reply in map(read_message, messages)]
        assert results == [(None, status)] * len(messages)


def test_exchange_keeps_what_was_asked() -> None:
    """Of a list of messages, those before the last of the assistant are the prompt."""
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which?"}]
    assert read_message([*prompt, say("B")]).prompt == prompt
    assert read_message({"messages": [*prompt, say("B")]}).prompt == prompt
    output = {"choices": [{"message": say("B")}]}
    assert read_message({"output": output, "messages": [*prompt, say("B")]}).prompt == prompt


def test_half_surrogates_are_mended() -> None:
    """Text that no file can hold comes out with a replacement character; whole pairs are joined."""
    assert read_message("B\ud800").text == "B\ufffd"
    assert read(chat("B", reasoning="\udfff")).reasoning == "\ufffd"
    assert read({"error": "\ud800"}).error == "the endpoint reports an error: \ufffd"
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


TRACES = """
    {"role": "assistant", "content": "B"}
    {"role": "assistant", "refusal": "no"}
    [{"role": "user", "content": "?"}, {"role": "assistant", "content": "B"}]
    {"choices": [{"message": {"role": "assistant", "content": "B"}}]}
    {"messages": [{"role": "assistant", "content": "B"}]}
    {"output": {"choices": [{"message": {"role": "assistant", "content": "B"}}]}}
    {"output": [{"type": "reasoning"}, {"type": "message", "role": "assistant", "content": []}]}
"""
OTHERS = """
    {"answer": "B"}
    ["B"]
    []
    {}
    7
    "B"
    null
    {"choices": ["A", "B"]}
    {"output": "B"}
    {"role": "pilot"}
    [{"type": "text", "text": "B"}]
"""


def test_traces_are_told_from_other_json() -> None:
    """A message, a list of messages and the objects that hold them are traces; nothing else is."""
    assert [line for line in TRACES.strip().splitlines() if not is_trace(json.loads(line))] == []
    assert [line for line in OTHERS.strip().splitlines() if is_trace(json.loads(line))] == []


NO_PARTS = "the content is neither text nor a list of parts: "
BAD_CHOICES: list[tuple[dict[str, object], str]] = [
    ({"message": {"content": 2}}, f"{NO_PARTS}int"),
    ({"message": {"content": {"text": "B"}}}, f"{NO_PARTS}dict"),
    ({"message": {"content": [2]}}, "a part of the content has no text"),
    ({"message": USER}, "the message has the role 'user', not `assistant`"),
    ({"error": {"message": "cut"}, "message": REPLY}, "the endpoint reports an error: cut"),
    (
        {"finish_reason": "error", "message": REPLY},
        "the endpoint reports an error in the middle of the answer",
    ),
]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "the body is empty"),
        (b" \n", "the body is empty"),
        (b"<!doctype html><html>busy</html>", "the body is HTML, not JSON"),
        (b'data: {"choices": []}\n\n', "the body is a stream of events, not JSON"),
        (b'{"choices": [', "the body is not JSON"),
        (b"B", "the body is not JSON"),
        (b'{"choices": [{"message": {"content": "\xff"}}]}', "the body is not UTF-8"),
        (b"[" * 100_000, "the body is not JSON"),
        (b'{"usage": ' + b"9" * 5000 + b"}", "the body is not JSON"),
        (b"[]", "the body is JSON, but not an object: list"),
        (b"{}", "the body has no `choices`"),
        (b'{"choices": null}', "`choices` is not a list"),
        (b'{"choices": {"0": 1}}', "`choices` is not a list"),
        (b'{"choices": ["B"]}', "the first entry of `choices` is not an object"),
        (b'{"choices": [{"text": "B"}]}', "the first choice has no `message`"),
        (b'{"choices": [{"message": "B"}]}', "the first choice has no `message`"),
        (b'{"error": "overloaded"}', "the endpoint reports an error: overloaded"),
        (b'{"error": {"message": "too\\n long"}}', "the endpoint reports an error: too long"),
        (b'{"error": {"code": 5}}', "the endpoint reports an error"),
        (b'{"object": "error", "message": "no"}', "the endpoint reports an error: no"),
        (b'{"error": {"type": "x"}, "choices": []}', "the endpoint reports an error: x"),
        *((json.dumps({"choices": [choice]}).encode(), why) for choice, why in BAD_CHOICES),
    ],
)
def test_what_cannot_be_read_is_an_error_with_its_body(body: bytes, reason: str) -> None:
    """A body that is not what the API promises is an ERROR with the reason and the body, never an
    answer.
    """
    completion = read_body(200, body, parse_chat)
    assert (completion.text, completion.status, completion.error) == (None, ERROR, reason)
    assert completion.raw == (body[:RAW_BYTES].decode(errors="replace") or None)


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (401, b'{"error": {"message": "bad key", "type": "auth"}}', "HTTP 401: bad key"),
        (422, b'{"detail": [{"loc": ["body"], "msg": "no field"}]}', "HTTP 422: no field"),
        (500, b"<html>", "HTTP 500: the body is HTML, not JSON"),
        (503, b"", "HTTP 503: the body is empty"),
        (404, b'{"message": "no such model"}', "HTTP 404: no such model"),
        (302, b"{}", "HTTP 302"),
        (400, b'"plain"', "HTTP 400: plain"),
        (500, json.dumps(chat("B")).encode(), "HTTP 500"),
        (500, b'{"error":' * 5000 + b"1" + b"}" * 5000, "HTTP 500"),
        (429, b'[[{"code": 429}, {"msg": "slow down"}]]', "HTTP 429: slow down"),
    ],
)
def test_a_status_that_is_no_answer_is_an_error(status: int, body: bytes, reason: str) -> None:
    """Anything but 2xx is an ERROR, also when a completion is in it.

    The message of the body is kept.
    """
    completion = read_body(status, body, parse_chat)
    assert (completion.text, completion.status) == (None, ERROR)
    assert str(completion.error).startswith(reason)


def test_long_complaints_and_bodies_are_cut() -> None:
    """A reason is one short line, a raw body at most 64 kB, cut between characters."""
    completion = read_body(
        500, json.dumps({"error": "é" * 900_00}, ensure_ascii=False).encode(), parse_chat
    )
    assert len(str(completion.error)) == 501
    assert len(str(completion.raw).encode()) in {RAW_BYTES, RAW_BYTES - 1}
    assert len(str(read_body(200, b"\xff" * 100_000, parse_chat).raw).encode()) <= RAW_BYTES


@pytest.mark.parametrize("part", [b"[],", b"{},", b"1,", b'"a",'])
def test_a_body_of_too_many_parts_is_not_read(part: bytes) -> None:
    """Small as it is, reading it would take hundreds of megabytes.

    Asking again would bring no better one.
    """
    body = b'{"choices": [' + part * 1_000_001 + b"1]}"
    reply = read_body(200, body, parse_chat)
    assert (reply.status, reply.error) == (ERROR, "the body has more than a million parts")
    assert judge(HttpReply(200, {}, body), lambda *_: reply).verdict is RetryVerdict.FAILED


def test_a_long_text_is_no_body_of_many_parts() -> None:
    """Two megabytes of prose are read."""
    prose = "Because, as said, it is so. " * 80_000
    assert read(chat(prose)).text == prose


@pytest.mark.parametrize("count", [-1, 1 << 63, 1.5, "7", None, True, [1]])
def test_counts_that_are_none_are_left_out(count: object) -> None:
    """Only whole numbers that a table can hold are numbers of tokens.

    The text is known all the same.
    """
    body = chat("B") | {"usage": {"prompt_tokens": count, "completion_tokens": 1}}
    for completion in (read(body), read_message(body)):
        assert (completion.text, completion.prompt_tokens) == ("B", None)
        assert completion.completion_tokens == 1


THOUGHT_PART = {"type": "thinking", "thinking": "A?"}
HARMONY = "<|channel|>analysis<|message|>A?<|end|><|start|>assistant<|channel|>final<|message|>B"
CONNECTION = Connection("m", APIS["chat"], "http://h/v1", "m")


@pytest.mark.parametrize(
    "message",
    [
        say("B", reasoning_content="A?"),
        say("B", reasoning="A?"),
        say("B", thinking="A?"),
        say([THOUGHT_PART, part("B")]),
        say([{"type": "thinking", "thinking": [part("A?")]}, "B"]),
        say("<think>A?</think>B"),
        say("A?</think>B"),
        say("analysisA?assistantfinalB"),
        say(HARMONY),
    ],
)
def test_thoughts_are_apart_in_whatever_form_they_come(message: dict[str, object]) -> None:
    """The text is the answer, and the thoughts stand beside it; every rule sees the answer alone.

    A text that holds them is kept as it reply, and with `thinking: keep` it is the answer.
    """
    body = json.dumps({"choices": [{"message": message}]}).encode()
    reply = CONNECTION.read(200, body)
    assert (reply.text, reply.reasoning) == ("B", "A?")
    for rule in RULES:
        assert score(reply, ["A", "B"], "B", rule).values == {"is_correct": 1.0}
    content = message["content"]
    if isinstance(content, str) and content != "B":
        kept = replace(CONNECTION, generation=Generation(thinking="keep"))
        assert (reply.raw, kept.read(200, body).text) == (content, content)
        assert kept.identity != CONNECTION.identity
        assert kept.build([USER]) == CONNECTION.build([USER])


@pytest.mark.parametrize("thoughts", ["", None, 3])
def test_what_is_no_thought_is_none(thoughts: object) -> None:
    """An empty field says nothing."""
    assert read(chat("B", reasoning_content=thoughts)).reasoning is None


COUNTED = {"completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 5}}
CUT = "TRUNCATED_THINKING"
RULES = ("first_character", "first_character_literal", "leading_label", "stated_answer")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (chat("<think>Let me", finish="length"), CUT),
        (chat("", finish="length", reasoning_content="Let me"), CUT),
        (chat(None, finish="length", reasoning="Let me"), CUT),
        (chat("", finish="length") | {"usage": COUNTED}, CUT),
        (chat("<think>Done.</think>\n"), CUT),
        (chat("", finish="length"), "EMPTY"),
        (chat(None, finish="tool_calls", reasoning="f?", tool_calls=[CALL]), "NO_TEXT"),
        (chat(None, refusal="No", reasoning="no"), "REFUSED"),
        (chat("I cannot say", reasoning="hm"), "NOT_A_CHOICE"),
    ],
)
def test_a_reply_that_ends_in_its_thoughts_has_its_own_reason(body: object, reason: str) -> None:
    """Whatever the rule, and also where thoughts are only counted; other silence has its own."""
    reply = CONNECTION.read(200, json.dumps(body).encode())
    for rule in RULES if reason == CUT else RULES[:1]:
        assert score(reply, ["A", "B"], "B", rule).metadata["validity_reason"] == reason


def test_functions_and_recorded_messages_have_thoughts_too() -> None:
    """A function's reply is read like an endpoint's.

    Of a recorded message, the text stays as it is.
    """
    text = "<think>A?</think>B"
    model = open_model(ModelConfig("f", FunctionConfig(lambda _: text)))
    (reply,) = model.complete([Request("1", [USER])])
    assert (reply.text, reply.reasoning) == ("B", "A?")
    assert read_message(say(text)).text == text


def test_the_reply_is_kept_where_it_says_more_than_its_text() -> None:
    """A plain text is its own reply; a refusal or tool calls are kept, without the thoughts."""
    assert read(chat("B", reasoning="A?")).reply is None
    assert read(chat(None, refusal="no", reasoning="A?")).reply == {
        "role": "assistant",
        "content": None,
        "refusal": "no",
    }


def test_logprobs_are_kept() -> None:
    """Log probabilities are kept as JSON values.

    Infinities, which JSON does not have, become null.
    """
    first = b'{"message": {"content": "B"}, "logprobs": {"content": [{"logprob": -1e999}]}}'
    body = b'{"choices": [' + first + b"]}"
    assert read_body(200, body, parse_chat).logprobs == {"content": [{"logprob": None}]}
    choice = {"text": "B", "logprobs": {"token_logprobs": [-0.5]}}
    assert read({"choices": [choice]}, parse_text).logprobs == {"token_logprobs": [-0.5]}


def block(text: object) -> dict[str, object]:
    """Return a text block of Anthropic's API."""
    return {"type": "text", "text": text}


def message(*content: object, stop: str = "end_turn") -> dict[str, object]:
    """Return a message of Anthropic's API."""
    usage = {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 3}
    return {"type": "message", "content": list(content), "stop_reason": stop, "usage": usage}


def candidate(*parts: object, finish: str = "STOP", **more: object) -> dict[str, object]:
    """Return an answer of Gemini's API."""
    first = {"content": {"role": "model", "parts": list(parts)}, "finishReason": finish}
    usage = {"promptTokenCount": 4, "candidatesTokenCount": 2, "thoughtsTokenCount": 9}
    return {"candidates": [first | more], "usageMetadata": usage}


TOOL = {"type": "tool_use"}
FILTERED = {"candidates": [{"finishReason": "SAFETY"}]}
FILTERED_TEXT = {"choices": [{"text": "", "finish_reason": "content_filter"}]}


@pytest.mark.parametrize(
    ("take", "body", "text", "status", "finish"),
    [
        # A text completion is the `text` of its first choice.
        (parse_text, {"choices": [{"text": " B", "finish_reason": "stop"}]}, " B", OK, "stop"),
        (parse_text, {"choices": [{"text": ""}]}, "", OK, None),
        (parse_text, {"choices": [{"text": None}]}, None, NO_TEXT, None),
        (parse_text, {"choices": []}, None, NO_TEXT, None),
        (parse_text, FILTERED_TEXT, None, REFUSED, "content_filter"),
        (parse_text, {"choices": [{"text": 2}]}, None, ERROR, None),
        (parse_text, chat("B"), None, ERROR, None),
        # Of Anthropic's API the text blocks are the answer.
        (parse_anthropic, message(block("B")), "B", OK, "stop"),
        (parse_anthropic, message(block("B"), stop="max_tokens"), "B", OK, "length"),
        (parse_anthropic, message(block("B"), block("C")), "B\nC", OK, "stop"),
        (parse_anthropic, message(TOOL, stop="tool_use"), None, NO_TEXT, "tool_calls"),
        (parse_anthropic, message(), None, NO_TEXT, "stop"),
        (parse_anthropic, message(block("I"), stop="refusal"), None, REFUSED, "content_filter"),
        (parse_anthropic, message({"type": "text"}), None, ERROR, None),
        (parse_anthropic, message(block(1)), None, ERROR, None),
        (parse_anthropic, {"type": "message", "content": "B"}, "B", OK, None),
        (parse_anthropic, {"type": "message"}, None, ERROR, None),
        (parse_anthropic, {"type": "error", "error": {"message": "busy"}}, None, ERROR, None),
        # Of Gemini's API the text of the first candidate is; a blocked prompt is a refusal.
        (parse_gemini, candidate({"text": "B"}), "B", OK, "stop"),
        (parse_gemini, candidate({"text": "B"}, finish="MAX_TOKENS"), "B", OK, "length"),
        (parse_gemini, {"candidates": [{"finishReason": "MAX_TOKENS"}]}, None, NO_TEXT, "length"),
        (parse_gemini, FILTERED, None, REFUSED, "content_filter"),
        (parse_gemini, candidate({"functionCall": {"name": "f"}}), None, NO_TEXT, "stop"),
        (parse_gemini, {"candidates": []}, None, NO_TEXT, None),
        (parse_gemini, {"promptFeedback": {"blockReason": "SAFETY"}}, None, REFUSED, None),
        (parse_gemini, {"candidates": [{"content": {"parts": "B"}}]}, None, ERROR, None),
        (parse_gemini, {"candidates": [{"content": "B"}]}, None, ERROR, None),
        (parse_gemini, candidate("B"), None, ERROR, None),
        (parse_gemini, candidate({"text": 1}), None, ERROR, None),
        (parse_gemini, {}, None, ERROR, None),
        (parse_gemini, {"error": {"code": 429, "message": "quota"}}, None, ERROR, None),
    ],
)
def test_answers_of_other_apis(
    take: Take, body: object, text: str | None, status: CompletionStatus, finish: str | None
) -> None:
    """Each API has its own place for the text; ends are told in the words of the chat API."""
    completion = read(body, take)
    assert (completion.text, completion.status, completion.finish_reason) == (text, status, finish)


ODD_COUNTS: list[object] = [10**30, 2**62, -5, 1.5, "many", True, [1]]
#: Usage as it comes: prompt, completion, reasoning, cached, written.
COUNTS: list[tuple[Take, dict[str, object], tuple[int | None, ...]]] = [
    (  # OpenAI: the completion's tokens include those of the thoughts, the prompt's the cached ones
        parse_chat,
        {"prompt_tokens": 1200, "completion_tokens": 50, "total_tokens": 1250,
         "prompt_tokens_details": {"cached_tokens": 1024, "audio_tokens": 0},
         "completion_tokens_details": {"reasoning_tokens": 40}},
        (1200, 50, 40, 1024, None),
    ),
    (  # xAI: thoughts apart from the completion
        parse_chat,
        {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 150,
         "completion_tokens_details": {"reasoning_tokens": 40}},
        (100, 50, 40, None, None),
    ),
    (  # DeepSeek
        parse_chat,
        {"prompt_tokens": 100, "completion_tokens": 5, "prompt_cache_hit_tokens": 64},
        (100, 5, None, 64, None),
    ),
    (  # OpenRouter, for a model whose cache is written to
        parse_chat,
        {"prompt_tokens": 9,
         "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 8}},
        (9, None, None, 0, 8),
    ),
    (parse_text, {"prompt_tokens": 100, "completion_tokens": 5}, (100, 5, None, None, None)),
    (  # cached tokens apart from `input_tokens`; thoughts are output
        parse_anthropic,
        {"input_tokens": 40, "cache_creation_input_tokens": 100,
         "cache_read_input_tokens": 1000, "output_tokens": 50},
        (1140, 50, None, 1000, 100),
    ),
    (  # thoughts apart from the candidates
        parse_gemini,
        {"promptTokenCount": 1200, "cachedContentTokenCount": 1024,
         "candidatesTokenCount": 10, "thoughtsTokenCount": 40},
        (1200, 50, 40, 1024, None),
    ),
    (parse_gemini, {"promptTokenCount": 12, "thoughtsTokenCount": 40}, (12, 40, 40, None, None)),
    (parse_chat, {"prompt_tokens_details": {"cached_tokens": "many"}}, (None,) * 5),
    *(
        (parse_chat, {"prompt_tokens": count, "completion_tokens": 2}, (None, 2, None, None, None))
        for count in ODD_COUNTS
    ),
    (parse_chat, {"completion_tokens": 9, "reasoning_tokens": "x"}, (None, 9, None, None, None)),
    (parse_chat, {"completion_tokens": 9, "reasoning_tokens": 6}, (None, 9, 6, None, None)),
]  # fmt: skip


@pytest.mark.parametrize(("take", "usage", "tokens"), COUNTS)
def test_tokens_are_counted_once(
    take: Take, usage: dict[str, object], tokens: tuple[int | None, ...]
) -> None:
    """Thoughts are part of the completion, tokens of the prompt cache part of the prompt, in every
    API; what is counted is paid for.
    """
    answers: dict[Take, dict[str, object]] = {
        parse_chat: chat([THOUGHT_PART, part("B")]),
        parse_text: {"choices": [{"text": "B"}]},
        parse_anthropic: message(THOUGHT_PART, block("B")),
        parse_gemini: candidate({"text": "A?", "thought": True}, {"text": "B"}),
    }
    name = "usageMetadata" if take is parse_gemini else "usage"
    reply = read({**answers[take], name: usage}, take)
    assert (reply.text, reply.reasoning) == ("B", None if take is parse_text else "A?")
    assert tuple(getattr(reply, usage_name) for usage_name in USAGE_NAMES) == tokens
    cost = (tokens[0] or 0) + 1000.0 * (tokens[1] or 0)
    assert completion_cost(Price(1.0, 1000.0), reply) == cost


CHAT = {
    "content": [
        {
            "token": "A",
            "logprob": -0.1,
            "top_logprobs": [{"token": "A", "logprob": -0.1}, {"token": "B", "logprob": -3}],
        },
        {"token": ".", "logprob": -0.5, "top_logprobs": []},
    ]
}
TEXT = {
    "tokens": [" A", "."],
    "token_logprobs": [-0.1, -0.5],
    "top_logprobs": [{" A": -0.1, " B": -3.0}, None],
    "text_offset": [7, 9],
}


@pytest.mark.parametrize("logprobs", [CHAT, TEXT])
def test_every_api_says_the_same(logprobs: object) -> None:
    """Tokens, their log-probabilities, and the likeliest alternatives."""
    result = read_positions(logprobs)
    assert [item.token.strip() for item in result] == ["A", "."]
    assert [item.logprob for item in result] == [-0.1, -0.5]
    top = {token.strip(): value for token, value in result[0].top.items()}
    assert top == {"A": -0.1, "B": -3.0}
    assert list(result[1].top.values()) == [-0.5]


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        "x",
        {},
        {"content": None},
        {"content": [7]},
        {"content": [{"token": 3}]},
        {"tokens": "AB"},
        [],
    ],
)
def test_what_is_none_has_no_positions(logprobs: object) -> None:
    """Damaged and missing log-probabilities raise nothing and make nothing up.

    What follows a damaged token has no known place.
    """
    assert read_positions(logprobs) == []
    assert len(read_positions({"content": [CHAT["content"][0], None, CHAT["content"][1]]})) == 1


def test_a_logprob_above_zero_is_zero_and_one_that_is_none_is_left_out() -> None:
    """Endpoints round; NaN and text are no probabilities."""
    first: dict[str, object] = {"token": "A", "logprob": 1e-9}
    first["top_logprobs"] = [{"token": "B", "logprob": "x"}, {"token": "C", "logprob": -(10**400)}]
    result = read_positions({"content": [first, {"token": "B", "logprob": float("nan")}]})
    assert (result[0].logprob, result[0].top) == (0.0, {"A": 0.0})
    assert (result[1].logprob, result[1].top) == (None, {})


def echo(
    tokens: list[str], logprobs: list[float | None], offsets: list[int] | None = None
) -> Completion:
    """Return a completion that echoes a text."""
    columns = {"tokens": tokens, "token_logprobs": logprobs, "text_offset": offsets}
    return Completion("", logprobs=columns)


def test_a_continuation_is_as_likely_as_its_tokens_together() -> None:
    """Tokens of the prompt, and what was generated after the text, do not count."""
    echoed = echo(
        ["Q", ":", " blue", " sky", " x"], [None, -1.0, -0.5, -0.25, -9.0], [0, 1, 2, 7, 11]
    )
    entry = {"continuation": " blue sky", "logprob": -0.75, "tokens": 2, "bytes": 9}
    assert measure_continuation(echoed, "Q:", " blue sky") == entry
    bare = echo(["Q", ":", " blue", " sky"], [None, -1.0, -0.5, -0.25])
    assert measure_continuation(bare, "Q:", " blue sky") == entry


def test_a_token_on_the_border_belongs_to_the_continuation() -> None:
    """It is counted, and marked."""
    entry = measure_continuation(echo(["Q", ": b", "lue"], [None, -2.0, -0.5]), "Q:", " blue")
    assert (entry["logprob"], entry["tokens"], entry["is_split"]) == (-2.5, 2, True)


def test_an_endpoint_that_echoes_nothing_says_nothing_about_a_continuation() -> None:
    """Neither does one that leaves out a log-probability."""
    for completion in (Completion("x"), echo(["Q:"], [None]), echo(["Q:", " blue"], [None, None])):
        assert "why" in measure_continuation(completion, "Q:", " blue")


def test_a_complaint_is_not_looked_for_without_end() -> None:
    """Errors nested deeper than any API writes them are ignored."""
    wrapped: object = "too many requests"
    for _ in range(DEPTH):
        wrapped = {"error": wrapped}
    assert find_error_message(wrapped) == "too many requests"
    assert find_error_message({"error": wrapped}) == ""
    assert find_error_message([[{"code": 429}, {"msg": "slow down"}]]) == "slow down"
