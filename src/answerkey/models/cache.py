"""The call cache: earlier replies of models, in the user's cache folder.

A key stands for the model (without secrets), its parameters, the messages and the trial. Nothing
depends on the cache: if it cannot be read or written, there is a notice, and every call is made.
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
    """Return the path of the cache: below `$XDG_CACHE_HOME`, or `~/.cache` if that is not set."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "answerkey" / "calls.sqlite"


class CallCache:
    """The cache under a policy: `reuse` reads and writes, `update` only writes, `no-cache` does
    neither.

    Safe for threads and for several processes. A cache that cannot be used behaves like an empty
    one.
    """

    def __init__(self, policy: CachePolicy, file: Path | None = None) -> None:
        """Use the given file or the user's; nothing is opened yet."""
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
            message = f"{records} of {where} are damaged, and their calls are made again"
            notices.append(Notice(message, hint=_CLEAR_HINT))
        return notices

    def find(self, calls: Calls) -> Answers:
        """Return the stored completions by key, with source `cache`; none unless the policy is
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
        """Return which of these keys `find` would find, to predict how many calls a run makes."""
        known_keys: set[str] = set()
        if self.policy == "reuse":
            with self._opened() as store:
                known_keys.update(store.find_answers(keys))
        return known_keys

    def add(self, finished: FinishedCalls) -> None:
        """Store answered calls that may be cached; does nothing under `no-cache`."""
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
        """Return the size of the cache on disk in bytes, and its number of entries."""
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
        """Delete all entries, or the file if it is damaged.

        Other processes may continue to use the cache.
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
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None

    @contextmanager
    def _opened(self) -> Iterator[CallStore]:
        """Yield the open store; the first error becomes a notice and ends the use of the cache."""
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
            # Created before SQLite does it, so that only the user can read the replies.
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
        self._failure = Notice(
            message, hint=f"free some space or correct its permissions; {_CLEAR_HINT}"
        )


@dataclass(frozen=True)
class RunLedger:
    """The calls of one task of a run: in the run's journal, with the call cache behind it.

    Completions from the cache are written to the journal, so that a resumed run sees the same ones.
    """

    journal: CallStore
    cache: CallCache
    task: str

    def find(self, calls: Calls) -> Answers:
        """Return the stored completions by the key of the call."""
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

        If the journal cannot be written, they still go to the cache, which may be on another disk.
        """
        try:
            self.journal.write(finished, self.task)
        except RunError:
            self.cache.add(finished)
            raise

    def settle(self, finished: FinishedCalls) -> None:
        """Wait until the calls are on disk, and add them to the cache."""
        try:
            self.journal.sync()
        finally:
            self.cache.add(finished)


# ── all caches of the user

#: The contents of the folders beside the call cache.
_FOLDERS = {
    "downloads": "fetched files",
    "hub": "files of dataset hubs",
    "runs": "journals of unfinished runs; never cleared",
}


@dataclass(frozen=True)
class CacheUse:
    """The size of a cache: bytes on disk, and entries."""

    name: str
    holds: str
    path: Path
    size: int
    entries: int
    is_clearable: bool = True


def list_caches() -> list[CacheUse]:
    """Return the user's caches, without following links."""
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
        is_clearable=name != "runs"
        and not is_link,  # journals hold paid calls that exist nowhere else
    )


def clear_cache(use: CacheUse) -> None:
    """Delete the contents of a clearable cache; raise RunError E502 if that is impossible.

    A link in place of a cache is kept, and so is its target.
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
            hint="correct its permissions, or wait until no other process uses it",
        ) from error
