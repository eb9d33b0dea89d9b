"""The lock of a run on shared storage: one process at a time, and one that is gone holds nothing for long.

A store holds no lock for a process, so the holder writes the object `lock` anew again and again. What has not
been written for a while was left behind. Who takes it over then makes the old holder, should it still be
there, fail at its next beat.
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
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from answerkey.datasets.storage import find_object, put_new, remove_objects
from answerkey.errors import DataError, Place, RunError
from answerkey.runs.lock import LOCK_NAME
from answerkey.runs.places import reaching_storage
from answerkey.runs.watching import is_alive

#: Seconds between two beats, and after which a holder that was not heard of is gone.
BEAT = 15.0
GONE = 90.0
_LARGEST = 10_000


class StoredLock:
    """The lock on a run folder on shared storage, held until `release`."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/{LOCK_NAME}"
        self._token = secrets.token_hex(8)
        self._mark: str | None = None
        self._end = threading.Event()
        self._is_lost = False
        with reaching_storage():
            self._take()
        self._thread = threading.Thread(target=self._beat, name="answerkey-lock", daemon=True)
        self._thread.start()

    @property
    def is_held(self) -> bool:
        """Whether the lock has not been released yet."""
        return self._mark is not None

    def require_held(self) -> None:
        """Raise E506 when another process has taken the run over."""
        if self._is_lost:
            raise RunError(
                "E506",
                f"`{self._url.rpartition('/')[0]}` was taken over by another process",
                where=Place(file=self._url),
                hint="this process was not heard of for too long; let the other one finish",
            )

    def release(self) -> None:
        """Let the folder go and remove the lock, if it is still ours; a second call does nothing."""
        if self._mark is None:
            return
        self._end.set()
        self._thread.join()
        self._mark = None
        with suppress(DataError):  # it may have to stay; nobody is heard of any more
            if self._read().get("token") == self._token:
                remove_objects([self._url])

    def _take(self) -> None:
        """Take the lock, also one that was left behind; E506 when it is another's."""
        told = self._read()
        if told and not _is_left(told):
            raise self._refuse(told)
        found = find_object(self._url)
        mark = put_new(self._url, self._describe(), in_place_of=found.mark if found else None)
        # Whose it is says the lock itself: another may have been quicker, a call may have been tried twice,
        # and a store that knows no conditions has written it in any case.
        told = self._read()
        if told.get("token") != self._token:
            raise self._refuse(told)
        self._mark = mark or self._find_mark()

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
        if found is None or found.size > _LARGEST:
            return {}
        try:
            told = json.loads(found.read(0, found.size))
        except ValueError:
            return {}
        return told if isinstance(told, dict) else {}

    def _describe(self) -> bytes:
        told = {
            "host": platform.node(),
            "machine": name_machine(),
            "process": os.getpid(),
            "token": self._token,
            "beat_at": time.time(),
        }
        return json.dumps(told).encode()

    def _refuse(self, told: Mapping[str, object]) -> RunError:
        age = int(_find_age(told))
        return RunError(
            "E506",
            f"`{self._url.rpartition('/')[0]}` is in use by process {told.get('process')} on"
            f" `{told.get('host')}`, heard of {age} s ago",
            where=Place(file=self._url),
            hint=f"wait until it is done; {GONE:.0f} s after it was last heard of, the run can be resumed",
        )


def _is_left(told: Mapping[str, object]) -> bool:
    """Return whether a holder is gone: not heard of for long, or a dead process of this machine."""
    process = told.get("process")
    is_ours = told.get("machine") == name_machine() and isinstance(process, int)
    return _find_age(told) > GONE or (is_ours and not is_alive(int(str(process))))


def _find_age(told: Mapping[str, object]) -> float:
    beat = told.get("beat_at")
    return abs(time.time() - float(beat)) if isinstance(beat, int | float) else GONE + 1


def name_machine() -> str:
    """Return a name for where numbers of processes mean the same: this machine since its start."""
    parts = [platform.node(), sys.platform]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return sha256("\n".join(parts).encode()).hexdigest()[:16]
