"""Live models asked from two nodes of a Ray cluster, both on this machine.

The last test ends one of the nodes. The short series has the laws of actors without Ray, in
`tests/unit/models/test_actors.py`, and one on Ray, in `tests/unit/engines/test_ray_engine.py`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from answerkey.testing import Behaviour, TestServer, answer_by_hash

if importlib.util.find_spec("ray") is None:
    pytest.skip("asking from a cluster needs `answerkey[ray]`", allow_module_level=True)

NODES = Path(__file__).parents[2] / "scripts" / "ray_nodes.py"
KEY = "sk-canary-0123456789abcdef"
LONG = pytest.mark.skipif(
    not os.environ.get("ANSWERKEY_LONG"), reason="two nodes are started in the long series"
)
SAMPLES = 200
MANY = 20_000
#: Requests a minute, of both branches together, and how many may then come within ten seconds: who begins,
#: or begins again, has one second's share at once.
RATE = 24_000
RATE_OF_TEN_SECONDS = (RATE // 60) * 13
FAULTS = {"500": 0.05, "503": 0.03, "429_seconds": 0.04, "reset": 0.04, "bad_json": 0.04}
#: As many as two branches have together.
PLACES = 64
LONG_WAIT = 600.0
TASK: dict[str, Any] = {
    "key": "quiz",
    "display_name": "Quiz",
    "description": "Many questions.",
    "definition": {
        "solver": {
            "type": "single_turn_solver",
            "input_builder": {
                "type": "chat_completion",
                "input_messages": [{"role": "user", "content": "{{ sample.question }}"}],
            },
        },
        "scorers": [
            {
                "type": "string_equals_mcqa",
                "ground_truth_choice": "{{ sample.answer }}",
                "choices": ["A", "B", "C", "D"],
            }
        ],
    },
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, Any]]:
    """Return a cluster of two nodes: its address, its token, its processes, its folder."""
    folder = Path("/tmp") / f"ak-{os.getpid()}"  # noqa: S108 - sockets need a short path
    environment = {**os.environ, "RAY_TMPDIR": str(folder)}
    command = [sys.executable, str(NODES), "2", "1"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    folder.mkdir(mode=0o700)
    with subprocess.Popen(command, env=environment, **pipes) as process:  # type: ignore[call-overload]  # Popen's overloads
        try:
            yield {**json.loads(process.stdout.readline()), "folder": folder}
        finally:
            process.stdin.close()
            process.wait(LONG_WAIT)
    subprocess.run(["rm", "-rf", str(folder)], check=False)  # noqa: S607 - what nodes leave, sockets included


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a task file and its rows; the cache is a folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "task.yaml").write_text(json.dumps(TASK))
    write_rows(tmp_path, SAMPLES)
    return tmp_path


def write_rows(project: Path, count: int) -> None:
    """Write so many questions."""
    rows = [{"question": f"question {n}", "answer": "ABCD"[n % 4]} for n in range(count)]
    (project / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(project: Path, model: str, out: str, *words: str, **environment: str) -> tuple[int, str]:
    """Carry out a run; return its exit code and what it said."""
    files = [str(project / "task.yaml"), "--dataset", str(project / "rows.jsonl")]
    command = ["run", *files, "--model", model, "--out", str(project / out), "--cache-policy", "no-cache"]
    return end(start(*command, *words, **environment))


def start(*words: str, **environment: str) -> subprocess.Popen[str]:
    """Start a command."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    command = [sys.executable, "-m", "answerkey", *words]
    return subprocess.Popen(command, env={**os.environ, **environment}, **pipes)  # type: ignore[call-overload,no-any-return]  # Popen's overloads


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a command; return its exit code and what it said."""
    try:
        said, _ = process.communicate(timeout=LONG_WAIT)
    finally:
        process.kill()
    return process.returncode, said


def far(cluster: Mapping[str, Any], **environment: str) -> tuple[list[str], dict[str, str]]:
    """Return options and environment of a command that works on the cluster."""
    secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": str(cluster["token"])}
    return ["--engine", "ray", "--ray-address", str(cluster["address"])], secret | environment


def read_tables(folder: Path, *left_out: str) -> dict[str, object]:
    """Return scores and metrics as bytes, completions without their times and these columns."""
    found: dict[str, object] = {}
    for path in sorted(one for one in (folder / "tasks").rglob("*") if one.is_file()):
        name = path.relative_to(folder).as_posix()
        is_said = "/completions/" in name
        found[name] = (
            pl.read_parquet(path).drop("latency", *left_out).to_dicts() if is_said else path.read_bytes()
        )
    return found


def list_actors(raylets: Sequence[int]) -> list[int]:
    """Return the processes of our actors on these nodes."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            title = (folder / "cmdline").read_bytes()
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent in raylets and title.startswith(b"ray::ActorObject"):
            found.append(int(folder.name))
    return sorted(found)


