"""The short form of the audit in every summary: other rules, chance, and whether letters are favoured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from answerkey.metrics.chance import (
    correct_for_chance,
    measure_chance,
    measure_kappa,
    measure_recalls,
    measure_spread,
)
from answerkey.reports.figures import format_percent
from answerkey.reports.layout import BLANK, Cell, Line, Span, Table, lay_out, line, wrap
from answerkey.reports.repeats import count_scored
from answerkey.runs import TaskRun
from answerkey.scorers.rereading import LITERAL, OWN, RULE_NAMES, STATED
from answerkey.verbs.audit_findings import advise_format, say_format
from answerkey.verbs.audits import reach_of


def draw_readings(task: TaskRun, width: int, digits: int | None = None) -> list[Line]:
    """Return what other rules would read, the chance level, and a sentence where they differ in earnest."""
    found: Mapping[str, Any] = task.tally.get("readings") or {}
    if not found.get("n"):
        return []
    rows = _list_rules(found, digits)
    header = ("Read by", "accuracy", "INVALID")
    table = lay_out(Table(header, rows, "<>>"), width)
    notes = [_say_extent(found["n"], count_scored(task)), *_say_chance(task, digits)]
    lines = [BLANK, *table]
    lines += [line(Span(f"  {part}", "dim")) for note in notes for part in wrap(note, width - 2)]
    for sentence in _say_difference(found):
        lines += [line("  ", Span(part, "warn")) for part in wrap(sentence, width - 2)]
    return lines


def _name_own(found: Mapping[str, Any]) -> str:
    return str(next(iter(found["own_rule"])))


def _list_rules(found: Mapping[str, Any], digits: int | None) -> list[Sequence[Cell]]:
    rules, own = found["rules"], _name_own(found)
    names = [OWN, *(name for name in RULE_NAMES if name in rules)]
    return [
        (
            Span(f"{own} (this run)", "strong") if name == OWN else name,
            format_percent(rules[name]["correct"] / found["n"], digits),
            format_percent(rules[name]["invalid"] / found["n"], digits),
        )
        for name in names
    ]


def _say_extent(n: int, scored: int) -> str:
    if n < scored:
        return f"on {n} of {scored} completions, drawn at random; `answerkey audit` reads all"
    return "`answerkey audit` reads them as other harnesses do, too"


def _say_chance(task: TaskRun, digits: int | None) -> list[str]:
    sizes = {int(size): count for size, count in (task.tally.get("choice_counts") or {}).items()}
    chance = measure_chance(sizes)
    if chance is None:
        return []
    letters: Mapping[str, Mapping[str, int]] = task.tally["letters"]
    total = sum(sum(row.values()) for row in letters.values())
    right = sum(row.get(letter, 0) for letter, row in letters.items())
    corrected = correct_for_chance(right / total, chance) if total else None
    kappa, spread = measure_kappa(letters), measure_spread(list(measure_recalls(letters).values()))
    facts = [f"chance level {format_percent(chance, digits)}"]
    facts += [] if corrected is None else [f"corrected for chance {format_percent(corrected, digits)}"]
    facts += [] if kappa is None else [f"Cohen's kappa {kappa:.{4 if digits is None else digits}f}"]
    facts += [] if spread is None else [f"recalls of letters spread by {spread:.2f} points (RStd)"]
    return ["; ".join(facts)]


def _say_difference(found: Mapping[str, Any]) -> list[str]:
    """Return the sentence about a rule that would move the accuracy out of its interval."""
    n, rules = found["n"], found["rules"]
    low, high = reach_of(rules[OWN]["correct"], n, found["samples"]) or (0.0, 1.0)
    careful = {name: one["correct"] for name, one in rules.items() if name not in {OWN, LITERAL}}
    outside = {name: count for name, count in careful.items() if not low <= count / n <= high}
    if not outside:
        return []
    best = max(sorted(outside), key=lambda name: (outside[name], name == STATED))
    own, other = rules[OWN]["correct"] / n, outside[best] / n
    sentence = say_format(_name_own(found), own, best, other)
    return [f"{sentence} {_capitalise(advise_format(best, is_better=other > own))}."]


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]
