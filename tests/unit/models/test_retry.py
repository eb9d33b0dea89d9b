"""The laws of retries, rates, concurrency, and of giving an endpoint up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from email.utils import formatdate

import pytest

from answerkey.models.calls import Clock, Limits
from answerkey.models.endpoint import Concurrency, Rate
from answerkey.models.providers import APIS, Connection
from answerkey.models.retry import (
    CallOutcome,
    Health,
    HttpReply,
    NoReply,
    NoReplyKind,
    Retry,
    RetryVerdict,
    judge,
    read_retry_after,
)
from answerkey.types import Completion, CompletionStatus

NOON = 1_800_000_000.0
CONNECTION = Connection("m", APIS["chat"], "http://h/v1", "m")
FAILED = Completion(None, CompletionStatus.ERROR, error="no")
OVERLOAD = CallOutcome(RetryVerdict.AGAIN, FAILED, "status 503")
UNREADABLE = CallOutcome(RetryVerdict.UNREADABLE, FAILED, "unreadable")


@dataclass
class Hand:
    """A clock that is moved by hand, and draws the same number each time."""

    time: float = 0.0
    drawn: float = 1.0

    def clock(self) -> Clock:
        """Return the clock."""
        return Clock(lambda: self.time, lambda: NOON + self.time, asyncio.sleep, lambda: self.drawn)

    def retry(self, **limits: float) -> Retry:
        """Return the attempts of a call, of which none was made."""
        return Retry(Limits(**limits), self.clock())  # type: ignore[arg-type]


def read_well(_status: int, body: bytes) -> Completion:
    """Return the body as an answer."""
    return Completion(body.decode())


def read_badly(_status: int, body: bytes) -> Completion:
    """Find no answer in the body."""
    return Completion(
        None, CompletionStatus.ERROR, error="no sense", raw=body.decode(errors="replace")
    )


AGAIN, LOST = RetryVerdict.AGAIN, RetryVerdict.FAILED
REFUSED = RetryVerdict.REFUSED
#: A status or a kind of silence, the body, and what becomes of the call.
OUTCOMES: list[tuple[int | NoReplyKind, bytes, RetryVerdict, str | None]] = [
    *(
        (status, b"{}", AGAIN, None)
        for status in (408, 409, 425, 429, 500, 502, 503, 504, 529, 599)
    ),
    *((status, b"{}", LOST, None) for status in (400, 402, 404, 405, 410, 413, 422)),
    *((status, b"{}", REFUSED, None) for status in (401, 403)),
    # An error that holds for every call is named in `code` or `type`, of the body or its `error`.
    (429, b'{"error": {"code": "insufficient_quota"}}', REFUSED, "insufficient_quota"),
    (429, b'{"error": {"type": "insufficient_quota"}}', REFUSED, "insufficient_quota"),
    (404, b'{"code": "model_not_found"}', REFUSED, "model_not_found"),
    # Any other 429 may pass, whatever its body looks like.
    (429, b'{"error": {"code": "rate_limit_exceeded"}}', AGAIN, "status 429"),
    (429, b'{"error": {"message": "insufficient_quota"}}', AGAIN, "status 429"),
    (429, b'{"error": {"code": "model_not_found"}}', AGAIN, "status 429"),
    (429, b'{"error": "insufficient_quota", "code": ["insufficient_quota"]}', AGAIN, None),
    (429, b'["insufficient_quota"]', AGAIN, "status 429"),
    (429, b"insufficient_quota", AGAIN, "status 429"),
    (429, b"[" * 100_000, AGAIN, "status 429"),
    (429, b'{"code": "insufficient_quota", "more": [' + b"0," * 10**6 + b"0]}", AGAIN, None),
    # HTML or half a JSON may pass. JSON that holds no answer would be the same, and paid, again.
    *(
        (200, body, RetryVerdict.UNREADABLE, None)
        for body in (b"", b"<html>", b'{"choi', b"[" * 10**5)
    ),
    (200, b'{"choices": 5}', LOST, "unreadable"),
    # A broken connection may pass; a wrong certificate or a reply that is too large does not.
    *((kind, b"", AGAIN, kind) for kind in ("connect", "reset", "timeout")),
    ("unreadable", b"", RetryVerdict.UNREADABLE, "unreadable"),
    *((kind, b"", LOST, kind) for kind in ("certificate", "too_large", "address")),
]


@pytest.mark.parametrize(("status", "body", "verdict", "label"), OUTCOMES)
def test_what_becomes_of_a_call(
    status: int | NoReplyKind, body: bytes, verdict: RetryVerdict, label: str | None
) -> None:
    """Not now, and fewer requests at once might help; not like this; not you."""
    reply = HttpReply(status, {}, body) if isinstance(status, int) else NoReply(status, "no sense")
    outcome = judge(reply, read_badly)
    assert (outcome.verdict, outcome.completion.error) == (verdict, "no sense")
    assert label in {None, outcome.label}


def test_an_answer_is_an_answer_and_an_error_status_is_never_one() -> None:
    """Text in the body of an error status is not what the model said."""
    assert judge(HttpReply(200, {}, b"B"), read_well) == CallOutcome(
        RetryVerdict.ANSWERED, Completion("B")
    )
    error = Completion(None, CompletionStatus.ERROR, error="status 404")
    assert judge(HttpReply(404, {}, b"B"), read_well).completion == error


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": formatdate(NOON + 90, usegmt=True)}, 90.0),
        ({"retry-after": formatdate(NOON - 90, usegmt=True)}, 0.0),
        ({"retry-after": formatdate(NOON + 90, localtime=False)}, 90.0),
        ({"retry-after": "Fri, 99 Foo 2026 00:00:00 GMT"}, None),
        ({"retry-after": "7", "retry-after-ms": "1500"}, 1.5),
    ],
)
def test_retry_after_is_seconds_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    """What cannot be read is as if it were not there; what is past means now."""
    assert read_retry_after(headers, NOON) == seconds


@pytest.mark.parametrize(
    ("limits", "outcome", "waits"),
    [
        ({"wait_seconds": 10.0, "attempts": 99}, OVERLOAD, [0.5, 1, 2, 4, 8, 10, 10]),
        ({"attempts": 3}, OVERLOAD, [0.5, 1, None]),
        ({"unreadable_attempts": 5}, UNREADABLE, [0.5, 1, 2, 2, None]),
        ({}, OVERLOAD._replace(retry_after=7.0), [7.5]),
        ({}, OVERLOAD._replace(retry_after=0.0), [0.5]),
        ({}, OVERLOAD._replace(retry_after=3600.0), [60.0]),
        ({}, CallOutcome(RetryVerdict.FAILED, FAILED), [None]),
        ({}, CallOutcome(RetryVerdict.REFUSED, FAILED), [None]),
        ({}, CallOutcome(RetryVerdict.ANSWERED, Completion("B")), [None]),
    ],
)
def test_the_longest_pause_before_each_attempt(
    limits: dict[str, float], outcome: CallOutcome, waits: list[float | None]
) -> None:
    """Pauses double up to the longest, the endpoint's own wish is heeded, and attempts come to an
    end.
    """
    retry, pauses = Hand().retry(**limits), list[float | None]()
    for _ in waits:
        retry.begin_attempt()
        pauses.append(retry.choose_wait(outcome))
    assert pauses == waits


def test_pauses_are_drawn_from_zero_on() -> None:
    """Full jitter: any part of the pause may be waited, so that clients do not come back
    together.
    """
    retry = Hand(drawn=0.25).retry()
    retry.begin_attempt()
    assert retry.choose_wait(OVERLOAD) == 0.125


def test_the_time_of_a_call_is_limited() -> None:
    """An attempt gets what is left of the call's time, and no pause goes beyond it."""
    hand = Hand()
    retry = hand.retry(attempt_seconds=120, call_seconds=200)
    hand.time = 1000.0
    assert retry.begin_attempt() == 120
    hand.time += 120
    assert retry.choose_wait(OVERLOAD) == 0.5
    assert retry.begin_attempt() == 80
    hand.time += 79.5
    assert retry.choose_wait(OVERLOAD) is None


