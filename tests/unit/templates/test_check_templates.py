"""`check` renders every template that sees a completion, on a made-up one; `run` does the same first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from answerkey.testing import TestServer

Call = Callable[..., Any]
HEAD = """\
key: t
display_name: T
description: D
definition:
  scorers:
"""
EQUALS = """\
    - type: string_equals
      ground_truth: "{{ sample.answer }}"
      value: "VALUE"
"""
JUDGE = """\
    - type: model_as_a_judge_scorer
      model_key: URL#judge
      user_prompt: |
        {{ sample.question }}
        VALUE
"""
ACTION = """\
  actions:
    - key: skip
      filter: {op: equals, expression: "VALUE", value: A}
"""
PYTHON = """\
    - type: python
      compute_scores_snippet: "def compute_scores(sample): return {'x': 1}"
      metrics: [{type: mean, field: x}]
"""


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a dataset with two rows and their completions."""
    monkeypatch.chdir(tmp_path)
    row = '{"question": "q", "answer": "A", "completion": "A", "meta": {"a": 1}}\n'
    (tmp_path / "rows.jsonl").write_text(row + row.replace('"a"', '"b"'))
    return tmp_path / "rows.jsonl"


def check(call: Call, rows: Path, text: str) -> list[tuple[str, str, int, int | None]]:
    """Return code, message, line and column of the errors in a task of this text."""
    task = rows.parent / "task.yaml"
    task.write_text(text)
    done = call("check", task, "--dataset", rows, "--completion-column", "completion", "--json")
    return [(one["code"], one["message"], one["line"], one["column"]) for one in done.json["errors"]]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{{ solver_output.text }}", "there is no field `text`"),
        ("{{ solver_output.output.choice }}", "there is no field `choice`"),
        ("{{ solver_output.output.choices.message }}", "a list has no field `message`"),
        ("{{ solver_output.output.choices[0].message.content.text }}", "text has no field `text`"),
        ("{{ solver_output.output.usage.tokens }}", "there is no field `tokens`"),
        ("{% for one in solver_output.message %}x{% endfor %}", "there is no field `message`"),
        (
            "{{ solver_output.output.choices[0].message.audio }} {{ solver_output.answer }}",
            "there is no field `answer`",
        ),
    ],
)
def test_what_no_completion_has_is_found(call: Call, rows: Path, value: str, message: str) -> None:
    """In values, judge prompts and filters, with the place; before anything is scored or asked."""
    equals, action = EQUALS.replace("VALUE", value), EQUALS.replace("VALUE", "A")
    assert check(call, rows, HEAD + equals) == [("E112", f"`value`: {message}", 8, 14)]
    task = HEAD + action + ACTION.replace("VALUE", value)
    assert check(call, rows, task) == [("E112", f"`expression`: {message}", 11, 40)]
    with TestServer(lambda _: "A") as server:
        judge = JUDGE.replace("VALUE", value).replace("URL", server.url)
        assert check(call, rows, HEAD + judge) == [("E112", f"`user_prompt`: {message}", 10, None)]
        words = ("score", rows.parent / "task.yaml", "--dataset", rows, "--out", "run")
        done = call(*words)
        assert (done.code, server.asked.total) == (2, 0)
    assert done.err.startswith(f"error[E112]: `user_prompt`: {message}\n")
    assert not Path("run").exists()


@pytest.mark.parametrize(
    "value",
    [
        "{{ solver_output.output.choices[0].message.content }}",
        "{{ solver_output.messages[-1].content | upper }}",
        "{{ solver_output.messages[7].content }}",
        "{{ solver_output.output.choices[0].message.reasoning_content }}",
        "{{ solver_output.output.choices[0].message.audio.transcript }}",
        "{{ solver_output.output.choices[0].message.content[0].text }}",
        "{{ (solver_output.output.choices[0].message.content | fromjson).answer }}",
        "{{ solver_output.output.choices[0].message.content.split(':')[1] }}",
        "{{ solver_output.text | default('A') }}",
        "{% if solver_output.text is defined %}A{% endif %}",
        "{{ sample.meta.b }}{{ solver_output.output.usage.prompt_tokens }}",
    ],
)
def test_what_a_completion_may_have_is_left_alone(call: Call, rows: Path, value: str) -> None:
    """What a provider adds, what depends on the text or on a row, and what has a default is no mistake."""
    equals, action = EQUALS.replace("VALUE", value), EQUALS.replace("VALUE", "A")
    assert check(call, rows, HEAD + equals) == []
    assert check(call, rows, HEAD + action + ACTION.replace("VALUE", value)) == []
    judge = JUDGE.replace("VALUE", value).replace("URL", "http://127.0.0.1:9/v1")
    assert check(call, rows, HEAD + judge) == []


@pytest.mark.parametrize(
    ("value", "errors"), [("{{ model_output.text }}", 1), ("{{ model_output.usage }}", 0)]
)
def test_the_names_of_judge_prompts_are_tried_too(call: Call, rows: Path, value: str, errors: int) -> None:
    """A judge also sees `model_output`, a text with the parts of its reply."""
    judge = JUDGE.replace("VALUE", value).replace("URL", "http://127.0.0.1:9/v1")
    assert len(check(call, rows, HEAD + judge)) == errors


@pytest.mark.parametrize(
    "value",
    [
        "{{ scores.python.x.real }}",
        "{{ scores['python'].y }}",
        "{{ scores[sample.answer | replace('A', 'python')].z }}",
    ],
)
def test_what_a_snippet_returns_is_not_questioned(call: Call, rows: Path, value: str) -> None:
    """Only the scores can tell which values a Python scorer has, and of which type."""
    task = HEAD + PYTHON + EQUALS.replace("VALUE", "A") + ACTION.replace("VALUE", value)
    assert check(call, rows, task) == []


def test_a_template_that_does_too_much_is_stopped(call: Call, rows: Path) -> None:
    """It is an error of its own, at its place."""
    doubling = (
        "{% set ns = namespace(x=['y']) %}{% for i in range(50) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
    )
    value = f"{{{{ solver_output.output }}}}{doubling}{{{{ ns.x | upper }}}}"
    found = check(call, rows, HEAD + EQUALS.replace("VALUE", value))
    assert [(code, line) for code, _, line, _ in found] == [("E120", 8)]


def test_a_branch_that_was_not_taken_fails_its_row(call: Call, rows: Path) -> None:
    """A name that is set in the other branch alone is missing on this row, and on no other."""
    template = "{% if sample.meta.a is defined %}{% set x = 'A' %}{% endif %}{{ x }}"
    text = EQUALS.replace('"{{ sample.answer }}"', f'"{template}"').replace("VALUE", "A")
    message = "sample `000002`: `ground_truth`: `x` is not defined in this row"
    assert check(call, rows, HEAD + text) == [("E207", message, 2, None)]
