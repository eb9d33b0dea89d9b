"""When a request is sent: what a reply means for its call, the delay of a retry, rates, concurrency, health.

`Retry.choose_wait` is the delay before the next attempt; its numbers are fields of `Limits`. `EndpointState`
is one endpoint as all calls to it see it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import statistics
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Literal, NamedTuple

from answerkey.errors import SolverError
from answerkey.models.calls import Clock, Limits
from answerkey.models.images import count_characters
from answerkey.models.providers import Connection
from answerkey.models.responses import has_too_many_parts
from answerkey.types import Completion, CompletionStatus

LOG = logging.getLogger("answerkey.models")

# What a reply means for its call.

#: Statuses that may pass; every 5xx as well.
PASSING_STATUSES = frozenset({408, 409, 425, 429})
#: What an endpoint calls its error when the same holds for every further call, by status: in `code` or
#: `type`, of the body or of its `error`.
LASTING_ERRORS = {404: "model_not_found", 429: "insufficient_quota"}
_TOO_MANY_REQUESTS = 429
_REDIRECTS, _MISTAKES, _SERVER_ERRORS = 300, 400, 500

NoReplyKind = Literal[
    "connect", "reset", "timeout", "unreadable", "mismatched", "certificate", "too_large", "address"
]
#: Errors that end without a word of the endpoint.
SILENT_KINDS: frozenset[str] = frozenset({"connect", "certificate", "address", "timeout"})


class Request(NamedTuple):
    """What is sent; `url` is another path of the endpoint, `max_bytes` another limit for the reply."""

    body: bytes | None
    method: Literal["GET", "POST"] = "POST"
    url: str | None = None
    content_type: str = "application/json"
    max_bytes: int | None = None


class Reply(NamedTuple):
    """What came back over HTTP; the body is unpacked."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoReply(NamedTuple):
    """Why no whole reply came back."""

    kind: NoReplyKind
    why: str


class Verdict(Enum):
    """What becomes of a call after an attempt; after AGAIN, fewer requests at once might do better."""

    ANSWERED = "answered"
    AGAIN = "again"
    UNREADABLE = "unreadable"
    REFUSED = "refused"
    FAILED = "failed"


class Outcome(NamedTuple):
    """An attempt, judged; `label` names what went wrong, the same for the same cause."""

    verdict: Verdict
    completion: Completion
    label: str = ""
    retry_after: float | None = None

    @property
    def is_server_error(self) -> bool:
        """Whether the endpoint replied with a status from 500 on."""
        return self.label.startswith("status 5")


def judge(came: Reply | NoReply, read: Callable[[int, bytes], Completion]) -> Outcome:
    """Return what becomes of a call; `read` makes a completion of a reply, whatever it is."""
    if isinstance(came, NoReply):
        completion = Completion(None, CompletionStatus.ERROR, error=came.why)
        if came.kind == "unreadable":
            return Outcome(Verdict.UNREADABLE, completion, came.kind)
        is_passing = came.kind in {"connect", "reset", "timeout"}
        return Outcome(Verdict.AGAIN if is_passing else Verdict.FAILED, completion, came.kind)
    status, body = came.status, came.body
    completion = read(status, body)
    if status < _REDIRECTS:
        if completion.status is not CompletionStatus.ERROR:
            return Outcome(Verdict.ANSWERED, completion)
        return Outcome(Verdict.FAILED if _is_json(body) else Verdict.UNREADABLE, completion, "unreadable")
    label = f"status {status}"
    if status < _MISTAKES:
        why = f"{label}: the endpoint redirects to another address; redirects are not followed"
        completion = Completion(None, CompletionStatus.ERROR, error=why, raw=completion.raw)
    elif completion.status is not CompletionStatus.ERROR:
        completion = Completion(None, CompletionStatus.ERROR, error=label, raw=completion.raw)
    lasting = LASTING_ERRORS.get(status)
    if lasting is not None and _is_json(body) and not has_too_many_parts(body):
        told = json.loads(body)
        objects = [told, told.get("error")] if isinstance(told, dict) else []
        if any(lasting in (one.get("code"), one.get("type")) for one in objects if isinstance(one, dict)):
            return Outcome(Verdict.REFUSED, completion, lasting)
    if status in {401, 403}:
        return Outcome(Verdict.REFUSED, completion, label)
    if status in PASSING_STATUSES or status >= _SERVER_ERRORS:
        return Outcome(Verdict.AGAIN, completion, label)
    return Outcome(Verdict.FAILED, completion, label)


