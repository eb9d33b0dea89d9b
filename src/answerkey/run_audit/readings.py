"""What every summary shows of an audit: other rules on some completions, chance, another tool's verdicts.

All of it is counted while a run scores; no completion is read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from answerkey.run_audit.findings import ReaderCounts, TaskAudit, find_format
from answerkey.runs import TaskRun
from answerkey.text import (
    BLANK,
    Cell,
    Line,
    Span,
    Table,
    draw_text,
    format_count,
    format_percent,
    lay_out,
    line,
    make_visible,
    quote,
    shorten,
    wrap,
)
from answerkey.types import RULE_NAMES, Validity

#: What the run itself read, among the counts by rule.
OWN = "own"

# ------------------------------------------------------------------------------- other rules


def describe_reading(one: ReaderCounts, audit: TaskAudit | None = None) -> dict[str, Any]:
    """Return one line of "Read by": what a rule or lens gets of the completions, of which it reads some.

    `drawn` is the number of samples that stand for all of them; None where all were read, as without an
    audit. `label` is the name with what is to be known of the line.
    """
    drawn = audit.samples if audit is not None and audit.drawn_from is not None else None
    notes = ["this run"] if one.kind == "own" else []
    notes += [] if drawn is None else [f"from {drawn:,} samples"]
    return {
        "name": one.name,
        "label": f"{one.name} ({', '.join(notes)})" if notes else one.name,
        "kind": one.kind,
        "value": one.accuracy,
        "interval": one.interval,
        "invalid_share": one.invalid_share,
        "read": one.read,
        "n": one.n,
        "drawn": drawn,
    }


def list_readings(task: TaskRun, audit: TaskAudit) -> list[dict[str, Any]]:
    """Return the lines of an audit; the run's own has the run's own number, of all samples.

    That is its main metric where it is the accuracy, else what the counts of all samples say.
    """
    found = [describe_reading(one, audit) for one in audit.readers if one.n]
    if not found or found[0]["kind"] != "own" or audit.scorer != task.main_scorer:
        return found
    own, metric = describe_reading(describe_whole(task, found[0]["name"]).readers[0]), task.main_metric
    if metric is not None and metric.value is not None and task.is_accuracy(metric):
        own |= {"value": metric.value, "interval": metric.interval}
    return [own, *found[1:]]


def describe_whole(task: TaskRun, rule: str) -> TaskAudit:
    """Return all completions, as the run's main scorer read them by its rule: what the run counted."""
    letters: Mapping[str, Mapping[str, int]] = task.totals.get("letters") or {}
    sizes = {int(size): count for size, count in (task.totals.get("choice_counts") or {}).items()}
    n = sum(sum(row.values()) for row in letters.values())
    right = sum(row.get(letter, 0) for letter, row in letters.items())
    invalid = sum(row.get(Validity.INVALID.value, 0) for row in letters.values())
    samples = min(n, task.counts["samples"])
    own = (ReaderCounts(rule, "own", n, right, invalid, samples),)
    whole = TaskAudit(task.key, task.main_scorer, rule, n, {}, 1, samples, readers=own)
    return replace(whole, letters=letters, choice_counts=sizes)


def describe_counted(task: TaskRun) -> TaskAudit | None:
    """Return the completions that the run had every rule read, as an audit; None where there are none."""
    totals: Mapping[str, Any] = task.totals.get("readings") or {}
    if not totals.get("n"):
        return None
    n, samples, rule = totals["n"], totals["samples"], str(next(iter(totals["own_rule"])))
    counts = {name: totals["rules"][name] for name in (OWN, *RULE_NAMES) if name in totals["rules"]}
    readers = [
        ReaderCounts(rule, "own", n, **one, samples=samples)
        if name == OWN
        else ReaderCounts(name, "rule", n, **one, samples=samples)
        for name, one in counts.items()
    ]
    total = describe_whole(task, rule).n
    found = TaskAudit(task.key, task.main_scorer, rule, n, {}, 1, samples, readers=tuple(readers))
    return replace(found, drawn_from=total if n < total else None)


