"""Laws of run files: what is planned, what wins, and every mistake at its place, each told once."""

from __future__ import annotations

import pickle
from dataclasses import asdict

import pytest

from answerkey.datasets.dataset import Selection
from answerkey.datasets.sources import InlineSource, LocalSource
from answerkey.errors import AnswerkeyError, SpecError
from answerkey.models.config import ModelConfig, Secret
from answerkey.spec import Job, Options, Plan, Task, load_judges, load_plan, load_task, source_from
from answerkey.spec.models import provider_key
from answerkey.spec.run_file import RunFields

from .conftest import DATASET, RUN, SOLVER, TASK, Write, list_errors, sound

NO_DATASET = TASK.replace("  dataset: {key: questions}\n", "")


def only(loaded: Plan) -> Job:
    """Return the only specification of a plan that was loaded without errors."""
    (job,) = sound(loaded).jobs
    return job


def declare(*parameters: str) -> str:
    """Return a task with some parameters more."""
    lines = [f"  - {{{parameter}}}\n" for parameter in parameters]
    return TASK.replace("config_spec:\n", "config_spec:\n" + "".join(lines))


def from_source(source: str) -> str:
    """Return a dataset file with this source."""
    return f"key: questions\ndisplay_name: Q\nsource: {source}\n"


def test_a_folder_with_a_run_file_is_a_plan(project: Write) -> None:
    """A folder stands for its `run.yaml`, and needs one."""
    folder = project()
    plan, job = sound(load_plan(folder)), only(load_plan(folder))
    assert (plan.key, plan.display_name, job.key) == ("trial", "Trial", "mcqa")
    assert job.dataset_spec.key == "questions"
    assert isinstance(job.dataset_spec.source, LocalSource)
    assert job.dataset_spec.source.file_path == str(folder / "questions.jsonl")
    assert job.selection == Selection()
    (folder / "empty").mkdir()
    assert [error.code for error in load_plan(folder / "empty").errors] == ["E101"]


def test_paths_are_relative_to_the_file_that_states_them(project: Write) -> None:
    """`file_path` in a dataset file of a subfolder is relative to that subfolder."""
    run = RUN.replace("dataset.yaml", "sub/dataset.yaml")
    folder = project(sub__dataset_yaml=DATASET, run_yaml=run)
    source = only(load_plan("run.yaml")).dataset_spec.source
    assert isinstance(source, LocalSource)
    assert source.file_path == str(folder / "sub" / "questions.jsonl")


def test_a_task_file_takes_the_dataset_of_the_caller(project: Write) -> None:
    """A data file or a dataset file, which also fills a parameter that has no value.

    Without one, E113.
    """
    project()
    for dataset in ("questions.jsonl", "dataset.yaml"):
        job = only(load_plan("task.yaml", Options(dataset=dataset)))
        assert (job.key, job.dataset_spec.key) == ("mcqa", "questions")
    loaded = load_plan("task.yaml")
    assert list_errors(loaded) == ["E113 task.yaml:7:12"]
    assert loaded.errors[0].hint == "give the file with `--dataset FILE`"
    project(task_yaml=NO_DATASET)
    assert list_errors(load_plan("task.yaml")) == ["E119 task.yaml:7:3"]
    text = declare("type: dataset, key: set, display_name: S")
    project(task_yaml=text.replace("{key: questions}", "{key: << config.set >>}"))
    assert only(load_plan("task.yaml", Options(dataset="questions.jsonl")))


def test_a_run_without_an_evaluation_runs_every_task(project: Write) -> None:
    """Tasks without an evaluation are each run once, on the dataset that can be told."""
    project(run_yaml=RUN[: RUN.index("evaluation")], task_yaml=NO_DATASET)
    job = only(load_plan("run.yaml"))
    assert (job.key, job.dataset_spec.key) == ("mcqa", "questions")


def test_any_key_of_a_run_file_tells_it_from_a_task_file() -> None:
    """Except `tasks`, which task files have too."""
    for key in RunFields.model_fields.keys() - {"tasks"}:
        assert load_plan({key: None}).errors == []
    assert [error.code for error in load_plan({"tasks": None, "key": "x"}).errors] != []


