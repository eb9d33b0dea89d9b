from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from answerkey.errors import DataError

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk


def row(number: int = 0, text: str = "B", **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a row of promptfoo's results."""
    named = {"question": "Which?", "options": ["one", "two"], "answer": "B", "level": 3}
    return {
        "promptIdx": 0,
        "testIdx": number,
        "provider": {"id": "openai:some-model", "label": ""},
        "prompt": {"raw": "Which?\nA. one\nB. two", "label": "plain"},
        "vars": named,
        "testCase": {"vars": named, "assert": [{"type": "contains", "value": "B"}]},
        "response": {"output": text, "tokenUsage": {"prompt": 9, "completion": 1}, "finishReason": "stop"},
        "success": text == "B",
        "score": 1,
        "namedScores": {"style": 0.0},
        "failureReason": 0,
        "latencyMs": 500,
        **fields,
    }


def whole(*rows: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of an evaluation."""
    results = {"version": 3, "prompts": [], "results": list(rows), "stats": {"successes": 1}}
    return {"evalId": "eval-x", "results": results, "config": {"providers": []}, "shareableUrl": None}


def test_a_row_is_a_test_with_its_variables(desk: Desk) -> None:
    """Success is the verdict."""
    found = desk.bring(desk.json("res.json", whole(row(), row(1, "A", success=False))))
    assert (found.kind, found.description.model, found.description.score) == (
        "promptfoo",
        "openai:some-model",
        "success",
    )
    assert desk.dataset()[0] == {
        "sample_id": "0",
        "question": "Which?",
        "options": ["one", "two"],
        "choices": ["A", "B"],
        "answer": "B",
        "original": '{"level": 3}',
    }
    said = desk.completions()[0]
    assert (said["completion"], said["their_score"], said["latency"]) == ("B", 1.0, 0.5)
    assert (said["prompt_tokens"], said["finish_reason"], desk.completions()[1]["their_score"]) == (
        9,
        "stop",
        0.0,
    )


def test_lines_are_read_as_well(desk: Desk) -> None:
    """One row on each."""
    found = desk.bring(desk.lines("res.jsonl", [row(), row(1)]))
    assert (found.kind, found.samples) == ("promptfoo", 2)


def test_an_assertion_says_what_is_right_where_no_variable_does(desk: Desk) -> None:
    """The strictest counts; the options stand in the prompt."""
    one = row(vars={"text": "Which?"})
    one["testCase"] = {"assert": [{"type": "icontains", "value": "a"}, {"type": "equals", "value": "two"}]}
    desk.bring(desk.json("res.json", whole(one)))
    assert (desk.dataset()[0]["answer"], desk.dataset()[0]["options"]) == ("B", ["one", "two"])


def test_chats_are_messages_and_errors_are_no_verdicts(desk: Desk) -> None:
    """A call that failed is an ERROR."""
    text = '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Q"}]'
    chat = row(prompt={"raw": text, "label": "plain"})
    failed = row(1, error="HTTP 500", failureReason=2, response={"error": "HTTP 500"}, success=False)
    desk.bring(desk.json("res.json", whole(chat, failed)))
    assert desk.completions()[0]["prompt"].startswith('[{"role": "system"')
    line = desk.completions()[1]
    assert (line["completion_status"], line["error"], line["their_score"]) == ("ERROR", "HTTP 500", None)


def test_of_several_providers_one_is_taken_and_the_others_are_named(desk: Desk) -> None:
    """`--column provider=NAME` takes another."""
    log = desk.json("res.json", whole(row(), row(0, "A", provider={"id": "other"}, promptIdx=1)))
    found = desk.bring(log)
    assert found.notices[0].message == (
        "the rows of openai:some-model with prompt plain are taken; others: `other with prompt plain`"
    )
    desk.bring(log, out="second", columns={"provider": "other"})
    assert [line["completion"] for line in desk.completions("second")] == ["A"]
    with pytest.raises(DataError, match="no row is of the provider"):
        desk.bring(log, out="third", columns={"provider": "nobody"})


def test_a_named_score_can_be_the_verdict(desk: Desk) -> None:
    """With `--score`."""
    assert desk.bring(desk.json("res.json", whole(row())), score="style").their_mean == 0.0


def test_rows_that_are_broken_are_named(desk: Desk) -> None:
    """By the line they end on."""
    with pytest.raises(DataError, match="the row has no `testIdx`"):
        desk.bring(desk.json("res.json", whole(row(), {"promptIdx": 0})), "promptfoo")
