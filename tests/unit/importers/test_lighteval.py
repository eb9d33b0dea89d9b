from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from answerkey.errors import DataError

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

NAME = "details_leaderboard|arc|5_2026-01-31T10-00-00.000001.parquet"


def row(text: str = "B", **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a row as lighteval writes it."""
    return {
        "doc": {
            "query": "Which?\nA. one\nB. two\nAnswer:",
            "choices": [" A", " B"],
            "gold_index": 1,
            "id": "7",
            "task_name": "arc",
            **fields.pop("doc", {}),
        },
        "metric": {"acc": 1.0, **fields.pop("metric", {})},
        "model_response": {
            "input": "Which?",
            "text": [text],
            "text_post_processed": ["B"],
            "logprobs": [],
            **fields.pop("said", {}),
        },
    }


def write(desk: Desk, rows: list[dict[str, Any]], name: str = f"details/org/model/time/{NAME}") -> Path:
    """Write a file of details."""
    path: Path = desk.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows).write_parquet(path)
    return path


def test_a_row_is_a_question_and_a_reply(desk: Desk) -> None:
    """Choices that are labels leave the options to the prompt; the folders name the model."""
    write(desk, [row()])
    found = desk.bring(desk.folder / "details")
    assert (found.kind, found.description.task, found.description.score) == (
        "lighteval",
        "leaderboard|arc|5",
        "acc",
    )
    asked = desk.dataset()[0]
    assert (asked["sample_id"], asked["choices"], asked["options"]) == ("7", ["A", "B"], ["one", "two"])
    assert asked["answer"] == "B"
    said = desk.completions()[0]
    assert (said["completion"], said["their_score"], said["their_answer"]) == ("B", 1.0, "B")


def test_a_file_alone_names_the_model_by_its_folders(desk: Desk) -> None:
    """They lie between `details` and the time."""
    assert desk.bring(write(desk, [row()])).description.model == "org/model"


def test_choices_by_log_probability_are_ranked(desk: Desk) -> None:
    """Texts of choices become options with letters."""
    log = write(
        desk,
        [
            row(
                doc={"choices": [" Rome", " Bern"], "query": "Which?"},
                said={"text": [], "text_post_processed": [], "logprobs": [-3.0, -1.0]},
            )
        ],
    )
    desk.bring(log)
    assert desk.dataset()[0]["options"] == ["Rome", "Bern"]
    said = desk.completions()[0]
    assert (said["completion"], said["their_answer"]) == ("B", "B")
    assert '"continuation": " Rome", "logprob": -3.0' in said["logprobs"]


def test_several_replies_are_trials_that_were_judged_once(desk: Desk) -> None:
    """The verdict is shown with the first."""
    found = desk.bring(write(desk, [row(said={"text": ["A", "B"]})]))
    assert found.num_trials == 2
    assert [line["their_score"] for line in desk.completions()] == [1.0, None]
    assert "judged once" in found.notices[0].message


def test_the_newest_files_of_each_task_are_read(desk: Desk) -> None:
    """Earlier ones are counted."""
    write(desk, [row("A")], "logs/details_arc_2026-01-01T00-00-00.parquet")
    write(desk, [row("B")], "logs/details_arc_2026-01-02T00-00-00.parquet")
    found = desk.bring(desk.folder / "logs")
    assert found.notices[0].message == "1 files of earlier runs are left aside"
    assert desk.completions()[0]["completion"] == "B"


def test_flat_columns_of_older_releases_are_read(desk: Desk) -> None:
    """By text, and by log-probability with whether it was the greedy choice."""
    old = {
        "full_prompt": "Which?",
        "choices": [" one", " two"],
        "gold_index": [1],
        "metrics": {"acc": 0.0},
        "predictions": ["two"],
    }
    desk.bring(write(desk, [old], "details_x.parquet"))
    assert (desk.dataset()[0]["answer"], desk.completions()[0]["completion"]) == ("B", "two")
    ranked = old | {"predictions": [[-2.0, 0.0], [-1.0, 1.0]]}
    desk.bring(write(desk, [ranked], "details_y.parquet"), out="ranked")
    assert desk.completions("ranked")[0]["completion"] == "B"


def test_rows_without_a_reply_and_other_tables_are_named(desk: Desk) -> None:
    """By their number in the file."""
    with pytest.raises(DataError, match="neither a reply nor a log-probability"):
        desk.bring(write(desk, [row(said={"text": []})]))
    with pytest.raises(DataError, match="nor older ones"):
        desk.bring(write(desk, [{"a": 1}], "details_z.parquet"))
