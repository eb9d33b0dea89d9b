"""Several models called at once, with faults, killed in the middle: nothing is lost, or asked
twice.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.forked import Forked

import answerkey as ak
from answerkey.testing import Behaviour, TestServer, answer_by_hash

IS_LONG = bool(os.environ.get("ANSWERKEY_LONG"))
SAMPLES = 400 if IS_LONG else 40
#: At which question of which endpoint the process is killed, each time.
KILLS = [(0, 40), (1, 90), (2, 5), (0, 60), (1, 3), (2, 70)] if IS_LONG else [(0, 10), (1, 12)]
ENDPOINTS = 3
#: A fifth of all requests fails; which do is drawn from what is asked.
FAULTS = {"500": 0.1, "reset": 0.05, "bad_json": 0.05}
#: So many requests to an endpoint are under way at once, at most; what the endpoint sees may be
#: fewer.
AT_ONCE = 8
LONG_WAIT = 300.0


class Killer:
    """Answers by hash, and kills a process when it has asked so many questions."""

    def __init__(self) -> None:
        self._answer = answer_by_hash(["A", "B", "Answer: A"])
        self.pid, self.left = 0, 0

    def __call__(self, messages: Sequence[Mapping[str, object]]) -> str:
        """Return the answer to a question; the kill comes before it is sent."""
        self.left -= 1
        if self.left == 0:
            os.kill(self.pid, signal.SIGKILL)
        return self._answer(messages)


@pytest.fixture
def servers() -> Iterator[list[tuple[Killer, TestServer]]]:
    """Return endpoints that take some time, and fail now and then."""
    with ExitStack() as stack:
        killers = [Killer() for _ in range(ENDPOINTS)]
        made = [
            TestServer(one, Behaviour(delay=(0.002, 0.01), faults=FAULTS, seed=number))
            for number, one in enumerate(killers)
        ]
        yield [
            (one, stack.enter_context(server)) for one, server in zip(killers, made, strict=True)
        ]


def test_a_matrix_killed_in_the_middle_ends_as_if_it_had_not_been(
    tmp_path: Path, servers: list[tuple[Killer, TestServer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every number is the same; no answer is paid for twice but those under way at a kill."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = tmp_path / "rows.jsonl"
    made = [
        {"question": f"question {n}", "options": ["one", "two"], "answer": "A"}
        for n in range(SAMPLES)
    ]
    rows.write_text("".join(json.dumps(row) + "\n" for row in made))
    models = [str(tmp_path / f"model-{number}.yaml") for number in range(ENDPOINTS)]
    for path, (_, server) in zip(models, servers, strict=True):
        key = Path(path).stem
        told = {"key": key, "display_name": key, "max_concurrent_requests": AT_ONCE}
        told |= {"config": {"url": server.url, "model_key": "tested"}}
        Path(path).write_text(json.dumps(told))
    whole = ak.run_matrix(rows, models=models, out=tmp_path / "whole", cache_policy="no-cache")
    assert whole.status == "complete"
    for _, server in servers:
        server.forget()
    words = ["run", str(rows), "--out", str(tmp_path / "killed")]
    words += [
        "--cache-policy",
        "no-cache",
        *(word for model in models for word in ("--model", model)),
    ]
    for number, questions in KILLS:
        killer = servers[number][0]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        killer.left = 0  # of the kills before
        process = Forked(words, **quiet)  # type: ignore[arg-type]  # Popen's overloads
        killer.pid, killer.left = process.pid, questions
        assert process.wait(LONG_WAIT) == -signal.SIGKILL
        words = ["resume", str(tmp_path / "killed")]
    again = ak.resume_matrix(tmp_path / "killed")
    assert (again.status, len(again.runs)) == ("complete", ENDPOINTS)
    for before, after in zip(whole.runs, again.runs, strict=True):
        assert before.tasks["rows"].scores.equals(after.tasks["rows"].scores)
        assert before.metrics == after.metrics
    for _, server in servers:
        # What was under way at a kill is asked again; everything else is in the journal.
        asked = server.asked
        assert SAMPLES <= asked.answered <= SAMPLES + len(KILLS) * AT_ONCE
        assert sum(asked.faults.values()) > SAMPLES / 10
