"""Laws of what reaches a terminal: nothing in the data is obeyed, hides itself or is markup."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from answerkey.cli import main
from answerkey.text import make_visible

#: A cleared screen, another title, a hyperlink, the 8-bit forms, turned text, rich's own markup, line ends.
HOSTILE = (
    "\x1b[2J\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\x9b31m\x9d0;t\x9c\u202eevil\u2066\u200e"
    "\u2028\u2029\x08\x7f\r\tx [bold red]markup[/] :smile: [link=http://x]y[/link]"
)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
MARKUP = "[bold red]markup[/] :smile: [link=http://x]y[/link]"


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        """Say so."""
        return True


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Return a folder with a project in which every text would like to command a terminal, and two runs."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    scorer = {
        "type": "string_equals_mcqa",
        "ground_truth_choice": "{{ sample.answer }}",
        "choices": ["A", "B"],
        "display_name": HOSTILE,
        "metrics": [{"type": "mean", "field": "is_correct", "name": HOSTILE, "group_by": "category"}],
    }
    task = {"key": "t", "display_name": HOSTILE, "description": HOSTILE, "definition": {"scorers": [scorer]}}
    (folder / "task.yaml").write_text(json.dumps(task))
    rows = [
        {"sample_id": f"{HOSTILE}{place}", "answer": "AB"[place % 2], "category": HOSTILE, HOSTILE: HOSTILE}
        for place in range(4)
    ]
    said = [{**row, "completion": HOSTILE if place else "A"} for place, row in enumerate(rows)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in said))
    for name in ("one", "two"):
        words = ["score", str(folder / "task.yaml"), "--dataset", str(folder / "rows.jsonl"), "-q"]
        assert main([*words, "--out", str(folder / f"{name}\x1b[31m\u202e")]) == 0
    return folder


def find_runs(folder: Path) -> list[str]:
    """Return the two runs, by their paths."""
    return sorted(str(path.parent) for path in folder.glob("*/run.json"))


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "score": lambda folder: ["score", str(folder / "task.yaml"), "--dataset", str(folder / "rows.jsonl")],
    "check": lambda folder: ["check", str(folder / "task.yaml"), "--dataset", str(folder / "rows.jsonl")],
    "show": lambda folder: ["show", find_runs(folder)[0], "-v"],
    "markdown": lambda folder: ["show", find_runs(folder)[0], "--format", "markdown"],
    "json": lambda folder: ["show", find_runs(folder)[0], "--json"],
    "explain": lambda folder: ["explain", find_runs(folder)[0], f"{HOSTILE}1"],
    "audit": lambda folder: ["audit", find_runs(folder)[0]],
    "compare": lambda folder: ["compare", *find_runs(folder)],
    "runs": lambda folder: ["runs", str(folder)],
    "jsonl": lambda folder: ["export", find_runs(folder)[0]],
    "csv": lambda folder: ["export", find_runs(folder)[0], "--to", "csv"],
    "audit-dataset": lambda folder: ["audit-dataset", str(folder / "rows.jsonl")],
    "no such run": lambda folder: ["show", str(folder / HOSTILE)],
    "no such command": lambda _: [HOSTILE],
    "no such option": lambda folder: ["show", find_runs(folder)[0], f"--{HOSTILE}"],
}


@pytest.mark.parametrize("colour", ["NO_COLOR", "FORCE_COLOR"])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_text_from_data_commands_a_terminal(
    hostile: Path, monkeypatch: pytest.MonkeyPatch, name: str, colour: str
) -> None:
    """Whatever the command and the colour, what is printed holds no hidden character; markup is only text."""
    words = COMMANDS[name](hostile)
    terminal, said = Terminal(), io.StringIO()  # no terminal for stderr: progress would move its cursor
    monkeypatch.setenv(colour, "1")
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setattr("sys.stderr", said)
    main(words)
    printed = COLOUR.sub("", terminal.getvalue() + said.getvalue())
    assert printed
    assert [line for line in printed.split("\n") if make_visible(line) != line] == []


def test_markup_is_printed_as_it_stands(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich's own marks, emoji names and links are text like any other."""
    terminal = Terminal()
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("sys.stdout", terminal)
    main(["explain", find_runs(hostile)[0], f"{HOSTILE}1"])
    assert MARKUP in COLOUR.sub("", terminal.getvalue())
