"""Laws of what the filters of actions read of the scores."""

from __future__ import annotations

import pytest

from answerkey.spec import load_task

from .conftest import TASK, Write

PYTHON = """\
    - type: python
      compute_scores_snippet: "def compute_scores(sample): return {'x': 1}"
      metrics: [{type: mean, field: x}]
"""


def find_errors(write: Write, expression: str, more: str = "") -> list[tuple[str, str, str | None]]:
    """Return code, message and hint of what is wrong with a task whose action has this expression."""
    action = f'  actions:\n    - {{key: skip, filter: {{op: is_true, expression: "{expression}"}}}}\n'
    write(task_yaml=TASK + more + action)
    return [(error.code, error.message, error.hint) for error in load_task("task.yaml").errors]


@pytest.mark.parametrize(
    "expression",
    [
        "{{ scores.string_equals_mcqa.is_correct }}",
        "scores['string_equals_mcqa'].is_correct",
        "scores.string_equals_mcqa.completion_validity == 'VALID'",
        "scores.string_equals_mcqa",
        "scores.items() | list | length > 1",
        "scores[sample.key].is_correct",
        "sample.strin.is_correct",
        "scores.python.anything",
        "scores.string_equals_mcqa['is_correct.mean']",
    ],
)
def test_what_the_scorers_produce_may_be_read(write: Write, expression: str) -> None:
    """Values and metadata by name; what only the scores can tell is not questioned."""
    assert find_errors(write, expression, PYTHON) == []


@pytest.mark.parametrize(
    ("expression", "message", "hint"),
    [
        (
            "{{ scores.string_equal_mcqa.is_correct }}",
            "action `skip`: no scorer has the key `string_equal_mcqa`",
            "did you mean `string_equals_mcqa`?",
        ),
        ("scores.x.y", "action `skip`: no scorer has the key `x`", "scorers: `string_equals_mcqa`"),
        (
            "scores.string_equals_mcqa.is_corect",
            "action `skip`: scorer `string_equals_mcqa` has no value `is_corect`",
            "did you mean `is_correct`?",
        ),
    ],
)
def test_a_scorer_or_value_that_there_is_not_is_found_at_load(
    write: Write, expression: str, message: str, hint: str
) -> None:
    """With the nearest name."""
    assert find_errors(write, expression) == [("E113", message, hint)]


def test_the_place_is_that_of_the_expression(write: Write) -> None:
    """Line and column of the action's own filter."""
    write(
        task_yaml=TASK + "  actions:\n    - key: skip\n      filter: {op: is_true, expression: scores.x.y}\n"
    )
    assert [str(error.where) for error in load_task("task.yaml").errors] == ["task.yaml:14:41"]


def test_a_scorer_with_a_mistake_is_not_also_unknown(write: Write) -> None:
    """While one scorer is not known, no reference is questioned."""
    broken = "    - {type: string_equals, key: other}\n"
    assert [error[0] for error in find_errors(write, "scores.other.is_correct", broken)] == ["E108"]