def test_specification_keys_are_numbered(project: Write) -> None:
    """A task used twice gets a numbered key."""
    project(run_yaml=RUN + "    - task_key: mcqa\n    - {task_key: mcqa, key: other}\n")
    plan = sound(load_plan("run.yaml"))
    expected = ["mcqa", "mcqa-2", "other"]
    assert [job.key for job in plan.jobs] == expected


def find_errors() -> list[str]:
    """Return code and place of every error of the project."""
    return list_errors(load_plan("run.yaml"))


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
MODEL = "models:\n  - {key: m, display_name: M, config: {url: 'http://localhost:1/v1', %s}}\n"
WRONG_MODELS = (
    LIVE.replace("openai/", "opena/").replace("url:", "ur:").replace("placeholder", "place_holder")
)
DERIVE = '\n  type: local\n  file_path: q.jsonl\n  derive:\n    good: "$5"\n    bad: "{{ sample.x"'
FILTERS = """
  type: local
  file_path: q.csv
  colums: {a: list}
  columns: {a: lst}
  filters:
    - {op: equals, expression: "{{ sample.a", value: 1}
    - {op: equals, expression: "{{ sample.a }}"}"""


@pytest.mark.parametrize(
    ("part", "text", "errors"),
    [
        ("run", RUN + "    - {task_key: mcqa, key: x}\n    - {task_key: mcqa, key: x}\n",
        "E114 run:11:7"),
        ("run", RUN.replace("task_key: mcqa", "task_key: mcq"), "E113 run:9:17"),
        ("task", TASK.replace("{key: questions}", "{key: question}"), "E113 task:7:12"),
        ("run", RUN + "      model_key: gpt\n", "E113 run:10:7"),
        ("run", RUN.replace("  - $ref: dataset.yaml\n",
        "  - $ref: dataset.yaml\n" * 2), "E114 dataset:1:1"),
        ("run", RUN.replace("  - $ref: task.yaml\n", "  - $ref: task.yaml\n" * 2), "E114 task:1:1"),
        *(
            ("dataset", DATASET.replace("type: local", f"type: {kind}"), "E116 dataset:3:16")
            for kind in ("inspect_ai", "langsmith", "phoenix", "claude_code", "opencode")
        ),
        ("dataset",
        from_source("{type: url, url: http://data.example/x.csv}"), "E108 dataset:3:26"),
        ("dataset",
        from_source("{type: url, url: https://a.example/x, sha256: abc}"), "E108 dataset:3:55"),
        ("dataset",
        from_source("{type: local, file_path: x.csv, format: xlsx}"), "E108 dataset:3:49"),
        ("dataset", from_source("{type: huggingface, path: a/b, name: x, load_dataset_kwargs: {name: y}}"), "E108 dataset:3:46"),  # noqa: E501 - one case, one line
        ("dataset", from_source(DERIVE), "E112 dataset:8:10"),
        ("dataset", from_source(FILTERS), "E107 dataset:6:3, E108 dataset:7:16, E112 dataset:9:32, E108 dataset:10:7"),  # noqa: E501 - same
        *(
            ("dataset", from_source("{type: local, file_path: q, filters: [\n "
f"       {{{text}}}]}}"), error)
            for text, error in (
                ("op: eqals, expression: sample.a, value: 1", "E108 dataset:4:14"),
                ("op: in, expression: sample.a", "E108 dataset:4:9"),
                ("op: exists, expression: scores.a", "E112 dataset:4:34"),
                ("op: exists, expression: solver_output.a", "E112 dataset:4:34"),
            )
        ),
        ("dataset", DATASET.replace("file_path", "file_pat"), "E107 dataset:3:23"),
        ("run", WRONG_MODELS + RUN, "E109 run:2:17, E107 run:6:14, E109 run:7:63"),
        ("run", LIVE.replace("adapter: {key: mine}", "adapter: {key: min}") + RUN, "E113 run:4:5"),
        *(
            ("task", declare(f"type: {kind}, key: o, display_name: O, default_value: {name}"), at)
            for kind, name, at in (
                ("dataset", "x", "E113 task:5:61"),
                ("model", "gpt", "E113 task:5:59"),
                ("task_result", "mcq", "E113 task:5:65"),
            )
        ),
        ("run", "", "E108 run:1:1"),
        ("run", "- x\n", "E108 run:1:1"),
        ("run", DATASET, "E108 run:1:1"),
        ("run", "a: [\n", "E102 run:2:1"),
        ("run", "evaluation: 3\n", "E108 run:1:13"),
        ("run", "task: []\n", "E107 run:1:1"),
        ("run", "zzz: 1\n" + RUN + "      num_samples: 0\nrun_config: {seed: x}\nyyy: 2\n", "E107 run:1:1, E108 run:11:20, E108 run:12:20, E107 run:13:1"),  # noqa: E501 - same
        # What a broken value causes later is not told besides its cause.
        *(
            (part, text.format(part=part), error.format(part=part))
            for part in ("dataset", "task")
            for text, error in (("$ref: {part}.yaml", "E105 {part}:1:7"), ("a: [\n", "E102 {part}:2:1"))  # noqa: E501 - one case a line
        ),
        ("task", TASK.replace("choices: ", "choices: !include none.md #"), "E101 task:11:16"),
        ("task", TASK.replace("- type: string_equals_mcqa", "- $ref: none.yaml"), "E101 task:9:13"),
        ("task", TASK.replace("display_name: Questions",
        "display_name: $NOT_SET"), "E106 task:2:15"),
        ("task", TASK.replace("key: mcqa", "key: $NOT_SET"), "E106 task:1:6"),
        ("task", TASK.replace("default_value: answer",
        "default_value: $NOT_SET"), "E106 task:5:85"),
        ("task", TASK.replace("    - type: string", "    - type: $NOT_SET #"), "E106 task:9:13"),
        ("task", TASK.replace("description: M",
        "description: << secrets.X >> #"), "E117 task:3:14"),
        ("dataset", "key: questions\n$ref: none.yaml\ncolour: red\n",
        "E101 dataset:2:7"),
        ("run",
        "secrets: {KEY: $NOT_SET}\n" + MODEL % "api_key: << secrets.KEY >>" + RUN, "E106 run:1:16"),
        ("run", RUN + "      task_config: {answer_column: $NOT_SET}\n", "E106 run:10:36"),
        *(
            ("run", MODEL % text + RUN + "      model_key: m\n", error)
            for text, error in (
                ("api_key: $NOT_SET", "E106 run:2:79"),
                ("api_key: << secrets.NOT_SET >>", "E117 run:2:79"),
                ("custom_headers: {X: << secrets.NOT_SET >>}", "E117 run:2:90"),
                ('custom_headers: {X: "Bearer << secrets.A >>"}', "E117 run:2:90"),
                ("tls_context: << secrets.A >>", "E117 run:2:83"),
            )
        ),
        ("run", "secrets: {A: h}\n" + RUN.replace("name: Trial",
        "name: << secrets.A >>"), "E117 run:8:17"),
        *(
            ("run", text + RUN, error)
            for text, error in (
                ("secrets: 3\n", "E108 run:1:10"),
                ("secrets: [{key: A}]\n", "E108 run:1:11"),
                ("secrets: {A: [x]}\n", "E108 run:1:14"),
                ("secrets: [{key: A, value: b, c: d}]\n", "E108 run:1:11"),
            )
        ),
    ],
)  # fmt: skip
def test_mistakes_are_told_once(project: Write, part: str, text: str, errors: str) -> None:
    """In the order of the files; the consequences of a mistake are not reported."""
    task = TASK + SOLVER if part == "run" else TASK
    project(**{"task_yaml": task, f"{part}_yaml": text})
    assert find_errors() == [fault.replace(":", ".yaml:", 1) for fault in errors.split(", ")]


