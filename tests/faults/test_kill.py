"""A run that is killed, again and again, ends as if it had never been."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from tests.forked import Forked
from tests.projects import SCORER, describe_solver, describe_task, read_results, write_rows

import answerkey as ak
from answerkey.testing import Behaviour, TestServer, answer_by_hash

IS_LONG = bool(os.environ.get("ANSWERKEY_LONG"))
KILLS = 50 if IS_LONG else 4
SAMPLES = 600 if IS_LONG else 240
#: Seconds that no command takes.
LONG_WAIT = 600.0
SCORERS = [{**SCORER, "choices": ["A", "B", "C", "D"]}]
TASK = describe_task(solver=describe_solver(), scorers=SCORERS)
#: A process that begins so kills itself instead of giving the file with a number its name.
DIE_WRITING = """
import os
from pathlib import Path
from answerkey.spec import job

left = [None] * NUMBER

def replace(self, other, rename=Path.replace):
    left.pop()
    if not left:
        os.kill(os.getpid(), 9)
    return rename(self, other)

job.CHUNK_ROWS, Path.replace = COUNT, replace
"""


class Killer:
    """Answers by hash, and kills a process after this many questions."""

    def __init__(self) -> None:
        self._answer = answer_by_hash(["A", "B", "C", "D", "Answer: A"])
        self._left: int | None = None
        self._pid = 0

    def aim(self, pid: int, questions: int | None) -> None:
        """Kill this process at the question with this number from now on; None: never."""
        self._pid, self._left = pid, questions

    def __call__(self, messages: Sequence[Mapping[str, object]]) -> str:
        """Return the answer to a question.

        What was asked for by `aim` happens before it is sent.
        """
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                os.kill(self._pid, signal.SIGKILL)
        return self._answer(messages)


def die_writing(project: Path, rows: int, number: int, *words: str) -> int:
    """Carry out a command over chunks of so many rows, which dies at a write; return its exit code.

    Its cache is empty, so that as many files are written whatever ran before.
    """
    first = DIE_WRITING.replace("NUMBER", str(number)).replace("COUNT", str(rows))
    return end(start(*words, first=first, XDG_CACHE_HOME=str(project / f"cache-{number}")))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with a task file and its rows."""
    (tmp_path / "task.yaml").write_text(json.dumps(TASK))
    rows = [{"question": f"question {n}", "answer": "ABCD"[n % 4]} for n in range(SAMPLES)]
    write_rows(tmp_path / "rows.jsonl", rows)
    return tmp_path


def list_words(project: Path, model: str, out: str) -> list[str]:
    """Return the command line of a run."""
    files = [str(project / "task.yaml"), "--dataset", str(project / "rows.jsonl")]
    return ["run", *files, "--model", model, "--out", str(project / out)]


