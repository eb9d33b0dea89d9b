from __future__ import annotations

from collections.abc import Callable
from typing import Any

from answerkey.reports.failures import draw_scorer_failures
from answerkey.reports.json_form import describe_run
from answerkey.runs import Run
from answerkey.text import measure_width, plain_text

MakeRun = Callable[..., Run]
TRACEBACK = (
    'Traceback (most recent call last):\n  File "<python>", line 4, in compute_scores\n    return f()\n'
    '  File "<python>", line 2, in f\n    return 1 / 0\nZeroDivisionError: division by zero'
)
EXAMPLE = {
    "sample_id": "000001",
    "message": "SNIPPET_FAILED (raised): ZeroDivisionError: division by zero",
    "traceback": TRACEBACK,
}
FAILURES: dict[str, Any] = {
    "own": {"SNIPPET_FAILED (raised): ZeroDivisionError": {"count": 4, "example": EXAMPLE}}
}
SCORERS = [
    {"key": "string_equals_mcqa", "purpose": "score"},
    {"key": "own", "purpose": "qa", "display_name": "My check"},
]


def draw(run: Run, width: int = 100) -> str:
    """Return the failures of the only task as text."""
    return plain_text(draw_scorer_failures(run.tasks["mcqa"], width))


def test_failing_snippet_beside_the_main_scorer_is_seen(make_run: MakeRun) -> None:
    """The scorer by its display name, how many rows, one of them, the line and what was raised there."""
    run = make_run(entry={"scorers": SCORERS}, tally={"failures": FAILURES})
    assert draw(run) == (
        "\n"
        "  Failed scorer  reason                                      count  example\n"
        "  My check       SNIPPET_FAILED (raised): ZeroDivisionError      4  000001\n"
        '  000001: File "<python>", line 2, in f: ZeroDivisionError: division by zero\n'
    )


def test_failing_main_scorer_shows_its_line(make_run: MakeRun) -> None:
    """The rows of the main scorer stand in another table; where its code failed stands here."""
    run = make_run(tally={"failures": {"string_equals_mcqa": FAILURES["own"]}})
    assert draw(run) == '  000001: File "<python>", line 2, in f: ZeroDivisionError: division by zero\n'


def test_nothing_is_drawn_without_failures(make_run: MakeRun) -> None:
    """Neither for a run without any, nor for one of before they were counted."""
    assert draw(make_run()) == draw(make_run(tally={"failures": {}})) == ""


def test_failures_stay_within_the_width_and_are_safe(make_run: MakeRun) -> None:
    """Text of the user's code cannot colour the terminal."""
    hostile = {"sample_id": "\x1b[2J", "message": "m", "traceback": "KeyError: '\x1b[31m' " + "word " * 40}
    run = make_run(
        entry={"scorers": SCORERS},
        tally={"failures": {"own": {"\x1b[1mR": {"count": 1, "example": hostile}}}},
    )
    text = draw(run, 60)
    assert "\x1b" not in text
    assert max(map(measure_width, text.splitlines())) <= 60


def test_json_has_the_whole_traceback(make_run: MakeRun) -> None:
    """Programs get every scorer's failures with an example."""
    described = describe_run(make_run(tally={"failures": FAILURES}))
    assert described["tasks"][0]["tally"]["failures"] == FAILURES
