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
error[E204]: all 12 rows: the ground truth is none of the choices
  rows.jsonl:1: ground truth '0' is not among the choices ['A', 'B', 'C', 'D']
  rows.jsonl:2: ground truth '1' is not among the choices ['A', 'B', 'C', 'D']
  rows.jsonl:3: ground truth '2' is not among the choices ['A', 'B', 'C', 'D']
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.answer }}"
      |                            ^
  = help: write in the scorer:
          ground_truth_choice: "{{ {'0': 'A', '1': 'B', '2': 'C', '3': 'D'}[sample.answer | string] }}"
""",
    ),
    Mistake(
        "truths are positions from 0, as text",
        SCORE,
        fill([*"1230"] * 3),
        """\
error[E204]: all 12 rows: the ground truth is none of the choices
  rows.jsonl:1: ground truth '1' is not among the choices ['A', 'B', 'C', 'D']
  rows.jsonl:2: ground truth '2' is not among the choices ['A', 'B', 'C', 'D']
  rows.jsonl:3: ground truth '3' is not among the choices ['A', 'B', 'C', 'D']
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.answer }}"
      |                            ^
  = help: write in the scorer:
          ground_truth_choice: "{{ {'0': 'A', '1': 'B', '2': 'C', '3': 'D'}[sample.answer | string] }}"
""",
    ),
    Mistake(
        "truths are positions from 1",
        SCORE,
        fill([1, 2, 3, 4] * 3),
        """\
error[E204]: all 12 rows: the ground truth is none of the choices
  rows.jsonl:1: ground truth '1' is not among the choices ['A', 'B', 'C', 'D']
  rows.jsonl:2: ground truth '2' is not among the choices ['A', 'B', 'C', 'D']
  rows.jsonl:3: ground truth '3' is not among the choices ['A', 'B', 'C', 'D']
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.answer }}"
      |                            ^
  = help: write in the scorer:
          ground_truth_choice: "{{ {'1': 'A', '2': 'B', '3': 'C', '4': 'D'}[sample.answer | string] }}"
""",
    ),
    Mistake(
        "truths are positions that may count from 0 or 1",
        SCORE,
        fill([1, 2, 3] * 4),
        """\
error[E204]: all 12 rows: the ground truth is none of the choices
  rows.jsonl:1: ground truth '1' is not among the choices ['A', 'B', 'C', 'D']
  rows.jsonl:2: ground truth '2' is not among the choices ['A', 'B', 'C', 'D']
  rows.jsonl:3: ground truth '3' is not among the choices ['A', 'B', 'C', 'D']
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.answer }}"
      |                            ^
  = help: write in the scorer:
          ground_truth_choice: "{{ {'0': 'A', '1': 'B', '2': 'C', '3': 'D'}[sample.answer | string] }}"
          or, if that is meant:
          ground_truth_choice: "{{ {'1': 'A', '2': 'B', '3': 'C', '4': 'D'}[sample.answer | string] }}"
""",
    ),
    Mistake(
        "truths are numbers with decimals",
        SCORE,
        fill([0.0, 1.0, 2.0, 3.0] * 3),
        """\
error[E204]: all 12 rows: the ground truth is none of the choices
  rows.jsonl:1: ground truth 0.0 is not text or an integer
  rows.jsonl:2: ground truth 1.0 is not text or an integer
  rows.jsonl:3: ground truth 2.0 is not text or an integer
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.answer }}"
      |                            ^
  = help: write in the scorer:
          ground_truth_choice: "{{ {'0.0': 'A', '1.0': 'B', '2.0': 'C', '3.0': 'D'}[sample.answer | string] }}"
""",
    ),
    Mistake(
        "truths have brackets",
        SCORE,
        fill(["(A)", "(B)", "(C)"] * 4),
        """\
error[E204]: all 12 rows: the ground truth is none of the choices
  rows.jsonl:1: ground truth '(A)' has more than one character
  rows.jsonl:2: ground truth '(B)' has more than one character
  rows.jsonl:3: ground truth '(C)' has more than one character
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.answer }}"
      |                            ^
  = help: write in the scorer:
          ground_truth_choice: "{{ sample.answer | trim('()[].:,;*_ ') | upper }}"
