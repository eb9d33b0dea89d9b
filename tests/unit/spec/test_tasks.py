"""Laws of task files: what is built, and every mistake at its place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from answerkey.metrics import Aggregator, ScoreAggregator, Trials, expected_names
from answerkey.scorers import StringEqualsMcqa
from answerkey.spec import load_plan, task_from_source

from .conftest import RUN, TASK, Loaded, Write, list_errors, sound, value_of
from .conftest import load as load_source

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
PYTHON = """\
    - type: python
      compute_scores_snippet: |
        def compute_scores(sample):
            return {"length": len(sample["x"])}
"""
ZERO_HINT = "a leading 0 may mean octal or nothing: leave it out, or write `0o10` for 8"


def load(write: Write, text: str, config: dict[str, object] | None = None) -> Loaded:
    """Load a task file with this text."""
    write(task_yaml=text)
    return load_source("task.yaml", config)


def declare(parameter: str) -> str:
    """Return a task with one parameter more."""
    return TASK.replace("config_spec:\n", f"config_spec:\n  - {parameter}\n")


def test_a_task_has_nothing_left_to_look_up(write: Write) -> None:
    """Config is filled in, templates compile, defaults are there."""
    task = value_of(load(write, TASK))
    assert (task.key, task.dataset_key, task.file) == ("mcqa", "questions", "task.yaml")
    assert task.config == task.dataset_columns == {"answer_column": "answer"}
    step = task.main_step
    assert isinstance(step.scorer, StringEqualsMcqa)
    assert step.scorer.ground_truth_choice == "{{ sample.answer }}"
    assert (step.key, step.purpose) == ("string_equals_mcqa", "score")
    assert [(metric.key, metric.metric.type) for metric in step.metrics] == [("mean", "mean")]
    assert expected_names(step.metrics[0].metric).names == ("Accuracy",)
    assert (task.trials, task.num_trials, "trials" in str(task.source)) == (None, 1, False)


def test_places_of_parts_are_known(write: Write) -> None:
    """Every part of a task can say where it stands, also where a config value was given."""
    task = value_of(load(write, TASK, {"answer_column": "key"}))
    assert str(task.place("definition", "scorers", 0, "choices")) == "task.yaml:11:16"
    assert str(task.place("definition", "scorers", 0, "options")) == "task.yaml:9:7"
    assert str(task.place("config_spec", "answer_column")) == "--config"


def test_every_mistake_is_found_at_once(write: Write) -> None:
    """One pass reports all mistakes in the order of the file, each at its place, and builds the
    rest.
    """
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
    errors = [error.replace("task.yaml:", "") for error in list_errors(load(write, text))]
    places = "E107 4:1, E110 8:28, E112 9:16, E107 10:7, E115 12:31, E107 13:57, E108 17:16"
    assert ", ".join(errors) == places


@pytest.mark.parametrize(
    ("old", "new", "error", "words"),
    [
        ("display_name: Questions", "display_nme: Q", "E107 2:1", "did you mean `display_name`?"),
        ("dataset: {key", "dataset: {ky", "E107 7:13", "did you mean `key`?"),
        ("      choices:", "      choicess:", "E107 11:7", "did you mean `choices`?"),
        ("{key: questions}", "questions", "E108 7:12", "must be a mapping"),
        *(
            ('"{{ sample.<< config.answer_column >> }}"', text, "E108 10:28", "")
            for text in ("true", "null", "[A]", "{a: 1}", "1.0")
        ),
        ("", "    - type: bleu\n", "E116 12:13", "`bleu` of the original platform"),
        ("", "    - type: rag_checker\n", "E116 12:13", "original platform"),
        ("", "    - type: string_equal\n", "E109 12:13", "unknown scorer type 'string_equal'"),
        ("", "    - key: x\n", "E108 12:7", "`type` is missing in `scorer`"),
        ("", "    - x\n", "E108 12:7", "must be a mapping"),
        *(
            ("", f"      extraction: {rule}\n", "E108 12:19", "")
            for rule in ("last_label", "{pattern: 'x'}", "{pattern: '(x'}", "{regex: '(x)'}")
        ),
        *(
            ("", f"  solver: {{type: {kind}}}\n", "E303 12:18", ("is outside the scope of "
"multiple choice"))
            for kind in ("multi_turn_solver", "grouped_single_turn_solver")
        ),
        ("", SOLVER, "E112 22", ""),
        ("", SOLVER.replace("role: user", "rol: user"), "E107 19:11", ""),
        ("", SOLVER.replace("chat_completion", "chat"), "E109 15:13", ""),
        ("", "      metrics: [{type: mean, field: is_corect}]\n", "E115 12:37",
        "did you mean `is_correct`?"),
        ("", PYTHON, "E108 12:7", "needs `metrics`"),
        ("", PYTHON.replace("scores(sample)", "other(") + "      metrics: []\n", "E108 13:31", ""),
        ("", "      display_name: 1.50\n      key: 7\n", "E108 12:21", "put the value in quotes"),
        ("config_spec:\n", "config_spec:\n  - {type: int, key: n, display_name: N, min: true, default_value: 1}\n", "E108 5:47", "`min` must be a whole number, not true"),  # noqa: E501 - one case, one line
    ],
)  # fmt: skip
def test_a_mistake_has_its_place(write: Write, old: str, new: str, error: str, words: str) -> None:
    """Unknown names with the nearest ones, wrong types, templates and snippets that do not
    parse.
    """
    loaded = load(write, TASK.replace(old, new, 1) if old else TASK + new)
    assert error.replace(" ", " task.yaml:") in list_errors(loaded)
    results = [problem for problem in loaded.errors if problem.code == error[:4]]
    assert any(words in f"{problem.message} {problem.hint}" for problem in results)


@pytest.mark.parametrize("rule", ["leading_label", "stated_answer", "{pattern: 'x(.)'}"])
def test_extraction_rules_are_named_or_written(write: Write, rule: str) -> None:
    """A rule is a name, or a pattern of the user's own."""
    assert load(write, f"{TASK}      extraction: {rule}\n").errors == []


