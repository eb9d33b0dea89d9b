"""Laws of what a terminal shows of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from answerkey.evaluate.observer import CallProgress
from answerkey.reports.terminal import (
    PLAIN_BAR,
    draw_bar,
    draw_next_steps,
    draw_progress,
    draw_summary,
)
from answerkey.reports.view import describe_run
from answerkey.runs import Run
from answerkey.text import measure_width, plain_text
from answerkey.types import Groups, GroupValue, MetricValue

from .conftest import COUNTED

MakeRun = Callable[..., Run]
SHARE: dict[str, Any] = {"interval_method": "wilson", "is_share": True}
ACCURACY = MetricValue("Accuracy", 0.85, 100, {}, (0.77, 0.91), std_error=0.0359, **SHARE)
NO_INTERVAL = "the end of a sample says nothing"
ENDS = [MetricValue(name, 12.5, 100, interval_note=NO_INTERVAL) for name in ("Longest", "Shortest")]
CLUSTERS = {"clusters": 57, "cluster_by": "subject"}
CLUSTERED = replace(ACCURACY, details=CLUSTERS, interval_method="clustered_wilson")
SUBJECTS = (
    GroupValue("algebra", 0.5, 10, {}, (0.2366, 0.7634), "wilson"),
    GroupValue("biology", None, 0, {"failed": 2}, note="no sample counts towards it"),
    GroupValue("chemistry", 1.0, 1, interval_note="there is one sample"),
)
GROUPS = Groups("subject", SUBJECTS, GroupValue(None, 0.75, 2, interval_note="too few"))
MANY = tuple(GroupValue(f"g{n:03d}", 0.5, 5 + n, {}, (0.1, 0.9), "wilson") for n in range(80))
TOO_MANY = Groups("id", (), GroupValue(None, None, 20_000, note="there are more than 10000 groups"))
TRACEBACK = (
    'Traceback (most recent call last):\n  File "<python>", line 4, in '
    "compute_scores\n    return f()\n"
    '  File "<python>", line 2, in f\n    return 1 / 0\nZeroDivisionError: division by zero'
)
EXAMPLE = {"sample_id": "000001", "message": "SNIPPET_FAILED", "traceback": TRACEBACK}
RAISED = {"SNIPPET_FAILED (raised): ZeroDivisionError": {"count": 4, "example": EXAMPLE}}
WHERE = '  000001: File "<python>", line 2, in f: ZeroDivisionError: division by zero\n'
NAMED = [
    {"key": "string_equals_mcqa", "purpose": "score", "display_name": "My MCQA"},
    {"key": "python", "purpose": "qa", "display_name": "Length check"},
]
OWN = {"key": "own", "purpose": "qa", "display_name": "My check"}
CATEGORIES = {"history": {"n": 40, "correct": 30, "partial": 0}}
CATEGORIES |= {"science": {"n": 20, "correct": 10, "partial": 0}}
SAID = {"source": "recorded", "file": "said.jsonl", "column": "completions.x"}
RECORDED = {"model": None, "completions": SAID}
ERRORS = dict(zip(COUNTED, (10, 7, 7, 0, 0, 0, 0, 3), strict=True))
BAD_REQUEST = {"sample_id": "s1", "error": "HTTP 400: \x1b[2J"}
TIMEOUT = {"sample_id": "s9", "error": "timeout: " + "long " * 40}
CALLS: dict[str, Any] = {
    "calls": 120,
    "asked": 100,
    "cached": 20,
    "failed": 2,
    "retries": 7,
    "prompt_tokens": 5000,
    "completion_tokens": 100,
    "cost": 0.0123,
    "latency": {"p50": 0.4, "p95": 1.25},
    "errors": [{"reason": "HTTP 400", "count": 2, "example": BAD_REQUEST}],
    "retried": [{"reason": "timeout", "count": 7, "example": TIMEOUT}],
}
UNKNOWN = CALLS | {"cost": None, "latency": None, "errors": [], "retried": []}
INVALID = """\
  Invalid because  count    share  example  completion
  NOT_A_CHOICE         2  22.22 %  000003   "\\x1b[31mThe\\nanswer is \\u202eB"
  REFUSED              1  11.11 %  000002   none
