"""What a reply means for its call, the delay before a retry, and when to give up an endpoint.

`Retry.choose_wait` is the delay before the next attempt; its numbers are fields of `Limits`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import TYPE_CHECKING, Literal, NamedTuple

from answerkey.errors import SolverError
from answerkey.models.calls import Clock, Limits
from answerkey.models.responses import fail, get_field, has_too_many_parts, parse_json
from answerkey.types import Completion, CompletionStatus

if TYPE_CHECKING:
    from answerkey.models.providers import Connection

# What a reply means for its call.

#: The names of errors that will hit every further call, by status; they are in `code` or `type`, of
#: the body or of its `error`.
LASTING_ERRORS = {404: "model_not_found", 429: "insufficient_quota"}
_REDIRECTS = 300
_MISTAKES = 400
_SERVER_ERRORS = 500
#: The longest wait after an unreadable reply: its endpoint is not overloaded.
LONGEST_UNREADABLE_WAIT = 2.0

NoReplyKind = Literal[
    "connect",
    "reset",
    "timeout",
    "unreadable",
    "mismatched",
    "certificate",
    "compressed",
    "too_large",
    "address",
]
#: Errors without any response of the endpoint.
UNREACHABLE_KINDS: frozenset[str] = frozenset({"connect", "certificate", "address", "timeout"})


class HttpRequest(NamedTuple):
    """A request to send; `url` is another path of the endpoint, `max_bytes` another limit of the
    reply.
    """

    body: bytes | None
    method: Literal["GET", "POST"] = "POST"
    url: str | None = None
    content_type: str = "application/json"
    max_bytes: int | None = None


class HttpReply(NamedTuple):
    """An HTTP response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoReply(NamedTuple):
    """Why there is no whole response."""

    kind: NoReplyKind
    why: str


class RetryVerdict(Enum):
    """What happens to a call after an attempt.

    After AGAIN, fewer simultaneous requests might help.
    """

    ANSWERED = "answered"
    AGAIN = "again"
    UNREADABLE = "unreadable"
    REFUSED = "refused"
    FAILED = "failed"


class CallOutcome(NamedTuple):
    """The outcome of an attempt; `label` names the problem, the same for the same cause."""

    verdict: RetryVerdict
    completion: Completion
    label: str = ""
    retry_after: float | None = None

    @property
    def is_server_error(self) -> bool:
        """Whether the endpoint replied with a status of 500 or above."""
        return self.label.startswith("status 5")


#: Returns the completion in a status and a body.
Reader = Callable[[int, bytes], Completion]
_NO_REPLY_VERDICTS = {
    "connect": RetryVerdict.AGAIN,
    "reset": RetryVerdict.AGAIN,
    "timeout": RetryVerdict.AGAIN,
    "unreadable": RetryVerdict.UNREADABLE,
}


def judge(reply: HttpReply | NoReply, read: Reader) -> CallOutcome:
    """Return the outcome of an attempt; `read` makes a completion of any reply."""
    if isinstance(reply, NoReply):
        verdict = _NO_REPLY_VERDICTS.get(reply.kind, RetryVerdict.FAILED)
        return CallOutcome(verdict, fail(reply.why), reply.kind)
    completion = read(reply.status, reply.body)
    if reply.status >= _REDIRECTS:
        return _judge_error(reply, completion)
    if completion.status is not CompletionStatus.ERROR:
        return CallOutcome(RetryVerdict.ANSWERED, completion)
    # JSON would be no better next time.
    verdict = RetryVerdict.UNREADABLE
    if has_too_many_parts(reply.body) or parse_json(reply.body) is not None:
        verdict = RetryVerdict.FAILED
    return CallOutcome(verdict, completion, "unreadable")


def _judge_error(reply: HttpReply, completion: Completion) -> CallOutcome:
    """Return the outcome of an attempt whose status is not 2xx."""
    status = reply.status
    label = f"status {status}"
    if status < _MISTAKES:
        why = f"{label}: the endpoint redirects to another address; redirects are not followed"
        completion = fail(why).with_fields(raw=completion.raw)
    elif completion.status is not CompletionStatus.ERROR:
        completion = fail(label)
    lasting = LASTING_ERRORS.get(status)
    if lasting is not None and lasting in _list_error_names(reply.body):
        return CallOutcome(RetryVerdict.REFUSED, completion, lasting)
    if status in {401, 403}:
        return CallOutcome(RetryVerdict.REFUSED, completion, label)
    if status in {408, 409, 425, 429} or status >= _SERVER_ERRORS:
        return CallOutcome(RetryVerdict.AGAIN, completion, label)
    return CallOutcome(RetryVerdict.FAILED, completion, label)


