"""Replies that are made to fill the memory of whoever asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from answerkey.testing import Behaviour, TestServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc")

#: The most that asking may take, whatever is answered.
MEGABYTES = 64
#: Replies at once, each of which is given up at 16 MB.
MANY = 64 if os.environ.get("ANSWERKEY_LONG") else 12
#: Asks a number of questions at once, and prints what they took at most, and what came of them.
ASK = r"""
import json, sys
from answerkey.models.calls import Call, CallSettings, Limits, call_key
from answerkey.models.client import ModelClient
from answerkey.models.providers import APIS, Connection
import answerkey.models.http, ssl

def measure(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024

url, count = sys.argv[1], int(sys.argv[2])
connection = Connection("m", APIS["chat"], url + "/chat/completions", "m", max_concurrent=count)
asked = [[{"role": "user", "content": f"question {number}"}] for number in range(count)]
calls = [Call(call_key(connection, one, 0), str(number), 0, one) for number, one in enumerate(asked)]
ssl.create_default_context()
before = measure("VmRSS")
with ModelClient(connection, CallSettings(limits=Limits(max_concurrent=count))) as client:
    client.endpoint.concurrency.limit = count
    said = client.complete(calls)
print(json.dumps({"megabytes": measure("VmHWM") - before, "errors": sorted({one.error for one in said})}))
"""


@pytest.mark.parametrize("fault", ["endless", "gzip_bomb"])
@pytest.mark.parametrize("count", [1, MANY])
def test_a_body_made_to_fill_memory_does_not(fault: str, count: int) -> None:
    """A body without end, and one of 256 MB in a small payload, are given up; so are many at once."""
    behaviour = Behaviour(faults={fault: 1.0}, faulty_attempts=None, bomb_bytes=1 << 28)
    with TestServer("A", behaviour) as server:
        command = [sys.executable, "-c", ASK, server.url, str(count)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1200)
    found = json.loads(done.stdout)
    assert found["errors"] == ["the reply of `127.0.0.1` is larger than 16777216 bytes"]
    assert found["megabytes"] < MEGABYTES
