from __future__ import annotations

import jsonschema
import pytest

from answerkey.errors import AnswerkeyError
from answerkey.metrics import Aggregator, ScoreAggregator, Trials
from answerkey.spec import Loaded, Plan, Task, load_plan, load_task, schema, task_from_source

from .conftest import RUN, TASK, Write

AGGREGATORS = """\
  trials:
    num_trials: 5
    score_aggregators:
"""


def aggregate(function: str, name: str = "is_correct") -> str:
    """Return one aggregator as YAML."""
    return f"      - {{score_name: {name}, aggregator: {{function: {function}}}}}\n"


def load(write: Write, text: str) -> Loaded[Task]:
    """Load a task file with this text."""
    write(task_yaml=text)
    return load_task("task.yaml")


def told(errors: list[AnswerkeyError]) -> list[tuple[str, str, str]]:
    """Return code, place and message of every error."""
    return [(error.code, str(error.where), error.message) for error in errors]


def trials_of(loaded: Loaded[Plan]) -> Trials | None:
    """Return the trials of the first specification."""
    assert loaded.errors == []
    assert loaded.value is not None
    return loaded.value.specifications[0].task.trials


def test_a_task_says_how_often_it_asks(write: Write) -> None:
    """`trials` becomes the task's, and is stored with it."""
    loaded = load(write, TASK + AGGREGATORS + aggregate("mean") + aggregate("pass@k_plugin, k: 9"))
    assert loaded.errors == []
    assert loaded.notices == []
    task = loaded.value
    assert task is not None
    assert task.num_trials == 5
    assert task.trials == Trials(
        5,
        (
            ScoreAggregator("is_correct", Aggregator("mean")),
            ScoreAggregator("is_correct", Aggregator("pass@k_plugin", 9)),
        ),
    )
    assert task_from_source(task.source).trials == task.trials


@pytest.mark.parametrize(
    "text",
    [
        "      - {aggregator: {function: mean, score_name: is_correct}}\n",
        "      - {score_name: is_correct, aggregator: {function: mean, score_name: is_correct}}\n",
    ],
)
def test_an_aggregator_may_name_its_score(write: Write, text: str) -> None:
    """Files of late 2026 write the name there."""
    loaded = load(write, TASK + AGGREGATORS + text)
    assert loaded.errors == []
    assert loaded.value is not None
    assert loaded.value.trials == Trials(5, (ScoreAggregator("is_correct", Aggregator("mean")),))


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("{aggregator: {function: mean}}", "E108", "`score_name` is missing in"),
        (
            "{score_name: is_correct, aggregator: {function: mean, score_name: other}}",
            "E108",
            "`score_name` and that of the `aggregator` differ",
        ),
        ("{aggregator: {function: mean, score_name: is_corect}}", "E115", "`score_name` `is_corect` is not"),
    ],
)
def test_the_score_of_an_aggregator_is_named_once(write: Write, text: str, code: str, words: str) -> None:
    """None, or two that differ, is an error."""
    ((found, _, message),) = told(load(write, f"{TASK}{AGGREGATORS}      - {text}\n").errors)
    assert found == code
    assert words in message


def test_a_task_without_trials_asks_once(write: Write) -> None:
    """One trial, and nothing about it in the stored task."""
    task = load(write, TASK).value
    assert task is not None
    assert (task.trials, task.num_trials) == (None, 1)
    assert "trials" not in str(task.source)


def test_the_unbiased_forms_are_announced_once(write: Write) -> None:
    """A file that uses `pass@k` or `pass^k` hears once that they are not the plug-in forms."""
    text = AGGREGATORS + aggregate("pass@k, k: 2") + aggregate("pass^k, k: 2") + aggregate("pass@k, k: 3")
    notices = load(write, TASK + text).notices
    assert len(notices) == 1
    assert "unbiased" in notices[0].message
    assert "pass@k_plugin" in str(notices[0].hint)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (aggregate("pass@k"), ("E108", "task.yaml:15:9", "the aggregator `pass@k` needs `k`")),
        (
            aggregate("pass^k, k: 6"),
            ("E108", "task.yaml:15:9", "`pass^k` with `k` 6 needs 6 trials, and there are 5"),
        ),
        (aggregate("mean, k: 2"), ("E108", "task.yaml:15:9", "the aggregator `mean` has no `k`")),
        (
            aggregate("max") * 2,
            ("E108", "task.yaml:16:9", "the aggregate `is_correct.max` is asked for twice"),
        ),
        (
            aggregate("max", "is_corect"),
            ("E115", "task.yaml:15:22", "`score_name` `is_corect` is not a value of a scorer of the task"),
        ),
        (
            aggregate("max", "predicted_choice"),
            (
                "E115",
                "task.yaml:15:22",
                "`score_name` `predicted_choice` is not a value of a scorer of the task",
            ),
        ),
    ],
)
def test_aggregators_are_checked_at_load(write: Write, text: str, problem: tuple[str, str, str]) -> None:
    """What an aggregator cannot do is found before anything is asked."""
    assert told(load(write, TASK + AGGREGATORS + text).errors) == [problem]


