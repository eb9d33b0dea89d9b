"""Laws of the lock of a run folder."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from answerkey.errors import RunError
from answerkey.runs.lock import FolderLock

HOLD = (
    "import sys; from pathlib import Path; from answerkey.runs.lock import FolderLock;"
    "lock = FolderLock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
)


def hold(folder: Path) -> subprocess.Popen[str]:
    """Return a process that holds the lock of a folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    """Kill a process and close its pipes."""
    process.kill()
    process.communicate()


def test_a_second_process_is_refused_by_number(tmp_path: Path) -> None:
    """E506 names the process that holds the folder."""
    process = hold(tmp_path)
    try:
        with pytest.raises(RunError, match=f"is in use by process {process.pid}") as caught:
            FolderLock(tmp_path)
        assert caught.value.code == "E506"
    finally:
        end(process)


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    """The lock file that it leaves behind is no lock."""
    end(hold(tmp_path))
    assert (tmp_path / "lock").exists()
    with closing(FolderLock(tmp_path)) as lock:
        assert lock.is_held


def test_the_same_process_is_refused_too(tmp_path: Path) -> None:
    """Two runs in one process cannot share a folder either."""
    with closing(FolderLock(tmp_path)), pytest.raises(RunError, match=f"in use by process {os.getpid()}"):
        FolderLock(tmp_path)


def test_a_released_lock_leaves_no_file(tmp_path: Path) -> None:
    """After release the folder is as before and can be locked again; releasing twice does no harm."""
    lock = FolderLock(tmp_path)
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    lock.close()
    lock.close()
    assert not lock.is_held
    assert list(tmp_path.iterdir()) == []
    FolderLock(tmp_path).close()


def test_a_file_that_was_removed_meanwhile_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock on a file that the last holder has just removed counts for nothing: it is taken again."""
    from answerkey.runs import lock as module

    locked = module._try_lock
    tries: list[int] = []

    def remove_first(handle: int) -> bool:
        if not tries:
            (tmp_path / "lock").unlink()
        tries.append(handle)
        return locked(handle)

    monkeypatch.setattr(module, "_try_lock", remove_first)
    with closing(FolderLock(tmp_path)):
        assert len(tries) == 2
        assert (tmp_path / "lock").exists()


def test_a_folder_that_is_not_there_cannot_be_locked(tmp_path: Path) -> None:
    """E502 says which."""
    with pytest.raises(RunError, match="cannot lock") as caught:
        FolderLock(tmp_path / "nowhere")
    assert caught.value.code == "E502"
