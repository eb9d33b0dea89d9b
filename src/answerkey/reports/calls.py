"""What a run asked of its models: calls, tokens, seconds, and what went wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from answerkey.runs import TaskRun
from answerkey.text import BLANK, Cell, Line, Span, Table, lay_out, line, make_visible, shorten

SHOWN_REASONS = 10
SHOWN_ID = 40
_CENT = 0.01


def draw_calls(entry: Mapping[str, Any], width: int) -> list[Line]:
    """Return what a task asked, by its entry in `run.json`; nothing for one that asked no live model."""
    calls: Mapping[str, Mapping[str, Any]] = entry.get("calls") or {}
    lines: list[Line] = []
    for purpose, one in calls.items():
        lines += [BLANK, line(f"  {_name_purpose(purpose)}"), *_draw_facts(one, width)]
        lines += _draw_reasons("Failed because", one["errors"], width)
        lines += _draw_reasons("Asked again because", one["retried"], width)
    return lines


def draw_cut_off(task: TaskRun) -> list[Line]:
    """Return how many completions the token limit cut off; nothing when none was."""
    count = task.tally.get("cut_off", 0)
    return [line("  ", Span(f"cut off by the token limit: {count}", "warn"))] if count else []


def _name_purpose(purpose: str) -> str:
    kind, _, key = purpose.partition(":")
    return f"Calls of the judge {make_visible(key)}" if kind == "judge" else "Calls"


def _draw_facts(one: Mapping[str, Any], width: int) -> list[Line]:
    rows: list[tuple[Cell, Cell]] = [
        ("calls", _say_calls(one)),
        ("tokens", f"{one['prompt_tokens']} prompt + {one['completion_tokens']} completion"),
    ]
    if one["cost"] is not None:
        rows.append(("cost", format_cost(one["cost"])))
    if one["latency"] is not None:
        rows.append(("latency", f"p50 {one['latency']['p50']:.2f} s, p95 {one['latency']['p95']:.2f} s"))
    facts = [(Span(str(name), "dim"), value) for name, value in rows]
    return lay_out(Table(("", ""), facts, "<<", flexible=1), width)


def _say_calls(one: Mapping[str, Any]) -> str:
    made = f"{one['calls']} = {one['asked']} asked + {one['cached']} from the cache"
    return f"{made}; {one['failed']} failed, {one['retries']} asked again"


def _draw_reasons(title: str, found: Sequence[Mapping[str, Any]], width: int) -> list[Line]:
    if not found:
        return []
    rows = [
        (
            make_visible(one["reason"]),
            str(one["count"]),
            shorten(one["example"]["sample_id"], SHOWN_ID),
            shorten(one["example"]["error"], width),
        )
        for one in found[:SHOWN_REASONS]
    ]
    table = Table((title, "count", "example", "what was said"), rows, "<><<", flexible=3)
    return [BLANK, *lay_out(table, width)]


def format_cost(cost: float) -> str:
    """Return a sum in USD with two digits, and more for less than a cent."""
    return f"about {cost:.2f} USD" if cost >= _CENT or not cost else f"about {cost:.4f} USD"
