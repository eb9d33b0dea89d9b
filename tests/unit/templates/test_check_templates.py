"""`check` renders every template that sees a completion, on a made-up one.

`run` does the same first.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from answerkey.testing import TestServer

Call = Callable[..., Any]
Task = Callable[..., Path]
HEAD = "key: t\ndisplay_name: T\ndescription: D\ndefinition:\n  scorers:\n"
PYTHON: dict[str, object] = {"type": "python", "metrics": [{"type": "mean", "field": "x"}]}
PYTHON["compute_scores_snippet"] = "def compute_scores(sample): return {'x': 1}"


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    """Return a function that writes a task, a scorer or an action on each line, and a dataset of
    two rows.
    """
    monkeypatch.chdir(tmp_path)
    row = '{"question": "q", "answer": "A", "completion": "A", "meta": {"a": 1}}\n'
    (tmp_path / "rows.jsonl").write_text(row + row.replace('"a"', '"b"'))

    def write(*scorers: dict[str, object], actions: list[dict[str, object]] | None = None) -> Path:
        lines = "".join(f"    - {json.dumps(scorer)}\n" for scorer in scorers)
        if actions:
            lines += "  actions:\n" + "".join(f"    - {json.dumps(action)}\n" for action in actions)
        (tmp_path / "task.yaml").write_text(HEAD + lines)
        return tmp_path / "task.yaml"

    return write


def compare(value: str, key: str = "same", truth: str = "{{ sample.answer }}") -> dict[str, object]:
    """Return a scorer that compares a value of the completion."""
    return {"type": "string_equals", "key": key, "ground_truth": truth, "value": value}


def judge(prompt: str, key: str = "judge", url: str = "http://127.0.0.1:9/v1") -> dict[str, object]:
    """Return a scorer that asks a model."""
    return {
        "type": "model_as_a_judge_scorer",
        "key": key,
        "model_key": f"{url}#m",
        "user_prompt": prompt,
    }


def skip(expression: str, key: str = "skip") -> dict[str, object]:
    """Return an action."""
    return {"key": key, "filter": {"op": "equals", "expression": expression, "value": "A"}}


def check(call: Call, task: Path) -> list[tuple[str, str, int]]:
    """Return code, message and line of the errors in a task."""
    done = call(
        "check", task, "--dataset", "rows.jsonl", "--completion-column", "completion", "--json"
    )
    return [(error["code"], error["message"], error["line"]) for error in done.json["errors"]]


ABSENT = {
    "{{ solver_output.text }}": "there is no field `text`",
    "{{ solver_output.output.choice }}": "there is no field `choice`",
    "{{ solver_output.output.choices.message }}": "a list has no field `message`",
    "{{ solver_output.output.choices[0].message.content.text }}": "text has no field `text`",
    "{{ solver_output.output.usage.tokens }}": "there is no field `tokens`",
    "{% for one in solver_output.message %}x{% endfor %}": "there is no field `message`",
    "{{ solver_output.output.choices[0].message.audio }} {{ solver_output.b }}": "there is no field `b`",  # noqa: E501 - one case a line
}


def test_what_no_completion_has_is_found(call: Call, task: Task) -> None:
    """In values, judge prompts and filters, with the place."""
    values = list(enumerate(ABSENT))
    written = task(
        *(compare(value, f"c{number}") for number, value in values),
        *(judge(value, f"j{number}") for number, value in values),
        actions=[skip(value, f"s{number}") for number, value in values],
    )
    lines = {"value": 6, "user_prompt": 13, "expression": 21}
    assert check(call, written) == [
        ("E112", f"`{field}`: {message}", line + number)
        for field, line in lines.items()
        for number, message in enumerate(ABSENT.values())
    ]


def test_the_column_is_given_if_a_value_is_on_its_line(call: Call, task: Task) -> None:
    """In a block of several lines only the line is: templates are looked at as they are filled
    in.
    """
    written = task(compare("A"))
    value = "{{ solver_output.text }}"
    lines = [
        HEAD.rstrip("\n"),
        "    - type: string_equals",
        '      ground_truth: "{{ sample.answer }}"',
        f'      value: "{value}"',
        "    - type: model_as_a_judge_scorer",
        "      model_key: http://127.0.0.1:9/v1#m",
        "      user_prompt: |",
        "        {{ sample.question }}",
        f"        {value}",
        "  actions:",
        "    - key: skip",
        f'      filter: {{op: equals, expression: "{value}", value: A}}',
    ]
    written.write_text("\n".join(lines) + "\n")
    done = call(
        "check", written, "--dataset", "rows.jsonl", "--completion-column", "completion", "--json"
    )
    results = [(error["line"], error["column"]) for error in done.json["errors"]]
    assert results == [(8, 14), (13, None), (16, 40)]


def test_it_is_found_before_any_call(call: Call, task: Task) -> None:
    """`score` refuses the task as `check` does."""
    with TestServer(lambda _: "A") as server:
        written = task(judge("{{ solver_output.text }}", url=server.url))
        done = call("score", written, "--dataset", "rows.jsonl", "--out", "run")
        assert (done.code, server.asked.total) == (2, 0)
    assert done.err.startswith("error[E112]: `user_prompt`: there is no field `text`\n")
    assert not Path("run").exists()


PRESENT = (
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
)


def test_what_a_completion_may_have_is_left_alone(call: Call, task: Task) -> None:
    """What a provider adds, what depends on the text or on a row, and what has a default is no
    mistake.
    """
    written = task(
        *(compare(value, f"c{number}") for number, value in enumerate(PRESENT)),
        *(judge(value, f"j{number}") for number, value in enumerate(PRESENT)),
        actions=[skip(value, f"s{number}") for number, value in enumerate(PRESENT)],
    )
    assert check(call, written) == []


def test_the_names_of_judge_prompts_are_tried_too(call: Call, task: Task) -> None:
    """A judge also sees `model_output`, a text with the parts of its reply."""
    written = task(judge("{{ model_output.text }}", "a"), judge("{{ model_output.usage }}", "b"))
    assert [line for _, _, line in check(call, written)] == [6]


def test_what_a_snippet_returns_is_not_questioned(call: Call, task: Task) -> None:
    """Only the scores can tell which values a Python scorer has, and of which type."""
    dynamic = "{{ scores[sample.answer | replace('A', 'python')].z }}"
    values = ("{{ scores.python.x.real }}", "{{ scores['python'].y }}", dynamic)
    actions = [skip(value, f"s{number}") for number, value in enumerate(values)]
    assert check(call, task(PYTHON, compare("A"), actions=actions)) == []


def test_a_template_that_does_too_much_is_stopped(call: Call, task: Task) -> None:
    """It is an error of its own, at its place."""
    doubling = (
        "{% set ns = namespace(x=['y']) %}{% for i in range(50) %}{% set ns.x = [ns.x, "
        "ns.x] %}{% endfor %}"
    )
    written = task(compare(f"{{{{ solver_output.output }}}}{doubling}{{{{ ns.x | upper }}}}"))
    assert [(code, line) for code, _, line in check(call, written)] == [("E120", 6)]


def test_a_branch_that_was_not_taken_fails_its_row(call: Call, task: Task) -> None:
    """A name that is set in the other branch alone is missing on this row, and on no other."""
    truth = "{% if sample.meta.a is defined %}{% set x = 'A' %}{% endif %}{{ x }}"
    message = "sample `000002`: `ground_truth`: `x` is not defined in this row"
    assert check(call, task(compare("A", truth=truth))) == [("E207", message, 2)]
