"""Laws of the models that scorers ask."""

from __future__ import annotations

import pytest

from answerkey.errors import AnswerkeyError, SpecError
from answerkey.models import ModelConfig
from answerkey.spec import Loaded, Overrides, Plan, Task, load_judges, load_plan, load_task

from .conftest import RUN, TASK, Write

OWN = """\
models:
  - key: gpt-judge
    display_name: Own
    generation: {temperature: 0.5}
    config: {connection_type: custom_connection, url: "http://127.0.0.1:9/v1/chat/completions", model_key: m}
"""
SNIPPET = """\
models:
  - key: gpt-judge
    display_name: Own
    config: {connection_type: custom_inference, snippet: "def infer(messages): return '1'"}
"""


def scorer(model: str, more: str = "") -> str:
    """Return one scorer more, which asks a model."""
    prompt = 'user_prompt: "{{ input_prompt }}"'
    return f"    - {{type: model_as_a_judge_scorer, key: quality, model_key: {model}, {prompt}{more}}}\n"


def load(project: Write, model: str, head: str = OWN, task: str = TASK) -> Loaded[Plan]:
    """Return what a run file says whose task has a scorer that asks a model."""
    project(task_yaml=task + scorer(model), run_yaml=head + RUN)
    return load_plan("run.yaml", Overrides(environment={"OPENAI_API_KEY": "sk-canary-0123456789"}))


def judge_of(loaded: Loaded[Plan]) -> str | ModelConfig:
    """Return the model that the scorer asks."""
    assert loaded.errors == []
    assert loaded.value is not None
    (only,) = loaded.value.specifications
    assert list(only.judges) == ["quality"]
    return only.judges["quality"]


def refusal_of(loaded: Loaded[Plan]) -> tuple[str, str, str | None]:
    """Return code, place and hint of the only error."""
    (error,) = loaded.errors
    return error.code, str(error.where), error.hint


def test_judge_is_a_model_of_the_run_file(project: Write) -> None:
    """It generates as its own definition says, not as the task specification does."""
    judge = judge_of(load(project, "gpt-judge"))
    assert isinstance(judge, ModelConfig)
    assert (judge.name, judge.generation.temperature) == ("gpt-judge", 0.5)


@pytest.mark.parametrize("name", ["openai/gpt-4.1-nano", '"http://127.0.0.1:8000/v1#m"'])
def test_judge_may_be_named(project: Write, name: str) -> None:
    """A provider's model and an endpoint's need no definition."""
    judge = judge_of(load(project, name))
    assert isinstance(judge, ModelConfig)
    assert judge.name == name.strip('"')


def test_unknown_judge_is_said_where_it_stands(project: Write) -> None:
    """The nearest model is suggested."""
    loaded = load(project, "gpt-juge")
    assert refusal_of(loaded) == ("E113", "task.yaml:12:64", "did you mean `gpt-judge`?")
    assert loaded.errors[0].message == "model `gpt-juge` is not defined"


def test_place_is_right_beside_broken_scorers(project: Write) -> None:
    """A scorer that cannot be built does not move the places of those after it."""
    loaded = load(project, "gpt-juge", task=TASK + "    - {type: bleu}\n")
    assert [(error.code, str(error.where)) for error in loaded.errors] == [
        ("E116", "task.yaml:12:14"),
        ("E113", "task.yaml:13:64"),
    ]


def test_broken_judge_is_reported_once(project: Write) -> None:
    """What is wrong with a model is said where it is defined; that it cannot be asked follows."""
    head = "models:\n  - {key: gpt-judge, display_name: Own, config: {connection_type: magic}}\n"
    assert [error.code for error in load(project, "gpt-judge", head).errors] == ["E109"]


def test_placeholder_cannot_judge(project: Write) -> None:
    """A model that is only named is refused before anything is asked, also with recorded completions."""
    head = "models:\n  - {key: gpt-judge, display_name: Own, config: {connection_type: placeholder}}\n"
    project(task_yaml=TASK + scorer("gpt-judge"), run_yaml=head + RUN)
    loaded = load_plan("run.yaml", Overrides(completions="replies.jsonl"))
    assert refusal_of(loaded)[0] == "E301"


def test_judge_may_be_a_parameter(project: Write) -> None:
    """A `model` parameter of the task names its judge."""
    parameter = "  - {type: model, key: referee, display_name: Referee, default_value: gpt-judge}\n"
    task = TASK.replace("definition:\n", f"{parameter}definition:\n")
    judge = judge_of(load(project, '"<< config.referee >>"', task=task))
    assert isinstance(judge, ModelConfig)
    assert judge.name == "gpt-judge"


def test_snippet_of_a_judge_is_among_the_snippets(project: Write) -> None:
    """Code that would run is listed, so that it is only run when it is trusted."""
    loaded = load(project, "gpt-judge", SNIPPET)
    assert loaded.value is not None
    assert [one.function for one in loaded.value.specifications[0].snippets] == ["infer"]


def test_key_does_not_follow_a_file_to_a_strange_host(project: Write) -> None:
    """A host that a task file names for a judge is refused the caller's key."""
    project(task_yaml=TASK + scorer('"https://elsewhere.example/v1#m"'), run_yaml=RUN)
    environment = {"ANSWERKEY_API_KEY": "sk-canary-0123456789"}
    loaded = load_plan("run.yaml", Overrides(environment=environment))
    assert refusal_of(loaded)[:2] == ("E117", "task.yaml:12:64")
    allowed = Overrides(environment=environment, allow_hosts=("elsewhere.example",))
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


def task_of(project: Write, model: str) -> Task:
    """Return a task whose scorer asks a model."""
    project(task_yaml=TASK + scorer(model), run_yaml=OWN + RUN)
    loaded = load_task("task.yaml")
    assert loaded.value is not None
    return loaded.value


def test_judges_are_found_again_in_a_run_file(project: Write) -> None:
    """What else is wrong with the run file does not matter."""
    task = task_of(project, "gpt-judge")
    project(run_yaml=OWN + RUN + "typo: 1\n")
    (judge,) = load_judges(task, run_file="run.yaml", overrides=Overrides()).values()
    assert isinstance(judge, ModelConfig)
    assert judge.name == "gpt-judge"


def test_key_of_a_judge_needs_a_run_file(project: Write) -> None:
    """A task by itself can only name models by provider or URL."""
    with pytest.raises(SpecError, match="a task by itself has no models") as caught:
        load_judges(task_of(project, "gpt-judge"), run_file=None, overrides=Overrides())
    assert (caught.value.code, str(caught.value.where)) == ("E113", "task.yaml:12:64")
    named = load_judges(task_of(project, "openai/gpt-4.1"), run_file=None, overrides=Overrides())
    assert list(named) == ["quality"]


def test_judge_that_is_broken_now_is_an_error(project: Write) -> None:
    """A judge that the run file defines badly by now is not silently left out."""
    task = task_of(project, "gpt-judge")
    project(run_yaml=OWN.replace("custom_connection", "magic") + RUN)
    with pytest.raises(AnswerkeyError, match="unknown connection type 'magic'"):
        load_judges(task, run_file="run.yaml", overrides=Overrides())
