"""Columns that are made never take the place of the user's own unseen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import answerkey
from answerkey.cli import main
from answerkey.datasets.sources import FolderSource
from answerkey.errors import DataError

HEAD = "question,A,B,C,D,answer"
ROWS = ["2+2?,4,5,6,7,A", "Capital of France?,Rome,Paris,Oslo,Bern,B"]


def write_csv(path: Path, column: str, cells: list[str]) -> Path:
    """Write two questions with one more column; return the file."""
    lines = [f"{HEAD},{column}", *(f"{row},{cell}" for row, cell in zip(ROWS, cells, strict=True))]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def list_groups(task: answerkey.TaskRun) -> list[str | None]:
    """Return the groups whose accuracy was measured."""
    return [one.group for groups in task.metrics["Accuracy"].groups for one in groups.values]


def test_a_ready_made_task_keeps_the_subjects_of_a_file(tmp_path: Path) -> None:
    """In the groups and in the prompt; the name of the file stands only where there is no such column."""
    file = write_csv(tmp_path / "mine.csv", "subject", ["arithmetic", "geography"])
    run = answerkey.run("mmlu", dataset=str(file), model="builtin/longest", out=tmp_path / "out")
    task = run.tasks["mmlu"]
    assert list_groups(task) == ["arithmetic", "geography"]
    assert "question about arithmetic." in task.completions["prompt"][0]


def test_a_folder_of_both_kinds_keeps_what_its_files_say(tmp_path: Path) -> None:
    """File by file: a column where there is one, else the file's name."""
    write_csv(tmp_path / "data" / "a_test.csv", "subject", ["arithmetic", "geography"])
    write_csv(tmp_path / "data" / "law_test.csv", "level", ["1", "2"])
    run = answerkey.run("mmlu", dataset=str(tmp_path / "data"), model="builtin/longest", out=tmp_path / "out")
    assert list_groups(run.tasks["mmlu"]) == ["arithmetic", "geography", "law"]


def test_a_ready_made_task_keeps_the_ids_and_category_of_a_file(tmp_path: Path) -> None:
    """`sample_id` is the id wherever there is one."""
    choices = {"text": ["x", "y"], "label": ["A", "B"]}
    row = {"sample_id": "mine", "id": "theirs", "question": "?", "choices": choices, "answerKey": "A"}
    (tmp_path / "arc.jsonl").write_text(json.dumps({**row, "category": "own"}) + "\n")
    run = answerkey.run(
        "arc", dataset=str(tmp_path / "arc.jsonl"), model="builtin/longest", out=tmp_path / "out"
    )
    task = run.tasks["arc"]
    assert task.completions["sample_id"].to_list() == ["mine"]
    assert list_groups(task) == ["own"]


@pytest.mark.parametrize("column", ["options", "file"])
def test_a_column_that_a_ready_made_task_needs_itself_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], column: str
) -> None:
    """It would be lost, and the task cannot do with it: nothing is run."""
    file = write_csv(tmp_path / "mine.csv", column, ["x", "y"])
    code = main(["run", "mmlu", "--dataset", str(file), "--model", "builtin/longest", "-q"])
    told = capsys.readouterr().err
    assert code == 2
    assert "error[E212]" in told
    assert f"`{column}`" in told


def write_derived(folder: Path, template: str) -> Path:
    """Write a run file whose dataset derives `answer`; return it."""
    file = write_csv(folder / "rows.csv", "key", ["a", "b"])
    source = {"type": "local", "file_path": str(file), "derive": {"answer": template}}
    task = {
        "key": "t",
        "display_name": "T",
        "description": "Two rows.",
        "definition": {
            "dataset": {"key": "q"},
            "solver": {"type": "pass_through_solver", "trace_column": "key"},
            "scorers": [{"type": "string_equals", "ground_truth": "{{ sample.answer }}"}],
        },
    }
    dataset = {"key": "q", "display_name": "Q", "source": source}
    run = folder / "run.yaml"
    run.write_text(json.dumps({"datasets": [dataset], "tasks": [task]}))
    return run


def test_a_derived_column_may_replace_the_one_that_it_reads(tmp_path: Path) -> None:
    """Then nothing is lost unseen."""
    run = answerkey.run(write_derived(tmp_path, "{{ sample.answer | lower }}"), out=tmp_path / "out")
    assert run.tasks["t"].metrics["Accuracy"].value == 1.0


def test_a_derived_column_does_not_replace_one_that_it_does_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the file, the column and what to do."""
    assert main(["run", str(write_derived(tmp_path, "{{ sample.key }}")), "-q"]) == 2
    told = capsys.readouterr().err
    assert "error[E212]: derived column `answer` would replace the column `answer` of the file" in told
    assert "rows.csv, column `answer`" in told
    assert "= help: rename one of them; a template that reads `sample.answer` may replace it" in told


def test_a_derived_column_of_documents_replaces_no_other(tmp_path: Path) -> None:
    """The columns of a document are columns as any others."""
    (tmp_path / "one.md").write_text("Text\n")
    source = FolderSource(str(tmp_path), derive={"content": "{{ sample.file_name }}"})
    with pytest.raises(DataError, match="derived column `content` would replace") as caught:
        source.read(name="x")
    assert caught.value.code == "E212"
