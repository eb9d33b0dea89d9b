"""The laws of giving an endpoint up."""

from __future__ import annotations

from answerkey.errors import SolverError
from answerkey.models.retry import Health, Outcome, Verdict
from answerkey.types import Completion, CompletionStatus

ANSWERED = Outcome(Verdict.ANSWERED, Completion("B"))


def fail(label: str, verdict: Verdict = Verdict.FAILED) -> Outcome:
    """Return a failure of a kind."""
    return Outcome(verdict, Completion(None, CompletionStatus.ERROR, error=f"because of {label}"), label)


def note_all(health: Health, *outcomes: Outcome) -> list[str | None]:
    """Return the codes that final outcomes lead to."""
    found: list[SolverError | None] = [health.note(outcome, is_final=True) for outcome in outcomes]
    return [None if error is None else error.code for error in found]


def test_401_ends_the_asking_at_once() -> None:
    """A key that is refused is refused for every call, also when it was good before."""
    refused = fail("status 401", Verdict.REFUSED)
    assert note_all(Health("m", "h"), refused) == ["E304"]
    assert note_all(Health("m", "h"), ANSWERED, refused) == [None, "E304"]


def test_403_from_the_start_ends_the_asking_at_once() -> None:
    """An endpoint that never answered and forbids it will not answer the next call either."""
    assert note_all(Health("m", "h"), fail("status 403", Verdict.REFUSED)) == ["E304"]


def test_a_single_403_among_answers_concerns_one_call() -> None:
    """Some endpoints forbid single prompts; three in a row are not about a prompt."""
    refused = fail("status 403", Verdict.REFUSED)
    assert note_all(Health("m", "h"), ANSWERED, refused, refused, ANSWERED, refused) == [None] * 5
    assert note_all(Health("m", "h"), ANSWERED, refused, refused, refused)[-1] == "E304"


def test_an_endpoint_that_was_never_reached_is_given_up_with_the_first_call() -> None:
    """The first call that failed for good without a connection says: E306."""
    health = Health("m", "h")
    assert health.note(fail("connect", Verdict.AGAIN), is_final=False) is None
    error = health.note(fail("connect", Verdict.AGAIN), is_final=True)
    assert error is not None
    assert str(error).startswith("error[E306]: `m` cannot be reached: because of connect")


def test_an_endpoint_that_never_answers_is_given_up_after_one_timeout() -> None:
    """It is told with the first call; one that has answered may be slow now and then."""
    silent = fail("timeout", Verdict.AGAIN)
    error = Health("m", "h").note(silent, is_final=True)
    assert str(error).startswith("error[E306]: `m` never answers: because of timeout")
    assert note_all(Health("m", "h"), ANSWERED, silent) == [None, None]


def test_a_model_that_is_not_there_ends_the_asking_at_once() -> None:
    """By the name of the error always; by the status alone while nothing was answered."""
    missing = fail("model_not_found", Verdict.REFUSED)
    assert note_all(Health("m", "h"), ANSWERED, missing) == [None, "E306"]
    assert note_all(Health("m", "h"), fail("status 404")) == ["E306"]
    assert note_all(Health("m", "h"), ANSWERED, fail("status 404")) == [None, None]


def test_a_quota_that_is_used_up_ends_the_asking_at_once() -> None:
    """It holds for every further call."""
    empty = fail("insufficient_quota", Verdict.REFUSED)
    assert note_all(Health("m", "h"), ANSWERED, empty) == [None, "E304"]


def test_fifty_failures_in_a_row_for_one_reason_end_the_asking() -> None:
    """An endpoint that went down, or a used-up quota, is not asked ten thousand times more."""
    outcomes = [ANSWERED, *[fail("status 429", Verdict.AGAIN)] * 50]
    assert note_all(Health("m", "h"), *outcomes) == [None] * 50 + ["E306"]


def test_failures_for_different_reasons_do_not_add_up() -> None:
    """Only one and the same reason counts, and an answer begins anew."""
    mixed = [fail("status 500", Verdict.AGAIN), fail("timeout", Verdict.AGAIN)] * 60
    assert note_all(Health("m", "h"), *mixed) == [None] * 120
    broken = [ANSWERED, *[fail("timeout", Verdict.AGAIN)] * 49] * 3
    assert note_all(Health("m", "h"), *broken) == [None] * 150


def test_faults_of_the_calls_themselves_never_end_the_asking() -> None:
    """A dataset full of prompts that the endpoint calls bad is asked to its end."""
    for label in ("status 400", "status 413", "status 422", "unreadable", "too_large"):
        assert note_all(Health("m", "h"), *[fail(label)] * 200) == [None] * 200
