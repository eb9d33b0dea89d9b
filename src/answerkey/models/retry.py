"""What a reply means for its call, and the state of one endpoint: rate limits, semaphore, health."""

from __future__ import annotations

import asyncio
import json
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import Enum
from pathlib import Path
from typing import Literal, NamedTuple

from answerkey.errors import RunError, SolverError
from answerkey.models.providers import Connection
from answerkey.models.responses import has_too_many_parts
from answerkey.types import Completion, CompletionStatus

#: How many requests are under way at once, unless the model says otherwise.
DEFAULT_CONCURRENT = 64
MEGABYTE = 1 << 20
#: Files that are opened beside connections: the journal, the call cache, tables, modules, worker processes.
KEPT_FILES = 24


@dataclass(frozen=True)
class Limits:
    """The limits of one asker. What the connection says of concurrency and rates wins over these.

    In seconds: `attempt_seconds` is for one request, `call_seconds` for a call with all its attempts,
    `wait_seconds` for the longest pause between two, also when the endpoint asks for more, `first_wait` for
    the pause after the first trouble; it doubles after each further one (a random part of it is waited).
    `reach_seconds` is how long a call is tried while no connection was ever made.
    `unreadable_attempts` is how many replies without sense are asked for; an endpoint that sends them is
    not overloaded, and they may cost. `max_bytes` holds for a body as sent, and unpacked. `max_open` is how
    many connections this process can have open, whatever the model says.
    """

    max_concurrent: int = DEFAULT_CONCURRENT
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    attempts: int = 10
    unreadable_attempts: int = 6
    attempt_seconds: float = 120.0
    connect_seconds: float = 15.0
    call_seconds: float = 600.0
    reach_seconds: float = 3.0
    first_wait: float = 0.5
    wait_seconds: float = 60.0
    max_bytes: int = 16 * MEGABYTE
    max_open: int | None = None

    def choose_concurrent(self, wanted: int | None) -> int:
        """Return how many requests are under way at once at most, where a model wants so many."""
        most = wanted or self.max_concurrent
        return most if self.max_open is None else min(most, self.max_open)


@dataclass(frozen=True)
class Clock:
    """Time as the asker sees it; tests bring their own.

    `now` never goes back; `wall` is the time of day in seconds since 1970, for dates in headers.
    """

    now: Callable[[], float]
    wall: Callable[[], float]
    sleep: Callable[[float], Awaitable[object]]


def find_room() -> int | None:
    """Return how many connections fit under the limit of open files of this process; None without one.

    One connection is tried where there may be room for it; RunError E502 where there is none.
    """
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        taken = sum(1 for _ in Path("/dev/fd").iterdir())
    except (ImportError, OSError):
        return None
    if limit == resource.RLIM_INFINITY:
        return None
    if limit - taken < KEPT_FILES // 2:
        message = f"this process may open no more than {limit} files, too few to ask a model"
        raise RunError("E502", message, hint="raise the limit: `ulimit -n 4096`")
    return max(1, limit - taken - KEPT_FILES)


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


#: Statuses that may pass; every 5xx as well.
PASSING_STATUSES = frozenset({408, 409, 425, 429})
#: Statuses that say: this key may not ask.
REFUSING_STATUSES = frozenset({401, 403})
TOO_MANY_REQUESTS = 429
#: What an endpoint calls its error when the same holds for every further call, by status.
LASTING_ERRORS = {404: "model_not_found", 429: "insufficient_quota"}
_OK = 200
_REDIRECTS = 300
_MISTAKES = 400
_SERVER_FAULTS = 500

NoReplyKind = Literal["connect", "reset", "timeout", "unreadable", "certificate", "too_large", "address"]
#: Troubles that end without a word of the endpoint.
SILENT_KINDS: frozenset[str] = frozenset({"connect", "certificate", "address", "timeout"})
PASSING_KINDS: frozenset[NoReplyKind] = frozenset({"connect", "reset", "timeout", "unreadable"})


@dataclass(frozen=True)
class Request:
    """A request that is no call: to another path of the same endpoint, with a limit for its reply."""

    method: Literal["GET", "POST"]
    url: str
    body: bytes | None = None
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
    """What becomes of a call after an attempt."""

    ANSWERED = "answered"
    AGAIN = "again"
    UNREADABLE = "unreadable"
    REFUSED = "refused"
    FAILED = "failed"


