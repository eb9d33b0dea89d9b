"""What snippets may reach: nothing, where the system can refuse it; those that stand for a model may."""

from __future__ import annotations

import os
import sys

import pytest

from answerkey.sandbox import Snippet, SnippetProcess, SnippetTrouble, worker

can_refuse = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine not in worker.NETWORK_CALLS,
    reason="this system cannot refuse sockets to a process",
)
#: What each of them does, and the words that tell that it was refused.
ATTEMPTS = {
    "import socket; socket.socket()": "PermissionError: [Errno 13] Permission denied",
    "import socket; socket.socket(socket.AF_UNIX)": "PermissionError: [Errno 13] Permission denied",
    "import socket; socket.getaddrinfo('example.invalid', 80)": "gaierror",
    "import urllib.request as r; r.urlopen('http://127.0.0.1:9/')": "<urlopen error [Errno 13]",
    "import asyncio; asyncio.run(asyncio.open_connection('127.0.0.1', 9))": "PermissionError: [Errno 13]",
}


def call(body: str, function: str = "compute_scores") -> object:
    """Return what a snippet gives, or its trouble."""
    source = f"def {function}(first, second=None):\n    {body}\n    return {{'said': 1}}\n"
    with SnippetProcess(Snippet(function, source), seconds=60) as process:
        return next(process.call_all([[{}, {}]]))


@can_refuse
@pytest.mark.parametrize("body", ATTEMPTS)
def test_a_snippet_reaches_nobody(body: str) -> None:
    """Every way to a socket is refused, and the trouble says why."""
    trouble = call(body)
    assert isinstance(trouble, SnippetTrouble)
    assert trouble.kind == "raised"
    assert ATTEMPTS[body] in trouble.message
    assert trouble.message.endswith("(snippets of scorers and metrics have no network)")


@can_refuse
def test_children_of_a_snippet_reach_nobody() -> None:
    """What a snippet starts is bound as it is."""
    body = (
        "import subprocess, sys; return {'said': subprocess.run("
        "[sys.executable, '-c', 'import socket; socket.socket()'], capture_output=True, text=True).stderr}"
    )
    said = call(body)
    assert isinstance(said, dict)
    assert "PermissionError" in str(said["said"])


def test_an_event_loop_still_works() -> None:
    """A pair of sockets inside the process is no network."""
    assert call("import asyncio; asyncio.run(asyncio.sleep(0))") == {"said": 1}


def test_a_file_that_is_refused_is_not_blamed_on_the_network() -> None:
    """An exception that names a file says nothing of the network."""
    trouble = call("raise PermissionError(13, 'Permission denied', 'secret.txt')")
    assert isinstance(trouble, SnippetTrouble)
    assert "network" not in trouble.message


def test_a_snippet_that_stands_for_a_model_may_ask() -> None:
    """`infer` gets its sockets."""
    assert call("import socket; socket.socket().close()", function="infer") == {"said": 1}
