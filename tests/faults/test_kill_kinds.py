"""A run of any kind is finished by `resume` after a kill at any moment; nothing is paid twice."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.forked import Forked
from tests.projects import (
    SCORER,
    describe_live_task,
    describe_solver,
    describe_task,
    write_rows,
    write_run,
)
from tests.servers import BatchBehaviour, BatchHandler, BatchServer

import answerkey as ak
from answerkey.testing import answer_by_hash
from answerkey.testing.replies import Messages

IS_LONG = bool(os.environ.get("ANSWERKEY_LONG"))
KILLS = 20 if IS_LONG else 2
SAMPLES = 200 if IS_LONG else 60
LONG_WAIT = 300.0
ENDPOINTS = 3
#: At most this many requests are in flight at one endpoint.
IN_FLIGHT = 8
#: A tenth of all requests fail and are sent again; which ones is drawn from their content.
FAULTS = {"500": 0.05, "reset": 0.05}
JUDGE = {
    "type": "model_as_a_judge_scorer",
    "model_key": "judge",
    "user_prompt": "RATE {{ sample.question }}: {{ input_prompt }}",
    "score_max": 10,
}
answer_question = answer_by_hash(["A", "B", "Answer: A"])


def answer(messages: Messages) -> str:
    """Return an answer to a question, or a verdict on an answer."""
    if str(messages[0]["content"]).startswith("RATE"):
        return json.dumps({"reasoning": "because", "score": 5, "confidence": 0.5})
    return answer_question(messages)


@dataclass(frozen=True)
class Stage:
    """A folder with the files of a run, and the endpoints that it calls."""

    folder: Path
    servers: list[BatchServer]

    def write(self, name: str, content: object) -> str:
        """Write a file of JSON, or of JSON Lines for a list; return its path."""
        path = self.folder / name
        if isinstance(content, list):
            write_rows(path, content)
        else:
            path.write_text(json.dumps(content))
        return str(path)

    def write_task(self, **definition: object) -> list[str]:
        """Return the arguments that name a task and its dataset."""
        task = self.write("task.yaml", describe_task(scorers=[SCORER], **definition))
        return [task, "--dataset", self.write("rows.jsonl", self.rows)]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The questions."""
        return [{"question": f"question {n}", "answer": "AB"[n % 2]} for n in range(SAMPLES)]

    def describe_model(self, key: str, number: int) -> dict[str, Any]:
        """Return a model at the endpoint with this number."""
        config = {"url": self.servers[number].url, "model_key": "tested"}
        limits = {"max_concurrent_requests": IN_FLIGHT}
        return {"key": key, "display_name": key, "config": config, **limits}

    def count_asked(self) -> int:
        """Return how many calls were answered, and how many were submitted in batches."""
        calls = 0
        for server in self.servers:
            handler = server._handler
            assert isinstance(handler, BatchHandler)
            store = handler._batches
            uploads = [store.files[batch["input_file_id"]] for batch in store.batches.values()]
            calls += sum(upload.count(b"\n") for upload in uploads)
            calls += server.asked.by_path["/v1/chat/completions"]
            calls -= sum(server.asked.faults.values())
        return calls


def prepare_recorded(stage: Stage) -> list[str]:
    """Return a command that scores recorded completions."""
    replies = [{"completion": "ABX"[number % 3]} for number in range(SAMPLES)]
    return ["score", *stage.write_task(), "--completions", stage.write("said.jsonl", replies)]


def prepare_live(stage: Stage) -> list[str]:
    """Return a command that calls one model."""
    model = stage.write("model.yaml", stage.describe_model("model", 0))
    return ["run", *stage.write_task(solver=describe_solver()), "--model", model]


def prepare_matrix(stage: Stage) -> list[str]:
    """Return a command that calls three models at the same time."""
    words = ["run", *stage.write_task(solver=describe_solver())]
    for number in range(ENDPOINTS):
        description = stage.describe_model(f"model-{number}", number)
        words += ["--model", stage.write(f"model-{number}.yaml", description)]
    return words


