"""The limits of one endpoint: how many requests it gets at a time, and how often."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import NamedTuple

from answerkey.models.calls import Clock, Limits, charge
from answerkey.models.config import Price
from answerkey.models.images import count_characters
from answerkey.models.providers import Connection
from answerkey.models.retry import (
    CallOutcome,
    Health,
    HttpReply,
    NoReply,
    RetryVerdict,
    judge,
    read_retry_after,
)
from answerkey.types import Completion

#: How many requests may be open at the start.
START = 8
#: After an overload, the limit is multiplied by this.
DECREASE = 0.75
#: After the first overload, each answer raises the limit by this.
INCREASE = 1 / 32
#: The limit does not grow while an answer takes more than this share of the allowed time.
SLOW_SHARE = 0.25
#: The failures that mean there are too many requests.
OVERLOAD_LABELS = frozenset(
    {"status 429", "status 503", "status 504", "status 529", "timeout", "connect"}
)
#: For estimates of token counts.
CHARACTERS_PER_TOKEN = 4
#: The assumed length of a completion before any was seen, if the model has no `max_tokens`.
FIRST_GUESS_TOKENS = 256


class Rate:
    """A number of requests per minute, evenly spaced; unused turns are lost."""

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._pause = 60 / per_minute
        self._clock = clock
        self._free_at = clock.now()

    def take(self) -> float:
        """Take a turn; return the seconds to wait for it."""
        now = self._clock.now()
        turn = max(self._free_at, now)
        self._free_at = turn + self._pause
        return turn - now


class SentRequest(NamedTuple):
    """The state when a request was sent: the number of cuts, and of open requests."""

    cuts: int
    under_way: int


class Concurrency:
    """Limits the number of open requests: additive increase, multiplicative decrease.

    The limit grows by one with each answer until the endpoint is overloaded for the first time. An
    overload cuts it once for all requests that were sent before the cut; from then on it grows
    slowly above half of its previous value. Retries go first, and new calls wait while there are
    twice as many unfinished calls as the limit: a struggling endpoint finishes its calls before it
    gets more.
    """

    def __init__(self, cap: int, slow_seconds: float = math.inf) -> None:
        self.cap = max(1, cap)
        self._resize(START)
        self._slow_seconds = slow_seconds
        self._fast_below = math.inf
        self._cuts = 0
        self._has_answered = True
        self.reset()

    def _resize(self, size: float) -> None:
        """Set the size; the limit is its whole part."""
        self.size = min(size, float(self.cap))
        self.limit = int(self.size)

    def reset(self) -> None:
        """Forget all calls. Use only when none is open."""
        self.busy = 0
        self.unfinished = 0
        self._under_way = 0
        self._retries = deque[asyncio.Future[None]]()
        self._new = deque[asyncio.Future[None]]()

    def enter(self, *, is_retry: bool = False) -> asyncio.Future[None]:
        """Return a future that is done when the call may send its next request."""
        turn = asyncio.get_running_loop().create_future()
        if is_retry:
            self._retries.append(turn)
        else:
            self._new.append(turn)
        self._admit_waiting()
        return turn

    def leave(self) -> None:
        """Give back the slot of a call that will be sent again."""
        self.busy -= 1
        self._admit_waiting()

    def finish(self, count: int = 1) -> None:
        """Give back the slots of finished calls."""
        self.unfinished -= count
        self.busy -= count
        self._admit_waiting()

    def begin(self) -> SentRequest:
        """Count a request that is being sent; return what `note` needs to know about it."""
        self._under_way += 1
        return SentRequest(self._cuts, self._under_way)

    def note(
        self,
        sent: SentRequest,
        outcome: CallOutcome,
        latency: float,
    ) -> None:
        """Adjust the limit to the outcome of a request."""
        self._under_way -= 1
        if sent.cuts != self._cuts:
            return
        if outcome.label in OVERLOAD_LABELS:
            if self._has_answered:
                self._fast_below = self.size / 2
            self._has_answered = False
            self._resize(max(1.0, self.size * DECREASE))
            self._cuts += 1
        elif outcome.verdict is RetryVerdict.ANSWERED:
            self._has_answered = True
            is_used = 2 * sent.under_way >= self.limit
            if is_used and latency < self._slow_seconds:
                step = 1.0 if self.size < self._fast_below else INCREASE
                self._resize(self.size + step)
                self._admit_waiting()

    def _admit_waiting(self) -> None:
        while self.busy < self.limit and self._retries:
            self.busy += _wake(self._retries)
        while self.busy < self.limit and self._new:
            if self.unfinished >= 2 * self.limit:
                return
            is_awake = _wake(self._new)
            self.busy += is_awake
            self.unfinished += is_awake


def _wake(queue: deque[asyncio.Future[None]]) -> bool:
    """Wake the first task of a queue; return False if it was cancelled."""
    turn = queue.popleft()
    if turn.done():
        return False
    turn.set_result(None)
    return True


class EndpointState:
    """The state of one endpoint, shared by all calls to it."""

    def __init__(
        self,
        connection: Connection,
        limits: Limits,
        clock: Clock,
    ) -> None:
        self.connection = connection
        self.limits = limits
        self.clock = clock
        cap = limits.choose_concurrent(connection.max_concurrent)
        self.concurrency = Concurrency(cap, limits.attempt_seconds * SLOW_SHARE)
        self.health = Health(connection)
        requests_per_minute = connection.requests_per_minute or limits.requests_per_minute
        self._requests = Rate(requests_per_minute or math.inf, clock)
        self._longest_seen = 0
        self._closed_until = 0.0

    def estimate_cost(self, body: bytes, price: Price | None, *, is_batch: bool = False) -> float:
        """Return what a request may cost; 0 if no price is known."""
        if price is None:
            return 0.0
        prompt = count_characters(body) // CHARACTERS_PER_TOKEN
        most = self.connection.generation.max_tokens
        completion = most or self._longest_seen or FIRST_GUESS_TOKENS
        return charge(price, prompt, completion, is_batch=is_batch)

    def take_turn(self) -> float:
        """Return the seconds to wait before the rate limits allow another request."""
        pause = self._closed_until - self.clock.now()
        return max(self._requests.take(), pause)

    def judge(
        self,
        reply: HttpReply | NoReply,
        sent: SentRequest,
        latency: float,
    ) -> CallOutcome:
        """Return the outcome of a request; `sent` is what `Concurrency.begin` returned for it.

        If the endpoint asks for a pause and is down to one request at a time, no request is sent
        before the pause is over.
        """
        outcome = judge(reply, self.connection.read)
        if outcome.verdict is RetryVerdict.AGAIN and isinstance(reply, HttpReply):
            retry_after = read_retry_after(reply.headers, self.clock.wall())
            outcome = outcome._replace(retry_after=retry_after)
            is_limited = outcome.label == "status 429" and self.concurrency.limit == 1
            if retry_after is not None and is_limited:
                pause = min(retry_after, self.limits.wait_seconds)
                self._closed_until = self.clock.now() + pause
        self.concurrency.note(sent, outcome, latency)
        return outcome

    def note_usage(self, completion: Completion) -> None:
        """Remember the length of a completion, for estimates."""
        self._longest_seen = max(self._longest_seen, completion.completion_tokens or 0)
