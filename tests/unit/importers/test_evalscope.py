from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from answerkey.errors import DataError, Problems

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

PROMPT = "Which?\nA) one\nB) two"


def prediction(index: int = 0, text: str = "ANSWER: B", **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a line of predictions."""
    choice = {"message": {"role": "assistant", "content": text}, "stop_reason": "stop"}
    return {
        "index": index,
        "model": "some-model",
        "model_output": {"choices": [choice], "usage": {"input_tokens": 9, "output_tokens": 2}, "time": 0.5},
        "messages": [{"role": "user", "content": PROMPT}, {"role": "assistant", "content": text}],
        **fields,
    }


def review(index: int = 0, value: float = 1.0, **score: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a line of reviews."""
    return {
        "index": index,
        "target": "B",
        "messages": [{"role": "user", "content": PROMPT}],
        "sample_score": {
            "score": {
                "value": {"accuracy": value},
                "extracted_prediction": "B",
                "prediction": "ANSWER: B",
                "main_score_name": "accuracy",
            },
            "sample_id": index,
            "sample_metadata": {"subject": "maps"},
            **score,
        },
    }


def write_run(desk: Desk, **files: list[dict[str, Any]]) -> Path:
    """Write the folder of a run: `predictions` and `reviews` of one set."""
    folder: Path = desk.folder / "20260131_100000"
    for part, rows in files.items():
        (folder / part / "some-model").mkdir(parents=True, exist_ok=True)
        desk.lines(f"20260131_100000/{part}/some-model/arc_easy.jsonl", rows)
    return folder


def test_predictions_and_reviews_are_joined_by_their_index(desk: Desk) -> None:
    """Whatever the order of their lines; the options are read in the prompt."""
    log = write_run(
        desk, predictions=[prediction(1, "A"), prediction(0)], reviews=[review(0), review(1, 0.0)]
    )
    found = desk.bring(log)
    assert (found.kind, found.description.task, found.description.model) == (
        "evalscope",
        "arc_easy",
        "some-model",
    )
    assert (found.description.score, found.their_mean) == ("accuracy", 0.5)
    assert desk.dataset()[0] == {
        "sample_id": "1",
        "question": "Which?",
        "options": ["one", "two"],
        "choices": ["A", "B"],
        "answer": "B",
        "original": '{"subject": "maps"}',
    }
    said = desk.completions()[0]
    assert (said["completion"], said["their_score"], said["finish_reason"]) == ("A", 0.0, "stop")
    assert (said["prompt_tokens"], said["completion_tokens"], said["latency"]) == (9, 2, 0.5)


def test_reviews_alone_have_the_text_too(desk: Desk) -> None:
    """Older ones have `input` in place of `messages`."""
    old = review()
    old["input"] = old.pop("messages")[0]["content"]
    found = desk.bring(desk.lines("arc_easy.jsonl", [old]))
    assert (found.kind, desk.completions()[0]["completion"]) == ("evalscope", "ANSWER: B")
    assert desk.dataset()[0]["options"] == ["one", "two"]


def test_repeats_are_trials(desk: Desk) -> None:
    """A group is a question, a generation one reply to it."""
    rows = [review(0, group_id=5, generation_index=0), review(1, 0.0, group_id=5, generation_index=1)]
    found = desk.bring(write_run(desk, predictions=[prediction(0), prediction(1)], reviews=rows))
    assert (found.samples, found.num_trials) == (1, 2)
    assert [line["their_score"] for line in desk.completions()] == [1.0, 0.0]


def test_failed_calls_and_thoughts_are_told_apart_from_text(desk: Desk) -> None:
    """An output with an error and no text is an ERROR."""
    failed = prediction(0)
    failed["model_output"] = {"choices": [], "error": "timeout"}
    parts = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "B"}]
    thought = prediction(1)
    thought["model_output"]["choices"][0]["message"]["content"] = parts
    desk.bring(write_run(desk, predictions=[failed, thought], reviews=[review(0), review(1)]))
    lines = desk.completions()
    assert [(line["completion_status"], line["error"]) for line in lines] == [
        ("ERROR", "timeout"),
        ("OK", None),
    ]
    assert (lines[1]["completion"], lines[1]["reasoning"]) == ("B", "hm")


def test_reviews_without_a_prediction_are_told(desk: Desk) -> None:
    """And so are predictions without a review."""
    found = desk.bring(write_run(desk, predictions=[prediction(0)], reviews=[review(0), review(1)]))
    assert found.notices[0].message == "`arc_easy`: 2 reviews, 1 of them with a prediction"


def test_lines_that_cannot_be_read_are_named(desk: Desk, tmp_path: Path) -> None:
    """By file and line."""
    log = write_run(desk, predictions=[prediction(0)], reviews=[review(0)])
    with (log / "predictions/some-model/arc_easy.jsonl").open("a") as file:
        file.write('{"model": "x"}\n{"index": 3,\n')
    with pytest.raises(Problems) as caught:
        desk.bring(log)
    assert [one.message[:24] for one in caught.value.errors] == [
        "the line has no `index`",
        "not valid JSON: expectin",
    ]
    assert str(caught.value.errors[1].where).endswith("arc_easy.jsonl:3")
    assert tmp_path.joinpath("out").exists() is False


def test_several_models_are_refused(desk: Desk) -> None:
    """One log is of one model."""
    log = write_run(desk, predictions=[prediction(0)], reviews=[review(0)])
    (log / "reviews/other").mkdir()
    desk.lines("20260131_100000/reviews/other/arc_easy.jsonl", [review(0)])
    with pytest.raises(DataError, match="several models: `other`, `some-model`"):
        desk.bring(log)