""",
    ),
    Mistake(
        "truths have dots",
        SCORE,
        fill(["A.", "B.", "C."] * 4),
        """\
error[E204]: all 12 rows: the ground truth is none of the choices
  rows.jsonl:1: ground truth 'A.' has more than one character
  rows.jsonl:2: ground truth 'B.' has more than one character
  rows.jsonl:3: ground truth 'C.' has more than one character
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.answer }}"
      |                            ^
  = help: write in the scorer:
          ground_truth_choice: "{{ sample.answer | trim('()[].:,;*_ ') | upper }}"
""",
    ),
    Mistake(
        "truths are in lower case",
        SCORE,
        fill([*"abcd"] * 3),
        """\
error[E204]: all 12 rows: the ground truth is none of the choices
  rows.jsonl:1: ground truth 'a' is not among the choices ['A', 'B', 'C', 'D']
  rows.jsonl:2: ground truth 'b' is not among the choices ['A', 'B', 'C', 'D']
  rows.jsonl:3: ground truth 'c' is not among the choices ['A', 'B', 'C', 'D']
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.answer }}"
      |                            ^
  = help: write in the scorer:
          ground_truth_choice: "{{ sample.answer | trim('()[].:,;*_ ') | upper }}"
""",
    ),
    Mistake(
        "truths are the texts of options",
        SCORE,
        fill(["red", "green", "blue", "grey"] * 3),
        """\
error[E204]: all 12 rows: the ground truth is none of the choices
  rows.jsonl:1: ground truth 'red' has more than one character
  rows.jsonl:2: ground truth 'green' has more than one character
  rows.jsonl:3: ground truth 'blue' has more than one character
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.answer }}"
      |                            ^
  = help: write in the scorer:
          ground_truth_choice: "{{ 'ABCD'[sample.options.index(sample.answer)] }}"
""",
    ),
    Mistake(
        "truths are labels with texts",
        SCORE,
        fill(["A. red", "B. green", "C. blue"] * 4),
        """\
error[E204]: all 12 rows: the ground truth is none of the choices
  rows.jsonl:1: ground truth 'A. red' has more than one character
  rows.jsonl:2: ground truth 'B. green' has more than one character
  rows.jsonl:3: ground truth 'C. blue' has more than one character
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.answer }}"
      |                            ^
  = help: write in the scorer:
          ground_truth_choice: "{{ sample.answer.split('.')[0] | trim('( ') }}"
""",
    ),
    Mistake(
        "truths are lists of one",
        SCORE,
        fill([["A"], ["B"]] * 6),
        """\
error[E204]: all 12 rows: the ground truth is none of the choices
  rows.jsonl:1: ground truth ['A'] is not text or an integer
  rows.jsonl:2: ground truth ['B'] is not text or an integer
  rows.jsonl:3: ground truth ['A'] is not text or an integer
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.answer }}"
      |                            ^
  = help: write in the scorer:
          ground_truth_choice: "{{ sample.answer | join }}"
""",
    ),
    Mistake(
        "truths are null",
        SCORE,
        fill([None] * 12),
        """\
error[E204]: all 12 rows: the ground truth is none of the choices
  rows.jsonl:1: ground truth is null
  rows.jsonl:2: ground truth is null
  rows.jsonl:3: ground truth is null
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.answer }}"
      |                            ^
  = help: correct the rows, or name the column that holds it: `question`, `options`, `answer`, `completion`
""",
    ),
    Mistake(
        "truths are kept secret",
        SCORE,
        fill([-1] * 12),
        """\
error[E204]: all 12 rows: the ground truth is none of the choices
  rows.jsonl:1: ground truth '-1' has more than one character
  rows.jsonl:2: ground truth '-1' has more than one character
  rows.jsonl:3: ground truth '-1' has more than one character
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.answer }}"
      |                            ^
  = help: the truths are kept secret: use a part of the dataset that has them, such as `validation`
