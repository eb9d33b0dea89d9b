"""The text of an audit: short in every summary, in full, and as JSON for `audit --json`.

Summaries use counts made while the run was scored; no completion is read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from answerkey.metrics import wilson
from answerkey.run_audit.findings import (
    FIRST,
    INVALID,
    STATED,
    Finding,
    ReaderCounts,
    TaskAudit,
    find_outsider,
)
from answerkey.runs import TaskRun
from answerkey.text import (
    BLANK,
    Cell,
    Cells,
    Drawn,
    Lines,
    Span,
    clean_numbers,
    draw_facts,
    draw_finding,
    draw_letter_table,
    draw_table,
    draw_text,
    format_count,
    format_figure,
    format_interval,
    format_percent,
    join_blocks,
    quote,
    shorten,
)
from answerkey.types import RULE_NAMES, Notice

Json = dict[str, Any]
#: The maximum width of a sample's id.
MAX_ID_WIDTH = 40
#: The key of the run's own reading among the counts by rule.
OWN = "own"


@dataclass(frozen=True)
class Audit(Drawn):
    """The audit of a run, task by task."""

    path: str | None
    status: str
    tasks: tuple[TaskAudit, ...]
    notices: tuple[Notice, ...] = ()

    def draw(self, width: int) -> Lines:
        """Return its lines, each at most `width` cells wide."""
        return join_blocks(_draw_task(task, width) for task in self.tasks)

    @property
    def findings(self) -> list[Finding]:
        """The findings of all tasks."""
        return [finding for task in self.tasks for finding in task.findings]


# ── from the counts of a run


def describe_whole(task: TaskRun, rule: str) -> TaskAudit:
    """Return the audit of all completions as the run's main scorer read them."""
    letters: Mapping[str, Mapping[str, int]] = task.totals["letters"]
    n = right = invalid = 0
    for letter, row in letters.items():
        n += sum(row.values())
        right += row.get(letter, 0)
        invalid += row.get(INVALID, 0)
    samples = min(n, task.counts["samples"])
    reader = ReaderCounts(
        rule,
        "own",
        n,
        right,
        invalid,
        samples,
    )
    sizes = {}
    for size, count in task.totals["choice_counts"].items():
        sizes[int(size)] = count
    return TaskAudit(
        key=task.key,
        scorer=task.main_scorer,
        rule=rule,
        n=n,
        samples=samples,
        readers=(reader,),
        letters=letters,
        choice_counts=sizes,
    )


def describe_counted(task: TaskRun) -> TaskAudit | None:
    """Return the audit of the completions that the run read by every rule; None if there are
    none.
    """
    readings = task.totals["readings"]
    n = readings.get("n")
    if not n:
        return None
    samples = readings["samples"]
    rule = str(next(iter(readings["own_rule"])))
    readers = []
    for name in (OWN, *RULE_NAMES):
        if counts := readings["rules"].get(name):
            reader = ReaderCounts(name, "rule", n, **counts, samples=samples)
            readers.append(reader)
    readers[0] = replace(readers[0], name=rule, kind="own")
    total = 0
    for row in task.totals["letters"].values():
        total += sum(row.values())
    return TaskAudit(
        key=task.key,
        scorer=task.main_scorer,
        rule=rule,
        n=n,
        samples=samples,
        readers=tuple(readers),
        drawn_from=total if n < total else None,
    )


def draw_both_rules(
    task: TaskRun,
    width: int,
    digits: int | None = None,
) -> Lines:
    """Return one line with the accuracy by the run's own rule, by `first_character` and by
    `stated_answer`; a warning if another rule moves the number out of its interval.
    """
    audit = describe_counted(task)
    if audit is None:
        return []
    parts = []
    for reader in audit.readers:
        if reader.kind == "own" or reader.name in {FIRST, STATED}:
            accuracy = format_figure(reader.accuracy, as_share=True, digits=digits)
            parts.append(f"by {reader.name} {accuracy}")
    text = f"accuracy {', '.join(parts)}"
    if audit.drawn_from is not None:
        text = f"on {audit.samples:,} samples drawn at random, {text}"
    outsider = find_outsider(audit)
    if outsider is None:
        return draw_text(text, width)
    advice = "always report the extraction rule together with the accuracy"
    if audit.own is not None and outsider.correct > audit.own.correct:
        difference = "the difference is format, not knowledge"
        advice = f"{difference}: try `extraction: {outsider.name}`"
    return draw_text(f"{text}; {advice}", width, "warn")


def describe_fallbacks(task: TaskRun) -> dict[str, Json]:
    """Return the counts of each scorer's fallback, and its effect on the accuracy."""
    described: dict[str, Json] = {}
    fallbacks = task.totals.get("fallback", {})
    for scorer in task.manifest["scorers"]:
        if scorer["key"] not in fallbacks:
            continue
        counts = dict(fallbacks[scorer["key"]])
        n = counts["n"]
        read = counts["named"]
        correct = counts["correct"]
        right = counts.pop("right")
        invalid = counts.pop("invalid")
        model = scorer.get("model") or {}
        described[scorer["key"]] = {
            "model": model.get("name"),
            **counts,
            "share": counts["asked"] / n if n else None,
            "accuracy": correct / read if read else None,
            "with_it": _describe_reading(right, n, invalid),
            "without_it": _describe_reading(right - correct, n, invalid + read),
        }
    return described


