"""Pages that are read from top to bottom, pasted block by block into one folder, as a reader
would.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.forked import COMMAND, Forked

from .documents import AS_PRINTED, FENCE, follow_python
from .material import LOGS
from .scripts import Call, read


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder to work in, with the command on the path."""
    monkeypatch.chdir(tmp_path)
    command = tmp_path / "bin" / "answerkey"
    command.parent.mkdir()
    command.write_text(COMMAND, encoding="utf-8")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def read_page(name: str) -> list[tuple[str, str]]:
    """Return the kind and the text of every block of a page."""
    return [(match[1], match[2]) for match in FENCE.finditer(read(name))]


def follow(blocks: list[tuple[str, str]]) -> list[str]:
    """Run blocks one after the other and return the lines of the page that nothing printed."""
    problems = []
    output = ""
    for kind, text in blocks:
        if kind == "sh":
            output = paste(text)
        elif kind == "text":
            printed = output.splitlines()
            problems += [line for line in text.splitlines() if line and line not in printed]
        elif kind == "python":
            problems += follow_python(text, {})
    return problems


def paste(commands: str) -> str:
    """Return what bash prints for the commands of a block; the first that fails ends the test."""
    done = subprocess.run(
        ["bash", "-e", "-c", commands],  # noqa: S607  # whichever the reader has
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        **Forked.share(),
    )
    assert done.returncode == 0, f"{commands}{done.stdout}{done.stderr}"
    return str(done.stdout)


@pytest.mark.parametrize("page", AS_PRINTED)
def test_a_page_can_be_followed(page: str) -> None:
    """Every step works in the folder that the steps above it left, and prints what the page
    shows.
    """
    assert follow(read_page(page)) == []


def test_the_files_of_the_tutorial(folder: Path, call: Call) -> None:
    """`init` writes the files of the page's table, and replies that begin as the page shows."""
    assert call("init", "my-project").code == 0
    (shown,) = [text for kind, text in read_page("docs/tutorial.md") if kind == "json"]
    assert (folder / "my-project" / "replies.jsonl").read_text(encoding="utf-8").startswith(shown)
    files = re.findall(r"^\| `([\w.]+)` \|", read("docs/tutorial.md"), re.MULTILINE)
    assert len(files) == 5
    assert [name for name in files if not (folder / "my-project" / name).is_file()] == []


def test_the_import_of_a_log(folder: Path) -> None:
    """The summary of an imported log compares the two verdicts as the guide shows."""
    (folder / "logs").mkdir()
    shutil.copy(LOGS / "inspect.eval", folder / "logs" / "2026-01-31_mmlu.eval")
    blocks = read_page("docs/guide/import-logs.md")[:2]
    assert [kind for kind, _ in blocks] == ["sh", "text"]
    assert follow(blocks) == []
