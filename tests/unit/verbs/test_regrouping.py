"""Laws of metrics that are measured again, by other groups and clusters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import answerkey as ak
from answerkey.errors import DataError, Problems, RunError
from answerkey.evaluate import regroup

SCORER = {"type": "string_equals_mcqa", "ground_truth_choice": "{{ sample.answer }}", "choices": ["A", "B"]}
ROWS = [
    {"answer": "A", "completion": said, "passage": passage, "level": level}
    for said, passage, level in zip("AABBABAABB", "aabbccddee", [1, 2] * 5, strict=True)
]


def make_run(folder: Path, **definition: object) -> ak.Run:
    """Return a finished run of the rows."""
    task: dict[str, Any] = {"key": "quiz", "display_name": "Quiz", "description": ""}
    task["definition"] = {"scorers": [SCORER], **definition}
    (folder / "task.yaml").write_text(json.dumps(task))
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return ak.run(folder / "task.yaml", dataset=str(folder / "rows.jsonl"), out=folder / "run")


def test_groups_and_clusters_are_those_of_a_task_that_names_them(tmp_path: Path) -> None:
    """Measured again or from the start, the values are the same, bit for bit."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    plain = make_run(tmp_path / "a")
    named = make_run(tmp_path / "b", group_by="level", cluster_by="passage")
    again = regroup(plain, group_by=["level"], cluster_by="passage")
    assert again.metrics == named.metrics
    assert plain.metrics["Accuracy"].groups == ()


def test_groups_survive_the_folder(tmp_path: Path) -> None:
    """What is read back is what was measured."""
    run = make_run(tmp_path, group_by=["level", "passage"], cluster_by="passage")
    value = run.metrics["Accuracy"]
    assert [groups.column for groups in value.groups] == ["level", "passage"]
    assert [one.group for one in value.groups[0].values] == ["1", "2"]
    assert ak.load_run(tmp_path / "run").metrics == run.metrics


def test_the_correction_can_be_left_out(tmp_path: Path) -> None:
    """Five clusters: √(4/5) of the corrected error."""
    run = make_run(tmp_path, cluster_by="passage")
    plain = regroup(run, is_corrected=False).metrics["Accuracy"]
    corrected = run.metrics["Accuracy"].std_error or 0
    assert plain.std_error == pytest.approx(corrected * (4 / 5) ** 0.5, rel=1e-13)
    assert plain.details["clusters_corrected"] is False


def test_a_metric_may_have_its_own_design(tmp_path: Path) -> None:
    """What a metric says wins over the task."""
    metrics = [
        {"type": "mean", "field": "is_correct", "name": "own", "cluster_by": "level", "group_by": []},
        {"type": "mean", "field": "is_correct", "name": "usual"},
    ]
    run = make_run(tmp_path, cluster_by="passage", group_by="level", scorers=[{**SCORER, "metrics": metrics}])
    own, usual = run.metrics["own"], run.metrics["usual"]
    assert (own.details["cluster_by"], own.groups) == ("level", ())
    assert (usual.details["cluster_by"], len(usual.groups)) == ("passage", 1)


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Before anything runs, at its place in the task; and when it is asked for later."""
    with pytest.raises(DataError, match="`cluster_by` names the column `passge`") as caught:
        make_run(tmp_path, cluster_by="passge")
    assert caught.value.hint == "did you mean `passage`?"
    assert caught.value.where is not None
    assert str(caught.value.where.file).endswith("task.yaml")
    run = make_run(tmp_path)
    with pytest.raises(DataError, match="has no column `levl`"):
        regroup(run, group_by=["levl"])


def test_several_columns_that_are_not_there_are_all_named(tmp_path: Path) -> None:
    """Each is an error of its own."""
    with pytest.raises(Problems) as caught:
        make_run(tmp_path, cluster_by="x", group_by=["y"])
    assert {error.code for error in caught.value.errors} == {"E206"}
    assert len(caught.value.errors) == 2


def test_without_the_dataset_nothing_can_be_grouped(tmp_path: Path) -> None:
    """The labels are in the file, not in the run."""
    run = make_run(tmp_path)
    (tmp_path / "rows.jsonl").unlink()
    with pytest.raises(RunError, match="cannot be opened again"):
        regroup(run, group_by=["level"])
