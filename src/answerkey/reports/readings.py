"""The short form of the audit in every summary: other rules, chance, and whether letters are favoured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from answerkey.metrics.classification import (
    correct_for_chance,
    measure_chance,
    measure_kappa,
    measure_recalls,
    measure_rstd,
)
from answerkey.reports.breakdown import find_main_scorer
from answerkey.reports.listing import find_main_metric, is_accuracy
from answerkey.runs import TaskRun
from answerkey.scorers.scoring import OWN, RULE_NAMES
from answerkey.text import BLANK, Cell, Line, Span, Table, format_percent, lay_out, line, wrap
from answerkey.types import Validity
from answerkey.verbs.audit_findings import find_format
from answerkey.verbs.audits import ReaderCounts, ReaderKind, TaskAudit


@dataclass(frozen=True)
class Reading:
    """One line of "Read by": what one rule or lens gets of the `n` completions, of which it reads `read`.

    `drawn` is the number of samples that stand for all of them; None where all were read.
    """

    name: str
    kind: ReaderKind
    value: float | None
    interval: tuple[float, float] | None
    invalid_share: float | None
    read: int
    n: int
    drawn: int | None = None

    @property
    def label(self) -> str:
        """The name, with what is to be known of the line."""
        notes = ["this run"] if self.kind == "own" else []
        notes += [] if self.drawn is None else [f"from {self.drawn:,} samples"]
        return f"{self.name} ({', '.join(notes)})" if notes else self.name


def list_readings(task: TaskRun, audit: TaskAudit) -> list[Reading]:
    """Return the lines of an audit; the run's own has the run's own number, of all samples."""
    is_main = audit.scorer == find_main_scorer(task)
    return [
        _read_own(task, one.name) if one.kind == "own" and is_main else list_reading(one, audit)
        for one in audit.readers
        if one.n
    ]


def list_reading(one: ReaderCounts, audit: TaskAudit | None = None) -> Reading:
    """Return one line of an audit; of counts that are of all samples without one."""
    drawn = audit.samples if audit is not None and audit.drawn_from is not None else None
    share = one.invalid_share
    return Reading(one.name, one.kind, one.accuracy, one.interval, share, one.read, one.n, drawn)


def _read_own(task: TaskRun, rule: str) -> Reading:
    """Return what the run itself read: counts of all samples, and its main metric if that is the accuracy."""
    found = list_reading(count_own(task, rule))
    metric = find_main_metric(task)
    if metric is None or metric.value is None or not is_accuracy(task, metric):
        return found
    return replace(found, value=metric.value, interval=metric.interval)


def count_own(task: TaskRun, rule: str) -> ReaderCounts:
    """Return the counts of all completions by the rule of the run's main scorer."""
    letters: Mapping[str, Mapping[str, int]] = task.tally.get("letters") or {}
    total = sum(sum(row.values()) for row in letters.values())
    right = sum(row.get(letter, 0) for letter, row in letters.items())
    invalid = sum(row.get(Validity.INVALID.value, 0) for row in letters.values())
    return ReaderCounts(rule, "own", total, right, invalid, min(total, task.counts["samples"]))


def describe_spots(task: TaskRun) -> TaskAudit | None:
    """Return the completions that the run had every rule read, as an audit; None where there are none."""
    found: Mapping[str, Any] = task.tally.get("readings") or {}
    if not found.get("n"):
        return None
    n, samples, rule = found["n"], found["samples"], str(next(iter(found["own_rule"])))
    names = [OWN, *(name for name in RULE_NAMES if name in found["rules"])]
    readers = tuple(
        ReaderCounts(
            name=rule if name == OWN else name,
            kind="own" if name == OWN else "rule",
            n=n,
            correct=found["rules"][name]["correct"],
            invalid=found["rules"][name]["invalid"],
            samples=samples,
        )
        for name in names
    )
    total = count_own(task, rule).n
    return TaskAudit(
        task.key,
        find_main_scorer(task),
        rule,
        n,
        {},
        1,
        samples,
        readers=readers,
        drawn_from=total if n < total else None,
    )


def draw_readings(task: TaskRun, width: int, digits: int | None = None) -> list[Line]:
    """Return what other rules would read, the chance level, and a sentence where they differ in earnest."""
    spots = describe_spots(task)
    if spots is None:
        return []
    rows: list[Sequence[Cell]] = [
        (
            Span(one.label, "strong" if one.kind == "own" else "plain"),
            "no value" if one.value is None else format_percent(one.value, digits),
            "" if one.invalid_share is None else format_percent(one.invalid_share, digits),
            str(one.read),
        )
        for one in list_readings(task, spots)
    ]
    table = lay_out(Table(("Read by", "accuracy", "INVALID", "read"), rows, "<>>>"), width)
    notes = [_say_extent(spots), *say_unfit(spots), *_say_chance(task, digits)]
    lines = [BLANK, *table]
    lines += [line(Span(f"  {part}", "dim")) for note in notes for part in wrap(note, width - 2)]
    for one in find_format(spots):
        sentence = f"{one.sentence} {one.step[:1].upper()}{one.step[1:]}."
        lines += [line("  ", Span(part, "warn")) for part in wrap(sentence, width - 2)]
    return lines


def _say_extent(spots: TaskAudit) -> str:
    if spots.drawn_from is not None:
        extent = f"{spots.n} of {spots.drawn_from} completions, drawn at random"
        return f"other rules on {extent}; `answerkey audit` reads all"
    return "`answerkey audit` reads them as other harnesses do, too"


def say_unfit(audit: TaskAudit) -> list[str]:
    """Return the sentence about rules and lenses that say little; nothing where each reads half or more."""
    if not audit.unfit:
        return []
    return [f"no finding rests on what reads less than half of the completions: {', '.join(audit.unfit)}"]


def _say_chance(task: TaskRun, digits: int | None) -> list[str]:
    sizes = {int(size): count for size, count in (task.tally.get("choice_counts") or {}).items()}
    chance = measure_chance(sizes)
    if chance is None:
        return []
    letters: Mapping[str, Mapping[str, int]] = task.tally["letters"]
    accuracy = count_own(task, OWN).accuracy
    corrected = None if accuracy is None else correct_for_chance(accuracy, chance)
    kappa, spread = measure_kappa(letters), measure_rstd(list(measure_recalls(letters).values()))
    facts = [f"chance level {format_percent(chance, digits)}"]
    facts += [] if corrected is None else [f"corrected for chance {format_percent(corrected, digits)}"]
    facts += [] if kappa is None else [f"Cohen's kappa {kappa:.{4 if digits is None else digits}f}"]
    facts += [] if spread is None else [f"recalls of letters spread by {spread:.2f} points (RStd)"]
    return ["; ".join(facts)]
