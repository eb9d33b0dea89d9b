"""Logs of lm-evaluation-harness and of lighteval."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import answerkey as ak

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

STAMP = "2026-01-31T12-00-00.123456"
MAPS = f"samples_maps_{STAMP}.jsonl"
ROW: dict[str, Any] = {
    "question": "Which?", "choices": ["Paris", "Lyon"], "answer": 1, "subject": "maps",
}  # fmt: skip


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
    *logprobs: str,
    texts: tuple[str, ...] = (" Paris", " Lyon"),
    **fields: Any,  # noqa: ANN401
) -> dict[str, Any]:
    """Return a line of a task by log-probability."""
    results = [[logprob, "False"] for logprob in logprobs or ("-1.5", "-0.5")]
    return {
        "doc_id": 0,
        "doc": ROW,
        "target": "1",
        "arguments": {
            f"gen_args_{at}": {"arg_0": "Which?", "arg_1": text} for at, text in enumerate(texts)
        },
        "resps": [[scored] for scored in results],
        "filtered_resps": results,
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
        "acc": 1.0,
        "acc_norm": 0.0,
        **fields,
    }


def test_a_line_of_a_task_that_generates(desk: Desk) -> None:
    """The row is what was asked, the reply is scored anew, and their verdict comes along."""
    result = desk.bring(desk.lines(MAPS, [generated(), generated(7, "(A)", "A")]))
    description = result.tasks[0].description
    assert (result.kind, result.samples) == ("lm-eval", 2)
    assert (description.task, description.score) == ("maps", "exact_match,none")
    assert desk.asked()[0] == {
        "sample_id": "maps/0", "question": "Which?", "options": ["Paris", "Lyon"],
        "choices": ["A", "B"], "answer": "B", "category": "maps", "original": ROW,
    }  # fmt: skip
    assert desk.said()[1] == {
        "sample_id": "maps/7", "trial": 0, "completion": "(A)", "completion_status": "OK",
        "imported_score": 0.0, "imported_answer": "A",
        "prompt": [{"role": "user", "content": "Which?\nAnswer:"}],
    }  # fmt: skip
    assert desk.bring(desk.lines("any name.jsonl", [generated()])).kind == "lm-eval"


def test_the_likeliest_choice_stands_for_a_reply(desk: Desk) -> None:
    """Log-probabilities are texts there; the task gets a scorer that reads them, too."""
    result = desk.bring(desk.lines(MAPS, [ranked(), ranked("-0.5", "-inf", doc_id=1)]))
    assert result.tasks[0].description.score == "acc,none"
    assert desk.said("completion", "imported_answer") == [("B", "B"), ("A", "A")]
    assert desk.said("logprobs")[0] == {
        "ranking": [
            {"continuation": " Paris", "logprob": -1.5, "bytes": 6},
            {"continuation": " Lyon", "logprob": -0.5, "bytes": 5},
        ],
    }
    assert "type: choice_probabilities" in desk.text("run.yaml")


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
    desk.bring(desk.lines(MAPS, [ranked(texts=texts, doc=row)]))
    assert desk.asked("choices", "answer") == [(choices, choices[1])]


def test_choices_are_ranked_as_their_metric_ranks_them(desk: Desk) -> None:
    """By length where it is normalised.

    Without the half that leaves out the question (`acc_mutual_info`).
    """
    log = desk.lines(MAPS, [ranked("-6", "-4.5", texts=(" Paris", " Lyo"))])
    desk.bring(log)
    assert desk.said("completion") == ["B"]
    desk.bring(log, score="acc_norm")
    assert desk.said("completion", "imported_score") == [("A", 0.0)]
    texts = (" xx", " yy", " xx", " yy")
    desk.bring(
        desk.lines(MAPS, [ranked("-1", "-2", "-0.1", "-0.2", texts=texts, acc_mutual_info=1.0)])
    )
    assert (desk.asked("choices"), desk.said("completion")) == ([["A", "B"]], ["A"])


def test_one_filter_is_taken_and_the_others_are_told(desk: Desk) -> None:
    """The first, unless the caller names another with its metric."""
    log = desk.lines(
        MAPS, [generated(filter="strict", read="[invalid]"), generated(filter="loose")]
    )
    result = desk.bring(log)
    assert (result.samples, result.tasks[0].description.score) == (1, "exact_match,strict")
    assert desk.said("imported_score") == [0.0]
    assert "imported_answer" not in desk.said()[0]
    assert "filter `strict` is used; others: `loose`" in result.notices[0].message
    (task,) = desk.bring(log, score="exact_match,loose").tasks
    assert task.description.score == "exact_match,loose"
    assert desk.said("imported_answer") == ["B"]


def test_a_folder_of_a_run_holds_its_tasks_and_its_numbers(desk: Desk) -> None:
    """Each task is one of the project; of an earlier run in the same folder nothing is taken."""
    folder = "logs/some__model"
    desk.lines(f"{folder}/samples_one_{STAMP}.jsonl", [generated()])
    desk.lines(f"{folder}/samples_two_{STAMP}.jsonl", [generated()])
    desk.lines(f"{folder}/samples_one_2025-01-31T12-00-00.1.jsonl", [generated(text="old")])
    numbers = {"results": {"one": {"exact_match,none": 1.0}}, "model_name": "some/model"}
    desk.json(f"{folder}/results_{STAMP}.json", numbers)
    result = desk.bring(desk.folder / "logs")
    held = [task.description for task in result.tasks]
    assert [(about.task, about.model) for about in held] == [
        ("one", "some/model"),
        ("two", "some/model"),
    ]
    assert desk.asked("sample_id", task="one") == ["one/0"]
    assert desk.said("sample_id", "completion", task="two") == [("two/0", "B.")]
    assert "1 files of earlier runs are skipped" in result.notices[0].message
    assert list(ak.run(desk.out, out=desk.folder / "run").tasks) == ["one", "two"]
    assert [task.key for task in desk.bring(desk.folder / "logs", task="two").tasks] == ["two"]
    assert desk.asked("sample_id") == ["two/0"]
    error = desk.refuse("the log has no task `three`", desk.folder / "logs", task="three")
    assert error.hint == "tasks: `one`, `two`"


def test_repeats_are_trials_and_judged_once(desk: Desk) -> None:
    """The verdict stands with the first."""
    result = desk.bring(desk.lines(MAPS, [generated(resps=[["B", "A", "B"]])]))
    assert (result.samples, result.tasks[0].num_trials, result.tasks[0].judged) == (1, 3, 1)
    assert desk.said("imported_score") == [1.0, None, None]
    desk.bring(write(desk, [details(said={"text": ["A", "B"]})]))
    assert desk.said("imported_score") == [1.0, None]


def test_older_logs_keep_arguments_as_lists_and_chats_as_texts(desk: Desk) -> None:
    """Both are prompts."""
    chat = '[{"role": "user", "content": "Which?"}]'
    rows = [
        generated(0, arguments=[["Old prompt", {"until": []}]]),
        generated(1, arguments={"gen_args_0": {"arg_0": [chat], "arg_1": {}}}),
    ]
    desk.bring(desk.lines(MAPS, rows))
    assert [prompt[0]["content"] for prompt in desk.said("prompt")] == ["Old prompt", "Which?"]


def test_a_task_without_choices_is_compared_as_text(desk: Desk) -> None:
    """Its truth is a text, and the import says so."""
    row = generated(doc={"question": "2 + 2?"}, target="4", resps=[["4"]], filtered_resps=["4"])
    result = desk.bring(desk.lines(MAPS, [row]))
    assert "the log lists no choices: replies are compared as texts" in result.notices[0].message
    assert "type: string_equals\n" in desk.text("run.yaml")


def test_what_cannot_be_imported_is_named(desk: Desk) -> None:
    """A torn line by its number, and left out if it may be; one log-probability chooses nothing."""
    log = desk.lines(MAPS, [generated(), generated(1)])
    log.write_bytes(log.read_bytes()[:-40])
    error = desk.refuse("not valid JSON", log)
    assert error.where is not None
    assert error.where.line == 2
    assert desk.bring(log, allow_failed="1").samples == 1
    desk.refuse(
        "the task is not multiple choice", desk.lines(MAPS, [ranked("-3.5", texts=(" word",))])
    )
    (desk.folder / "empty").mkdir()
    desk.refuse(r"contains no file `samples_\*.jsonl`", desk.folder / "empty", "lm-eval")
    desk.refuse("neither a reply nor a log-probability", write(desk, [details(said={"text": []})]))
    desk.refuse("it lacks some of the columns", write(desk, [{"a": 1}], "details_z.parquet"))


# lighteval

NAME = "details/org/model/time/details_leaderboard|arc|5_2026-01-31T10-00-00.000001.parquet"


def details(text: str = "B", **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a row as lighteval writes it."""
    query = "Which?\nA. one\nB. two\nAnswer:"
    doc = {"query": query, "choices": [" A", " B"], "gold_index": 1, "id": "7", "task_name": "arc"}
    reply = {"input": "Which?", "text": [text], "text_post_processed": ["B"], "logprobs": []}
    doc, reply = doc | fields.get("doc", {}), reply | fields.get("said", {})
    return {"doc": doc, "metric": {"acc": 1.0}, "model_response": reply}


