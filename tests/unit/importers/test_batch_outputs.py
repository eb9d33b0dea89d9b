from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from answerkey.errors import DataError, SpecError

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

QUESTIONS = [
    {"sample_id": "q-1", "question": "First?", "options": ["x", "yy"], "answer": "A"},
    {"sample_id": "q-2", "question": "Second?", "options": ["x", "yy"], "answer": "B"},
]
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A"}]}


def chat(name: str, text: str | None, end: str = "stop", **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a line of a batch of chat completions."""
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": end}
    usage = {"prompt_tokens": 9, "completion_tokens": 2}
    body = {"object": "chat.completion", "model": "gpt-x", "choices": [choice], "usage": usage}
    response = {"status_code": 200, "body": body}
    return {"id": "r", "custom_id": name, "response": response, "error": None, **fields}


def respond(code: int = 200, /, **body: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a line with another body."""
    return chat("q-1", "x", response={"status_code": code, "body": body})


def message(name: str, **result: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a line of a batch of Anthropic's."""
    return {"custom_id": name, "result": {"type": "succeeded", **result}}


def test_answers_find_their_questions_in_any_order(desk: Desk) -> None:
    """By `custom_id`, which is the sample's id."""
    log = desk.lines("output.jsonl", [chat("q-2", "B"), chat("q-1", "A", "length")])
    found = desk.bring(log, dataset=desk.lines("questions.jsonl", QUESTIONS))
    assert (found.kind, found.samples, found.judged) == ("openai-batch", 2, 0)
    assert found.description.model == "gpt-x"
    asked = [(row["sample_id"], row["question"], row["answer"]) for row in desk.dataset()]
    assert asked == [("q-1", "First?", "A"), ("q-2", "Second?", "B")]
    said = [(row["sample_id"], row["completion"], row["finish_reason"]) for row in desk.completions()]
    assert said == [("q-1", "A", "length"), ("q-2", "B", "stop")]


@pytest.mark.parametrize(
    ("row", "status"),
    [
        (chat("q-1", None), "NO_TEXT"),
        (chat("q-1", None, "content_filter"), "REFUSED"),
        (chat("q-1", "x", response=None, error={"code": "batch_expired", "message": "too late"}), "ERROR"),
        (respond(429, error={"message": "slow"}), "ERROR"),
        (chat("q-1", "x", response=None), "ERROR"),
        (respond(object="text_completion", choices=[{"text": " A", "finish_reason": "stop"}]), "OK"),
        (respond(object="response", status="completed", output=[{"type": "reasoning"}, SAID]), "OK"),
        (respond(object="response", status="failed", output=[], error={"message": "no"}), "ERROR"),
        (respond(500, object="response"), "ERROR"),
    ],
)
def test_lines_of_openai_say_what_became_of_them(desk: Desk, row: dict[str, Any], status: str) -> None:
    """Chat and text completions, responses, errors of the call and of the batch."""
    questions = desk.lines("questions.jsonl", QUESTIONS[:1])
    assert desk.bring(desk.lines("output.jsonl", [row]), dataset=questions).statuses == {status: 1}


@pytest.mark.parametrize(
    ("result", "status"),
    [
        ({"message": {"content": [{"type": "text", "text": "A"}], "stop_reason": "end_turn"}}, "OK"),
        ({"message": {"content": [{"type": "text", "text": "no"}], "stop_reason": "refusal"}}, "REFUSED"),
        ({"message": {"content": [], "stop_reason": "end_turn"}}, "NO_TEXT"),
        ({"type": "errored", "error": {"type": "invalid_request", "message": "bad"}}, "ERROR"),
        ({"type": "expired"}, "ERROR"),
        ({"type": "canceled"}, "ERROR"),
    ],
)
def test_lines_of_anthropic_say_what_became_of_them(desk: Desk, result: dict[str, Any], status: str) -> None:
    """Only what succeeded is a reply."""
    questions = desk.lines("questions.jsonl", QUESTIONS[:1])
    found = desk.bring(desk.lines("output.jsonl", [message("q-1", **result)]), dataset=questions)
    assert (found.kind, found.statuses) == ("anthropic-batch", {status: 1})


def test_a_question_that_was_not_answered_is_an_error(desk: Desk) -> None:
    """Failures stand in another file, or nowhere."""
    questions = desk.lines("questions.jsonl", QUESTIONS)
    found = desk.bring(desk.lines("output.jsonl", [chat("q-1", "A")]), dataset=questions)
    assert "1 completions are not in the log" in found.notices[0].message
    assert [row["completion_status"] for row in desk.completions()] == ["OK", "ERROR"]


def test_an_answer_without_a_question_is_refused(desk: Desk) -> None:
    """The dataset is another."""
    questions = desk.lines("questions.jsonl", QUESTIONS)
    with pytest.raises(DataError, match=r"completions without a question: 1 \(`q-9`\)"):
        desk.bring(desk.lines("output.jsonl", [chat("q-9", "A")]), dataset=questions)


def test_output_and_error_files_may_lie_in_one_folder(desk: Desk, tmp_path: Path) -> None:
    """Each call is in one of them."""
    (tmp_path / "batch").mkdir()
    desk.lines("batch/output.jsonl", [chat("q-1", "A")])
    desk.lines("batch/errors.jsonl", [chat("q-2", "x", response=None, error={"code": "e", "message": "m"})])
    questions = desk.lines("questions.jsonl", QUESTIONS)
    found = desk.bring(tmp_path / "batch", "openai-batch", dataset=questions)
    assert found.statuses == {"ERROR": 1, "OK": 1}


def test_without_questions_only_completions_are_written(desk: Desk) -> None:
    """They can be scored with the dataset that somebody has."""
    found = desk.bring(desk.lines("output.jsonl", [chat("q-1", "A")]))
    assert not found.has_questions
    names = sorted(path.name for path in (desk.folder / "out").iterdir())
    assert names == ["completions.parquet", "import.json"]


def test_a_line_without_its_id_is_named(desk: Desk) -> None:
    """Nobody can tell whose answer it is."""
    rows = [chat("q-1", "A"), {"response": {}, "custom_id": ""}]
    with pytest.raises(DataError, match="the line has no `custom_id`"):
        desk.bring(desk.lines("output.jsonl", rows))


def test_a_dataset_that_is_not_there_is_refused(desk: Desk) -> None:
    """Before anything is read."""
    with pytest.raises(SpecError, match="there is no such file"):
        desk.bring(desk.lines("output.jsonl", [chat("q-1", "A")]), dataset=desk.folder / "nowhere.jsonl")
