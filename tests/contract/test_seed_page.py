"""The blocks of the hosted platform's page on `string_equals_mcqa`, run through the command as
printed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

PRINTED = """\
...
definition:
  ...
  scorers:
    - type: "string_equals_mcqa"
      ground_truth_choice: "{{ sample.<< config.answer_column >> }}"
      choices: "{{ sample.choices }}"
      metrics:
        - type: "mean"
          field: "is_correct"
          name: "MCQA Accuracy"
"""
#: The page's block without the lines that stand for omitted parts.
BLOCK = PRINTED.replace("  ...\n", "").replace("...\n", "")
#: The page's table, with a reply to each question.
ROWS = """\
prompt,answer,choices,completion
"What is the correct answer? A. ..., B. ..., C. ...",B,"['A', 'B', 'C']",B
"What is the correct answer? A. ..., B. ..., C. ...",C,"['A', 'B', 'C']",A
"""
SCORE = ("score", "task.yaml", "--dataset", "rows.csv")


@pytest.fixture(autouse=True)
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with the page's block and its table."""
    monkeypatch.chdir(tmp_path)
    Path("task.yaml").write_text(BLOCK)
    Path("rows.csv").write_text(ROWS)


def list_metrics(done: Any) -> dict[str, tuple[float, int]]:  # noqa: ANN401 - what a command left
    """Return value and number of samples of each metric."""
    assert done.code == 0, done.err
    return {
        metric["name"]: (metric["value"], metric["n"])
        for metric in done.json["tasks"][0]["metrics"]
    }


@pytest.mark.parametrize(
    ("printed", "place"),
    [(PRINTED, "task.yaml:1:1"), (f"key: page\n{PRINTED[4:]}", "task.yaml:3:3")],
)
def test_lines_of_dots_are_said_to_stand_for_omitted_parts(
    call: Callable[..., Any], printed: str, place: str
) -> None:
    """The message names the line and what to do with it."""
    Path("task.yaml").write_text(printed)
    done = call(*SCORE)
    assert done.code == 2
    what = "not valid YAML: a line that is no `key: value`"
    assert done.err.startswith(f"error[E102]: {what}\n  --> {place}\n")
    help_line = (
        "`...` stands for lines that the page leaves out: write them here, or delete this line"
    )
    assert done.err.endswith(f"  = help: {help_line}\n")


def test_a_config_name_that_nothing_declares_is_refused_with_a_block_to_paste(
    call: Callable[..., Any],
) -> None:
    """The block, pasted at the top of the file, is enough.

    So is the option that stands beside it.
    """
    done = call(*SCORE)
    assert (done.code, done.err) == (
        2,
        """\
error[E110]: unknown config name `answer_column`
  --> task.yaml:4:28
    4 |       ground_truth_choice: "{{ sample.<< config.answer_column >> }}"
      |                                                 ^
  = help: give it with `--config answer_column=answer`, or declare it at the top of the file:
          config_spec:
            - type: dataset_column
              key: answer_column
              display_name: answer_column
              default_value: answer
""",
    )
    accuracy = {"MCQA Accuracy": (0.5, 2)}
    assert list_metrics(call(*SCORE, "--config", "answer_column=answer", "--json")) == accuracy
    lines = done.err.partition("top of the file:\n")[2].splitlines(keepends=True)
    Path("task.yaml").write_text("".join(line[10:] for line in lines) + BLOCK)
    assert list_metrics(call(*SCORE, "--json")) == accuracy


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "answr_column=answer",
            "unknown config name `answr_column`\n  --> --config\n  = help: did you mean",
        ),
        ("answer_column=anwser", "config value `answer_column` names the column `anwser`"),
    ],
)
def test_a_slip_in_an_undeclared_config_value_is_found(
    call: Callable[..., Any], value: str, message: str
) -> None:
    """A name that the file does not read, and a column that the dataset does not have, are
    refused.
    """
    done = call(*SCORE, "--config", value)
    assert done.code == 2
    assert message in done.err


def test_a_run_file_may_give_the_value_too(call: Callable[..., Any]) -> None:
    """`task_config` fills in a name that the task only reads."""
    specification = {"task_key": "page", "task_config": {"answer_column": "answer"}}
    run = {
        "datasets": [{"key": "rows", "display_name": "Rows", "file_path": "rows.csv"}],
        "tasks": [{"$ref": "task.yaml"}],
        "evaluation": {"key": "e", "display_name": "E", "task_specifications": [specification]},
    }
    Path("task.yaml").write_text(
        f"key: page\ndisplay_name: Page\ndescription: As printed.\n{BLOCK}"
    )
    Path("run.yaml").write_text(json.dumps(run))
    assert list_metrics(call("run", "run.yaml", "--json")) == {"MCQA Accuracy": (0.5, 2)}


