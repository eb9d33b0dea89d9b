"""Where another tool has judged the same completions: how often its verdicts and ours differ, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from answerkey.reports.readings import describe_spots
from answerkey.runs import TaskRun
from answerkey.text import (
    BLANK,
    Cell,
    Line,
    Span,
    Table,
    format_count,
    format_percent,
    lay_out,
    line,
    make_visible,
    quote,
    shorten,
    wrap,
)

#: What is said of a reason that is not one of our own for INVALID.
WORDS = {
    "READ_ALIKE": "both read the same answer; the truths differ",
    "READ_ANOTHER": "another answer was read",
    "THEY_READ_NOTHING": "they read no answer",
}
SIDES = {
    "only_theirs": "They say right, we say wrong",
    "only_ours": "We say right, they say wrong",
}
UNCOMPARED = {
    "NOT_JUDGED": "not judged by them",
    "PARTLY_RIGHT": "partly right for them",
    "NOT_SCORED": "not scored by us",
}
SHOWN_READERS = 4
SHOWN_ID, SHOWN_ANSWER = 24, 16


def draw_theirs(
    task: TaskRun, width: int, digits: int | None = None, *, with_shares: bool = True
) -> list[Line]:
    """Return how their verdicts compare with ours; nothing where nobody else has judged."""
    found: Mapping[str, Any] = task.tally.get("theirs") or {}
    if not found or not (found["compared"] or found["not_compared"]):
        return []
    lines = [BLANK, line(Span("  Their verdicts and ours", "strong"))]
    lines += _draw_cells(found, width) if found["compared"] else []
    notes = [*(_say_shares(found, digits) if with_shares else ()), *_say_others(found)]
    lines += [line(Span(f"  {part}", "dim")) for note in notes for part in wrap(note, width - 2)]
    for side, title in SIDES.items():
        lines += _draw_side(found[side], title, width)
    for note in _say_readers(task):
        lines += [line(f"  {part}") for part in wrap(note, width - 2)]
    return lines


def _draw_cells(found: Mapping[str, Any], width: int) -> list[Line]:
    rows: list[Sequence[Cell]] = [
        ("theirs right", str(found["both_right"]), str(found["only_theirs"]["count"])),
        ("theirs wrong", str(found["only_ours"]["count"]), str(found["both_wrong"])),
    ]
    return lay_out(Table(("", "ours right", "ours wrong"), rows, "<>>"), width)


def _say_shares(found: Mapping[str, Any], digits: int | None) -> list[str]:
    n = found["compared"]
    if not n:
        return []
    same = (found["both_right"] + found["both_wrong"]) / n
    theirs = (found["both_right"] + found["only_theirs"]["count"]) / n
    ours = (found["both_right"] + found["only_ours"]["count"]) / n
    alike = f"the same in {format_percent(same, digits)} of {format_count(n, 'completion')}"
    right = f"right by theirs {format_percent(theirs, digits)}, by ours {format_percent(ours, digits)}"
    return [f"{alike}; {right}"]


def _say_others(found: Mapping[str, Any]) -> list[str]:
    others = [f"{UNCOMPARED[name]} {count}" for name, count in found["not_compared"].items()]
    return [f"not compared: {', '.join(others)}"] if others else []


def _draw_side(side: Mapping[str, Any], title: str, width: int) -> list[Line]:
    if not side["count"]:
        return []
    ordered = sorted(side["reasons"].items(), key=lambda pair: -pair[1]["count"])
    rows: list[Sequence[Cell]] = []
    for reason, one in ordered:
        example = one["example"]
        read = make_visible(shorten(example["their_answer"] or "", SHOWN_ANSWER))
        name = shorten(example["sample_id"], SHOWN_ID)
        rows.append((reason, str(one["count"]), name, read, quote(example["completion"], width)))
    header = (title, "count", "example", "they read", "completion")
    notes = [f"{reason}: {WORDS[reason]}" for reason, _ in ordered if reason in WORDS]
    drawn = lay_out(Table(header, rows, "<><<<", flexible=4), width)
    return [*drawn, *(line(Span(f"  {note}", "dim")) for note in notes)]


def _say_drawn(task: TaskRun) -> str:
    spots = describe_spots(task)
    is_drawn = spots is not None and spots.drawn_from is not None
    return f" among {spots.samples:,} samples drawn at random" if spots and is_drawn else ""


def _say_readers(task: TaskRun) -> list[str]:
    """Return who reads as they do where the verdicts differ."""
    found: Mapping[str, Any] = (task.tally.get("readings") or {}).get("theirs") or {}
    if not found.get("n"):
        return []
    ordered = sorted(found["readers"].items(), key=lambda pair: (-pair[1], pair[0]))
    best = [f"{name} {count}" for name, count in ordered[:SHOWN_READERS] if count]
    which = f"Of {format_count(found['n'], 'completion')} that differ{_say_drawn(task)}"
    if not best:
        return [f"{which}, no rule reads any as they do."]
    return [f"{which}, so many get their verdict by other rules: {', '.join(best)}."]
