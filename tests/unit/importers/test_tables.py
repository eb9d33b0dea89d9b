"""Logs that are tables: plain ones, MMLU-Pro's lists, outputs of batches, and rows of
every_eval_ever.
"""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.projects import SCORER, write_task
from tests.unit.importers.conftest import WHICH

import answerkey as ak
from answerkey.errors import Problems
from answerkey.exporters import export

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

# Plain tables


def test_columns_are_known_by_the_names_that_people_give_them(desk: Desk) -> None:
    """CSV with an option in each column, as many have it.

    A row may have fewer options than others.
    """
    text = (
        "index,question,A,B,C,answer,prediction,response,category,note\n"
        "7,Which?,one,two,three,B,(B),The answer is B.,maps,easy\n"
        "8,Other?,yes,no,,A,B,No.,maps,\n"
    )
    result = desk.bring(desk.write("mine.csv", text))
    assert (result.kind, result.samples, result.tasks[0].judged) == ("plain", 2, 2)
    assert result.tasks[0].imported_mean == 0.5
    assert desk.asked()[0] == {
        "sample_id": "7", "question": "Which?", "options": ["one", "two", "three"],
        "choices": ["A", "B", "C"], "answer": "B", "category": "maps", "original": {"note": "easy"},
    }  # fmt: skip
    assert desk.asked("choices")[1] == ["A", "B"]
    columns = ("sample_id", "completion", "completion_status", "imported_score", "imported_answer")
    assert desk.said(*columns)[0] == ("7", "The answer is B.", "OK", 1.0, "B")


def test_json_lines_with_places_messages_and_trials(desk: Desk) -> None:
    """An index is a place, a message is what it says, and a score is a verdict."""
    question = {"question": "Which?", "choices": ["x", "yy"]}
    message, refused = (
        {"role": "assistant", "content": "B"},
        {"role": "assistant", "refusal": "no"},
    )
    rows = [
        {"id": "a", **question, "answer_index": 1, "is_correct": True, "output": message},
        {"id": "b", **question, "answer_index": 0, "is_correct": "fail", "output": refused},
    ]
    assert desk.bring(desk.lines("mine.jsonl", rows)).tasks[0].statuses == {"OK": 1, "REFUSED": 1}
    assert (desk.asked("answer"), desk.said("imported_score")) == (["B", "A"], [1.0, 0.0])
    rows = [{"sample_id": "a", "trial": n, "answer": "A", "completion": "A"} for n in (0, 1)]
    assert desk.bring(desk.lines("mine.jsonl", rows)).tasks[0].num_trials == 2


def test_the_caller_says_which_column_is_what(desk: Desk) -> None:
    """Whatever it is called; a dotted name reaches into a cell, for names of models have dots."""
    log = desk.lines("mine.jsonl", [{"frage": "?", "loesung": "A", "sagt": "A", "output": "no"}])
    desk.bring(log, columns={"question": "frage", "answer": "loesung", "completion": "sagt"})
    assert (desk.asked("question"), desk.said("completion")) == (["?"], ["A"])
    replies = {"gpt-4": {"1": "no"}, "gpt-4.1": "A"}
    log = desk.lines("mine.jsonl", [{"question": "?", "answer": "A", "completions": replies}])
    desk.bring(log, columns={"completion": "completions.gpt-4.1"})
    assert desk.said("completion") == ["A"]


@pytest.mark.parametrize(
    ("row", "columns", "message", "hint"),
    [
        ({"truth": "A", "output": "A"}, {"answre": "x"}, "E119.*unknown part `answre`",
         "did you mean"),
        ({"truth": "A", "output": "A"}, {"answer": "truht"}, "E206.*no column `truht`",
         "did you mean"),
        ({"question": "?", "output": "A"}, {}, "E206.*no column holds the truth",
         "--column truth=NAME"),
        ({"question": "?", "answer": "A"}, {}, "E209.*no column holds completions",
         "completion=NAME"),
    ],
)  # fmt: skip
def test_a_column_that_is_not_there_is_asked_for(
    desk: Desk, row: dict[str, str], columns: dict[str, str], message: str, hint: str
) -> None:
    """The hint says how to name it, or what was probably meant."""
    code, _, words = message.partition(".*")
    error = desk.refuse(words, desk.lines("a.jsonl", [row]), columns=columns)
    assert (error.code, hint in str(error.hint)) == (code, True)