def test_a_file_that_is_not_there_is_one_error(project: Write) -> None:
    """What it would have defined is not reported as undefined.

    Nor is what an unreadable `.env` would set.
    """
    folder = project(dataset_yaml=DATASET.replace("questions.jsonl", "$FILE"))
    (folder / ".env").write_text("FILE\n", encoding="utf-8")
    assert find_errors() == ["E102 .env:1"]
    (folder / ".env").unlink()
    for part, line in (("dataset", 2), ("task", 4)):
        project()
        (folder / f"{part}.yaml").unlink()
        assert find_errors() == [f"E101 run.yaml:{line}:11"]


EVALUATION = RUN.replace(
    "  task_specifications:\n",
    "  config_spec:\n    - {type: int, key: rows, display_name: R, default_value: 3}\n"
    "    - {type: model, key: who, display_name: W, default_value: builtin/random}\n"
    "  task_specifications:\n",
).replace(
    "    - task_key: mcqa\n",
    "    - task_key: mcqa\n      num_samples: << config.rows >>\n      model_key: << "
    "config.who >>\n"
    "      task_config: {answer_column: right}\n",
)


def test_names_that_are_not_defined_get_the_nearest(project: Write) -> None:
    """An undeclared config name, and a parameter that names nothing, at its place."""
    project(run_yaml=EVALUATION.replace("{answer_column: right}", "{answer_colum: right}"))
    loaded = load_plan("run.yaml", Options(config={"row": "3"}))
    assert list_errors(loaded) == ["E110 --config", "E110 run.yaml:15:35"]
    expected = ["did you mean `rows`?", "did you mean `answer_column`?"]
    assert [error.hint for error in loaded.errors] == expected
    kinds = {"dataset": "other", "model": "judge", "task_result": "before"}
    task = declare(*(f"type: {kind}, key: {key}, display_name: X" for kind, key in kinds.items()))
    run = RUN + "      task_config: {other: question, judge: gpt, before: mcq}\n"
    project(run_yaml=run, task_yaml=task)
    assert {(error.code, error.hint) for error in load_plan("run.yaml").errors} == {
        ("E113", "did you mean `questions`?"),
        ("E113", "name it as `provider/model` or by its URL, or define it in a run file"),
        ("E113", "did you mean `mcqa`?"),
    }


