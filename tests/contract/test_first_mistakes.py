# ruff: noqa: E501 - what is said is quoted as it is
"""The mistakes of a new user, each made through the real command: it says what, where and what to do.

A row is what is wrong, the command, the files (on top of a sound task and twelve sound rows), how the model's
server behaves, and all that is said. `{server}` stands for the address of that server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from answerkey.models.calls import Limits
from answerkey.testing import Behaviour, Reply, TestServer

TASK = """\
key: quiz
display_name: Quiz
description: Four options.
definition:
  scorers:
    - type: string_equals_mcqa
      ground_truth_choice: "{{ sample.answer }}"
      choices: ["A", "B", "C", "D"]
"""
SOLVER = """\
  solver:
    type: single_turn_solver
    input_builder:
      type: chat_completion
      input_messages:
        - role: user
          content: "{{ sample.question }}"
"""
LIVE = TASK.replace("  scorers:\n", f"{SOLVER}  scorers:\n")
POLICY = """\
policies:
  - key: release
    rules:
      - key: accurate
        definition:
          type: threshold
          metric: Accuracy
          operator: ">="
          threshold: 0.8
"""
SCORE = "score task.yaml --dataset rows.jsonl"
RUN = "run live.yaml --dataset rows.jsonl"


def write_rows(answers: Iterable[object] = "ABCDABCDABCD", **more: object) -> str:
    """Return rows with these truths, as JSON Lines; `more` are columns that are the same in every row."""
    rows = [
        {"question": f"q{number}?", "options": ["red", "green", "blue", "grey"], "answer": answer}
        | {"completion": "A", **more}
        for number, answer in enumerate(answers, start=1)
    ]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def write_inspect_log(*targets: str, stated: int | None = None) -> str:
    """Return a log of Inspect with a sample for each target, and how many its header states."""
    samples = [
        {
            "id": number,
            "epoch": 1,
            "input": f"q{number}?",
            "choices": ["red", "green"],
            "target": target,
        }
        | {
            "output": {"choices": [], "completion": "A"},
            "scores": {"choice": {"value": "C", "answer": "A"}},
        }
        for number, target in enumerate(targets, start=1)
    ]
    head = {"task": "quiz", "task_id": "t", "run_id": "r", "eval_id": "e", "model": "m"}
    results = {
        "total_samples": stated or len(samples),
        "scores": [{"name": "choice", "metrics": {}}],
    }
    log = {"version": 2, "status": "success", "eval": head, "results": results, "samples": samples}
    return json.dumps(log)


PROMPTFOO = '{"evalId": "e", "results": {"version": 3, "results": []}}'


def change(old: str, new: str, text: str = TASK) -> dict[str, str | bytes]:
    """Return the task file with a slip in it."""
    assert old in text
    return {"task.yaml" if text == TASK else "live.yaml": text.replace(old, new, 1)}


def fill(
    answers: Iterable[object] = "ABCDABCDABCD", choices: str = "", **more: object
) -> dict[str, str | bytes]:
    """Return rows with these truths, and a task that reads its choices so."""
    task = TASK.replace('["A", "B", "C", "D"]', choices) if choices else TASK
    return {"task.yaml": task, "rows.jsonl": write_rows(answers, **more)}


def write_questions(**columns: Iterable[object]) -> str:
    """Return twelve rows of a data file; a column is given by the values of its rows."""
    sound: dict[str, Iterable[object]] = {"question": (f"q{number}?" for number in range(12))}
    sound |= {"options": [["red", "green", "blue", "grey"]] * 12, "answer": [*"ABCD"] * 3}
    table = {name: list(values) for name, values in (sound | columns).items()}
    return "".join(
        f"{json.dumps(dict(zip(table, row, strict=True)))}\n"
        for row in zip(*table.values(), strict=True)
    )


class Mistake(NamedTuple):
    """A mistake, and what is said of it."""

    name: str
    words: str
    files: Mapping[str, str | bytes]
    said: str
    server: Reply | Behaviour | None = None
    code: int = 2


MISTAKES = [
    Mistake(
        "truths are positions from 0",
        SCORE,
        fill([0, 1, 2, 3] * 3),
        """\
error[E204]: sample `000001`: ground truth '0' is not among the choices ['A', 'B', 'C', 'D']
  --> rows.jsonl:1, column `answer`
    1 | … ["red", "green", "blue", "grey"], "answer": 0, "completion": "A"}
      |                                               ^
  = help: fix the row

error[E204]: sample `000002`: ground truth '1' is not among the choices ['A', 'B', 'C', 'D']
  --> rows.jsonl:2, column `answer`
    2 | … ["red", "green", "blue", "grey"], "answer": 1, "completion": "A"}
      |                                               ^
  = help: fix the row

error[E204]: sample `000003`: ground truth '2' is not among the choices ['A', 'B', 'C', 'D']
  --> rows.jsonl:3, column `answer`
    3 | … ["red", "green", "blue", "grey"], "answer": 2, "completion": "A"}
      |                                               ^
  = help: fix the row

error[E204]: sample `000004`: ground truth '3' is not among the choices ['A', 'B', 'C', 'D']
  --> rows.jsonl:4, column `answer`
    4 | … ["red", "green", "blue", "grey"], "answer": 3, "completion": "A"}
      |                                               ^
  = help: fix the row

error[E204]: sample `000005`: ground truth '0' is not among the choices ['A', 'B', 'C', 'D']
  --> rows.jsonl:5, column `answer`
    5 | … ["red", "green", "blue", "grey"], "answer": 0, "completion": "A"}
      |                                               ^
  = help: fix the row

error[E204]: scorer `string_equals_mcqa`: 7 more rows have the same problem
  = help: `answerkey init DIR --dataset rows.jsonl` writes a task that reads this file
""",
    ),
    Mistake(
        "truths have brackets",
        SCORE,
        fill(["(A)", "(B)", "(C)"] * 4),
        """\
error[E204]: sample `000001`: ground truth '(A)' has more than one character
  --> rows.jsonl:1, column `answer`
    1 | … ["red", "green", "blue", "grey"], "answer": "(A)", "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: sample `000002`: ground truth '(B)' has more than one character
  --> rows.jsonl:2, column `answer`
    2 | … ["red", "green", "blue", "grey"], "answer": "(B)", "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: sample `000003`: ground truth '(C)' has more than one character
  --> rows.jsonl:3, column `answer`
    3 | … ["red", "green", "blue", "grey"], "answer": "(C)", "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: sample `000004`: ground truth '(A)' has more than one character
  --> rows.jsonl:4, column `answer`
    4 | … ["red", "green", "blue", "grey"], "answer": "(A)", "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: sample `000005`: ground truth '(B)' has more than one character
  --> rows.jsonl:5, column `answer`
    5 | … ["red", "green", "blue", "grey"], "answer": "(B)", "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: scorer `string_equals_mcqa`: 7 more rows have the same problem
  = help: `answerkey init DIR --dataset rows.jsonl` writes a task that reads this file
""",
    ),
    Mistake(
        "truths are the texts of options",
        SCORE,
        fill(["red", "green", "blue", "grey"] * 3),
        """\
error[E204]: sample `000001`: ground truth 'red' has more than one character
  --> rows.jsonl:1, column `answer`
    1 | … ["red", "green", "blue", "grey"], "answer": "red", "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: sample `000002`: ground truth 'green' has more than one character
  --> rows.jsonl:2, column `answer`
    2 | … ["red", "green", "blue", "grey"], "answer": "green", "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: sample `000003`: ground truth 'blue' has more than one character
  --> rows.jsonl:3, column `answer`
    3 | … ["red", "green", "blue", "grey"], "answer": "blue", "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: sample `000004`: ground truth 'grey' has more than one character
  --> rows.jsonl:4, column `answer`
    4 | … ["red", "green", "blue", "grey"], "answer": "grey", "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: sample `000005`: ground truth 'red' has more than one character
  --> rows.jsonl:5, column `answer`
    5 | … ["red", "green", "blue", "grey"], "answer": "red", "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: scorer `string_equals_mcqa`: 7 more rows have the same problem
  = help: `answerkey init DIR --dataset rows.jsonl` writes a task that reads this file
""",
    ),
    Mistake(
        "truths are null",
        SCORE,
        fill([None] * 12),
        """\
