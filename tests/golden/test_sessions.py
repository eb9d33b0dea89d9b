"""Whole sessions at the terminal, compared letter by letter with what is stored in `sessions/`.

Each file of `sessions/` holds commands and what they gave:

    # project: quickstart, table            folders of `examples/` or of `projects/` that are copied
    # first server: A                             a model server on loopback that replies with this
    # text, at `MODEL`
    $ answerkey run quickstart --out r      a command; stdout follows, then stderr with `! ` before
    each line
    [exit 2]                                when it is not 0

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

from answerkey.testing import Behaviour, TestServer

FOLDER = Path(__file__).parent
EXAMPLES = FOLDER.parents[1] / "examples"
SESSIONS = sorted((FOLDER / "sessions").glob("*.txt"))
#: Columns and fields whose values depend on the clock; so do listed files that hold times or paths.
TIMED = frozenset(
    {"latency", "latency_seconds", "seconds", "started_at", "finished_at", "made", "duration"}
)

Call = Callable[..., Any]


def read_text(path: str) -> str:
    """Return a text file; JSON is indented."""
    text = Path(path).read_text(encoding="utf-8")
    if not path.endswith(".json"):
        return text
    return json.dumps(_without_times(json.loads(text)), indent=1, ensure_ascii=False)


def list_files(path: str) -> str:
    """Return the files below a folder."""
    return "\n".join(
        sorted(str(file.relative_to(path)) for file in Path(path).rglob("*") if file.is_file())
    )


def read_table(path: str) -> str:
    """Return the schema and the rows of a Parquet file, or of all that are in a folder."""
    files = sorted(Path(path).glob("*.parquet")) if Path(path).is_dir() else [Path(path)]
    frame = pl.concat([pl.read_parquet(file) for file in files])
    types = [f"{name}: {kind}" for name, kind in frame.schema.items()]
    rows = [
        json.dumps(_without_times(row), ensure_ascii=False, default=str) for row in frame.to_dicts()
    ]
    return "\n".join([*types, *rows])


def read_page(path: str) -> str:
    """Return the data of a report, block by block, with blocks of samples cut to their first
    two.
    """
    page = Path(path).read_text(encoding="utf-8")
    results = re.findall(
        r'<script type="application/json" id="([^"]+)"([^>]*)>([^<]*)</script>', page
    )
    blocks = []
    for name, attributes, text in results:
        raw = gzip.decompress(base64.b64decode(text)) if "data-packed" in attributes else text
        content = json.loads(raw)
        content = content[:2] if isinstance(content, list) else content
        blocks.append(
            f"{name}\n{json.dumps(_without_times(content), indent=1, ensure_ascii=False)}"
        )
    return "\n".join(blocks)


READERS: dict[str, Callable[[str], str]] = {
    "cat": read_text,
    "files": list_files,
    "table": read_table,
    "page": read_page,
}


def _without_times(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a value without what the clock decides."""
    if isinstance(value, dict):
        return {
            key: "TIMED"
            if (key in TIMED and item is not None)
            or key.endswith((".json", "completions/part-00000.parquet"))
            else _without_times(item)
            for key, item in value.items()
        }
    return [_without_times(item) for item in value] if isinstance(value, list) else value


def _settle(text: str, folder: Path, port: int | None) -> str:
    """Return a text without what differs from one place and time to another."""
    text = text.replace(str(folder), "/project")
    if port is not None:
        text = text.replace(f"127.0.0.1:{port}", "127.0.0.1:PORT")
        text = re.sub(r'("(?:identity)": )"[0-9a-f]{64}"', r'\1"OF PORT"', text)
    text = re.sub(r' time="[\d.]+"', ' time="0"', text)
    text = re.sub(r'"latency": [\d.e-]+', '"latency": "TIMED"', text)
    text = re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d( UTC|Z)?)?", "TIME", text)
    return re.sub(r"(?<=[ (])[\d,]+(\.\d+)? m?s(?=[ ,;.)]|$)", "N s", text, flags=re.MULTILINE)


def _run_command(line: str, call: Call, model: str) -> tuple[str, str, int]:
    name, *words = shlex.split(line)
    if name == "answerkey":
        done = call(*(word.replace("MODEL", model) for word in words))
        out = done.out
        if "--json" in words and done.out:
            out = json.dumps(_without_times(json.loads(done.out)), indent=1, ensure_ascii=False)
        if words[0] == "report":  # every change of the page changes its size
            out = re.sub(r'"bytes": \d+', '"bytes": "N"', out)
        return out, done.err, done.code
    if name == "write":
        Path(words[0]).write_text(words[1].replace("\\n", "\n"), encoding="utf-8")
        return "", "", 0
    if name == "rm":
        Path(words[0]).unlink()
        return "", "", 0
    return READERS[name](words[0]), "", 0


def _play(
    lines: list[str], call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Yield the session with the results that its commands have now."""
    with ExitStack() as stack:
        server = None
        for line in lines:
            if line.startswith("# project:"):
                for name in line.partition(":")[2].replace(",", " ").split():
                    home = FOLDER / "projects" / name
                    shutil.copytree(home if home.exists() else EXAMPLES / name, folder / name)
            elif line.startswith("# server:"):
                answers = json.loads(line.partition(":")[2])
                server = stack.enter_context(TestServer(answers, Behaviour()))
                monkeypatch.setenv("JUDGE_URL", f"{server.url}/chat/completions")
            if not line.startswith("$ "):
                yield line
                continue
            out, err, code = _run_command(line[2:], call, f"{server.url}#tiny" if server else "")
            parts = [
                line,
                *(
                    f"\\{printed}" if printed.startswith(("# ", "$ ")) else printed
                    for printed in out.rstrip("\n").splitlines()
                ),
            ]
            parts += [f"! {printed}".rstrip() for printed in err.rstrip("\n").splitlines()]
            parts += [f"[exit {code}]"] if code else []
            yield _settle("\n".join(parts), folder, server.port if server else None) + "\n"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder whose path is always as long: tables are laid out around it."""
    with tempfile.TemporaryDirectory(prefix="answerkey-", dir="/tmp") as path:
        yield Path(path)


@pytest.mark.parametrize("file", SESSIONS, ids=lambda file: file.stem)
def test_session(
    file: Path,
    request: pytest.FixtureRequest,
    call: Call,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A session gives what is stored."""
    monkeypatch.setattr("answerkey.errors._KNOWN", set())  # of tests that ran before
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / ".cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / ".config"))
    stored = file.read_text(encoding="utf-8")
    lines = [line for line in stored.splitlines() if line.startswith(("# ", "$ "))]
    text = "\n".join(_play(lines, call, folder, monkeypatch)) + "\n"
    if request.config.getoption("--renew-goldens", default=False):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