class Outcome(NamedTuple):
    """An attempt, judged; `label` names what went wrong, the same for the same cause.

    `is_overload` is a sign that fewer requests at once might do better.
    """

    verdict: Verdict
    completion: Completion
    label: str = ""
    is_overload: bool = False
    retry_after: float | None = None


def judge_no_reply(trouble: NoReply) -> Outcome:
    """Return what becomes of a call that got no whole reply."""
    completion = Completion(None, CompletionStatus.ERROR, error=trouble.why)
    if trouble.kind == "unreadable":
        return Outcome(Verdict.UNREADABLE, completion, trouble.kind)
    if trouble.kind in PASSING_KINDS:
        return Outcome(Verdict.AGAIN, completion, trouble.kind, is_overload=True)
    return Outcome(Verdict.FAILED, completion, trouble.kind)


def judge_reply(reply: Reply, read: Callable[[int, Mapping[str, str], bytes], Completion]) -> Outcome:
    """Return what becomes of a call with this reply; `read` makes a completion of it, whatever it is."""
    completion = read(reply.status, reply.headers, reply.body)
    if reply.status < _REDIRECTS:
        if completion.status is not CompletionStatus.ERROR:
            return Outcome(Verdict.ANSWERED, completion)
        verdict = Verdict.FAILED if is_json(reply.body) else Verdict.UNREADABLE
        return Outcome(verdict, completion, "unreadable")
    label = f"status {reply.status}"
    completion = _make_error(reply, completion)
    lasting = LASTING_ERRORS.get(reply.status)
    if lasting is not None and lasting in _name_error(reply.body):
        return Outcome(Verdict.REFUSED, completion, lasting)
    if reply.status in REFUSING_STATUSES:
        return Outcome(Verdict.REFUSED, completion, label)
    if reply.status in PASSING_STATUSES or reply.status >= _SERVER_FAULTS:
        return Outcome(Verdict.AGAIN, completion, label, is_overload=True)
    return Outcome(Verdict.FAILED, completion, label)


def _make_error(reply: Reply, completion: Completion) -> Completion:
    if reply.status < _MISTAKES:
        why = f"status {reply.status}: the endpoint redirects to another address; redirects are not followed"
        return Completion(None, CompletionStatus.ERROR, error=why, raw=completion.raw)
    if completion.status is CompletionStatus.ERROR:
        return completion
    return Completion(None, CompletionStatus.ERROR, error=f"status {reply.status}", raw=completion.raw)


def _name_error(body: bytes) -> list[object]:
    """Return what an error body calls its error: `code` and `type`, of the body or of its `error`."""
    if not is_json(body) or has_too_many_parts(body):
        return []
    told = json.loads(body)
    objects = [told, told.get("error")] if isinstance(told, dict) else []
    return [one.get(name) for one in objects if isinstance(one, dict) for name in ("code", "type")]


def is_json(body: bytes) -> bool:
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
    milliseconds = _read_number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _read_number(text)
    return seconds if seconds is not None or text is None else _read_date(text, wall)


def _read_number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _read_date(text: str, wall: float) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, moment.timestamp() - wall)
    except (ValueError, TypeError, OverflowError):
        return None