error[E204]: sample `000001`: ground truth is null
  --> rows.jsonl:1, column `answer`
    1 | … ["red", "green", "blue", "grey"], "answer": null, "completion": "A"}
      |                                               ^
  = help: every row needs one; fill the cell or filter the row out

error[E204]: sample `000002`: ground truth is null
  --> rows.jsonl:2, column `answer`
    2 | … ["red", "green", "blue", "grey"], "answer": null, "completion": "A"}
      |                                               ^
  = help: every row needs one; fill the cell or filter the row out

error[E204]: sample `000003`: ground truth is null
  --> rows.jsonl:3, column `answer`
    3 | … ["red", "green", "blue", "grey"], "answer": null, "completion": "A"}
      |                                               ^
  = help: every row needs one; fill the cell or filter the row out

error[E204]: sample `000004`: ground truth is null
  --> rows.jsonl:4, column `answer`
    4 | … ["red", "green", "blue", "grey"], "answer": null, "completion": "A"}
      |                                               ^
  = help: every row needs one; fill the cell or filter the row out

error[E204]: sample `000005`: ground truth is null
  --> rows.jsonl:5, column `answer`
    5 | … ["red", "green", "blue", "grey"], "answer": null, "completion": "A"}
      |                                               ^
  = help: every row needs one; fill the cell or filter the row out

error[E204]: scorer `string_equals_mcqa`: 7 more rows have the same problem
  = help: `answerkey init DIR --dataset rows.jsonl` writes a task that reads this file
""",
    ),
    Mistake(
        "truths are kept secret",
        SCORE,
        fill([-1] * 12),
        """\
error[E204]: sample `000001`: ground truth '-1' has more than one character
  --> rows.jsonl:1, column `answer`
    1 | … ["red", "green", "blue", "grey"], "answer": -1, "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: sample `000002`: ground truth '-1' has more than one character
  --> rows.jsonl:2, column `answer`
    2 | … ["red", "green", "blue", "grey"], "answer": -1, "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: sample `000003`: ground truth '-1' has more than one character
  --> rows.jsonl:3, column `answer`
    3 | … ["red", "green", "blue", "grey"], "answer": -1, "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: sample `000004`: ground truth '-1' has more than one character
  --> rows.jsonl:4, column `answer`
    4 | … ["red", "green", "blue", "grey"], "answer": -1, "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: sample `000005`: ground truth '-1' has more than one character
  --> rows.jsonl:5, column `answer`
    5 | … ["red", "green", "blue", "grey"], "answer": -1, "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: scorer `string_equals_mcqa`: 7 more rows have the same problem
  = help: `answerkey init DIR --dataset rows.jsonl` writes a task that reads this file
""",
    ),
    Mistake(
        "truths are none of the choices",
        SCORE,
        fill(["yes", "no"] * 12),
        """\
error[E204]: sample `000001`: ground truth 'yes' has more than one character
  --> rows.jsonl:1, column `answer`
    1 | … ["red", "green", "blue", "grey"], "answer": "yes", "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: sample `000002`: ground truth 'no' has more than one character
  --> rows.jsonl:2, column `answer`
    2 | … ["red", "green", "blue", "grey"], "answer": "no", "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: sample `000003`: ground truth 'yes' has more than one character
  --> rows.jsonl:3, column `answer`
    3 | … ["red", "green", "blue", "grey"], "answer": "yes", "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: sample `000004`: ground truth 'no' has more than one character
  --> rows.jsonl:4, column `answer`
    4 | … ["red", "green", "blue", "grey"], "answer": "no", "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: sample `000005`: ground truth 'yes' has more than one character
  --> rows.jsonl:5, column `answer`
    5 | … ["red", "green", "blue", "grey"], "answer": "yes", "completion": "A"}
      |                                               ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E204]: scorer `string_equals_mcqa`: 19 more rows have the same problem
  = help: `answerkey init DIR --dataset rows.jsonl` writes a task that reads this file
""",
    ),
    Mistake(
        "one truth is wrong",
        SCORE,
        fill([*"ABCDE"]),
        """\
error[E204]: sample `000005`: ground truth 'E' is not among the choices ['A', 'B', 'C', 'D']
  --> rows.jsonl:5, column `answer`
    5 | … ["red", "green", "blue", "grey"], "answer": "E", "completion": "A"}
      |                                               ^
  = help: fix the row, or run with `--allow-failed 1` to score the rest and report this sample as FAILED
""",
    ),
    Mistake(
        "choices are the options",
        SCORE,
        fill(choices='"{{ sample.options }}"'),
        """\