def test_metric_keys_and_scorer_keys_are_unique(write: Write) -> None:
    """Keys that are given twice are errors; keys that are not given are the type, numbered."""
    text = """\
      key: a
      metrics:
        - {type: mean, field: is_correct}
        - {type: mean, field: is_correct, name: two}
        - {type: mean, field: is_correct, key: m}
        - {type: max, field: is_correct, key: m}
        - {type: frequency, field: completion_validity}
    - {type: string_equals, ground_truth: x, value: y, key: a}
"""
    loaded = load(write, TASK + text)
    assert list_errors(loaded) == ["E114 task.yaml:17:11", "E114 task.yaml:19:7"]
    sound = text.replace("max, field: is_correct, key: m", "max, field: is_correct, key: n")
    (step, _) = value_of(load(write, TASK + sound.replace("y, key: a", "y, key: b"))).scoring
    assert [metric.key for metric in step.metrics] == ["mean", "mean-2", "m", "n", "frequency"]


def test_no_metrics_at_all_is_warned_about(write: Write) -> None:
    """`metrics: []` gives no number; of a scorer that only annotates none is expected."""
    note = "    - {type: string_equals, ground_truth: x, metrics: [], key: note, purpose: qa}\n"
    (notice,) = load(write, f"{TASK}      metrics: []\n{note}").notices
    assert notice.message == "a scorer has no metrics: the run will have no number from it"


@pytest.mark.parametrize("spaces", ["", " "])
def test_a_dataset_may_be_a_config_value(write: Write, spaces: str) -> None:
    """`dataset: << config.x >>` means `{key: << config.x >>}`."""
    text = declare("{type: dataset, key: ds, display_name: D, default_value: questions}")
    text = text.replace("{key: questions}", f"<<{spaces}config.ds{spaces}>>")
    assert value_of(load(write, text)).dataset_key == "questions"


@pytest.mark.parametrize(
    ("rule", "errors"),
    [
        ('{op: equals, expression: "{{ sample.x }}", value: 3}', []),
        ('{op: in, expression: "{{ sample.x }}", values: [3]}', []),
        ('{op: exists, expression: "{{ scores.string_equals_mcqa.is_correct }}"}', []),
        ('{op: equals, expression: "{{ sample.x }}"}', ["E108 task.yaml:13:34"]),
        ('{op: is_true, expression: "{{ sample.x }}", value: 1}', ["E108 task.yaml:13:78"]),
        ('{op: in, expression: "{{ sample.x }}"}', ["E108 task.yaml:13:34"]),
        ('{op: is, expression: "{{ sample.x }}"}', ["E108 task.yaml:13:39"]),
        ('{op: exists, expression: "{{ sample.x"}', ["E112 task.yaml:13:59"]),
    ],
)
def test_actions_are_checked(write: Write, rule: str, errors: list[str]) -> None:
    """The filter of an action has what its op needs, and its expression compiles."""
    loaded = load(write, TASK + f"  actions:\n    - {{key: skip_bad, filter:    {rule}}}\n")
    assert list_errors(loaded) == errors


