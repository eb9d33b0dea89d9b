from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


def test_init_makes_a_project_that_runs(call: Call) -> None:
    """The files are listed on stdout; the project runs at once."""
    made = call("init", "mine")
    assert made.code == 0
    assert "mine/run.yaml" in made.out.splitlines()
    assert made.err == "next: answerkey run mine\n"
    assert call("run", "mine", "-q").code == 0


def test_init_overwrites_nothing(call: Call) -> None:
    """If one of its files is there, none is written."""
    Path("task.yaml").write_text("mine", encoding="utf-8")
    refused = call("init")
    assert refused.code == 2
    assert "error[E119]: `task.yaml` is there already; nothing was written" in refused.err
    assert [path.name for path in Path().iterdir()] == ["task.yaml"]


def test_init_as_json(call: Call) -> None:
    """The folder and the files."""
    told = call("init", "mine", "--json").json
    assert told["folder"] == "mine"
    assert "mine/questions.jsonl" in told["files"]


@pytest.mark.parametrize("kind", ["task", "run", "dataset", "model"])
def test_schema_prints_json_schema(call: Call, kind: str) -> None:
    """Each kind has a schema."""
    assert json.loads(call("schema", kind).out)["$schema"].startswith("https://json-schema.org/")


def test_an_unknown_kind_is_refused(call: Call) -> None:
    """E119 lists the kinds."""
    assert "'task', 'run', 'dataset', 'model'" in call("schema", "tsk").err


def test_demo_runs_twice(call: Call) -> None:
    """The first time it makes the project, then it uses it; each run has its own folder."""
    first, second = call("demo"), call("demo")
    assert (first.code, second.code) == (0, 0)
    assert "run answerkey-demo/runs/demo-1\n" in first.out
    assert "run answerkey-demo/runs/demo-2\n" in second.out
    assert "SIMULATED" in first.out
    assert second.err.startswith("using the project in answerkey-demo\nNext\n")
