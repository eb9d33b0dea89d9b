from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from answerkey.datasets import InlineSource, LocalSource, Selection
from answerkey.spec import Loaded, Overrides, Plan, load_plan, source_from
from answerkey.spec.models import provider_key

from .conftest import DATASET, RUN, TASK, Write

SOLVER = """\
  solver:
    type: single_turn_solver
    input_builder: {type: chat_completion, input_messages: [{role: user, content: "{{ sample.answer }}"}]}
"""


def codes(loaded: Loaded[Plan]) -> list[tuple[str, str]]:
    """Return code and place of every error."""
    return [(error.code, str(error.where)) for error in loaded.errors]


def plan_of(loaded: Loaded[Plan]) -> Plan:
    """Return a plan that was loaded without errors."""
    assert loaded.errors == []
    assert loaded.value is not None
    return loaded.value


def test_a_folder_with_a_run_file_is_a_plan(project: Write) -> None:
    """A folder stands for its `run.yaml`."""
    folder = project()
    plan = plan_of(load_plan(folder))
    (one,) = plan.specifications
    assert (plan.key, plan.display_name, one.key, one.dataset.key) == ("trial", "Trial", "mcqa", "questions")
    assert isinstance(one.dataset.source, LocalSource)
    assert one.dataset.source.file_path == str(folder / "questions.jsonl")
    assert one.selection == Selection()


def test_a_folder_without_a_run_file_is_an_error(tmp_path: Path) -> None:
    """A folder needs a `run.yaml`."""
    assert [error.code for error in load_plan(tmp_path).errors] == ["E101"]


def test_paths_are_relative_to_the_file_that_states_them(project: Write) -> None:
    """`file_path` in a dataset file of a subfolder is relative to that subfolder."""
    folder = project(sub__dataset_yaml=DATASET, run_yaml=RUN.replace("dataset.yaml", "sub/dataset.yaml"))
    source = plan_of(load_plan("run.yaml")).specifications[0].dataset.source
    assert isinstance(source, LocalSource)
    assert source.file_path == str(folder / "sub" / "questions.jsonl")


def test_a_task_file_takes_the_dataset_of_the_caller(project: Write) -> None:
    """A task file is a plan with the data file or dataset file that the caller names."""
    project()
    for given in ("questions.jsonl", "dataset.yaml"):
        (one,) = plan_of(load_plan("task.yaml", Overrides(dataset=given))).specifications
        assert (one.key, one.dataset.key) == ("mcqa", "questions")


def test_a_task_file_alone_says_what_is_missing(project: Write) -> None:
    """Without a dataset the error tells to give one."""
    project()
    loaded = load_plan("task.yaml")
    assert codes(loaded) == [("E113", "task.yaml:7:12")]
    assert loaded.errors[0].hint == "give the file with `--dataset FILE`"
    project(task_yaml=TASK.replace("  dataset: {key: questions}\n", ""))
    assert codes(load_plan("task.yaml")) == [("E119", "task.yaml:7:3")]


def test_a_dataset_parameter_left_open_is_the_given_dataset(project: Write) -> None:
    """`--dataset` also fills a parameter of type `dataset` that has no value."""
    text = TASK.replace("{key: questions}", "{key: << config.set >>}")
    text = text.replace("config_spec:\n", "config_spec:\n  - {type: dataset, key: set, display_name: S}\n")
    project(task_yaml=text)
    assert plan_of(load_plan("task.yaml", Overrides(dataset="questions.jsonl"))).specifications


def test_a_run_without_an_evaluation_runs_every_task(project: Write) -> None:
    """Tasks without an evaluation are each run once, on the dataset that can be told."""
    project(
        run_yaml=RUN[: RUN.index("evaluation")], task_yaml=TASK.replace("  dataset: {key: questions}\n", "")
    )
    (one,) = plan_of(load_plan("run.yaml")).specifications
    assert (one.key, one.dataset.key) == ("mcqa", "questions")


