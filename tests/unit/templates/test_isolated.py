"""Laws of the worker's own side, told in this process."""

from __future__ import annotations

import json
import pickle
import resource
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from answerkey.templates import rendering
from answerkey.templates.rendering import Recipe, Rows
from answerkey.types import Row


class Wire:
    """A channel that keeps what is sent, and hangs up after its last message."""

    def __init__(self, *messages: bytes) -> None:
        self.sent: list[Any] = []
        self._messages = list(messages)

    def send(self, payload: bytes) -> None:
        """Keep an answer."""
        self.sent.append(json.loads(payload))

    def receive_bytes(self) -> bytes:
        """Return the next message; end like a worker whose parent is gone."""
        if not self._messages:
            raise SystemExit
        return self._messages.pop(0)


def pack(source: str, *values: object) -> bytes:
    """Return the message that asks for a template over rows with these values of `x`."""
    recipe = Recipe(source, ("sample",), keeps_value=True, columns=None, is_tame=False)
    rows = Rows({"sample": Row()}, len(values), {"sample": ["x"]}, {"sample": [list(values)]})
    return pickle.dumps((recipe, rows))


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the list into which the seconds of every timer go; none is set."""
    found: list[float] = []
    monkeypatch.setattr(signal, "setitimer", lambda _which, seconds: found.append(seconds))
    return found


def answer(payload: bytes) -> list[Any]:
    """Return the messages with which one is answered."""
    wire = Wire()
    recipe, rows = pickle.loads(payload)  # noqa: S301 - our own
    rendering._answer(wire, recipe, rows, Counter())  # type: ignore[arg-type]  # all of a channel that is used
    return wire.sent


def test_a_worker_limits_itself_before_the_first_row(
    monkeypatch: pytest.MonkeyPatch, timers: list[float]
) -> None:
    """It says that it is ready when it can open nothing any more, and answers message by message."""
    wire = Wire(pack("{{ sample.x + 1 }}", 1, 2), pack("{{ sample.x }}", "a"))
    events: list[object] = []
    monkeypatch.setattr(sys, "argv", ["worker", "7", "/a/folder"])

    def open_channel(descriptor: int, folder: str) -> Wire:
        events.append((descriptor, folder))
        return wire

    monkeypatch.setattr(rendering, "Channel", open_channel)
    monkeypatch.setattr(rendering, "_limit_process", lambda: events.append(("limited", list(wire.sent))))
    with pytest.raises(SystemExit):
        rendering.serve()
    assert events == [(7, "/a/folder"), ("limited", [])]
    assert wire.sent == [[], [2, 3], ["a"]]
    assert timers == [1.0, 1.0, 1.0, 0, 1.0, 1.0, 0]


def test_limits_that_a_system_does_not_know_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """All others are set, the memory to a little more than the process has."""
    limits: dict[int, tuple[int, int]] = {}

    def keep(which: int, value: tuple[int, int]) -> None:
        if which == resource.RLIMIT_NPROC:
            raise ValueError
        limits[which] = value

    monkeypatch.setattr(resource, "setrlimit", keep)
    rendering._limit_process()
    memory = limits.pop(resource.RLIMIT_AS)[0]
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    assert abs(memory - rendering.MEMORY_BYTES - pages * resource.getpagesize()) < 2**26
    assert limits == {
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_NOFILE: (1, 1),
    }


def test_a_system_that_tells_no_memory_sets_no_limit_on_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Elsewhere than on Linux the computing time alone is limited, and what can be opened."""
    limits: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(resource, "setrlimit", limits.__setitem__)
    rendering._limit_process(str(tmp_path / "statm"))
    assert resource.RLIMIT_AS not in limits
    assert resource.RLIMIT_NOFILE in limits


@pytest.mark.usefixtures("timers")
def test_a_value_that_cannot_be_written_is_the_trouble_of_its_row() -> None:
    """The other rows of its message have their values."""
    ((first, spoiled, last),) = answer(pack("{{ [sample.x] }}", 1, 10**5000, 2))
    assert (first, last) == ([1], [2])
    assert spoiled["excess"][0].startswith("the value cannot be handed on: Exceeds the limit (4300 digits)")


@pytest.mark.usefixtures("timers")
def test_long_outcomes_are_sent_as_they_come() -> None:
    """No message is kept back until all rows are done; after the last there is nothing left to say."""
    found = answer(pack("{{ sample.x * 30 }}", "y" * 9_000, "z" * 9_000))
    assert found == [["y" * 270_000], ["z" * 270_000]]
