"""Rows on which a scorer failed: of every scorer, with the place in the user's own code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from answerkey.reports.breakdown import SHOWN_ID, find_main_scorer
from answerkey.reports.scorer_names import name_scorer
from answerkey.runs import TaskRun
from answerkey.text import BLANK, Line, Span, Table, lay_out, line, make_visible, shorten, wrap

SHOWN_REASONS = 20


def draw_scorer_failures(task: TaskRun, width: int) -> list[Line]:
    """Return the FAILED rows of the scorers beside the main one, and where the code of any scorer failed.

    The main scorer's rows stand in the table of samples without a score.
    """
    found: Mapping[str, Mapping[str, Any]] = task.tally.get("failures") or {}
    main = find_main_scorer(task)
    rows = [
        (
            make_visible(name_scorer(task, key)),
            make_visible(reason),
            str(one["count"]),
            shorten(one["example"]["sample_id"], SHOWN_ID),
        )
        for key, reason, one in _list_reasons(found)
        if key != main
    ]
    header = ("Failed scorer", "reason", "count", "example")
    lines = [BLANK, *lay_out(Table(header, rows, "<<><", flexible=1), width)] if rows else []
    for _, _, one in _list_reasons(found):
        lines += _draw_traceback(one["example"], width)
    return lines


def _list_reasons(found: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for key, reasons in found.items():
        ordered = sorted(reasons.items(), key=lambda pair: -pair[1]["count"])
        for reason, one in ordered[:SHOWN_REASONS]:
            yield key, reason, one


def _draw_traceback(example: Mapping[str, Any], width: int) -> list[Line]:
    """Return the last place in the user's code, and what was raised there."""
    lines = (example.get("traceback") or "").strip().splitlines()
    if not lines:
        return []
    place = next((one.strip() for one in reversed(lines) if one.lstrip().startswith("File ")), "")
    sample = shorten(example["sample_id"], SHOWN_ID)
    text = make_visible(": ".join(part for part in (place, lines[-1].strip()) if part))
    first, *rest = wrap(f"{sample}: {text}", width - 2)
    return [line("  ", Span(first, "warn")), *(line("    ", Span(more, "warn")) for more in rest)]
