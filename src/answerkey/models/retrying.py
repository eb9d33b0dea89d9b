"""What a reply means for its call: answered, to be asked again (and when), or failed for good."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Literal, NamedTuple

from answerkey.models.limits import Clock, Limits
from answerkey.models.message import has_too_many_parts
from answerkey.types import Completion, CompletionStatus

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

TroubleKind = Literal["connect", "reset", "timeout", "unreadable", "certificate", "too_large", "address"]
#: Troubles that end without a word of the endpoint.
SILENT_TROUBLES: frozenset[str] = frozenset({"connect", "certificate", "address", "timeout"})
PASSING_TROUBLES: frozenset[TroubleKind] = frozenset({"connect", "reset", "timeout", "unreadable"})


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


class Trouble(NamedTuple):
    """Why no whole reply came back."""

    kind: TroubleKind
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


def judge_trouble(trouble: Trouble) -> Outcome:
    """Return what becomes of a call that got no whole reply."""
    completion = Completion(None, CompletionStatus.ERROR, error=trouble.why)
    if trouble.kind == "unreadable":
        return Outcome(Verdict.UNREADABLE, completion, trouble.kind)
    if trouble.kind in PASSING_TROUBLES:
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
        if not is_reached and outcome.label in SILENT_TROUBLES:
            ends_at = self._begun_at + (0 if outcome.label == "timeout" else self._limits.reach_seconds)
        is_over = self._is_exhausted() or self._clock.now() + wait >= ends_at
        return None if is_over else wait

    def _is_exhausted(self) -> bool:
        return self.attempts >= self._limits.attempts or self._unreadable >= self._limits.unreadable_attempts

    def _back_off(self, count: int, *, longest: float) -> float:
        most = min(longest, self._limits.first_wait * 2.0 ** min(count - 1, 60))
        return self._draw() * most