"""
FAILED = f"""\
  Failed scorer  reason                                      count  example
  My check       SNIPPET_FAILED (raised): ZeroDivisionError      4  000001
{WHERE}"""
CALLED = """
  Calls
  calls    120 = 100 sent + 20 from the cache; 2 failed, 7 retried
  tokens   5000 prompt + 100 completion
  cost     about 0.01 USD
  latency  p50 0.40 s, p95 1.25 s

  Failed because  count  example  message
  HTTP 400            2  s1       HTTP 400: \\x1b[2J

  Retried because  count  example  message
  timeout              7  s9       timeout: long long"""


def draw(run: Run, width: int = 100, *, verbose: bool = False, digits: int | None = None) -> str:
    """Return the summary as text."""
    return plain_text(draw_summary(run, width, verbose=verbose, digits=digits))


def group(groups: Groups) -> list[MetricValue]:
    """Return the accuracy in groups."""
    return [MetricValue("MCQA Accuracy", 0.5, 8, {}, (0.2152, 0.7848), groups=(groups,), **SHARE)]


CLUSTERED_ERROR = "standard error clustered by subject: 57 clusters, corrected by C/(C-1)"
COUNTS = """\
  10 samples = 9 scored + 1 failed + 0 errors
  scored = 6 valid + 3 invalid (refused by provider 1, declined 0)
"""
CHECKS = """\
Quality checks (purpose qa), not part of the score
          value  n
  length   12.5  9
"""
LACKING = {"status": "incomplete", "totals": {"counts": ERRORS}}
NAMED_ACCURACY = "  MCQA Accuracy        50.00 %  [21.52, 78.48]  8  My MCQA\n"
OWN_FAILURE = {"entry": {"scorers": [NAMED[0], OWN]}, "totals": {"failures": {"own": RAISED}}}
JUDGED = {"entry": {"calls": {"judge:tone": UNKNOWN}}}


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        # A number never stands alone: interval, count, what is left out, why there is none.
        ({}, "  MCQA Accuracy        50.00 %  [21.52, 78.48]  8\n"),
        ({}, "left out: FAILED 1, drop-odd 1 (MCQA Accuracy)"),
        ({}, "needs two samples (is_correct_std_dev)"),
        ({"metrics": [ACCURACY, *ENDS]}, f"  no interval: {NO_INTERVAL} (Longest, Shortest)\n"),
        ({"metrics": [CLUSTERED]}, f"  {CLUSTERED_ERROR}\n"),
        ({"metrics": [CLUSTERED]}, "  Accuracy  85.00 %  [77.00, 91.00]      3.59 %  100\n"),
        # Samples and scored samples are shown with what they consist of.
        ({}, COUNTS),
        ({"totals": {"cut_off": 4}}, "  cut off by the token limit: 4\n"),
        # The most frequent reason comes first; the example's control characters are visible.
        ({}, INVALID),
        ({}, "  failed    BAD_TRUTH      1  000010\n"),
        # Categories with their Wilson interval, and their mean.
        ({}, "  history         60.00 %  [23.07, 88.24]      3  5\n"),
        ({"totals": {"categories": CATEGORIES}}, "  macro average   62.50 %  [48.42, 74.74]"),
        # Display names are what people read.
        ({"entry": {"scorers": NAMED}}, NAMED_ACCURACY),
        ({"entry": {"scorers": NAMED}}, "  length   12.5  9  Length check\n"),
        ({}, CHECKS),
        # Without a model the summary says where the completions come from.
        ({"entry": RECORDED}, "completions  recorded in said.jsonl, column completions.x"),
        ({}, "SIMULATED: answers made from the key"),
        (LACKING, "INCOMPLETE: 3 of 10 samples got no completion"),
        # What the user should hear once stands at the end.
        ({}, "warning: `choices_field` is an old name\n  = help: write `choices`\n"),
        # A failing snippet beside the main scorer: who, how many rows, one of them, the line.
        (OWN_FAILURE, FAILED),
        ({"totals": {"failures": {"string_equals_mcqa": RAISED}}}, WHERE),
        # Groups: a table of the first metric, and averages below.
        ({"metrics": group(GROUPS)}, "  By subject  MCQA Accuracy   95 % interval   n\n"),
        ({"metrics": group(GROUPS)}, "  algebra           50.00 %  [23.66, 76.34]  10\n"),
        ({"metrics": group(GROUPS)}, "  biology          no value                   0\n"),
        ({"metrics": group(GROUPS)}, "  Averages by subject    micro    macro  groups\n"),
        ({"metrics": group(GROUPS)}, "  MCQA Accuracy        50.00 %  75.00 %       2\n"),
        ({"metrics": group(replace(GROUPS, values=MANY))}, "  … 70 more; `-v` shows more\n"),
        ({"metrics": group(TOO_MANY)}, "  there are more than 10000 groups\n"),
        # Calls: counts that add up, then each reason with an example that can do no harm.
        ({"entry": {"calls": {"solve": CALLS}}}, CALLED),
        (JUDGED, "\n  Calls of the judge tone\n  calls   120"),
    ],
)
def test_the_summary_says(make_run: MakeRun, changes: dict[str, Any], shown: str) -> None:
    """What a run has stands in its summary."""
    assert shown in draw(make_run(**changes))


@pytest.mark.parametrize(
    ("changes", "absent"),
    [
        ({"status": "incomplete"}, " %"),
        ({"status": "running"}, " %"),
        ({"entry": {"model": {"name": "builtin/longest", "simulated": False}}}, "SIMULATED"),
        ({"entry": {"scorers": NAMED}}, "string_equals_mcqa"),
        ({"totals": {"failures": {}}}, "Failed scorer"),
        ({"totals": {"cut_off": 0}}, "cut off"),
        ({"entry": {"calls": {}}}, "Calls"),
        (JUDGED, "cost"),
        ({"metrics": group(replace(GROUPS, values=MANY))}, "g019"),
        # What stands behind the numbers is for `-v`.
        ({}, "predicted"),
        # Where a metric is grouped by the category column, its own table stands for the other.
        ({"metrics": group(replace(GROUPS, column="category"))}, "macro average "),
    ],
)
def test_the_summary_does_not_say(make_run: MakeRun, changes: dict[str, Any], absent: str) -> None:
    """No share while samples are missing, no word about what there is not."""
    assert absent not in draw(make_run(**changes))


def test_more_is_shown_when_asked_for(make_run: MakeRun) -> None:
    """`-v` adds what the numbers depend on and standard errors; `--digits` makes plain numbers."""
    run = make_run(metrics=[ACCURACY, *ENDS])
    text = draw(run, verbose=True)
    assert "config   answer_column='answer'" in text
    assert "  Accuracy  85.00 %  [77.00, 91.00]      3.59 %  100\n" in text
    assert "  Accuracy   0.8500  [0.7700, 0.9100]      0.0359  100\n" in draw(run, digits=4)
    grouped = draw(make_run(metrics=group(GROUPS)), digits=3)
    assert "  algebra             0.500  [0.237, 0.763]  10\n" in grouped


def test_the_number_is_the_last_line(make_run: MakeRun) -> None:
    """With how many were right, where that was counted; none while samples are missing."""
    value = replace(ACCURACY, details={"count": 85, "of": 100})
    last = draw(make_run(metrics=[value])).splitlines()[-1]
    assert last == "Accuracy 85.00 % [77.00, 91.00]  85 of 100 right"
    assert draw(make_run("incomplete")).splitlines()[-1] == "INCOMPLETE, no accuracy"


def test_text_from_data_is_safe_and_fits(make_run: MakeRun, tmp_path: Path) -> None:
    """Neither an id nor what the user's code says can colour the terminal or fill it."""
    hostile = {"sample_id": "\x1b[2J" + "x" * 500, "completion": "A"}
    traceback = "KeyError: '\x1b[31m' " + "word " * 40
    raised = {"sample_id": "\x1b[2J", "message": "m", "traceback": traceback}
    failures = {"own": {"\x1b[1mR": {"count": 1, "example": raised}}}
    invalid = {"EMPTY": {"count": 1, "example": hostile}}
    run = make_run(totals={"failed": {}, "invalid": invalid, "failures": failures})
    assert "\\x1b[2J" + "x" * 32 + "…" in draw(run)
    assert "\x1b" not in draw(run)
    text = draw(make_run(totals={"failures": failures}), 80)
    assert "\\x1b[1mR" in text
    assert max(map(measure_width, text.splitlines())) <= 80
    assert "\x1b" not in plain_text(draw_next_steps(replace(run, path=tmp_path)))
    assert draw_next_steps(run) == []  # commands are only offered for a run that lies on disk


def test_json_has_whole_tracebacks(make_run: MakeRun) -> None:
    """The text has their last line."""
    (task,) = describe_run(make_run(totals={"failures": {"own": RAISED}}))["tasks"]
    assert task["tally"]["failures"] == {"own": RAISED}


# ---------------------------------------------------------------------------------- how far the
# calls are

START = CallProgress("mmlu", "solve", 0, 10)
TOKENS: dict[str, Any] = {"prompt_tokens": 61_234, "completion_tokens": 980}
HALF = replace(START, done=600, total=1200, remembered=100, failed=3, retried=14, **TOKENS)
HALF = replace(HALF, pace=41.7, seconds_left=14.4)
PACE = "41.7 requests/s, 0:14 left, failed 3, retried 14, tokens 61,234 + 980, already answered 100"


def test_the_block_says_how_far_it_is_and_how_it_goes() -> None:
    """Done, failed, retried, pace, tokens, time left."""
    bar = "mmlu  ━━━━━━━━━━━━────────────  600/1200"
    assert plain_text(draw_progress(HALF, 200)) == f"{bar}\n  {PACE}\n"
    waiting = replace(START, pace=0.0, problem="`h` refuses\x1b[31m")
    assert "  waiting: `h` refuses\\x1b[31m, failed 0" in plain_text(draw_progress(waiting, 200))
    for width in (60, 80, 120):
        drawn = plain_text(draw_progress(HALF, width)).splitlines()
        assert max(map(measure_width, drawn)) <= width


def test_bars_are_safe_and_plain_where_they_must_be() -> None:
    """Control characters are written out, long names cut; a poor encoding gets plain signs."""
    shown = plain_text(draw_progress(CallProgress("\x1b[31mred" * 9, "solve", 0, 1), 80))
    assert "\x1b" not in shown
    assert "…" in shown
    bar = f"checking  {'=' * 18}{'-' * 6}  3/4\n"
    assert plain_text([draw_bar("checking", 3, 4, bar=PLAIN_BAR)]) == bar
    assert plain_text([draw_bar("reading", 12, 0, bar=PLAIN_BAR)]) == f"reading  {'-' * 24}  12\n"
