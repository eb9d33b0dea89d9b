"""Asking from the nodes of a cluster, behind the same plain function as asking from here.

calls ──► known to the ledger? ──► BranchRound ──► one Branch on each node ──► endpoint
                                        └────► Commits ──► ledger, then the branch may go on
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Unpack

from answerkey.errors import AnswerkeyError, EngineError
from answerkey.models.branch import News
from answerkey.models.calls import Call, Event, Finished, Retried
from answerkey.models.commits import Notes, PlainCommits
from answerkey.models.connections import Connection
from answerkey.models.limits import Limits
from answerkey.models.line import Line, charge
from answerkey.models.rounds import BUDGET_POLL_SECONDS, GRACE_SECONDS, LOG, Terms, encode_body
from answerkey.models.sending import Asker, AskerSettings
from answerkey.models.staff import Member, Staff
from answerkey.models.stations import StationLostError, Stations
from answerkey.types import Completion

#: A branch that was lost so often without one answer in between is given up.
LOSSES = 5


class BranchAsker(Asker):
    """Asks one endpoint from every node of a cluster, for one run; a context manager, closed in the end.

    Beside what asking raises, EngineError E602 says that no node is left, or that the processes on one end
    again and again.
    """

    def __init__(self, connection: Connection, stations: Stations, **settings: Unpack[AskerSettings]) -> None:
        super().__init__(connection, **settings)
        self._staff = Staff(connection, settings.get("limits") or Limits(), stations)
        self._dismiss = weakref.finalize(self, self._staff.close)

    def close(self) -> None:
        """Close the connections and end the processes; twice does no harm."""
        try:
            self._await_stopped()
        finally:
            self._dismiss()
            super().close()

    def _send(self, calls: Sequence[Call]) -> dict[str, Completion]:
        # Not in the event loop: joining a cluster takes seconds, and wants the thread that hears of signals.
        self._staff.open()
        return super()._send(calls)

    async def _open_round(self, calls: Sequence[Call]) -> BranchRound:
        return BranchRound(self._line, self._staff, self._terms, calls)


class BranchRound:
    """Hands out calls with distinct keys, all of them unknown to the ledger, and keeps what comes back.

    A branch has few more calls than places. It hears that a batch is kept when the ledger has it, so that
    what a sudden death loses, here or there, is never more than there are connections. The calls of a branch
    that is lost are handed out again, first of all.
    """

    def __init__(self, line: Line, staff: Staff, terms: Terms, calls: Sequence[Call]) -> None:
        self._line = line
        self._staff = staff
        self._terms = terms
        self._calls = calls
        self._queue = deque(range(len(calls)))
        #: What is set aside for calls that are handed out, or were.
        self._reserved: dict[int, float] = {}
        self._answered: dict[str, Completion] = {}
        self._batches: dict[str, _Batch] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._asides: set[asyncio.Task[None]] = set()
        self._reason: BaseException | None = None
        self._is_stopped = self._is_broken = False
        # A branch waits for every batch: it goes to the disk at once. Places are up to the branches.
        notes = Notes(lambda _: None, self._note_kept, self._note_broken)
        self._commits = PlainCommits(terms.ledger, terms.executor, notes)

    async def run(self) -> dict[str, Completion]:
        """Return the completions by key; raise what made it stop. After `stop(None)`: what there is."""
        for member in self._staff.members:
            task = asyncio.create_task(self._serve(member))
            task.add_done_callback(self._note_end)
            self._tasks.add(task)
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._commits.flush()
        for task in self._asides:
            task.cancel()
        for reserved in self._reserved.values():
            self._terms.budget.settle(reserved, 0.0)
        if self._reason is not None:
            raise self._reason
        return self._answered

    def stop(self, reason: BaseException | None, *, grace: float | None = None) -> None:
        """Send nothing more. Requests under way get `grace` seconds (None: all they need) to be answered."""
        self._is_stopped = True
        self._reason = self._reason or reason
        for member in self._staff.members:
            task = asyncio.create_task(_halt(member, grace))
            task.add_done_callback(self._asides.discard)
            self._asides.add(task)

    async def _serve(self, member: Member) -> None:
        """Work with a branch, and with those that take its place when it is lost, until all is answered."""
        while True:
            try:
                await self._work_with(member)
            except StationLostError as lost:
                self._queue.extendleft(sorted(member.out, reverse=True))
                member.out.clear()
                if self._is_done() or not await self._replace(member, str(lost)):
                    return
            else:
                return

    async def _work_with(self, member: Member) -> None:
        await member.call("begin")
        kept, is_over = 0, False
        while not is_over:
            chosen = self._choose(member)
            if not member.out:
                if self._is_done():
                    break
                # Another branch may be lost, or money come back.
                await self._line.clock.sleep(BUDGET_POLL_SECONDS)
                continue
            news: News = await member.call(
                "exchange", [(one, self._calls[one].messages) for one in chosen], kept
            )
            await self._take(member, news)
            kept, is_over = news.batch, news.is_over
        member.out.clear()
        await member.call("end", kept)

    def _is_done(self) -> bool:
        """Return whether nothing will be handed out any more."""
        return self._is_stopped or not (self._queue or any(one.out for one in self._staff.members))

    def _choose(self, member: Member) -> list[int]:
        """Return the calls that a branch gets now: as many as it has room for, or its part of the rest."""
        room = min(member.window - len(member.out), -(-len(self._queue) // len(self._staff.members)))
        chosen: list[int] = []
        while len(chosen) < room and not self._is_stopped:
            if not self._reserve(self._queue[0]):
                break
            chosen.append(self._queue.popleft())
        member.out.update(chosen)
        return chosen

    def _reserve(self, number: int) -> bool:
        """Set a call and its money aside; a limit that is reached lets those before it be finished."""
        if number in self._reserved:
            return True
        budget, cost = self._terms.budget, 0.0
        if budget.max_cost is not None and self._terms.price is not None:
            cost = charge(self._terms.price, *self._estimate(self._calls[number]))
        try:
            has_room = budget.reserve(cost)
        except AnswerkeyError as error:
            self._reason = self._reason or error
            self._queue.clear()
            return False
        if has_room:
            self._reserved[number] = cost
        return has_room

    def _estimate(self, call: Call) -> tuple[int, int]:
        try:
            body = encode_body(self._line.connection.build(call.messages)).encode()
        except AnswerkeyError:
            body = b""
        return self._line.estimate_tokens(body)

    async def _take(self, member: Member, news: News) -> None:
        """Take in what a branch tells; return when the ledger has it, or will not have it."""
        for number, why, wait, attempt in news.retried:
            LOG.debug("sample %s: %s; asked again in %.1f s", self._calls[number].sample_id, why, wait)
            self._tell(Retried(self._calls[number], why, wait, attempt))
        batch = _Batch()
        for number, said in news.finished:
            if number in member.out:
                member.out.discard(number)
                self._settle(number, said)
                batch.size += 1
                self._batches[self._calls[number].key] = batch
                self._commits.put(self._calls[number], replace(said, prompt=self._calls[number].messages))
        if news.finished:
            member.losses = 0
        if news.reason is not None and not self._is_stopped:
            self.stop(news.reason, grace=GRACE_SECONDS)
        if batch.size and not self._is_broken:
            await batch.is_kept.wait()

    def _settle(self, number: int, said: Completion) -> None:
        cost = charge(self._terms.price, said.prompt_tokens, said.completion_tokens)
        self._terms.budget.settle(self._reserved.pop(number), cost)
        self._line.note_usage(said, 0)

    async def _replace(self, member: Member, why: str) -> bool:
        """Open another branch for one that is lost; False when there is none to be had."""
        member.losses += 1
        if member.losses >= LOSSES:
            message = f"the process that asks from node {member.node.address} ended {LOSSES} times: {why}"
            self.stop(EngineError("E602", message, hint=_HINT), grace=GRACE_SECONDS)
            return False
        await self._line.clock.sleep(float(member.losses - 1))
        try:
            is_open = await asyncio.get_running_loop().run_in_executor(None, self._staff.replace, member)
        except AnswerkeyError as error:
            self.stop(error, grace=GRACE_SECONDS)
            return False
        if not is_open and not self._staff.members:
            self.stop(EngineError("E602", f"no node is left that could ask: {why}", hint=_HINT))
        return is_open

    def _tell(self, event: Event) -> None:
        self._terms.tell(event, self.stop)

    def _note_kept(self, call: Call, completion: Completion) -> None:
        self._answered[call.key] = completion
        batch = self._batches.pop(call.key)
        batch.size -= 1
        if batch.size == 0:
            batch.is_kept.set()
        self._tell(Finished(call, completion, is_known=False))

    def _note_broken(self, error: BaseException) -> None:
        self._is_broken = True
        for batch in self._batches.values():
            batch.is_kept.set()
        self.stop(error, grace=GRACE_SECONDS)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.stop(error, grace=0)


@dataclass(eq=False)
class _Batch:
    """Calls that came together; `size` of them are not kept yet."""

    size: int = 0
    is_kept: asyncio.Event = field(default_factory=asyncio.Event)


async def _halt(member: Member, grace: float | None) -> None:
    with suppress(StationLostError):
        await member.call("halt", grace)


_HINT = "look at `ray status`; what was answered is kept, and `answerkey resume` goes on"