def test_config_values_stand_in_tasks_and_specifications_only(project: Write) -> None:
    """A config value in a dataset, a model or `run_config` is an error: no config is known
    there.
    """
    run = "run_config: {seed: << config.s >>}\nmodels: [{$provider: << config.m >>}]\n" + RUN
    dataset = DATASET.replace("questions.jsonl", "<< config.path >>")
    places = ["E110 dataset.yaml:3:34", "E110 run.yaml:1:20", "E110 run.yaml:2:22"]
    project(run_yaml=run, dataset_yaml=dataset)
    assert find_errors() == places


def test_selections_by_rank(project: Write) -> None:
    """The caller wins over the specification, which wins over `run_config`."""
    config = "run_config: {num_samples: 9, subsampling: random, seed: 4, stratify_by: category}\n"
    project(run_yaml=config + RUN + "      num_samples: 5\n")
    assert only(load_plan("run.yaml")).selection == Selection(5, "random", 4, "category")
    chosen = only(load_plan("run.yaml", Options(num_samples=2, subsampling="head"))).selection
    assert chosen == Selection(2, "head", 4, "category")


def test_live_models_need_not_be_asked(project: Write) -> None:
    """Where completions or another model are given, a model of the file is named and not opened."""
    for key in ("openai$gpt-4-1-nano", "own", "none", "code"):
        project(task_yaml=TASK + SOLVER, run_yaml=LIVE + RUN + f"      model_key: {key}\n")
        job = only(load_plan("run.yaml", Options(completions="x.jsonl")))
        assert (job.model_choice, job.model_key) == (None, key)
        expected = "builtin/random"
        assert only(load_plan("run.yaml", Options(model="builtin/random"))).model_choice == expected


