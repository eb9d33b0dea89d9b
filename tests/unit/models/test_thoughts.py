"""Laws of reasoning models: thoughts are kept apart and counted, in whatever form an endpoint sends
them.
"""

from __future__ import annotations

import json

import pytest

from answerkey.models.calls import charge
from answerkey.models.config import Caller, FunctionConfig, ModelConfig, Price
from answerkey.models.model import LiveModel, open_model
from answerkey.models.responses import read_message
from answerkey.scorers import judge
from answerkey.testing import Reply, TestServer
from answerkey.types import Completion, CompletionStatus, Request

ASK = [Request("1", [{"role": "user", "content": "A or B?"}])]
THINKING = "<think>Let me see: A?</think>\n\nB"


def ask(reply: Reply, name: str = "{url}#m") -> Completion:
    """Return what a model at the test server says."""
    with TestServer(reply) as server:
        model = open_model(name.format(url=server.url, root=server.root), caller=Caller({}))
        assert isinstance(model, LiveModel)
        with model:
            (said,) = model.complete(ASK)
    return said


def send(content: object, finish: str = "stop", usage: object = None, **message: object) -> Reply:
    """Return the bytes of a chat completion."""
    choice = {
        "message": {"role": "assistant", "content": content, **message},
        "finish_reason": finish,
    }
    return Reply(body=json.dumps({"choices": [choice], "usage": usage}).encode())


@pytest.mark.parametrize(
    "name",
    [
        "{url}#m",
        "{url}?api=completions#m",
        "{url}?api=anthropic#m",
        "{root}/v1beta?api=gemini#m",
    ],
)
def test_a_thinking_block_in_the_text_is_taken_out_by_every_api(name: str) -> None:
    """Every rule sees what follows it, the first character too; the text as it came is kept."""
    said = ask(Reply(THINKING), name)
    assert (said.text, said.reasoning, said.raw) == ("B", "Let me see: A?", THINKING)
    for rule in ("first_character", "first_character_literal", "leading_label", "stated_answer"):
        assert judge(said, ["A", "B"], "B", rule).values == {"is_correct": 1.0}


def test_a_thinking_block_can_be_kept() -> None:
    """`thinking: keep` leaves the text as it came; it is not sent, and another identity."""
    with TestServer(THINKING) as server:
        kept, split = (
            open_model(f"{server.url}{query}#m", caller=Caller({}))
            for query in ("?thinking=keep", "")
        )
        assert isinstance(kept, LiveModel)
        assert isinstance(split, LiveModel)
        with kept:
            (said,) = kept.complete(ASK)
        assert server.asked.requests[-1].body == {"model": "m", "messages": ASK[0].messages}
    assert (said.text, said.reasoning, said.raw) == (THINKING, None, None)
    assert kept.identity != split.identity


@pytest.mark.parametrize(
    "reply",
    [
        send("B", reasoning_content="A?"),
        send("B", reasoning="A?"),
        send([{"type": "thinking", "thinking": "A?"}, {"type": "text", "text": "B"}]),
        send("<think>A?</think>B"),
        send("A?</think>B"),
        send("analysisA?assistantfinalB"),
        send(
            "<|channel|>analysis<|message|>A?<|end|><|start|>assistant<|channel|>final<|message|>B"
        ),
    ],
)
def test_thoughts_are_apart_in_whatever_form_they_come(reply: Reply) -> None:
    """The text is the answer, and the thoughts stand beside it."""
    said = ask(reply)
    assert (said.text, said.reasoning) == ("B", "A?")


@pytest.mark.parametrize(
    "reply",
    [
        send("<think>Let me", "length"),
        send("", "length", reasoning_content="Let me"),
        send(None, "length", reasoning="Let me"),
        send(
            "",
            "length",
            {"completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 5}},
        ),
        send("<think>Done.</think>\n"),
    ],
)
@pytest.mark.parametrize(
    "rule", ["first_character", "first_character_literal", "leading_label", "stated_answer"]
)
def test_a_reply_that_ends_within_its_thoughts_has_a_reason_of_its_own(
    reply: Reply, rule: str
) -> None:
    """Whatever the rule, and also where the thoughts are only counted."""
    assert (
        judge(ask(reply), ["A", "B"], "B", rule).metadata["validity_reason"] == "TRUNCATED_THINKING"
    )


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (send("", "length"), "EMPTY"),
        (send(None, "tool_calls", reasoning="f?", tool_calls=[{"id": "1"}]), "NO_TEXT"),
        (send(None, refusal="No", reasoning="no"), "REFUSED"),
        (send("I cannot say", reasoning="hm"), "NOT_A_CHOICE"),
    ],
)
def test_other_silence_is_no_cut_thought(reply: Reply, reason: str) -> None:
    """A reply without thoughts, a tool call, a refusal, and a text after the thoughts keep their
    reasons.
    """
    assert judge(ask(reply), ["A", "B"], "B").metadata["validity_reason"] == reason


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 6}}, (9, 6)),
        ({"completion_tokens": 9, "reasoning_tokens": 6}, (9, 6)),
        (
            {"prompt_tokens": 1, "completion_tokens": 9, "total_tokens": 10, "reasoning_tokens": 6},
            (9, 6),
        ),
        # Some providers do not count the thoughts among the tokens of the completion.
        (
            {"prompt_tokens": 1, "completion_tokens": 3, "total_tokens": 10, "reasoning_tokens": 6},
            (9, 6),
        ),
        ({"completion_tokens": 9, "completion_tokens_details": None}, (9, None)),
        (
            {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": "x"}},
            (9, None),
        ),
        (None, (None, None)),
    ],
)
def test_tokens_of_thoughts_are_counted_and_priced(usage: object, tokens: tuple[int, int]) -> None:
    """They are part of the completion's tokens, which are paid for."""
    said = ask(send("B", usage=usage))
    assert (said.completion_tokens, said.reasoning_tokens) == tokens
    assert charge(Price(0, 2.0), None, said.completion_tokens) == 2.0 * (tokens[0] or 0)


@pytest.mark.parametrize("name", ["{root}/v1beta?api=gemini#m"])
def test_other_apis_count_thoughts_too(name: str) -> None:
    """Each API has its own place for them."""
    body = {"candidates": [{"content": {"parts": [{"text": "B"}]}}]}
    counts = {"usageMetadata": {"candidatesTokenCount": 3, "thoughtsTokenCount": 6}}
    part = {"type": "message", "content": [{"type": "output_text", "text": "B"}]}
    usage = {"output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 6}}
    said = ask(
        Reply(body=json.dumps({**body, **counts, "output": [part], "usage": usage}).encode()), name
    )
    assert (said.text, said.completion_tokens, said.reasoning_tokens) == ("B", 9, 6)


def test_functions_and_recorded_messages_have_thoughts_too() -> None:
    """A function's reply is read like an endpoint's.

    Of a recorded message, the text stays as it is.
    """
    model = open_model(ModelConfig("f", FunctionConfig(lambda _: THINKING)))
    (said,) = model.complete(ASK)
    assert (said.text, said.reasoning) == ("B", "Let me see: A?")
    recorded = read_message({"role": "assistant", "content": None, "reasoning_content": "hm"})
    assert (recorded.status, recorded.reasoning) == (CompletionStatus.NO_TEXT, "hm")
    assert read_message({"role": "assistant", "content": THINKING}).text == THINKING
