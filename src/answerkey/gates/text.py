"""The gates of a run in words: in its summary and in its JSON, for JUnit and for Markdown."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from answerkey.gates.rules import read_definition
from answerkey.runs import NOT_COMPLETE, Run, describe_gates
from answerkey.text import BLANK, Line, Role, Span, draw_text, line, make_visible, wrap
from answerkey.types import Gate, GateStatus, find_worst_status

#: What a status is called, and how it looks.
WORDS = {status: status.value.replace("_", " ") for status in GateStatus}
ROLES: Mapping[GateStatus, Role] = {
    GateStatus.PASS: "good",
    GateStatus.FAIL: "bad",
    GateStatus.NOT_DECIDED: "warn",
    GateStatus.SKIPPED: "dim",
}
#: A gate on many values names so many of those that are to blame.
SHOWN = 5


def judge_run(run: Run) -> GateStatus | None:
    """Return what all gates of a run come to together; None for a run without any."""
    return find_worst_status(gate.status for gate in run.gates)


def explain_gate(gate: Gate, *, with_tasks: bool) -> list[str]:
    """Return sentences with the numbers behind a gate; `with_tasks` names the task of each."""
    if gate.note is not None:
        return [gate.note]
    rule = read_definition(gate.definition)
    told = [check for check in gate.checks if check.status is gate.status]
    opening, left = "", len(told) - SHOWN
    if gate.status is GateStatus.PASS and left > 0:
        threshold = getattr(rule, "threshold", 0.0)
        told = [min(told, key=lambda check: abs((check.number or 0.0) - threshold))]
        opening, left = f"all {len(gate.checks)} values; closest: ", 0
    lines = []
    for check in told[:SHOWN]:
        place = [check.task] if with_tasks else []
        place += [check.group] if check.group is not None else []
        place += [f"run {check.repetition}"] if check.repetition is not None else []
        lines.append(f"{opening}{': '.join([*filter(None, [', '.join(place)]), rule.explain(check)])}")
    return [*lines, *([f"and {left} more"] if left > 0 else [])]


def advise_gate(gate: Gate, run: Run) -> str | None:
    """Return what to do about a gate that does not pass; None where there is nothing to say."""
    if gate.status in {GateStatus.PASS, GateStatus.SKIPPED}:
        return None
    path = "RUN" if run.path is None else shlex.quote(str(run.path))
    if gate.note == NOT_COMPLETE:
        return f"a share of the rest says nothing about the whole; finish the run: `answerkey resume {path}`"
    if not gate.checks:
        return f"`answerkey show {path}` lists the values that there are"
    check = next(check for check in gate.checks if check.status is gate.status)
    return read_definition(gate.definition).advise(check, path)


def name_gate(gate: Gate, run: Run) -> str:
    """Return what a gate is called: its name, and its policy where there are several."""
    name = gate.display_name or gate.rule
    label = name if name == gate.rule else f"{name} ({gate.rule})"
    return f"{gate.policy}: {label}" if len({one.policy for one in run.gates}) > 1 else label


def count_gates(gates: Sequence[Gate]) -> str:
    """Return how many gates stand how: `2 of 3 passed, 1 failed`."""
    counts = {status: sum(gate.status is status for gate in gates) for status in GateStatus}
    words = {GateStatus.FAIL: "failed", GateStatus.NOT_DECIDED: "not decided", GateStatus.SKIPPED: "skipped"}
    rest = [f"{counts[status]} {word}" for status, word in words.items() if counts[status]]
    return ", ".join([f"{counts[GateStatus.PASS]} of {len(gates)} passed", *rest])


def draw_gates(run: Run, width: int) -> list[Line]:
    """Return every gate with what was measured and needed; nothing for a run without policies."""
    gates, verdict = run.gates, judge_run(run)
    if verdict is None:
        return []
    head = line(Span("Gates", "title"), "  ", Span(WORDS[verdict], ROLES[verdict]), f"  {count_gates(gates)}")
    lines = [BLANK, head]
    longest = max(len(WORDS[gate.status]) for gate in gates)
    indent = " " * (longest + 4)
    for gate in gates:
        name = Span(make_visible(name_gate(gate, run)), "strong")
        lines.append(line("  ", Span(WORDS[gate.status].ljust(longest), ROLES[gate.status]), "  ", name))
        if gate.note == NOT_COMPLETE:
            continue
        told: list[tuple[str, Role]] = [
            (text, "plain") for text in explain_gate(gate, with_tasks=len(run.tasks) > 1)
        ]
        told += [(advice, "dim")] if (advice := advise_gate(gate, run)) else []
        for text, role in told:
            parts = wrap(make_visible(text), max(20, width - len(indent)))
            lines += [line(indent, Span(part, role)) for part in parts]
    left = next((gate for gate in gates if gate.note == NOT_COMPLETE), None)
    if left is not None:  # said once: it is the same of all
        lines += draw_text(f"{NOT_COMPLETE}: {advise_gate(left, run)}", width)
    return lines


def describe_run_gates(run: Run) -> list[dict[str, Any]]:
    """Return the gates as plain values, with their explanations."""
    return [
        {
            **described,
            "explanation": " ".join(f"{text}." for text in explain_gate(gate, with_tasks=len(run.tasks) > 1)),
            "advice": advise_gate(gate, run),
        }
        for gate, described in zip(run.gates, describe_gates(run.gates), strict=True)
    ]
