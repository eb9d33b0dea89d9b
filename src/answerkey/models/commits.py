"""Finished calls go to the ledger in batches: while one batch is written, the next one gathers.

    put ──► gathered ──► the ledger has it: its place is free ──► it is safe: `flush` returns

A ledger that is swift is written to between two replies, and made safe in a thread, now and then. With any
other, both is one step, in the thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from answerkey.errors import AnswerkeyError
from answerkey.models.calls import Call, Ledger, SwiftLedger
from answerkey.types import Completion

#: So long after one writing to a swift ledger comes the next: each costs as much as a few calls do.
GATHER_SECONDS = 0.002
#: So long after a writing it is made safe, together with what has been written since.
SETTLE_SECONDS = 0.02
#: Nothing more is written while so many calls are not safe yet: the disk is slower than the endpoint.
MOST_UNSETTLED = 1_000

Batch = list[tuple[Call, Completion]]


@dataclass(frozen=True)
class Notes:
    """Who hears what: that so many calls need no place any more, that the ledger has one, that it failed.

    What the ledger did not take, and what comes after, is handed to it once more at the end: it is paid for.
    """

    free: Callable[[int], None]
    keep: Callable[[Call, Completion], None]
    fail: Callable[[BaseException], None]


class Commits(Protocol):
    """The way of finished calls to a ledger; used inside one event loop."""

    def put(self, call: Call, completion: Completion) -> None:
        """Hand in a finished call."""

    async def flush(self) -> None:
        """Wait until everything is safe, or the ledger has failed."""


def open_commits(ledger: Ledger, executor: Executor, notes: Notes) -> Commits:
    """Return the way to a ledger; `executor` has one thread."""
    if isinstance(ledger, SwiftLedger):
        return SwiftCommits(ledger, executor, notes)
    return PlainCommits(ledger, executor, notes)


class PlainCommits:
    """Writes in the thread of the executor, one batch after the other."""

    def __init__(self, ledger: Ledger, executor: Executor, notes: Notes) -> None:
        self._ledger = ledger
        self._executor = executor
        self._notes = notes
        self._gathered: Batch = []
        self._task: asyncio.Task[None] | None = None
        self._has_failed = False

    def put(self, call: Call, completion: Completion) -> None:
        """Hand in a finished call."""
        self._gathered.append((call, completion))
        self._go_on()

    async def flush(self) -> None:
        """Wait until everything is safe, or the ledger has failed."""
        while self._task is not None:
            await asyncio.wait({self._task})
        if self._has_failed:
            await _add_rest(self._ledger, self._executor, self._gathered)

    def _go_on(self) -> None:
        if self._gathered and self._task is None and not self._has_failed:
            self._task = asyncio.get_running_loop().create_task(self._write())
            self._task.add_done_callback(self._end)

    async def _write(self) -> None:
        batch, self._gathered = self._gathered, []
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._ledger.add, batch)
        except AnswerkeyError:
            self._gathered = batch + self._gathered
            raise
        for call, completion in batch:
            self._notes.keep(call, completion)
        self._notes.free(len(batch))

    def _end(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._has_failed = True
            self._notes.fail(error)
        self._go_on()


class SwiftCommits:
    """Writes in the event loop itself, and has it made safe in the thread of the executor."""

    def __init__(self, ledger: SwiftLedger, executor: Executor, notes: Notes) -> None:
        self._ledger = ledger
        self._executor = executor
        self._notes = notes
        self._loop = asyncio.get_running_loop()
        self._gathered: Batch = []
        self._unsettled: Batch = []
        self._writing: asyncio.Handle | None = None
        self._settling: asyncio.Handle | None = None
        self._task: asyncio.Task[None] | None = None
        self._written_at = -GATHER_SECONDS
        self._has_failed = False

    def put(self, call: Call, completion: Completion) -> None:
        """Hand in a finished call."""
        self._gathered.append((call, completion))
        if self._writing is None:
            self._go_on()

    async def flush(self) -> None:
        """Wait until everything is safe, or the ledger has failed."""
        while (self._gathered or self._unsettled or self._task) and not self._has_failed:
            if self._task is None:
                self._write()
                self._settle()
            if self._task is not None:
                await asyncio.wait({self._task})
        if self._task is not None:
            await asyncio.wait({self._task})
        if self._has_failed:
            await _add_rest(self._ledger, self._executor, self._unsettled + self._gathered)

    def _go_on(self) -> None:
        """See to it that what is gathered will be written, unless too much is not safe yet."""
        if not self._gathered or self._has_failed or len(self._unsettled) >= MOST_UNSETTLED:
            return
        at = self._written_at + GATHER_SECONDS
        is_late = self._loop.time() >= at
        self._writing = self._loop.call_soon(self._write) if is_late else self._loop.call_at(at, self._write)

    def _write(self) -> None:
        _cancel(self._writing)
        self._writing = None
        if not self._gathered or self._has_failed:
            return
        batch, self._gathered = self._gathered, []
        try:
            self._ledger.write(batch)
        except AnswerkeyError as error:
            self._take_back(batch, error)
            return
        except BaseException as error:  # a bug; nobody waits for this function, but for the calls
            self._take_back(batch, error)
            raise
        self._written_at = self._loop.time()
        self._unsettled += batch
        self._settle_soon()
        for call, completion in batch:
            self._notes.keep(call, completion)
        self._notes.free(len(batch))

    def _settle_soon(self) -> None:
        """See to it that what is written will be made safe, together with more."""
        if self._unsettled and self._task is None and self._settling is None:
            self._settling = self._loop.call_later(SETTLE_SECONDS, self._settle)

    def _settle(self) -> None:
        _cancel(self._settling)
        self._settling = None
        if self._unsettled and self._task is None and not self._has_failed:
            self._task = self._loop.create_task(self._settle_batch(list(self._unsettled)))
            self._task.add_done_callback(self._end)

    async def _settle_batch(self, batch: Batch) -> None:
        await self._loop.run_in_executor(self._executor, self._ledger.settle, batch)
        del self._unsettled[: len(batch)]

    def _end(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._fail(error)
            return
        self._settle_soon()
        if self._writing is None:
            self._go_on()

    def _take_back(self, batch: Batch, error: BaseException) -> None:
        self._gathered = batch + self._gathered
        self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._has_failed = True
        self._notes.fail(error)


def _cancel(handle: asyncio.Handle | None) -> None:
    if handle is not None:
        handle.cancel()


async def _add_rest(ledger: Ledger, executor: Executor, rest: Batch) -> None:
    """Try once more; the reason why it does not work is known already."""
    if rest:
        with suppress(AnswerkeyError):
            await asyncio.get_running_loop().run_in_executor(executor, ledger.add, rest)
