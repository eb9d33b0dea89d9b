from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from answerkey.errors import Problems

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

HEAD: dict[str, Any] = {
    "version": 2,
    "status": "success",
    "eval": {
        "eval_id": "e1",
        "task_id": "t1",
        "task": "evals/small",
        "task_display_name": "small",
        "model": "openai/some-model",
        "dataset": {"samples": 2, "sample_ids": [1, "two"]},
        "scorers": [{"name": "choice"}],
    },
    "results": {"scores": [{"name": "choice", "metrics": {"accuracy": {"value": 0.5}}}]},
}


def sample(
    name: int | str = 1,
    epoch: int = 1,
    text: str = "ANSWER: B",
    **fields: Any,  # noqa: ANN401
) -> dict[str, Any]:
    """Return a sample as Inspect writes it."""
    return {
        "id": name,
        "epoch": epoch,
        "input": f"Question {name}?",
        "choices": ["Paris", "Lyon"],
        "target": "B",
        "messages": [
            {"role": "user", "content": f"Pick: question {name}?"},
            {"role": "assistant", "content": text},
        ],
        "output": {
            "choices": [{"message": {"role": "assistant", "content": text}, "stop_reason": "stop"}],
            "completion": text,
            "usage": {"input_tokens": 10, "output_tokens": 3},
            "time": 0.5,
        },
        "scores": {"choice": {"value": "C", "answer": "B"}},
        "metadata": {"subject": "geography", "level": 3},
        "attachments": {},
        **fields,
    }


def lay_out(
    *samples: dict[str, Any], head: dict[str, Any] | None = HEAD
) -> list[tuple[str, object]]:
    """Return the members of a log."""
    members: list[tuple[str, object]] = [
        ("_journal/start.json", {"version": 2, "eval": HEAD["eval"]})
    ]
    members += [(f"samples/{entry['id']}_epoch_{entry['epoch']}.json", entry) for entry in samples]
    members += [("summaries.json", []), ("reductions.json", [])]
    return members if head is None else [*members, ("header.json", head)]


@pytest.mark.parametrize("method", [0, 8, 93])
def test_an_archive_becomes_questions_completions_and_verdicts(desk: Desk, method: int) -> None:
    """Whatever its members are compressed by."""
    log = desk.archive("log.eval", lay_out(sample(), sample("two", text="A")), method=method)
    result = desk.bring(log)
    assert (result.kind, result.samples, result.tasks[0].num_trials) == ("inspect", 2, 1)
    assert result.tasks[0].statuses == {"OK": 2}
    description = result.tasks[0].description
    assert (description.task, description.model, description.score) == (
        "small",
        "openai/some-model",
        "choice",
    )
    assert (result.tasks[0].imported_mean, result.notices) == (1.0, ())
    assert desk.asked()[0] == {
        "sample_id": "1",
        "question": "Question 1?",
        "options": ["Paris", "Lyon"],
        "choices": ["A", "B"],
        "answer": "B",
        "category": "geography",
        "original": {"subject": "geography", "level": 3},
    }
    assert desk.said()[1] == {
        "sample_id": "two",
        "trial": 0,
        "completion": "A",
        "completion_status": "OK",
        "imported_score": 1.0,
        "imported_answer": "B",
        "finish_reason": "stop",
        "prompt_tokens": 10,
        "completion_tokens": 3,
        "latency": 0.5,
        "prompt": [{"role": "user", "content": "Pick: question two?"}],
    }


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_log_says_the_same(desk: Desk, indent: int | None) -> None:
    """Its samples are a list inside one object."""
    samples = [sample(), sample("two", text="A")]
    first = desk.bring(desk.archive("log.eval", lay_out(*samples)))
    tables = desk.asked(), desk.said()
    content = {**HEAD, "samples": samples, "reductions": [{"samples": [1]}]}
    second = desk.bring(desk.write("log.json", json.dumps(content, indent=indent)))
    assert first.tasks[0].description == second.tasks[0].description
    assert first.tasks[0].statuses == second.tasks[0].statuses
    assert (desk.asked(), desk.said()) == tables


def test_an_interrupted_run_is_read_as_far_as_it_came(desk: Desk) -> None:
    """There is no header: the journal's start says what was to be run."""
    result = desk.bring(desk.archive("log.eval", lay_out(sample(), head=None)))
    assert (result.samples, result.tasks[0].description.task) == (1, "small")
    assert result.tasks[0].description.score == "choice"
    assert [notice.message for notice in result.notices] == [
        "the log has no end, because its run was interrupted",
        "the log has 1 of 2 samples",
    ]


