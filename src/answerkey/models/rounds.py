"""One round of asking: a fixed number of workers take call after call until all are answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

from answerkey.errors import AnswerkeyError
from answerkey.models.budget import Budget, Price
from answerkey.models.calls import Adapted, Call, Event, Finished, Ledger, Retried, Watch
from answerkey.models.commits import Notes, open_commits
from answerkey.models.encoding import make_encoder
from answerkey.models.line import Line, charge
from answerkey.models.retrying import Outcome, Patience, Reply, Trouble, Verdict
from answerkey.types import Completion, CompletionStatus

#: Bodies are ASCII, so that any text is safe.
encode_body = make_encoder()
LOG = logging.getLogger("answerkey.models")
#: Calls under way when the asking stops may still be answered, and are paid for; they get this long.
GRACE_SECONDS = 5.0
#: How often a call looks whether the budget has room again.
BUDGET_POLL_SECONDS = 0.05


class Sender(Protocol):
    """Posts a body to one endpoint."""

    async def post(self, body: bytes, *, seconds: float) -> Reply | Trouble:
        """Return what came back within so many seconds."""

    async def close(self) -> None:
        """Close all connections."""


@dataclass(frozen=True)
class Terms:
    """Under which terms calls are asked: where they are kept, what they may cost, who looks on."""

    ledger: Ledger
    executor: Executor
    budget: Budget
    price: Price | None
    watch: Watch | None

    def tell(self, event: Event, stop: Callable[[AnswerkeyError], None]) -> None:
        """Let who looks on hear an event; what that raises goes to `stop`."""
        if self.watch is None:
            return
        try:
            self.watch(event)
        except AnswerkeyError as error:
            stop(error)


class Round:
    """Asks calls with distinct keys, all of them unknown to the ledger.

    A call holds its place until the ledger has it, whatever becomes of this process. So what a sudden death
    loses is never more than there are connections.
    """

    def __init__(self, line: Line, sender: Sender, terms: Terms, calls: Sequence[Call]) -> None:
        self._line = line
        self._sender = sender
        self._terms = terms
        self._rest = iter(calls)
        self._size = min(len(calls), 2 * line.concurrent)
        self._answered: dict[str, Completion] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sending: set[asyncio.Task[object]] = set()
        self._reason: BaseException | None = None
        self._is_stopped = False
        notes = Notes(line.gate.finish, self._note_kept, self._note_broken)
        self._commits = open_commits(terms.ledger, terms.executor, notes)

    async def run(self) -> dict[str, Completion]:
        """Return the completions by key; raise what made it stop. After `stop(None)`: what there is."""
        try:
            for _ in range(self._size):
                task = asyncio.create_task(self._work())
                task.add_done_callback(self._note_end)
                self._tasks.add(task)
            if self._tasks:
                await asyncio.wait(self._tasks)
            await self._commits.flush()
        finally:
            self._line.gate.reset()
        if self._reason is not None:
            raise self._reason
        return self._answered

    def stop(self, reason: BaseException | None, *, grace: float | None = None) -> None:
        """Send nothing more. Requests under way get `grace` seconds (None: all they need) to be answered."""
        self._is_stopped = True
        self._reason = self._reason or reason
        for task in self._tasks - self._sending:
            task.cancel()
        if grace == 0:
            self._cut_off()
        elif grace is not None:
            asyncio.get_running_loop().call_later(grace, self._cut_off)

    def _cut_off(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _work(self) -> None:
        gate = self._line.gate
        while not self._is_stopped:
            await gate.enter()
            call = None if self._is_stopped else next(self._rest, None)
            completion = None if call is None else await self._ask(call)
            if call is None or completion is None:
                gate.finish()
                return
            self._commits.put(call, completion)

    async def _ask(self, call: Call) -> Completion | None:
        """Return the completion of a call, or None when the round is stopped before there is one."""
        body = self._encode(call)
        if isinstance(body, Completion):
            return body
        prompt, longest = self._line.estimate_tokens(body)
        reserved = charge(self._terms.price, prompt, longest)
        try:
            while not self._terms.budget.reserve(reserved):
                await self._line.clock.sleep(BUDGET_POLL_SECONDS)
        except AnswerkeyError as error:
            self.stop(error)
            return None
        cost = 0.0
        try:
            completion = await self._try_until_final(call, body, prompt + longest)
            if completion is not None:
                cost = charge(self._terms.price, completion.prompt_tokens, completion.completion_tokens)
            return completion
        finally:
            self._terms.budget.settle(reserved, cost)

    def _encode(self, call: Call) -> bytes | Completion:
        try:
            body = self._line.connection.build(call.messages)
        except AnswerkeyError as error:
            return Completion(None, CompletionStatus.ERROR, call.messages, error=error.message, source="live")
        return encode_body(body).encode()

    async def _try_until_final(self, call: Call, body: bytes, tokens: int) -> Completion | None:
        line = self._line
        patience = Patience(line.limits, line.clock, line.draw)
        while True:
            if (pause := line.take_turn(tokens)) > 0:
                await line.clock.sleep(pause)
            begun = line.clock.now()
            outcome = await self._send(body, patience.begin_attempt())
            wait = patience.choose_wait(outcome, is_reached=line.health.is_reached)
            if self._must_stop(outcome, is_final=wait is None):
                return None
            if wait is None:
                line.note_usage(outcome.completion, tokens)
                latency = line.clock.now() - begun
                return outcome.completion.with_fields(
                    prompt=call.messages, latency=latency, attempts=patience.attempts, source="live"
                )
            self._tell_retry(call, outcome, wait, patience.attempts)
            line.gate.leave()
            await line.clock.sleep(wait)
            await line.gate.enter_again()

    async def _send(self, body: bytes, seconds: float) -> Outcome:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("sending happens inside a task")
        epoch = self._line.gate.pace.epoch
        self._sending.add(task)
        try:
            came = await self._sender.post(body, seconds=seconds)
        finally:
            self._sending.discard(task)
        outcome, has_adapted = self._line.judge(came, epoch)
        if has_adapted:
            self._tell(Adapted(self._line.gate.pace.limit, outcome.label or "healthy"))
        return outcome

    def _must_stop(self, outcome: Outcome, *, is_final: bool) -> bool:
        """Return whether this call comes to no end: the endpoint is given up, or all has been stopped."""
        reason = self._line.health.note(outcome, is_final=is_final)
        if reason is not None:
            self.stop(reason, grace=GRACE_SECONDS)
            return True
        return self._is_stopped and outcome.verdict is not Verdict.ANSWERED

    def _tell_retry(self, call: Call, outcome: Outcome, wait: float, attempt: int) -> None:
        why = outcome.completion.error or outcome.label
        LOG.debug("sample %s: %s; asked again in %.1f s", call.sample_id, why, wait)
        self._tell(Retried(call, why, wait, attempt))

    def _tell(self, event: Event) -> None:
        self._terms.tell(event, self.stop)

    def _note_kept(self, call: Call, completion: Completion) -> None:
        self._answered[call.key] = completion
        if self._terms.watch is not None:
            self._tell(Finished(call, completion, is_known=False))

    def _note_broken(self, error: BaseException) -> None:
        self.stop(error, grace=GRACE_SECONDS)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.stop(error, grace=0)
