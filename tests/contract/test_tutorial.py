"""The tutorial, pasted block by block into one folder, as a reader would."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.forked import COMMAND, Forked

from .documents import FENCE, ROOT, follow_python

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


def test_the_tutorial_works_as_it_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block ends well in the folder that the blocks above it left, and prints what the page shows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "answerkey").write_text(COMMAND, encoding="utf-8")
    (tmp_path / "bin" / "answerkey").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    output = ""
    problems = []
    kinds = []
    for kind, text in FENCE.findall(PAGE):
        kinds.append(kind)
        if kind == "sh":
            output = paste(text)
        elif kind == "text":
            printed = output.splitlines()
            problems += [f"not printed: {line!r}" for line in text.splitlines() if line not in printed]
        elif kind == "json":
            replies = (tmp_path / "my-project" / "replies.jsonl").read_text(encoding="utf-8")
            problems += [] if replies.startswith(text) else [f"the file does not begin with {text!r}"]
        elif kind == "python":
            problems += follow_python(text, {})
    assert problems == []
    assert set(kinds) == {"sh", "text", "json", "python"}
    named = re.findall(r"^\| `([\w.]+)` \|", PAGE, re.MULTILINE)
    assert [name for name in named if not (tmp_path / "my-project" / name).is_file()] == []
    assert len(named) == 5


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
    return done.stdout