def test_an_endpoint_that_was_never_heard_of_is_tried_for_seconds() -> None:
    """No connection: as long as `reach_seconds`; no reply in time: once. After a first reply: as
    ever.
    """
    lost, late = (CallOutcome(RetryVerdict.AGAIN, FAILED, why) for why in ("connect", "timeout"))
    hand, silent, answering = Hand(), Health(CONNECTION), Health(CONNECTION)
    answering.note(ANSWERED, is_final=True)
    retry = hand.retry()
    retry.begin_attempt()
    assert retry.choose_wait(late, silent) is None
    assert retry.choose_wait(lost, silent) == 0.5
    assert retry.choose_wait(OVERLOAD, silent) == 0.5
    hand.time = 2.6
    assert retry.choose_wait(lost, silent) is None
    assert retry.choose_wait(lost, answering) == 0.5
    assert retry.choose_wait(late, answering) == 0.5


def test_an_endpoint_that_never_answers_but_with_server_errors_is_tried_for_a_minute() -> None:
    """As long as `failing_seconds`; one that has answered a call before, as ever."""
    hand, failing, answering = Hand(), Health(CONNECTION), Health(CONNECTION)
    answering.note(ANSWERED, is_final=True)
    retry = hand.retry(failing_seconds=60)
    retry.begin_attempt()
    hand.time = 59.4
    assert retry.choose_wait(DOWN, failing) == 0.5
    hand.time = 59.6
    assert retry.choose_wait(DOWN, failing) is None
    assert retry.choose_wait(BUSY, failing) == 0.5
    assert retry.choose_wait(DOWN, answering) == 0.5