def _describe_reading(
    right: int,
    n: int,
    invalid: int,
) -> Json:
    return {
        "accuracy": right / n if n else None,
        "interval": wilson(right, n) if n else None,
        "invalid": invalid,
    }


def describe_fallback_use(task: TaskRun, digits: int | None = None) -> list[str]:
    """Return a sentence for each fallback: its share, and the accuracy with and without it."""
    sentences = []
    for fallback in describe_fallbacks(task).values():
        if not fallback["n"]:
            continue
        share = format_percent(fallback["share"], digits)
        extent = f"{fallback['asked']:,} of {format_count(fallback['n'], 'completion')} ({share})"
        read = f"named a choice in {fallback['named']:,}, the right one in {fallback['correct']:,}"
        accuracy = format_percent(fallback["with_it"]["accuracy"], digits)
        without = format_percent(fallback["without_it"]["accuracy"], digits)
        sentences.append(
            f"Fallback {fallback['model']}: asked about {extent}, it {read}."
            f" Accuracy is {accuracy} with it and {without} without it."
        )
    return sentences


def describe_doubted(task: TaskRun, digits: int | None = None) -> list[str]:
    """Return a sentence about doubted replies, if there are any."""
    doubted = task.totals.get("doubted")
    whole = describe_whole(task, "").own
    if not doubted or whole is None:
        return []
    right = whole.correct + doubted["correct"]
    without = format_percent(whole.correct / whole.n, digits)
    accepted = format_percent(right / whole.n, digits)
    count = f"{doubted['count']:,} of {format_count(whole.n, 'completion')}"
    sentence = f"Doubted replies, which name a choice and then speak against it: {count}."
    return [f"{sentence} Accuracy is {without} without them and {accepted} if they were accepted."]


# ── another tool's verdicts

SIDES = {
    "only_imported": "They say right, we say wrong",
    "only_ours": "We say right, they say wrong",
}


def draw_imported_verdicts(
    task: TaskRun,
    width: int,
    digits: int | None = None,
    *,
    with_shares: bool = True,
) -> Lines:
    """Return a comparison of another tool's verdicts with ours."""
    totals = task.totals.get("imported")
    if not totals:
        return []
    lines: Lines = [BLANK, Span("  Imported verdicts and ours", "strong")]
    n = totals["compared"]
    right = totals["both_right"]
    if n and with_shares:
        alike = format_percent((right + totals["both_wrong"]) / n, digits)
        imported = format_percent((right + totals["only_imported"]) / n, digits)
        ours = format_percent((right + totals["only_ours"]) / n, digits)
        text = f"the same in {alike} of {format_count(n, 'completion')}"
        verdicts = f"right by the imported verdicts {imported}, by ours {ours}"
        lines += draw_text(f"{text}; {verdicts}", width)
    skipped = [f"{name} {count}" for name, count in totals["not_compared"].items()]
    if skipped:
        lines += draw_text(f"not compared: {', '.join(skipped)}", width, "dim")
    for side, title in SIDES.items():
        if totals[side]:
            lines += draw_text(f"{title}: {format_count(totals[side], 'completion')}", width)
    return lines


# ── the audit of a run


def describe_audit(audit: Audit) -> Json:
    """Return the audit as plain values, with every reader, every reason and every finding."""
    described = {
        "audit": {
            "run": audit.path,
            "status": audit.status,
            "tasks": [_describe_task(task) for task in audit.tasks],
        },
        "notices": list(map(str, audit.notices)),
    }
    clean: Json = clean_numbers(described)
    return clean


def _describe_task(task: TaskAudit) -> Json:
    described: Json = {
        "key": task.key,
        "scorer": task.scorer,
        "extraction": task.rule,
        "n": task.n,
        "left_out": dict(task.left_out),
        "samples": task.samples,
        "findings": [asdict(finding) for finding in task.findings],
    }
    if task.drawn_from is not None:
        described["drawn_from"] = task.drawn_from
    if task.own is None:
        return described
    readers = []
    for reader in task.readers:
        derived = {
            "accuracy": reader.accuracy,
            "read": reader.read,
            "invalid_share": reader.invalid_share,
            "interval": reader.interval,
        }
        readers.append(asdict(reader) | derived)
    counts = {}
    for size, count in task.choice_counts.items():
        counts[str(size)] = count
    return described | {
        "accuracy": task.own.accuracy,
        "chance": task.chance,
        "accuracy_above_chance": task.corrected,
        "kappa": task.kappa,
        "recall_by_letter": dict(task.recalls),
        "rstd_points": task.spread,
        "choice_counts": counts,
        "readers": readers,
        "flips": {
            "count": task.flips,
            "examples": list(task.flipped),
        },
        "invalid": [asdict(reason) for reason in task.reasons],
        "letters": task.letters,
    }


