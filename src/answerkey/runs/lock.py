"""Locks of runs: one process at a time works on a run, and a dead one holds nothing, or not for
long.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path

from answerkey.datasets.storage import find_object, put_new, remove_objects
from answerkey.errors import DataError, Place, RunError

LOCK_NAME = "lock"
#: Seconds between two beats of a lock on object storage, and after which a silent holder counts as
#: gone.
BEAT = 15.0
GONE = 90.0
_MAX_BYTES = 10_000


class RunLock:
    """A lock that is held until `close`; this one, of a run in memory, keeps nobody out."""

    @property
    def is_held(self) -> bool:
        """Whether the lock has not been released yet."""
        return False

    def require_held(self) -> None:
        """Raise E506 when another process has taken the run over."""

    def close(self) -> None:
        """Let the run go; a second call does nothing."""


class FolderLock(RunLock):
    """The lock on a run folder, held until `close`, or until the process ends in whatever way.

    The operating system holds it, on the file `lock`; the number of the process in that file is for
    people.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / LOCK_NAME
        self._handle: int | None = None
        try:
            while self._handle is None:
                self._handle = self._take()
        except OSError as error:
            message = f"cannot lock `{folder}`: {error}"
            hint = "check the free space and the rights of the folder"
            raise RunError("E502", message, where=Place(file=str(self._file)), hint=hint) from error

    @property
    def is_held(self) -> bool:
        """Whether the lock has not been released yet."""
        return self._handle is not None

    def close(self) -> None:
        """Let the folder go and remove the lock file; a second call does nothing."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            with suppress(
                OSError
            ):  # the file may have to stay; without its holder it locks nothing
                self._file.unlink(missing_ok=True)
            os.close(handle)

    def _take(self) -> int | None:
        """Return the locked file; E506 when it is another's.

        None when the holder removed the file between our opening and our locking it.
        """
        handle = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not _try_lock(handle):
                os.lseek(handle, 0, os.SEEK_SET)
                pid = os.read(handle, 20).decode("ascii", "replace").strip()
                who = f"process {pid}" if pid.isdecimal() else "another process"
                hint = "wait until that process is done, or stop it and then use `answerkey resume`"
                message, where = (
                    f"`{self._file.parent}` is in use by {who}",
                    Place(file=str(self._file)),
                )
                raise RunError("E506", message, where=where, hint=hint)  # noqa: TRY301 - the file is closed
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), self._file.stat()):
                    os.ftruncate(handle, 0)
                    os.lseek(handle, 0, os.SEEK_SET)
                    os.write(handle, f"{os.getpid()}\n".encode())
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        return None


if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: int) -> bool:
        os.lseek(handle, 1 << 30, os.SEEK_SET)  # beyond the text, which stays readable
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class ObjectLock(RunLock):
    """The lock on a run on object storage, held until `close`, which closes `after` as well.

    A store holds no lock for a process, so the holder writes the object `lock` anew again and
    again. What has not been written for a while was left behind. Who takes it over then makes the
    old holder, should it still be there, fail at its next beat.
    """

    def __init__(self, url: str) -> None:
        self._url = f"{url}/{LOCK_NAME}"
        self._where = Place(file=self._url)
        self._token = secrets.token_hex(8)
        self._end = threading.Event()
        self._is_lost = False
        self.after = ExitStack()
        held = self._read()
        if held and not _is_left(held):
            raise self._refuse(held)
        found = find_object(self._url)
        mark = put_new(self._url, self._describe(), in_place_of=found.mark if found else None)
        # Whose it is says the lock itself: another may have been quicker, a call may have been
        # tried twice, and a store that knows no conditions has written it in any case.
        held = self._read()
        if held.get("token") != self._token:
            raise self._refuse(held)
        self._mark: str | None = mark or self._find_mark()
        self._thread = threading.Thread(target=self._beat, name="answerkey-lock", daemon=True)
        self._thread.start()

    @property
    def is_held(self) -> bool:
        """Whether the lock has not been released yet."""
        return self._mark is not None

    def require_held(self) -> None:
        """Raise E506 when another process has taken the run over."""
        if self._is_lost:
            message = f"`{self._url.rpartition('/')[0]}` was taken over by another process"
            hint = "this process was not heard of for too long; let the other one finish"
            raise RunError("E506", message, where=self._where, hint=hint)

    def close(self) -> None:
        """Let the run go and remove the lock, if it is still ours; a second call does nothing."""
        if self._mark is None:
            return
        self._end.set()
        self._thread.join()
        self._mark = None
        with suppress(DataError):  # it may have to stay; nobody is heard of any more
            if self._read().get("token") == self._token:
                remove_objects([self._url])
        self.after.close()

    def _beat(self) -> None:
        """Write the lock anew until it is released, or another's."""
        while not self._end.wait(BEAT):
            with suppress(DataError):  # the store may be there again at the next beat
                mark = put_new(self._url, self._describe(), in_place_of=self._mark)
                if mark is None and self._read().get("token") != self._token:
                    self._is_lost = True
                    return
                self._mark = mark or self._find_mark()

    def _find_mark(self) -> str:
        found = find_object(self._url)
        return "" if found is None else found.mark

    def _read(self) -> Mapping[str, object]:
        found = find_object(self._url)
        if found is None or found.size > _MAX_BYTES:
            return {}
        try:
            held = json.loads(found.read(0, found.size))
        except ValueError:
            return {}
        return held if isinstance(held, dict) else {}

    def _describe(self) -> bytes:
        who = {"host": platform.node(), "machine": name_machine(), "process": os.getpid()}
        return json.dumps({**who, "token": self._token, "beat_at": time.time()}).encode()

    def _refuse(self, held: Mapping[str, object]) -> RunError:
        who = (
            f"process {held.get('process')} on `{held.get('host')}`, heard of "
            f"{int(_find_age(held))} s ago"
        )
        message = f"`{self._url.rpartition('/')[0]}` is in use by {who}"
        hint = (
            f"wait until it is done; {GONE:.0f} s after it was last heard of, the run can "
            "be resumed"
        )
        return RunError("E506", message, where=self._where, hint=hint)


def _is_left(held: Mapping[str, object]) -> bool:
    """Return whether a holder is gone: not heard of for long, or a dead process of this machine."""
    process = held.get("process")
    is_ours = held.get("machine") == name_machine() and isinstance(process, int)
    return _find_age(held) > GONE or (is_ours and not is_alive(int(str(process))))


def _find_age(held: Mapping[str, object]) -> float:
    beat = held.get("beat_at")
    return abs(time.time() - float(beat)) if isinstance(beat, int | float) else GONE + 1


def name_machine() -> str:
    """Return a name for where numbers of processes mean the same: this machine since its start."""
    parts = [platform.node(), sys.platform]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


def is_alive(pid: int) -> bool:
    """Return whether there is a process with this number on this machine."""
    if sys.platform == "win32":
        return True  # there is no harmless way to ask
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True
