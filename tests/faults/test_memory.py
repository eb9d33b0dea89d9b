"""Replies and files that are made to fill the memory of whoever reads them."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import zstandard
from tests.forked import Forked

from answerkey.testing import Behaviour, TestServer

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="reads the memory of a process from /proc"
)

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
prompts = [[{"role": "user", "content": f"question {number}"}] for number in range(count)]
identity = connection.identity
calls = [Call(call_key(identity, one, 0), str(n), 0, one) for n, one in enumerate(prompts)]
ssl.create_default_context()
before = measure("VmRSS")
with ModelClient(connection, CallSettings(limits=Limits(max_concurrent=count))) as client:
    client.endpoint.concurrency.size = count
    errors = {completion.error for completion in client.complete(calls)}
print(json.dumps({"megabytes": measure("VmHWM") - before, "errors": sorted(errors)}))
"""


@pytest.mark.parametrize("count", [1, MANY])
def test_a_body_made_to_fill_memory_does_not(count: int) -> None:
    """A body without end is given up, and asked for once; so are many at once."""
    with TestServer("A", Behaviour(faults={"endless": 1.0}, faulty_attempts=None)) as server:
        command = [sys.executable, "-c", ASK, server.url, str(count)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1200)
        assert server.asked.total == count
    result = json.loads(done.stdout)
    assert result["errors"] == ["the reply of `127.0.0.1` is larger than 16777216 bytes"]
    assert result["megabytes"] < MEGABYTES


#: What reading may take beside the libraries, whatever a file expands to: E202 comes while it is
#: unpacked.
READ_MEGABYTES = 200
#: How large the one line is that a small file holds.
LINE_BYTES = (3 * 10**9) if os.environ.get("ANSWERKEY_LONG") else 64 * 10**6
#: Lets a command print on its last line the most memory that it took beside the libraries, in
#: megabytes.
PRINT_PEAK = r"""
import atexit

def read_peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024

libraries = read_peak()

def print_peak():
    print(read_peak() - libraries)

atexit.register(print_peak)
"""
ROW = '{"doc_id": 0, "question": "q", "options": ["x", "y"], "answer": "A", "completion": "A"}'
LONG_LINE = "the line has more than 32 MB; if that is meant, set `ANSWERKEY_MAX_LINE=0.128`"
LONG_ROW = LONG_LINE.replace("the line", "the row")
NO_JSON = "not valid JSON"
#: A JSON file is read whole, up to several times the length of a line; a larger one is refused.
WHOLE_MEGABYTES = 280
if os.environ.get("ANSWERKEY_LONG"):
    WHOLE_MEGABYTES = 320
    LONG_ROW = LONG_LINE.replace("the line has more than 32 MB", "the file has more than 128 MB")
    NO_JSON = LONG_LINE.replace("the line has more than 32 MB", "the file has more than 256 MB")


def write_bomb(path: Path, before: str, after: str) -> None:
    """Write a small file that expands to a text with very many letters in it."""
    with ExitStack() as stack:
        if path.suffix == ".gz":
            out: Any = stack.enter_context(gzip.open(path, "wb", compresslevel=1))
        elif path.suffix == ".zst":
            raw = stack.enter_context(path.open("wb"))
            out = stack.enter_context(zstandard.ZstdCompressor().stream_writer(raw))
        else:
            archive = stack.enter_context(
                zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
            )
            archive.writestr(
                "header.json", '{"version": 2, "status": "success", "eval": {"task": "t"}}'
            )
            out = stack.enter_context(archive.open("samples/1_epoch_1.json", "w", force_zip64=True))
        out.write(before.encode())
        for _ in range(LINE_BYTES // 10**6):
            out.write(b"a" * 10**6)
        out.write(after.encode())


@pytest.mark.parametrize(
    ("command", "name", "before", "message"),
    [
        ("score BOMB", "a.jsonl.gz", ROW + '\n{"question": "', LONG_LINE),
        ("check BOMB", "a.jsonl.zst", ROW + '\n{"question": "', LONG_LINE),
        ("score BOMB", "a.csv.gz", "question,A,B,answer,completion\n", LONG_LINE),
        (
            "score BOMB",
            "a.tsv.zst",
            'question\tA\tB\tanswer\tcompletion\nq\tx\ty\tA\tA\n"',
            LONG_LINE,
        ),
        ("score BOMB", "a.json.gz", f'[{ROW}, {{"question": "', LONG_ROW),
        ("score small.jsonl --completions BOMB", "a.jsonl.gz", '{"completion": "', LONG_LINE),
        ("import plain BOMB --out out", "a.jsonl.gz", '{"question": "', LONG_LINE),
        ("import lm-eval BOMB --out out", "samples_a.jsonl.gz", '{"doc_id": "', LONG_LINE[9:]),
        ("import promptfoo BOMB --out out", "a.json.zst", '{"results": {"results": ["', NO_JSON),
        ("import inspect BOMB --out out", "a.eval", '{"id": "', LONG_LINE.replace("line", "file")),
    ],
)
def test_a_file_made_to_fill_memory_does_not(
    tmp_path: Path, command: str, name: str, before: str, message: str
) -> None:
    """A small file of one endless line, element or member is E202 before it is in memory as a
    whole.
    """
    write_bomb(tmp_path / name, before, '"}')
    (tmp_path / "small.jsonl").write_text(f"{ROW}\n", encoding="utf-8")
    with Forked(
        [name if word == "BOMB" else word for word in command.split()],
        first=PRINT_PEAK,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
    ) as process:
        out, err = process.communicate(timeout=1200)
    assert process.returncode == 2
    assert "error[E202]" in out + err
    assert message in out + err
    assert f"--> {name}" in out + err
    limit = WHOLE_MEGABYTES if ".json." in name else READ_MEGABYTES
    assert int(out.splitlines()[-1]) < limit
