"""The blocks of the hosted platform's page on `string_equals_mcqa`, run through the command as
printed, but for the lines of dots that stand for omitted parts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.projects import SCORER, describe_solver

from .scripts import Call

BLOCK = """\
definition:
  scorers:
    - type: "string_equals_mcqa"
      ground_truth_choice: "{{ sample.<< config.answer_column >> }}"
      choices: "{{ sample.choices }}"
      metrics:
        - type: "mean"
          field: "is_correct"
          name: "MCQA Accuracy"
"""
#: The page's table, with a reply to each question.
ROWS = """\
prompt,answer,choices,completion
"What is the correct answer? A. ..., B. ..., C. ...",B,"['A', 'B', 'C']",B
"What is the correct answer? A. ..., B. ..., C. ...",C,"['A', 'B', 'C']",A
"""
SCORE = ("score", "task.yaml", "--dataset", "rows.csv", "--json")
ACCURACY = {"MCQA Accuracy": (0.5, 2)}
OPTIONS = [{"key": "A", "text": "Sydney"}, {"key": "B", "text": "Canberra"}]


@pytest.fixture(autouse=True)
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with the page's block and its table."""
    monkeypatch.chdir(tmp_path)
    Path("task.yaml").write_text(BLOCK)
    Path("rows.csv").write_text(ROWS)


def list_metrics(done: Any) -> dict[str, tuple[float, int]]:  # noqa: ANN401 - what a command left
    """Return value and number of samples of each metric."""
    assert done.code == 0, done.err
    metrics = done.json["tasks"][0]["metrics"]
    return {metric["name"]: (metric["value"], metric["n"]) for metric in metrics}


def test_a_config_name_that_nothing_declares_is_refused_with_a_block_to_paste(call: Call) -> None:
    """The block, pasted at the top of the file, is enough.

    So is the option that stands beside it.
    """
    done = call(*SCORE[:-1])
    assert done.code == 2
    assert done.err.startswith(
        "error[E110]: unknown config name `answer_column`\n  --> task.yaml:4"
    )
    head, _, block = done.err.partition("top of the file:\n")
    assert "give it with `--config answer_column=answer`, or declare it at the" in head
    assert list_metrics(call(*SCORE, "--config", "answer_column=answer")) == ACCURACY
    lines = [line[10:] for line in block.splitlines(keepends=True)]
    Path("task.yaml").write_text("".join(lines) + BLOCK)
    assert list_metrics(call(*SCORE)) == ACCURACY


def test_a_run_file_may_give_the_value_too(call: Call) -> None:
    """`task_config` fills in a name that the task only reads."""
    specification = {"task_key": "page", "task_config": {"answer_column": "answer"}}
    run = {
        "datasets": [{"key": "rows", "display_name": "Rows", "file_path": "rows.csv"}],
        "tasks": [{"$ref": "task.yaml"}],
        "evaluation": {"key": "e", "display_name": "E", "task_specifications": [specification]},
    }
    head = "key: page\ndisplay_name: Page\ndescription: As printed.\n"
    Path("task.yaml").write_text(head + BLOCK)
    Path("run.yaml").write_text(json.dumps(run))
    assert list_metrics(call("run", "run.yaml", "--json")) == ACCURACY


ANSWERS = ", positive_answer: C, negative_answer: B"
#: Of two samples one is right, by either road; a third letter is a miss.
MISSED = {"accuracy": (0.5, 2), "precision": (None, 2), "recall": (0.0, 2), "f1_score": (0.0, 2)}


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("binary-classification", ANSWERS, MISSED),
        ("binary_classification", ANSWERS, MISSED),
        ("multiclass_classification", "", {"accuracy": (0.5, 2)}),
    ],
)
def test_a_classification_may_be_written_with_an_underscore(
    call: Call, kind: str, fields: str, expected: dict[str, tuple[float, int]]
) -> None:
    """It is the same metric, under its own name in the results."""
    columns = "field_gt: ground_truth_choice, field_pred: predicted_choice"
    Path("task.yaml").write_text(f"{BLOCK}        - {{type: {kind}, {columns}{fields}}}\n")
    done = call(*SCORE, "--config", "answer_column=answer")
    assert list_metrics(done).items() >= (ACCURACY | expected).items()
    types = {metric["type"] for metric in done.json["tasks"][0]["metrics"]}
    assert types == {"mean", kind.replace("_", "-")}


def write_task(row: Mapping[str, object], **definition: object) -> None:
    """Write a task and its only row."""
    Path("task.yaml").write_text(json.dumps({"key": "page", "definition": definition}))
    Path("rows.jsonl").write_text(json.dumps(row))


def test_options_that_are_mappings_are_seen_in_the_prompt(call: Call) -> None:
    """The page's `{{ sample.options | map(attribute='key') | list }}`: options are `{key,
    text}`.
    """
    choices = "{{ sample.options | map(attribute='key') | list }}"
    scorer = {**SCORER, "ground_truth_choice": "{{ sample.answer_key | upper }}"}
    scorer["choices"] = choices
    shown = "{% for option in sample.options %}{{ option.key }}. {{ option.text }}\n{% endfor %}"
    solver = describe_solver(f"{{{{ sample.question }}}}\n{shown}")
    row = {"question": "The capital of Australia?", "answer_key": "b", "options": OPTIONS}
    write_task(row, solver=solver, scorers=[scorer])
    done = call("check", "task.yaml", "--dataset", "rows.jsonl", "--model", "builtin/random")
    assert (done.code, done.err) == (0, "")


def test_the_texts_of_options_that_are_mappings_are_read(call: Call) -> None:
    """`stated_answer` knows the options by their texts."""
    fields = {"options": "{{ sample.options }}", "extraction": "stated_answer"}
    scorer = {**SCORER, **fields}
    write_task({"answer": "B", "options": OPTIONS, "completion": "Canberra."}, scorers=[scorer])
    done = call("score", "task.yaml", "--dataset", "rows.jsonl", "--json")
    assert list_metrics(done) == {"Accuracy": (1.0, 1)}
