"""Which model, which column, which file is meant: what people type, and what they are asked at a
terminal.
"""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.forked import Forked
from tests.projects import write_rows

from answerkey.testing import TestServer

from .conftest import QUIZ, Call

SECONDS = 60
CONFIG = "{url: 'http://127.0.0.1:9/v1', model_key: m}"


@pytest.fixture
def words(quiz: list[str]) -> list[str]:
    """Return the arguments of a run of 120 questions that names no model."""
    return quiz[:-2]


@pytest.fixture
def offered(server: TestServer, monkeypatch: pytest.MonkeyPatch) -> TestServer:
    """Return a server that stands where Ollama would; a provider's key is set, too."""
    monkeypatch.setenv("OLLAMA_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    return server


class Screen:
    """A command on a terminal of its own: what it shows, and what is typed."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self.process = process
        self.terminal = terminal
        self.text = ""

    def read_until(self, text: str | None) -> str:
        """Return all that was shown once `wanted` was, or the command is at its end."""
        end = time.monotonic() + SECONDS
        while text is None or text not in self.text:
            assert time.monotonic() < end, self.text
            if not select.select([self.terminal], [], [], 1.0)[0]:
                continue
            try:
                part = os.read(self.terminal, 65_536)
            except OSError:  # the command has closed its terminal
                break
            self.text += part.decode(errors="replace").replace("\r\n", "\n")
        return self.text

    def answer(self, question: str, typed: str) -> None:
        """Wait for a question and type a line; a control character needs no return."""
        self.read_until(question)
        self.text = ""
        os.write(self.terminal, typed.encode() if typed < " " else f"{typed}\n".encode())

    def finish(self) -> int:
        """Read to the end and return the exit code."""
        self.read_until(None)
        return self.process.wait(timeout=SECONDS)


@contextmanager
def open_screen(*words: str, **streams: int) -> Iterator[Screen]:
    """Yield a command that runs on a terminal; `streams` are those that lead elsewhere."""
    terminal, inner = pty.openpty()
    standard: dict[str, Any] = {"stdin": inner, "stdout": inner, "stderr": inner} | streams
    environment = os.environ | {"TERM": "dumb", "NO_COLOR": "1"}
    with Forked(words, env=environment, start_new_session=True, **standard) as process:
        os.close(inner)
        try:
            yield Screen(process, terminal)
        finally:
            process.kill()
    os.close(terminal)


SAID = [
    {
        "sample_id": f"s{number}",
        "question": "q",
        "answer": "A",
        "said": {"x": "A", "y": letter},
        "z": "B",
    }
    for number, letter in enumerate("AAB")
]


@pytest.fixture
def said() -> list[str]:
    """Return the arguments of a task whose dataset has the completions of three models."""
    Path("task.yaml").write_text(json.dumps(QUIZ))
    write_rows(Path("rows.jsonl"), SAID)
    return ["task.yaml", "--dataset", "rows.jsonl"]


@pytest.mark.parametrize("verb", ["score", "run"])
def test_several_completion_columns_are_compared(call: Call, said: list[str], verb: str) -> None:
    """One run each, in folders below `--out`, then a table; JSON has them under `runs`."""
    names = ["said.x", "said.y", "z"]
    columns = [word for name in names for word in ("--completion-column", name)]
    done = call(verb, *said, *columns, "--out", "each", "--fail-under", "0.5")
    assert done.code == 1
    assert {path.name for path in Path("each").iterdir()} == {"1-said.x", "2-said.y", "3-z"}
    table = [line.split()[:2] for line in done.out.split("Comparison\n")[1].splitlines()[2:5]]
    assert table == [["said.x", "100.0"], ["said.y", "66.7"], ["z", "0.0"]]
    printed = call(verb, *said, *columns, "--json").json
    assert [run["tasks"][0]["completions"]["column"] for run in printed["runs"]] == names
    compared = call("compare", "each/1-said.x", "each/2-said.y")
    assert (compared.code, compared.err) == (0, "")  # two columns of one file are one dataset


def test_a_missing_column_is_found_before_any_is_scored(call: Call, said: list[str]) -> None:
    """All columns are looked at first; `check` tells of each."""
    columns = ["--completion-column", "said.x", "--completion-column", "said.w"]
    refused = call("score", *said, *columns, "--out", "each")
    assert (refused.code, Path("each").exists()) == (2, False)
    assert "error[E209]: no column holds the completions; looked for `said.w`" in refused.err
    checked = call("check", *said, *columns)
    assert checked.code == 2
    assert checked.out.startswith("passed: ")
    assert [
        len(check["errors"]) for check in call("check", *said, *columns, "--json").json["checks"]
    ] == [0, 1]


def test_several_models_and_several_columns_exclude_each_other(call: Call, said: list[str]) -> None:
    """Nothing says whose completions are in which column."""
    options = "--completion-column z --completion-column said.x --model builtin/random"
    more = options.split()
    assert call("run", *said, *more).code == 0
    refused = call("run", *said, *more, "--model", "builtin/longest")
    assert refused.code == 2
    assert "`--model` and `--completion-column` are both given several times" in refused.err


def test_bare_names_yield_to_run_files(call: Call, server: TestServer, words: list[str]) -> None:
    """A key is meant before a provider's model, and a slip of the pen in a key is none of a
    provider.
    """
    model = {"key": "gpt-4-mine", "display_name": "M", "task": "chat_completion"}
    run = {
        "models": [{**model, "config": {"url": server.url, "model_key": "abc"}}],
        "tasks": [{"$ref": "task.yaml"}],
        "datasets": [{"key": "d", "source": {"type": "local", "file_path": "rows.jsonl"}}],
        "evaluation": {"key": "e", "task_specifications": [{"task_key": "quiz"}]},
    }
    Path("run.yaml").write_text(json.dumps(run))
    assert words
    assert call("run", "run.yaml", "--model", "gpt-4-mine", "--num-samples", "2").code == 0
    refused = call("run", "run.yaml", "--model", "gpt-4-mime")
    assert "error[E113]: model `gpt-4-mime` is not defined" in refused.err
    hint = "did you mean `gpt-4-mine`?; write `openai/gpt-4-mime` for the model of that provider"
    assert hint in refused.err
    refused = call("run", "run.yaml", "--model", "claude-x")
    assert "error[E117]: model `anthropic/claude-x` needs a key" in refused.err


def test_a_dataset_file_is_audited_as_its_rows_are(call: Call, said: list[str]) -> None:
    """With what it derives; a mistake in it is told at its place."""
    dataset = {
        "key": "mine",
        "source": {"type": "local", "file_path": "rows.jsonl"},
        "display_name": "M",
    }
    Path("dataset.yaml").write_text(json.dumps(dataset))
    assert call("score", said[0], "--dataset", "dataset.yaml", "--completion-column", "z").code == 0
    audits = call("audit-dataset", "dataset.yaml", "--json").json["datasets"]
    assert [(audit["name"], audit["rows"]) for audit in audits] == [("mine", 3)]
    Path("dataset.yaml").write_text(json.dumps({**dataset, "sorce": {}}))
    refused = call("audit-dataset", "dataset.yaml")
    assert (refused.code, "error[E107]: unknown key `sorce`" in refused.err) == (2, True)
