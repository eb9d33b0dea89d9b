"""Laws of the record of calls."""

from __future__ import annotations

from typing import Any

import pytest

from answerkey.evaluate.session import Reasons, tally_calls
from answerkey.models.calls import Price
from answerkey.runs import JournalCall


def call(number: int = 0, **fields: Any) -> JournalCall:  # noqa: ANN401 - of JournalCall
    """Return a call that was answered at once."""
    known: dict[str, Any] = {
        "purpose": "solve",
        "sample_id": f"s{number}",
        "status": "OK",
        "source": "live",
        "attempts": 1,
        "latency": 1.0,
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "error": None,
    }
    return JournalCall(**{**known, **fields})


def test_calls_tokens_and_cost_add_up() -> None:
    """What comes from the cache is counted apart and costs nothing."""
    calls = [call(0), call(1, attempts=3), call(2, source="cache")]
    one = tally_calls(calls, {"solve": Price(0.01, 0.1)}, Reasons())["solve"]
    assert (one["calls"], one["asked"], one["cached"], one["retries"]) == (3, 2, 1, 2)
    assert (one["prompt_tokens"], one["completion_tokens"]) == (20, 4)
    assert one["cost"] == pytest.approx(0.6)


def test_without_a_price_the_cost_is_not_known() -> None:
    """Not known is not nothing."""
    assert tally_calls([call()], {}, Reasons())["solve"]["cost"] is None


def test_latency_is_that_of_calls_that_were_made() -> None:
    """The median and the 95th percentile, the cache aside; none when nothing was asked."""
    calls = [call(number, latency=float(number)) for number in range(101)]
    one = tally_calls([*calls, call(source="cache", latency=900.0)], {}, Reasons())["solve"]
    assert one["latency"] == {"p50": 50.0, "p95": 95.0}
    assert tally_calls([call(source="cache")], {}, Reasons())["solve"]["latency"] is None


def test_failures_are_grouped_by_reason_with_an_example_each() -> None:
    """The reason is what stands before the colon; the largest group comes first."""
    calls = [
        call(0, status="ERROR", error="HTTP 400: prompt too long"),
        call(1, status="ERROR", error="HTTP 500: oops"),
        call(2, status="ERROR", error="HTTP 500: oops again"),
        call(3),
    ]
    one = tally_calls(calls, {}, Reasons())["solve"]
    assert one["failed"] == 3
    assert one["errors"] == [
        {"reason": "HTTP 500", "count": 2, "example": {"sample_id": "s1", "error": "HTTP 500: oops"}},
        {
            "reason": "HTTP 400",
            "count": 1,
            "example": {"sample_id": "s0", "error": "HTTP 400: prompt too long"},
        },
    ]


def test_each_purpose_has_its_own_record() -> None:
    """The judge's calls are not those of the solver."""
    retried = Reasons()
    retried.add("judge:quality", "HTTP 429: slow down", "s0")
    found = tally_calls([call(0), call(0, purpose="judge:quality")], {}, retried)
    assert list(found) == ["solve", "judge:quality"]
    assert found["solve"]["retried"] == []
    assert found["judge:quality"]["retried"][0]["reason"] == "HTTP 429"