def start(*words: str, first: str = "", **environment: str) -> subprocess.Popen[bytes]:
    """Start a command, whose process begins with Python of a test."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return Forked(words, first=first, env={**os.environ, **environment}, **quiet)


def end(process: subprocess.Popen[bytes], timeout: float = LONG_WAIT) -> int:
    """Wait for a command and return its exit code; kill it when the time is over."""
    try:
        process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    return process.returncode


@pytest.fixture
def killer() -> Killer:
    """Return what answers, and kills."""
    return Killer()


@pytest.fixture
def server(killer: Killer) -> Iterator[TestServer]:
    """Return an endpoint that takes some time to answer."""
    with TestServer(killer, Behaviour(delay=(0.005, 0.02))) as running:
        yield running


def draw_moments(draws: random.Random) -> list[tuple[int, float]]:
    """Return when to kill: at a question, or after some seconds if they are over before it.

    All their questions together are fewer than the samples, so that no run ends before its last
    kill.
    """
    step = SAMPLES // (KILLS + 2)
    moments = [(draws.randint(1, step), LONG_WAIT)]
    for number in range(1, KILLS):
        seconds = LONG_WAIT if number % 3 else draws.uniform(0.05, 1.0)
        moments.append((draws.randint(1, step) if number % 3 else step, seconds))
    return moments


@pytest.mark.parametrize("policy", ["no-cache", "reuse"] if IS_LONG else ["no-cache"])
def test_a_run_killed_at_random_moments_ends_as_if_it_had_not_been(
    project: Path, server: TestServer, killer: Killer, policy: str
) -> None:
    """Every table is the same; nothing is asked twice but what was under way at a kill."""
    model = f"{server.url}#tested"
    whole = [*list_words(project, model, "whole"), "--cache-policy", "no-cache"]
    assert end(start(*whole)) == 0
    server.forget()
    words = [*list_words(project, model, "killed"), "--cache-policy", policy]
    connections = [0]
    for questions, seconds in draw_moments(random.Random(20_260_102)):
        process = start(*words)
        killer.aim(process.pid, questions)
        assert end(process, timeout=seconds) == -signal.SIGKILL
        connections.append(len(server.asked.connections))
        words = ["resume", str(project / "killed")]
    killer.aim(0, None)
    assert end(start(*words)) == 0
    # What was under way at a kill had a connection; everything else is in the journal, and not
    # asked again.
    opened = max(after - before for before, after in pairwise(connections))
    assert server.asked.total <= SAMPLES + KILLS * opened
    assert len(server.asked.by_prompt) == SAMPLES
    expected = read_results(project / "whole")
    result = read_results(project / "killed")
    expected["run.json"]["options"]["cache_policy"] = policy
    assert result == expected


def test_a_run_killed_at_any_write_can_be_finished(project: Path) -> None:
    """Whichever file is cut off, `resume` finishes the run, or `run` begins it anew in the same
    folder.
    """
    model = "builtin/simulated?accuracy=0.7&style=mixed&seed=1"
    rows = project / "rows.jsonl"
    whole = ak.run(project / "task.yaml", dataset=rows, model=model, out=project / "0")
    outcomes = []
    for number in range(1, 10):
        words = list_words(project, model, str(number))
        code = die_writing(project, SAMPLES, number, *words)
        outcomes.append(code)
        if code == 0:
            break
        if number <= 2:  # nothing says yet what was to be run
            shutil.copytree(project / str(number), project / f"{number} again")
            assert end(start(*list_words(project, model, f"{number} again"))) == 0
            assert read_results(project / f"{number} again") == read_results(project / "0")
            with pytest.raises(ak.RunError, match="E501"):
                ak.resume(project / str(number))
            continue
        assert ak.resume(project / str(number)).metrics == whole.metrics
        assert read_results(project / str(number)) == read_results(project / "0")
    # task.json, run.json; completions and scores of the first 50 and of the rest;
    # metrics.json, run.json
    assert outcomes == [-9] * 8 + [0]


def test_a_limit_that_resume_lifted_does_not_return(project: Path) -> None:
    """A resumed run that is killed goes on without the limit that had stopped it first."""
    killer = Killer()
    with TestServer(killer) as server:
        words = list_words(project, f"{server.url}#m", "run")
        assert end(start(*words, "--max-calls", "30")) == 3
        process = start("resume", str(project / "run"))
        killer.aim(process.pid, 50)
        assert end(process) == -signal.SIGKILL
        killer.aim(0, None)
        assert ak.resume(project / "run").status == "complete"


def test_runs_of_one_second_have_own_names(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is taken when the folder is made, so that none is refused."""
    monkeypatch.chdir(project)
    stopped_clock = """
from datetime import UTC, datetime
from answerkey.runs import writing

class Clock(datetime):
    @classmethod
    def now(cls, zone):
        return datetime(2026, 1, 2, 3, 4, 5, tzinfo=zone)

writing.datetime = Clock
"""
    words = ["run", "task.yaml", "--dataset", "rows.jsonl", "--model", "builtin/random"]
    running = [start(*words, first=stopped_clock) for _ in range(4)]
    assert [end(process) for process in running] == [0, 0, 0, 0]
    names = sorted(path.name for path in (project / "runs").iterdir())
    stem = "20260102-030405-quiz"
    assert names == [stem, f"{stem}-2", f"{stem}-3", f"{stem}-4"]