def _list_error_names(body: bytes) -> list[object]:
    """Return the names of a body's error: `code` and `type`, of the body and of its `error`."""
    if has_too_many_parts(body):
        return []
    names = []
    value = parse_json(body)
    for holder in (value, get_field(value, "error")):
        names += [get_field(holder, "code"), get_field(holder, "type")]
    return names


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
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, moment.timestamp() - wall)
    except (ValueError, TypeError, OverflowError):
        return None


# The delay before the next attempt.


class Retry:
    """The attempts of one call; its time starts with the first attempt."""

    __slots__ = ("_begun_at", "_clock", "_limits", "_unreadable", "attempts")

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self.attempts = 0
        self._unreadable = 0
        self._limits = limits
        self._clock = clock
        self._begun_at = math.inf

    def begin_attempt(self) -> float:
        """Count an attempt; return how many seconds it may take."""
        now = self._clock.now()
        if self.attempts == 0:
            self._begun_at = now
        self.attempts += 1
        left = self._begun_at + self._limits.call_seconds - now
        return max(0.0, min(self._limits.attempt_seconds, left))

    def choose_wait(self, outcome: CallOutcome, health: Health | None = None) -> float | None:
        """Return the seconds to wait before the next attempt; None if there is no further attempt.

        An endpoint that has never answered is tried for a shorter time, see `Limits`; a single
        timeout is then enough to stop.
        """
        limits = self._limits
        if outcome.verdict is RetryVerdict.UNREADABLE:
            self._unreadable += 1
            wait = self._draw_wait(self._unreadable, LONGEST_UNREADABLE_WAIT)
        elif outcome.verdict is RetryVerdict.AGAIN:
            wait = self._draw_wait(self.attempts, limits.wait_seconds)
        else:
            return None
        if outcome.retry_after is not None:
            least = outcome.retry_after + self._clock.draw() * limits.first_wait
            wait = max(wait, least)
            wait = min(limits.wait_seconds, wait)
        if self.attempts >= limits.attempts or self._unreadable >= limits.unreadable_attempts:
            return None
        ends_at = self._begun_at + self._choose_time_limit(outcome, health)
        if self._clock.now() + wait >= ends_at:
            return None
        return wait

    def _draw_wait(self, count: int, longest: float) -> float:
        doubled = self._limits.first_wait * 2.0 ** min(count - 1, 60)
        return self._clock.draw() * min(longest, doubled)

    def _choose_time_limit(self, outcome: CallOutcome, health: Health | None) -> float:
        """Return the number of seconds for which the call is tried."""
        limits = self._limits
        if health is None:
            return limits.call_seconds
        if not health.is_reached and outcome.label == "timeout":
            return 0.0
        if not health.is_reached and outcome.label in UNREACHABLE_KINDS:
            return limits.reach_seconds
        if not health.has_answered and outcome.is_server_error:
            return limits.failing_seconds
        return limits.call_seconds


# When to give up an endpoint.

#: This many permanent failures in a row with the same cause end all calls.
FAILURES_IN_A_ROW = 50
#: Once an endpoint has answered, this many consecutive replies with status 403 end the calls: a
#: single one may be about one prompt. As many web pages in a row show that it is not an API.
REFUSALS_IN_A_ROW = 3
#: Failures that each call causes by itself; however many there are, they do not end the other
#: calls.
_OWN_FAULTS = frozenset({"status 400", "status 413", "status 422", "unreadable", "too_large"})
_GO_ON = "then `answerkey resume` continues"


