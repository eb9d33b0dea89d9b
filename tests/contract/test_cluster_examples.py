"""The examples for Slurm and Kubernetes stop on SIGTERM, continue their run, and repeat no call.

Neither Slurm nor Kubernetes is here: stand-ins for `srun` and `scontrol` do what a script asks for
on this machine and note what they are told, and the commands of a manifest are run in a folder. The
long series starts Ray, in `tests/unit/engines/test_ray_storage.py` for the RayJob; else there is a
stand-in for `ray` as well, and answerkey works without it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import click
import pytest
from ruamel.yaml import YAML

from answerkey.cli import app
from answerkey.testing import Behaviour, TestServer

from .scripts import ROOT, Call, read

EXAMPLES = ROOT / "examples"
IS_LONG = bool(os.environ.get("ANSWERKEY_LONG"))
ANSWERKEY = f'#!/bin/sh\nexec "{sys.executable}" -m answerkey "$@"\n'
#: The head listens, a worker waits; the token is there.
RAY = f"""#!{sys.executable}
import os, signal, socket, sys
assert (sys.argv[1], os.environ["RAY_AUTH_MODE"], len(os.environ["RAY_AUTH_TOKEN"])) == ("start", "token", 64)
options = dict(word.partition("=")[::2] for word in sys.argv[2:])
if "--head" in options:
    listener = socket.create_server((options["--node-ip-address"], int(options["--port"])))