def prepare_batch(stage: Stage) -> list[str]:
    """Return a command that submits its calls as a batch, in which a fault is final."""
    stage.servers[0].change(faults={})
    url = f"{stage.servers[0].url}#tested"
    return ["run", *stage.write_task(solver=describe_solver()), "--model", url, "--batch"]


def prepare_judged(stage: Stage) -> list[str]:
    """Return a command whose completions are judged by a second model."""
    stage.write("rows.jsonl", stage.rows)
    models = [stage.describe_model("model", 0), stage.describe_model("judge", 1)]
    task = describe_live_task(scorers=[SCORER, JUDGE])
    return ["run", str(write_run(stage.folder, models, task=task))]


#: Each kind with the calls that it pays for.
KINDS: dict[str, tuple[Callable[[Stage], list[str]], int]] = {
    "recorded": (prepare_recorded, 0),
    "live": (prepare_live, SAMPLES),
    "judged": (prepare_judged, 2 * SAMPLES),
    "matrix": (prepare_matrix, ENDPOINTS * SAMPLES),
    "batch": (prepare_batch, SAMPLES),
}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """Return a folder and endpoints that take some time, and fail now and then."""
    with ExitStack() as stack:
        servers = []
        for number in range(ENDPOINTS):
            behaviour = BatchBehaviour(delay=(0.002, 0.02), faults=FAULTS, seed=number)
            servers.append(stack.enter_context(BatchServer(answer, behaviour)))
        yield Stage(tmp_path, servers)


def start(words: list[str], log: Path) -> subprocess.Popen[Any]:
    """Start a command that adds what it prints to a file."""
    with log.open("ab") as stream:
        return Forked(words, stdout=stream, stderr=stream)


def finish(words: list[str], out: Path, log: Path, num_runs: int) -> int:
    """Resume what was killed; start it again if not all of its runs had begun: none had called."""
    begun = len(list(out.rglob("run.json")))
    code = start(["resume", str(out)], log).wait(LONG_WAIT)
    if begun == num_runs:
        return code
    assert code == (3 if begun else 2), log.read_text()[-3000:]
    if begun:  # a model of the matrix has no run to go on with
        shutil.rmtree(out)
    return start([*words, "--out", str(out)], log).wait(LONG_WAIT)


def read_tables(out: Path) -> dict[str, Any]:
    """Return the scores and metrics of every run in a folder, by its place there."""
    tables = {}
    for path in sorted(out.rglob("run.json")):
        run = ak.load_run(path.parent)
        task = run.tasks["quiz"]
        place = path.parent.relative_to(out).as_posix()
        tables[place] = (run.status, task.scores.to_dicts(), task.metrics)
    return tables


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_any_kind_is_finished_after_a_kill_at_any_moment(stage: Stage, kind: str) -> None:
    """The numbers are those of a run without a kill, and only calls in flight are repeated."""
    prepare, calls = KINDS[kind]
    words = [*prepare(stage), "--cache-policy", "no-cache"]
    log = stage.folder / "log.txt"
    start(["--version"], log).wait(LONG_WAIT)  # the first command waits for the imports
    began = time.monotonic()
    assert start([*words, "--out", str(stage.folder / "whole")], log).wait(LONG_WAIT) == 0
    seconds = time.monotonic() - began
    assert stage.count_asked() == calls
    expected = read_tables(stage.folder / "whole")
    draws = random.Random(f"{20_261_118} {kind}")
    killed = 0
    while killed < KILLS:
        before = stage.count_asked()
        out = stage.folder / f"killed-{killed}"
        process = start([*words, "--out", str(out)], log)
        try:
            process.wait(draws.uniform(0, seconds))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        if process.wait(LONG_WAIT) == 0:  # it ended first
            seconds *= 0.9
            shutil.rmtree(out)
            continue
        begun = len(list(out.rglob("run.json")))
        assert finish(words, out, log, len(expected)) == 0, log.read_text()[-3000:]
        assert read_tables(out) == expected
        repeated = stage.count_asked() - before - calls
        if begun < len(expected):  # what `resume` finished of a matrix was removed with it
            repeated -= begun * SAMPLES
        assert 0 <= repeated <= ENDPOINTS * IN_FLIGHT * (kind != "batch")
        killed += 1
