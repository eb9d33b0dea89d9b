"""Laws of what reaches a terminal: data is not obeyed, errors are words, progress is fit for who
looks.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, cast

import pytest
from rich.console import Console
from tests.forked import Forked
from tests.projects import SCORER, write_rows

from answerkey.cli import main
from answerkey.cli.console import BlockDisplay, wants_colour, write_lines
from answerkey.errors import DataError, Problems, SolverError, SpecError
from answerkey.evaluate import run as evaluate_run
from answerkey.evaluate.observer import CallProgress, Observer
from answerkey.testing import Behaviour, TestServer
from answerkey.text import Line, Span, make_visible

from .conftest import Call, Terminal

#: A cleared screen, another title, a hyperlink, the 8-bit forms, turned text, rich's own markup,
#: line ends.
HOSTILE = (
    "\x1b[2J\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\x9b31m\x9d0;t\x9c\u202eevil\u2066\u200e"
    "\u2028\u2029\x08\x7f\r\tx [bold red]markup[/] :smile: [link=http://x]y[/link]"
)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
MARKUP = "[bold red]markup[/] :smile: [link=http://x]y[/link]"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a project in which every text would like to command a terminal, and two
    runs.
    """
    folder = tmp_path_factory.mktemp("hostile")
    scorer = {
        **SCORER,
        "display_name": HOSTILE,
        "metrics": [
            {"type": "mean", "field": "is_correct", "name": HOSTILE, "group_by": "category"}
        ],
    }
    task = {
        "key": "t",
        "display_name": HOSTILE,
        "description": HOSTILE,
        "definition": {"scorers": [scorer]},
    }
    (folder / "task.yaml").write_text(json.dumps(task))
    rows = [
        {
            "sample_id": f"{HOSTILE}{place}",
            "answer": "AB"[place % 2],
            "category": HOSTILE,
            HOSTILE: HOSTILE,
        }
        for place in range(4)
    ]
    answered = [{**row, "completion": HOSTILE if place else "A"} for place, row in enumerate(rows)]
    write_rows(folder / "rows.jsonl", answered)
    for name in ("one", "two"):
        words = ["score", str(folder / "task.yaml"), "--dataset", str(folder / "rows.jsonl"), "-q"]
        assert main([*words, "--out", str(folder / f"{name}\x1b[31m\u202e")]) == 0
    return folder


COMMANDS = {
    "score": "score TASK --dataset ROWS",
    "check": "check TASK --dataset ROWS",
    "show": "show ONE -v",
    "markdown": "show ONE --format markdown",
    "json": "show ONE --json",
    "explain": "explain ONE HOSTILE1",
    "audit": "audit ONE",
    "compare": "compare ONE TWO",
    "runs": "runs FOLDER",
    "jsonl": "export ONE",
    "csv": "export ONE --to csv",
    "audit-dataset": "audit-dataset ROWS",
    "no such run": "show FOLDER/HOSTILE",
    "no such command": "HOSTILE",
    "no such option": "show ONE --HOSTILE",
}


def name_words(folder: Path, command: str) -> list[str]:
    """Return the words of a command, with the paths of the project and its two runs."""
    first, two = sorted(str(path.parent) for path in folder.glob("*/run.json"))
    names = {"TASK": f"{folder}/task.yaml", "ROWS": f"{folder}/rows.jsonl", "FOLDER": f"{folder}"}
    names |= {"ONE": first, "TWO": two, "HOSTILE": HOSTILE}
    return [re.sub("[A-Z]+", lambda name: names[name[0]], word) for word in command.split()]


@pytest.mark.parametrize("colour", ["NO_COLOR", "FORCE_COLOR"])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_text_from_data_commands_a_terminal(
    hostile: Path, monkeypatch: pytest.MonkeyPatch, name: str, colour: str
) -> None:
    """Whatever the command and the colour, what is printed holds no hidden character.

    Markup is only text.
    """
    words = name_words(hostile, COMMANDS[name])
    terminal = Terminal()
    errors = io.StringIO()  # no terminal for stderr: progress would move its cursor
    monkeypatch.setenv(colour, "1")
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setattr("sys.stderr", errors)
    main(words)
    printed = COLOUR.sub("", terminal.getvalue() + errors.getvalue())
    assert printed
    assert [line for line in printed.split("\n") if make_visible(line) != line] == []