def test_specification_keys_are_numbered(project: Write) -> None:
    """A task used twice gets a numbered key; the same key given twice is an error."""
    project(run_yaml=RUN + "    - task_key: mcqa\n    - {task_key: mcqa, key: other}\n")
    plan = plan_of(load_plan("run.yaml"))
    assert [one.key for one in plan.specifications] == ["mcqa", "mcqa-2", "other"]
    project(run_yaml=RUN + "    - {task_key: mcqa, key: x}\n    - {task_key: mcqa, key: x}\n")
    assert codes(load_plan("run.yaml")) == [("E114", "run.yaml:11:7")]


def test_references_must_be_defined(project: Write) -> None:
    """A task, a dataset or a model that is not defined is an error with the nearest name."""
    project(
        run_yaml=RUN.replace("task_key: mcqa", "task_key: mcq"),
        task_yaml=TASK,
    )
    loaded = load_plan("run.yaml")
    assert codes(loaded) == [("E113", "run.yaml:9:17")]
    assert loaded.errors[0].hint == "did you mean `mcqa`?"
    project(task_yaml=TASK.replace("{key: questions}", "{key: question}"))
    loaded = load_plan("run.yaml")
    assert [(error.code, error.hint) for error in loaded.errors] == [("E113", "did you mean `questions`?")]
    project(run_yaml=RUN + "      model_key: gpt\n", task_yaml=TASK + SOLVER)
    assert codes(load_plan("run.yaml")) == [("E113", "run.yaml:10:7")]


def test_keys_of_definitions_are_unique(project: Write) -> None:
    """Two datasets or two tasks with one key are errors."""
    text = RUN.replace("  - $ref: dataset.yaml\n", "  - $ref: dataset.yaml\n  - $ref: dataset.yaml\n")
    text = text.replace("  - $ref: task.yaml\n", "  - $ref: task.yaml\n  - $ref: task.yaml\n")
    project(run_yaml=text)
    assert [error.code for error in load_plan("run.yaml").errors] == ["E114", "E114"]


EVALUATION = RUN.replace(
    "  task_specifications:\n",
    "  config_spec:\n    - {type: int, key: rows, display_name: R, default_value: 3}\n"
    "    - {type: model, key: who, display_name: W, default_value: builtin/random}\n"
    "  task_specifications:\n",
).replace(
    "    - task_key: mcqa\n",
    "    - task_key: mcqa\n      num_samples: << config.rows >>\n      model_key: << config.who >>\n"
    "      task_config: {answer_column: right}\n",
)


def test_the_evaluation_has_its_own_config(project: Write) -> None:
    """In task specifications `<< config.x >>` names the evaluation's own parameters."""
    project(run_yaml=EVALUATION, task_yaml=TASK + SOLVER)
    (one,) = plan_of(load_plan("run.yaml")).specifications
    assert (one.selection.num_samples, one.model) == (3, "builtin/random")
    assert one.task.dataset_columns == {"answer_column": "right"}
    assert str(one.task.place("config_spec", "answer_column")) == "run.yaml:15:36"
    project(run_yaml="config: {rows: 5}\n" + EVALUATION)
    assert plan_of(load_plan("run.yaml")).specifications[0].selection.num_samples == 5
    found = load_plan("run.yaml", Overrides(config={"rows": "7", "answer_column": "key"}))
    assert plan_of(found).specifications[0].selection.num_samples == 7
    assert plan_of(found).specifications[0].task.dataset_columns == {"answer_column": "key"}


def test_unknown_config_names_are_errors_wherever_they_are_given(project: Write) -> None:
    """A name that neither the evaluation nor a task declares is an error with a suggestion."""
    project(run_yaml=EVALUATION.replace("{answer_column: right}", "{answer_colum: right}"))
    loaded = load_plan("run.yaml", Overrides(config={"row": "3"}))
    assert [(error.code, str(error.where), error.hint) for error in loaded.errors] == [
        ("E110", "--config", "did you mean `rows`?"),
        ("E110", "run.yaml:15:35", "did you mean `answer_column`?"),
    ]


