"""Signals that end a command: what is answered is kept, and the exit code says which it was."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.processes import run_python

from answerkey.cli import SAME_SIGNAL
from answerkey.testing import TestServer

from .conftest import Call, start

SECONDS = 60
ENDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "interrupted by SIGTERM"}
ENDS |= {signal.SIGHUP: "interrupted by SIGHUP"}


@pytest.fixture
def words(quiz: list[str]) -> list[str]:
    """Return the arguments of a run of 120 questions."""
    return ["run", *quiz, "--out", "half"]


def wait_until(is_so: Callable[[], object], process: subprocess.Popen[Any]) -> None:
    """Wait for something to happen while a process runs."""
    for _ in range(50 * SECONDS):
        if is_so() or process.poll() is not None:
            return
        try:
            process.wait(timeout=0.02)
        except subprocess.TimeoutExpired:
            continue


@pytest.mark.parametrize("how", ENDS)
def test_a_signal_ends_a_live_run_and_nothing_is_paid_twice(
    call: Call, server: TestServer, words: list[str], how: signal.Signals
) -> None:
    """Calls under way are waited for and kept; `resume` asks the rest."""
    server.change(delay=0.3)
    with start(*words, "--json") as process:
        wait_until(lambda: server.asked.answered >= 20, process)
        process.send_signal(how)
        out, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 128 + how
    resume = "answerkey resume half"
    printed = json.loads(out)
    assert [(error["code"], error["message"]) for error in printed["errors"]] == [(None, ENDS[how])]
    assert printed["resume"] == resume
    assert errors.endswith(f"{ENDS[how]}\nto continue: {resume}\n")
    assert "Traceback" not in errors
    stopped = json.loads(Path("half/run.json").read_text())
    assert stopped["status"] == "incomplete"
    assert stopped["stopped"] == {"code": None, "message": ENDS[how]}
    assert stopped["tasks"][0]["calls"]["solve"]["calls"] == server.asked.total < 120
    server.change(delay=0.0)
    assert call("resume", "half").code == 0
    assert set(server.asked.by_prompt.values()) == {1}
    assert server.asked.total == 120


def read_status() -> str | None:
    """Return what the run says of itself."""
    try:
        return str(json.loads(Path("half/run.json").read_text())["status"])
    except FileNotFoundError:
        return None


def hang_half(server: TestServer) -> None:
    """Let the server never answer every other prompt."""
    server.change(faults={"hang": 0.5}, faulty_attempts=None)


@pytest.mark.parametrize("is_repeated", [False, True])
def test_calls_that_hang_are_cut_off(
    call: Call, server: TestServer, words: list[str], *, is_repeated: bool
) -> None:
    """The run says at once that it stopped, keeps what was answered, and ends by itself.

    A second signal ends the command at once, without a word; the same one twice in a moment is one.
    """
    hang_half(server)
    with start(*words, "--json") as process:
        wait_until(lambda: server.asked.answered >= 5 and server.asked.at_once >= 5, process)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        later = time.monotonic() + 2 * SAME_SIGNAL
        wait_until(lambda: read_status() == "incomplete" and time.monotonic() > later, process)
        assert process.poll() is None
        if is_repeated:
            process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=SECONDS)
    answered = server.asked.answered
    assert "stopping: waiting up to 5 s for replies under way (" in errors
    if is_repeated:
        assert (process.returncode, out, "interrupted" in errors) == (130, "", False)
    else:
        assert (process.returncode, json.loads(out)["resume"]) == (143, "answerkey resume half")
        assert errors.endswith("interrupted by SIGTERM\nto continue: answerkey resume half\n")
        calls = json.loads(Path("half/run.json").read_text())["tasks"][0]["calls"]["solve"]["calls"]
        assert calls == answered
    server.change(faults={})
    server.forget()
    assert call("resume", "half").code == 0
    # What was on its way when the command was ended may be asked again.
    assert 0 <= server.asked.total - (120 - answered) <= (8 if is_repeated else 0)


def test_a_signal_that_was_ignored_stays_ignored(server: TestServer, words: list[str]) -> None:
    """A run under `nohup` outlives its terminal."""
    server.change(delay=0.3)
    command = ["nohup", sys.executable, "-m", "answerkey", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(lambda: server.asked.answered >= 20, process)
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert server.asked.total == 120


def count_published(bucket: Any) -> int:  # noqa: ANN401 - a fixture
    """Return how many calls the published copy of the journal has."""
    if "half/calls.sqlite" not in bucket.list("half/"):
        return 0
    Path("copy.sqlite").write_bytes(bucket.get("half/calls.sqlite"))
    journal = sqlite3.connect("copy.sqlite")
    try:
        return int(journal.execute("SELECT COUNT(*) FROM calls").fetchone()[0])
    finally:
        journal.close()


def test_the_journal_of_a_run_on_shared_storage_is_published_at_once(
    call: Call,
    server: TestServer,
    words: list[str],
    bucket: Any,  # noqa: ANN401 - a fixture
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Before calls that hang are given up, and again after; another machine asks only the rest."""
    hang_half(server)
    with start(*words[:-1], f"{bucket.url}/half") as process:
        wait_until(lambda: server.asked.answered >= 5 and server.asked.at_once >= 5, process)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: count_published(bucket) >= 5, process)
        assert process.poll() is None
        _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 143
    assert errors.endswith(f"to continue: answerkey resume {bucket.url}/half\n")
    kept = count_published(bucket)
    assert 5 <= kept <= server.asked.answered
    server.change(faults={})
    server.forget()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other machine"))
    assert call("resume", f"{bucket.url}/half").code == 0
    assert server.asked.total == 120 - kept