def test_markup_is_printed_as_it_stands(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich's own marks, emoji names and links are text like any other."""
    terminal = Terminal()
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("sys.stdout", terminal)
    main(name_words(hostile, COMMANDS["explain"]))
    assert MARKUP in COLOUR.sub("", terminal.getvalue())


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
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    stream: io.StringIO,
    *,
    coloured: bool,
) -> None:
    """A terminal gets colour, a file does not; `NO_COLOR` wins over `FORCE_COLOR`."""
    monkeypatch.setenv("TERM", "xterm")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(stream) is coloured


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (
            (Span("bad", "bad"), " [red]news[/red] :smile:  "),
            "\x1b[1;31mbad\x1b[0m [red]news[/red] :smile:\n",
        ),
        ("word " * 60 + "end", "word " * 60 + "end\n"),
    ],
)
def test_colour_changes_no_text(monkeypatch: pytest.MonkeyPatch, written: Line, shown: str) -> None:
    """Coloured output is the plain output with escapes around it.

    No markup is read, no line is broken.
    """
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    write_lines([written], stream)
    assert stream.getvalue() == shown


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_poor_encoding_does_not_end_the_command(
    project: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    """What the terminal cannot show is written out, and `--json` stays JSON."""
    write_rows(project / "rows.jsonl", [{"answer": "A", "completion": "😀 答え"}])
    printed = []
    for more in ((), ("--json",)):
        screen = io.BytesIO()
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(screen, encoding=encoding))
        assert main(["score", *words, *more]) == 0
        sys.stdout.flush()
        printed.append(screen.getvalue().decode(encoding))
    assert "\\U0001f600" in printed[0]
    example = json.loads(printed[1])["tasks"][0]["tally"]["invalid"]["NOT_A_CHOICE"]["example"]
    assert example["completion"] == "😀 答え"


