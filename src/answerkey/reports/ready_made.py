"""Ready-made tasks: the list of them, and one of them in full; text and plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from answerkey.spec.ready_made import ReadyMade
from answerkey.text import BLANK, Line, Span, Table, lay_out, line, make_visible, wrap

_LABEL = 12


def draw_ready_made(tasks: Sequence[ReadyMade], width: int) -> list[Line]:
    """Return the list of ready-made tasks."""
    rows = [
        (
            Span(one.name, "strong"),
            "" if one.about.rows is None else f"{one.about.rows:,}",
            one.about.options,
            _say_chance(one),
            " ".join(one.about.languages),
            one.about.licence,
        )
        for one in tasks
    ]
    header = ("task", "questions", "options", "chance", "language", "licence")
    return lay_out(Table(header, rows, "<>>><<", flexible=5), width)


def _say_chance(ready: ReadyMade) -> str:
    return "" if ready.about.chance is None else f"{100 * ready.about.chance:.2f} %"


def draw_ready_made_task(ready: ReadyMade, width: int) -> list[Line]:
    """Return all that is to be known of a ready-made task, and how it is run."""
    about, hub = ready.about, ready.describe()["hub"]
    lines = [line(Span(ready.name, "title"), f"  {about.title}"), *_fill(about.summary, "", width), BLANK]
    facts = {
        "questions": "" if about.rows is None else f"{about.rows:,}",
        "options": about.options,
        "chance": _say_chance(ready) or "differs from question to question; `answerkey audit` says it",
        "category": f"column `{about.category}`" if about.category else "none",
        "language": ", ".join(about.languages),
        "licence": about.licence,
        "homepage": about.homepage,
        "cite as": about.citation,
        "on the hub": ", ".join(str(value) for value in hub.values()),
    }
    for label, text in facts.items():
        lines += _fill(text, label, width) if text else []
    lines += [BLANK, line(Span("Files that are read with `--dataset`", "head"))]
    for form, _ in ready.forms:
        lines += _draw_entry(form.description, width)
    lines += [BLANK, line(Span("Config values", "head"))]
    rows = [(key, "" if value is None else str(value), text) for key, value, text in ready.parameters]
    lines += lay_out(Table(("name", "default", "meaning"), rows, "<<<", flexible=2), width)
    lines += [BLANK, line(Span("Run it", "head"))]
    return [*lines, *(line(f"  {command}") for command in list_commands(ready))]


def list_commands(ready: ReadyMade) -> list[str]:
    """Return command lines to begin with."""
    return [
        f"answerkey run {ready.name} --model openai/gpt-4.1-nano",
        f"answerkey run {ready.name} --dataset FILE_OR_FOLDER --model builtin/random",
        f"answerkey score {ready.name} --dataset FILE_OR_FOLDER --completions completions.jsonl",
        f"answerkey init my-project --task {ready.name}",
    ]


def _draw_entry(text: str, width: int) -> list[Line]:
    parts = wrap(make_visible(text), width - 4)
    return [line(f"    {part}" if number else f"  - {part}") for number, part in enumerate(parts)]


def _fill(text: str, label: str, width: int) -> list[Line]:
    """Return a text behind its label, broken into lines."""
    parts = wrap(make_visible(text), width - _LABEL - 2 if label else width)
    if not label:
        return [line(part) for part in parts]
    heads = [label.ljust(_LABEL), *([" " * _LABEL] * (len(parts) - 1))]
    return [line("  ", Span(head, "dim"), part) for head, part in zip(heads, parts, strict=True)]


def describe_ready_made(tasks: Sequence[ReadyMade]) -> dict[str, Any]:
    """Return ready-made tasks as plain values."""
    return {"tasks": [{**one.describe(), "commands": list_commands(one)} for one in tasks]}
