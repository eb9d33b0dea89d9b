from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from answerkey.errors import DataError, Problems, SolverError, SpecError
from answerkey.evaluate import runner

Call = Callable[..., Any]


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
    monkeypatch.setattr(runner, "run", raising(error))
    assert call("run", "x").code == code


def test_several_errors_are_shown_together(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are on stderr, and both in the JSON object."""
    both = Problems([SpecError("E107", "unknown key `x`"), DataError("E206", "no column `y`")])
    monkeypatch.setattr(runner, "run", raising(both))
    assert call("run", "x").err == "error[E107]: unknown key `x`\n\nerror[E206]: no column `y`\n"
    assert [one["code"] for one in call("run", "x", "--json").json["errors"]] == ["E107", "E206"]


def test_a_bug_of_ours_is_words_and_a_traceback_only_on_demand(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E901 asks for a report; the traceback comes with `-v`, wherever it stands."""
    monkeypatch.setattr(runner, "run", raising(ZeroDivisionError("division by zero")))
    short = call("run", "x").err
    assert short.startswith(
        "error[E901]: a bug in answerkey: ZeroDivisionError: division by zero\n  = help: "
    )
    assert "Traceback" not in short
    assert "Traceback" in call("-v", "run", "x").err
    assert "Traceback" in call("run", "x", "--verbose").err
    assert call("run", "x", "--json").json["error"]["code"] == "E901"


def test_a_reader_that_goes_away_is_no_failure(run_folder: Path) -> None:
    """`answerkey export … | head -0` ends quietly with exit code 0."""
    command = [sys.executable, "-m", "answerkey", "export", str(run_folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