def test_epochs_are_trials(desk: Desk) -> None:
    """They come in any order; one that is missing is told, and an ERROR."""
    samples = [sample(1, 2, "B two"), sample("two", 1, "B"), sample(1, 1, "B one")]
    result = desk.bring(desk.archive("log.eval", lay_out(*samples)))
    assert (result.samples, result.tasks[0].num_trials) == (2, 2)
    rows = [("1", 0, "B one"), ("1", 1, "B two"), ("two", 0, "B"), ("two", 1, None)]
    assert desk.said("sample_id", "trial", "completion") == rows
    assert "1 completions are not in the log" in result.notices[0].message
    assert "num_trials: 2" in desk.text("run.yaml")


def test_a_sample_that_was_written_anew_counts_once(desk: Desk) -> None:
    """The last one."""
    log = desk.archive("log.eval", lay_out(sample(text="old"), sample("two"), sample(text="new")))
    desk.bring(log)
    assert desk.said("completion") == ["new", "ANSWER: B"]


def test_attachments_are_put_back(desk: Desk) -> None:
    """In the question, the reply and the prompt.

    One that is not there spoils its sample, which is named.
    """
    first = sample(
        input="attachment://h1",
        messages=[
            {"role": "user", "content": "attachment://h1"},
            {"role": "assistant", "content": "x"},
        ],
        output={
            "completion": "attachment://h2",
            "choices": [{"message": {"content": "attachment://h2"}}],
        },
        attachments={"h1": "A long question?", "h2": "B, at length"},
    )
    log = desk.archive("log.eval", lay_out(first, sample("two", input="attachment://gone")))
    error = desk.refuse("the attachment `attachment://gone` is not in the log", log)
    assert error.where is not None
    assert str(error.where.file).endswith("log.eval/samples/two_epoch_1.json")
    assert desk.bring(log, allow_failed="1").damaged == 1
    assert desk.asked("question") == ["A long question?"]
    prompt = [{"role": "user", "content": "A long question?"}]
    assert desk.said("completion", "prompt") == [("B, at length", prompt)]


def test_what_became_of_a_question_is_told_apart(desk: Desk) -> None:
    """A call that failed, a reply without text and a refusal are no answers.

    An empty reply is one.
    """
    nothing: dict[str, Any] = {"choices": [], "completion": ""}
    refusal = [{"type": "text", "text": "no", "refusal": True}]
    filtered = {"choices": [{"message": {"content": ""}, "stop_reason": "content_filter"}]}
    cases: list[tuple[dict[str, Any], str | None, str]] = [
        (nothing, "it broke", "ERROR"),
        (nothing, None, "OK"),
        ({"choices": [{"message": {"content": None}, "stop_reason": "stop"}]}, None, "NO_TEXT"),
        (filtered, None, "REFUSED"),
        ({"choices": [{"message": {"content": refusal}}]}, None, "REFUSED"),
        ({"choices": [{"message": {"content": "B"}}], "completion": "B"}, "late", "OK"),
    ]
    samples = [
        sample(number, output=output, error=error and {"message": error})
        for number, (output, error, _) in enumerate(cases)
    ]
    desk.bring(desk.archive("log.eval", lay_out(*samples)))
    assert desk.said("completion_status") == [status for _, _, status in cases]


def test_their_scores_are_numbers_as_inspect_reads_them(desk: Desk) -> None:
    """What is no single value is no verdict."""
    values: list[tuple[object, float | None]] = [
        *(("C", 1.0), ("I", 0.0), ("P", 0.5), ("N", 0.0), ("yes", 1.0), ("no", 0.0)),
        *((0.25, 0.25), (True, 1.0), ("0.5", 0.5), ({"a": 1}, None), ("what", None)),
    ]
    samples = [
        sample(number, scores={"choice": {"value": value, "answer": "B"}})
        for number, (value, _) in enumerate(values)
    ]
    desk.bring(desk.archive("log.eval", lay_out(*samples)))
    assert desk.said("imported_score") == [score for _, score in values]


def test_one_of_several_scores_is_chosen(desk: Desk) -> None:
    """The first, or the one that the caller names; another is refused by name."""
    verdicts = {"match": {"value": "I", "answer": "x"}, "choice": {"value": "C", "answer": "B"}}
    scores = [{"name": "match", "metrics": {}}, {"name": "choice", "metrics": {}}]
    log = desk.archive(
        "log.eval", lay_out(sample(scores=verdicts), head={**HEAD, "results": {"scores": scores}})
    )
    desk.bring(log)
    assert desk.said("imported_score") == [0.0]
    desk.bring(log, score="choice")
    assert desk.said("imported_score") == [1.0]
    desk.refuse("the log has no score `other`", log, score="other")