class Patience:
    """How long one call is tried; the clock runs from the first attempt on."""

    __slots__ = ("_begun_at", "_clock", "_draw", "_ends_at", "_limits", "_unreadable", "attempts")

    def __init__(self, limits: Limits, clock: Clock, draw: Callable[[], float]) -> None:
        """Take `draw` for numbers between 0 and 1."""
        self.attempts = 0
        self._unreadable = 0
        self._limits = limits
        self._clock = clock
        self._draw = draw
        self._begun_at = self._ends_at = math.inf

    def begin_attempt(self) -> float:
        """Count an attempt and return how many seconds it may take."""
        now = self._clock.now()
        if self.attempts == 0:
            self._begun_at = now
            self._ends_at = now + self._limits.call_seconds
        self.attempts += 1
        return max(0.0, min(self._limits.attempt_seconds, self._ends_at - now))

    def choose_wait(self, outcome: Outcome, *, is_reached: bool = True) -> float | None:
        """Return the seconds to wait before the next attempt; None when there is none.

        While nothing was ever heard of an endpoint, `is_reached` is False: after one timeout there is none.
        """
        if outcome.verdict is Verdict.UNREADABLE:
            self._unreadable += 1
            wait = self._back_off(self._unreadable, longest=2.0)
        elif outcome.verdict is Verdict.AGAIN:
            wait = self._back_off(self.attempts, longest=self._limits.wait_seconds)
        else:
            return None
        if outcome.retry_after is not None:
            asked = outcome.retry_after + self._draw() * self._limits.first_wait
            wait = min(self._limits.wait_seconds, max(wait, asked))
        ends_at = self._ends_at
        if not is_reached and outcome.label in SILENT_KINDS:
            ends_at = self._begun_at + (0 if outcome.label == "timeout" else self._limits.reach_seconds)
        is_exhausted = (
            self.attempts >= self._limits.attempts or self._unreadable >= self._limits.unreadable_attempts
        )
        return None if is_exhausted or self._clock.now() + wait >= ends_at else wait

    def _back_off(self, count: int, *, longest: float) -> float:
        most = min(longest, self._limits.first_wait * 2.0 ** min(count - 1, 60))
        return self._draw() * most


#: So many calls that fail for good in a row, all for the same reason, end the asking.
FAILURES_IN_A_ROW = 50
#: Once an endpoint has answered, it takes this many refusals in a row with status 403: a single one may be
#: about what was asked.
REFUSALS_IN_A_ROW = 3
_FORBIDDEN = "status 403"
_NOT_FOUND = "status 404"
#: Reasons that lie in one call, however many calls they concern; they never end the asking.
_OWN_FAULTS = frozenset({"status 400", "status 413", "status 422", "unreadable", "too_large"})
_LONGEST = 300


class Health:
    """What the outcomes of calls say about the endpoint; `name` is the model's.

    `is_reached` is whether anything was ever heard of the endpoint.
    """

    def __init__(self, name: str, host: str) -> None:
        self._name = name
        self._host = host
        self.is_reached = False
        self._has_answered = False
        self._label = ""
        self._count = 0

    def note(self, outcome: Outcome, *, is_final: bool) -> SolverError | None:
        """Take an outcome in; return why the asking must end, or None."""
        self.is_reached |= outcome.label not in SILENT_KINDS
        if outcome.verdict is Verdict.ANSWERED:
            self._has_answered = True
            self._count = 0
            return None
        if not is_final:
            return None
        self._count = self._count + 1 if outcome.label == self._label else 1
        self._label = outcome.label
        why = (outcome.completion.error or outcome.label)[:_LONGEST]
        if outcome.verdict is Verdict.REFUSED:
            return self._judge_refusal(why)
        return self._judge_failure(why)

    def _judge_refusal(self, why: str) -> SolverError | None:
        if self._label == "model_not_found":
            return self._miss_model(why)
        if self._label == "insufficient_quota":
            return SolverError(
                "E304",
                f"`{self._host}` has no quota left for the key of `{self._name}`: {why}",
                hint="add credit, or raise the limit of the account; what was answered is kept, and "
                "`answerkey resume` goes on",
            )
        may_be_one_call = self._has_answered and self._label == _FORBIDDEN
        if may_be_one_call and self._count < REFUSALS_IN_A_ROW:
            return None
        return SolverError(
            "E304",
            f"the endpoint of `{self._name}` refuses the key ({self._label}): {why}",
            hint="check the key; what was answered is kept, and `answerkey resume` goes on with a better one",
        )

    def _judge_failure(self, why: str) -> SolverError | None:
        if not self.is_reached:
            what = "never answers" if self._label == "timeout" else "cannot be reached"
            return SolverError(
                "E306",
                f"`{self._name}` {what}: {why}",
                hint="check the address, and that the endpoint is up; then `answerkey resume` goes on",
            )
        if self._label == _NOT_FOUND and not self._has_answered:
            return self._miss_model(why)
        if self._label in _OWN_FAULTS or self._count < FAILURES_IN_A_ROW:
            return None
        return SolverError(
            "E306",
            f"{self._count} calls to `{self._name}` failed in a row, all for the same reason: {why}",
            hint="what was answered is kept, and `answerkey resume` asks the rest again",
        )

    def _miss_model(self, why: str) -> SolverError:
        return SolverError(
            "E306",
            f"`{self._host}` does not know the model, or the address, of `{self._name}`: {why}",
            hint="correct the name or the address and start a new run; if they are right, see that the "
            "endpoint has the model, and `answerkey resume` goes on",
        )


