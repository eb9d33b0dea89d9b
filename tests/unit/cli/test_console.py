from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from answerkey.cli.console import wants_colour, write_lines
from answerkey.text import Span, line


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


@pytest.mark.parametrize(
    ("settings", "stream", "coloured"),
    [
        ({}, Terminal(), True),
        ({}, io.StringIO(), False),
        ({"NO_COLOR": "1"}, Terminal(), False),
        ({"FORCE_COLOR": "1"}, io.StringIO(), True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, Terminal(), False),
        ({"TERM": "dumb"}, Terminal(), False),
        ({"NO_COLOR": ""}, Terminal(), True),
    ],
)
def test_colour_is_for_those_who_look(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], stream: io.StringIO, *, coloured: bool
) -> None:
    """A terminal gets colour, a file does not; `NO_COLOR` wins over `FORCE_COLOR`."""
    monkeypatch.setenv("TERM", "xterm")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(stream) is coloured


def test_colour_changes_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coloured output is the plain output with escapes around it; data is never read as markup."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    write_lines([line(Span("bad", "bad"), " [red]news[/red] :smile:  ")], stream)
    assert stream.getvalue() == "\x1b[1;31mbad\x1b[0m [red]news[/red] :smile:\n"


def test_long_lines_are_left_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line break is put into a long line, coloured or not."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    write_lines([line("word " * 60 + "end")], stream)
    assert stream.getvalue().count("\n") == 1


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_poor_encoding_does_not_end_the_command(project: Path, encoding: str) -> None:
    """What the terminal cannot show is written out, and `--json` stays JSON."""
    import json

    rows = project / "rows.jsonl"
    rows.write_text('{"answer": "A", "completion": "😀 答え"}\n', encoding="utf-8")
    command = [sys.executable, "-m", "answerkey", "score", "small/task.yaml", "--dataset", "small/rows.jsonl"]
    environment = {"PYTHONIOENCODING": encoding}
    plain = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "\\U0001f600" in plain.stdout
    told = subprocess.run([*command, "--json"], env=environment, capture_output=True, text=True, check=True)
    example = json.loads(told.stdout)["tasks"][0]["tally"]["invalid"]["NOT_A_CHOICE"]["example"]
    assert example["completion"] == "😀 答え"