""",
    ),
    Mistake(
        "truths are none of the choices",
        SCORE,
        fill(["yes", "no"] * 12),
        """\
error[E204]: all 24 rows: the ground truth is none of the choices
  rows.jsonl:1: ground truth 'yes' has more than one character
  rows.jsonl:2: ground truth 'no' has more than one character
  rows.jsonl:3: ground truth 'yes' has more than one character
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.answer }}"
      |                            ^
  = help: correct the rows, or name the column that holds it: `question`, `options`, `answer`, `completion`
""",
    ),
    Mistake(
        "truths are positions, and one is not",
        SCORE,
        fill([0, 1, 2, 3, 0, 1, 2, None]),
        """\
error[E204]: all 8 rows: the ground truth is none of the choices
  rows.jsonl:1: ground truth '0' is not among the choices ['A', 'B', 'C', 'D']
  rows.jsonl:2: ground truth '1' is not among the choices ['A', 'B', 'C', 'D']
  rows.jsonl:3: ground truth '2' is not among the choices ['A', 'B', 'C', 'D']
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.answer }}"
      |                            ^
  = help: write in the scorer:
          ground_truth_choice: "{{ {'0': 'A', '1': 'B', '2': 'C', '3': 'D'}[sample.answer | string] }}"
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
error[E205]: all 12 rows: the choices are no list of labels
  rows.jsonl:1: choice 'red' has more than one character
  rows.jsonl:2: choice 'red' has more than one character
  rows.jsonl:3: choice 'red' has more than one character
  --> task.yaml:8:16
    8 |       choices: "{{ sample.options }}"
      |                ^
  = help: write in the scorer:
          choices: "{{ 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'[:sample.options | length] | list }}"
          options: "{{ sample.options }}"
""",
    ),
    Mistake(
        "choices are the options, and truths too",
        SCORE,
        fill(["grey"] * 12, choices='"{{ sample.options }}"', options=["grey", "blue"]),
        """\
error[E205]: all 12 rows: the choices are no list of labels
  rows.jsonl:1: choice 'grey' has more than one character
  rows.jsonl:2: choice 'grey' has more than one character
  rows.jsonl:3: choice 'grey' has more than one character
  --> task.yaml:8:16
    8 |       choices: "{{ sample.options }}"
      |                ^
  = help: write in the scorer:
          choices: "{{ 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'[:sample.options | length] | list }}"
          options: "{{ sample.options }}"
""",
    ),
    Mistake(
        "choices are one text",
        SCORE,
        fill(choices='"{{ sample.options }}"', options="A, B, C, D"),
        """\
error[E205]: all 12 rows: the choices are no list of labels
  rows.jsonl:1: the choices are 'A, B, C, D', not a list
  rows.jsonl:2: the choices are 'A, B, C, D', not a list
  rows.jsonl:3: the choices are 'A, B, C, D', not a list
  --> task.yaml:8:16
    8 |       choices: "{{ sample.options }}"
      |                ^
  = help: write in the scorer:
          choices: "{{ sample.options.split(',') | map('trim') | list }}"
""",
    ),
    Mistake(
        "choices are a mapping",
        SCORE,
        fill(choices='"{{ sample.options }}"', options=dict.fromkeys("ABCD", "x")),
        """\
error[E205]: all 12 rows: the choices are no list of labels
  rows.jsonl:1: the choices are {'A': 'x', 'B': 'x', 'C': 'x', 'D': 'x'}, not a list
  rows.jsonl:2: the choices are {'A': 'x', 'B': 'x', 'C': 'x', 'D': 'x'}, not a list
  rows.jsonl:3: the choices are {'A': 'x', 'B': 'x', 'C': 'x', 'D': 'x'}, not a list
  --> task.yaml:8:16
    8 |       choices: "{{ sample.options }}"
      |                ^
  = help: write in the scorer:
          choices: "{{ sample.options | list }}"
          options: "{{ sample.options.values() | list }}"
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
  = help: for the column write `ground_truth_choice: "{{ sample.answer }}"`
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
error[E102]: not valid YAML: a template without quotes
  --> task.yaml:7:28
    7 |       ground_truth_choice: {{ sample['answer'] }}
      |                            ^
  = help: write `ground_truth_choice: "{{ sample['answer'] }}"`
