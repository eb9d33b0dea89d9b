from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from answerkey.scorers import StringEqualsMcqa
from answerkey.spec import Loaded, Task, load_task, task_from_source

from .conftest import TASK, Write


def codes(loaded: Loaded[Task]) -> list[tuple[str, str]]:
    """Return code and place of every error."""
    return [(error.code, str(error.where)) for error in loaded.errors]


def load(write: Write, text: str, config: dict[str, object] | None = None) -> Loaded[Task]:
    """Load a task file with this text."""
    write(task_yaml=text)
    return load_task("task.yaml", config=config)


def test_a_task_has_nothing_left_to_look_up(write: Write) -> None:
    """Config is filled in, templates compile, defaults are there."""
    loaded = load(write, TASK)
    task = loaded.value
    assert loaded.errors == []
    assert task is not None
    assert task.key == "mcqa"
    assert task.config == {"answer_column": "answer"}
    assert task.dataset_columns == {"answer_column": "answer"}
    assert task.dataset_key == "questions"
    assert task.file == "task.yaml"
    step = task.main_step
    assert isinstance(step.scorer, StringEqualsMcqa)
    assert step.scorer.ground_truth_choice == "{{ sample.answer }}"
    assert (step.key, step.purpose) == ("string_equals_mcqa", "score")
    assert [(one.key, one.metric.type) for one in step.metrics] == [("mean", "mean")]
    assert [value.name for value in step.metrics[0].metric.finish({"n": 0})] == ["Accuracy"]
    assert [name for name, _ in task.templates()] == [
        "string_equals_mcqa.ground_truth_choice",
        "string_equals_mcqa.choices",
    ]


def test_places_of_parts_are_known(write: Write) -> None:
    """Every part of a task can say where it stands, also where a config value was given."""
    task = load(write, TASK, {"answer_column": "key"}).value
    assert task is not None
    assert str(task.place("definition", "scorers", 0, "choices")) == "task.yaml:11:16"
    assert str(task.place("definition", "scorers", 0, "options")) == "task.yaml:9:7"
    assert str(task.place("config_spec", "answer_column")) == "--config"


def test_every_mistake_is_found_at_once(write: Write) -> None:
    """One pass reports all mistakes in the order of the file, each at its place, and builds the rest."""
    text = """\
key: mcqa
display_name: Questions
description: d
colour: red
definition:
  scorers:
    - type: string_equals_mcqa
      ground_truth_choice: "{{ sample.<< config.anser >> }}"
      choices: "{{ sample.choices"
      purpos: qa
      metrics:
        - {type: mean, field: is_corect}
        - {type: frequency, field: completion_validity, name: x}
    - type: string_equals_mcqa
      ground_truth_choice: A
      choices: ["A", "B"]
      purpose: grade
"""
    loaded = load(write, text)
    assert codes(loaded) == [
        ("E107", "task.yaml:4:1"),
        ("E110", "task.yaml:8:28"),
        ("E112", "task.yaml:9:16"),
        ("E107", "task.yaml:10:7"),
        ("E115", "task.yaml:12:31"),
        ("E107", "task.yaml:13:57"),
        ("E108", "task.yaml:17:16"),
    ]
    assert loaded.value is not None
    assert [step.key for step in loaded.value.scoring] == ["string_equals_mcqa", "string_equals_mcqa-2"]


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ("display_name: Questions", "display_nme: Questions", "did you mean `display_name`?"),
        ("dataset: {key", "dataset: {ky", "did you mean `key`?"),
        ("      choices:", "      choicess:", "did you mean `choices`?"),
    ],
)
def test_unknown_keys_get_the_nearest_name(write: Write, old: str, new: str, hint: str) -> None:
    """An unknown key is an error with the nearest valid name."""
    loaded = load(write, TASK.replace(old, new))
    assert hint in [error.hint for error in loaded.errors if error.code == "E107"]


def test_missing_names_do_not_hide_the_rest(write: Write) -> None:
    """A task without a display name is an error, and is still built to be checked."""
    loaded = load(write, TASK.replace("display_name: Questions\n", "", 1))
    assert codes(loaded) == [("E108", "task.yaml:1:1")]
    assert loaded.value is not None


def scorer(text: str) -> str:
    """Return a task with one scorer more."""
    return TASK + text