@pytest.mark.parametrize("kind", ["binary-classification", "binary_classification"])
def test_a_third_letter_is_a_miss_in_binary_classification(
    call: Callable[..., Any], kind: str
) -> None:
    """Of two samples one is right, by either road; the type may be written with an underscore."""
    metric = f"""\
        - type: {kind}
          field_gt: ground_truth_choice
          field_pred: predicted_choice
          positive_answer: C
          negative_answer: B
"""
    Path("task.yaml").write_text(BLOCK + metric)
    metrics = list_metrics(call(*SCORE, "--config", "answer_column=answer", "--json"))
    assert metrics == {
        "MCQA Accuracy": (0.5, 2),
        "accuracy": (0.5, 2),
        "precision": (None, 2),
        "recall": (0.0, 2),
        "f1_score": (0.0, 2),
    }


def test_multiclass_classification_may_be_written_with_an_underscore(
    call: Callable[..., Any],
) -> None:
    """It is the same metric, under its own name in the results."""
    fields = "field_gt: ground_truth_choice, field_pred: predicted_choice"
    Path("task.yaml").write_text(
        f"{BLOCK}        - {{type: multiclass_classification, {fields}}}\n"
    )
    done = call(*SCORE, "--config", "answer_column=answer", "--json")
    assert list_metrics(done)["accuracy"] == (0.5, 2)
    assert {metric["type"] for metric in done.json["tasks"][0]["metrics"]} == {
        "mean",
        "multiclass-classification",
    }


def ask(scorer: Mapping[str, object], row: Mapping[str, object], prompt: str) -> None:
    """Write a task that asks a model, and one row."""
    messages = [{"role": "user", "content": prompt}]
    solver = {"input_builder": {"type": "chat_completion", "input_messages": messages}}
    definition = {"solver": {"type": "single_turn_solver", **solver}, "scorers": [scorer]}
    Path("task.yaml").write_text(json.dumps({"key": "page", "definition": definition}))
    Path("rows.jsonl").write_text(json.dumps(row))


def test_options_that_are_mappings_are_seen_in_the_prompt(call: Callable[..., Any]) -> None:
    """The page's `{{ sample.options | map(attribute='key') | list }}`: options are `{key,
    text}`.
    """
    scorer = {
        "type": "string_equals_mcqa",
        "ground_truth_choice": "{{ sample.answer_key | upper }}",
        "choices": "{{ sample.options | map(attribute='key') | list }}",
    }
    options = [{"key": "A", "text": "Sydney"}, {"key": "B", "text": "Canberra"}]
    row = {"question": "The capital of Australia?", "answer_key": "b", "options": options}
    shown = "{% for one in sample.options %}{{ one.key }}. {{ one.text }}\n{% endfor %}"
    words = ("check", "task.yaml", "--dataset", "rows.jsonl", "--model", "builtin/random")
    ask(scorer, row, f"{{{{ sample.question }}}}\n{shown}")
    done = call(*words)
    assert (done.code, done.err) == (0, "")


def test_the_texts_of_options_that_are_mappings_are_read(call: Callable[..., Any]) -> None:
    """`stated_answer` knows the options by their texts."""
    options = [{"key": "A", "text": "Sydney"}, {"key": "B", "text": "Canberra"}]
    Path("rows.jsonl").write_text(
        json.dumps({"answer": "B", "options": options, "completion": "Canberra."})
    )
    scorer = {
        "type": "string_equals_mcqa",
        "ground_truth_choice": "{{ sample.answer }}",
        "choices": ["A", "B"],
        "options": "{{ sample.options }}",
        "extraction": "stated_answer",
    }
    Path("task.yaml").write_text(json.dumps({"key": "page", "definition": {"scorers": [scorer]}}))
    done = call("score", "task.yaml", "--dataset", "rows.jsonl", "--json")
    assert list_metrics(done) == {"Accuracy": (1.0, 1)}


def test_a_truth_that_is_one_of_several_long_choices_is_not_taken_for_a_column(
    call: Callable[..., Any],
) -> None:
    """The page: "Multiple character choices (i.e., 'yes' or 'no') are not supported"."""
    task = BLOCK.replace('"{{ sample.<< config.answer_column >> }}"', '"yes"')
    Path("task.yaml").write_text(task.replace('"{{ sample.choices }}"', '["yes", "no"]'))
    done = call(*SCORE)
    assert done.code == 2
    longer = "for longer answers use the scorer `string_equals`"
    assert [line for line in done.err.splitlines() if "= help" in line] == [
        f"  = help: write the label of a choice, such as 'A'; {longer}",
        f"  = help: only single-character choices are supported here; {longer}",
    ]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("system_task: x\ndefinition:\n", "system_task"),
        ("definition:\n  type: system_task\n", "type: system_task"),
    ],
)
def test_a_system_task_is_refused_by_name(
    call: Callable[..., Any], written: str, name: str
) -> None:
    """E116 says what it is and what to write instead."""
    Path("task.yaml").write_text(BLOCK.replace("definition:\n", written))
    done = call(*SCORE, "--config", "answer_column=answer")
    assert done.code == 2
    what = f"`{name}` of the original platform is not done"
    assert done.err.startswith(f"error[E116]: {what}\n  --> task.yaml:")
    assert "write `type: benchmark_task` with `scorers`, or run a ready-made task" in done.err