""",
    ),
    Mistake(
        "a tab indents",
        SCORE,
        change("      choices", "\tchoices"),
        """\
error[E102]: not valid YAML: a tab in the indentation
  --> task.yaml:8:1
    8 | \\tchoices: ["A", "B", "C", "D"]
      | ^
  = help: indent with spaces: YAML takes no tabs
""",
    ),
    Mistake(
        "an indentation is too small",
        SCORE,
        change("      choices", "     choices"),
        """\
error[E102]: not valid YAML: an indentation that fits no line above, or a list beside keys
  --> task.yaml:8:6
    8 |      choices: ["A", "B", "C", "D"]
      |      ^
  = help: begin it as its neighbours do; the line above is indented by 6
""",
    ),
    Mistake(
        "an indentation is too large",
        SCORE,
        change("      choices", "        choices"),
        """\
error[E102]: not valid YAML: an indentation that fits no line above, or a list beside keys
  --> task.yaml:8:9
    8 |         choices: ["A", "B", "C", "D"]
      |         ^
  = help: begin it as its neighbours do; the line above is indented by 6
""",
    ),
    Mistake(
        "an operator lacks quotes",
        f"{SCORE} --policies gates.yaml",
        {"gates.yaml": POLICY.replace('">="', ">=")},
        """\
error[E102]: not valid YAML: text that begins with `>`
  --> gates.yaml:8:21
    8 |           operator: >=
      |                     ^
  = help: it needs quotes: write `operator: ">="`
""",
    ),
    Mistake(
        "a colon lacks its space",
        SCORE,
        change("type: string", "type:string"),
        """\
error[E102]: not valid YAML: no space after the colon
  --> task.yaml:6:11
    6 |     - type:string_equals_mcqa
      |           ^
  = help: write `- type: string_equals_mcqa`
""",
    ),
    Mistake(
        "a text holds a colon",
        SCORE,
        change("Four options.", "Options: four"),
        """\
error[E102]: not valid YAML: a second colon in one line
  --> task.yaml:3:21
    3 | description: Options: four
      |                     ^
  = help: text that holds `: ` needs quotes: write `description: "Options: four"`
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
error[E102]: not valid YAML: a quote that is not closed
  --> task.yaml:7:28
    7 |       ground_truth_choice: "{{ sample.answer }}
      |                            ^
  = help: close it where the text ends
""",
    ),
    Mistake(
        "a bracket is not closed",
        SCORE,
        change('"D"]', '"D"'),
        """\