error[E205]: sample `000001`: choice 'red' has more than one character
  --> rows.jsonl:1, column `options`
    1 | {"question": "q1?", "options": ["red", "green", "blue", "grey"], "answer": "A", "completion…
      |                                ^
  = help: only single-character choices are supported here; for longer answers use the scorer `string_equals`

error[E205]: sample `000002`: choice 'red' has more than one character
  --> rows.jsonl:2, column `options`
    2 | {"question": "q2?", "options": ["red", "green", "blue", "grey"], "answer": "B", "completion…
      |                                ^
  = help: only single-character choices are supported here; for longer answers use the scorer `string_equals`

error[E205]: sample `000003`: choice 'red' has more than one character
  --> rows.jsonl:3, column `options`
    3 | {"question": "q3?", "options": ["red", "green", "blue", "grey"], "answer": "C", "completion…
      |                                ^
  = help: only single-character choices are supported here; for longer answers use the scorer `string_equals`

error[E205]: sample `000004`: choice 'red' has more than one character
  --> rows.jsonl:4, column `options`
    4 | {"question": "q4?", "options": ["red", "green", "blue", "grey"], "answer": "D", "completion…
      |                                ^
  = help: only single-character choices are supported here; for longer answers use the scorer `string_equals`

error[E205]: sample `000005`: choice 'red' has more than one character
  --> rows.jsonl:5, column `options`
    5 | {"question": "q5?", "options": ["red", "green", "blue", "grey"], "answer": "A", "completion…
      |                                ^
  = help: only single-character choices are supported here; for longer answers use the scorer `string_equals`

error[E205]: scorer `string_equals_mcqa`: 7 more rows have the same problem
  = help: `answerkey init DIR --dataset rows.jsonl` writes a task that reads this file
""",
    ),
    Mistake(
        "choices are the options, and truths too",
        SCORE,
        fill(["grey"] * 12, choices='"{{ sample.options }}"', options=["grey", "blue"]),
        """\
error[E205]: sample `000001`: choice 'grey' has more than one character
  --> rows.jsonl:1, column `options`
    1 | {"question": "q1?", "options": ["grey", "blue"], "answer": "grey", "completion": "A"}
      |                                ^
  = help: only single-character choices are supported here; for longer answers use the scorer `string_equals`

error[E204]: sample `000001`: ground truth 'grey' has more than one character
  --> rows.jsonl:1, column `answer`
    1 | {"question": "q1?", "options": ["grey", "blue"], "answer": "grey", "completion": "A"}
      |                                                            ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E205]: sample `000002`: choice 'grey' has more than one character
  --> rows.jsonl:2, column `options`
    2 | {"question": "q2?", "options": ["grey", "blue"], "answer": "grey", "completion": "A"}
      |                                ^
  = help: only single-character choices are supported here; for longer answers use the scorer `string_equals`

error[E204]: sample `000002`: ground truth 'grey' has more than one character
  --> rows.jsonl:2, column `answer`
    2 | {"question": "q2?", "options": ["grey", "blue"], "answer": "grey", "completion": "A"}
      |                                                            ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E205]: sample `000003`: choice 'grey' has more than one character
  --> rows.jsonl:3, column `options`
    3 | {"question": "q3?", "options": ["grey", "blue"], "answer": "grey", "completion": "A"}
      |                                ^
  = help: only single-character choices are supported here; for longer answers use the scorer `string_equals`

error[E204]: sample `000003`: ground truth 'grey' has more than one character
  --> rows.jsonl:3, column `answer`
    3 | {"question": "q3?", "options": ["grey", "blue"], "answer": "grey", "completion": "A"}
      |                                                            ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E205]: sample `000004`: choice 'grey' has more than one character
  --> rows.jsonl:4, column `options`
    4 | {"question": "q4?", "options": ["grey", "blue"], "answer": "grey", "completion": "A"}
      |                                ^
  = help: only single-character choices are supported here; for longer answers use the scorer `string_equals`

error[E204]: sample `000004`: ground truth 'grey' has more than one character
  --> rows.jsonl:4, column `answer`
    4 | {"question": "q4?", "options": ["grey", "blue"], "answer": "grey", "completion": "A"}
      |                                                            ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E205]: sample `000005`: choice 'grey' has more than one character
  --> rows.jsonl:5, column `options`
    5 | {"question": "q5?", "options": ["grey", "blue"], "answer": "grey", "completion": "A"}
      |                                ^
  = help: only single-character choices are supported here; for longer answers use the scorer `string_equals`

error[E204]: sample `000005`: ground truth 'grey' has more than one character
  --> rows.jsonl:5, column `answer`
    5 | {"question": "q5?", "options": ["grey", "blue"], "answer": "grey", "completion": "A"}
      |                                                            ^
  = help: write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`

error[E205]: scorer `string_equals_mcqa`: 7 more rows have the same problem
  = help: `answerkey init DIR --dataset rows.jsonl` writes a task that reads this file

error[E204]: scorer `string_equals_mcqa`: 7 more rows have the same problem
  = help: `answerkey init DIR --dataset rows.jsonl` writes a task that reads this file
""",
    ),
    Mistake(
        "choices are a mapping",
        SCORE,
        fill(choices='"{{ sample.options }}"', options=dict.fromkeys("ABCD", "x")),
        """\
error[E205]: sample `000001`: the choices are {'A': 'x', 'B': 'x', 'C': 'x', 'D': 'x'}, not a list
  --> rows.jsonl:1, column `options`
    1 | {"question": "q1?", "options": {"A": "x", "B": "x", "C": "x", "D": "x"}, "answer": "A", "co…
      |                                ^
  = help: write a list of single characters such as ["A", "B", "C", "D"]

error[E205]: sample `000002`: the choices are {'A': 'x', 'B': 'x', 'C': 'x', 'D': 'x'}, not a list
  --> rows.jsonl:2, column `options`
    2 | {"question": "q2?", "options": {"A": "x", "B": "x", "C": "x", "D": "x"}, "answer": "B", "co…
      |                                ^
  = help: write a list of single characters such as ["A", "B", "C", "D"]

error[E205]: sample `000003`: the choices are {'A': 'x', 'B': 'x', 'C': 'x', 'D': 'x'}, not a list
  --> rows.jsonl:3, column `options`
    3 | {"question": "q3?", "options": {"A": "x", "B": "x", "C": "x", "D": "x"}, "answer": "C", "co…
      |                                ^
  = help: write a list of single characters such as ["A", "B", "C", "D"]

error[E205]: sample `000004`: the choices are {'A': 'x', 'B': 'x', 'C': 'x', 'D': 'x'}, not a list
  --> rows.jsonl:4, column `options`
    4 | {"question": "q4?", "options": {"A": "x", "B": "x", "C": "x", "D": "x"}, "answer": "D", "co…
      |                                ^
  = help: write a list of single characters such as ["A", "B", "C", "D"]

error[E205]: sample `000005`: the choices are {'A': 'x', 'B': 'x', 'C': 'x', 'D': 'x'}, not a list
  --> rows.jsonl:5, column `options`
    5 | {"question": "q5?", "options": {"A": "x", "B": "x", "C": "x", "D": "x"}, "answer": "A", "co…
      |                                ^
  = help: write a list of single characters such as ["A", "B", "C", "D"]

error[E205]: scorer `string_equals_mcqa`: 7 more rows have the same problem
  = help: `answerkey init DIR --dataset rows.jsonl` writes a task that reads this file
""",
    ),
    Mistake(
        "a column is misspelt",
        SCORE,
        change("sample.answer", "sample.awnser"),
        """\
error[E206]: `ground_truth_choice`: `awnser` is not a column of dataset `rows`
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.awnser }}"
      |                                       ^
  = help: did you mean `answer`? columns: `question`, `options`, `answer`, `completion`
""",
    ),
    Mistake(
        "a column has another name",
        SCORE,
        change("sample.answer", "sample.gold"),
        """\
error[E206]: `ground_truth_choice`: `gold` is not a column of dataset `rows`
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.gold }}"
      |                                       ^
  = help: columns: `question`, `options`, `answer`, `completion`
""",
    ),
    Mistake(
        "a column of the prompt is misspelt",
        f"{RUN} --model builtin/random",
        change("sample.question", "sample.qestion", LIVE),
        """\
error[E206]: `qestion` is not a column
  --> live.yaml:11:20
   11 |           content: "{{ sample.qestion }}"
      |                               ^
  = help: did you mean `question`? columns: `question`, `options`, `answer`, `completion`
""",
    ),
    Mistake(
        "a template lacks a brace",
        SCORE,
        change("answer }}", "answer }"),
        """\
error[E112]: template does not parse: unexpected '}'
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.answer }"
      |                            ^
  = help: a template is written `{{ sample.answer }}`, filters behind `|`, text in quotes
""",
    ),
    Mistake(
        "a filter is misspelt",
        SCORE,
        change("answer }}", "answer | uper }}"),
        """\
error[E112]: no filter is named `uper`
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.answer | uper }}"
      |                                                ^
  = help: did you mean `upper`?
""",
    ),
    Mistake(
        "a template lacks `sample.`",
        SCORE,
        change("sample.answer", "answer"),
        """\
error[E112]: `answer` is not defined in this template
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ answer }}"
      |                                ^
  = help: a column is reached as `sample.answer`; names: `sample`
""",
    ),
    Mistake(
        "a column is named without a template",
        SCORE,
        change('"{{ sample.answer }}"', "answer"),
        """\
error[E108]: `ground_truth_choice`: ground truth 'answer' has more than one character
  --> task.yaml:7:28
    7 |       ground_truth_choice: answer
      |                            ^
  = help: for a column write `ground_truth_choice: "{{ sample.answer }}"`; write the label of a choice, such as 'A'; for longer answers use the scorer `string_equals`
""",
    ),
    Mistake(
        "a template lacks quotes",
        SCORE,
        change('"{{ sample.answer }}"', "{{ sample.answer }}"),
        """\
error[E102]: not valid YAML: a template without quotes
  --> task.yaml:7:28
    7 |       ground_truth_choice: {{ sample.answer }}
      |                            ^
  = help: put it in quotes: `"{{ sample.answer }}"`
""",
    ),
    Mistake(
        "a template lacks quotes and holds brackets",
        SCORE,
        change('"{{ sample.answer }}"', "{{ sample['answer'] }}"),
        """\
error[E102]: not valid YAML: expected ',' or '}', but got '['
  --> task.yaml:7:37
    7 |       ground_truth_choice: {{ sample['answer'] }}
      |                                     ^
  = help: indent with spaces, write `: ` after a key, close quotes and brackets; text with `{`, `[`, `: `, ` #` or `\\` needs single quotes around it all
""",
    ),
    Mistake(
        "a tab indents",
        SCORE,
        change("      choices", "\tchoices"),
        """\
error[E102]: not valid YAML: found character '\\t' that cannot start any token
  --> task.yaml:8:1
    8 | \\tchoices: ["A", "B", "C", "D"]
      | ^
  = help: indent with spaces, write `: ` after a key, close quotes and brackets; text with `{`, `[`, `: `, ` #` or `\\` needs single quotes around it all
""",
    ),
    Mistake(
        "an indentation is too small",
        SCORE,
        change("      choices", "     choices"),
        """\
error[E102]: not valid YAML: expected <block end>, but found '<block mapping start>', while parsing a block collection that begins in line 6
  --> task.yaml:8:6
    8 |      choices: ["A", "B", "C", "D"]
      |      ^
  = help: indent with spaces, write `: ` after a key, close quotes and brackets; text with `{`, `[`, `: `, ` #` or `\\` needs single quotes around it all
""",
    ),
    Mistake(
        "an indentation is too large",
        SCORE,
        change("      choices", "        choices"),
        """\
error[E102]: not valid YAML: expected <block end>, but found '<block mapping start>', while parsing a block mapping that begins in line 6
  --> task.yaml:8:9
    8 |         choices: ["A", "B", "C", "D"]
      |         ^
  = help: indent with spaces, write `: ` after a key, close quotes and brackets; text with `{`, `[`, `: `, ` #` or `\\` needs single quotes around it all
""",
    ),
    Mistake(
        "an operator lacks quotes",
        f"{SCORE} --policies gates.yaml",
        {"gates.yaml": POLICY.replace('">="', ">=")},
        """\
error[E102]: not valid YAML: expected chomping or indentation indicators, but found '='
  --> gates.yaml:8:22
    8 |           operator: >=
      |                      ^
  = help: indent with spaces, write `: ` after a key, close quotes and brackets; text with `{`, `[`, `: `, ` #` or `\\` needs single quotes around it all
""",
    ),
    Mistake(
        "a colon lacks its space",
        SCORE,
        change("type: string", "type:string"),
        """\
error[E102]: not valid YAML: mapping values are not allowed here
  --> task.yaml:7:26
    7 |       ground_truth_choice: "{{ sample.answer }}"
      |                          ^
  = help: indent with spaces, write `: ` after a key, close quotes and brackets; text with `{`, `[`, `: `, ` #` or `\\` needs single quotes around it all
""",
    ),
    Mistake(
        "a text holds a colon",
        SCORE,
        change("Four options.", "Options: four"),
        """\
error[E102]: not valid YAML: mapping values are not allowed here
  --> task.yaml:3:21
    3 | description: Options: four
      |                     ^
  = help: indent with spaces, write `: ` after a key, close quotes and brackets; text with `{`, `[`, `: `, ` #` or `\\` needs single quotes around it all
""",
    ),
    Mistake(
        "a key is written twice",
        SCORE,
        change("key: quiz", "key: quiz\nkey: other"),
        """\
error[E103]: key `key` is given twice: lines 1 and 2
  --> task.yaml:2:1
    2 | key: other
      | ^
  = help: keep one of them
""",
    ),
    Mistake(
        "a quote is not closed",
        SCORE,
        change('answer }}"', "answer }}"),
        """\
error[E102]: not valid YAML: expected <block end>, but found '<scalar>', while parsing a block mapping that begins in line 6
  --> task.yaml:8:18
    8 |       choices: ["A", "B", "C", "D"]
      |                  ^
  = help: indent with spaces, write `: ` after a key, close quotes and brackets; text with `{`, `[`, `: `, ` #` or `\\` needs single quotes around it all
""",
    ),
    Mistake(
        "a bracket is not closed",
        SCORE,
        change('"D"]', '"D"'),
        """\
error[E102]: not valid YAML: expected ',' or ']', but got '<stream end>', while parsing a flow sequence that begins in line 8
  --> task.yaml:9:1
  = help: indent with spaces, write `: ` after a key, close quotes and brackets; text with `{`, `[`, `: `, ` #` or `\\` needs single quotes around it all
""",
    ),
    Mistake(
        "a path has backslashes in double quotes",
        SCORE,
        change("Four options.", '"C:\\data\\quiz"'),
        """\
error[E102]: not valid YAML: found unknown escape character 'd'
  --> task.yaml:3:18
    3 | description: "C:\\data\\quiz"
      |                  ^
  = help: indent with spaces, write `: ` after a key, close quotes and brackets; text with `{`, `[`, `: `, ` #` or `\\` needs single quotes around it all
""",
    ),
    Mistake(
        "a text is read as true",
        SCORE,
        change("display_name: Quiz", "display_name: true"),
        """\
error[E108]: `display_name` must be text, not true
  --> task.yaml:2:15
    2 | display_name: true
      |               ^
  = help: put the value in quotes to make it text
""",
    ),
    Mistake(
        "a list lacks its dash",
        SCORE,
        change("    - type", "      type"),
        """\
error[E108]: `scorers` must be a list, not {'type': 'string_equals_mcqa', 'ground_truth_choice': '{{ s…
  --> task.yaml:6:7
    6 |       type: string_equals_mcqa
      |       ^
  = help: begin each entry with `- `, or write `[…]`
""",
    ),
    Mistake(
        "a scorer is misspelt",
        SCORE,
        change("string_equals_mcqa", "string_equal_mcqa"),
        """\
error[E109]: unknown scorer type 'string_equal_mcqa'
  --> task.yaml:6:13
    6 |     - type: string_equal_mcqa
      |             ^
  = help: did you mean `string_equals_mcqa`? supported: `choice_probabilities`, `labeler_via_model`, `model_as_a_judge_classifier`, `model_as_a_judge_scorer`, `python`, `string_equals`, `string_equals_mcqa`; for a rule of your own use a `python` scorer
""",
    ),
    Mistake(
        "a metric is called f1",
        SCORE,
        change("      choices", "      metrics: [{type: f1, field: is_correct}]\n      choices"),
        """\
error[E109]: unknown metric type 'f1'
  --> task.yaml:8:24
    8 |       metrics: [{type: f1, field: is_correct}]
      |                        ^
  = help: did you mean `f1_score`? supported: `binary-classification`, `calibration`, `f1_score`, `frequency`, `max`, `mean`, `min`, `multiclass-classification`, `precision`, `python`, `recall`, `std_dev`, `weighted_average`
""",
    ),
    Mistake(
        "a metric is called accuracy",
        SCORE,
        change(
            "      choices", "      metrics: [{type: accuracy, field: is_correct}]\n      choices"
        ),
        """\
error[E109]: unknown metric type 'accuracy'
  --> task.yaml:8:24
    8 |       metrics: [{type: accuracy, field: is_correct}]
      |                        ^
  = help: did you mean `mean`? supported: `binary-classification`, `calibration`, `f1_score`, `frequency`, `max`, `mean`, `min`, `multiclass-classification`, `precision`, `python`, `recall`, `std_dev`, `weighted_average`
""",
    ),
    Mistake(
        "a metric is called binary",
        SCORE,
        change(
            "      choices", "      metrics: [{type: binary, field: is_correct}]\n      choices"
        ),
        """\
error[E109]: unknown metric type 'binary'
  --> task.yaml:8:24
    8 |       metrics: [{type: binary, field: is_correct}]
      |                        ^
  = help: did you mean `binary-classification`? supported: `binary-classification`, `calibration`, `f1_score`, `frequency`, `max`, `mean`, `min`, `multiclass-classification`, `precision`, `python`, `recall`, `std_dev`, `weighted_average`
""",
    ),
    Mistake(
        "a metric is called avg",
        SCORE,
        change("      choices", "      metrics: [{type: avg, field: is_correct}]\n      choices"),
        """\
error[E109]: unknown metric type 'avg'
  --> task.yaml:8:24
    8 |       metrics: [{type: avg, field: is_correct}]
      |                        ^
  = help: did you mean `mean`? supported: `binary-classification`, `calibration`, `f1_score`, `frequency`, `max`, `mean`, `min`, `multiclass-classification`, `precision`, `python`, `recall`, `std_dev`, `weighted_average`
""",
    ),
    Mistake(
        "a metric reads a field that is not there",
        SCORE,
        change("      choices", "      metrics: [{type: mean, field: accuracy}]\n      choices"),
        """\
error[E115]: metric field `accuracy` is not produced by `string_equals_mcqa`
  --> task.yaml:8:37
    8 |       metrics: [{type: mean, field: accuracy}]
      |                                     ^
  = help: did you mean `is_correct`? fields: `is_correct`, `completion_validity`, `validity_reason`, `predicted_choice`, `ground_truth_choice`, `choices`, `extraction_rule`
""",
    ),
    Mistake(
        "a solver is shortened",
        f"{RUN} --model builtin/random",
        change("single_turn_solver", "single_turn", LIVE),
        """\
error[E109]: unknown solver type 'single_turn'
  --> live.yaml:6:11
    6 |     type: single_turn
      |           ^
  = help: did you mean `single_turn_solver`? supported: `choice_ranking_solver`, `pass_through_solver`, `single_turn_solver`
""",
    ),
    Mistake(
        "a key is shortened",
        SCORE,
        change("ground_truth_choice", "ground_truth"),
        """\
error[E107]: unknown key `ground_truth` in scorer 1 (`string_equals_mcqa`)
  --> task.yaml:7:7
    7 |       ground_truth: "{{ sample.answer }}"
      |       ^
  = help: did you mean `ground_truth_choice`?
""",
    ),
    Mistake(
        "an extraction rule is unknown",
        SCORE,
        change("      choices", "      extraction: last_letter\n      choices"),
        """\
error[E108]: unknown extraction rule 'last_letter'
  --> task.yaml:8:19
    8 |       extraction: last_letter
      |                   ^
  = help: extraction rules: `first_character`, `first_character_literal`, `leading_label`, `stated_answer`, and `{pattern: …}` with a regular expression; `{rule: …, fallback: MODEL}` has a model read the rest, and `{rule: stated_answer, accept: GRADE}` sets the lowest grade that counts, out of `stated`, `doubted`, `weak`
""",
    ),
    Mistake(
        "a gate names a metric that there is not",
        f"{SCORE} --policies gates.yaml",
        {"gates.yaml": POLICY.replace("Accuracy", "Acuracy")},
        """\
error[E113]: rule `accurate` of policy `release` names the metric `Acuracy`, which no task in its scope has
  --> gates.yaml:6:11
    6 |           type: threshold
      |           ^
  = help: did you mean `Accuracy`?
""",
    ),
    Mistake(
        "the task file is misspelt",
        "run taks.yaml",
        {},
        """\
error[E101]: file `taks.yaml` does not exist
  --> taks.yaml
  = help: did you mean `task.yaml`?
""",
    ),
    Mistake(
        "the dataset is misspelt",
        "score task.yaml --dataset row.jsonl",
        {},
        """\
error[E119]: `--dataset row.jsonl`: there is no such file
  --> row.jsonl
  = help: did you mean `rows.jsonl`?
""",
    ),
    Mistake(
        "no dataset is named",
        "score task.yaml",
        {},
        """\
error[E119]: task `quiz` names no dataset
  --> task.yaml:5:3
    5 |   scorers:
      |   ^
  = help: give one with `--dataset FILE`
""",
    ),
    Mistake(
        "a folder holds no run file",
        "run .",
        {},
        """\
error[E101]: folder `.` holds no `run.yaml`
  --> .
  = help: name one of its files, such as `live.yaml`, `rows.jsonl`, `task.yaml`, or write a `run.yaml` there
""",
    ),
    Mistake(
        "the dataset is a workbook",
        "score task.yaml --dataset rows.xlsx",
        {"rows.xlsx": b"PK\x03\x04"},
        """\
error[E201]: the ending of `rows.xlsx` names no format
  --> rows.xlsx
  = help: endings: `.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.json`, `.parquet`, `.pq`, `.arrow`, `.feather`, `.ipc`, each also with `.gz`, `.zst`; save a workbook as CSV
""",
    ),
    Mistake(
        "the dataset is an empty folder",
        "score task.yaml --dataset data",
        {"data/": ""},
        """\
error[E201]: the folder has no such file
  --> data
  = help: files there: none; see `extension` and `pattern`
""",
    ),
    Mistake(
        "the dataset is empty",
        SCORE,
        {"rows.jsonl": ""},
        """\
error[E210]: there are no rows
  --> rows.jsonl
  = help: is this the right file, and was it written to its end?
""",
    ),
    Mistake(
        "the task file is empty",
        SCORE,
        {"task.yaml": ""},
        """\
error[E108]: the file is empty
  --> task.yaml:1:1
  = help: a run file has `tasks` and `evaluation`, a task file has `key` and `definition`
""",
    ),
    Mistake(
        "the task file is UTF-16",
        SCORE,
        {"task.yaml": TASK.encode("utf-16")},
        """\
error[E102]: `task.yaml` is not UTF-8 text: byte 0xff
  --> task.yaml:1:1
  = help: save the file as UTF-8
""",
    ),
    Mistake(
        "the task file is Latin-1",
        SCORE,
        {"task.yaml": TASK.replace("Four", "Für").encode("latin-1")},
        """\
error[E102]: `task.yaml` is not UTF-8 text: byte 0xfc
  --> task.yaml:3:15
    3 | description: F�r options.
      |               ^
  = help: save the file as UTF-8
""",
    ),
    Mistake(
        "the dataset is Latin-1",
        "score task.yaml --dataset rows.csv",
        {"rows.csv": "question,answer\nfür,A\n".encode("latin-1")},
        """\
error[E203]: byte 0xfc is not valid UTF-8
  --> rows.csv:2:2
    2 | f�r,A
      |  ^
  = help: save the file as UTF-8; `iconv -f LATIN1 -t UTF-8 FILE` prints it so
""",
    ),
    Mistake(
        "a row of JSON is cut off",
        SCORE,
        {"rows.jsonl": write_rows() + '{"question": "x", "answer": "A"\n'},
        """\
error[E202]: not valid JSON: expecting ',' delimiter
  --> rows.jsonl:13:32
   13 | {"question": "x", "answer": "A"
      |                                ^
  = help: a row is one line such as `{"question": "…", "answer": "A"}`, as `json.dumps` writes it
""",
    ),
    Mistake(
        "a file of JSON rows is cut off",
        SCORE,
        {"rows.jsonl": write_rows() + '{"question": "x", "opti'},
        """\
error[E202]: not valid JSON: unterminated string starting at
  --> rows.jsonl:13:19
   13 | {"question": "x", "opti
      |                   ^
  = help: a row is one line such as `{"question": "…", "answer": "A"}`, as `json.dumps` writes it
""",
    ),
    Mistake(
        "a dataset of the hub without a network",
        "run mmlu --model builtin/longest",
        {},
        """\
error[E214]: dataset `cais/mmlu` of the hub cannot be fetched: no answer from `127.0.0.1:9`
  --> benchmarks/mmlu.yaml:61:9
  = help: try again, read what is on this machine with `HF_HUB_OFFLINE=1`, or give a copy of its files: `--dataset FILE`
""",
    ),
    Mistake(
        "rows are written as Python",
        SCORE,
        {"rows.jsonl": "{'question': 'x', 'answer': 'A'}\n"},
        """\
error[E202]: not valid JSON: expecting property name enclosed in double quotes
  --> rows.jsonl:1:2
    1 | {'question': 'x', 'answer': 'A'}
      |  ^
  = help: a row is one line such as `{"question": "…", "answer": "A"}`, as `json.dumps` writes it
""",
    ),
    Mistake(
        "a row ends with a comma",
        SCORE,
        {"rows.jsonl": '{"question": "x", "answer": "A",}\n'},
        """\
error[E202]: not valid JSON: expecting property name enclosed in double quotes
  --> rows.jsonl:1:33
    1 | {"question": "x", "answer": "A",}
      |                                 ^
  = help: a row is one line such as `{"question": "…", "answer": "A"}`, as `json.dumps` writes it
""",
    ),
    Mistake(
        "a list is named .jsonl",
        SCORE,
        {"rows.jsonl": '[{"answer": "A"}]\n'},
        """\
error[E202]: the row is [{"answer": "A"}], not an object
  --> rows.jsonl:1
    1 | [{"answer": "A"}]
  = help: write `{"column": value, ...}` on each line, or name a JSON list `.json`
""",
    ),
    Mistake(
        "rows are named .json",
        "score task.yaml --dataset rows.json",
        {"rows.json": write_rows()},
        """\
error[E202]: the file is not a JSON list of objects
  --> rows.json:1
    1 | {"question": "q1?", "options": ["red", "green", "blue", "grey"], "answer": "A", "completion…
  = help: write `[{...}, {...}]`; a file with one object per line is named `.jsonl`
""",
    ),
    Mistake(
        "a web page was saved",
        SCORE,
        {"rows.jsonl": "<!DOCTYPE html><title>404</title>\n"},
        """\
error[E202]: not valid JSON: expecting value
  --> rows.jsonl:1:1
    1 | <!DOCTYPE html><title>404</title>
      | ^
  = help: by its first bytes this file is a web page: download the file itself
""",
    ),
    Mistake(
        "Git LFS left a pointer",
        SCORE,
        {"rows.jsonl": "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"},
        """\
error[E202]: not valid JSON: expecting value (and in 1 more rows)
  --> rows.jsonl:1:1
    1 | version https://git-lfs.github.com/spec/v1
      | ^
  = help: by its first bytes this file is a pointer of Git LFS: fetch the file with `git lfs pull`
""",
    ),
    Mistake(
        "a row of CSV has a comma too many",
        "score task.yaml --dataset rows.csv",
        {"rows.csv": "question,answer\na, b,A\n"},
        """\
error[E202]: the row has 3 cells, the header has 2
  --> rows.csv:2
    2 | a, b,A
  = help: a cell that holds the separator or a line break must be in double quotes
""",
    ),
    Mistake(
        "there is no column of completions",
        SCORE,
        {"rows.jsonl": write_rows().replace("completion", "said")},
        """\
error[E209]: scorer `string_equals_mcqa` needs completions: no model is called, and dataset `rows` has no column `completion`, `output`, `response` or `model_output`
  --> rows.jsonl
  = help: name the column with `--completion-column NAME`, or bring a file with `--completions FILE`; columns: `question`, `options`, `answer`, `said`
""",
    ),
    Mistake(
        "the column of completions is misspelt",
        f"{SCORE} --completion-column complet",
        {},
        """\
error[E209]: no column holds the completions; looked for `complet`
  --> rows.jsonl
  = help: did you mean `completion`? columns: `question`, `options`, `answer`, `completion`
""",
    ),
    Mistake(
        "there are too few completions",
        f"{SCORE} --completions said.jsonl",
        {"said.jsonl": '{"completion": "A"}\n' * 5},
        """\
error[E209]: there is no column `sample_id`, and the numbers differ: completions 5, samples 12, selected 12
  --> said.jsonl
  = help: add a column `sample_id`, or give exactly one completion per sample, in the dataset's order
""",
    ),
    Mistake(
        "completions have other ids",
        f"{SCORE} --completions said.jsonl",
        {"said.jsonl": '{"sample_id": "x", "completion": "A"}\n'},
        """\
error[E209]: the completions do not fit the dataset: samples without a completion: 12 (`000001`, `000002`, `000003`, `000004`, `000005` and 7 more); completions without a sample: 1 (`x`)
  --> said.jsonl
  = help: `sample_id` must hold the ids of this dataset; rows without ids are `000001`, `000002`, ...
""",
    ),
    Mistake(
        "the completions file is missing",
        f"{SCORE} --completions said.jsonl",
        {},
        """\
error[E201]: there is no data file `said.jsonl`
  --> said.jsonl
  = help: files there: `live.yaml`, `rows.jsonl`, `task.yaml`
""",
    ),
    Mistake(
        "ids are used twice",
        SCORE,
        {"rows.jsonl": write_rows("AB", sample_id="x")},
        """\
error[E208]: sample id `x` is used twice, first on line 1
  --> rows.jsonl:2, column `sample_id`
    2 | …nswer": "B", "completion": "A", "sample_id": "x"}
      |                                               ^
  = help: give every row its own id, or remove the column `sample_id` to number the rows
""",
    ),
    Mistake(
        "images without a task file",
        "run q.jsonl -q --model builtin/random",
        {"q.jsonl": write_questions(image=["a.png"] * 12)},
        """\
error[E215]: images in `image` are not shown without a task file: the model would guess
  --> q.jsonl
  = help: write a project whose prompt shows them: `answerkey init my-eval --dataset q.jsonl`
""",
    ),
    Mistake(
        "every question has several truths",
        "run q.jsonl --model builtin/random",
        {"q.jsonl": write_questions(answer=[["A", "C"]] * 12)},
        """\
error[E215]: the truths name no option in 12 of 12 rows
  line 1: `answer` ['A', 'C'] as label is no option
  line 2: `answer` ['A', 'C'] as label is no option
  line 3: `answer` ['A', 'C'] as label is no option
  --> q.jsonl, column `answer`
  = help: name the column of the truth: `--column truth=NAME`; looked at `answer`; columns: `question`, `options`, `answer`; a truth names one option, and some splits have none
""",
    ),
    Mistake(
        "some truths are two labels",
        "run q.jsonl --model builtin/random",
        {"q.jsonl": write_questions(answer=["AB", "CD", *"ABCDABCDAB"])},
        """\
error[E215]: the truths name no option in 2 of 12 rows
  line 1: `answer` 'AB' as label is no option
  line 2: `answer` 'CD' as label is no option
  --> q.jsonl, column `answer`
  = help: name the column of the truth: `--column truth=NAME`; looked at `answer`; columns: `question`, `options`, `answer`; to score the other rows: `--column truth=answer:label --allow-failed 2`
""",
    ),
    Mistake(
        "truths are numbers with a dot",
        "run q.jsonl --model builtin/random",
        {"q.jsonl": write_questions(answer=["1.", "2."] * 6)},
        """\
error[E215]: the truths can be read in 2 ways, which all fit
  line 1: `answer` '1.' as index from 0 is 'green'; `answer` '1.' as index from 1 is 'red'
  line 2: `answer` '2.' as index from 0 is 'blue'; `answer` '2.' as index from 1 is 'green'
  line 3: `answer` '1.' as index from 0 is 'green'; `answer` '1.' as index from 1 is 'red'
  --> q.jsonl, column `answer`
  = help: say which is meant: `--column truth=answer:0` or `--column truth=answer:1`
""",
    ),
    Mistake(
        "the lists of options are empty",
        "run q.jsonl --model builtin/random",
        {"q.jsonl": write_questions(options=[[]] * 12)},
        """\
error[E206]: no column holds the options
  --> q.jsonl
  = help: name the columns: `--column options=NAME`; there are `question`, `options`, `answer`; the options of a row are a list of texts: `["red", "blue"]`
""",
    ),
    Mistake(
        "one list of options is empty",
        "run q.jsonl -q --model builtin/random",
        {"q.jsonl": write_questions(options=[["red", "green", "blue", "grey"]] * 11 + [[]])},
        """\
error[E205]: sample `000012`: the question has no options
  --> q.jsonl:12, column `options`
   12 | {"question": "q11?", "options": [], "answer": "D"}
      |                                 ^
  = help: list them, or run with `--allow-failed 1` to score the rest and report this sample as FAILED
""",
    ),
    Mistake(
        "options are one text",
        "run q.csv --model builtin/random",
        {"q.csv": "question,options,answer\n" + "who?,red|green|blue,A\n" * 12},
        """\
error[E206]: no column holds the options
  --> q.csv
  = help: name the columns: `--column options=NAME`; there are `question`, `options`, `answer`; the options of a row are a list of texts: `["red", "blue"]`; `--header question,A,B,C,D,answer` if the first line is a question
""",
    ),
    Mistake(
        "a CSV file has no header",
        "run q.csv --model builtin/random",
        {"q.csv": "1,who?,red|green|blue,A\n" * 12},
        """\
error[E206]: no column holds the question or the options or the truth
  --> q.csv
  = help: name the columns: `--column question=NAME --column options=NAME --column truth=NAME`; there are `1`, `who?`, `red|green|blue`, `A`; the options of a row are a list of texts: `["red", "blue"]`; `--header question,A,B,C,D,answer` if the first line is a question
""",
    ),
    Mistake(
        "several columns are renamed",
        "run q.jsonl --model builtin/random",
        {
            "q.jsonl": write_questions()
            .replace('"question"', '"frage"')
            .replace('"options"', '"auswahl"')
            .replace('"answer"', '"l\u00f6sung"')
        },
        """\
error[E206]: no column holds the question or the options or the truth
  --> q.jsonl
  = help: name the columns: `--column question=NAME --column options=NAME --column truth=NAME`; there are `frage`, `auswahl`, `lösung`; the options of a row are a list of texts: `["red", "blue"]`
""",
    ),
    Mistake(
        "ids of a data file are used twice",
        "run q.jsonl --model builtin/random",
        {"q.jsonl": write_questions(id=[1, 1, *range(3, 13)])},
        """\
error[E208]: `id` has the same value in several rows, and is no id
  '1' on lines 1, 2
  --> q.jsonl, column `id`
  = help: give every row its own id, or number the rows instead: `--column id=`
""",
    ),
    Mistake(
        "a question has too many options",
        "run q.jsonl --model builtin/random",
        {"q.jsonl": write_questions(options=[[str(number) for number in range(1_001)]] * 12)},
        """\
error[E205]: a question has at most 1,000 options, and this one has 1,001
  --> q.jsonl:1, column `options`
    1 | {"question": "q0?", "options": ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11…
      |                                ^
  = help: leave the row out
""",
    ),
    Mistake(
        "the rows are in an object",
        "run q.json --model builtin/random",
        {"q.json": '{"version": 1, "data": [{"question": "?"}]}'},
        """\
error[E202]: the file is not a JSON list of objects
  --> q.json:1
    1 | {"version": 1, "data": [{"question": "?"}]}
  = help: write `[{...}, {...}]`; a file with one object per line is named `.jsonl`
""",
    ),
    Mistake(
        "a folder of data files is named",
        "run folder --model builtin/random",
        {"folder/": "", "folder/q.jsonl": write_questions()},
        """\
error[E101]: folder `folder` holds no `run.yaml`
  --> folder
  = help: name one of its files, such as `folder/q.jsonl`, or write a `run.yaml` there
""",
    ),
    Mistake(
        "a column is named without its part",
        "run rows.jsonl --model builtin/random --column answer",
        {},
        """\
error[E119]: `--column answer` is not of the form `PART=NAME`
  = help: write `--column truth=answer`
""",
    ),
    Mistake(
        "a data file has a dataset",
        "run rows.jsonl -q --model builtin/random --dataset rows.jsonl",
        {},
        """\
error[E119]: `rows.jsonl` is a data file: it brings its own samples, and `--dataset` is for a task
  = help: leave `--dataset` out: `answerkey run rows.jsonl --model MODEL`
""",
    ),
    Mistake(
        "the number of samples is negative",
        "run rows.jsonl --model builtin/random --num-samples -3",
        {},
        """\
error[E119]: Invalid value for '--num-samples': -3 is not in the range x>=1
  = help: `answerkey run --help` shows what there is
""",
    ),
    Mistake(
        "no model is named",
        RUN,
        {},
        """\
error[E119]: task `quiz` calls a model, and none is named
  --> live.yaml:6:5
    6 |     type: single_turn_solver
      |     ^
  = help: add `--model builtin/random`, or bring recorded completions with `--completions FILE`
""",
    ),
    Mistake(
        "the provider is misspelt",
        f"{RUN} --model opnai/gpt-4.1",
        {},
        """\
error[E301]: unknown model `opnai/gpt-4.1`
  --> --model
  = help: did you mean `openai/gpt-4.1`?
""",
    ),
    Mistake(
        "the provider ends with a colon",
        f"{RUN} --model openai:gpt-4o",
        {},
        """\
error[E301]: unknown model `openai:gpt-4o`
  --> --model
  = help: write `openai/gpt-4o`
""",
    ),
    Mistake(
        "the model is a host and a port",
        f"{RUN} --model 127.0.0.1:8931",
        {},
        """\
error[E301]: unknown model `127.0.0.1:8931`
  --> --model
  = help: write the address with a model: `http://127.0.0.1:8931/v1#NAME`
""",
    ),
    Mistake(
        "the key is not set",
        f"{RUN} --model openai/gpt-4.1-nano",
        {},
        """\
error[E117]: model `openai/gpt-4.1-nano` needs a key, and `OPENAI_API_KEY` is not set
  = help: set it in the environment or in `.env`: `OPENAI_API_KEY=…`
""",
    ),
    Mistake(
        "the address names no model",
        f"{RUN} --model http://127.0.0.1:9/v1",
        {},
        """\
error[E301]: model `http://127.0.0.1:9/v1` names no model at that address
  --> --model
  = help: add the model's name behind `#`: `http://127.0.0.1:9/v1#NAME`
""",
    ),
    Mistake(
        "no server is running",
        f"{RUN} --model http://127.0.0.1:9/v1#m",
        {},
        """\
error[E306]: `http://127.0.0.1:9/v1#m` cannot be reached: cannot connect to `127.0.0.1`: Connection refused
  = help: check the address, and that the endpoint is up; then `answerkey resume` goes on
""",
        code=3,
    ),
    Mistake(
        "the host is not known",
        f"{RUN} --model http://nobody.invalid/v1#m",
        {},
        """\
error[E306]: `http://nobody.invalid/v1#m` cannot be reached: the host `nobody.invalid` is not known
  = help: check the address, and that the endpoint is up; then `answerkey resume` goes on
""",
        code=3,
    ),
    Mistake(
        "a key is wanted (401)",
        f"{RUN} --model {{server}}/v1#m",
        {},
        """\
error[E304]: the endpoint of `{server}/v1#m` wants a key, and none is sent (status 401): HTTP 401: Incorrect API key provided
  = help: set `ANSWERKEY_API_KEY` in the environment; what was answered is kept, then `answerkey resume` goes on
""",
        server=Behaviour(api_key="right"),
        code=3,
    ),
    Mistake(
        "a call is forbidden (403)",
        f"{RUN} --model {{server}}/v1#m",
        {},
        """\
error[E304]: the endpoint of `{server}/v1#m` wants a key, and none is sent (status 403): HTTP 403: Forbidden
  = help: set `ANSWERKEY_API_KEY` in the environment; what was answered is kept, then `answerkey resume` goes on
""",
        server=Behaviour(faults={"403": 1.0}, faulty_attempts=None),
        code=3,
    ),
    Mistake(
        "the model is not known (404)",
        f"{RUN} --model {{server}}/v1#m",
        {},
        """\
error[E306]: `127.0.0.1` does not know the model, or the address, of `{server}/v1#m`: HTTP 404: Not Found
  = help: correct the name or the address (`curl {server}/v1/models` lists the names), and start a new run; or let the endpoint load it, then `answerkey resume` goes on
""",
        server=Behaviour(faults={"404": 1.0}, faulty_attempts=None),
        code=3,
    ),
    Mistake(
        "the address lacks /v1",
        f"{RUN} --model {{server}}#m",
        {},
        """\
error[E306]: `127.0.0.1` does not know the model, or the address, of `{server}#m`: HTTP 404: Not Found
  = help: most APIs have `/v1` in their address: write `{server}/v1#m`, and start a new run; or let the endpoint load it, then `answerkey resume` goes on
""",
        server=Behaviour(faults={"404": 1.0}, faulty_attempts=None),
        code=3,
    ),
    Mistake(
        "the quota is used up",
        f"{RUN} --model {{server}}/v1#m",
        {},
        """\
error[E304]: `127.0.0.1` has no quota left for the key of `{server}/v1#m`: HTTP 429: No credit.
  = help: add credit, or raise the limit of the account; what was answered is kept, then `answerkey resume` goes on
""",
        server=Reply(
            status=429, body=b'{"error": {"message": "No credit.", "code": "insufficient_quota"}}'
        ),
        code=3,
    ),
    Mistake(
        "the address is that of a web page",
        f"{RUN} --model {{server}}/v1#m",
        {},
        """\
error[E306]: `{server}/v1#m` is a web page, not an API: the body is HTML, not JSON
  = help: correct the name or the address (`curl {server}/v1/models` lists the names), and start a new run
""",
        server=Behaviour(faults={"html": 1.0}, faulty_attempts=None),
        code=3,
    ),
    Mistake(
        "https is asked of an http port",
        f"{RUN} --model https{{server}}/v1#m",
        {},
        """\
error[E306]: `https{server}/v1#m` cannot be reached: `127.0.0.1` answers without TLS
  = help: write `{server}/v1#m`
""",
        server=Behaviour(),
        code=3,
    ),
    Mistake(
        "the server fails at everything",
        f"{RUN} --model {{server}}/v1#m",
        {},
        """\
error[E306]: every call to `{server}/v1#m` failed: HTTP 500: CUDA out of memory
  = help: look into the log of the endpoint for the reason; then `answerkey resume` goes on
""",
        server=Reply(status=500, body=b'{"error": {"message": "CUDA out of memory"}}'),
        code=3,
    ),
    Mistake(
        "the server never answers",
        f"{RUN} --model {{server}}/v1#m",
        {},
        """\
error[E306]: `{server}/v1#m` never answers: no whole reply from `127.0.0.1` within 0.5 s
  = help: check the address, and that the endpoint is up; then `answerkey resume` goes on
""",
        server=Behaviour(faults={"hang": 1.0}, faulty_attempts=None),
        code=3,
    ),
    Mistake(
        "a run is not there",
        "show latest",
        {},
        """\
error[E501]: there is no run `latest`
  = help: `answerkey runs` lists the runs of a folder; `answerkey run FILE` makes one
""",
    ),
    Mistake(
        "`latest` is misspelt",
        "show lates",
        {"runs/one/run.json": "{}"},
        """\
error[E501]: there is no run `lates`
  = help: did you mean `latest`?
""",
    ),
    Mistake(
        "the name of a run is misspelt",
        "compare runs/nope runs/gpt-first",
        {"runs/gpt-first/run.json": "{}", "runs/nope-2/run.json": "{}"},
        """\
error[E501]: there is no run `runs/nope`
  = help: did you mean `runs/nope-2`?
""",
    ),
    Mistake(
        "a run is not there, but others are",
        "compare runs/b runs/gpt-first",
        {"runs/gpt-first/run.json": "{}"},
        """\
error[E501]: there is no run `runs/b`
  = help: the newest run is `runs/gpt-first`
""",
    ),
    Mistake(
        "a project is no run",
        "show .",
        {},
        """\
error[E501]: `.` is not a run folder
  = help: `answerkey runs` lists the runs of a folder
""",
    ),
    Mistake(
        "a command is misspelt",
        "rnu task.yaml",
        {},
        """\
error[E119]: No such command 'rnu'
  = help: did you mean `run`?
""",
    ),
    Mistake(
        "an option is misspelt",
        f"{SCORE} --datset x",
        {},
        """\
error[E119]: No such option '--datset'
  = help: did you mean `--dataset`?
""",
    ),
    Mistake(
        "a part of a ready-made task is named",
        "run gpqa_diamond --model builtin/random",
        {},
        """\
error[E101]: there is no file and no ready-made task `gpqa_diamond`
  --> gpqa_diamond
  = help: did you mean `gpqa`?
""",
    ),
    Mistake(
        "a part of a ready-made task is named in another case",
        "run arc_challenge --model builtin/random",
        {},
        """\
error[E101]: there is no file and no ready-made task `arc_challenge`
  --> arc_challenge
  = help: did you mean `arc`?
""",
    ),
    Mistake(
        "a ready-made task is misspelt",
        "run mmlu_por --model builtin/random",
        {},
        """\
error[E101]: there is no file and no ready-made task `mmlu_por`
  --> mmlu_por
  = help: did you mean `mmlu_pro`?
""",
    ),
    Mistake(
        "a number is none",
        f"{SCORE} --allow-failed many",
        {},
        """\
error[E119]: `--allow-failed many` is neither a number of rows nor a share
  = help: write `--allow-failed 5` or `--allow-failed 2%`
""",
    ),
    Mistake(
        "a config value is not declared",
        f"{SCORE} --config k=1",
        {},
        """\
error[E110]: unknown config name `k`
  --> --config
  = help: the task reads no `<< config.k >>`: leave it out
""",
    ),
    Mistake(
        "a kind of log is misspelt",
        "import inspekt log.json",
        {"log.json": "{}"},
        """\
error[E119]: there is no kind of log `inspekt`
  = help: did you mean `inspect`?
""",
    ),
    Mistake(
        "questions of a log have several right letters",
        "score log.json",
        {"log.json": write_inspect_log("A,B", "B")},
        """\
error[E215]: 1 of 2 questions have several right letters (first: sample `1`), and one is scored here
  --> log.json
  = help: `--single-answers` leaves them out and takes the other 1
""",
    ),
    Mistake(
        "all questions of a log have several right letters",
        "score log.json --single-answers",
        {"log.json": write_inspect_log("A,B", "A,B")},
        """\
error[E215]: 2 of 2 questions have several right letters (first: sample `1`), and one is scored here
  --> log.json
  = help: `--single-answers` leaves them out and takes the other 0
""",
    ),
    Mistake(
        "a log has fewer samples than it states",
        "score log.json",
        {"log.json": write_inspect_log("A", "B", stated=3)},
        """\
error[E202]: task `quiz`: its header states 3 samples, but the log holds 2
  --> log.json
  = help: copy the log again, or import the rest with `--allow-failed 1`
""",
    ),
    Mistake(
        "a folder holds several logs",
        "score logs",
        {"logs/": "", "logs/a.json": PROMPTFOO, "logs/b.json": PROMPTFOO},
        """\
error[E101]: folder `logs` holds no `run.yaml`
  --> logs
  = help: name one of its files, such as `logs/a.json`, `logs/b.json`, or write a `run.yaml` there
""",
    ),
    Mistake(
        "a folder of several logs is imported",
        "import auto logs",
        {"logs/": "", "logs/a.json": PROMPTFOO, "logs/b.json": PROMPTFOO},
        """\
error[E201]: the kind of the log `logs` is not recognised
  --> logs
  = help: name one of its files: `answerkey import auto logs/a.json`
""",
    ),
    Mistake(
        "a batch output has no questions",
        "score output.jsonl",
        {
            "output.jsonl": '{"custom_id": "1", "response": {"body": {"choices": []}}, "error": null}\n'
        },
        """\
error[E209]: `output.jsonl` has replies, but no questions and no truths
  --> output.jsonl
  = help: name the file that has them: `answerkey score output.jsonl --dataset FILE`
""",
    ),
    Mistake(
        "a log has no such score",
        "score log.json --score nonsense",
        {"log.json": write_inspect_log("A", "B")},
        """\
error[E206]: the log has no score `nonsense`
  --> log.json
  = help: scores: `choice`
""",
    ),
    Mistake(
        "an option of logs is given for a task",
        f"{SCORE} --score choice",
        {},
        """\
error[E119]: `--score` is for the log of another tool, and `task.yaml` is none
  = help: leave it out
""",
    ),
]


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls be tried twice, and shortly."""
    quick = {"attempts": 2, "unreadable_attempts": 2, "attempt_seconds": 0.5, "reach_seconds": 0.2}
    quick |= {"first_wait": 0.01}
    usual = tuple(quick.get(field.name, field.default) for field in fields(Limits))
    monkeypatch.setattr(Limits.__init__, "__defaults__", usual)


@pytest.mark.parametrize("mistake", MISTAKES, ids=[one.name for one in MISTAKES])
def test_a_mistake_is_told_with_its_place_and_what_to_do(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any]
) -> None:
    """The message is the one below, word for word; nothing else is printed but how to go on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    for name in ("OPENAI_API_KEY", "ANSWERKEY_API_KEY", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    hurry(monkeypatch)
    sound = {"task.yaml": TASK, "live.yaml": LIVE, "rows.jsonl": write_rows()}
    for name, content in (sound | dict(mistake.files)).items():
        if name.endswith("/"):
            Path(name).mkdir()
        else:
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    behaviour = (
        mistake.server if isinstance(mistake.server, Behaviour) else Behaviour(hang_seconds=2)
    )
    with TestServer(
        mistake.server if isinstance(mistake.server, Reply) else "A", behaviour
    ) as server:
        words = mistake.words.replace("https{server}", server.root.replace("http:", "https:"))
        done = call(*words.replace("{server}", server.root).split())
        said = done.err.partition("to go on where it stopped: ")[0]
        assert (
            said.replace(server.root, "{server}").replace(server.root[4:], "{server}")
            == mistake.said
        )
    assert (done.code, done.out) == (mistake.code, "")


@pytest.mark.parametrize(
    "name",
    [
        "truths are positions from 0",
        "truths have brackets",
        "truths are the texts of options",
        "choices are the options",
        "choices are a mapping",
    ],
)
def test_the_command_to_paste_works(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any]
) -> None:
    """The project that it writes reads every row."""
    monkeypatch.chdir(tmp_path)
    mistake = next(one for one in MISTAKES if one.name == name)
    assert "`answerkey init DIR --dataset rows.jsonl`" in mistake.said
    Path("rows.jsonl").write_text(str(mistake.files["rows.jsonl"]))
    assert call("init", "DIR", "--dataset", "rows.jsonl").code == 0
    assert call("check", "DIR").code == 0


def test_every_message_has_its_parts() -> None:
    """There are more than 65 mistakes; each message says what to do, and where wherever there is a place."""
    assert len(MISTAKES) >= 65
    assert len({mistake.said for mistake in MISTAKES}) == len(MISTAKES)
    for mistake in MISTAKES:
        assert mistake.said.startswith("error[E"), mistake.name
        assert "\n  = help: " in mistake.said, mistake.name
        is_about_a_file = (
            mistake.words.split()[0] in {"run", "score"} and "--model" not in mistake.words
        )
        assert not is_about_a_file or re.search(r"\n  --> |: `--|option '--", mistake.said), (
            mistake.name
        )
