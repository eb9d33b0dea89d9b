"""Laws of broken values: the cause is told, and nothing that follows from it."""

from __future__ import annotations

import pytest

from answerkey.spec import Overrides, load_plan

from .conftest import DATASET, RUN, TASK, Write

MODEL = """\
models:
  - key: m
    display_name: M
    config: {url: "http://localhost:1/v1", model_key: x, %s}
"""


def find_errors(environment: dict[str, str] | None = None) -> list[tuple[str, str]]:
    """Return code and place of every error of the project."""
    loaded = load_plan("run.yaml", Overrides(environment=environment or {}))
    return [(error.code, str(error.where)) for error in loaded.errors]


@pytest.mark.parametrize("part", ["dataset", "task"])
@pytest.mark.parametrize(
    ("text", "error"),
    [
        (None, ("E101", "run.yaml:{line}:11")),
        ("$ref: {part}.yaml\n", ("E105", "{part}.yaml:1:7")),
        ("a: [\n", ("E102", "{part}.yaml:2:1")),
    ],
)
def test_a_file_that_cannot_be_followed_is_one_error(
    project: Write, part: str, text: str | None, error: tuple[str, str]
) -> None:
    """A missing file, a circle, a syntax error: no key is missing, and no reference undefined, besides."""
    folder = project()
    file = folder / f"{part}.yaml"
    if text is None:
        file.unlink()
    else:
        file.write_text(text.replace("{part}", part), encoding="utf-8")
    line = 2 if part == "dataset" else 4
    assert find_errors() == [(error[0], error[1].format(part=part, line=line))]


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("choices: ", "choices: !include none.md #", ("E101", "task.yaml:11:16")),
        ("    - type: string_equals_mcqa", "    - $ref: none.yaml", ("E101", "task.yaml:9:13")),
        ("display_name: Questions", "display_name: $NOT_SET", ("E106", "task.yaml:2:15")),
        ("key: mcqa", "key: $NOT_SET", ("E106", "task.yaml:1:6")),
        ("default_value: answer", "default_value: $NOT_SET", ("E106", "task.yaml:5:85")),
        ("    - type: string", "    - type: $NOT_SET #", ("E106", "task.yaml:9:13")),
        ("description: Multiple", "description: << secrets.X >> #", ("E117", "task.yaml:3:14")),
    ],
)
def test_a_value_that_cannot_be_had_is_one_error(
    project: Write, old: str, new: str, error: tuple[str, str]
) -> None:
    """Nothing is said about its type, and nothing that needs it is missing."""
    project(task_yaml=TASK.replace(old, new))
    assert find_errors() == [error]


def test_siblings_of_a_file_that_is_not_there_are_checked_all_the_same(project: Write) -> None:
    """What the file was to bring is not missing, and what stands beside it may be wrong."""
    project(dataset_yaml="key: questions\n$ref: none.yaml\ncolour: red\n")
    assert find_errors() == [("E101", "dataset.yaml:2:7"), ("E107", "dataset.yaml:3:1")]


@pytest.mark.parametrize(
    ("field", "error"),
    [
        ("api_key: $NOT_SET", ("E106", "run.yaml:4:67")),
        ("api_key: << secrets.NOT_SET >>", ("E117", "run.yaml:4:67")),
        ("custom_headers: {X: << secrets.NOT_SET >>}", ("E117", "run.yaml:4:78")),
        ('custom_headers: {X: "Bearer << secrets.A >>"}', ("E117", "run.yaml:4:78")),
        ("tls_context: << secrets.A >>", ("E117", "run.yaml:4:71")),
    ],
)
def test_a_secret_that_is_missing_or_misplaced_is_one_error(
    project: Write, field: str, error: tuple[str, str]
) -> None:
    """The model that lacks it is not also undefined where it is used."""
    project(run_yaml=MODEL % field + RUN + "      model_key: m\n")
    assert find_errors() == [error]


def test_a_secret_whose_value_is_not_set_is_known_by_its_name(project: Write) -> None:
    """Only the environment value is missing."""
    run = "secrets: {KEY: $NOT_SET}\n" + MODEL % "api_key: << secrets.KEY >>" + RUN
    project(run_yaml=run)
    assert find_errors() == [("E106", "run.yaml:1:16")]


def test_a_config_value_that_cannot_be_had_is_one_error(project: Write) -> None:
    """It is neither of the wrong type nor missing."""
    project(run_yaml=RUN + "      task_config: {answer_column: $NOT_SET}\n")
    assert find_errors() == [("E106", "run.yaml:10:36")]


def test_an_environment_file_that_cannot_be_read_is_one_error(project: Write) -> None:
    """What it would have set is not reported as not set."""
    folder = project(dataset_yaml=DATASET.replace("questions.jsonl", "$FILE"))
    (folder / ".env").write_text("FILE\n", encoding="utf-8")
    assert find_errors() == [("E102", ".env:1")]