def _is_json(body: bytes) -> bool:
    """Return whether a body is well-formed JSON; nesting that is too deep to read is not.

    One with too many parts to be read is taken for JSON: it would be no better the next time.
    """
    if has_too_many_parts(body):
        return True
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def read_retry_after(headers: Mapping[str, str], wall: float) -> float | None:
    """Return the seconds that the endpoint asks to wait, or None; `wall` is the time of day."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            number = float(headers.get(name, ""))
        except ValueError:
            continue
        if math.isfinite(number):
            return max(0.0, number) / unit
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return max(0.0, moment.timestamp() - wall)
    except (ValueError, TypeError, OverflowError):
        return None


# The delay before the next attempt.


class Retry:
    """The attempts of one call; its time runs from the first attempt on."""

    __slots__ = ("_begun_at", "_clock", "_limits", "_unreadable", "attempts")

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self.attempts = 0
        self._unreadable = 0
        self._limits = limits
        self._clock = clock
        self._begun_at = math.inf

    def begin_attempt(self) -> float:
        """Count an attempt and return how many seconds it may take."""
        now = self._clock.now()
        if self.attempts == 0:
            self._begun_at = now
        self.attempts += 1
        left = self._begun_at + self._limits.call_seconds - now
        return max(0.0, min(self._limits.attempt_seconds, left))

    def choose_wait(self, outcome: Outcome, health: Health | None = None) -> float | None:
        """Return the seconds to wait before the next attempt; None when there is none.

        An endpoint that never answered is tried for a shorter time: see `Limits`. One timeout is enough then.
        """
        limits, draw = self._limits, self._clock.draw
        if outcome.verdict is Verdict.UNREADABLE:
            self._unreadable += 1
            count, longest = self._unreadable, 2.0
        elif outcome.verdict is Verdict.AGAIN:
            count, longest = self.attempts, limits.wait_seconds
        else:
            return None
        wait = draw() * min(longest, limits.first_wait * 2.0 ** min(count - 1, 60))
        if outcome.retry_after is not None:
            wait = min(limits.wait_seconds, max(wait, outcome.retry_after + draw() * limits.first_wait))
        seconds = limits.call_seconds
        if health is not None and not health.is_reached and outcome.label in SILENT_KINDS:
            seconds = 0 if outcome.label == "timeout" else limits.reach_seconds
        elif health is not None and not health.has_answered and outcome.is_server_error:
            seconds = limits.failing_seconds
        is_exhausted = self.attempts >= limits.attempts or self._unreadable >= limits.unreadable_attempts
        is_late = self._clock.now() + wait >= self._begun_at + seconds
        return None if is_exhausted or is_late else wait


# When an endpoint is given up.

#: So many calls that fail for good in a row, all for the same reason, end all calls.
FAILURES_IN_A_ROW = 50
#: Once an endpoint has answered, it takes this many refusals in a row with status 403: a single one may be
#: about what was asked. As many web pages, and nothing else, are no API.
REFUSALS_IN_A_ROW = 3
#: Reasons that lie in one call, however many calls they concern; they never end the others.
_OWN_FAULTS = frozenset({"status 400", "status 413", "status 422", "unreadable", "too_large"})
_LONGEST = 300


class Health:
    """What the outcomes of calls say about the endpoint; `name` is the model's, `key` whether one is sent.

    `is_reached` is whether anything was ever heard of the endpoint, `has_answered` whether it ever answered a
    call, `start_hint` how it is started.
    """

    def __init__(self, name: str, host: str, start_hint: str | None = None, *, has_key: bool = True) -> None:
        self._name = name
        self._host = host
        self._start_hint = start_hint
        self._has_key = has_key
        self.is_reached = False
        self.has_answered = False
        self._label = ""
        self._count = 0

    def note(self, outcome: Outcome, *, is_final: bool) -> SolverError | None:
        """Take an outcome in; return why the calls must end, or None."""
        label = outcome.label
        self.is_reached |= label not in SILENT_KINDS
        if outcome.verdict is Verdict.ANSWERED:
            self.has_answered = True
            self._count = 0
            return None
        if not is_final:
            return None
        self._count = self._count + 1 if label == self._label else 1
        self._label = label
        why = (outcome.completion.error or label)[:_LONGEST]
        code, name, go_on = "E306", f"`{self._name}`", "then `answerkey resume` goes on"
        if label == "model_not_found" or (label == "status 404" and not self.has_answered):
            message = f"`{self._host}` does not know the model, or the address, of {name}: {why}"
            hint = f"{correct_address(self._name)}, and start a new run; or let the endpoint load it, {go_on}"
        elif label == "insufficient_quota":
            code, message = "E304", f"`{self._host}` has no quota left for the key of {name}: {why}"
            hint = f"add credit, or raise the limit of the account; what was answered is kept, {go_on}"
        elif outcome.verdict is Verdict.REFUSED:
            if self.has_answered and label == "status 403" and self._count < REFUSALS_IN_A_ROW:
                return None
            what = "refuses the key" if self._has_key else "wants a key, and none is sent"
            code, message = "E304", f"the endpoint of {name} {what} ({label}): {why}"
            what = "check the key" if self._has_key else "set `ANSWERKEY_API_KEY` in the environment"
            hint = f"{what}; what was answered is kept, {go_on}"
        elif label == "mismatched":
            message = f"the replies of {name} cannot be matched to the requests: {why}"
            hint = "replies of this run may be on the wrong samples: start a new one, without that gateway"
        elif not self.is_reached:
            message = f"{name} {'never answers' if label == 'timeout' else 'cannot be reached'}: {why}"
            hint = f"check the address, and that the endpoint is up; {go_on}"
            if "TLS" in why:
                schemes = ("http://", "https://") if "only" in why else ("https://", "http://")
                is_address = self._name.startswith(schemes[0])
                hint = f"write `{self._name.replace(*schemes, 1) if is_address else schemes[1]}`"
            hint = f"{self._start_hint}; {go_on}" if self._start_hint and label == "connect" else hint
        elif outcome.is_server_error and not self.has_answered and self._count >= REFUSALS_IN_A_ROW:
            message = f"every call to {name} failed: {why}"
            hint = f"look into the log of the endpoint for the reason; {go_on}"
        elif "HTML" in why and not self.has_answered and self._count >= REFUSALS_IN_A_ROW:
            message = f"{name} is a web page, not an API: {why}"
            hint = f"{correct_address(self._name)}, and start a new run"
        elif label in _OWN_FAULTS or self._count < FAILURES_IN_A_ROW:
            return None
        else:
            message = f"{self._count} calls to {name} failed in a row, all for the same reason: {why}"
            hint = "what was answered is kept, and `answerkey resume` calls the model for the rest"
        return SolverError(code, message, hint=hint)


def correct_address(name: str) -> str:
    """Return what to do about a model whose address is wrong, or whose name is not known there."""
    whole, mark, model = name.partition("#")
    address = whole.partition("?")[0].rstrip("/")
    if mark and not re.search(r"/v\d|/chat/|/completions", address):
        return f"most APIs have `/v1` in their address: write `{address}/v1#{model}`"
    return f"correct the name or the address{f' (`curl {address}/models` lists the names)' if mark else ''}"


# How many requests are sent, and when.


class Bucket:
    """So many units a minute, spread evenly from the first on.

    Who takes units leaves a debt that the next ones wait for. Idle time is not saved up.
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
        """Correct an estimate: what was taken too much comes back, a negative number is taken as well."""
        self._pay()
        self._debt = max(0.0, self._debt - units)

    def _pay(self) -> None:
        now = self._clock.now()
        self._debt = max(0.0, self._debt - (now - self._paid_at) * self._rate)
        self._paid_at = now