def test_choices_that_no_row_lists_are_told_from_the_truths(desk: Desk) -> None:
    """From A to the last truth, at least to D; the task says so."""
    rows = [{"question": "?", "answer": letter, "output": letter} for letter in "EA"]
    result = desk.bring(desk.lines("mine.jsonl", rows))
    assert (
        "by the truths, they are assumed to be `A`, `B`, `C`, `D`, `E`" in result.notices[0].message
    )
    assert result.tasks[0].scorers[0]["choices"] == [*"ABCDE"]


# MMLU-Pro


def listed(number: int = 70, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a row as MMLU-Pro's evaluation writes it."""
    question = {
        "question": "Which?", "options": ["one", "two", "three"], "answer": "C", "answer_index": 2,
    }  # fmt: skip
    return {
        "question_id": number, **question, "cot_content": "", "category": "maps", "src": "made",
        "pred": "C", "model_outputs": "The answer is (C).", **fields,
    }  # fmt: skip


def test_a_row_is_a_question_a_reply_and_a_reading(desk: Desk) -> None:
    """Whether they were right follows from what they read; where they guess there is no verdict."""
    rows = [listed(), listed(71, pred="A"), listed(72, pred=None)]
    result = desk.bring(desk.json("model_outputs_some-model_5shots.json", rows))
    description = result.tasks[0].description
    assert (result.kind, result.tasks[0].judged) == ("mmlu-pro", 2)
    assert result.tasks[0].imported_mean == 0.5
    assert description.model == "some-model"
    original = {"question_id": 70, "answer": "C", "answer_index": 2, "cot_content": ""}
    assert desk.asked()[0] == {
        "sample_id": "70", "question": "Which?", "options": ["one", "two", "three"],
        "choices": ["A", "B", "C"], "answer": "C", "category": "maps",
        "original": {**original, "category": "maps", "src": "made"},
    }  # fmt: skip
    assert desk.said("sample_id", "completion", "imported_score", "imported_answer")[1:] == [
        ("71", "The answer is (C).", 0.0, "A"),
        ("72", "The answer is (C).", None, None),
    ]


def test_the_text_may_stand_under_other_names(desk: Desk) -> None:
    """In some files it is `generated_text`, or a list; the file may be compressed."""
    row = listed(generated_text="B")
    del row["model_outputs"]
    log = desk.folder / "x.json.gz"
    log.write_bytes(gzip.compress(json.dumps([row, listed(71, model_outputs=["A"])]).encode()))
    desk.bring(log, "mmlu-pro")
    assert desk.said("completion") == ["B", "A"]


def test_an_archive_and_a_folder_of_subjects_are_read_whole(desk: Desk) -> None:
    """Summaries beside the lists are passed over."""
    files = {
        "a_result.json": [listed(1)],
        "a_summary.json": {"total": {}},
        "b_result.json": [listed(2)],
    }
    assert desk.bring(desk.archive("out.zip", files, method=8)).samples == 2
    for name, content in files.items():
        desk.json(f"folder/{name}", content)
    assert desk.bring(desk.folder / "folder").samples == 2
    log = desk.archive("out.zip", {"a_summary.json": {}})
    desk.refuse("contains no list of rows", log, "mmlu-pro")


def test_rows_that_lack_what_they_need_are_named(desk: Desk) -> None:
    """All of them."""
    log = desk.json("x.json", [listed(), {"question_id": 2}, 3])
    error = desk.refuse("no `question_id`", log, "mmlu-pro")
    assert isinstance(error, Problems)
    assert len(error.errors) == 2


# Batches

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
    return chat("", "x", response={"status_code": code, "body": body})


def test_answers_find_their_questions_in_any_order(desk: Desk) -> None:
    """By `custom_id`, which is the sample's id."""
    log = desk.lines("output.jsonl", [chat("q-2", "B"), chat("q-1", "A", "length")])
    result = desk.bring(log, dataset=desk.lines("questions.jsonl", QUESTIONS))
    description = result.tasks[0].description
    assert (result.kind, result.samples, result.tasks[0].judged) == ("openai-batch", 2, 0)
    assert description.model == "gpt-x"
    questions = desk.asked("sample_id", "question", "answer")
    assert questions == [("q-1", "First?", "A"), ("q-2", "Second?", "B")]
    replies = desk.said("sample_id", "completion", "finish_reason")
    assert replies == [("q-1", "A", "length"), ("q-2", "B", "stop")]


OPENAI_LINES = [
    (chat("", None), "NO_TEXT"),
    (chat("", None, "content_filter"), "REFUSED"),
    (chat("", "x", response=None, error={"code": "expired", "message": "late"}), "ERROR"),
    (respond(429, error={"message": "slow"}), "ERROR"),
    (chat("", "x", response=None), "ERROR"),
    (respond(object="text_completion", choices=[{"text": " A", "finish_reason": "stop"}]), "OK"),
    (respond(object="response", status="completed", output=[{"type": "reasoning"}, SAID]), "OK"),
    (respond(object="response", status="failed", output=[], error={"message": "no"}), "ERROR"),
    (respond(500, object="response"), "ERROR"),
]
ANTHROPIC_LINES: list[tuple[dict[str, Any], str]] = [
    ({"message": {"content": [{"type": "text", "text": "A"}]}}, "OK"),
    ({"message": {"content": [], "stop_reason": "refusal"}}, "REFUSED"),
    ({"message": {"content": [], "stop_reason": "end_turn"}}, "NO_TEXT"),
    ({"type": "errored", "error": {"type": "invalid_request", "message": "bad"}}, "ERROR"),
    ({"type": "expired"}, "ERROR"),
    ({"type": "canceled"}, "ERROR"),
]
BATCHES = {"openai-batch": OPENAI_LINES, "anthropic-batch": []}
for result, status in ANTHROPIC_LINES:
    BATCHES["anthropic-batch"].append(({"result": {"type": "succeeded", **result}}, status))


@pytest.mark.parametrize("kind", BATCHES)
def test_lines_of_batches_say_what_became_of_them(desk: Desk, kind: str) -> None:
    """Chat and text completions, responses, messages, errors of the call and of the batch."""
    lines = BATCHES[kind]
    rows = [{**row, "custom_id": str(number)} for number, (row, _) in enumerate(lines)]
    imported = desk.bring(desk.lines("output.jsonl", rows))
    assert (imported.kind, imported.has_questions) == (kind, False)
    assert desk.said("completion_status") == [status for _, status in lines]
    names = [path.relative_to(desk.out).as_posix() for path in desk.out.rglob("*.*")]
    assert sorted(names) == ["import.json", "output/completions.jsonl"]


def test_output_and_error_files_may_lie_in_one_folder(desk: Desk) -> None:
    """Each call is in one of them; a question that is in none is an ERROR."""
    desk.lines("batch/output.jsonl", [chat("q-1", "A")])
    desk.lines(
        "batch/errors.jsonl", [chat("q-2", "x", response=None, error={"code": "e", "message": "m"})]
    )
    questions = desk.lines("questions.jsonl", [*QUESTIONS, {**QUESTIONS[0], "sample_id": "q-3"}])
    result = desk.bring(desk.folder / "batch", "openai-batch", dataset=questions)
    assert result.tasks[0].statuses == {"ERROR": 1, "OK": 1}
    assert "1 completions are not in the log" in result.notices[0].message
    assert desk.said("completion_status") == ["OK", "ERROR", "ERROR"]


def test_answers_that_belong_to_no_question_are_refused(desk: Desk) -> None:
    """The dataset is another, or not there; a line without an id cannot be matched."""
    questions = desk.lines("questions.jsonl", QUESTIONS)
    log = desk.lines("output.jsonl", [chat("q-9", "A")])
    desk.refuse(r"completions without a question: 1 \(`q-9`\)", log, dataset=questions)
    desk.refuse("the file does not exist", log, dataset=desk.folder / "nowhere.jsonl")
    log = desk.lines("output.jsonl", [chat("q-1", "A"), {"response": {}, "custom_id": ""}])
    desk.refuse("the line has no `custom_id`", log)


# every_eval_ever


def shared(**fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a row as the shared schema has it."""
    return {
        "schema_version": "0.3.0",
        "evaluation_id": "arc/model/1",
        "model_id": "org/model",
        "evaluation_name": "arc",
        "sample_id": "7",
        "interaction_type": "single_turn",
        "input": {"raw": "Which?", "reference": ["two"], "choices": ["one", "two"]},
        "output": {"raw": ["It is B."], "reasoning_trace": ["hm"]},
        "answer_attribution": [{"turn_idx": 0, "source": "output.raw", "extracted_value": "B"}],
        "evaluation": {"score": 1.0, "is_correct": True},
        "token_usage": {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12},
        "metadata": {"subject": "maps"},
        **fields,
    }


def test_a_shared_row_is_a_question_a_reply_and_a_verdict(desk: Desk) -> None:
    """Choices are options, and the reference is one of them; a file of numbers is passed over."""
    desk.json("model/x.json", {"schema_version": "0.3.0", "evaluation_id": "arc/model/1"})
    desk.lines("model/x_samples.jsonl", [shared()])
    result = desk.bring(desk.folder / "model")
    description = result.tasks[0].description
    assert (result.kind, description.task, description.model) == (
        "every_eval_ever",
        "arc",
        "org/model",
    )
    assert desk.asked() == [
        {"sample_id": "7", **WHICH, "category": "maps", "original": {"subject": "maps"}}
    ]
    listed = "completion reasoning imported_score imported_answer prompt_tokens completion_tokens"
    names = listed.split()
    assert desk.said(*names) == [("It is B.", "hm", 1.0, "B", 9, 3)]


def test_replies_are_trials_the_last_turn_an_error_or_silence(desk: Desk) -> None:
    """What was said in several turns is what was said last; a row without an id is named."""
    turns = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "C"}]
    nothing: dict[str, Any] = {"raw": []}
    rows = [
        shared(output={"raw": ["A", "B"]}),
        shared(sample_id="8", output=None, messages=turns),
        shared(sample_id="9", output=nothing, error="timeout"),
        shared(sample_id="10", output=nothing),
    ]
    desk.bring(desk.lines("rows.jsonl", rows))
    replies = desk.said("sample_id", "trial", "completion", "completion_status")
    assert [row[2:] for row in [reply for reply in replies if reply[1] == 0]] == [
        ("A", "OK"), ("C", "OK"), (None, "ERROR"), (None, "NO_TEXT"),
    ]  # fmt: skip
    assert desk.said("completion")[1] == "B"
    desk.refuse(
        "the row has no `sample_id`", desk.lines("rows.jsonl", [shared(), shared(sample_id=None)])
    )


@pytest.fixture
def run(desk: Desk, tmp_path: Path) -> ak.Run:
    """Return a run in which one call failed and one reply was a refusal."""
    names = ("question", "choices", "answer", "completion", "completion_status")
    cells: list[tuple[object, ...]] = [
        ("one", ["A", "B"], "A", "A"),
        ("two", ["P", "Q"], "Q", "P."),
        ("three", ["A", "B"], "B", None, "REFUSED"),
        ("four", ["A", "B"], "B", None, "ERROR"),
    ]
    rows = [{**dict(zip(names, cell, strict=False)), "options": ["x", "y"]} for cell in cells]
    columns = {"choices": "{{ sample.choices }}", "options": "{{ sample.options }}"}
    task = write_task(tmp_path / "task.yaml", {**SCORER, **columns})
    dataset = desk.lines("rows.jsonl", rows)
    return ak.run(task, dataset=dataset, out=tmp_path / "run", allow_failed=1)


def test_an_export_has_a_row_for_each_verdict(run: ak.Run) -> None:
    """What was not scored has none, is left out, and is counted."""
    out = io.StringIO()
    result = export(run, "every_eval_ever", stream=out)
    assert (result.rows, result.left_out) == (3, 1)
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    assert rows[0]["input"] == {
        "raw": "one", "formatted": None, "reference": ["A"], "choices": ["x", "y"],
    }  # fmt: skip
    assert rows[0]["answer_attribution"][0]["extracted_value"] == "A"
    verdicts = [(row["evaluation"]["score"], row["evaluation"]["is_correct"]) for row in rows]
    assert verdicts == [(1.0, True), (0.0, False), (0.0, False)]
    assert rows[2]["output"]["raw"] == []
    assert all(isinstance(value, str) for row in rows for value in row["metadata"].values())


def test_an_export_imports_again(run: ak.Run, desk: Desk) -> None:
    """Labels, options, truths, texts, statuses and verdicts are the same."""
    out = desk.folder / "rows-out.jsonl"
    export(run, "every_eval_ever", out)
    assert desk.bring(out).kind == "every_eval_ever"
    assert desk.asked("choices", "options", "answer") == [
        *(
            (["A", "B"], ["x", "y"], "A"),
            (["P", "Q"], ["x", "y"], "Q"),
            (["A", "B"], ["x", "y"], "B"),
        )
    ]
    assert desk.said("completion", "completion_status", "imported_score") == [
        *(("A", "OK", 1.0), ("P.", "OK", 0.0), (None, "REFUSED", 0.0))
    ]