class Killer:
    """Answers by hash; at the question with a number, somebody is killed."""

    def __init__(self) -> None:
        self._answer = answer_by_hash(["A", "B", "C", "D", "Answer: A"])
        self._moments: dict[int, Callable[[], Sequence[int]]] = {}
        self._count = 0
        self.killed: list[Sequence[int]] = []

    def aim(self, at: int, find: Callable[[], Sequence[int]]) -> None:
        """Kill these processes at a question, counted from the first one of all."""
        self._moments[at] = find

    def __call__(self, messages: Sequence[Mapping[str, object]]) -> str:
        """Return the answer to a question."""
        self._count += 1
        if self._count in self._moments:
            self.killed.append(self._moments.pop(self._count)())
            for one in self.killed[-1]:
                os.kill(one, signal.SIGKILL)
        return self._answer(messages)


def test_the_key_is_nowhere_but_in_its_header(project: Path, cluster: dict[str, Any]) -> None:
    """Each node asks the endpoint at its own address; no log of Ray, no file of the run has the key.

    Also when calls fail, and when the key is refused in the end.
    """
    words, environment = far(cluster, ANSWERKEY_API_KEY=KEY, TMPDIR=str(project))
    faults = {"500": 0.2, "reset": 0.1, "bad_json": 0.1}
    with TestServer("A", Behaviour(faults=faults, canary=KEY, api_key=KEY)) as server:
        server.change(answers=Revoker(server, SAMPLES // 2))
        url = f"http://{{node_ip}}:{server.port}/v1#m"
        code, said = run(project, url, "out", *words, **environment)
        assert (code, "E304" in said) == (3, True), said
        assert set(server.asked.canary_places) == {"header authorization"}
        assert server.asked.total < SAMPLES
    files = [*project.rglob("*"), *cluster["folder"].rglob("*")]
    contents = [one.read_bytes() for one in files if one.is_file()]
    assert len(contents) > 20
    assert not any(KEY.encode() in content for content in contents)
    assert KEY not in said


class Revoker:
    """Answers A; from the question with a number on, the key is not good any more."""

    def __init__(self, server: TestServer, at: int) -> None:
        self._server = server
        self._left = at

    def __call__(self, messages: Sequence[Mapping[str, object]]) -> str:
        """Return the answer."""
        del messages
        self._left -= 1
        if self._left == 0:
            self._server.change(api_key="sk-another-0123456789")
        return "A"


@LONG
def test_a_fallback_reads_the_same_on_a_cluster(project: Path, cluster: dict[str, Any]) -> None:
    """Scores and numbers are those of a run on one machine; each completion is asked about once."""
    read = answer_by_hash(["A", "B", "NONE"])
    say = answer_by_hash(["A", "B", "It depends on number ", "Either A or B "])

    def answer(messages: Sequence[Mapping[str, object]]) -> str:
        text = str(messages[0]["content"])
        return f"{say(messages)}{text[9:]}" if text.startswith("question ") else read(messages)

    words, environment = far(cluster)
    with TestServer(answer) as server:
        task = json.loads(json.dumps(TASK))
        scorer = task["definition"]["scorers"][0]
        scorer["extraction"] = {"rule": "stated_answer", "fallback": f"{server.url}#small"}
        (project / "task.yaml").write_text(json.dumps(task))
        code, said = run(project, f"{server.url}#m", "far", *words, **environment)
        assert code == 0, said
        assert SAMPLES < server.asked.total == len(server.asked.by_prompt)
        assert run(project, f"{server.url}#m", "near")[0] == 0
    assert read_tables(project / "far") == read_tables(project / "near")
    assert b'"fallback"' in (project / "far" / "tasks" / "quiz" / "metrics.json").read_bytes()


@LONG
def test_a_run_goes_on_whoever_is_killed(project: Path, cluster: dict[str, Any]) -> None:
    """The main process, then a process that asks, then a node: nothing is paid twice but what was under way.

    Requests are those of all samples and of all faults, and what three kills cut off: all places once, and
    twice those of one branch. The rate is kept.
    """
    killer = Killer()
    words, environment = far(cluster)
    write_rows(project, MANY)
    behaviour = Behaviour(
        delay=(0.005, 0.05), faults=FAULTS, requests_per_minute=RATE_OF_TEN_SECONDS, minute_seconds=10.0
    )
    with TestServer(killer, behaviour) as server:
        write_run(project, server.url)
        model = ["--cache-policy", "no-cache", "--out", str(project / "far"), *words]
        first = start("run", str(project / "run.yaml"), *model, **environment)
        killer.aim(MANY // 3, lambda: [first.pid])
        assert end(first)[0] == -signal.SIGKILL
        killer.aim(MANY // 2, lambda: list_actors(cluster["raylets"])[:1])
        killer.aim(3 * MANY // 4, lambda: list_tree(cluster["raylets"][1]))
        code, said = end(start("resume", str(project / "far"), **environment))
        assert code == 0, said
        asked, faults = server.asked.total, server.asked.faults.total()
        assert [bool(one) for one in killer.killed] == [True] * 3
        assert server.asked.statuses[429] == server.asked.faults["429_seconds"]
        assert len(server.asked.by_prompt) == MANY
        print(f"{MANY} samples, {faults} faults, {asked} requests, {asked - faults - MANY} beyond them")  # noqa: T201 - a measurement
        assert MANY + faults <= asked <= MANY + faults + 2 * PLACES
        whole = ["--cache-policy", "no-cache", "--out", str(project / "near")]
        assert end(start("run", str(project / "run.yaml"), *whole))[0] == 0
    assert read_tables(project / "far", "attempts") == read_tables(project / "near", "attempts")


def write_run(project: Path, url: str) -> None:
    """Write a run file with a model that may be asked only so fast."""
    config = {
        "connection_type": "custom_connection",
        "url": f"{url}/chat/completions",
        "model_key": "m",
    }
    model = {
        "key": "mine",
        "display_name": "Mine",
        "task": "chat_completion",
        "config": config,
        "rate_limit": RATE,
        "max_concurrent_requests": PLACES,
    }
    source = {"type": "local", "file_path": "rows.jsonl"}
    definition = {"dataset": {"key": "rows"}, **TASK["definition"]}
    plan = {
        "models": [model],
        "datasets": [{"key": "rows", "display_name": "Rows", "source": source}],
        "tasks": [{**TASK, "definition": definition}],
        "evaluation": {
            "key": "e",
            "display_name": "E",
            "description": "",
            "task_specifications": [{"task_key": "quiz", "model_key": "mine"}],
        },
    }
    (project / "run.yaml").write_text(json.dumps(plan))


def list_tree(root: int) -> list[int]:
    """Return a process and all that it has started: a node, when it is that of a raylet."""
    found, waiting = [], [root]
    while waiting:
        one = waiting.pop()
        found.append(one)
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            waiting += map(int, children.read_text().split())
    return found