@pytest.mark.parametrize(
    ("text", "code", "place", "words"),
    [
        ("    - type: bleu\n", "E116", "12:13", "`bleu` of the original platform"),
        ("    - type: rag_checker\n", "E116", "12:13", "original platform"),
        ("    - type: string_equal\n", "E109", "12:13", "unknown scorer type 'string_equal'"),
        ("    - key: x\n", "E108", "12:7", "`type` is missing"),
        ("    - x\n", "E108", "12:7", "must be a mapping"),
    ],
)
def test_scorer_types_are_named(write: Write, text: str, code: str, place: str, words: str) -> None:
    """An unknown scorer type is an error that lists the supported ones."""
    loaded = load(write, scorer(text))
    assert codes(loaded) == [(code, f"task.yaml:{place}")]
    assert words in loaded.errors[0].message
    assert "`string_equals_mcqa`" in str(loaded.errors[0].hint)


@pytest.mark.parametrize("rule", ["leading_label", "stated_answer", "{pattern: 'x(.)'}"])
def test_extraction_rules_are_named_or_written(write: Write, rule: str) -> None:
    """A rule is a name, or a pattern of the user's own."""
    assert codes(load(write, scorer(f"      extraction: {rule}\n"))) == []


@pytest.mark.parametrize("rule", ["last_label", "{pattern: 'x'}", "{pattern: '(x'}", "{regex: '(x)'}"])
def test_bad_extraction_rules_are_refused_with_their_place(write: Write, rule: str) -> None:
    """An unknown rule, and a pattern that is none, are errors where they stand."""
    assert codes(load(write, scorer(f"      extraction: {rule}\n"))) == [("E108", "task.yaml:12:19")]


@pytest.mark.parametrize("kind", ["multi_turn_solver", "grouped_single_turn_solver"])
def test_solvers_outside_multiple_choice_say_so(write: Write, kind: str) -> None:
    """Solvers of the original that have no place here are refused with the reason."""
    loaded = load(write, TASK + f"  solver: {{type: {kind}}}\n")
    assert codes(loaded) == [("E303", "task.yaml:12:18")]
    assert loaded.errors[0].message == f"solver type `{kind}` is outside the scope of multiple choice"


SOLVER = """\
  solver:
    type: single_turn_solver
    input_builder:
      type: chat_completion
      input_messages:
        - role: system
          content: $HOME
        - role: user
          content: |
            {{ sample.question }}
            {% for x in sample.y %}
"""


def test_template_mistakes_in_a_block_have_their_line(write: Write) -> None:
    """A template that does not parse is reported at its line of the file; prompts are never expanded."""
    loaded = load(write, TASK + SOLVER)
    assert codes(loaded) == [("E112", "task.yaml:22")]
    assert loaded.value is not None
    assert "$HOME" in json.dumps(loaded.value.source)


def test_a_wrong_input_builder_is_named(write: Write) -> None:
    """Nested types are told apart by `type`, and nested keys are checked."""
    text = TASK + SOLVER.replace("{% for x in sample.y %}", "").replace("role: user", "rol: user")
    assert codes(load(write, text)) == [("E108", "task.yaml:19:11"), ("E107", "task.yaml:19:11")]
    text = TASK + SOLVER.replace("{% for x in sample.y %}", "").replace("chat_completion", "chat")
    loaded = load(write, text)
    assert codes(loaded) == [("E109", "task.yaml:15:13")]


def test_metric_keys_and_scorer_keys_are_unique(write: Write) -> None:
    """Keys that are given twice are errors; keys that are not given are the type, numbered."""
    text = """\
      key: a
      metrics:
        - {type: mean, field: is_correct}
        - {type: mean, field: is_correct, name: two}
        - {type: mean, field: is_correct, key: m}
        - {type: max, field: is_correct, key: m}
    - {type: string_equals, ground_truth: x, value: y, key: a}
"""
    loaded = load(write, scorer(text))
    assert codes(loaded) == [("E114", "task.yaml:17:11"), ("E114", "task.yaml:18:7")]
    assert loaded.value is not None
    assert [one.key for one in loaded.value.scoring[0].metrics] == ["mean", "mean-2", "m", "m"]


def test_metric_fields_reach_metadata(write: Write) -> None:
    """A metric may name a value or a metadata field of its scorer; another name lists what there is."""
    good = "      metrics: [{type: frequency, field: completion_validity}]\n"
    assert load(write, scorer(good)).errors == []
    loaded = load(write, scorer(good.replace("completion_validity", "completion_valid")))
    assert codes(loaded) == [("E115", "task.yaml:12:42")]
    assert str(loaded.errors[0].hint).startswith("did you mean `completion_validity`? fields: `is_correct`,")


