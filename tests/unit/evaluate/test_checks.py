"""Laws of checks: a mistake is told where it is made, once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import answerkey as ak

if TYPE_CHECKING:
    from tests.unit.evaluate.conftest import Project

TASK = """\
key: mcqa
display_name: Questions
description: Multiple choice questions.
config_spec:
  - type: dataset_column
    key: column
    display_name: C
    default_value: answer
definition:
  dataset: {key: questions}
  solver:
    type: single_turn_solver
    input_builder:
      type: chat_completion
      input_messages:
        - {role: system, content: Answer.}
        - role: user
          content: "{{ sample.question }}"
  scorers:
    - type: string_equals_mcqa
      ground_truth_choice: "{{ sample.answer }}"
      choices: "{{ sample.choices }}"
"""
DATASET = """\
key: questions
display_name: Questions
source:
  type: local
  file_path: questions.jsonl
"""
RUN = "datasets: [{$ref: dataset.yaml}]\ntasks: [{$ref: task.yaml}]\n"
SOLVER = TASK[TASK.index("    type: single") : TASK.index("  scorers")]
TRACE_SOLVER = "    type: pass_through_solver\n    trace_column: said\n"
EXAMPLES = "    examples:\n      dataset: questions\n      num_examples: 1\n      by: level\n"
SOURCE = "source:\n  type: local\n  file_path: questions.jsonl"
ROWS = '{"question": "Q", "answer": "A", "choices": ["A", "B"]}\n' * 2


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with a sound project in it."""
    monkeypatch.chdir(tmp_path)
    files = {"task.yaml": TASK, "dataset.yaml": DATASET, "run.yaml": RUN, "questions.jsonl": ROWS}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def find_errors(folder: Path, name: str, old: str, new: str) -> list[tuple[str, str]]:
    """Return code and place of every error after a change of one file."""
    path = folder / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    return [(error.code, str(error.where)) for error in ak.check("run.yaml").errors]


def test_the_project_is_sound(folder: Path) -> None:
    """Each law below is about one change of it."""
    assert find_errors(folder, "run.yaml", "tasks", "tasks") == []


@pytest.mark.parametrize(
    ("file", "old", "new", "code", "place"),
    [
        ("task", "sample.question }}", "sample.qestion }}", "E206", "18:20"),
        ("task", "content: Answer.", 'content: "{{ sample.rule }}"', "E206", "16:35"),
        ("task", "default_value: answer", "default_value: anser", "E206", "8:20"),
        ("task", SOLVER, TRACE_SOLVER, "E206", "13:19"),
        ("task", "  scorers:", f"{EXAMPLES}  scorers:", "E206", "22:11"),
        ("dataset", "questions.jsonl", "question.jsonl", "E201", "5:14"),
        ("dataset", "questions.jsonl", "questions.txt", "E201", "5:14"),
        ("dataset", SOURCE, "file_path: none.jsonl", "E201", "3:12"),  # an old place
    ],
)
def test_what_is_named_in_vain_is_told_where_that_is_done(
    folder: Path, file: str, old: str, new: str, code: str, place: str
) -> None:
    """Columns of prompts, traces, groups of examples and defaults.

    Files, typed columns and filters.
    """
    assert find_errors(folder, f"{file}.yaml", old, new) == [(code, f"{file}.yaml:{place}")]


def test_the_errors_of_a_row_stay_with_the_row(folder: Path) -> None:
    """The data file, its line and the column."""
    errors = find_errors(folder, "questions.jsonl", '"answer": "A"', '"answer": "C"')
    assert [code for code, _ in errors] == ["E204", "E204"]
    assert errors[0][1].endswith("questions.jsonl:1, column `answer`")


def test_the_errors_of_one_file_are_told_line_by_line(folder: Path) -> None:
    """Whoever finds them: the prompt stands above the scorers, and is checked after them."""
    (folder / "questions.jsonl").write_text('{"other": 1}\n', encoding="utf-8")
    places = [place for _, place in find_errors(folder, "run.yaml", "tasks", "tasks")]
    assert places == ["task.yaml:8:20", "task.yaml:18:20", "task.yaml:21:28", "task.yaml:22:16"]


def test_no_allowance_is_proposed_where_no_row_would_be_left(project: Project) -> None:
    """The hint is about the rows alone."""
    project.write_task(project.task(solver=None))
    rows = project.write_rows([{"question": "q", "answer": "E", "completion": "A"}] * 2)
    errors = ak.check(project.folder / "task.yaml", dataset=rows).errors
    assert [error.code for error in errors] == ["E204"] * 2
    assert "--allow-failed" not in str(errors[0].hint)


def test_a_broken_solver_is_the_only_mistake(project: Project) -> None:
    """Nobody is told as well that completions are missing, which the solver would have made."""
    solver = project.task()["definition"]["solver"]
    solver["input_builder"]["input_messages"][0]["role"] = "usr"
    project.write_task(project.task(solver=solver))
    rows = project.write_rows([{"question": "q", "answer": "A"}])
    errors = ak.check(project.folder / "task.yaml", dataset=rows).errors
    assert [error.code for error in errors] == ["E108"]


def test_too_few_examples_are_reported_once(project: Project) -> None:
    """What the task asks for is at fault, not each of the rows: one error, where the task asks for
    it.
    """
    examples = {"dataset": "shots", "num_examples": 20}
    solver = {**project.task()["definition"]["solver"], "examples": examples}
    project.write_rows([{"question": "q", "answer": "A"}] * 2, "shots")
    one = {"model_key": "builtin/random"}
    plan = project.plan(one, datasets=("rows", "shots"), solver=solver, dataset={"key": "rows"})
    (error,) = ak.check(plan).errors
    message = "20 examples are needed, and dataset `shots` has 2 that are not the sample itself"
    assert (error.code, error.message) == ("E302", message)
    assert error.hint == "lower `num_examples`"
    assert "run.yaml:1:" in str(error.where)
    with pytest.raises(ak.DataError, match="20 examples are needed"):
        ak.run(plan, out=project.folder / "out")
