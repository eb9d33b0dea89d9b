from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from answerkey.cli.options import BUILTIN, PROVIDERS
from answerkey.models.builtin import BUILTIN_MODELS
from answerkey.models.config import PROVIDERS as KNOWN
from answerkey.spec.ready_made import list_ready_made


def complete(*words: str, folder: Path) -> list[str]:
    """Return what a shell is offered for the last of these words."""
    environment = {
        **os.environ,
        "_ANSWERKEY_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["answerkey", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        [sys.executable, "-m", "answerkey"],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("ru",), ["run", "runs"]),
        (("run", "mm"), ["mmlu", "mmlu_pro", "mm"]),
        (("tasks", "jc"), ["jcommonsenseqa"]),
        (("run", "x", "--model", "builtin/s"), ["builtin/simulated"]),
        (("show", "l"), ["latest", "l"]),
        (("check", "--pla"), ["--plan"]),
    ],
)
def test_the_shell_is_offered_what_fits(tmp_path: Path, words: tuple[str, ...], offered: list[str]) -> None:
    """Commands, ready-made tasks, models, runs, options; files where a file may be meant."""
    (tmp_path / "runs" / "first").mkdir(parents=True)
    (tmp_path / "runs" / "first" / "run.json").write_text("{}")
    assert complete(*words, folder=tmp_path) == offered


def test_a_shell_gets_its_script(tmp_path: Path) -> None:
    """As the page on completion says."""
    environment = {**os.environ, "_ANSWERKEY_COMPLETE": "zsh_source"}
    done = subprocess.run(
        [sys.executable, "-m", "answerkey"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "#compdef answerkey" in done.stdout


def test_what_is_written_out_is_what_there_is() -> None:
    """The names that completion offers without importing the models are those of the models."""
    assert set(PROVIDERS) == set(KNOWN)
    assert set(BUILTIN) == set(BUILTIN_MODELS)
    assert list_ready_made()
