"""Files and the hub are fetched through the proxy that the environment names; see `models/proxy.py`."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from answerkey.datasets.sources import HuggingFaceSource, UrlSource
from answerkey.errors import DataError

#: No such host can exist, so that whatever comes of it comes from the proxy.
ADDRESS = "https://rows.invalid/quiz.jsonl"


class Proxy(ThreadingHTTPServer):
    """A proxy that leads nowhere, and notes who asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []


class Handler(BaseHTTPRequestHandler):
    """Hangs up."""

    server: Proxy

    def do_CONNECT(self) -> None:
        """Note the host, say yes, and hang up: a refusal leaves the library's socket to the garbage."""
        self.server.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Proxy]:
    """Return a proxy that the environment names for everything."""
    found = Proxy()
    threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True).start()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        for spelling in (name, name.lower()):
            monkeypatch.setenv(spelling, f"http://127.0.0.1:{found.server_address[1]}")
    for name in ("NO_PROXY", "no_proxy", "ANSWERKEY_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.invalid")
    monkeypatch.setattr("answerkey.datasets.web.WAITS", ())
    library = importlib.import_module("huggingface_hub")
    close = getattr(library, "close_session", None) or library.utils.reset_sessions  # it has looked once
    close()
    yield found
    close()
    found.shutdown()
    found.server_close()


def test_a_file_is_fetched_through_the_proxy(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless `NO_PROXY` names its host."""
    with pytest.raises(DataError) as caught:
        UrlSource(ADDRESS).read(name="quiz")
    assert proxy.asked == ["rows.invalid:443"]
    assert caught.value.hint == "try again later"
    monkeypatch.setenv("NO_PROXY", "rows.invalid")
    monkeypatch.setenv("no_proxy", "rows.invalid")
    with pytest.raises(DataError):
        UrlSource(ADDRESS).read(name="quiz")
    assert len(proxy.asked) == 1


def test_the_hub_is_asked_through_the_proxy(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless `NO_PROXY` names its host; nothing of the environment is left changed."""
    source = HuggingFaceSource(path="made/quiz", split="test")
    with pytest.raises(DataError):
        source.read(name="quiz")
    asked = len(proxy.asked)
    assert set(proxy.asked) == {"hub.invalid:443"}
    assert "NO_PROXY" not in os.environ
    monkeypatch.setenv("NO_PROXY", "hub.invalid")
    monkeypatch.setenv("no_proxy", "hub.invalid")
    with pytest.raises(DataError):
        source.read(name="quiz")
    assert (len(proxy.asked), os.environ["NO_PROXY"]) == (asked, "hub.invalid")