# Giving an endpoint up.

ANSWERED = CallOutcome(RetryVerdict.ANSWERED, Completion("B"))


def fail(label: str, verdict: RetryVerdict = RetryVerdict.FAILED) -> CallOutcome:
    """Return a failure of a kind."""
    return CallOutcome(
        verdict, Completion(None, CompletionStatus.ERROR, error=f"because of {label}"), label
    )


UNAUTHORIZED, FORBIDDEN, MISSING, EMPTY = (
    fail(label, RetryVerdict.REFUSED)
    for label in ("status 401", "status 403", "model_not_found", "insufficient_quota")
)
SILENT, DOWN, BUSY = (
    fail(why, RetryVerdict.AGAIN) for why in ("timeout", "status 500", "status 429")
)
OWN_FAULTS = ("status 400", "status 413", "status 422", "unreadable", "too_large")


@pytest.mark.parametrize(
    ("outcomes", "codes"),
    [
        # A key that is refused is refused for every call, also when it was good before.
        ([UNAUTHORIZED], ["E304"]),
        ([ANSWERED, UNAUTHORIZED], [None, "E304"]),
        ([FORBIDDEN], ["E304"]),
        # Some endpoints forbid single prompts; three in a row are not about a prompt.
        ([ANSWERED, FORBIDDEN, FORBIDDEN, ANSWERED, FORBIDDEN], [None] * 5),
        ([ANSWERED, FORBIDDEN, FORBIDDEN, FORBIDDEN], [None, None, None, "E304"]),
        # A model that is not there: by the name of the error, or the status while nothing was
        # answered.
        ([ANSWERED, MISSING], [None, "E306"]),
        ([fail("status 404")], ["E306"]),
        ([ANSWERED, fail("status 404")], [None, None]),
        # A quota that is used up holds for every further call.
        ([ANSWERED, EMPTY], [None, "E304"]),
        # One that has answered may be slow now and then.
        ([ANSWERED, SILENT], [None, None]),
        # Fifty failures in a row for one reason; different reasons do not add up, and an answer
        # begins anew.
        ([ANSWERED, *[BUSY] * 50], [None] * 50 + ["E306"]),
        ([DOWN, SILENT] * 60, [None] * 120),
        # Three calls that end with a server error are enough where nothing was ever answered.
        ([DOWN, DOWN, DOWN], [None, None, "E306"]),
        ([ANSWERED, DOWN, DOWN, DOWN], [None] * 4),
        # Once replies were mixed up, none can be believed.
        ([ANSWERED, fail("mismatched")], [None, "E306"]),
        ([ANSWERED, *[SILENT] * 49] * 3, [None] * 150),
        # A dataset full of prompts that the endpoint calls bad is asked to its end.
        *(([fail(label)] * 200, [None] * 200) for label in OWN_FAULTS),
    ],
)
def test_when_an_endpoint_is_given_up(outcomes: list[CallOutcome], codes: list[str | None]) -> None:
    """What holds for every call ends all calls; what concerns one does not."""
    health = Health(CONNECTION)
    errors = [health.note(outcome, is_final=True) for outcome in outcomes]
    assert [None if error is None else error.code for error in errors] == codes