def raising(error: BaseException) -> Callable[..., NoReturn]:
    """Return a function that raises."""

    def fail(*_args: object, **_options: object) -> NoReturn:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SpecError("E107", "unknown key `x`"), 2),
        (SolverError("E302", "no prompt"), 3),
        (Problems([SpecError("E107", "a"), SolverError("E302", "b")]), 3),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("division by zero"), 70),
    ],
)
def test_every_trouble_has_its_exit_code(
    call: Call, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    """The exit code tells what kind of trouble it was."""
    monkeypatch.setattr(evaluate_run, "read_plan", raising(error))
    assert call("run", "x").code == code


def test_several_errors_are_shown_together(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are on stderr, and both in the JSON object."""
    problems = Problems([SpecError("E107", "unknown key `x`"), DataError("E206", "no column `y`")])
    monkeypatch.setattr(evaluate_run, "read_plan", raising(problems))
    assert call("run", "x").err == "error[E107]: unknown key `x`\n\nerror[E206]: no column `y`\n"
    assert [row["code"] for row in call("run", "x", "--json").json["errors"]] == ["E107", "E206"]


def test_our_bugs_show_tracebacks_on_demand(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """E901 asks for a report; the traceback comes with `-v`, wherever it stands."""
    monkeypatch.setattr(evaluate_run, "read_plan", raising(ZeroDivisionError("division by zero")))
    short = call("run", "x").err
    assert short.startswith(
        "error[E901]: a bug in answerkey: ZeroDivisionError: division by zero\n  = help: "
    )
    assert "Traceback" not in short
    assert "Traceback" in call("-v", "run", "x").err
    assert "Traceback" in call("run", "x", "--verbose").err
    assert call("run", "x", "--json").json["errors"][0]["code"] == "E901"


def test_a_reader_that_goes_away_is_no_failure(run_folder: Path) -> None:
    """`answerkey export … | head -0` ends quietly with exit code 0."""
    command = [sys.executable, "-m", "answerkey", "export", str(run_folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("colour", "command", "code"),
    [
        ("NO_COLOR", "run rows.jsonl --model MODEL --out made", 3),
        ("FORCE_COLOR", "run rows.jsonl --model MODEL --out made --json -q", 3),
        ("FORCE_COLOR", "run rows.jsonl --model builtin/random --fail-under 0.9", 1),
        ("NO_COLOR", "show done", 1),
        ("NO_COLOR", "show done --format markdown", 1),
        ("FORCE_COLOR", "show nothing", 2),
        ("NO_COLOR", "nothing", 2),
        ("NO_COLOR", "export done", 0),
        ("NO_COLOR", "--help", 0),
    ],
)
def test_the_exit_code_is_true_though_nobody_reads(
    colour: str, command: str, code: int, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`answerkey run … 2>&1 | head -3` exits with 3, 1 or 2 as it would without the pipe."""
    monkeypatch.setenv(colour, "1")
    rows = [{"question": f"{n}?", "options": ["x", "y"], "answer": "AB"[n % 2]} for n in range(20)]
    write_rows(Path("rows.jsonl"), rows)
    if "done" in command:
        made = "run rows.jsonl --model builtin/random --fail-under 0.9 --out done"
        assert call(*made.split()).code == 1
    with TestServer("A", Behaviour(faults={"400": 0.5}, faulty_attempts=None)) as server:
        words = command.replace("MODEL", f"{server.url}#m").split()
        reading, writing = os.pipe()
        os.close(reading)
        try:
            with Forked(words, stdout=writing, stderr=writing) as process:
                assert process.wait() == code
        finally:
            os.close(writing)


def test_a_command_whose_streams_are_closed_ends_as_usual() -> None:
    """`answerkey show nothing >&- 2>&-` is not reported as a bug: exit code 2."""
    command = f"{sys.executable} -m answerkey show nothing <&- >&- 2>&-"
    assert subprocess.run(command, shell=True, check=False).returncode == 2  # noqa: S602 - of ours


@dataclass
class Scene:
    """A task that can be moved on by hand."""

    done: int = 0

    @property
    def solved(self) -> int:
        """How many calls of the solver are done."""
        return self.done

    def look(self) -> CallProgress:
        """Return how far the task is."""
        return CallProgress("mmlu", "solve", self.done, 100)


RUNS = [("http://127.0.0.1/v1#m", 100), ("builtin/random", 0), ("lost", 100)]


def test_several_runs_are_a_block_of_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar for each run, and how fast and how right it is; none is wider than the terminal."""
    going = CallProgress("mmlu", "solve", 50, 100, retried=2, pace=5.0, seconds_left=10.0)
    judging = CallProgress("mmlu", "judge:x", 7, 100, pace=2.0, seconds_left=46.0)
    display = BlockDisplay(Console(file=io.StringIO(), width=90))
    for (name, total), progress in zip(RUNS, [going, None, judging], strict=True):
        lane = display.open_run(name, total)
        if progress is not None:
            scene = Scene(done=progress.done)
            monkeypatch.setattr(scene, "look", lambda progress=progress: progress)
            lane.follow(cast("Observer", scene))
    drawn = [row.rstrip() for row in display.draw().plain.splitlines()]
    assert drawn[0] == "m  ━━━━━━━━━━━━────────────  50/100"
    assert drawn[1].startswith("  mmlu, 5.0 requests/s, 0:10 left, ")
    assert drawn[2:4] == ["builtin/random  ────────────────────────  0", "  waiting"]
    assert max(map(len, drawn)) <= 90


def test_the_block_is_the_stage_until_a_model_is_asked() -> None:
    """First the checking, then the task."""
    display = BlockDisplay(Console(file=io.StringIO(), width=80))
    assert display.draw().plain == ""
    display.report("check", 1, 2)
    assert display.draw().plain.startswith("checking  ")
    display.follow(cast("Observer", Scene(done=50)))
    assert "50/100" in display.draw().plain
