"""The examples for Slurm and Kubernetes stop on SIGTERM, continue their run, and repeat no call.

Neither Slurm nor Kubernetes is here: a stand-in for `scontrol` notes what it is told, and the commands of a
manifest are run in a folder of this machine.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import click
import pytest
from ruamel.yaml import YAML

from answerkey.cli import app
from answerkey.testing import Behaviour, TestServer

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SCONTROL = '#!/bin/sh\necho "$@" >> scontrol.log\n'


class Model(TestServer):
    """A slow model that says when it has been called."""

    def __init__(self) -> None:
        self.called = Event()
        super().__init__(self._answer, Behaviour(delay=0.3))

    def _answer(self, messages: Any) -> str:  # noqa: ANN401  # whatever was sent
        self.called.set()
        return "A" if "Answer" in str(messages) else "B"


@pytest.fixture
def server() -> Iterator[Model]:
    """Serve a model that is slow enough to be interrupted."""
    with Model() as one:
        yield one


@pytest.fixture
def folder(tmp_path: Path, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a project, and put the commands that the examples call on the path."""
    monkeypatch.chdir(tmp_path)
    assert call("init", "my-project").code == 0
    for name, text in {
        "answerkey": f'#!/bin/sh\nexec "{sys.executable}" -m answerkey "$@"\n',
        "scontrol": SCONTROL,
    }.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    return tmp_path


def interrupt(words: list[str], server: Model) -> int:
    """Start a command, send SIGTERM when the model is called, and return its exit code."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        assert server.called.wait(60)
        process.send_signal(signal.SIGTERM)
        return process.wait(timeout=60)


def read_status(folder: Path) -> str:
    """Return the status of a run."""
    return str(json.loads((folder / "run.json").read_text(encoding="utf-8"))["status"])


def test_the_slurm_job_is_queued_again_and_continues(
    folder: Path, server: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal before the time limit stops the run, queues the job again, and no call is made twice."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    script = [
        "bash",
        str(EXAMPLES / "slurm" / "eval.sbatch"),
        "my-project",
        "--model",
        f"{server.url}#some-model",
    ]
    assert interrupt(script, server) == 128 + signal.SIGTERM
    assert Path("scontrol.log").read_text(encoding="utf-8") == "requeue 7\n"
    assert read_status(folder / "runs" / "slurm-7") == "incomplete"
    server.change(delay=0.0)
    subprocess.run(script, check=True, stdout=subprocess.DEVNULL)
    assert Path("scontrol.log").read_text(encoding="utf-8") == "requeue 7\n"
    assert read_status(folder / "runs" / "slurm-7") == "complete"
    assert set(server.asked.by_prompt.values()) == {1}


def test_the_pod_of_the_job_continues_when_it_is_started_again(
    folder: Path, server: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command of the manifest resumes the run that it finds on its volume."""
    manifest = read_manifest("job")
    pod = manifest["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert (manifest["kind"], pod["restartPolicy"]) == ("Job", "OnFailure")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    words = [*container["command"], *container["args"]]
    assert interrupt(words, server) == 128 + signal.SIGTERM
    assert read_status(folder / "runs" / "eval") == "incomplete"
    server.change(delay=0.0)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    assert read_status(folder / "runs" / "eval") == "complete"
    assert set(server.asked.by_prompt.values()) == {1}


def test_the_command_of_the_ray_job_is_one_that_answerkey_reads() -> None:
    """The entrypoint parses, and the Ray version is that of the extra."""
    spec = read_manifest("rayjob")["spec"]
    program, name, *words = shlex.split(spec["entrypoint"])
    above = click.Context(app, **app.context_settings)
    command = app.get_command(above, name)
    assert command is not None
    context = command.make_context(name, words, parent=above, resilient_parsing=False)
    assert (program, context.params["engine"]) == ("answerkey", "ray")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert f"ray=={spec['rayClusterSpec']['rayVersion']}" in extras["ray"]


def read_manifest(name: str) -> Any:  # noqa: ANN401  # a manifest is plain YAML
    """Return a manifest of the examples."""
    return YAML(typ="safe").load((EXAMPLES / "kubernetes" / f"{name}.yaml").read_text(encoding="utf-8"))
