"""Logs of evalscope and of OpenCompass."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.importers.conftest import WHICH

from answerkey.errors import Problems

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

PROMPT = "Which?\nA) one\nB) two"


def prediction(index: int = 0, text: object = "ANSWER: B", **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a line of evalscope's predictions."""
    choice = {"message": {"role": "assistant", "content": text}, "stop_reason": "stop"}
    return {
        "index": index,
        "model": "some-model",
        "model_output": {
            "choices": [choice],
            "usage": {"input_tokens": 9, "output_tokens": 2},
            "time": 0.5,
        },
        "messages": [{"role": "user", "content": PROMPT}, {"role": "assistant", "content": text}],
        **fields,
    }


def review(index: int = 0, value: float = 1.0, **score: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a line of evalscope's reviews."""
    judged = {"value": {"accuracy": value}, "extracted_prediction": "B", "prediction": "ANSWER: B"}
    judged["main_score_name"] = "accuracy"
    metadata = {"sample_id": index, "sample_metadata": {"subject": "maps"}}
    messages = [{"role": "user", "content": PROMPT}]
    return {
        "index": index,
        "target": "B",
        "messages": messages,
        "sample_score": {"score": judged, **metadata, **score},
    }


def write_run(desk: Desk, **files: list[dict[str, Any]]) -> Path:
    """Write the folder of a run: `predictions` and `reviews` of one set."""
    for part, rows in files.items():
        desk.lines(f"run/{part}/some-model/arc_easy.jsonl", rows)
    return desk.folder / "run"


def test_predictions_and_reviews_are_joined_by_their_index(desk: Desk) -> None:
    """Whatever the order of their lines; the options are read in the prompt."""
    predictions, reviews = [prediction(1, "A"), prediction(0)], [review(0), review(1, 0.0)]
    result = desk.bring(write_run(desk, predictions=predictions, reviews=reviews))
    about = result.tasks[0].description
    assert (result.kind, about.task, about.model) == ("evalscope", "arc_easy", "some-model")
    assert (about.score, result.tasks[0].imported_mean) == ("accuracy", 0.5)
    assert desk.asked()[0] == {"sample_id": "1", **WHICH, "original": {"subject": "maps"}}
    names = "completion imported_score finish_reason prompt_tokens completion_tokens latency"
    columns = names.split()
    assert desk.said(*columns)[0] == ("A", 0.0, "stop", 9, 2, 0.5)


def test_reviews_alone_have_the_text_too(desk: Desk) -> None:
    """Older ones have `input` in place of `messages`."""
    old = review()
    old["input"] = old.pop("messages")[0]["content"]
    assert desk.bring(desk.lines("arc_easy.jsonl", [old])).kind == "evalscope"
    assert (desk.said("completion"), desk.asked("options")) == (["ANSWER: B"], [["one", "two"]])


def test_repeats_are_trials(desk: Desk) -> None:
    """A group is a question, a generation one reply to it."""
    rows = [review(0, group_id=5, generation_index=0)]
    rows += [review(1, 0.0, group_id=5, generation_index=1)]
    result = desk.bring(write_run(desk, predictions=[prediction(0), prediction(1)], reviews=rows))
    assert (result.samples, result.tasks[0].num_trials) == (1, 2)
    assert desk.said("imported_score") == [1.0, 0.0]


def test_failed_calls_and_thoughts_are_told_apart_from_text(desk: Desk) -> None:
    """An output with an error and no text is an ERROR."""
    failed = prediction(0, model_output={"choices": [], "error": "timeout"})
    thought = prediction(
        1, [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "B"}]
    )
    desk.bring(write_run(desk, predictions=[failed, thought], reviews=[review(0), review(1)]))
    columns = ("completion_status", "error", "completion", "reasoning")
    assert desk.said(*columns) == [("ERROR", "timeout", None, None), ("OK", None, "B", "hm")]


def test_what_does_not_fit_together_is_told(desk: Desk) -> None:
    """A review without a prediction, lines that cannot be read, and several models."""
    log = write_run(desk, predictions=[prediction(0)], reviews=[review(0), review(1)])
    desk.refuse("the file of reviews states 2 predictions, but the log holds 1", log)
    assert desk.bring(log, allow_failed="1").samples == 1
    with (log / "predictions/some-model/arc_easy.jsonl").open("a") as file:
        file.write('{"model": "x"}\n{"index": 3,\n')
    error = desk.refuse("the line has no `index`", log)
    assert isinstance(error, Problems)
    assert str(error.errors[1].where).endswith("arc_easy.jsonl:3")
    desk.lines("run/reviews/other/arc_easy.jsonl", [review(0)])
    desk.refuse("several models: `other`, `some-model`", log)


# OpenCompass


def row(text: str = "B", **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a question of a file of OpenCompass's predictions."""
    return {
        "origin_prompt": [{"role": "HUMAN", "prompt": PROMPT}],
        "prediction": text,
        "gold": "B",
        **fields,
    }


@pytest.mark.parametrize(
    "details",
    [
        {
            "type": "GEN",
            "0": {"predictions": "B", "references": "B", "correct": True},
            "1": {"predictions": "A", "references": "B", "correct": [False]},
        },
        [{"pred": "B", "refr": "B"}, {"pred": "A", "refr": "B"}],
    ],
)
def test_a_file_is_an_object_of_questions(desk: Desk, details: object) -> None:
    """Its results say how they were judged, in one of several forms."""
    desk.json("run/predictions/m/arc.json", {"0": row(), "1": row("I say A")})
    desk.json("run/results/m/arc.json", {"accuracy": 50.0, "details": details})
    result = desk.bring(desk.folder / "run")
    description = result.tasks[0].description
    assert (result.kind, description.task, description.model) == ("opencompass", "arc", "m")
    assert desk.asked()[1] == {"sample_id": "1", **WHICH}
    assert desk.said("imported_score", "imported_answer") == [(1.0, "B"), (0.0, "A")]


def test_split_files_are_one_dataset(desk: Desk) -> None:
    """Their numbers go on; unfinished ones are left aside."""
    files = {"arc_0": "xy", "arc_1": "z", "tmp_arc_1": "w", "mmlu_7": "v"}
    for name, texts in files.items():
        rows = {str(number): row(text) for number, text in enumerate(texts)}
        desk.json(f"run/predictions/m/{name}.json", rows)
    desk.bring(desk.folder / "run")
    assert desk.said("sample_id", "completion", task="arc") == [("0", "x"), ("1", "y"), ("2", "z")]
    assert desk.said("sample_id", "completion", task="mmlu_7") == [("0", "v")]


def test_labels_that_were_asked_one_by_one_are_the_choices(desk: Desk) -> None:
    """The prediction is the likeliest."""
    labels = {"label: A": {"testing input": "Which?", "PPL": 2.0}, "label: B": {"PPL": 1.0}}
    result = desk.bring(desk.json("ppl.json", {"0": {**labels, "prediction": "B", "gold": "A"}}))
    assert (result.kind, result.tasks[0].judged) == ("opencompass", 0)
    assert result.tasks[0].description.task == "ppl"
    assert desk.asked("choices", "answer") == [(["A", "B"], "A")]


def test_questions_without_a_prediction_and_several_models_are_refused(desk: Desk) -> None:
    """With the place; nothing is written."""
    log = desk.json("x.json", {"0": {"origin_prompt": "a"}})
    desk.refuse("the question has no `prediction`", log)
    for model in "mn":
        desk.json(f"run/predictions/{model}/arc.json", {"0": row()})
    desk.refuse("several models: `m`, `n`", desk.folder / "run")