@pytest.mark.parametrize("verb", ["check", "run"])
def test_a_command_that_waits_for_its_dataset_is_ended(words: list[str], verb: str) -> None:
    """Whatever a command does, a signal ends it, in words."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dataset = f"http://127.0.0.1:{listener.getsockname()[1]}/rows.jsonl"
        model = words[-4:] if verb == "run" else []
        with start(verb, "task.yaml", "--dataset", dataset, "--json", *model) as process:
            listener.settimeout(SECONDS)
            connection, _ = listener.accept()
            with connection:
                process.send_signal(signal.SIGTERM)
                printed, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 143
    result = json.loads(printed)
    assert [error["message"] for error in result["errors"]] == ["interrupted by SIGTERM"]
    assert "resume" not in result
    assert errors.strip() == "interrupted by SIGTERM"
    assert not Path("half").exists()


@pytest.mark.parametrize("how", ENDS)
def test_a_viewer_ends_with_a_signal(run_folder: Path, how: signal.Signals) -> None:
    """Ctrl-C is how it ends.

    Of any other signal the exit code tells. stdout has the one JSON object.
    """
    with start("view", run_folder, "--json", "-q") as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        while not first.endswith("\n}\n"):
            first += process.stdout.readline()
        process.send_signal(how)
        remainder, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == (0 if how == signal.SIGINT else 128 + how)
    view = json.loads(first + remainder)["view"]
    assert view["url"].startswith(f"http://127.0.0.1:{view['port']}/?token=")
    assert view["folder"] == str(run_folder)
    assert errors.strip() == ("" if how == signal.SIGINT else ENDS[how])


def test_a_terminal_that_is_closed_ends_the_run(server: TestServer, words: list[str]) -> None:
    """Nothing can be said any more.

    The run says that it stopped, even if it is told twice, and can go on.
    """
    server.change(delay=0.3)
    master, slave = os.openpty()
    code = (
        "import fcntl, os, signal, sys, termios; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
        "os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
        "os.execv(sys.executable, [sys.executable, '-m', 'answerkey', *sys.argv[1:]])"
    )
    command = [sys.executable, "-c", code, *words]
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    wait_until(lambda: server.asked.answered >= 20, process)
    server.change(delay=2)
    time.sleep(0.4)
    os.close(master)
    time.sleep(0.5)
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=SECONDS) == 129
    run = json.loads(Path("half/run.json").read_text())
    assert run["stopped"] == {"code": None, "message": "interrupted by SIGHUP"}
    assert run["tasks"][0]["calls"]["solve"]["calls"] == server.asked.total


ANOTHER = """
import signal, sys
from answerkey.cli import run_and_report

def work():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        interrupt = KeyboardInterrupt()
        interrupt.add_note("answerkey resume half")
        raise interrupt

# Whoever runs the tests in the background has them ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(run_and_report(work, ["run", "--json"]))
"""


def test_how_to_go_on_is_told_whichever_interrupt_arrives() -> None:
    """A library may raise one of its own for the same signal, and the run notes there how to go
    on.
    """
    done = run_python("-c", ANOTHER)
    assert (done.returncode, json.loads(done.stdout)["resume"]) == (130, "answerkey resume half")
    assert done.stderr.endswith("to continue: answerkey resume half\n")
