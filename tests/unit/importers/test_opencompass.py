from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from answerkey.errors import DataError

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

PROMPT = "Which?\nA. one\nB. two\nAnswer: "


def row(text: str = "B", **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a question of a file of predictions."""
    return {"origin_prompt": [{"role": "HUMAN", "prompt": PROMPT}], "prediction": text, "gold": "B", **fields}


def write(desk: Desk, path: str, content: object) -> Path:
    """Write a file of a run."""
    (desk.folder / path).parent.mkdir(parents=True, exist_ok=True)
    found: Path = desk.json(path, content)
    return found


def test_a_file_is_an_object_of_questions(desk: Desk) -> None:
    """Its results say how they were judged, in one of several forms."""
    write(desk, "run/predictions/m/arc.json", {"0": row(), "1": row("I say A")})
    details = {
        "type": "GEN",
        "0": {"predictions": "B", "references": "B", "correct": True},
        "1": {"predictions": "A", "references": "B", "correct": [False]},
    }
    write(desk, "run/results/m/arc.json", {"accuracy": 50.0, "details": details})
    found = desk.bring(desk.folder / "run")
    assert (found.kind, found.description.task, found.description.model) == ("opencompass", "arc", "m")
    assert desk.dataset()[1] == {
        "sample_id": "1",
        "question": "Which?",
        "options": ["one", "two"],
        "choices": ["A", "B"],
        "answer": "B",
    }
    told = [(line["their_score"], line["their_answer"]) for line in desk.completions()]
    assert told == [(1.0, "B"), (0.0, "A")]


def test_one_file_finds_its_results_and_is_recognised_by_its_head(desk: Desk) -> None:
    """Details may be a list, and without `correct`."""
    log = write(desk, "run/predictions/m/arc.json", {"0": row("A")})
    write(desk, "run/results/m/arc.json", {"details": [{"pred": "A", "refr": "B"}]})
    assert desk.bring(log).their_mean == 0.0
    alone = write(desk, "alone.json", {"0": row()})
    found = desk.bring(alone, out="other")
    assert (found.kind, found.judged, found.description.task) == ("opencompass", 0, "alone")


def test_split_files_are_one_dataset(desk: Desk) -> None:
    """Their numbers go on; unfinished ones are left aside and counted."""
    write(desk, "run/predictions/m/arc_0.json", {"0": row("x"), "1": row("y")})
    write(desk, "run/predictions/m/arc_1.json", {"0": row("z")})
    write(desk, "run/predictions/m/tmp_arc_1.json", {"0": row("w")})
    write(desk, "run/predictions/m/mmlu_7.json", {"0": row("v")})
    found = desk.bring(desk.folder / "run")
    assert [line["completion"] for line in desk.completions()] == ["x", "y", "z", "v"]
    assert [line["sample_id"] for line in desk.dataset()] == ["arc/0", "arc/1", "arc/2", "mmlu_7/0"]
    assert "1 files `tmp_*`" in found.notices[0].message


def test_labels_that_were_asked_one_by_one_are_the_choices(desk: Desk) -> None:
    """The prediction is the likeliest."""
    one = {
        "label: A": {"testing input": "Which?", "PPL": 2.0},
        "label: B": {"PPL": 1.0},
        "prediction": "B",
        "gold": "A",
    }
    found = desk.bring(write(desk, "ppl.json", {"0": one}))
    assert (found.kind, desk.dataset()[0]["choices"], desk.dataset()[0]["answer"]) == (
        "opencompass",
        ["A", "B"],
        "A",
    )


def test_questions_without_a_prediction_and_several_models_are_refused(desk: Desk) -> None:
    """With the place; nothing is written."""
    with pytest.raises(DataError, match="the question has no `prediction`"):
        desk.bring(write(desk, "x.json", {"0": {"origin_prompt": "a"}}))
    write(desk, "run/predictions/m/arc.json", {"0": row()})
    write(desk, "run/predictions/n/arc.json", {"0": row()})
    with pytest.raises(DataError, match="several models: `m`, `n`"):
        desk.bring(desk.folder / "run")
