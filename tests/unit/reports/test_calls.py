from __future__ import annotations

from typing import Any

import pytest

from answerkey.reports.calls import draw_calls, draw_cut_off, format_cost
from answerkey.runs import TaskRun
from answerkey.text import plain_text

SOLVE: dict[str, Any] = {
    "calls": 120,
    "asked": 100,
    "cached": 20,
    "failed": 2,
    "retries": 7,
    "prompt_tokens": 5000,
    "completion_tokens": 100,
    "cost": 0.0123,
    "latency": {"p50": 0.4, "p95": 1.25},
    "errors": [
        {"reason": "HTTP 400", "count": 2, "example": {"sample_id": "s1", "error": "HTTP 400: \x1b[2J"}}
    ],
    "retried": [
        {"reason": "timeout", "count": 7, "example": {"sample_id": "s9", "error": "timeout: " + "long " * 40}}
    ],
}


def test_what_was_asked_is_listed_with_its_troubles() -> None:
    """Counts that add up, tokens, cost, latency, then each reason with an example that can do no harm."""
    drawn = plain_text(draw_calls({"calls": {"solve": SOLVE}}, 80)).splitlines()
    assert drawn == [
        "",
        "  Calls",
        "  calls    120 = 100 asked + 20 from the cache; 2 failed, 7 asked again",
        "  tokens   5000 prompt + 100 completion",
        "  cost     about 0.01 USD",
        "  latency  p50 0.40 s, p95 1.25 s",
        "",
        "  Failed because  count  example  what was said",
        "  HTTP 400            2  s1       HTTP 400: \\x1b[2J",
        "",
        "  Asked again because  count  example  what was said",
        "  timeout                  7  s9       timeout: long long long long long long l…",
    ]


def test_a_judge_is_named() -> None:
    """Its calls have a block of their own; what is not known is left out."""
    judge = SOLVE | {"cost": None, "latency": None, "errors": [], "retried": []}
    drawn = plain_text(draw_calls({"calls": {"judge:tone": judge}}, 80))
    assert drawn.startswith("\n  Calls of the judge tone\n")
    assert "cost" not in drawn
    assert "latency" not in drawn


@pytest.mark.parametrize("entry", [{}, {"calls": None}, {"calls": {}}])
def test_without_a_live_model_there_is_nothing_to_say(entry: dict[str, Any]) -> None:
    """Recorded completions and built-in models make no calls; older runs do not say."""
    assert draw_calls(entry, 80) == []


def test_completions_that_were_cut_off_are_counted() -> None:
    """Only when there are any; runs of older releases do not know."""

    def draw(tally: dict[str, Any]) -> str:
        task = TaskRun("t", {}, {}, {}, tally, stored_scores=None, stored_completions=None)  # type: ignore[arg-type]  # not read
        return plain_text(draw_cut_off(task))

    assert draw({"cut_off": 4}) == "  cut off by the token limit: 4\n"
    assert draw({"cut_off": 0}) == draw({}) == ""


def test_small_sums_have_more_digits() -> None:
    """A tenth of a cent is not nothing."""
    shown = [format_cost(one) for one in (0.0, 0.0004, 1.234)]
    assert shown == ["about 0.00 USD", "about 0.0004 USD", "about 1.23 USD"]
