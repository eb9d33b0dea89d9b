"""One round of asking in batches: calls are handed in together, and collected when they are answered.

calls ──► reserved ──► lines ──► file ──► written down ──► batch ──► looked at ──► output ──► ledger

What is under way is in the book before the endpoint begins to work on it. So whoever comes later, after a
sudden death as well, collects it instead of handing it in again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from answerkey.errors import AnswerkeyError, SolverError
from answerkey.models.batch_api import BatchApi, BatchState, Courier, Gone, Refused
from answerkey.models.batch_book import BatchBook, Submitted
from answerkey.models.batch_lines import (
    BatchLimits,
    Written,
    complete_line,
    cut_files,
    read_lines,
    write_line,
)
from answerkey.models.calls import BatchLeft, BatchSeen, Call, Event, Finished
from answerkey.models.connections import Connection
from answerkey.models.limits import Limits
from answerkey.models.line import Line, charge
from answerkey.models.reading import fail
from answerkey.models.rounds import BUDGET_POLL_SECONDS, Terms
from answerkey.models.sending import open_client
from answerkey.types import Completion

T = TypeVar("T")
U = TypeVar("U")
#: Why a call has no line in the output, by how its batch ended.
SILENCE = {
    "completed": "the batch says nothing of this call",
    "expired": "the batch expired before this call was answered",
    "cancelled": "the batch was cancelled before this call was answered",
}
GIVE_UP_HINT = "nothing is under way; if the endpoint has no batches, `answerkey resume --no-batch` goes on"


@dataclass(frozen=True)
class BatchMeans:
    """What batches need beside the terms of asking: where they are written down, their limits, and HTTP."""

    book: BatchBook
    limits: BatchLimits = field(default_factory=BatchLimits)
    open_courier: Callable[[Connection, Limits], Courier] = open_client


class BatchRound:
    """Asks calls with distinct keys, all of them unknown to the ledger, in as few batches as can be."""

    def __init__(
        self, line: Line, courier: Courier, terms: Terms, means: BatchMeans, calls: Sequence[Call]
    ) -> None:
        self._line = line
        self._terms = terms
        self._means = means
        self._api = BatchApi(line, courier, means.limits)
        self._rest = {call.key: call for call in calls}
        self._open: list[Submitted] = []
        self._reserved: dict[str, float] = {}
        self._answered: dict[str, Completion] = {}
        self._refusal: SolverError | None = None
        self._task: asyncio.Task[object] | None = None

    async def run(self) -> dict[str, Completion]:
        """Return the completions by key; raise what made it stop. Batches under way are told of then."""
        self._task = asyncio.current_task()
        try:
            await self._take_up()
            while self._rest:
                for file in cut_files(await self._reserve(), self._means.limits):
                    await self._submit(file)
                await self._collect_all()
        finally:
            self._tell_left()
        return self._answered

    def stop(self, reason: BaseException | None, *, grace: float | None = None) -> None:
        """Wait no longer; the batches go on at the endpoint."""
        del reason, grace
        if self._task is not None:
            self._task.cancel()

    async def _take_up(self) -> None:
        """Collect what an earlier process has handed in, if calls of ours are in it."""
        book = self._means.book
        for one in await self._in_thread(book.list_batches, self._line.connection.identity):
            ours = self._rest.keys() & set(one.keys)
            if not ours:
                continue
            try:
                named = one if one.batch is not None else await self._name(one, is_new=False)
            except Refused:  # it never came to a batch; its calls are handed in anew
                await self._in_thread(book.end_batch, one)
                continue
            self._terms.budget.admit(len(ours))
            self._open.append(named)
        await self._collect_all()

    async def _reserve(self) -> list[Written]:
        """Return as many of the calls as the budget has room for now, at least one; E305 without any."""
        lines: list[Written] = []
        hopeless: list[tuple[Call, Completion]] = []
        for call in self._rest.values():
            written = write_line(self._line.connection, call)
            if isinstance(written, Completion):
                hopeless.append((call, written))
            elif await self._has_room(written, is_first=not lines):
                lines.append(written)
            else:
                break
        await self._keep(hopeless)
        return lines

    async def _has_room(self, written: Written, *, is_first: bool) -> bool:
        """Return whether a call may be made, and set its cost aside; the first one waits for room."""
        cost = charge(self._terms.price, *self._line.estimate_tokens(written.line))
        try:
            while not self._terms.budget.reserve(cost):
                if not is_first:
                    return False
                await self._line.clock.sleep(BUDGET_POLL_SECONDS)
        except AnswerkeyError:
            if is_first:
                raise
            return False
        self._reserved[written.call.key] = cost
        return True

    async def _submit(self, file: Sequence[Written]) -> None:
        """Hand calls in; they are written down before the endpoint may begin to work."""
        book, name = self._means.book, self._line.connection.name
        try:
            uploaded = await self._api.upload(b"".join(one.line for one in file))
            keys = [one.call.key for one in file]
            submitted = Submitted(uploaded, self._line.connection.identity, keys)
            await self._in_thread(book.keep_batch, submitted)
            try:
                self._open.append(await self._name(submitted, is_new=True))
            except Refused:
                await self._in_thread(book.end_batch, submitted)
                raise
        except Refused as trouble:
            message = f"the endpoint of `{name}` takes no batch: {trouble}"
            raise SolverError("E306", message, hint=GIVE_UP_HINT) from None

    async def _name(self, submitted: Submitted, *, is_new: bool) -> Submitted:
        """Return a batch with its name, written down; it is created unless it is there already."""
        found = None if is_new else await self._api.find(submitted.file)
        state = found or await self._api.create(submitted.file)
        named = replace(submitted, batch=state.batch)
        await self._in_thread(self._means.book.keep_batch, named)
        self._tell(_see(state, named))
        return named

    async def _collect_all(self) -> None:
        """Look at the batches, with growing pauses, until each is over and collected."""
        limits = self._means.limits
        wait = limits.first_poll
        while self._open:
            for one in list(self._open):
                await self._look(one)
            if self._open:
                await self._line.clock.sleep(wait)
                wait = min(limits.longest_poll, wait * limits.poll_growth)
        if self._refusal is not None:
            raise self._refusal

    async def _look(self, one: Submitted) -> None:
        try:
            state = await self._api.look(one.batch or "")
        except Gone as trouble:
            state = BatchState(one.batch or "", "gone", complaint=f"the batch is not there: {trouble}")
        else:
            self._tell(_see(state, one))
            if not state.is_over:
                return
        said = await self._download(state)
        if state.status == "failed" and not said:
            await self._refuse(one, state)
        else:
            await self._settle(one, said, state)

    async def _download(self, state: BatchState) -> dict[str, Completion]:
        """Return what a batch says by key; an answer wins over an error of the same call."""
        said: dict[str, Completion] = {}
        for file in state.files:
            try:
                content = await self._api.download(file)
            except Gone as trouble:
                why = f"a file of the batch cannot be had: {trouble}"
                said |= {key: fail(why) for key in self._rest if key not in said}
                continue
            for key, completion in read_lines(content, self._line.connection):
                said.setdefault(key, completion)
        return said

    async def _refuse(self, one: Submitted, state: BatchState) -> None:
        """Note that the endpoint took a batch and did not begin with it; the others are collected first."""
        why = state.complaint or "it gives no reason"
        message = f"the endpoint of `{self._line.connection.name}` refuses the batch `{one.batch}`: {why}"
        hint = "nothing of it was answered; `answerkey resume` hands its calls in again"
        self._refusal = SolverError("E306", message, hint=hint)
        self._open.remove(one)
        await self._in_thread(self._means.book.end_batch, one)

    async def _settle(self, one: Submitted, said: dict[str, Completion], state: BatchState) -> None:
        silence = state.complaint or SILENCE.get(state.status, f"the batch is {state.status}")
        calls = [self._rest[key] for key in one.keys if key in self._rest]
        finished = [(call, complete_line(said.get(call.key) or fail(silence), call)) for call in calls]
        self._open.remove(one)
        await self._keep(finished, one)

    async def _keep(self, finished: Sequence[tuple[Call, Completion]], one: Submitted | None = None) -> None:
        """Write finished calls down, then forget their batch, and only then tell of them."""
        if finished:
            await self._in_thread(self._terms.ledger.add, finished)
        if one is not None:
            await self._in_thread(self._means.book.end_batch, one)
        for call, completion in finished:
            del self._rest[call.key]
            self._answered[call.key] = completion
            cost = charge(self._terms.price, completion.prompt_tokens, completion.completion_tokens)
            self._terms.budget.settle(self._reserved.pop(call.key, 0.0), cost)
        for call, completion in finished:
            self._tell(Finished(call, completion, is_known=False))

    async def _in_thread(self, work: Callable[[U], T], argument: U) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._terms.executor, work, argument)

    def _tell(self, event: Event) -> None:
        if self._terms.watch is not None:
            self._terms.watch(event)

    def _tell_left(self) -> None:
        for one in self._open:
            if one.batch is not None:
                self._tell(BatchLeft(one.batch, len(one.keys)))


def _see(state: BatchState, one: Submitted) -> BatchSeen:
    total = state.total or len(one.keys)
    return BatchSeen(state.batch, state.status, min(state.done, total), total, state.is_over)
