"""What the operating system refuses is reported as that, and no file is half written."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.forked import Forked
from tests.processes import run_python
from tests.projects import SCORER, describe_live_task, describe_solver, describe_task, write_run

TASK = describe_task(dataset={"key": "rows"}, scorers=[SCORER])
Call = Callable[..., Any]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with a task and one row."""
    (tmp_path / "task.yaml").write_text(json.dumps(TASK))
    (tmp_path / "rows.jsonl").write_text('{"answer": "A", "completion": "A", "category": "x"}\n')
    return tmp_path


def words(project: Path, *more: str) -> list[str]:
    """Return the words of a command that scores the project."""
    return ["score", str(project / "task.yaml"), "--dataset", str(project / "rows.jsonl"), *more]


def test_a_full_standard_output_is_an_error_and_no_bug(project: Path) -> None:
    """Writing the summary to a full device is E502, exit 2."""
    with Path("/dev/full").open("w") as full:
        command = words(project, "--out", str(project / "run"))
        done = run_python("-m", "answerkey", *command, stdout=full)
    assert done.returncode == 2
    assert "error[E502]: cannot write: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("out", ["x" * 300, "rows.jsonl", "rows.jsonl/run"])
def test_a_folder_that_cannot_be_created_is_an_error(
    project: Path, out: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is too long, a file in the way: E502, exit 2, and the file is as it was."""
    monkeypatch.chdir(project)
    before = (project / "rows.jsonl").read_text()
    called = call(*words(project, "--out", out))
    assert called.code == 2
    assert "error[E502]" in called.err
    assert (project / "rows.jsonl").read_text() == before


@pytest.mark.parametrize("more", [(), ("--copy",)])
def test_a_full_disk_leaves_no_half_file(project: Path, call: Call, more: tuple[str, ...]) -> None:
    """When scores cannot be written the command ends with E502, and no part stands under its name.

    The run folder says how far it came, and `resume` goes on when there is room again.
    """
    write_bytes = Path.write_bytes

    def fail(path: Path, content: bytes) -> int:
        if ".parquet" in path.name:
            raise OSError(28, "No space left on device")
        return write_bytes(path, content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "write_bytes", fail)
        called = call(*words(project, "--out", str(project / "run"), *more))
    assert called.code == 2
    assert "No space left on device" in called.err
    assert list((project / "run").rglob("*.parquet")) == []
    assert json.loads((project / "run" / "run.json").read_text())["status"] == "running"
    assert f"answerkey resume {project / 'run'}" in called.err
    assert call("resume", str(project / "run")).code == 0
    assert json.loads((project / "run" / "run.json").read_text())["status"] == "complete"


NO_ROOM = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
"""


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("export done --to parquet -o FILE", "rows.parquet"),
        ("export-prompts asked.yaml --dataset rows.jsonl -o FILE", "prompts.parquet"),
        ("export-prompts asked.yaml --dataset rows.jsonl -o FILE", "prompts.csv"),
        ("show done --summary FILE", "summary.md"),
    ],
)
def test_a_file_without_room_is_an_error_and_is_not_left_behind(
    project: Path,
    call: Call,
    command: str,
    file: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """E502 names the file, and nothing of it is there."""
    monkeypatch.chdir(project)
    task = describe_live_task(solver=describe_solver("{{ sample.category }}"))
    Path("asked.yaml").write_text(json.dumps(task))
    assert call(*words(project, "--out", "done")).code == 0
    before = sorted(path.name for path in project.iterdir())
    arguments = command.replace("FILE", file).split()
    with Forked(
        arguments, first=NO_ROOM, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        _, err = process.communicate()
    assert process.returncode == 2
    assert f"error[E502]: cannot write `{file}`: " in err
    assert sorted(path.name for path in project.iterdir()) == before


def test_check_finds_that_a_column_to_stratify_by_is_missing(project: Path, call: Call) -> None:
    """`check` finds what selecting rows would refuse."""
    selection = {"num_samples": 1, "subsampling": "random", "stratify_by": "categry"}
    write_run(project, [], task=TASK, run_config=selection)
    called = call("check", project)
    assert called.code == 2
    assert "`stratify_by` names the column `categry`" in called.out
    assert "did you mean `category`?" in called.out
