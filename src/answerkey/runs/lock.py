"""The lock of a run folder: one process at a time, and a dead one holds nothing."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from answerkey.errors import Place, RunError

LOCK_NAME = "lock"


class RunLock:
    """The lock on a run folder, held until `release`, or until the process ends in whatever way.

    The operating system holds it, on the file `lock`; the number of the process in that file is for people.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / LOCK_NAME
        self._handle: int | None = self._take()

    @property
    def is_held(self) -> bool:
        """Whether the lock has not been released yet."""
        return self._handle is not None

    def release(self) -> None:
        """Let the folder go and remove the lock file; a second call does nothing."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            with suppress(OSError):  # the file may have to stay; without its holder it locks nothing
                self._file.unlink(missing_ok=True)
            os.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _take(self) -> int:
        while True:
            try:
                handle = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as error:
                raise self._fail(error) from error
            try:
                is_ours = self._hold(handle)
            except BaseException:
                os.close(handle)
                raise
            if is_ours:
                return handle
            os.close(handle)

    def _hold(self, handle: int) -> bool:
        """Return whether the folder is ours now; E506 when it is another's.

        It is neither when the holder removed the file between our opening and our locking it.
        """
        try:
            if not _try_lock(handle):
                raise _refuse(self._file, handle)
            if not _is_same_file(handle, self._file):
                return False
            _write_pid(handle)
        except OSError as error:
            raise self._fail(error) from error
        return True

    def _fail(self, error: OSError) -> RunError:
        return RunError(
            "E502",
            f"cannot lock `{self._file.parent}`: {error}",
            where=Place(file=str(self._file)),
            hint="check the free space and the rights of the folder",
        )


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


def _is_same_file(handle: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), file.stat())
    except FileNotFoundError:
        return False


def _write_pid(handle: int) -> None:
    os.ftruncate(handle, 0)
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, f"{os.getpid()}\n".encode())


def _refuse(file: Path, handle: int) -> RunError:
    os.lseek(handle, 0, os.SEEK_SET)
    pid = os.read(handle, 20).decode("ascii", "replace").strip()
    who = f"process {pid}" if pid.isdecimal() else "another process"
    return RunError(
        "E506",
        f"`{file.parent}` is in use by {who}",
        where=Place(file=str(file)),
        hint="wait until that process is done, or stop it and then use `answerkey resume`",
    )
