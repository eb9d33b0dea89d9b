"""The laws of retrying: what may pass is asked again, what cannot is not, and neither lasts for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from email.utils import formatdate

import pytest

from answerkey.models.retry import (
    Clock,
    Limits,
    NoReply,
    NoReplyKind,
    Outcome,
    Patience,
    Reply,
    Verdict,
    judge_no_reply,
    judge_reply,
    read_retry_after,
)
from answerkey.types import Completion, CompletionStatus

NOON = 1_800_000_000.0
FAILED = Completion(None, CompletionStatus.ERROR, error="no")
OVERLOAD = Outcome(Verdict.AGAIN, FAILED, "status 503", is_overload=True)
UNREADABLE = Outcome(Verdict.UNREADABLE, FAILED, "unreadable")


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.time = 0.0

    def clock(self) -> Clock:
        """Return the clock."""
        return Clock(lambda: self.time, lambda: NOON + self.time, asyncio.sleep)


def read_well(_status: int, _headers: Mapping[str, str], body: bytes) -> Completion:
    """Return the body as an answer."""
    return Completion(body.decode())


def read_badly(_status: int, _headers: Mapping[str, str], body: bytes) -> Completion:
    """Find no answer in the body."""
    return Completion(None, CompletionStatus.ERROR, error="no sense", raw=body.decode())


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529, 599])
def test_statuses_that_may_pass_are_asked_again(status: int) -> None:
    """These say: not now; and fewer requests at once might help."""
    outcome = judge_reply(Reply(status, {}, b"{}"), read_badly)
    assert (outcome.verdict, outcome.is_overload) == (Verdict.AGAIN, True)


@pytest.mark.parametrize("status", [400, 402, 404, 405, 410, 413, 422])
def test_statuses_that_stay_are_not_asked_again(status: int) -> None:
    """These say: not like this."""
    outcome = judge_reply(Reply(status, {}, b"{}"), read_badly)
    assert (outcome.verdict, outcome.is_overload) == (Verdict.FAILED, False)
    assert outcome.completion.error == "no sense"


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_told_apart(status: int) -> None:
    """These say: not you."""
    assert judge_reply(Reply(status, {}, b"{}"), read_badly).verdict is Verdict.REFUSED


@pytest.mark.parametrize(
    ("status", "body", "label"),
    [
        (429, b'{"error": {"code": "insufficient_quota"}}', "insufficient_quota"),
        (429, b'{"error": {"type": "insufficient_quota", "code": null}}', "insufficient_quota"),
        (404, b'{"code": "model_not_found"}', "model_not_found"),
    ],
)
def test_an_error_that_holds_for_every_call_is_told_apart(status: int, body: bytes, label: str) -> None:
    """It is named in `code` or `type`, of the body or of its `error`."""
    outcome = judge_reply(Reply(status, {}, body), read_badly)
    assert (outcome.verdict, outcome.label, outcome.is_overload) == (Verdict.REFUSED, label, False)


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"code": "rate_limit_exceeded"}}',
        b'{"error": {"message": "insufficient_quota"}}',
        b'{"error": {"code": "model_not_found"}}',
        b'{"error": "insufficient_quota", "code": ["insufficient_quota"]}',
        b'["insufficient_quota"]',
        b"insufficient_quota",
        b"[" * 100_000,
        b'{"error": {"code": "insufficient_quota", "more": [' + b"0," * 2_000_000 + b"0]}}",
    ],
)
def test_any_other_429_may_pass(body: bytes) -> None:
    """Whatever its body looks like."""
    outcome = judge_reply(Reply(429, {}, body), lambda *_: FAILED)
    assert (outcome.verdict, outcome.label) == (Verdict.AGAIN, "status 429")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_a_failure(status: int) -> None:
    """Nothing is sent to another address, and no answer is taken from a redirect."""
    outcome = judge_reply(Reply(status, {"Location": "http://evil.example"}, b"B"), read_well)
    assert outcome.verdict is Verdict.FAILED
    assert outcome.completion.text is None
    assert outcome.completion.error == (
        f"status {status}: the endpoint redirects to another address; redirects are not followed"
    )


def test_an_answer_is_an_answer() -> None:
    """Status 200 with sense in it is done."""
    assert judge_reply(Reply(200, {}, b"B"), read_well) == Outcome(Verdict.ANSWERED, Completion("B"))


def test_an_error_status_is_never_an_answer() -> None:
    """Text in the body of an error status is not what the model said."""
    outcome = judge_reply(Reply(404, {}, b"B"), read_well)
    assert outcome.completion == Completion(None, CompletionStatus.ERROR, error="status 404")


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"choices": [', b"[" * 100_000])
def test_a_body_without_form_is_asked_for_again(body: bytes) -> None:
    """Status 200 with HTML, half a JSON or nothing may pass."""
    assert judge_reply(Reply(200, {}, body), read_badly).verdict is Verdict.UNREADABLE


def test_json_without_an_answer_is_final() -> None:
    """Well-formed JSON that holds no answer would be the same, and paid, again."""
    assert judge_reply(Reply(200, {}, b'{"choices": 5}'), read_badly).verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        ("connect", Verdict.AGAIN),
        ("reset", Verdict.AGAIN),
        ("timeout", Verdict.AGAIN),
        ("unreadable", Verdict.UNREADABLE),
        ("certificate", Verdict.FAILED),
        ("too_large", Verdict.FAILED),
        ("address", Verdict.FAILED),
    ],
)
def test_troubles_of_the_connection(kind: NoReplyKind, verdict: Verdict) -> None:
    """A broken connection may pass; a wrong certificate or a reply that is too large does not."""
    outcome = judge_no_reply(NoReply(kind, "words"))
    assert outcome.verdict is verdict
    assert outcome.completion == Completion(None, CompletionStatus.ERROR, error="words")


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
def test_retry_after_is_read_as_seconds_and_as_a_date(headers: dict[str, str], seconds: float | None) -> None:
    """What cannot be read is as if it were not there; what is past means now."""
    assert read_retry_after(headers, NOON) == seconds


def test_pauses_double_up_to_the_longest() -> None:
    """The upper end of the pause is 0.5 s, 1 s, 2 s and so on, up to `wait_seconds`."""
    patience = Patience(Limits(wait_seconds=10.0, attempts=99), Hand().clock(), lambda: 1.0)
    waits = []
    for _ in range(7):
        patience.begin_attempt()
        waits.append(patience.choose_wait(OVERLOAD))
    assert waits == [0.5, 1, 2, 4, 8, 10, 10]


def test_pauses_are_drawn_from_zero_on() -> None:
    """Full jitter: any part of the pause may be waited, so that clients do not come back together."""
    patience = Patience(Limits(), Hand().clock(), lambda: 0.25)
    patience.begin_attempt()
    assert patience.choose_wait(OVERLOAD) == 0.125


@pytest.mark.parametrize(("asked", "waited"), [(7.0, 7.5), (0.0, 0.5), (3600.0, 60.0)])
def test_the_endpoints_own_wish_is_heeded_up_to_the_longest_pause(asked: float, waited: float) -> None:
    """At least what is asked for plus a drawn part of `first_wait`, at most `wait_seconds`."""
    patience = Patience(Limits(), Hand().clock(), lambda: 1.0)
    patience.begin_attempt()
    outcome = Outcome(Verdict.AGAIN, FAILED, "status 429", is_overload=True, retry_after=asked)
    assert patience.choose_wait(outcome) == waited


def test_attempts_come_to_an_end() -> None:
    """After the last attempt there is no further one."""
    patience = Patience(Limits(attempts=3), Hand().clock(), lambda: 0.0)
    ends = []
    for _ in range(3):
        patience.begin_attempt()
        ends.append(patience.choose_wait(OVERLOAD) is None)
    assert ends == [False, False, True]


def test_unreadable_replies_come_to_an_end_sooner() -> None:
    """They may be paid for, so fewer are asked for, with short pauses."""
    patience = Patience(Limits(attempts=10, unreadable_attempts=5), Hand().clock(), lambda: 1.0)
    waits = []
    for _ in range(5):
        patience.begin_attempt()
        waits.append(patience.choose_wait(UNREADABLE))
    assert waits == [0.5, 1, 2, 2, None]


def test_what_failed_is_not_asked_again() -> None:
    """A final failure has no pause after it."""
    patience = Patience(Limits(), Hand().clock(), lambda: 0.0)
    patience.begin_attempt()
    assert patience.choose_wait(Outcome(Verdict.FAILED, FAILED, "status 400")) is None


def test_the_deadline_holds_over_all_attempts() -> None:
    """An attempt gets what is left of the call's time, and no pause reaches beyond it."""
    hand = Hand()
    patience = Patience(Limits(attempt_seconds=120, call_seconds=200), hand.clock(), lambda: 1.0)
    hand.time = 1000.0
    assert patience.begin_attempt() == 120
    hand.time += 120
    assert patience.choose_wait(OVERLOAD) == 0.5
    assert patience.begin_attempt() == 80
    hand.time += 79.5
    assert patience.choose_wait(OVERLOAD) is None


def test_an_endpoint_that_was_never_heard_of_is_tried_for_seconds() -> None:
    """No connection: as long as `reach_seconds`; no reply in time: once. After a first reply: as ever."""
    lost, late = (Outcome(Verdict.AGAIN, FAILED, label, is_overload=True) for label in ("connect", "timeout"))
    hand = Hand()
    patience = Patience(Limits(), hand.clock(), lambda: 1.0)
    patience.begin_attempt()
    assert patience.choose_wait(late, is_reached=False) is None
    assert patience.choose_wait(lost, is_reached=False) == 0.5
    assert patience.choose_wait(OVERLOAD, is_reached=False) == 0.5
    hand.time = 2.6
    assert patience.choose_wait(lost, is_reached=False) is None
    assert patience.choose_wait(lost) == 0.5
    assert patience.choose_wait(late) == 0.5
