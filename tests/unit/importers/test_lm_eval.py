from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from answerkey.errors import DataError

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

STAMP = "2026-01-31T12-00-00.123456"
ROW: dict[str, Any] = {"question": "Which?", "choices": ["Paris", "Lyon"], "answer": 1, "subject": "maps"}


def generated(number: int = 0, text: str = "B.", read: str = "B", **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a line of a task that generates."""
    return {
        "doc_id": number,
        "doc": ROW,
        "target": "B",
        "arguments": {"gen_args_0": {"arg_0": "Which?\nAnswer:", "arg_1": {"until": ["\n"]}}},
        "resps": [[text]],
        "filtered_resps": [read],
        "filter": "none",
        "metrics": ["exact_match"],
        "doc_hash": "x",
        "exact_match": float(read == "B"),
        **fields,
    }


def ranked(
    number: int = 0,
    *logprobs: str,
    texts: tuple[str, ...] = (" Paris", " Lyon"),
    **fields: Any,  # noqa: ANN401 - whatever a line may hold
) -> dict[str, Any]:
    """Return a line of a task by log-probability."""
    found = logprobs or ("-1.5", "-0.5")
    return {
        "doc_id": number,
        "doc": ROW,
        "target": "1",
        "arguments": {f"gen_args_{at}": {"arg_0": "Which?", "arg_1": text} for at, text in enumerate(texts)},
        "resps": [[[one, "False"]] for one in found],
        "filtered_resps": [[one, "False"] for one in found],
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
        "acc": 1.0,
        "acc_norm": 0.0,
        **fields,
    }


def test_a_line_of_a_task_that_generates(desk: Desk) -> None:
    """The row is what was asked, the reply is scored anew, and their verdict comes along."""
    found = desk.bring(desk.lines(f"samples_maps_{STAMP}.jsonl", [generated(), generated(7, "(A)", "A")]))
    assert (found.kind, found.samples) == ("lm-eval", 2)
    assert (found.description.task, found.description.score) == ("maps", "exact_match,none")
    assert desk.dataset()[0] == {
        "sample_id": "maps/0",
        "question": "Which?",
        "options": ["Paris", "Lyon"],
        "choices": ["A", "B"],
        "answer": "B",
        "category": "maps",
        "original": json.dumps(ROW),
    }
    assert desk.completions()[1] == {
        "sample_id": "maps/7",
        "completion": "(A)",
        "completion_status": "OK",
        "their_score": 0.0,
        "their_answer": "A",
        "prompt": '[{"role": "user", "content": "Which?\\nAnswer:"}]',
    }


def test_the_likeliest_choice_stands_for_a_reply(desk: Desk) -> None:
    """Log-probabilities are texts there; the task gets a scorer that reads them, too."""
    found = desk.bring(desk.lines(f"samples_maps_{STAMP}.jsonl", [ranked(), ranked(1, "-0.5", "-inf")]))
    assert found.description.score == "acc,none"
    said = desk.completions()
    assert [row["completion"] for row in said] == ["B", "A"]
    assert [row["their_answer"] for row in said] == ["B", "A"]
    assert json.loads(said[0]["logprobs"]) == {
        "ranking": [
            {"continuation": " Paris", "logprob": -1.5, "bytes": 6},
            {"continuation": " Lyon", "logprob": -0.5, "bytes": 5},
        ]
    }
    assert "type: choice_probabilities" in desk.text("task.yaml")


@pytest.mark.parametrize(
    ("texts", "row", "choices"),
    [
        ((" A", " B"), ROW, ["A", "B"]),
        ((" x", " yy"), {"question": "?"}, ["A", "B"]),
        ((" x", " yy"), {"choices": {"text": ["x", "yy"], "label": ["1", "2"]}}, ["1", "2"]),
        ((" x", " yy"), {"mc1_targets": {"choices": ["x", "yy"], "labels": [1, 0]}}, ["A", "B"]),
    ],
)
def test_labels_are_continuations_then_the_rows_own_then_letters(
    desk: Desk, texts: tuple[str, ...], row: dict[str, Any], choices: list[str]
) -> None:
    """The truth is a place among them."""
    desk.bring(desk.lines(f"samples_maps_{STAMP}.jsonl", [ranked(texts=texts, doc=row)]))
    assert (desk.dataset()[0]["choices"], desk.dataset()[0]["answer"]) == (choices, choices[1])


def test_a_normalised_metric_ranks_by_length(desk: Desk) -> None:
    """So that our verdict is about the same choice as theirs."""
    rows = [ranked(0, "-6", "-4.5", texts=(" Paris", " Lyo"))]
    log = desk.lines(f"samples_maps_{STAMP}.jsonl", rows)
    desk.bring(log)
    desk.bring(log, out="normalised", score="acc_norm")
    assert desk.completions()[0]["completion"] == "B"
    assert desk.completions("normalised")[0]["completion"] == "A"
    assert desk.completions("normalised")[0]["their_score"] == 0.0


def test_half_of_the_requests_may_leave_out_the_question(desk: Desk) -> None:
    """Where `acc_mutual_info` is measured the second half is passed over."""
    row = ranked(0, "-1", "-2", "-0.1", "-0.2", texts=(" xx", " yy", " xx", " yy"), acc_mutual_info=1.0)
    desk.bring(desk.lines(f"samples_maps_{STAMP}.jsonl", [row]))
    assert (desk.dataset()[0]["choices"], desk.completions()[0]["completion"]) == (["A", "B"], "A")


def test_one_filter_is_taken_and_the_others_are_told(desk: Desk) -> None:
    """The first, unless the caller names another with its metric."""
    rows = [generated(filter="strict", read="[invalid]"), generated(filter="loose")]
    log = desk.lines(f"samples_maps_{STAMP}.jsonl", rows)
    found = desk.bring(log)
    assert (found.samples, found.description.score) == (1, "exact_match,strict")
    assert desk.completions()[0]["their_score"] == 0.0
    assert "their_answer" not in desk.completions()[0]
    assert "filter `strict` is taken; others: `loose`" in found.notices[0].message
    other = desk.bring(log, out="other", score="exact_match,loose")
    assert other.description.score == "exact_match,loose"
    assert desk.completions("other")[0]["their_answer"] == "B"


def test_a_folder_of_a_run_holds_its_tasks_and_its_numbers(desk: Desk, tmp_path: Path) -> None:
    """Each task is a category; of an earlier run in the same folder nothing is taken."""
    folder = tmp_path / "out" / "some__model"
    folder.mkdir(parents=True)
    desk.lines(f"out/some__model/samples_one_{STAMP}.jsonl", [generated()])
    desk.lines(f"out/some__model/samples_two_{STAMP}.jsonl", [generated()])
    desk.lines("out/some__model/samples_one_2025-01-31T12-00-00.1.jsonl", [generated(text="old")])
    numbers = {"results": {"one": {"exact_match,none": 1.0}}, "model_name": "some/model"}
    desk.json(f"out/some__model/results_{STAMP}.json", numbers)
    found = desk.bring(tmp_path / "out", out="imported")
    told = found.description
    assert (told.task, told.model, told.reported) == ("one, two", "some/model", {"one": 1.0})
    rows = [(row["sample_id"], row["category"]) for row in desk.dataset("imported")]
    assert rows == [("one/0", "one"), ("two/0", "two")]
    assert "1 files of earlier runs are left aside" in found.notices[0].message


def test_repeats_are_trials_and_judged_once(desk: Desk) -> None:
    """The verdict stands with the first."""
    found = desk.bring(desk.lines(f"samples_maps_{STAMP}.jsonl", [generated(resps=[["B", "A", "B"]])]))
    assert (found.samples, found.num_trials, found.judged) == (1, 3, 1)
    assert [row["their_score"] for row in desk.completions()] == [1.0, None, None]


def test_older_logs_keep_arguments_as_lists_and_chats_as_texts(desk: Desk) -> None:
    """Both are prompts."""
    chat = '[{"role": "user", "content": "Which?"}]'
    rows = [
        generated(0, arguments=[["Old prompt", {"until": []}]]),
        generated(1, arguments={"gen_args_0": {"arg_0": [chat], "arg_1": {}}}),
    ]
    desk.bring(desk.lines(f"samples_maps_{STAMP}.jsonl", rows))
    assert [json.loads(row["prompt"])[0]["content"] for row in desk.completions()] == ["Old prompt", "Which?"]


def test_lines_of_any_name_are_recognised(desk: Desk) -> None:
    """By what stands in them."""
    assert desk.bring(desk.lines("mine.jsonl", [generated()])).kind == "lm-eval"


def test_a_task_that_is_no_multiple_choice_is_refused(desk: Desk) -> None:
    """One log-probability chooses nothing."""
    row = ranked(0, "-3.5", texts=(" word",))
    with pytest.raises(DataError, match="this task is no multiple choice"):
        desk.bring(desk.lines(f"samples_words_{STAMP}.jsonl", [row]))


def test_a_task_without_choices_is_compared_as_text(desk: Desk) -> None:
    """Its truth is a text, and the import says so."""
    row = generated(doc={"question": "2 + 2?"}, target="4", resps=[["4"]], filtered_resps=["4"])
    found = desk.bring(desk.lines(f"samples_sums_{STAMP}.jsonl", [row]))
    assert "the log lists no choices: replies are compared as texts" in found.notices[0].message
    assert "type: string_equals\n" in desk.text("task.yaml")


def test_a_torn_last_line_is_named(desk: Desk) -> None:
    """By its number, and left out if it may be."""
    log = desk.lines(f"samples_maps_{STAMP}.jsonl", [generated(), generated(1)])
    log.write_bytes(log.read_bytes()[:-40])
    with pytest.raises(DataError, match="not valid JSON") as caught:
        desk.bring(log)
    assert caught.value.where is not None
    assert caught.value.where.line == 2
    assert desk.bring(log, allow_failed="1").samples == 1


def test_a_folder_without_samples_is_refused(tmp_path: Path, desk: Desk) -> None:
    """With what lm-eval needs to be told."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"holds no file `samples_\*.jsonl`"):
        desk.bring(tmp_path / "empty", "lm-eval")
