from __future__ import annotations

import pickle

import pytest

from answerkey.models import Secret
from answerkey.spec import Overrides, load_plan

from .conftest import RUN, Write

MODEL = """\
models:
  - key: live
    display_name: Live
    config:
      url: https://example.org/v1
      api_key: {key}
      custom_headers: {{X-Key: {header}}}
"""


def test_a_secret_does_not_show() -> None:
    """A secret prints as stars, and cannot be stored."""
    secret = Secret("hush")
    assert (str(secret), repr(secret), f"{secret}") == ("***", "***", "***")
    assert secret.reveal() == "hush"
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_secrets_are_found_in_the_run_then_the_environment(project: Write) -> None:
    """`<< secrets.NAME >>` is looked up under `secrets`, as a mapping or a list, then in the environment."""
    models = MODEL.format(key="<< secrets.A >>", header="<<secrets.B>>")
    for secrets in ("secrets: {A: one}\n", "secrets: [{key: A, value: $TOKEN}]\n"):
        project(run_yaml=secrets + models + RUN)
        loaded = load_plan("run.yaml", Overrides(environment={"B": "two", "TOKEN": "three"}))
        assert loaded.errors == []


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("Bearer << secrets.A >>", "a secret must be the whole value, not a part of it"),
        ("<< secrets.AB >>", "secret `AB` is not found"),
    ],
)
def test_a_secret_is_whole_and_there(project: Write, key: str, message: str) -> None:
    """A part of a text, or a name that is nowhere, is an error."""
    project(run_yaml="secrets: {A: hush}\n" + MODEL.format(key=key, header="x") + RUN)
    loaded = load_plan("run.yaml", Overrides(environment={}))
    assert [(error.code, error.message) for error in loaded.errors] == [("E117", message)]
    assert "hush" not in str(loaded.errors)


def test_secrets_stand_in_few_places(project: Write) -> None:
    """A secret in a prompt, a description or a path is an error."""
    project(
        run_yaml="secrets: {A: hush}\n" + RUN.replace("display_name: Trial", "display_name: << secrets.A >>")
    )
    loaded = load_plan("run.yaml", Overrides(environment={}))
    assert [(error.code, str(error.where)) for error in loaded.errors] == [("E117", "run.yaml:8:17")]


@pytest.mark.parametrize(
    "text",
    ["secrets: 3\n", "secrets: [{key: A}]\n", "secrets: {A: [x]}\n", "secrets: [{key: A, value: b, c: d}]\n"],
)
def test_malformed_secrets_are_errors_that_do_not_show_them(project: Write, text: str) -> None:
    """Secrets of another form are refused."""
    project(run_yaml=text + RUN)
    assert [error.code[:3] for error in load_plan("run.yaml").errors] == ["E10"]


def test_a_malformed_key_is_not_shown(project: Write) -> None:
    """An error about a value that may be secret does not repeat it."""
    models = MODEL.format(key="x", header="y").replace("{X-Key: y}", "sk-12345")
    project(run_yaml=models + RUN)
    loaded = load_plan("run.yaml")
    assert [error.message for error in loaded.errors] == ["`custom_headers` must be a mapping, not ***"]
