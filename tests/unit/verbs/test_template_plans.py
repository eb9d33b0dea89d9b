"""Laws of the plans that `check --plan` shows: each template goes the way that its user takes it."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from answerkey.evaluate.checks import plan_templates
from answerkey.spec import load_plan
from answerkey.types import Samples

TASK = """\
key: planned
display_name: Planned
description: Every kind of template.
definition:
  dataset: {key: rows}
  solver:
    type: single_turn_solver
    # examples
    input_builder:
      type: chat_completion
      input_messages:
        - {role: system, content: Answer.}
        - {role: user, content: "{{ sample.question }}?"}
  scorers:
    - type: string_equals
      ground_truth: "{{ sample.answer }}"
      value: "{{ solver_output.output.choices[0].message.content | trim }}"
    - type: model_as_a_judge_scorer
      model_key: openai/gpt-4o-mini
      user_prompt: "{{ sample.question }}"
  actions:
    - key: short
      filter: {op: exists, expression: scores.string_equals.is_correct}
      action: exclude_from_metrics
    - key: all
      filter: {op: exists, expression: scores | first}
      action: exclude_from_metrics
"""
DATASET = """\
key: rows
display_name: Rows
source:
  type: local
  file_path: rows.jsonl
  filters:
    - {op: exists, expression: sample.answer | upper}
"""
RUN = """\
datasets:
  - $ref: dataset.yaml
  - {key: solved, display_name: Solved, source: {type: local, file_path: rows.jsonl}}
tasks:
  - $ref: task.yaml
evaluation:
  key: e
  display_name: E
  task_specifications:
    - {task_key: planned, model_key: builtin/longest}
"""


def plan(folder: Path, examples: str = "") -> dict[str, str]:
    """Return the plans in words by the name of the field."""
    files = {"task": TASK.replace("# examples", examples), "dataset": DATASET, "run": RUN}
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    (folder / "rows.jsonl").write_text('{"question": "q", "answer": "A"}\n', encoding="utf-8")
    loaded = load_plan(folder / "run.yaml")
    assert loaded.value is not None, loaded.errors
    samples = Samples(pl.DataFrame({"question": ["q"], "answer": ["A"]}), pl.Series(["1"]))
    (specification,) = loaded.value.specifications
    return {one.field: str(one.plan) for one in plan_templates(specification, samples)}


def test_every_template_is_planned_as_it_is_used(tmp_path: Path) -> None:
    """Filters first, then prompts, scorers and actions; tables that a run will have count as known."""
    assert plan(tmp_path) == {
        "dataset rows.filters.0.expression": "column expression `answer`",
        "solver.input_builder.input_messages.0.content": "constant",
        "solver.input_builder.input_messages.1.content": "column expression `question`",
        "string_equals.ground_truth": "column `answer`",
        "string_equals.value": (
            "once per distinct value of `solver_output.output.choices.0.message.content`"
        ),
        "model_as_a_judge_scorer.user_prompt": (
            "row by row: the prompt is written with the completion of each row"
        ),
        "action short.expression": "once per distinct value of `scores.string_equals.is_correct`",
        "action all.expression": "row by row: it uses `scores` as a whole",
    }


def test_prompts_with_examples_are_written_row_by_row(tmp_path: Path) -> None:
    """Each row has examples of its own; what reads nothing stays a constant."""
    plans = plan(tmp_path, "examples: {dataset: solved, num_examples: 1}")
    assert plans["solver.input_builder.input_messages.0.content"] == "constant"
    assert plans["solver.input_builder.input_messages.1.content"] == (
        "row by row: the prompt is written with the examples of each row"
    )