def test_a_dataset_parameter_must_name_a_dataset(project: Write) -> None:
    """A `dataset`, `model` or `task_result` parameter that names nothing is an error where it is given."""
    spec = """\
config_spec:
  - {type: dataset, key: other, display_name: O}
  - {type: model, key: judge, display_name: J}
  - {type: task_result, key: before, display_name: B}
"""
    config = "      task_config: {other: question, judge: gpt, before: mcq}\n"
    project(run_yaml=RUN + config, task_yaml=TASK.replace("config_spec:\n", spec))
    assert [(error.code, error.hint) for error in load_plan("run.yaml").errors] == [
        ("E113", "did you mean `questions`?"),
        ("E113", "models: none; or name one as `builtin/random`"),
        ("E113", "did you mean `mcqa`?"),
    ]


def test_selections_by_rank(project: Write) -> None:
    """The caller wins over the specification, which wins over `run_config`."""
    config = "run_config: {num_samples: 9, subsampling: random, seed: 4, stratify_by: category}\n"
    project(run_yaml=config + RUN + "      num_samples: 5\n")
    chosen = plan_of(load_plan("run.yaml")).specifications[0].selection
    assert chosen == Selection(5, "random", 4, "category")
    chosen = (
        plan_of(load_plan("run.yaml", Overrides(num_samples=2, subsampling="head")))
        .specifications[0]
        .selection
    )
    assert chosen == Selection(2, "head", 4, "category")


@pytest.mark.parametrize("kind", ["inspect_ai", "langsmith", "phoenix", "claude_code", "opencode"])
def test_foreign_sources_are_refused_by_name(project: Write, kind: str) -> None:
    """Sources of the original platform that are not read are refused with what to do instead."""
    project(dataset_yaml=DATASET.replace("type: local", f"type: {kind}"))
    loaded = load_plan("run.yaml")
    assert codes(loaded) == [("E116", "dataset.yaml:3:16")]
    assert "supported: " in str(loaded.errors[0].hint)


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("{type: url, url: http://data.example/x.csv}", "dataset.yaml:3:26"),
        ("{type: url, url: https://data.example/x.csv, sha256: abc}", "dataset.yaml:3:62"),
        ("{type: local, file_path: x.csv, skip_rows: -1}", "dataset.yaml:3:52"),
        ("{type: local, file_path: x.csv, format: xlsx}", "dataset.yaml:3:49"),
        ("{type: huggingface, path: a/b, name: x, load_dataset_kwargs: {name: y}}", "dataset.yaml:3:46"),
    ],
)
def test_what_a_source_cannot_be_is_told_at_its_field(project: Write, source: str, place: str) -> None:
    """E108, when the file is loaded."""
    project(dataset_yaml=f"key: questions\ndisplay_name: Q\nsource: {source}\n")
    assert codes(load_plan("run.yaml")) == [("E108", place)]


def test_templates_of_derived_columns_are_compiled_at_load(project: Write) -> None:
    """E112 at the line of the template; `$` in them is no environment value."""
    source = (
        'source:\n  type: local\n  file_path: q.jsonl\n  derive:\n    good: "$5"\n    bad: "{{ sample.x"\n'
    )
    project(dataset_yaml=f"key: questions\ndisplay_name: Q\n{source}")
    assert codes(load_plan("run.yaml")) == [("E112", "dataset.yaml:8:10")]


LIVE = """\
models:
  - {$provider: openai/GPT-4.1-nano}
  - {$provider: "builtin/constant?choice=A"}
  - key: own
    display_name: Own
    config: {url: "http://127.0.0.1:8000", adapter: {key: mine}}
  - {key: none, display_name: None, config: {connection_type: placeholder}}
  - {key: code, display_name: Code, config: {connection_type: custom_inference, snippet: x}}
model_adapters:
  - key: mine
    process_input: {language: jinja, source_code: $x}
    process_output: {language: jinja, source_code: y}
"""