@pytest.mark.parametrize("key", ["builtin/constant?choice=A", "builtin$constant-choice-a"])
def test_built_in_models_have_names_and_keys(project: Write, key: str) -> None:
    """A built-in model is named directly, or by the key of its `$provider` entry."""
    project(task_yaml=TASK + SOLVER, run_yaml=LIVE + RUN + f"      model_key: {key}\n")
    assert only(load_plan("run.yaml")).model_choice == "builtin/constant?choice=A"
    assert provider_key("openai/gpt-4.1-nano") == "openai$gpt-4-1-nano"
    assert provider_key("together/Meta Llama/3_70B") == "together$meta-llama-3_70b"


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
    assert list_errors(load_plan("run.yaml", Options(model=model))) == [f"{code} --model"]


def test_generation_without_effect_says_so(project: Write) -> None:
    """A built-in model does not generate, so that `generation` is said to have no effect on it."""
    text = RUN + "      model_key: builtin/random\n      generation: {temperature: 0}\n"
    project(task_yaml=TASK + SOLVER, run_yaml=text)
    loaded = load_plan("run.yaml")
    assert only(loaded)
    message = ["`generation` has no effect on the model `builtin/random`"]
    assert [notice.message for notice in loaded.notices] == message


@pytest.mark.parametrize(
    ("head", "era", "policy"),
    [
        ("run_config: {cache_policy: update}\n", "", "update"),
        ("", "  cache_policy: no-cache\n", "no-cache"),
    ],
)
def test_both_eras_have_a_cache_policy(project: Write, head: str, era: str, policy: str) -> None:
    """`run_config` states the cache policy; the seed era stated it in the evaluation."""
    project(run_yaml=head + RUN.replace("  key: trial\n", "  key: trial\n" + era))
    assert sound(load_plan("run.yaml")).cache_policy == policy


def test_environment_values_are_filled_in(project: Write, environ: dict[str, str]) -> None:
    """Paths and settings are expanded; rows and choices are not."""
    rows = "{type: inline, rows: [{answer: $NAME}]}"
    inline = f"  - {{key: rows, display_name: $NAME, source: {rows}}}\n"
    run = RUN.replace("tasks:", inline + "tasks:")
    folder = project(run_yaml=run, dataset_yaml=DATASET.replace("questions.jsonl", "$DIR/q.jsonl"))
    environ.update({"DIR": "data", "NAME": "n"})
    source = only(load_plan("run.yaml")).dataset_spec.source
    assert isinstance(source, LocalSource)
    assert source.file_path == str(folder / "data" / "q.jsonl")
    dataset = only(load_plan("run.yaml", Options(dataset="rows"))).dataset_spec
    assert isinstance(dataset.source, InlineSource)
    assert (dataset.display_name, dataset.source.rows) == ("n", ({"answer": "$NAME"},))
    del environ["DIR"]
    assert find_errors() == ["E106 dataset.yaml:3:34"]


def test_the_env_file_beside_the_run_file_is_read(project: Write) -> None:
    """`.env` beside the run file fills environment values; `--env FILE` replaces it."""
    folder = project(dataset_yaml=DATASET.replace("questions.jsonl", "$FILE"))
    (folder / ".env").write_text("FILE=a.jsonl\n")
    (folder / "other.env").write_text("FILE=b.jsonl\n")
    for env, name in ((None, "a.jsonl"), ("other.env", "b.jsonl")):
        job = only(load_plan("run.yaml", Options(env=env)))
        assert str(getattr(job.dataset_spec.source, "file_path", "")).endswith(name)
    assert list_errors(load_plan("run.yaml", Options(env="none.env")))[0] == "E101 none.env"


def test_examples_come_from_a_second_dataset(project: Write) -> None:
    """The dataset of few-shot examples is looked up like any other."""
    second = "  - {key: shots, display_name: S, source: {type: local, file_path: shots.csv}}\n"
    task = TASK + SOLVER + "    examples: {dataset: shots, num_examples: 2}\n"
    project(task_yaml=task, run_yaml=RUN.replace("tasks:", second + "tasks:"))
    examples = only(load_plan("run.yaml")).examples_spec
    assert examples is not None
    assert examples.key == "shots"
    project(task_yaml=task.replace("dataset: shots", "dataset: shot"))
    assert find_errors() == ["E113 task.yaml:15:25"]


