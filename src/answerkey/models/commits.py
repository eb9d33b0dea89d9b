"""Finished calls go to the ledger in batches: while one batch is written, the next one gathers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress

from answerkey.errors import AnswerkeyError
from answerkey.models.calls import Call, Ledger
from answerkey.types import Completion

Kept = Callable[[Call, Completion], None]


class Commits:
    """Writes to the ledger in the thread of `executor`; used inside one event loop.

    `on_kept` is called for each call once the ledger has it, `on_failure` when the ledger fails. What it did
    not take, and what comes after, is handed to it once more at the end: it has been paid for.
    """

    def __init__(
        self, ledger: Ledger, executor: Executor, on_kept: Kept, on_failure: Callable[[BaseException], None]
    ) -> None:
        self._ledger = ledger
        self._executor = executor
        self._on_kept = on_kept
        self._on_failure = on_failure
        self._gathered: list[tuple[Call, Completion]] = []
        self._task: asyncio.Task[None] | None = None
        self._has_failed = False

    def put(self, call: Call, completion: Completion) -> None:
        """Hand in a finished call."""
        self._gathered.append((call, completion))
        if self._task is None and not self._has_failed:
            self._start()

    async def flush(self) -> None:
        """Wait until everything is written, or the ledger has failed."""
        while self._task is not None:
            await asyncio.wait({self._task})
        if self._has_failed and self._gathered:
            rest, self._gathered = self._gathered, []
            with suppress(AnswerkeyError):  # the reason is known already
                await asyncio.get_running_loop().run_in_executor(self._executor, self._ledger.add, rest)

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._write_all())
        self._task.add_done_callback(self._end)

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._gathered:
            batch, self._gathered = self._gathered, []
            try:
                await loop.run_in_executor(self._executor, self._ledger.add, batch)
            except AnswerkeyError:
                self._gathered = batch + self._gathered
                raise
            for call, completion in batch:
                self._on_kept(call, completion)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._has_failed = True
            self._on_failure(error)
        elif self._gathered:  # handed in between the last batch and this moment
            self._start()