def test_live_models_need_not_be_asked(project: Write) -> None:
    """Where completions or another model are given, a model of the file is named and not opened."""
    for key in ("openai$gpt-4-1-nano", "own", "none", "code"):
        project(task_yaml=TASK + SOLVER, run_yaml=LIVE + RUN + f"      model_key: {key}\n")
        (one,) = plan_of(load_plan("run.yaml", Overrides(completions="x.jsonl"))).specifications
        assert (one.model, one.model_key) == (None, key)
        (one,) = plan_of(load_plan("run.yaml", Overrides(model="builtin/random"))).specifications
        assert one.model == "builtin/random"


@pytest.mark.parametrize("key", ["builtin/constant?choice=A", "builtin$constant-choice-a"])
def test_built_in_models_have_names_and_keys(project: Write, key: str) -> None:
    """A built-in model is named directly, or by the key of its `$provider` entry."""
    project(task_yaml=TASK + SOLVER, run_yaml=LIVE + RUN + f"      model_key: {key}\n")
    (one,) = plan_of(load_plan("run.yaml")).specifications
    assert one.model == "builtin/constant?choice=A"


@pytest.mark.parametrize(
    ("model", "code"),
    [
        ("builtin/rndom", "E301"),
        ("opnai/gpt-4", "E301"),
        ("http://127.0.0.1:8000/v1", "E301"),
        ("gpt", "E113"),
    ],
)
def test_the_model_of_the_caller_is_checked(project: Write, model: str, code: str) -> None:
    """`--model` names a defined model or a built-in one."""
    project(task_yaml=TASK + SOLVER)
    assert codes(load_plan("run.yaml", Overrides(model=model))) == [(code, "--model")]


def test_models_are_validated(project: Write) -> None:
    """Mistakes in models and adapters are reported like all others."""
    text = LIVE.replace("openai/", "opena/").replace("url:", "ur:").replace("placeholder", "place_holder")
    project(run_yaml=text + RUN)
    assert codes(load_plan("run.yaml")) == [
        ("E109", "run.yaml:2:17"),
        ("E108", "run.yaml:6:13"),
        ("E107", "run.yaml:6:14"),
        ("E109", "run.yaml:7:63"),
    ]
    project(run_yaml=LIVE.replace("adapter: {key: mine}", "adapter: {key: min}") + RUN)
    assert [(error.code, error.hint) for error in load_plan("run.yaml").errors] == [
        ("E113", "did you mean `mine`?")
    ]


def test_provider_keys_are_lower_cased() -> None:
    """The key of a provider model is lower-cased, other characters turned into hyphens."""
    assert provider_key("openai/gpt-4.1-nano") == "openai$gpt-4-1-nano"
    assert provider_key("together/Meta Llama/3_70B") == "together$meta-llama-3_70b"


def test_generation_without_effect_says_so(project: Write) -> None:
    """A built-in model does not generate, so that `generation` is said to have no effect on it."""
    text = RUN + "      model_key: builtin/random\n      generation: {temperature: 0}\n"
    project(task_yaml=TASK + SOLVER, run_yaml=text)
    loaded = load_plan("run.yaml")
    assert loaded.errors == []
    assert [notice.message for notice in loaded.notices] == [
        "`generation` has no effect on the model `builtin/random`"
    ]


@pytest.mark.parametrize(
    ("head", "era", "policy"),
    [("run_config: {cache_policy: update}\n", "", "update"), ("", "  cache_policy: no-cache\n", "no-cache")],
)
def test_the_cache_policy_is_read_in_both_eras(project: Write, head: str, era: str, policy: str) -> None:
    """`run_config` states the cache policy; the seed era stated it in the evaluation."""
    project(run_yaml=head + RUN.replace("  key: trial\n", "  key: trial\n" + era))
    assert plan_of(load_plan("run.yaml")).cache_policy == policy