error[E102]: not valid YAML: a `[` that is not closed
  --> task.yaml:8:16
    8 |       choices: ["A", "B", "C", "D"
      |                ^
  = help: close it with `]`
""",
    ),
    Mistake(
        "a path has backslashes in double quotes",
        SCORE,
        change("Four options.", '"C:\\data\\quiz"'),
        """\
error[E102]: not valid YAML: a backslash in double quotes begins an escape
  --> task.yaml:3:17
    3 | description: "C:\\data\\quiz"
      |                 ^
  = help: write `description: 'C:\\data\\quiz'`, or `\\\\` for each
""",
    ),
    Mistake(
        "a path has escapes in double quotes",
        SCORE,
        change("Four options.", '"C:\\temp"'),
        """\
error[E102]: a backslash in double quotes begins an escape
  --> task.yaml:3:14
    3 | description: "C:\\temp"
      |              ^
  = help: write the path in single quotes, or with `/`
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
  = help: begin each entry with `- `
""",
    ),
    Mistake(
        "a template has typographic quotes",
        SCORE,
        change('"{{ sample.answer }}"', "“{{ sample.answer }}”"),
        """\
error[E102]: `“` is no quote of YAML
  --> task.yaml:7:28
    7 |       ground_truth_choice: “{{ sample.answer }}”
      |                            ^
  = help: write the plain quotes `"` or `'`
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
  = help: did you mean `string_equals_mcqa`? supported: `choice_probabilities`, `labeler_via_model`, `model_as_a_judge_classifier`, `model_as_a_judge_scorer`, `python`, `string_equals`, `string_equals_mcqa`
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
  = help: name a task file, such as `live.yaml`, `task.yaml`, or write a `run.yaml` there
""",
    ),
    Mistake(
        "the dataset is a workbook",
        "score task.yaml --dataset rows.xlsx",
        {"rows.xlsx": b"PK\x03\x04"},
        """\
error[E201]: the ending of `rows.xlsx` names no format
  --> rows.xlsx
  = help: save the sheet as CSV, and name that; endings: `.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.json`, `.parquet`, `.pq`, `.arrow`, `.feather`, `.ipc`, each also with `.gz`, `.zst`
""",
    ),
    Mistake(
        "the dataset is an empty folder",
        "score task.yaml --dataset data",
        {"data/": ""},
        """\
error[E201]: the folder is empty
  --> data
  = help: put data files into it
""",
    ),
    Mistake(
        "the dataset is empty",
        SCORE,
        {"rows.jsonl": ""},
        """\
error[E210]: the file has no rows
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
error[E102]: `task.yaml` is not UTF-8 text: byte 0xff, as in UTF-16
  --> task.yaml:1:1
  = help: save the file as UTF-8; `iconv -f UTF-16 -t UTF-8 task.yaml` prints it so
""",
    ),
    Mistake(
        "the task file is Latin-1",
        SCORE,
        {"task.yaml": TASK.replace("Four", "Für").encode("latin-1")},
        """\
error[E102]: `task.yaml` is not UTF-8 text: byte 0xfc, as in LATIN1
  --> task.yaml:3:15
    3 | description: F�r options.
      |               ^
  = help: save the file as UTF-8; `iconv -f LATIN1 -t UTF-8 task.yaml` prints it so
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
  = help: the line ends too early: one row is one line, from `{` to `}`
""",
    ),
    Mistake(
        "a file of JSON rows is cut off",
        SCORE,
        {"rows.jsonl": write_rows() + '{"question": "x", "opti'},
        """\
error[E202]: the file is cut off in its last line
  --> rows.jsonl:13:19
   13 | {"question": "x", "opti
      |                   ^
  = help: copy or download it again; `sed '$d' FILE` prints it without that line
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
  = help: JSON has double quotes only: write rows with `json.dumps(row)`
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
  = help: remove the comma before it
""",
    ),
    Mistake(
        "a list is named .jsonl",
        SCORE,
        {"rows.jsonl": '[{"answer": "A"}]\n'},
        """\
error[E202]: the file starts with a list, not with an object
  --> rows.jsonl:1
    1 | [{"answer": "A"}]
  = help: name it `.json`, or write one object per line
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
  = help: this looks like one object per line: name it `.jsonl`
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
error[E202]: not valid JSON: expecting value
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
error[E209]: scorer `string_equals_mcqa` needs completions: the task has no solver, and dataset `rows` has no column `completion`, `output`, `response` or `model_output`
  --> rows.jsonl
  = help: name the column with `--completion-column NAME`, or bring a file with `--completions FILE`; columns: `question`, `options`, `answer`, `said`
""",
    ),
    Mistake(
        "the column of completions is misspelt",
        f"{SCORE} --completion-column complet",
        {},
        """\
error[E209]: there is no completion column `complet`
  --> rows.jsonl
  = help: did you mean `completion`? columns: `question`, `options`, `answer`, `completion`
""",
    ),
    Mistake(
        "there are too few completions",
        f"{SCORE} --completions said.jsonl",
        {"said.jsonl": '{"completion": "A"}\n' * 5},
        """\
error[E209]: there are 5 completions without `sample_id` for 12 samples
  --> said.jsonl
  = help: add a column `sample_id`, or give exactly one completion per sample, in the dataset's order
""",
    ),
    Mistake(
        "completions have other ids",
        f"{SCORE} --completions said.jsonl",
        {"said.jsonl": '{"sample_id": "x", "completion": "A"}\n'},
        """\
error[E209]: the completions do not fit the dataset: samples without a completion: 12 (`000001`, `000002`, `000003`, `000004`, `000005` ...); completions without a sample: 1 (`x`)
  --> said.jsonl
  = help: `sample_id` must hold the ids of this dataset; without ids its rows are `000001`, `000002`, ...
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
error[E215]: `answer` names several right options in 12 of 12 rows
  line 1: `answer` ['A', 'C'] as label is no option
  line 2: `answer` ['A', 'C'] as label is no option
  line 3: `answer` ['A', 'C'] as label is no option
  --> q.jsonl, column `answer`
  = help: only one right option per question is supported: correct these rows, or leave them out
""",
    ),
    Mistake(
        "some truths are two labels",
        "run q.jsonl --model builtin/random",
        {"q.jsonl": write_questions(answer=["AB", "CD", *"ABCDABCDAB"])},
        """\
error[E215]: `answer` names several right options in 2 of 12 rows
  line 1: `answer` 'AB' as label is no option
  line 2: `answer` 'CD' as label is no option
  --> q.jsonl, column `answer`
  = help: only one right option per question is supported: correct these rows, or leave them out; to score the others: `--column truth=answer:label --allow-failed 2`
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
error[E206]: `options` holds no list of options in 12 of 12 rows
  line 1: []
  line 2: []
  line 3: []
  --> q.jsonl, column `options`
  = help: list the texts in each row, or name another column: `--column options=NAME`; columns: `question`, `options`, `answer`
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
error[E206]: `options` holds no list of options in 12 of 12 rows
  line 2: 'red|green|blue'
  line 3: 'red|green|blue'
  line 4: 'red|green|blue'
  --> q.csv, column `options`
  = help: say what separates the options: `--column 'options=options:|'`
""",
    ),
    Mistake(
        "a CSV file has no header",
        "run q.csv --model builtin/random",
        {"q.csv": "1,who?,red|green|blue,A\n" * 12},
        """\
error[E206]: no column holds the question or the options or the truth
  --> q.csv
  = help: name the columns: `--column question=NAME --column options=NAME --column truth=NAME`; there are `1`, `who?`, `red|green|blue`, `A`; if the first line is a question, put one above it such as `question,A,B,C,D,answer`
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
  = help: name the columns: `--column question=frage --column options=auswahl --column 'truth=lösung'`; there are `frage`, `auswahl`, `lösung`
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
  = help: leave the row out, or offer fewer options
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
  = help: its rows are in `data`; take them out with
          python -c "import json; json.dump(json.load(open('q.json'))['data'], open('rows.json', 'w'))"
""",
    ),
    Mistake(
        "a folder of data files is named",
        "run folder --model builtin/random",
        {"folder/": "", "folder/q.jsonl": write_questions()},
        """\
error[E101]: folder `folder` holds no `run.yaml`
  --> folder
  = help: name one of its data files: `folder/q.jsonl`
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
error[E119]: `--num-samples -3`: the number must be at least 1
  = help: write `--num-samples 1`, for example
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
  = help: add `--model builtin/random`, or bring recorded completions with `--completions FILE`; no server answers on this machine, and no provider's key is set
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
  = help: write the address with a model: `http://127.0.0.1:8931/v1#NAME` (`curl http://127.0.0.1:8931/v1/models` lists the names)
""",
    ),
    Mistake(
        "the model is one of the hub",
        f"{RUN} --model hf/Qwen/Qwen2-7B",
        {},
        """\
error[E301]: unknown model `hf/Qwen/Qwen2-7B`
  --> --model
  = help: answerkey does not load weights: serve them with `vllm serve Qwen/Qwen2-7B` and write `vllm/Qwen/Qwen2-7B`; or have Hugging Face serve it: `huggingface/Qwen/Qwen2-7B`
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
error[E501]: there is no run below `runs`
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
  = help: the newest run is `runs/gpt-first`; `answerkey runs` lists the runs of a folder
""",
    ),
    Mistake(
        "a project is no run",
        "show .",
        {},
        """\
error[E501]: `.` is a folder, but not a run folder
  = help: `answerkey runs` lists the runs of a folder; `answerkey run FILE` makes one
""",
    ),
    Mistake(
        "a command is misspelt",
        "rnu task.yaml",
        {},
        """\
error[E119]: there is no command `rnu`
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
        "trials are asked for by an option",
        f"{RUN} --model builtin/random --trials 5",
        {},
        """\
error[E119]: No such option '--trials'
  = help: write in `definition` of the task file:
          trials: {num_trials: 5}
""",
    ),
    Mistake(
        "few-shot examples are asked for by an option",
        f"{RUN} --model builtin/random --shots 5",
        {},
        """\
error[E119]: No such option '--shots'
  = help: for a ready-made task write `--config shots=5`; in a task file write in `solver`:
          examples: {dataset: DATASET_KEY, num_examples: 5}
          and above the question in `input_messages`:
          - {role: user, content: "{{ example.question }}", for_each: examples}
          - {role: assistant, content: "{{ example.answer }}", for_each: examples}
""",
    ),
    Mistake(
        "options are to be shuffled by an option",
        f"{RUN} --model builtin/random --shuffle",
        {},
        """\
error[E119]: No such option '--shuffle'
  = help: to show the options in another order write in `definition` of the task file:
          choice_order: {options: "{{ sample.options }}", orders: shuffled}
          to draw samples at random write `--num-samples 100 --subsampling random`
""",
    ),
    Mistake(
        "a system prompt is given by an option",
        f"{RUN} --model builtin/random --system Hi",
        {},
        """\
error[E119]: No such option '--system'
  = help: write as the first of `input_messages` in the task file:
          - {role: system, content: "Answer with the letter alone."}
""",
    ),
    Mistake(
        "requests at once are limited by an option",
        f"{RUN} --model builtin/random --concurrency 8",
        {},
        """\
error[E119]: No such option '--concurrency'
  = help: answerkey finds what the endpoint takes, up to 64 requests at once; for fewer write `model.yaml`:
          key: my-model
          display_name: My model
          max_concurrent_requests: 8
          config: {connection_type: provider_connection, provider_id: openai, model_key: gpt-4.1-nano}
          and run with `--model model.yaml`
""",
    ),
    Mistake(
        "a part of a ready-made task is named",
        "run gpqa_diamond --model builtin/random",
        {},
        """\
error[E101]: there is no file and no ready-made task `gpqa_diamond`
  --> gpqa_diamond
  = help: did you mean `gpqa` with `--config subset=gpqa_diamond`?
""",
    ),
    Mistake(
        "a part of a ready-made task is named in another case",
        "run arc_challenge --model builtin/random",
        {},
        """\
error[E101]: there is no file and no ready-made task `arc_challenge`
  --> arc_challenge
  = help: did you mean `arc` with `--config subset=ARC-Challenge`?
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
  = help: `--single-answers` leaves such questions out, and no other is in this log
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
error[E201]: `logs` is not one log: its files are logs of their own (`promptfoo`): `a.json`, `b.json`
  --> logs
  = help: name one of them: `answerkey score logs/a.json`
""",
    ),
    Mistake(
        "a folder of several logs is imported",
        "import auto logs",
        {"logs/": "", "logs/a.json": PROMPTFOO, "logs/b.json": PROMPTFOO},
        """\
error[E201]: `logs` is not one log: its files are logs of their own (`promptfoo`): `a.json`, `b.json`
  --> logs
  = help: name one of them: `answerkey import auto logs/a.json`
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
    usual = tuple(quick.get(one.name, one.default) for one in fields(Limits))
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


#: How many of the rows have the truth A, which all completions say, once the lines are pasted.
PASTED = {
    "truths are positions from 0": 3,
    "truths are positions from 0, as text": 3,
    "truths are positions from 1": 3,
    "truths are numbers with decimals": 3,
    "truths have brackets": 4,
    "truths have dots": 4,
    "truths are in lower case": 3,
    "truths are the texts of options": 3,
    "truths are labels with texts": 4,
    "truths are lists of one": 6,
    "choices are the options": 3,
    "choices are one text": 3,
    "choices are a mapping": 3,
}


@pytest.mark.parametrize("name", PASTED)
def test_the_lines_to_paste_work(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any]
) -> None:
    """Pasted in place of the lines that they name, or beside them, they make every row good."""
    monkeypatch.chdir(tmp_path)
    mistake = next(one for one in MISTAKES if one.name == name)
    lines = mistake.said.partition("write in the scorer:\n")[2].strip("\n").split("\n")
    task = str(mistake.files["task.yaml"])
    for line in map(str.strip, lines):
        field = re.compile(rf"^      {line.partition(':')[0]}:.*\n", re.MULTILINE)
        task = field.sub("", task) + f"      {line}\n"
    Path("task.yaml").write_text(task)
    Path("rows.jsonl").write_text(str(mistake.files["rows.jsonl"]))
    done = call(*SCORE.split(), "--json")
    assert done.code == 0
    assert done.json["tasks"][0]["counts"]["scored"] == 12
    assert done.json["tasks"][0]["metrics"][0]["value"] == PASTED[name] / 12


@pytest.mark.parametrize(
    ("name", "above", "indent"),
    [
        ("trials are asked for by an option", "definition:\n", 2),
        ("options are to be shuffled by an option", "definition:\n", 2),
        ("a system prompt is given by an option", "      input_messages:\n", 8),
    ],
)
def test_the_line_in_place_of_an_option_works(
    name: str,
    above: str,
    indent: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[..., Any],
) -> None:
    """Pasted where the message says, the task runs."""
    monkeypatch.chdir(tmp_path)
    mistake = next(one for one in MISTAKES if one.name == name)
    line = mistake.said.splitlines()[2].strip()
    Path("live.yaml").write_text(LIVE.replace(above, f"{above}{' ' * indent}{line}\n"))
    Path("rows.jsonl").write_text(write_rows())
    assert call(*RUN.split(), "--model", "builtin/random", "--json").code == 0


def test_the_model_file_in_place_of_an_option_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any]
) -> None:
    """Its lines are a model file."""
    monkeypatch.chdir(tmp_path)
    mistake = next(
        one for one in MISTAKES if one.name == "requests at once are limited by an option"
    )
    lines = [line.strip() for line in mistake.said.splitlines()[2:6]]
    Path("model.yaml").write_text("\n".join(lines))
    Path("live.yaml").write_text(LIVE)
    Path("rows.jsonl").write_text(write_rows())
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    assert call("check", *RUN.split()[1:], "--model", "model.yaml").code == 0


def test_every_line_to_paste_is_pasted() -> None:
    """But for those between which the user must decide, and those that leave something to be mended."""
    told = {one.name for one in MISTAKES if "write in the scorer" in one.said}
    assert told - set(PASTED) == {
        "truths are positions that may count from 0 or 1",
        "truths are positions, and one is not",
        "choices are the options, and truths too",
    }


def test_every_message_has_its_parts() -> None:
    """There are more than 65 mistakes; each message says what to do, and where wherever there is a place."""
    assert len(MISTAKES) >= 65
    assert len({one.said for one in MISTAKES}) == len(MISTAKES)
    for one in MISTAKES:
        assert one.said.startswith("error[E"), one.name
        assert "\n  = help: " in one.said, one.name
        is_about_a_file = one.words.split()[0] in {"run", "score"} and "--model" not in one.words
        assert not is_about_a_file or re.search(r"\n  --> |: `--|option '--", one.said), one.name