NO_SCORER = "E113 action `skip`: no scorer has the key"
NO_VALUE = "E113 action `skip`: scorer `string_equals_mcqa` has no value"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("{{ scores.string_equals_mcqa.is_correct }}", None),
        ("scores['string_equals_mcqa'].is_correct", None),
        ("scores.string_equals_mcqa.completion_validity == 'VALID'", None),
        ("scores.string_equals_mcqa", None),
        ("scores.items() | list | length > 1", None),
        ("scores[sample.key].is_correct", None),
        ("sample.strin.is_correct", None),
        ("scores.python.anything", None),
        ("scores.string_equals_mcqa['is_correct.mean']", None),
        ("{{ scores.string_equal_mcqa.is_correct }}", f"{NO_SCORER} `string_equal_mcqa`: did you mean `string_equals_mcqa`?"),  # noqa: E501 - one case, one line
        ("scores.x.y", f"{NO_SCORER} `x`: scorers: `string_equals_mcqa`, `python`"),
        ("scores.string_equals_mcqa.is_corect", (f"{NO_VALUE} `is_corect`: did you "
"mean `is_correct`?")),
    ],
)  # fmt: skip
def test_what_actions_read_is_there(write: Write, expression: str, message: str | None) -> None:
    """Values and metadata by name; what only the scores can tell is not questioned."""
    condition = f'{{op: is_true, expression: "{expression}"}}'
    action = f"  actions:\n    - {{key: skip, filter: {condition}}}\n"
    loaded = load(write, f"{TASK}{PYTHON}      metrics: [{{type: mean, field: x}}]\n{action}")
    errors = [f"{error.code} {error.message}: {error.hint}" for error in loaded.errors]
    assert errors == ([] if message is None else [message])


def test_references_to_scores_have_their_own_place(write: Write) -> None:
    """That of the action's filter; while one scorer is not known, no reference is questioned."""
    action = "  actions:\n    - key: skip\n      filter: {op: is_true, expression: scores.x.y}\n"
    assert list_errors(load(write, TASK + action)) == ["E113 task.yaml:14:41"]
    broken = "    - {type: string_equals, key: x}\n"
    assert {error.code for error in load(write, TASK + broken + action).errors} == {"E108"}


def test_the_source_builds_the_same_task(write: Write) -> None:
    """`Task.source` is plain JSON from which the same task is built; prompts are never expanded."""
    text = TASK + SOLVER.replace("{% for x in sample.y %}", "")
    condition = '{op: equals, expression: "{{ sample.x }}", value: null}'
    text += f"  actions: [{{key: a, filter: {condition}}}]\n"
    task = value_of(load(write, text, {"answer_column": "answer key"}))
    again = task_from_source(json.loads(json.dumps(task.source)))
    assert (again, again.source) == (task, task.source)
    assert "$HOME" in json.dumps(task.source)


def fingerprints(write: Write, texts: Sequence[str]) -> set[str]:
    """Return the fingerprints of several task files."""
    return {value_of(load(write, text)).fingerprint for text in texts}


def test_the_fingerprint_is_of_what_counts(write: Write) -> None:
    """Names, descriptions and defaults written out do not change the fingerprint; a rule does."""
    same = [
        TASK,
        TASK.replace("Questions", "Other").replace("Multiple", "Some"),
        TASK + "      purpose: score\n      display_name: First letter\n",
        TASK.replace("<< config.answer_column >>", "answer"),
        TASK + "      metrics: [{type: mean, field: is_correct, name: Accuracy}]\n",
    ]
    assert len(fingerprints(write, same)) == 1
    more = ("", "      extraction: first_character_literal\n", "      purpose: qa\n")
    assert len(fingerprints(write, [TASK + line for line in more])) == 3


def test_a_mapping_is_a_task_too() -> None:
    """`load_task` takes a mapping of the same form as the file."""
    scorer = {"type": "string_equals_mcqa", "ground_truth_choice": "A", "choices": ["A", "B"]}
    task = {"key": "t", "display_name": "T", "description": "", "definition": {"scorers": [scorer]}}
    assert value_of(load_source(task)).file is None


@pytest.mark.parametrize("text", ["- 1\n", "", "tasks: []\nevaluation: {}\n"])
def test_something_else_is_no_task(write: Write, text: str) -> None:
    """A file that is no mapping, or no task, is an error."""
    assert [error.code for error in load(write, text).errors] == ["E108"]
    assert [error.code for error in load_source(Path("none.yaml")).errors] == ["E101"]


