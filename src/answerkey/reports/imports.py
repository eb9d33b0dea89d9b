"""What an import found, in a few lines."""

from __future__ import annotations

from answerkey.importers import Imported
from answerkey.text import Cell, Line, Span, Table, format_count, format_percent, lay_out, line, make_visible


def draw_import(found: Imported, width: int) -> list[Line]:
    """Return what was read, how much of it, what the tool says of it, and where it lies now."""
    told = found.description
    rows: list[tuple[Cell, Cell]] = [("log", make_visible(f"{found.title} ({found.kind})"))]
    rows += [("task", make_visible(told.task))] if told.task else []
    rows += [("model", make_visible(told.model))] if told.model else []
    rows.append(("samples", _say_samples(found)))
    rows.append(("completions", _say_statuses(found)))
    rows += [("their verdict", make_visible(_say_theirs(found)))] if found.judged else []
    rows += [("left out", f"{found.broken} broken lines or members")] if found.broken else []
    rows.append(("folder", make_visible(str(found.folder))))
    facts = [(Span(name if isinstance(name, str) else name.text, "dim"), value) for name, value in rows]
    return [line(Span("Imported", "title")), *lay_out(Table(("", ""), facts, "<<", flexible=1), width)]


def _say_samples(found: Imported) -> str:
    trials = f", {found.num_trials} times each" if found.num_trials > 1 else ""
    return f"{format_count(found.samples, 'sample')}{trials}"


def _say_statuses(found: Imported) -> str:
    return ", ".join(f"{count} {status}" for status, count in found.statuses.items())


def _say_theirs(found: Imported) -> str:
    mean = "" if found.their_mean is None else f"{format_percent(found.their_mean)} right, "
    name = f"`{found.description.score}`: " if found.description.score else ""
    reported = ", ".join(
        f"{name} {value:.6g}" for name, value in list(found.description.reported.items())[:3]
    )
    return f"{name}{mean}{found.judged} judged" + (f"; the log reports {reported}" if reported else "")