def test_environment_values_are_filled_in_where_they_may_be(project: Write) -> None:
    """Paths and settings are expanded; rows and choices are not."""
    inline = """\
  - key: rows
    display_name: $NAME
    source: {type: inline, rows: [{answer: $NAME}]}
"""
    project(
        run_yaml=RUN.replace("tasks:", inline + "tasks:"),
        dataset_yaml=DATASET.replace("questions.jsonl", "$DIR/q.jsonl"),
    )
    project_folder = Path.cwd()
    loaded = load_plan("run.yaml", Overrides(environment={"DIR": "data", "NAME": "n"}))
    source = plan_of(loaded).specifications[0].dataset.source
    assert isinstance(source, LocalSource)
    assert source.file_path == str(project_folder / "data" / "q.jsonl")
    found = load_plan("run.yaml", Overrides(dataset="rows", environment={"DIR": "data", "NAME": "n"}))
    dataset = plan_of(found).specifications[0].dataset
    assert dataset.display_name == "n"
    assert isinstance(dataset.source, InlineSource)
    assert dataset.source.rows == ({"answer": "$NAME"},)
    assert codes(load_plan("run.yaml", Overrides(environment={"NAME": "n"}))) == [
        ("E106", "dataset.yaml:3:34")
    ]


def test_the_env_file_beside_the_run_file_is_read(project: Write) -> None:
    """`.env` beside the run file fills environment values; `--env FILE` replaces it."""
    folder = project(dataset_yaml=DATASET.replace("questions.jsonl", "$FILE"))
    (folder / ".env").write_text("FILE=a.jsonl\n")
    (folder / "other.env").write_text("FILE=b.jsonl\n")
    for env_file, name in ((None, "a.jsonl"), ("other.env", "b.jsonl")):
        plan = plan_of(load_plan("run.yaml", Overrides(env_file=env_file, environment={})))
        assert str(getattr(plan.specifications[0].dataset.source, "file_path", "")).endswith(name)
    assert codes(load_plan("run.yaml", Overrides(env_file="none.env", environment={})))[0] == (
        "E101",
        "none.env",
    )


def test_examples_come_from_a_second_dataset(project: Write) -> None:
    """The dataset of few-shot examples is looked up like any other."""
    second = "  - {key: shots, display_name: S, source: {type: local, file_path: shots.csv}}\n"
    task = TASK + SOLVER + "    examples: {dataset: shots, num_examples: 2}\n"
    project(task_yaml=task, run_yaml=RUN.replace("tasks:", second + "tasks:"))
    (one,) = plan_of(load_plan("run.yaml")).specifications
    assert one.examples is not None
    assert one.examples.key == "shots"
    project(task_yaml=task.replace("dataset: shots", "dataset: shot"))
    assert codes(load_plan("run.yaml")) == [("E113", "task.yaml:15:25")]


def test_dataset_mistakes_are_found(project: Write) -> None:
    """Filters compile, column kinds are known, keys are known."""
    source = """\
source:
  type: local
  file_path: q.csv
  colums: {a: list}
  columns: {a: lst}
  filters:
    - {op: equals, expression: "{{ sample.a", value: 1}
    - {op: equals, expression: "{{ sample.a }}"}
"""
    project(dataset_yaml="key: questions\ndisplay_name: Q\n" + source)
    assert codes(load_plan("run.yaml")) == [
        ("E107", "dataset.yaml:6:3"),
        ("E108", "dataset.yaml:7:16"),
        ("E112", "dataset.yaml:9:32"),
        ("E108", "dataset.yaml:10:7"),
    ]


def test_a_source_is_built_from_its_fields_again(project: Write) -> None:
    """`source_from` gives back the source that was stored as plain values."""
    filters = """, filters: [
  {op: equals, expression: sample.a, value: null}, {op: in, expression: sample.a, values: [1]}]}"""
    project(dataset_yaml=DATASET.replace("}", filters))
    source = plan_of(load_plan("run.yaml")).specifications[0].dataset.source
    assert source_from(asdict(source)) == source  # type: ignore[call-overload]  # a source is a dataclass


