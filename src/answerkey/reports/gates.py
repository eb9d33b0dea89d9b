"""The gates of a run in its summary and in its JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from answerkey.reports.gate_words import advise_gate, explain_gate
from answerkey.runs import NOT_COMPLETE, Run, describe_gates
from answerkey.text import BLANK, Line, Role, Span, line, make_visible, wrap
from answerkey.types import Gate, GateStatus, find_worst_status

WORDS: dict[GateStatus, str] = {
    GateStatus.PASS: "PASS",
    GateStatus.FAIL: "FAIL",
    GateStatus.NOT_DECIDED: "NOT DECIDED",
    GateStatus.SKIPPED: "SKIPPED",
}
ROLES: dict[GateStatus, Role] = {
    GateStatus.PASS: "good",
    GateStatus.FAIL: "bad",
    GateStatus.NOT_DECIDED: "warn",
    GateStatus.SKIPPED: "dim",
}


def judge_run(run: Run) -> GateStatus | None:
    """Return what all gates of a run come to together; None for a run without any."""
    return find_worst_status(gate.status for gate in run.gates)


def draw_gates(run: Run, width: int) -> list[Line]:
    """Return every gate with what was measured and needed; nothing for a run without policies."""
    gates = run.gates
    verdict = find_worst_status(gate.status for gate in gates)
    if verdict is None:
        return []
    head = line(Span("Gates", "title"), "  ", Span(WORDS[verdict], ROLES[verdict]), f"  {count_gates(gates)}")
    lines = [BLANK, head, *(one for gate in gates for one in _draw_gate(gate, run, width))]
    left = next((gate for gate in gates if gate.note == NOT_COMPLETE), None)
    if left is not None:  # said once: it is the same of all
        text = make_visible(f"{NOT_COMPLETE}: {advise_gate(left, run)}")
        lines += [line(f"  {part}") for part in wrap(text, width - 2)]
    return lines


def count_gates(gates: Sequence[Gate]) -> str:
    """Return how many gates stand how: `2 of 3 pass, 1 fails`."""
    counts = {status: sum(gate.status is status for gate in gates) for status in GateStatus}
    words = {
        GateStatus.FAIL: "failed",
        GateStatus.NOT_DECIDED: "not decided",
        GateStatus.SKIPPED: "skipped",
    }
    rest = [f"{counts[status]} {word}" for status, word in words.items() if counts[status]]
    return ", ".join([f"{counts[GateStatus.PASS]} of {len(gates)} passed", *rest])


def _draw_gate(gate: Gate, run: Run, width: int) -> list[Line]:
    room = max(len(WORDS[one.status]) for one in run.gates)
    indent = " " * (room + 4)
    name = Span(make_visible(name_gate(gate, run)), "strong")
    lines = [line("  ", Span(WORDS[gate.status].ljust(room), ROLES[gate.status]), "  ", name)]
    if gate.note == NOT_COMPLETE:
        return lines
    texts = explain_gate(gate, with_tasks=len(run.tasks) > 1)
    advice = advise_gate(gate, run)
    said: list[tuple[str, Role]] = [(text, "plain") for text in texts]
    said += [(advice, "dim")] if advice else []
    left = max(20, width - len(indent))
    return lines + [
        line(indent, Span(part, role)) for text, role in said for part in wrap(make_visible(text), left)
    ]


def name_gate(gate: Gate, run: Run) -> str:
    """Return what a gate is called: its name, and its policy where there are several."""
    policies = {one.policy for one in run.gates}
    name = gate.display_name or gate.rule
    label = name if name == gate.rule else f"{name} ({gate.rule})"
    return f"{gate.policy}: {label}" if len(policies) > 1 else label


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
