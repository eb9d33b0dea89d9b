"""The call cache: what models said before, in the user's cache folder.

A key stands for the model (without secrets), its parameters, the messages and the trial. Nothing
depends on the cache: one that cannot be read or written is a notice, and every call is asked.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from answerkey.errors import RunError, SpecError, listing, suggest
from answerkey.models.calls import Answers, Calls, FinishedCalls
from answerkey.models.config import CachePolicy
from answerkey.models.store import SUFFIXES, CallStore, remove_store
from answerkey.text import format_count
from answerkey.types import CompletionStatus, Notice

_CLEAR_HINT = "`answerkey cache --clear` deletes a damaged cache"


def default_cache_file() -> Path:
    """Return where the cache lies: below `$XDG_CACHE_HOME`, or `~/.cache` when that is not set."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "answerkey" / "calls.sqlite"


class CallCache:
    """The cache under a policy: `reuse` looks before asking, `update` only stores, `no-cache` does
    neither.

    Safe for threads, and for several processes at once. A cache that cannot be used is as if it
    were empty.
    """

    def __init__(self, policy: CachePolicy, file: Path | None = None) -> None:
        """Take the file of the user where none is given; nothing is opened yet."""
        policies = get_args(CachePolicy)
        if policy not in policies:
            raise SpecError(
                "E119",
                f"unknown cache policy {policy!r}",
                hint=suggest(policy, policies) or f"policies: {listing(policies)}",
            )
        self.policy = policy
        self.file = file or default_cache_file()
        self._store: CallStore | None = None
        self._failure: Notice | None = None
        self._damaged: set[str] = set()
        self._lock = threading.Lock()

    @property
    def notices(self) -> list[Notice]:
        """Why the cache cannot be used, and how many of its records are damaged."""
        notices = []
        if self._failure is not None:
            notices.append(self._failure)
        if self._damaged:
            records = format_count(len(self._damaged), "record")
            where = f"the call cache `{self.file}`"
            message = f"{records} of {where} changed on disk and are asked again"
            notices.append(Notice(message, hint=_CLEAR_HINT))
        return notices

    def find(self, calls: Calls) -> Answers:
        """Return what is stored, by key, with source `cache`; nothing unless the policy is
        `reuse`.
        """
        if self.policy != "reuse" or not calls:
            return {}
        completions = {}
        with self._opened() as store:
            for key, completion in store.find(calls).items():
                completions[key] = completion.with_fields(source="cache")
        return completions

    def list_known(self, keys: Collection[str]) -> set[str]:
        """Return which of these keys `find` would find, to tell how many calls a run would make."""
        known_keys: set[str] = set()
        if self.policy == "reuse":
            with self._opened() as store:
                known_keys.update(store.find_answers(keys))
        return known_keys

    def add(self, finished: FinishedCalls) -> None:
        """Store calls that were answered and may be cached; nothing under `no-cache`."""
        if self.policy == "no-cache":
            return
        now = round(time.time())
        answered = []
        for call, completion in finished:
            if call.is_cached and completion.status is not CompletionStatus.ERROR:
                answered.append((call, completion.with_fields(asked_at=now)))
        if not answered:
            return
        with self._opened() as store:
            store.write(answered, replaces=True)

    def measure(self) -> tuple[int, int]:
        """Return how many bytes the cache takes on disk, and how many entries it has."""
        size = entries = 0
        for suffix in SUFFIXES:
            with suppress(OSError):
                size += self.file.with_name(f"{self.file.name}{suffix}").lstat().st_size
        if size:
            with self._opened() as store:
                entries, _ = store.count()
        if entries == 0 and self._failure is None:
            size = 0
        return size, entries

    def clear(self) -> None:
        """Delete all entries, or the file when it is damaged.

        Other processes may go on using the cache.
        """
        if not self.file.is_file():
            return
        try:
            with closing(CallStore(self.file)) as store:
                store.clear()
        except RunError as error:
            if error.code != "E503":
                raise
            remove_store(self.file)

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None

    @contextmanager
    def _opened(self) -> Iterator[CallStore]:
        """Yield the open store; the first thing that goes wrong is a notice, and ends its use."""
        with self._lock:
            if self._store is None:
                self._open()
            store = self._store or CallStore(None)
            try:
                yield store
            except RunError as error:
                self._give_up(error)
            self._damaged |= store.damaged

    def _open(self) -> None:
        try:
            self.file.parent.mkdir(
                mode=0o700,
                parents=True,
                exist_ok=True,
            )
            # Made before SQLite makes it, so that what models said is the user's alone to read.
            opened = os.open(self.file, os.O_CREAT | os.O_RDWR, 0o600)
            os.close(opened)
            self._store = CallStore(self.file)
        except (RunError, OSError) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
        self.policy = "no-cache"
        why = error.__cause__ or error
        message = f"the call cache `{self.file}` cannot be used: {why}; every call is sent"
        self._failure = Notice(message, hint=f"make room or correct its rights; {_CLEAR_HINT}")