def write(desk: Desk, rows: list[dict[str, Any]], name: str = NAME) -> Path:
    """Write a file of details."""
    path: Path = desk.write(name, "")
    pl.DataFrame(rows).write_parquet(path)
    return path


def test_a_row_of_details_is_a_question_and_a_reply(desk: Desk) -> None:
    """Choices that are labels leave the options to the prompt; the folders name the model."""
    log = write(desk, [details()])
    description = desk.bring(desk.folder / "details").tasks[0].description
    assert (description.task, description.score) == ("leaderboard|arc|5", "acc")
    columns = ("sample_id", "choices", "options", "answer")
    assert desk.asked(*columns) == [("7", ["A", "B"], ["one", "two"], "B")]
    assert desk.said("completion", "imported_score", "imported_answer") == [("B", 1.0, "B")]
    result = desk.bring(log)
    assert (result.kind, result.tasks[0].description.model) == ("lighteval", "org/model")


@pytest.mark.parametrize(
    ("query", "choices", "labels", "options"),
    [
        ("Which?", ["Q", "O"], ["A", "B"], ["Q", "O"]),
        ("Which?\nA. Q\nB. O", ["Q", "O"], ["A", "B"], ["Q", "O"]),
        ("Which?", ["A", "B"], ["A", "B"], None),
        ("Which?", ["1", "2"], ["1", "2"], None),
        ("Which?\nA. one\nB. two", ["A", "B"], ["A", "B"], ["one", "two"]),
    ],
)
def test_single_characters_are_labels_where_they_count_or_are_shown(
    desk: Desk, query: str, choices: list[str], labels: list[str], options: list[str] | None
) -> None:
    """Otherwise they are the options: of a question about letters, or of an amount."""
    desk.bring(write(desk, [details(doc={"query": query, "choices": choices})]))
    (row,) = desk.asked()
    assert row["question"] == "Which?"
    assert (row["choices"], row.get("options"), row["answer"]) == (labels, options, labels[1])