@pytest.mark.parametrize(("text", "number"), [("1_000", 1000), ("0x1F", 31), ('"0o17"', 15)])
def test_a_parameter_reads_them(write: Write, text: str, number: int) -> None:
    """In the file and from the command line alike."""
    spec = declare(f"{{type: int, key: n, display_name: N, min: 0x1, default_value: {text}}}")
    assert value_of(load(write, spec)).config["n"] == number
    assert value_of(load(write, spec, {"n": text.strip('"')})).config["n"] == number


def test_a_numeric_field_reads_them(project: Write) -> None:
    """As a value of `run_config` and of a specification.

    A leading zero is refused with both meanings.
    """
    project(run_yaml=RUN + "      num_samples: 1_0\nrun_config: {seed: 0x1F}\n")
    selection = sound(load_plan("run.yaml")).jobs[0].selection
    assert (selection.num_samples, selection.seed) == (10, 31)
    spec = declare("{type: int, key: n, display_name: N, default_value: 010}")
    project(run_yaml=RUN + "run_config: {seed: 010}\n", task_yaml=spec)
    assert [(error.message, error.hint) for error in load_plan("run.yaml").errors] == [
        ("`seed` must be a whole number, not '010'", ZERO_HINT),
        ("config value `n` must be a whole number, not '010'", ZERO_HINT),
    ]


def test_words_and_numbers_stay_text_where_text_stands(write: Write) -> None:
    """A choice, an option, a truth and a key are what is written."""
    text = TASK.replace('"{{ sample.choices }}"', "[Y, N]")
    text += "      options: [0x1F, 1_000]\n      key: yes\n"
    step = value_of(load(write, text)).main_step
    assert isinstance(step.scorer, StringEqualsMcqa)
    fields = (step.key, step.scorer.choices, step.scorer.options)
    assert fields == ("yes", ["Y", "N"], ["0x1F", "1_000"])


AGGREGATORS = "  trials:\n    num_trials: 5\n    score_aggregators:\n"
THREE = "run_config: {trials_config: {num_trials: 3}}\n"
FOUR = f"{THREE}{RUN}      trials: {{num_trials: 4%s}}\n"
MAX = ScoreAggregator("is_correct", Aggregator("max"))


def aggregate(function: str, name: str = "is_correct") -> str:
    """Return one aggregator as YAML."""
    return f"      - {{score_name: {name}, aggregator: {{function: {function}}}}}\n"


def test_a_task_says_how_often_it_asks(write: Write) -> None:
    """`trials` becomes the task's, and is stored with it."""
    loaded = load(write, TASK + AGGREGATORS + aggregate("mean") + aggregate("pass@k_plugin, k: 9"))
    task = value_of(loaded)
    functions = (Aggregator("mean"), Aggregator("pass@k_plugin", 9))
    aggregators = tuple(ScoreAggregator("is_correct", function) for function in functions)
    assert task.trials == Trials(5, aggregators)
    assert (task.num_trials, loaded.notices) == (5, [])
    assert task_from_source(task.source).trials == task.trials


@pytest.mark.parametrize("before", ["", "score_name: is_correct, "])
def test_an_aggregator_may_name_its_score(write: Write, before: str) -> None:
    """Files of late 2026 write the name there."""
    text = f"      - {{{before}aggregator: {{function: max, score_name: is_correct}}}}\n"
    assert value_of(load(write, TASK + AGGREGATORS + text)).trials == Trials(5, (MAX,))


def test_the_unbiased_forms_are_announced_once(write: Write) -> None:
    """A file that uses `pass@k` or `pass^k` gets one notice that they are not the plug-in forms."""
    functions = ("pass@k, k: 2", "pass^k, k: 2", "pass@k, k: 3")
    (notice,) = load(write, TASK + AGGREGATORS + "".join(map(aggregate, functions))).notices
    assert "unbiased" in notice.message
    assert "pass@k_plugin" in str(notice.hint)