def test_a_source_is_built_from_its_fields_again(project: Write) -> None:
    """`source_from` gives back the source that was stored as plain values."""
    filters = """, filters: [
  {op: equals, expression: sample.a, value: null}, {op: in, expression: sample.a, values: [1]}]}"""
    project(dataset_yaml=DATASET.replace("}", filters))
    source = only(load_plan("run.yaml")).dataset_spec.source
    assert source_from(asdict(source)) == source  # type: ignore[call-overload]  # a source is a dataclass


def test_tasks_that_are_not_used_are_checked_too(project: Write) -> None:
    """A mistake in a task that no specification uses is found; its missing config is none."""
    second = TASK.replace("key: mcqa", "key: other").replace("sample.choices", "sample.choices |")
    second = second.replace(", default_value: answer", "")
    run = RUN.replace("tasks:\n", "tasks:\n  - $ref: other.yaml\n")
    project(other_yaml=second, run_yaml=run)
    assert find_errors() == ["E112 other.yaml:11:16"]


def test_a_secret_does_not_show(project: Write) -> None:
    """It prints as stars, cannot be stored, and an error about a value that may be one does not
    repeat it.
    """
    secret = Secret("hush")
    assert (str(secret), repr(secret), f"{secret}") == ("***", "***", "***")
    assert secret.reveal() == "hush"
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    project(run_yaml=MODEL % "custom_headers: sk-12345" + RUN)
    messages = [error.message for error in load_plan("run.yaml").errors]
    assert messages == ["`custom_headers` must be a mapping, not ***"]


def test_secrets_are_found_in_the_run_first(project: Write, environ: dict[str, str]) -> None:
    """`<< secrets.NAME >>` is looked up under `secrets`, as a mapping or a list, then in the
    environment.
    """
    model = MODEL % "api_key: << secrets.A >>, custom_headers: {X: <<secrets.B>>}"
    environ.update({"B": "two", "TOKEN": "three"})
    for secrets in ("secrets: {A: one}\n", "secrets: [{key: A, value: $TOKEN}]\n"):
        project(run_yaml=secrets + model + RUN)
        assert find_errors() == []


OWN = """\
models:
  - key: gpt-judge
    display_name: Own
    generation: {temperature: 0.5}
    config: {connection_type: custom_connection, url: "http://127.0.0.1:9/v1/chat/completions", model_key: m}
"""  # noqa: E501 - the text as it is written


def scorer(model: str, more: str = "") -> str:
    """Return one scorer more, which asks a model."""
    prompt = 'user_prompt: "{{ input_prompt }}"'
    fields = f"type: model_as_a_judge_scorer, key: quality, model_key: {model}, {prompt}"
    return f"    - {{{fields}{more}}}\n"


def load_judged(project: Write, model: str, head: str = OWN, task: str = TASK) -> Plan:
    """Return what a run file says whose task has a scorer that asks a model."""
    project(task_yaml=task + scorer(model), run_yaml=head + RUN)
    return load_plan("run.yaml")


REFEREE = "  - {type: model, key: referee, display_name: Referee, default_value: gpt-judge}\n"
REFEREE += "definition:\n"


@pytest.mark.parametrize(
    ("model", "task", "name", "temperature"),
    [
        ("gpt-judge", TASK, "gpt-judge", 0.5),
        ("openai/gpt-4.1-nano", TASK, "openai/gpt-4.1-nano", None),
        ('"http://127.0.0.1:8000/v1#m"', TASK, "http://127.0.0.1:8000/v1#m", None),
        ('"<< config.referee >>"', TASK.replace("definition:\n", REFEREE), "gpt-judge", 0.5),
    ],
)
def test_a_judge_is_a_model_of_the_run_file_or_named(
    project: Write, model: str, task: str, name: str, temperature: float | None
) -> None:
    """It generates as its own definition says; a `model` parameter may name it."""
    judge = only(load_judged(project, model, task=task)).judge_choices["quality"]
    assert isinstance(judge, ModelConfig)
    assert (judge.name, judge.generation.temperature) == (name, temperature)