def test_other_options_in_the_prompt_stay_in_the_question(desk: Desk) -> None:
    """What the options are is then not known, and nothing is cut off."""
    desk.bring(write(desk, [details(doc={"choices": ["A", "B", "C"]})]))
    (row,) = desk.asked()
    assert (row["question"], row.get("options")) == ("Which?\nA. one\nB. two\nAnswer:", None)


def test_choices_by_log_probability_are_ranked(desk: Desk) -> None:
    """Texts of choices become options with letters."""
    reply = {"text": [], "text_post_processed": [], "logprobs": [-3.0, -1.0]}
    desk.bring(
        write(desk, [details(doc={"choices": [" Rome", " Bern"], "query": "Which?"}, said=reply)])
    )
    assert desk.asked("options") == [["Rome", "Bern"]]
    assert desk.said("completion", "imported_answer") == [("B", "B")]


CHAT = json.dumps(
    [{"role": "user", "content": "Tell me: Which?\nChoices:\n(A) Lyon\n(B) Paris\nLet's see:"}]
)
BODY = {"gen_args_0": {"arg_0": [CHAT], "arg_1": {"until": ["Q:"]}}}


@pytest.mark.parametrize(
    ("doc", "question"),
    [
        ({"Question": "Which?", "choice1": "Lyon", "choice2": "Paris", "answer": "(B)"}, "Which?"),
        ({"id": "m", "question": {"stem": "Which?", "choices": [{"text": "Lyon", "label": "A"},
          {"text": "Paris", "label": "B"}]}, "answerKey": "B"}, "Which?"),
        ({"input": "Which?\nOptions:\n(A) Lyon\n(B) Paris", "target": "(B)"}, "Which?"),
        ({"A": "Lyon", "B": "Paris", "query": "Which?", "answers": "none of these"}, "Which?"),
        ({"question": "Which?", "options": ["Paris", "Lyon"]}, "Which?"),
        ({"text": "Which?"}, "Which?"),
        ({}, "Tell me: Which?"),
    ],
)  # fmt: skip
def test_options_stand_in_columns_or_prompts(
    desk: Desk, doc: dict[str, Any], question: str
) -> None:
    """A truth may be in brackets; of two orders, that of the prompt is what the model saw."""
    desk.bring(desk.lines(MAPS, [generated(doc=doc, target="(B)", arguments=BODY, text="(B)")]))
    assert desk.asked("question", "options", "choices", "answer") == [
        (question, ["Lyon", "Paris"], ["A", "B"], "B")
    ]
    assert desk.said("imported_answer") == ["B"]


def test_continuations_that_are_letters_leave_the_options_to_the_prompt(desk: Desk) -> None:
    """A passage stays."""
    prompt = "Read: They met.\nWhich?\nA. Lyon\nB. Paris\nAnswer:"
    arguments = {
        f"gen_args_{n}": {"arg_0": prompt, "arg_1": f" {letter}"} for n, letter in enumerate("AB")
    }
    doc = {"question": "Which?", "context": "They met."}
    desk.bring(desk.lines(MAPS, [ranked(doc=doc, arguments=arguments)]))
    assert desk.asked("question", "passage", "options", "choices") == [
        ("Which?", "They met.", ["Lyon", "Paris"], ["A", "B"])
    ]
