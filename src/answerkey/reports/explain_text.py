"""One sample's whole way, drawn as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from answerkey.exporters import to_json
from answerkey.reports.explain import Explained, Verdict
from answerkey.text import BLANK, Line, Span, line, make_visible, measure_width, wrap
from answerkey.types import Completion

INDENT = "  "
BAR = Span("  | ", "dim")


def draw_explained(explained: Explained, width: int) -> list[Line]:
    """Return the sample's way from its row to its scores, nothing cut."""
    sample_id, task = make_visible(explained.sample_id), make_visible(explained.task)
    trial = "" if explained.trial is None else f", trial {explained.trial}"
    lines = [line(Span(f"Sample {sample_id}", "title"), f" in task {task}{trial}")]
    lines += [line(Span("  --> ", "dim"), make_visible(explained.where))] if explained.where else []
    if explained.missing:
        lines.append(line(Span("warning", "warn"), f": {make_visible(explained.missing)}"))
    if explained.row is not None:
        lines += [BLANK, line(Span("Row", "title")), *_draw_pairs(explained.row, width)]
    if explained.completion is not None:
        lines += draw_messages("Prompt", explained.completion.prompt or ())
        lines += _draw_completion(explained.completion)
    for verdict in explained.verdicts:
        lines += [BLANK, *_draw_verdict(verdict, width)]
    if explained.theirs:
        lines += [BLANK, line(Span("Their verdict", "title")), *_draw_pairs(explained.theirs, width)]
    return lines


def _draw_pairs(pairs: Mapping[str, object], width: int) -> list[Line]:
    names = [make_visible(str(name)) for name in pairs]
    room = max(map(measure_width, names), default=0)
    lines: list[Line] = []
    for name, value in zip(names, pairs.values(), strict=True):
        shown = make_visible(_write_value(value), keep_lines=True).split("\n")
        first, *rest = [part for one in shown for part in wrap(one, max(20, width - room - 4))]
        lines.append(line(INDENT, Span(name + " " * (room - measure_width(name)), "dim"), f"  {first}"))
        lines += [line(" " * (room + 4) + more) for more in rest]
    return lines


def _write_value(value: object) -> str:
    """Return text as it is and other values as JSON; text that would look like something else in quotes."""
    if not isinstance(value, str):
        return to_json(value)
    is_plain = value == value.strip() and value not in {"", "null", "true", "false"}
    return value if is_plain else to_json(value)


def draw_messages(title: str, messages: Sequence[Mapping[str, object]]) -> list[Line]:
    """Return messages in full under a title; nothing for none."""
    if not messages:
        return []
    lines = [BLANK, line(Span(title, "title"))]
    for message in messages:
        content = message.get("content")
        lines.append(line(INDENT, Span(make_visible(str(message.get("role", "?"))), "dim")))
        lines += _draw_block(content if isinstance(content, str) else to_json(content))
    return lines


def _draw_completion(completion: Completion) -> list[Line]:
    lines = [BLANK, line(Span("Completion", "title"), f"  {completion.status.value}")]
    if not completion.text:
        what = "no text" if completion.text is None else "empty text"
        return [*lines, line(INDENT, Span(what, "dim"))]
    return lines + _draw_block(completion.text)


def _draw_block(text: str) -> list[Line]:
    return [line(BAR, one) for one in make_visible(text, keep_lines=True).split("\n")]


def _draw_verdict(verdict: Verdict, width: int) -> list[Line]:
    score: Mapping[str, Any] = verdict.score
    purpose = " (qa: not part of the score)" if verdict.about.get("purpose") == "qa" else ""
    name = make_visible(str(verdict.about.get("display_name") or verdict.key))
    lines = [line(Span("Score", "title"), f" by {name}{purpose}  ", Span(*_show_status(score)))]
    facts = {"reason": score["reason"]} if score["reason"] else {}
    is_scored = score["status"] == "SCORED"
    found = {**score["values"], **score["metadata"]}
    facts |= {fact: value for fact, value in found.items() if is_scored or value is not None}
    lines += _draw_pairs(facts, width)
    if score.get("excluded_by"):
        key = make_visible(str(score["excluded_by"]))
        lines.append(line(INDENT, Span(f"kept out of the metrics by action `{key}`", "warn")))
    return lines + _draw_why(verdict.why, width)


def _show_status(score: Mapping[str, Any]) -> Sequence[Any]:
    correct = score["values"].get("is_correct") if score["status"] == "SCORED" else None
    if correct == 1:
        return "SCORED, correct", "good"
    return ("SCORED, not correct", "warn") if correct == 0 else (score["status"], "strong")


def _draw_why(why: str | None, width: int) -> list[Line]:
    if why is None:
        return []
    first, *rest = wrap(make_visible(why), width - 7)
    return [line(INDENT, Span("why", "strong"), f"  {first}"), *(line(" " * 7 + more) for more in rest)]