def test_one_trial_is_none(write: Write) -> None:
    """`num_trials` is at least 2, and an unknown function is refused with the nearest name."""
    assert [error.code for error in load(write, TASK + "  trials: {num_trials: 1}\n").errors] == ["E108"]
    wrong = load(write, TASK + AGGREGATORS + aggregate("pass@n, k: 1")).errors
    assert [error.code for error in wrong] == ["E108"]
    assert "pass@k" in str(wrong[0])


def test_metrics_may_name_aggregates(write: Write) -> None:
    """`is_correct.pass@2` is a field under trials that ask for it, and no other is."""
    scorer = TASK + "      metrics:\n        - {type: mean, field: is_correct.pass@2}\n"
    assert load(write, scorer + AGGREGATORS + aggregate("pass@k, k: 2")).errors == []
    errors = load(write, scorer + AGGREGATORS + aggregate("pass@k, k: 3")).errors
    assert [(error.code, error.message) for error in errors] == [
        ("E115", "metric field `is_correct.pass@2` is not produced by `string_equals_mcqa`")
    ]
    assert "is_correct.pass@3" in str(errors[0].hint)
    assert [error.code for error in load(write, scorer).errors] == ["E115"]


def test_default_metrics_say_which_aggregate_they_are(write: Write) -> None:
    """A scorer without `metrics` gets one for each aggregator; only the mean is called accuracy alone."""
    task = load(write, TASK + AGGREGATORS + aggregate("pass@k, k: 2") + aggregate("mean")).value
    assert task is not None
    metrics = [(one.key, one.metric.fields(), one.metric.name) for one in task.main_step.metrics]  # type: ignore[attr-defined]  # means have a name
    assert metrics == [
        ("mean", ("is_correct.pass@2",), "Accuracy pass@2"),
        ("mean-2", ("is_correct.mean",), "Accuracy"),
    ]


def test_run_config_sets_the_number(project: Write) -> None:
    """`trials_config` asks for trials of every task, and wins over the task's own number."""
    project(run_yaml="run_config: {trials_config: {num_trials: 3}}\n" + RUN)
    assert trials_of(load_plan("run.yaml")) == Trials(3)
    project(
        run_yaml="run_config: {trials_config: {num_trials: 3}}\n" + RUN,
        task_yaml=TASK + AGGREGATORS + aggregate("max"),
    )
    assert trials_of(load_plan("run.yaml")) == Trials(3, (ScoreAggregator("is_correct", Aggregator("max")),))


def test_a_task_specification_wins(project: Write) -> None:
    """What a specification says wins over `run_config` and the task, key by key."""
    head = "run_config: {trials_config: {num_trials: 3}}\n"
    project(
        run_yaml=head + RUN + "      trials: {num_trials: 4}\n",
        task_yaml=TASK + AGGREGATORS + aggregate("max"),
    )
    assert trials_of(load_plan("run.yaml")) == Trials(4, (ScoreAggregator("is_correct", Aggregator("max")),))
    own = "      trials: {num_trials: 4, score_aggregators: []}\n"
    project(run_yaml=head + RUN + own, task_yaml=TASK + AGGREGATORS + aggregate("max"))
    assert trials_of(load_plan("run.yaml")) == Trials(4)


def test_too_few_trials_are_reported_where_they_are_set(project: Write) -> None:
    """A `k` of the task that the run's number cannot serve is an error of the aggregator."""
    project(
        run_yaml="run_config: {trials_config: {num_trials: 2}}\n" + RUN,
        task_yaml=TASK + AGGREGATORS + aggregate("pass@k, k: 3"),
    )
    errors = load_plan("run.yaml").errors
    assert told(errors) == [("E108", "task.yaml:15:9", "`pass@k` with `k` 3 needs 3 trials, and there are 2")]


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
    project(run_yaml=RUN + "      repeatability: {num_runs: 3}\n")
    plan = load_plan("run.yaml").value
    assert plan is not None
    assert plan.specifications[0].num_runs == 3
    project(run_yaml=RUN)
    plan = load_plan("run.yaml").value
    assert plan is not None
    assert plan.specifications[0].num_runs == 1


def test_the_schema_knows_trials() -> None:
    """Editors accept what the loader accepts, and refuse what it refuses."""
    task = {
        "key": "t",
        "display_name": "T",
        "description": "d",
        "definition": {
            "scorers": [{"type": "string_equals_mcqa", "ground_truth_choice": "A", "choices": ["A"]}],
            "trials": {
                "num_trials": 3,
                "score_aggregators": [
                    {"score_name": "is_correct", "aggregator": {"function": "pass^k_plugin", "k": 2}}
                ],
            },
        },
    }
    jsonschema.validate(task, schema("task"))
    task["definition"]["trials"]["num_trials"] = 1  # type: ignore[index]  # a mapping, as written above
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(task, schema("task"))
