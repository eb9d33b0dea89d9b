"""Laws that hold on logs which other tools really wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import answerkey as ak

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

FOLDER = Path(__file__).parents[4] / "shared" / "data"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the shared material is not here")


@pytest.mark.parametrize("name", ["mmlu-summary-choices", "mmlu-no-summary-choices"])
def test_logs_of_inspect_agree_with_our_verdicts(desk: Desk, name: str) -> None:
    """Its rule reads `ANSWER: C`, and so does ours; both say that C is wrong."""
    found = desk.bring(FOLDER / "inspect_logs" / f"{name}.eval")
    assert (found.kind, found.samples, found.tasks[0].their_mean) == ("inspect", 1, 0.0)
    assert found.tasks[0].description.reported["accuracy"] == 0.0
    task = ak.run(found.folder, out=desk.folder / "run").tasks["mmlu_0_shot"]
    assert task.metrics["Accuracy"].value == 0.0
    assert (task.totals["theirs"]["compared"], task.totals["theirs"]["both_wrong"]) == (1, 1)
    assert task.scores["string_equals_mcqa"][0]["metadata"]["predicted_choice"] == "C"
    assert desk.said("their_answer")[0] == "C"


@pytest.mark.parametrize(
    ("name", "samples", "judged", "right"),
    [
        ("Mixtral-8x7B-Instruct-v0.1", 12_032, 10_606, 5_040),
        ("Qwen1.5-7B-Chat", 12_032, 9_223, 3_181),
        ("gemini-1.5-flash-002", 12_012, 11_941, 7_699),
    ],
)
def test_outputs_of_mmlu_pro_are_read_from_the_archive(
    desk: Desk, name: str, samples: int, judged: int, right: int
) -> None:
    """Every row has a text, ten or fewer options, a category, and mostly a verdict."""
    found = desk.bring(FOLDER / "mmlu_pro_outputs" / f"model_outputs_{name}_5shots.zip")
    assert (found.kind, found.samples, found.tasks[0].judged) == ("mmlu-pro", samples, judged)
    assert found.tasks[0].statuses == {"OK": samples}
    assert round((found.tasks[0].their_mean or 0) * judged) == right
    rows = desk.asked()
    assert {len(row["choices"]) for row in rows} <= set(range(1, 11))
    assert len({row["category"] for row in rows}) == 14
    assert all(row["answer"] in row["choices"] for row in rows)