PYTHON = """\
    - type: python
      compute_scores_snippet: |
        def compute_scores(sample):
            return {"length": len(sample["x"])}
"""


def test_python_scorers_need_metrics(write: Write) -> None:
    """A `python` scorer has no default metric, and its metric fields are not known before it runs."""
    loaded = load(write, scorer(PYTHON))
    assert codes(loaded) == [("E108", "task.yaml:12:7")]
    loaded = load(write, scorer(PYTHON + "      metrics: [{type: mean, field: length}]\n"))
    assert loaded.errors == []


def test_snippets_are_listed(write: Write) -> None:
    """A task lists its Python snippets with their place; one that is not Python is an error."""
    metrics = """\
      metrics:
        - type: python
          compute_metrics_snippet: "def compute_metrics(scores): return {}"
"""
    task = load(write, scorer(PYTHON + metrics)).value
    assert task is not None
    assert [(one.function, one.label, str(one.place)) for one in task.snippets] == [
        ("compute_scores", "python", "task.yaml:13:31"),
        ("compute_metrics", "python.python", "task.yaml:18:36"),
    ]
    loaded = load(write, scorer(PYTHON.replace("def compute_scores(sample):", "def other(") + metrics))
    assert codes(loaded) == [("E108", "task.yaml:14")]


def test_a_mistake_in_an_included_snippet_is_at_its_line_and_column(write: Write) -> None:
    """In the file that `!include` names."""
    scores = "\n\ndef compute_scores(sample):\n    return $\n"
    write(scores_md=scores)
    text = "    - type: python\n      compute_scores_snippet: !include scores.md\n      metrics: []\n"
    errors = load(write, TASK[: TASK.index("    - type")] + text).errors
    assert [str(error.where) for error in errors if "not Python" in error.message] == ["scores.md:4:12"]


def test_a_mistake_in_an_included_template_is_at_its_line(write: Write) -> None:
    """Lines that are stripped count."""
    write(truth_md="\n\n{# the truth #}\n{{ sample.answer | uper }}\n")
    old = '"{{ sample.<< config.answer_column >> }}"'
    assert codes(load(write, TASK.replace(old, "!include truth.md"))) == [("E112", "truth.md:4")]


@pytest.mark.parametrize("spaces", ["", " "])
def test_a_dataset_may_be_a_config_value(write: Write, spaces: str) -> None:
    """`dataset: << config.x >>` means `{key: << config.x >>}`."""
    spec = "config_spec:\n  - {type: dataset, key: ds, display_name: D, default_value: questions}\n"
    text = TASK.replace("config_spec:\n", spec).replace("{key: questions}", f"<<{spaces}config.ds{spaces}>>")
    loaded = load(write, text)
    assert loaded.errors == []
    assert loaded.value is not None
    assert loaded.value.dataset_key == "questions"


def test_a_dataset_that_is_plain_text_is_a_mistake(write: Write) -> None:
    """Only a config value may stand for the mapping."""
    assert codes(load(write, TASK.replace("{key: questions}", "questions"))) == [("E108", "task.yaml:7:12")]


@pytest.mark.parametrize(
    ("rule", "errors"),
    [
        ('{op: equals, expression: "{{ sample.x }}", value: 3}', []),
        ('{op: in, expression: "{{ sample.x }}", values: [3]}', []),
        ('{op: exists, expression: "{{ scores.string_equals_mcqa.is_correct }}"}', []),
        ('{op: equals, expression: "{{ sample.x }}"}', [("E108", "task.yaml:13:34")]),
        ('{op: is_true, expression: "{{ sample.x }}", value: 1}', [("E108", "task.yaml:13:78")]),
        ('{op: in, expression: "{{ sample.x }}"}', [("E108", "task.yaml:13:34")]),
        ('{op: is, expression: "{{ sample.x }}"}', [("E108", "task.yaml:13:39")]),
        ('{op: exists, expression: "{{ sample.x"}', [("E112", "task.yaml:13:59")]),
    ],
)
def test_actions_are_checked(write: Write, rule: str, errors: list[tuple[str, str]]) -> None:
    """The filter of an action has what its op needs, and its expression compiles."""
    loaded = load(write, TASK + f"  actions:\n    - {{key: skip_bad, filter:    {rule}}}\n")
    assert codes(loaded) == errors