@pytest.mark.parametrize(
    ("text", "message_start"),
    [
        ("      - {aggregator: {function: mean}}\n", "E108 15:9 `score_name` must be given once"),
        ("      - {score_name: x, aggregator: {function: mean, score_name: other}}\n", "E108 15:9 `score_name` must be given once"),  # noqa: E501 - one case, one line
        ("      - {aggregator: {function: mean, score_name: is_corect}}\n", "E115 15:51 `score_name` `is_corect` is not"),  # noqa: E501 - same
        (aggregate("pass@k"), "E108 15:9 the aggregator `pass@k` needs `k`"),
        (aggregate("pass^k, k: 6"), ("E108 15:9 `pass^k` with `k` 6 needs 6 "
"trials, and there are 5")),
        (aggregate("mean, k: 2"), "E108 15:9 the aggregator `mean` has no `k`"),
        (aggregate("max") * 2, "E108 16:9 the aggregate `is_correct.max` is listed twice"),
        (aggregate("max", "is_corect"), ("E115 15:22 `score_name` `is_corect` is "
"not a value of a scorer")),
        (aggregate("max", "predicted_choice"), ("E115 15:22 `score_name` "
"`predicted_choice` is not a value")),
        (aggregate("pass@n, k: 1"), ("E108 15:57 "
"`score_aggregators.0.aggregator.function` "
"is 'pass@n'")),
    ],
)  # fmt: skip
def test_aggregators_are_checked_at_load(write: Write, text: str, message_start: str) -> None:
    """What an aggregator cannot do is found before anything is asked."""
    (error,) = load(write, TASK + AGGREGATORS + text).errors
    message = f"{error.code} {error.where} {error.message}"
    assert message.startswith(message_start.replace(" ", " task.yaml:", 1))


def test_metrics_may_name_aggregates(write: Write) -> None:
    """`is_correct.pass@2` is a field under trials that ask for it, and no other is."""
    scorer = TASK + "      metrics:\n        - {type: mean, field: is_correct.pass@2}\n"
    assert load(write, scorer + AGGREGATORS + aggregate("pass@k, k: 2")).errors == []
    (error,) = load(write, scorer + AGGREGATORS + aggregate("pass@k, k: 3")).errors
    expected = "metric field `is_correct.pass@2` is not produced by `string_equals_mcqa`"
    assert error.message == expected
    assert "is_correct.pass@3" in str(error.hint)
    assert [error.code for error in load(write, scorer).errors] == ["E115"]


def test_default_metrics_say_which_aggregate_they_are(write: Write) -> None:
    """A scorer without `metrics` gets one for each aggregator.

    Only the mean is called accuracy alone.
    """
    task = value_of(load(write, TASK + AGGREGATORS + aggregate("pass@k, k: 2") + aggregate("mean")))
    metrics = []
    for metric in task.main_step.metrics:
        name = metric.metric.name  # type: ignore[attr-defined]  # means have a name
        metrics.append((metric.key, metric.metric.fields(), name))
    assert metrics == [
        ("mean", ("is_correct.pass@2",), "Accuracy pass@2"),
        ("mean-2", ("is_correct.mean",), "Accuracy"),
    ]


@pytest.mark.parametrize(
    ("run", "task", "trials"),
    [
        (THREE + RUN, TASK, Trials(3)),
        (THREE + RUN, TASK + AGGREGATORS + aggregate("max"), Trials(3, (MAX,))),
        (FOUR % "", TASK + AGGREGATORS + aggregate("max"), Trials(4, (MAX,))),
        (FOUR % ", score_aggregators: []", TASK + AGGREGATORS + aggregate("max"), Trials(4)),
    ],
)
def test_the_run_sets_the_number(project: Write, run: str, task: str, trials: Trials) -> None:
    """A specification wins over `run_config`, which wins over the task, key by key."""
    project(run_yaml=run, task_yaml=task)
    assert sound(load_plan("run.yaml")).jobs[0].task.trials == trials


@pytest.mark.parametrize(
    "text",
    [
        "run_config: {trials_config: {num_trials: 1}}\n" + RUN,
        "run_config: {trials_config: {}}\n" + RUN,
        RUN + "      trials: {num_trials: 1}\n",
        RUN + "      repeatability: {num_runs: 1}\n",
        RUN + "      repeatability: {}\n",
    ],
)
def test_numbers_below_two_are_refused(project: Write, text: str) -> None:
    """One trial, or one run, is not several."""
    project(run_yaml=text)
    assert [error.code for error in load_plan("run.yaml").errors] == ["E108"]


def test_repeatability_is_a_number_of_runs(project: Write) -> None:
    """A specification says how often it is run; once unless it does."""
    for more, runs in (("      repeatability: {num_runs: 3}\n", 3), ("", 1)):
        project(run_yaml=RUN + more)
        assert sound(load_plan("run.yaml")).jobs[0].num_runs == runs