def test_a_broken_definition_is_not_also_undefined(project: Write) -> None:
    """A dataset with a mistake is reported once, not again where it is used."""
    project(dataset_yaml=DATASET.replace("file_path", "file_pat"))
    assert [error.code for error in load_plan("run.yaml").errors] == ["E108", "E107"]


def test_tasks_that_are_not_used_are_checked_too(project: Write) -> None:
    """A mistake in a task that no specification uses is found; its missing config is none."""
    other = TASK.replace("key: mcqa", "key: other").replace("sample.choices", "sample.choices |")
    other = other.replace(", default_value: answer", "")
    project(other_yaml=other, run_yaml=RUN.replace("tasks:\n", "tasks:\n  - $ref: other.yaml\n"))
    assert codes(load_plan("run.yaml")) == [("E112", "other.yaml:11:16")]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "E108"),
        ("- x\n", "E108"),
        (DATASET, "E108"),
        ("a: [\n", "E102"),
        ("evaluation: 3\n", "E108"),
        ("task: []\n", "E107"),
    ],
)
def test_other_files_are_refused(project: Write, text: str, code: str) -> None:
    """What is neither a run nor a task file is an error."""
    project(run_yaml=text)
    assert [error.code for error in load_plan("run.yaml").errors] == [code]


def test_config_values_stand_in_tasks_and_specifications_only(project: Write) -> None:
    """A config value in a dataset, a model or `run_config` is an error: no config is known there."""
    project(
        run_yaml="run_config: {seed: << config.s >>}\nmodels: [{$provider: << config.m >>}]\n" + RUN,
        dataset_yaml=DATASET.replace("questions.jsonl", "<< config.path >>"),
    )
    assert codes(load_plan("run.yaml")) == [
        ("E110", "dataset.yaml:3:34"),
        ("E110", "run.yaml:1:20"),
        ("E110", "run.yaml:2:22"),
    ]


@pytest.mark.parametrize(
    ("filters", "errors"),
    [
        ("{op: eqals, expression: sample.a, value: 1}", [("E108", "dataset.yaml:5:14")]),
        ("{op: in, expression: sample.a}", [("E108", "dataset.yaml:5:9")]),
        ("{op: exists, expression: scores.a}", [("E112", "dataset.yaml:5:34")]),
        ("{op: exists, expression: solver_output.a}", [("E112", "dataset.yaml:5:34")]),
    ],
)
def test_a_mistake_in_a_filter_is_told_once(
    project: Write, filters: str, errors: list[tuple[str, str]]
) -> None:
    """At its place; the filter of a dataset sees the row alone."""
    source = f"source:\n  {{type: local, file_path: questions.jsonl, filters: [\n        {filters}]}}\n"
    project(dataset_yaml="key: questions\ndisplay_name: Q\n" + source)
    assert codes(load_plan("run.yaml")) == errors


@pytest.mark.parametrize(
    ("kind", "default"), [("dataset", "question"), ("model", "gpt"), ("task_result", "mcq")]
)
def test_a_default_that_names_nothing_is_an_error_at_its_own_line(
    project: Write, kind: str, default: str
) -> None:
    """Not where the task begins."""
    spec = (
        f"config_spec:\n  - type: {kind}\n    key: other\n    display_name: O\n    default_value: {default}\n"
    )
    project(task_yaml=TASK.replace("config_spec:\n", spec))
    assert codes(load_plan("run.yaml")) == [("E113", "task.yaml:8:20")]


def test_errors_are_told_in_the_order_of_the_file(project: Write) -> None:
    """Line by line, whichever part was checked first."""
    run = "zzz: 1\n" + RUN + "      num_samples: 0\nrun_config: {seed: x}\nyyy: 2\n"
    project(run_yaml=run)
    assert codes(load_plan("run.yaml")) == [
        ("E107", "run.yaml:1:1"),
        ("E108", "run.yaml:11:20"),
        ("E108", "run.yaml:12:20"),
        ("E107", "run.yaml:13:1"),
    ]
