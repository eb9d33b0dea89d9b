"""What the commands print, letter by letter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from answerkey.cli import app

Call = Callable[..., Any]
Compare = Callable[[str, str], None]
Settle = Callable[[str], str]

BROKEN_TASK = """\
key: broken
display_name: Broken
description: One of each mistake.
colour: red
definition:
  scorers:
    - type: string_equals_mcqa
      ground_truth_choice: "{{ sample.anser }}"
      choices: "{{ sample.choices }"
      metrics:
        - type: mean
          field: is_corect
        - type: mean
          field: "<< config.feild >>"
"""
BAD_ROWS_TASK = """\
key: bad-rows
display_name: Bad rows
description: The rows are wrong, the task is not.
definition:
  scorers:
    - type: string_equals_mcqa
      ground_truth_choice: "{{ sample.answer }}"
      choices: "{{ sample.choices }}"
"""
BAD_ROWS = """\
{"answer": "A", "choices": ["A", "B"], "completion": "A"}
{"answer": "E", "choices": ["A", "B"], "completion": "A"}
{"answer": "A", "choices": ["yes", "no"], "completion": "A"}
"""


@pytest.mark.parametrize("name", ["answerkey", *app.commands])
def test_help(call: Call, compare: Compare, name: str) -> None:
    """The help of each command."""
    words = [] if name == "answerkey" else [name]
    compare(f"help/{name}.txt", call(*words, "--help").out)


@pytest.mark.parametrize("width", [80, 120])
def test_demo(call: Call, compare: Compare, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """The summary of the built-in example, and what to try next."""
    monkeypatch.setenv("COLUMNS", str(width))
    shown = call("demo")
    compare(f"demo-{width}.txt", f"{shown.out}--- stderr ---\n{shown.err}")


def test_demo_as_json(call: Call, compare: Compare, settle: Settle) -> None:
    """The object of `--json`."""
    compare("demo.json", settle(call("demo", "--json").out))


def test_coloured_demo(call: Call, compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same text with colours around it."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    compare("demo-coloured.txt", call("demo").out.replace("\x1b", "ESC"))


def test_explain(call: Call, compare: Compare, settle: Settle) -> None:
    """One sample's whole way."""
    call("demo")
    compare("explain.txt", settle(call("explain", "answerkey-demo/runs/demo-1", "5").out))


def test_dry_run(call: Call, compare: Compare) -> None:
    """What the built-in example would ask."""
    call("init", "mine")
    compare("dry-run.txt", call("run", "mine", "--dry-run").out)


def test_comparison(call: Call, compare: Compare) -> None:
    """The table that compares several models."""
    call("init", "mine")
    models = (
        "builtin/longest",
        "builtin/overlap",
        "builtin/random?seed=0",
        "builtin/constant?choice=A",
    )
    shown = call(
        "run", "mine", "--out", "out", *(word for model in models for word in ("--model", model))
    )
    compare("comparison.txt", shown.out[shown.out.index("Comparison\n") :])


def test_errors_of_a_task(call: Call, compare: Compare, settle: Settle) -> None:
    """Every mistake of a task file at once."""
    Path("task.yaml").write_text(BROKEN_TASK, encoding="utf-8")
    Path("rows.jsonl").write_text(BAD_ROWS, encoding="utf-8")
    shown = call("check", "task.yaml", "--dataset", "rows.jsonl")
    assert shown.code == 2
    compare("check-task.txt", settle(shown.out))


def test_errors_of_rows(call: Call, compare: Compare, settle: Settle) -> None:
    """Every mistake of the rows at once, as `run` shows them when it refuses to start."""
    Path("task.yaml").write_text(BAD_ROWS_TASK, encoding="utf-8")
    Path("rows.jsonl").write_text(BAD_ROWS, encoding="utf-8")
    shown = call("run", "task.yaml", "--dataset", "rows.jsonl")
    assert shown.code == 2
    compare("run-bad-rows.txt", settle(shown.err))


def test_runs(call: Call, compare: Compare, settle: Settle) -> None:
    """The list of runs."""
    call("demo")
    compare("runs.txt", settle(call("runs", "answerkey-demo/runs").out))


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_export(call: Call, compare: Compare, form: str) -> None:
    """The first rows of an export."""
    call("demo")
    printed = call("export", "answerkey-demo/runs/demo-1", "--to", form).out
    compare(f"export.{form}", "".join(printed.splitlines(keepends=True)[:6]))
