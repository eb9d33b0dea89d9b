"""Whole sessions at the terminal, compared letter by letter with what is stored in `sessions/`.

Each file of `sessions/` holds commands and what they gave:

    # project: quickstart, table    folders of `examples/` or of `projects/` are copied first
    # server: "A"                   a model server on loopback replies with this text, at `MODEL`
    # environment: COLUMNS=80       a variable for the commands that follow
    $ answerkey run quickstart      a command; stdout follows, then stderr after `! `
    [exit 2]                        when it is not 0

`pytest tests/golden --renew-goldens` writes the results anew; look at the difference before keeping
it. Numbers (`--json`, tables, exports, metrics) never change by a refactoring. Other commands than
`answerkey` are small readers that need nothing of answerkey: see `READERS`.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from answerkey.cli import app
from answerkey.testing import TestServer

FOLDER = Path(__file__).parent
SESSIONS = sorted((FOLDER / "sessions").glob("*.txt"))
#: Columns and fields whose values depend on the clock.
TIMED = {"latency", "latency_seconds", "seconds", "started_at", "finished_at", "made", "duration"}
#: So do the hashes of listed files that hold times or paths.
TIMED_FILES = (".json", "completions/part-00000.parquet")
BLOCK = re.compile(r'<script type="application/json" id="([^"]+)"([^>]*)>([^<]*)</script>')
#: What differs from one place and time to another, and what stands there in a stored session.
SETTLED = (
    (r' time="[\d.]+"', ' time="0"'),
    (r'"latency": [\d.e-]+', '"latency": "TIMED"'),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d( UTC|Z)?)?", "TIME"),
    (r"(?m)(?<=[ (])[\d,]+(\.\d+)? m?s(?=[ ,;.)]|$)", "N s"),
    (r"\x1b", "ESC"),
    (r'"python": "3\.[\d.]+"', '"python": "3.N"'),
)

Call = Callable[..., Any]
Compare = Callable[[Path, str], None]


def write_json(value: object) -> str:
    """Return a value as indented JSON, without what the clock decides."""
    return json.dumps(without_times(value), indent=1, ensure_ascii=False)


def without_times(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a value without what the clock decides."""
    if isinstance(value, list):
        return [without_times(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    entries = {name: without_times(entry) for name, entry in value.items()}
    for name, entry in value.items():
        if (name in TIMED and entry is not None) or name.endswith(TIMED_FILES):
            entries[name] = "TIMED"
    return entries


def read_text(path: Path) -> str:
    """Return a text file; JSON is indented."""
    text = path.read_text(encoding="utf-8")
    return write_json(json.loads(text)) if path.suffix == ".json" else text


def list_files(path: Path) -> str:
    """Return the files below a folder."""
    files = (file for file in path.rglob("*") if file.is_file())
    return "\n".join(sorted(str(file.relative_to(path)) for file in files))


def read_table(path: Path) -> str:
    """Return the schema and the rows of a Parquet file, or of all that are in a folder."""
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    frame = pl.concat([pl.read_parquet(file) for file in files])
    lines = [f"{name}: {kind}" for name, kind in frame.schema.items()]
    for row in frame.to_dicts():
        lines.append(json.dumps(without_times(row), ensure_ascii=False, default=str))
    return "\n".join(lines)


def read_page(path: Path) -> str:
    """Return the data of a report, block by block, with blocks of samples cut to their first
    two.
    """
    blocks = []
    for name, attributes, text in BLOCK.findall(path.read_text(encoding="utf-8")):
        raw = gzip.decompress(base64.b64decode(text)) if "data-packed" in attributes else text
        content = json.loads(raw)
        content = content[:2] if isinstance(content, list) else content
        blocks.append(f"{name}\n{write_json(content)}")
    return "\n".join(blocks)


READERS: dict[str, Callable[[Path], str]] = {
    "cat": read_text,
    "files": list_files,
    "table": read_table,
    "page": read_page,
}


def run_command(line: str, call: Call, model: str) -> tuple[str, str, int]:
    """Return what a command of a session prints on stdout and stderr, and its exit code."""
    name, *words = shlex.split(line)
    if name in READERS:
        return READERS[name](Path(words[0])), "", 0
    done = call(*(word.replace("MODEL", model) for word in words))
    out = write_json(done.json) if "--json" in words and done.out else done.out
    if words[:1] == ["report"]:  # every change of the page changes its size
        out = re.sub(r'"bytes": \d+', '"bytes": "N"', out)
    return out, done.err, done.code


def show(line: str, out: str, err: str, code: int) -> str:
    """Return a command and its result as a session has them."""
    lines = [line]
    for printed in out.rstrip("\n").splitlines():
        lines.append(f"\\{printed}" if printed.startswith(("# ", "$ ")) else printed)
    for printed in err.rstrip("\n").splitlines():
        lines.append(f"! {printed}".rstrip())
    if code:
        lines.append(f"[exit {code}]")
    return "\n".join(lines)


def settle(text: str, folder: Path, port: int | None) -> str:
    """Return a text without what differs from one place and time to another."""
    text = text.replace(str(folder), "/project")
    if port is not None:
        text = text.replace(f"127.0.0.1:{port}", "127.0.0.1:PORT")
        text = re.sub(r'("identity": )"[0-9a-f]{64}"', r'\1"OF PORT"', text)
    for pattern, replacement in SETTLED:
        text = re.sub(pattern, replacement, text)
    return text


def play(
    lines: list[str], call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Yield the session with the results that its commands have now."""
    model, port = "", None
    with ExitStack() as stack:
        for line in lines:
            kind, _, text = line.partition(": ")
            if kind == "# project":
                for name in text.split(", "):
                    stored = FOLDER / "projects" / name
                    source = stored if stored.exists() else FOLDER.parents[1] / "examples" / name
                    shutil.copytree(source, folder / name)
            elif kind == "# environment":
                name, _, value = text.partition("=")
                monkeypatch.setenv(name, value)
            elif kind == "# server":
                server = stack.enter_context(TestServer(json.loads(text)))
                model, port = f"{server.url}#tiny", server.port
                monkeypatch.setenv("JUDGE_URL", f"{server.url}/chat/completions")
            if not line.startswith("$ "):
                yield line
                continue
            yield settle(show(line, *run_command(line[2:], call, model)), folder, port) + "\n"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder whose path is always as long: tables are laid out around it."""
    with tempfile.TemporaryDirectory(prefix="answerkey-", dir="/tmp") as path:
        yield Path(path)


@pytest.mark.parametrize("file", SESSIONS, ids=lambda file: file.stem)
def test_a_session_gives_what_is_stored(
    file: Path, call: Call, compare: Compare, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command prints the stored text and ends with the stored exit code."""
    monkeypatch.setattr("answerkey.errors._KNOWN", set())  # of tests that ran before
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / ".cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / ".config"))
    stored = file.read_text(encoding="utf-8").splitlines()
    lines = [line for line in stored if line.startswith(("# ", "$ "))]
    compare(file, "\n".join(play(lines, call, folder, monkeypatch)) + "\n")


@pytest.mark.parametrize("name", ["answerkey", *app.commands])
def test_the_help_of_a_command_is_what_is_stored(call: Call, compare: Compare, name: str) -> None:
    """`--help` of the program and of each of its commands, word by word."""
    words = [] if name == "answerkey" else [name]
    compare(FOLDER / "help" / f"{name}.txt", call(*words, "--help").out)
