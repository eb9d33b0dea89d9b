"""Laws of tasks that are built without a file: they are the tasks that files which say the same
would be.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest

import answerkey as ak

QUESTION, OPTIONS, TRUTH = "{{ sample.question }}", "{{ sample.options }}", "{{ sample.answer }}"
ROWS = [{"question": "Which?", "options": ["yes", "no", "maybe"], "answer": "B"}]
YAML = """\
key: from-a-file
display_name: Another name
description: What readers see does not count.
definition:
  type: benchmark_task
  solver:
    type: single_turn_solver
    input_builder:
      type: chat_completion
      input_messages:
        - role: user
          content: |-
            {{ sample.question }}
            {% for letter, text in 'ABCDEFGHIJKLMNOPQRSTUVWXYZ' | zip(sample.options) %}
            {{ letter }}. {{ text }}
            {%- endfor %}

            Answer with the letter of the right option and nothing else.
            Answer:
  scorers:
    - type: string_equals_mcqa
      ground_truth_choice: "{{ sample.answer }}"
      choices: "{{ 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'[:sample.options | length] | list }}"
      options: "{{ sample.options }}"
      extraction: stated_answer
"""


PARTS = {"question": QUESTION, "options": OPTIONS, "truth": TRUTH}
TASK = ak.mcqa(**PARTS)


def show_prompt(task: ak.Task, row: dict[str, Any]) -> Any:  # noqa: ANN401 - messages
    """Return what the model is asked about a row."""
    first = ak.plan_calls(task, dataset=[row], model="builtin/random").tasks[0].first_prompt
    assert first is not None
    (message,) = first
    return message["content"]


def test_a_task_in_python_has_the_fingerprint_of_the_file(tmp_path: Path) -> None:
    """The same scores and prompts, so the same fingerprint."""
    (tmp_path / "task.yaml").write_text(YAML, encoding="utf-8")
    assert TASK.fingerprint == ak.load_task(tmp_path / "task.yaml").fingerprint
    assert TASK.fingerprint != ak.mcqa(**PARTS, extraction="first_character").fingerprint


def test_options_are_listed_with_their_letters() -> None:
    """A list of the row, or one expression for each option.

    Letters of one's own stand before them.
    """
    shown = show_prompt(TASK, ROWS[0])
    instruction = "Answer with the letter of the right option and nothing else.\nAnswer:"
    assert shown == f"Which?\n\nA. yes\nB. no\nC. maybe\n\n{instruction}"
    options = ["{{ sample.a }}", "{{ sample.b or 'no' }}"]
    task = ak.mcqa(question=QUESTION, options=options, choices=["1", "2"], truth=TRUTH)
    shown = show_prompt(task, {"question": "Which?", "a": "ja", "b": "", "answer": "2"})
    assert shown.startswith("Which?\n\n1. ja\n2. no\n\nAnswer with")
    row = {"question": "?", "a": "x", "b": "y", "answer": "2"}
    assert ak.score(task, [row], ["2"]).metrics["Accuracy"].value == 1.0


def test_a_prompt_of_ones_own_is_the_whole_message() -> None:
    """Nothing is added to it; the options are still read."""
    prompt = "{{ sample.question }} A or B?"
    task = ak.mcqa(prompt=prompt, choices=["A", "B"], truth=TRUTH, options=["yes", "no"])
    assert show_prompt(task, ROWS[0]) == "Which? A or B?"
    frame = ak.score(task, ROWS, ["It is no."]).to_frame()
    assert frame["string_equals_mcqa.predicted_choice"].to_list() == ["B"]


def test_further_fields_are_those_of_the_definition() -> None:
    """`group_by` and the like hold as in a file, and an unknown one is told as there."""
    task = ak.mcqa(**PARTS, group_by="subject")
    run = ak.score(task, [{**ROWS[0], "subject": "law"}], ["B"])
    (groups,) = run.metrics["Accuracy"].groups
    assert [value.group for value in groups.values] == ["law"]
    with pytest.raises(ak.SpecError, match=r"E107.*`gruop_by`(.|\n)*did you mean `group_by`"):
        ak.mcqa(**PARTS, gruop_by="subject")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"question": QUESTION},
        {"options": OPTIONS},
        {"question": QUESTION, "prompt": "x", "choices": ["A"]},
        {"question": QUESTION, "choices": None},
    ],
)
def test_what_is_missing_is_told(fields: dict[str, Any]) -> None:
    """What is asked, once, and what there is to choose from."""
    needed = "`mcqa` needs `question` or `prompt`, and `options` or `choices`"
    with pytest.raises(TypeError, match=needed):
        ak.mcqa(truth=TRUTH, **fields)


def test_config_is_not_for_a_task_that_is_built() -> None:
    """A value that nothing reads is told, as for a file."""
    with pytest.raises(ak.SpecError, match=r"E110.*`shots`"):
        ak.run(TASK, dataset=ROWS, model="builtin/random", config={"shots": 3})


def test_a_dataset_file_is_a_dataset(tmp_path: Path) -> None:
    """It may be named wherever samples are given, and says where they are and which of them
    count.
    """
    (tmp_path / "rows.jsonl").write_text(
        '{"answer": "A", "completion": "A"}\n{"answer": "B", "completion": "A"}\n'
    )
    file = tmp_path / "dataset.yaml"
    file.write_text("key: rows\nsource: {type: local, file_path: rows.jsonl}\n")
    task = ak.mcqa(prompt="?", choices=["A", "B"], truth="{{ sample.answer }}")
    assert ak.score(task, file).metrics["Accuracy"].value == 0.5


def test_a_table_in_place_of_a_task_is_told_where_it_belongs() -> None:
    """Not a TypeError from within."""
    table = pl.DataFrame({"question": ["?"], "answer": ["A"]})
    with pytest.raises(ak.SpecError, match=r"not a DataFrame\n.*`ak.score\(ak.mcqa\("):
        ak.run(cast("Any", table), model="builtin/longest")