class Health:
    """What the outcomes of calls say about the endpoint.

    `is_reached` is whether it has ever replied at all, `has_answered` whether it has ever answered
    a call.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.is_reached = False
        self.has_answered = False
        self._label = ""
        self._count = 0

    def note(self, outcome: CallOutcome, *, is_final: bool) -> SolverError | None:
        """Record an outcome; return the error that ends the calls, or None."""
        label = outcome.label
        self.is_reached |= label not in UNREACHABLE_KINDS
        if outcome.verdict is RetryVerdict.ANSWERED:
            self.has_answered = True
            self._count = 0
            return None
        if not is_final:
            return None
        if label != self._label:
            self._count = 0
        self._count += 1
        self._label = label
        why = (outcome.completion.error or label)[:300]
        if outcome.verdict is RetryVerdict.REFUSED:
            return self._explain_refusal(label, why)
        if not self.is_reached:
            return self._explain_silence(label, why)
        return self._explain_failures(outcome, why)

    def _explain_refusal(self, label: str, why: str) -> SolverError | None:
        name = self._connection.name
        host = self._connection.host
        if label == "model_not_found":
            return self._explain_unknown(why)
        if label == "insufficient_quota":
            message = f"`{host}` has no quota left for the key of `{name}`: {why}"
            hint = "add credit, or raise the limit of the account; what was answered is kept"
            hint = f"{hint}, {_GO_ON}"
            return SolverError("E304", message, hint=hint)
        is_single = label == "status 403" and self._count < REFUSALS_IN_A_ROW
        if self.has_answered and is_single:
            return None
        problem = "refuses the key"
        step = "check the key in"
        if not self._connection.has_secret:
            problem = "requires an API key, but none was sent"
            step = "put a key into"
        return SolverError(
            "E304",
            f"the endpoint of `{name}` {problem} ({label}): {why}",
            hint=f"{step} {self._connection.key_source}; what was answered is kept, {_GO_ON}",
        )

    def _explain_unknown(self, why: str) -> SolverError:
        name = self._connection.name
        message = f"`{self._connection.host}` does not know the model, or the address, of `{name}`"
        hint = f"{correct_address(name)}, and start a new run"
        hint = f"{hint}; or let the endpoint load it, {_GO_ON}"
        return SolverError("E306", f"{message}: {why}", hint=hint)

    def _explain_silence(self, label: str, why: str) -> SolverError:
        problem = "never answers" if label == "timeout" else "cannot be reached"
        hint = f"check the address, and whether the endpoint is running; {_GO_ON}"
        if "without TLS" in why:
            hint = f"write `{self._connection.name.replace('https://', 'http://', 1)}`"
        return SolverError("E306", f"`{self._connection.name}` {problem}: {why}", hint=hint)

    def _explain_failures(self, outcome: CallOutcome, why: str) -> SolverError | None:
        name = self._connection.name
        is_hopeless = not self.has_answered and self._count >= REFUSALS_IN_A_ROW
        message = ""
        if outcome.label == "mismatched":
            message = f"the replies of `{name}` cannot be matched to the requests: {why}"
            hint = "replies of this run may be on the wrong samples: start a new one, without "
            hint += "that gateway"
        elif outcome.label == "status 404" and not self.has_answered:
            return self._explain_unknown(why)
        elif is_hopeless and outcome.is_server_error:
            message = f"every call to `{name}` failed: {why}"
            hint = f"look for the reason in the log of the endpoint; {_GO_ON}"
        elif is_hopeless and "HTML" in why:
            message = f"`{name}` is a web page, not an API: {why}"
            hint = f"{correct_address(name)}, and start a new run"
        elif self._count >= FAILURES_IN_A_ROW and outcome.label not in _OWN_FAULTS:
            message = f"{self._count} calls to `{name}` failed in a row, all for the same reason"
            message = f"{message}: {why}"
            hint = "what was answered is kept, and `answerkey resume` calls the model for the rest"
        return SolverError("E306", message, hint=hint) if message else None


def correct_address(name: str) -> str:
    """Return what to do about a model whose address is wrong, or whose name the endpoint does not
    know.
    """
    whole, mark, model = name.partition("#")
    address = whole.partition("?")[0].rstrip("/")
    if not mark:
        return "correct the name or the address"
    if not re.search(r"/v\d|/chat/|/completions", address):
        return f"most APIs have `/v1` in their address: write `{address}/v1#{model}`"
    return f"correct the name or the address (`curl {address}/models` lists the names)"
