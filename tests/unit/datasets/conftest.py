from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from answerkey.datasets import formats, rows, tables

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a file into an empty folder and returns its path."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


@pytest.fixture(params=["held", "streamed"])
def way(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Let rows be held in memory, or be read from files in small chunks."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "streamed":
            patch.setattr(tables, "HELD_BYTES", 0)
            patch.setattr(rows, "BLOCK_ROWS", 3)
            patch.setattr(formats, "FRAME_ROWS", 2)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield request.param


class Handler(BaseHTTPRequestHandler):
    """Notes a request, and hands it to the function of its server."""

    server: Server

    def _take(self) -> None:
        self.server.asked.append((self.command, self.bare_path, dict(self.headers)))
        self.server.answer(self)

    do_GET = do_HEAD = do_CONNECT = _take  # noqa: N815 - the library's names

    @property
    def bare_path(self) -> str:
        """The path without its query."""
        return self.path.split("?")[0]

    def send(
        self, status: int, body: bytes = b"", headers: Mapping[str, str | None] | None = None
    ) -> None:
        """Send a reply; a header that is None is left out."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """A web server on this machine, and what was asked of it: method, path and headers."""

    scheme = "http"

    def __init__(self, answer: Callable[[Handler], None]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.asked: list[tuple[str, str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        """The address."""
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing about clients that hang up."""


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[Handler], None]], Server]]:
    """Return a function that starts a server; all are stopped afterwards."""
    servers: list[Server] = []

    def start(answer: Callable[[Handler], None]) -> Server:
        server = Server(answer)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep caches and settings of the user away."""
    for name in ("HF_HUB_OFFLINE", "ANSWERKEY_OFFLINE", "HF_HUB_CACHE", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # The library has read its variables when it was imported.
    with suppress(ImportError):
        constants = importlib.import_module("huggingface_hub.constants")
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf" / "hub"))