@dataclass(frozen=True)
class RunLedger:
    """The calls of one task of a run: in the journal of the run, with the call cache behind it.

    What the cache knows is written to the journal, so that a resumed run sees what the interrupted
    one saw.
    """

    journal: CallStore
    cache: CallCache
    task: str

    def find(self, calls: Calls) -> Answers:
        """Return the completions that are known, by the key of the call."""
        completions = self.journal.find(calls)
        missing = []
        for call in calls:
            if call.is_cached and call.key not in completions:
                missing.append(call)
        cached = self.cache.find(missing)
        reused = []
        for call in missing:
            if call.key in cached:
                reused.append((call, cached[call.key]))
        self.journal.write(reused, self.task)
        return completions | cached

    def write(self, finished: FinishedCalls) -> None:
        """Store finished calls; they outlive this process when this returns.

        A journal that cannot be written keeps nothing from the cache, which may be on another disk.
        """
        try:
            self.journal.write(finished, self.task)
        except RunError:
            self.cache.add(finished)
            raise

    def settle(self, finished: FinishedCalls) -> None:
        """Wait until what was written is on disk, and hand it to the cache."""
        try:
            self.journal.sync()
        finally:
            self.cache.add(finished)


# ── all caches of the user

#: What the folders beside the call cache hold.
_FOLDERS = {
    "downloads": "fetched files",
    "hub": "files of dataset hubs",
    "runs": "journals of unfinished runs; never cleared",
}


@dataclass(frozen=True)
class CacheUse:
    """What a cache takes: bytes on disk, and entries."""

    name: str
    holds: str
    path: Path
    size: int
    entries: int
    is_clearable: bool = True


def list_caches() -> list[CacheUse]:
    """Return the caches of the user; links are not followed."""
    home = default_cache_file().parent
    uses = [_measure_calls()]
    for name in _FOLDERS:
        uses.append(_measure_folder(home, name))
    return uses


def _measure_calls() -> CacheUse:
    with closing(CallCache("no-cache")) as calls:
        size, entries = calls.measure()
        return CacheUse(
            "calls",
            "replies of models",
            calls.file,
            size,
            entries,
            is_clearable=not calls.file.is_symlink(),
        )


def _measure_folder(home: Path, name: str) -> CacheUse:
    folder = home / name
    is_link = folder.is_symlink()
    size = entries = 0
    if folder.is_dir() and not is_link:
        entries = sum(1 for _ in folder.iterdir())
        for place, _, files in os.walk(folder):
            for file in files:
                with suppress(OSError):  # another process may have deleted it
                    size += os.lstat(os.path.join(place, file)).st_size  # noqa: PTH118 - there may be many
    return CacheUse(
        name,
        _FOLDERS[name],
        folder,
        size,
        entries,
        is_clearable=name != "runs" and not is_link,  # journals are no cache: they were paid for
    )


def clear_cache(use: CacheUse) -> None:
    """Delete what a cache holds that may be cleared; RunError E502 when that is not possible.

    A link in place of a cache stays, and so does what it leads to.
    """
    if use.path.is_symlink() or not use.is_clearable:
        return
    try:
        if use.name == "calls":
            CallCache("no-cache", use.path).clear()
        elif use.path.is_dir():
            shutil.rmtree(use.path)
    except (OSError, RunError) as error:
        raise RunError(
            "E502",
            f"cannot clear the cache `{use.path}`: {error.__cause__ or error}",
            hint="correct its rights, or wait until no other process uses it",
        ) from error