def test_the_source_builds_the_same_task(write: Write) -> None:
    """`Task.source` is plain JSON from which the same task is built, without files or config."""
    text = TASK + SOLVER.replace("{% for x in sample.y %}", "")
    text += '  actions: [{key: a, filter: {op: equals, expression: "{{ sample.x }}", value: null}}]\n'
    task = load(write, text, {"answer_column": "answer key"}).value
    assert task is not None
    again = task_from_source(json.loads(json.dumps(task.source)))
    assert again == task
    assert again.source == task.source


def fingerprints(write: Write, texts: Sequence[str]) -> list[str]:
    """Return the fingerprints of several task files."""
    tasks = [load(write, text).value for text in texts]
    return [task.fingerprint for task in tasks if task is not None]


def test_the_fingerprint_is_of_what_counts(write: Write) -> None:
    """Names, descriptions and defaults written out do not change the fingerprint; a rule does."""
    same = [
        TASK,
        TASK.replace("Questions", "Other").replace("Multiple", "Some"),
        TASK + "      purpose: score\n      display_name: First letter\n",
        TASK.replace("<< config.answer_column >>", "answer"),
        TASK + "      metrics: [{type: mean, field: is_correct, name: Accuracy}]\n",
    ]
    assert len(set(fingerprints(write, same))) == 1
    other = [TASK, TASK + "      extraction: first_character_literal\n", TASK + "      purpose: qa\n"]
    assert len(set(fingerprints(write, other))) == 3


def test_a_mapping_is_a_task_too() -> None:
    """`load_task` takes a mapping of the same form as the file."""
    loaded = load_task(
        {
            "key": "t",
            "display_name": "T",
            "description": "",
            "definition": {
                "scorers": [{"type": "string_equals_mcqa", "ground_truth_choice": "A", "choices": ["A", "B"]}]
            },
        }
    )
    assert loaded.errors == []
    assert loaded.value is not None
    assert loaded.value.file is None


def test_words_for_true_are_read_in_boolean_fields_only(write: Write) -> None:
    """`yes` is true where a boolean is asked for, and text among choices and answers."""
    task = load(write, TASK.replace('"{{ sample.choices }}"', "[Y, N]") + "      key: yes\n").value
    assert task is not None
    assert task.scoring[0].key == "yes"
    assert isinstance(task.scoring[0].scorer, StringEqualsMcqa)
    assert task.scoring[0].scorer.choices == ["Y", "N"]


def test_text_is_not_made_of_decimals_and_truths(write: Write) -> None:
    """Whole numbers are their digits where text is asked for; `1.50` and `true` must be quoted."""
    loaded = load(write, TASK + "      display_name: 1.50\n      key: 7\n")
    assert codes(loaded) == [("E108", "task.yaml:12:21")]
    assert loaded.errors[0].hint == "put the value in quotes to make it text"


def test_something_else_is_no_task(write: Write) -> None:
    """A file that is no mapping, or no task, is an error."""
    assert [error.code for error in load(write, "- 1\n").errors] == ["E108"]
    assert [error.code for error in load(write, "").errors] == ["E108"]
    assert [error.code for error in load(write, "tasks: []\nevaluation: {}\n").errors] == ["E108"]
    assert [error.code for error in load_task(Path("none.yaml")).errors] == ["E101"]


@pytest.mark.parametrize("text", ["true", "null", "[A]", "{a: 1}", "1.0"])
def test_a_truth_is_text_or_a_whole_number(write: Write, text: str) -> None:
    """A ground truth that is true, null, a decimal or nested is an error, never read as 1."""
    loaded = load(write, TASK.replace('"{{ sample.<< config.answer_column >> }}"', text))
    assert [error.code for error in loaded.errors] == ["E108"]


def test_numbers_are_not_made_of_truths(write: Write) -> None:
    """`true` is no number: neither in bounds nor in sizes."""
    text = TASK.replace(
        "config_spec:\n",
        "config_spec:\n  - {type: int, key: n, display_name: N, min: true, default_value: 1}\n",
    )
    loaded = load(write, text)
    assert codes(loaded) == [("E108", "task.yaml:5:47")]
    assert loaded.errors[0].message == "`min` must be a whole number, not True"