#: How many requests may be under way at the start.
START = 8
#: No fewer requests than these are judged together.
SMALLEST_WINDOW = 8
#: Such a share of errors is never usual.
HEAVY_SHARE = 0.5
#: So many errors more than usual, or such a share of them, may be chance.
FEW_ERRORS, FEW_SHARE = 3, 1 / 16
#: How much of what was counted before still counts in the usual share of errors, window after window.
MEMORY = 15 / 16
#: The limit stays for so many windows after a cut, and twice as long after each further one.
PATIENCE, MOST_PATIENCE = 2, 16
#: The longest pause in seconds between two requests where one at a time is too many.
MOST_PAUSE = 2.0
#: Latency is compared each time the limit has grown by this part.
COMPARED_GROWTH = 0.5
#: It does not hold when it grows by this part of what the limit grew by, from so many seconds on.
LATENCY_SHARE, SHORT_SECONDS = 0.9, 0.05


class Trial(NamedTuple):
    """The share of errors before a cut that has yet to prove that it helps, and what the cut changed."""

    share: float
    limit: int
    pause: float


class ConcurrencyLimit:
    """How many requests may be under way at once: as many as the endpoint takes, `cap` at most.

    A window of outcomes is judged at a time; only requests sent since the limit last changed count.

    - It grows by steps that double after each healthy window, while latency holds: below half the time that
      a request may take, and not in step with the limit.
    - Each refused request takes a place away until the window ends, so that the next one is not refused.
      A window with too many errors lowers the limit by as many.
    - After that it stays, for longer each time, and grows by one at first; but it doubles up to half of what
      it was before the cut.
    - Errors that half the limit does not lower have nothing to do with the load: the cut is taken back, and
      their share counts as usual.
    - Where one request at a time is too many, there is a `pause` between the beginnings of two.
    """

    def __init__(self, cap: int, attempt_seconds: float = math.inf) -> None:
        self.cap = max(1, cap)
        self.limit = min(START, self.cap)
        self.pause = 0.0
        self.under_way = 0
        self._longest_latency = attempt_seconds / 2
        #: Changes with the limit.
        self._epoch = 0
        self._step, self._raised_by = self.limit, 1
        self._doubles_below = self._holds = 0
        self._patience = PATIENCE
        self._trial: Trial | None = None
        #: Errors and outcomes of healthy windows.
        self._usual = (0.0, 0.0)
        #: A limit, and the median latency there; how often latency did not hold since.
        self._reference = (self.limit, math.inf)
        self._slow = 0
        #: The window: latencies of what was answered, errors, the most under way of each, when it began.
        self._latencies: list[float] = []
        self._failed = self._most_sent = self._most_answered = 0
        self._least_failed, self._begun_at = self.cap + 1, math.inf

    @property
    def places(self) -> int:
        """How many requests may be under way now."""
        return max(1, self.limit - max(0, round(self._failed - self._expected)))

    @property
    def _seen(self) -> int:
        return self._failed + len(self._latencies)

    @property
    def _expected(self) -> float:
        """How many errors are usual among what was seen."""
        failed, seen = self._usual
        return self._seen * failed / max(1, seen)

    def begin(self) -> tuple[int, int]:
        """Count a request that is sent now; return what `note` wants to know of it."""
        self.under_way += 1
        self._most_sent = max(self._most_sent, self.under_way)
        return self._epoch, self.under_way

    def note(self, begun: tuple[int, int], now: float, latency: float, *, is_overload: bool) -> None:
        """Count the outcome of a request; after a window of them, judge it."""
        self.under_way -= 1
        epoch, under_way = begun
        if epoch != self._epoch:
            return
        self._begun_at = min(self._begun_at, now - latency)
        if is_overload:
            self._failed += 1
            self._least_failed = min(self._least_failed, under_way)
        else:
            self._latencies.append(latency)
            self._most_answered = max(self._most_answered, under_way)
        is_rising = self._raised_by or self.limit < self._doubles_below
        window = self.limit // 2 if is_rising else max(2 * SMALLEST_WINDOW, 4 * self.limit)
        is_down = self._failed >= max(SMALLEST_WINDOW // 2, self.limit - 1)
        if self._seen >= max(SMALLEST_WINDOW, window) or is_down:
            self._judge(now - self._begun_at)
            self._begin_window()

    def _begin_window(self) -> None:
        self._latencies = []
        self._failed, self._begun_at = 0, math.inf
        self._most_sent, self._most_answered, self._least_failed = self.under_way, 0, self.cap + 1

    def _judge(self, seconds: float) -> None:
        """Change the limit after a window of so many seconds."""
        failed, seen, expected = self._failed, self._seen, self._expected
        raised_by, self._raised_by = self._raised_by, 0
        trial, self._trial = self._trial, None
        share, excess = failed / seen, failed - expected
        # Each request up to a number was answered, each above it refused: that is what the endpoint takes.
        is_exact = self._most_answered <= self.limit - failed < self._least_failed
        is_exact &= failed >= max(1, raised_by / 4) and raised_by > 0
        may_be_chance = excess < max(FEW_ERRORS, FEW_SHARE * seen, 3 * math.sqrt(expected))
        if share < 1.5 * HEAVY_SHARE and may_be_chance and not is_exact:
            self._usual = (self._usual[0] * MEMORY + failed, self._usual[1] * MEMORY + seen)
            self._grow(statistics.median(self._latencies), is_raised=raised_by > 0)
            return
        has_helped = trial is None or share <= trial.share / 2
        if trial is not None and not has_helped and share < HEAVY_SHARE and self.limit <= trial.limit / 2:
            self._usual, self.pause = (failed, seen), trial.pause
            self._step, self._holds = trial.limit, 0
            self._change(trial.limit)
            return
        if trial is None:
            self._doubles_below = self.limit // 2
            self._hold()
        if not is_exact:
            self._trial = trial or Trial(share, self.limit, self.pause)
        if self.limit == 1 and self._latencies:
            self.pause = min(MOST_PAUSE, seconds / len(self._latencies))
        left = min(self.limit, self._most_sent) - math.ceil(failed if is_exact else excess)
        self._change(left if has_helped else min(left, self.limit // 2))

    def _grow(self, latency: float, *, is_raised: bool) -> None:
        """Raise the limit, unless latency does not hold or it is to stay."""
        limit, before = self._reference
        growth = self.limit / limit - 1
        if growth <= 0:
            self._reference = self.limit, latency
        elif growth >= COMPARED_GROWTH and (is_raised or self._slow == 1):
            if latency < SHORT_SECONDS or latency / before - 1 < LATENCY_SHARE * growth:
                self._reference, self._slow, self._patience = (self.limit, latency), 0, PATIENCE
            else:
                self._slow += 1
                if self._slow == 1:  # may be chance
                    return
                self._hold()
        step, is_below = self._step, self.limit < self._doubles_below
        if is_below:
            step = min(self.limit, self._doubles_below - self.limit)
        elif self._holds:
            self._holds -= 1
            self._reference = self._reference if self._holds else (self.limit, latency)
            return
        if self.pause:
            self.pause *= 1 / 2 if is_below else 7 / 8
            self.pause = 0.0 if self.pause < latency else self.pause
            self._epoch += 1
        elif self.limit < self.cap and self.limit <= 2 * self._most_sent and latency < self._longest_latency:
            if latency * (self.limit + step) > self._longest_latency * self.limit:
                step = 1
            self._step = self._step if is_below else step if self._slow else 2 * step
            self._raised_by = min(step, self.cap - self.limit)
            self._change(self.limit + self._raised_by)

    def _hold(self) -> None:
        self._step, self._holds = 1, self._patience
        self._patience = min(MOST_PATIENCE, 2 * self._patience)

    def _change(self, limit: int) -> None:
        self.limit = max(1, limit)
        self._epoch += 1


class RequestSemaphore:
    """Lets as many requests pass at once as there are places; calls that are sent again go first.

    New calls are let in only while fewer than twice the limit are unfinished, those that wait for their next
    attempt included: an endpoint that struggles gets the calls it has before it gets more.
    """

    def __init__(self, concurrency: ConcurrencyLimit) -> None:
        self._concurrency = concurrency
        self.busy = self.unfinished = 0
        self._again: deque[asyncio.Future[None]] = deque()
        self._new: deque[asyncio.Future[None]] = deque()

    def enter(self, *, is_again: bool = False) -> asyncio.Future[None]:
        """Return what a call waits for until it has a place, for its first attempt or the next."""
        turn = asyncio.get_running_loop().create_future()
        (self._again if is_again else self._new).append(turn)
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
        self.busy = self.unfinished = self._concurrency.under_way = 0
        self._again.clear()
        self._new.clear()

    def wake(self) -> None:
        """Hand out the places that are free."""
        places, most = self._concurrency.places, 2 * self._concurrency.limit
        while self.busy < places and self._again:
            turn = self._again.popleft()
            if not turn.done():  # its task was not cancelled
                self.busy += 1
                turn.set_result(None)
        while self.busy < places and self.unfinished < most and self._new:
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
        most = limits.choose_concurrent(connection.max_concurrent)
        self.concurrency = ConcurrencyLimit(most, limits.attempt_seconds)
        self.semaphore = RequestSemaphore(self.concurrency)
        has_key = connection.key is not None or bool(connection.headers)
        self.health = Health(connection.name, connection.host, connection.start_hint, has_key=has_key)
        requests = connection.requests_per_minute or limits.requests_per_minute
        tokens = connection.tokens_per_minute or limits.tokens_per_minute
        self._requests = None if requests is None else Bucket(requests, clock)
        self._tokens = None if tokens is None else Bucket(tokens, clock)
        self._longest_seen: int | None = None
        self._closed_until = 0.0
        #: When the first request failed; None once it is reported that all do.
        self._failing_since: float | None = math.inf

    def estimate_tokens(self, body: bytes) -> tuple[int, int]:
        """Return how many tokens a prompt has and its completion may have."""
        longest = self.connection.generation.max_tokens or self._longest_seen or FIRST_GUESS_TOKENS
        return count_characters(body) // CHARACTERS_PER_TOKEN, longest

    def take_turn(self, tokens: int) -> float:
        """Return how many seconds to wait until the rates allow one more request of so many tokens."""
        now = self.clock.now()
        wait = self._closed_until - now
        if self._requests is not None:
            wait = max(wait, self._requests.take(1))
        if self._tokens is not None:
            wait = max(wait, self._tokens.take(tokens))
        if self.concurrency.pause:
            self._closed_until = now + max(0.0, wait) + min(self.concurrency.pause, self.limits.wait_seconds)
        return wait

    def judge(self, came: Reply | NoReply, begun: tuple[int, int], latency: float) -> Outcome:
        """Return how a request went; `begun` is what the concurrency limit said when it was sent.

        Where the endpoint asks to wait, and takes one request at a time, nobody sends one before that.
        """
        outcome, now, concurrency = judge(came, self.connection.read), self.clock.now(), self.concurrency
        is_overload, limit = outcome.verdict is Verdict.AGAIN, concurrency.limit
        if is_overload and isinstance(came, Reply):
            asked = read_retry_after(came.headers, self.clock.wall())
            outcome = outcome._replace(retry_after=asked)
            if asked is not None and limit == 1 and came.status == _TOO_MANY_REQUESTS:
                pause = min(asked, self.limits.wait_seconds)
                self._closed_until = max(self._closed_until, now + pause)
        concurrency.note(begun, now, latency, is_overload=is_overload)
        self._report_failures(outcome, now)
        if concurrency.limit != limit:
            LOG.debug("%s: at most %d requests at once", self.connection.name, concurrency.limit)
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
        """Correct the estimate by what a call used; one without usage, or that failed, used nothing."""
        used = (completion.prompt_tokens or 0) + (completion.completion_tokens or 0)
        if completion.completion_tokens:
            self._longest_seen = max(self._longest_seen or 0, completion.completion_tokens)
        if self._tokens is not None and used:
            self._tokens.give_back(estimated - used)
