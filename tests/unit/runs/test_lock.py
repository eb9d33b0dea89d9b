"""Laws of the locks of runs: on a folder, and on object storage."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from answerkey.datasets import storage
from answerkey.errors import RunError
from answerkey.runs import lock as locks
from answerkey.runs.lock import FolderLock, ObjectLock

if TYPE_CHECKING:
    from tests.unit.conftest import Bucket

HOLD = (
    "import sys; from pathlib import Path; from answerkey.runs.lock import FolderLock;"
    "lock = FolderLock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
)


@contextmanager
def hold(folder: Path) -> Iterator[int]:
    """Yield the number of a process that holds the lock of a folder, and kill it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def test_a_second_process_is_refused_by_number(tmp_path: Path) -> None:
    """E506 names the process that holds the folder.

    A killed one holds nothing, though its file stays.
    """
    with hold(tmp_path) as pid, pytest.raises(RunError, match=f"E506.*is in use by process {pid}"):
        FolderLock(tmp_path)
    assert (tmp_path / "lock").exists()
    with closing(FolderLock(tmp_path)) as lock:
        assert lock.is_held


def test_a_released_lock_leaves_no_file(tmp_path: Path) -> None:
    """The same process is refused as well, until the lock is released.

    Releasing twice does no harm.
    """
    lock = FolderLock(tmp_path)
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    with pytest.raises(RunError, match=f"in use by process {os.getpid()}"):
        FolderLock(tmp_path)
    lock.close()
    lock.close()
    assert (lock.is_held, list(tmp_path.iterdir())) == (False, [])
    FolderLock(tmp_path).close()


def test_a_file_that_was_removed_meanwhile_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock on a file that the last holder has just removed counts for nothing: it is taken
    again.
    """
    flock, tries = fcntl.flock, list[int]()

    def remove_first(handle: int, operation: int) -> None:
        if not tries:
            (tmp_path / "lock").unlink()
        tries.append(handle)
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with closing(FolderLock(tmp_path)):
        assert (len(tries), (tmp_path / "lock").exists()) == (2, True)


def test_a_folder_that_cannot_be_made_cannot_be_locked(tmp_path: Path) -> None:
    """E502 says which."""
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"E502.*cannot lock"):
        FolderLock(tmp_path / "file" / "run")


@pytest.mark.parametrize("has_conditions", [True, False])
def test_one_process_at_a_time_on_object_storage(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_conditions: bool
) -> None:
    """A second one is refused (E506), also where the store cannot write under a condition."""

    def put(url: str, content: bytes, *, in_place_of: str | None) -> str | None:
        del in_place_of
        storage.put_object(url, content)
        stored = storage.find_object(url)
        return stored.mark if stored else None

    if not has_conditions:
        monkeypatch.setattr(locks, "put_new", put)
    url = f"{bucket.url}/runs/one"
    lock = ObjectLock(url, tmp_path / "here")
    for home in ("here", "elsewhere"):
        with pytest.raises(RunError, match=r"E506.*is in use by process"):
            ObjectLock(url, tmp_path / home)
    lock.close()
    lock.close()
    assert (bucket.list(), list(tmp_path.iterdir())) == ([], [])


def test_a_holder_that_is_gone_holds_nothing(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was silent for long, a dead process of this machine, nonsense.

    One taken over stops.
    """
    silent = {"host": "elsewhere", "process": 1, "token": "t", "beat_at": 0}
    dead = {**silent, "token": "ours", "beat_at": time.time()}
    url, home = f"{bucket.url}/runs/one", tmp_path / "home"
    for left in (json.dumps(silent), json.dumps(dead), "nonsense"):
        bucket.put("runs/one/lock", left.encode())
        home.mkdir()
        (home / "holder").write_text("ours")
        ObjectLock(url, home).close()
    bucket.put("runs/one/lock", json.dumps(dead).encode())
    with pytest.raises(RunError, match="E506"):
        ObjectLock(url, home)
    bucket.put("runs/one/lock", b"")
    has_beaten = threading.Event()

    def put(url: str, content: bytes) -> None:
        storage.put_object(url, content)
        has_beaten.set()

    monkeypatch.setattr(locks, "BEAT", 0.01)
    monkeypatch.setattr(locks, "put_object", put)
    held = ObjectLock(url, home)
    assert has_beaten.wait(300)  # it is written again and again while it is held
    held.require_held()
    bucket.put("runs/one/lock", json.dumps(silent).encode())
    held._thread.join(10)
    with pytest.raises(RunError, match="taken over"):
        held.require_held()
    held.close()
    assert bucket.list() == ["runs/one/lock"]
