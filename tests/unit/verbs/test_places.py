"""Laws of places: a mistake of the file is told where the file makes it, not where the rows are."""

from __future__ import annotations

from pathlib import Path

import pytest

from answerkey import check

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
FILTERS = """
  filters:
    - {op: exists, expression: sample.answer}
    - {op: is_true, expression: sample.hard}"""
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
    return [(error.code, str(error.where)) for error in check("run.yaml").errors]


def test_the_project_is_sound(folder: Path) -> None:
    """Each law below is about one change of it."""
    assert find_errors(folder, "run.yaml", "tasks", "tasks") == []


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("sample.question }}", "sample.qestion }}", "task.yaml:18:20"),
        ("content: Answer.", 'content: "{{ sample.rule }}"', "task.yaml:16:35"),
        ("default_value: answer", "default_value: anser", "task.yaml:8:20"),
        (
            TASK[TASK.index("    type: single") : TASK.index("  scorers")],
            "    type: pass_through_solver\n    trace_column: said\n",
            "task.yaml:13:19",
        ),
        (
            "  scorers:",
            "    examples:\n      dataset: questions\n      num_examples: 1\n      by: level\n  scorers:",
            "task.yaml:22:11",
        ),
    ],
)
def test_a_column_that_does_not_exist_is_told_where_the_task_asks_for_it(
    folder: Path, old: str, new: str, place: str
) -> None:
    """Prompts, traces, groups of examples and defaults of parameters."""
    assert find_errors(folder, "task.yaml", old, new) == [("E206", place)]


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("questions.jsonl", "question.jsonl", ("E201", "dataset.yaml:5:14")),
        ("questions.jsonl", "questions.txt", ("E201", "dataset.yaml:5:14")),
        (
            "questions.jsonl",
            "questions.jsonl\n  columns: {answer: text, choises: list}",
            ("E206", "dataset.yaml:6:27"),
        ),
        ("questions.jsonl", f"questions.jsonl{FILTERS}", ("E206", "dataset.yaml:8:33")),
    ],
)
def test_what_a_dataset_names_in_vain_is_told_in_its_file(
    folder: Path, old: str, new: str, error: tuple[str, str]
) -> None:
    """Its data file, the columns that it types, the columns that its filters read."""
    assert find_errors(folder, "dataset.yaml", old, new) == [error]


def test_an_old_place_of_the_data_file_is_its_place(folder: Path) -> None:
    """`file_path` at the top of a dataset file."""
    old = "source:\n  type: local\n  file_path: questions.jsonl"
    assert find_errors(folder, "dataset.yaml", old, "file_path: none.jsonl") == [
        ("E201", "dataset.yaml:3:12")
    ]


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