def test_questions_come_in_many_forms(desk: Desk) -> None:
    """Messages are asked by their last user; several right letters are refused, or left out."""
    parts = [{"type": "text", "text": "Which"}, {"type": "text", "text": "one?"}]
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": parts}]
    log = desk.archive(
        "log.eval", lay_out(sample("two", target=["B"], input=messages), sample(target=["A", "B"]))
    )
    error = desk.refuse("1 of 2 questions have several right letters", log)
    assert error.hint == "`--single-answers` leaves them out and imports the other 1"
    result = desk.bring(log, single_answers=True)
    assert "1 questions with several right letters are left out" in result.notices[-1].message
    assert desk.asked("question", "answer") == [("Which\none?", "B")]
    several = desk.archive("all.eval", lay_out(sample(target=["A", "B"])))
    desk.refuse("1 of 1 questions", several, single_answers=True)


def test_thoughts_stand_apart_from_the_reply(desk: Desk) -> None:
    """Only the text is scored."""
    content = [{"type": "reasoning", "reasoning": "A? no"}, {"type": "text", "text": "B"}]
    output = {"choices": [{"message": {"content": content}}], "completion": "B"}
    desk.bring(desk.archive("log.eval", lay_out(sample(output=output))))
    assert desk.said("completion", "reasoning") == [("B", "A? no")]


def test_broken_members_are_named_and_counted(desk: Desk) -> None:
    """All of them at once; nothing is written unless they may be left out."""
    members = [*lay_out(sample()), ("samples/2_epoch_1.json", b'{"id": 2')]
    members += [("samples/3_epoch_1.json", [1])]
    log = desk.archive("log.eval", members)
    error = desk.refuse("not valid JSON", log)
    assert isinstance(error, Problems)
    assert [problem.code for problem in error.errors] == ["E202", "E202"]
    assert error.errors[1].message == "the sample has no `id`"
    result = desk.bring(log, allow_failed="70%")
    assert (result.samples, result.damaged) == (1, 2)


def test_a_folder_with_one_log_is_that_log(desk: Desk) -> None:
    """Of several, each is a task; one of them can be named."""
    (desk.folder / "logs").mkdir()
    desk.archive("logs/a.eval", lay_out(sample()))
    assert desk.bring(desk.folder / "logs").samples == 1
    desk.archive("logs/b.eval", lay_out(sample("two")))
    renamed = {**HEAD["eval"], "task_display_name": "other"}
    desk.json("logs/c.json", {**HEAD, "eval": renamed, "samples": [sample("three")]})
    desk.json("logs/beside.json", {"no": "log"})
    result = desk.bring(desk.folder / "logs")
    assert [task.key for task in result.tasks] == ["small", "small-2", "other"]
    assert [desk.asked("sample_id", task=task.key) for task in result.tasks] == [
        ["1"],
        ["two"],
        ["three"],
    ]
    assert [task.key for task in desk.bring(desk.folder / "logs", task="other").tasks] == ["other"]
    assert desk.bring(desk.folder / "logs", task="small").samples == 2


def test_questions_with_the_same_id_stay_apart(desk: Desk) -> None:
    """A sample that was written anew is the same question."""
    samples = [sample("x", input=f"{word}?") for word in ("One", "Two", "Three", "Two")]
    desk.bring(desk.json("log.json", {**HEAD, "samples": samples}))
    assert desk.asked("sample_id", "question") == [
        ("x", "One?"),
        ("x#2", "Two?"),
        ("x#3", "Three?"),
    ]


def test_a_scorer_with_several_values_has_several_scores(desk: Desk) -> None:
    """The first is taken, unless one is named."""
    scores = {"mine": {"value": {"a": 1.0, "b": 0.0}, "answer": "B"}}
    head = {**HEAD, "results": {"scores": [{"name": name, "metrics": {}} for name in "ab"]}}
    log = desk.json("log.json", {**head, "samples": [sample(scores=scores)]})
    assert desk.bring(log).tasks[0].description.score == "a"
    assert desk.said("imported_score", "imported_answer") == [(1.0, "B")]
    desk.bring(log, score="b")
    assert desk.said("imported_score") == [0.0]
    desk.refuse("the log has no score `c`", log, score="c")
    desk.bring(
        desk.json("bare.json", {**HEAD, "results": None, "samples": [sample(scores=scores)]})
    )
    assert desk.said("imported_score") == [1.0]


def test_a_log_of_2024_is_recognised(desk: Desk) -> None:
    """It has no `eval_id`."""
    about = {name: value for name, value in HEAD["eval"].items() if name != "eval_id"}
    head = {**HEAD, "eval": {"run_id": "r1", **about}}
    assert desk.bring(desk.json("old.json", {**head, "samples": [sample()]})).kind == "inspect"


def test_a_log_without_samples_is_refused(desk: Desk) -> None:
    """Summaries alone say not what was said, and neither does an archive without members."""
    desk.refuse("the log has no samples", desk.archive("log.eval", lay_out()))
    (desk.folder / "none.eval").write_bytes(b"PK\x03\x04" + b"PK\x05\x06" + bytes(18))
    desk.refuse("the log has no samples", desk.folder / "none.eval", "inspect")