signal.pause()
"""  # noqa: E501 - the text as it is written
#: Says for which engine it was called, and works on this machine.
HERE = f"""#!/bin/bash
words=("$@"); last=$((${{#words[@]}} - 4))
echo "${{words[0]}} ${{words[@]:$last}}" >> answerkey.log
exec "{sys.executable}" -m answerkey "${{words[@]:0:$last}}"
"""
#: Ray itself, on loopback alone.
REAL_RAY = f"""#!{sys.executable}
from ray._private import services
services.get_node_ip_address = services.resolve_ip_for_localhost = lambda *_: "127.0.0.1"
from ray.scripts.scripts import main
main()
"""


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
    with Model() as model:
        yield model


@pytest.fixture
def folder(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a project, and put the commands that the examples call on the path."""
    monkeypatch.chdir(tmp_path)
    assert call("init", "my-project").code == 0
    shutil.copytree(Path(__file__).with_name("cluster"), ".", dirs_exist_ok=True)
    put({"answerkey": ANSWERKEY})
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    return tmp_path


def put(commands: dict[str, str]) -> None:
    """Write commands to the folder `bin`."""
    for name, text in commands.items():
        path = Path("bin", name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)


def interrupt(words: list[str], run: Path, server: Model, number: int = signal.SIGTERM) -> None:
    """Start a command and send a signal when the model is called: it ends its run incomplete."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        assert server.called.wait(300)
        process.send_signal(number)
        assert process.wait(timeout=300) == 128 + signal.SIGTERM
    assert read_status(run) == "incomplete"


def go_on(words: list[str], run: Path, server: Model) -> None:
    """Start a command again: it completes its run, and no call has been made twice."""
    server.change(delay=0.0)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    assert read_status(run) == "complete"
    assert set(server.asked.by_prompt.values()) == {1}


def read_lines(path: str) -> list[str]:
    """Return the lines of a file in this folder."""
    return Path(path).read_text(encoding="utf-8").splitlines()


@pytest.fixture
def ray_job(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the command of a job of three nodes, as Slurm starts it.

    What it leaves is ended, as there.
    """
    sockets = Path("/tmp") / f"ak-j-{os.getpid()}"  # noqa: S108 - sockets need a short path
    settings = {
        "SLURM_JOB_ID": "8",
        "SLURM_JOB_NODELIST": "node[1-3]",
        "SLURM_JOB_NUM_NODES": "3",
        "SLURM_CPUS_PER_TASK": "1",
        "RAY_TMPDIR": str(sockets),
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    put({"ray": REAL_RAY} if IS_LONG else {"ray": RAY, "answerkey": HERE})
    # A free port: that of the script may be another test's, or its own of a minute ago.
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text = read("examples/slurm/ray.sbatch")
    chosen = "port=$((20000 + SLURM_JOB_ID % 10000))"
    assert chosen in text
    (folder / "ray.sbatch").write_text(text.replace(chosen, f"port={port}"), encoding="utf-8")
    yield ["bash", str(folder / "ray.sbatch")]
    mark = f"RAY_TMPDIR={sockets}\0".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in path.read_bytes() and int(path.parent.name) != os.getpid():
                os.kill(int(path.parent.name), signal.SIGKILL)
    shutil.rmtree(sockets, ignore_errors=True)


def test_a_slurm_job_with_ray_continues(ray_job: list[str], folder: Path, server: Model) -> None:
    """Ray runs on all nodes.

    SIGUSR1 stops the run too, and the next job continues it on a Ray of its own.
    """
    script = [*ray_job, "run", "my-project", "--model", f"{server.url}#some-model"]
    run = folder / "runs" / "slurm-8"
    interrupt(script, run, server, signal.SIGUSR1)
    assert read_lines("scontrol.log") == ["requeue 8"]
    go_on(script, run, server)
    assert read_lines("scontrol.log") == ["requeue 8"]
    lines = [line.split(" ray start ") for line in read_lines("srun.log")]
    starts = [
        "--nodes=1 --ntasks=1 --nodelist=node1 --overlap",
        "--nodes=2 --ntasks=2 --exclude=node1 --no-kill --kill-on-bad-exit=0",
    ]
    assert [words for words, *ray in lines if ray] == starts * 2
    if not IS_LONG:
        called = [line.split(" 127.0.0.1:")[0] for line in read_lines("answerkey.log")]
        assert called == ["run --engine ray --ray-address", "resume --engine ray --ray-address"]


def test_a_slurm_job_whose_ray_does_not_start_ends(ray_job: list[str]) -> None:
    """It does not wait for it until its time is over."""
    put({"ray": "#!/bin/sh\nexit 3\n"})
    command = [*ray_job, "run", "my-project"]
    done = subprocess.run(command, stderr=subprocess.DEVNULL, check=False, timeout=300)
    assert done.returncode == 1
    assert not Path("runs").exists()


def read_status(folder: Path) -> str:
    """Return the status of a run."""
    return str(json.loads((folder / "run.json").read_text(encoding="utf-8"))["status"])


def test_a_slurm_job_goes_on(folder: Path, server: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal before the time limit stops the run, queues the job again, and no call is made
    twice.
    """
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    run = folder / "runs" / "slurm-7"
    script = ["bash", str(EXAMPLES / "slurm" / "eval.sbatch"), "my-project"]
    script += ["--model", f"{server.url}#some-model"]
    interrupt(script, run, server)
    assert read_lines("scontrol.log") == ["requeue 7"]
    go_on(script, run, server)
    assert read_lines("scontrol.log") == ["requeue 7"]


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
    run = folder / "runs" / "eval"
    interrupt(words, run, server)
    go_on(words, run, server)


def test_the_commands_of_the_ray_job_are_ones_that_answerkey_reads() -> None:
    """All of them parse, on its cluster and its storage, and the Ray version is that of the
    extra.
    """
    spec = read_manifest("rayjob")["spec"]
    shell, option, script = shlex.split(spec["entrypoint"])
    assert (shell, option) == ("sh", "-c")
    # The submitter of KubeRay and Ray's shell each read it once more.
    assert not re.search(r'["$\\\n]', script)
    names = []
    for command in re.findall("answerkey ([^;>]+)", script):
        name, *words = shlex.split(command)
        above = click.Context(app, **app.context_settings)
        result = app.get_command(above, name)
        assert result is not None
        context = result.make_context(name, words, parent=above, resilient_parsing=False)
        assert context.params.get("engine", "ray") == "ray"
        assert " s3://evals/runs/ray-1" in command
        names.append(name)
    assert names == ["show", "resume", "score"]
    extras = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
    assert f"ray=={spec['rayClusterSpec']['rayVersion']}" in extras["ray"]
    workers = spec["rayClusterSpec"]["workerGroupSpecs"][0]
    assert spec["rayClusterSpec"]["enableInTreeAutoscaling"]
    assert workers["minReplicas"] < workers["maxReplicas"]


def read_manifest(name: str) -> Any:  # noqa: ANN401  # a manifest is plain YAML
    """Return a manifest of the examples."""
    return YAML(typ="safe").load(read(f"examples/kubernetes/{name}.yaml"))
