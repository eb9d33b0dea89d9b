"""A prompt that does not show the options is warned about, by `check` and by `run`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Call, write_rows

LETTERS = ["A", "B", "C"]
OPTIONS = [
    ["Paris", "New York", "Łódź"],
    ['the "old" one', "x < y & z", "a hundred and fifty years ago"],
]
WARNING = "the prompt of task `t` shows no options"


def check(
    call: Call, folder: Path, prompt: str, rows: list[dict[str, Any]], **scorer: object
) -> str:
    """Return what `check` says of a task with this prompt, all in one line."""
    mcqa = {"type": "string_equals_mcqa", "ground_truth_choice": "A", "choices": LETTERS, **scorer}
    messages = [{"role": "user", "content": prompt}]
    solver = {"input_builder": {"type": "chat_completion", "input_messages": messages}}
    definition = {"solver": {"type": "single_turn_solver", **solver}, "scorers": [mcqa]}
    task = {"key": "t", "display_name": "T", "description": "D", "definition": definition}
    (folder / "task.yaml").write_text(json.dumps(task))
    words = (
        folder / "task.yaml",
        "--dataset",
        write_rows(folder / "rows.jsonl", rows),
        "--model",
        "builtin/random",
    )
    done = call("check", *words)
    assert done.code == 0
    ran = call("run", *words, "--json")
    assert (WARNING in done.out + done.err) == any(WARNING in one for one in ran.json["notices"])
    return " ".join((done.out + done.err).split())


def make_rows(**more: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - any columns
    """Return two rows with options."""
    return [
        {"question": f"Which of them, number {n}?", "options": one, **more}
        for n, one in enumerate(OPTIONS)
    ]


@pytest.mark.parametrize("column", ["options", "choices", "answers"])
def test_a_prompt_without_options_is_warned_about(call: Call, tmp_path: Path, column: str) -> None:
    """With the place and an example.

    Options are those of a column, or those that the scorer names.
    """
    rows = [{"question": row["question"], column: row["options"]} for row in make_rows()]
    named = {"options": "{{ sample.answers }}"} if column == "answers" else {}
    said = check(call, tmp_path, "{{ sample.question }} Answer with A, B or C.", rows, **named)
    assert (
        f"{WARNING}: none of the first 2 prompts holds the option texts of its row, such as 'Paris'"
        in said
    )
    assert "0 errors, 1 warning" in said


@pytest.mark.parametrize(
    "shown",
    [
        "{% for one in sample.options %}{{ 'ABC'[loop.index0] }}) {{ one }}\n{% endfor %}",
        "{{ sample.options }}",
        "{{ sample.options | tojson }}",
        "{{ sample.options | join(';') | upper }}",
        "{{ sample.options | join(' | ') | e }}",
        "{% for one in sample.options %}<li><b>{{ one | replace(' ', '  ') }}</b>{% endfor %}",
        "{% for one in sample.options %}{{ one | truncate(22) }}\n{% endfor %}",
        "{{ sample.options[1] }} or {{ sample.options[2] }}?",
    ],
)
def test_options_may_be_shown_in_any_form(call: Call, tmp_path: Path, shown: str) -> None:
    """What counts is the rendered text, not how the template came to it."""
    assert WARNING not in check(call, tmp_path, "{{ sample.question }}\n" + shown, make_rows())


def test_options_in_the_question_are_shown(call: Call, tmp_path: Path) -> None:
    """A question that lists its options itself needs no more; one row that does is enough."""
    rows = make_rows()
    rows[1]["question"] = "A) the 'old' one B) x < y & z"
    assert WARNING not in check(call, tmp_path, "{{ sample.question }}", rows)


@pytest.mark.parametrize(
    "cell",
    [LETTERS, "A, B or C", None, {"A": "Paris", "B": "New York"}, ["A) Paris", "B) New York"]],
)
def test_only_known_texts_are_looked_for(call: Call, tmp_path: Path, cell: object) -> None:
    """Labels are no texts; a mapping and texts with their labels are read."""
    rows = [{"question": "Paris or New York?", "options": cell}]
    assert WARNING not in check(call, tmp_path, "{{ sample.question }}", rows)


def test_a_word_within_another_is_not_the_option(call: Call, tmp_path: Path) -> None:
    """`red` does not stand in `hundred`, and one number in common is not half of the options."""
    rows = [{"question": "A hundred or 4?", "options": ["red", "4 m", "lime", "blue"]}]
    assert WARNING in check(call, tmp_path, "{{ sample.question }}", rows)


def test_recorded_completions_need_no_prompt(call: Call, tmp_path: Path) -> None:
    """Nothing is said of a prompt that is not sent."""
    check(call, tmp_path, "{{ sample.question }}", make_rows(completion="A"))
    words = ("task.yaml", "--dataset", "rows.jsonl", "--completion-column", "completion")
    assert WARNING not in call("check", *words).out
