"""What is read part by part says the same as what is read at once."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl
import pytest

import answerkey as ak
from answerkey.evaluate import prepare, rerun
from answerkey.exporters import FORMS, PARQUET, export_rows
from answerkey.reports import explain, view
from answerkey.reports.explain import explain_sample
from answerkey.runs import Run

SCORER = {"type": "string_equals_mcqa", "ground_truth_choice": "{{ sample.answer }}", "choices": ["A", "B"]}
TASK = {"key": "quiz", "display_name": "Quiz", "description": "q", "definition": {"scorers": [SCORER]}}
ROWS = [
    {"sample_id": f"s{n}", "answer": "E" if n % 9 == 8 else "AB"[n % 2], "completion": "ABX"[n % 3]}
    for n in range(50)
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a run in shards of seven rows."""
    monkeypatch.setattr(prepare, "SHARD_ROWS", 7)
    (tmp_path / "task.yaml").write_text(str(TASK))
    pl.DataFrame(ROWS).write_parquet(tmp_path / "rows.parquet")
    dataset = str(tmp_path / "rows.parquet")
    return ak.run(tmp_path / "task.yaml", dataset=dataset, out=tmp_path / "run", allow_failed=5)


@pytest.mark.parametrize("form", FORMS)
def test_an_export_does_not_depend_on_how_much_is_read_at_once(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """JSON Lines, CSV and Parquet have the same rows in the same order."""
    written: list[object] = []
    for count in (1000, 4):
        monkeypatch.setattr(rerun, "READ_TOGETHER", count)
        file = tmp_path / f"{count}.{form}"
        found = export_rows(run, form, task_key=None, file=str(file), stream=io.StringIO())
        assert found.rows + found.left_out == 50
        written.append(pl.read_parquet(file).to_dicts() if form == PARQUET else file.read_text())
    assert written[0] == written[1]


def test_a_sample_is_found_in_any_part(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`explain` reads the part that has the sample, and shows its own row, completion and verdict."""
    monkeypatch.setattr(explain, "READ_IDS", 5)
    for place in (0, 6, 7, 23, 49):
        (found,) = explain_sample(run, f"s{place}")
        assert found["sample"]["sample_id"] == f"s{place}"
        assert found["completion"] == "ABX"[place % 3]
        (score,) = found["scores"].values()
        assert score["metadata"]["ground_truth_choice"] == "AB"[place % 2]
    with pytest.raises(ak.RunError, match="there is no sample `s50`"):
        explain_sample(run, "s50")


def test_failed_samples_of_all_parts_are_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of them are shown, in the order of the dataset."""
    monkeypatch.setattr(view, "READ_TOGETHER", 5)
    assert "s8, s17, s26, s35, s44" in str(run)
