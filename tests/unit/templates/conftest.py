"""A worker for templates that is no process, so that what it does can be seen."""

from __future__ import annotations

import pickle
import signal
from collections import Counter

import pytest

from answerkey.templates import rendering


class HereWorker:
    """Renders as a worker process does, in this one: by the same code, without limits on memory and
    time.
    """

    def __init__(self) -> None:
        self._answers: list[bytes] = []

    def send(self, payload: bytes) -> float:
        """Take a message, and answer it at once."""
        recipe, rows = pickle.loads(payload)  # noqa: S301 - our own
        self._answers += rendering.render_messages(recipe, rows)
        return 0.0

    def receive(self, *, seconds: float) -> bytes:
        """Return the next answer."""
        assert seconds > 0
        return self._answers.pop(0)

    def close(self) -> None:
        """End: nothing is open."""


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Render in this process what would be rendered in another."""
    monkeypatch.setattr(rendering, "_idle", [])
    monkeypatch.setattr(rendering, "_stopped", {})
    monkeypatch.setattr(rendering, "_excesses", Counter())
    monkeypatch.setattr(rendering, "_start_worker", HereWorker)
    monkeypatch.setattr(signal, "setitimer", lambda _which, _seconds: None)


@pytest.fixture(params=["in a worker", "here"])
def everywhere(request: pytest.FixtureRequest) -> None:
    """Run a test twice: with worker processes, and with their code in this one."""
    if request.param == "here":
        request.getfixturevalue("here")
