"""The audit of a run as `audit --json` prints it, and as people read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from answerkey.run_audit.audit import Audit
from answerkey.run_audit.findings import CleanRows, Finding, ReaderCounts, TaskAudit
from answerkey.run_audit.readings import describe_reading, say_unfit
from answerkey.text import (
    BLANK,
    Cell,
    Line,
    Span,
    Table,
    clean_numbers,
    describe_metric,
    draw_facts,
    draw_finding,
    draw_letter_table,
    draw_text,
    format_count,
    format_interval,
    format_percent,
    format_value,
    lay_out,
    line,
    list_counts,
    make_visible,
    quote,
    shorten,
)

SHOWN_ID, SHOWN_LABELS = 40, 8


def describe_audit(audit: Audit) -> dict[str, Any]:
    """Return the audit as plain values, with every reader, every reason and every finding."""
    tasks = [_describe_task(task) for task in audit.tasks]
    notices = [str(notice) for notice in audit.notices]
    whole = {"audit": {"run": audit.path, "status": audit.status, "tasks": tasks}, "notices": notices}
    described: dict[str, Any] = clean_numbers(whole)
    return described


def _describe_task(task: TaskAudit) -> dict[str, Any]:
    described: dict[str, Any] = {
        "key": task.key,
        "scorer": task.scorer,
        "extraction": task.rule,
        "n": task.n,
        "left_out": dict(task.left_out),
        "num_trials": task.num_trials,
        "samples": task.samples,
        "findings": [asdict(one) for one in task.findings],
    }
    described |= {} if task.drawn_from is None else {"drawn_from": task.drawn_from}
    if task.own is None:
        return described
    clean = task.clean
    return described | {
        "accuracy": task.own.accuracy,
        "chance": task.chance,
        "accuracy_above_chance": task.corrected,
        "kappa": task.kappa,
        "recall_by_letter": dict(task.recalls),
        "rstd_points": task.spread,
        "choice_counts": {str(size): count for size, count in task.choice_counts.items()},
        "readers": [_describe_reader(one) for one in task.readers],
        "flips": {"count": task.flips, "examples": list(task.flipped)},
        "invalid": [asdict(one) for one in task.reasons],
        "letters": {letter: dict(row) for letter, row in task.letters.items()},
        "clean": None
        if clean is None
        else {
            "column": clean.column,
            "values": list(clean.values),
            "labels": dict(clean.labels),
            "n": clean.n,
            "readers": [_describe_reader(one) for one in clean.readers],
            "metrics": [describe_metric(value) for value in clean.metrics.values()],
        },
    }


def _describe_reader(one: ReaderCounts) -> dict[str, Any]:
    derived = ("accuracy", "read", "invalid_share", "interval")
    return asdict(one) | {name: getattr(one, name) for name in derived}


def draw_audit(audit: Audit, width: int, digits: int | None = None) -> list[Line]:
    """Return the whole audit."""
    lines: list[Line] = []
    for task in audit.tasks:
        lines += [BLANK] if lines else []
        lines += _draw_task(task, width, digits)
    return lines


def _draw_task(task: TaskAudit, width: int, digits: int | None) -> list[Line]:
    by = f"  by {task.scorer}, extraction {task.rule}" if task.scorer else ""
    extent = format_count(task.n, "completion")
    extent += "" if task.drawn_from is None else f", drawn at random from {task.drawn_from}"
    if task.samples != task.n:
        samples = format_count(task.samples, "sample")
        extent += f" of {samples}; no intervals in the table: those of one sample are not independent"
    left = ", ".join(f"{name} {count}" for name, count in task.left_out.items())
    extent += f"; left out: {left}" if left else ""
    lines = [line(Span(make_visible(task.key), "title"), make_visible(by)), line(Span(extent, "dim")), BLANK]
    if task.own is None:
        lines.append(line("  No scorer of this task reads choices: only the completions are looked at."))
    else:
        lines += _draw_numbers(task, task.own, width, digits)
        lines += [*_draw_readers(task, width, digits), *_draw_reasons(task, width, digits)]
        lines += draw_letter_table(task.letters, width)
    if task.spread is not None:
        text = f"  RStd, the standard deviation of the shares found: {task.spread:.2f} points"
        lines.append(line(Span(text, "dim")))
    lines += [] if task.clean is None else _draw_clean(task, task.clean, width, digits)
    if not task.n:
        return [*lines, BLANK, line("There was nothing to audit.")]
    return [*lines, BLANK, *draw_findings(task.findings, width)]


def draw_findings(findings: Sequence[Finding], width: int) -> list[Line]:
    """Return findings as a numbered list, each with its next step and some samples."""
    lines: list[Line] = [line(Span("Findings", "title"))]
    for number, one in enumerate(findings, 1):
        notes = {"Next: ": one.step, "See: ": ", ".join(one.examples)}
        lines += draw_finding(number, one.sentence, notes, width)
    return lines if findings else [*lines, line("  nothing stands out")]


def _draw_numbers(task: TaskAudit, own: ReaderCounts, width: int, digits: int | None) -> list[Line]:
    counts, facts = task.choice_counts, {}
    if own.accuracy is not None:
        interval = format_interval(own.interval, digits=digits)
        facts["accuracy"] = f"{format_percent(own.accuracy, digits)}  {interval}"
    if task.chance is not None:
        choices = f"({next(iter(counts))} choices each)"
        if len(counts) > 1:
            choices = f"(mean of 1/K; {min(counts)} to {max(counts)} choices)"
        facts["chance level"] = f"{format_percent(task.chance, digits)}  {choices}"
    if task.corrected is not None:
        facts["corrected for chance"] = format_percent(task.corrected, digits)
    if task.kappa is not None:
        facts["Cohen's kappa"] = f"{task.kappa:.{4 if digits is None else digits}f}"
    return draw_facts([(name, Span(value, "strong")) for name, value in facts.items()], width)


def _draw_readers(task: TaskAudit, width: int, digits: int | None) -> list[Line]:
    rows: dict[bool, list[Sequence[Cell]]] = {False: [], True: []}
    for one in task.readers:
        is_own = one.kind == "own"
        rows[one.kind == "lens"].append(
            (
                Span(make_visible(describe_reading(one, task)["label"]), "strong" if is_own else "plain"),
                _say_accuracy(one, digits),
                format_interval(one.interval, digits=digits),
                str(one.read),
                *(("", "", "") if is_own else (str(one.changes), f"+{one.gains}", f"-{one.losses}")),
            )
        )
    heading: list[Sequence[Cell]] = [[Span("as other harnesses do", "dim"), *[""] * 6]] if rows[True] else []
    header = ("Read by", "accuracy", "95 % interval", "read", "changed", "gained", "lost")
    table = Table(header, [*rows[False], *heading, *rows[True]], "<>>>>>>", flexible=0)
    lines = [BLANK, *lay_out(table, width)]
    for note in say_unfit(task):
        lines += draw_text(note, width, "dim")
    text = "All rules read every completion alike."
    if task.flips:
        more = ", …" if task.flips > task.num_trials * len(task.flipped) else ""
        count = format_count(task.flips, "completion")
        text = f"{count} not read alike by all rules: {', '.join(task.flipped)}{more}"
    return lines + draw_text(text, width, "dim")


def _say_accuracy(one: ReaderCounts, digits: int | None) -> str:
    return "no value" if one.accuracy is None else format_percent(one.accuracy, digits)


def _draw_reasons(task: TaskAudit, width: int, digits: int | None) -> list[Line]:
    rows: list[Sequence[Cell]] = [
        (
            one.reason,
            str(one.count),
            format_percent(one.count / task.n, digits),
            str(one.stated),
            str(one.right),
            shorten(one.example, SHOWN_ID),
            quote(one.completion, width),
        )
        for one in task.reasons
    ]
    header = ("Invalid because", "count", "share", "state one", "right", "example", "completion")
    return [BLANK, *lay_out(Table(header, rows, "<>>>><<", flexible=6), width)] if rows else []


def _draw_clean(task: TaskAudit, clean: CleanRows, width: int, digits: int | None) -> list[Line]:
    values = " or ".join(clean.values) or "none of the clean values"
    title = f"Clean rows: {clean.n} of {task.n}, where {clean.column} is {values}"
    lines = [BLANK, line("  ", Span(make_visible(title), "strong"))]
    lines += draw_text(f"labels: {list_counts(clean.labels, SHOWN_LABELS)}", width, "dim")
    rows: list[Sequence[Cell]] = [
        (
            Span(make_visible(name), "strong"),
            format_value(clean.every[name], digits) if name in clean.every else "",
            format_value(value, digits),
            str(value.n),
        )
        for name, value in clean.metrics.items()
    ]
    for one, other in zip(task.readers, clean.readers, strict=False):
        if one.kind != "lens":
            cells = (_say_accuracy(one, digits), _say_accuracy(other, digits), str(other.n))
            rows.append((f"accuracy by {make_visible(one.name)}", *cells))
    return lines + lay_out(Table(("", "all", "clean", "n (clean)"), rows, "<>>>", flexible=0), width)
