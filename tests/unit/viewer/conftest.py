"""A folder of runs, a server over it, and a client that says what it is told to the letter."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest
from tests.projects import SCORER, write_task

from answerkey.viewer.catalog import Catalog
from answerkey.viewer.server import Server, open_server

ROWS = """\
{"question": "one", "answer": "A", "category": "easy", "completion": "A"}
{"question": "two", "answer": "B", "category": "easy", "completion": "Answer: B"}
{"question": "three", "answer": "C", "category": "hard", "completion": null}
{"question": "four", "answer": "C", "category": "hard", "completion": "\\u001b[31mB"}
"""


@pytest.fixture(scope="session")
def made_runs(tmp_path_factory: pytest.TempPathFactory, call: Callable[..., Any]) -> Path:
    """Make a folder with two runs of four samples; the second one has all right."""
    project = tmp_path_factory.mktemp("project")
    task = write_task(project / "task.yaml", SCORER | {"choices": ["A", "B", "C"]}, name="Small")
    for name, rows in (("first", ROWS), ("second", ROWS.replace("Answer: B", "B"))):
        dataset = project / f"{name}.jsonl"
        dataset.write_text(rows, encoding="utf-8")
        out = project / "runs" / name
        assert call("score", task, "--dataset", dataset, "--out", out).code == 0
    return project / "runs"


@pytest.fixture
def runs(made_runs: Path, tmp_path: Path) -> Path:
    """Return a copy of the folder of runs, to change."""
    return Path(shutil.copytree(made_runs, tmp_path / "runs"))


@pytest.fixture
def catalog(runs: Path) -> Catalog:
    """Return the catalog of the runs."""
    return Catalog(runs)


@dataclass(frozen=True)
class Said:
    """What a server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401  # whatever was answered
        """The body as JSON."""
        return json.loads(self.body)


class Client:
    """Speaks to a server; host and token are right unless told otherwise."""

    def __init__(self, server: Server) -> None:
        self.port = server.server_port
        self.token = server.url.partition("token=")[2]

    def say(self, words: bytes, method: str = "GET") -> Said:
        """Send bytes as they are, and return the answer; the connection is then closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=120) as connection:
            connection.sendall(words)
            return read_answer(connection, method)

    def ask(self, target: str, method: str = "GET", /, **changes: str | None) -> Said:
        """Send a request; changes are headers, `_` for `-`, None for none."""
        headers: dict[str, str | None] = {"Host": f"127.0.0.1:{self.port}", "Connection": "close"}
        headers["X-Answerkey-Token"] = self.token
        headers |= {name.replace("_", "-"): value for name, value in changes.items()}
        lines = [f"{method} {target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items() if value is not None]
        return self.say("\r\n".join([*lines, "", ""]).encode("latin-1"), method)


def read_answer(connection: socket.socket, method: str = "GET") -> Said:
    """Return one answer of a connection."""
    answer = HTTPResponse(connection, method=method)
    answer.begin()
    headers = {name.lower(): value for name, value in answer.getheaders()}
    return Said(answer.status, headers, answer.read())


@pytest.fixture
def server(runs: Path) -> Iterator[Server]:
    """Serve the runs on a free port."""
    with open_server(runs) as opened:
        thread = threading.Thread(target=opened.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield opened
        opened.shutdown()
        thread.join()


@pytest.fixture
def client(server: Server) -> Client:
    """Return a client of the server."""
    return Client(server)