START = 8
#: The pace is judged after as many requests as may be under way at once, but not after fewer than this.
SMALLEST_WINDOW = 8
#: A share of troubles from which on the endpoint is overloaded, whatever else may be wrong with it.
HEAVY_SHARE = 0.5
#: A share of troubles above the usual one from which on it may be.
LIGHT_SHARE = 0.1


class Pace:
    """The limit, and how it follows the outcomes; knows nothing of time or tasks.

    It doubles after each healthy window until the first cut, then grows by a sixteenth of the cap. A window
    with many troubles halves it. A share of troubles that halving does not lower has nothing to do with the
    load: the cut is taken back and that share counts as usual.
    """

    def __init__(self, cap: int) -> None:
        self.cap = max(1, cap)
        self.limit = min(START, self.cap)
        #: Changes with each cut; outcomes of requests sent before it say nothing about the new limit.
        self.epoch = 0
        self._is_starting = True
        self._seen = self._troubled = 0
        self._usual_share = 0.0
        self._trial: tuple[float, int] | None = None

    def note(self, epoch: int, *, is_trouble: bool) -> bool:
        """Count one outcome; return whether the limit has changed."""
        if epoch != self.epoch:
            return False
        self._seen += 1
        self._troubled += is_trouble
        if self._seen < max(self.limit, SMALLEST_WINDOW):
            return False
        before = self.limit
        self._judge_window(self._troubled / self._seen)
        self._seen = self._troubled = 0
        return self.limit != before

    def _judge_window(self, share: float) -> None:
        trial, self._trial = self._trial, None
        if share >= HEAVY_SHARE:
            self._cut()
        elif share - self._usual_share < LIGHT_SHARE:
            self._usual_share = (self._usual_share + share) / 2
            step = self.limit if self._is_starting else max(1, self.cap // 16)
            self.limit = min(self.cap, self.limit + step)
        elif trial is not None and share > trial[0] / 2:
            self._usual_share = share
            self.limit = trial[1]
        else:
            self._trial = (share, self.limit)
            self._cut()

    def _cut(self) -> None:
        self._is_starting = False
        self.limit = max(1, self.limit // 2)
        self.epoch += 1


class RequestSemaphore:
    """Lets as many requests pass at once as the pace allows; calls that are asked again go first.

    New calls are let in only while fewer than twice the limit are unfinished, those that wait for their next
    attempt included: an endpoint that struggles gets the calls it has before it gets more.
    """

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.busy = self.unfinished = 0
        self._again: deque[asyncio.Future[None]] = deque()
        self._new: deque[asyncio.Future[None]] = deque()

    def enter(self) -> asyncio.Future[None]:
        """Return what a new call waits for until it has a place."""
        return self._stand_in(self._new)

    def enter_again(self) -> asyncio.Future[None]:
        """Return what a call waits for until it has a place for its next attempt."""
        return self._stand_in(self._again)

    def leave(self) -> None:
        """Free a place; the call will be asked again."""
        self.busy -= 1
        self.wake()

    def finish(self, count: int = 1) -> None:
        """Free the places of calls that are done with."""
        self.unfinished -= count
        self.busy -= count
        self.wake()

    def reset(self) -> None:
        """Forget all calls; for when none is under way any more."""
        self.busy = self.unfinished = 0
        self._again.clear()
        self._new.clear()

    def wake(self) -> None:
        """Hand out the places that are free."""
        while self.busy < self.pace.limit and self._again:
            self._pass(self._again.popleft(), is_new=False)
        while self.busy < self.pace.limit and self.unfinished < 2 * self.pace.limit and self._new:
            self._pass(self._new.pop(), is_new=True)  # who came last: its memory is still at hand

    def _stand_in(self, line: deque[asyncio.Future[None]]) -> asyncio.Future[None]:
        turn = asyncio.get_running_loop().create_future()
        line.append(turn)
        self.wake()
        return turn

    def _pass(self, turn: asyncio.Future[None], *, is_new: bool) -> None:
        if turn.done():  # its task was cancelled
            return
        self.busy += 1
        self.unfinished += is_new
        turn.set_result(None)


#: Tokens of a text are estimated by its length.
CHARACTERS_PER_TOKEN = 4
#: How long a completion is taken to be while none was seen and the model has no `max_tokens`.
FIRST_GUESS_TOKENS = 256


class EndpointState:
    """One endpoint as all calls to it see it. `draw` gives numbers between 0 and 1."""

    def __init__(
        self, connection: Connection, limits: Limits, clock: Clock, draw: Callable[[], float]
    ) -> None:
        self.connection = connection
        self.limits = limits
        self.clock = clock
        self.draw = draw
        self.semaphore = RequestSemaphore(Pace(limits.choose_concurrent(connection.max_concurrent)))
        self.health = Health(connection.name, connection.host)
        self._requests = _open_bucket(connection.requests_per_minute or limits.requests_per_minute, clock)
        self._tokens = _open_bucket(connection.tokens_per_minute or limits.tokens_per_minute, clock)
        self._longest_seen: int | None = None
        self._closed_until = 0.0

    @property
    def concurrent(self) -> int:
        """The most requests that will ever be under way at once."""
        return self.semaphore.pace.cap

    def estimate_tokens(self, body: bytes) -> tuple[int, int]:
        """Return how many tokens a prompt has and its completion may have."""
        longest = self.connection.generation.max_tokens or self._longest_seen or FIRST_GUESS_TOKENS
        return len(body) // CHARACTERS_PER_TOKEN, longest

    def take_turn(self, tokens: int) -> float:
        """Return how many seconds to wait until the rates allow one more request of so many tokens."""
        wait = self._closed_until - self.clock.now()
        if self._requests is not None:
            wait = max(wait, self._requests.take(1))
        if self._tokens is not None:
            wait = max(wait, self._tokens.take(tokens))
        return wait

    def judge(self, came: Reply | NoReply, epoch: int) -> tuple[Outcome, bool]:
        """Return how a request of an epoch of the pace went, and whether the limit has changed."""
        outcome = self._judge(came)
        has_changed = self.semaphore.pace.note(epoch, is_trouble=outcome.is_overload)
        if has_changed:
            self.semaphore.wake()
        return outcome, has_changed

    def note_usage(self, completion: Completion, estimated: int) -> None:
        """Correct the estimate by what a call used; one without usage, or that failed, used nothing."""
        used = (completion.prompt_tokens or 0) + (completion.completion_tokens or 0)
        if completion.completion_tokens:
            self._longest_seen = max(self._longest_seen or 0, completion.completion_tokens)
        if self._tokens is not None and used:
            self._tokens.give_back(estimated - used)

    def _judge(self, came: Reply | NoReply) -> Outcome:
        if isinstance(came, NoReply):
            return judge_no_reply(came)
        outcome = judge_reply(came, self.connection.read)
        if not outcome.is_overload:
            return outcome
        return self._heed(came, outcome)

    def _heed(self, reply: Reply, outcome: Outcome) -> Outcome:
        """Take in how long the endpoint asks to wait; at one request at a time, nobody asks before that."""
        asked = read_retry_after(reply.headers, self.clock.wall())
        if asked is None:
            return outcome
        if self.semaphore.pace.limit == 1 and reply.status == TOO_MANY_REQUESTS:
            pause = min(asked, self.limits.wait_seconds)
            self._closed_until = max(self._closed_until, self.clock.now() + pause)
        return Outcome(
            outcome.verdict, outcome.completion, outcome.label, is_overload=True, retry_after=asked
        )


def _open_bucket(per_minute: float | None, clock: Clock) -> Bucket | None:
    return None if per_minute is None else Bucket(per_minute, clock)