@pytest.mark.parametrize(
    ("label", "words"), [("connect", "cannot be reached"), ("timeout", "never answers")]
)
def test_an_endpoint_never_reached_is_given_up_with_the_first_call(label: str, words: str) -> None:
    """The first call that failed for good without a word of the endpoint says: E306."""
    health = Health(CONNECTION)
    assert health.note(fail(label, RetryVerdict.AGAIN), is_final=False) is None
    error = health.note(fail(label, RetryVerdict.AGAIN), is_final=True)
    assert str(error).startswith(f"error[E306]: `m` {words}: because of {label}")


# How many requests are under way at once.


def test_calls_that_are_sent_again_go_first() -> None:
    """A waiting retry gets the next place, before new calls that came earlier."""

    async def run() -> list[str]:
        semaphore = Concurrency(1)
        order: list[str] = []

        async def wait_for_turn(name: str) -> None:
            await semaphore.enter(is_retry=name == "again")
            order.append(name)
            semaphore.finish()

        await semaphore.enter()
        tasks = []
        for name in ("new", "again"):
            tasks.append(asyncio.create_task(wait_for_turn(name)))
            await asyncio.sleep(0)
        semaphore.leave()
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(run()) == ["again", "new"]


def test_new_calls_wait_while_twice_the_limit_is_unfinished() -> None:
    """Calls that wait for their next attempt hold no place, but new ones are not let in without
    end.
    """

    async def run() -> bool:
        semaphore = Concurrency(1)
        for _ in range(2):
            await semaphore.enter()
            semaphore.leave()
        third = semaphore.enter()
        await asyncio.sleep(0)
        waits = not third.done()
        await semaphore.enter(is_retry=True)
        semaphore.finish()
        await third
        return waits

    assert asyncio.run(run())


# Rates.


def test_requests_are_spread_over_the_minute() -> None:
    """60 a minute: the first goes at once, each further one a second later; also after an idle
    hour.
    """
    hand = Hand()
    rate = Rate(60, hand.clock())
    assert [rate.take() for _ in range(4)] == [0, 1, 2, 3]
    hand.time = 3600
    assert [rate.take(), rate.take()] == [0, 1]


def test_a_semaphore_lets_in_as_many_as_the_limit() -> None:
    """The third has to wait until one of two has left.

    Who is cancelled meanwhile takes no place.
    """

    async def run() -> list[object]:
        semaphore = Concurrency(2)
        await semaphore.enter()
        await semaphore.enter()
        third, gone = semaphore.enter(), semaphore.enter()
        await asyncio.sleep(0)
        seen: list[object] = [semaphore.busy, third.done()]
        gone.cancel()
        semaphore.finish()
        await third
        return [*seen, semaphore.busy]

    assert asyncio.run(run()) == [2, False, 2]