JUDGE = "models:\n  - {key: gpt-judge, display_name: Own, config: {connection_type: %s}}\n"


@pytest.mark.parametrize(
    ("model", "head", "task", "errors"),
    [
        ("gpt-juge", OWN, TASK, ["E113 task.yaml:12:64"]),
        ("gpt-juge", OWN, TASK + "    - {type: bleu}\n",
         ["E116 task.yaml:12:14", "E113 task.yaml:13:64"]),
        ("gpt-judge", JUDGE % "magic", TASK, ["E109 run.yaml:2:67"]),
        ("gpt-judge", JUDGE % "placeholder", TASK, ["E301 run.yaml:2:67"]),
    ],
)  # fmt: skip
def test_a_judge_that_cannot_be_asked_is_told_where_it_stands(
    project: Write, model: str, head: str, task: str, errors: list[str]
) -> None:
    """Before anything is asked; a scorer that cannot be built does not move the places after it."""
    assert list_errors(load_judged(project, model, head, task)) == errors


def test_snippet_of_a_judge_is_among_the_snippets(project: Write) -> None:
    """Code that would run is listed, so that it is only run when it is trusted."""
    head = JUDGE % "custom_inference, snippet: \"def infer(messages): return '1'\""
    (snippet,) = only(load_judged(project, "gpt-judge", head)).snippets
    assert snippet.function == "infer"


def test_no_key_goes_to_a_strange_host(project: Write, environ: dict[str, str]) -> None:
    """A host that a task file names for a judge is refused the caller's key."""
    project(task_yaml=TASK + scorer('"https://elsewhere.example/v1#m"'), run_yaml=RUN)
    environ["ANSWERKEY_API_KEY"] = "sk-canary-0123456789"
    assert find_errors() == ["E117 task.yaml:12:64"]
    allowed = Options(allow_hosts=("elsewhere.example",))
    assert load_plan("run.yaml", allowed).errors == []


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (", score_min: 1, score_max: 1", "E108"),
        (", scale: 1", "E107"),
        (", system_prompt: '{{ x }}'", "E112"),
    ],
)
def test_fields_of_a_judge_are_checked(project: Write, more: str, code: str) -> None:
    """An empty scale, an unknown field and a name that prompts do not have are mistakes."""
    project(task_yaml=TASK + scorer("gpt-judge", more), run_yaml=OWN + RUN)
    assert [error.code for error in load_plan("run.yaml").errors] == [code]


def judged(project: Write, model: str) -> Task:
    """Return a task whose scorer asks a model."""
    project(task_yaml=TASK + scorer(model), run_yaml=OWN + RUN)
    return load_task("task.yaml")


def test_judges_are_found_again_in_a_run_file(project: Write) -> None:
    """What else is wrong with it does not matter.

    One that is defined badly by now is not left out.
    """
    task = judged(project, "gpt-judge")
    project(run_yaml=OWN + RUN + "typo: 1\n")
    (judge,) = load_judges(task, run_file="run.yaml", options=Options()).values()
    assert isinstance(judge, ModelConfig)
    assert judge.name == "gpt-judge"
    project(run_yaml=OWN.replace("custom_connection", "magic") + RUN)
    with pytest.raises(AnswerkeyError, match="unknown connection type 'magic'"):
        load_judges(task, run_file="run.yaml", options=Options())


def test_key_of_a_judge_needs_a_run_file(project: Write) -> None:
    """A task by itself can only name models by provider or URL."""
    with pytest.raises(SpecError, match="model `gpt-judge` is not defined") as caught:
        load_judges(judged(project, "gpt-judge"), run_file=None, options=Options())
    assert (caught.value.code, str(caught.value.where)) == ("E113", "task.yaml:12:64")
    assert caught.value.hint == (
        "name it as `provider/model` or by its URL, or define it in a run file; "
        "write `openai/gpt-judge` for the model of that provider"
    )
    judges = load_judges(judged(project, "openai/gpt-4.1"), run_file=None, options=Options())
    assert list(judges) == ["quality"]