def draw_readings(task: TaskRun, width: int, digits: int | None = None) -> list[Line]:
    """Return what other rules would read, the chance level, and a sentence where they differ in earnest."""
    audit = describe_counted(task)
    if audit is None:
        return []
    rows: list[Sequence[Cell]] = [
        (
            Span(one["label"], "strong" if one["kind"] == "own" else "plain"),
            "no value" if one["value"] is None else format_percent(one["value"], digits),
            "" if one["invalid_share"] is None else format_percent(one["invalid_share"], digits),
            str(one["read"]),
        )
        for one in list_readings(task, audit)
    ]
    lines = [BLANK, *lay_out(Table(("Read by", "accuracy", "INVALID", "read"), rows, "<>>>"), width)]
    extent = "`answerkey audit` reads them as other harnesses do, too"
    if audit.drawn_from is not None:
        drawn = f"{audit.n} of {audit.drawn_from} completions, drawn at random"
        extent = f"other rules on {drawn}; `answerkey audit` reads all"
    for note in (extent, *say_unfit(audit), *_say_chance(task, digits)):
        lines += draw_text(note, width, "dim")
    for one in find_format(audit):
        sentence = f"{one.sentence} {one.step[:1].upper()}{one.step[1:]}."
        lines += [line("  ", Span(part, "warn")) for part in wrap(sentence, width - 2)]
    return lines


def say_unfit(audit: TaskAudit) -> list[str]:
    """Return the sentence about rules and lenses that say little; nothing where each reads half or more."""
    if not audit.unfit:
        return []
    return [f"no finding rests on what reads less than half of the completions: {', '.join(audit.unfit)}"]


def _say_chance(task: TaskRun, digits: int | None) -> list[str]:
    whole = describe_whole(task, OWN)
    if whole.chance is None:
        return []
    corrected, kappa, spread = whole.corrected, whole.kappa, whole.spread
    facts = [f"chance level {format_percent(whole.chance, digits)}"]
    facts += [] if corrected is None else [f"corrected for chance {format_percent(corrected, digits)}"]
    facts += [] if kappa is None else [f"Cohen's kappa {kappa:.{4 if digits is None else digits}f}"]
    facts += [] if spread is None else [f"recalls of letters spread by {spread:.2f} points (RStd)"]
    return ["; ".join(facts)]


# ------------------------------------------------------------------------------- another tool's verdicts

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


def draw_imported_verdicts(
    task: TaskRun, width: int, digits: int | None = None, *, with_shares: bool = True
) -> list[Line]:
    """Return how another tool's verdicts on the same completions compare with ours, and why they differ."""
    found: Mapping[str, Any] = task.totals.get("theirs") or {}
    if not found or not (found["compared"] or found["not_compared"]):
        return []
    lines = [BLANK, line(Span("  Their verdicts and ours", "strong"))]
    n, right, wrong = found["compared"], found["both_right"], found["both_wrong"]
    only_theirs, only_ours = (found[side]["count"] for side in SIDES)
    if n:
        cells = [
            ("theirs right", str(right), str(only_theirs)),
            ("theirs wrong", str(only_ours), str(wrong)),
        ]
        lines += lay_out(Table(("", "ours right", "ours wrong"), cells, "<>>"), width)
    if n and with_shares:
        shares = [format_percent(count / n, digits) for count in (right + wrong, right + only_theirs)]
        ours = format_percent((right + only_ours) / n, digits)
        alike = f"the same in {shares[0]} of {format_count(n, 'completion')}"
        lines += draw_text(f"{alike}; right by theirs {shares[1]}, by ours {ours}", width, "dim")
    if others := [f"{UNCOMPARED[name]} {count}" for name, count in found["not_compared"].items()]:
        lines += draw_text(f"not compared: {', '.join(others)}", width, "dim")
    for side, title in SIDES.items():
        lines += _draw_side(found[side], title, width)
    return lines + _draw_their_rules(task, width)


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
    notes = [line(Span(f"  {reason}: {WORDS[reason]}", "dim")) for reason, _ in ordered if reason in WORDS]
    return [*lay_out(Table(header, rows, "<><<<", flexible=4), width), *notes]


def _draw_their_rules(task: TaskRun, width: int) -> list[Line]:
    """Return who reads as they do where the verdicts differ."""
    found: Mapping[str, Any] = (task.totals.get("readings") or {}).get("theirs") or {}
    if not found.get("n"):
        return []
    audit, drawn = describe_counted(task), ""
    if audit is not None and audit.drawn_from is not None:
        drawn = f" among {audit.samples:,} samples drawn at random"
    ordered = sorted(found["readers"].items(), key=lambda pair: (-pair[1], pair[0]))
    best = ", ".join(f"{name} {count}" for name, count in ordered[:SHOWN_READERS] if count)
    what = f"so many get their verdict by other rules: {best}." if best else "no rule reads any as they do."
    return draw_text(f"Of {format_count(found['n'], 'completion')} that differ{drawn}, {what}", width)
