"""Locks of runs: one process at a time works on a run, and a dead process loses its lock soon."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import secrets
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from answerkey.datasets.storage import find_object, put_new, put_object, remove_objects
from answerkey.errors import DataError, Place, RunError

LOCK_NAME = "lock"
#: The file with the token of the process of this machine that holds a lock on object storage.
HOLDER_NAME = "holder"
#: The seconds between two heartbeats of a lock on object storage, and the seconds without one after
#: which its holder counts as gone.
BEAT_SECONDS = 15.0
GONE_SECONDS = 90.0
_MAX_BYTES = 10_000
#: The description, in a lock on object storage, of the process that holds it.
Holder = Mapping[str, Any]


def remove_empty(folder: Path) -> None:
    """Remove a folder, unless something is in it, such as a journal that is still needed."""
    with suppress(OSError):
        folder.rmdir()


class RunLock:
    """A lock that is held until `close`; this base class, for runs in memory, locks nothing."""

    is_held = False

    def require_held(self) -> None:
        """Raise E506 if another process has taken over the run."""

    def close(self) -> None:
        """Release the run; a second call does nothing."""


class FolderLock(RunLock):
    """The lock on a run folder, held until `close` or until the process ends.

    The operating system holds it, on the file `lock`; the process number in that file is for
    people.
    """

    def __init__(self, folder: Path, mode: int = 0o777) -> None:
        self._file = folder / LOCK_NAME
        self._handle = -1
        try:
            folder.mkdir(mode, parents=True, exist_ok=True)
            while not self.is_held:
                self._take()
        except OSError as error:
            place = Place(file=str(self._file))
            message = f"cannot lock `{folder}`: {error}"
            hint = "check the free space and the permissions of the folder"
            raise RunError("E502", message, where=place, hint=hint) from error

    def close(self) -> None:
        """Release the folder and remove the lock file; a second call does nothing."""
        if not self.is_held:
            return
        self.is_held = False
        with suppress(OSError):  # a file that has to stay locks nothing without its holder
            self._file.unlink(missing_ok=True)
        os.close(self._handle)

    def _take(self) -> None:
        """Lock the file; E506 when another process has it.

        It is not held yet if the last holder removed the file after we opened it.
        """
        self._handle = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                locked = os.fstat(self._handle)
                if os.path.samestat(locked, self._file.stat()):
                    os.ftruncate(self._handle, 0)
                    os.write(self._handle, f"{os.getpid()}\n".encode())
                    self.is_held = True
        except BlockingIOError:
            raise self._refuse() from None
        finally:
            if not self.is_held:
                os.close(self._handle)

    def _refuse(self) -> RunError:
        pid = os.read(self._handle, 20).decode("ascii", "replace").strip()
        holder = "another process"
        if pid.isdecimal():
            holder = f"process {pid}"
        place = Place(file=str(self._file))
        message = f"`{self._file.parent}` is in use by {holder}"
        hint = "wait until that process is done, or stop it and then use `answerkey resume`"
        return RunError("E506", message, where=place, hint=hint)


class ObjectLock(RunLock):
    """The lock on a run on object storage, held until `close`.

    `home` is the folder of this machine for the run: it is locked as well, and a holder whose token
    is in it was a process of this machine that died.

    Object storage has no locks, so the holder writes the object `lock` again and again.
    One that has not been written for a while was left behind. If another process takes it over,
    the old holder, should it still be there, notices at its next beat.
    """

    def __init__(self, url: str, home: Path) -> None:
        self._folder = url
        self._url = f"{url}/{LOCK_NAME}"
        self._token = secrets.token_hex(8)
        self._end = threading.Event()
        self._is_lost = False
        note = home / HOLDER_NAME
        with ExitStack() as undo:
            undo.callback(remove_empty, home)
            undo.enter_context(closing(FolderLock(home, 0o700)))
            undo.callback(note.unlink, missing_ok=True)
            self._take(note)
            self._after = undo.pop_all()
        self.is_held = True
        self._thread = threading.Thread(
            target=self._beat,
            name="answerkey-lock",
            daemon=True,
        )
        self._thread.start()

    def _take(self, note: Path) -> None:
        holder = self._read()
        is_dead = False
        if note.is_file():
            is_dead = note.read_text(encoding="ascii") == holder.get("token")
        if holder and not is_dead and _find_age(holder) <= GONE_SECONDS:
            raise self._refuse(holder)
        note.write_text(self._token, encoding="ascii")
        stored = find_object(self._url)
        mark = None
        if stored is not None:
            mark = stored.mark
        put_new(self._url, self._describe(), in_place_of=mark)
        # The lock itself says who has it: another process may have been quicker, and a store that
        # knows no conditions has written it in any case.
        holder = self._read()
        if not self._is_ours(holder):
            raise self._refuse(holder)

    def require_held(self) -> None:
        """Raise E506 when another process has taken the run over."""
        if self._is_lost:
            message = f"`{self._folder}` was taken over by another process"
            hint = "this process was silent for too long; let the other one finish"
            raise RunError("E506", message, where=Place(file=self._url), hint=hint)

    def close(self) -> None:
        """Release the run and remove the lock if it is still ours; a second call does nothing."""
        if not self.is_held:
            return
        self._end.set()
        self._thread.join()
        self.is_held = False
        with suppress(DataError):  # a lock that has to stay is soon too old to count
            if self._is_ours(self._read()):
                remove_objects([self._url])
        self._after.close()

    def _beat(self) -> None:
        """Write the lock until it is released, or until another process has it."""
        while not self._end.wait(BEAT_SECONDS):
            with suppress(DataError):  # the store may be there again at the next beat
                if not self._is_ours(self._read()):
                    self._is_lost = True
                    return
                put_object(self._url, self._describe())

    def _is_ours(self, holder: Holder) -> bool:
        return holder.get("token") == self._token

    def _read(self) -> Holder:
        stored = find_object(self._url)
        if stored is None or stored.size > _MAX_BYTES:
            return {}
        with suppress(ValueError):
            holder = json.loads(stored.read(0, stored.size))
            if isinstance(holder, dict):
                return holder
        return {}

    def _describe(self) -> bytes:
        holder = {
            "host": platform.node(),
            "process": os.getpid(),
            "token": self._token,
            "beat_at": time.time(),
        }
        return json.dumps(holder).encode()

    def _refuse(self, holder: Holder) -> RunError:
        process = holder.get("process")
        host = holder.get("host")
        age = int(_find_age(holder))
        message = (
            f"`{self._folder}` is in use by process {process} on `{host}`, last heard from "
            f"{age} s ago"
        )
        hint = (
            f"wait until it is done; {GONE_SECONDS:.0f} s after it was last heard from, the run "
            "can be resumed"
        )
        return RunError("E506", message, where=Place(file=self._url), hint=hint)


def _find_age(holder: Holder) -> float:
    beat = holder.get("beat_at")
    if not isinstance(beat, int | float):
        return GONE_SECONDS + 1
    return abs(time.time() - beat)


def is_alive(pid: int) -> bool:
    """Return whether there is a process with this number on this machine."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True