def _draw_task(task: TaskAudit, width: int) -> Lines:
    by = f"  by {task.scorer}, extraction {task.rule}" if task.scorer else ""
    lines: Lines = [
        (Span(task.key, "title"), by),
        Span(_describe_extent(task), "dim"),
        BLANK,
    ]
    if task.own is None:
        what = "  No scorer of this task reads choices: only the completions are audited."
        lines.append(what)
    elif not task.n:
        return [*lines, "There was nothing to audit."]
    else:
        lines += draw_facts(_list_facts(task).items(), width)
        lines += _draw_readers(task, width)
        if task.flips:
            count = format_count(task.flips, "completion")
            text = f"{count} on which the rules disagree, such as {', '.join(task.flipped)}"
            lines += draw_text(text, width, "dim")
        lines += _draw_reasons(task, width)
        lines += draw_letter_table(task.letters, width)
    lines += [BLANK, Span("Findings", "title")]
    for number, finding in enumerate(task.findings, 1):
        samples = ", ".join(finding.examples)
        notes = {"Next: ": finding.step, "See: ": samples}
        lines += draw_finding(number, finding.sentence, notes, width)
    if not task.findings:
        lines.append("  no findings")
    return lines


def _describe_extent(task: TaskAudit) -> str:
    extent = format_count(task.n, "completion")
    if task.drawn_from is not None:
        extent += f", drawn at random from {task.drawn_from}"
    if task.samples != task.n:
        samples = format_count(task.samples, "sample")
        why = "no intervals in the table: those of one sample are not independent"
        extent += f" of {samples}; {why}"
    if task.left_out:
        counts = [f"{name} {count}" for name, count in task.left_out.items()]
        extent += f"; left out: {', '.join(counts)}"
    return extent


def _list_facts(task: TaskAudit) -> dict[str, Span]:
    """Return the accuracy, and numbers on guessing and favoured letters."""
    facts = {}
    own_reader = task.own
    if own_reader is not None and own_reader.accuracy is not None:
        interval = format_interval(own_reader.interval)
        facts["accuracy"] = f"{format_percent(own_reader.accuracy)}  {interval}"
    if task.chance is not None:
        low = min(task.choice_counts)
        high = max(task.choice_counts)
        choices = f"({low} choices each)"
        if low < high:
            choices = f"(mean of 1/K; {low} to {high} choices)"
        facts["chance level"] = f"{format_percent(task.chance)}  {choices}"
    if task.corrected is not None:
        facts["corrected for chance"] = format_percent(task.corrected)
    if task.kappa is not None:
        facts["Cohen's kappa"] = f"{task.kappa:.4f}"
    if task.spread is not None:
        facts["RStd"] = f"{task.spread:.2f} points, the standard deviation of the letters' recalls"
    return {name: Span(text, "strong") for name, text in facts.items()}


def _draw_readers(task: TaskAudit, width: int) -> Lines:
    """Return the readings of each rule, and of each extractor of another harness."""
    rows: list[Cells] = []
    for reader in task.readers:
        name = Span(reader.name)
        if reader.kind == "own":
            name = Span(f"{reader.name} (this run)", "strong")
        elif reader.kind == "lens":
            name = Span(f"as {reader.name}")
        cells: list[Cell] = [
            name,
            format_figure(reader.accuracy, as_share=True),
            format_interval(reader.interval),
            format_figure(reader.invalid_share, as_share=True),
            str(reader.read),
        ]
        if reader.changes:
            cells += [str(reader.changes), f"+{reader.gains}", f"-{reader.losses}"]
        else:
            cells += ["", "", ""]
        rows.append(cells)
    counts = ("read", "changed", "gained", "lost")
    header = ("Read by", "accuracy", "95 % interval", "INVALID", *counts)
    lines: Lines = [BLANK, *draw_table(header, rows, "~>>>>>>>", width)]
    if task.unfit:
        what = "that read less than half of the completions are left out of the findings"
        lines += draw_text(f"rules {what}: {', '.join(task.unfit)}", width, "dim")
    return lines


def _draw_reasons(task: TaskAudit, width: int) -> Lines:
    rows: list[Cells] = []
    for reason in task.reasons:
        cells = (
            reason.reason,
            str(reason.count),
            format_percent(reason.count / task.n),
            str(reason.stated),
            str(reason.right),
            shorten(reason.example, MAX_ID_WIDTH),
            quote(reason.completion, width),
        )
        rows.append(cells)
    if not rows:
        return []
    header = ("Invalid because", "count", "share", "stated", "right", "example", "completion")
    return [BLANK, *draw_table(header, rows, "<>>>><~", width)]
