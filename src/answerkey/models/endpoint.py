"""One endpoint as all calls to it see it: how many requests are sent to it, and when."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from dataclasses import dataclass, field

from answerkey.models.calls import Clock, Limits
from answerkey.models.images import count_characters
from answerkey.models.providers import Connection
from answerkey.models.retry import (
    Health,
    NoReply,
    Outcome,
    Reply,
    Verdict,
    judge,
    read_retry_after,
)
from answerkey.types import Completion

LOG = logging.getLogger("answerkey.models")

#: How many requests may be under way at the start.
START = 8
#: An overloaded endpoint gets this part of the requests at once that it had before.
DECREASE = 0.75
#: Each answer raises the limit by so much, and a small limit by no more than this part of it.
INCREASE = 1 / 32
INCREASED_SHARE = 1 / 8
#: Where one request at a time is too many, no more seconds than these pass between two.
LONGEST_PAUSE = 2.0
#: No more requests at once are tried while an answer takes this part of the time that it may take.
SLOW_SHARE = 0.25
#: Failures that say that there are too many requests.
OVERLOAD_LABELS = frozenset(
    {"status 429", "status 503", "status 504", "status 529", "timeout", "connect"}
)
_TOO_MANY_REQUESTS = 429


class Bucket:
    """So many units a minute, spread evenly from the first on.

    Whoever takes units leaves a debt that the next ones wait for. Idle time is not saved up.
    """

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._rate = per_minute / 60
        self._debt = 0.0
        self._clock = clock
        self._paid_at = clock.now()

    def take(self, units: float) -> float:
        """Take units and return how many seconds to wait before using them."""
        self._pay()
        wait = self._debt / self._rate
        self._debt += units
        return wait

    def give_back(self, units: float) -> None:
        """Correct an estimate that was too high, or, with a negative number, too low."""
        self._pay()
        self._debt = max(0.0, self._debt - units)

    def _pay(self) -> None:
        now = self._clock.now()
        self._debt = max(0.0, self._debt - (now - self._paid_at) * self._rate)
        self._paid_at = now


@dataclass(frozen=True, slots=True)
class SentRequest:
    """What the concurrency limit remembers of a request: the cuts so far, the requests at once."""

    cuts: int
    under_way: int


class ConcurrencyLimit:
    """How many requests may be under way at once: additive increase, multiplicative decrease.

    The limit doubles with each round of answers until the endpoint is overloaded for the first
    time. An overload cuts it to a part, once for all requests that were sent before the cut. From
    then on it grows slowly; but after an outage it doubles up to half of what it was before. A
    limit below one is a pause between two requests.
    """

    def __init__(self, cap: int, attempt_seconds: float = math.inf) -> None:
        self.cap = max(1, cap)
        self.under_way = 0
        self.size = float(min(START, self.cap))
        self._slow_seconds = attempt_seconds * SLOW_SHARE
        self._doubles_below = math.inf
        self._cuts = 0
        self._latency = 0.0
        self._has_answered_since_cut = True

    @property
    def limit(self) -> int:
        """How many requests may be under way now."""
        return max(1, int(self.size))

    @property
    def pause(self) -> float:
        """The seconds between the starts of two requests, where one at a time is too many."""
        if self.size >= 1:
            return 0.0
        return min(LONGEST_PAUSE, self._latency / self.size)

    def begin(self) -> SentRequest:
        """Count a request that is sent now; return what `note` needs to know of it."""
        self.under_way += 1
        return SentRequest(self._cuts, self.under_way)

    def note(self, sent: SentRequest, outcome: Outcome, latency: float) -> None:
        """Count the outcome of a request, and change the limit."""
        self.under_way -= 1
        if sent.cuts != self._cuts:
            return
        if outcome.label in OVERLOAD_LABELS:
            self._decrease()
        elif outcome.verdict is Verdict.ANSWERED:
            self._has_answered_since_cut = True
            self._latency = latency
            is_used = 2 * sent.under_way >= self.limit
            if is_used and latency < self._slow_seconds:
                self._increase()

    def _decrease(self) -> None:
        if self._has_answered_since_cut:
            self._doubles_below = self.size / 2
            self._has_answered_since_cut = False
        shortest = self._latency / LONGEST_PAUSE
        self.size = max(self.size * DECREASE, min(shortest, 1.0))
        self._cuts += 1

    def _increase(self) -> None:
        if self.size < self._doubles_below:
            step = min(1.0, self.size)
        else:
            step = min(INCREASE, INCREASED_SHARE * self.size)
        self.size = min(self.size + step, float(self.cap))


@dataclass(eq=False)
class RequestSemaphore:
    """Lets as many requests pass at once as the limit says; calls that are sent again go first.

    New calls are let in only while fewer than twice the limit are unfinished, those that wait for
    their next attempt included: an endpoint that struggles gets the calls it has before it gets
    more.
    """

    concurrency: ConcurrencyLimit
    busy: int = 0
    unfinished: int = 0
    _again: deque[asyncio.Future[None]] = field(default_factory=deque)
    _new: deque[asyncio.Future[None]] = field(default_factory=deque)

    def enter(self, *, is_again: bool = False) -> asyncio.Future[None]:
        """Return what a call waits for until it has a place, for its first attempt or the next."""
        turn = asyncio.get_running_loop().create_future()
        if is_again:
            self._again.append(turn)
        else:
            self._new.append(turn)
        self.wake()
        return turn

    def leave(self) -> None:
        """Free a place; the call will be sent again."""
        self.busy -= 1
        self.wake()

    def finish(self, count: int = 1) -> None:
        """Free the places of calls that are done with."""
        self.unfinished -= count
        self.busy -= count
        self.wake()

    def reset(self) -> None:
        """Forget all calls; for when none is under way any more."""
        self.busy = 0
        self.unfinished = 0
        self.concurrency.under_way = 0
        self._again.clear()
        self._new.clear()

    def wake(self) -> None:
        """Hand out the places that are free."""
        limit = self.concurrency.limit
        while self.busy < limit and self._again:
            turn = self._again.popleft()
            if not turn.done():  # its task was not cancelled
                self.busy += 1
                turn.set_result(None)
        while self.busy < limit and self.unfinished < 2 * limit and self._new:
            turn = self._new.pop()  # who came last: its memory is still at hand
            if not turn.done():
                self.busy += 1
                self.unfinished += 1
                turn.set_result(None)


#: Tokens of a text are estimated by its length.
CHARACTERS_PER_TOKEN = 4
#: How long a completion is taken to be while none was seen and the model has no `max_tokens`.
FIRST_GUESS_TOKENS = 256


class EndpointState:
    """One endpoint as all calls to it see it."""

    def __init__(self, connection: Connection, limits: Limits, clock: Clock) -> None:
        self.connection = connection
        self.limits = limits
        self.clock = clock
        cap = limits.choose_concurrent(connection.max_concurrent)
        self.concurrency = ConcurrencyLimit(cap, limits.attempt_seconds)
        self.semaphore = RequestSemaphore(self.concurrency)
        self.health = Health(
            connection.name,
            connection.host,
            connection.start_hint,
            has_key=connection.key is not None or bool(connection.headers),
        )
        self._requests = _open_bucket(
            connection.requests_per_minute or limits.requests_per_minute, clock
        )
        self._tokens = _open_bucket(connection.tokens_per_minute or limits.tokens_per_minute, clock)
        self._longest_seen: int | None = None
        self._closed_until = 0.0
        #: When the first request failed; None once it is reported that all do.
        self._failing_since: float | None = math.inf

    def estimate_tokens(self, body: bytes) -> tuple[int, int]:
        """Return how many tokens a prompt has and its completion may have."""
        longest = self.connection.generation.max_tokens or self._longest_seen or FIRST_GUESS_TOKENS
        return count_characters(body) // CHARACTERS_PER_TOKEN, longest

    def take_turn(self, tokens: int) -> float:
        """Return the seconds to wait until the rates allow one more request of so many tokens."""
        now = self.clock.now()
        wait = self._closed_until - now
        if self._requests is not None:
            wait = max(wait, self._requests.take(1))
        if self._tokens is not None:
            wait = max(wait, self._tokens.take(tokens))
        pause = min(self.concurrency.pause, self.limits.wait_seconds)
        if pause:
            self._closed_until = now + max(0.0, wait) + pause
        return wait

    def judge(self, came: Reply | NoReply, sent: SentRequest, latency: float) -> Outcome:
        """Return how a request went; `sent` is what the concurrency limit said when it was sent.

        Where the endpoint asks to wait, and takes one request at a time, nobody sends one before
        that.
        """
        outcome = judge(came, self.connection.read)
        now = self.clock.now()
        limit = self.concurrency.limit
        if outcome.verdict is Verdict.AGAIN and isinstance(came, Reply):
            retry_after = read_retry_after(came.headers, self.clock.wall())
            outcome = outcome._replace(retry_after=retry_after)
            if retry_after is not None and limit == 1 and came.status == _TOO_MANY_REQUESTS:
                pause = min(retry_after, self.limits.wait_seconds)
                self._closed_until = max(self._closed_until, now + pause)
        self.concurrency.note(sent, outcome, latency)
        self._report_failures(outcome, now)
        if self.concurrency.limit < limit:
            name = self.connection.name
            LOG.debug("%s: at most %d requests at once", name, self.concurrency.limit)
        self.semaphore.wake()
        return outcome

    def _report_failures(self, outcome: Outcome, now: float) -> None:
        """Say once, after a while, that every request so far was answered with a server error."""
        if not outcome.is_server_error or self.health.has_answered or self._failing_since is None:
            return
        self._failing_since = min(self._failing_since, now)
        if now - self._failing_since >= self.limits.report_seconds:
            self._failing_since = None
            why = "every call to `%s` has failed so far, and is retried: %s"
            LOG.warning(why, self.connection.name, outcome.completion.error or outcome.label)

    def note_usage(self, completion: Completion, estimated: int) -> None:
        """Correct the estimate by what a call used.

        One without usage, or that failed, used nothing.
        """
        used = (completion.prompt_tokens or 0) + (completion.completion_tokens or 0)
        if completion.completion_tokens:
            self._longest_seen = max(self._longest_seen or 0, completion.completion_tokens)
        if self._tokens is not None and used:
            self._tokens.give_back(estimated - used)


def _open_bucket(per_minute: float | None, clock: Clock) -> Bucket | None:
    if per_minute is None:
        return None
    return Bucket(per_minute, clock)
