"""Proxies that the environment names see nothing, unless that is said."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from answerkey.datasets import HuggingFaceSource, UrlSource, downloads
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
    for name in ("NO_PROXY", "no_proxy", "ANSWERKEY_PROXIES", "ANSWERKEY_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.invalid")
    monkeypatch.setattr(downloads, "WAITS", ())
    library = importlib.import_module("huggingface_hub")
    close = getattr(library, "close_session", None) or library.utils.reset_sessions  # it has looked once
    close()
    yield found
    close()
    found.shutdown()
    found.server_close()


def test_a_file_is_fetched_past_the_proxy(proxy: Proxy) -> None:
    """The proxy hears nothing; the error says that there is one."""
    with pytest.raises(DataError) as caught:
        UrlSource(ADDRESS).read(name="quiz")
    assert proxy.asked == []
    assert caught.value.hint == "`ANSWERKEY_PROXIES=environment` uses the proxy that the environment names"


def test_a_proxy_is_used_when_that_is_said(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variable, the request goes to the proxy."""
    monkeypatch.setenv("ANSWERKEY_PROXIES", "environment")
    with pytest.raises(DataError) as caught:
        UrlSource(ADDRESS).read(name="quiz")
    assert proxy.asked == ["rows.invalid:443"]
    assert caught.value.hint == "try again later"


def test_the_hub_is_asked_past_the_proxy(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """What holds for files holds for the hub's library, and nothing of the environment is left changed."""
    source = HuggingFaceSource(path="made/quiz", split="test")
    with pytest.raises(DataError):
        source.read(name="quiz")
    assert proxy.asked == []
    assert "NO_PROXY" not in os.environ
    monkeypatch.setenv("NO_PROXY", "other.invalid")
    monkeypatch.setenv("no_proxy", "other.invalid")
    with pytest.raises(DataError):
        source.read(name="quiz")
    assert (proxy.asked, os.environ["NO_PROXY"]) == ([], "other.invalid")


def test_the_hub_is_asked_by_proxy_when_that_is_said(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variable, the hub's library finds the proxy."""
    monkeypatch.setenv("ANSWERKEY_PROXIES", "environment")
    with pytest.raises(DataError):
        HuggingFaceSource(path="made/quiz", split="test").read(name="quiz")
    assert set(proxy.asked) == {"hub.invalid:443"}
