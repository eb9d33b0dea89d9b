from __future__ import annotations

from dataclasses import replace

import pytest

from answerkey.evaluate import Judged, Standing
from answerkey.models.calls import BatchSeen
from answerkey.reports.progress import (
    PLAIN_BAR,
    draw_bar,
    draw_standing,
    format_duration,
    format_large,
    write_standing,
)
from answerkey.text import measure_width, plain_text

HALF = Standing(
    task="mmlu",
    purpose="solve",
    done=600,
    total=1200,
    known=100,
    failed=3,
    retried=14,
    prompt_tokens=61_234,
    completion_tokens=980,
    pace=41.7,
    seconds_left=14.4,
    judged=Judged(scored=597, correct=400, invalid=12),
)


def test_the_block_says_how_far_it_is_and_how_it_goes() -> None:
    """Done, failed, retried, pace, tokens, running accuracy with its interval, INVALID share, time left."""
    assert plain_text(draw_standing(HALF, 120)) == (
        "mmlu  ━━━━━━━━━━━━────────────  600/1200  42 requests/s  0:14 left\n"
        "  accuracy so far 67.0 % [63.1, 70.7]  INVALID 2.0 %  failed 3  retried 14  tokens 61.2k + 980"
        "  known before 100\n"
    )


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """What does not fit goes to the next line."""
    drawn = plain_text(draw_standing(HALF, width)).splitlines()
    assert max(map(measure_width, drawn)) <= width
    assert "known before 100" in drawn[-1]


def test_a_log_gets_one_line() -> None:
    """The same facts, without a bar."""
    assert write_standing(HALF) == (
        "mmlu: 600 of 1200 (50 %), 42 requests/s, 0:14 left, accuracy so far 67.0 % [63.1, 70.7], "
        "INVALID 2.0 %, failed 3, retried 14, tokens 61.2k + 980, known before 100"
    )


def test_what_is_not_known_yet_is_left_out() -> None:
    """No accuracy without a completion, no pace within the first second; an endpoint that hangs is named."""
    start = Standing("mmlu", "solve", 0, 10)
    assert write_standing(start) == "mmlu: 0 of 10 (0 %), failed 0, retried 0, tokens 0 + 0"
    assert ", waiting, " in write_standing(Standing("mmlu", "solve", 5, 10, pace=0.0))
    assert "requests/s" not in write_standing(Standing("mmlu", "solve", 10, 10, pace=3.0))


def test_a_run_that_waits_says_why() -> None:
    """Only while nothing comes back; the reason is cut where the line ends, and cannot do harm."""
    waiting = Standing("mmlu", "solve", 5, 10, retried=3, pace=0.0, trouble="`h` refuses\x1b[31m")
    said = "waits because `h` refuses\\x1b[31m"
    assert write_standing(waiting).endswith(f", waiting, failed 0, retried 3, tokens 0 + 0, {said}")
    *_, last = plain_text(draw_standing(waiting, 80)).splitlines()
    assert last == f"  {said}"
    assert "because" not in write_standing(replace(waiting, pace=1.0))
    assert "because" not in write_standing(replace(waiting, done=10))
    assert "because" not in write_standing(replace(waiting, trouble=None))


def test_names_cannot_do_harm() -> None:
    """Control characters are written out, long names cut, and the judge is named."""
    shown = plain_text(draw_standing(Standing("\x1b[31mred" * 9, "solve", 0, 1), 80))
    assert "\x1b" not in shown
    assert "…" in shown
    assert write_standing(Standing("mmlu", "judge:tone", 0, 1)).startswith("mmlu judge:tone: ")


def test_a_poor_encoding_gets_a_plain_bar() -> None:
    """Signs that every terminal has."""
    assert (
        plain_text([draw_bar("checking", 3, 4, bar=PLAIN_BAR)]) == "checking  ==================------  3/4\n"
    )
    assert (
        plain_text([draw_bar("reading", 12, 0, bar=PLAIN_BAR)]) == "reading  ------------------------  12\n"
    )


def test_durations_and_large_numbers_are_short() -> None:
    """As people read them."""
    assert [format_duration(one) for one in (7.2, 750, 11_100)] == ["0:07", "12:30", "3:05:00"]
    assert [format_large(one) for one in (950, 12_345, 4_560_000)] == ["950", "12.3k", "4.56M"]


def test_a_batch_is_shown_in_place_of_the_pace() -> None:
    """Its name, what the endpoint says of it, and how far it is."""
    seen = BatchSeen("batch_1", "in_progress", 3, 10, is_over=False)
    standing = Standing("mmlu", "solve", 0, 10, pace=0.0, batches=(seen,))
    assert write_standing(standing).startswith(
        "mmlu: 0 of 10 (0 %), batch batch_1 in_progress 3/10, failed 0"
    )
    assert "0/10  batch batch_1 in_progress 3/10\n" in plain_text(draw_standing(standing, 100))
